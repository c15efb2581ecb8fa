// SPDX-License-Identifier: Apache-2.0
//! Switches that remove one rule each, so that tests can show that the rule is needed.

/// Makes a type `Mutations` with one switch for each rule that tests may remove.
///
/// `name: "rule"` becomes a public field `name`, and a method `name()` that the code asks. The
/// calling crate has a feature `mutations`, which only tests and campaigns turn on. Without it
/// there are no fields: every method is a constant `false`, and the compiler removes what depends
/// on it.
#[macro_export]
macro_rules! mutations {
    ($($(#[$doc:meta])* $name:ident: $rule:literal,)*) => {
        /// Rules that are removed on purpose, none by default. The campaigns must notice each.
        #[cfg(feature = "mutations")]
        #[allow(clippy::struct_excessive_bools, reason = "each is named by the rule it removes")]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Mutations {
            $($(#[$doc])* pub $name: bool,)*
        }

        #[cfg(feature = "mutations")]
        impl Mutations {
            /// The name of each switch, the rule that it removes, and how it is turned on.
            pub const ALL: &[(&str, &str, fn(&mut Self))] =
                &[$((stringify!($name), $rule, |all| all.$name = true),)*];

            $($(#[$doc])* pub(crate) const fn $name(self) -> bool { self.$name })*
        }

        /// Rules that are removed on purpose: none, because this build keeps all of them.
        #[cfg(not(feature = "mutations"))]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Mutations {}

        #[cfg(not(feature = "mutations"))]
        impl Mutations {
            $($(#[$doc])* pub(crate) const fn $name(self) -> bool { false })*
        }
    };
}

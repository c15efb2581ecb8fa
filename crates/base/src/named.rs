// SPDX-License-Identifier: Apache-2.0
//! Enums whose variants have names that people read.

/// Declares an enum whose variants each have a name for people: `ALL` lists them, `name` tells it.
#[macro_export]
macro_rules! named {
    (
        $(#[$outer:meta])*
        $vis:vis enum $type:ident {
            $($(#[$doc:meta])* $name:ident = $text:literal,)*
        }
    ) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $type {
            $($(#[$doc])* $name,)*
        }

        impl $type {
            /// All of them, in order.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Its name, for people.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

// SPDX-License-Identifier: Apache-2.0
//! Lists that nearly always have no element or one.

use std::fmt;
use std::ops::Deref;
use std::rc::Rc;

/// A short list, cheap to clone. A single element is stored in place; more of them are shared.
#[derive(Clone)]
pub struct Few<T>(List<T>);

#[derive(Clone)]
enum List<T> {
    None,
    One(T),
    Many(Rc<[T]>),
}

impl<T: Clone> Few<T> {
    /// The empty list.
    pub const NONE: Self = Self(List::None);

    /// A list of these elements, in their order.
    #[must_use]
    pub fn new(elements: &[T]) -> Self {
        match elements {
            [] => Self(List::None),
            [one] => Self(List::One(one.clone())),
            many => Self(List::Many(many.into())),
        }
    }
}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self(List::None)
    }
}

impl<T> Deref for Few<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        match &self.0 {
            List::None => &[],
            List::One(one) => std::slice::from_ref(one),
            List::Many(many) => many,
        }
    }
}

impl<T> FromIterator<T> for Few<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        let mut elements = elements.into_iter();
        let Some(first) = elements.next() else { return Self(List::None) };
        let Some(second) = elements.next() else { return Self(List::One(first)) };
        Self(List::Many([first, second].into_iter().chain(elements).collect()))
    }
}

impl<T: PartialEq> PartialEq for Few<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Eq> Eq for Few<T> {}

impl<T: fmt::Debug> fmt::Debug for Few<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

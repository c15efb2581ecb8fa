// SPDX-License-Identifier: Apache-2.0
//! The conversations of an owner with its components, whatever each of them holds of the object.
//!
//! Each component is a [`Leg`](super::leg::Leg): it is fenced, has a session, gets frames in the
//! order of their lsns, and is covered by grants. Which leg gets what is for the layout to say
//! ([`super::mirror`]).

mod commit_info;
mod cover;
mod fence;
mod keeper;

pub(crate) use fence::{Fence, FenceAnswer};

// SPDX-License-Identifier: Apache-2.0
//! The targets, one file per subject.
#![forbid(unsafe_code)]

mod base_types;
mod damage;
mod devices;
mod image;
mod pages;
mod wire_frames;

// SPDX-License-Identifier: Apache-2.0
//! The targets, one file per subject.
#![forbid(unsafe_code)]

mod base_types;
mod damage;
mod devices;
mod directory_links;
mod host_links;
mod image;
mod nbd_links;
mod operators;
mod pages;
mod peer_links;
mod performance;
mod records;
mod streams;
mod wire_frames;

// SPDX-License-Identifier: Apache-2.0
//! The load of [`load`] under the system's allocator.
#![forbid(unsafe_code)]

mod load;

fn main() {
    load::run("system");
}

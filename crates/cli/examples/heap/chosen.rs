// SPDX-License-Identifier: Apache-2.0
//! The load of [`load`] under the allocator of `gabion`.
#![forbid(unsafe_code)]

mod load;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() {
    load::run("chosen");
}

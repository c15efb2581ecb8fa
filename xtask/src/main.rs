// SPDX-License-Identifier: Apache-2.0
//! Developer tasks.
fn main() {}

// SPDX-License-Identifier: Apache-2.0
//! The one host that orders all I/O of an object (PROTOCOL.md section 4).

mod range_lock;
mod window;

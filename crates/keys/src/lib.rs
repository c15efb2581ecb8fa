// SPDX-License-Identifier: Apache-2.0
//! The cluster's own certificate authority, and what it issues.
//!
//! ```text
//!   Authority   ca.pem, ca-key.pem
//!      |-- ListenerKey      a listener of the API: names and addresses of its host
//!      |-- ShardKeys        the shards of one process: links between hosts
//!      |-- directory_member a member of the directory on this host: a file, which etcd reads
//!      `-- directory_client whoever asks the directory
//! ```
//! Whoever has the authority's certificate (`ca.pem`) knows the cluster's hosts by it. Its key
//! (`ca-key.pem`) is beside it, for the user of the hosts alone. What is issued is for some weeks,
//! is made again long before it expires, and is on no disk; but what a member of the directory
//! proves itself with is in a file.
#![forbid(unsafe_code)]

mod authority;
mod durable;
mod listener;
mod renewed;
mod shards;

pub use authority::{Authority, CA_FILE, KeyError, PemKey};
pub use durable::write_durably;
pub use listener::ListenerKey;
pub use renewed::is_due;
pub use shards::ShardKeys;

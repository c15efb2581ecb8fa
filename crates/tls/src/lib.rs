// SPDX-License-Identifier: Apache-2.0
//! Mutual TLS 1.3 on links between shards: each end proves who it is, and nobody else reads or
//! changes what passes.
//!
//! ```text
//!   peer    frames                     frames
//!             |  send, recv              ^
//!   tls     SecureLink  <- handshake -> SecureLink     (records: rustls, without its own I/O)
//!             |                          |
//!   env     Link  =================== Link
//! ```
//! The protocol is that of the `rustls` crate, driven here over an [`env::Link`]: so it runs in
//! simulation as in the real world. A shard has an [`Identity`]: a key, a certificate by the
//! cluster's authority that names the shard ([`shard_name`]), and the authority that others are
//! known by. The dialling end demands the name that it dialled; the accepting end lets in whom the
//! authority knows, and asks [`SecureLink::is_of`] once the other end says who it is.
//!
//! Guarantees: a link is there only once both ends have proved themselves; its bytes arrive
//! unchanged, in their order, or not at all.
//!
//! Non-guarantees: where the bytes end (a frame says itself how long it is); that a certificate
//! that expires ends the links that it began.
#![forbid(unsafe_code)]

mod identity;
mod issue;
mod link;
mod session;
mod simulated;
#[cfg(test)]
mod tests;

pub use identity::{Identity, IdentityError, Keys, shard_name};
pub use issue::{CertificateSubject, CertificateTerms, issue, issue_for_shards};
pub use link::{SecureLink, TlsError, looks_like_tls};
pub use simulated::{SimulatedAuthority, SimulatedKeys};

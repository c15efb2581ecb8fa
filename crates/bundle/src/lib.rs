// SPDX-License-Identifier: Apache-2.0
//! Support bundles: texts in one compressed archive, bounded, and without secrets.
//!
//! Guarantees: nothing gets into a bundle that did not pass [`Redactor::clean`]; no entry and no
//! bundle is larger than said. Non-guarantees: a secret of an unknown form, under a name that says
//! nothing, is found only where it is given to [`Redactor::knowing`].
//!
//! | module | what it is |
//! |---|---|
//! | `redact` | texts without secrets; pure |
//! | `archive` | the file, entry by entry |
#![forbid(unsafe_code)]

mod archive;
mod redact;

pub use archive::{BUNDLE_BYTES_MAX, BundleEntry, BundleError, BundleFile, ENTRY_BYTES_MAX};
pub use redact::{REMOVED, Redactor};

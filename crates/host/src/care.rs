// SPDX-License-Identifier: Apache-2.0
//! What a host does by itself, unasked and for as long as it runs. Each file is one concern with a
//! task of its own (scrub: one for each disk group).
//!
//! | file | what it looks after |
//! |---|---|
//! | `scrub` | what lies on capacity is read now and then; what is bad is written again |
//! | `outs` | devices that fail or come back: groups go on without them, or with them again |
//! | `latency` | devices that answer late or not at all are told of |
//! | `memory` | what is held of the host's memory, and the most so far |
//! | `describe` | every component says on disk what it is a part of |
//! | `repair` | a copy that stays away is made again on another host |
//! | `balance` | copies move so that hosts are filled alike |
//! | `writers` | who writes to volumes that one host writes to at a time |
//! | `reserves` | every component keeps the space that its volume's record asks for |
//! | `deletions` | objects whose records vanished, until it is sure why |
//! | `tombstones` | as data: what was deleted on purpose |
//! | `cleanup` | components that no record accounts for: deleted, or kept and told of |
//! | `relief` | those of them give up their space on full devices |
//! | `trash` | deleted volumes that can be brought back, until they go for good |
//! | `leftovers` | object records without a volume are deleted |
//! | `backups` | the directory's records are kept on the host's own disk groups |

pub(crate) mod backups;
pub(crate) mod balance;
pub(crate) mod caches;
pub(crate) mod cleanup;
pub(crate) mod deletions;
pub(crate) mod describe;
pub(crate) mod latency;
pub(crate) mod leftovers;
pub(crate) mod memory;
pub(crate) mod outs;
mod relief;
pub(crate) mod repair;
pub(crate) mod reserves;
pub(crate) mod scrub;
pub(crate) mod tombstones;
pub(crate) mod trash;
pub(crate) mod writers;

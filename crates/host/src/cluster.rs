// SPDX-License-Identifier: Apache-2.0
//! The cluster as one host sees it through the directory: how a host enters it and stays in it,
//! what it knows of the others, and the cluster's records as a whole.
//!
//! | file | what it is |
//! |---|---|
//! | `register` | a new cluster's record, a new host's number |
//! | `membership` | the right cluster, a new incarnation at every start, the host's record |
//! | `alive` | the lease key by which others see that the host lives |
//! | `view` | a copy of the directory, kept by watches |
//! | `seen` | which hosts answer now, and what is reduced since when |
//! | `room` | which hosts have room for one more component |
//! | `guard` | the key that stands while a volume is made in several transactions |
//! | `copies` | what would be lost with a host's disks |
//! | `backup` | all records taken while the cluster runs, and put back |

pub(crate) mod alive;
pub(crate) mod backup;
pub(crate) mod copies;
pub(crate) mod guard;
pub(crate) mod membership;
pub(crate) mod register;
pub(crate) mod room;
pub(crate) mod seen;
pub(crate) mod view;

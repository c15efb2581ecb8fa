// SPDX-License-Identifier: Apache-2.0
//! What a host tells of its memory.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryUse {
    /// Checksum pages of all capacity devices.
    ChecksumPages,
    /// Index, counts by chunk and history of the write buffers of open groups.
    WriteBuffers,
    /// Chunk maps and pending changes of the capacity devices of open groups.
    ChunkMaps,
    /// Tables of the read caches of open groups.
    ReadCaches,
    /// Segments and pages on their way to capacity, pieces on their way into read caches.
    UnderWay,
    /// Client writes under way, and what waits for a link to another host.
    Traffic,
    /// What the process takes beside all of this.
    Process,
    /// What further disk groups may need for their tables.
    Left,
}

/// One part of a host's memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemoryPart {
    /// What it is for.
    pub name: MemoryUse,
    /// Bytes that it may have.
    pub budget_bytes: u64,
    /// Bytes that it has now; none where nobody counts. Of links what waits for several of them
    /// counts once, as it is in memory once.
    pub used_bytes: Option<u64>,
    /// The most that it had since the host's start; of checksum pages exact, of others as seen once
    /// a second.
    pub most_bytes: Option<u64>,
}

/// A host's memory. The budgets of all parts are the total.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemoryReport {
    /// Name of the host.
    pub host: String,
    /// What its machine has.
    pub machine_bytes: u64,
    /// What the host may have.
    pub total_bytes: u64,
    /// Its parts.
    pub parts: Vec<MemoryPart>,
}

// SPDX-License-Identifier: Apache-2.0
//! One row of a capacity device's component table: two pages, the newer valid one counts.

use crate::bytes::{Reader, Writer, seal, unseal};
use crate::describe::{DESCRIPTION_MAX, Description};
use crate::{FormatError, PAGE_SIZE};
use base::{
    ClientTable, ComponentId, HostId, Incarnation, Lsn, ObjectId, SECTOR_SIZE, Seat, Term, Version,
};

const MAGIC: u32 = u32::from_le_bytes(*b"GBCT");

/// Sectors of the largest component, 255 GiB: what is done chunk by chunk stays short.
pub const COMPONENT_SECTORS_MAX: u64 = (255 << 30) / SECTOR_SIZE;

/// What a replica remembers about its owner (docs/protocol.md#state).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnerMeta {
    /// Highest term accepted.
    pub term: Term,
    /// Its owner's host.
    pub owner_host: HostId,
    /// Its owner's process.
    pub owner_incarnation: Incarnation,
    /// The component's seat.
    pub seat: Seat,
    /// Highest record version told.
    pub version: Version,
}

/// One component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComponentRow {
    /// Names the component in the log and in the chunk map; never reused within the group.
    pub serial: u32,
    /// Deleted rows keep their serial from being given again.
    pub is_deleted: bool,
    /// The component's write buffer was lost while it had this seat: above W it has only a part of
    /// what it acknowledged, until it is active with a higher one.
    pub lost_at: Option<Seat>,
    /// Which of the row's two pages is newer.
    pub sequence: u64,
    /// The component.
    pub id: ComponentId,
    /// Its object.
    pub object: ObjectId,
    /// Its length in sectors.
    pub sectors: u64,
    /// What the protocol keeps.
    pub meta: OwnerMeta,
    /// W: everything up to it is on the capacity device.
    pub destaged: Lsn,
    /// K, as last known; a lower bound.
    pub commit: Lsn,
    /// Highest lsn that was durable; a lower bound.
    pub durable: Lsn,
    /// Chunks that are kept for it, allocated or not; 0: it takes what is there.
    pub reserve: u32,
    /// The requests it has the effect of, up to `durable`; later ones are in the log (rule 46).
    pub clients: ClientTable,
    /// Since when no record of the directory accounts for it, seconds of the wall clock.
    pub orphaned: Option<u64>,
    /// What it says of itself; `None`: written by a program that knew of no descriptions, or never
    /// seen in a record.
    pub description: Option<Box<Description>>,
}

/// What a row says of its component.
const LIVING: u16 = 0;
const DELETED: u16 = 1;
const PARTIAL: u16 = 2;

impl ComponentRow {
    /// Fills one page of row `place`.
    pub fn encode(&self, device: u64, place: u32, page: &mut [u8]) {
        assert!(page.len() == PAGE_SIZE, "a row is a page");
        let mut out = Writer::new(page);
        out.u32(MAGIC);
        out.u16(crate::FORMAT_VERSION);
        out.u16(match (self.is_deleted, self.lost_at) {
            (true, _) => DELETED,
            (false, None) => LIVING,
            (false, Some(_)) => PARTIAL,
        });
        out.u64(device);
        out.u64(self.sequence);
        out.u32(self.serial);
        out.u32(self.meta.term.0);
        out.u32(self.meta.owner_host.0);
        out.u32(self.meta.seat.0);
        out.u64(self.meta.owner_incarnation.0);
        out.u64(self.meta.version.0);
        out.u64(self.id.0);
        out.u64(self.object.0);
        out.u64(self.sectors);
        out.u64(self.destaged.0);
        out.u64(self.commit.0);
        out.u64(self.durable.0);
        let clients = self.clients.encode();
        out.u32(u32::try_from(clients.len()).unwrap_or(u32::MAX));
        out.u32(place);
        out.u32(self.lost_at.map_or(0, |seat| seat.0));
        out.u32(self.reserve);
        out.bytes(&clients);
        out.u64(self.orphaned.unwrap_or(0));
        let description = self.description.as_deref();
        let size = description.map_or(0, Description::size);
        out.u16(u16::try_from(size).unwrap_or(u16::MAX));
        if let Some(description) = description {
            description.encode(&mut out);
        }
        out.pad();
        seal(page);
    }

    /// Reads one page of row `place` of `device`.
    ///
    /// # Errors
    /// [`FormatError::Magic`] where nothing was ever written; other errors for damage.
    pub fn decode(device: u64, place: u32, page: &[u8]) -> Result<Self, FormatError> {
        Reader::new(page).magic(MAGIC)?;
        let mut from = Reader::new(unseal(page)?);
        from.magic(MAGIC)?;
        let state = from.u16()?;
        if state > PARTIAL {
            return Err(FormatError::Field { name: "state" });
        }
        if from.u64()? != device {
            return Err(FormatError::Magic);
        }
        let sequence = from.counter("sequence")?;
        let serial = from.u32()?;
        let (term, owner_host, seat) = (Term(from.u32()?), HostId(from.u32()?), Seat(from.u32()?));
        let (owner_incarnation, version) = (Incarnation(from.u64()?), Version(from.u64()?));
        let meta = OwnerMeta { term, owner_host, owner_incarnation, seat, version };
        let (id, object) = (ComponentId(from.u64()?), ObjectId(from.u64()?));
        let sectors = from.u64()?;
        let (destaged, commit, durable) = (Lsn(from.u64()?), Lsn(from.u64()?), Lsn(from.u64()?));
        let (length, written_for) = (from.u32()?, from.u32()?);
        if written_for != place {
            return Err(FormatError::Field { name: "row" });
        }
        let (lost_at, reserve) = (Seat(from.u32()?), from.u32()?);
        let length = usize::try_from(length).map_err(|_| FormatError::Length)?;
        let clients = ClientTable::decode(from.bytes(length)?)
            .ok_or(FormatError::Field { name: "clients" })?;
        let (orphaned, description) = decode_rest(&mut from)?;
        if serial == 0 || serial >= 1 << 24 {
            return Err(FormatError::Field { name: "serial" });
        }
        if sectors == 0 || sectors > COMPONENT_SECTORS_MAX {
            return Err(FormatError::Field { name: "sectors" });
        }
        Ok(Self {
            serial,
            is_deleted: state == DELETED,
            lost_at: (state == PARTIAL).then_some(lost_at),
            sequence,
            id,
            object,
            sectors,
            meta,
            destaged,
            commit,
            durable,
            reserve,
            clients,
            orphaned,
            description,
        })
    }
}

type Rest = (Option<u64>, Option<Box<Description>>);

/// What stands behind the client table: zeros where an older program wrote the row.
fn decode_rest(from: &mut Reader<'_>) -> Result<Rest, FormatError> {
    let (orphaned, size) = (from.u64()?, usize::from(from.u16()?));
    if size > DESCRIPTION_MAX {
        return Err(FormatError::Field { name: "description" });
    }
    let description = match size {
        0 => None,
        size => Some(Box::new(Description::decode(from.bytes(size)?)?)),
    };
    Ok(((orphaned != 0).then_some(orphaned), description))
}

// SPDX-License-Identifier: Apache-2.0
//! One row of a capacity device's component table: two pages, the newer valid one counts.

use crate::FormatError;
use crate::bytes::{RawTag, blank, counter, layout, prefix, prefix_mut, seal, unseal};
use crate::describe::{DESCRIPTION_MAX, Description};
use base::{
    CLIENT_TABLE_MAX, ClientTable, ComponentId, Incarnation, Lsn, ObjectId, SECTOR_SIZE, Seat,
    ShardId, Term, Version,
};
use std::mem::offset_of;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const MAGIC: [u8; 4] = *b"GBCT";

/// Sectors of the largest component, 255 GiB: what is done chunk by chunk stays short.
pub const COMPONENT_SECTORS_MAX: u64 = (255 << 30) / SECTOR_SIZE;

/// What a replica remembers about its owner (docs/protocol.md#state).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnerMeta {
    /// Highest term accepted.
    pub term: Term,
    /// Its owner's host.
    pub owner_shard: ShardId,
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

impl ComponentRow {
    /// Of a component that has nothing yet.
    #[must_use]
    pub fn new(serial: u32, id: ComponentId, object: ObjectId, sectors: u64) -> Self {
        Self {
            serial,
            is_deleted: false,
            lost_at: None,
            sequence: 0,
            id,
            object,
            sectors,
            meta: OwnerMeta::default(),
            destaged: Lsn::ZERO,
            commit: Lsn::ZERO,
            durable: Lsn::ZERO,
            reserve: 0,
            clients: ClientTable::default(),
            orphaned: None,
            description: None,
        }
    }
}

/// What a row says of its component.
const LIVING: u16 = 0;
const DELETED: u16 = 1;
const PARTIAL: u16 = 2;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawRow {
    tag: RawTag,
    device: U64,
    sequence: U64,
    serial: U32,
    term: U32,
    owner_host: U32,
    seat: U32,
    owner_incarnation: U64,
    version: U64,
    id: U64,
    object: U64,
    sectors: U64,
    destaged: U64,
    commit: U64,
    durable: U64,
    clients_length: U32,
    place: U32,
    lost_at: U32,
    reserve: U32,
    /// The client table, a [`RawMore`], the description, and zeros.
    rest: [u8; 3972],
    crc: U32,
}

layout!(RawRow, 4096:
    tag 0, device 8, sequence 16, serial 24, term 28, owner_host 32, seat 36, owner_incarnation 40,
    version 48, id 56, object 64, sectors 72, destaged 80, commit 88, durable 96,
    clients_length 104, place 108, lost_at 112, reserve 116, rest 120, crc 4092);

/// What stands behind the client table: zeros where an older program wrote the row.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawMore {
    /// 0: a record of the directory accounts for it.
    orphaned: U64,
    /// 0: there is no description.
    description_length: U16,
}

layout!(RawMore, 10: orphaned 0, description_length 8);
const _: () = assert!(
    offset_of!(RawRow, rest) + CLIENT_TABLE_MAX + size_of::<RawMore>() + DESCRIPTION_MAX
        <= offset_of!(RawRow, crc)
);

impl ComponentRow {
    fn state(&self) -> u16 {
        match (self.is_deleted, self.lost_at) {
            (true, _) => DELETED,
            (false, None) => LIVING,
            (false, Some(_)) => PARTIAL,
        }
    }

    /// Fills one page of row `place`.
    pub fn encode(&self, device: u64, place: u32, page: &mut [u8]) {
        let raw: &mut RawRow = blank(page);
        let clients = self.clients.encode();
        raw.tag = RawTag::new(MAGIC, self.state());
        raw.device = device.into();
        raw.sequence = self.sequence.into();
        raw.serial = self.serial.into();
        raw.term = self.meta.term.0.into();
        raw.owner_host = self.meta.owner_shard.0.into();
        raw.seat = self.meta.seat.0.into();
        raw.owner_incarnation = self.meta.owner_incarnation.0.into();
        raw.version = self.meta.version.0.into();
        raw.id = self.id.0.into();
        raw.object = self.object.0.into();
        raw.sectors = self.sectors.into();
        raw.destaged = self.destaged.0.into();
        raw.commit = self.commit.0.into();
        raw.durable = self.durable.0.into();
        raw.clients_length = u32::try_from(clients.len()).unwrap_or(u32::MAX).into();
        raw.place = place.into();
        raw.lost_at = self.lost_at.map_or(0, |seat| seat.0).into();
        raw.reserve = self.reserve.into();
        let (to_clients, rest) = raw.rest.split_at_mut(clients.len());
        to_clients.copy_from_slice(&clients);
        let (more, rest) = prefix_mut::<RawMore>(rest);
        more.orphaned = self.orphaned.unwrap_or(0).into();
        if let Some(description) = &self.description {
            let size = description.size();
            more.description_length = u16::try_from(size).unwrap_or(u16::MAX).into();
            description.encode(&mut rest[..size]);
        }
        seal(page);
    }

    /// Reads one page of row `place` of `device`.
    ///
    /// # Errors
    /// [`FormatError::Magic`] where nothing was ever written; other errors for damage.
    pub fn decode(device: u64, place: u32, page: &[u8]) -> Result<Self, FormatError> {
        let raw: &RawRow = unseal(page, MAGIC)?;
        let state = raw.tag.kind.get();
        if state > PARTIAL {
            return Err(FormatError::Field { name: "state" });
        }
        if raw.device.get() != device {
            return Err(FormatError::Magic);
        }
        let sequence = counter(raw.sequence, "sequence")?;
        if raw.place.get() != place {
            return Err(FormatError::Field { name: "row" });
        }
        let length = usize::try_from(raw.clients_length.get()).map_err(|_| FormatError::Length)?;
        let (clients, rest) = raw.rest.split_at_checked(length).ok_or(FormatError::Length)?;
        let clients = ClientTable::decode(clients).ok_or(FormatError::Field { name: "clients" })?;
        let (orphaned, description) = decode_rest(rest)?;
        let (serial, sectors) = (raw.serial.get(), raw.sectors.get());
        if serial == 0 || serial >= 1 << 24 {
            return Err(FormatError::Field { name: "serial" });
        }
        if sectors == 0 || sectors > COMPONENT_SECTORS_MAX {
            return Err(FormatError::Field { name: "sectors" });
        }
        Ok(Self {
            serial,
            is_deleted: state == DELETED,
            lost_at: (state == PARTIAL).then_some(Seat(raw.lost_at.get())),
            sequence,
            id: ComponentId(raw.id.get()),
            object: ObjectId(raw.object.get()),
            sectors,
            meta: OwnerMeta {
                term: Term(raw.term.get()),
                owner_shard: ShardId(raw.owner_host.get()),
                owner_incarnation: Incarnation(raw.owner_incarnation.get()),
                seat: Seat(raw.seat.get()),
                version: Version(raw.version.get()),
            },
            destaged: Lsn(raw.destaged.get()),
            commit: Lsn(raw.commit.get()),
            durable: Lsn(raw.durable.get()),
            reserve: raw.reserve.get(),
            clients,
            orphaned,
            description,
        })
    }
}

type Rest = (Option<u64>, Option<Box<Description>>);

fn decode_rest(bytes: &[u8]) -> Result<Rest, FormatError> {
    let (more, rest) = prefix::<RawMore>(bytes)?;
    let (orphaned, size) = (more.orphaned.get(), usize::from(more.description_length.get()));
    if size > DESCRIPTION_MAX {
        return Err(FormatError::Field { name: "description" });
    }
    let description = match size {
        0 => None,
        size => {
            let bytes = rest.get(..size).ok_or(FormatError::Length)?;
            Some(Box::new(Description::decode(bytes)?))
        }
    };
    Ok(((orphaned != 0).then_some(orphaned), description))
}

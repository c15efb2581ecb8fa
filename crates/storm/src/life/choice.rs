// SPDX-License-Identifier: Apache-2.0
//! What happens to a spare volume next.

use super::{BLOCKS_APART, Life, PREFIX, SpareHistory, SparePlace};
use base::Rng;
use directory::{Labels, Writers};
use operator::{Command, NewVolume};

const MIB: u64 = 1 << 20;
/// The most that a spare volume has.
const SIZE_MAX: u64 = 12 * MIB;
/// The most objects that it has to grow: a small device takes 128 components.
const OBJECTS_MAX: u64 = 8;
/// The same where each of them keeps some chunks.
const RESERVED_OBJECTS_MAX: u64 = 3;

/// One thing that is done to a spare volume.
#[derive(Clone, Debug)]
pub(crate) enum SpareDeed {
    Command(Command),
    /// A client writes a block, all of which is one byte.
    Write {
        name: String,
        block: u64,
        byte: u8,
    },
}

/// Any one of them.
pub(super) fn any_of<'a, T>(rng: &mut Rng, all: &'a [T]) -> Option<&'a T> {
    let count = u64::try_from(all.len()).ok().filter(|count| *count > 0)?;
    all.get(usize::try_from(rng.below(count)).ok()?)
}

impl Life {
    /// `None`: nothing, for it is not known whether there is one.
    pub(super) fn choose(&mut self, object_bytes: u64, hosts: &[String]) -> Option<SpareDeed> {
        match self.history.last.place.clone() {
            SparePlace::Unmade => {
                let is_free = self.history.is_decided();
                is_free.then(|| SpareDeed::Command(self.create(object_bytes, hosts)))
            }
            SparePlace::Gone => {
                (self.number, self.history) = (self.number + 1, SpareHistory::new());
                self.blocks.clear();
                Some(SpareDeed::Command(self.create(object_bytes, hosts)))
            }
            SparePlace::There(name) => {
                if self.may_be_kept && self.rng.below(8) == 0 {
                    let host = self.some_host(hosts);
                    return Some(SpareDeed::Command(Command::VolumeKeep { name, host }));
                }
                if self.may_keep_cache && self.rng.below(8) == 0 {
                    let cache_percent = self.cache_percent();
                    return Some(SpareDeed::Command(Command::VolumeCache { name, cache_percent }));
                }
                Some(self.use_it(name, object_bytes))
            }
            SparePlace::Trashed(name) => Some(SpareDeed::Command(self.bring_back(name))),
        }
    }

    fn create(&mut self, object_bytes: u64, hosts: &[String]) -> Command {
        let force = self.rng.below(3) == 0;
        let ftt = if force { 1 + self.rng.below(3) } else { self.rng.below(3) };
        let reserve_percent = [0, 0, 0, 50][self.below(4)];
        let stripe_width = [1, 1, 1, 2][self.below(4)];
        let most = size_max(object_bytes, reserve_percent);
        let size_bytes = (MIB * (1 + self.rng.below(4))).min(most);
        let labels = if self.rng.below(2) == 0 { self.labels() } else { Labels::new() };
        let ftt = u8::try_from(ftt).unwrap_or(1);
        let writers = Some(self.writers());
        let on = if self.may_be_kept && ftt == 0 { self.some_host(hosts) } else { None };
        let cache_percent = self.cache_percent();
        let new = NewVolume::new(self.new_name(), size_bytes, ftt);
        let new = NewVolume { labels, writers, on, cache_percent, ..new };
        Command::VolumeCreate(NewVolume { reserve_percent, stripe_width, force, ..new })
    }

    /// A host to keep a volume on, or none.
    fn some_host(&mut self, hosts: &[String]) -> Option<String> {
        if self.rng.below(3) == 0 { None } else { any_of(&mut self.rng, hosts).cloned() }
    }

    /// Draws nothing in earlier seeds.
    fn cache_percent(&mut self) -> u8 {
        let percents = [0, 20, 50, 100];
        if self.may_keep_cache { percents[self.below(4)] } else { 0 }
    }

    /// Draws nothing in earlier seeds.
    fn writers(&mut self) -> Writers {
        let is_one = self.may_have_one && self.rng.below(2) == 0;
        if is_one { Writers::One } else { Writers::Any }
    }

    /// Something that is done to one that is there.
    fn use_it(&mut self, name: String, object_bytes: u64) -> SpareDeed {
        SpareDeed::Command(match self.rng.below(16) {
            0..5 => return self.write(name),
            5..7 => {
                let keys: Vec<String> = self.history.last.labels.keys().cloned().collect();
                let set = self.labels();
                let taken = any_of(&mut self.rng, &keys).filter(|key| !set.contains_key(*key));
                Command::VolumeLabel { name, remove: taken.cloned().into_iter().collect(), set }
            }
            7..9 => {
                let new = self.some_name(&name);
                Command::VolumeRename { name, new }
            }
            9..11 => {
                let has = self.history.last.bytes;
                let most = size_max(object_bytes, self.history.last.rules.1);
                let size_bytes = (has + MIB * (1 + self.rng.below(3))).min(most).max(has);
                Command::VolumeGrow { name, size_bytes }
            }
            11 => Command::VolumeUndelete { volume: name, name: None },
            12 => Command::VolumeDelete { name, for_good: true },
            _ => Command::VolumeDelete { name, for_good: false },
        })
    }

    fn write(&mut self, name: String) -> SpareDeed {
        let blocks = (self.history.last.bytes / BLOCKS_APART).max(1);
        let block = self.rng.below(blocks);
        let byte = u8::try_from(1 + self.rng.below(255)).unwrap_or(1);
        if self.blocks.get(&block).is_some_and(|state| state.is_open) {
            let set = self.labels();
            return SpareDeed::Command(Command::VolumeLabel { name, set, remove: Vec::new() });
        }
        SpareDeed::Write { name, block, byte }
    }

    /// Something that is done to one that was deleted.
    fn bring_back(&mut self, name: String) -> Command {
        let id = self.history.id.map_or_else(|| name.clone(), |id| id.to_string());
        let volume = if self.rng.below(2) == 0 { id } else { name.clone() };
        match self.rng.below(10) {
            0 => Command::VolumePurge { volume },
            1 => Command::VolumeLabel { name, set: self.labels(), remove: Vec::new() },
            2..6 => Command::VolumeUndelete { volume, name: None },
            _ => {
                let name = Some(self.some_name(&name));
                Command::VolumeUndelete { volume, name }
            }
        }
    }

    /// A name that no volume had so far.
    fn new_name(&mut self) -> String {
        self.names += 1;
        format!("{PREFIX}{}-{}", self.number, self.names)
    }

    /// Mostly a new name, at times that which it has, or one that is taken.
    fn some_name(&mut self, has: &str) -> String {
        match self.rng.below(8) {
            0 => has.to_owned(),
            1 => crate::plan::VolumePlan::name(0),
            _ => self.new_name(),
        }
    }

    fn labels(&mut self) -> Labels {
        let keys = ["env", "tier", "owner/team"];
        let mut labels = Labels::new();
        for _ in 0..1 + self.rng.below(2) {
            labels.insert(keys[self.below(3)].to_owned(), format!("v{}", self.rng.below(4)));
        }
        labels
    }

    fn below(&mut self, most: u64) -> usize {
        usize::try_from(self.rng.below(most)).unwrap_or(0)
    }
}

/// How large a volume may be.
fn size_max(object_bytes: u64, reserve_percent: u8) -> u64 {
    let objects = if reserve_percent > 0 { RESERVED_OBJECTS_MAX } else { OBJECTS_MAX };
    SIZE_MAX.min(object_bytes.saturating_mul(objects))
}

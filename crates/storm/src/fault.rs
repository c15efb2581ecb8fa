// SPDX-License-Identifier: Apache-2.0
//! The kinds of faults, and how random ones are drawn, by weight.

base::named! {
    /// One kind of fault.
    pub enum Fault {
        /// Power loss of a host.
        Crash = "crash",
        /// `kill -9` of a host's process.
        Kill = "kill",
        /// Power loss of every host at once.
        CrashAll = "crash-all",
        /// Power loss of all hosts of a rack.
        CrashRack = "crash-rack",
        /// A host that is down starts again.
        Boot = "boot",
        /// Two hosts stop hearing each other; everybody else hears both.
        Partition = "partition",
        /// A host stops hearing another one, but not the other way round.
        OneWay = "one-way",
        /// A host stops hearing everybody, the directory included.
        Isolate = "isolate",
        /// All connections between two hosts are reset.
        Reset = "reset",
        /// As `Reset`, but one end of each connection does not notice. The other end connects
        /// again, so there are two connections for a while.
        HalfReset = "half-reset",
        /// What two hosts send each other takes longer, by up to a second and a half.
        Clog = "clog",
        /// Everybody hears everybody again, at full speed.
        Heal = "heal",
        /// A process stops for up to 20 s, and goes on with what it believed before.
        Pause = "pause",
        /// A process gets no CPU now and then, for tens of milliseconds each.
        Stutter = "stutter",
        /// The directory's process is killed; it comes back by `Boot`.
        DirectoryAway = "directory-away",
        /// The directory lives, but nobody reaches it, as if etcd had lost its majority.
        DirectoryCut = "directory-cut",
        /// A host's wall clock is set forward or back, by up to ten years.
        WallJump = "wall-jump",
        /// A device becomes slower, up to 256 times.
        SlowDisk = "slow-disk",
        /// A device does not answer.
        FreezeDisk = "freeze-disk",
        /// A device fails all reads.
        FailReads = "fail-reads",
        /// A device fails all writes, which may have done something all the same.
        FailWrites = "fail-writes",
        /// A device fails all flushes.
        FailFlushes = "fail-flushes",
        /// No fault: only time passes.
        Calm = "calm",
        /// Bits on the media of a device flip (only in stories of damage and rot).
        BitRot = "bit-rot",
        /// A part of a device cannot be read (only in stories of damage and rot).
        LatentError = "latent-error",
        /// A device reports success for a write that it did not do (by `Damage` alone).
        LostWrite = "lost-write",
        /// A device reports success for a write that it did in another place (by `Damage` alone).
        MisdirectedWrite = "misdirected-write",
        /// A device reports success for flushes that it did not do (by [`crate::Story::LyingFlush`]
        /// alone).
        LyingFlush = "lying-flush",
        /// A clock runs wrong by more than the protocol allows (by `WildClock` alone).
        WildClock = "wild-clock",
        /// A device is lost, and a new one takes its place (only in `LostDevice` and
        /// `LossAfterReturn`).
        LostDevice = "lost-device",
        /// A disk group of a running host is closed, and opened again after up to 16 s.
        Reopen = "reopen",
        /// A capacity device goes away without an error, and is there again after up to 32 s.
        DeviceAway = "device-away",
        /// Calls on a device (opening, looking, closing, discards) take up to 64 s each; half of
        /// the time its host is told to close and open a group meanwhile.
        HungCalls = "hung-calls",
        /// A copy of an object is moved to another host, or called back.
        MoveCopy = "move-copy",
        /// The directory is set back to an earlier backup (by [`crate::Story::OldBackup`] alone).
        OldBackup = "old-backup",
        /// The directory loses all its content (by `OldBackup` alone).
        LostDirectory = "lost-directory",
        /// The directory holds again what it held before, byte for byte (by
        /// [`crate::Story::EtcdSnapshot`] alone).
        SetBack = "set-back",
        /// Frames of one kind come late, by up to 5 s each (by [`crate::Story::LateGrants`] alone).
        LateFrames = "late-frames",
        /// The clients of a host hang up with writes under way (by [`crate::Story::QueuedRival`]
        /// alone).
        HangUp = "hang-up",
    }
}

/// The first seed in which copies are moved to other hosts.
pub(crate) const MOVES_FIRST: u64 = 272_000_000;

impl Fault {
    /// Whether this fault is newer than the oldest seeds that are kept. Such a fault is drawn
    /// separately, and only for later seeds. So older seeds run as before.
    #[must_use]
    pub fn is_late(self) -> bool {
        self.since().is_some()
    }

    /// The first seed that may have this fault. `None` for faults that every seed may have.
    #[must_use]
    pub fn since(self) -> Option<u64> {
        match self {
            Self::Reopen => Some(160_000_000),
            Self::DeviceAway => Some(170_000_000),
            Self::HungCalls => Some(190_000_000),
            Self::MoveCopy => Some(MOVES_FIRST),
            _ => None,
        }
    }

    /// Whether the random injector may choose this fault in every seed. It may not choose the newer
    /// faults, nor those that only certain stories may bring.
    #[must_use]
    pub fn is_random(self) -> bool {
        !matches!(
            self,
            Self::BitRot
                | Self::LatentError
                | Self::LostWrite
                | Self::MisdirectedWrite
                | Self::LyingFlush
                | Self::WildClock
                | Self::LostDevice
                | Self::OldBackup
                | Self::LostDirectory
                | Self::SetBack
                | Self::LateFrames
                | Self::HangUp
        ) && !self.is_late()
    }
}

/// How often each fault was injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts([u64; Fault::ALL.len()]);

impl Default for Counts {
    fn default() -> Self {
        Self([0; Fault::ALL.len()])
    }
}

impl Counts {
    /// Counts one more fault.
    pub fn add(&mut self, fault: Fault) {
        self.0[fault as usize] += 1;
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (sum, count) in self.0.iter_mut().zip(other.0) {
            *sum += count;
        }
    }

    /// Every kind of fault with its count, also zero.
    pub fn iter(&self) -> impl Iterator<Item = (Fault, u64)> + '_ {
        Fault::ALL.iter().copied().map(|fault| (fault, self.0[fault as usize]))
    }
}

/// Which random faults a run has, and how often. Some runs have some kinds and not others, so that
/// rare mixtures are reached (swarm testing).
#[derive(Clone, Copy, Debug)]
pub struct Weights([u64; Fault::ALL.len()]);

impl Weights {
    /// Draws the weights of the faults that every seed may have.
    #[must_use]
    pub fn draw(rng: &mut base::Rng) -> Self {
        let mut weights = [0; Fault::ALL.len()];
        for fault in Fault::ALL.iter().copied().filter(|fault| fault.is_random()) {
            weights[fault as usize] = match fault {
                Fault::Boot => 8,
                Fault::Heal => 5,
                Fault::Calm => 2,
                Fault::CrashAll
                | Fault::CrashRack
                | Fault::DirectoryAway
                | Fault::DirectoryCut
                | Fault::WallJump => rng.below(2),
                Fault::FailReads | Fault::FailWrites | Fault::FailFlushes => {
                    u64::from(rng.below(6) == 0)
                }
                _ if rng.below(3) == 0 => 0,
                _ => 1 + rng.below(4),
            };
        }
        Self(weights)
    }

    /// Adds the weights of the newer faults that `seed` may have, from random numbers of their own.
    #[must_use]
    pub fn with_late(mut self, rng: &mut base::Rng, seed: u64) -> Self {
        let is_in = |fault: &Fault| fault.since().is_some_and(|first| first <= seed);
        for fault in Fault::ALL.iter().copied().filter(is_in) {
            self.0[fault as usize] = [0, 1, 2, 6][rng.below(4) as usize];
        }
        self
    }

    /// Never chooses this fault again.
    pub fn forget(&mut self, fault: Fault) {
        self.0[fault as usize] = 0;
    }

    /// Draws the next random fault.
    #[must_use]
    pub fn next(&self, rng: &mut base::Rng) -> Fault {
        let mut at = rng.below(self.0.iter().sum::<u64>().max(1));
        for fault in Fault::ALL.iter().copied() {
            let weight = self.0[fault as usize];
            if at < weight {
                return fault;
            }
            at -= weight;
        }
        Fault::Calm
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_random_faults_are_drawn_and_all_of_them() {
        let mut seen = Counts::default();
        for seed in 0..200 {
            let mut rng = base::Rng::new(seed);
            let weights = Weights::draw(&mut rng).with_late(&mut rng, u64::MAX);
            (0..200).for_each(|_| seen.add(weights.next(&mut rng)));
        }
        for (fault, count) in seen.iter() {
            assert_eq!(count > 0, fault.is_random() || fault.is_late(), "{fault:?}");
        }
        assert!(Fault::ALL.iter().enumerate().all(|(at, fault)| *fault as usize == at));
    }
}

// SPDX-License-Identifier: Apache-2.0
//! The stories that a round may tell. Most are told in `script.rs` and `damage.rs`.

use crate::fault::MOVES_FIRST;
use std::fmt;
use std::str::FromStr;

/// The first seed in which frames may be late by their kind.
const LATE_ANSWERS_FIRST: u64 = 254_000_000;
/// The first seed in which clients of several hosts may write the same sectors at once.
const RIVAL_FIRST: u64 = 255_000_000;
/// The first seed in which two replicas may come back at once.
const TWINS_FIRST: u64 = 289_000_000;

base::named! {
    /// What goes wrong in a round.
    pub enum Story {
        /// Random faults at random moments.
        Random = "random",
        /// The owner's link to a replica is cut, and the owner dies before it notices.
        Severed = "severed",
        /// The owner hears nobody for a while. Its clients go on.
        Isolated = "isolated",
        /// The owner loses contact with the directory first, and with everybody else later.
        LateIsolation = "late-isolation",
        /// The owner loses contact with the directory and with one other host.
        HalfBlind = "half-blind",
        /// The owner loses contact with the directory, and a replica with all other hosts. The
        /// replica still reaches the directory.
        LoneReplica = "lone-replica",
        /// A replica has granted the old owner a lease. While a new owner waits for its end, the
        /// replica restarts.
        ForgottenGrant = "forgotten-grant",
        /// An owner that was replaced reaches its replicas again, but not yet the directory.
        BlindReturn = "blind-return",
        /// The owner fails just when a replica has become active again.
        JoinFault = "join-fault",
        /// Something fails in the middle of a resync.
        ResyncFault = "resync-fault",
        /// A replica goes away and comes back again and again.
        Flaps = "flaps",
        /// An owner that was replaced reaches a replica that has just restarted.
        OldOwner = "old-owner",
        /// A replica's device holds writes back while its owner is replaced.
        HeldWrites = "held-writes",
        /// Ownership moves from host to host and back.
        PingPong = "ping-pong",
        /// Something fails in the middle of a take-over.
        TakeOverFault = "take-over-fault",
        /// Links and devices that are slow but alive, under random faults.
        Slow = "slow",
        /// The directory is out of reach, at times for minutes. Another fault may come meanwhile.
        LongOutage = "long-outage",
        /// A host is away for up to ten minutes while the others go on.
        LongAbsence = "long-absence",
        /// A host with writes under way fails just after a hand-over.
        HandOverFault = "hand-over-fault",
        /// A replica is away while the volume is discarded chunk by chunk.
        Trimmed = "trimmed",
        /// Devices of one host fail, and work again after a while.
        DyingDevice = "dying-device",
        /// The content of one host's devices is damaged where others hold a whole copy.
        Damage = "damage",
        /// Data of one host's capacity devices rots while it is used. Metadata does not.
        RottenData = "rotten-data",
        /// One block in the middle of the log of one host's group rots, while it is used.
        RottenLog = "rotten-log",
        /// A host comes back with a new device in the place of one of its own.
        LostDevice = "lost-device",
        /// A component that has just become active again loses its cache device, and with it copies
        /// that it got on its return.
        LossAfterReturn = "loss-after-return",
        /// One capacity device of a group with several fails or goes away, and comes back.
        DeviceOut = "device-out",
        /// One device answers late for minutes. Reads should go elsewhere meanwhile.
        LateDevice = "late-device",
        /// A replica comes back under load, but its devices are slow, or its process hardly runs.
        SlowJoiner = "slow-joiner",
        /// The directory is set back to an earlier backup, or lost. An operator adopts the volumes.
        OldBackup = "old-backup",
        /// The directory is set back raw, as an etcd snapshot is restored. Hosts claim its old
        /// records until the operator adopts.
        EtcdSnapshot = "etcd-snapshot",
        /// Grants, renewals and answers of the directory come late. Then the owner hears nobody, or
        /// only its clients, while clients go on elsewhere.
        LateGrants = "late-grants",
        /// Clients of several hosts write the same few sectors. Links are reset with such writes
        /// under way, and clients hang up or die.
        QueuedRival = "queued-rival",
        /// Copies of an object move to other hosts, and at any moment of that something fails.
        Moves = "moves",
        /// Two replicas come back at once, or one of them has more of the last writes of an owner
        /// that dies than the other.
        Twins = "twins",
        /// Beyond the contract: devices report flushes that they do not do, and then power fails.
        LyingFlush = "lying-flush",
        /// Beyond the contract: a clock runs wrong by more than the protocol allows.
        WildClock = "wild-clock",
    }
}

impl Story {
    /// The first seed whose plan may have this story. `None` for the oldest stories. Newer stories
    /// are drawn separately, and mostly for later seeds only, so that seeds that are kept run as
    /// before.
    #[must_use]
    pub fn since(self) -> Option<u64> {
        match self {
            Self::HandOverFault | Self::LostDevice | Self::RottenData | Self::Trimmed => Some(0),
            Self::LossAfterReturn => Some(100_000_000),
            Self::DeviceOut => Some(170_000_000),
            Self::LateDevice => Some(180_000_000),
            Self::SlowJoiner => Some(190_000_000),
            Self::RottenLog | Self::OldBackup => Some(200_000_000),
            Self::EtcdSnapshot => Some(210_000_000),
            Self::LateGrants => Some(LATE_ANSWERS_FIRST),
            Self::QueuedRival => Some(RIVAL_FIRST),
            Self::Moves => Some(MOVES_FIRST),
            Self::Twins => Some(TWINS_FIRST),
            _ => None,
        }
    }

    /// Whether the story needs clients on several hosts.
    #[must_use]
    pub fn needs_clients(self) -> bool {
        matches!(self, Self::HandOverFault | Self::LateGrants | Self::QueuedRival | Self::Twins)
    }

    /// Whether the story damages content. Such a story is the last one of its run, because damage
    /// that nobody has read yet would be a second fault in a later round.
    #[must_use]
    pub fn is_damage(self) -> bool {
        matches!(
            self,
            Self::Damage
                | Self::LostDevice
                | Self::LossAfterReturn
                | Self::RottenData
                | Self::RottenLog
        )
    }

    /// Whether the system promises nothing in this story. What is lost then is reported, but is no
    /// violation.
    #[must_use]
    pub fn is_beyond(self) -> bool {
        matches!(self, Self::LyingFlush | Self::WildClock)
    }
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Story {
    type Err = String;
    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().copied().find(|story| story.name() == name);
        found.ok_or_else(|| format!("no story '{name}': see 'gabion-storm scenarios'"))
    }
}

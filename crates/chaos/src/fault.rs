// SPDX-License-Identifier: Apache-2.0
//! What goes wrong, when and for how long: drawn from a seed, without I/O.

use base::{Rng, Set};
use clap::ValueEnum;
use std::fmt;
use std::time::Duration;

/// Hosts of the cluster; each has a member of etcd beside it.
pub const HOSTS: usize = 3;
/// What is promised if a process is killed and comes back, or if etcd loses members: links end at
/// once, and the owner goes on or is replaced without a time-out.
const AT_ONCE: Duration = Duration::from_secs(1);
/// What is promised if a host is silent, or seen by some only. A link to it ends after 2.25 s, the
/// directory takes it for dead after 3 s, and its grants run out after 5 s (rule 52b). A copy that
/// stalls is given up after 2 s. The longest chain of these is 5 s of a grant, and 2 s.
const BY_TIME_OUTS: Duration = Duration::from_secs(7);
/// What the limits allow beyond that: one machine runs three hosts, etcd and all clients
/// at once, and perhaps builds and other campaigns beside them.
const ALLOWANCE: Duration = Duration::from_secs(3);
/// The limit where no fault is in force.
pub const PEACE_MAX: Duration = Duration::from_secs(1).saturating_add(ALLOWANCE);
/// One in so many rounds has two faults at once.
const PAIR_ONE_IN: u64 = 4;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum FaultKind {
    /// A host's process dies by SIGKILL and is started again at once, as its supervisor does
    Kill,
    /// A host's process dies by SIGKILL and stays dead for longer than its leases
    Gone,
    /// A host's process stands still for less than its leases
    Stop,
    /// A host's process stands still for longer than its leases
    LongStop,
    /// A machine's link is down: host and etcd member are silent
    Silent,
    /// Two machines do not see each other, both see the third
    Partition,
    /// What one machine sends to another one is lost, not the other way round
    OneWay,
    /// A machine's link goes down and up again several times a second
    Flapping,
    /// Packets are late, and one in a hundred is lost (needs the kernel's netem)
    Netem,
    /// The leader of etcd dies by SIGKILL and is started again
    EtcdLeader,
    /// A member of etcd that does not lead dies by SIGKILL
    EtcdMember,
    /// All members of etcd stand still
    EtcdStopped,
    /// All members of etcd die by SIGKILL
    EtcdKilled,
    /// All hosts' processes die at once by SIGKILL
    AllKilled,
    /// Two hosts' processes die at once: more than one failure
    TwoKilled,
    /// Bits flip in a capacity file of a host that runs
    FlipUp,
    /// Bits flip in a capacity file while its host is down
    FlipDown,
    /// The cache file of a host that runs is moved away, and is back when the host starts again
    Unlink,
    /// Half of a capacity file is gone when its host starts again
    Truncate,
    /// A volume is written until no space is left
    Full,
}

/// What a fault takes away; two at once take away different things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// The process of a host.
    Process,
    /// The network.
    Link,
    /// Members of etcd.
    Etcd,
    /// The content of a device.
    Device,
}

impl FaultKind {
    /// Kinds that a campaign draws. Those of devices come at its end: what they leave is healed by
    /// reading only, or not at all.
    pub const DRAWN: [Self; 15] = [
        Self::Kill,
        Self::Gone,
        Self::Stop,
        Self::LongStop,
        Self::Silent,
        Self::Partition,
        Self::OneWay,
        Self::Flapping,
        Self::Netem,
        Self::EtcdLeader,
        Self::EtcdMember,
        Self::EtcdStopped,
        Self::EtcdKilled,
        Self::AllKilled,
        Self::TwoKilled,
    ];

    /// What it takes away.
    pub fn resource(self) -> Resource {
        match self {
            Self::Kill
            | Self::Gone
            | Self::Stop
            | Self::LongStop
            | Self::AllKilled
            | Self::TwoKilled => Resource::Process,
            Self::Silent | Self::Partition | Self::OneWay | Self::Flapping | Self::Netem => {
                Resource::Link
            }
            Self::EtcdLeader | Self::EtcdMember | Self::EtcdStopped | Self::EtcdKilled => {
                Resource::Etcd
            }
            Self::FlipUp | Self::FlipDown | Self::Unlink | Self::Truncate | Self::Full => {
                Resource::Device
            }
        }
    }

    /// How long an operation of clients that a fault of this kind does not meet may take by what is
    /// promised, if the fault lasts for `hold`.
    fn promise(self, hold: Duration) -> Duration {
        match self {
            Self::Kill
            | Self::EtcdLeader
            | Self::EtcdMember
            | Self::EtcdStopped
            | Self::EtcdKilled => AT_ONCE,
            Self::Gone
            | Self::Stop
            | Self::LongStop
            | Self::Silent
            | Self::Partition
            | Self::OneWay
            // A group or a device of one host is gone; its host is down in between.
            | Self::FlipUp
            | Self::FlipDown
            | Self::Unlink
            | Self::Truncate
            | Self::Full => BY_TIME_OUTS,
            // Each time the link is up the time-outs begin anew. Late packets hold everything up.
            Self::Flapping | Self::Netem => hold + BY_TIME_OUTS,
            // Nobody may go on before hosts are back, and each of them opens its groups and waits
            // until what it may have granted has run out.
            Self::AllKilled | Self::TwoKilled => hold + 2 * BY_TIME_OUTS,
        }
    }

    /// The limit for a fault of this kind in the phase of devices.
    pub fn device_limit(self) -> Duration {
        self.promise(Duration::ZERO) + ALLOWANCE
    }

    /// How long it lasts, milliseconds: least and most.
    fn hold_ms(self) -> (u64, u64) {
        match self {
            Self::Kill => (0, 200),
            Self::AllKilled => (0, 3000),
            Self::Stop => (300, 3000),
            Self::Gone | Self::LongStop | Self::Silent | Self::Partition | Self::OneWay => {
                (8000, 13_000)
            }
            Self::Flapping | Self::Netem | Self::EtcdMember => (4000, 8000),
            Self::EtcdLeader => (1000, 5000),
            Self::EtcdStopped | Self::EtcdKilled => (6000, 14_000),
            Self::TwoKilled => (500, 5000),
            Self::FlipUp | Self::FlipDown | Self::Unlink | Self::Truncate | Self::Full => (0, 0),
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_possible_value() {
            Some(value) => f.write_str(value.get_name()),
            None => Ok(()),
        }
    }
}

/// One fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueFault {
    /// Of which kind.
    pub kind: FaultKind,
    /// The host that it meets, from zero.
    pub host: usize,
    /// The second host, for a fault that hits two.
    pub other: usize,
    /// When it begins, from the begin of the round.
    pub after: Duration,
    /// How long it lasts.
    pub hold: Duration,
}

impl DueFault {
    fn draw(kind: FaultKind, rng: &mut Rng) -> Self {
        let host = draw_index(rng, HOSTS);
        let other = (host + 1 + draw_index(rng, HOSTS - 1)) % HOSTS;
        let (least, most) = kind.hold_ms();
        let hold = Duration::from_millis(rng.between(least, most));
        Self { kind, host, other, after: Duration::ZERO, hold }
    }

    /// The hosts whose own clients the fault stops, or may stop.
    pub fn victims(&self) -> Set<usize> {
        match self.kind {
            FaultKind::Kill
            | FaultKind::Gone
            | FaultKind::Stop
            | FaultKind::LongStop
            | FaultKind::Silent
            | FaultKind::Flapping => Set::from_iter([self.host]),
            FaultKind::Partition | FaultKind::OneWay | FaultKind::TwoKilled => {
                Set::from_iter([self.host, self.other])
            }
            FaultKind::AllKilled => (0..HOSTS).collect(),
            FaultKind::FlipUp | FaultKind::FlipDown | FaultKind::Unlink | FaultKind::Truncate => {
                Set::from_iter([self.host])
            }
            _ => Set::new(),
        }
    }

    /// Hosts that the policy counts as failed.
    fn failed(&self) -> Set<usize> {
        match self.kind {
            // The packets of all hosts are late, but no host counts as failed.
            FaultKind::Netem => Set::new(),
            _ => self.victims(),
        }
    }
}

/// Faults that overlap, followed by a healthy time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultRound {
    /// One or two.
    pub faults: Vec<DueFault>,
    /// The healthy time before it.
    pub gap: Duration,
}

impl FaultRound {
    /// One fault of `kind`.
    pub fn single(kind: FaultKind, rng: &mut Rng) -> Self {
        let gap = Duration::from_millis(rng.between(1000, 3000));
        Self { faults: vec![DueFault::draw(kind, rng)], gap }
    }

    /// Its faults by name.
    pub fn label(&self) -> String {
        let names: Vec<_> = self.faults.iter().map(|fault| fault.kind.to_string()).collect();
        names.join(" + ")
    }

    /// Whether it is more than an FTT of 1 survives: then I/O may wait and fail, but nothing may
    /// be lost.
    pub fn is_beyond(&self) -> bool {
        let failed: Set<_> = self.faults.iter().flat_map(DueFault::failed).collect();
        let is_cut =
            |fault: &DueFault| matches!(fault.kind, FaultKind::Partition | FaultKind::OneWay);
        let is_one_of_two = self.faults.iter().any(is_cut) && failed.len() == 2;
        // If a host fails while etcd decides nothing, its objects wait for the directory.
        let is_undecided = self.faults.len() > 1
            && self
                .faults
                .iter()
                .any(|f| matches!(f.kind, FaultKind::EtcdStopped | FaultKind::EtcdKilled));
        // A machine that is silent takes its member of etcd along. Two such machines are a
        // majority.
        let members = self.faults.iter().filter(|f| {
            f.kind == FaultKind::Silent
                || f.kind == FaultKind::Flapping
                || f.kind.resource() == Resource::Etcd
        });
        is_undecided || members.count() > 1 || failed.len() > 1 && !is_one_of_two
    }

    /// How long an operation of clients of hosts that it does not meet may take. Faults at once add
    /// up. What goes beyond one failure may stop everything until it is over; then all hosts find
    /// their owners anew.
    pub fn stall_max(&self) -> Duration {
        let promised = match self.is_beyond() {
            true => self.lasts() + 2 * BY_TIME_OUTS,
            false => self.faults.iter().map(|fault| fault.kind.promise(fault.hold)).sum(),
        };
        promised + ALLOWANCE
    }

    /// From the begin of its first fault to the end of its last one.
    fn lasts(&self) -> Duration {
        self.faults.iter().map(|fault| fault.after + fault.hold).max().unwrap_or_default()
    }

    /// The hosts whose own clients it stops.
    pub fn victims(&self) -> Set<usize> {
        self.faults.iter().flat_map(DueFault::victims).collect()
    }
}

/// Rounds without end: every kind once in an order of the seed's, then again in another one.
#[derive(Debug)]
pub struct FaultSchedule {
    rng: Rng,
    kinds: Vec<FaultKind>,
    bag: Vec<FaultKind>,
}

impl FaultSchedule {
    /// A schedule of these kinds.
    pub fn new(seed: u64, kinds: &[FaultKind]) -> Self {
        assert!(!kinds.is_empty(), "a campaign has faults");
        Self { rng: Rng::stream(seed, 1), kinds: kinds.to_vec(), bag: Vec::new() }
    }

    /// The next round.
    pub fn next_round(&mut self) -> FaultRound {
        if self.bag.is_empty() {
            self.bag.clone_from(&self.kinds);
        }
        let at = draw_index(&mut self.rng, self.bag.len());
        let mut round = FaultRound::single(self.bag.swap_remove(at), &mut self.rng);
        if self.rng.below(PAIR_ONE_IN) == 0 {
            self.add_second(&mut round);
        }
        round
    }

    fn add_second(&mut self, round: &mut FaultRound) {
        let Some(first) = round.faults.first().copied() else { return };
        let fits = |kind: &&FaultKind| kind.resource() != first.kind.resource();
        let others: Vec<_> = self.kinds.iter().filter(fits).copied().collect();
        if others.is_empty() {
            return;
        }
        let mut second =
            DueFault::draw(others[draw_index(&mut self.rng, others.len())], &mut self.rng);
        second.after = Duration::from_millis(self.rng.below(3000)).min(first.hold);
        round.faults.push(second);
    }
}

/// An index below `bound`.
pub fn draw_index(rng: &mut Rng, bound: usize) -> usize {
    let drawn = rng.below(u64::try_from(bound).unwrap_or(u64::MAX));
    usize::try_from(drawn).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_rounds_and_every_kind_comes_once_before_one_comes_twice() {
        let mut rounds = FaultSchedule::new(7, &FaultKind::DRAWN);
        let mut again = FaultSchedule::new(7, &FaultKind::DRAWN);
        let first: Vec<_> = FaultKind::DRAWN.iter().map(|_| rounds.next_round()).collect();
        assert!(first.iter().all(|round| *round == again.next_round()));
        let kinds: Set<_> = first.iter().map(|round| round.faults[0].kind).collect();
        assert_eq!(kinds.len(), FaultKind::DRAWN.len());
    }

    #[test]
    fn two_faults_at_once_take_different_things_and_meet_hosts_that_exist() {
        let mut rounds = FaultSchedule::new(3, &FaultKind::DRAWN);
        let mut pairs = 0;
        for _ in 0..500 {
            let round = rounds.next_round();
            for fault in &round.faults {
                assert!(fault.host < HOSTS && fault.other < HOSTS && fault.host != fault.other);
            }
            if let [first, second] = round.faults.as_slice() {
                pairs += 1;
                assert_ne!(first.kind.resource(), second.kind.resource());
                assert!(second.after <= first.hold, "they overlap");
                let alone = first.kind.promise(first.hold) + ALLOWANCE;
                assert!(round.stall_max() > alone, "{round:?}");
            }
        }
        assert!(pairs > 50, "{pairs}");
    }

    fn round(kinds: &[(FaultKind, usize)]) -> FaultRound {
        let fault = |&(kind, host): &(FaultKind, usize)| DueFault {
            kind,
            host,
            other: (host + 1) % HOSTS,
            after: Duration::ZERO,
            hold: Duration::ZERO,
        };
        FaultRound { faults: kinds.iter().map(fault).collect(), gap: Duration::ZERO }
    }

    #[test]
    fn more_than_one_failure_is_beyond() {
        assert!(!round(&[(FaultKind::Kill, 0)]).is_beyond());
        assert!(!round(&[(FaultKind::Partition, 0)]).is_beyond(), "one of the two is given up");
        assert!(!round(&[(FaultKind::Kill, 0), (FaultKind::EtcdLeader, 1)]).is_beyond());
        assert!(
            !round(&[(FaultKind::Kill, 0), (FaultKind::Silent, 0)]).is_beyond(),
            "the same machine"
        );
        assert!(!round(&[(FaultKind::EtcdStopped, 0)]).is_beyond(), "nothing else changes");
        assert!(round(&[(FaultKind::TwoKilled, 0)]).is_beyond());
        assert!(round(&[(FaultKind::Kill, 2), (FaultKind::Partition, 0)]).is_beyond());
        assert!(round(&[(FaultKind::Kill, 0), (FaultKind::Silent, 1)]).is_beyond());
        assert!(round(&[(FaultKind::Kill, 0), (FaultKind::EtcdKilled, 1)]).is_beyond());
        assert!(
            round(&[(FaultKind::Silent, 0), (FaultKind::EtcdLeader, 1)]).is_beyond(),
            "the majority"
        );
    }

    #[test]
    fn limits_follow_from_what_is_promised() {
        let limit = |kinds: &[(FaultKind, usize)]| round(kinds).stall_max();
        assert_eq!(limit(&[(FaultKind::Kill, 0)]), AT_ONCE + ALLOWANCE);
        assert_eq!(limit(&[(FaultKind::Silent, 0)]), BY_TIME_OUTS + ALLOWANCE);
        let pair = [(FaultKind::Kill, 0), (FaultKind::EtcdLeader, 1)];
        assert_eq!(limit(&pair), 2 * AT_ONCE + ALLOWANCE);
        let mut beyond = round(&[(FaultKind::Kill, 0), (FaultKind::Silent, 1)]);
        beyond.faults[1].after = Duration::from_secs(2);
        beyond.faults[1].hold = Duration::from_secs(9);
        assert_eq!(beyond.stall_max(), Duration::from_secs(11) + 2 * BY_TIME_OUTS + ALLOWANCE);
        assert_eq!(round(&[(FaultKind::Kill, 0)]).label(), "kill");
    }
}

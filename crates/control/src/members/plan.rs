// SPDX-License-Identifier: Apache-2.0
//! Which hosts are to keep the directory, and the next step towards that. Pure: the same picture
//! gives the same step.
//!
//! Guarantees: no step leaves the members that answer without a majority; one host is added at a
//! time, and votes once it has everything. Where nothing fails and nobody comes or goes, steps come
//! to an end, with an odd number of members: five where the cluster has as many hosts, else three,
//! else one.

use std::cmp::Reverse;
use std::time::Duration;

/// Members of a directory, at most. More would make each change slower, and survive nothing that
/// happens.
pub const MEMBERS_MAX: usize = 5;

/// A host of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// The lower, the earlier it joined. Each host has another.
    pub rank: u32,
    /// Fault domains that it is in, the outermost first; none: it is one of its own.
    pub domains: Vec<String>,
    /// Whether its daemon runs and could start a member.
    pub is_ready: bool,
}

/// A member of the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its number in etcd.
    pub id: u64,
    /// The host that it is on, if that is known.
    pub host: Option<String>,
    /// Whether it counts for a majority. One that does not is a learner: it is being filled.
    pub is_voter: bool,
    /// Whether it leads now.
    pub is_leader: bool,
    /// For how long it has not answered; `None`: it answers.
    pub silent: Option<Duration>,
}

/// All that a step depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Picture {
    /// All hosts of the cluster, whether they run or not.
    pub hosts: Vec<Host>,
    /// All members, in any order.
    pub members: Vec<Member>,
    /// How long a member may be silent before another host gets its place.
    pub patience: Duration,
}

/// A change of the members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DirectoryStep {
    /// Let this host begin as a learner.
    Add(String),
    /// Let this learner vote. etcd refuses while it does not have everything.
    Promote(u64),
    /// Take this member out.
    Remove(u64),
}

/// Voters that a cluster of so many hosts should have.
#[must_use]
pub fn wanted(hosts: usize) -> usize {
    match hosts {
        0..=2 => 1,
        3..=4 => 3,
        _ => MEMBERS_MAX,
    }
}

/// The next step; `None` where all is as it should be, or where nothing safe can be done.
#[must_use]
pub fn next_step(picture: &Picture) -> Option<DirectoryStep> {
    let wanted = wanted(picture.hosts.len());
    if let Some(learner) = picture.members.iter().find(|member| !member.is_voter) {
        return picture.with_learner(learner, wanted);
    }
    let voters: Vec<&Member> = picture.members.iter().collect();
    let gone = voters.iter().find(|voter| picture.host_of(voter).is_none());
    if let Some(gone) = gone.filter(|gone| picture.survives_without(gone)) {
        return Some(DirectoryStep::Remove(gone.id));
    }
    if voters.len() > wanted {
        return picture.surplus().map(DirectoryStep::Remove);
    }
    let has_spare = picture.candidates().next().is_some();
    // One whose host is well lost what it had: that host begins anew.
    let may_move = |lost: &Member| has_spare || picture.host_of(lost).is_some_and(|it| it.is_ready);
    let lost = voters.iter().find(|voter| picture.is_lost(voter) && may_move(voter));
    if let Some(lost) = lost.filter(|lost| picture.survives_without(lost)) {
        return Some(DirectoryStep::Remove(lost.id));
    }
    // An even number survives no more than one less does, and needs one more to answer.
    let needed = if voters.len().is_multiple_of(2) { 1 } else { 2 };
    let is_short = voters.len() < wanted && picture.candidates().count() >= needed;
    let host = if is_short { picture.best(&picture.places()) } else { picture.better_place() };
    host.filter(|_| picture.survives_with_one_more()).map(DirectoryStep::Add)
}

impl Picture {
    fn with_learner(&self, learner: &Member, wanted: usize) -> Option<DirectoryStep> {
        // One more than wanted is a member that moves.
        let is_surplus = self.voters().count() > wanted;
        if self.host_of(learner).is_none() || self.is_lost(learner) || is_surplus {
            return Some(DirectoryStep::Remove(learner.id));
        }
        let may_vote = learner.silent.is_none() && self.survives_with_one_more();
        may_vote.then_some(DirectoryStep::Promote(learner.id))
    }

    fn voters(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| member.is_voter)
    }

    fn host_of(&self, member: &Member) -> Option<&Host> {
        let name = member.host.as_ref()?;
        self.hosts.iter().find(|host| host.name == *name)
    }

    fn is_lost(&self, member: &Member) -> bool {
        member.silent.is_some_and(|silent| silent >= self.patience)
    }

    /// Whether the voters that answer are a majority of those that would be left.
    fn survives_without(&self, member: &Member) -> bool {
        let rest: Vec<_> = self.voters().filter(|voter| voter.id != member.id).collect();
        let answering = rest.iter().filter(|voter| voter.silent.is_none()).count();
        answering > rest.len() / 2
    }

    /// Whether they would be one of one voter more, which answers.
    fn survives_with_one_more(&self) -> bool {
        let answering = self.voters().filter(|voter| voter.silent.is_none()).count();
        answering + 1 > self.voters().count().div_ceil(2)
    }

    /// Hosts that could become a member.
    fn candidates(&self) -> impl Iterator<Item = &Host> {
        let is_member =
            |host: &Host| self.members.iter().any(|it| it.host.as_ref() == Some(&host.name));
        self.hosts.iter().filter(move |host| host.is_ready && !is_member(host))
    }

    /// Where voters are now.
    fn places(&self) -> Vec<&Host> {
        self.voters().filter_map(|voter| self.host_of(voter)).collect()
    }

    /// The candidate that shares the least with `places`; of several the one that joined first.
    fn best(&self, places: &[&Host]) -> Option<String> {
        let cost = |host: &&Host| (shared_with(host, places), host.rank);
        self.candidates().min_by_key(cost).map(|host| host.name.clone())
    }

    /// A candidate with which members would share less, if one of them left for it. Only while all
    /// is well: a move is never urgent.
    fn better_place(&self) -> Option<String> {
        if self.voters().any(|voter| voter.silent.is_some()) {
            return None;
        }
        let now = shared(&self.places());
        let leaving = |voter: &Member| {
            let rest = self.voters().filter(|other| other.id != voter.id);
            let rest: Vec<_> = rest.filter_map(|other| self.host_of(other)).collect();
            let best = self.best(&rest)?;
            let host = self.hosts.iter().find(|host| host.name == best)?;
            let cost = shared(&rest) + shared_with(host, &rest);
            (cost < now).then_some((cost, host.rank, best))
        };
        let moves = self.voters().filter(|voter| !voter.is_leader).filter_map(leaving);
        moves.min().map(|(_, _, host)| host)
    }

    /// The voter to take out where there is one too many: one that is silent, else the one without
    /// which the others share the least, else the one that joined last.
    fn surplus(&self) -> Option<u64> {
        let cost = |voter: &&Member| {
            let rest = self.voters().filter(|other| other.id != voter.id);
            let rest: Vec<_> = rest.filter_map(|other| self.host_of(other)).collect();
            let rank = self.host_of(voter).map_or(u32::MAX, |host| host.rank);
            (Reverse(voter.silent), shared(&rest), Reverse(rank))
        };
        let may_go = |voter: &&Member| !voter.is_leader && self.survives_without(voter);
        self.voters().filter(may_go).min_by_key(cost).map(|voter| voter.id)
    }
}

/// How many fault domains two hosts have in common.
fn common(one: &Host, other: &Host) -> usize {
    let both = one.domains.iter().zip(&other.domains);
    both.take_while(|(one, other)| one == other).count()
}

fn shared_with(host: &Host, places: &[&Host]) -> usize {
    places.iter().map(|place| common(host, place)).sum()
}

/// The same over all pairs: how much members are alike in what takes them away.
fn shared(places: &[&Host]) -> usize {
    let pairs = places.iter().enumerate();
    pairs.map(|(at, place)| shared_with(place, &places[at + 1..])).sum()
}

#[cfg(test)]
mod tests;

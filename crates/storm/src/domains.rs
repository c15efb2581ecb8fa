// SPDX-License-Identifier: Apache-2.0
//! Hosts are put into a fault domain, and taken out of it, while copies move and hosts, links and
//! the directory fail. In the end no two copies of an object are in one.

use crate::campaign::{SeedRun, Violation};
use crate::plan::shards::DOMAINS_FROM;
use base::ShardId;
use directory::{DomainsRecord, ObjectRecord, domains_key};
use operator::Command;

/// The one that hosts are put into, and the one that it is within.
const RACK: &str = "rack";
const ROOM: &str = "room";

impl SeedRun {
    /// Some hosts are in one domain from now on, others in none: never so many that the copies of
    /// some object could not be apart.
    pub(crate) fn change_domains(&mut self) {
        if self.plan.seed < DOMAINS_FROM || self.one_of(2) == 0 {
            return;
        }
        let copies = self.plan.volumes.iter().map(|volume| usize::from(volume.ftt) + 1).max();
        // With a host its machine is in the domain.
        let machines = self.cluster.machines.len() - self.plan.pairs();
        let most = (machines + 1).saturating_sub(copies.unwrap_or(1));
        if most < 2 {
            return;
        }
        self.put_into_none();
        let mut chosen: Vec<String> = Vec::new();
        while chosen.len() < most && (chosen.len() < 2 || self.one_of(2) == 0) {
            let host = self.any_host();
            let name = self.name_of(host);
            let mate = self.plan.mate_of(host).map(|mate| self.name_of(mate));
            if !chosen.iter().any(|one| *one == name || Some(one) == mate.as_ref()) {
                chosen.push(name);
            }
        }
        let create = |name: &str, within: Option<&str>| Command::DomainCreate {
            name: name.to_owned(),
            within: within.map(str::to_owned),
        };
        // They are there already, but for the first time.
        for command in [create(ROOM, None), create(RACK, Some(ROOM))] {
            let asked = self.any_host();
            self.is_done(asked, command);
        }
        self.put_into(chosen, Some(RACK));
    }

    /// Takes all hosts out of their domain. Where that fails, another try of
    /// [`Self::change_domains`] does nothing worse than to leave them there.
    fn put_into_none(&mut self) {
        let members = self.domains().members.into_iter();
        let members = members.map(|member| format!("host{}", member.shard.0)).collect();
        self.put_into(members, None);
    }

    fn put_into(&mut self, hosts: Vec<String>, domain: Option<&str>) {
        if !hosts.is_empty() {
            let asked = self.any_host();
            let domain = domain.map(str::to_owned);
            self.is_done(asked, Command::DomainAssign { hosts, domain, check: false });
        }
    }

    fn domains(&self) -> DomainsRecord {
        let value = self.cluster.records.value(&domains_key());
        value.and_then(|value| DomainsRecord::decode(&value).ok()).unwrap_or_default()
    }

    /// Takes all hosts out of their domain where there are too many in it for the copies of some
    /// object to be apart: a change of it was refused half way.
    pub(crate) fn leave_room(&mut self) -> Result<(), Violation> {
        if self.make_room() { Ok(()) } else { self.wait("hosts in no domain", Self::make_room) }
    }

    /// The same once; whether there is room.
    pub(crate) fn make_room(&mut self) -> bool {
        let copies = self.plan.volumes.iter().map(|volume| usize::from(volume.ftt) + 1).max();
        let copies = copies.unwrap_or(1);
        if self.plan.seed >= DOMAINS_FROM && self.places() < copies {
            self.put_into_none();
        }
        self.plan.seed < DOMAINS_FROM || self.places() >= copies
    }

    /// How many copies of one object can be apart.
    pub(crate) fn places(&self) -> usize {
        let all = self.cluster.machines.iter().map(|machine| ShardId(machine.number));
        self.apart(&self.domains(), all)
    }

    /// Whether the copies of these objects are apart, as far as they can be: so many hosts may be
    /// in one domain that they cannot, where a change of it was refused half way.
    pub(crate) fn are_apart(&self, records: &[ObjectRecord]) -> bool {
        if self.plan.seed < DOMAINS_FROM {
            return true;
        }
        let (domains, there) = (self.domains(), self.places());
        records.iter().all(|record| {
            let copies = record.components.len();
            copies > there
                || self.apart(&domains, record.components.iter().map(|c| c.shard)) == copies
        })
    }

    /// The machine that a host shares with another one.
    pub(crate) fn machine_of(&self, shard: ShardId) -> Option<String> {
        let at = self.cluster.machines.iter().position(|machine| machine.number == shard.0);
        at.and_then(|at| self.plan.machine_of(at))
    }

    /// In how many domains these hosts are; a machine that is in none is one of its own.
    fn apart(&self, domains: &DomainsRecord, hosts: impl Iterator<Item = ShardId>) -> usize {
        let place = |shard| (domains.path(shard).pop().or_else(|| self.machine_of(shard)), shard);
        let mut places: Vec<_> = hosts.map(place).collect();
        places.sort_unstable();
        places.dedup_by(|one, other| one.0.is_some() && one.0 == other.0);
        places.len()
    }
}

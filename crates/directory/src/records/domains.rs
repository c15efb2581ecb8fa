// SPDX-License-Identifier: Apache-2.0
//! Fault domains: hosts that may fail together, as those of one rack do.

use super::error::{RecordError, are_unique, ensure};
use super::json::{FORMAT, Stored, from_json, to_json};
use super::keys::{NAME_RULE, is_name};
use base::ShardId;
use serde::{Deserialize, Serialize};

/// Fault domains of a cluster, at most.
pub const DOMAINS_MAX: usize = 128;
/// How deep fault domains lie within each other, at most: a rack in a room in a building.
pub const DOMAIN_DEPTH_MAX: usize = 3;
/// Hosts that are in a fault domain, at most.
pub const DOMAIN_MEMBERS_MAX: usize = 512;

/// A part of the installation that may fail as a whole.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FaultDomain {
    /// See [`is_name`]; each once in a cluster.
    pub name: String,
    /// The domain that it is a part of; it has no hosts itself.
    pub within: Option<String>,
}

/// A host and the innermost domain that it is in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DomainMember {
    /// The host.
    pub shard: ShardId,
    /// The domain's name.
    pub domain: String,
}

/// All fault domains, at [`super::domains_key`]; without a record there are none. A host that is in
/// none of them is one of its own. One record for all, so that what is checked is what is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DomainsRecord {
    /// At most [`DOMAINS_MAX`].
    pub domains: Vec<FaultDomain>,
    /// Each host once. None is in a domain that others are within.
    pub members: Vec<DomainMember>,
}

impl DomainsRecord {
    /// The domains that a host is in, the outermost first; none: it is one of its own.
    #[must_use]
    pub fn path(&self, shard: ShardId) -> Vec<String> {
        let member = self.members.iter().find(|member| member.shard == shard);
        member.map(|member| self.path_of(&member.domain)).unwrap_or_default()
    }

    /// A domain behind those that it is within, the outermost first; at most one more than can be
    /// where the record is not [checked](Self::check).
    #[must_use]
    pub fn path_of(&self, domain: &str) -> Vec<String> {
        let find = |name: &str| self.domains.iter().find(|domain| domain.name == name);
        let mut path = Vec::new();
        let mut next = find(domain);
        while let Some(domain) = next.filter(|_| path.len() <= DOMAIN_DEPTH_MAX) {
            path.push(domain.name.clone());
            next = domain.within.as_deref().and_then(find);
        }
        path.reverse();
        path
    }

    /// The same with a host in a domain, or in none.
    #[must_use]
    pub fn with_member(&self, shard: ShardId, domain: Option<&str>) -> Self {
        let others = self.members.iter().filter(|member| member.shard != shard).cloned();
        let it = domain.map(|domain| DomainMember { shard, domain: domain.to_owned() });
        let mut members: Vec<_> = others.chain(it).collect();
        members.sort_unstable();
        Self { domains: self.domains.clone(), members }
    }

    /// Whether it keeps its invariants.
    ///
    /// # Errors
    /// [`RecordError::Invalid`] with the field.
    pub fn check(&self) -> Result<(), RecordError> {
        let Self { domains, members } = self;
        ensure(domains.len() <= DOMAINS_MAX, "domains", "has too many entries")?;
        ensure(members.len() <= DOMAIN_MEMBERS_MAX, "hosts", "has too many entries")?;
        ensure(domains.iter().all(|domain| is_name(&domain.name)), "domains", NAME_RULE)?;
        ensure(
            are_unique(domains.iter().map(|domain| &domain.name)),
            "domains",
            "names one twice",
        )?;
        let is_known = |name: &String| domains.iter().any(|domain| domain.name == *name);
        let mut outer = domains.iter().filter_map(|domain| domain.within.as_ref());
        ensure(outer.all(is_known), "domains", "has one within an unknown one")?;
        let depths = domains.iter().map(|domain| self.path_of(&domain.name).len());
        let is_flat = depths.max().is_none_or(|depth| depth <= DOMAIN_DEPTH_MAX);
        ensure(is_flat, "domains", "lie too deep within each other")?;
        ensure(members.iter().all(|member| member.shard.0 != 0), "hosts", "names host zero")?;
        ensure(are_unique(members.iter().map(|one| one.shard)), "hosts", "names a host twice")?;
        ensure(
            members.iter().all(|one| is_known(&one.domain)),
            "hosts",
            "names an unknown domain",
        )?;
        let is_innermost = |name: &str| domains.iter().all(|d| d.within.as_deref() != Some(name));
        let are_inner = members.iter().all(|member| is_innermost(&member.domain));
        ensure(are_inner, "hosts", "has one in a domain that others are within")
    }

    /// The value for the directory. Panics where the record breaks an invariant: use
    /// [`Self::check`] first.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let checked = self.check();
        assert!(checked.is_ok(), "a record that breaks its invariants: {checked:?}");
        let domain = |domain: &FaultDomain| (domain.name.clone(), domain.within.clone());
        let member = |member: &DomainMember| (member.shard.0, member.domain.clone());
        to_json(&Domains {
            format: FORMAT,
            domains: self.domains.iter().map(domain).collect(),
            hosts: self.members.iter().map(member).collect(),
        })
    }

    /// The record in a value of the directory.
    ///
    /// # Errors
    /// [`RecordError`]: not this kind of record, another format, an invariant broken.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let Domains { domains, hosts, .. } = from_json::<Domains>(bytes)?;
        let domain = |(name, within)| FaultDomain { name, within };
        let member = |(host, domain)| DomainMember { shard: ShardId(host), domain };
        let domains = domains.into_iter().map(domain).collect();
        let record = Self { domains, members: hosts.into_iter().map(member).collect() };
        record.check()?;
        Ok(record)
    }
}

/// As it is stored: each domain with the one that it is within, and number and domain of each host.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Domains {
    format: u32,
    domains: Vec<(String, Option<String>)>,
    hosts: Vec<(u32, String)>,
}

impl Stored for Domains {
    fn format(&self) -> u32 {
        self.format
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_hosts_as_may_be_are_in_domains_and_not_one_more() {
        let lab = FaultDomain { name: "lab".to_owned(), within: None };
        let none = DomainsRecord { domains: vec![lab], members: Vec::new() };
        let hosts = (1..).take(DOMAIN_MEMBERS_MAX).map(ShardId);
        let full = hosts.fold(none, |all, shard| all.with_member(shard, Some("lab")));
        assert_eq!(full.members.len(), DOMAIN_MEMBERS_MAX);
        assert!(full.check().is_ok());
        assert!(full.with_member(ShardId(u32::MAX), Some("lab")).check().is_err());
    }
}

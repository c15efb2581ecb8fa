// SPDX-License-Identifier: Apache-2.0
//! Fault domains (docs/operations/fault-domains.md).
//!
//! One record of the directory has all of them, and the hosts in them. It is written only where it
//! is what was checked. Placement reads it wherever a copy gets a host; whoever decides about
//! repair has copies leave that are in one domain with another.

use super::{Operations, Outcome, failed, missing, usage};
use crate::care::repair::{has_place, is_too_close};
use crate::cluster::view::host_domains;
use base::{Map, ObjectId, Set, ShardId};
use directory::{
    DOMAIN_DEPTH_MAX, DOMAIN_MEMBERS_MAX, DOMAINS_MAX, DomainsRecord, Expect, FaultDomain,
    domains_key,
};
use operator::{Command, CommandFailure, DomainReport, DomainsReport};

impl Operations {
    /// Carries out what is asked about fault domains.
    pub(super) async fn domain_command(&self, command: Command) -> Outcome<DomainsReport> {
        match command {
            Command::DomainCreate { name, within } => self.create_domain(name, within).await,
            Command::DomainDelete { name } => self.delete_domain(&name).await,
            Command::DomainAssign { hosts, domain, check } => {
                self.assign_domain(&hosts, domain.as_deref(), check).await
            }
            _ => Ok(self.domains_report(&self.view.domains())),
        }
    }

    async fn create_domain(&self, name: String, within: Option<String>) -> Outcome<DomainsReport> {
        check_domain_name(&name)?;
        let (mut record, expect) = self.domains_entry().await?;
        if record.domains.iter().any(|domain| domain.name == name) {
            return Err(failed(format!(
                "there is a fault domain '{name}' already: see 'gabion domain list'"
            )));
        }
        if record.domains.len() >= DOMAINS_MAX {
            return Err(failed(format!(
                "there are {DOMAINS_MAX} fault domains, the most that there can be: delete one"
            )));
        }
        if let Some(outer) = &within {
            self.may_have_inner(&record, outer)?;
        }
        record.domains.push(FaultDomain { name: name.clone(), within });
        self.put_domains(&record, expect, &format!("fault domain '{name}' was created")).await
    }

    /// Whether a domain may be made within `outer`.
    fn may_have_inner(&self, record: &DomainsRecord, outer: &str) -> Outcome<()> {
        let depth = record.path_of(outer).len();
        if depth == 0 {
            return Err(no_such_domain(outer));
        }
        if depth >= DOMAIN_DEPTH_MAX {
            return Err(failed(format!(
                "{outer} is {depth} deep: there are at most {DOMAIN_DEPTH_MAX}, as of a rack in a \
                 room in a building"
            )));
        }
        match self.hosts_in(record, outer).as_slice() {
            [] => Ok(()),
            hosts => Err(failed(format!(
                "{outer} has hosts ({}): a fault domain has either hosts or domains within it; \
                 take them out first ('gabion domain unassign {}')",
                hosts.join(", "),
                hosts.join(" ")
            ))),
        }
    }

    async fn delete_domain(&self, name: &str) -> Outcome<DomainsReport> {
        let (mut record, expect) = self.domains_entry().await?;
        if record.path_of(name).is_empty() {
            return Err(no_such_domain(name));
        }
        let inner = inner_of(&record, name);
        if !inner.is_empty() {
            return Err(failed(format!(
                "there are domains within {name}: delete these first: {}",
                inner.join(", ")
            )));
        }
        let hosts = self.hosts_in(&record, name);
        if !hosts.is_empty() {
            return Err(failed(format!(
                "{} are in {name}: take them out first ('gabion domain unassign {}')",
                hosts.join(", "),
                hosts.join(" ")
            )));
        }
        record.domains.retain(|domain| domain.name != name);
        self.put_domains(&record, expect, &format!("fault domain '{name}' was deleted")).await
    }

    /// Hosts are in a domain from now on, or in none; with `check_only` it is only told what that
    /// would come to.
    async fn assign_domain(
        &self,
        hosts: &[String],
        domain: Option<&str>,
        check_only: bool,
    ) -> Outcome<DomainsReport> {
        let mut members: Set<ShardId> = Set::new();
        for name in hosts {
            for shard in self.members(name)? {
                // A machine is in one place.
                let all = self.view.hosts_of(shard.machine());
                members.extend(all.into_iter().map(|shard| shard.id));
            }
        }
        if members.is_empty() {
            return Err(usage("name the hosts: see 'gabion host list'"));
        }
        let (before, expect) = self.domains_entry().await?;
        if let Some(domain) = domain {
            if before.path_of(domain).is_empty() {
                return Err(no_such_domain(domain));
            }
            let inner = inner_of(&before, domain);
            if !inner.is_empty() {
                return Err(failed(format!(
                    "there are domains within {domain}: name one of them: {}",
                    inner.join(", ")
                )));
            }
        }
        let with = |record: DomainsRecord, shard: &ShardId| record.with_member(*shard, domain);
        let after = members.iter().fold(before.clone(), with);
        if check_only || after == before {
            return Ok(self.domains_report(&after));
        }
        if after.check().is_err() {
            return Err(failed(format!(
                "too many hosts are in fault domains: at most {DOMAIN_MEMBERS_MAX} can be"
            )));
        }
        let what = format!("the fault domain of {} was changed", hosts.join(", "));
        self.put_domains(&after, expect, &what).await
    }

    /// The record as the directory has it now, without hosts that are no members any more.
    async fn domains_entry(&self) -> Outcome<(DomainsRecord, Expect)> {
        let read = self.only_record(&domains_key(), DomainsRecord::decode).await;
        let (mut record, expect) = read?;
        let removed = self.view.removed();
        record.members.retain(|one| !removed.contains(&one.shard));
        Ok((record, expect))
    }

    /// Writes the record, and waits a moment until this host has it.
    async fn put_domains(
        &self,
        record: &DomainsRecord,
        expect: Expect,
        what: &str,
    ) -> Outcome<DomainsReport> {
        let put = self.put_at(domains_key(), expect, record.encode()).await;
        put.map_err(|undecided| match undecided {
            None => failed("somebody else changed the fault domains meanwhile: try again"),
            Some(undecided) => undecided.told(what),
        })?;
        self.until(|| self.view.domains() == *record).await;
        Ok(self.domains_report(record))
    }

    fn hosts_in(&self, record: &DomainsRecord, domain: &str) -> Vec<String> {
        let members = record.members.iter().filter(|member| member.domain == domain);
        members.map(|member| self.view.shard_name(member.shard)).collect()
    }

    fn domains_report(&self, record: &DomainsRecord) -> DomainsReport {
        let mut paths: Vec<_> = record.domains.iter().map(|d| record.path_of(&d.name)).collect();
        paths.sort_unstable();
        let domain = |path: &Vec<String>| {
            let (name, outer) = path.split_last()?;
            Some(DomainReport {
                name: name.clone(),
                within: outer.last().cloned(),
                depth: u64::try_from(outer.len()).unwrap_or(u64::MAX),
                hosts: self.hosts_in(record, name),
            })
        };
        let hosts = self.view.shards().into_iter();
        let without =
            hosts.filter(|shard| record.path(shard.id).is_empty()).map(|shard| shard.name);
        let report = DomainsReport {
            domains: paths.iter().filter_map(domain).collect(),
            without: without.collect(),
            ..DomainsReport::default()
        };
        self.with_close_copies(record, report)
    }

    /// Adds to a report the copies that are in one domain with another copy.
    fn with_close_copies(&self, record: &DomainsRecord, report: DomainsReport) -> DomainsReport {
        let domains = host_domains(record, self.view.machines());
        let is_up = |shard: ShardId| self.view.alive(shard).is_some();
        let takers = self.view.takers(&self.view.maintenance());
        let mut report = report;
        let mut to_move: Map<ObjectId, u64> = Map::new();
        self.view.for_each_object(|object| {
            let components = &object.components;
            let leaving = components.iter().filter(|c| is_too_close(object, c, &domains, is_up));
            for leaving in leaving {
                *to_move.entry(object.id).or_default() += 1;
                let has_place = has_place(object, leaving.shard, &takers, &domains);
                report.without_place += u64::from(!has_place);
            }
        });
        for (object, copies) in &to_move {
            let (held, _) = self.held_bytes(*object);
            report.to_move += copies;
            report.move_bytes = report.move_bytes.saturating_add(held.saturating_mul(*copies));
        }
        let volumes = self.view.volumes().into_iter();
        let volumes =
            volumes.filter(|volume| volume.objects.iter().any(|id| to_move.contains_key(id)));
        report.close_volumes = volumes.map(|volume| volume.name).collect();
        report
    }
}

/// The domains right within another one.
fn inner_of(record: &DomainsRecord, name: &str) -> Vec<String> {
    let inner = record.domains.iter().filter(|domain| domain.within.as_deref() == Some(name));
    inner.map(|domain| domain.name.clone()).collect()
}

fn check_domain_name(name: &str) -> Outcome<()> {
    placement::check_name(name).map_err(|_| {
        usage(format!(
            "'{}' is not a fault domain's name: use 1 to 63 of a-z, 0-9, '.' and '-', starting \
             with a letter or digit",
            name.escape_debug()
        ))
    })
}

fn no_such_domain(name: &str) -> CommandFailure {
    missing(format!("there is no fault domain '{name}': see 'gabion domain list'"))
}

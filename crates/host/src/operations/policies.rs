// SPDX-License-Identifier: Apache-2.0
//! Policies: rules under a name, and the volumes that follow them
//! (docs/operations/policies.md).
//!
//! A volume's record has the rules that are applied to it, and says of which version of which
//! policy they are. An edit changes the policy's record first, and then gives each volume that
//! follows it the new rules, one by one. A volume that was not reached, or that has no room for
//! them, keeps the rules that it had and says so; the same edit again goes on.

use super::volumes::{DECIDE_MAX, Undecided, decide, directory_away, is_at};
use super::{Operations, Outcome, failed, missing, no_such_volume, reply, usage};
use crate::cluster::room::Rooms;
use base::{CHUNK_SIZE, ObjectId, SECTOR_SIZE, format_size};
use directory::{
    Affinity, BANDWIDTH_MAX, BANDWIDTH_MIN, DEFAULT_POLICY, Entry, Expect, IOPS_MAX, IOPS_MIN,
    IoLimits, Level, ObjectRecord, PolicyRecord, Transaction, VOLUME_PREFIX, VolumeRecord,
    policy_key,
};
use operator::{Command, CommandFailure, CommandReply, PolicyRules, RateLimit};
use operator::{
    EffectReport, Follower, NotFollowing, PolicyCheckReport, PolicyEditReport, PolicyReport,
    VolumeReport,
};

/// Policies of one cluster, at most.
const POLICIES_MAX: usize = 1024;
/// Volumes that get new rules at a time.
const VOLUMES_AT_ONCE: usize = 8;
/// Volumes that are named in a refusal.
const NAMED_MAX: usize = 8;

impl Operations {
    /// Carries out what is asked about policies.
    pub(super) async fn policy_command(&self, command: Command) -> CommandReply {
        match command {
            Command::PolicyCreate { name, rules } => reply(self.create_policy(&name, rules).await),
            Command::PolicyEdit { name, rules } => reply(self.edit_policy(&name, rules).await),
            Command::PolicyCheck { name, rules } => reply(self.check_policy(&name, rules)),
            Command::PolicyWhatIf { name, volumes } => reply(self.what_if_policy(&name, &volumes)),
            Command::PolicyDelete { name } => reply(self.delete_policy(&name).await),
            _ => reply(Ok(self.policies())),
        }
    }

    fn policies(&self) -> Vec<PolicyReport> {
        let volumes = self.view.volumes();
        self.view.policies().iter().map(|policy| policy_report(policy, &volumes)).collect()
    }

    async fn create_policy(&self, name: &str, rules: PolicyRules) -> Outcome<PolicyReport> {
        check_policy_name(name)?;
        let policy = PolicyRecord { name: name.to_owned(), ..PolicyRecord::built_in() };
        let policy = with_rules(policy, rules)?;
        self.check_level(&policy)?;
        let is_taken = || {
            failed(format!("there is a policy '{name}' already: 'gabion policy edit' changes it"))
        };
        if name == DEFAULT_POLICY {
            return Err(is_taken());
        }
        if self.view.policies().len() >= POLICIES_MAX {
            return Err(failed(format!(
                "there are {POLICIES_MAX} policies, the most that there can be: delete one"
            )));
        }
        match self.put_policy(&policy, None).await {
            Ok(()) => Ok(policy_report(&policy, &[])),
            Err(None) => Err(is_taken()),
            Err(Some(undecided)) => Err(not_decided(name, undecided)),
        }
    }

    /// Whether all hosts of the cluster know what a policy says.
    fn check_level(&self, policy: &PolicyRecord) -> Outcome<()> {
        self.check_cache(policy.cache_percent)?;
        match policy.affinity {
            Affinity::Host => self.need(Level::AFFINITY, "the affinity of policies"),
            Affinity::None => Ok(()),
        }
    }

    /// Changes a policy, and gives its rules to all that follow it.
    async fn edit_policy(&self, name: &str, rules: PolicyRules) -> Outcome<PolicyEditReport> {
        let (before, revision) = self.policy_entry(name).await?;
        let mut policy = with_rules(before.clone(), rules)?;
        self.check_level(&policy)?;
        if policy.ftt > before.ftt && !policy.force {
            let hosts = self.are_hosts_enough(policy.ftt);
            hosts.map_err(|why| failed(format!("policy '{name}' was not changed: {why}")))?;
        }
        if policy != before {
            policy.version += 1;
            self.put_policy(&policy, revision).await.map_err(|undecided| match undecided {
                Some(undecided) => not_decided(name, undecided),
                None => failed(format!(
                    "policy '{name}' was not changed: somebody else changed it meanwhile; try again"
                )),
            })?;
        }
        let followers = self.followers(name).await?;
        let behind = followers.iter().filter(|volume| !has_rules_of(volume, &policy));
        let behind: Vec<&str> = behind.map(|volume| volume.name.as_str()).collect();
        let one = async |name: &str| {
            let applied = self.apply(name, &policy, true).await;
            Ok::<_, ()>((name.to_owned(), applied.err().map(|failure| failure.message)))
        };
        let all = env::try_join_at_most(VOLUMES_AT_ONCE, behind.into_iter().map(one)).await;
        let (mut changed, mut refused) = (Vec::new(), Vec::new());
        for (volume, why) in all.unwrap_or_default() {
            match why {
                None => changed.push(volume),
                Some(why) => refused.push(NotFollowing { volume, why }),
            }
        }
        let followers = self.followers(name).await.unwrap_or(followers);
        Ok(PolicyEditReport { policy: policy_report(&policy, &followers), changed, refused })
    }

    /// What an edit would come to.
    fn check_policy(&self, name: &str, rules: PolicyRules) -> Outcome<PolicyCheckReport> {
        check_policy_name(name)?;
        let before = self.view.policy(name).ok_or_else(|| no_such_policy(name))?;
        let mut policy = with_rules(before.clone(), rules)?;
        policy.version += u64::from(policy != before);
        let volumes = self.view.volumes();
        Ok(self.checked(&policy, volumes.iter().filter(|volume| follows(volume, name))))
    }

    /// What would be if volumes followed a policy; if none is named, all.
    fn what_if_policy(&self, name: &str, named: &[String]) -> Outcome<PolicyCheckReport> {
        check_policy_name(name)?;
        let policy = self.view.policy(name).ok_or_else(|| no_such_policy(name))?;
        if named.is_empty() {
            let mut volumes = self.view.volumes();
            volumes.retain(|volume| volume.trashed.is_none());
            return Ok(self.checked(&policy, volumes.iter()));
        }
        let volume = |name: &String| {
            placement::check_name(name).map_err(usage)?;
            self.view.volume(name).ok_or_else(|| no_such_volume(name))
        };
        let volumes: Vec<VolumeRecord> = named.iter().map(volume).collect::<Outcome<_>>()?;
        Ok(self.checked(&policy, volumes.iter()))
    }

    /// What a policy comes to for volumes that follow it, or would.
    fn checked<'a>(
        &self,
        policy: &PolicyRecord,
        volumes: impl Iterator<Item = &'a VolumeRecord>,
    ) -> PolicyCheckReport {
        PolicyCheckReport {
            impossible: self.are_hosts_enough(policy.ftt).err(),
            policy: policy_report(policy, &self.view.volumes()),
            effects: volumes.filter_map(|volume| self.effect(volume, policy)).collect(),
            room_bytes: Rooms::of(&self.view).bytes(),
        }
    }

    /// What a policy's rules change for a volume; `None`: nothing.
    fn effect(&self, volume: &VolumeRecord, policy: &PolicyRecord) -> Option<EffectReport> {
        let more = i64::from(policy.ftt) - i64::from(volume.ftt);
        let percent = policy.reserve_percent.saturating_sub(volume.reserve_percent);
        let (mut bytes, mut at_most) = (0u64, false);
        let home = self.home_by(policy, volume).map(|host| self.view.shards_of(&host));
        let is_elsewhere =
            |object: &ObjectRecord| home.as_ref().is_some_and(|home| !is_at(object, home));
        let mut moved = 0u64;
        for object in &volume.objects {
            let (held, is_upper) = self.held_bytes(*object);
            bytes = bytes.saturating_add(held);
            at_most |= is_upper;
            if self.view.object(*object).as_ref().is_some_and(is_elsewhere) {
                moved = moved.saturating_add(held);
            }
        }
        let times = |copies: i64| bytes.saturating_mul(u64::try_from(copies).unwrap_or(0));
        let part = |percent| base::percent_of(volume.size_bytes, percent);
        let effect = EffectReport {
            volume: volume.name.clone(),
            copied_bytes: times(more).saturating_add(moved),
            freed_bytes: times(-more).saturating_add(moved),
            reserved_bytes: part(percent),
            cached_bytes: part(policy.cache_percent.saturating_sub(volume.cache_percent)),
            at_most: at_most && (more != 0 || moved > 0),
        };
        let kept = effect.reserved_bytes.max(effect.cached_bytes);
        [effect.copied_bytes, effect.freed_bytes, kept]
            .iter()
            .any(|bytes| *bytes > 0)
            .then_some(effect)
    }

    /// Bytes that a copy of an object takes, and whether that is only what it may take at most:
    /// this host has none.
    pub(super) fn held_bytes(&self, object: ObjectId) -> (u64, bool) {
        let Some(record) = self.view.object(object) else { return (0, true) };
        let mine = record.components.iter().filter(|component| component.shard == self.me);
        let held = mine.filter_map(|component| {
            let info = self.storage.holding(component.id)?.component(component.id)?;
            Some(u64::from(info.held) * CHUNK_SIZE)
        });
        let most = record.sectors.saturating_mul(SECTOR_SIZE);
        held.max().map_or((most, true), |held| (held.min(most), false))
    }

    async fn delete_policy(&self, name: &str) -> Outcome<PolicyReport> {
        if name == DEFAULT_POLICY {
            return Err(usage("every cluster has the policy 'default': it is not deleted"));
        }
        let (policy, revision) = self.policy_entry(name).await?;
        let followers = self.followers(name).await?;
        if !followers.is_empty() {
            let named = followers.iter().take(NAMED_MAX).map(|volume| volume.name.as_str());
            let named = named.collect::<Vec<_>>().join(", ");
            let more = match followers.len().saturating_sub(NAMED_MAX) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            return Err(failed(format!(
                "policy '{name}' is followed by {named}{more}: give them another one first \
                 ('gabion volume set-policy')"
            )));
        }
        let key = policy_key(name);
        let expect = revision.map_or(Expect::Absent, Expect::Revision);
        let deletion = Transaction::new().expect(key.clone(), expect).delete(key.clone());
        let until = self.env.now() + DECIDE_MAX;
        let landed = |entry: Option<&Entry>| entry.is_none();
        match decide(&self.env, &self.directory, &deletion, &key, landed, until).await {
            Ok(true) => Ok(policy_report(&policy, &[])),
            Ok(false) => Err(failed(format!(
                "policy '{name}' was not deleted: somebody changed it meanwhile; try again"
            ))),
            Err(undecided) => Err(not_decided(name, undecided)),
        }
    }

    /// Has a volume follow a policy, or none.
    pub(super) async fn set_policy(
        &self,
        volume: &str,
        policy: Option<&str>,
    ) -> Outcome<VolumeReport> {
        placement::check_name(volume).map_err(usage)?;
        if let Some(policy) = policy {
            let (policy, _) = self.policy_entry(policy).await?;
            return self.apply(volume, &policy, false).await;
        }
        let (before, revision) = self.volume_entry(volume).await?;
        let record = VolumeRecord { policy: None, ..before.clone() };
        self.put_changed(&before, &record, revision).await?;
        self.until_seen(&record, |now| now.policy.is_none()).await;
        Ok(self.report(&record))
    }

    /// Gives a volume the rules of a policy; only where it follows that policy, if `is_edit`.
    async fn apply(
        &self,
        volume: &str,
        policy: &PolicyRecord,
        is_edit: bool,
    ) -> Outcome<VolumeReport> {
        let (before, revision) = self.volume_entry(volume).await?;
        let is_overtaken = |volume: &VolumeRecord| {
            volume.policy.as_ref().is_none_or(|followed| {
                followed.name != policy.name || followed.version > policy.version
            })
        };
        if is_edit && is_overtaken(&before) {
            return Ok(self.report(&before)); // Somebody gave it other rules just now.
        }
        placement::check_ftt(policy.ftt).map_err(usage)?;
        if policy.ftt > before.ftt && !policy.force {
            let hosts = self.are_hosts_enough(policy.ftt);
            hosts.map_err(|why| failed(format!("volume '{volume}' was not changed: {why}")))?;
        }
        let record = VolumeRecord {
            ftt: policy.ftt,
            reserve_percent: policy.reserve_percent,
            cache_percent: policy.cache_percent,
            stripe_width: policy.stripe_width,
            kept_on: self.home_by(policy, &before),
            policy: Some(policy.followed()),
            ..before.clone()
        };
        if record.reserve_percent == 0 && before.reserve_percent == 0 {
            let record = self.put_changed(&before, &record, revision).await?;
            self.until_seen(&record, |now| *now == record).await;
            return Ok(self.report(&record));
        }
        self.change_to(&before, revision, record).await
    }

    /// A policy as the directory has it now, and the revision of its record; without one it is the
    /// built-in one that nobody changed.
    pub(super) async fn policy_entry(&self, name: &str) -> Outcome<(PolicyRecord, Option<u64>)> {
        check_policy_name(name)?;
        let entry = self.directory.get(&policy_key(name)).await.map_err(directory_away)?;
        match entry {
            Some(entry) => match PolicyRecord::decode(&entry.value) {
                Ok(policy) => Ok((policy, Some(entry.revision))),
                Err(error) => {
                    Err(failed(format!("the record of policy '{name}' is damaged: {error}")))
                }
            },
            None if name == DEFAULT_POLICY => Ok((PolicyRecord::built_in(), None)),
            None => Err(no_such_policy(name)),
        }
    }

    /// The volumes that follow a policy, as the directory has them now.
    async fn followers(&self, name: &str) -> Outcome<Vec<VolumeRecord>> {
        let listed = self.directory.list(VOLUME_PREFIX).await.map_err(directory_away)?;
        let records = listed.entries.iter().map(|(key, entry)| {
            VolumeRecord::decode(&entry.value)
                .map_err(|error| failed(format!("the record at '{key}' is damaged: {error}")))
        });
        let records: Vec<VolumeRecord> = records.collect::<Outcome<_>>()?;
        Ok(records.into_iter().filter(|volume| follows(volume, name)).collect())
    }

    /// Puts a policy's record in the place of that of `revision`, or where there is none.
    async fn put_policy(
        &self,
        policy: &PolicyRecord,
        revision: Option<u64>,
    ) -> Result<(), Option<Undecided>> {
        let expect = revision.map_or(Expect::Absent, Expect::Revision);
        self.put_at(policy_key(&policy.name), expect, policy.encode()).await
    }
}

fn follows(volume: &VolumeRecord, policy: &str) -> bool {
    volume.policy.as_ref().is_some_and(|followed| followed.name == policy)
}

/// Whether a volume has exactly the rules of a policy, in its newest version.
fn has_rules_of(volume: &VolumeRecord, policy: &PolicyRecord) -> bool {
    volume.policy == Some(policy.followed())
        && (volume.ftt, volume.reserve_percent) == (policy.ftt, policy.reserve_percent)
        && volume.cache_percent == policy.cache_percent
        && volume.stripe_width == policy.stripe_width
        && volume.kept_on.is_some() == (policy.affinity == Affinity::Host)
}

/// A policy with some of its rules changed.
fn with_rules(policy: PolicyRecord, rules: PolicyRules) -> Outcome<PolicyRecord> {
    let policy = PolicyRecord {
        ftt: rules.ftt.unwrap_or(policy.ftt),
        reserve_percent: rules.reserve_percent.unwrap_or(policy.reserve_percent),
        cache_percent: rules.cache_percent.unwrap_or(policy.cache_percent),
        stripe_width: rules.stripe_width.unwrap_or(policy.stripe_width),
        affinity: rules.affinity.unwrap_or(policy.affinity),
        force: rules.force.unwrap_or(policy.force),
        repair_delay: rules.repair_delay.unwrap_or(policy.repair_delay),
        limits: IoLimits {
            iops: rules.iops.map_or(policy.limits.iops, RateLimit::limit),
            bytes_per_second: rules
                .bytes_per_second
                .map_or(policy.limits.bytes_per_second, RateLimit::limit),
        },
        ..policy
    };
    placement::check_ftt(policy.ftt).map_err(usage)?;
    placement::check_stripe_width(policy.stripe_width).map_err(usage)?;
    if policy.affinity == Affinity::Host && policy.ftt > 0 {
        return Err(usage(
            "--affinity host keeps all of a volume on one host, which has one copy of it: choose \
             --ftt 0 with it, or --affinity none",
        ));
    }
    if policy.limits.check().is_err() {
        let (iops, bytes) = ([IOPS_MIN, IOPS_MAX], [BANDWIDTH_MIN, BANDWIDTH_MAX].map(format_size));
        return Err(usage(format!(
            "--iops is from {} to {}, --bandwidth from {} to {} a second, or none: no limit",
            iops[0], iops[1], bytes[0], bytes[1]
        )));
    }
    policy.check().map_err(usage)?;
    Ok(policy)
}

fn policy_report(policy: &PolicyRecord, volumes: &[VolumeRecord]) -> PolicyReport {
    let followers = volumes.iter().filter_map(|volume| {
        let followed = volume.policy.as_ref().filter(|followed| followed.name == policy.name)?;
        Some(Follower { name: volume.name.clone(), version: followed.version })
    });
    PolicyReport {
        name: policy.name.clone(),
        version: policy.version,
        ftt: policy.ftt,
        reserve_percent: policy.reserve_percent,
        cache_percent: policy.cache_percent,
        stripe_width: policy.stripe_width,
        affinity: policy.affinity,
        force: policy.force,
        repair_delay: policy.repair_delay,
        limits: policy.limits,
        volumes: followers.collect(),
    }
}

fn check_policy_name(name: &str) -> Outcome<()> {
    placement::check_name(name).map_err(|_| {
        usage(format!(
            "'{}' is not a policy's name: use 1 to 63 of a-z, 0-9, '.' and '-', starting with a \
             letter or digit",
            name.escape_debug()
        ))
    })
}

fn no_such_policy(name: &str) -> CommandFailure {
    missing(format!("there is no policy '{name}': see 'gabion policy list'"))
}

fn not_decided(name: &str, undecided: Undecided) -> CommandFailure {
    undecided.told(&format!("policy '{name}' was changed"))
}

// SPDX-License-Identifier: Apache-2.0
//! The story of a directory that is set back to an earlier backup, or lost. After that the run does
//! what the operator's guide says (`docs/operations/directory.md`), but never uses `--force`.

use crate::campaign::{SeedRun, Violation};
use crate::fault::Fault;
use crate::plan::VolumePlan;
use crate::script::Roles;
use directory::VolumeRecord;
use operator::{Command, CommandReply, OrphanReport};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// How often an operator's command is tried while the directory does not answer.
const TRIES: u32 = 60;
/// The time between two losses of the directory. `recover` numbers new runs of hosts by the clock,
/// and each restore makes these numbers leap by less than three days. So the clock must go further
/// than all leaps.
const BETWEEN_LOSSES_SECONDS: i64 = 400 * 86_400;
/// After so many refused adoptions the run ends, because an operator would have to decide. By then
/// every host has said what it holds.
const REFUSED_MAX: u32 = 40;
/// After so many rounds of adoptions every host has said what it holds, also of what nobody used.
const TOLD_ROUNDS: u32 = 16;

impl SeedRun {
    /// Takes a backup, makes changes that the backup does not have, and sets the directory back to
    /// it, or loses the directory. Then volumes are adopted.
    pub(crate) fn old_backup(&mut self, roles: &Roles) -> Result<(), Violation> {
        let Some(file) = self.take_backup()? else { return Ok(()) };
        self.come_and_go(roles)?;
        self.decisive();
        // Hosts go down, beside those that are down by now: all, or one, or none.
        match self.one_of(3) {
            0 => (0..self.cluster.machines.len()).for_each(|at| self.take_down_somehow(at)),
            1 => {
                let host = self.any_host();
                self.take_down_somehow(host);
            }
            _ => {}
        }
        self.cluster.world.heal_all();
        self.may_go_back();
        let is_lost = self.one_of(3) == 0;
        self.faults.add(if is_lost { Fault::LostDirectory } else { Fault::OldBackup });
        // A lost directory is begun anew, or a backup is restored into it, or both.
        let ways = if is_lost { self.one_of(3) } else { 2 };
        if is_lost {
            self.lose_directory(ways != 2)?;
        }
        if ways > 0 {
            self.restore(&file)?;
        }
        self.pass(0, 20_000)?;
        // Hosts die and come back in any order, while no record is believed yet.
        for _ in 0..self.one_of(4) {
            let host = self.any_host();
            self.take_down_somehow(host);
            self.pass(0, 3000)?;
            let host = self.any_host();
            self.boot_if_down(host);
            self.pass(0, 9000)?;
        }
        let is_loaded = self.shared.iter().any(|shared| shared.is_open.get());
        self.shared.iter().for_each(|shared| shared.is_open.set(false));
        self.heal();
        self.adopt_all(|run| run.is_accounted_for())?;
        self.shared.iter().for_each(|shared| shared.is_open.set(is_loaded));
        Ok(())
    }

    /// Makes owners and active copies change, so that an older backup or snapshot is out of date.
    pub(crate) fn come_and_go(&mut self, roles: &Roles) -> Result<(), Violation> {
        for _ in 0..1 + self.one_of(4) {
            match self.one_of(4) {
                0 => self.take_down_somehow(roles.owner),
                1 => self.isolate(roles.replica),
                _ => self.take_down_somehow(roles.replica),
            }
            self.pass(0, 12_000)?;
            if self.one_of(2) == 0 {
                self.cluster.world.heal_all();
                self.boot_if_down(roles.owner);
                self.boot_if_down(roles.replica);
                self.pass(0, 12_000)?;
            }
        }
        Ok(())
    }

    /// Takes a backup, as `gabion directory backup` does. `None` if the directory does not answer.
    fn take_backup(&mut self) -> Result<Option<Vec<u8>>, Violation> {
        for _ in 0..TRIES {
            let taken = self.operate(async |env| {
                let directory = crate::cluster::directory_address();
                host::backup(&env, directory, crate::cluster::CLUSTER).await.ok()
            });
            if let Some(file) = taken {
                return Ok(Some(file));
            }
            self.pass(500, 1500)?;
        }
        Ok(None)
    }

    /// Restores a backup, as `gabion directory restore --replace` does, until it is done.
    fn restore(&mut self, file: &[u8]) -> Result<(), Violation> {
        for _ in 0..TRIES {
            let file = file.to_vec();
            let done = self.operate(async move |env| {
                let directory = crate::cluster::directory_address();
                let cluster = crate::cluster::CLUSTER;
                host::restore(&env, directory, cluster, &file, true).await.ok()
            });
            if done.is_some() {
                return Ok(());
            }
            self.pass(500, 1500)?;
        }
        Err(Violation::Stuck("the backup cannot be restored".to_owned()))
    }

    /// Makes the directory lose its content. If `is_begun`, it is then begun anew, as `gabion
    /// cluster recover` does.
    fn lose_directory(&mut self, is_begun: bool) -> Result<(), Violation> {
        // `recover` numbers new runs by the clock. The numbers of an earlier restore are days ahead
        // of the clock, so set the clock further.
        self.cluster.world.wall_jump(self.cluster.directory, BETWEEN_LOSSES_SECONDS);
        self.cluster.world.kill(self.cluster.directory);
        self.cluster.records.go_back(directory::store::Snapshot::default());
        self.pass(0, 3000)?;
        self.cluster.boot_empty_directory();
        if !is_begun {
            return Ok(());
        }
        let kind = self.plan.kind;
        for _ in 0..TRIES {
            let done = self.operate(async move |env| {
                let directory = crate::cluster::directory_address();
                host::recover(&env, directory, crate::cluster::CLUSTER, kind).await.ok()
            });
            if done.is_some() {
                return Ok(());
            }
            self.pass(500, 1500)?;
        }
        Err(Violation::Stuck("the directory cannot be begun anew".to_owned()))
    }

    /// Runs an operator's command on the directory's machine.
    fn operate<T: 'static, F>(&self, work: impl FnOnce(env::Env) -> F) -> Option<T>
    where
        F: Future<Output = Option<T>> + 'static,
    {
        let env = self.cluster.world.env(self.cluster.directory)?;
        let outcome = Rc::new(RefCell::new(None));
        let (place, work) = (Rc::clone(&outcome), work(env.clone()));
        let task = env.spawn("operator", async move {
            let done = work.await;
            *place.borrow_mut() = Some(done);
        });
        self.cluster.world.run_until(Duration::from_secs(30), || outcome.borrow().is_some());
        drop(task);
        let done = outcome.borrow_mut().take();
        done.flatten()
    }

    /// Waits for all hosts, then adopts what the directory does not account for, until `is_done`.
    /// If only an operator could decide, the run ends.
    pub(crate) fn adopt_all(&mut self, is_done: impl Fn(&Self) -> bool) -> Result<(), Violation> {
        self.wait("all hosts ready after the restore", |run| run.all_ready())?;
        let (mut refused, mut rounds) = (0, 0);
        let mut reason = String::new();
        self.wait("everything adopted", |run| {
            if is_done(run) {
                return true;
            }
            rounds += 1;
            let Some(list) = run.orphans() else { return false };
            let names: base::Set<String> = list.into_iter().filter_map(|o| o.volume).collect();
            for volume in names {
                let command = Command::OrphanAdopt { volume, name: None, force: false };
                match run.ask(0, command) {
                    Some(CommandReply::Error(failure)) if failure.message.contains("--force") => {
                        tracing::info!(message = failure.message, "refused");
                        (refused, reason) = (refused + 1, failure.message);
                    }
                    other => tracing::info!(?other, "adopted or not"),
                }
            }
            if rounds >= TOLD_ROUNDS {
                run.grow_again();
            }
            run.cluster.world.run_for(Duration::from_secs(10));
            refused >= REFUSED_MAX
        })?;
        if refused >= REFUSED_MAX {
            base::hit(base::Probe::AdoptionRefused);
            tracing::info!(reason, "only an operator's word can decide");
            self.is_over = true;
        }
        Ok(())
    }

    /// Volumes that came back smaller than they were are made as large again. A host that was cut
    /// off when a volume grew has not said on disk that its component is a part of it. If such a
    /// part ever held anything, its clients read zeros now, and the oracle knows.
    fn grow_again(&mut self) {
        for name in (0..self.plan.volumes.len()).map(VolumePlan::name) {
            let now = self.cluster.records.value(&directory::volume_key(&name));
            let now = now.and_then(|value| VolumeRecord::decode(&value).ok());
            let (Some(now), Some(known)) = (now, self.cluster.records.volume(&name)) else {
                continue;
            };
            let size_bytes = known.size_bytes;
            if now.size_bytes < size_bytes {
                let host = self.any_host();
                let done = self.is_done(host, Command::VolumeGrow { name, size_bytes });
                base::hit_if(done, base::Probe::VolumeGrownAgain);
            }
        }
    }

    /// What was taken out of a record before the directory was set back, and found again only after
    /// the record was made anew: the operator has it deleted.
    pub(crate) fn delete_what_is_left(&mut self) {
        if !self.log.went_back() || !self.is_accounted_for() {
            return;
        }
        let left = self.orphans().unwrap_or_default().into_iter();
        // One that says nothing of itself is named by its object.
        let name = |orphan: OrphanReport| orphan.volume.unwrap_or(orphan.object);
        let names: base::Set<String> = left.map(name).collect();
        for volume in names {
            let deleted = self.ask(0, Command::OrphanDelete { volume });
            tracing::info!(?deleted, "what is left");
        }
    }

    /// The components that the directory does not account for, as hosts report them. `None` if the
    /// first host does not answer.
    pub(crate) fn orphans(&self) -> Option<Vec<OrphanReport>> {
        let Some(CommandReply::Ok(list)) = self.ask(0, Command::OrphanList) else { return None };
        Some(serde_json::from_value(list).unwrap_or_default())
    }

    /// Whether every volume has a record that is not in doubt.
    pub(crate) fn is_accounted_for(&self) -> bool {
        let names = (0..self.plan.volumes.len()).map(VolumePlan::name);
        let mut objects = names.flat_map(|name| self.cluster.records.all_objects(&name));
        objects.all(|object| object.is_some_and(|object| !object.is_doubted))
    }
}

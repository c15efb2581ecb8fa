// SPDX-License-Identifier: Apache-2.0
//! Checks what must be true of every component at any moment, and of a cluster at rest.

use crate::cluster::Cluster;
use base::{ComponentId, GroupId, Incarnation, Lsn, Map};
use directory::{ComponentRecord, ComponentState};
use std::cell::RefCell;
use std::time::Duration;

/// The wait after the last operation, before the cluster counts as at rest. In all plans an idle
/// group begins to destage within this time.
pub const SETTLE: Duration = Duration::from_secs(3);
/// The most tasks that an idle host may have: so many of its own, and more per peer and per object.
const TASKS: usize = 40;
const TASKS_PER_PEER: usize = 8;
const TASKS_PER_OBJECT: usize = 24;

/// Numbers of a component that may never fall (docs/protocol.md#asserted-at-run-time).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    term: u32,
    seat: u32,
    version: u64,
    durable: Lsn,
    /// W. It may fall when the group is opened anew.
    destaged: Lsn,
    commit: Lsn,
}

/// Names one opening of a component's group: the number of the host's start, and the group's
/// incarnation. From one opening to the next a component may forget what was not durable.
type Opening = (u64, Incarnation);

/// What was seen of a component, on which group, and in which opening of it.
struct Marked {
    group: GroupId,
    opening: Opening,
    mark: Mark,
}

/// What the checks saw last, to compare with what they see next.
pub struct Baseline {
    marks: RefCell<Map<(usize, ComponentId), Marked>>,
    /// For each host: whether its devices were damaged on purpose. Its components may fall back.
    is_damaged: RefCell<Vec<bool>>,
}

impl Baseline {
    pub fn new(hosts: usize) -> Self {
        Self { marks: RefCell::default(), is_damaged: RefCell::new(vec![false; hosts]) }
    }

    /// Stops checking the components of this host: its devices may have forgotten what they had.
    pub fn excuse(&self, host: usize) {
        self.is_damaged.borrow_mut()[host] = true;
        self.marks.borrow_mut().retain(|(index, _), _| *index != host);
    }

    /// Whether this host was excused.
    #[must_use]
    pub fn is_excused(&self, host: usize) -> bool {
        self.is_damaged.borrow()[host]
    }

    /// Checks that nothing has fallen at any component.
    ///
    /// # Errors
    /// A text that says what has fallen, and where.
    pub fn watch(&self, cluster: &Cluster) -> Result<(), String> {
        let mut marks = self.marks.borrow_mut();
        for index in 0..cluster.machines.len() {
            let Some(node) = cluster.node(index) else { continue };
            check_memory(&node).map_err(|what| format!("host{}: {what}", index + 1))?;
            if self.is_damaged.borrow()[index] {
                continue;
            }
            let groups = node.groups();
            // One that was deleted and is made anew, as a directory that was set back has it, is
            // another one.
            marks.retain(|(host, id), marked| {
                let group = groups.iter().find(|group| group.id() == marked.group);
                *host != index || group.is_none_or(|group| group.component(*id).is_some())
            });
            for group in groups {
                let run = (cluster.boots(index), group.recovery().incarnation);
                for id in group.components() {
                    let Some(info) = group.component(id) else { continue };
                    let now = Mark {
                        term: info.meta.term.0,
                        seat: info.meta.seat.0,
                        version: info.meta.version.0,
                        durable: info.durable,
                        destaged: info.destaged,
                        commit: info.commit,
                    };
                    let marked = Marked { group: group.id(), opening: run, mark: now };
                    if let Some(Marked { opening, mark: last, .. }) =
                        marks.insert((index, id), marked)
                        && let Some(what) = fallen(&last, &now, opening == run, info.partial)
                    {
                        let host = index + 1;
                        return Err(format!("{what} of {id} on host{host}: {last:?}, now {now:?}"));
                    }
                }
            }
        }
        Ok(())
    }

    /// Checks that a cluster at rest keeps nothing that nobody needs.
    ///
    /// # Errors
    /// A text that names what is left and should not be.
    pub fn check(&self, cluster: &Cluster) -> Result<(), String> {
        let hosts = cluster.machines.len();
        for index in 0..hosts {
            let key = cluster.machines[index].key;
            let (Some(env), Some(node)) = (cluster.world.env(key), cluster.node(index)) else {
                continue;
            };
            let groups = node.groups();
            for group in groups.iter().filter(|group| group.status().fenced.is_none()) {
                let audit = group.audit().map_err(|what| format!("host{}: {what}", index + 1))?;
                if (audit.pending, audit.pins) != (0, 0) {
                    return Err(format!("host{} is at rest with {audit:?}", index + 1));
                }
            }
            check_groups(&node).map_err(|what| format!("host{}: {what}", index + 1))?;
            let objects = node.objects().records().len();
            let most = TASKS + TASKS_PER_PEER * hosts + TASKS_PER_OBJECT * objects;
            let tasks = env.task_names();
            if tasks.len() > most {
                let mut by_name: Map<&str, usize> = Map::new();
                tasks.iter().for_each(|name| *by_name.entry(name).or_default() += 1);
                return Err(format!(
                    "host{} has {} tasks at rest, at most {most}: {by_name:?}",
                    index + 1,
                    tasks.len()
                ));
            }
        }
        Ok(())
    }
}

/// Checks that disk groups hold no more than the host gives them, and never did.
fn check_memory(node: &host::Node) -> Result<(), String> {
    let memory = node.store_memory();
    let (budget, held, most) = memory.checksums();
    if held.max(most) > budget {
        return Err(format!("{held} bytes of checksum pages, at most {most}, of {budget}"));
    }
    let (needed, tables) = (memory.needed().sum(), memory.table_bytes());
    if needed > tables {
        return Err(format!("disk groups need {needed} bytes for tables, of {tables}"));
    }
    Ok(())
}

/// Checks that each active component on this host is on the disk group that its record names. Only
/// the records of objects with an owner are checked.
fn check_groups(node: &host::Node) -> Result<(), String> {
    for group in node.groups() {
        for id in group.components() {
            let Some(info) = group.component(id) else { continue };
            let records = node.objects().records().into_iter();
            let record = records.into_iter().find(|record| record.id == info.object);
            let Some(record) = record.filter(|record| record.owner.is_some()) else { continue };
            let listed = record.components.iter().find(|component| component.id == id);
            let is_active = |c: &&ComponentRecord| c.state == ComponentState::Active;
            if let Some(listed) = listed.filter(is_active)
                && listed.group != group.id()
            {
                let (says, is) = (listed.group, group.id());
                return Err(format!("{id} is on disk group {is}, its record says {says}"));
            }
        }
    }
    Ok(())
}

/// Names what has fallen, if anything. A component may come back partial: it says itself that it
/// lost data that its group dropped. Then its durable lsn may fall.
fn fallen(last: &Mark, now: &Mark, same_run: bool, is_partial: bool) -> Option<&'static str> {
    match () {
        () if now.term < last.term => Some("the term"),
        () if now.seat < last.seat => Some("the seat"),
        () if now.version < last.version => Some("the version seen"),
        () if now.durable < last.durable && (same_run || !is_partial) => Some("the durable lsn"),
        () if same_run && now.destaged < last.destaged => Some("the destaged watermark"),
        () if same_run && now.commit < last.commit => Some("the commit lsn"),
        () => None,
    }
}

// SPDX-License-Identifier: Apache-2.0
//! Hosts are filled alike: copies move from the fullest host to emptier ones, one at a time, while
//! volumes are in use (docs/operations/balance.md). So a new host is used without a command.
//!
//! Each host looks for itself, for it alone knows how much its components take. It begins a move
//! only while all copies of the cluster are where they are to be: repairs, what operators move, and
//! what another host gives away come first, and mostly one copy moves at a time. The fullest host
//! comes first, the next one a while later. The move itself is the owner's work (rules 38-40).
//! Nothing that is begun here has to be finished here.

mod choice;

use crate::cluster::room::{Rooms, Standing};
use crate::cluster::view::View;
use crate::storage::Storage;
use base::{CHUNK_SIZE, ComponentId, Instant, Map, ObjectId, ShardId};
pub use choice::BalanceOptions;
use choice::{Fill, Movable, choose, least_difference, rank};
use directory::{ComponentState, Directory, ObjectRecord};
use diskgroup::DeviceRole;
use env::Env;
use object::{MemberChange, Objects};
use std::time::Duration;
use tracing::{info, warn};

/// How long a move that was begun may wait for its host, or for the copy to begin.
const PATIENCE: Duration = Duration::from_secs(600);

/// See the module.
pub(crate) struct Balance {
    pub(crate) env: Env,
    pub(crate) me: ShardId,
    pub(crate) directory: Directory,
    pub(crate) objects: Objects,
    pub(crate) storage: Storage,
    pub(crate) view: View,
    pub(crate) options: BalanceOptions,
}

/// A copy that this host gives away.
struct Moving {
    object: ObjectId,
    old: ComponentId,
    /// Since when it gets nowhere.
    idle_since: Option<Instant>,
}

/// What is remembered from look to look.
#[derive(Default)]
struct State {
    has_begun: bool,
    moving: Option<Moving>,
    /// Nothing is begun before.
    rests_until: Instant,
    /// Since when every copy is where it is to be.
    calm_since: Option<Instant>,
    /// The view's turn at which that was so.
    calm_at: Option<u64>,
    /// What was given to hosts since they told what they have free: that figure, and the bytes.
    given: Map<ShardId, (u64, u64)>,
}

impl Balance {
    /// Runs for ever.
    pub(crate) async fn run(self) {
        let mut state = State::default();
        loop {
            self.env.sleep(self.options.round).await;
            if !self.directory.is_connected() || !self.view.is_complete() {
                continue;
            }
            self.follow(&mut state).await;
            if !self.is_calm(&mut state) {
                state.calm_since = None;
                continue;
            }
            let calm_since = *state.calm_since.get_or_insert(self.env.now());
            let may_begin = state.moving.is_none() && self.env.now() >= state.rests_until;
            let is_wanted =
                self.view.settings().rebalances && self.view.maintenance().mode(self.me).is_none();
            if may_begin && is_wanted {
                self.begin(&mut state, calm_since).await;
            }
        }
    }

    /// Looks what became of the move that was begun.
    async fn follow(&self, state: &mut State) {
        let Some(moving) = &mut state.moving else { return };
        let record = self.view.object(moving.object);
        let new = record.as_ref().and_then(|record| {
            record.components.iter().find(|one| one.replaces == Some(moving.old))
        });
        let Some(new) = new else {
            state.moving = None;
            state.rests_until = self.env.now() + self.options.settle;
            return;
        };
        let is_at_work =
            new.state == ComponentState::Resyncing && self.view.alive(new.shard).is_some();
        let since = *moving.idle_since.get_or_insert(self.env.now());
        if is_at_work {
            moving.idle_since = None;
        } else if self.env.now().since(since) >= PATIENCE {
            let (object, old) = (moving.object, moving.old);
            warn!(%object, %old, host = %new.shard, "a move to fill hosts alike is called off");
            // If that fails too an operator sees the move, and can end it.
            let _ = self.objects.change_members(object, MemberChange::Keep(old)).await;
            state.moving = None;
            state.rests_until = self.env.now() + PATIENCE;
        }
    }

    /// Whether every copy of every volume is where it is to be, as far as records say.
    fn is_calm(&self, state: &mut State) -> bool {
        let turn = self.view.turn();
        let mut is_calm = true;
        if state.calm_at != Some(turn) {
            self.view.for_each_object(|record| is_calm &= is_settled(record));
            state.calm_at = is_calm.then_some(turn);
        }
        is_calm
    }

    async fn begin(&self, state: &mut State, calm_since: Instant) {
        let (mine, others) = self.fills(&mut state.given);
        let turn = self.options.settle.saturating_mul(rank(mine, &others));
        if self.env.now().since(calm_since) < turn {
            return; // fuller hosts come first
        }
        let least = least_difference(mine, state.has_begun, &self.options);
        let is_above = |fill: &Fill| mine.share() > fill.share().saturating_add(least);
        let chosen = others.iter().any(is_above).then(|| {
            let movable = self.movable(&others);
            choose(mine, &others, movable, least)
        });
        state.has_begun = chosen.as_ref().is_some_and(Option::is_some);
        let Some((one, to)) = chosen.flatten() else { return };
        let Movable { object, component: old, members, bytes, .. } = one;
        let change = MemberChange::Replace { old, to, members };
        match self.objects.change_members(object, change).await {
            Ok(()) => {
                base::hit(base::Probe::Rebalanced);
                let share = mine.share();
                info!(%object, %old, host = %to, bytes, share, "moves, to fill hosts alike");
                let given = state.given.entry(to).or_default();
                given.1 = given.1.saturating_add(bytes);
                state.moving = Some(Moving { object, old, idle_since: None });
            }
            Err(error) => {
                warn!(%object, %error, "no copy moves to fill hosts alike; tried again");
                state.rests_until = self.env.now() + self.options.settle;
            }
        }
    }

    /// How full this host is. What waits for its discard is on its way back already: a volume that
    /// was just deleted makes no copy leave.
    fn own_fill(&self) -> Fill {
        let groups = self.storage.groups().into_iter();
        let spaces =
            groups.flat_map(|group| group.devices()).filter_map(|device| match device.role {
                DeviceRole::Capacity(space) if device.out.is_none() => Some(space),
                DeviceRole::Capacity(_) | DeviceRole::Cache { .. } => None,
            });
        let none = Fill { shard: self.me, used_bytes: 0, capacity_bytes: 0 };
        spaces.fold(none, |sum, space| Fill {
            used_bytes: sum.used_bytes.saturating_add(space.taken_bytes()),
            capacity_bytes: sum.capacity_bytes.saturating_add(space.chunk_bytes()),
            ..sum
        })
    }

    /// How full this host is, and the others that are up and not in maintenance.
    fn fills(&self, given: &mut Map<ShardId, (u64, u64)>) -> (Fill, Vec<Fill>) {
        let mine = self.own_fill();
        let maintenance = self.view.maintenance();
        let others = self.view.shards().into_iter().filter(|shard| {
            shard.id != self.me && maintenance.mode(shard.id).is_none() && !shard.groups.is_empty()
        });
        let fill = |host: directory::ShardRecord| {
            let free = self.view.alive(host.id)?.free_bytes;
            let capacity_bytes = host.capacity_bytes();
            let given = given.entry(host.id).or_insert((free, 0));
            if given.0 != free {
                *given = (free, 0); // it counts what it got
            }
            let used_bytes = capacity_bytes.saturating_sub(free).saturating_add(given.1);
            Some(Fill { shard: host.id, used_bytes, capacity_bytes })
        };
        (mine, others.filter_map(fill).collect())
    }

    /// The components of this host that may leave it, and for which hosts.
    fn movable(&self, others: &[Fill]) -> Vec<Movable> {
        let (rooms, wanted) = (Rooms::of(&self.view), self.view.wanted());
        let is_kept = |volume| wanted.get(&volume).is_some_and(|wanted| wanted.home.is_some());
        let mut movable = Vec::new();
        for group in self.storage.groups() {
            for component in group.components() {
                let Some(info) = group.component(component) else { continue };
                let Some(record) = self.view.object(info.object) else { continue };
                let is_recorded = record.components.iter().any(|one| one.id == component);
                if !is_recorded || is_kept(record.volume) {
                    continue;
                }
                let stay = record.components.iter().filter(|one| one.id != component);
                let stay: Vec<ShardId> = stay.map(|one| one.shard).collect();
                let set = rooms.set_of(record.id);
                let near = |shard| match rooms.standing((&stay, set), shard) {
                    Standing::Able(there) => Some((there.closeness, there.columns)),
                    _ => None,
                };
                // This one does not count for the host that it would leave.
                let here = near(self.me).unwrap_or((usize::MAX, 0));
                let here = (here.0, here.1.saturating_sub(1));
                let able = |shard: &ShardId| near(*shard).is_some_and(|there| there <= here);
                movable.push(Movable {
                    component,
                    object: info.object,
                    members: record.members(),
                    bytes: u64::from(info.held.max(info.reserve)) * CHUNK_SIZE,
                    is_owners: record.owner.is_some_and(|owner| owner.shard == self.me),
                    takers: others.iter().map(|fill| fill.shard).filter(able).collect(),
                });
            }
        }
        movable
    }
}

/// Whether every component of an object counts, and none is on its way.
fn is_settled(record: &ObjectRecord) -> bool {
    let mut components = record.components.iter();
    let is_active = |one: &directory::ComponentRecord| {
        one.state == ComponentState::Active && one.replaces.is_none()
    };
    !record.is_doubted && components.all(is_active)
}

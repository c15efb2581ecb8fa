// SPDX-License-Identifier: Apache-2.0
//! Everything about objects on one host: the owners that live here, the way to those that live
//! elsewhere, and the requests of other hosts.

mod acquire;
mod adopt;
mod consent;
mod create;
mod disks;
mod forward;
mod give_up;
mod repair;
mod replace;
mod reserve;
mod serve;
mod writer;

use crate::away::Away;
use crate::context::Context;
use crate::copy_limit::CopyLimit;
use crate::disks::Disks;
use crate::held::HeldGrants;
use crate::history::is_made_anew;
use crate::options::ObjectOptions;
use crate::owner::{FREE_CHUNKS_RESERVE, Owner, Phase};
use crate::replica::Replicas;
use crate::requests::{Requests, WriteRequest};
use crate::status::{ComponentStatus, ObjectError, ObjectStatus, ReadData, Returning};
use base::{
    CHUNK_SECTORS, ClientTable, ComponentId, Incarnation, Map, ObjectId, SectorRange, Set, ShardId,
    Term, Version, WriterEpoch,
};
use directory::{ComponentState, Directory, ObjectRecord};
use env::{Env, Notify, Semaphore, Slice, TaskSet};
use peer::{PeerId, PeerStats, Peers};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use wire::{Crcs, Failure, Request, Response, WriteKind};

/// How long creating components may take.
const CREATE_WAIT: Duration = Duration::from_secs(5);
/// Between two attempts of it.
const CREATE_RETRY: Duration = Duration::from_millis(100);

/// Chunks to be kept for a component of so many sectors: `percent` of its own, and those that an
/// owner does not touch on a device that others fill. 0 for 0 %.
#[must_use]
pub fn reserve_chunks(sectors: u64, percent: u8) -> u32 {
    if percent == 0 {
        return 0;
    }
    let chunks = (sectors.div_ceil(CHUNK_SECTORS) * u64::from(percent)).div_ceil(100);
    u32::try_from(chunks).unwrap_or(u32::MAX).saturating_add(FREE_CHUNKS_RESERVE - 1)
}

/// The objects of one host. Cheap to clone; everything stops with the last clone.
#[derive(Clone)]
pub struct Objects(Rc<Handle>);

struct Handle(Rc<ObjectsInner>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.stop();
    }
}

pub(crate) struct ObjectsInner {
    context: Rc<Context>,
    replicas: Rc<Replicas>,
    slots: RefCell<Map<ObjectId, ObjectSlot>>,
    tasks: TaskSet,
    /// Background take-overs at a time.
    adoptions: Semaphore,
    /// Whether owners elsewhere are being asked to hand over.
    is_asking: Cell<bool>,
    /// Repairs for other hosts under way.
    repairs: Cell<usize>,
    /// No request of this run to an object that is gone has a higher count.
    requests_base: Cell<u64>,
}

/// Where I/O of an object goes.
#[derive(Clone, Default)]
enum Route {
    /// Not known: acquire first.
    #[default]
    Unknown,
    /// To the owner that lives here (serving or not yet).
    Local(Rc<Owner>),
    /// To the owner on another host, at that term (rule 43).
    Remote(directory::OwnerRecord, Term),
}

/// What this host knows of one object.
#[derive(Default)]
struct ObjectSlot {
    /// The newest record that was seen, with its revision: a hint, never a proof.
    record: Option<(ObjectRecord, u64)>,
    is_attached: bool,
    route: Route,
    is_acquiring: bool,
    /// How the last attempt to acquire ended.
    outcome: Option<ObjectError>,
    /// An attempt to acquire ended.
    settled: Notify,
    /// Another attempt may go better: the record changed, or what is known of its owner.
    news: Notify,
    /// The newest term in which an owner was born here (rule 23).
    used: Term,
    /// The version of its record then.
    used_at: Version,
    /// This run was the owner, or tried to be: a component may take it for that.
    is_wanted: bool,
    /// The newest term of another owner that the components were told of.
    consented: Term,
    /// Components that are being told.
    consenting: Set<ComponentId>,
    /// The source of the next take-over.
    prefer: Option<ComponentId>,
    /// A component that ran out of space under the last owner: without this the next one would send
    /// it the same write again, and end the same way, for ever.
    full: Option<ComponentId>,
    /// The directory went back in time: not claimed before its record is made anew (rule 25).
    halted_at: Option<Version>,
    /// Since when its owner seems to be gone.
    gone_since: Option<base::Instant>,
    /// Client requests of other hosts under way, per host (rule 45).
    forwarded: Map<ShardId, Rc<Forwarded>>,
    /// Writes of this host under way (rule 46).
    requests: Option<Rc<Requests>>,
}

#[derive(Default)]
struct Forwarded {
    count: Cell<usize>,
    fell: Notify,
}

impl Objects {
    /// The objects of the host `me`. Installs itself as the handler of `peers`.
    #[must_use]
    pub fn new(
        env: &Env,
        me: PeerId,
        directory: Directory,
        peers: Peers,
        disks: Disks,
        options: ObjectOptions,
    ) -> Self {
        options.limits.check();
        let limits = options.limits;
        let leases = HeldGrants::new(env, &peers, &options);
        let replicas = Replicas::new(env, me, &peers, disks.clone(), &options);
        let context = Context {
            env: env.clone(),
            me,
            directory,
            peers: peers.clone(),
            leases,
            disks,
            replicas: Rc::clone(&replicas),
            resync_room: Semaphore::new(limits.resyncs),
            copy_limit: CopyLimit::default(),
            copied: Cell::default(),
            write_room: Semaphore::new(options.write_bytes),
            forward_room: Semaphore::new(options.write_bytes),
            options,
            alive: RefCell::default(),
            removed: RefCell::default(),
            hosts: RefCell::default(),
        };
        let inner = Rc::new(ObjectsInner {
            context: Rc::new(context),
            replicas,
            slots: RefCell::default(),
            tasks: TaskSet::default(),
            adoptions: Semaphore::new(limits.resyncs),
            is_asking: Cell::default(),
            repairs: Cell::default(),
            requests_base: Cell::new(0),
        });
        peers.set_handler(Rc::new(serve::Door::new(&inner)));
        let weak = Rc::downgrade(&inner);
        inner.tasks.spawn(env, "adopt", adopt::run(weak));
        Self(Rc::new(Handle(inner)))
    }

    /// A record as a watch of the directory brought it; older ones than known are ignored.
    pub fn record_changed(&self, record: ObjectRecord, revision: u64) {
        self.0.0.record_changed(record, revision);
    }

    /// The watch says that the record is gone. Its local components are deleted once a
    /// linearizable read says so too (rule 40).
    pub fn record_deleted(&self, id: ObjectId) {
        self.forget(id, "the object is deleted");
        let inner = Rc::clone(&self.0.0);
        self.0.0.spawn("delete components", async move { inner.delete_components(id).await });
    }

    /// The record is gone and nothing deleted it: nobody serves it, and its components stay.
    ///
    /// The record may come back, set back or made anew: no term of before is used twice by this run
    /// (rule 23), and components that have it in their books still wait for its consent (rule 52b).
    pub fn record_missing(&self, id: ObjectId) {
        let slot = self.forget(id, "the object's record is missing");
        let Some(ObjectSlot { used, used_at, is_wanted, consented, .. }) = slot else { return };
        if used > Term(0) || is_wanted {
            let mut slots = self.0.0.slots.borrow_mut();
            let kept = slots.entry(id).or_default();
            (kept.used, kept.used_at) = (used, used_at);
            (kept.is_wanted, kept.consented) = (is_wanted, consented);
        }
    }

    fn forget(&self, id: ObjectId, why: &'static str) -> Option<ObjectSlot> {
        let inner = &self.0.0;
        let mut slot = inner.slots.borrow_mut().remove(&id);
        if let Some(requests) = slot.as_ref().and_then(|slot| slot.requests.as_ref()) {
            // Should it come back, its replicas know these numbers.
            let base = inner.requests_base.get().max(requests.highest());
            inner.requests_base.set(base);
        }
        if let Some(ObjectSlot { route, .. }) = &mut slot
            && let Route::Local(owner) = std::mem::take(route)
        {
            owner.step_down(why);
        }
        slot
    }

    /// Whether the last word about an object is that it has a record.
    #[must_use]
    pub fn has_record(&self, id: ObjectId) -> bool {
        self.0.0.slots.borrow().get(&id).is_some_and(|slot| slot.record.is_some())
    }

    /// Every record seen last, by object.
    #[must_use]
    pub fn records(&self) -> Vec<ObjectRecord> {
        let slots = self.0.0.slots.borrow();
        slots.values().filter_map(|slot| Some(slot.record.as_ref()?.0.clone())).collect()
    }

    /// What the directory's lease keys say of `host`: a hint that a take-over is wanted (52d).
    pub fn host_alive(&self, shard: ShardId, alive: Option<Incarnation>) {
        let inner = &self.0.0;
        let known = {
            let mut hosts = inner.context.alive.borrow_mut();
            match alive {
                Some(incarnation) => hosts.insert(shard, incarnation),
                None => hosts.remove(&shard),
            }
        };
        if known == alive {
            return;
        }
        for slot in inner.slots.borrow().values() {
            let owner = slot.record.as_ref().and_then(|(record, _)| record.owner);
            if owner.is_some_and(|owner| owner.shard == shard) {
                slot.news.notify();
            }
        }
    }

    /// `host` was taken out of the cluster: nobody waits any more for what it held to be deleted.
    pub fn host_removed(&self, shard: ShardId) {
        self.0.0.context.removed.borrow_mut().insert(shard);
    }

    /// What the owners of this host copy in a second to components that are behind, all together.
    /// `None`: as much as clients leave.
    pub fn set_resync_limit(&self, bytes_per_second: Option<u64>) {
        self.0.0.context.copy_limit.set(bytes_per_second);
    }

    /// Makes this host the owner, or learns who serves. From then until the next
    /// [`ObjectError::NotOwner`] I/O has a way to go.
    ///
    /// # Errors
    /// [`ObjectError::Deleted`]; [`ObjectError::Inaccessible`]: not now, ask again.
    pub async fn acquire(&self, id: ObjectId) -> Result<(), ObjectError> {
        self.0.0.acquire(id).await
    }

    /// Whether local clients use the object: then it is not handed over (rule 53).
    pub fn set_attached(&self, id: ObjectId, attached: bool) {
        let is_elsewhere = {
            let mut slots = self.0.0.slots.borrow_mut();
            let slot = slots.entry(id).or_default();
            slot.is_attached = attached;
            matches!(slot.route, Route::Remote(..))
        };
        if attached && is_elsewhere {
            // Ownership follows the clients. The way there goes on being used meanwhile: without
            // a directory there is no other.
            self.0.0.ask_for_used();
        }
    }

    /// Reads `range`, which lies within one chunk.
    ///
    /// # Errors
    /// [`ObjectError`]; all of them leave the data as it is.
    pub async fn read(&self, id: ObjectId, range: SectorRange) -> Result<ReadData, ObjectError> {
        match self.0.0.route(id) {
            Route::Local(owner) => owner.read(range).await,
            Route::Remote(to, term) => self.0.0.forward_read(id, to, term, range).await,
            Route::Unknown => Err(ObjectError::NotOwner),
        }
    }

    /// Begins a write that this host took in an epoch (rule 54). What it returns goes with every
    /// attempt of it, and is dropped when the write was answered or is given up (rule 46). Waits
    /// while too many of this host are under way.
    pub async fn begin_write(&self, id: ObjectId, epoch: WriterEpoch) -> WriteRequest {
        let inner = &self.0.0;
        inner.requests(id).begin(epoch).await
    }

    /// Writes `range`, which lies within one chunk; `crcs` and `payload` are those of the data,
    /// empty for zeros and discards. Durable on every active component when it returns. Dropping
    /// the future does not take the write back.
    ///
    /// # Errors
    /// [`ObjectError::NotOwner`], [`ObjectError::Inaccessible`], [`ObjectError::Io`]: the write
    /// may have happened or still happen, until the object was acquired again.
    /// [`ObjectError::Full`]: it did not.
    pub async fn write(
        &self,
        id: ObjectId,
        request: &WriteRequest,
        range: SectorRange,
        kind: WriteKind,
        crcs: Crcs,
        payload: Slice,
    ) -> Result<(), ObjectError> {
        match self.0.0.route(id) {
            Route::Local(owner) => {
                let is_blind = self.0.0.context.options.mutations.number_as_before();
                let number = |known: &ClientTable| match is_blind {
                    true => request.id(),
                    false => request.id_behind(known),
                };
                owner.write((request.epoch(), number), range, kind, crcs, payload).await
            }
            Route::Remote(to, term) => {
                let (object, id, epoch) = (id, request.id(), request.epoch());
                let bytes = crate::owner::FRAME_BYTES + payload.len() as u64;
                let _room = self.0.0.context.forward_room.acquire(bytes).await;
                let request =
                    Request::ClientWrite { object, term, id, epoch, range, kind, crcs, payload };
                self.0.0.forward_write(object, to, request).await
            }
            Route::Unknown => Err(ObjectError::NotOwner),
        }
    }

    /// Where data is; may cover only the first part of `range`.
    ///
    /// # Errors
    /// As [`Objects::read`].
    pub async fn extents(
        &self,
        id: ObjectId,
        range: SectorRange,
    ) -> Result<Vec<(SectorRange, bool)>, ObjectError> {
        match self.0.0.route(id) {
            Route::Local(owner) => owner.extents(range).await,
            Route::Remote(to, term) => self.0.0.forward_extents(id, to, term, range).await,
            Route::Unknown => Err(ObjectError::NotOwner),
        }
    }

    /// Bytes of client writes that are under way: of this host's owners, and on their way to
    /// others.
    #[must_use]
    pub fn write_bytes_under_way(&self) -> u64 {
        let context = &self.0.0.context;
        context.write_room.in_use() + context.forward_room.in_use()
    }

    /// Bytes of writes and copies of an object that its owner here keeps until every component has
    /// answered them; one that several are to answer counts once for each.
    #[must_use]
    pub fn unanswered_bytes(&self, id: ObjectId) -> u64 {
        let Some(owner) = self.0.0.local_owner(id) else { return 0 };
        let state = owner.state.borrow();
        state.legs.iter().map(|leg| leg.unacked.bytes()).sum()
    }

    /// Components of the objects that are owned here which are not active, though there is a link
    /// to their hosts: on their way, or waiting for something.
    #[must_use]
    pub fn returning(&self) -> Vec<Returning> {
        let slots = self.0.0.slots.borrow();
        let owners = slots.iter().filter_map(|(id, slot)| match &slot.route {
            Route::Local(owner) if owner.phase() == Phase::Serving => Some((*id, owner)),
            _ => None,
        });
        let all = owners.flat_map(|(object, owner)| {
            let components = owner.component_status().into_iter();
            components.map(move |component| Returning { object, component })
        });
        all.filter(|Returning { component, .. }| {
            component.state != ComponentState::Active && component.away != Some(Away::Unreachable)
        })
        .collect()
    }

    /// Bytes that owners here have copied to components that are behind, since the host's start.
    #[must_use]
    pub fn copied_bytes(&self) -> u64 {
        self.0.0.context.copied.get()
    }

    /// What happened on the links of this host.
    #[must_use]
    pub fn link_stats(&self) -> PeerStats {
        self.0.0.context.peers.stats()
    }

    /// What is known of an object here.
    #[must_use]
    pub fn status(&self, id: ObjectId) -> Option<ObjectStatus> {
        let slots = self.0.0.slots.borrow();
        let slot = slots.get(&id)?;
        if let Route::Local(owner) = &slot.route
            && !owner.is_stopped()
        {
            let state = owner.state.borrow();
            let (by, term) = (state.record.owner, state.record.term);
            let is_served_here = state.phase == Phase::Serving;
            drop(state);
            let components = owner.component_status();
            return Some(ObjectStatus { owner: by, term, is_served_here, components });
        }
        let (record, _) = slot.record.as_ref()?;
        let component = |component: &directory::ComponentRecord| ComponentStatus {
            id: component.id,
            shard: component.shard,
            state: component.state,
            replaces: component.replaces,
            resync_bytes_left: 0,
            writes_waiting: 0,
            progress: None,
            away: None,
        };
        Some(ObjectStatus {
            owner: record.owner,
            term: record.term,
            is_served_here: false,
            components: record.components.iter().map(component).collect(),
        })
    }
}

impl ObjectsInner {
    /// The writes of this host to an object.
    fn requests(&self, id: ObjectId) -> Rc<Requests> {
        let (me, base) = (self.context.me, self.requests_base.get());
        let mut slots = self.slots.borrow_mut();
        let requests = &mut slots.entry(id).or_default().requests;
        Rc::clone(requests.get_or_insert_with(|| Requests::new(me.shard, me.incarnation, base)))
    }

    fn env(&self) -> &Env {
        &self.context.env
    }

    fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + 'static) {
        self.tasks.spawn(self.env(), name, task);
    }

    fn stop(&self) {
        self.tasks.clear();
        let slots = std::mem::take(&mut *self.slots.borrow_mut());
        for slot in slots.into_values() {
            if let Route::Local(owner) = slot.route {
                owner.step_down("the host stops");
            }
        }
        self.context.leases.stop();
    }

    /// The way to `id`; a local owner that is over is none.
    fn route(&self, id: ObjectId) -> Route {
        let mut slots = self.slots.borrow_mut();
        let Some(slot) = slots.get_mut(&id) else { return Route::Unknown };
        match &slot.route {
            Route::Local(owner) if owner.is_stopped() => {
                let state = owner.state.borrow();
                (slot.prefer, slot.full) = (state.prefer, state.full);
                drop(state);
                slot.route = Route::Unknown;
            }
            _ => {}
        }
        slot.route.clone()
    }

    /// The owner of `id` that lives here, serving or on its way.
    fn local_owner(&self, id: ObjectId) -> Option<Rc<Owner>> {
        match self.route(id) {
            Route::Local(owner) => Some(owner),
            Route::Unknown | Route::Remote(..) => None,
        }
    }

    fn record_changed(self: &Rc<Self>, record: ObjectRecord, revision: u64) {
        let id = record.id;
        if let Some(owner) = self.local_owner(id) {
            owner.obey(&record);
        }
        let mut slots = self.slots.borrow_mut();
        let slot = slots.entry(id).or_default();
        if slot.record.as_ref().is_some_and(|(known, _)| known.version >= record.version) {
            return;
        }
        if let Route::Remote(_, term) = slot.route
            && record.term > term
        {
            slot.route = Route::Unknown;
        }
        slot.halted_at = slot.halted_at.filter(|at| !is_made_anew(*at, record.version));
        slot.gone_since = None;
        slot.record = Some((record.clone(), revision));
        slot.news.notify();
        drop(slots);
        let me = self.context.me.shard;
        for component in record.components.iter().filter(|c| c.shard == me) {
            let is_active = component.state == ComponentState::Active;
            self.replicas.note_state(component.id, is_active.then_some(component.seat));
        }
        for removed in record.removed.iter().filter(|removed| removed.shard == me) {
            self.replicas.note_state(removed.id, None);
        }
        self.consent_if_deposed(&record);
    }

    async fn ask_replica(
        self: &Rc<Self>,
        shard: ShardId,
        request: Request,
    ) -> Result<(), ObjectError> {
        self.ask_replica_for(shard, request).await.map(drop)
    }

    /// Asks until there is an answer that says something.
    async fn ask_replica_for(
        self: &Rc<Self>,
        shard: ShardId,
        request: Request,
    ) -> Result<Response, ObjectError> {
        let deadline = self.env().now() + CREATE_WAIT;
        loop {
            let left = deadline.since(self.env().now());
            let call = self.context.peers.call(shard, request.clone());
            match self.env().timeout(left, call).await {
                Ok(Ok(
                    answer @ (Response::Done | Response::Created { .. } | Response::Durable { .. }),
                )) => return Ok(answer),
                Ok(Ok(Response::Failed { reason: Failure::Full })) => {
                    return Err(ObjectError::Full);
                }
                Ok(Ok(Response::Failed { .. })) => return Err(ObjectError::Io),
                Ok(Ok(_) | Err(_)) if left > CREATE_RETRY => {}
                _ => return Err(ObjectError::Inaccessible),
            }
            self.env().sleep(CREATE_RETRY).await;
        }
    }

    /// Rule 40: only when a linearizable read shows that no record names them.
    async fn delete_components(self: &Rc<Self>, id: ObjectId) {
        loop {
            match self.context.directory.get(&directory::object_key(id)).await {
                Ok(None) => break,
                Ok(Some(_)) => return,
                Err(_) => self.env().sleep(CREATE_WAIT).await,
            }
        }
        let groups = self.context.disks.open().into_iter();
        let mine = groups.flat_map(|group| {
            let of_object = |component: &ComponentId| {
                group.component(*component).is_some_and(|c| c.object == id)
            };
            group.components().into_iter().filter(of_object).collect::<Vec<_>>()
        });
        for component in mine.collect::<Vec<_>>() {
            let request = Request::DeleteComponent { object: id, component };
            drop(self.context.peers.call(self.context.me.shard, request).await);
        }
    }
}

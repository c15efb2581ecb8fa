// SPDX-License-Identifier: Apache-2.0
//! The volumes of the cluster, as the exports of this host's NBD door.

use crate::cluster::view::View;
use base::{Map, VolumeId};
use directory::{Connections, VolumeRecord};
use env::{Env, Slice};
use nbd::{OpenError, Sharing};
use object::Objects;
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;
use tracing::info;
use volume::{Device, Extent, Limited, Pieces, Volume, VolumeError, VolumeOptions};

/// Least time between two looks at the records of open volumes.
const FOLLOW_PAUSE: Duration = Duration::from_millis(200);

/// What this host exports. Cheap to clone.
#[derive(Clone)]
pub struct HostExports(Rc<ExportsInner>);

struct ExportsInner {
    env: Env,
    objects: Objects,
    view: View,
    options: VolumeOptions,
    open: RefCell<Map<VolumeId, Weak<Opened>>>,
}

/// A volume in use on this host: opened once, shared by its clients.
struct Opened {
    name: String,
    volume: Volume,
    clients: Rc<Cell<u64>>,
    inner: Weak<ExportsInner>,
}

impl Opened {
    /// Is as its record says from now on.
    fn follow(&self, record: &VolumeRecord) {
        self.volume.set_limits(record.limits());
        if self.volume.grow(record) {
            info!(volume = self.name, bytes = record.size_bytes, "grown");
        }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        let Some(inner) = self.inner.upgrade() else { return };
        let mut open = inner.open.borrow_mut();
        let id = self.volume.id();
        if open.get(&id).is_some_and(|entry| entry.strong_count() == 0) {
            open.remove(&id);
        }
    }
}

impl HostExports {
    pub(crate) fn new(env: &Env, objects: &Objects, view: &View, options: VolumeOptions) -> Self {
        Self(Rc::new(ExportsInner {
            env: env.clone(),
            objects: objects.clone(),
            view: view.clone(),
            options,
            open: RefCell::default(),
        }))
    }

    /// Connections to a volume through this host.
    #[must_use]
    pub fn clients(&self, volume: VolumeId) -> u64 {
        self.opened(volume).map_or(0, |opened| opened.clients.get())
    }

    /// Requests for a volume that waited here for its limits, since it was opened.
    #[must_use]
    pub fn limited(&self, volume: VolumeId) -> Option<Limited> {
        self.opened(volume).map(|opened| opened.volume.limited())
    }

    fn opened(&self, volume: VolumeId) -> Option<Rc<Opened>> {
        self.0.open.borrow().get(&volume).and_then(Weak::upgrade)
    }

    /// Gives open volumes the limits and the size that their records say, as these change. Runs for
    /// ever.
    pub(crate) async fn follow_records(self) {
        loop {
            let changed = self.0.view.changed().wait();
            let open: Vec<_> = self.0.open.borrow().values().filter_map(Weak::upgrade).collect();
            for opened in open {
                let id = opened.volume.id();
                let named = self.0.view.volume(&opened.name).filter(|record| record.id == id);
                let record = named.or_else(|| self.0.view.volume_of_id(id)); // it was renamed
                if let Some(record) = record {
                    opened.follow(&record);
                }
            }
            changed.await;
            self.0.env.sleep(FOLLOW_PAUSE).await;
        }
    }

    /// Opens a volume for one client; it counts until its last clone is dropped.
    ///
    /// # Errors
    /// [`OpenError::NotFound`]. [`OpenError::InUse`]: the volume was renamed, and a client uses it
    /// here under the name that it had.
    pub fn attach(&self, name: &str) -> Result<Attached, OpenError> {
        let record = self.0.view.volume(name).filter(|record| record.trashed.is_none());
        let record = record.ok_or(OpenError::NotFound)?;
        let opened = match self.opened(record.id) {
            // The door lets clients in by name, so it does not know of those under the other one.
            Some(opened) if opened.name != name => return Err(OpenError::InUse),
            Some(opened) => {
                opened.follow(&record);
                opened
            }
            None => {
                let options = self.0.options.clone();
                let volume = Volume::open(&self.0.env, self.0.objects.clone(), &record, options);
                let opened = Rc::new(Opened {
                    name: name.to_owned(),
                    volume,
                    clients: Rc::default(),
                    inner: Rc::downgrade(&self.0),
                });
                self.0.open.borrow_mut().insert(record.id, Rc::downgrade(&opened));
                opened
            }
        };
        opened.clients.set(opened.clients.get() + 1);
        Ok(Attached(Rc::new(Client(opened))))
    }
}

impl nbd::Exports for HostExports {
    type Device = Attached;

    fn list(&self) -> Vec<String> {
        let all = self.0.view.volumes_where(|record| record.trashed.is_none());
        all.into_iter().map(|record| record.name).collect()
    }

    fn sharing(&self, name: &str) -> Sharing {
        match self.0.view.volume(name).map(|record| record.connections) {
            Some(Connections::Exclusive) => Sharing::Exclusive,
            Some(Connections::Shared) | None => Sharing::Shared,
        }
    }

    async fn open(&self, name: &str) -> Result<Attached, OpenError> {
        self.attach(name)
    }
}

struct Client(Rc<Opened>);

impl Drop for Client {
    fn drop(&mut self) {
        self.0.clients.set(self.0.clients.get() - 1);
    }
}

/// A volume as one client uses it.
#[derive(Clone)]
pub struct Attached(Rc<Client>);

impl Attached {
    fn volume(&self) -> &Volume {
        &self.0.0.volume
    }
}

impl Device for Attached {
    fn size(&self) -> u64 {
        self.volume().size()
    }

    async fn read(&self, offset: u64, bytes: u64) -> Result<Pieces, VolumeError> {
        self.volume().read(offset, bytes).await
    }

    async fn write(&self, offset: u64, payload: Slice) -> Result<(), VolumeError> {
        self.volume().write(offset, payload).await
    }

    async fn write_zeroes(&self, offset: u64, bytes: u64) -> Result<(), VolumeError> {
        self.volume().write_zeroes(offset, bytes).await
    }

    async fn discard(&self, offset: u64, bytes: u64) -> Result<(), VolumeError> {
        self.volume().discard(offset, bytes).await
    }

    async fn flush(&self) -> Result<(), VolumeError> {
        self.volume().flush().await
    }

    async fn extents(&self, offset: u64, bytes: u64) -> Result<Vec<Extent>, VolumeError> {
        self.volume().extents(offset, bytes).await
    }
}

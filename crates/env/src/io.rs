// SPDX-License-Identifier: Apache-2.0
//! Devices and connections as product code uses them.

use crate::buf::{Buf, Slice};
use crate::driver::{
    Access, Address, Caller, DiskId, DiskInfo, Done, Durability, Hardware, IoError, LinkId,
    ListenerId, Op, OpenDisk,
};
use crate::executor::{Env, OpFuture};
use crate::meter::{IoClass, Meter};
use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::rc::Rc;

/// Most bytes that one discard gives back at once; a larger range goes in several pieces. An SSD
/// takes some 10 ms for so many, and a file is locked while a hole is made in it.
pub const DISCARD_MAX: u64 = 64 << 20;

impl Env {
    /// Opens a device, or creates a file, with an exclusive lock. The call has no time-out of its
    /// own. If the future is dropped, the device is not opened, or is closed again.
    ///
    /// # Errors
    /// [`IoError::NotFound`], [`IoError::Busy`] (it is open already), [`IoError::NoSpace`], ...
    pub async fn open_disk(&self, options: OpenDisk) -> Result<Disk, IoError> {
        match self.submit(Op::OpenDisk(options)).await.0? {
            Done::Disk(id, info) => {
                let (env, written) = (self.clone(), Cell::new(0));
                let meter = Meter::new(self.now());
                Ok(Disk(Rc::new(DiskInner { env, id, info, written, meter })))
            }
            other => unreachable!("opening a disk brought {other:?}"),
        }
    }

    /// What the operating system says of the device at `path`. The call has no time-out of its own,
    /// and a device may let it hang.
    ///
    /// # Errors
    /// [`IoError::Overloaded`]: too many calls wait for devices.
    pub async fn hardware(&self, path: &str) -> Result<Hardware, IoError> {
        match self.submit(Op::AskHardware { path: path.to_owned() }).await.0? {
            Done::Hardware(hardware) => Ok(hardware),
            other => unreachable!("asking for hardware brought {other:?}"),
        }
    }

    /// Listens at `address`. A Unix socket is for this process's own user only.
    ///
    /// # Errors
    /// [`IoError::AddressInUse`] and other causes.
    pub async fn listen(&self, address: Address) -> Result<Listener, IoError> {
        self.listen_for(address, Access::default()).await
    }

    /// Listens at `address`. A Unix socket is for those whom `access` names.
    ///
    /// # Errors
    /// As [`Env::listen`], and [`IoError::Denied`] if this process may not give the socket file to
    /// them.
    pub async fn listen_for(&self, address: Address, access: Access) -> Result<Listener, IoError> {
        match self.submit(Op::Listen { address, access }).await.0? {
            Done::Listener(id, address) => Ok(Listener { env: self.clone(), id, address }),
            other => unreachable!("listening brought {other:?}"),
        }
    }

    /// Connects to `address`. The call has no time-out of its own.
    ///
    /// # Errors
    /// [`IoError::Refused`], [`IoError::NotFound`], [`IoError::Reset`].
    pub async fn dial(&self, address: Address) -> Result<Link, IoError> {
        match self.submit(Op::Dial { address }).await.0? {
            Done::Link(id) => Ok(Link::new(self, id)),
            other => unreachable!("dialling brought {other:?}"),
        }
    }
}

/// An open device. It is closed when the last clone is dropped.
#[derive(Clone)]
pub struct Disk(Rc<DiskInner>);

struct DiskInner {
    env: Env,
    id: DiskId,
    info: DiskInfo,
    written: Cell<u64>,
    meter: Rc<Meter>,
}

impl Disk {
    /// Size and kind of the device, as found when it was opened.
    #[must_use]
    pub fn info(&self) -> DiskInfo {
        self.0.info
    }

    /// Bytes that the device was asked to write since it was opened.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.0.written.get()
    }

    /// What is measured of the device's answers.
    #[must_use]
    pub fn meter(&self) -> &Meter {
        &self.0.meter
    }

    /// Gives the device up: whoever waits for a read, write, flush or discard gets
    /// [`IoError::NoAnswer`], now and for every later one. The device may still carry out what it
    /// was given before. Until then the buffers and the lock stay as they are.
    pub fn give_up(&self) {
        self.0.meter.set_given_up();
        self.0.env.give_up(&self.0.meter);
    }

    fn submit(&self, class: IoClass, op: Op) -> Option<OpFuture> {
        let DiskInner { env, meter, .. } = &*self.0;
        (!meter.is_given_up()).then(|| env.submit_metered(op, meter.begin(class, env.now())))
    }

    /// Fills all of `into` from the device. The offset and the length are bytes, multiples of 512.
    ///
    /// # Errors
    /// The device's error. The buffer is then dropped.
    pub fn read(
        &self,
        offset: u64,
        into: Buf,
    ) -> impl Future<Output = Result<Buf, IoError>> + use<> {
        self.read_at(offset, into, 0)
    }

    /// Reads into `into[at..]` and leaves what stands before `at`. This is for long reads in
    /// several steps.
    ///
    /// # Errors
    /// As [`Disk::read`].
    pub fn read_at(
        &self,
        offset: u64,
        into: Buf,
        at: usize,
    ) -> impl Future<Output = Result<Buf, IoError>> + use<> {
        assert!(at.is_multiple_of(512) && at < into.len(), "device reads need aligned memory");
        self.check(offset, (into.len() - at) as u64);
        let op = self.submit(IoClass::Read, Op::Read { disk: self.0.id, offset, into, at });
        async move {
            let (result, buf) = op.ok_or(IoError::NoAnswer)?.await;
            result?;
            match buf {
                Some(buf) => Ok(buf),
                None => unreachable!("a read returns its buffer"),
            }
        }
    }

    /// Writes all of `from`. If the future is dropped, the write goes on.
    ///
    /// # Errors
    /// The device's error. What is then on the device is unspecified (trap 1: fence it).
    pub fn write(
        &self,
        offset: u64,
        from: Slice,
        durability: Durability,
    ) -> impl Future<Output = Result<(), IoError>> + use<> {
        self.check(offset, from.len() as u64);
        assert!(from.offset().is_multiple_of(512), "device writes need aligned memory");
        self.0.written.set(self.0.written.get() + from.len() as u64);
        let class = match durability {
            Durability::Cached => IoClass::Write,
            Durability::Durable => IoClass::Durable,
        };
        let op = self.submit(class, Op::Write { disk: self.0.id, offset, from, durability });
        async move { op.ok_or(IoError::NoAnswer)?.await.0.map(drop) }
    }

    /// Makes every write that completed before this call durable.
    ///
    /// # Errors
    /// The device's error. Nothing may be assumed durable then (trap 1).
    pub fn flush(&self) -> impl Future<Output = Result<(), IoError>> + use<> {
        let op = self.submit(IoClass::Durable, Op::Flush { disk: self.0.id });
        async move { op.ok_or(IoError::NoAnswer)?.await.0.map(drop) }
    }

    /// Gives a range back to the device, in pieces of at most [`DISCARD_MAX`] bytes. The content of
    /// the range is unspecified afterwards. If the future is dropped, later pieces are not begun.
    ///
    /// # Errors
    /// The device's error.
    pub fn discard(
        &self,
        offset: u64,
        bytes: u64,
    ) -> impl Future<Output = Result<(), IoError>> + use<> {
        self.check(offset, bytes);
        let first = bytes.min(DISCARD_MAX);
        let mut op = self.discard_piece(offset, first);
        let (disk, end) = (self.clone(), offset + bytes);
        async move {
            let mut at = offset + first;
            loop {
                op.ok_or(IoError::NoAnswer)?.await.0?;
                if at == end {
                    return Ok(());
                }
                let piece = DISCARD_MAX.min(end - at);
                op = disk.discard_piece(at, piece);
                at += piece;
            }
        }
    }

    fn discard_piece(&self, offset: u64, bytes: u64) -> Option<OpFuture> {
        self.submit(IoClass::Discard, Op::Discard { disk: self.0.id, offset, bytes })
    }

    /// Checks that `path` still leads to the device, and that the device is no smaller than when it
    /// was opened. Reads and writes do not tell: a file that was deleted still takes them.
    ///
    /// # Errors
    /// [`IoError::NotFound`] if `path` leads elsewhere. [`IoError::Short`], with the size now and
    /// the size at opening, if the device is smaller.
    pub async fn look(&self, path: &str) -> Result<(), IoError> {
        let op = Op::LookAtDisk { disk: self.0.id, path: path.to_owned() };
        let wanted = self.0.info.size;
        match self.0.env.submit(op).await.0? {
            Done::Size(done) if done < wanted => Err(IoError::Short { done, wanted }),
            Done::Size(_) => Ok(()),
            other => unreachable!("looking at a disk brought {other:?}"),
        }
    }

    fn check(&self, offset: u64, bytes: u64) {
        assert!(offset.is_multiple_of(512) && bytes.is_multiple_of(512), "unaligned device I/O");
        assert!(bytes > 0, "empty device I/O");
        assert!(
            offset.checked_add(bytes).is_some_and(|end| end <= self.0.info.size),
            "device I/O beyond its end: {offset}+{bytes} of {}",
            self.0.info.size
        );
    }
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Disk({}, {} bytes)", self.0.id.0, self.0.info.size)
    }
}

impl Drop for DiskInner {
    fn drop(&mut self) {
        self.env.submit_detached(Op::CloseDisk { disk: self.id });
    }
}

/// A listening socket. It is closed when dropped.
pub struct Listener {
    env: Env,
    id: ListenerId,
    address: Address,
}

impl Listener {
    /// Where it listens, with the real port where port 0 was asked for.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Waits for the next caller and returns the link to it.
    ///
    /// # Errors
    /// The listener is closed, or the system is out of descriptors.
    pub async fn accept(&self) -> Result<Link, IoError> {
        self.accept_from().await.map(|(link, _)| link)
    }

    /// Waits for the next caller; returns the link to it and who called.
    ///
    /// # Errors
    /// As [`Listener::accept`].
    pub async fn accept_from(&self) -> Result<(Link, Caller), IoError> {
        match self.env.submit(Op::Accept { listener: self.id }).await.0? {
            Done::Caller(id, caller) => Ok((Link::new(&self.env, id), caller)),
            other => unreachable!("accepting brought {other:?}"),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.env.submit_detached(Op::CloseListener { listener: self.id });
    }
}

/// One stream connection. It is closed by [`Link::close`], or when the last clone is dropped.
#[derive(Clone)]
pub struct Link(Rc<LinkInner>);

struct LinkInner {
    env: Env,
    id: LinkId,
}

impl Link {
    fn new(env: &Env, id: LinkId) -> Self {
        Self(Rc::new(LinkInner { env: env.clone(), id }))
    }

    /// Sends all of `from`. A link has at most one send under way. If the future is dropped, the
    /// send goes on.
    ///
    /// # Errors
    /// [`IoError::Reset`] and the like. The peer may then have got any part from the beginning of
    /// `from` on, or nothing.
    pub fn send(&self, from: Slice) -> impl Future<Output = Result<(), IoError>> + use<> {
        let keep_open = self.clone();
        let link = self.0.id;
        let op = (!from.is_empty()).then(|| self.0.env.submit(Op::Send { link, from }));
        async move {
            let _keep_open = keep_open;
            match op {
                Some(op) => op.await.0.map(drop),
                None => Ok(()),
            }
        }
    }

    /// Receives at least one byte into `into[at..]`, which must not be empty. Returns the buffer
    /// and how many bytes came; 0 means that the peer closed. A link has at most one receive under
    /// way. If the future is dropped, the receive is cancelled and bytes may be lost: drop it only
    /// to give up the link.
    ///
    /// # Errors
    /// [`IoError::Reset`], [`IoError::Closed`].
    pub fn recv(
        &self,
        into: Buf,
        at: usize,
    ) -> impl Future<Output = Result<(Buf, usize), IoError>> + use<> {
        assert!(at < into.len(), "no room to receive into");
        let keep_open = self.clone();
        let op = self.0.env.submit(Op::Recv { link: self.0.id, into, at });
        async move {
            let _keep_open = keep_open;
            let (result, buf) = op.await;
            match (result?, buf) {
                (Done::Bytes(count), Some(buf)) => Ok((buf, count)),
                (other, _) => unreachable!("receiving brought {other:?}"),
            }
        }
    }

    /// Closes the link now, for every clone. Operations in flight end with an error.
    pub fn close(&self) {
        self.0.env.submit_detached(Op::Close { link: self.0.id });
    }
}

impl Drop for LinkInner {
    fn drop(&mut self) {
        self.env.submit_detached(Op::Close { link: self.id });
    }
}

// SPDX-License-Identifier: Apache-2.0
//! Page-aligned memory for devices and sockets, recycled by a pool.
//!
//! A buffer is a vector of 4 KiB pages. The type of the page carries the alignment, so no unsafe
//! code is needed.

use std::cell::RefCell;
use std::fmt;
use std::ops::{Deref, DerefMut, Range};
use std::rc::{Rc, Weak};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// Alignment of every buffer, and the unit of its capacity. Bytes.
pub const PAGE: usize = 4096;

/// Bytes of one size class that a pool keeps for reuse, or one buffer if that is more. What comes
/// back beyond that is freed. Each class has a bound of its own, so that no size crowds out
/// another. The 11 classes keep at most 44 MiB together.
const POOL_CLASS_MAX: usize = 4 << 20;
/// Buffers with more memory than this are never kept. Bytes.
const POOL_BUF_MAX: usize = 4 << 20;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone)]
#[repr(C, align(4096))]
struct Page([u8; PAGE]);

const _: () = assert!(size_of::<Page>() == PAGE && align_of::<Page>() == PAGE);

/// A stock of free buffers, by size class: each class is a power of two of pages. A clone is cheap
/// and shares the stock.
#[derive(Clone, Default)]
pub struct Pool {
    inner: Rc<RefCell<Stock>>,
}

#[derive(Default)]
struct Stock {
    classes: [Vec<Vec<Page>>; 11],
    kept: usize,
}

fn class_of(pages: usize) -> usize {
    pages.next_power_of_two().trailing_zeros() as usize
}

impl Pool {
    /// A buffer of `len` bytes. Its content is *unspecified*: it may be old data of this process.
    /// Where zeros matter, use [`Pool::zeroed`].
    #[must_use]
    pub fn take(&self, len: usize) -> Buf {
        let pages = len.div_ceil(PAGE).max(1);
        let class = class_of(pages);
        let mut stock = self.inner.borrow_mut();
        let recycled = stock.classes.get_mut(class).and_then(Vec::pop);
        if let Some(memory) = &recycled {
            stock.kept -= memory.len() * PAGE;
        }
        let memory = recycled.unwrap_or_else(|| allocate(pages.next_power_of_two()));
        Buf { memory, len, home: Rc::downgrade(&self.inner) }
    }

    /// A buffer of `len` zero bytes.
    #[must_use]
    pub fn zeroed(&self, len: usize) -> Buf {
        let mut buf = self.take(len);
        buf.fill(0);
        buf
    }

    /// Bytes held for reuse.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.inner.borrow().kept
    }
}

fn allocate(pages: usize) -> Vec<Page> {
    match Page::new_vec_zeroed(pages) {
        Ok(memory) => memory,
        Err(_) => std::process::abort(), // as the global allocator does
    }
}

/// One aligned buffer with one owner. It shows `len` bytes; its capacity is that of its size class.
/// A dropped buffer gives its memory back to its pool.
pub struct Buf {
    memory: Vec<Page>,
    len: usize,
    home: Weak<RefCell<Stock>>,
}

impl Buf {
    /// Bytes that the buffer's memory can hold.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.memory.len() * PAGE
    }

    /// Changes the visible length, bytes. Panics if `len` is beyond the capacity.
    pub fn set_len(&mut self, len: usize) {
        assert!(len <= self.capacity(), "buffer length beyond its capacity");
        self.len = len;
    }

    /// Turns the buffer into an immutable slice of all its bytes, which can be shared.
    #[must_use]
    pub fn freeze(self) -> Slice {
        let end = self.len;
        Slice { buf: Rc::new(self), range: 0..end }
    }

    /// Appends bytes. Panics if they do not fit into the capacity.
    pub fn push(&mut self, bytes: &[u8]) {
        let at = self.len;
        self.set_len(at + bytes.len());
        self[at..].copy_from_slice(bytes);
    }
}

impl Deref for Buf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.memory.as_bytes()[..self.len]
    }
}

impl DerefMut for Buf {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory.as_mut_bytes()[..self.len]
    }
}

impl fmt::Debug for Buf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buf({} of {})", self.len, self.capacity())
    }
}

impl Drop for Buf {
    fn drop(&mut self) {
        let Some(home) = self.home.upgrade() else { return };
        let bytes = self.capacity();
        let mut stock = home.borrow_mut();
        if bytes > POOL_BUF_MAX {
            return;
        }
        let class = class_of(self.memory.len());
        let held = stock.classes[class].len();
        if held > 0 && (held + 1) * bytes > POOL_CLASS_MAX {
            return;
        }
        stock.kept += bytes;
        stock.classes[class].push(std::mem::take(&mut self.memory));
    }
}

/// An immutable part of a shared buffer. Clones share the memory, so payload travels without being
/// copied.
#[derive(Clone)]
pub struct Slice {
    buf: Rc<Buf>,
    range: Range<usize>,
}

impl Slice {
    /// The part `range` of this slice, counted from its start. Panics if it ends beyond this slice.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end, "a slice that ends before it starts");
        assert!(self.range.start + range.end <= self.range.end, "a slice beyond its parent");
        let range = self.range.start + range.start..self.range.start + range.end;
        Self { buf: Rc::clone(&self.buf), range }
    }

    /// Where the slice's first byte lies in the memory of its buffer, bytes. A slice that goes to a
    /// device needs a multiple of 512 here.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.range.start
    }

    /// Takes the buffer back, whole, if nobody else holds a part of it.
    ///
    /// # Errors
    /// Gives the slice back if others hold parts of the buffer.
    pub fn try_unfreeze(self) -> Result<Buf, Self> {
        let range = self.range;
        Rc::try_unwrap(self.buf).map_err(|buf| Self { buf, range })
    }
}

impl Deref for Slice {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.buf.memory.as_bytes()[self.range.clone()]
    }
}

impl fmt::Debug for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slice({:?})", self.range)
    }
}

impl From<Buf> for Slice {
    fn from(buf: Buf) -> Self {
        buf.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_buffer_is_recycled_and_aligned() {
        let pool = Pool::default();
        let buf = pool.zeroed(5000);
        assert_eq!((buf.len(), buf.capacity()), (5000, 8192));
        assert_eq!(buf.as_ptr().align_offset(PAGE), 0);
        let slice = buf.freeze();
        let part = slice.slice(4096..5000);
        assert_eq!(part.len(), 904);
        drop(slice);
        assert_eq!(pool.kept(), 0, "a part keeps the memory");
        drop(part);
        assert_eq!(pool.kept(), 8192);
        drop(pool.take(1));
        assert_eq!(pool.kept(), 8192 + 4096);
    }
}

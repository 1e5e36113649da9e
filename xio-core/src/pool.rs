//! `Pool`: a bounded number of aligned blocks, shared by all and handed out in fair order.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::ops::Deref;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Blocks start at a multiple of this many bytes, so that direct I/O can use them.
const ALIGN: usize = 4096;

/// A bounded number of blocks of one size, shared by every session.
///
/// Memory is allocated with the first block and kept for the next user, until
/// [`trim`](Self::trim) finds the pool unused. Clones share the blocks.
#[derive(Clone)]
pub struct Pool {
    shared: Arc<Shared>,
    /// Limit of this handle and its clones; `None` for all blocks.
    share: Option<Arc<Semaphore>>,
}

struct Shared {
    block_size: usize,
    blocks: usize,
    stock: Mutex<Stock>,
    permits: Arc<Semaphore>,
}

/// Memory of free blocks.
#[derive(Default)]
struct Stock {
    free: Vec<BytesMut>,
    /// Whether memory for all blocks was taken.
    made: bool,
    /// Whether a block was handed out since the last look.
    used: bool,
}

/// The right to one block.
struct Turn {
    _share: Option<OwnedSemaphorePermit>,
    _shared: OwnedSemaphorePermit,
}

impl Pool {
    /// Makes a pool of at most `blocks` blocks of `block_size` bytes; both are at least 1.
    #[must_use]
    pub fn new(block_size: usize, blocks: usize) -> Self {
        let blocks = blocks.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            shared: Arc::new(Shared {
                block_size: block_size.max(1),
                blocks,
                stock: Mutex::new(Stock::default()),
                permits: Arc::new(Semaphore::new(blocks)),
            }),
            share: None,
        }
    }

    /// A handle to the same blocks that holds at most `blocks` of them at a time, clones included;
    /// at least 1.
    #[must_use]
    pub fn share(&self, blocks: usize) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            share: Some(Arc::new(Semaphore::new(blocks.clamp(1, self.blocks())))),
        }
    }

    /// Frees the memory of the blocks if none was held since the last call.
    ///
    /// Call it every few seconds. The memory is one allocation, so the kernel gets all of it back.
    pub fn trim(&self) {
        let mut stock = self.stock();
        let idle = self.available() == self.blocks();
        if idle && !std::mem::take(&mut stock.used) {
            *stock = Stock::default();
        }
    }

    /// Size of every block in bytes.
    #[must_use]
    pub fn block_size(&self) -> usize {
        self.shared.block_size
    }

    /// Most blocks.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.shared.blocks
    }

    /// Number of free blocks.
    #[must_use]
    pub fn available(&self) -> usize {
        self.shared.permits.available_permits()
    }

    /// Waits for an empty block; waiters are served in the order of their calls.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place in the queue and nothing else.
    pub async fn get(&self) -> Block {
        self.block(self.turn().await)
    }

    /// Takes an empty block if one is free and no task waits for it.
    #[must_use]
    pub fn try_get(&self) -> Option<Block> {
        let share = match &self.share {
            Some(share) => Some(Arc::clone(share).try_acquire_owned().ok()?),
            None => None,
        };
        let shared = Arc::clone(&self.shared.permits).try_acquire_owned().ok()?;
        Some(self.block(Turn {
            _share: share,
            _shared: shared,
        }))
    }

    /// Waits until `from` has bytes and returns a block of at most `limit` of them; empty at the
    /// end.
    ///
    /// A session that waits for its peer holds no block: the block is taken for the attempt and
    /// given back when there is nothing to read.
    ///
    /// # Errors
    /// Those of the stream.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: no byte was taken.
    pub async fn read<R>(&self, from: &mut R, limit: usize) -> io::Result<Block>
    where
        R: AsyncRead + Unpin + ?Sized,
    {
        let mut turn = pin!(None);
        poll_fn(|cx| {
            if turn.is_none() {
                turn.set(Some(self.get()));
            }
            let Some(waiting) = turn.as_mut().as_pin_mut() else {
                unreachable!("set just above");
            };
            let mut block = ready!(waiting.poll(cx));
            turn.set(None);
            let n = ready!(block.poll_fill(cx, Pin::new(&mut *from), limit))?;
            debug_assert_eq!(n, block.len(), "the block was empty");
            Poll::Ready(Ok(block))
        })
        .await
    }

    async fn turn(&self) -> Turn {
        let permit = |of: &Arc<Semaphore>| {
            let waiting = Arc::clone(of).acquire_owned();
            async { waiting.await.expect("the semaphores are never closed") }
        };
        // The own limit first: a task that waits for it keeps no other task from a block.
        let share = match &self.share {
            Some(share) => Some(permit(share).await),
            None => None,
        };
        Turn {
            _share: share,
            _shared: permit(&self.shared.permits).await,
        }
    }

    fn block(&self, turn: Turn) -> Block {
        let mut stock = self.stock();
        stock.used = true;
        if !std::mem::replace(&mut stock.made, true) {
            stock.free = slab(self.shared.block_size, self.shared.blocks);
        }
        let memory = stock.free.pop();
        drop(stock);
        Block {
            // Lent memory that was not restored is allocated anew.
            memory: memory.unwrap_or_else(|| aligned(self.shared.block_size)),
            shared: Arc::clone(&self.shared),
            _turn: turn,
        }
    }

    fn stock(&self) -> MutexGuard<'_, Stock> {
        self.shared.stock()
    }
}

impl Shared {
    fn stock(&self) -> MutexGuard<'_, Stock> {
        // A list of buffers is consistent at every instant, so a panic elsewhere does no harm.
        self.stock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of {} blocks of {} bytes free",
            self.available(),
            self.blocks(),
            self.block_size()
        )
    }
}

/// Allocates an empty buffer of `size` bytes that starts on a page boundary.
fn aligned(size: usize) -> BytesMut {
    let mut memory = BytesMut::with_capacity(size.saturating_add(ALIGN));
    let skip = memory.as_ptr().align_offset(ALIGN).min(ALIGN);
    memory.put_bytes(0, skip);
    // Gives away the front; the rest keeps its place until the buffer grows, which it never does.
    drop(memory.split_to(skip));
    memory
}

/// Buffers of `size` bytes that share one allocation; the kernel provides pages as they are
/// touched.
///
/// Allocators keep freed memory of the size of a block; memory of the size of a pool goes back to
/// the kernel.
fn slab(size: usize, count: usize) -> Vec<BytesMut> {
    let stride = size.next_multiple_of(ALIGN);
    let mut rest = aligned(stride.saturating_mul(count));
    let cut = |_| {
        let after = rest.split_off(stride.min(rest.capacity()));
        let mut block = std::mem::replace(&mut rest, after);
        drop(block.split_off(size.min(block.capacity())));
        block
    };
    let mut blocks: Vec<BytesMut> = (0..count).map(cut).collect();
    // The last is handed out first: in the order of addresses, so that few pages are touched.
    blocks.reverse();
    blocks
}

/// A block of a [`Pool`], filled from the front; dropping it gives it back.
pub struct Block {
    memory: BytesMut,
    shared: Arc<Shared>,
    _turn: Turn,
}

impl Block {
    /// Size of the block in bytes, filled or not.
    #[must_use]
    pub fn size(&self) -> usize {
        self.shared.block_size
    }

    /// Number of bytes that may still be added.
    #[must_use]
    pub fn room(&self) -> usize {
        self.size().saturating_sub(self.memory.len())
    }

    /// The filled part, to be changed in place.
    pub fn filled_mut(&mut self) -> &mut [u8] {
        &mut self.memory
    }

    /// Empties the block.
    pub fn clear(&mut self) {
        self.memory.clear();
    }

    /// Keeps only the first `len` filled bytes.
    pub fn truncate(&mut self, len: usize) {
        self.memory.truncate(len);
    }

    /// Adds as many of `bytes` as there is room for and returns their number.
    pub fn extend(&mut self, bytes: &[u8]) -> usize {
        let part = bytes.get(..self.room()).unwrap_or(bytes);
        self.memory.extend_from_slice(part);
        part.len()
    }

    /// Lends the memory to an interface that works on `BytesMut`; give it back with
    /// [`restore`](Self::restore), or the pool allocates anew for the next user.
    #[must_use]
    pub fn take(&mut self) -> BytesMut {
        std::mem::take(&mut self.memory)
    }

    /// Takes memory back that [`take`](Self::take) lent, filled or not.
    pub fn restore(&mut self, memory: BytesMut) {
        self.memory = memory;
    }

    /// Reads once into the free part, at most `limit` bytes; 0 at the end or when it is full.
    ///
    /// # Errors
    /// Those of the stream.
    pub fn poll_fill<R>(
        &mut self,
        cx: &mut Context<'_>,
        mut from: Pin<&mut R>,
        limit: usize,
    ) -> Poll<io::Result<usize>>
    where
        R: AsyncRead + Unpin + ?Sized,
    {
        let room = self.room().min(limit);
        if room == 0 {
            return Poll::Ready(Ok(0));
        }
        let mut window = (&mut self.memory).limit(room);
        // Tokio's future reads straight into memory that was never written, and keeps no state.
        let attempt = pin!(from.read_buf(&mut window));
        attempt.poll(cx)
    }
}

impl Deref for Block {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory
    }
}

impl AsRef<[u8]> for Block {
    fn as_ref(&self) -> &[u8] {
        &self.memory
    }
}

/// The block goes back to its pool when the last clone of the `Bytes` is dropped.
impl From<Block> for Bytes {
    fn from(block: Block) -> Self {
        Self::from_owner(block)
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} bytes", self.memory.len(), self.size())
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let mut memory = std::mem::take(&mut self.memory);
        memory.clear();
        // Lent memory that was not restored, or was replaced, is not kept.
        if memory.capacity() >= self.shared.block_size {
            self.shared.stock().free.push(memory);
        }
        // The permits follow, after the memory is there for the next user.
    }
}

#[cfg(test)]
mod tests;

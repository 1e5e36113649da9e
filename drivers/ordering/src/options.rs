//! `OrderingOptions`: the size and number of buffers.

use xio_core::{ByteSize, Error, ErrorKind, Operation, Result, Setting};

use crate::Ordering;

/// Most bytes of all buffers together, since a peer may set the options.
const MAX_MEMORY: u64 = 256 << 20;

const fn count() -> Setting<u32> {
    Setting::new()
        .takes("a number, 1 to 65536", &["1", "64"])
        .only(|count| (1..=65536).contains(count))
}

xio_core::options! {
    /// Size and number of the buffers.
    #[derive(Copy)]
    pub struct OrderingOptions for "ordering" [impl Ordering] check Self::check {
        /// Most bytes of a buffer.
        buf_size: ByteSize = ByteSize::new(256 << 10), "buf_size",
            Setting::new()
                .takes("bytes, 1K to 16M", &["1K", "256K"])
                .only(|size| (1 << 10..=16 << 20).contains(&size.bytes()));
        /// Whether blocks that are not next are kept.
        buffering: bool = true, "buffering";
        /// Number of buffers, which have at most 256 MiB together.
        max_buf_count: u32 = 64, "max_buf_count", count();
        /// Number of blocks read from below in one call before other tasks run.
        max_read_count: u32 = 64, "max_read_count", count();
    }
}

impl OrderingOptions {
    fn check(&self) -> Result<()> {
        if self.buf_size.bytes() * u64::from(self.max_buf_count) <= MAX_MEMORY {
            return Ok(());
        }
        let fact = format!(
            "{} buffers of {} bytes are more than 256M together",
            self.max_buf_count, self.buf_size
        );
        Err(Error::new(
            ErrorKind::BadOption,
            crate::LAYER,
            Operation::Plan,
            fact,
        ))
    }
}

//! `ModeEOptions`: the number of connections and the size of blocks.

use xio_core::{ByteSize, Setting};

use crate::ModeE;

pub(crate) const MAX_STREAMS: u32 = 64;

xio_core::options! {
    /// Number of connections and size of blocks.
    #[derive(Copy)]
    pub struct ModeEOptions for "mode_e" [impl<T> ModeE<T>] {
        /// Most bytes of a written block.
        block: ByteSize = ByteSize::new(256 << 10), "block",
            Setting::new()
                .takes("bytes, 1K to 16M", &["1K", "16M"])
                .only(|block| (1 << 10..=16 << 20).contains(&block.bytes()));
        /// Number of connections to open; 1 by default. A listener takes any number, and with 1
        /// each connection is a stream of its own.
        streams: Option<u32> = None, "streams",
            Setting::new()
                .takes("a number, 1 to 64", &["1", "64"])
                .only(|streams| streams.is_some_and(|n| (1..=MAX_STREAMS).contains(&n)));
    }
}

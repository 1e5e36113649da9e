//! Compresses the bytes of a stack, block by block.
//!
//! # What it does
//!
//! Collects written bytes to blocks, packs each by a codec, and sends it with its lengths and a
//! checksum ([`frame`] draws the bytes). A [codec](codec::Codec) is one small trait, independent of
//! frames and streams. Every block names its codec, so a reader needs no options, and a block that
//! does not shrink is sent stored.
//!
//! | Codec | Description | Levels |
//! | --- | --- | --- |
//! | `zstd` | Zstandard: smaller than `zlib`, at several times its speed; the default | -7 to 19, 3 |
//! | `zlib` | deflate, as the compression driver of Globus XIO has it | 1 to 9, 6 |
//! | `lz4` | little work for a little less; unpacks at gigabytes a second | none |
//! | `lzo` | LZO1X, the other codec of that driver; **only in builds with the feature `lzo`** | 1 to 9, 3 |
//! | `stored` | no compression; measures the cost of the layer itself | none |
//!
//! With every codec but `stored`, a block of one repeated byte, as in holes of files, is sent as
//! that byte.
//!
//! The library behind `lzo` is under the **GPL, version 2**. Only `--features lzo` builds it in,
//! here and in the programs, and such a build falls under that licence as a whole.
//!
//! **Flushing.** Bytes wait until a block is full. A flush sends them at once, as a block of their
//! own; so flush before waiting for an answer. Shutdown flushes, and writes the end mark.
//!
//! **Reading.** A block is handed out when its checksum agrees, so all bytes before an error are as
//! they were written. The end is reported only when every block agreed and the end mark was read.
//!
//! **Choosing.** `strategy=auto` watches the link, and chooses the codec for each block: none on a
//! link that is faster than any codec or on data that does not shrink, the one that moves most
//! otherwise. It takes a moment of the stream to find out, so it is for transfers, not messages.
//!
//! # When not to use it
//!
//! Below an encrypting layer: encrypted bytes do not shrink; use `tcp,tls,compress`. On secrets
//! next to text that others choose, over an encrypting layer: lengths then reveal the secret. On a
//! link that is faster than the codec, unless `strategy=auto` chooses.
//!
//! # String form
//!
//! `compress`, with options as in `compress:codec=zlib;level=1;threads=4`. They apply to sent data.
//!
//! The options are those of [`CompressOptions`].
//!
//! # Cost
//!
//! Processor time of the codec: 64 KiB of a program take about 1.3 ms with `zlib`, 0.4 with `zstd`,
//! 0.1 with `lz4`. Work of more than 2 ms, and with `threads` above 1 all work worth a thread, is
//! done on the runtime's threads for blocking work. Wire: up to 11 bytes a block, 8 and 5 a stream.
//! Memory: during transfer at most four blocks for each thread and direction; none while a stream
//! is idle or flushed. All streams share the tables.
//!
//! # Example
//!
//! ```
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! use xio_compress::{Compress, Compression};
//! use xio_core::{Incoming, Listener, Passive, Stream, Transport};
//! use xio_testkit::Mem;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let stack = Mem::new().push(Compress::new().with_options("codec=zlib;level=9".parse()?));
//! let at = "somewhere:1".parse()?;
//! let mut listener = stack.listen(&at).await?;
//! let mut near = stack.connect(&at).await?;
//! let mut far = listener.accept().await?.open().await?;
//!
//! near.write_all(&[b'a'; 100_000]).await?;
//! near.shutdown().await?;
//! let mut arrived = Vec::new();
//! far.read_to_end(&mut arrived).await?;
//! assert_eq!(arrived, [b'a'; 100_000]);
//!
//! let info = near.info();
//! let moved = info.get::<Compression>().expect("the layer says what it moved");
//! assert!(moved.written == 100_000 && moved.sent < 500);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod auto;
pub mod codec;
mod codec_cache;
pub mod frame;
mod options;
mod outgoing;
mod parallel;
mod read;
mod stream;
mod write;

use xio_core::{Driver, DynLayer};

pub use codec::Algorithm;
pub use options::{CompressOptions, Strategy};
pub use stream::{Compress, CompressHandle, Compression};

const LAYER: &str = "compress";

/// The driver for a registry.
#[must_use]
pub fn driver() -> Driver {
    Driver::layer(
        LAYER,
        "compresses what passes, block by block",
        |options: CompressOptions, _| Ok(DynLayer::new(Compress::new().with_options(options))),
    )
}

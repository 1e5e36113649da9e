//! `Compress` and `CompressHandle`: the layer, and an open stream with a writer and a reader.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use xio_core::{Control, Info, Result, Stream, Transform};

use crate::LAYER;
use crate::auto::Auto;
use crate::codec::Algorithm;
use crate::codec_cache::{Choice, CodecCache};
use crate::options::{CompressOptions, Strategy};
use crate::read::Reader;
use crate::write::{Chooser, Writer};

/// The layer; its streams share the tables of the codecs.
#[derive(Clone, Default)]
pub struct Compress {
    pub(crate) options: CompressOptions,
    codecs: CodecCache,
}

impl Compress {
    /// The driver with the default options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The driver with one codec.
    #[must_use]
    pub fn fixed(codec: Algorithm) -> Self {
        Self::default().codec(codec)
    }

    /// The driver with raw deflate in blocks.
    #[must_use]
    pub fn zlib() -> Self {
        Self::fixed(Algorithm::Zlib)
    }

    /// The driver with Zstandard.
    #[must_use]
    pub fn zstd() -> Self {
        Self::fixed(Algorithm::Zstd)
    }

    /// The driver with LZ4.
    #[must_use]
    pub fn lz4() -> Self {
        Self::fixed(Algorithm::Lz4)
    }

    /// The driver that chooses the codec by the link and the data.
    #[must_use]
    pub fn auto() -> Self {
        Self::default().strategy(Strategy::Auto)
    }

    fn chooser(&self) -> Chooser {
        let options = &self.options;
        if options.strategy == Strategy::Auto {
            let auto = Auto::new(options.width(), options.rules().most());
            return Chooser::Auto(Box::new(auto));
        }
        let algorithm = options.codec.unwrap_or_default();
        let level = options.level.unwrap_or_else(|| algorithm.default_level());
        Chooser::Fixed(Choice { algorithm, level })
    }
}

impl fmt::Debug for Compress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        xio_core::write_driver(f, LAYER, &self.options)
    }
}

impl<S: Stream> Transform<S> for Compress {
    type Handle = CompressHandle<S>;

    async fn respond(&self, inner: S) -> Result<Self::Handle> {
        let options = &self.options;
        options.check()?;
        let threads = options.width();
        let (rules, block) = (options.rules(), options.block_len());
        Ok(CompressHandle {
            writer: Writer::new(self.codecs.clone(), rules, block, threads, self.chooser()),
            reader: Reader::new(self.codecs.clone(), threads),
            inner,
        })
    }

    fn describe(&self, info: &mut Info) {
        info.layer(LAYER);
    }
}

/// The bytes that a stream has moved so far, as [`Info::get`] returns them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compression {
    /// Bytes that were written to the stream.
    pub written: u64,
    /// Packed bytes taken by the layer below.
    pub sent: u64,
    /// Bytes that were read from the stream.
    pub read: u64,
    /// Packed bytes of these, whole blocks only.
    pub received: u64,
    /// The codec of blocks written now.
    pub algorithm: Algorithm,
    /// Its level.
    pub level: i32,
}

/// An open stream with compressed bytes below.
#[derive(Debug)]
pub struct CompressHandle<S> {
    inner: S,
    writer: Writer,
    reader: Reader,
}

impl<S: Stream> AsyncRead for CompressHandle<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.reader.poll_read(cx, &mut this.inner, buf)
    }
}

impl<S: Stream> AsyncWrite for CompressHandle<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.writer.poll_write(cx, &mut this.inner, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.writer.poll_flush(cx, &mut this.inner)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.writer.poll_shutdown(cx, &mut this.inner)
    }
}

impl<S: Stream> Stream for CompressHandle<S> {
    fn describe(&self, info: &mut Info) {
        self.inner.describe(info);
        info.layer(LAYER);
        let (out, back) = (self.writer.moved(), self.reader.moved());
        let Choice { algorithm, level } = self.writer.choice();
        info.insert(Compression {
            written: out.original,
            sent: out.wire,
            read: back.original,
            received: back.wire,
            algorithm,
            level,
        });
    }

    fn control(&mut self, control: Control<'_>) -> Option<Result<String>> {
        self.inner.control(control)
    }
}

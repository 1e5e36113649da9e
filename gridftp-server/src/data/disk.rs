//! `DiskStack`: a file behind the layers of `SITE SETDISKSTACK`.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex as Slot, PoisonError};
use std::task::{Context, Poll, ready};

use byte_ranges::RangeSet;
use bytes::{Bytes, BytesMut};
use gridftp_data::Chunks;
use gridftp_dsi::{Error as StorageError, ErrorKind, Finish, Sink, Source, Stat, WriteModel};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::sync::Mutex;
use xio::{
    BoxStream, Driver, DynStack, Info, NoOptions, Plan, Registry, Result, Stream, Target, Transport,
};

/// Bytes of one read or write of the storage.
const BLOCK: usize = 32 << 10;

/// Layers over a file of the storage, which stands at the bottom under the name `file`.
///
/// Such a file is read and written from its start to its end, since a layer may change its length:
/// no restarts, no regions, no digests given ahead.
#[derive(Debug, Clone)]
pub(crate) struct DiskStack {
    layers: Registry,
    plan: Plan,
}

impl DiskStack {
    /// Parses the layers over `file`; `None` when `text` names none.
    ///
    /// # Errors
    /// Those of [`Registry::build`], and a stack without `file` at the bottom.
    pub(super) fn new(layers: &Registry, text: &str) -> Result<Option<Self>> {
        let plan: Plan = text.parse()?;
        let stack = Self {
            layers: layers.clone(),
            plan,
        };
        // Built once around nothing, to find its errors now.
        stack.around(None)?;
        Ok((stack.plan.entries().len() > 1).then_some(stack))
    }

    /// Returns the stack whose only handle is `file`.
    fn around(&self, file: Option<Box<dyn Stream>>) -> Result<DynStack> {
        let file = Arc::new(Slot::new(file));
        let mut registry = self.layers.clone();
        registry.register(Driver::base(
            "file",
            "the file that is transferred",
            move |_: NoOptions, _| Ok(DynStack::active(Once(Arc::clone(&file)), "file")),
        ));
        registry.build(&self.plan)
    }

    /// Puts the layers on an object that is open.
    async fn open(&self, file: impl Stream) -> Result<BoxStream, StorageError> {
        let opening = async {
            let stack = self.around(Some(Box::new(file)))?;
            stack.connect(&Target::default()).await
        };
        opening.await.map_err(|e| layer_error("open", e))
    }

    /// The object's bytes as the layers give them.
    ///
    /// # Errors
    /// Those of opening the layers.
    pub(super) async fn read<S: Source>(&self, source: S) -> Result<Reading, StorageError> {
        let stream = self.open(FileOut::new(source)).await?;
        Ok(Reading(stream))
    }

    /// A sink whose bytes reach `sink` through the layers.
    ///
    /// # Errors
    /// Those of opening the layers.
    pub(super) async fn write<K: Sink>(&self, sink: K) -> Result<Layered<K>, StorageError> {
        let sink = Arc::new(sink);
        let written = Arc::new(Slot::new(0));
        let part = match sink.order() {
            WriteModel::Parts(size) => usize::try_from(size).unwrap_or(usize::MAX),
            _ => 0,
        };
        let file = FileIn {
            sink: Arc::clone(&sink),
            written: Arc::clone(&written),
            busy: None,
            part,
            ready: BytesMut::new(),
        };
        let stream = self.open(file).await?;
        Ok(Layered {
            stream: Mutex::new(stream),
            sink,
            written,
        })
    }
}

fn layer_error(
    op: &'static str,
    error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> StorageError {
    StorageError::new(ErrorKind::Io, op).because(error)
}

/// Hands out one handle.
struct Once(Arc<Slot<Option<BoxStream>>>);

impl Transport for Once {
    type Handle = BoxStream;

    async fn connect(&self, _: &Target) -> Result<BoxStream> {
        let taken = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        taken.ok_or_else(|| {
            xio::Error::new(
                xio::ErrorKind::Unsupported,
                "file",
                xio::Operation::Connect,
                "a layer opens the file more than once",
            )
        })
    }
}

/// A file read through layers.
pub(super) struct Reading(BoxStream);

impl Chunks for Reading {
    async fn next(&mut self) -> Result<Option<Bytes>, StorageError> {
        let mut block = BytesMut::with_capacity(BLOCK);
        let n = self.0.read_buf(&mut block).await;
        let n = n.map_err(read_error)?;
        Ok((n > 0).then(|| block.freeze()))
    }

    fn is_patient(&self) -> bool {
        false
    }
}

/// A sink with layers above it, which takes bytes in order.
pub(super) struct Layered<K> {
    stream: Mutex<BoxStream>,
    sink: Arc<K>,
    /// Bytes written by the layers.
    written: Arc<Slot<u64>>,
}

impl<K: Sink> Sink for Layered<K> {
    async fn write_at(&self, _: u64, data: Bytes) -> Result<(), StorageError> {
        let written = self.stream.lock().await.write_all(&data).await;
        written.map_err(|e| storage_error("write", e))
    }

    /// It cannot be continued: bytes inside a layer are not in the file yet.
    async fn checkpoint(&self, _: &RangeSet, _: bool) -> Result<(), StorageError> {
        Err(StorageError::new(ErrorKind::Unsupported, "checkpoint"))
    }

    fn held(&self) -> RangeSet {
        RangeSet::new()
    }

    fn order(&self) -> WriteModel {
        WriteModel::Sequential
    }

    async fn finish(self, mut done: Finish) -> Result<Stat, StorageError> {
        let mut stream = self.stream.into_inner();
        let ended = stream.shutdown().await;
        ended.map_err(|e| storage_error("write", e))?;
        drop(stream);
        // The length and the ranges of the received data differ from those of the layers' output.
        done.size = Some(*self.written.lock().unwrap_or_else(PoisonError::into_inner));
        done.held = None;
        match Arc::into_inner(self.sink) {
            Some(sink) => sink.finish(done).await,
            None => Err(layer_error("finish", "a layer still holds the file")),
        }
    }
}

/// The storage's own error where a layer only passed it on.
fn storage_error(op: &'static str, error: io::Error) -> StorageError {
    error
        .downcast::<StorageError>()
        .unwrap_or_else(|error| layer_error(op, error))
}

/// A file that no layer has written fails in the same way when it is read again.
fn read_error(error: io::Error) -> StorageError {
    match xio::Error::layer_of(&error).map(xio::Error::kind) {
        Some(xio::ErrorKind::Protocol | xio::ErrorKind::UnexpectedEof) => {
            StorageError::new(ErrorKind::Malformed, "read").because(error)
        }
        _ => storage_error("read", error),
    }
}

type Busy<T> = Pin<Box<dyn Future<Output = Result<T, StorageError>> + Send>>;

/// An object that is read in order.
struct FileOut<S> {
    source: Arc<S>,
    offset: u64,
    /// Bytes read and not yet returned.
    block: BytesMut,
    busy: Option<Busy<BytesMut>>,
}

impl<S: Source> FileOut<S> {
    fn new(source: S) -> Self {
        Self {
            source: Arc::new(source),
            offset: 0,
            block: BytesMut::new(),
            busy: None,
        }
    }
}

impl<S: Source> AsyncRead for FileOut<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.block.is_empty() {
            let (source, offset) = (&this.source, this.offset);
            let busy = this.busy.get_or_insert_with(|| {
                let source = Arc::clone(source);
                Box::pin(
                    async move { source.read_at(offset, BytesMut::with_capacity(BLOCK)).await },
                )
            });
            let read = ready!(busy.as_mut().poll(cx));
            this.busy = None;
            this.block = read.map_err(io::Error::other)?;
            this.offset += this.block.len() as u64;
        }
        let n = this.block.len().min(buf.remaining());
        buf.put_slice(&this.block.split_to(n));
        Poll::Ready(Ok(()))
    }
}

impl<S: Source> AsyncWrite for FileOut<S> {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl<S: Source> Stream for FileOut<S> {
    fn describe(&self, info: &mut Info) {
        info.layer("file");
    }
}

/// An object that is written in order.
struct FileIn<K> {
    sink: Arc<K>,
    written: Arc<Slot<u64>>,
    busy: Option<Busy<u64>>,
    /// Bytes of one write, for a sink that takes whole parts; else 0.
    part: usize,
    /// Bytes of a part that is not whole yet.
    ready: BytesMut,
}

impl<K: Sink> FileIn<K> {
    /// Begins to write the bytes that are ready.
    fn start(&mut self) {
        let data = std::mem::take(&mut self.ready).freeze();
        let offset = *self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let sink = Arc::clone(&self.sink);
        self.busy = Some(Box::pin(async move {
            let len = data.len() as u64;
            sink.write_at(offset, data).await?;
            Ok(len)
        }));
    }

    /// Waits for the running write, and counts it.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(busy) = &mut self.busy {
            let done = ready!(busy.as_mut().poll(cx));
            self.busy = None;
            let n = done.map_err(io::Error::other)?;
            *self.written.lock().unwrap_or_else(PoisonError::into_inner) += n;
        }
        Poll::Ready(Ok(()))
    }
}

impl<K: Sink> AsyncRead for FileIn<K> {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }
}

impl<K: Sink> AsyncWrite for FileIn<K> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_idle(cx))?;
        let most = if self.part > 0 {
            self.part - self.ready.len()
        } else {
            BLOCK
        };
        let taken = buf.get(..most).unwrap_or(buf);
        let n = taken.len();
        self.ready.extend_from_slice(taken);
        if self.ready.len() >= self.part {
            self.start();
        }
        // Started now; the next call waits for it.
        match self.poll_idle(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(n)),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_idle(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_idle(cx))?;
        if !self.ready.is_empty() {
            self.start();
        }
        self.poll_idle(cx)
    }
}

impl<K: Sink> Stream for FileIn<K> {
    fn describe(&self, info: &mut Info) {
        info.layer("file");
    }
}

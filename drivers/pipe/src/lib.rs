//! Two descriptors as one stream, the standard ones among them.
//!
//! # What it does
//!
//! Reads from one descriptor and writes to another: the program's standard input and output, so
//! that a stack can be part of a shell's pipeline, or any two of a typed stack. The contact is
//! ignored.
//!
//! `shutdown` closes the writing descriptor and makes standard output lead to `/dev/null`, so that
//! its reader sees the end while this program continues.
//!
//! # When not to use it
//!
//! Bare, where a crash of a program must not look like its end: a pipe has no reset. For files, use
//! `file`. In a stack from a peer: a restricted registry does not contain this driver.
//!
//! # String form
//!
//! `pipe` or `pipe:blocking=yes`.
//!
//! The options are those of [`PipeOptions`].
//!
//! # Cost
//!
//! A pipe or a socket takes one system call per read or write. Anything else is read and written on a blocking
//! thread, like a file: tens of microseconds each. Such a read cannot be cancelled, so a program
//! that exits while one waits for a terminal ends with the next line.
//!
//! # Example
//!
//! ```
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! use xio_core::Transport;
//! use xio_pipe::Pipe;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (input, output) = std::io::pipe()?;
//! let loop_back = Pipe::of(input, output);
//! let mut handle = loop_back.connect(&"anything".parse()?).await?;
//! handle.write_all(b"hello").await?;
//! handle.shutdown().await?;
//! let mut text = String::new();
//! handle.read_to_string(&mut text).await?;
//! assert_eq!(text, "hello");
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod end;
mod socket;

use std::fmt;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use xio_core::{
    Driver, DynStack, Error, Info, Operation, Result, Stream, Target, Transport, at_layer,
    shut_down,
};

use end::{Input, Output};

const LAYER: &str = "pipe";

xio_core::options! {
    /// Settings of a pair of descriptors.
    #[derive(Copy)]
    pub struct PipeOptions for "pipe" [impl Pipe] {
        /// Whether they are read and written on blocking threads.
        blocking: bool = false, "blocking";
    }
}

/// The descriptors of a pipe.
enum Ends {
    Standard,
    /// `None` once they are opened, which is possible once.
    Given(Mutex<Option<(OwnedFd, OwnedFd)>>),
}

/// The transport.
pub struct Pipe {
    ends: Ends,
    options: PipeOptions,
}

impl Pipe {
    /// The program's standard input and output.
    #[must_use]
    pub fn standard() -> Self {
        Self {
            ends: Ends::Standard,
            options: PipeOptions::default(),
        }
    }

    /// These two descriptors, which move into the first handle.
    pub fn of(input: impl Into<OwnedFd>, output: impl Into<OwnedFd>) -> Self {
        Self {
            ends: Ends::Given(Mutex::new(Some((input.into(), output.into())))),
            options: PipeOptions::default(),
        }
    }

    fn open(&self) -> io::Result<PipeHandle> {
        let (input, output) = match &self.ends {
            Ends::Standard => (
                io::stdin().as_fd().try_clone_to_owned()?,
                io::stdout().as_fd().try_clone_to_owned()?,
            ),
            Ends::Given(ends) => ends
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take()
                .ok_or_else(|| io::Error::other("these descriptors were opened before"))?,
        };
        Ok(PipeHandle {
            input: Input::new(input, self.options.blocking)?,
            output: Some(Output::new(output, self.options.blocking)?),
            standard: matches!(self.ends, Ends::Standard),
        })
    }
}

impl fmt::Debug for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        xio_core::write_driver(f, LAYER, &self.options)
    }
}

impl Transport for Pipe {
    type Handle = PipeHandle;

    async fn connect(&self, _: &Target) -> Result<PipeHandle> {
        self.open()
            .map_err(|error| Error::from_io(error, LAYER, Operation::Connect))
    }
}

/// An open pair of descriptors.
pub struct PipeHandle {
    input: Input,
    /// `None` once it is shut down.
    output: Option<Output>,
    standard: bool,
}

impl PipeHandle {
    fn output(&mut self, op: Operation) -> io::Result<Pin<&mut Output>> {
        match &mut self.output {
            Some(output) => Ok(Pin::new(output)),
            None => Err(shut_down(LAYER, op)),
        }
    }
}

fn named<T>(answer: Poll<io::Result<T>>, op: Operation) -> Poll<io::Result<T>> {
    answer.map_err(|error| at_layer(error, LAYER, op))
}

impl AsyncRead for PipeHandle {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        named(
            Pin::new(&mut self.input).poll_read(cx, buf),
            Operation::Read,
        )
    }
}

impl AsyncWrite for PipeHandle {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let answer = self.output(Operation::Write)?.poll_write(cx, buf);
        named(answer, Operation::Write)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let answer = self.output(Operation::Write)?.poll_write_vectored(cx, bufs);
        named(answer, Operation::Write)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.output {
            Some(output) => named(Pin::new(output).poll_flush(cx), Operation::Flush),
            None => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(output) = &mut self.output {
            ready!(named(
                Pin::new(output).poll_shutdown(cx),
                Operation::Shutdown
            ))?;
        }
        if self.output.take().is_some() && self.standard {
            // The reader sees no end while the program's own descriptor is open.
            let null = std::fs::File::options().write(true).open("/dev/null");
            let replaced = null.and_then(|file| Ok(rustix::stdio::dup2_stdout(file)?));
            return named(Poll::Ready(replaced), Operation::Shutdown);
        }
        Poll::Ready(Ok(()))
    }
}

impl Stream for PipeHandle {
    fn describe(&self, info: &mut Info) {
        info.layer(LAYER);
    }
}

impl fmt::Debug for PipeHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.info())
    }
}

/// The driver for a registry.
#[must_use]
pub fn driver() -> Driver {
    Driver::base(
        LAYER,
        "standard input and output",
        |options: PipeOptions, entry| {
            let pipe = Pipe::standard().with_options(options);
            Ok(DynStack::active(pipe, &entry.to_string()))
        },
    )
    .private()
}

#[cfg(test)]
mod tests;

//! A program as a stream: its standard output and input.
//!
//! # What it does
//!
//! Runs a program: writes go to its standard input, reads come from its standard output. `shutdown`
//! ends its input. A read returns the end when the output has ended *and* the program has exited
//! with status 0; any other status is an error, with the last bytes of its standard error. To know
//! that a program has succeeded, shut down and read to the end.
//!
//! A handle dropped before `shutdown` kills the program and its process group before the input
//! ends, so that the program never takes truncated input for the whole. After `shutdown`, a dropped
//! handle leaves the program running, and its status is lost. The program has its own process
//! group, so that it does not get the signals of this terminal, such as an interrupt; with
//! `foreground` it stays in that of this process, as a program that asks for a passphrase must.
//!
//! # When not to use it
//!
//! With arguments from a stranger: there is no shell in between, but a program may take a name for
//! an option. A restricted registry, which parses the strings of peers, never contains this driver.
//!
//! # String form
//!
//! `popen:key=value;key=value`, as `popen:argv=#/bin/cat#-n`. A `,` or `;` in a value is
//! written `%2C` or `%3B`.
//!
//! The options are those of [`PopenOptions`].
//!
//! # Cost
//!
//! One process; one system call per read or write; one task for its status and the last 2 KiB of
//! its standard error.
//!
//! # Example
//!
//! ```
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! use xio_core::Transport;
//! use xio_popen::{Popen, PopenOptions};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let upper = Popen::new().argv(["/usr/bin/tr", "a-z", "A-Z"].map(String::from));
//! let mut handle = upper.connect(&"anything".parse()?).await?;
//! handle.write_all(b"hello").await?;
//! handle.shutdown().await?;
//! let mut text = String::new();
//! handle.read_to_string(&mut text).await?;
//! assert_eq!(text, "HELLO");
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod options;
mod watch;

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::process::Stdio;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::process::{ChildStdin, ChildStdout, Command};
use xio_core::{
    Driver, DynStack, Error, ErrorKind, Info, Operation, Result, Stream, Target, Transport,
    at_layer, shut_down,
};

pub use options::PopenOptions;
use watch::Watch;

const LAYER: &str = "popen";

/// The transport.
#[derive(Clone, Default)]
pub struct Popen {
    options: PopenOptions,
}

impl Popen {
    /// The driver with the default options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl fmt::Debug for Popen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        xio_core::write_driver(f, LAYER, &self.options)
    }
}

impl Transport for Popen {
    type Handle = PopenHandle;

    async fn connect(&self, to: &Target) -> Result<PopenHandle> {
        let (program, arguments) = match (self.options.argv.split_first(), &to.path) {
            (Some((program, arguments)), _) => (program.as_str(), arguments),
            (None, Some(path)) if to.host.is_none() && !path.is_empty() => (path.as_str(), &[][..]),
            (None, _) => {
                let fact = format!("`{to:?}` has no program; give one with argv or as a path");
                let kind = ErrorKind::BadTarget;
                return Err(Error::new(kind, LAYER, Operation::Connect, fact));
            }
        };
        let mut command = Command::new(program);
        if !self.options.pass_env {
            command.env_clear();
        }
        command
            .args(arguments)
            .envs(self.options.env.iter().map(|(key, value)| (key, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if !self.options.foreground {
            command.process_group(0);
        }
        let mut child = command.spawn().map_err(|error| {
            let what = format!("run `{program}`");
            Error::from_io(error, LAYER, Operation::Connect).about(what)
        })?;
        let (Some(input), Some(output), Some(errors)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            unreachable!("all three were set to piped above");
        };
        Ok(PopenHandle {
            watch: Watch::new(program.to_owned(), child, errors, self.options.foreground),
            input: Some(input),
            output,
            output_ended: false,
            ignore_errors: self.options.ignore_errors,
        })
    }
}

/// A program, running or ended.
pub struct PopenHandle {
    /// Dropped before the input, so that a program is killed before it sees the end of its input.
    watch: Watch,
    /// `None` once it is shut down.
    input: Option<ChildStdin>,
    output: ChildStdout,
    output_ended: bool,
    ignore_errors: bool,
}

impl PopenHandle {
    /// Waits for the exit of the program, and checks its status.
    fn poll_exit(&mut self, cx: &mut Context<'_>, op: Operation) -> Poll<io::Result<()>> {
        let failure = ready!(self.watch.poll_failure(cx));
        Poll::Ready(match failure {
            Some(fact) if !self.ignore_errors => {
                Err(Error::new(ErrorKind::Io, LAYER, op, fact).into())
            }
            _ => Ok(()),
        })
    }

    fn input(&mut self) -> io::Result<Pin<&mut ChildStdin>> {
        let gone = || shut_down(LAYER, Operation::Write);
        Ok(Pin::new(self.input.as_mut().ok_or_else(gone)?))
    }
}

fn named<T>(answer: Poll<io::Result<T>>, op: Operation) -> Poll<io::Result<T>> {
    answer.map_err(|error| at_layer(error, LAYER, op))
}

impl AsyncRead for PopenHandle {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        if !self.output_ended {
            let before = buf.filled().len();
            ready!(named(
                Pin::new(&mut self.output).poll_read(cx, buf),
                Operation::Read
            ))?;
            if buf.filled().len() > before {
                return Poll::Ready(Ok(()));
            }
            self.output_ended = true;
        }
        self.poll_exit(cx, Operation::Read)
    }
}

impl AsyncWrite for PopenHandle {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        named(self.input()?.poll_write(cx, buf), Operation::Write)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        named(
            self.input()?.poll_write_vectored(cx, bufs),
            Operation::Write,
        )
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The pipe has no buffer in this process.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.input = None;
        self.watch.let_finish();
        // While there is output, the program may wait for a reader.
        if self.output_ended {
            return self.poll_exit(cx, Operation::Shutdown);
        }
        Poll::Ready(Ok(()))
    }
}

impl Stream for PopenHandle {
    fn describe(&self, info: &mut Info) {
        info.layer(LAYER);
    }
}

impl fmt::Debug for PopenHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.info())
    }
}

/// The driver for a registry.
#[must_use]
pub fn driver() -> Driver {
    Driver::base(
        LAYER,
        "a program's output and input",
        |options: PopenOptions, entry| {
            let popen = Popen::new().with_options(options);
            Ok(DynStack::active(popen, &entry.to_string()))
        },
    )
    .private()
}

#[cfg(test)]
mod tests;

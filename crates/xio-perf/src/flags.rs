//! `Flags`: the command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use xio::{ByteSize, Target};

/// The text of `--help` before the flags.
const ABOUT: &str = "\
Measures throughput and latency over any stack of transports.

One end serves and the other runs; by default the one that runs sends. The wire carries only the \
payload, so any program that reads or writes bytes can be the other end, and both ends must be \
given the same --reverse, --both or --ping. An end that sends shuts down its direction and waits \
for the peer to close; its time ends then.

Exit status: 0 success, 1 a failure, 2 a wrong command line.";

/// Measures throughput and latency over any stack of transports.
#[derive(Debug, Parser)]
#[command(name = "xio-perf", version, long_about = ABOUT, max_term_width = 100)]
pub(crate) struct Flags {
    /// The role of this end
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The role of an end.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Listen for peers and measure the transfer
    Serve(Serve),
    /// Connect to a peer and measure the transfer
    Run(Run),
}

/// The listening end.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Address to listen on; port 0 is any free port, printed in the first line of output
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Target,

    /// Number of sessions before the exit, 0 for no limit; overlapping connections are one session,
    /// and a connection without data is not counted
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) sessions: u64,

    #[command(flatten)]
    pub(crate) shape: Shape,
}

/// The connecting end.
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Address to connect to
    #[arg(long, value_name = "ADDR")]
    pub(crate) connect: Target,

    /// Number of parallel connections
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) streams: u32,

    #[command(flatten)]
    pub(crate) shape: Shape,
}

/// Parameters of a session.
#[derive(Debug, Args)]
pub(crate) struct Shape {
    /// The stack, bottom first, as tcp:nodelay=1,compress:codec=zlib
    #[arg(long, value_name = "STRING", default_value = "tcp")]
    pub(crate) stack: String,

    /// Duration in seconds [default of run: 10, without --bytes and --file]
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub(crate) time: Option<Duration>,

    /// Bytes to transfer over all connections, as 10M. At a receiver without --time, fewer bytes
    /// are a failure
    #[arg(long, value_name = "N")]
    pub(crate) bytes: Option<ByteSize>,

    /// Bytes of one write or read, or of one round trip of --ping [default: 64K, --ping: 1]
    #[arg(long, value_name = "N")]
    pub(crate) block_size: Option<ByteSize>,

    /// The serving end sends
    #[arg(long, conflicts_with_all = ["both", "ping"])]
    pub(crate) reverse: bool,

    /// Both ends send at once; without half-close, as over UDT, a second without data ends the
    /// session
    #[arg(long, conflicts_with = "ping")]
    pub(crate) both: bool,

    /// Blocks go back and forth one at a time, to measure latency
    #[arg(long, conflicts_with = "file")]
    pub(crate) ping: bool,

    /// File to send, or to write at the receiving end; for one connection only
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,

    /// Data to send without --file
    #[arg(long, value_enum, default_value_t = Data::Zero)]
    pub(crate) data: Data,

    /// Seconds between lines of progress
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub(crate) interval: Option<Duration>,

    /// Report in JSON; the last line of a session is its result
    #[arg(long)]
    pub(crate) json: bool,
}

/// Generated data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Data {
    /// Zeros
    Zero,
    /// Words, which compress like English text
    Text,
    /// Random bytes, which do not compress
    Random,
}

fn seconds(text: &str) -> Result<Duration, String> {
    xio::read_value(text)
}

//! `Flags`: the command line, which is the same for both ends but for where they meet.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use xio::{ByteSize, Target};

/// What `--help` says before the flags.
const ABOUT: &str = "\
Measures throughput and latency over any stack of transports.

One end serves and the other runs; by default the one that runs sends. On the wire there is nothing \
but the payload, so whatever reads or writes bytes can be the other end, and both ends must be \
given the same --reverse, --both or --ping. An end that sends shuts its direction down and waits \
for the peer to close; its time ends then.

Exit status: 0 all went well, 1 something failed, 2 the command line is wrong.";

/// Measures throughput and latency over any stack of transports.
#[derive(Debug, Parser)]
#[command(name = "xio-perf", version, long_about = ABOUT, max_term_width = 100)]
pub(crate) struct Flags {
    /// Which end this is
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Which end this is.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Wait for peers and measure what they send
    Serve(Serve),
    /// Connect to a peer and measure what is sent there
    Run(Run),
}

/// The end that waits.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Where to listen; port 0 takes any free one, which the first line of output tells
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Target,

    /// Sessions to serve before ending, 0 for no end; the connections of one session overlap, and
    /// one without a byte is not counted
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) sessions: u64,

    #[command(flatten)]
    pub(crate) shape: Shape,
}

/// The end that connects.
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Where to connect
    #[arg(long, value_name = "ADDR")]
    pub(crate) connect: Target,

    /// Connections at once
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) streams: u32,

    #[command(flatten)]
    pub(crate) shape: Shape,
}

/// What passes between the ends.
#[derive(Debug, Args)]
pub(crate) struct Shape {
    /// The stack, bottom first, as tcp:nodelay=1,compress:codec=zlib
    #[arg(long, value_name = "STRING", default_value = "tcp")]
    pub(crate) stack: String,

    /// Seconds to go on for [default of run: 10, where neither bytes nor a file say when to end]
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub(crate) time: Option<Duration>,

    /// Bytes to move, all connections together; K, M and G are accepted. Where a receiver was told
    /// and no time was, less is a failure
    #[arg(long, value_name = "N")]
    pub(crate) bytes: Option<ByteSize>,

    /// Bytes of one write or read, or of one turn of --ping [default: 64K, --ping: 1]
    #[arg(long, value_name = "N")]
    pub(crate) block_size: Option<ByteSize>,

    /// The serving end sends
    #[arg(long, conflicts_with_all = ["both", "ping"])]
    pub(crate) reverse: bool,

    /// Both ends send at once; over what has no half-close, as UDT, a second of silence ends it
    #[arg(long, conflicts_with = "ping")]
    pub(crate) both: bool,

    /// Blocks go back and forth one at a time, for latency
    #[arg(long, conflicts_with = "file")]
    pub(crate) ping: bool,

    /// File that the sending end sends and the receiving end writes; for one connection
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,

    /// What to send where no file is given
    #[arg(long, value_enum, default_value_t = Data::Zero)]
    pub(crate) data: Data,

    /// Seconds between lines that tell how it goes
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub(crate) interval: Option<Duration>,

    /// Report in JSON, the last line of a session holding its result
    #[arg(long)]
    pub(crate) json: bool,
}

/// What is sent when it is not a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Data {
    /// Zeros, which any codec makes vanish
    Zero,
    /// Words, which compress as English does
    Text,
    /// Noise, which no codec makes smaller
    Random,
}

fn seconds(text: &str) -> Result<Duration, String> {
    xio::read_value(text)
}

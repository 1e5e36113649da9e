//! `Cause`: a place where the time of a copy goes, with its names.

/// A place where the time of a copy goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// Nothing moved: commands and their replies, new connections, listings, pauses.
    Idle,
    /// Digests of stored files.
    Hashing,
    /// Digests of the bytes that pass this machine.
    Digests,
    /// The same at the server.
    ServerDigests,
    /// Reading the files of this machine.
    SourceStorage,
    /// Writing the files of this machine.
    TargetStorage,
    /// The server's storage, which read the files.
    ServerReading,
    /// The server's storage, which wrote the files.
    ServerWriting,
    /// The network or the server, of which this end cannot tell which: it received.
    Sender,
    /// The network, of which nothing is measured: this end sent, and its transfers have not ended,
    /// or run over no TCP.
    Network,
    /// The path: its congestion window was full.
    Path,
    /// The receive window: the receiver had no room for more.
    Receiver,
    /// The socket buffer of the sender had no room for more.
    Buffer,
    /// This machine, by encryption and the like: its connections had nothing to send.
    Machine,
    /// The server that sent, by encryption or a bound of its own: it had no data ready.
    Server,
    /// The bound that this end, or one of two servers, keeps to ([`RateLimit`](crate::options::RateLimit)).
    Limit,
    /// The rate at which this end, or one of two servers, leaves the path to others
    /// ([`CopyOptions::polite`](crate::options::CopyOptions::polite)).
    Polite,
    /// The server's final reply, behind all data: it writes and verifies the file.
    Ending,
}

impl Cause {
    /// Its name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Hashing => "hashing",
            Self::Digests => "digests",
            Self::ServerDigests => "server_digests",
            Self::SourceStorage => "source_storage",
            Self::TargetStorage => "target_storage",
            Self::ServerReading => "server_reading",
            Self::ServerWriting => "server_writing",
            Self::Sender => "sender",
            Self::Network => "network",
            Self::Path => "path",
            Self::Receiver => "receiver",
            Self::Buffer => "buffer",
            Self::Machine => "machine",
            Self::Server => "server",
            Self::Limit => "limit",
            Self::Polite => "polite",
            Self::Ending => "ending",
        }
    }

    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Idle => "no data under way (commands, connections, listings)",
            Self::Hashing => "digests of stored files",
            Self::Digests => "digests of passing bytes here",
            Self::ServerDigests => "digests of passing bytes at the server",
            Self::SourceStorage => "reading files here",
            Self::TargetStorage => "writing files here",
            Self::ServerReading => "reading files at the server",
            Self::ServerWriting => "writing files at the server",
            Self::Sender => "waiting for the server or the path",
            Self::Network => "waiting for the network",
            Self::Path => "waiting for the path (congestion window)",
            Self::Receiver => "waiting for the receiver (its window)",
            Self::Buffer => "waiting for room in the sender's socket buffer",
            Self::Machine => "this machine (encryption and the like)",
            Self::Server => "the server that sent (encryption, or a bound of its own)",
            Self::Limit => "keeping to --bwlimit",
            Self::Polite => "leaving the path to others (--polite)",
            Self::Ending => "waiting for the server's final reply",
        }
    }

    /// The one change that would help most, where there is one; `is_lossy` tells of a path that loses
    /// packets.
    pub(crate) const fn remedy(self, is_lossy: bool) -> Option<&'static str> {
        Some(match self {
            Self::Idle => {
                "more files at once (--concurrency) if there are many small ones, or servers that are nearer"
            }
            Self::Hashing => {
                "a digest that costs the server less (--verify=ALGORITHM), or a faster disk there"
            }
            Self::Digests | Self::ServerDigests => {
                "a faster processor, or more files at once (--concurrency) if there are several; --no-verify leaves corrupted bytes undetected"
            }
            Self::SourceStorage => {
                "a faster disk for the source, or more files at once (--concurrency) on one that serves many"
            }
            Self::TargetStorage => {
                "a faster disk for the destination, or more files at once (--concurrency) on one that serves many"
            }
            Self::ServerReading | Self::ServerWriting => {
                "a faster disk at the server, or more files at once (--concurrency) on one that serves many"
            }
            Self::Sender => {
                "`gridftp speed` with the server, which tells its disk and the path apart"
            }
            Self::Network => return None,
            Self::Path if is_lossy => {
                "a path without loss; until then BBR at the sender (modprobe tcp_bbr, net.ipv4.tcp_allowed_congestion_control), or UDT (--stack udt) with a server that offers it (net-stacks)"
            }
            Self::Path => "more streams (--parallel), if the link is not full",
            Self::Receiver => {
                "a larger receive buffer at the receiver (net.ipv4.tcp_rmem), or a faster disk there"
            }
            Self::Buffer => {
                "a larger send buffer at the sender (net.ipv4.tcp_wmem, --tcp-buffer), or more streams (--parallel)"
            }
            Self::Machine => "a faster processor, or less protection (--protect)",
            Self::Server => "a faster processor at the server, or less protection (--protect)",
            Self::Limit => "a higher --bwlimit",
            Self::Polite => "a copy without --polite, which would slow the others down",
            Self::Ending => "a faster disk at the server, which writes what has arrived",
        })
    }
}

//! `Cause`: a place where the time of a copy goes, with its names.

/// A place where the time of a copy goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// Nothing moved: commands and their replies, new connections, listings, pauses.
    Idle,
    /// Digests of stored files.
    Hashing,
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
            Self::Limit => "limit",
            Self::Polite => "polite",
            Self::Ending => "ending",
        }
    }

    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Idle => "no data under way (commands, connections, listings)",
            Self::Hashing => "digests of stored files",
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
            Self::Limit => "keeping to --bwlimit",
            Self::Polite => "leaving the path to others (--polite)",
            Self::Ending => "waiting for the server's final reply",
        }
    }
}

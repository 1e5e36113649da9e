//! `PeerMisbehaved`, `ApiMisuse`: faults of the peer and of the caller that end a session.

use std::fmt;

use ftp_wire::reply::Code;

/// The peer broke the protocol or a bound on memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerMisbehaved {
    /// A line is longer than the limit.
    LineTooLong,
    /// The first line belongs to another protocol (HTTP, TLS, SSH).
    NotFtp,
    /// More commands wait than the queue may hold.
    QueueFull,
    /// Bytes followed AUTH before its reply: no client that waits for it sent them.
    Injected,
    /// Too many refused logins.
    TooManyLogins,
    /// Too many commands that are malformed or not allowed before login.
    TooManyErrors,
    /// Too many commands without a login.
    TooManyCommands,
    /// The greeting is one of SSH or HTTP.
    OtherGreeting,
    /// Lines that begin no reply arrived again and again where a reply must begin.
    NotAReply,
    /// A reply has more lines or bytes than any real one.
    ReplyTooLong,
    /// The server sent replies to no command.
    Unsolicited,
    /// Clear text followed the agreement to protect the connection.
    ClearText,
}

impl PeerMisbehaved {
    /// The reply code that a server sends to the peer; `None` where it only closes the connection.
    pub const fn code(self) -> Option<Code> {
        match self {
            Self::LineTooLong | Self::QueueFull => Code::new(500),
            Self::TooManyLogins | Self::TooManyErrors | Self::TooManyCommands => Code::new(421),
            Self::NotFtp
            | Self::Injected
            | Self::OtherGreeting
            | Self::NotAReply
            | Self::ReplyTooLong
            | Self::Unsolicited
            | Self::ClearText => None,
        }
    }
}

impl fmt::Display for PeerMisbehaved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LineTooLong => "control channel: the peer sent a line over the limit",
            Self::NotFtp => "control channel: the peer does not speak FTP",
            Self::QueueFull => "control channel: the peer sent more commands than may wait",
            Self::Injected => {
                "control channel: commands were sent in clear behind AUTH; they were not run"
            }
            Self::TooManyLogins => "control channel: too many refused logins",
            Self::TooManyErrors => "control channel: too many bad commands before login",
            Self::TooManyCommands => "control channel: too many commands without a login",
            Self::OtherGreeting => {
                "control channel: the greeting is of SSH or HTTP, so it is no FTP server; name its port"
            }
            Self::NotAReply => "control channel: the server sent lines that are no reply",
            Self::ReplyTooLong => "control channel: the server sent a reply over the limit",
            Self::Unsolicited => "control channel: the server sent replies to no command",
            Self::ClearText => {
                "control channel: clear text followed the agreement on TLS; a third party may have sent it"
            }
        })
    }
}

impl std::error::Error for PeerMisbehaved {}

/// The caller of a session broke its contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiMisuse {
    /// A command for a session that has ended.
    Closed,
    /// More commands than the session holds; wait for replies first.
    PipelineFull,
}

impl ApiMisuse {
    /// The reply code for a local error, so that every error of this crate has one.
    pub const fn code(self) -> Option<Code> {
        match self {
            Self::Closed | Self::PipelineFull => Code::new(451),
        }
    }
}

impl fmt::Display for ApiMisuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "control channel: send: the session has ended",
            Self::PipelineFull => "control channel: send: too many commands wait for replies",
        })
    }
}

impl std::error::Error for ApiMisuse {}

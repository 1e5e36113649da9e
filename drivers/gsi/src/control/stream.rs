//! `GssapiStream`: plain lines over lines that are wrapped one by one.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use base64ct::{Base64, Encoding};
use gsi::exchange::Session;
use gsi::verify::Peer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use xio_core::{Control, Error, ErrorKind, Info, Operation, Outbox, Result, Stream};
use zeroize::Zeroizing;

use crate::control::lines::{LineBuffer, MAX_LINE, TooLong, printable};
use crate::info::{GsiInfo, Level};

const LAYER: &str = "gssapi";
/// Bytes that one write takes.
const WRITE: usize = 16 * 1024;

/// The end of the channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The client: commands are `ENC`.
    Initiator,
    /// The server: replies are `632`.
    Acceptor,
}

/// A control channel whose lines are wrapped one by one (RFC 2228 §3).
///
/// Plain lines are written and read: a written line becomes `ENC` or, of a server, `632`, as soon as
/// its line feed is there. A line in clear from the peer ends the channel; a client that sends one
/// gets the reply `533` first. There is no end mark.
pub struct GssapiStream<S> {
    below: S,
    session: Box<Session>,
    role: Role,
    incoming: LineBuffer,
    /// Unwrapped bytes, which may be a password or a key, and the number of those that were read.
    plain: Zeroizing<Vec<u8>>,
    taken: usize,
    /// Written bytes of a line whose end is still to come.
    partial: Zeroizing<Vec<u8>>,
    /// Code of the reply of several lines that is being written.
    reply: Option<Vec<u8>>,
    outgoing: Outbox,
    /// The reason why nothing more is read.
    broken: Option<(ErrorKind, String)>,
    shut: bool,
    info: Arc<GsiInfo>,
}

#[cfg(test)]
impl<S> GssapiStream<S> {
    /// The stream below, to write lines on it that this one would not.
    pub(super) fn below_mut(&mut self) -> &mut S {
        &mut self.below
    }

    pub(super) fn into_below(self) -> S {
        self.below
    }

    pub(super) fn session_mut(&mut self) -> &mut Session {
        &mut self.session
    }
}

impl<S: Stream> GssapiStream<S> {
    pub(crate) fn new(
        below: S,
        session: Box<Session>,
        peer: &Peer,
        role: Role,
        incoming: LineBuffer,
    ) -> Self {
        let info = GsiInfo::new(peer, Level::Private, session.version());
        Self {
            below,
            session,
            role,
            incoming,
            plain: Zeroizing::default(),
            taken: 0,
            partial: Zeroizing::default(),
            reply: None,
            outgoing: Outbox::new(),
            broken: None,
            shut: false,
            info: Arc::new(info),
        }
    }

    /// Wraps a whole line; returns whether it could be.
    fn wrap(&mut self, line: &[u8]) -> bool {
        let last = self.is_last(line);
        let mark = match self.role {
            Role::Initiator => "ENC ",
            Role::Acceptor if last => "632 ",
            Role::Acceptor => "632-",
        };
        let token = match self.session.wrap(line) {
            Ok(token) => Base64::encode_string(&token),
            Err(error) => {
                self.broken = Some((ErrorKind::Security, error.to_string()));
                return false;
            }
        };
        let out = self.outgoing.tail();
        out.extend_from_slice(mark.as_bytes());
        out.extend_from_slice(token.as_bytes());
        out.extend_from_slice(b"\r\n");
        true
    }

    /// Notes a line of a reply, and tells whether it is the last one (RFC 959 §4.2).
    fn is_last(&mut self, line: &[u8]) -> bool {
        let (code, mark) = line.split_at_checked(3).unwrap_or((line, b""));
        match &self.reply {
            Some(open) if code == open.as_slice() && mark.starts_with(b" ") => self.reply = None,
            Some(_) => {}
            None if mark.starts_with(b"-") => self.reply = Some(code.to_vec()),
            None => {}
        }
        self.reply.is_none()
    }

    /// Unwraps a line of the peer; `None` for one that breaks the channel.
    fn unwrap(&mut self, line: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let place = line.iter().position(|byte| matches!(byte, b' ' | b'-'));
        let (verb, rest) = line.split_at_checked(place.unwrap_or(line.len()))?;
        let protected = match self.role {
            Role::Acceptor => [&b"ENC"[..], b"MIC", b"CONF"]
                .iter()
                .any(|known| verb.eq_ignore_ascii_case(known)),
            Role::Initiator => matches!(verb, [b'6', b'0'..=b'9', b'0'..=b'9']),
        };
        if !protected {
            self.refuse(line);
            return None;
        }
        let token = rest.get(1..).unwrap_or_default().trim_ascii();
        let mut bytes = vec![0; token.len()];
        let Ok(length) = Base64::decode(token, &mut bytes).map(<[u8]>::len) else {
            let fact = "the peer sent a protected line that is no base64";
            self.broken = Some((ErrorKind::Protocol, fact.to_owned()));
            return None;
        };
        bytes.truncate(length);
        match self.session.unwrap(&bytes) {
            Ok(plain) => {
                let mut plain = Zeroizing::new(plain);
                // GCT ends some lines with a zero byte, and others not at all.
                if plain.last() == Some(&0) {
                    plain.pop();
                }
                if plain.last() != Some(&b'\n') {
                    append(&mut plain, b"\r\n");
                }
                Some(plain)
            }
            Err(error) => {
                self.broken = Some((ErrorKind::Security, error.to_string()));
                None
            }
        }
    }

    /// Ends the channel for a line in clear.
    fn refuse(&mut self, line: &[u8]) {
        let fact = match self.role {
            Role::Acceptor => {
                if !self.shut {
                    // A reply is being written only line by line, so this one stands alone.
                    self.reply = None;
                    self.wrap(
                        b"533 Commands must be protected by ENC; closing the connection.\r\n",
                    );
                }
                // It may hold a password.
                "the client sent a command in clear on the protected channel".to_owned()
            }
            Role::Initiator => format!(
                "the server sent a line in clear on the protected channel: {}",
                printable(&String::from_utf8_lossy(line))
            ),
        };
        self.broken = Some((ErrorKind::Protocol, fact));
    }

    fn fault(&self, op: Operation) -> Option<io::Error> {
        let (kind, fact) = self.broken.as_ref()?;
        Some(Error::new(*kind, LAYER, op, fact.clone()).into())
    }

    fn poll_down(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.outgoing.poll_drain(cx, &mut self.below))?;
        Pin::new(&mut self.below).poll_flush(cx)
    }
}

/// Appends to a secret, and overwrites the old place where it has to move.
fn append(secret: &mut Zeroizing<Vec<u8>>, more: &[u8]) {
    let length = secret.len() + more.len();
    if length > secret.capacity() {
        let mut roomy = Zeroizing::new(Vec::with_capacity(2 * length));
        roomy.extend_from_slice(secret);
        *secret = roomy;
    }
    secret.extend_from_slice(more);
}

impl<S: Stream> AsyncRead for GssapiStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while buf.remaining() > 0 {
            let waiting = this.plain.get(this.taken..).unwrap_or_default();
            if !waiting.is_empty() {
                let now = waiting.get(..buf.remaining()).unwrap_or(waiting);
                buf.put_slice(now);
                this.taken += now.len();
                if this.taken == this.plain.len() {
                    (this.plain, this.taken) = (Zeroizing::default(), 0);
                }
                break;
            }
            if let Some(fault) = this.fault(Operation::Read) {
                // The peer reads the reason first.
                let _ = ready!(this.poll_down(cx));
                return Poll::Ready(Err(fault));
            }
            match this.incoming.take() {
                Ok(Some(line)) => {
                    (this.plain, this.taken) = (this.unwrap(&line).unwrap_or_default(), 0);
                    continue;
                }
                Ok(None) => {}
                Err(TooLong) => {
                    let fact = format!("the peer sent a line of more than {MAX_LINE} bytes");
                    this.broken = Some((ErrorKind::Protocol, fact));
                    continue;
                }
            }
            if ready!(this.incoming.poll_fill(cx, &mut this.below))? == 0 {
                if this.incoming.is_empty() {
                    break;
                }
                let fact = "the peer ended in the middle of a line";
                let error = Error::new(ErrorKind::UnexpectedEof, LAYER, Operation::Read, fact);
                return Poll::Ready(Err(error.into()));
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: Stream> AsyncWrite for GssapiStream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if let Some(fault) = this.fault(Operation::Write) {
            return Poll::Ready(Err(fault));
        }
        let refused = |kind, fact: &str| {
            let error = Error::new(kind, LAYER, Operation::Write, fact);
            Poll::Ready(Err(error.into()))
        };
        if this.shut {
            return refused(ErrorKind::Reset, "this end was shut down before");
        }
        ready!(this.outgoing.poll_drain(cx, &mut this.below))?;
        let part = buf.get(..WRITE).unwrap_or(buf);
        if this.partial.len() + part.len() > MAX_LINE && !part.contains(&b'\n') {
            return refused(ErrorKind::Protocol, "a written line is too long");
        }
        for piece in part.split_inclusive(|byte| *byte == b'\n') {
            append(&mut this.partial, piece);
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut this.partial);
                this.wrap(&line);
            }
        }
        if let Some(fault) = this.fault(Operation::Write) {
            return Poll::Ready(Err(fault));
        }
        // The rest goes with the next call.
        let _ = this.outgoing.poll_drain(cx, &mut this.below)?;
        Poll::Ready(Ok(part.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_down(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.shut {
            this.shut = true;
            let line = std::mem::take(&mut this.partial);
            if !line.is_empty()
                && !this.wrap(&line)
                && let Some(fault) = this.fault(Operation::Shutdown)
            {
                return Poll::Ready(Err(fault));
            }
        }
        ready!(this.poll_down(cx))?;
        Pin::new(&mut this.below).poll_shutdown(cx)
    }
}

impl<S: Stream> Stream for GssapiStream<S> {
    fn describe(&self, info: &mut Info) {
        self.below.describe(info);
        info.layer(LAYER);
        info.security = Some(self.info.to_string());
        info.insert(GsiInfo::clone(&self.info));
    }

    fn control(&mut self, control: Control<'_>) -> Option<Result<String>> {
        self.below.control(control)
    }
}

impl<S: Stream> fmt::Debug for GssapiStream<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.info())
    }
}

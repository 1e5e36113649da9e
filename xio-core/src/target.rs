//! `Target`: where to connect or listen, from a contact string or an address, with hints per open.

use std::any::Any;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Operation};
use crate::percent;
use crate::value::{ByteSize, PortRange};

/// An address to connect to or to listen at.
///
/// ```text
/// contact := scheme "://" [ user [":" pass] "@" ] [ "<" subject ">:" ] host [":" port] [ "/" path ]
///          | "file:" path          | host ":" port          | path
/// host    := name | "[" ipv6 "]"
/// ```
///
/// `%HH` is decoded in each part of the first form, and `%%` is a percent sign. The path leaves
/// out the slash that separates it, so an absolute path is written `//path` or `/%2Fpath`. A string
/// without scheme and slash but with a colon is `host:port`; anything else is a path, taken as is.
///
/// Password and subject come from a person and are never printed by `Debug`; `Display` writes the
/// contact string whole, since a string that lost its password would not open the same thing.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Target {
    /// The scheme, before `://`; `file` for a bare path.
    pub scheme: Option<String>,
    /// Name of the user to log in as.
    pub user: Option<String>,
    /// The user's password.
    pub password: Option<String>,
    /// Name that the peer must prove, where it differs from the host's.
    pub subject: Option<String>,
    /// Name or address of the host, without brackets.
    pub host: Option<String>,
    /// Port; `None` leaves it to the driver.
    pub port: Option<u16>,
    /// Path of the resource, without the separating slash.
    pub path: Option<String>,
    /// Zone of a link-local IPv6 address; 0 for none.
    scope: u32,
    hints: Hints,
}

/// Facts by type; equality of targets ignores them, since they are no part of the address.
#[derive(Clone, Default)]
struct Hints(Vec<Arc<dyn Any + Send + Sync>>);

impl PartialEq for Hints {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Hints {}

/// Settings of the socket at the bottom for one open; they override the options of the stack
/// string.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SocketHints {
    /// Send buffer of the socket.
    pub send_buffer: Option<ByteSize>,
    /// Receive buffer of the socket.
    pub receive_buffer: Option<ByteSize>,
    /// Local ports: of a listener without a port in its target, or of the near end of a connection.
    pub ports: Option<PortRange>,
    /// Local address of the near end of a connection.
    pub source: Option<IpAddr>,
    /// Time limit for connecting.
    pub connect_timeout: Option<Duration>,
    /// Time limit for the acknowledgement of sent bytes.
    pub ack_timeout: Option<Duration>,
    /// Most peers that may wait to be accepted.
    pub backlog: Option<u32>,
    /// Whether much is sent: on a long path that loses packets the sender changes its congestion
    /// control, unless an option names one.
    pub bulk: bool,
    /// The only peer of a datagram socket; datagrams of others are dropped.
    pub peer: Option<SocketAddr>,
}

impl SocketHints {
    /// No hints.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            send_buffer: None,
            receive_buffer: None,
            ports: None,
            source: None,
            connect_timeout: None,
            ack_timeout: None,
            backlog: None,
            bulk: false,
            peer: None,
        }
    }

    /// Asks for a send and a receive buffer.
    #[must_use]
    pub const fn buffers(mut self, send: Option<ByteSize>, receive: Option<ByteSize>) -> Self {
        self.send_buffer = send;
        self.receive_buffer = receive;
        self
    }

    /// Asks for local ports.
    #[must_use]
    pub const fn ports(mut self, ports: PortRange) -> Self {
        self.ports = Some(ports);
        self
    }

    /// Asks for a local address to connect from.
    #[must_use]
    pub const fn source(mut self, source: IpAddr) -> Self {
        self.source = Some(source);
        self
    }

    /// Bounds the time that connecting takes.
    #[must_use]
    pub const fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = Some(timeout);
        self
    }

    /// Bounds the time that sent bytes wait for their acknowledgement.
    #[must_use]
    pub const fn ack_timeout(mut self, timeout: Duration) -> Self {
        self.ack_timeout = Some(timeout);
        self
    }

    /// Bounds the queue of a listener.
    #[must_use]
    pub const fn backlog(mut self, backlog: u32) -> Self {
        self.backlog = Some(backlog);
        self
    }

    /// Tells that much is sent.
    #[must_use]
    pub const fn bulk(mut self) -> Self {
        self.bulk = true;
        self
    }

    /// Asks for a datagram socket for one peer, which then reports the peer's refusals as errors.
    #[must_use]
    pub const fn peer(mut self, peer: SocketAddr) -> Self {
        self.peer = Some(peer);
        self
    }
}

impl Target {
    /// A host by name or address, and a port.
    #[must_use]
    pub fn host(host: impl Into<String>, port: u16) -> Self {
        Self {
            host: Some(host.into()),
            port: Some(port),
            ..Self::default()
        }
    }

    /// A file by its path.
    #[must_use]
    pub fn file(path: impl Into<String>) -> Self {
        Self {
            scheme: Some("file".to_owned()),
            path: Some(path.into()),
            ..Self::default()
        }
    }

    /// Adds a hint for the layers that know its type; a later one of the same type goes first.
    #[must_use]
    pub fn with<T: Any + Send + Sync>(mut self, hint: T) -> Self {
        self.hints.0.push(Arc::new(hint));
        self
    }

    /// The hint of type `T`.
    #[must_use]
    pub fn hint<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.hints
            .0
            .iter()
            .rev()
            .find_map(|hint| hint.downcast_ref())
    }

    /// The address, where the host is one and not a name; without a port it gets port 0.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        let ip: IpAddr = self.host.as_deref()?.parse().ok()?;
        let mut address = SocketAddr::new(ip, self.port.unwrap_or(0));
        if let SocketAddr::V6(v6) = &mut address {
            v6.set_scope_id(self.scope);
        }
        Some(address)
    }

    /// Whether `file:` and the path are the whole target.
    fn is_plain_file(&self) -> bool {
        self.scheme.as_deref() == Some("file")
            && self
                .path
                .as_deref()
                .is_some_and(|path| !path.starts_with("//"))
            && self.host.is_none()
            && self.port.is_none()
            && self.user.is_none()
            && self.subject.is_none()
    }

    fn url(scheme: &str, whole: &str) -> Result<Self, &'static str> {
        let decode = |part: &str| {
            percent::decode(part).ok_or("a % is not followed by two hex digits of UTF-8")
        };
        // The subject may hold slashes, so it is taken off before the path is looked for.
        let (front, rest) = match whole.find('<') {
            Some(at) => whole.split_at(at),
            None => ("", whole),
        };
        // Elsewhere a `<` means nothing.
        let (front, mut rest) =
            match front.is_empty() || (front.ends_with('@') && !front.contains('/')) {
                true => (front, rest),
                false => ("", whole),
            };
        let mut target = Self {
            scheme: Some(scheme.to_owned()),
            ..Self::default()
        };
        let mut login = front.strip_suffix('@');
        if let Some(inner) = rest.strip_prefix('<') {
            let (subject, after) = inner.split_once(">:").ok_or("a subject ends with `>:`")?;
            target.subject = Some(decode(subject)?);
            rest = after;
        }
        let (mut authority, path) = match rest.split_once('/') {
            Some((authority, path)) => (authority, Some(path)),
            None => (rest, None),
        };
        if login.is_none()
            && target.subject.is_none()
            && let Some((user, host)) = authority.rsplit_once('@')
        {
            login = Some(user);
            authority = host;
        }
        if let Some(login) = login {
            let (user, password) = match login.split_once(':') {
                Some((user, password)) => (user, Some(decode(password)?)),
                None => (login, None),
            };
            target.user = Some(decode(user)?);
            target.password = password;
        }
        target.path = path.map(decode).transpose()?;
        target.take_host_port(authority, decode)?;
        Ok(target)
    }

    fn take_host_port(
        &mut self,
        text: &str,
        decode: impl Fn(&str) -> Result<String, &'static str>,
    ) -> Result<(), &'static str> {
        let (host, port) = if let Some(inner) = text.strip_prefix('[') {
            let (host, after) = inner.split_once(']').ok_or("a `[` has no `]`")?;
            host.parse::<Ipv6Addr>()
                .map_err(|_| "brackets hold no IPv6 address")?;
            match after.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if after.is_empty() => (host, None),
                None => return Err("only a port may follow a `]`"),
            }
        } else {
            match text.rsplit_once(':') {
                Some((host, _)) if host.contains(':') => {
                    return Err("an IPv6 address stands in brackets");
                }
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            }
        };
        if !host.is_empty() {
            self.host = Some(decode(host)?);
        }
        self.port = match port {
            None => None,
            Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => Some(
                digits
                    .parse()
                    .map_err(|_| "a port is a number from 0 to 65535")?,
            ),
            Some(_) => return Err("a port is a number from 0 to 65535"),
        };
        Ok(())
    }

    fn parse(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() {
            return Err("the contact string is empty");
        }
        if text.contains('\0') {
            return Err("a contact string holds no NUL");
        }
        if let Some((scheme, rest)) = text.split_once("://") {
            let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.' | b'_');
            if !scheme.is_empty() && scheme.bytes().all(plain) {
                return Self::url(scheme, rest);
            }
        }
        if let Some(path) = text.strip_prefix("file:") {
            return Ok(Self::file(path));
        }
        if text.contains(':') && !text.contains(['/', '\\']) {
            let mut target = Self::default();
            target.take_host_port(text, |part| Ok(part.to_owned()))?;
            return Ok(target);
        }
        Ok(Self::file(text))
    }
}

impl FromStr for Target {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        // The text is not repeated: it may hold a password.
        Self::parse(text)
            .map_err(|fact| Error::new(ErrorKind::BadTarget, "contact", Operation::Plan, fact))
    }
}

impl From<SocketAddr> for Target {
    fn from(address: SocketAddr) -> Self {
        Self {
            scope: match address {
                SocketAddr::V4(_) => 0,
                SocketAddr::V6(v6) => v6.scope_id(),
            },
            ..Self::host(address.ip().to_string(), address.port())
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let enc = percent::component;
        if self.is_plain_file() {
            return write!(f, "file:{}", self.path.as_deref().unwrap_or_default());
        }
        let bare = self.scheme.is_none()
            && self.user.is_none()
            && self.subject.is_none()
            && self.path.is_none()
            && self.port.is_some()
            && self
                .host
                .as_deref()
                .is_none_or(|h| !h.contains(['/', '\\']));
        if !bare {
            write!(f, "{}://", self.scheme.as_deref().unwrap_or("xio"))?;
        }
        if let Some(user) = &self.user {
            write!(f, "{}", enc(user))?;
            if let Some(password) = &self.password {
                write!(f, ":{}", enc(password))?;
            }
            f.write_str("@")?;
        }
        if let Some(subject) = &self.subject {
            write!(f, "<{}>:", enc(subject))?;
        }
        match self.host.as_deref() {
            Some(host) if host.parse::<Ipv6Addr>().is_ok() => write!(f, "[{host}]")?,
            Some(host) if bare => f.write_str(host)?,
            Some(host) => write!(f, "{}", enc(host))?,
            None => {}
        }
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        if let Some(path) = &self.path {
            write!(f, "/{}", percent::path(path))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut public = self.clone();
        public.password = self.password.as_ref().map(|_| "***".to_owned());
        write!(f, "{public}")
    }
}

#[cfg(test)]
mod tests;

//! `Location`: a source or destination as a user names it, and the parser of its text.

use std::ffi::OsStr;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use ftp_wire::command::Secret;
use percent_encoding::percent_decode_str;

use crate::options::{Access, ConnectOptions};

mod fault;
mod shown;
mod web;

pub use fault::UrlError;
pub(crate) use shown::show_text;
pub use shown::{show, unshow};
pub(crate) use web::{file_name, url_path};

/// The port of a server's control channel when the URL names none.
///
/// GridFTP daemons listen on 2811, but `ftp://` means port 21 to every tool, and so to this one.
pub const FTP_PORT: u16 = 21;

/// The port at which `ftps://` means TLS from the first byte on; elsewhere it is asked for by
/// `AUTH TLS`.
pub const FTPS_PORT: u16 = 990;

/// The port of `gsiftp://`.
pub const GRID_PORT: u16 = 2811;

/// The port of `sshftp://`, unless the configuration of `ssh` names another for the host.
pub const SSH_PORT: u16 = 22;

/// The port of `http://`.
pub const HTTP_PORT: u16 = 80;

/// The port of `https://`.
pub const HTTPS_PORT: u16 = 443;

/// One end of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Location {
    /// Standard input or output, written `-`.
    Stdio,
    /// A path of this machine: a plain path or a `file:` URL.
    Local(PathBuf),
    /// An `ftp://`, `ftps://`, `gsiftp://` or `sshftp://` URL, or `HOST:/PATH`; as a source of a copy,
    /// also an `http://` or `https://` URL.
    Remote(Remote),
}

/// An object on a server.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Remote {
    /// The server and the account.
    pub site: Site,
    /// The path, percent-decoded: absolute, or beginning with `~`. Of a web server, the path and the
    /// query as they stand in the URL.
    pub path: Vec<u8>,
    /// The last component as a pattern of [`glob`](crate::glob), when it was written with
    /// wildcards.
    pub pattern: Option<Vec<u8>>,
}

/// The protocol of a control channel, as the scheme of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Scheme {
    /// `ftp`: a connection to an FTP or GridFTP server, protected as the options say.
    #[default]
    Ftp,
    /// `ftps`: the same under TLS.
    Ftps,
    /// `gsiftp`: the same under Grid security.
    Grid,
    /// `sshftp`: a server process started through `ssh`.
    Ssh,
    /// `http`: a web server, for sources of copies.
    Http,
    /// `https`: the same under TLS.
    Https,
}

impl Scheme {
    /// The scheme before `://`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ftp => "ftp",
            Self::Ftps => "ftps",
            Self::Grid => "gsiftp",
            Self::Ssh => "sshftp",
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// The port when the URL names none.
    pub const fn port(self) -> u16 {
        match self {
            Self::Ftp | Self::Ftps => FTP_PORT,
            Self::Grid => GRID_PORT,
            Self::Ssh => SSH_PORT,
            Self::Http => HTTP_PORT,
            Self::Https => HTTPS_PORT,
        }
    }

    /// Says whether it is a web server, which has no sessions.
    pub const fn is_web(self) -> bool {
        matches!(self, Self::Http | Self::Https)
    }
}

/// A server and an account on it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Site {
    /// The protocol of the control channel.
    pub scheme: Scheme,
    /// Host name or address, without brackets.
    pub host: String,
    /// Port of the control channel.
    pub port: u16,
    /// Account named in the URL.
    pub user: Option<String>,
    /// Password named in the URL.
    pub password: Option<Secret>,
    /// Protection, trust and credentials here, where they are not those of the options.
    pub access: Option<Arc<Access>>,
}

impl Location {
    /// Reads the text that a user typed.
    ///
    /// A text is a URL when it has a scheme of two or more letters before `:` and the scheme is
    /// `file` or is followed by `//`. `[USER@]HOST:/PATH`, as `scp` has it, is a path behind ssh.
    /// All else is a path of this machine, so `a:b` is a file name.
    ///
    /// # Errors
    /// [`UrlError`] tells the mistake and the remedy.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        if text.is_empty() {
            return Err(UrlError::Empty);
        }
        if text == "-" {
            return Ok(Self::Stdio);
        }
        let Some((scheme, rest)) = text.split_once(':').filter(|(s, r)| is_scheme(s, r)) else {
            return match of_scp(text) {
                Some(url) => Remote::parse(Scheme::Ssh, &url).map(Self::Remote),
                None => Ok(Self::Local(PathBuf::from(text))),
            };
        };
        let authority = rest.strip_prefix("//").unwrap_or(rest);
        match scheme.to_ascii_lowercase().as_str() {
            "file" => parse_file(rest),
            "ftp" => Remote::parse(Scheme::Ftp, authority).map(Self::Remote),
            "ftps" => Remote::parse(Scheme::Ftps, authority).map(Self::Remote),
            "sshftp" => Remote::parse(Scheme::Ssh, authority).map(Self::Remote),
            "gsiftp" => Remote::parse(Scheme::Grid, authority).map(Self::Remote),
            "http" => Remote::parse(Scheme::Http, authority).map(Self::Remote),
            "https" => Remote::parse(Scheme::Https, authority).map(Self::Remote),
            _ => Err(UrlError::Scheme(scheme.to_owned())),
        }
    }

    /// As [`parse`](Self::parse); a text that is not UTF-8 is a path of this machine.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn parse_os(text: &OsStr) -> Result<Self, UrlError> {
        match text.to_str() {
            Some(text) => Self::parse(text),
            None => match text.to_string_lossy().split_once(':') {
                Some((scheme, rest)) if is_scheme(scheme, rest) => Err(UrlError::Encoding),
                _ => Ok(Self::Local(PathBuf::from(text))),
            },
        }
    }

    /// Says whether the text ends in `/`: the contents of a directory, not the directory.
    pub fn means_contents(&self) -> bool {
        match self {
            Self::Stdio => false,
            Self::Local(path) => path.as_os_str().as_encoded_bytes().ends_with(b"/"),
            Self::Remote(remote) if remote.site.scheme.is_web() => {
                url_path(&remote.path).ends_with(b"/")
            }
            Self::Remote(remote) => remote.path.ends_with(b"/"),
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio => f.write_str("-"),
            Self::Local(path) => f.write_str(&show(path.as_os_str().as_encoded_bytes())),
            Self::Remote(remote) => remote.fmt(f),
        }
    }
}

fn is_scheme(scheme: &str, rest: &str) -> bool {
    scheme.len() > 1
        && scheme
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
        && (scheme.eq_ignore_ascii_case("file") || rest.starts_with("//"))
}

/// The URL, without its scheme, of a text in the syntax of `scp`: `[USER@]HOST:/PATH`,
/// `[USER@]HOST:~/PATH` or `USER@HOST:PATH`.
///
/// Without an account, a relative path or a host of one letter the text is a file name, as `a:b`.
fn of_scp(text: &str) -> Option<String> {
    let after = text.find(']').unwrap_or(0);
    let colon = after + text.get(after..)?.find(':')?;
    let (host, path) = (text.get(..colon)?, text.get(colon + 1..)?);
    let named = host.contains('@') || path.starts_with(['/', '~']);
    if !named || host.len() < 2 || host.contains('/') {
        return None;
    }
    let path = path.replace('%', "%25");
    Some(match path.starts_with('/') {
        true => format!("{host}{path}"),
        false if path.starts_with('~') => format!("{host}/{path}"),
        false => format!("{host}/~/{path}"),
    })
}

fn parse_file(rest: &str) -> Result<Location, UrlError> {
    let path = match rest.strip_prefix("//") {
        Some(authority) => {
            let (host, path) = authority.split_at(authority.find('/').unwrap_or(authority.len()));
            if !host.is_empty() && !host.eq_ignore_ascii_case("localhost") {
                return Err(UrlError::FileHost(host.to_owned()));
            }
            path
        }
        None => rest,
    };
    let bytes = decode(path);
    if bytes.is_empty() {
        return Err(UrlError::Empty);
    }
    if bytes.contains(&0) {
        return Err(UrlError::ControlByte);
    }
    use std::os::unix::ffi::OsStringExt as _;
    Ok(Location::Local(PathBuf::from(
        std::ffi::OsString::from_vec(bytes),
    )))
}

impl Remote {
    /// Makes the object at `path` of `site`.
    pub fn new(site: Site, path: impl Into<Vec<u8>>) -> Self {
        Self {
            site,
            path: path.into(),
            pattern: None,
        }
    }

    /// Reads the text behind `//`.
    fn parse(scheme: Scheme, rest: &str) -> Result<Self, UrlError> {
        let ends = |c| c == '/' || scheme.is_web() && matches!(c, '?' | '#');
        let (authority, path) = rest.split_at(rest.find(ends).unwrap_or(rest.len()));
        let (account, server) = match authority.rsplit_once('@') {
            Some((account, server)) => (Some(account), server),
            None => (None, authority),
        };
        let (host, port) = split_port(server, scheme.port())?;
        if host.is_empty() {
            return Err(UrlError::NoHost);
        }
        let (user, password) = match account {
            Some(account) => match account.split_once(':') {
                Some((user, password)) => (Some(text(user)?), Some(Secret::new(text(password)?))),
                None => (Some(text(account)?), None),
            },
            None => (None, None),
        };
        let pattern = path.rsplit('/').next().filter(|_| !scheme.is_web());
        let pattern = pattern.and_then(crate::glob::pattern);
        let mut path = match scheme.is_web() {
            true => web::target(path),
            false => decode(path),
        };
        if path.iter().any(|b| matches!(b, 0 | b'\r' | b'\n')) {
            return Err(UrlError::ControlByte);
        }
        if scheme.is_web() {
            // The request target has it.
        } else if path.starts_with(b"/~") {
            path.remove(0);
        } else if path.starts_with(b"//") {
            // `ftp://host//etc` and `ftp://host/%2Fetc` are how other tools say `/etc`.
            path.remove(0);
        } else if path.is_empty() {
            path.push(b'/');
        }
        Ok(Self {
            site: Site {
                scheme,
                host: host.to_owned(),
                port,
                user,
                password,
                access: None,
            },
            path,
            pattern,
        })
    }
}

impl Site {
    /// Makes an `ftp` site without an account: the caller's defaults apply.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self {
            scheme: Scheme::Ftp,
            host: host.into(),
            port,
            user: None,
            password: None,
            access: None,
        }
    }

    /// Names the account to log in to.
    #[must_use]
    pub fn with_account(mut self, user: impl Into<String>, password: Option<Secret>) -> Self {
        self.user = Some(user.into());
        self.password = password;
        self
    }
}

impl Site {
    /// The options of a session here, where those of sessions are `options`.
    pub(crate) fn options(&self, options: Arc<ConnectOptions>) -> Arc<ConnectOptions> {
        match &self.access {
            Some(access) => Arc::new(access.over(&options)),
            None => options,
        }
    }

    /// The URL of `path` here, which can be typed in again: all that a shell, a terminal or
    /// [`Location::parse`] might take for something else is percent-encoded. It names the account
    /// and never its password.
    pub fn url(&self, path: &[u8]) -> String {
        if self.scheme.is_web() {
            return self.web_url(path);
        }
        let user = self.account();
        let slash = match path {
            // Behind one slash, `~` would be the home directory.
            [b'/', b'~', ..] | [] => "/",
            [b'/', ..] => "",
            _ => "/",
        };
        let scheme = self.scheme.name();
        format!("{scheme}://{user}{self}{slash}{}", encode(path, b"/:@"))
    }
}

impl Site {
    /// The account before the host of a URL.
    fn account(&self) -> String {
        let user = self.user.as_ref();
        user.map_or_else(String::new, |user| encode(user.as_bytes(), b"") + "@")
    }
}

/// Percent-encodes all but letters, digits, `-._~+,=` and the bytes of `also`.
pub(crate) fn encode(bytes: &[u8], also: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_alphanumeric()
                || "-._~+,=".contains(c)
                || also.iter().any(|b| char::from(*b) == c)
            {
                out.push(c);
            } else {
                let mut buffer = [0; 4];
                percent(c.encode_utf8(&mut buffer).as_bytes(), &mut out);
            }
        }
        percent(chunk.invalid(), &mut out);
    }
    out
}

fn percent(bytes: &[u8], out: &mut String) {
    out.extend(bytes.iter().map(|byte| format!("%{byte:02X}")));
}

/// Writes a pattern of [`glob`](crate::glob) as the last component of a URL.
pub(crate) fn encode_pattern(pattern: &[u8]) -> String {
    encode(pattern, b"*?[]!^")
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host.escape_default(), self.port)
        }
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(pattern) = &self.pattern else {
            return f.write_str(&self.site.url(&self.path));
        };
        let dir = self.site.url(crate::names::parent(&self.path));
        let slash = if dir.ends_with('/') { "" } else { "/" };
        write!(f, "{dir}{slash}{}", encode_pattern(pattern))
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn split_port(server: &str, default: u16) -> Result<(&str, u16), UrlError> {
    let (host, port) = match server.strip_prefix('[') {
        Some(inner) => {
            let (host, after) = inner.split_once(']').ok_or(UrlError::NoHost)?;
            (host, after.strip_prefix(':'))
        }
        None => match server.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (server, None),
        },
    };
    match port {
        None | Some("") => Ok((host, default)),
        Some(port) => match port.parse::<u16>() {
            Ok(number) if number > 0 => Ok((host, number)),
            _ => Err(UrlError::Port(port.to_owned())),
        },
    }
}

fn decode(text: &str) -> Vec<u8> {
    percent_decode_str(text).collect()
}

fn text(encoded: &str) -> Result<String, UrlError> {
    let text = percent_decode_str(encoded).decode_utf8_lossy().into_owned();
    if text.contains(['\0', '\r', '\n']) {
        Err(UrlError::ControlByte)
    } else {
        Ok(text)
    }
}

#[cfg(test)]
mod tests;

//! `Client`: connects, logs in, learns the features of the server, and works on names.

use std::fmt;
use std::net::SocketAddr;
use std::num::NonZero;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ftp_proto::client::{ClientSession, FailureKind, Security};
use ftp_proto::security::Level;
use ftp_wire::command::{Command, Mode, SiteCommand};
use ftp_wire::facts::{Entry, EntryKind, FactSet, TimeVal};
use ftp_wire::opts::Parallelism;
use ftp_wire::path::FtpPath;
use ftp_wire::reply::Reply;
use gridftp_data::DataChannel;
use gridftp_dsi::types::ChecksumAlgorithm;
use gsi::credential::Credential;
use xio_core::{BoxStream, ByteSize, DynStack, Info, Pool, SocketHints, Stream};

use crate::abilities::{Abilities, Tags};
use crate::clock::now;
use crate::control::{Control, Replies};
use crate::error::{Cause, ConnectError, ControlError};
use crate::grid::Grid;
use crate::guard::{self, Guard, implicit_failed};
use crate::login::{reach, settings, within};
use crate::options::ConnectOptions;
use crate::progress::{Event, Observer, Silent};
use crate::setup::EarlyPassive;
use crate::silence;
use crate::stacks;
use crate::stripes::Width;
use crate::url::Site;
use crate::verify;

#[cfg(test)]
pub(crate) mod scripted;

/// Size of the blocks that data passes through, in bytes.
const BLOCK: usize = 256 * 1024;
/// Longest wait for the server to close its side of a protected upload in MODE S.
const LINGER: Duration = Duration::from_secs(5);
/// Blocks that all data connections of a process share.
const BLOCKS: usize = 64;

/// A session with one server.
///
/// # Cancel safety
/// Dropping a client, or any future of it that moves data, closes its connections: the server sees
/// the end of the control connection, gives up its work and keeps or discards the
/// received bytes by its own rules. After a dropped transfer the client itself can still be used.
pub struct Client {
    pub(crate) control: Control,
    pub(crate) channel: Exclusive<DataChannel>,
    pub(crate) stack: DynStack,
    /// The layers of the control connection.
    pub(crate) link: Box<Info>,
    pub(crate) guard: Guard,
    pub(crate) options: Arc<ConnectOptions>,
    pub(crate) abilities: Abilities,
    pub(crate) state: ChannelState,
    observer: Arc<dyn Observer>,
}

/// The settings of data channels that the server was told.
#[derive(Debug, Default)]
pub(crate) struct ChannelState {
    /// Transmission mode in force.
    pub(crate) mode: Mode,
    /// Parallelism it was told.
    pub(crate) parallelism: Option<Parallelism>,
    /// Where its stripes that send listened when they were last asked for; at most one where it has
    /// none.
    pub(crate) senders: Option<Vec<SocketAddr>>,
    /// The same of those that store.
    pub(crate) receivers: Option<Vec<SocketAddr>>,
    /// The most stripes that it was told, where that was a bound.
    pub(crate) most_stripes: Option<NonZero<u32>>,
    /// Whether it was told to list those that send.
    pub(crate) lists_senders: bool,
    /// Stripes that connect to us.
    pub(crate) sending: Option<NonZero<u32>>,
    /// Whether it was told the layout of its stripes.
    pub(crate) laid_out: bool,
    /// Whether it was asked for markers in MODE S.
    pub(crate) markers: bool,
    /// Tags that transfers have had so far.
    pub(crate) tags: Tags,
    /// Whether it was told of buffer sizes for sending and for receiving.
    pub(crate) tuned: (bool, bool),
    /// The use of the cached connections.
    pub(crate) ready: Option<Ready>,
    /// The `PASV` of the next transfer in MODE S, where that was sent ahead.
    pub(crate) passive: Option<EarlyPassive>,
}

/// A data channel that is set up: to pull or to push, with these connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ready {
    Pull(Width),
    Push(Width),
}

/// A value that only an exclusive reference reaches, so that its owner may be shared.
pub(crate) struct Exclusive<T>(Mutex<T>);

impl<T> Exclusive<T> {
    pub(crate) fn get(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("site", self.control.site())
            .field("state", &self.state)
            .finish()
    }
}

/// The options of the data connections of one session.
fn data_options(options: &ConnectOptions, guard: &Guard) -> gridftp_data::Options {
    let mut data = gridftp_data::Options::default();
    data.stall = options.stall;
    data.open_within = options.connect_within;
    data.block = options.block_size;
    data.socket = sockets(options);
    data.marks_from_all = true;
    if guard.has_data_tls() {
        // Tickets that the server sends arrive on a connection that nothing is read from: closed
        // with them unread, it would be reset, and the end of the file lost.
        data.linger = LINGER;
    }
    data
}

/// The buffers of all data connections of this process.
fn pool() -> Pool {
    static POOL: std::sync::OnceLock<Pool> = std::sync::OnceLock::new();
    POOL.get_or_init(|| Pool::new(BLOCK, BLOCKS)).clone()
}

impl Client {
    /// Connects to `site` and logs in, as `anonymous` where the site names no account.
    ///
    /// # Errors
    /// [`ConnectError`] says whether the server cannot be reached or will not have us.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub async fn connect(site: &Site, options: Arc<ConnectOptions>) -> Result<Self, ConnectError> {
        Self::connect_with(site, options, Arc::new(Silent)).await
    }

    /// As [`connect`](Self::connect), and tells `observer` of the events.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn connect_with(
        site: &Site,
        options: Arc<ConnectOptions>,
        observer: Arc<dyn Observer>,
    ) -> Result<Self, ConnectError> {
        let options = site.options(options);
        let name: Arc<str> = site.to_string().into();
        let stack = stacks::of_data(&options)?;
        let limit = options.connect_within;
        let (stream, round_trip, guard) = open(site, &name, &options).await?;
        let link = Box::new(Stream::info(&stream));
        let session = ClientSession::new(now(), settings(&options));
        let (control, mut banner) = Control::start(
            stream,
            Arc::clone(&name),
            session,
            round_trip,
            Arc::clone(&observer),
        )?;
        let data = data_options(&options, &guard);
        let mut client = Self {
            control,
            channel: Exclusive(Mutex::new(DataChannel::new(data, pool()))),
            stack: guard.over(stack),
            link,
            guard,
            options,
            abilities: Abilities::default(),
            state: ChannelState::default(),
            observer,
        };
        let steps = client.guard.steps();
        let greeting = silence::greeting(&mut banner, steps, site, &client.options);
        let greeting = Box::pin(greeting).await?;
        let login = Box::pin(async {
            client.login(site, &greeting).await?;
            stacks::tell(&client.control, &client.options).await
        });
        within(limit, &name, login).await?;
        client.observer.event(&Event::Connected {
            site: &name,
            round_trip,
            control: client.security(),
            data: client.data_protection(),
            data_peer: client.data_peer(),
        });
        Ok(client)
    }

    /// The server, `host:port`.
    pub fn site(&self) -> &str {
        self.control.site()
    }

    /// The features that the server announces.
    pub fn abilities(&self) -> &Abilities {
        &self.abilities
    }

    /// Protection of the control connection, as `TLS 1.3` and its cipher suite, or `ssh`; `None` for
    /// clear text.
    pub fn security(&self) -> Option<&str> {
        self.link.security.as_deref()
    }

    /// Protection of data connections.
    pub fn data_protection(&self) -> Level {
        self.guard.data()
    }

    /// The identity of both ends of data connections: `self`, `session`, `none` or a subject;
    /// `None` without Grid security.
    pub fn data_peer(&self) -> Option<&str> {
        self.guard.grid().map(Grid::peer)
    }

    /// Duration of connecting: about one round trip.
    pub fn round_trip(&self) -> Duration {
        self.control.round_trip()
    }

    /// Uses a credential of the session on data connections, which the server has been told of.
    pub(crate) fn use_session(&mut self, session: Credential) -> Result<(), Cause> {
        if let Some(grid) = self.guard.grid_mut() {
            grid.use_session(session)?;
        }
        let stack = stacks::of_data(&self.options)?;
        self.stack = self.guard.over(stack);
        self.drop_channel();
        Ok(())
    }

    /// Says whether MODE E can and may be used.
    pub(crate) fn is_extended(&self) -> bool {
        self.abilities.extended && self.options.mode != Some(Mode::Stream)
    }

    pub(crate) fn note(&self, text: &str) {
        self.observer.event(&Event::Note(text));
    }

    /// Ends the session politely.
    pub async fn close(self) {
        let mut bye = self.control.send(Command::Quit);
        let _gone = tokio::time::timeout(Duration::from_secs(2), bye.finish()).await;
    }

    /// Sends a command and waits for its end.
    pub(crate) async fn ask(&self, command: Command) -> Result<Reply, ControlError> {
        self.control.send(command).finish().await
    }

    /// Makes a path of bytes that came from a URL or a listing.
    pub(crate) fn path(&self, path: &[u8]) -> Result<FtpPath, ControlError> {
        self.control
            .path(path)
            .ok_or_else(|| ControlError::Misbehaved {
                site: self.site().to_owned(),
                command: crate::url::show(path),
                what: if self.control.ascii_only {
                    "this server takes names of ASCII only".to_owned()
                } else {
                    "the path is empty or holds NUL or a line end".to_owned()
                },
            })
    }

    /// The facts of one object, and which of them the server told.
    ///
    /// Where the server has no `MLST`, `SIZE` and `CWD` tell files from directories.
    ///
    /// # Errors
    /// [`ControlError`]; [`is_not_found`](ControlError::is_not_found) when there is nothing.
    pub async fn stat(&self, path: &[u8]) -> Result<(Entry, FactSet), ControlError> {
        let wire = self.path(path)?;
        let mut replies = self.control.send(Command::Mlst(Some(wire.clone())));
        let refused = match replies.finish().await {
            Ok(reply) => {
                return parse_mlst(&reply)
                    .ok_or_else(|| replies.misbehaved("no facts in the reply"));
            }
            Err(error) => error,
        };
        if refused.kind() != Some(FailureKind::Unsupported) {
            return Err(refused);
        }
        self.stat_by_size(wire).await
    }

    async fn stat_by_size(&self, path: FtpPath) -> Result<(Entry, FactSet), ControlError> {
        use ftp_wire::facts::Fact;
        let mut size = self.control.send(Command::Size(path.clone()));
        let mut modified = self.control.send(Command::Mdtm(path.clone()));
        let name = crate::names::last(path.as_bytes()).to_vec();
        match size.finish().await {
            Ok(reply) => {
                let bytes = reply
                    .size()
                    .ok_or_else(|| size.misbehaved("no size in the reply"))?;
                let mut entry = Entry::new(EntryKind::File, name);
                entry.size = bytes;
                let mut known = FactSet::NONE.with(Fact::Type).with(Fact::Size);
                if let Some(at) = modified.finish().await.ok().and_then(|reply| reply.time()) {
                    entry.modified = at;
                    known = known.with(Fact::Modify);
                }
                Ok((entry, known))
            }
            Err(error @ ControlError::Lost { .. }) => Err(error),
            Err(_) => {
                self.ask(Command::Cwd(path)).await?;
                // The session keeps absolute paths, so where it stands does not matter.
                Ok((
                    Entry::new(EntryKind::Dir, name),
                    FactSet::NONE.with(Fact::Type),
                ))
            }
        }
    }

    /// Makes a directory. One that is there already is not an error.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn make_dir(&self, path: &[u8]) -> Result<(), ControlError> {
        let Err(error) = self.ask(Command::Mkd(self.path(path)?)).await else {
            return Ok(());
        };
        match error.reply().is_some_and(crate::error::is_exists) {
            true if self.stat(path).await?.0.kind != EntryKind::File => Ok(()),
            _ => Err(error),
        }
    }

    /// Removes a file.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn remove(&self, path: &[u8]) -> Result<(), ControlError> {
        self.ask(Command::Dele(self.path(path)?)).await.map(drop)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn remove_dir(&self, path: &[u8]) -> Result<(), ControlError> {
        self.ask(Command::Rmd(self.path(path)?)).await.map(drop)
    }

    /// Renames, and replaces an object of that name.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn rename(&self, from: &[u8], to: &[u8]) -> Result<(), ControlError> {
        let (from, to) = (self.path(from)?, self.path(to)?);
        self.ask(Command::Rnfr(from)).await?;
        self.ask(Command::Rnto(to)).await.map(drop)
    }

    /// Hashes a part of a file at the server, to its end when `length` is `None`; lower-case
    /// hexadecimal.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn checksum(
        &self,
        path: &[u8],
        algorithm: ChecksumAlgorithm,
        offset: u64,
        length: Option<u64>,
    ) -> Result<String, ControlError> {
        let mut asked = self.send_checksum(path, algorithm, offset, length)?;
        asked.digest(|_| ()).await
    }

    pub(crate) fn send_checksum(
        &self,
        path: &[u8],
        algorithm: ChecksumAlgorithm,
        offset: u64,
        length: Option<u64>,
    ) -> Result<Replies, ControlError> {
        let path = self.path(path)?;
        Ok(verify::ask(&self.control, algorithm, offset, length, path))
    }

    /// Sets permission bits.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn set_mode(&self, path: &[u8], mode: u32) -> Result<(), ControlError> {
        self.send_permissions(path, mode)?.finish().await.map(drop)
    }

    pub(crate) fn send_permissions(&self, path: &[u8], mode: u32) -> Result<Replies, ControlError> {
        let chmod = SiteCommand::Chmod(mode, self.path(path)?);
        Ok(self.control.send(Command::Site(chmod)))
    }

    /// Sets the modification time.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn set_modified(&self, path: &[u8], time: TimeVal) -> Result<(), ControlError> {
        self.send_modified(path, time)?.finish().await.map(drop)
    }

    pub(crate) fn send_modified(
        &self,
        path: &[u8],
        time: TimeVal,
    ) -> Result<Replies, ControlError> {
        Ok(self.control.send_modified(time, self.path(path)?))
    }
}

/// Connects to the server, under TLS where that begins with the first byte; gives the duration of
/// connecting and the protection of the session too.
async fn open(
    site: &Site,
    name: &Arc<str>,
    options: &ConnectOptions,
) -> Result<(BoxStream, Duration, Guard), ConnectError> {
    guard::check(site, options)?;
    let grid = match guard::grid_data(site, options)? {
        Some(protection) => Some(Box::pin(Grid::of(site, options, protection)).await?),
        None => None,
    };
    let (stream, round_trip) = reach(site, name, options).await?;
    let peer = Stream::info(&stream).peer.map(|peer| peer.ip());
    let guard = Guard::of(site, options, peer)?.with_grid(grid);
    let stream = match guard.steps() {
        Security::Implicit(_) => {
            let stream = Box::pin(guard.protect(stream)).await;
            stream.map_err(|cause| implicit_failed(site, cause))?
        }
        Security::Clear | Security::Explicit(..) => stream,
    };
    Ok((stream, round_trip, guard))
}

/// Shortest time that a peer may leave sent bytes unread.
const UNREAD: Duration = Duration::from_secs(60);

/// The socket options of data connections.
pub(crate) fn sockets(options: &ConnectOptions) -> SocketHints {
    let bytes = options.tcp_buffer.map(ByteSize::new);
    // A transfer notices by itself that its bytes do not move; this is for those behind its end.
    let unread = options.stall.saturating_mul(2).max(UNREAD);
    let hints = SocketHints::new().buffers(bytes, bytes).bulk();
    hints.ack_timeout(unread)
}

pub(crate) fn parse_mlst(reply: &Reply) -> Option<(Entry, FactSet)> {
    reply
        .inner()
        .iter()
        .find_map(|line| Entry::parse(line.trim_ascii_start()).ok())
}

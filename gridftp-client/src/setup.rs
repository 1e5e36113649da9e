//! Sets data channels up: the listening end, the connecting end, the streams and the buffers.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use byte_ranges::Layout;
use ftp_wire::addr::Passive;
use ftp_wire::command::{BufferSide, Command, Epsv, Event, Family, Mode, SiteCommand};
use ftp_wire::opts::Opts;
use gridftp_data::Peers;
use xio_core::Target;

use crate::client::{Client, Ready, sockets};
use crate::clock::now;
use crate::control::Replies;
use crate::error::{ControlError, TransferError};
use crate::stripes::Width;

/// Seconds between the markers of a server that completes an upload.
const SIGN_OF_LIFE: u32 = 10;
/// Age to which the listener of a server is used: some close one without a connection after half a
/// minute.
const FRESH: Duration = Duration::from_secs(10);

/// Replies to commands that were sent ahead.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    must: Vec<Replies>,
}

impl Ahead {
    pub(crate) fn must(&mut self, replies: Replies) {
        self.must.push(replies);
    }

    /// Reads the replies.
    ///
    /// # Errors
    /// The first failure of a command that has to succeed.
    pub(crate) async fn settle(self) -> Result<(), ControlError> {
        let mut failed = None;
        for mut replies in self.must {
            if let Err(error) = replies.finish().await {
                failed.get_or_insert(error);
            }
        }
        failed.map_or(Ok(()), Err)
    }
}

/// A `PASV` that was sent ahead of its transfer.
#[derive(Debug)]
pub(crate) struct EarlyPassive {
    sent: Instant,
    replies: Replies,
}

impl Client {
    /// Sends `MODE`, when another is in force.
    pub(crate) fn send_mode(&mut self, mode: Mode, ahead: &mut Ahead) {
        if self.state.mode != mode {
            self.state.mode = mode;
            self.state.ready = None;
            self.state.passive = None;
            ahead.must(self.control.send(Command::Mode(mode)));
        }
    }

    /// Sets up a MODE E channel on which the server sends over connections of this `width`, in this
    /// `layout` if it has stripes; the server will connect to us. Does nothing when it is set up
    /// already.
    ///
    /// Without stripes and data nodes nothing is awaited but our own socket: commands that use the
    /// channel may follow at once.
    pub(crate) async fn set_up_pull(
        &mut self,
        width: Width,
        layout: Option<Layout>,
    ) -> Result<Ahead, TransferError> {
        let mut ahead = Ahead::default();
        if self.is_ready(Ready::Pull(width), width) {
            return Ok(ahead);
        }
        self.send_mode(Mode::Extended, &mut ahead);
        self.tune(BufferSide::Send).await?;
        self.send_streams(width, &mut ahead);
        self.state.sending = None;
        if width.is_striped() {
            self.send_layout(layout, &mut ahead);
            if Box::pin(self.listen_for_stripes(width)).await? {
                self.state.ready = Some(Ready::Pull(width));
                return Ok(ahead);
            }
        }
        let peers = Box::pin(self.senders()).await?;
        let at = self.listen(peers).await?;
        ahead.must(self.control.send(active(at)));
        self.state.ready = Some(Ready::Pull(width.to_one()));
        Ok(ahead)
    }

    /// Says whether the channel of an earlier file serves another of this `width`. Connections that
    /// ended ahead of the others were silent for long, and a firewall may have forgotten them.
    fn is_ready(&self, ready: Ready, width: Width) -> bool {
        let is_set_up = self.state.mode == Mode::Extended && self.state.ready == Some(ready);
        is_set_up && !width.widens()
    }

    /// Tells the server over how many connections to send.
    pub(crate) fn send_streams(&mut self, width: Width, ahead: &mut Ahead) {
        let parallelism = width.parallelism();
        if self.state.parallelism.unwrap_or_default() != parallelism {
            let opts = Opts::Retr {
                parallelism: Some(parallelism),
                stripe_block: None,
                markers: None,
            };
            ahead.must(self.control.send(Command::Opts(opts)));
            self.state.parallelism = Some(parallelism);
        }
    }

    /// Listens for the server's data connections; gives the address to tell it.
    pub(crate) async fn listen(&mut self, peers: Peers) -> Result<SocketAddr, TransferError> {
        let at =
            Target::from(SocketAddr::new(self.control.local(), 0)).with(sockets(&self.options));
        let bound = self.channel.get().listen(&self.stack, &at, peers).await;
        let mut bound = bound.map_err(|cause| self.data_error("listen", cause))?;
        if let Some(told) = self.options.data_address {
            bound.set_ip(told);
        } else if bound.ip().is_unspecified() {
            bound.set_ip(self.control.local());
        }
        Ok(bound)
    }

    /// Sets up a MODE E channel on which we send over connections of this `width`; we will connect.
    pub(crate) async fn set_up_push(&mut self, width: Width) -> Result<(), TransferError> {
        if self.is_ready(Ready::Push(width), width) && self.channel.get().is_cached() {
            return Ok(());
        }
        let mut ahead = Ahead::default();
        self.send_mode(Mode::Extended, &mut ahead);
        self.tune(BufferSide::Receive).await?;
        let stripes = match width.is_striped() {
            true => Box::pin(self.stripes_to_us()).await?,
            false => None,
        };
        let passive = stripes.is_none().then(|| self.send_passive());
        ahead.settle().await?;
        let to = match passive {
            Some(passive) => self.passive(passive).await?,
            None => stripes.unwrap_or_default(),
        };
        let width = match to.len() {
            1 => width.to_one(),
            _ => width,
        };
        self.channel.get().connect_to(self.stack.clone(), to);
        self.state.ready = Some(Ready::Push(width));
        Ok(())
    }

    /// Sets up a MODE S connection, for one transfer, to a port of the server.
    pub(crate) async fn set_up_stream(&mut self, side: BufferSide) -> Result<(), TransferError> {
        let mut ahead = Ahead::default();
        self.send_mode(Mode::Stream, &mut ahead);
        self.tune(side).await?;
        if side == BufferSide::Receive {
            self.ask_for_markers();
        }
        let early = self.state.passive.take();
        let passive = match early.filter(|early| now() - early.sent < FRESH) {
            Some(early) => early.replies,
            None => self.send_passive(),
        };
        ahead.settle().await?;
        let to = self.passive(passive).await?;
        self.channel.get().connect_to(self.stack.clone(), to);
        self.state.ready = None;
        Ok(())
    }

    /// Asks the server to listen for the next transfer in MODE S while this end is still busy with
    /// the last. That must have its final reply: servers refuse `PASV` during a transfer, and do so
    /// out of turn.
    pub(crate) fn listen_ahead(&mut self) {
        if self.state.passive.is_none() {
            self.state.passive = Some(EarlyPassive {
                sent: now(),
                replies: self.send_passive(),
            });
        }
    }

    /// Asks a server that completes uploads after their end for signs of life meanwhile; only in
    /// MODE E it gives them unasked.
    pub(crate) fn ask_for_markers(&mut self) {
        if self.abilities.held && !std::mem::replace(&mut self.state.markers, true) {
            drop(self.control.send(Command::Trev(Event::Perf, SIGN_OF_LIFE)));
        }
    }

    /// Asks the server to listen.
    pub(crate) fn send_passive(&self) -> Replies {
        self.control.send(match self.control.peer() {
            IpAddr::V4(_) => Command::Pasv,
            // In MODE S it tells one address, with its host.
            IpAddr::V6(_) if self.abilities.nodes && self.state.mode == Mode::Stream => {
                Command::Spas(Some(Family::V6))
            }
            IpAddr::V6(_) => Command::Epsv(Epsv::Any),
        })
    }

    /// Reads where the server listens for us.
    async fn passive(&self, mut replies: Replies) -> Result<Vec<SocketAddr>, TransferError> {
        let to = self.listening(&mut replies).await?;
        Ok(self.at_its_host(to))
    }

    /// The addresses, at the server's own host unless another is to be trusted.
    pub(crate) fn at_its_host(&self, mut to: Vec<SocketAddr>) -> Vec<SocketAddr> {
        let peer = self.control.peer();
        for address in &mut to {
            if !self.may_listen_at(*address) {
                self.note(&format!(
                    "{}: gives data address {address}; using its own",
                    self.site()
                ));
                address.set_ip(peer);
            }
        }
        to
    }

    /// Reads where the server listens; an unspecified address means the server's own.
    pub(crate) async fn listening(
        &self,
        replies: &mut Replies,
    ) -> Result<Vec<SocketAddr>, TransferError> {
        let reply = replies.finish().await?;
        let passive = Passive::from_reply(&reply)
            .map_err(|error| replies.misbehaved(format!("address in the reply: {error}")))?;
        let mut to = passive.resolve(self.control.peer());
        for address in &mut to {
            if address.ip().is_unspecified() {
                address.set_ip(self.control.peer());
            }
        }
        if to.is_empty() {
            return Err(replies.misbehaved("no address in the reply").into());
        }
        Ok(to)
    }

    /// Tells the server which TCP buffer to use, by the first name it knows.
    pub(crate) async fn tune(&mut self, side: BufferSide) -> Result<(), ControlError> {
        let Some(bytes) = self.options.tcp_buffer else {
            return Ok(());
        };
        let told = match side {
            BufferSide::Send => &mut self.state.tuned.0,
            _ => &mut self.state.tuned.1,
        };
        if std::mem::replace(told, true) {
            return Ok(());
        }
        for command in [
            Command::Site(SiteCommand::Buffer(side, bytes)),
            Command::Site(SiteCommand::Buffer(BufferSide::Both, bytes)),
            Command::Sbuf(bytes),
        ] {
            match self.ask(command).await {
                Ok(_) => return Ok(()),
                Err(ControlError::Refused { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.note(&format!(
            "{}: takes no TCP buffer size; its own choice stands",
            self.site()
        ));
        Ok(())
    }

    /// Forgets the data channel after a failure on it.
    pub(crate) fn drop_channel(&mut self) {
        self.channel.get().reset();
        self.state.ready = None;
        self.state.passive = None;
        // One of them may be gone, or another may have come.
        let has_nodes = self.abilities.nodes;
        for nodes in [&mut self.state.senders, &mut self.state.receivers] {
            nodes.take_if(|nodes| has_nodes || nodes.len() > 1);
        }
    }

    pub(crate) fn data_error(&self, path: &str, cause: gridftp_data::Error) -> TransferError {
        TransferError::Data {
            site: self.site().to_owned(),
            path: path.to_owned(),
            cause,
        }
    }
}

/// The command that makes a server connect to `at`.
pub(crate) fn active(at: SocketAddr) -> Command {
    match at {
        SocketAddr::V4(_) => Command::Port(at),
        SocketAddr::V6(_) => Command::Eprt(at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::scripted;

    #[tokio::test(start_paused = true)]
    async fn a_listener_that_was_asked_for_long_ago_is_not_used() {
        for (age, asked) in [(1, 1), (60, 2)] {
            let replies = vec![
                ("PASV", scripted::passive(1)),
                ("QUIT", "221 bye".to_owned()),
            ];
            let (mut client, server) = scripted::session(replies).await;
            let using = async {
                client.listen_ahead();
                tokio::time::sleep(Duration::from_secs(age)).await;
                client.set_up_stream(BufferSide::Send).await.unwrap();
                client.close().await;
            };
            let ((), received) = tokio::join!(using, server);
            let passive = received.iter().filter(|line| *line == "PASV").count();
            assert_eq!(passive, asked, "after {age} seconds");
        }
    }
}

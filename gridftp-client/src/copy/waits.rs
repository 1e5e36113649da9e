//! Has servers measure their transfers (`SITE WAITS`), follows those that send, and ends sessions after
//! asking for the wait times.

use std::time::Duration;

use ftp_wire::command::{Command, SiteCommand};
use ftp_wire::marker::Marker;
use ftp_wire::opts::Opts;
use ftp_wire::reply::Reply;
use ftp_wire::waits::Waits;
use gridftp_data::{RemoteSend, Watch};

use super::Stop;
use super::state::CopyState;
use crate::client::Client;
use crate::explain::Role;

/// Longest wait for the answer.
const ANSWER: Duration = Duration::from_secs(2);
/// Seconds between the markers of a sender.
const MARKERS: u32 = 1;
/// Most connections of a transfer that are believed.
const MOST: u32 = 256;

/// Has the watch of data that a server sends follow that server, as its marker tells.
pub(super) fn follow(watch: &Watch, reply: &Reply) {
    let Some(Ok(Marker::Perf(perf))) = Marker::from_reply(reply) else {
        return;
    };
    let Some(waits) = perf.waits else { return };
    let mut now = RemoteSend::default();
    (now.moving, now.connections) = (waits.moving, waits.connections.min(MOST));
    // Other stacks than TCP tell less, and that is zero.
    let time = |time: Duration| (!time.is_zero()).then_some(time);
    now.path.round_trip = time(waits.round_trip);
    if let Some(busy) = time(waits.busy) {
        now.path.busy = Some(busy);
        now.path.receiver_full = Some(waits.receiver_full);
        now.path.buffer_full = Some(waits.buffer_full);
    }
    if waits.sent > 0 {
        now.path.sent = Some(waits.sent);
        now.path.retransmitted = Some(waits.retransmitted);
    }
    now.path.is_lossy = waits.is_lossy;
    watch.follow_sender(now);
}

impl CopyState {
    /// Begins the work of a session: has the server measure where the time of its transfers goes, and
    /// tell that of the data which it sends where numbers are chosen by it.
    pub(super) fn begin_session(&self, client: &Client, role: Role) {
        if let (Some(done), Role::Receiver) = (&self.done, role) {
            done.note_server(&client.abilities);
        }
        if !client.abilities.waits {
            return;
        }
        // Of data that pass this machine to another server, the server there is sent to from here.
        let is_relayed = self.destination.is_some() && self.relays();
        // Data nodes are not measured.
        let tells = role == Role::Sender && !is_relayed && !client.abilities.nodes;
        let tunes = tells && self.tuning.measures();
        if self.options.explain || tunes {
            drop(client.control.send(Command::Site(SiteCommand::Waits)));
        }
        if tunes {
            // The copy does without them.
            drop(client.control.send(Command::Opts(Opts::Retr {
                parallelism: None,
                stripe_block: None,
                markers: Some(MARKERS),
            })));
        }
    }

    /// Closes a session, after it was asked where the time of its transfers went.
    pub(super) async fn close(&self, client: Box<Client>, role: Role) {
        if self.options.explain && client.abilities.waits {
            let asked = client.ask(Command::Site(SiteCommand::Waits));
            if let Ok(Ok(told)) = tokio::time::timeout(ANSWER, asked).await
                && let Some(waits) = Waits::parse(&told.text())
            {
                self.totals.samples.told(role, waits);
            }
        }
        client.close().await;
    }

    /// Closes a session that has done its work, or is left for another stack: the server counts it
    /// until then, and a connection that ended behind the change is no failure.
    pub(super) async fn end(
        &self,
        client: Box<Client>,
        role: Role,
        ended: Result<(), Stop>,
    ) -> Result<(), Stop> {
        let is_left = client.control.left.is_cancelled();
        self.end_one(client, role, ended.is_ok()).await;
        behind_change(is_left, ended)
    }

    /// As [`end`](Self::end), of both sessions of a copy between two servers.
    pub(super) async fn end_both(
        &self,
        source: Box<Client>,
        destination: Box<Client>,
        ended: Result<(), Stop>,
    ) -> Result<(), Stop> {
        let is_left = source.control.left.is_cancelled() || destination.control.left.is_cancelled();
        tokio::join!(
            self.end_one(source, Role::Sender, ended.is_ok()),
            self.end_one(destination, Role::Receiver, ended.is_ok())
        );
        behind_change(is_left, ended)
    }

    async fn end_one(&self, mut client: Box<Client>, role: Role, is_done: bool) {
        if is_done {
            self.close(client, role).await;
        } else if client.control.left.is_cancelled() {
            // Behind QUIT alone the server finishes the running transfer, which locks its file.
            client.control.abort();
            client.drop_channel();
            client.close().await;
        }
    }
}

/// The end of the work on sessions; `is_left` says whether one of them was left.
fn behind_change(is_left: bool, ended: Result<(), Stop>) -> Result<(), Stop> {
    match ended {
        Err(Stop::Lost(_)) if is_left => Err(Stop::Replace),
        ended => ended,
    }
}

#[cfg(test)]
mod tests {
    use ftp_wire::command::Mode;
    use ftp_wire::marker::Perf;
    use xio_core::PathStats;

    use super::*;
    use crate::client::scripted;
    use crate::copy::tuning::Route;
    use crate::error::TransferError;

    #[test]
    fn a_watch_follows_the_markers_of_the_sender_alone() {
        let watch = Watch::new();
        let mut perf = Perf::new(15, 0, 5, 1);
        follow(&watch, &Marker::Perf(perf).to_reply());
        follow(&watch, &Reply::of::<150>("Waits: Moving=5;"));
        assert_eq!(watch.remote_sender(), None);
        let mut waits = Waits::default();
        (waits.moving, waits.connections) = (Duration::from_secs(1), 4);
        perf.waits = Some(waits);
        follow(&watch, &Marker::Perf(perf).to_reply());
        // A stack that measures nothing has no times of zero.
        let told = watch.remote_sender().unwrap();
        assert_eq!((told.moving, told.connections), (waits.moving, 4));
        assert_eq!(told.path, PathStats::new());
        let ms = Duration::from_millis;
        (waits.busy, waits.receiver_full, waits.round_trip) = (ms(900), ms(500), ms(40));
        (waits.sent, waits.is_lossy, waits.connections) = (700, true, u32::MAX);
        perf.waits = Some(waits);
        follow(&watch, &Marker::Perf(perf).to_reply());
        let told = watch.remote_sender().unwrap();
        assert_eq!(told.connections, MOST);
        let path = told.path;
        assert_eq!(
            (path.busy, path.receiver_full),
            (Some(ms(900)), Some(ms(500)))
        );
        assert_eq!((path.sent, path.retransmitted), (Some(700), Some(0)));
        assert!(path.is_lossy && path.round_trip == Some(ms(40)));
    }

    /// A server that does not tell is asked for nothing.
    #[tokio::test(start_paused = true)]
    async fn the_sender_of_a_copy_that_is_tuned_is_asked_for_markers() {
        let markers = "OPTS RETR Markers=1;";
        for (tells, nodes, role, expected) in [
            (
                true,
                false,
                Role::Sender,
                &["SITE WAITS", markers, "QUIT"][..],
            ),
            (true, false, Role::Receiver, &["QUIT"]),
            (true, true, Role::Sender, &["QUIT"]),
            (false, false, Role::Sender, &["QUIT"]),
        ] {
            let replies = [
                ("SITE", "250 Waits: Moving=0;"),
                ("OPTS", "200 OK"),
                ("QUIT", "221 bye"),
            ];
            let replies = replies.map(|(verb, reply)| (verb, reply.to_owned()));
            let (mut client, server) = scripted::session(replies.into()).await;
            (client.abilities.waits, client.abilities.nodes) = (tells, nodes);
            let shared = CopyState::plain();
            let route = Route {
                round_trip: Duration::from_millis(50),
                mode: Mode::Extended,
                is_between: false,
                tells: true,
                limits: true,
                files: 1,
                connections: None,
                over_udt: false,
            };
            shared.begin_session(&client, role);
            shared.begin_tuning(route).await;
            shared.begin_session(&client, role);
            let (received, ()) = tokio::join!(server, client.close());
            assert_eq!(received, expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_that_is_lost_behind_a_change_of_stack_is_replaced() {
        for is_left in [false, true] {
            let (client, server) = scripted::session(vec![("QUIT", "221 bye".to_owned())]).await;
            if is_left {
                client.control.left.cancel();
            }
            let shared = CopyState::plain();
            let lost = Stop::Lost(TransferError::request("it ended", ""));
            let ended = shared.end(Box::new(client), Role::Sender, Err(lost));
            let (ended, _) = tokio::join!(ended, server);
            assert_eq!(matches!(ended, Err(Stop::Replace)), is_left, "{ended:?}");
        }
    }

    /// They are of one change, and the servers end a transfer together.
    #[tokio::test(start_paused = true)]
    async fn both_sessions_of_a_pair_that_is_left_are_aborted() {
        let replies = [("ABOR", "226 done"), ("QUIT", "221 bye")];
        let replies = replies.map(|(verb, reply)| (verb, reply.to_owned()));
        let (source, one) = scripted::session(replies.clone().into()).await;
        let (destination, other) = scripted::session(replies.into()).await;
        for client in [&source, &destination] {
            client.control.left.cancel();
        }
        let shared = CopyState::plain();
        let lost = Stop::Lost(TransferError::request("it ended", ""));
        let ended = shared.end_both(Box::new(source), Box::new(destination), Err(lost));
        let (ended, one, other) = tokio::join!(ended, one, other);
        assert!(matches!(ended, Err(Stop::Replace)), "{ended:?}");
        assert_eq!([one, other], [["ABOR", "QUIT"]; 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_transfers_of_a_session_that_is_left_are_aborted_before_its_end() {
        let replies = [("ABOR", "226 done"), ("QUIT", "221 bye")];
        let replies = replies.map(|(verb, reply)| (verb, reply.to_owned()));
        let (client, server) = scripted::session(replies.into()).await;
        client.control.left.cancel();
        let shared = CopyState::plain();
        let ended = shared.end(Box::new(client), Role::Sender, Err(Stop::Replace));
        let (ended, received) = tokio::join!(ended, server);
        assert!(matches!(ended, Err(Stop::Replace)), "{ended:?}");
        assert_eq!(received, ["ABOR", "QUIT"]);
    }
}

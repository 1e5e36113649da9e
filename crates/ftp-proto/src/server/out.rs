//! `Out` and `Cx`: the outputs of a session, and the context of its commands.

use std::collections::VecDeque;
use std::net::IpAddr;

use ftp_wire::reply::{Code, Reply};

use super::dialect::Dialect;
use super::queue::KEEP;
use super::security::Security;
use super::settings::Settings;
use super::{Ending, Output};
use crate::security::Mechanism;
use crate::types::{Action, Ticket};

/// Outputs not yet polled, and the count of tickets.
#[derive(Debug, Default)]
pub(super) struct Out {
    queue: VecDeque<Output>,
    tickets: u64,
    /// The form of replies.
    pub(super) dialect: Dialect,
}

impl Out {
    /// Sends one whole reply.
    pub(super) fn reply(&mut self, reply: Reply) {
        let reply = self.dialect.shape(reply);
        self.queue.push_back(Output::Reply(reply));
    }

    /// Sends a reply of one line.
    pub(super) fn say<const CODE: u16>(&mut self, text: impl Into<Vec<u8>>) {
        self.reply(Reply::of::<CODE>(text));
    }

    /// Sends a reply of several lines.
    pub(super) fn lines<const CODE: u16>(&mut self, lines: Vec<String>) {
        self.reply(Reply::coded(Code::of::<CODE>(), lines));
    }

    /// Hands an action to the caller.
    pub(super) fn action(&mut self, action: Action) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.queue.push_back(Output::Action(ticket, action));
        ticket
    }

    /// Asks for a handshake.
    pub(super) fn upgrade(&mut self, mechanism: Mechanism) {
        self.queue.push_back(Output::Upgrade(mechanism));
    }

    /// Ends the session.
    pub(super) fn close(&mut self, ending: Ending) {
        self.queue.push_back(Output::Close(ending));
    }

    /// Takes the next output.
    pub(super) fn pop(&mut self) -> Option<Output> {
        let next = self.queue.pop_front();
        if next.is_none() {
            self.queue.shrink_to(KEEP);
        }
        next
    }
}

/// The context in which a session handles one input.
#[derive(Debug)]
pub(super) struct Cx<'a> {
    pub(super) out: &'a mut Out,
    pub(super) settings: &'a Settings,
    pub(super) security: &'a mut Security,
    /// The host at the other end of the control connection.
    pub(super) peer: IpAddr,
}

//! `Out` and `Cx`: where a session's parts put what they say, and what they may look at.

use std::collections::VecDeque;
use std::net::IpAddr;

use ftp_wire::reply::{Code, Reply};

use super::dialect::Dialect;
use super::queue::KEEP;
use super::settings::Settings;
use super::{Ending, Output};
use crate::types::{Action, Ticket};

/// Outputs not yet polled, and the count of tickets.
#[derive(Debug, Default)]
pub(super) struct Out {
    queue: VecDeque<Output>,
    tickets: u64,
    /// The form of what is said.
    pub(super) dialect: Dialect,
}

impl Out {
    /// Says one whole reply.
    pub(super) fn reply(&mut self, reply: Reply) {
        let reply = self.dialect.shape(reply);
        self.queue.push_back(Output::Reply(reply));
    }

    /// Says a reply of one line.
    pub(super) fn say<const CODE: u16>(&mut self, text: impl Into<Vec<u8>>) {
        self.reply(Reply::of::<CODE>(text));
    }

    /// Says a reply of as many lines as there are.
    pub(super) fn lines<const CODE: u16>(&mut self, lines: Vec<String>) {
        self.reply(Reply::coded(Code::of::<CODE>(), lines));
    }

    /// Asks the edge for something.
    pub(super) fn action(&mut self, action: Action) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.queue.push_back(Output::Action(ticket, action));
        ticket
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

/// What every part of a session may look at and write to while it handles one input.
#[derive(Debug)]
pub(super) struct Cx<'a> {
    pub(super) out: &'a mut Out,
    pub(super) settings: &'a Settings,
    /// The host at the other end of the control connection.
    pub(super) peer: IpAddr,
}

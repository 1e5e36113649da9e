//! `Deframer`: per connection; says where the next payload bytes belong.

use crate::{BadBlock, BadBlockKind, Flags, HEADER_LEN, Header, Limits};

/// What comes next on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Header bytes are wanted: give them to [`Deframer::feed`].
    Header {
        /// How many are missing, 1 to 17.
        need: usize,
    },
    /// The next bytes of the connection are payload: move some or all of them, then say how many
    /// with [`Deframer::moved`]. Repeats until all are moved.
    Payload {
        /// Where the first of them belongs in the file, in bytes.
        offset: u64,
        /// How many are left of the block.
        len: u64,
    },
    /// The next bytes of the connection are payload of a transfer that nobody takes any more: throw
    /// some or all of them away, then say how many with [`Deframer::moved`].
    Stale {
        /// How many are left of the block.
        len: u64,
    },
    /// The number of end-of-data marks to expect over all connections of this listener.
    Eof {
        /// That number.
        connections: u64,
    },
    /// This connection has nothing more for this transfer. Stop polling until the next one.
    Eod {
        /// Whether the peer closes the connection; else it is kept for the next transfer.
        close: bool,
    },
    /// The peer closes a kept connection that has no part in this transfer.
    Retired,
}

/// Takes one connection's bytes apart into blocks, without holding payload.
///
/// `poll` until [`Step::Header`], feed, and again. What follows an end-of-data mark belongs to the
/// next transfer: [`next_transfer`](Self::next_transfer) goes on with it on a kept connection.
///
/// Where transfers are tagged ([`expect`](Self::expect)), only blocks behind the tag of the transfer in
/// hand are its own. Those behind a lower tag belong to a transfer that failed before they came, and
/// are stepped over to their end-of-data mark; no tag, or a higher one, is an error.
#[derive(Debug, Clone)]
pub struct Deframer {
    limits: Limits,
    header: [u8; HEADER_LEN],
    filled: usize,
    state: State,
    /// Where the block in hand began, in bytes of the connection.
    at: u64,
    empties: u32,
    /// Whether a transfer ended on this connection before.
    kept: bool,
    /// Whether this transfer's end-of-data mark has come.
    ended: bool,
    begun: Begun,
    /// The tag of the transfer in hand, where it has one.
    wanted: Option<u64>,
    owner: BlockOwner,
}

/// The transfer whose blocks come now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockOwner {
    /// No transfer: the next header is the first of one.
    None,
    /// The one in hand.
    Current,
    /// An earlier one, which nobody takes any more.
    Stale,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begun {
    No,
    Just,
    Yes,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Header,
    /// The block in hand, with `done` bytes of its payload moved.
    Block {
        header: Header,
        done: u64,
    },
    /// The block's EOF has been told, the rest of its flags not.
    AfterEof {
        flags: Flags,
    },
    Failed(BadBlock),
}

impl Deframer {
    /// A deframer for a connection just opened.
    pub const fn new(limits: Limits) -> Self {
        Self {
            limits,
            header: [0; HEADER_LEN],
            filled: 0,
            state: State::Header,
            at: 0,
            empties: 0,
            kept: false,
            ended: false,
            begun: Begun::No,
            wanted: None,
            owner: BlockOwner::None,
        }
    }

    /// Says which transfer is taken from here on: the one of this tag, or one that has none.
    ///
    /// What is left on the connection of an earlier transfer is stale then.
    pub fn expect(&mut self, tag: Option<u64>) {
        self.wanted = tag;
        if self.owner == BlockOwner::Current {
            self.owner = BlockOwner::Stale;
        }
        self.ended = false;
        self.begun = Begun::No;
        self.empties = 0;
    }

    /// Takes header bytes from the front of `bytes` and says how many; none unless `poll` asks for them.
    ///
    /// They are judged by the next `poll`: the header may be of a transfer that is not in hand yet.
    pub fn feed(&mut self, bytes: &[u8]) -> usize {
        if !matches!(self.state, State::Header) {
            return 0;
        }
        let slots = self.header.iter_mut().skip(self.filled);
        let taken = slots.zip(bytes).map(|(slot, byte)| *slot = *byte).count();
        self.filled += taken;
        taken
    }

    fn begin_block(&mut self) {
        let header = Header::parse(&self.header);
        self.state = match self.admit(header) {
            Ok(()) => State::Block { header, done: 0 },
            Err(kind) => State::Failed(BadBlock { kind, at: self.at }),
        };
    }

    fn admit(&mut self, header: Header) -> Result<(), BadBlockKind> {
        let first = self.owner == BlockOwner::None;
        if let (Some(tag), Some(wanted)) = (header.tag(), self.wanted) {
            if !first || tag > wanted {
                return Err(BadBlockKind::OtherTag { tag, wanted });
            }
            self.owner = if tag == wanted {
                self.begun = Begun::Just;
                BlockOwner::Current
            } else {
                BlockOwner::Stale
            };
            return Ok(());
        }
        header.check(&self.limits)?;
        let Header { flags, count, .. } = header;
        if flags.has(Flags::CLOSE) && !flags.has(Flags::EOD) {
            // Only as the first thing on a kept connection does it say what it can mean: that
            // the sender wants fewer connections this time.
            let retires = self.kept && first && count == 0 && !flags.has(Flags::EOF);
            return if retires {
                Ok(())
            } else {
                Err(BadBlockKind::CloseWithoutEod)
            };
        }
        if count == 0 && !flags.has(Flags::EOD) && !flags.has(Flags::EOF) {
            self.empties += 1;
            if self.empties > self.limits.max_empty {
                return Err(BadBlockKind::TooManyEmpty {
                    limit: self.limits.max_empty,
                });
            }
        }
        if first {
            if let Some(wanted) = self.wanted {
                return Err(BadBlockKind::Untagged { wanted });
            }
            self.owner = BlockOwner::Current;
            self.begun = Begun::Just;
        }
        Ok(())
    }

    /// Says how many bytes are missing of the next header; 0 while a block is in hand.
    ///
    /// Unlike [`poll`](Self::poll) it takes no step, so that a header may be read ahead of its transfer.
    pub fn missing(&self) -> usize {
        match self.state {
            State::Header => HEADER_LEN - self.filled,
            State::Block { .. } | State::AfterEof { .. } | State::Failed(_) => 0,
        }
    }

    /// Says what comes next.
    ///
    /// [`Step::Eof`] and [`Step::Eod`] are told once each; after the latter this is
    /// `Header` again, and what is fed then belongs to whatever the peer sends next.
    ///
    /// # Errors
    ///
    /// [`BadBlock`], again and again once it happened: the connection cannot be used any more.
    pub fn poll(&mut self) -> Result<Step, BadBlock> {
        loop {
            match self.state {
                State::Failed(bad) => return Err(bad),
                State::Header if self.filled == HEADER_LEN => self.begin_block(),
                State::Header => {
                    return Ok(Step::Header {
                        need: HEADER_LEN - self.filled,
                    });
                }
                State::Block { header, done } => {
                    let Header {
                        flags,
                        count,
                        offset,
                    } = header;
                    let stale = self.owner == BlockOwner::Stale;
                    if flags.has(Flags::EOF) {
                        self.state = State::AfterEof { flags };
                        if stale {
                            continue;
                        }
                        return Ok(Step::Eof {
                            connections: offset,
                        });
                    }
                    // A block may carry payload and the mark: the payload comes first.
                    if done < count {
                        let len = count - done;
                        return Ok(if stale {
                            Step::Stale { len }
                        } else {
                            let offset = offset + done;
                            Step::Payload { offset, len }
                        });
                    }
                    if let Some(step) = self.end_block(flags, count) {
                        return Ok(step);
                    }
                }
                State::AfterEof { flags } => {
                    if let Some(step) = self.end_block(flags, 0) {
                        return Ok(step);
                    }
                }
            }
        }
    }

    fn end_block(&mut self, flags: Flags, count: u64) -> Option<Step> {
        self.at = self
            .at
            .saturating_add(HEADER_LEN as u64)
            .saturating_add(count);
        self.filled = 0;
        self.state = State::Header;
        let close = flags.has(Flags::CLOSE);
        if flags.has(Flags::EOD) {
            if std::mem::replace(&mut self.owner, BlockOwner::None) == BlockOwner::Current {
                self.ended = true;
                return Some(Step::Eod { close });
            }
            self.kept = true;
        }
        close.then_some(Step::Retired)
    }

    /// Says that `n` bytes of payload have been moved.
    ///
    /// # Panics
    ///
    /// When that is more than `poll` offered: the caller has then taken a header for payload.
    pub fn moved(&mut self, n: u64) {
        if let State::Block { header, done } = &mut self.state {
            assert!(
                n <= header.count - *done,
                "more payload moved than the block has"
            );
            *done += n;
        } else {
            assert_eq!(n, 0, "payload moved outside a block");
        }
    }

    /// Says, once for each transfer, that the first header of the connection has come: it takes part.
    pub fn just_begun(&mut self) -> bool {
        let just = self.begun == Begun::Just;
        if just {
            self.begun = Begun::Yes;
        }
        just
    }

    /// Says whether this connection has brought a header for this transfer.
    pub fn has_begun(&self) -> bool {
        self.begun != Begun::No
    }

    /// Gets ready for the next transfer over the same connection, which has no tag unless
    /// [`expect`](Self::expect) says so.
    pub fn next_transfer(&mut self) {
        self.kept = true;
        self.expect(None);
    }

    /// Says whether the connection may end here: after its mark, or before it brought anything that is
    /// taken.
    ///
    /// # Errors
    ///
    /// [`BadBlock`] when the end cuts something off.
    pub fn at_end(&self) -> Result<(), BadBlock> {
        let kind = match self.state {
            State::Failed(bad) => return Err(bad),
            _ if self.owner == BlockOwner::Stale => return Ok(()),
            State::Header if self.filled > 0 => BadBlockKind::CutInHeader,
            State::Header if self.ended || !self.has_begun() => return Ok(()),
            State::Block { header, done } if done < header.count => BadBlockKind::CutInPayload {
                missing: header.count - done,
            },
            State::Header | State::Block { .. } | State::AfterEof { .. } => {
                BadBlockKind::CutBeforeEod
            }
        };
        Err(BadBlock { kind, at: self.at })
    }
}

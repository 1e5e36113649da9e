//! `Deframer`: splits one connection into blocks and gives the offset of the next payload bytes.

use crate::{BadBlock, BadBlockKind, Flags, HEADER_LEN, Header, Hint, Limits, MAX_HINTS};

/// The next step on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Header bytes are missing: pass them to [`Deframer::feed`].
    Header {
        /// Number of missing bytes, 1 to 17.
        need: usize,
    },
    /// The next bytes of the connection are payload: move some or all of them, then call
    /// [`Deframer::moved`]. Repeats until all are moved.
    Payload {
        /// Offset of the first of them in the file, in bytes.
        offset: u64,
        /// Number of bytes left of the block.
        len: u64,
    },
    /// The next bytes of the connection are payload of an earlier, abandoned transfer: discard some
    /// or all of them, then call [`Deframer::moved`].
    Stale {
        /// Number of bytes left of the block.
        len: u64,
    },
    /// The end-of-file mark.
    Eof {
        /// Number of end-of-data marks to expect over all connections of this listener.
        connections: u64,
    },
    /// The digest of the tagged transfer, as its sender computed it; at most once a connection.
    Digest([u8; 32]),
    /// The next hint behind the digest; at most [`MAX_HINTS`] a connection.
    Hint(Hint),
    /// The last block of this connection for this transfer. Stop polling until the next one.
    Eod {
        /// Whether the peer closes the connection; else it is kept for the next transfer.
        close: bool,
    },
    /// The peer closes a kept connection that has no part in this transfer.
    Retired,
}

/// Splits the bytes of one connection into blocks, without holding payload.
///
/// `poll` until [`Step::Header`], feed, and again. Blocks behind an end-of-data mark belong to the
/// next transfer: [`next_transfer`](Self::next_transfer) continues with it on a kept connection.
///
/// Where transfers are tagged ([`expect`](Self::expect)), only blocks behind the tag of the current
/// transfer belong to it. Blocks behind a lower tag belong to a transfer that failed before they
/// arrived, and are skipped up to their end-of-data mark; no tag, or a higher one, is an error.
#[derive(Debug, Clone)]
pub struct Deframer {
    limits: Limits,
    header: [u8; HEADER_LEN],
    filled: usize,
    state: State,
    /// Start of the current block, in bytes of the connection.
    at: u64,
    empties: u32,
    /// Whether an earlier transfer ended on this connection.
    kept: bool,
    /// Whether the end-of-data mark of this transfer has arrived.
    ended: bool,
    begun: Begun,
    /// The tag of the current transfer, if it has one.
    wanted: Option<u64>,
    owner: BlockOwner,
    digest: Digest,
}

/// The part of a transfer's digest that has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Digest {
    None,
    Half(u128),
    /// All of it, and so many hints.
    Whole(usize),
}

/// The transfer of the arriving blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockOwner {
    /// No transfer: the next header is the first of one.
    None,
    /// The current transfer.
    Current,
    /// An earlier, abandoned one.
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
    /// A block with `done` bytes of its payload moved.
    Block {
        header: Header,
        done: u64,
    },
    /// A block with half of a digest, or a hint.
    Digest {
        half: u128,
    },
    /// [`Step::Eof`] was returned; the other flags of the block are still to be handled.
    AfterEof {
        flags: Flags,
    },
    Failed(BadBlock),
}

impl Deframer {
    /// A deframer for a new connection.
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
            digest: Digest::None,
        }
    }

    /// Sets the current transfer: the one with this tag, or one without a tag.
    ///
    /// The rest of an earlier transfer on the connection becomes stale.
    pub fn expect(&mut self, tag: Option<u64>) {
        self.wanted = tag;
        if self.owner == BlockOwner::Current {
            self.owner = BlockOwner::Stale;
        }
        self.ended = false;
        self.begun = Begun::No;
        self.empties = 0;
        self.digest = Digest::None;
    }

    /// Takes missing header bytes from the front of `bytes` and returns their number.
    ///
    /// The next `poll` checks them: the header may belong to a transfer that has not begun yet.
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
        let tagged = self.wanted.is_some() && self.owner != BlockOwner::None;
        let half = header
            .half_digest()
            .filter(|_| tagged && self.digest != Digest::Whole(MAX_HINTS));
        if let Some(half) = half {
            self.state = State::Digest { half };
            return;
        }
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
            // CLOSE alone is valid only first on a kept connection: the sender uses fewer
            // connections for this transfer.
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

    /// Number of bytes missing of the next header; 0 within a block.
    ///
    /// Unlike [`poll`](Self::poll) it changes nothing, so that a header may be read ahead of its
    /// transfer.
    pub fn missing(&self) -> usize {
        match self.state {
            State::Header => HEADER_LEN - self.filled,
            State::Block { .. }
            | State::Digest { .. }
            | State::AfterEof { .. }
            | State::Failed(_) => 0,
        }
    }

    /// Returns the next step.
    ///
    /// [`Step::Eof`] and [`Step::Eod`] are returned once each. After `Eod` the next step is
    /// `Header`, and the bytes fed then belong to the next transfer.
    ///
    /// # Errors
    ///
    /// [`BadBlock`], from then on at every call: the connection is unusable.
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
                    // A block may carry payload and a mark: the payload comes first.
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
                State::Digest { half } => {
                    self.end_block(Flags::NONE, 0);
                    let step = self.take_digest(half);
                    if let Some(step) = step.filter(|_| self.owner == BlockOwner::Current) {
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

    /// Takes the next 16 bytes of the digest, and of the hints behind it.
    fn take_digest(&mut self, half: u128) -> Option<Step> {
        let (digest, step) = match self.digest {
            Digest::None => (Digest::Half(half), None),
            Digest::Half(first) => {
                let [first, half] = [first, half].map(u128::to_be_bytes);
                let mut bytes = first.into_iter().chain(half);
                let digest = std::array::from_fn(|_| bytes.next().unwrap_or(0));
                (Digest::Whole(0), Some(Step::Digest(digest)))
            }
            Digest::Whole(hints) => {
                let hint = half.to_be_bytes();
                (Digest::Whole(hints + 1), Some(Step::Hint(hint)))
            }
        };
        self.digest = digest;
        step
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
            self.digest = Digest::None;
            if std::mem::replace(&mut self.owner, BlockOwner::None) == BlockOwner::Current {
                self.ended = true;
                return Some(Step::Eod { close });
            }
            self.kept = true;
        }
        close.then_some(Step::Retired)
    }

    /// Records that the caller moved `n` bytes of payload.
    ///
    /// # Panics
    ///
    /// If `n` is more than `poll` offered: the caller has then taken a header for payload.
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

    /// Returns `true` once for each transfer, after its first header on this connection.
    pub fn just_begun(&mut self) -> bool {
        let just = self.begun == Begun::Just;
        if just {
            self.begun = Begun::Yes;
        }
        just
    }

    /// Says whether a header of this transfer has arrived on this connection.
    pub fn has_begun(&self) -> bool {
        self.begun != Begun::No
    }

    /// Prepares for the next transfer over the same connection, which has no tag unless
    /// [`expect`](Self::expect) sets one.
    pub fn next_transfer(&mut self) {
        self.kept = true;
        self.expect(None);
    }

    /// Checks that the connection may end here: after its mark or before any block.
    ///
    /// # Errors
    ///
    /// [`BadBlock`] when the end truncates a header, a block or the transfer.
    pub fn at_end(&self) -> Result<(), BadBlock> {
        let kind = match self.state {
            State::Failed(bad) => return Err(bad),
            _ if self.owner == BlockOwner::Stale => return Ok(()),
            State::Header if self.filled > 0 => BadBlockKind::CutInHeader,
            State::Header if self.ended || !self.has_begun() => return Ok(()),
            State::Block { header, done } if done < header.count => BadBlockKind::CutInPayload {
                missing: header.count - done,
            },
            State::Header | State::Block { .. } | State::Digest { .. } | State::AfterEof { .. } => {
                BadBlockKind::CutBeforeEod
            }
        };
        Err(BadBlock { kind, at: self.at })
    }
}

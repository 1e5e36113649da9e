//! `Tail`: the bytes that follow the handshake on a data channel under `PROT C`.
//!
//! After the handshake, an acceptor under TLS 1.3 sends a record with one zero byte, and the
//! initiator answers with the flag `0` in a record. Then both ends go on in clear on the same
//! connection, so no byte may be read beyond the record that is expected: [`record_length`] tells
//! its end.

use rustls::ProtocolVersion;

/// Bound of a record in bytes, header included (RFC 8446 §5.2, RFC 5246 §6.2.3).
pub const MAX_RECORD: usize = 5 + 16 * 1024 + 2048;

/// The next thing the caller must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TailStep {
    /// Encrypt and send this as one record, then call [`Tail::sent`].
    Send(&'static [u8]),
    /// Read exactly one record, decrypt it, and pass its data to [`Tail::receive`].
    Receive,
    /// Go on in clear.
    Done,
}

/// A tail that breaks the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadTail {
    /// The bytes are no record.
    #[error("no record of TLS: its first byte is {0:#04x}; the peer may be without DCAU")]
    NotTls(u8),
    /// The record is too long.
    #[error("a record of {0} bytes, and at most {MAX_RECORD} are allowed")]
    TooLong(usize),
    /// The flag of the initiator is not the one of data channels.
    #[error("the flag of a data channel must be `0`, in one byte")]
    Flag,
    /// A step out of turn.
    #[error("the data channel expects no such step")]
    Misuse,
}

/// The steps between the handshake and the clear bytes.
#[derive(Clone, Copy, Debug)]
pub struct Tail {
    role: Role,
    /// Whether the byte that ends the handshake is still to come.
    resync: bool,
    done: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Initiator,
    Acceptor,
}

impl Tail {
    /// Begins after the handshake of the end that connected.
    pub fn initiator(version: ProtocolVersion) -> Self {
        Self::new(Role::Initiator, version)
    }

    /// Begins after the handshake of the end that was connected to.
    pub fn acceptor(version: ProtocolVersion) -> Self {
        Self::new(Role::Acceptor, version)
    }

    fn new(role: Role, version: ProtocolVersion) -> Self {
        let resync = version == ProtocolVersion::TLSv1_3;
        Self {
            role,
            resync,
            done: false,
        }
    }

    /// Returns the next step.
    pub fn next(&self) -> TailStep {
        match (self.done, self.role, self.resync) {
            (true, _, _) => TailStep::Done,
            (false, Role::Initiator, true) | (false, Role::Acceptor, false) => TailStep::Receive,
            (false, Role::Initiator, false) => TailStep::Send(b"0"),
            (false, Role::Acceptor, true) => TailStep::Send(b"\0"),
        }
    }

    /// Notes that the data of [`TailStep::Send`] was sent.
    ///
    /// # Errors
    ///
    /// Nothing was to be sent.
    pub fn sent(&mut self) -> Result<(), BadTail> {
        match self.next() {
            TailStep::Send(_) => self.advance(),
            TailStep::Receive | TailStep::Done => return Err(BadTail::Misuse),
        }
        Ok(())
    }

    /// Takes the data of the record that [`TailStep::Receive`] asked for.
    ///
    /// # Errors
    ///
    /// The flag is wrong, or nothing was to be received.
    pub fn receive(&mut self, data: &[u8]) -> Result<(), BadTail> {
        match (self.next(), self.role) {
            // Its content is ignored: acceptors before 2022 send a session ticket.
            (TailStep::Receive, Role::Initiator) => {}
            (TailStep::Receive, Role::Acceptor) if data == b"0" => {}
            (TailStep::Receive, Role::Acceptor) => return Err(BadTail::Flag),
            (TailStep::Send(_) | TailStep::Done, _) => return Err(BadTail::Misuse),
        }
        self.advance();
        Ok(())
    }

    fn advance(&mut self) {
        self.done = !self.resync;
        self.resync = false;
    }
}

/// Returns the length of the first record in bytes, its header included; `None` while fewer than
/// the 5 bytes of the header are there.
///
/// # Errors
///
/// The bytes are no record of TLS, or it is too long.
pub fn record_length(bytes: &[u8]) -> Result<Option<usize>, BadTail> {
    let Some(kind) = bytes.first() else {
        return Ok(None);
    };
    if !(20..=24).contains(kind) {
        return Err(BadTail::NotTls(*kind));
    }
    let Some(&[_, _, _, high, low]) = bytes.first_chunk::<5>() else {
        return Ok(None);
    };
    match 5 + usize::from(u16::from_be_bytes([high, low])) {
        length if length > MAX_RECORD => Err(BadTail::TooLong(length)),
        length => Ok(Some(length)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Trap 2: the tail of `PROT C`, under both versions.
    #[test]
    fn the_tail_of_a_clear_data_channel_follows_the_version() {
        for version in [ProtocolVersion::TLSv1_2, ProtocolVersion::TLSv1_3] {
            let (mut near, mut far) = (Tail::initiator(version), Tail::acceptor(version));
            let mut sent = Vec::new();
            while (near.next(), far.next()) != (TailStep::Done, TailStep::Done) {
                let (from, to) = match near.next() {
                    TailStep::Send(_) => (&mut near, &mut far),
                    _ => (&mut far, &mut near),
                };
                let TailStep::Send(data) = from.next() else {
                    panic!("both ends wait")
                };
                from.sent().unwrap();
                to.receive(data).unwrap();
                sent.push(data);
            }
            let expected: &[&[u8]] = if version == ProtocolVersion::TLSv1_3 {
                &[b"\0", b"0"]
            } else {
                &[b"0"]
            };
            assert_eq!(sent, expected);
            assert_eq!(near.sent(), Err(BadTail::Misuse));
            assert_eq!(far.receive(b"0"), Err(BadTail::Misuse));
        }
        let mut far = Tail::acceptor(ProtocolVersion::TLSv1_2);
        assert_eq!(far.receive(b"D"), Err(BadTail::Flag));
    }

    #[test]
    fn the_length_of_a_record_is_told_by_its_header() {
        assert_eq!(record_length(&[]), Ok(None));
        assert_eq!(record_length(&[23, 3, 3, 0]), Ok(None));
        assert_eq!(record_length(&[23, 3, 3, 1, 2, 99]), Ok(Some(5 + 0x102)));
        assert_eq!(record_length(b"\0\0\0\x10"), Err(BadTail::NotTls(0)));
        assert_eq!(
            record_length(&[23, 3, 3, 0xff, 0xff]),
            Err(BadTail::TooLong(5 + 0xffff))
        );
    }
}

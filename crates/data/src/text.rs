//! Line ends of `TYPE A`: LF in files, CRLF on the wire (RFC 959 §3.1.1.1).

use bytes::BytesMut;

/// Turns LF into CRLF across any split of the input.
///
/// An LF behind a CR stays as it is, as with other servers, so that a file with CRLF line ends
/// arrives unchanged.
#[derive(Debug, Default)]
pub(crate) struct Expand {
    /// A CR ended the last piece.
    cr: bool,
}

impl Expand {
    /// Appends `local` to `wire` with each bare LF as CRLF.
    pub(crate) fn push(&mut self, local: &[u8], wire: &mut BytesMut) {
        for line in local.split_inclusive(|b| *b == b'\n') {
            if let Some(text) = line.strip_suffix(b"\n") {
                wire.extend_from_slice(text);
                let closed = text.last().map_or(self.cr, |b| *b == b'\r');
                wire.extend_from_slice(if closed { b"\n" } else { b"\r\n" });
            } else {
                wire.extend_from_slice(line);
            }
            self.cr = line.last() == Some(&b'\r');
        }
    }
}

/// Turns CRLF back into LF across any split of the input.
#[derive(Debug, Default)]
pub(crate) struct Collapse {
    /// A CR ended the last piece; the next byte decides whether it stays.
    cr: bool,
}

impl Collapse {
    /// Appends `wire` to `local` with each CRLF as LF.
    pub(crate) fn push(&mut self, wire: &[u8], local: &mut BytesMut) {
        for piece in wire.split_inclusive(|b| *b == b'\r') {
            if std::mem::take(&mut self.cr) && piece.first() != Some(&b'\n') {
                local.extend_from_slice(b"\r");
            }
            let text = piece.strip_suffix(b"\r");
            self.cr = text.is_some();
            local.extend_from_slice(text.unwrap_or(piece));
        }
    }

    /// Appends a withheld CR at the very end.
    pub(crate) fn finish(&mut self, local: &mut BytesMut) {
        if std::mem::take(&mut self.cr) {
            local.extend_from_slice(b"\r");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_in_crlf_on_the_wire_for_lf_and_crlf_files() {
        let text = b"a\nb\r\n\r\r\n\n\nc\rd\r";
        for at in 0..=text.len() {
            for at2 in at..=text.len() {
                let (mut wire, mut expand) = (BytesMut::new(), Expand::default());
                expand.push(&text[..at], &mut wire);
                expand.push(&text[at..at2], &mut wire);
                expand.push(&text[at2..], &mut wire);
                assert_eq!(
                    &wire[..],
                    b"a\r\nb\r\n\r\r\n\r\n\r\nc\rd\r",
                    "split at {at} and {at2}"
                );
            }
        }
    }

    #[test]
    fn every_text_round_trips_at_every_split() {
        let text = b"a\nb\r.\n\r\r.\n\n\nend\r";
        let mut wire = BytesMut::new();
        Expand::default().push(text, &mut wire);
        for at in 0..=wire.len() {
            for at2 in at..=wire.len() {
                let mut local = BytesMut::new();
                let mut collapse = Collapse::default();
                collapse.push(&wire[..at], &mut local);
                collapse.push(&wire[at..at2], &mut local);
                collapse.push(&wire[at2..], &mut local);
                collapse.finish(&mut local);
                assert_eq!(&local[..], text, "split at {at} and {at2}");
            }
        }
    }
}

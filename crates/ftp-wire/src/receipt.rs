//! `Receipt`: number and digest of the bytes of a tagged transfer, in the text of the 226.

use std::fmt;

/// Bytes at the start of a transfer that the digest of its receipt covers.
pub const HEAD: u64 = 128 << 10;

/// Number and digest of the bytes that one end of a tagged transfer sent or received.
///
/// The receipts of both ends must be equal. For a file of at most [`HEAD`] bytes that proves every
/// byte; for a larger one it proves the length and the first bytes, which detects mixed-up files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Receipt {
    /// Payload bytes.
    pub bytes: u64,
    /// CRC32C of the first [`HEAD`] of them, in order of offset; `None` where they arrived in too
    /// many pieces.
    pub crc32c: Option<u32>,
}

impl Receipt {
    /// Makes a receipt.
    pub const fn new(bytes: u64, crc32c: Option<u32>) -> Self {
        Self { bytes, crc32c }
    }

    /// Finds a receipt in the text of a reply.
    pub fn parse(text: &str) -> Option<Self> {
        let items = text.split_ascii_whitespace().last()?;
        let (mut bytes, mut crc32c) = (None, None);
        for item in items.split(';') {
            match item.split_once('=') {
                Some(("Bytes", number)) => bytes = Some(number.parse().ok()?),
                Some(("CRC32C", digest)) => crc32c = Some(u32::from_str_radix(digest, 16).ok()?),
                _ => {}
            }
        }
        Some(Self::new(bytes?, crc32c))
    }
}

impl fmt::Display for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bytes={};", self.bytes)?;
        match self.crc32c {
            Some(digest) => write!(f, "CRC32C={digest:08x};"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_is_read_as_it_was_written() {
        for receipt in [
            Receipt::new(0, Some(0)),
            Receipt::new(u64::MAX, Some(0xe306_9283)),
            Receipt::new(7, None),
        ] {
            let text = format!("Transfer Complete. {receipt}");
            assert_eq!(Receipt::parse(&text), Some(receipt));
        }
    }

    #[test]
    fn other_texts_hold_no_receipt() {
        for text in [
            "",
            "Transfer Complete.",
            "Bytes=;",
            "Bytes=-1;CRC32C=0;",
            "Bytes=1;CRC32C=xyz;",
            "CRC32C=00000000;",
        ] {
            assert_eq!(Receipt::parse(text), None, "{text}");
        }
    }
}

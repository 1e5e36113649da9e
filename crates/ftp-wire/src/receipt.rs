//! `Receipt`: number and digest of the bytes of a tagged transfer, in the text of the 226.

use std::fmt;

/// Bytes at the start of a transfer that a digest of [`Extent::Head`] covers.
pub const HEAD: u64 = 128 << 10;

/// The bytes of a transfer that its receipts prove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The first [`HEAD`] ones: every byte of a small file, and of a large one as many as detect
    /// mixed-up files.
    Head,
    /// All of them, and those of the file that earlier transfers moved.
    Whole,
}

impl Extent {
    /// Most bytes that are digested.
    pub const fn most(self) -> u64 {
        match self {
            Self::Head => HEAD,
            Self::Whole => u64::MAX,
        }
    }
}

/// Number and digest of the bytes that one end of a tagged transfer sent or received.
///
/// The receipts of both ends must be equal, which proves the length and the bytes of the
/// [`Extent`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Receipt {
    /// Payload bytes.
    pub bytes: u64,
    /// BLAKE3 of those in the extent, in order of offset; `None` where they arrived in too many
    /// pieces, with holes, or twice, and where this end does not know the bytes of earlier transfers.
    pub blake3: Option<[u8; 32]>,
}

impl Receipt {
    /// Makes a receipt.
    pub const fn new(bytes: u64, blake3: Option<[u8; 32]>) -> Self {
        Self { bytes, blake3 }
    }

    /// Finds a receipt in the text of a reply.
    pub fn parse(text: &str) -> Option<Self> {
        let items = text.split_ascii_whitespace().last()?;
        let (mut bytes, mut blake3) = (None, None);
        for item in items.split(';') {
            match item.split_once('=') {
                Some(("Bytes", number)) => bytes = Some(number.parse().ok()?),
                Some(("BLAKE3", digest)) => blake3 = Some(unhex(digest)?),
                _ => {}
            }
        }
        Some(Self::new(bytes?, blake3))
    }
}

/// The bytes of a digest of 64 hexadecimal digits.
fn unhex(text: &str) -> Option<[u8; 32]> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .map(|digit| digit.to_digit(16)?.try_into().ok())
        .collect();
    let bytes = digits?
        .chunks(2)
        .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit))
        .collect::<Vec<u8>>();
    bytes.try_into().ok().filter(|_| text.len() == 64)
}

impl fmt::Display for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bytes={};", self.bytes)?;
        let Some(digest) = &self.blake3 else {
            return Ok(());
        };
        f.write_str("BLAKE3=")?;
        digest.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(";")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_is_read_as_it_was_written() {
        for receipt in [
            Receipt::new(0, Some([0; 32])),
            Receipt::new(
                u64::MAX,
                Some(std::array::from_fn(|n| n.to_le_bytes()[0] ^ 0xff)),
            ),
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
            "Bytes=-1;",
            "Bytes=1;BLAKE3=00;",
            "Bytes=1;BLAKE3=zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz;",
            "Bytes=1;BLAKE3=00000000000000000000000000000000000000000000000000000000000000000;",
            "BLAKE3=0000000000000000000000000000000000000000000000000000000000000000;",
        ] {
            assert_eq!(Receipt::parse(text), None, "{text}");
        }
    }
}

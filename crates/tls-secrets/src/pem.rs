//! Blocks of PEM (RFC 7468), decoded into memory that is overwritten, since they may be keys.

use std::fmt;

use base64ct::{Base64, Encoding};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::Error;
use zeroize::Zeroizing;

/// The blocks of a text, in order.
pub struct Blocks<'a> {
    rest: &'a [u8],
}

/// A block, its content still in base64.
pub struct Block<'a> {
    label: &'a [u8],
    text: &'a [u8],
}

impl<'a> Blocks<'a> {
    /// Reads the blocks of a text that is the caller's to overwrite.
    pub fn new(text: &'a [u8]) -> Self {
        Self { rest: text }
    }

    fn line(&mut self) -> Option<&'a [u8]> {
        let text = Some(self.rest).filter(|rest| !rest.is_empty())?;
        let end = text.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
        let (line, rest) = text.split_at_checked(end.unwrap_or(text.len()))?;
        self.rest = rest.get(1..).unwrap_or_default();
        Some(line)
    }
}

impl<'a> Iterator for Blocks<'a> {
    type Item = Result<Block<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let label = loop {
            let line = self.line()?;
            let Some(start) = line.strip_prefix(b"-----BEGIN ") else {
                continue;
            };
            match start.trim_ascii_end().strip_suffix(b"-----") {
                Some(label) => break label,
                None => {
                    let line = line.to_vec();
                    return Some(Err(Error::IllegalSectionStart { line }));
                }
            }
        };
        let body = self.rest;
        loop {
            let text = body.get(..body.len() - self.rest.len());
            let Some(line) = self.line() else {
                let end_marker = label.to_vec();
                return Some(Err(Error::MissingSectionEnd { end_marker }));
            };
            let end = line.strip_prefix(b"-----END ");
            let end = end.and_then(|end| end.strip_prefix(label));
            if end.is_some_and(|end| end.starts_with(b"-----")) {
                let text = text.unwrap_or_default();
                return Some(Ok(Block { label, text }));
            }
        }
    }
}

impl Block<'_> {
    /// Returns the label, such as `CERTIFICATE`.
    pub fn label(&self) -> &[u8] {
        self.label
    }

    /// Returns the content.
    ///
    /// # Errors
    ///
    /// It is no base64.
    pub fn decode(&self) -> Result<Zeroizing<Vec<u8>>, Error> {
        let mut text = Zeroizing::new(Vec::with_capacity(self.text.len()));
        text.extend(self.text.iter().filter(|byte| !byte.is_ascii_whitespace()));
        let decoded = Base64::decode_in_place(&mut text).map(<[u8]>::len);
        let length = decoded.map_err(|error| Error::Base64Decode(error.to_string()))?;
        // The memory of the key has just its size, so that it can be given on.
        Ok(Zeroizing::new(
            text.get(..length).unwrap_or_default().to_vec(),
        ))
    }

    /// Returns the private key in a block of PKCS#8, PKCS#1 or SEC1, which is the caller's to
    /// overwrite; `None` for another block, that of an encrypted key included.
    ///
    /// # Errors
    ///
    /// It is no base64.
    pub fn private_key(&self) -> Result<Option<PrivateKeyDer<'static>>, Error> {
        let form: fn(Vec<u8>) -> PrivateKeyDer<'static> = match self.label {
            b"PRIVATE KEY" => |der| PrivateKeyDer::Pkcs8(der.into()),
            b"RSA PRIVATE KEY" => |der| PrivateKeyDer::Pkcs1(der.into()),
            b"EC PRIVATE KEY" => |der| PrivateKeyDer::Sec1(der.into()),
            _ => return Ok(None),
        };
        Ok(Some(form(std::mem::take(&mut *self.decode()?))))
    }
}

impl fmt::Debug for Blocks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Blocks({} bytes)", self.rest.len())
    }
}

impl fmt::Debug for Block<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Block({})", self.label.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Result<(String, Vec<u8>), Error>> {
        let blocks = Blocks::new(text.as_bytes()).map(|block| {
            let block = block?;
            let label = String::from_utf8_lossy(block.label).into_owned();
            Ok((label, block.decode()?.to_vec()))
        });
        blocks.collect()
    }

    #[test]
    fn blocks_are_found_between_other_text() {
        for end in ["\n", "\r\n", " \n"] {
            let text = [
                "subject=x",
                "-----BEGIN A B-----",
                "QUJD",
                "",
                "REU=",
                "-----END A B-----",
                "-----BEGIN C-----",
                "-----END C-----",
            ]
            .join(end);
            let found: Vec<_> = read(&text).into_iter().map(Result::unwrap).collect();
            let expected = [
                ("A B".to_owned(), b"ABCDE".to_vec()),
                ("C".to_owned(), vec![]),
            ];
            assert_eq!(found, expected, "{end:?}");
        }
    }

    #[test]
    fn broken_blocks_are_told() {
        let first = |text| read(text).remove(0).unwrap_err();
        let error = first("-----BEGIN A----\nQUJD\n-----END A-----\n");
        assert!(matches!(error, Error::IllegalSectionStart { .. }));
        let error = first("-----BEGIN A-----\nQUJD\n-----END B-----\n");
        assert!(matches!(error, Error::MissingSectionEnd { end_marker } if end_marker == b"A"));
        let error = first("-----BEGIN A-----\nQU*D\n-----END A-----\n");
        assert!(matches!(error, Error::Base64Decode(_)));
    }
}

//! `Attribute`: an extended attribute of a file, as `SITE XATTR` lists it and `SITE SETXATTR` sets it.

use std::fmt;

use base64ct::{Base64, Encoding as _};

use crate::listing::{url_decode, url_encode};
use crate::reply::Reply;

/// The namespace of users, in which all names are.
const NAMESPACE: &[u8] = b"user.";
/// Longest name, in bytes.
const LONGEST: usize = 255;
/// Longest value, in bytes: the text of one is to fit on a line.
pub const MAX_VALUE: usize = 4096;
/// Most attributes of a file.
pub const MAX_ATTRIBUTES: usize = 64;

/// An extended attribute of the namespace `user.`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attribute {
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Attribute {
    /// An attribute; `None` for a name of another namespace, or one that is too long, and for a
    /// value of more than [`MAX_VALUE`] bytes.
    pub fn new(name: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Option<Self> {
        let (name, value) = (name.into(), value.into());
        let own = name.strip_prefix(NAMESPACE)?;
        let sound = !own.is_empty() && name.len() <= LONGEST && !name.contains(&0);
        (sound && value.len() <= MAX_VALUE).then_some(Self { name, value })
    }

    /// Reads `NAME=VALUE`: the name percent-encoded, the value in base64.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let at = text.iter().position(|byte| *byte == b'=')?;
        let (name, value) = (text.get(..at)?, text.get(at + 1..)?);
        // Refused before it is decoded.
        if name.len() > 3 * LONGEST || value.len() > MAX_VALUE.div_ceil(3) * 4 {
            return None;
        }
        let value = std::str::from_utf8(value).ok()?;
        Self::new(url_decode(name), Base64::decode_vec(value).ok()?)
    }

    /// The attributes in the reply to `SITE XATTR`; `None` if a line is none, or there are more than
    /// [`MAX_ATTRIBUTES`].
    pub fn all_of(reply: &Reply) -> Option<Vec<Self>> {
        let lines = reply.inner();
        let few = lines.len() <= MAX_ATTRIBUTES;
        few.then(|| lines.iter().map(|line| Self::parse(line.trim_ascii())))?
            .collect()
    }

    /// The name, `user.` at its beginning.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// The value.
    pub fn value(&self) -> &[u8] {
        &self.value
    }

    /// Name and value.
    pub fn into_parts(self) -> (Vec<u8>, Vec<u8>) {
        (self.name, self.value)
    }
}

/// The form of [`Attribute::parse`]; the alternate form, for logs, has the length of the value.
impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut name = Vec::new();
        url_encode(&self.name, &mut name);
        let name = String::from_utf8_lossy(&name);
        match f.alternate() {
            true => write!(f, "{name}=({} bytes)", self.value.len()),
            false => write!(f, "{name}={}", Base64::encode_string(&self.value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::Code;

    #[test]
    fn attributes_are_read_as_they_are_written() {
        let longest = [b"user.", &[0xff; 250][..]].concat();
        for (name, value) in [
            (&b"user.a"[..], &b""[..]),
            (b"user.a b=c%", b"\0\r\n"),
            (&longest, &[7; MAX_VALUE]),
        ] {
            let attribute = Attribute::new(name, value).unwrap();
            let text = attribute.to_string();
            assert!(!text.contains(' '), "{text}");
            assert_eq!(Attribute::parse(text.as_bytes()), Some(attribute));
        }
    }

    #[test]
    fn other_namespaces_and_large_values_are_none() {
        for text in [
            "security.capability=AA==",
            "user.=AA==",
            "user.a",
            "user.a=?",
            "user.a%00=AA==",
            "trusted.a=",
        ] {
            assert_eq!(Attribute::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(Attribute::new("user.a", vec![0; MAX_VALUE + 1]), None);
        assert_eq!(Attribute::new(format!("user.{:0251}", 0), ""), None);
        let large = format!("user.a={}", "A".repeat(MAX_VALUE * 2));
        assert_eq!(Attribute::parse(large.as_bytes()), None);
    }

    #[test]
    fn a_reply_has_few_attributes() {
        let reply = |count: usize| {
            let lines = (0..count).map(|n| format!("user.{n}=AA=="));
            Reply::indented(Code::of::<250>(), "Attributes of f", lines, "End.")
        };
        let all = |count| Attribute::all_of(&reply(count)).map(|all| all.len());
        assert_eq!(all(0), Some(0));
        assert_eq!(all(MAX_ATTRIBUTES), Some(MAX_ATTRIBUTES));
        assert_eq!(all(MAX_ATTRIBUTES + 1), None);
    }
}

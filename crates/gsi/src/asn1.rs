//! Reading of DER values, for the few structures that the X.509 parser does not know.

use x509_parser::asn1_rs::{Any, Class, FromDer, Tag};

/// The DER values that `bytes` are made of; `None` if one is malformed.
pub(crate) fn values(mut bytes: &[u8]) -> Option<Vec<Any<'_>>> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let (rest, any) = Any::from_der(bytes).ok()?;
        all.push(any);
        bytes = rest;
    }
    Some(all)
}

/// The content of a value of this universal type.
pub(crate) fn content<'a>(any: &Any<'a>, tag: Tag) -> Option<&'a [u8]> {
    (any.class() == Class::Universal && any.tag() == tag).then_some(any.data)
}

/// The content of the one value of this universal type that `bytes` are.
pub(crate) fn sole(bytes: &[u8], tag: Tag) -> Option<&[u8]> {
    let (rest, any) = Any::from_der(bytes).ok()?;
    content(&any, tag).filter(|_| rest.is_empty())
}

/// The content of the value at `index` in the one value that `bytes` are.
pub(crate) fn nth(bytes: &[u8], index: usize) -> Option<&[u8]> {
    let (_, whole) = Any::from_der(bytes).ok()?;
    Some(values(whole.data)?.get(index)?.data)
}

/// A number that is not negative; one over `u32::MAX` is taken for that.
pub(crate) fn number(any: &Any<'_>) -> Option<u32> {
    let bytes = content(any, Tag::Integer)?;
    if bytes.first().is_none_or(|&first| first >= 0x80) {
        return None;
    }
    let add = |sum: u32, &byte: &u8| sum.checked_mul(256)?.checked_add(byte.into());
    Some(bytes.iter().try_fold(0, add).unwrap_or(u32::MAX))
}

/// One DER value.
pub(crate) fn tlv(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    let length = content.len().to_be_bytes();
    let zeros = length.iter().take_while(|&&byte| byte == 0).count();
    match length.get(zeros..).unwrap_or_default() {
        [] => out.push(0),
        &[short @ ..0x80] => out.push(short),
        long => {
            out.push(0x80 | u8::try_from(long.len()).unwrap_or(8));
            out.extend(long);
        }
    }
    out.extend(content);
    out
}

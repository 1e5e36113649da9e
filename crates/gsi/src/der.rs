//! DER as far as proxies and requests need it: elements written and split, names kept as they are.

use rustls::pki_types::UnixTime;

pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const OBJECT_IDENTIFIER: u8 = 0x06;
pub(crate) const UTF8_STRING: u8 = 0x0c;
pub(crate) const PRINTABLE_STRING: u8 = 0x13;
pub(crate) const TELETEX_STRING: u8 = 0x14;
pub(crate) const IA5_STRING: u8 = 0x16;
pub(crate) const UTC_TIME: u8 = 0x17;
pub(crate) const GENERALIZED_TIME: u8 = 0x18;
pub(crate) const VISIBLE_STRING: u8 = 0x1a;
pub(crate) const UNIVERSAL_STRING: u8 = 0x1c;
pub(crate) const BMP_STRING: u8 = 0x1e;
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;
pub(crate) const TRUE: [u8; 3] = [0x01, 0x01, 0xff];

/// Writes an element.
pub(crate) fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut out = Vec::with_capacity(length + 6);
    out.push(tag);
    let bytes = length.to_be_bytes();
    let significant = bytes.iter().copied().skip_while(|byte| *byte == 0);
    match u8::try_from(length) {
        Ok(short @ 0..=0x7f) => out.push(short),
        _ => {
            // A length of 64 bits has at most 8 bytes.
            let count = significant.clone().fold(0x80u8, |count, _| count + 1);
            out.push(count);
            out.extend(significant);
        }
    }
    for part in parts {
        out.extend_from_slice(part);
    }
    out
}

pub(crate) fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    element(SEQUENCE, parts)
}

/// Writes the explicit context tag `number`, which is below 31.
pub(crate) fn context(number: u8, parts: &[&[u8]]) -> Vec<u8> {
    element(0xa0 | number, parts)
}

/// Writes a number that is not negative, given in big-endian bytes.
pub(crate) fn unsigned(bytes: &[u8]) -> Vec<u8> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let bytes = bytes.get(zeros..).unwrap_or_default();
    match bytes.first() {
        Some(0..=0x7f) => element(INTEGER, &[bytes]),
        _ => element(INTEGER, &[&[0], bytes]),
    }
}

/// Writes whole bytes as a bit string.
pub(crate) fn bit_string(bytes: &[u8]) -> Vec<u8> {
    element(BIT_STRING, &[&[0], bytes])
}

/// Writes an instant to the second: `UTCTime` to the end of 2049, `GeneralizedTime` after it
/// (RFC 5280 §4.1.2.5).
pub(crate) fn time(at: UnixTime) -> Vec<u8> {
    let seconds = at.as_secs();
    let (year, month, day) = date(seconds / 86_400);
    let clock = format!(
        "{month:02}{day:02}{:02}{:02}{:02}Z",
        seconds / 3600 % 24,
        seconds / 60 % 60,
        seconds % 60
    );
    if (1950..2050).contains(&year) {
        element(UTC_TIME, &[format!("{:02}{clock}", year % 100).as_bytes()])
    } else {
        element(GENERALIZED_TIME, &[format!("{year:04}{clock}").as_bytes()])
    }
}

/// Returns year, month and day of a number of days since 1970, in the Gregorian calendar.
fn date(days: u64) -> (u64, u64, u64) {
    // Years are counted from March, so that the leap day is the last of its year.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// An element in the bytes it was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Element<'a> {
    pub(crate) tag: u8,
    pub(crate) content: &'a [u8],
    /// Tag and length included.
    pub(crate) whole: &'a [u8],
}

/// Splits the first element off, of one tag byte and a definite length of at most 4 bytes.
pub(crate) fn split(input: &[u8]) -> Option<(Element<'_>, &[u8])> {
    let (&[tag, first], mut rest) = input.split_first_chunk::<2>()?;
    let length = match first {
        0..=0x7f => usize::from(first),
        0x81..=0x84 => {
            let (bytes, after) = rest.split_at_checked(usize::from(first & 0x7f))?;
            rest = after;
            bytes
                .iter()
                .fold(0, |length, byte| length << 8 | usize::from(*byte))
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    let whole = input.get(..input.len() - rest.len())?;
    Some((
        Element {
            tag,
            content,
            whole,
        },
        rest,
    ))
}

/// Splits the first element off and expects its tag.
pub(crate) fn expect(input: &[u8], tag: u8) -> Option<(Element<'_>, &[u8])> {
    split(input).filter(|(element, _)| element.tag == tag)
}

/// Splits bytes that are elements from end to end.
pub(crate) fn elements(mut input: &[u8]) -> Option<Vec<Element<'_>>> {
    let mut all = Vec::new();
    while !input.is_empty() {
        let (element, rest) = split(input)?;
        all.push(element);
        input = rest;
    }
    Some(all)
}

/// Returns the content of the one element that the bytes are.
pub(crate) fn only(input: &[u8], tag: u8) -> Option<&[u8]> {
    let (element, rest) = expect(input, tag)?;
    rest.is_empty().then_some(element.content)
}

/// The three parts of certificates, revocation lists and requests (RFC 5280 §4.1.1).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signed<'a> {
    /// The signed bytes, tag and length included.
    pub(crate) body: Element<'a>,
    /// The content of the `AlgorithmIdentifier`.
    pub(crate) algorithm: &'a [u8],
    pub(crate) signature: &'a [u8],
}

/// Splits a structure that is signed, with nothing after it.
pub(crate) fn signed(input: &[u8]) -> Option<Signed<'_>> {
    let (body, rest) = expect(only(input, SEQUENCE)?, SEQUENCE)?;
    let (algorithm, rest) = expect(rest, SEQUENCE)?;
    let (unused, signature) = only(rest, BIT_STRING)?.split_first()?;
    let algorithm = algorithm.content;
    (*unused == 0).then_some(Signed {
        body,
        algorithm,
        signature,
    })
}

impl<'a> Element<'a> {
    /// Returns the content if the tag is this one.
    pub(crate) fn content_of(&self, tag: u8) -> Option<&'a [u8]> {
        (self.tag == tag).then_some(self.content)
    }

    /// Returns a number that is not negative; one over `u32::MAX` is taken for that.
    pub(crate) fn number(&self) -> Option<u32> {
        let bytes = self.content_of(INTEGER)?;
        let add = |sum: u32, &byte: &u8| sum.checked_mul(256)?.checked_add(byte.into());
        let fits = bytes.first().is_some_and(|&first| first < 0x80);
        fits.then(|| bytes.iter().try_fold(0, add).unwrap_or(u32::MAX))
    }
}

/// Returns the algorithm of a public key, without the header of its sequence, and the key's bits.
pub(crate) fn public_key(spki: &[u8]) -> Option<(&[u8], &[u8])> {
    let (outer, _) = expect(spki, SEQUENCE)?;
    let (algorithm, rest) = expect(outer.content, SEQUENCE)?;
    let (bits, _) = expect(rest, BIT_STRING)?;
    match bits.content.split_first()? {
        (0, bits) => Some((algorithm.content, bits)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_take_the_fewest_bytes_and_are_read_back() {
        for (length, header) in [
            (0, &[0x30, 0][..]),
            (127, &[0x30, 127]),
            (128, &[0x30, 0x81, 128]),
            (256, &[0x30, 0x82, 1, 0]),
            (65_536, &[0x30, 0x83, 1, 0, 0]),
        ] {
            let body = vec![7; length];
            let whole = sequence(&[&body]);
            assert_eq!(&whole[..header.len()], header, "{length}");
            let (element, rest) = split(&whole).unwrap();
            assert_eq!((element.content, rest.len()), (&body[..], 0), "{length}");
        }
    }

    #[test]
    fn numbers_have_no_leading_zeros_and_stay_positive() {
        assert_eq!(unsigned(&[]), [2, 1, 0]);
        assert_eq!(unsigned(&[0, 0]), [2, 1, 0]);
        assert_eq!(unsigned(&[0, 5]), [2, 1, 5]);
        assert_eq!(unsigned(&[0x80]), [2, 2, 0, 0x80]);
    }

    #[test]
    fn instants_are_written_by_their_year() {
        let text = |seconds| {
            let at = UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
            String::from_utf8(time(at)[2..].to_vec()).unwrap()
        };
        assert_eq!(text(0), "700101000000Z");
        assert_eq!(text(951_782_400), "000229000000Z");
        assert_eq!(text(1_700_000_000), "231114221320Z");
        assert_eq!(text(2_524_607_999), "491231235959Z");
        assert_eq!(text(2_524_608_000), "20500101000000Z");
    }

    #[test]
    fn broken_elements_are_not_split() {
        for broken in [
            &[][..],
            &[0x30],
            &[0x30, 5, 1],
            &[0x30, 0x80],
            &[0x30, 0x85, 0, 0, 0, 0, 1],
            &[0x30, 0x82, 1],
        ] {
            assert_eq!(split(broken), None, "{broken:?}");
        }
    }
}

//! `Head`: the facts of a file that the head of an answer tells.

use xio::http::{Headers, Response};

use super::{date, digest};
use crate::copy::{Digest, Facts};

/// Longest entity tag that is kept, in bytes.
const LONGEST_TAG: usize = 1024;

/// Seconds between the last change of a file and the answer from which on its time tells a further
/// change (RFC 9110 §8.8.2.2).
const SETTLED: i64 = 60;

/// Content codings, and the ends of names of files that have them.
const CODINGS: [(&str, &str); 12] = [
    ("gzip", ".gz"),
    ("x-gzip", ".gz"),
    ("gzip", ".tgz"),
    ("x-gzip", ".tgz"),
    ("compress", ".z"),
    ("x-compress", ".z"),
    ("bzip2", ".bz2"),
    ("x-bzip2", ".bz2"),
    ("xz", ".xz"),
    ("x-xz", ".xz"),
    ("br", ".br"),
    ("zstd", ".zst"),
];

/// The facts of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Head {
    /// Its size and its time.
    pub(crate) facts: Facts,
    /// The value of `If-Range` for this version of it: a strong entity tag, or a time that is old
    /// enough.
    pub(crate) validator: Option<String>,
    /// Whether a part comes, and its first byte where that is told.
    part: Option<Option<u64>>,
    /// Its digests, the best first.
    pub(crate) digests: Vec<Digest>,
    /// Whether the end of the answer is told by a length or by chunks.
    pub(crate) is_framed: bool,
}

/// The bytes of an answer to a request for a file from one byte on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Those that were asked for, of the same version.
    Rest,
    /// All of the file, which is another one, or whose server sends no parts.
    All,
    /// Of no use: the file is another one.
    Other,
}

impl Head {
    /// Reads the head of an answer with a file, or with a part of it.
    pub(super) fn of(response: &Response) -> Self {
        let headers = &response.headers;
        let length = headers.get("Content-Length").and_then(number);
        let range = headers.get("Content-Range").and_then(range);
        let (part, size) = match (response.status, range) {
            // A body of another length is not that range.
            (206, Some((first, last, size)))
                if length.is_none_or(|length| length.checked_sub(1) == Some(last - first)) =>
            {
                (Some(Some(first)), size)
            }
            (206, _) => (Some(None), None),
            _ => (None, length),
        };
        let modified = headers.get("Last-Modified").and_then(date::parse);
        Self {
            facts: Facts {
                size,
                modified: modified.map(|seconds| (seconds, 0)),
                mode: None,
            },
            validator: tag(headers).or_else(|| settled(headers, modified)),
            part,
            digests: digest::told(headers),
            is_framed: length.is_some() || headers.names("Transfer-Encoding", "chunked"),
        }
    }

    /// Whether the validator is a strong entity tag, which no other version of the file has.
    pub(crate) fn is_tagged(validator: Option<&String>) -> bool {
        validator.is_some_and(|value| value.starts_with('"'))
    }

    /// Whether the bytes of the answer are those of a file from `begin` on.
    pub(crate) fn begins_at(&self, begin: u64) -> bool {
        self.part.unwrap_or(Some(0)) == Some(begin)
    }

    /// Judges the answer to a request for the bytes from `begin` on of the file with the facts
    /// `before` and this validator.
    pub(crate) fn part(&self, begin: u64, before: &Facts, validator: Option<&String>) -> Part {
        let Some(first) = self.part else {
            return Part::All;
        };
        let sizes = self.facts.size.zip(before.size);
        let times = self.facts.modified.zip(before.modified);
        let is_same = sizes.is_none_or(|(now, before)| now == before)
            && times.is_none_or(|(now, before)| now == before);
        // RFC 9110 §15.3.7: a part has the tag that all of the file has.
        let is_other_tag = Self::is_tagged(validator) && self.validator.as_ref() != validator;
        // Without a size nothing tells whether more follows.
        let is_sized = self.facts.size.or(before.size).is_some();
        match first == Some(begin) && is_same && is_sized && !is_other_tag {
            true => Part::Rest,
            false => Part::Other,
        }
    }
}

/// Whether the bytes have a content coding that the `name` of the file does not tell: the file is
/// what they decode to.
pub(super) fn is_coded(headers: &Headers, name: &[u8]) -> bool {
    let name = name.to_ascii_lowercase();
    let is_known = |coding: &[u8]| {
        coding.is_empty()
            || coding.eq_ignore_ascii_case(b"identity")
            || CODINGS.iter().any(|(known, end)| {
                coding.eq_ignore_ascii_case(known.as_bytes()) && name.ends_with(end.as_bytes())
            })
    };
    headers
        .all("Content-Encoding")
        .flat_map(|value| value.split(|byte| *byte == b','))
        .any(|coding| !is_known(coding.trim_ascii()))
}

/// The strong entity tag.
fn tag(headers: &Headers) -> Option<String> {
    let tag = headers.get("ETag")?;
    let inner = tag.strip_prefix('"')?.strip_suffix('"')?;
    let fits = tag.len() <= LONGEST_TAG && inner.bytes().all(|b| b.is_ascii_graphic() && b != b'"');
    fits.then(|| tag.to_owned())
}

/// The time of the last change as it is told, where it is old enough.
fn settled(headers: &Headers, modified: Option<i64>) -> Option<String> {
    let now = headers.get("Date").and_then(date::parse)?;
    let is_old = now.checked_sub(modified?)? >= SETTLED;
    is_old.then(|| headers.get("Last-Modified").map(str::to_owned))?
}

/// The first and the last byte, and the size of the file, in `bytes FIRST-LAST/SIZE`.
fn range(value: &str) -> Option<(u64, u64, Option<u64>)> {
    let (unit, rest) = value.split_once(' ')?;
    let (bytes, size) = rest.split_once('/')?;
    let (first, last) = bytes.split_once('-')?;
    let (first, last) = (number(first)?, number(last)?);
    let size = match size {
        "*" => None,
        size => Some(number(size)?),
    };
    let fits = first <= last && size.is_none_or(|size| last < size);
    (unit.eq_ignore_ascii_case("bytes") && fits).then_some((first, last, size))
}

fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

    fn head(status: u16, fields: &[(&str, &str)]) -> Head {
        let mut response = Response::new(status).unwrap();
        for (name, value) in fields {
            response.headers.push(name, value).unwrap();
        }
        Head::of(&response)
    }

    #[test]
    fn the_facts_of_a_file_are_read() {
        let fields = [
            ("Content-Length", "17"),
            ("Last-Modified", OLD),
            ("ETag", "\"a-1\""),
        ];
        let found = head(200, &fields);
        assert_eq!(found.facts.size, Some(17));
        assert_eq!(found.facts.modified, Some((784_111_777, 0)));
        assert_eq!(found.validator.as_deref(), Some("\"a-1\""));
        assert!(found.is_framed && found.part.is_none());
        let chunked = head(200, &[("Transfer-Encoding", "chunked")]);
        assert!(chunked.is_framed && chunked.facts == Facts::default());
        assert!(!head(200, &[]).is_framed);
    }

    #[test]
    fn only_what_tells_a_change_is_a_validator() {
        let later = "Sun, 06 Nov 1994 08:50:37 GMT";
        for (fields, wanted) in [
            (&[("ETag", "W/\"a\"")][..], None),
            (&[("ETag", "a")], None),
            (&[("ETag", "\"a\nb\"")][..0], None),
            (&[("ETag", "\"a b\"")], None),
            (&[("Last-Modified", OLD)], None),
            (&[("Last-Modified", OLD), ("Date", OLD)], None),
            (&[("Last-Modified", OLD), ("Date", later)], Some(OLD)),
            (
                &[("Last-Modified", OLD), ("Date", later), ("ETag", "\"\"")],
                Some("\"\""),
            ),
        ] {
            assert_eq!(head(200, fields).validator.as_deref(), wanted, "{fields:?}");
        }
    }

    #[test]
    fn a_part_is_of_the_same_file_or_of_no_use() {
        let before = Facts {
            size: Some(10),
            ..Facts::default()
        };
        let tag = Some("\"a\"".to_owned());
        let part = |status, range: &str, etag: &str| {
            let found = head(status, &[("Content-Range", range), ("ETag", etag)]);
            found.part(5, &before, tag.as_ref())
        };
        assert_eq!(part(206, "bytes 5-9/10", "\"a\""), Part::Rest);
        assert_eq!(part(206, "Bytes 5-9/*", "\"a\""), Part::Rest);
        assert_eq!(part(206, "bytes 5-9/10", "W/\"a\""), Part::Other);
        assert_eq!(part(206, "bytes 5-9/10", "\"b\""), Part::Other);
        assert_eq!(part(206, "bytes 5-9/11", "\"a\""), Part::Other);
        assert_eq!(part(206, "bytes 4-9/10", "\"a\""), Part::Other);
        for bad in [
            "bytes 5-9",
            "bytes 9-5/10",
            "lines 5-9/10",
            "bytes 5-9/9",
            "5-9/10",
        ] {
            assert_eq!(part(206, bad, "\"a\""), Part::Other, "{bad}");
        }
        assert_eq!(part(200, "bytes 5-9/10", "\"a\""), Part::All);
        let untold = Facts::default();
        let of = |range| head(206, &[("Content-Range", range), ("ETag", "\"a\"")]);
        let endless = of("bytes 5-9/*").part(5, &untold, tag.as_ref());
        assert_eq!(endless, Part::Other);
        let told = of("bytes 5-9/10").part(5, &untold, tag.as_ref());
        assert_eq!(told, Part::Rest);
    }

    #[test]
    fn only_the_bytes_of_a_range_count_as_a_part() {
        let all = head(200, &[("Content-Length", "10")]);
        assert!(all.begins_at(0) && !all.begins_at(5));
        let range = ("Content-Range", "bytes 5-9/10");
        for (fields, is_part) in [
            (&[range][..], true),
            (&[range, ("Content-Length", "5")], true),
            (&[range, ("Content-Length", "10")], false),
            (&[range, ("Content-Length", "0")], false),
            (
                &[("Content-Type", "multipart/byteranges; boundary=x")],
                false,
            ),
        ] {
            let found = head(206, fields);
            assert_eq!(found.begins_at(5), is_part, "{fields:?}");
            assert!(!found.begins_at(0), "{fields:?}");
        }
    }

    #[test]
    fn a_coding_is_of_the_file_where_its_name_tells_it() {
        for (coding, name, is_coded) in [
            ("gzip", "/f", true),
            ("GZIP", "/f.tar.gz", false),
            ("x-gzip", "/f.TGZ", false),
            ("gzip, br", "/f.gz", true),
            ("br", "/f.gz", true),
            ("identity", "/f", false),
            ("", "/f", false),
        ] {
            let mut headers = Headers::new();
            headers.push("Content-Encoding", coding).unwrap();
            let found = super::is_coded(&headers, name.as_bytes());
            assert_eq!(found, is_coded, "{coding} {name}");
        }
        assert!(!is_coded(&Headers::new(), b"/f"));
    }
}

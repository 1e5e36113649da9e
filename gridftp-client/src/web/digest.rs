//! Digests of whole files that web servers tell: `Repr-Digest` (RFC 9530) and `Digest` (RFC 3230).

use base64ct::{Base64, Encoding as _};
use gridftp_dsi::types::ChecksumAlgorithm::{self, Adler32, Md5, Sha256, Sha512};
use xio::http::Headers;

use crate::copy::Digest;
use crate::error::TransferError;
use crate::options::Verify;

/// The algorithms with the names that servers have for them, and the bytes of a digest; the best
/// first.
const KNOWN: [(ChecksumAlgorithm, &str, usize); 4] = [
    (Sha256, "sha-256", 32),
    (Sha512, "sha-512", 64),
    (Md5, "md5", 16),
    (Adler32, "adler32", 4),
];

/// The fact about servers without digests.
pub(crate) const NO_DIGEST: &str = "it tells no digest of files (Repr-Digest)";

/// The fields that ask for digests.
pub(super) const WANTS: [(&str, &str); 2] = [
    ("Want-Repr-Digest", "sha-256=10, sha-512=8, md5=2, adler=1"),
    (
        "Want-Digest",
        "sha-256;q=1, sha-512;q=0.8, md5;q=0.2, adler32;q=0.1",
    ),
];

/// The digests that a head tells, the best first, without those of unknown algorithms.
pub(super) fn told(headers: &Headers) -> Vec<Digest> {
    let mut found = Vec::new();
    for field in ["Repr-Digest", "Digest"] {
        for value in headers.all(field) {
            let items = value.split(|byte| *byte == b',');
            found.extend(items.filter_map(|item| read(std::str::from_utf8(item).ok()?.trim())));
        }
    }
    let rank = |digest: &Digest| KNOWN.iter().position(|(known, ..)| *known == digest.0);
    found.sort_by_key(rank);
    found.dedup_by_key(|digest| digest.0);
    found
}

/// Reads `NAME=VALUE`, or `NAME=:VALUE:` of a structured field.
fn read(item: &str) -> Option<Digest> {
    let (name, value) = item.split_once('=')?;
    let name = match name.to_ascii_lowercase().as_str() {
        "adler" => "adler32".to_owned(),
        name => name.to_owned(),
    };
    let (algorithm, _, len) = KNOWN.iter().find(|(_, known, _)| *known == name)?;
    let inner = value
        .strip_prefix(':')
        .and_then(|rest| rest.strip_suffix(':'));
    let is_hex = *algorithm == Adler32 && inner.is_none();
    if is_hex {
        let number = u32::from_str_radix(value, 16).ok()?;
        return Some((Adler32, format!("{number:08x}")));
    }
    let bytes = Base64::decode_vec(inner.unwrap_or(value)).ok()?;
    let hex = || bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    (bytes.len() == *len).then(|| (*algorithm, hex()))
}

/// The digest among those `told` that a copy is compared with, where it is.
///
/// # Errors
/// When the caller demands a digest that `site` does not tell.
pub(crate) fn choose(
    told: &[Digest],
    verify: Verify,
    site: &str,
) -> Result<Option<Digest>, TransferError> {
    let fits = |(algorithm, _): &&Digest| match verify {
        Verify::Auto | Verify::Cheapest => true,
        Verify::No => false,
        Verify::Disk => matches!(algorithm, Sha256 | Sha512),
        Verify::With(named) => *algorithm == named,
    };
    let found = told.iter().find(fits).cloned();
    let why = match verify {
        Verify::Auto | Verify::No => return Ok(found),
        _ if found.is_some() => return Ok(found),
        _ if told.is_empty() => NO_DIGEST.to_owned(),
        _ => {
            let names: Vec<_> = told.iter().map(|(algorithm, _)| algorithm.name()).collect();
            format!(
                "of those digests it tells none; it tells {}",
                names.join(", ")
            )
        }
    };
    let what = format!("verify: {site}: {why}");
    Err(TransferError::request(what, "copy without --verify"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    const BASE64: &str = "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=";

    fn of(fields: &[(&str, &str)]) -> Vec<Digest> {
        let mut headers = Headers::new();
        for (name, value) in fields {
            headers.push(name, value).unwrap();
        }
        told(&headers)
    }

    #[test]
    fn digests_of_both_kinds_are_read_the_best_first() {
        let repr = format!("sha-256=:{BASE64}:");
        let old = format!("adler32=24d0127, SHA-256={BASE64},unixsum=30637");
        let sha = (Sha256, ABC.to_owned());
        assert_eq!(of(&[("Repr-Digest", &repr)]), std::slice::from_ref(&sha));
        let adler = (Adler32, "024d0127".to_owned());
        assert_eq!(
            of(&[("digest", &old), ("repr-digest", &repr)]),
            [sha, adler]
        );
        for bad in [
            "sha-256=",
            "sha-256=:x:",
            "sha-256=:YQ==:",
            "=",
            "adler32=-1",
            "x",
        ] {
            assert_eq!(of(&[("Repr-Digest", bad)]), [], "{bad}");
        }
    }

    #[test]
    fn a_demanded_digest_that_is_not_told_is_a_failure() {
        let told = [(Sha256, ABC.to_owned()), (Md5, String::new())];
        let chosen = |told: &[Digest], verify| {
            choose(told, verify, "h:443")
                .map(|digest| digest.map(|(algorithm, _)| algorithm))
                .map_err(|error| error.to_string())
        };
        assert_eq!(chosen(&told, Verify::Auto), Ok(Some(Sha256)));
        assert_eq!(chosen(&told, Verify::With(Md5)), Ok(Some(Md5)));
        assert_eq!(chosen(&told, Verify::No), Ok(None));
        assert_eq!(chosen(&[], Verify::Auto), Ok(None));
        assert!(
            chosen(&[], Verify::Cheapest)
                .unwrap_err()
                .contains("no digest")
        );
        let other = chosen(&told, Verify::With(Sha512)).unwrap_err();
        assert!(other.contains("it tells SHA256, MD5"), "{other}");
    }
}

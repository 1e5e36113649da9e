//! Distinguished names: their DER, their form in one line, and the hashes of CA directories.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::der::{self, OBJECT_IDENTIFIER, SEQUENCE, SET};
use crate::oid;
use aws_lc_rs::digest;
use md5::{Digest as _, Md5};

/// The DER of an X.501 name, verbatim.
///
/// Two names are equal when OpenSSL takes them for equal: the kinds of their strings, the case of
/// ASCII letters, and the number of blanks do not matter, since tools that write proxies encode
/// the issuer anew.
///
/// A clone shares the bytes.
#[derive(Clone)]
pub struct Name(Arc<Parts>);

struct Parts {
    der: Vec<u8>,
    /// The relative names in OpenSSL's canonical form, one after the other.
    canonical: Vec<u8>,
    relative: Vec<Vec<Attribute>>,
}

/// One attribute of a relative name.
#[derive(Clone)]
struct Attribute {
    /// The content bytes of the object identifier.
    kind: Vec<u8>,
    /// The DER type of the value.
    tag: u8,
    value: Vec<u8>,
}

/// The bytes are no name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the name is malformed")]
#[non_exhaustive]
pub struct BadName;

impl Name {
    /// Parses the DER of a name, with nothing after it.
    ///
    /// # Errors
    ///
    /// The bytes are no name, or a string in it is not of its type.
    pub fn from_der(der: &[u8]) -> Result<Self, BadName> {
        let (canonical, relative) = Self::parse(der).ok_or(BadName)?;
        let der = der.to_vec();
        Ok(Self(Arc::new(Parts {
            der,
            canonical,
            relative,
        })))
    }

    fn parse(der: &[u8]) -> Option<(Vec<u8>, Vec<Vec<Attribute>>)> {
        let mut canonical = Vec::with_capacity(der.len());
        let mut relative = Vec::new();
        for set in der::elements(der::only(der, SEQUENCE)?)? {
            let mut attributes = Vec::new();
            let mut encoded = Vec::new();
            for pair in der::elements(set.content_of(SET)?)? {
                let (attribute, value) = Attribute::parse(pair.content_of(SEQUENCE)?)?;
                encoded.push(attribute.canonical(value)?);
                attributes.push(attribute);
            }
            // DER sorts the members of a set.
            encoded.sort();
            canonical.extend(der::element(SET, &[&encoded.concat()]));
            relative.push(attributes);
        }
        Some((canonical, relative))
    }

    /// The DER of the name, as it was parsed.
    pub fn as_der(&self) -> &[u8] {
        &self.0.der
    }

    /// The subject hash of OpenSSL 1.0 and later, which names the files of a CA directory.
    pub fn hash(&self) -> u32 {
        let sha1 = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &self.0.canonical);
        first_word(sha1.as_ref())
    }

    /// The subject hash of OpenSSL before 1.0, which names the files of old CA directories.
    pub fn old_hash(&self) -> u32 {
        first_word(&Md5::digest(&self.0.der))
    }

    /// The first common name, with each byte that is not UTF-8 replaced.
    pub fn common_name(&self) -> Option<String> {
        let mut all = self.0.relative.iter().flatten();
        let found = all.find(|attribute| attribute.kind == oid::COMMON_NAME)?;
        Some(
            found
                .text()
                .unwrap_or_else(|| String::from_utf8_lossy(&found.value).into_owned()),
        )
    }

    /// Whether the form in one line is that of this name alone: a value with a slash and an equals
    /// sign reads as several attributes, and a backslash as the escape of a byte.
    pub fn is_unambiguous(&self) -> bool {
        let mut attributes = self.0.relative.iter().flatten();
        !attributes.any(|attribute| {
            let mut behind = attribute.value.iter().skip_while(|byte| **byte != b'/');
            attribute.value.contains(&b'\\') || behind.any(|byte| *byte == b'=')
        })
    }

    /// The value of the last attribute of the name, if that is a common name.
    pub(crate) fn last_common_name(&self) -> Option<&[u8]> {
        let last = self.0.relative.last()?.last()?;
        (last.kind == oid::COMMON_NAME).then_some(last.value.as_slice())
    }

    /// Whether this name is `parent` and exactly one common name.
    pub(crate) fn extends(&self, parent: &Self) -> bool {
        let Some(([last], above)) = self.0.relative.split_last().map(|(l, a)| (l.as_slice(), a))
        else {
            return false;
        };
        last.kind == oid::COMMON_NAME
            && above.len() == parent.0.relative.len()
            && self.0.canonical.starts_with(&parent.0.canonical)
    }
}

impl Attribute {
    /// Parses a type and a value, and returns the DER of the value too.
    fn parse(pair: &[u8]) -> Option<(Self, &[u8])> {
        let (kind, rest) = der::expect(pair, OBJECT_IDENTIFIER)?;
        let (value, rest) = der::split(rest)?;
        let attribute = Self {
            kind: kind.content.to_vec(),
            tag: value.tag,
            value: value.content.to_vec(),
        };
        (rest.is_empty() && !kind.content.is_empty()).then_some((attribute, value.whole))
    }

    /// The value as text; `None` if it is no string, or not of its own type.
    fn text(&self) -> Option<String> {
        match self.tag {
            der::UTF8_STRING => String::from_utf8(self.value.clone()).ok(),
            der::PRINTABLE_STRING | der::IA5_STRING | der::VISIBLE_STRING | der::TELETEX_STRING => {
                Some(self.value.iter().copied().map(char::from).collect())
            }
            der::BMP_STRING => {
                let (pairs, rest) = self.value.as_chunks::<2>();
                let units = pairs
                    .iter()
                    .map(|&pair| u32::from(u16::from_be_bytes(pair)));
                rest.is_empty()
                    .then(|| units.map(char::from_u32).collect())?
            }
            der::UNIVERSAL_STRING => {
                let (words, rest) = self.value.as_chunks::<4>();
                let units = words.iter().map(|&word| u32::from_be_bytes(word));
                rest.is_empty()
                    .then(|| units.map(char::from_u32).collect())?
            }
            _ => None,
        }
    }

    fn is_string(&self) -> bool {
        matches!(
            self.tag,
            der::UTF8_STRING
                | der::PRINTABLE_STRING
                | der::IA5_STRING
                | der::VISIBLE_STRING
                | der::TELETEX_STRING
                | der::BMP_STRING
                | der::UNIVERSAL_STRING
        )
    }

    /// The form that OpenSSL hashes and compares: strings in UTF-8, lower case, single blanks.
    fn canonical(&self, encoded: &[u8]) -> Option<Vec<u8>> {
        let value = if self.is_string() {
            let text = self.text()?.to_ascii_lowercase();
            let blank = |c: char| matches!(c, ' ' | '\t'..='\r');
            let words: Vec<&str> = text.split(blank).filter(|word| !word.is_empty()).collect();
            der::element(der::UTF8_STRING, &[words.join(" ").as_bytes()])
        } else {
            encoded.to_vec()
        };
        let kind = der::element(OBJECT_IDENTIFIER, &[&self.kind]);
        Some(der::sequence(&[&kind, &value]))
    }

    /// OpenSSL's short name of the type; `None` if it has none.
    fn short_name(&self) -> Option<&'static str> {
        let found = match *self.kind.as_slice() {
            [0x55, 4, last] => SHORT_2_5_4.iter().find(|&&(number, _)| number == last),
            [0x2a, 0x86, 0x48, 0x86, 0xf7, 13, 1, 9, last] => {
                SHORT_PKCS9.iter().find(|&&(number, _)| number == last)
            }
            [0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, last] => {
                SHORT_PILOT.iter().find(|&&(number, _)| number == last)
            }
            _ => None,
        };
        found.map(|&(_, short)| short)
    }
}

/// Types under 2.5.4 and their short names.
const SHORT_2_5_4: &[(u8, &str)] = &[
    (3, "CN"),
    (4, "SN"),
    (5, "serialNumber"),
    (6, "C"),
    (7, "L"),
    (8, "ST"),
    (9, "street"),
    (10, "O"),
    (11, "OU"),
    (12, "title"),
    (13, "description"),
    (14, "searchGuide"),
    (15, "businessCategory"),
    (16, "postalAddress"),
    (17, "postalCode"),
    (18, "postOfficeBox"),
    (19, "physicalDeliveryOfficeName"),
    (20, "telephoneNumber"),
    (21, "telexNumber"),
    (22, "teletexTerminalIdentifier"),
    (23, "facsimileTelephoneNumber"),
    (24, "x121Address"),
    (25, "internationaliSDNNumber"),
    (26, "registeredAddress"),
    (27, "destinationIndicator"),
    (28, "preferredDeliveryMethod"),
    (29, "presentationAddress"),
    (30, "supportedApplicationContext"),
    (31, "member"),
    (32, "owner"),
    (33, "roleOccupant"),
    (34, "seeAlso"),
    (35, "userPassword"),
    (36, "userCertificate"),
    (37, "cACertificate"),
    (38, "authorityRevocationList"),
    (39, "certificateRevocationList"),
    (40, "crossCertificatePair"),
    (41, "name"),
    (42, "GN"),
    (43, "initials"),
    (44, "generationQualifier"),
    (45, "x500UniqueIdentifier"),
    (46, "dnQualifier"),
    (47, "enhancedSearchGuide"),
    (48, "protocolInformation"),
    (49, "distinguishedName"),
    (50, "uniqueMember"),
    (51, "houseIdentifier"),
    (52, "supportedAlgorithms"),
    (53, "deltaRevocationList"),
    (54, "dmdName"),
    (65, "pseudonym"),
    (72, "role"),
    (97, "organizationIdentifier"),
    (98, "c3"),
    (99, "n3"),
    (100, "dnsName"),
];

/// Types under 1.2.840.113549.1.9 and their short names.
const SHORT_PKCS9: &[(u8, &str)] = &[
    (1, "emailAddress"),
    (2, "unstructuredName"),
    (3, "contentType"),
    (4, "messageDigest"),
    (5, "signingTime"),
    (6, "countersignature"),
    (7, "challengePassword"),
    (8, "unstructuredAddress"),
    (9, "extendedCertificateAttributes"),
    (14, "extReq"),
    (15, "SMIME-CAPS"),
    (16, "SMIME"),
    (20, "friendlyName"),
    (21, "localKeyID"),
];

/// Types under 0.9.2342.19200300.100.1 and their short names.
const SHORT_PILOT: &[(u8, &str)] = &[
    (1, "UID"),
    (2, "textEncodedORAddress"),
    (3, "mail"),
    (4, "info"),
    (5, "favouriteDrink"),
    (6, "roomNumber"),
    (7, "photo"),
    (8, "userClass"),
    (9, "host"),
    (10, "manager"),
    (11, "documentIdentifier"),
    (12, "documentTitle"),
    (13, "documentVersion"),
    (14, "documentAuthor"),
    (15, "documentLocation"),
    (20, "homeTelephoneNumber"),
    (21, "secretary"),
    (22, "otherMailbox"),
    (23, "lastModifiedTime"),
    (24, "lastModifiedBy"),
    (25, "DC"),
    (26, "aRecord"),
    (27, "pilotAttributeType27"),
    (28, "mXRecord"),
    (29, "nSRecord"),
    (30, "sOARecord"),
    (31, "cNAMERecord"),
    (37, "associatedDomain"),
    (38, "associatedName"),
    (39, "homePostalAddress"),
    (40, "personalTitle"),
    (41, "mobileTelephoneNumber"),
    (42, "pagerTelephoneNumber"),
    (43, "friendlyCountryName"),
    (44, "uid"),
    (45, "organizationalStatus"),
    (46, "janetMailbox"),
    (47, "mailPreferenceOption"),
    (48, "buildingName"),
    (49, "dSAQuality"),
    (50, "singleLevelQuality"),
    (51, "subtreeMinimumQuality"),
    (52, "subtreeMaximumQuality"),
    (53, "personalSignature"),
    (54, "dITRedirect"),
    (55, "audio"),
    (56, "documentPublisher"),
];

/// The form of OpenSSL's `X509_NAME_oneline`: `/O=Grid/OU=x/CN=Alice Lab`.
///
/// A slash in a value is not escaped; a byte that is no printable ASCII is `\xHH`.
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for attribute in self.0.relative.iter().flatten() {
            match attribute.short_name() {
                Some(short) => write!(f, "/{short}=")?,
                None => write!(f, "/{}=", oid::dotted(&attribute.kind))?,
            }
            for &byte in &attribute.value {
                if (b' '..=b'~').contains(&byte) {
                    write!(f, "{}", char::from(byte))?;
                } else {
                    write!(f, "\\x{byte:02X}")?;
                }
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Name({self})")
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.0.canonical == other.0.canonical
    }
}

impl Eq for Name {}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.canonical.hash(state);
    }
}

fn first_word(hash: &[u8]) -> u32 {
    hash.first_chunk()
        .map_or(0, |&word| u32::from_le_bytes(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name of relative names with one attribute each.
    fn name(parts: &[(&[u8], u8, &[u8])]) -> Name {
        let sets = parts.iter().map(|(kind, tag, value)| {
            let pair = [der::element(6, &[kind]), der::element(*tag, &[value])].concat();
            der::element(SET, &[&der::sequence(&[&pair])])
        });
        Name::from_der(&der::sequence(&[&sets.collect::<Vec<_>>().concat()])).unwrap()
    }

    const O: &[u8] = &[0x55, 4, 10];
    const OU: &[u8] = &[0x55, 4, 11];

    #[test]
    fn the_hash_is_the_one_of_openssl() {
        let lab = name(&[
            (O, 12, b"Grid"),
            (OU, 12, b"GridLab"),
            (oid::COMMON_NAME, 12, b"Lab CA"),
        ]);
        assert_eq!(format!("{:08x}", lab.hash()), "b699121e");
        assert_eq!(format!("{:08x}", lab.old_hash()), "49f49416");
        assert_eq!(lab.to_string(), "/O=Grid/OU=GridLab/CN=Lab CA");
    }

    #[test]
    fn names_are_equal_where_openssl_takes_them_for_equal() {
        let one = name(&[(O, 19, b"Grid"), (oid::COMMON_NAME, 19, b"Lab CA")]);
        let other = name(&[
            (O, 12, b"GRID"),
            (oid::COMMON_NAME, 30, b"\0l\0A\0B\0 \0 \0c\0a\0 "),
        ]);
        assert_eq!(one, other);
        assert_eq!(one.hash(), other.hash());
        assert_ne!(one.old_hash(), other.old_hash());
        assert_ne!(
            one,
            name(&[(O, 19, b"Grid"), (oid::COMMON_NAME, 19, b"LabCA")])
        );
        assert_eq!(other.common_name().as_deref(), Some("lAB  ca "));
    }

    #[test]
    fn bytes_that_are_no_printable_ascii_are_written_in_hex() {
        let odd = name(&[(&[0x2a, 3, 4], 12, "ä/\n".as_bytes())]);
        assert_eq!(odd.to_string(), "/1.2.3.4=\\xC3\\xA4/\\x0A");
    }

    #[test]
    fn only_one_more_common_name_extends_a_name() {
        let alice = name(&[(O, 19, b"Grid"), (oid::COMMON_NAME, 19, b"Alice")]);
        let cn: (&[u8], u8, &[u8]) = (oid::COMMON_NAME, 12, b"12");
        let proxy = name(&[(O, 12, b"grid"), (oid::COMMON_NAME, 12, b"Alice"), cn]);
        assert!(proxy.extends(&alice));
        assert!(!alice.extends(&proxy) && !alice.extends(&alice));
        assert!(
            !name(&[(O, 19, b"Grid"), (oid::COMMON_NAME, 19, b"Alice"), cn, cn]).extends(&alice)
        );
        assert!(!name(&[(O, 19, b"Grid"), (oid::COMMON_NAME, 19, b"Bob"), cn]).extends(&alice));
        let unit: (&[u8], u8, &[u8]) = (OU, 12, b"12");
        assert!(!name(&[(O, 19, b"Grid"), (oid::COMMON_NAME, 19, b"Alice"), unit]).extends(&alice));
    }
}

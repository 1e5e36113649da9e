//! Object identifiers of Grid security, as the content bytes of their DER.

use std::borrow::Cow;

use x509_parser::asn1_rs::Oid;

use crate::der::{self, OBJECT_IDENTIFIER};

/// `commonName`, 2.5.4.3.
pub const COMMON_NAME: &[u8] = &[0x55, 4, 3];

/// The subject key identifier, 2.5.29.14.
pub const SUBJECT_KEY_IDENTIFIER: &[u8] = &[0x55, 0x1d, 14];
/// The key usage, 2.5.29.15.
pub const KEY_USAGE: &[u8] = &[0x55, 0x1d, 15];
/// The alternative names of the subject, 2.5.29.17.
pub const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 17];
/// The alternative names of the issuer, 2.5.29.18.
pub const ISSUER_ALT_NAME: &[u8] = &[0x55, 0x1d, 18];
/// The basic constraints, 2.5.29.19.
pub const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 19];
/// The issuing distribution point of a revocation list, 2.5.29.28.
pub const ISSUING_DISTRIBUTION_POINT: &[u8] = &[0x55, 0x1d, 28];
/// The name constraints, 2.5.29.30.
pub const NAME_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 30];
/// The authority key identifier, 2.5.29.35.
pub const AUTHORITY_KEY_IDENTIFIER: &[u8] = &[0x55, 0x1d, 35];
/// The extended key usage, 2.5.29.37.
pub const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 37];
/// The certificate type of Netscape, 2.16.840.1.113730.1.1.
pub const NS_CERT_TYPE: &[u8] = &[0x60, 0x86, 0x48, 1, 0x86, 0xf8, 0x42, 1, 1];

/// `ProxyCertInfo` of RFC 3820, 1.3.6.1.5.5.7.1.14.
pub const PROXY_CERT_INFO: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 1, 14];
/// `ProxyCertInfo` of the draft, 1.3.6.1.4.1.3536.1.222.
pub const PROXY_CERT_INFO_DRAFT: &[u8] = &[0x2b, 6, 1, 4, 1, 0x9b, 0x50, 1, 0x81, 0x5e];

/// The proxy language of an impersonation proxy (`inheritAll`), 1.3.6.1.5.5.7.21.1.
pub const INHERIT_ALL: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 21, 1];
/// The proxy language of an independent proxy, 1.3.6.1.5.5.7.21.2.
pub const INDEPENDENT: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 21, 2];
/// The proxy language of a limited proxy of Globus, 1.3.6.1.4.1.3536.1.1.1.9.
pub const LIMITED: &[u8] = &[0x2b, 6, 1, 4, 1, 0x9b, 0x50, 1, 1, 1, 9];

/// Returns the dotted form of an object identifier.
pub(crate) fn dotted(oid: &[u8]) -> String {
    Oid::new(Cow::Borrowed(oid)).to_id_string()
}

/// Returns the dotted form of the identifier in the content of an `AlgorithmIdentifier`.
pub(crate) fn algorithm(content: &[u8]) -> String {
    let found = der::expect(content, OBJECT_IDENTIFIER);
    found.map_or_else(|| "unknown".into(), |(oid, _)| dotted(oid.content))
}

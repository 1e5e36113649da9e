//! Certificates and revocation lists from parts, right and wrong ones alike.

use std::sync::OnceLock;

use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
    KeyPair, RSA_PKCS1_SHA256, RSA_PKCS1_SHA512, RSA_PSS_SHA256, RsaKeyPair,
};
use aws_lc_rs::{rsa::KeySize, signature::RsaEncoding};
use gsi::oid;
use rustls::pki_types::{CertificateDer, UnixTime, alg_id};

/// The instant of every verdict: in January 2027.
pub(crate) const NOW: u64 = 1_800_000_000;

pub(crate) fn at(seconds: u64) -> UnixTime {
    UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds))
}

pub(crate) fn tlv(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    match u16::try_from(content.len()).unwrap().to_be_bytes() {
        [0, short @ ..0x80] => out.push(short),
        [0, byte] => out.extend([0x81, byte]),
        long => out.extend([0x82, long[0], long[1]]),
    }
    out.extend(content);
    out
}

pub(crate) fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    tlv(0x30, &parts.concat())
}

/// A name from its form in one line.
pub(crate) fn name(text: &str) -> Vec<u8> {
    let mut all = Vec::new();
    for part in text.split('/').skip(1) {
        let (kind, value) = part.split_once('=').unwrap();
        let kind: &[u8] = match kind {
            "CN" => oid::COMMON_NAME,
            "O" => &[0x55, 4, 10],
            "OU" => &[0x55, 4, 11],
            "UID" => &[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1],
            other => panic!("{other}"),
        };
        let value = value.replace('|', "/");
        all.extend(tlv(
            0x31,
            &sequence(&[&tlv(6, kind), &tlv(0x0c, value.as_bytes())]),
        ));
    }
    tlv(0x30, &all)
}

/// A key that signs.
pub(crate) enum Key {
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
    Rsa(RsaKeyPair),
    /// A public key without any private one.
    Public(Vec<u8>),
}

impl Key {
    pub(crate) fn public(&self) -> Vec<u8> {
        match self {
            Self::P256(key) | Self::P384(key) => {
                let der: PublicKeyX509Der<'_> = key.public_key().as_der().unwrap();
                der.as_ref().to_vec()
            }
            Self::Ed25519(key) => {
                let der: PublicKeyX509Der<'_> = key.public_key().as_der().unwrap();
                der.as_ref().to_vec()
            }
            Self::Rsa(key) => {
                let der: PublicKeyX509Der<'_> = key.public_key().as_der().unwrap();
                der.as_ref().to_vec()
            }
            Self::Public(der) => der.clone(),
        }
    }

    fn sign(&self, algorithm: Algorithm, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::P256(key) | Self::P384(key) => {
                key.sign(&random, message).unwrap().as_ref().to_vec()
            }
            Self::Ed25519(key) => key.sign(message).as_ref().to_vec(),
            Self::Rsa(key) => {
                let padding: &'static dyn RsaEncoding = match algorithm {
                    Algorithm::Pss => &RSA_PSS_SHA256,
                    Algorithm::RsaSha512 => &RSA_PKCS1_SHA512,
                    _ => &RSA_PKCS1_SHA256,
                };
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(padding, &random, message, &mut signature).unwrap();
                signature
            }
            Self::Public(_) => vec![0; 64],
        }
    }

    fn algorithm(&self) -> Algorithm {
        match self {
            Self::P256(_) => Algorithm::P256,
            Self::P384(_) => Algorithm::P384,
            Self::Ed25519(_) => Algorithm::Ed25519,
            Self::Rsa(_) | Self::Public(_) => Algorithm::Rsa,
        }
    }
}

/// A signature algorithm, by its identifier.
#[derive(Clone, Copy)]
pub(crate) enum Algorithm {
    P256,
    P384,
    Ed25519,
    Rsa,
    RsaSha512,
    Pss,
    Sha1,
    Md5,
}

impl Algorithm {
    fn der(self) -> Vec<u8> {
        const RSA_SHA1: &[u8] = &[6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 13, 1, 1, 5, 5, 0];
        const RSA_MD5: &[u8] = &[6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 13, 1, 1, 4, 5, 0];
        let known = match self {
            Self::P256 => alg_id::ECDSA_SHA256,
            Self::P384 => alg_id::ECDSA_SHA384,
            Self::Ed25519 => alg_id::ED25519,
            Self::Rsa => alg_id::RSA_PKCS1_SHA256,
            Self::RsaSha512 => alg_id::RSA_PKCS1_SHA512,
            Self::Pss => alg_id::RSA_PSS_SHA256,
            Self::Sha1 => return tlv(0x30, RSA_SHA1),
            Self::Md5 => return tlv(0x30, RSA_MD5),
        };
        tlv(0x30, &known)
    }
}

/// The keys of all tests, made once.
pub(crate) struct Keys {
    pub(crate) root: Key,
    pub(crate) other: Key,
    pub(crate) middle: Key,
    pub(crate) user: Key,
    pub(crate) proxy: Key,
    pub(crate) p384: Key,
    pub(crate) ed25519: Key,
    pub(crate) rsa: Key,
    /// A public RSA key of 1024 bits.
    pub(crate) small: Key,
}

pub(crate) fn keys() -> &'static Keys {
    static KEYS: OnceLock<Keys> = OnceLock::new();
    let p256 = || Key::P256(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap());
    KEYS.get_or_init(|| Keys {
        root: p256(),
        other: p256(),
        middle: p256(),
        user: p256(),
        proxy: p256(),
        p384: Key::P384(EcdsaKeyPair::generate(&ECDSA_P384_SHA384_ASN1_SIGNING).unwrap()),
        ed25519: Key::Ed25519(Ed25519KeyPair::generate().unwrap()),
        rsa: Key::Rsa(RsaKeyPair::generate(KeySize::Rsa2048).unwrap()),
        small: Key::Public(rsa_key(1024)),
    })
}

/// The public key of an RSA modulus of this size.
fn rsa_key(bits: usize) -> Vec<u8> {
    let modulus = [vec![0], vec![0xc5; bits / 8]].concat();
    let key = sequence(&[&tlv(2, &modulus), &tlv(2, &[1, 0, 1])]);
    let algorithm = tlv(0x30, &alg_id::RSA_ENCRYPTION);
    sequence(&[&algorithm, &tlv(3, &[vec![0], key].concat())])
}

/// An extension.
pub(crate) fn extension(oid: &[u8], critical: bool, value: &[u8]) -> Vec<u8> {
    let flag: &[u8] = if critical { &[1, 1, 0xff] } else { &[] };
    sequence(&[&tlv(6, oid), flag, &tlv(4, value)])
}

pub(crate) fn authority(path_length: Option<u8>) -> Vec<u8> {
    let length = path_length
        .map(|length| tlv(2, &[length]))
        .unwrap_or_default();
    extension(
        oid::BASIC_CONSTRAINTS,
        true,
        &sequence(&[&[1, 1, 0xff], &length]),
    )
}

/// A key usage from the first byte of its bits.
pub(crate) fn key_usage(bits: u8) -> Vec<u8> {
    extension(oid::KEY_USAGE, true, &[3, 2, 0, bits])
}
pub(crate) const SIGNS_CERTIFICATES: u8 = 0x06;
pub(crate) const SIGNS: u8 = 0xa0;
pub(crate) const ENCIPHERS: u8 = 0x20;

/// `ProxyCertInfo` of the RFC.
pub(crate) fn rfc(language: &[u8], path_length: Option<u8>) -> Vec<u8> {
    let length = path_length
        .map(|length| tlv(2, &[length]))
        .unwrap_or_default();
    let value = sequence(&[&length, &sequence(&[&tlv(6, language)])]);
    extension(oid::PROXY_CERT_INFO, true, &value)
}

/// `ProxyCertInfo` of the draft.
pub(crate) fn draft(language: &[u8], path_length: Option<u8>) -> Vec<u8> {
    let length = path_length
        .map(|length| tlv(0xa1, &tlv(2, &[length])))
        .unwrap_or_default();
    let value = sequence(&[&sequence(&[&tlv(6, language)]), &length]);
    extension(oid::PROXY_CERT_INFO_DRAFT, true, &value)
}

/// A certificate to be signed.
#[derive(Clone)]
pub(crate) struct Draft {
    pub(crate) subject: Vec<u8>,
    pub(crate) key: &'static Key,
    pub(crate) serial: u8,
    pub(crate) version: u8,
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) extensions: Vec<Vec<u8>>,
    /// The algorithm that the certificate tells; that of the key if `None`.
    pub(crate) algorithm: Option<Algorithm>,
    pub(crate) inner_algorithm: Option<Algorithm>,
}

/// A signed certificate.
#[derive(Clone)]
pub(crate) struct Issued {
    pub(crate) der: Vec<u8>,
    pub(crate) subject: Vec<u8>,
    pub(crate) key: &'static Key,
}

impl Draft {
    pub(crate) fn new(subject: &str, key: &'static Key) -> Self {
        Self {
            subject: name(subject),
            key,
            serial: 7,
            version: 2,
            from: NOW - 1000,
            to: NOW + 1000,
            extensions: Vec::new(),
            algorithm: None,
            inner_algorithm: None,
        }
    }

    pub(crate) fn with(mut self, extension: Vec<u8>) -> Self {
        self.extensions.push(extension);
        self
    }

    pub(crate) fn change(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    pub(crate) fn by(self, issuer: &Issued) -> Issued {
        self.signed(&issuer.subject, issuer.key)
    }

    pub(crate) fn by_itself(self) -> Issued {
        let (subject, key) = (self.subject.clone(), self.key);
        self.signed(&subject, key)
    }

    pub(crate) fn signed(self, issuer: &[u8], signer: &Key) -> Issued {
        let algorithm = self.algorithm.unwrap_or_else(|| signer.algorithm());
        let version = tlv(0xa0, &tlv(2, &[self.version]));
        let extensions = tlv(0xa3, &tlv(0x30, &self.extensions.concat()));
        let tbs = sequence(&[
            if self.version == 0 { &[] } else { &version },
            &tlv(2, &[self.serial]),
            &self.inner_algorithm.unwrap_or(algorithm).der(),
            issuer,
            &sequence(&[&time(self.from), &time(self.to)]),
            &self.subject,
            &self.key.public(),
            if self.extensions.is_empty() {
                &[]
            } else {
                &extensions
            },
        ]);
        let der = signed(&tbs, algorithm, signer);
        Issued {
            der,
            subject: self.subject,
            key: self.key,
        }
    }
}

impl Issued {
    pub(crate) fn der(&self) -> CertificateDer<'static> {
        CertificateDer::from(self.der.clone())
    }
}

/// A revocation list that revokes these serial numbers.
pub(crate) fn revocations(
    issuer: &Issued,
    signer: &Key,
    (from, to): (u64, u64),
    serials: &[u8],
    extensions: &[Vec<u8>],
) -> Vec<u8> {
    let entry = |&serial: &u8| sequence(&[&tlv(2, &[serial]), &time(from)]);
    let entries: Vec<Vec<u8>> = serials.iter().map(entry).collect();
    let entries = tlv(0x30, &entries.concat());
    let all = tlv(0xa0, &tlv(0x30, &extensions.concat()));
    let tbs = sequence(&[
        &[2, 1, 1],
        &signer.algorithm().der(),
        &issuer.subject,
        &time(from),
        &time(to),
        if serials.is_empty() { &[] } else { &entries },
        if extensions.is_empty() { &[] } else { &all },
    ]);
    signed(&tbs, signer.algorithm(), signer)
}

fn signed(tbs: &[u8], algorithm: Algorithm, signer: &Key) -> Vec<u8> {
    let signature = [vec![0], signer.sign(algorithm, tbs)].concat();
    sequence(&[tbs, &algorithm.der(), &tlv(3, &signature)])
}

/// A time of 2001 to 2049, in seconds since 1970.
fn time(seconds: u64) -> Vec<u8> {
    let (days, rest) = (seconds / 86400, seconds % 86400);
    let (mut year, mut day) = (1970, days);
    let leap = |year: u64| u64::from(year.is_multiple_of(4));
    while day >= 365 + leap(year) {
        day -= 365 + leap(year);
        year += 1;
    }
    let lengths = [31, 28 + leap(year), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while day >= lengths[month] {
        day -= lengths[month];
        month += 1;
    }
    let text = format!(
        "{:02}{:02}{:02}{:02}{:02}{:02}Z",
        year % 100,
        month + 1,
        day + 1,
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    );
    tlv(0x17, text.as_bytes())
}

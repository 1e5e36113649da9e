//! Credentials in every form of PEM, and those that are refused.

use super::*;
use crate::certificate::ProxyFormat;
use crate::der;
use crate::key::KeySize;
use crate::lab::{KEYS, Lab, now};
use crate::proxy::ProxyOptions;

// A certificate of `/O=Grid/CN=Pat`, and its key in clear and under the passphrase `open-sesame`.
const CERTIFICATE: &str = "\
-----BEGIN CERTIFICATE-----
MIIBkDCCATWgAwIBAgIUQkMejIstzi/QQc/ZxrjwvhqlPIswCgYIKoZIzj0EAwIw
HTENMAsGA1UECgwER3JpZDEMMAoGA1UEAwwDUGF0MB4XDTI2MTEyMjIxMDgyMVoX
DTQ2MDEyMTIxMDgyMVowHTENMAsGA1UECgwER3JpZDEMMAoGA1UEAwwDUGF0MFkw
EwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEjgnJrF3kn9mDN9FkbPaDR8/Fv595vRr5
W5d8FYLsth4nioIVyTm57jhXszZAUzTMIwAy3Is8ah7S1fFiuoNfXqNTMFEwHQYD
VR0OBBYEFHnVCX+20JpdFcnf0JvLJxp0zAHTMB8GA1UdIwQYMBaAFHnVCX+20Jpd
Fcnf0JvLJxp0zAHTMA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSQAwRgIh
ANvU14Xcu6psA5FDPwDk5EdUkrsr/3Wopkpno/DQ3EqJAiEAo47jjqZyhAwLbH6K
xmXtBvXbbhGMzjyaNgps3ZkDAv4=
-----END CERTIFICATE-----
";
const SEC1: &str = "\
-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIKzFl3RKRIT6T54h1Rrlt3FEmvv3Erg9zaAvhhtGLia/oAoGCCqGSM49
AwEHoUQDQgAEjgnJrF3kn9mDN9FkbPaDR8/Fv595vRr5W5d8FYLsth4nioIVyTm5
7jhXszZAUzTMIwAy3Is8ah7S1fFiuoNfXg==
-----END EC PRIVATE KEY-----
";
const AES: &str = "\
-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAgLWAagtL+ciwICCAAw
DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEChEwX6HGheMfULUwGhrNnQEgZAp
sx+m1BJLDbg+utKzHOSSqMj3WQJQ0BFO9BSqMwjDER1uDXgcpqa7tk2PiPg3g0xJ
qEmyYb1s4Yp/cthz3uVv3TQ2Xsw89Xwyelppj45g3BA4X0JZwtLLuVYSmUEnpDIN
ydjVZsXixk9vP3THJG29aay0GxGKW4Li+E5/smOXkTtIkj8kAviTRZKyROFsYtM=
-----END ENCRYPTED PRIVATE KEY-----
";
const TRIPLE_DES: &str = "\
-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHjME4GCSqGSIb3DQEFDTBBMCkGCSqGSIb3DQEFDDAcBAi1D1h3bCG43AICCAAw
DAYIKoZIhvcNAgkFADAUBggqhkiG9w0DBwQIuTnLBFHMUFIEgZDpW0CBMKS5QK5f
IMMZJS863B2SG29Iavh3/6uSKFNKZbQciGrXuLna1LuO6A+/NCTHyADjkjFCggwX
PnXXGFU4j+h45kTYHICE/BmkJH23c56j3xx6omDjKzfwRboe/PoCyC9mnYH58tTn
QwLzLbwCH5fyiUysiZwY4oNR1IGqeGcudTzwI1Y/E2T4Pwza+sc=
-----END ENCRYPTED PRIVATE KEY-----
";
const PBES1: &str = "\
-----BEGIN ENCRYPTED PRIVATE KEY-----
MIGxMBwGCiqGSIb3DQEMAQMwDgQIfe3eXs52iS4CAggABIGQwE/ePQ9r4J3gSFdm
rHuBCrKv2S7kr1jpVkBDK+OPSExhrcu37p8vw0bVcVmitYmxPjl+XuDaV3ag+rDL
GJ2JZ/7D6nJcuhIro02S1Glo84GqfRhGNIVbSFB/SRLoF0/8rKquLMS853bnAYEl
XvHdELDTnnk29sXlJr9JFJg2OvgF9OVHQdoDSGcLXmAL4PHq
-----END ENCRYPTED PRIVATE KEY-----
";
const OLD: &str = "\
-----BEGIN EC PRIVATE KEY-----
Proc-Type: 4,ENCRYPTED
DEK-Info: DES-EDE3-CBC,F3089B2CEF93D341

7bbzvgvyXOW+Urug3PJaPU4DBK/xszqQWnhQnVpp7UHvknwL95leJw4bBQ1PYeNf
3D2smhDOQ+2v4sKWHpqYILk9Qr4i8NrXer3+oKS1pjPizx/RiMIVSMZlEjl0jkKt
khiD/lNMOPThDMAfOgdL3PUcUQjStvOojOsamnIIVzQ=
-----END EC PRIVATE KEY-----
";

fn subject(pem: &str) -> Result<String, CredentialError> {
    Credential::from_pem(pem.as_bytes()).map(|credential| credential.subject().to_string())
}

#[test]
fn a_credential_is_written_in_the_order_of_grid_proxy_init_and_read_back() {
    let proxy = Lab::proxy(ProxyFormat::Rfc, ProxyRights::Full);
    let pem = proxy.to_pem();
    let labels: Vec<_> = pem
        .lines()
        .filter(|line| line.starts_with("-----BEGIN"))
        .collect();
    let certificate = "-----BEGIN CERTIFICATE-----";
    assert_eq!(
        labels,
        [certificate, "-----BEGIN PRIVATE KEY-----", certificate]
    );
    assert!(pem.lines().all(|line| line.len() <= 64));
    let read = Credential::from_pem(pem.as_bytes()).unwrap();
    assert_eq!(read.chain(), proxy.chain());
    assert_eq!(read.key().public_key(), proxy.key().public_key());
    assert_eq!(read.to_pem(), pem);
}

#[test]
fn blocks_are_read_in_any_order_and_the_certificate_of_the_key_is_the_first() {
    let proxy = Lab::proxy(ProxyFormat::Rfc, ProxyRights::Full);
    let pem = proxy.to_pem();
    let mut blocks: Vec<String> = pem
        .split_inclusive("-----\n")
        .collect::<Vec<_>>()
        .chunks(2)
        .map(|two| two.concat())
        .collect();
    assert_eq!(blocks.len(), 3);
    for _ in 0..3 {
        blocks.rotate_left(1);
        let text = format!(
            "subject=/O=Grid\r\n{}",
            blocks.concat().replace('\n', "\r\n")
        );
        let read = Credential::from_pem(text.as_bytes()).unwrap();
        assert_eq!(read.chain(), proxy.chain());
    }
    // Data channel credentials of GCT list their certificate twice.
    let twice = format!("{CERTIFICATE}{SEC1}{CERTIFICATE}");
    assert_eq!(
        Credential::from_pem(twice.as_bytes())
            .unwrap()
            .chain()
            .len(),
        2
    );
}

#[test]
fn keys_are_read_as_pkcs8_pkcs1_and_sec1() {
    assert_eq!(
        subject(&format!("{SEC1}{CERTIFICATE}")).unwrap(),
        "/O=Grid/CN=Pat"
    );

    let user = &Lab::get().user;
    let pkcs8 = user.key().secret().secret_der();
    let (outer, _) = der::expect(pkcs8, der::SEQUENCE).unwrap();
    let (_version, rest) = der::split(outer.content).unwrap();
    let (_algorithm, rest) = der::split(rest).unwrap();
    let (pkcs1, _) = der::expect(rest, der::OCTET_STRING).unwrap();
    let mut pem = String::new();
    write_block(&mut pem, "CERTIFICATE", &user.chain()[0]);
    write_block(&mut pem, "RSA PRIVATE KEY", pkcs1.content);
    let read = Credential::from_pem(pem.as_bytes()).unwrap();
    assert_eq!(read.key().public_key(), user.key().public_key());
    assert_eq!(*read.to_pem(), pem);
}

#[test]
fn the_passphrase_of_a_key_opens_it() {
    for key in [AES, TRIPLE_DES] {
        let pem = format!("{CERTIFICATE}{key}");
        let error = subject(&pem).unwrap_err();
        assert!(matches!(error, CredentialError::Encrypted), "{error}");
        assert!(
            error.to_string().contains("gridftp-cp proxy init"),
            "{error}"
        );
        let open = |passphrase: &str| {
            Credential::from_pem_with_passphrase(pem.as_bytes(), passphrase.as_bytes())
        };
        assert_eq!(
            open("open-sesame").unwrap().subject().to_string(),
            "/O=Grid/CN=Pat"
        );
        for wrong in ["", "open", "open-sesame "] {
            let error = open(wrong).unwrap_err();
            assert!(
                matches!(error, CredentialError::Passphrase),
                "{wrong}: {error}"
            );
        }
    }
    let clear = format!("{CERTIFICATE}{SEC1}");
    assert!(Credential::from_pem_with_passphrase(clear.as_bytes(), b"any").is_ok());
}

#[test]
fn old_encryption_is_refused_with_the_way_out() {
    for key in [PBES1, OLD] {
        let pem = format!("{CERTIFICATE}{key}");
        let opened = Credential::from_pem_with_passphrase(pem.as_bytes(), b"open-sesame");
        let error = opened.unwrap_err().to_string();
        assert!(error.contains("openssl pkcs8 -topk8"), "{error}");
    }
}

#[test]
fn broken_files_are_refused_with_the_missing_part() {
    let cases = [
        (String::new(), "no private key"),
        (CERTIFICATE.to_owned(), "no private key"),
        (SEC1.to_owned(), "no certificate"),
        (
            format!("{CERTIFICATE}{SEC1}{SEC1}"),
            "more than one private key",
        ),
        (CERTIFICATE.replacen("MI", "", 1) + SEC1, "broken PEM"),
        (CERTIFICATE.replace("END", "FIN") + SEC1, "broken PEM"),
        (
            format!("{CERTIFICATE}{}", SEC1.replace("MHcCAQ", "MHcCAR")),
            "make a new key",
        ),
    ];
    for (pem, reason) in cases {
        let error = subject(&pem).unwrap_err().to_string();
        assert!(error.contains(reason), "{reason}: {error}");
    }
    let error = Credential::new(Lab::get().user.chain().to_vec(), KEYS[1].clone()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("not that of the certificate /O=Grid/OU=Lab/CN=Alice Lab")
    );
}

#[test]
fn no_secret_is_shown_for_debugging() {
    let credential = Credential::from_pem(format!("{CERTIFICATE}{SEC1}").as_bytes()).unwrap();
    let shown = format!("{credential:?}");
    assert!(
        shown.contains("/O=Grid/CN=Pat") && shown.len() < 200,
        "{shown}"
    );
}

#[test]
fn the_identity_is_that_of_the_user_or_of_an_independent_proxy() {
    let user = "/O=Grid/OU=Lab/CN=Alice Lab";
    for rights in [ProxyRights::Full, ProxyRights::Limited] {
        let proxy = Lab::proxy(ProxyFormat::Rfc, rights);
        assert_eq!(proxy.identity().to_string(), user);
        let alone = Credential::new(proxy.chain()[..1].to_vec(), proxy.key().clone()).unwrap();
        assert_eq!(alone.identity().to_string(), user);
    }
    let independent = Lab::proxy(ProxyFormat::Rfc, ProxyRights::Independent);
    assert_eq!(independent.identity(), *independent.subject());
    assert_eq!(Lab::get().user.identity().to_string(), user);
}

#[test]
fn the_end_is_that_of_the_shortest_certificate() {
    let hour = std::time::Duration::from_secs(3600);
    let [_, _, key] = &*KEYS;
    let options = ProxyOptions {
        lifetime: Some(hour),
        ..ProxyOptions::default()
    };
    let short = Lab::get()
        .user
        .make_proxy(key.clone(), &options, now())
        .unwrap();
    assert_eq!(short.not_after().as_secs(), now().as_secs() + 3600);
    let below = short
        .make_proxy(KEYS[1].clone(), &ProxyOptions::default(), now())
        .unwrap();
    assert_eq!(below.not_after(), short.not_after());
    assert!(KeySize::at_least(2049) == KeySize::Bits3072);
}

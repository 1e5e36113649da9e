//! The parameters that two ends negotiate and report.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use xio_core::Stream as _;
use xio_testkit::{Authority, Mem, Random};

use super::{HOST, identity, open, plain, roots, shake};
use crate::{MinVersion, Tls, TlsInfo, TlsOptions};

fn info<S: xio_core::Stream>(handle: &crate::TlsHandle<S>) -> TlsInfo {
    handle.info().get::<TlsInfo>().unwrap().clone()
}

#[tokio::test]
async fn both_ends_say_the_same() {
    let authority = Authority::new("test authority");
    let server = Tls::server(identity(&authority.issue("server", &[HOST])))
        .alpn(["ftp", "xio"])
        .build()
        .unwrap();
    let client = Tls::client(roots(&authority))
        .alpn(["xio"])
        .build()
        .unwrap();
    let (near, far) = open(&client, &server).await;
    assert_eq!(near.info().chain, ["mem", "tls"]);
    assert_eq!(
        near.info().security.as_deref(),
        Some("TLS 1.3 TLS13_AES_256_GCM_SHA384")
    );
    let (near, far) = (info(&near), info(&far));
    assert_eq!(
        (near.version, near.cipher.as_str()),
        (far.version, far.cipher.as_str())
    );
    assert_eq!(near.alpn.as_deref(), Some("xio"));
    assert_eq!(far.alpn, near.alpn);
    assert_eq!(near.peer_subject.as_deref(), Some("CN=server"));
    assert_eq!(near.peer_certificates.len(), 1);
    assert_eq!(far.peer_subject, None, "nobody asked the client who it is");
}

#[tokio::test]
async fn clients_are_known_by_their_certificates() {
    let authority = Authority::new("test authority");
    let own = identity(&authority.issue("server", &[HOST]));
    let guest = identity(&authority.issue("user one", &[]));
    let required = Tls::server(own.clone())
        .require_client_certificates(roots(&authority))
        .build()
        .unwrap();
    let optional = Tls::server(own)
        .request_client_certificates(roots(&authority))
        .build()
        .unwrap();
    let known = Tls::client(roots(&authority))
        .client_identity(guest)
        .build()
        .unwrap();
    let unknown = Tls::client(roots(&authority)).build().unwrap();
    for (client, server, subject) in [
        (&known, &required, Some("CN=user one")),
        (&known, &optional, Some("CN=user one")),
        (&unknown, &optional, None),
    ] {
        let (_near, far) = open(client, server).await;
        assert_eq!(info(&far).peer_subject.as_deref(), subject);
    }
}

#[tokio::test]
async fn sessions_go_on_unless_told_otherwise() {
    let authority = Authority::new("test authority");
    let own = identity(&authority.issue("server", &[HOST]));
    for (resume, expected) in [(true, [false, true, true]), (false, [false; 3])] {
        let client = Tls::client(roots(&authority))
            .resume(resume)
            .build()
            .unwrap();
        let server = Tls::server(own.clone()).resume(resume).build().unwrap();
        let mut seen = Vec::new();
        for _ in 0..3 {
            let (mut near, mut far) = open(&client, &server).await;
            seen.push(info(&near).resumed);
            assert_eq!(info(&far).resumed, info(&near).resumed);
            assert_eq!(info(&near).peer_subject.as_deref(), Some("CN=server"));
            // The tickets come with the first bytes.
            far.write_all(b"x").await.unwrap();
            near.read_u8().await.unwrap();
        }
        assert_eq!(seen, expected);
    }
}

#[tokio::test]
async fn a_receiver_that_only_reads_is_sent_no_tickets_before_it_ends() {
    let tls = plain();
    let (mut near, mut far) = open(&tls, &tls).await;
    near.write_all(b"all").await.unwrap();
    near.flush().await.unwrap();
    let mut bytes = [0; 3];
    far.read_exact(&mut bytes).await.unwrap();
    // A waiting reader sends pending messages.
    let waited = tokio::time::timeout(std::time::Duration::from_millis(1), far.read_u8()).await;
    assert!(waited.is_err());
    let below = std::future::poll_fn(|cx| {
        let mut room = [0; 4096];
        let mut room = tokio::io::ReadBuf::new(&mut room);
        let mem = near.below_mut();
        let read = tokio::io::AsyncRead::poll_read(std::pin::Pin::new(mem), cx, &mut room);
        std::task::Poll::Ready(read.is_pending())
    });
    assert!(below.await, "something came that nobody may ever read");
}

#[tokio::test]
async fn the_lowest_version_is_the_users_choice() {
    let authority = Authority::new("test authority");
    let own = identity(&authority.issue("server", &[HOST]));
    let both = Tls::server(own).build().unwrap();
    let modern = Tls::client(roots(&authority))
        .min_version(MinVersion::Tls13)
        .build()
        .unwrap();
    let (near, _far) = open(&modern, &both).await;
    assert_eq!(info(&near).version, "TLS 1.3");
}

#[tokio::test]
async fn every_way_of_cutting_carries_every_byte() {
    let tls = plain();
    for (chunk, seed) in [(1, 0), (7, 1), (100, 2), (5000, 3), (100_000, 4)] {
        let mem = Mem::new().chunks(chunk).seed(seed);
        let (near, far) = mem.pair();
        let (near, far) = shake(&tls, &tls, near, far).await;
        let (mut near, mut far) = (near.unwrap(), far.unwrap());
        let bytes = Random::new(seed).bytes(if chunk == 1 { 40_000 } else { 600_000 });
        let mut arrived = Vec::new();
        let (sent, read) = tokio::join!(
            async {
                near.write_all(&bytes).await?;
                near.shutdown().await
            },
            far.read_to_end(&mut arrived)
        );
        sent.unwrap();
        read.unwrap();
        assert!(arrived == bytes, "chunks of {chunk}");
    }
}

#[tokio::test]
async fn headers_and_payload_share_records() {
    let tls = plain();
    let (mut near, mut far) = open(&tls, &tls).await;
    let slices = [
        &[1_u8; 17][..],
        &[],
        &[2; 20_000],
        &[3; 5],
        &[4; 16_384],
        &[5; 300],
    ];
    let whole = slices.concat();
    let mut left: Vec<_> = slices.iter().map(|s| std::io::IoSlice::new(s)).collect();
    let mut left = &mut left[..];
    let writing = async {
        while !left.is_empty() {
            let n = near.write_vectored(left).await.unwrap();
            std::io::IoSlice::advance_slices(&mut left, n);
        }
        near.shutdown().await.unwrap();
    };
    let mut arrived = Vec::new();
    let ((), read) = tokio::join!(writing, far.read_to_end(&mut arrived));
    read.unwrap();
    assert!(arrived == whole);
}

#[test]
fn options_build_their_layer() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("test authority");
    let ca = authority.write(folder.path());
    let pair = authority
        .issue("server", &[HOST])
        .write(folder.path(), "server");
    let text = format!(
        "ca={};cert={};client_cert=required;min=1.3",
        ca.display(),
        pair.display()
    );
    let options: TlsOptions = text.parse().unwrap();
    assert!(options.build().is_ok());
    assert_eq!(options.to_string(), text);
    // The key of another certificate.
    let other = authority
        .issue("other", &[HOST])
        .write(folder.path(), "other");
    let text = format!("cert={};key={}", pair.display(), other.display());
    let error = text
        .parse::<TlsOptions>()
        .unwrap()
        .build()
        .unwrap_err()
        .to_string();
    assert!(error.contains("certificate and key"), "{error}");
    // A file with a certificate and no key, or the reverse.
    let text = format!("cert={};key={}", pair.display(), ca.display());
    let error = text
        .parse::<TlsOptions>()
        .unwrap()
        .build()
        .unwrap_err()
        .to_string();
    assert!(error.contains("ca.pem: holds no private key"), "{error}");
}

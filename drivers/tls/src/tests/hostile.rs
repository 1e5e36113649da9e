//! Peers that break the protocol, or speak another one.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::Instant;
use xio_core::{ErrorKind, Transform as _};
use xio_testkit::{FaultOptions, Faulty, Mem, Random};

use super::{drain, message, open, plain, shake, target};

#[tokio::test]
async fn garbage_instead_of_a_handshake_is_named() {
    let tls = plain();
    for (sent, says) in [
        (
            &b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..],
            "is it a plain port?",
        ),
        (b"SSH-2.0-OpenSSH_9.2p1\r\n", "is it a plain port?"),
        (b"220 ready\r\n", "is it a plain port?"),
        (
            &[22, 3, 1, 0xff, 0xff, 1],
            "longer than the protocol allows",
        ),
        (&[22, 3, 1, 0, 5, 1, 0, 0, 1, 0xaa], "tls: open: "),
        (&[21, 3, 3, 0, 2, 2, 40], "refused by the peer"),
        (&[0; 64], "is it a plain port?"),
        (&[0xff; 64], "is it a plain port?"),
    ] {
        let (mut near, far) = Mem::new().pair();
        near.write_all(sent).await.unwrap();
        near.shutdown().await.unwrap();
        let error = message(tls.respond(far)).await;
        assert!(error.contains(says), "{sent:?}: {error}");
        // The other end of the same misunderstanding.
        let (mut near, far) = Mem::new().pair();
        near.write_all(sent).await.unwrap();
        near.shutdown().await.unwrap();
        let error = message(tls.initiate(far, &target())).await;
        assert!(error.starts_with("tls: connect: "), "{sent:?}: {error}");
    }
}

#[tokio::test]
async fn random_bytes_end_in_an_error() {
    let tls = plain();
    for seed in 0..200 {
        let mut bytes = Random::new(seed).bytes(2000);
        if seed % 2 == 0 {
            // Records with a valid header.
            bytes[..3].copy_from_slice(&[22, 3, 1]);
            bytes[3] %= 8;
        }
        let (mut near, far) = Mem::new().pair();
        near.write_all(&bytes).await.unwrap();
        near.shutdown().await.unwrap();
        let error = message(tls.respond(far)).await;
        assert!(error.starts_with("tls: open: "), "seed {seed}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_stalls_is_ended() {
    let tls = plain();
    for stall in [0, 1, 5, 200, 700] {
        let (near, far) = Mem::new().pair();
        let mut options = FaultOptions::default();
        options.stall = Some(stall);
        let began = Instant::now();
        let (near, far) = shake(&tls, &tls, Faulty::new(near, options), far).await;
        let errors = [near.map(|_| ()).unwrap_err(), far.map(|_| ()).unwrap_err()];
        // Both fail at once, and the second may see the end of the other instead.
        for error in &errors {
            let kinds = [ErrorKind::TimedOut, ErrorKind::Reset];
            assert!(kinds.contains(&error.kind()), "stall at {stall}: {error}");
        }
        let said = errors.map(|error| error.to_string()).join("; ");
        assert!(said.contains("not done in 30 s"), "{said}");
        assert_eq!(began.elapsed(), Duration::from_secs(30));
    }
}

#[tokio::test]
async fn a_handshake_message_without_end_is_bounded() {
    let tls = plain();
    let (mut near, far) = Mem::new().pair();
    let flood = async {
        // A client hello of an announced length of 16 MB, in records of the largest size.
        let mut sent = 0_u64;
        let mut first = true;
        loop {
            let mut record = vec![0; 16_384 + 5];
            record[..5].copy_from_slice(&[22, 3, 1, 0x40, 0]);
            if first {
                record[5..9].copy_from_slice(&[1, 0xff, 0xff, 0xff]);
                first = false;
            }
            if near.write_all(&record).await.is_err() {
                return sent;
            }
            sent += record.len() as u64;
        }
    };
    let (sent, error) = tokio::join!(flood, message(tls.respond(far)));
    assert!(error.starts_with("tls: open: "), "{error}");
    assert!(sent < 2 << 20, "{sent} bytes were taken");
}

#[tokio::test(start_paused = true)]
async fn a_refused_peer_holds_nothing_for_long() {
    let tls = plain();
    for floods in [false, true] {
        let (near, far) = Mem::new().pair();
        let (mut reader, mut near) = tokio::io::split(near);
        near.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        let began = Instant::now();
        let stays = async {
            let mut sent = 0;
            while floods && near.write_all(&[7; 1000]).await.is_ok() {
                sent += 1000;
            }
            sent
        };
        let (sent, error) = tokio::join!(stays, message(tls.respond(far)));
        assert!(error.contains("is it a plain port?"), "{error}");
        let limit = Duration::from_secs(if floods { 0 } else { 1 });
        assert_eq!(began.elapsed(), limit);
        assert!(sent < 2 << 20, "{sent} bytes were taken");
        // It received the alert and the end, not a reset.
        let mut alert = [0; 7];
        reader.read_exact(&mut alert).await.unwrap();
        assert_eq!((alert[0], alert[5]), (21, 2), "a fatal alert");
        assert_eq!(reader.read(&mut [0]).await.unwrap(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn refusing_can_be_given_up() {
    let tls = plain();
    let (mut near, far) = Mem::new().pair();
    near.write_all(b"220 ready\r\n").await.unwrap();
    let began = Instant::now();
    let given_up = tokio::time::timeout(Duration::from_millis(10), tls.respond(far)).await;
    assert!(given_up.is_err());
    assert_eq!(began.elapsed(), Duration::from_millis(10));
    let mut told = Vec::new();
    near.read_to_end(&mut told).await.unwrap();
    assert_eq!(told.first(), Some(&21));
}

#[tokio::test]
async fn a_record_too_long_and_a_flipped_bit_end_the_stream() {
    let tls = plain();
    let (mut near, mut far) = open(&tls, &tls).await;
    far.write_all(b"good").await.unwrap();
    far.below_mut()
        .write_all(&[23, 3, 3, 0x50, 0])
        .await
        .unwrap();
    let (bytes, ended) = drain(&mut near).await;
    assert_eq!(bytes, b"good", "what was right is delivered first");
    let error = ended.unwrap_err().to_string();
    assert!(error.contains("longer than the protocol allows"), "{error}");
    // The peer receives the alert.
    let error = drain(&mut far).await.1.unwrap_err().to_string();
    assert!(error.contains("refused by the peer"), "{error}");
    // Every operation of this end fails with the same error.
    let error = near.write_all(b"x").await.unwrap_err().to_string();
    assert!(
        error.starts_with("tls: write: ") && error.contains("longer than"),
        "{error}"
    );
    let error = near.shutdown().await.unwrap_err().to_string();
    assert!(error.starts_with("tls: shutdown: "), "{error}");

    for at in [3000, 3500, 4000] {
        let (near, far) = Mem::new().pair();
        let mut options = FaultOptions::default();
        options.corrupt = Some(at);
        let (near, far) = shake(&tls, &tls, Faulty::new(near, options), far).await;
        let (mut near, mut far) = (near.unwrap(), far.unwrap());
        far.write_all(&[5; 5000]).await.unwrap();
        far.shutdown().await.unwrap();
        let error = drain(&mut near).await.1.unwrap_err();
        assert_eq!(
            error.kind(),
            std::io::ErrorKind::PermissionDenied,
            "{error}"
        );
        assert!(error.to_string().contains("a record is damaged"), "{error}");
    }
}

#[tokio::test]
async fn clear_text_after_the_handshake_is_not_payload() {
    let tls = plain();
    let (mut near, mut far) = open(&tls, &tls).await;
    far.below_mut()
        .write_all(b"\x17\x03\x03\x00\x05hello")
        .await
        .unwrap();
    assert!(near.read_u8().await.is_err());
    let (mut near, mut far) = open(&tls, &tls).await;
    far.below_mut().write_all(b"226 done\r\n").await.unwrap();
    let error = near.read_u8().await.unwrap_err().to_string();
    assert!(error.contains("not TLS"), "{error}");
}

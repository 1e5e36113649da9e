//! Faults of the `fault` layer: each kind, and the same ones for the same seed.

use std::io::ErrorKind;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::Instant;
use xio_core::{
    BoxStream, Error, Incoming as _, Listener as _, Passive as _, Target, Transport as _,
};

/// Returns an end behind `fault`, and its peer, which has sent `bytes` and ended.
async fn behind(fault: &str, bytes: &[u8]) -> (BoxStream, BoxStream) {
    let registry = crate::everything();
    let plain = registry.stack("mem:capacity=10K").unwrap();
    let faulty = registry
        .stack(&format!("mem:capacity=10K,fault:{fault}"))
        .unwrap();
    let at: Target = "mem:0".parse().unwrap();
    let mut listener = plain.listen(&at).await.unwrap();
    let to = Target::from(listener.info().local.unwrap());
    let near = faulty.connect(&to).await.unwrap();
    let mut far = listener.accept().await.unwrap().open().await.unwrap();
    far.write_all(bytes).await.unwrap();
    far.shutdown().await.unwrap();
    (near, far)
}

#[tokio::test]
async fn a_reset_is_seen_at_both_ends() {
    let (mut near, mut far) = behind("reset=100", &[7; 500]).await;
    let mut bytes = Vec::new();
    let error = near.read_to_end(&mut bytes).await.unwrap_err();
    assert_eq!(
        (error.kind(), bytes.len()),
        (ErrorKind::ConnectionReset, 100)
    );
    assert_eq!(Error::layer_of(&error).unwrap().layer(), "fault");
    assert_eq!(
        far.read_u8().await.unwrap_err().kind(),
        ErrorKind::ConnectionReset
    );
}

#[tokio::test]
async fn a_truncation_is_read_as_an_end() {
    let (mut near, _far) = behind("truncate=100", &[7; 500]).await;
    let mut bytes = Vec::new();
    assert_eq!(near.read_to_end(&mut bytes).await.unwrap(), 100);
}

#[tokio::test]
async fn one_bit_is_flipped_at_its_offset() {
    let sent: Vec<u8> = (0..=255).collect();
    let (mut near, _far) = behind("corrupt=200;short=1;seed=9", &sent).await;
    let mut bytes = Vec::new();
    near.read_to_end(&mut bytes).await.unwrap();
    let wrong: Vec<usize> = (0..256).filter(|at| bytes[*at] != sent[*at]).collect();
    assert_eq!(wrong, [200]);
    assert_eq!(bytes[200] ^ sent[200], 0x40);
}

#[tokio::test(start_paused = true)]
async fn a_stall_lasts_and_a_delay_ends() {
    let (mut near, _far) = behind("stall=100", &[7; 500]).await;
    let mut bytes = Vec::new();
    let waited =
        tokio::time::timeout(Duration::from_secs(1000), near.read_to_end(&mut bytes)).await;
    assert!(waited.is_err());
    assert_eq!(bytes.len(), 100);

    let (mut near, _far) = behind("delay=0.5", b"ab").await;
    let began = Instant::now();
    near.read_u8().await.unwrap();
    near.read_u8().await.unwrap();
    assert_eq!(began.elapsed(), Duration::from_secs(1));
}

#[tokio::test]
async fn a_seed_determines_the_faults() {
    let mut lengths = Vec::new();
    for _ in 0..2 {
        let (mut near, _far) = behind("short=1;pending=40;seed=11", &[7; 5000]).await;
        let mut reads = Vec::new();
        loop {
            let mut buf = [0; 1000];
            match near.read(&mut buf).await.unwrap() {
                0 => break,
                n => reads.push(n),
            }
        }
        lengths.push(reads);
    }
    assert_eq!(lengths[0], lengths[1]);
    assert!(
        lengths[0]
            .iter()
            .collect::<std::collections::BTreeSet<_>>()
            .len()
            > 3
    );
}

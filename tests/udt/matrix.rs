//! Roles, directions, loss, initial sequence numbers and packet sizes against libudt.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use xio_core::{Incoming as _, Listener as _, Passive as _, Target, Transport as _};
use xio_testkit::Random;
use xio_udp::Udp;
use xio_udt::{Udt, UdtHandle, UdtOptions};

use crate::peer::{finish, program, start};
use crate::relay::Relay;

/// The role of our end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Listen,
    Connect,
    Rendezvous,
}

#[derive(Debug, Clone, Copy)]
struct Case {
    role: Role,
    we_send: bool,
    /// Lost datagrams of a thousand.
    loss: u64,
    /// Initial sequence number: the connecting end's, or both ends' in a rendezvous.
    initial: Option<u32>,
    mss: u16,
    seed: u64,
}

/// Number of concurrent cases; most of their time is spent waiting for timers.
const AT_ONCE: usize = 6;
const BYTES: usize = 2_000_003;
/// An initial sequence number that wraps around during the transfer.
const NEAR_THE_END: u32 = 0x7FFF_FFFF - 700;

fn cases(role: Role) -> Vec<Case> {
    let mut cases = Vec::new();
    for initial in [None, Some(NEAR_THE_END)] {
        for (loss, mss) in [(0, 1500), (0, 1200), (10, 1500), (10, 1200)] {
            for we_send in [true, false] {
                let seed = 100 * (cases.len() as u64 + 1);
                cases.push(Case {
                    role,
                    we_send,
                    loss,
                    initial,
                    mss,
                    seed,
                });
            }
        }
    }
    cases
}

fn run_all(role: Role) {
    let Some(program) = program(&format!("udt: {role:?} with libudt")) else {
        return;
    };
    let cases = cases(role);
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let _named = Named(*case);
                    run_one(program, *case);
                }
            });
        }
    });
}

/// Prints the case of a failed test.
struct Named(Case);

impl Drop for Named {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("failed: {:?}", self.0);
        }
    }
}

fn run_one(program: &Path, case: Case) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bytes");
    let bytes = Random::new(case.seed).bytes(BYTES);
    if !case.we_send {
        std::fs::write(&file, &bytes).unwrap();
    }
    let action = if case.we_send { "receive" } else { "send" };
    let mss = case.mss.to_string();
    let initial = case.initial.unwrap_or_default().to_string();
    let tail = [action, file.to_str().unwrap(), &mss, &initial];
    let peer = |head: &[&str]| start(program, &[head, &tail[..]].concat());

    let mut options: UdtOptions = format!("mss={mss}").parse().unwrap();
    options.rendezvous = case.role == Role::Rendezvous;
    let udt = Udt::over(Udp::default())
        .with_options(options)
        .first_sequence(case.initial);
    let relay = Relay::start(case.loss, case.seed);
    let far = relay.far.to_string();
    let output = crate::block_on(async {
        let limit = std::time::Duration::from_secs(60);
        tokio::time::timeout(limit, async {
            let (peer, handle) = match case.role {
                Role::Connect => {
                    let peer = peer(&["listen"]);
                    relay.set_far(peer.addr());
                    (peer, udt.connect(&Target::from(relay.near)).await.unwrap())
                }
                Role::Listen => {
                    let at = "127.0.0.1:0".parse().unwrap();
                    let mut listener = udt.listen(&at).await.unwrap();
                    relay.set_near(listener.info().local.unwrap());
                    let peer = peer(&["connect", &far]);
                    let handle = listener.accept().await.unwrap().open().await;
                    (peer, handle.unwrap())
                }
                Role::Rendezvous => {
                    let peer = peer(&["meet", &far]);
                    relay.set_far(peer.addr());
                    (peer, udt.connect(&Target::from(relay.near)).await.unwrap())
                }
            };
            transfer(handle, case.we_send, &bytes).await;
            // The peer may still wait for our shutdown packet.
            tokio::task::spawn_blocking(move || finish(peer))
                .await
                .unwrap()
        })
        .await
        .unwrap_or_else(|_| panic!("{case:?}: no end"))
    });
    if let Some(initial) = case.initial {
        let first_sequences = relay.first_sequences();
        let of_initiators = match case.role {
            Role::Listen => &first_sequences[1..],
            Role::Connect => &first_sequences[..1],
            Role::Rendezvous => &first_sequences,
        };
        assert!(
            of_initiators.iter().all(|number| *number == Some(initial)),
            "{case:?}: {first_sequences:x?}"
        );
    }
    if case.we_send {
        let arrived = std::fs::read(&file).unwrap();
        let same = arrived
            .iter()
            .zip(&bytes)
            .take_while(|(a, b)| a == b)
            .count();
        assert!(
            arrived == bytes,
            "{case:?}: {} bytes arrived of {BYTES}, {same} at the beginning are right; peer: {output}",
            arrived.len()
        );
    }
}

async fn transfer(mut handle: UdtHandle, we_send: bool, bytes: &[u8]) {
    if we_send {
        for part in bytes.chunks(70_001) {
            handle.write_all(part).await.unwrap();
        }
        handle.shutdown().await.unwrap();
    } else {
        let mut arrived = Vec::new();
        handle.read_to_end(&mut arrived).await.unwrap();
        assert!(
            arrived == bytes,
            "{} bytes arrived of {}",
            arrived.len(),
            bytes.len()
        );
    }
}

#[test]
fn listen() {
    run_all(Role::Listen);
}

#[test]
fn connect() {
    run_all(Role::Connect);
}

#[test]
fn rendezvous() {
    run_all(Role::Rendezvous);
}

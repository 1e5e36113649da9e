//! Both ends of a data channel over memory.

use std::io::Write as _;
use std::sync::LazyLock;

use gsi::proxy::ProxyOptions;
use gsi::tls::Versions;
use gsi::trust::TrustOptions;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use xio_testkit::{Grid, Mem, MemHandle, Validity};

use super::*;
use crate::TrustDirectory;
use crate::trust::tests::{Counted, Slow};

static GRID: LazyLock<Grid> = LazyLock::new(Grid::new);

const LEVELS: [Level; 3] = [Level::Clear, Level::Safe, Level::Private];

fn directory() -> Arc<TrustDirectory> {
    let trust = TrustDirectory::open(GRID.certificates(), TrustOptions::default());
    Arc::new(trust.unwrap())
}

fn judge(versions: Versions) -> Judge {
    Judge::from(directory()).versions(versions)
}

fn layer(credential: &Credential) -> Gsi {
    Gsi::new(credential, judge(Versions::All)).unwrap()
}

fn proxy() -> Credential {
    GRID.proxy(&GRID.user("Alice Lab"), &ProxyOptions::limited())
}

fn target() -> Target {
    Target::host("dtn.example.org", 2811)
}

async fn shake(near: &Gsi, far: &Gsi) -> (Result<BoxStream>, Result<BoxStream>) {
    let (client, server) = Mem::new().pair();
    let to = target();
    tokio::join!(near.initiate(client, &to), far.respond(server))
}

/// Traps 2, 5 and 12 of Grid security, both ways.
#[tokio::test]
async fn bytes_pass_under_every_protection() {
    for versions in [Versions::Tls12, Versions::Tls13] {
        for level in LEVELS {
            let far = Gsi::new(&proxy(), judge(versions)).unwrap().level(level);
            let near = layer(&GRID.user("Alice Lab")).level(level);
            let (near, far) = shake(&near, &far).await;
            let (mut near, mut far) = (near.unwrap(), far.unwrap());
            for (from, to) in [(0, 1), (1, 0)] {
                let ends = [&mut near, &mut far];
                ends[from].write_all(b"block").await.unwrap();
                ends[from].shutdown().await.unwrap();
                let mut text = Vec::new();
                ends[to].read_to_end(&mut text).await.unwrap();
                assert_eq!(text, b"block", "{versions:?} {level:?}");
            }
            let info = far.info();
            assert_eq!(info.chain, ["mem", "gsi"]);
            assert_eq!(info.security.is_some(), level != Level::Clear);
            let peer = info.get::<GsiInfo>().unwrap();
            assert_eq!(peer.identity, "/O=Grid/OU=Lab/CN=Alice Lab");
            assert!(matches!(
                (versions, peer.version),
                (Versions::Tls12, "TLS 1.2") | (Versions::Tls13, "TLS 1.3")
            ));
        }
    }
}

/// A search for a path costs a stranger's choice of signature checks.
#[tokio::test]
async fn a_chain_is_searched_once() {
    for level in LEVELS {
        let counted = Counted::new(&GRID);
        let judge = Judge::new(Arc::clone(&counted) as _);
        let far = Gsi::new(&proxy(), judge).unwrap().level(level);
        let near = layer(&proxy()).level(level);
        for turn in 1..=2 {
            let (near, far) = shake(&near, &far).await;
            assert!(near.is_ok() && far.is_ok());
            assert_eq!(counted.count(), turn, "{level:?}");
        }
    }
}

/// A peer chooses the cost of its certificates, which others do not wait for.
#[tokio::test]
async fn the_reactor_goes_on_while_a_chain_is_checked() {
    for level in LEVELS {
        for connects in [false, true] {
            let (judge, other) = Slow::judge(&GRID);
            let slow = Gsi::new(&proxy(), judge).unwrap().level(level);
            let quick = layer(&proxy()).level(level);
            let (near, far) = match connects {
                true => (&slow, &quick),
                false => (&quick, &slow),
            };
            tokio::select! {
                (near, far) = shake(near, far) => {
                    let (near, far) = (near.err(), far.err());
                    assert!(near.is_none() && far.is_none(), "{level:?}: {near:?} {far:?}");
                }
                () = other => panic!("the judge is gone"),
            }
        }
    }
}

/// Reads a handshake of `PROT C` of a peer that sends clear bytes right behind it, in one segment.
///
/// The peer is a channel of `grid-security` without a stream, so that the test chooses segments.
async fn with_bytes_behind(versions: Versions, connects: bool) -> Vec<u8> {
    let (near, mut peer) = Mem::new().pair();
    let user = GRID.user("Alice Lab");
    let tls = judge(versions).tls();
    let mut channel = match connects {
        true => {
            let config = Arc::new(tls.data_server(&user).unwrap());
            DataChannel::respond(config, Mode::Gsi)
        }
        false => {
            let config = Arc::new(tls.client(Some(&user)).unwrap());
            DataChannel::initiate(config, unnamed(), Mode::Gsi)
        }
    }
    .unwrap();
    let own = layer(&user).level(Level::Clear);
    let to = target();
    let (opened, ()) = tokio::join!(
        async {
            match connects {
                true => own.initiate(near, &to).await,
                false => own.respond(near).await,
            }
        },
        async {
            loop {
                let mut segment = channel.take_output();
                if channel.is_open() {
                    segment.extend_from_slice(b"\x08clear bytes");
                }
                peer.write_all(&segment).await.unwrap();
                if channel.is_open() {
                    return;
                }
                channel
                    .receive(&mut record(&mut peer).await.unwrap())
                    .unwrap();
            }
        }
    );
    let mut read = vec![0; 12];
    opened.unwrap().read_exact(&mut read).await.unwrap();
    read
}

/// Trap 3 of Grid security.
#[tokio::test]
async fn clear_bytes_behind_the_tail_are_not_lost() {
    for versions in [Versions::Tls12, Versions::Tls13] {
        for connects in [false, true] {
            let read = with_bytes_behind(versions, connects).await;
            assert_eq!(read, b"\x08clear bytes", "{versions:?} {connects}");
        }
    }
}

/// Trap 12 of Grid security: the Globus programs send no close-notify.
#[tokio::test]
async fn the_end_below_is_the_end() {
    let alice = layer(&proxy());
    let (mut near, far) = Mem::new().pair();
    let peer = async {
        let config = client(&alice.judge.tls(), &alice.credential).unwrap();
        let mut channel = DataChannel::initiate(config, unnamed(), Mode::Plain).unwrap();
        while !channel.is_open() {
            near.write_all(&channel.take_output()).await.unwrap();
            channel
                .receive(&mut record(&mut near).await.unwrap())
                .unwrap();
        }
        near.write_all(&channel.take_output()).await.unwrap();
        let mut connection = channel.into_connection();
        connection.writer().write_all(b"block").unwrap();
        let mut bytes = Vec::new();
        connection.write_tls(&mut bytes).unwrap();
        near.write_all(&bytes).await.unwrap();
        near.shutdown().await.unwrap();
        near
    };
    let (_near, far) = tokio::join!(peer, async {
        let mut far = alice.respond(far).await.unwrap();
        let mut text = Vec::new();
        far.read_to_end(&mut text).await.unwrap();
        text
    });
    assert_eq!(far, b"block");
}

/// Trap 1 of Grid security: the name of a person in the greeting, which rustls would refuse.
#[tokio::test]
async fn names_of_persons_in_the_greeting_are_no_obstacle() {
    for versions in [Versions::Tls12, Versions::Tls13] {
        for level in LEVELS {
            let user = GRID.user("Alice Lab");
            let config = Arc::new(judge(versions).tls().client(Some(&user)).unwrap());
            let name = ServerName::try_from("alice-lab").unwrap();
            let mut channel = DataChannel::initiate(config, name, Mode::Plain).unwrap();
            let mut hello = channel.take_output();
            let place = hello.windows(9).position(|part| part == b"alice-lab");
            hello[place.unwrap() + 5] = b' ';
            let (mut near, far) = Mem::new().pair();
            let far_end = layer(&user).level(level);
            let answer = async {
                near.write_all(&hello).await.unwrap();
                let answer = record(&mut near).await.unwrap();
                drop(near);
                answer
            };
            let (answer, _) = tokio::join!(answer, far_end.respond(far));
            // A message of the handshake, and no alert.
            assert_eq!(answer[0], 22, "{versions:?} {level:?}");
        }
    }
}

/// Identities are compared after the handshake, by both ends.
#[tokio::test]
async fn another_identity_is_refused() {
    for level in LEVELS {
        let alice = layer(&proxy()).level(level);
        let bob = layer(&GRID.user("Bob Lab")).level(level);
        let (near, far) = shake(&alice, &bob).await;
        for refused in [near, far] {
            let error = refused.unwrap_err().to_string();
            assert!(
                error.contains("the peer authenticated as /O=Grid/OU=Lab/CN=")
                    || error.contains("ended in the middle"),
                "{level:?}: {error}"
            );
        }
        let named = |name: &str| Expect::Subject(format!("/O=Grid/OU=Lab/CN={name}"));
        let near = alice.clone().expect(named("Bob Lab"));
        let far = bob.clone().expect(named("Alice Lab"));
        let (near, far) = shake(&near, &far).await;
        assert!(near.is_ok() && far.is_ok(), "{level:?}");
        // The comparison is exact, and not of the proxy's own name.
        let far = bob.clone().expect(named("alice lab"));
        let (_, far) = shake(&alice.clone().expect(Expect::Any), &far).await;
        let error = far.unwrap_err().to_string();
        assert!(error.ends_with("CN=alice lab"), "{error}");
    }
}

#[tokio::test]
async fn hosts_are_known_to_the_end_that_connects() {
    let host = GRID.host(&["dtn.example.org"]);
    for level in LEVELS {
        let near = layer(&proxy()).level(level).expect(Expect::Host);
        let far = layer(&host).level(level).expect(Expect::Any);
        let (opened, far) = shake(&near, &far).await;
        assert!(opened.is_ok() && far.is_ok(), "{level:?}");
        let wrong = layer(&GRID.host(&["other.example.org"])).level(level);
        let (refused, _) = shake(&near, &wrong.expect(Expect::Any)).await;
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("not dtn.example.org"), "{error}");
    }
    let near = layer(&proxy()).expect(Expect::Host);
    let error = near.respond(Mem::new().pair().0).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[tokio::test]
async fn bad_certificates_are_refused_with_the_rule() {
    let other = Grid::named("Other CA");
    for level in LEVELS {
        for (bad, rule) in [
            (GRID.issue("Alice Lab", &[], Validity::Expired), "expired"),
            (
                GRID.issue("Alice Lab", &[], Validity::NotYet),
                "set the clock",
            ),
            (other.user("Alice Lab"), "is unknown"),
        ] {
            let bad = layer(&bad).level(level);
            let good = layer(&proxy()).level(level);
            for (near, far, at) in [(&bad, &good, 1), (&good, &bad, 0)] {
                let (near, far) = shake(near, far).await;
                let refused = if at == 0 { near } else { far };
                let error = refused.unwrap_err().to_string();
                assert!(error.contains(rule), "{level:?}: {error}");
            }
        }
    }
}

#[tokio::test]
async fn a_peer_without_a_certificate_is_refused() {
    for level in LEVELS {
        let tls = judge(Versions::All).tls();
        let anonymous = Arc::new(tls.client(None).unwrap());
        let far = layer(&proxy()).level(level).expect(Expect::Any);
        let error = greet(anonymous, far, level).await.unwrap_err();
        assert!(error.contains("certificate"), "{level:?}: {error}");
    }
}

#[tokio::test]
async fn other_protocols_are_named() {
    for level in LEVELS {
        let (near, mut peer) = Mem::new().pair();
        peer.write_all(b"\0\0\0\x10 MODE E block").await.unwrap();
        peer.shutdown().await.unwrap();
        let error = layer(&proxy()).level(level).respond(near).await;
        let error = error.unwrap_err().to_string();
        assert!(error.contains("TLS"), "{level:?}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_peer_is_given_up() {
    for level in LEVELS {
        let (near, peer) = Mem::new().pair();
        let error = layer(&proxy()).level(level).respond(near).await;
        assert_eq!(error.unwrap_err().kind(), ErrorKind::TimedOut);
        drop(peer);
    }
}

/// A credential of `DCSC` brings its own anchor.
#[tokio::test]
async fn a_credential_may_bring_its_own_authority() {
    let other = Grid::named("Other CA");
    let user = other.user("Mallory");
    let mut chain = user.chain().to_vec();
    chain.push(other.root().clone());
    let own = Credential::new(chain, user.key().clone()).unwrap();
    for level in LEVELS {
        let judge = Judge::with_chain(&directory(), own.chain()).unwrap();
        let trusting = Gsi::new(&own, judge).unwrap().level(level);
        let (near, far) = shake(&trusting, &trusting).await;
        assert!(near.is_ok() && far.is_ok(), "{level:?}");
    }
}

/// Reads exactly one record.
async fn record(stream: &mut MemHandle) -> std::io::Result<Vec<u8>> {
    let mut record = vec![0; 5];
    stream.read_exact(&mut record).await?;
    let length = gsi::exchange::record_length(&record).unwrap().unwrap();
    record.resize(length, 0);
    stream.read_exact(&mut record[5..]).await?;
    Ok(record)
}

/// Connects with a configuration of the test, which tells the name of a person.
async fn greet(config: Arc<ClientConfig>, far: Gsi, level: Level) -> Result<(), String> {
    let (mut near, server) = Mem::new().pair();
    let opened = async {
        let opened = far.respond(server).await;
        opened.map(drop).map_err(|error| error.to_string())
    };
    let peer = async {
        let name = ServerName::try_from("alice-lab").unwrap();
        let mode = match level {
            Level::Clear => Mode::Gsi,
            _ => Mode::Plain,
        };
        let mut channel = DataChannel::initiate(config, name, mode).unwrap();
        loop {
            let output = channel.take_output();
            let _ = near.write_all(&output).await;
            if channel.is_open() {
                break;
            }
            let received = record(&mut near).await;
            if !received.is_ok_and(|mut record| channel.receive(&mut record).is_ok()) {
                break;
            }
        }
        // The other end may still send an alert.
        let mut rest = Vec::new();
        let _ = near.shutdown().await;
        let _ = near.read_to_end(&mut rest).await;
    };
    let (opened, ()) = tokio::join!(opened, peer);
    opened
}

//! Both ends of a control channel over memory.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use base64ct::{Base64, Encoding};
use gsi::certificate::ProxyRights;
use gsi::exchange::Delegation;
use gsi::host::{Expected, Host};
use gsi::proxy::ProxyOptions;
use gsi::tls::Versions;
use gsi::trust::TrustOptions;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::time::Instant;
use xio_testkit::{Grid, Mem, MemHandle, Validity};

use super::*;
use crate::trust::tests::{Counted, Slow};
use crate::{GridMapFile, GsiInfo, Judge, KeyPool, TrustDirectory};

static GRID: LazyLock<Grid> = LazyLock::new(Grid::new);
static KEYS: LazyLock<Arc<KeyPool>> = LazyLock::new(|| Arc::new(KeyPool::new(1).unwrap()));

fn judge(versions: Versions) -> Judge {
    let trust = TrustDirectory::open(GRID.certificates(), TrustOptions::default()).unwrap();
    Judge::from(Arc::new(trust)).versions(versions)
}

fn proxy() -> Credential {
    GRID.proxy(&GRID.user("Alice Lab"), &ProxyOptions::default())
}

fn acceptor(versions: Versions) -> GssapiAcceptor {
    let host = GRID.host(&["localhost", "127.0.0.1"]);
    GssapiAcceptor::new(&host, judge(versions), Arc::clone(&KEYS)).unwrap()
}

fn initiator(credential: Credential) -> GssapiInitiator {
    GssapiInitiator::new(credential, judge(Versions::All)).unwrap()
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

fn localhost() -> Expected {
    Expected::Host(Host::new("localhost"))
}

type Ends = (
    Result<Established<MemHandle>, Refused<MemHandle>>,
    Result<Established<MemHandle>, Refused<MemHandle>>,
);

async fn shake(near: &GssapiInitiator, far: &GssapiAcceptor, expected: Expected) -> Ends {
    let (client, server) = Mem::new().pair();
    tokio::join!(
        async {
            let shaken = near.initiate(client, "localhost", expected, soon()).await;
            // A refused server reads the end.
            shaken.map_err(|mut refused| {
                let (aside, _) = Mem::new().pair();
                refused.stream = aside;
                refused
            })
        },
        far.accept(server, soon())
    )
}

async fn open() -> (GssapiStream<MemHandle>, GssapiStream<MemHandle>) {
    let far = acceptor(Versions::All);
    let (near, far) = shake(&initiator(proxy()), &far, localhost()).await;
    (near.unwrap().stream, far.unwrap().stream)
}

/// A stranger chooses the cost of its certificates, which other sessions do not wait for.
#[tokio::test]
async fn the_reactor_goes_on_while_a_chain_is_checked() {
    let (judge, other) = Slow::judge(&GRID);
    let host = GRID.host(&["localhost"]);
    let far = GssapiAcceptor::new(&host, judge, Arc::clone(&KEYS)).unwrap();
    let near = initiator(proxy());
    tokio::select! {
        (near, far) = shake(&near, &far, localhost()) => {
            assert!(near.is_ok() && far.is_ok());
        }
        () = other => panic!("the judge is gone"),
    }
}

/// `X509_VHOST_CRED_DIR` of Globus: the name that a client asks for chooses the credential.
#[tokio::test]
async fn a_client_meets_the_credential_for_the_name_that_it_asks_for() {
    let further = [
        &["one.example.org"][..],
        &["*.lab.example.org", "two.example.org"],
        &["own.lab.example.org"],
    ];
    for versions in [Versions::Tls12, Versions::Tls13] {
        let far = acceptor(versions).further_hosts(further.map(|names| GRID.host(names)));
        for (asked, common) in [
            ("one.example.org", "one.example.org"),
            ("TWO.example.org", "*.lab.example.org"),
            ("dtn.lab.example.org", "*.lab.example.org"),
            // A name goes before a wildcard, wherever it stands.
            ("own.lab.example.org", "own.lab.example.org"),
            ("three.example.org", "localhost"),
            ("localhost", "localhost"),
            // It is told to no server, as the names of persons on data channels are not.
            ("127.0.0.1", "localhost"),
            ("Alice Lab", "localhost"),
        ] {
            let subject = format!("/O=Grid/OU=Lab/CN={common}");
            let near = initiator(proxy());
            let (client, server) = Mem::new().pair();
            let expected = Expected::Subject(subject.clone());
            let (near, far) = tokio::join!(
                near.initiate(client, asked, expected, soon()),
                far.accept(server, soon())
            );
            assert_eq!(near.unwrap().peer.identity.to_string(), subject, "{asked}");
            let far = far.unwrap();
            assert_eq!(far.own.subject().to_string(), subject, "{asked}");
            assert!(far.delegated.is_some(), "{asked}");
        }
    }
}

/// Traps 2, 4 and 7 of Grid security.
#[tokio::test]
async fn a_client_logs_in_and_delegates() {
    for versions in [Versions::Tls12, Versions::Tls13] {
        for delegation in [Delegation::None, Delegation::Limited, Delegation::Full] {
            let near = initiator(proxy()).delegation(delegation);
            let (near, far) = shake(&near, &acceptor(versions), localhost()).await;
            let (near, far) = (near.unwrap(), far.unwrap());
            assert_eq!(
                near.peer.identity.to_string(),
                "/O=Grid/OU=Lab/CN=localhost"
            );
            assert_eq!(far.peer.identity.to_string(), "/O=Grid/OU=Lab/CN=Alice Lab");
            let delegated = far.delegated.as_ref().map(|credential| {
                let proxy = credential.certificate().proxy().unwrap();
                assert_eq!(credential.identity(), far.peer.identity);
                proxy.rights
            });
            let expected = match delegation {
                Delegation::Limited => Some(ProxyRights::Limited),
                Delegation::Full => Some(ProxyRights::Full),
                _ => None,
            };
            assert_eq!(delegated, expected, "{versions:?}");

            let (mut near, mut far) = (near.stream, far.stream);
            near.write_all(b"USER :globus-mapping:\r\n").await.unwrap();
            near.flush().await.unwrap();
            let mut line = [0; 23];
            far.read_exact(&mut line).await.unwrap();
            assert_eq!(&line, b"USER :globus-mapping:\r\n");
            let info = far.info();
            let peer = info.get::<GsiInfo>().unwrap();
            assert_eq!(peer.identity, "/O=Grid/OU=Lab/CN=Alice Lab");
            assert!(info.chain.contains(&"gssapi".into()));
            assert!(info.security.is_some());
        }
    }
}

/// Keys are dear, so only clients with an account get one.
#[tokio::test]
async fn an_identity_without_a_line_gets_no_key() {
    let line = |common: &str| format!("\"/O=Grid/OU=Lab/CN={common}\" alice,alice2\n");
    let pool = "\"/O=Grid/OU=Lab/CN=Alice Lab\" .pool\n".to_owned();
    for (text, is_mapped) in [
        (line("Alice Lab"), true),
        (pool, true),
        (line("Bob Lab"), false),
    ] {
        let map = GRID.write("grid-mapfile", &text, 0o644);
        let map = Arc::new(GridMapFile::open(map).unwrap());
        let far = acceptor(Versions::All).mapped_by(map);
        let near = initiator(proxy());
        let (near_end, far_end) = shake(&near, &far, localhost()).await;
        if is_mapped {
            assert!(far_end.unwrap().delegated.is_some());
            continue;
        }
        let error = far_end.unwrap_err().error;
        assert!(matches!(error, AdatError::Unmapped(_)), "{error}");
        let told = near_end.unwrap_err().error.to_string();
        let remedy = "add `\"/O=Grid/OU=Lab/CN=Alice Lab\" NAME`";
        assert!(told.contains(remedy), "{told}");
        // Without delegation it is up to the login.
        let near = near.delegation(Delegation::None);
        assert!(shake(&near, &far, localhost()).await.1.is_ok());
    }
}

/// A search for a path costs a stranger's choice of signature checks.
#[tokio::test]
async fn a_chain_is_searched_once() {
    let host = GRID.host(&["localhost"]);
    // The chain of the delegated credential is another one.
    for (delegation, searches) in [(Delegation::None, 1), (Delegation::Limited, 2)] {
        let counted = Counted::new(&GRID);
        let judge = Judge::new(Arc::clone(&counted) as _);
        let far = GssapiAcceptor::new(&host, judge, Arc::clone(&KEYS)).unwrap();
        let near = initiator(proxy()).delegation(delegation);
        for turn in 1..=2 {
            let (_, far) = shake(&near, &far, localhost()).await;
            assert!(far.is_ok(), "{far:?}");
            assert_eq!(counted.count(), turn * searches);
        }
    }
}

/// Serves raw lines to an acceptor, and returns its answers to each.
async fn answers(lines: &[&str]) -> (Vec<String>, Result<(), AdatError>) {
    let (client, server) = Mem::new().pair();
    let acceptor = acceptor(Versions::All);
    let (mut read, mut write) = tokio::io::split(client);
    let script = lines.concat();
    let (told, ended) = tokio::join!(
        async {
            write.write_all(script.as_bytes()).await.unwrap();
            write.shutdown().await.unwrap();
            let mut told = Vec::new();
            let mut lines = BufReader::new(&mut read).lines();
            while let Some(line) = lines.next_line().await.unwrap() {
                told.push(line);
            }
            told
        },
        async {
            match acceptor.accept(server, soon()).await {
                Ok(_) => Ok(()),
                Err(mut refused) => {
                    refused.stream.shutdown().await.unwrap();
                    Err(refused.error)
                }
            }
        }
    );
    (told, ended)
}

#[tokio::test]
async fn other_commands_are_refused_as_gct_does() {
    let (told, ended) = answers(&[
        "USER alice\r\n",
        "ADAT\r\n",
        "AUTH GSSAPI\r\n",
        "ADAT !!!!\r\n",
        "ADAT AA=\r\n",
        "quit\r\n",
    ])
    .await;
    assert_eq!(
        told,
        [
            "530 Must perform GSSAPI authentication.",
            "530 Must perform GSSAPI authentication.",
            "530 Must perform GSSAPI authentication.",
            "530 globus_xio: Error encoding.",
            "530 globus_xio: Error encoding.",
            "211 Goodbye.",
        ]
    );
    assert!(matches!(ended, Err(AdatError::Quit)));

    let (told, ended) = answers(&["NOOP\r\n"; 20]).await;
    assert_eq!(told.len(), 8);
    assert!(matches!(ended, Err(AdatError::Strays(8))));
    let (_, ended) = answers(&["ADA"]).await;
    assert!(matches!(ended, Err(AdatError::Ended)));
}

/// Trap 17 of Grid security: the reason is in the reply, since no alert is sent.
#[tokio::test]
async fn a_broken_exchange_is_refused_with_its_reason() {
    let token = Base64::encode_string(b"GET / HTTP/1.1\r\n\r\n");
    let (told, ended) = answers(&[&format!("ADAT {token}\r\n")]).await;
    assert_eq!(told[0], "530-globus_xio: Authentication Error");
    assert_eq!(told[1], "530-GSS failure: ");
    assert!(told[4].starts_with("530-the token is no TLS"), "{told:?}");
    assert_eq!(told[5..], ["530-", "530 End."]);
    assert!(matches!(ended, Err(AdatError::Exchange(_))));
}

#[tokio::test]
async fn refused_clients_learn_why() {
    let other = Grid::named("Other CA");
    let expired = GRID.issue("Old Lab", &[], Validity::Expired);
    for (credential, reason) in [(expired, "expired"), (other.user("Mallory"), "is unknown")] {
        // It is made without a look at its own time.
        let near = initiator(credential).delegation(Delegation::None);
        let (near, far) = shake(&near, &acceptor(Versions::All), localhost()).await;
        let (near, far) = (near.unwrap_err().to_string(), far.unwrap_err().to_string());
        assert!(far.contains(reason), "{far}");
        assert!(near.contains("the server refused"), "{near}");
        assert!(near.contains(reason), "{near}");
    }
}

#[tokio::test]
async fn nothing_is_delegated_to_another_host() {
    let expected = Expected::Host(Host::new("dtn.example.org"));
    let near = initiator(proxy());
    let (near, far) = shake(&near, &acceptor(Versions::All), expected).await;
    let near = near.unwrap_err().to_string();
    assert!(near.contains("not dtn.example.org"), "{near}");
    let far = far.unwrap_err().error;
    assert!(matches!(far, AdatError::Ended | AdatError::Io(_)), "{far}");
}

#[tokio::test(start_paused = true)]
async fn a_silent_peer_is_given_up() {
    let (client, server) = Mem::new().pair();
    let accepted = acceptor(Versions::All).accept(server, soon()).await;
    assert!(matches!(accepted.unwrap_err().error, AdatError::TimedOut));
    drop(client);
}

#[tokio::test]
async fn a_server_that_accepts_too_early_is_refused() {
    for (reply, says) in [
        ("235 Welcome.\r\n", "before the exchange"),
        ("334 AUTH\r\n", "refused the authentication: 334 AUTH"),
        ("335 ADAT=!!!!\r\n", "no base64"),
        ("335 ADAT=\r\n", "token is empty"),
        (
            "530-No\r\n530-way\r\n530 End.\r\n",
            "530-No / 530-way / 530 End.",
        ),
    ] {
        let (client, mut server) = Mem::new().pair();
        server.write_all(reply.as_bytes()).await.unwrap();
        let near = initiator(proxy());
        let near = near.initiate(client, "localhost", localhost(), soon());
        let error = near.await.unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

/// Trap 4 of Grid security: each line is wrapped separately.
#[tokio::test]
async fn each_line_of_a_reply_is_wrapped() {
    let far = acceptor(Versions::All);
    let (near, far) = shake(&initiator(proxy()), &far, localhost()).await;
    let (mut near, mut far) = (near.unwrap().stream, far.unwrap().stream);
    let reply = b"211-Features:\r\n DCAU\r\n211 is no end\r\n211 End.\r\n226 Done.\r\n";
    // In pieces that are no lines.
    for piece in reply.chunks(7) {
        far.write_all(piece).await.unwrap();
    }
    far.flush().await.unwrap();
    let mut wrapped = Vec::new();
    while wrapped.iter().filter(|byte| **byte == b'\n').count() < 5 {
        let mut byte = [0];
        near.below_mut().read_exact(&mut byte).await.unwrap();
        wrapped.push(byte[0]);
    }
    let text = String::from_utf8(wrapped.clone()).unwrap();
    let marks: Vec<&str> = text.lines().map(|line| &line[..4]).collect();
    assert_eq!(marks, ["632-", "632-", "632 ", "632 ", "632 "]);
}

/// Verbs and codes of protected lines, and their ends, are of many kinds.
#[tokio::test]
async fn lines_are_read_in_any_pieces_and_forms() {
    let (mut near, mut far) = open().await;
    let mut wire = Vec::new();
    for (verb, plain) in [
        ("ENC", "FEAT\r\n"),
        ("MIC", "NOOP"),
        ("conf", "SIZE /a b\r\n\0"),
    ] {
        let token = Base64::encode_string(&near.session_mut().wrap(plain.as_bytes()).unwrap());
        wire.extend_from_slice(format!("{verb} {token}\r\n").as_bytes());
    }
    let read = async {
        let mut text = vec![0; 23];
        far.read_exact(&mut text).await.unwrap();
        text
    };
    let write = async {
        for byte in &wire {
            near.below_mut().write_all(&[*byte]).await.unwrap();
            tokio::task::yield_now().await;
        }
    };
    let (text, ()) = tokio::join!(read, write);
    assert_eq!(text, b"FEAT\r\nNOOP\r\nSIZE /a b\r\n");

    for code in ["631", "632", "633"] {
        let token = Base64::encode_string(&far.session_mut().wrap(b"200 Ok.\r\n").unwrap());
        let line = format!("{code} {token}\r\n");
        far.below_mut().write_all(line.as_bytes()).await.unwrap();
        let mut text = [0; 9];
        near.read_exact(&mut text).await.unwrap();
        assert_eq!(&text, b"200 Ok.\r\n");
    }
    near.shutdown().await.unwrap();
    assert_eq!(far.read(&mut [0; 8]).await.unwrap(), 0);
}

/// Trap 4 of Grid security: a clear line ends the channel.
#[tokio::test]
async fn a_command_in_clear_ends_the_channel() {
    let (mut near, mut far) = open().await;
    near.below_mut().write_all(b"QUIT\r\n").await.unwrap();
    let error = far.read(&mut [0; 8]).await.unwrap_err();
    assert!(error.to_string().contains("in clear"), "{error}");
    let mut reply = [0; 4];
    near.read_exact(&mut reply).await.unwrap();
    assert_eq!(&reply, b"533 ");
    let error = far.write_all(b"200 Ok.\r\n").await.unwrap_err();
    assert!(error.to_string().contains("in clear"), "{error}");

    let (mut near, mut far) = open().await;
    far.below_mut().write_all(b"226 Done.\r\n").await.unwrap();
    let error = near.read(&mut [0; 8]).await.unwrap_err();
    assert!(error.to_string().contains("in clear"), "{error}");
}

/// Trap 4 of Grid security: a box on the way puts a line in clear into
/// the segment of the last token, or of the reply to it.
#[tokio::test]
async fn a_line_injected_behind_the_exchange_is_not_taken_as_protected() {
    for at_the_server in [true, false] {
        let (client, near_box) = Mem::new().pair();
        let (far_box, server) = Mem::new().pair();
        let relay = async {
            let (mut near, mut far) = (BufReader::new(near_box), BufReader::new(far_box));
            for number in 1.. {
                let (mut token, mut answer) = (String::new(), String::new());
                near.read_line(&mut token).await.unwrap();
                if at_the_server && number == 3 {
                    token.push_str("DELE a\r\n");
                }
                far.write_all(token.as_bytes()).await.unwrap();
                far.read_line(&mut answer).await.unwrap();
                let is_last = answer.starts_with("235 ");
                if is_last && !at_the_server {
                    answer.push_str("230 User alice logged in.\r\n");
                }
                near.write_all(answer.as_bytes()).await.unwrap();
                if is_last {
                    break;
                }
            }
            (near, far)
        };
        let acceptor = acceptor(Versions::Tls13);
        let initiator = initiator(proxy()).delegation(Delegation::None);
        let (near, far, _held) = tokio::join!(
            initiator.initiate(client, "localhost", localhost(), soon()),
            acceptor.accept(server, soon()),
            relay
        );
        let (mut near, mut far) = (near.unwrap().stream, far.unwrap().stream);
        let mut text = [0; 64];
        let read = match at_the_server {
            true => far.read(&mut text).await,
            false => near.read(&mut text).await,
        };
        let error = read.unwrap_err();
        assert!(error.to_string().contains("in clear"), "{error}");
    }
}

/// Tokens are good once, in their order, and unchanged.
#[tokio::test]
async fn damaged_and_repeated_tokens_end_the_channel() {
    for changed in [false, true] {
        let (mut near, mut far) = open().await;
        let mut token = near.session_mut().wrap(b"DELE x\r\n").unwrap();
        if changed {
            let last = token.len() - 1;
            token[last] ^= 1;
        }
        let line = format!("ENC {}\r\n", Base64::encode_string(&token)).repeat(2);
        near.below_mut().write_all(line.as_bytes()).await.unwrap();
        let mut text = Vec::new();
        let error = far.read_to_end(&mut text).await.unwrap_err();
        assert_eq!(text, if changed { &b""[..] } else { b"DELE x\r\n" });
        assert!(error.to_string().contains("TLS"), "{error}");
    }
    let (mut near, mut far) = open().await;
    near.below_mut().write_all(b"ENC ****\r\n").await.unwrap();
    let error = far.read(&mut [0; 8]).await.unwrap_err();
    assert!(error.to_string().contains("base64"), "{error}");
}

#[tokio::test]
async fn endless_and_broken_lines_are_no_payload() {
    let (near, mut far) = open().await;
    let (_, mut write) = tokio::io::split(near.into_below());
    let flood = async {
        let _ = write.write_all(&vec![b'x'; 300 * 1024]).await;
    };
    let (_, read) = tokio::join!(flood, async {
        let error = far.read(&mut [0; 8]).await.unwrap_err();
        drop(far);
        error
    });
    assert!(read.to_string().contains("131072 bytes"), "{read}");

    let (mut near, mut far) = open().await;
    near.below_mut().write_all(b"ENC AAAA").await.unwrap();
    near.below_mut().shutdown().await.unwrap();
    let error = far.read(&mut [0; 8]).await.unwrap_err();
    assert!(error.to_string().contains("middle of a line"), "{error}");
}

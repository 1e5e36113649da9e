//! The choice of stripes, and copies through a front end of which a stripe fails.

mod front;

use std::sync::{Arc, Mutex};

use byte_ranges::RangeSet;

use super::*;
use crate::client::scripted;
use crate::{CopyOptions, Location, Observer, Totals, copy};
use front::Front;

fn told(addresses: &[&str]) -> String {
    let lines: String = addresses.iter().map(|at| format!(" {at}\r\n")).collect();
    format!("229-Entering Striped Passive Mode.\r\n{lines}229 End")
}

#[test]
fn a_server_aims_us_at_no_host_that_it_may_not_reach() {
    let peers = ["192.0.2.7", "10.0.0.7", "127.0.0.1", "2001:db8::7"];
    for (peer, at, plausible) in [
        (peers[0], "192.0.2.7:20", true),
        (peers[0], "198.51.100.7:5000", true),
        (peers[0], "198.51.100.7:25", false),
        (peers[0], "10.0.0.7:5000", false),
        (peers[0], "127.0.0.1:5000", false),
        (peers[0], "169.254.1.1:5000", false),
        (peers[1], "10.0.0.8:5000", true),
        (peers[1], "192.0.2.7:5000", true),
        (peers[1], "[::ffff:127.0.0.1]:5000", false),
        (peers[2], "127.0.0.2:5000", true),
        (peers[3], "[fd00::1]:5000", false),
        (peers[3], "[fe80::1]:5000", false),
    ] {
        let (ip, at) = (peer.parse().unwrap(), at.parse().unwrap());
        assert_eq!(is_plausible(ip, at), plausible, "{peer} {at}");
    }
}

#[test]
fn no_host_may_send_to_us_that_the_server_may_not_reach() {
    let nodes =
        ["198.51.100.7:5000", "127.0.0.1:5000", "10.0.0.7:5000"].map(|at| at.parse().unwrap());
    let kept = plausible("192.0.2.7".parse().unwrap(), nodes.to_vec());
    assert_eq!(kept, nodes[..1]);
}

#[test]
fn bytes_are_told_of_several_stripes_over_all_attempts() {
    let perf = |stripe, bytes| Perf::new(0, stripe, bytes, 2);
    let mut all = StripeBytes::default();
    assert_eq!(all.note(&perf(0, 5)), 5);
    assert!(all.told().is_empty());
    assert_eq!(all.note(&perf(1, 7)), 12);
    assert_eq!(all.note(&perf(0, 6)), 13);
    all.begin();
    assert_eq!(all.note(&perf(1, 1)), 1);
    assert_eq!(all.told(), [6, 8]);
    all.note(&perf(u32::MAX, 1));
    assert_eq!(all.told().len(), 2);
}

#[tokio::test]
async fn a_server_without_stripes_is_asked_once() {
    let one = told(&["127,0,0,1,100,1"]);
    let refused = ["MODE E", "SPAS", "PASV", "PASV", "QUIT"];
    let alone = ["MODE E", "SPAS", "PASV", "QUIT"];
    for (spas, expected) in [(one.as_str(), &alone[..]), ("500 what", &refused)] {
        let replies = vec![
            ("MODE", "200 E".to_owned()),
            ("SPAS", spas.to_owned()),
            ("PASV", scripted::passive(1)),
            ("QUIT", "221 bye".to_owned()),
        ];
        let (mut client, server) = scripted::session(replies).await;
        (client.abilities.extended, client.abilities.stripes) = (true, true);
        let using = async {
            for _ in 0..2 {
                let mut width = Width::of_streams(1);
                if client.path_facts_to().may_stripe {
                    width.stripes = NonZero::<u32>::MAX;
                }
                client.set_up_push(width).await.unwrap();
            }
            client.close().await;
        };
        let ((), received) = tokio::join!(using, server);
        assert_eq!(received, expected, "{spas}");
    }
}

#[tokio::test]
async fn data_nodes_serve_transfers_with_a_single_address() {
    let replies = vec![
        ("MODE", "200 E".to_owned()),
        ("OPTS", "200 well".to_owned()),
        ("SPAS", told(&["127,0,0,12,100,1"])),
        ("PORT", "200 well".to_owned()),
        ("QUIT", "221 bye".to_owned()),
    ];
    let (mut client, server) = scripted::session(replies).await;
    let using = async {
        let node = "127.0.0.12:5000".parse().unwrap();
        assert!(!client.may_listen_at(node), "a server without nodes");
        (client.abilities.extended, client.abilities.nodes) = (true, true);
        assert!(client.may_listen_at(node));
        assert!(!client.may_listen_at("127.0.0.12:25".parse().unwrap()));
        let ahead = client.set_up_pull(Width::of_streams(1), None).await;
        ahead.unwrap().settle().await.unwrap();
        client.close().await;
    };
    let ((), received) = tokio::join!(using, server);
    let [mode, opts, spas, port, _quit] = received.as_slice() else {
        panic!("{received:?}")
    };
    assert_eq!(
        [mode, opts, spas],
        ["MODE E", "OPTS SPAS Command=RETR;", "SPAS"]
    );
    assert!(port.starts_with("PORT "), "{port}");
}

#[tokio::test]
async fn a_bound_on_stripes_is_told_once_and_lifted() {
    let replies = vec![
        ("OPTS", "200 well".to_owned()),
        ("QUIT", "221 bye".to_owned()),
    ];
    let (mut client, server) = scripted::session(replies).await;
    client.abilities.held = true;
    let using = async {
        let most = |n| NonZero::new(n).unwrap();
        for bound in [u32::MAX, 2, 2, u32::MAX] {
            client.limit_stripes(most(bound));
        }
        client.close().await;
    };
    let ((), received) = tokio::join!(using, server);
    let told = ["Stripes=2;", "Stripes=4294967295;"].map(|text| format!("OPTS SPAS {text}"));
    assert_eq!(received.split_last().unwrap().1, told);
}

#[tokio::test]
async fn stripes_connect_to_one_port() {
    let replies = vec![
        ("MODE", "200 E".to_owned()),
        ("OPTS", "200 well".to_owned()),
        (
            "SPAS",
            told(&["127,0,0,1,100,1", "127,0,0,1,100,2", "127,0,0,1,100,3"]),
        ),
        ("SPOR", "200 well".to_owned()),
        ("QUIT", "221 bye".to_owned()),
    ];
    let (mut client, server) = scripted::session(replies).await;
    (client.abilities.extended, client.abilities.stripes) = (true, true);
    let using = async {
        let width = Width {
            stripes: NonZero::new(2).unwrap(),
            ..Width::of_streams(4)
        };
        let layout = Some(Layout::Partitioned);
        let ahead = client.set_up_pull(width, layout).await.unwrap();
        ahead.settle().await.unwrap();
        assert_eq!(client.state.sending, NonZero::new(2));
        client.close().await;
    };
    let ((), received) = tokio::join!(using, server);
    let [mode, opts @ .., spas, spor, _quit] = received.as_slice() else {
        panic!("{received:?}")
    };
    assert_eq!((mode.as_str(), spas.as_str()), ("MODE E", "SPAS"));
    let told = [
        "Parallelism=4,4,4;",
        "StripeLayout=Partitioned;",
        "Markers=5;",
    ];
    assert_eq!(opts, told.map(|text| format!("OPTS RETR {text}")));
    let ports: Vec<_> = spor.split(' ').skip(1).collect();
    assert!(ports.len() == 2 && ports[0] == ports[1], "{spor}");
}

/// Notes the bytes of each stripe of a finished copy.
#[derive(Default)]
struct Noted(Mutex<Vec<u64>>);

impl Observer for Noted {
    fn event(&self, event: &crate::Event<'_>) {
        if let crate::Event::Finished { stripes, .. } = event {
            *self.0.lock().unwrap() = stripes.to_vec();
        }
    }
}

/// Copies one file without any pause between attempts but one that the test would not survive;
/// returns the bytes of each stripe.
async fn copy_at_once(from: &str, to: &str) -> Vec<u64> {
    let options = CopyOptions {
        backoff: Duration::from_secs(60),
        retries: 1,
        parallel: Some(2),
        ..CopyOptions::default()
    };
    let noted = Arc::new(Noted::default());
    let (from, to) = (
        [Location::parse(from).unwrap()],
        Location::parse(to).unwrap(),
    );
    let totals = Arc::new(Totals::default());
    let copied = copy(&from, &to, options, Arc::clone(&noted) as _, totals);
    let limit = Duration::from_secs(25);
    let summary = tokio::time::timeout(limit, copied).await.unwrap().unwrap();
    assert_eq!(summary.counts.files_done, 1);
    noted.0.lock().unwrap().clone()
}

#[tokio::test]
async fn an_upload_resumes_at_once_when_a_stripe_fails() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, front::content()).unwrap();
    let front = Front::start().await;
    let stripes = copy_at_once(file.to_str().unwrap(), &front.url()).await;
    let seen = front.seen();
    let [first, second] = seen.moved.as_slice() else {
        panic!("{:?}", seen.moved)
    };
    // Both attempts dealt blocks to both stripes, and no byte that was safe came again.
    for attempt in [first, second] {
        assert!(
            attempt.iter().all(|stripe| !stripe.is_empty()),
            "{attempt:?}"
        );
    }
    let of = |stripes: &[RangeSet]| -> RangeSet { stripes.iter().flatten().collect() };
    assert_eq!(seen.rest, [of(first)]);
    assert!(of(first).intersect(&of(second)).is_empty());
    assert_eq!(of(first).total() + of(second).total(), front::LEN);
    let totals = [0, 1].map(|i: usize| first[i].total() + second[i].total());
    assert_eq!(stripes, totals);
}

#[tokio::test]
async fn a_download_resumes_at_once_when_a_stripe_fails() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    let front = Front::start().await;
    let stripes = copy_at_once(&front.url(), file.to_str().unwrap()).await;
    assert!(
        std::fs::read(&file).unwrap() == front::content(),
        "the copy differs"
    );
    let seen = front.seen();
    assert_eq!(seen.rest.len(), 1);
    let safe = seen.rest[0].total();
    assert!(safe > 0 && safe < front::LEN, "{safe}");
    assert_eq!(stripes.iter().sum::<u64>(), front::LEN + seen.told_twice);
}

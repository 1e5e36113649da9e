//! Stack strings against the registry: refusals and their messages.

use xio_core::{ErrorKind, Passive as _, Target, Transport as _};

fn refused(text: &str) -> (ErrorKind, String) {
    let error = xio::registry().stack(text).expect_err(text);
    (error.kind(), error.to_string())
}

#[test]
fn an_unknown_driver_lists_the_known_ones() {
    let registry = xio::registry();
    let known: Vec<_> = registry.drivers().map(|driver| driver.name()).collect();
    assert!(known.is_sorted() && known.contains(&"tcp"), "{known:?}");
    let (kind, text) = refused("tcp,bogus");
    assert_eq!(kind, ErrorKind::UnknownDriver);
    assert_eq!(
        text,
        format!(
            "stack: plan: no driver `bogus`; available drivers: {}",
            known.join(", ")
        )
    );
}

#[test]
fn an_option_error_names_driver_option_and_accepted_values() {
    let (kind, text) = refused("tcp:bogus=1,count");
    assert_eq!(kind, ErrorKind::BadOption);
    assert!(
        text.starts_with("tcp: plan: no option `bogus`; accepted are ack_timeout, backlog, cc, "),
        "{text}"
    );
    let (kind, text) = refused("tcp:sndbuf=much");
    assert_eq!(kind, ErrorKind::BadOption);
    assert_eq!(
        text,
        "tcp: plan: option sndbuf does not accept \"much\"; it takes bytes, as 4M"
    );
    let (_, text) = refused("tcp,count:x=1");
    assert_eq!(text, "count: plan: no option `x`; this driver takes none");
}

#[test]
fn every_listed_option_is_parsed() {
    // No option accepts this value, so the error shows whether the key was found.
    for driver in crate::everything().drivers() {
        for option in driver.options() {
            let below = if driver.is_base() { "" } else { "mem," };
            let text = format!("{below}{}:{}=%01", driver.name(), option.name);
            let error = crate::everything()
                .stack(&text)
                .expect_err(&text)
                .to_string();
            assert!(
                error.contains(&format!("option {} does not accept", option.name)),
                "{error}"
            );
            assert!(error.contains(option.takes), "{error}");
            assert!(!option.about.is_empty());
        }
    }
}

#[test]
fn a_layer_needs_a_fitting_driver_below() {
    let (kind, text) = refused("count");
    assert_eq!(kind, ErrorKind::BadPlan);
    assert!(
        text.ends_with("`count` needs a driver below it, such as `tcp`"),
        "{text}"
    );
    let (_, text) = refused("tcp,count,tcp");
    assert!(
        text.ends_with("`tcp` stands at the bottom of a stack, not on `count`"),
        "{text}"
    );
    let (_, text) = refused("timeout:all=3");
    assert!(
        text.ends_with("`timeout` needs a driver below it, such as `tcp`"),
        "{text}"
    );
}

#[test]
fn a_restricted_registry_has_no_other_drivers() {
    let small = xio::registry().restrict(&["tcp", "count", "popen"]);
    small.stack("tcp,count").unwrap();
    let error = small.stack("file").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownDriver);
    assert!(
        error.to_string().ends_with("available drivers: count, tcp"),
        "{error}"
    );
    let none = xio::registry().restrict::<&str>(&[]);
    assert!(
        none.stack("tcp")
            .unwrap_err()
            .to_string()
            .ends_with("available drivers: none")
    );
}

/// Options that a peer's string may set, for each driver that it may name. Other options name
/// something of the local machine or are a local decision.
const FOR_PEERS: &[(&str, &str)] = &[
    (
        "compress",
        "block codec gain level smallest strategy threads",
    ),
    ("count", ""),
    ("file", "blocking"),
    ("gsi", "protection"),
    (
        "http",
        "delay_write_header header host length method persistent status version",
    ),
    ("log", "each tag"),
    ("mode_e", "block streams"),
    ("multicast", "ignore_errors p"),
    (
        "ordering",
        "buf_size buffering max_buf_count max_read_count",
    ),
    ("queue", "size"),
    (
        "rate",
        "burst period rate read_burst read_period read_rate write_burst write_period write_rate",
    ),
    (
        "tcp",
        "cc keepalive keepidle lossy nodelay noipv6 pacing rcvbuf sndbuf",
    ),
    ("telnet", ""),
    ("timeout", "accept all close open read write"),
    ("tls", "alpn min resume"),
    ("udp", "dontfrag noipv6 offload rcvbuf sndbuf"),
    (
        "udt",
        "cc fc maxbw mss rcvbuf rendezvous sndbuf udp_rcvbuf udp_sndbuf",
    ),
    ("unix", ""),
    ("verify", "block"),
];

#[test]
fn a_peer_sets_only_the_listed_options() {
    let everybody = xio::registry();
    let names: Vec<_> = everybody.drivers().map(|driver| driver.name()).collect();
    let peers = everybody.restrict(&names);
    for driver in peers.drivers() {
        let options: Vec<_> = driver.options().iter().filter(|opt| !opt.local).collect();
        let options: Vec<_> = options.into_iter().map(|opt| opt.name).collect();
        let listed = FOR_PEERS.iter().find(|(name, _)| *name == driver.name());
        assert_eq!(
            listed.map(|(_, options)| options.split_whitespace().collect()),
            Some(options),
            "{}",
            driver.name()
        );
    }
    let error = peers.stack("tcp,tls:cert=/etc/passwd").unwrap_err();
    assert!(error.to_string().contains("own business"), "{error}");
    let ours = "udt:port=5000;mss=1400,tls:ca=/home/me/ca.pem";
    let told = everybody.for_peer(&ours.parse().unwrap()).unwrap();
    assert_eq!(told.to_string(), "udt:mss=1400,tls");
}

/// A peer's string can make this end allocate a few hundred MiB for one connection at most.
#[test]
fn buffer_sizes_in_strings_are_bounded() {
    for text in [
        "udt:rcvbuf=257M",
        "udt:sndbuf=1G",
        "udt:fc=262145",
        "tcp,queue:size=65M",
        "tcp,ordering:buf_size=16M;max_buf_count=17",
        "tcp,mode_e:block=17M",
        "tcp,mode_e:streams=65",
        "tcp,compress:block=2M",
        "tcp,compress:threads=65",
        "tcp,verify:block=2M",
    ] {
        let error = xio::registry().stack(text).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadOption, "{text}: {error}");
    }
}

#[tokio::test]
async fn listening_on_a_file_is_an_error() {
    let stack = xio::registry().stack("file,count").unwrap();
    assert!(!stack.can_listen());
    let error = stack.listen(&crate::loopback()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(
        error.to_string().starts_with("file,count: listen: "),
        "{error}"
    );
}

#[tokio::test]
async fn a_target_without_a_host_is_an_error_for_tcp() {
    let stack = xio::registry().stack("tcp").unwrap();
    for (target, part) in [
        ("/etc/passwd", "names no host"),
        ("tcp://localhost", "names no port"),
    ] {
        let target: Target = target.parse().unwrap();
        let error = stack.connect(&target).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadTarget);
        assert!(error.to_string().contains(part), "{error}");
    }
}

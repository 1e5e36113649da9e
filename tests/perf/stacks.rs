//! `xio-perf` at both ends over several stacks, in every kind of session.

use xio_testkit::Authority;

use crate::{check, connect, ran, serve, served};

const BYTES: usize = 300_001;

/// Returns the folder of certificates, and stacks of the serving and the connecting end.
fn stacks() -> (tempfile::TempDir, Vec<[String; 2]>) {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("authority of the test");
    let ca = authority.write(folder.path()).display().to_string();
    let host = authority.issue("host", &["localhost"]);
    let host = host.write(folder.path(), "host").display().to_string();
    let alike = [
        "udt",
        "tcp,verify",
        "tcp:nodelay=1,count",
        "udt,compress:codec=lz4",
    ];
    let mut stacks: Vec<_> = alike
        .map(|stack| [stack.to_owned(), stack.to_owned()])
        .into();
    for below in ["tcp", "udt"] {
        stacks.push([
            format!("{below},tls:cert={host}"),
            format!("{below},tls:ca={ca};name=localhost"),
        ]);
    }
    (folder, stacks)
}

/// Runs a session with the flags `part` at both ends, and returns the results of server and client.
fn session([far, near]: &[String; 2], part: &[&str], ask: &[&str]) -> [serde_json::Value; 2] {
    let server = serve(far, part);
    let near = ran(&mut connect(near, server.addr(), &[part, ask].concat()));
    [served(server), near]
}

#[test]
fn bytes_are_counted_where_they_arrive() {
    let (_folder, stacks) = stacks();
    let bytes = BYTES.to_string();
    let ask = ["--bytes", &bytes, "--data", "text"];
    for stack in &stacks {
        let [far, near] = session(stack, &[], &ask);
        check(&far, &stack[0], BYTES);
        assert_eq!(
            (&near["sent"], &far["received"]),
            (&BYTES.into(), &BYTES.into())
        );

        // In reverse the client ends the session.
        let [_, near] = session(stack, &["--reverse"], &ask);
        check(&near, &stack[1], BYTES);
        assert_eq!(near["received"], BYTES, "{near}");
    }
}

#[test]
fn write_only_targets_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f");
    for stack in ["file:flags=w", "file:flags=w,verify"] {
        let result = ran(&mut connect(stack, path.display(), &["--bytes", "300001"]));
        assert_eq!(result["sent"], BYTES, "{result}");
        let stored = std::fs::metadata(&path).unwrap().len();
        assert!(stored >= 300_001, "{stack}: {stored} bytes");
    }
}

#[test]
fn a_finished_receiver_notifies_its_peer() {
    let stack = ["udt".to_owned(), "udt".to_owned()];
    // Many at a time, so that some processes exit while others have the processors.
    std::thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| {
                let [far, _] = session(&stack, &["--reverse"], &["--bytes", "300001"]);
                // Without a shutdown packet the peer waits for three quarters of a minute.
                assert!(far["seconds"].as_f64().unwrap() < 30.0, "{far}");
            });
        }
    });
}

#[test]
fn both_directions_at_once() {
    let (_folder, stacks) = stacks();
    for stack in &stacks {
        let [far, near] = session(
            stack,
            &["--both", "--bytes", "200000"],
            &["--interval", "0.05"],
        );
        for result in [far, near] {
            assert_eq!(
                (&result["sent"], &result["received"]),
                (&200_000.into(), &200_000.into())
            );
        }
    }
}

#[test]
fn parallel_connections() {
    let (_folder, stacks) = stacks();
    for stack in &stacks {
        let bytes = BYTES.to_string();
        let [far, _] = session(stack, &[], &["--streams", "3", "--bytes", &bytes]);
        assert_eq!(
            (&far["received"], &far["streams"]),
            (&BYTES.into(), &3.into())
        );
    }
}

#[test]
fn round_trips_are_timed() {
    let (_folder, stacks) = stacks();
    for stack in &stacks {
        let ask = ["--bytes", "5000", "--block-size", "50"];
        let [_, near] = session(stack, &["--ping"], &ask);
        let latency = &near["latency_seconds"];
        assert_eq!(latency["turns"], 100, "{near}");
        assert!(latency["p50"].as_f64() > Some(0.0), "{near}");
    }
}

#[test]
fn a_time_limit_ends_a_session() {
    let (_folder, stacks) = stacks();
    for stack in &stacks {
        let [far, near] = session(stack, &[], &["--time", "0.2"]);
        assert!(near["seconds"].as_f64() >= Some(0.2), "{near}");
        assert_eq!(near["sent"], far["received"]);
        assert!(far["received"].as_u64() > Some(0), "{far}");
    }
}

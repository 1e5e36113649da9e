//! Programs that succeed, fail, print too much and are killed.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

async fn start(options: PopenOptions) -> PopenHandle {
    let to = Target::file("unused");
    Popen::new()
        .with_options(options)
        .connect(&to)
        .await
        .unwrap()
}

fn shell(script: &str) -> PopenOptions {
    PopenOptions::default().argv(["/bin/sh", "-c", script].map(str::to_owned))
}

#[tokio::test]
async fn a_megabyte_goes_through_and_back() {
    let handle = start(PopenOptions::default().argv(["/bin/cat".to_owned()])).await;
    let bytes: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 251) as u8).collect();
    let (mut output, mut input) = tokio::io::split(handle);
    let mut back = Vec::new();
    let (sent, read) = tokio::join!(
        async {
            input.write_all(&bytes).await?;
            input.shutdown().await
        },
        output.read_to_end(&mut back)
    );
    sent.unwrap();
    read.unwrap();
    assert!(back == bytes);
    for _ in 0..2 {
        assert_eq!(output.read(&mut [0; 9]).await.unwrap(), 0);
        input.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn a_failing_program_is_named_with_its_last_words() {
    let script = "echo some; i=0; while [ $i -lt 5000 ]; do echo noise $i >&2; i=$((i+1)); done; \
                  echo 'the reason' >&2; exit 3";
    let mut handle = start(shell(script)).await;
    handle.shutdown().await.unwrap();
    let mut bytes = Vec::new();
    let error = handle
        .read_to_end(&mut bytes)
        .await
        .unwrap_err()
        .to_string();
    assert_eq!(
        bytes,
        b"some
"
    );
    assert!(
        error.starts_with("popen: read: `/bin/sh` ended with exit status: 3 and said: "),
        "{error}"
    );
    assert!(error.ends_with("the reason"), "{error}");
    assert!(error.len() < 2 * 2048 + 200, "{} bytes of it", error.len());
    // The failure is repeated, also by closing.
    assert!(handle.read(&mut [0; 9]).await.is_err());
    assert!(handle.shutdown().await.is_err());
}

#[tokio::test]
async fn a_status_is_ignored_on_demand() {
    let mut options = shell("echo some; exit 3");
    options.ignore_errors = true;
    let mut handle = start(options).await;
    let mut text = String::new();
    handle.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "some\n");
}

#[tokio::test]
async fn a_killed_program_has_failed() {
    let mut handle = start(shell("kill -9 $$")).await;
    let error = handle.read_u8().await.unwrap_err().to_string();
    assert!(error.contains("signal: 9"), "{error}");
}

#[tokio::test]
async fn variables_are_those_asked_for() {
    for (pass_env, expected) in [(false, "1 "), (true, "1 set")] {
        let mut options = shell("printf '%s %s' \"$A\" \"${CARGO_MANIFEST_DIR:+set}\"");
        options.env = vec![("A".into(), "1".into())];
        options.pass_env = pass_env;
        let mut text = String::new();
        start(options)
            .await
            .read_to_string(&mut text)
            .await
            .unwrap();
        assert_eq!(text, expected);
    }
}

#[tokio::test]
async fn dropping_kills_and_shutting_down_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    for shut in [false, true] {
        let fifo = fifo.with_extension(shut.to_string());
        make_fifo(&fifo);
        // The program holds the other end of the fifo open as long as it lives.
        let script = format!(
            "exec 3>{0}; echo up; cat >/dev/null; printf done >&3",
            fifo.display()
        );
        let mut handle = start(shell(&script)).await;
        let mut watch = tokio::net::unix::pipe::OpenOptions::new()
            .open_receiver(&fifo)
            .unwrap();
        let mut up = [0; 3];
        handle.read_exact(&mut up).await.unwrap();
        if shut {
            handle.shutdown().await.unwrap();
        }
        drop(handle);
        let mut last = String::new();
        let ended = tokio::time::timeout(Duration::from_secs(20), watch.read_to_string(&mut last));
        ended.await.expect("the program is gone").unwrap();
        assert_eq!(last, if shut { "done" } else { "" });
    }
}

/// The runtime does not run in between: a killed program must not first see an end.
#[tokio::test]
async fn children_of_a_program_are_killed_with_it_and_at_once() {
    let folder = tempfile::tempdir().unwrap();
    for (n, rest) in ["cat; printf done >&3", "{ cat; printf done >&3; } | cat"]
        .iter()
        .enumerate()
    {
        let fifo = folder.path().join(n.to_string());
        make_fifo(&fifo);
        let script = format!("exec 3>{}; echo up; {rest}", fifo.display());
        let mut handle = start(shell(&script)).await;
        let opening = tokio::task::spawn_blocking(move || std::fs::File::open(fifo).unwrap());
        handle.read_exact(&mut [0; 3]).await.unwrap();
        let mut watch = opening.await.unwrap();
        drop(handle);
        let mut last = String::new();
        io::Read::read_to_string(&mut watch, &mut last).unwrap();
        assert_eq!(last, "", "{rest}");
    }
}

#[test]
fn a_program_that_was_let_finish_outlives_the_runtime() {
    let folder = tempfile::tempdir().unwrap();
    let (fifo, gate) = (folder.path().join("fifo"), folder.path().join("gate"));
    make_fifo(&fifo);
    make_fifo(&gate);
    let script = format!(
        "exec 3>{}; echo up; cat >/dev/null; read line <{}; printf done >&3",
        fifo.display(),
        gate.display()
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let opening = std::thread::spawn(move || std::fs::File::open(fifo).unwrap());
    runtime.block_on(async {
        let mut handle = start(shell(&script)).await;
        handle.read_exact(&mut [0; 3]).await.unwrap();
        handle.shutdown().await.unwrap();
    });
    drop(runtime);
    // Open both ways, so that it neither waits for the program nor ends before it has read.
    let mut gate = std::fs::File::options()
        .read(true)
        .write(true)
        .open(gate)
        .unwrap();
    io::Write::write_all(&mut gate, b"go\n").unwrap();
    let mut last = String::new();
    let mut watch = opening.join().unwrap();
    io::Read::read_to_string(&mut watch, &mut last).unwrap();
    assert_eq!(last, "done");
}

fn make_fifo(path: &std::path::Path) {
    let made = std::process::Command::new("mkfifo")
        .arg(path)
        .status()
        .unwrap();
    assert!(made.success());
}

#[tokio::test]
async fn the_contact_may_be_the_program() {
    let mut handle = Popen::default()
        .connect(&Target::file("/bin/pwd"))
        .await
        .unwrap();
    let mut text = String::new();
    handle.read_to_string(&mut text).await.unwrap();
    assert!(text.starts_with('/'), "{text}");
    for (bad, kind) in [
        ("host:1", ErrorKind::BadTarget),
        ("/no/such/program", ErrorKind::NotFound),
        ("/etc/passwd", ErrorKind::Denied),
    ] {
        let error = Popen::default()
            .connect(&bad.parse().unwrap())
            .await
            .unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(bad), "{error}");
    }
}

#[test]
fn a_peer_never_gets_it() {
    let mut registry = xio_core::Registry::new();
    registry.register(driver());
    registry.stack("popen:argv=#/bin/cat").unwrap();
    assert!(registry.restrict(&["popen"]).stack("popen").is_err());
}

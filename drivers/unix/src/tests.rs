//! Paths and names: replacement, removal and permissions.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use xio_core::ErrorKind;

use super::*;

fn target(path: &Path) -> Target {
    Target::file(path.to_str().unwrap())
}

async fn greets(unix: Unix, listener: &mut UnixPassive, to: &Target) {
    let mut near = unix.connect(to).await.unwrap();
    let mut far = listener.accept().await.unwrap().open().await.unwrap();
    near.write_all(b"hi").await.unwrap();
    near.shutdown().await.unwrap();
    let mut text = String::new();
    far.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "hi");
}

#[tokio::test]
async fn a_path_has_the_given_mode_and_is_removed_with_its_listener() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let unix = Unix::new().with_options("mode=0640".parse().unwrap());
    let mut listener = unix.listen(&target(&path)).await.unwrap();
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o640);
    let contact = listener.info().contact().unwrap();
    greets(unix, &mut listener, &contact).await;
    drop(listener);
    assert!(!path.exists());
    let error = unix.connect(&target(&path)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
}

#[tokio::test]
async fn only_a_socket_without_a_listener_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let unix = Unix::default();
    let stale = folder.path().join("stale");
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    let mut listener = unix.listen(&target(&stale)).await.unwrap();
    let error = unix.listen(&target(&stale)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddressInUse);
    assert!(
        error.to_string().ends_with("the path has a listener"),
        "{error}"
    );
    greets(unix, &mut listener, &target(&stale)).await;

    let file = folder.path().join("file");
    fs::write(&file, "precious").unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&stale, &link).unwrap();
    for other in [&file, &link] {
        let error = unix.listen(&target(other)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddressInUse, "{error}");
        assert!(error.to_string().contains("is not a socket"), "{error}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
}

#[tokio::test]
async fn a_listener_leaves_a_path_that_is_no_longer_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let listener = Unix::default().listen(&target(&path)).await.unwrap();
    fs::remove_file(&path).unwrap();
    fs::write(&path, "another's").unwrap();
    drop(listener);
    assert_eq!(fs::read_to_string(&path).unwrap(), "another's");
}

#[tokio::test]
async fn names_need_no_file_system() {
    let unix = Unix::default();
    let mut free = unix.listen(&"unix://".parse().unwrap()).await.unwrap();
    let contact = free.info().contact().unwrap();
    let text = contact.to_string();
    assert!(text.starts_with("file:@"), "{text}");
    greets(unix, &mut free, &text.parse().unwrap()).await;

    let name: Target = format!("@xio-unix-{}", std::process::id()).parse().unwrap();
    let mut named = unix.listen(&name).await.unwrap();
    greets(unix, &mut named, &name).await;
    let error = unix.listen(&name).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddressInUse, "{error}");
    drop(named);
    assert_eq!(
        unix.connect(&name).await.unwrap_err().kind(),
        ErrorKind::Refused
    );
}

#[tokio::test]
async fn invalid_contacts_are_refused() {
    for bad in [
        "127.0.0.1:80",
        "unix://host/path",
        "unix://",
        "@",
        "http://x/y",
    ] {
        let error = Unix::default()
            .connect(&bad.parse().unwrap())
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadTarget, "{bad}: {error}");
    }
    let long = format!("/{}", "x".repeat(200)).parse().unwrap();
    assert!(Unix::default().connect(&long).await.is_err());
    for bad in ["mode=8", "mode=1777", "mode=", "mode=+7"] {
        assert!(bad.parse::<UnixOptions>().is_err(), "{bad}");
    }
    let options: UnixOptions = "mode=600".parse().unwrap();
    assert_eq!(options.to_string(), "mode=0600");
}

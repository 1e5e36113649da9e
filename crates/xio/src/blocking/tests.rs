//! The blocking facade: over sockets, over files, between threads, and where it must refuse.

use std::io::ErrorKind as IoKind;
use std::thread;

use super::*;

#[test]
fn many_peers_at_once_share_one_listener() {
    let mut listener = listen("tcp,count", "127.0.0.1:0").unwrap();
    let place = listener.info().local.unwrap().to_string();
    let server = thread::spawn(move || {
        let mut echoes = Vec::new();
        for _ in 0..4 {
            let mut peer = listener.accept().unwrap();
            echoes.push(thread::spawn(move || {
                let mut bytes = Vec::new();
                peer.read_to_end(&mut bytes).unwrap();
                peer.write_all(&bytes).unwrap();
                peer.close().unwrap();
            }));
        }
        echoes.into_iter().for_each(|echo| echo.join().unwrap());
    });
    let clients: Vec<_> = (0..4_u8)
        .map(|id| {
            let place = place.clone();
            thread::spawn(move || {
                let sent = vec![id; 100_000];
                let mut handle = open("tcp,timeout:all=20", &place).unwrap();
                handle.write_all(&sent).unwrap();
                handle.shutdown().unwrap();
                let mut bytes = Vec::new();
                handle.read_to_end(&mut bytes).unwrap();
                assert!(bytes == sent);
            })
        })
        .collect();
    clients
        .into_iter()
        .for_each(|client| client.join().unwrap());
    server.join().unwrap();
}

#[test]
fn a_file_is_written_and_read() {
    let folder = tempfile::tempdir().unwrap();
    let contact = format!("file:{}", folder.path().join("a file").display());
    let mut file = open("file:flags=w;mode=0600", &contact).unwrap();
    let slices = [IoSlice::new(b"some "), IoSlice::new(b"bytes")];
    let n = file.write_vectored(&slices).unwrap();
    file.write_all(&b"some bytes"[n..]).unwrap();
    file.flush().unwrap();
    file.close().unwrap();
    let mut text = String::new();
    open("file:offset=5", &contact)
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(text, "bytes");
}

#[test]
fn dropping_is_an_abort() {
    let mut listener = listen("tcp", "127.0.0.1:0").unwrap();
    let place = listener.info().local.unwrap().to_string();
    let mut near = open("tcp", &place).unwrap();
    near.write_all(b"a part").unwrap();
    let mut far = listener.accept().unwrap();
    drop(near);
    let error = far.read_to_end(&mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), IoKind::ConnectionReset);
}

#[test]
fn an_operation_ends_in_its_time() {
    let mut listener = listen("tcp,timeout:accept=0.01", "127.0.0.1:0").unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::TimedOut);
    let place = listener.info().local.unwrap().to_string();
    let mut near = open("tcp,timeout:read=0.01", &place).unwrap();
    assert_eq!(near.read(&mut [0]).unwrap_err().kind(), IoKind::TimedOut);
}

#[test]
fn inside_a_runtime_it_refuses() {
    let mut listener = listen("tcp", "127.0.0.1:0").unwrap();
    let runtime = Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let error = open("tcp", "127.0.0.1:1").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert_eq!(
            listener.accept().unwrap_err().kind(),
            ErrorKind::Unsupported
        );
        // And dropping there is no panic.
        drop(listener);
    });
}

#[test]
fn errors_of_strings_come_through() {
    assert_eq!(
        open("tcpp", "h:1").unwrap_err().kind(),
        ErrorKind::UnknownDriver
    );
    assert_eq!(open("tcp", "h:x").unwrap_err().kind(), ErrorKind::BadTarget);
    assert_eq!(
        open("file", "/no/such/file").unwrap_err().kind(),
        ErrorKind::NotFound
    );
}

//! The blocking facade: over sockets, over files, between threads, and where it must refuse.

use std::io::ErrorKind as IoKind;
use std::thread;

use xio_core::{Observer, Tap, Transform};

use super::*;

#[test]
fn many_peers_at_once_share_one_listener() {
    let listener = listen("tcp,count", "127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = thread::spawn(move || {
        let mut echoes = Vec::new();
        for _ in 0..4 {
            let mut peer = listener.accept().unwrap().open().unwrap();
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
            let address = address.clone();
            thread::spawn(move || {
                let sent = vec![id; 100_000];
                let mut handle = open("tcp,timeout:all=20", &address).unwrap();
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
    let listener = listen("tcp", "127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut near = open("tcp", &address).unwrap();
    near.write_all(b"a part").unwrap();
    let mut far = listener.accept().unwrap().open().unwrap();
    drop(near);
    let error = far.read_to_end(&mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), IoKind::ConnectionReset);
}

#[test]
fn an_operation_ends_in_its_time() {
    let listener = listen("tcp,timeout:accept=0.01", "127.0.0.1:0").unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::TimedOut);
    let address = listener.local_addr().unwrap().to_string();
    let mut near = open("tcp,timeout:read=0.01", &address).unwrap();
    assert_eq!(near.read(&mut [0]).unwrap_err().kind(), IoKind::TimedOut);
}

#[test]
fn inside_a_runtime_it_refuses() {
    let listener = listen("tcp", "127.0.0.1:0").unwrap();
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
fn one_thread_reads_while_another_writes() {
    let listener = listen("tcp", "127.0.0.1:0").unwrap();
    let near = open("tcp", &listener.local_addr().unwrap().to_string()).unwrap();
    let far = listener.accept().unwrap().open().unwrap();
    let echo = thread::spawn(move || {
        // More than the sockets hold, so each end has to read while it writes.
        io::copy(&mut &far, &mut &far).unwrap();
        far.close().unwrap();
    });
    let sent = vec![7; 20 << 20];
    let mut reader = near.clone();
    let reading = thread::spawn(move || {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).unwrap();
        bytes
    });
    (&near).write_all(&sent).unwrap();
    near.shutdown().unwrap();
    assert!(reading.join().unwrap() == sent);
    echo.join().unwrap();
}

/// A layer with a passive end that waits for a byte of the peer before it is open.
struct Greeted;

impl<S: Stream> Transform<S> for Greeted {
    type Handle = S;

    async fn initiate(&self, inner: S, _: &Target) -> Result<S> {
        Ok(inner)
    }

    async fn respond(&self, mut inner: S) -> Result<S> {
        let mut byte = [0];
        let mut buf = ReadBuf::new(&mut byte);
        poll_fn(|cx| Pin::new(&mut inner).poll_read(cx, &mut buf))
            .await
            .map_err(|e| Error::from_io(e, "greeted", Operation::Open))?;
        Ok(inner)
    }

    fn describe(&self, info: &mut Info) {
        info.layer("greeted");
    }
}

/// A layer that starts a timer when it is dropped, as a driver does that shuts down below it then.
#[derive(Clone)]
struct Timed;

impl Drop for Timed {
    fn drop(&mut self) {
        drop(tokio::time::sleep(std::time::Duration::ZERO));
    }
}

impl Observer for Timed {
    fn describe(&self, info: &mut Info) {
        info.layer("timed");
    }
}

impl<S: Stream> Transform<S> for Timed {
    type Handle = Tap<S, Self>;

    async fn respond(&self, inner: S) -> Result<Self::Handle> {
        Ok(Tap::new(inner, self.clone()))
    }

    fn describe(&self, info: &mut Info) {
        info.layer("timed");
    }
}

#[test]
fn a_layer_may_start_a_timer_when_it_is_dropped() {
    for last in ["listener", "peer", "handle"] {
        let stack = DynStack::new(crate::tcp::Tcp::new().push(Timed), "tcp,timed");
        let listener = listen_with(&stack, &"127.0.0.1:0".parse().unwrap()).unwrap();
        // The listener and its peers share the layer: the last of them drops it.
        drop(stack);
        let _near = open("tcp", &listener.local_addr().unwrap().to_string()).unwrap();
        let peer = listener.accept().unwrap();
        match last {
            "listener" => drop((peer, listener)),
            "peer" => drop((listener, peer)),
            _ => drop(peer.open().unwrap()),
        }
    }
}

#[test]
fn accept_waits_for_no_handshake() {
    let stack = DynStack::new(crate::tcp::Tcp::new().push(Greeted), "tcp,greeted");
    let listener = listen_with(&stack, &"127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let _silent = open("tcp", &address).unwrap();
    let mut near = open("tcp", &address).unwrap();
    near.write_all(b"!x").unwrap();
    let silent = listener.accept().unwrap();
    let mut far = listener.accept().unwrap().open().unwrap();
    far.read_exact(&mut [0]).unwrap();
    assert!(silent.info().peer.is_some());
}

#[test]
fn another_thread_cancels() {
    let listener = listen("tcp", "127.0.0.1:0").unwrap();
    let near = open("tcp", &listener.local_addr().unwrap().to_string()).unwrap();
    let far = listener.accept().unwrap().open().unwrap();
    let waiting = [
        thread::spawn({
            let near = near.clone();
            move || {
                let error = (&near).read(&mut [0]).unwrap_err();
                Error::try_from_io(error).unwrap().kind()
            }
        }),
        thread::spawn({
            let listener = listener.clone();
            move || listener.accept().unwrap_err().kind()
        }),
    ];
    // A call that has not begun is cancelled as well, so nothing depends on which thread is first.
    near.cancel();
    listener.cancel();
    for waits in waiting {
        assert_eq!(waits.join().unwrap(), ErrorKind::Cancelled);
    }
    assert!((&near).write(b"x").is_err());
    drop(near);
    assert!((&far).read(&mut [0]).is_err(), "dropping is an abort");
}

#[test]
fn a_file_is_sought_and_a_socket_is_not() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"0123456789").unwrap();
    let contact = format!("file:{}", file.path().display());
    let mut handle = open("file,count", &contact).unwrap();
    let mut byte = [0];
    for (to, at) in [
        (SeekFrom::Start(7), 7),
        (SeekFrom::Current(-3), 5),
        (SeekFrom::End(-1), 9),
    ] {
        assert_eq!(handle.seek(to).unwrap(), at);
        handle.read_exact(&mut byte).unwrap();
        assert_eq!(u64::from(byte[0] - b'0'), at);
    }
    let listener = listen("tcp", "127.0.0.1:0").unwrap();
    let mut near = open("tcp", &listener.local_addr().unwrap().to_string()).unwrap();
    let error = near.seek(SeekFrom::Start(0)).unwrap_err();
    assert_eq!(error.kind(), IoKind::Unsupported);
}

/// The file keeps one waker, so that calls at one time would lose a wake-up.
#[test]
fn threads_that_share_a_file_take_turns() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&[b'x'; 4096]).unwrap();
    let contact = format!("file:{}", file.path().display());
    let handle = open("file:flags=r+", &contact).unwrap();
    let (ended, waits) = std::sync::mpsc::channel();
    for number in 0..2 {
        let (handle, ended) = (handle.clone(), ended.clone());
        thread::spawn(move || {
            for _ in 0..3000 {
                match number {
                    0 => drop((&handle).read(&mut [0; 16])),
                    _ => (&handle).write_all(b"y").unwrap(),
                }
            }
            ended.send(()).unwrap();
        });
    }
    for _ in 0..2 {
        let limit = std::time::Duration::from_secs(60);
        waits.recv_timeout(limit).expect("no wake-up is lost");
    }
}

#[test]
fn open_handles_take_settings_by_driver() {
    let listener = listen("tcp", "127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let near = open("tcp,count,timeout:all=20", &address).unwrap();
    assert_eq!(near.get("tcp:nodelay").unwrap(), "yes");
    near.set("tcp:nodelay=0").unwrap();
    assert_eq!(near.get("tcp:nodelay").unwrap(), "no");
    let error = near.set("tls:min=1.3").unwrap_err();
    assert_eq!(
        error.to_string(),
        "xio: control: no driver \"tls\" in tcp,count,timeout"
    );
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

//! A server that follows a script: it breaks off, lies about the end, or falls silent.

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::*;

const WHOLE: &[u8] = b"0123456789";

/// The server's act on the n-th `RETR`.
#[derive(Debug, Clone, Copy)]
enum Act {
    /// Sends so many bytes, ends the data connection in good order and replies this.
    Send(usize, &'static str),
    /// Sends so many bytes, ends the data connection and closes the control connection.
    Leave(usize),
    /// Sends so many bytes and keeps silent.
    Silence(usize),
    /// Refuses.
    Refuse(&'static str),
}

/// Serves sessions, each `RETR` by the next act; one behind the script is served well.
async fn serve(acts: &'static [Act]) -> Target {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut acts = acts.iter().copied();
        loop {
            let (control, _) = listener.accept().await.unwrap();
            session(control, &mut acts).await;
        }
    });
    format!("ftp://{address}/file").parse().unwrap()
}

async fn session(control: TcpStream, acts: &mut impl Iterator<Item = Act>) {
    let mut control = BufReader::new(control);
    let _ = control.write_all(b"220 ready\r\n").await;
    let (mut passive, mut start) = (None, 0);
    let mut line = String::new();
    while matches!(control.read_line(&mut line).await, Ok(n) if n > 0) {
        let (verb, rest) = line
            .trim_end()
            .split_once(' ')
            .unwrap_or_else(|| (line.trim_end(), ""));
        let reply = match verb {
            "USER" => "331 password?".to_owned(),
            "PASS" => "230 welcome".to_owned(),
            "FEAT" => "211-can:\r\n SIZE\r\n REST STREAM\r\n211 end".to_owned(),
            "TYPE" | "MODE" | "OPTS" | "NOOP" => "200 fine".to_owned(),
            "SIZE" => format!("213 {}", WHOLE.len()),
            "REST" => {
                start = rest.parse().unwrap();
                "350 go on".to_owned()
            }
            "PASV" => {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let port = listener.local_addr().unwrap().port();
                passive = Some(listener);
                format!("227 here (127,0,0,1,{},{})", port >> 8, port & 255)
            }
            "RETR" => {
                let act = acts.next().unwrap_or(Act::Send(usize::MAX, "226 done"));
                if let Act::Refuse(reply) = act {
                    reply.to_owned()
                } else {
                    let listener = passive.take().unwrap();
                    let _ = control.write_all(b"150 here it comes\r\n").await;
                    let (mut data, _) = listener.accept().await.unwrap();
                    let part = &WHOLE[std::mem::take(&mut start)..];
                    let (n, reply) = match act {
                        Act::Send(n, reply) => (n, Some(reply)),
                        Act::Leave(n) | Act::Silence(n) => (n, None),
                        Act::Refuse(_) => unreachable!(),
                    };
                    data.write_all(&part[..n.min(part.len())]).await.unwrap();
                    match (act, reply) {
                        (Act::Silence(_), _) => {
                            let _gone = data.read(&mut [0]).await;
                            return;
                        }
                        (_, None) => return,
                        (_, Some(reply)) => reply.to_owned(),
                    }
                }
            }
            "QUIT" => {
                let _ = control.write_all(b"221 bye\r\n").await;
                return;
            }
            _ => "500 what?".to_owned(),
        };
        let _ = control.write_all(format!("{reply}\r\n").as_bytes()).await;
        line.clear();
    }
}

/// Reads to the first error.
async fn cut(handle: &mut GridftpHandle) -> (Vec<u8>, io::Error) {
    let mut bytes = Vec::new();
    let error = handle.read_to_end(&mut bytes).await.unwrap_err();
    (bytes, error)
}

#[tokio::test]
async fn a_download_that_ends_early_is_no_end() {
    let cases: [(&'static [Act], usize); 4] = [
        (&[Act::Send(4, "426 cut off")], 4),
        (&[Act::Send(4, "226 all of it")], 4),
        (&[Act::Send(10, "451 disk trouble")], 10),
        (&[Act::Leave(10)], 10),
    ];
    for (acts, came) in cases {
        let to = serve(acts).await;
        let mut handle = Gridftp::default().connect(&to).await.unwrap();
        let (bytes, error) = cut(&mut handle).await;
        assert_eq!(bytes, WHOLE[..came], "{acts:?}");
        assert_eq!(
            error.kind(),
            io::ErrorKind::UnexpectedEof,
            "{acts:?}: {error}"
        );
        let text = error.to_string();
        assert!(text.starts_with("gridftp: read: "), "{text}");
        assert!(
            text.contains(&format!("ends at byte {came}, read on from there")),
            "{text}"
        );
        // The next read asks for the rest, and gets it.
        let mut rest = Vec::new();
        handle.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, WHOLE[came..], "{acts:?}");
    }
}

#[tokio::test]
async fn silence_has_a_deadline() {
    let to = serve(&[Act::Silence(3)]).await;
    let mut handle = gridftp("stall=0.4").connect(&to).await.unwrap();
    let (bytes, error) = cut(&mut handle).await;
    assert_eq!(bytes, b"012");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
}

#[tokio::test]
async fn a_refusal_is_told_as_it_is() {
    let to = serve(&[Act::Refuse("550 no such file")]).await;
    let mut handle = Gridftp::default().connect(&to).await.unwrap();
    let (bytes, error) = cut(&mut handle).await;
    assert_eq!(bytes, b"");
    assert_eq!(error.kind(), io::ErrorKind::NotFound, "{error}");
    assert_eq!(handle.read_u8().await.unwrap(), b'0');
}

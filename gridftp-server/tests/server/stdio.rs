//! One session on standard input and output, as under ssh.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};

use crate::process::program;

/// A session over one socket, as sshd gives its programs.
struct Session {
    child: Child,
    replies: BufReader<UnixStream>,
}

impl Session {
    fn start(root: &std::path::Path, flags: &[&str]) -> Self {
        let (near, far) = UnixStream::pair().unwrap();
        let child = program()
            .arg("--stdio")
            .arg("--root")
            .arg(root)
            .args(flags)
            .env("SSH_CONNECTION", "127.0.0.1 4022 127.0.0.1 22")
            .stdin(OwnedFd::from(far.try_clone().unwrap()))
            .stdout(OwnedFd::from(far))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut session = Self {
            child,
            replies: BufReader::new(near),
        };
        session.reply(220);
        session
    }

    /// The last line of a reply, which must have this code.
    fn reply(&mut self, code: u16) -> String {
        loop {
            let mut line = String::new();
            self.replies.read_line(&mut line).unwrap();
            assert!(line.starts_with(&code.to_string()), "{line:?}");
            if line.as_bytes()[3] == b' ' {
                return line.trim_end().to_owned();
            }
        }
    }

    fn ok(&mut self, command: &str, code: u16) -> String {
        write!(self.replies.get_mut(), "{command}\r\n").unwrap();
        self.reply(code)
    }

    fn login(&mut self) {
        self.ok("USER whoever", 331);
        self.ok("PASS whatever", 230);
        self.ok("TYPE I", 200);
    }

    /// Waits for the end; the exit status and the log.
    fn end(mut self) -> (Option<i32>, String) {
        let status = self.child.wait().unwrap();
        let mut log = String::new();
        let mut stderr = self.child.stderr.take().unwrap();
        stderr.read_to_string(&mut log).unwrap();
        (status.code(), log)
    }
}

#[test]
fn the_person_who_runs_it_is_logged_in_and_may_write() {
    let root = tempfile::tempdir().unwrap();
    let mut session = Session::start(root.path(), &[]);
    session.ok("MKD early", 530);
    session.login();
    let passive = session.ok("PASV", 227);
    let numbers: Vec<u16> = passive
        .split(['(', ')', ','])
        .filter_map(|word| word.parse().ok())
        .collect();
    assert_eq!(numbers[..4], [127, 0, 0, 1]);
    let mut data = TcpStream::connect(("127.0.0.1", numbers[4] * 256 + numbers[5])).unwrap();
    write!(session.replies.get_mut(), "STOR file\r\n").unwrap();
    session.reply(150);
    data.write_all(b"content").unwrap();
    drop(data);
    session.reply(226);
    assert_eq!(fs::read(root.path().join("file")).unwrap(), b"content");
    session.ok("QUIT", 221);
    assert_eq!(session.end(), (Some(0), String::new()));
}

#[test]
fn it_ends_with_its_client() {
    let root = tempfile::tempdir().unwrap();
    let mut session = Session::start(root.path(), &[]);
    session.login();
    session
        .replies
        .get_ref()
        .shutdown(std::net::Shutdown::Both)
        .unwrap();
    assert_eq!(session.end(), (Some(0), String::new()));
}

#[test]
fn a_signal_ends_it() {
    let root = tempfile::tempdir().unwrap();
    let mut session = Session::start(root.path(), &[]);
    session.login();
    let pid = rustix::process::Pid::from_child(&session.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    session.reply(421);
    assert_eq!(session.end().0, Some(0));
}

//! `Session`: a minimal FTP client that counts logins and keeps transfers open.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use workspace_tests::host_port;

const LIMIT: Duration = Duration::from_secs(30);

/// A control connection with an anonymous user logged in.
#[derive(Debug)]
pub struct Session {
    control: BufReader<TcpStream>,
    data: Option<TcpStream>,
}

impl Session {
    /// Connects and logs in.
    pub fn login(server: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect_timeout(&server, LIMIT)?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.set_nodelay(true)?;
        let mut session = Self {
            control: BufReader::new(stream),
            data: None,
        };
        session.expect("220")?;
        session.ask("USER anonymous", "331")?;
        session.ask("PASS bench@", "230")?;
        Ok(session)
    }

    /// Starts a download in MODE S and reads one byte of it.
    pub fn begin_download(&mut self, path: &str) -> Result<()> {
        self.ask("TYPE I", "200")?;
        let reply = self.ask("PASV", "227")?;
        let addr = reply.split(['(', ')']).nth(1).and_then(host_port);
        let mut data = TcpStream::connect(addr.with_context(|| reply.clone())?)?;
        self.ask(&format!("RETR {path}"), "1")?;
        data.set_read_timeout(Some(LIMIT))?;
        data.read_exact(&mut [0])?;
        self.data = Some(data);
        Ok(())
    }

    /// Ends the session.
    pub fn quit(mut self) -> Result<()> {
        self.ask("QUIT", "221").map(drop)
    }

    fn ask(&mut self, command: &str, code: &str) -> Result<String> {
        self.control
            .get_mut()
            .write_all(format!("{command}\r\n").as_bytes())?;
        self.expect(code).with_context(|| command.to_owned())
    }

    /// Reads a reply of one or more lines, checks its code, and returns its last line.
    fn expect(&mut self, code: &str) -> Result<String> {
        loop {
            let mut line = String::new();
            ensure!(
                self.control.read_line(&mut line)? > 0,
                "the server closed the connection"
            );
            let last = line.as_bytes().iter().take(3).all(u8::is_ascii_digit)
                && line.as_bytes().get(3) == Some(&b' ');
            if last {
                ensure!(line.starts_with(code), "expected {code}, got {line}");
                return Ok(line);
            }
        }
    }
}

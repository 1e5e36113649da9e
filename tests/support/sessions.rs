//! Parts that hand-written FTP servers share: a thread for each session, and replies to `PASV`.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use anyhow::Result;

use crate::rewrite::six_numbers;

/// Serves each connection to a free loopback port on a thread of its own, until the process ends.
pub fn serve_sessions(
    session: impl Fn(TcpStream) -> Result<()> + Send + Sync + 'static,
) -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let addr = listener.local_addr()?;
    let session = Arc::new(session);
    thread::spawn(move || {
        for control in listener.incoming().flatten() {
            let session = Arc::clone(&session);
            // The client may hang up at any time.
            thread::spawn(move || drop(session(control)));
        }
    });
    Ok(addr)
}

/// Opens a data listener on the loopback interface, and returns it with a reply to `PASV` that
/// names its port at `host`.
pub fn passive(host: Ipv4Addr) -> io::Result<(TcpListener, String)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    let reply = format!("227 passive ({})", six_numbers((host, port).into()));
    Ok((listener, reply))
}

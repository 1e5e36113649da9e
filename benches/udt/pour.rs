//! Bare datagrams at a steady rate, to measure the emulated link itself.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::worker::{Tally, say};

/// Payload of a datagram that fills a packet of 1500 bytes.
const PAYLOAD: usize = 1472;
/// Pause that ends the reception.
const PAUSE: Duration = Duration::from_secs(1);

/// Prints the local address, and at the end the bytes of each tenth of a second.
pub(crate) fn receive(ip: &str) -> Result<()> {
    let socket = UdpSocket::bind((ip.parse::<std::net::IpAddr>()?, 0))?;
    socket2::SockRef::from(&socket).set_recv_buffer_size(4 << 20)?;
    say(&socket.local_addr()?.to_string())?;
    let mut room = [0; PAYLOAD];
    let mut tally = Tally::new()?;
    loop {
        match socket.recv(&mut room) {
            Ok(n) => tally.add(n),
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => return Err(error.into()),
        }
        socket.set_read_timeout(Some(PAUSE))?;
    }
    say(&tally.to_string())
}

/// Sends for a time, as `30s`, at a rate in megabits per second with headers of IP and UDP.
pub(crate) fn send(megabits: &str, to: &str, seconds: &str) -> Result<()> {
    let socket = UdpSocket::bind(("0.0.0.0", 0))?;
    socket.connect(to.parse::<SocketAddr>()?)?;
    let tally = Tally::new()?;
    let rate = megabits.parse::<f64>()? * 1e6 / 8.0 / 1500.0;
    let time = seconds.trim_end_matches('s').parse::<f64>()?;
    let clock = Instant::now();
    let mut sent = 0.0;
    while clock.elapsed().as_secs_f64() < time {
        while sent < clock.elapsed().as_secs_f64() * rate {
            // Datagrams that the device refuses count as lost.
            let _ = socket.send(&[0; PAYLOAD]);
            sent += 1.0;
        }
        thread::sleep(Duration::from_micros(200));
    }
    tally.took(None)
}

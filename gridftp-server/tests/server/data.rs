//! Data connections in MODE S: permitted peers, ports, aborts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, TcpListener, TcpStream};
use std::time::Instant;

use ftp_wire::waits::Waits;
use gridftp_server::config::ThirdParty;
use xio::{ByteSize, PortRange};

use crate::support::{Data, Ftp, PATIENCE, TestServer, bytes, host_port, lacks, pasv_address};

/// Connects from another loopback address than the control connection's.
pub(crate) fn other_host(to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), 0)).into())?;
    socket.connect(&to.into())?;
    Ok(socket.into())
}

#[test]
fn files_cross_both_ways_passive_and_active() {
    let server = TestServer::new();
    let file = bytes(3_000_000);
    let mut ftp = server.login();
    assert_eq!(ftp.store("STOR f", &file).code, 226);
    assert_eq!(server.get("f"), file);
    assert_eq!(ftp.fetch("f"), file);

    let listener = ftp.port();
    ftp.send("RETR f");
    let data = Data::accept(&listener);
    assert_eq!(ftp.reply().code, 150);
    assert_eq!(data.read(), file);
    assert_eq!(ftp.reply().code, 226);

    let listener = ftp.port();
    ftp.send("STOR g");
    let mut data = Data::accept(&listener);
    assert_eq!(ftp.reply().code, 150);
    data.write(&file);
    data.finish();
    assert_eq!(ftp.reply().code, 226);
    assert_eq!(server.get("g"), file);
}

#[test]
fn epsv_and_eprt_do_the_same_over_ipv6() {
    let Ok(_) = TcpListener::bind("[::1]:0") else {
        eprintln!("SKIPPED: this machine has no IPv6 loopback");
        return;
    };
    let server = TestServer::with(|o| o.bind = Some("::1".parse().unwrap()));
    server.put("f", "six");
    let mut ftp = server.login();
    let text = ftp.ok("EPSV", 229).text();
    let port: u16 = text.split('|').nth(3).unwrap().parse().unwrap();
    let data = Data::connect(SocketAddr::new("::1".parse().unwrap(), port));
    ftp.ok("RETR f", 150);
    assert_eq!(data.read(), b"six");
    assert_eq!(ftp.reply().code, 226);
    let listener = TcpListener::bind("[::1]:0").unwrap();
    ftp.ok(
        &format!("EPRT |2|::1|{}|", listener.local_addr().unwrap().port()),
        200,
    );
    ftp.send("RETR f");
    let data = Data::accept(&listener);
    assert_eq!(ftp.reply().code, 150);
    assert_eq!(data.read(), b"six");
    ftp.reply();
    ftp.ok("PASV", 522);
}

/// An address of this machine that is only of one link, with the link's number.
fn link_local() -> Option<SocketAddrV6> {
    let table = std::fs::read_to_string("/proc/net/if_inet6").ok()?;
    table.lines().find_map(|line| {
        let mut columns = line.split_ascii_whitespace();
        let ip = u128::from_str_radix(columns.next()?, 16).ok()?;
        let link = u32::from_str_radix(columns.next()?, 16).ok()?;
        let ip = Ipv6Addr::from_bits(ip);
        ip.is_unicast_link_local()
            .then(|| SocketAddrV6::new(ip, 0, 0, link))
    })
}

/// The address in a reply or a command names no link: it is the one of the control connection
/// (RFC 4007 §6).
#[test]
fn data_connections_find_the_link_of_the_control_connection() {
    let Some(mut here) = link_local() else {
        eprintln!("SKIPPED: this machine has no link-local address");
        return;
    };
    let server = TestServer::with(|o| o.bind = Some(Ipv6Addr::UNSPECIFIED.into()));
    server.put("f", "near");
    here.set_port(server.address.port());
    let mut ftp = Ftp::connect(here.into());
    ftp.login("anonymous", "x");
    let text = ftp.ok("EPSV", 229).text();
    here.set_port(text.split('|').nth(3).unwrap().parse().unwrap());
    let data = Data::connect(here.into());
    ftp.ok("RETR f", 150);
    assert_eq!(data.read(), b"near");
    assert_eq!(ftp.reply().code, 226);
    here.set_port(0);
    let listener = TcpListener::bind(here).unwrap();
    let port = listener.local_addr().unwrap().port();
    ftp.ok(&format!("EPRT |2|{}|{port}|", here.ip()), 200);
    ftp.send("RETR f");
    assert_eq!(Data::accept(&listener).read(), b"near");
    assert_eq!(ftp.reply().code, 150);
    assert_eq!(ftp.reply().code, 226);
}

#[test]
fn empty_and_one_byte_files_cross() {
    let server = TestServer::new();
    let mut ftp = server.login();
    for file in [&b""[..], b"x"] {
        assert_eq!(ftp.store("STOR f", file).code, 226);
        assert_eq!(server.get("f"), file);
        assert_eq!(ftp.fetch("f"), file);
    }
}

/// Zeros are bytes, and the ends of files as far away as offsets go can be had.
#[test]
fn files_of_zeros_and_of_absurd_sizes_cross() {
    if lacks(|can| can.updates) {
        return;
    }
    let memory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let memory = memory.unwrap();
    let server = TestServer::with(|o| o.root = Some(memory.path().into()));
    let mut ftp = server.login();
    for zeros in [&[0; 4][..], &[0; 5000]] {
        assert_eq!(ftp.store("STOR f", zeros).code, 226);
        assert_eq!(server.get("f"), zeros);
        assert_eq!(ftp.fetch("f"), zeros);
        ftp.ok("REST 2", 350);
        assert_eq!(ftp.store("STOR f", &zeros[2..]).code, 226);
        assert_eq!(server.get("f"), zeros);
        ftp.ok("MODE E", 200);
        let mut data = ftp.data();
        ftp.ok("STOR f", 150);
        data.block(0, 0, zeros);
        data.end(1);
        assert_eq!(ftp.outcome().code, 226);
        assert_eq!(server.get("f"), zeros);
        ftp.ok("MODE S", 200);
    }
    for size in [1_u64 << 50, i64::MAX.unsigned_abs()] {
        let file = std::fs::File::create(server.root.join("huge")).unwrap();
        if let Err(error) = file.set_len(size) {
            eprintln!("SKIPPED: no file of {size} bytes here: {error}");
            continue;
        }
        assert_eq!(ftp.ok("SIZE huge", 213).lines, [format!("213 {size}")]);
        ftp.ok(&format!("REST {}", size - 4), 350);
        assert_eq!(ftp.fetch("huge"), [0; 4]);
        // The kernel's memory file system forgets the last page of the largest file in a copy.
        let store = match size == 1 << 50 {
            true => "STOR huge".to_owned(),
            false => format!("ESTO A {} huge", size - 4),
        };
        if size == 1 << 50 {
            ftp.ok(&format!("REST {}", size - 4), 350);
        }
        assert_eq!(ftp.store(&store, b"last").code, 226);
        ftp.ok(&format!("REST {}", size - 4), 350);
        assert_eq!(ftp.fetch("huge"), b"last");
        ftp.ok(&format!("ESTO A {} huge", u64::MAX), 425);
    }
    let mut data = ftp.data();
    ftp.ok(&format!("ESTO A {} huge", i64::MAX), 150);
    let _ = std::io::Write::write_all(&mut data.0, b"beyond");
    drop(data);
    assert_eq!(ftp.outcome().code, 552);
}

#[test]
fn type_a_ends_lines_as_the_network_does() {
    let server = TestServer::new();
    server.put("f", "a\nb\n");
    let mut ftp = server.login();
    ftp.ok("TYPE A", 200);
    assert_eq!(ftp.fetch("f"), b"a\r\nb\r\n");
    server.put("dos", "a\r\nb\r\n");
    assert_eq!(ftp.fetch("dos"), b"a\r\nb\r\n");
    assert_eq!(ftp.store("STOR g", b"a\r\nb\r\n").code, 226);
    assert_eq!(server.get("g"), b"a\nb\n");
}

#[test]
fn a_restart_of_text_is_refused_before_its_data() {
    let server = TestServer::new();
    server.put("f", "a\nb\n");
    for mode in ["MODE S", "MODE E"] {
        let mut ftp = server.login();
        ftp.ok(mode, 200);
        ftp.ok("TYPE A", 200);
        for store in ["STOR f", "APPE f", "ESTO A 0 f"] {
            ftp.pasv();
            ftp.ok("REST 3", 350);
            ftp.ok(store, 504);
        }
        ftp.ok("TYPE I", 200);
    }
    assert_eq!(server.get("f"), b"a\nb\n");
}

#[test]
fn a_connection_of_another_host_is_dropped_and_the_client_is_served() {
    let server = TestServer::new();
    server.put("f", "for the client");
    let mut ftp = server.login();
    let address = ftp.pasv();
    let others: Vec<_> = (0..5).filter_map(|_| other_host(address).ok()).collect();
    let data = Data::connect(address);
    ftp.ok("RETR f", 150);
    assert_eq!(data.read(), b"for the client");
    assert_eq!(ftp.reply().code, 226);
    for other_host in others {
        other_host.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut byte = [0];
        let read = std::io::Read::read(&mut &other_host, &mut byte);
        assert!(matches!(read, Ok(0) | Err(_)), "another host got data");
    }
}

#[test]
fn port_to_another_host_needs_third_party_and_never_a_low_port() {
    let server = TestServer::new();
    let mut ftp = server.login();
    for line in [
        "PORT 127,0,0,2,200,10",
        "EPRT |1|127.0.0.2|51210|",
        "SPOR 127,0,0,2,200,10",
    ] {
        let reply = ftp.ok(line, 500);
        assert!(reply.text().contains("--third-party"), "{reply:?}");
    }
    ftp.ok("PORT 127,0,0,1,0,25", 500);
    let server = TestServer::with(|o| o.third_party = Some(ThirdParty::All));
    server.put("f", "for another host");
    let mut ftp = server.login();
    let listener = TcpListener::bind("127.0.0.2:0").unwrap();
    ftp.ok(
        &format!("PORT {}", host_port(listener.local_addr().unwrap())),
        200,
    );
    ftp.send("RETR f");
    assert_eq!(Data::accept(&listener).read(), b"for another host");
    assert_eq!(ftp.reply().code, 150);
    assert_eq!(ftp.reply().code, 226);
    for line in ["PORT 127,0,0,2,0,25", "PORT 127,0,0,1,3,255"] {
        let reply = ftp.cmd(line);
        assert!(reply.code >= 500, "{line}: {reply:?}");
    }
    let address = ftp.pasv();
    let mut other = other_host(address).unwrap();
    ftp.ok("STOR g", 150);
    std::io::Write::write_all(&mut other, b"from another host").unwrap();
    drop(other);
    assert_eq!(ftp.reply().code, 226);
    assert_eq!(server.get("g"), b"from another host");
}

#[test]
fn a_peer_that_never_connects_is_told_425() {
    let server = TestServer::with(|o| o.connect_timeout = Some(1));
    server.put("f", "x");
    let mut ftp = server.login();
    let _other = other_host(ftp.pasv());
    let reply = ftp.ok("RETR f", 425);
    assert!(reply.lines[0].contains("--third-party"), "{reply:?}");
    ftp.ok("NOOP", 200);
}

#[test]
fn a_peer_that_cannot_be_reached_is_told_425() {
    let server = TestServer::new();
    server.put("f", "x");
    let mut ftp = server.login();
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    ftp.ok(&format!("PORT {}", host_port(closed)), 200);
    ftp.ok("RETR f", 425);
    ftp.ok("NOOP", 200);
}

#[test]
fn a_transfer_without_a_data_channel_is_refused() {
    let server = TestServer::new();
    server.put("f", "x");
    let mut ftp = server.login();
    ftp.ok("RETR f", 425);
    ftp.ok("STOR g", 425);
    ftp.ok("NOOP", 200);
}

#[test]
fn a_peer_that_sends_nothing_is_given_up() {
    let server = TestServer::with(|o| o.stall_timeout = Some(1));
    let mut ftp = server.login();
    let data = ftp.data();
    ftp.ok("STOR f", 150);
    assert_eq!(ftp.outcome().code, 426);
    drop(data);
    assert!(!server.has("f"));
    ftp.ok("NOOP", 200);
}

#[test]
fn a_thousand_pasvs_leave_one_port() {
    let server = TestServer::new();
    server.put("f", "x");
    let mut ftp = server.login();
    ftp.raw("PASV\r\n".repeat(1000));
    let addresses: Vec<SocketAddr> = (0..1000).map(|_| pasv_address(&ftp.reply())).collect();
    let (last, earlier) = addresses.split_last().unwrap();
    let earlier: Vec<&SocketAddr> = earlier.iter().filter(|address| *address != last).collect();
    let closed = earlier
        .iter()
        .filter(|address| TcpStream::connect(address).is_err())
        .count();
    // A port may have come up again, or another test's server may listen there by now.
    assert!(closed > 900, "{closed} of {} are closed", earlier.len());
    let data = Data::connect(*last);
    ftp.ok("RETR f", 150);
    assert_eq!(data.read(), b"x");
    ftp.reply();
}

#[test]
fn a_range_of_one_port_serves_one_transfer_after_another() {
    // A port that was free a moment ago; another process may take it, then another is tried.
    for _ in 0..20 {
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let server = TestServer::with(|o| o.data_ports = PortRange::new(port, port));
        server.put("f", "x");
        let mut ftp = server.login();
        let mut other = server.login();
        if ftp.cmd("PASV").code == 425 {
            continue;
        }
        let refused = other.ok("PASV", 425);
        assert!(refused.text().contains("port"), "{refused:?}");
        for _ in 0..5 {
            let address = ftp.pasv();
            assert_eq!(address.port(), port);
            let data = Data::connect(address);
            ftp.ok("RETR f", 150);
            assert_eq!(data.read(), b"x");
            assert_eq!(ftp.reply().code, 226);
        }
        return;
    }
    panic!("no port stayed free");
}

#[test]
fn a_port_that_nobody_uses_goes_back_to_the_range() {
    for _ in 0..20 {
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let server = TestServer::with(|o| {
            o.data_ports = PortRange::new(port, port);
            o.connect_timeout = Some(1);
        });
        let (mut idle, mut other) = (server.login(), server.login());
        if idle.cmd("PASV").code == 425 {
            continue;
        }
        server.put("f", "x");
        let mut wait_for_port = || {
            let start = Instant::now();
            while other.cmd("PASV").code != 227 {
                assert!(start.elapsed() < PATIENCE, "the port is never free again");
            }
            other.ok("PORT 127,0,0,1,200,1", 200);
        };
        wait_for_port();
        idle.ok("RETR f", 425);
        // Neither does a transfer that never began keep it.
        idle.ok("PASV", 227);
        idle.ok("RETR missing", 550);
        wait_for_port();
        // Nor does a command that has nothing to do with it.
        idle.ok("PASV", 227);
        idle.ok("SITE SETDISKSTACK default", 250);
        wait_for_port();
        idle.ok("NOOP", 200);
        return;
    }
    panic!("no port stayed free");
}

#[test]
fn the_advertised_address_is_told_to_clients() {
    let server = TestServer::with(|o| o.advertise = Some("203.0.113.9".parse().unwrap()));
    let mut ftp = server.login();
    assert_eq!(ftp.pasv().ip(), "203.0.113.9".parse::<IpAddr>().unwrap());
    assert!(ftp.ok("SPAS", 229).text().contains("203,0,113,9,"));
}

#[test]
fn delayed_passive_gives_the_address_with_the_transfer() {
    let server = TestServer::new();
    server.put("f", "late");
    let mut ftp = server.login();
    ftp.ok("OPTS PASV AllowDelayed=1;", 200);
    ftp.ok("PASV", 200);
    ftp.send("RETR f");
    let reply = ftp.reply();
    assert_eq!(reply.code, 127);
    let data = Data::connect(pasv_address(&reply));
    assert_eq!(ftp.reply().code, 150);
    assert_eq!(data.read(), b"late");
    assert_eq!(ftp.reply().code, 226);
    ftp.ok("EPSV", 200);
    ftp.send("RETR f");
    let text = ftp.reply().text();
    assert!(text.starts_with("129 "), "{text}");
    let port: u16 = text.split('|').nth(3).unwrap().parse().unwrap();
    let data = Data::connect(([127, 0, 0, 1], port).into());
    assert_eq!(ftp.reply().code, 150);
    assert_eq!(data.read(), b"late");
    assert_eq!(ftp.reply().code, 226);
}

/// Starts a RETR that cannot end, because the client does not read.
fn stuck_retr(server: &TestServer) -> (Ftp, Data) {
    let file = std::fs::File::create(server.root.join("big")).unwrap();
    file.set_len(1 << 30).unwrap();
    let mut ftp = server.login();
    let data = ftp.data();
    ftp.ok("RETR big", 150);
    (ftp, data)
}

#[test]
fn abor_ends_the_transfer_and_keeps_the_session() {
    let server = TestServer::new();
    server.put("f", "x");
    let (mut ftp, data) = stuck_retr(&server);
    // As clients send it: interrupt, synch as urgent data, then the command.
    ftp.raw(b"\xff\xf4\xff");
    socket2::SockRef::from(&ftp.stream)
        .send_out_of_band(b"\xf2")
        .unwrap();
    ftp.raw("ABOR\r\n");
    assert_eq!(ftp.reply().code, 426);
    assert_eq!(ftp.reply().code, 226);
    drop(data);
    assert_eq!(ftp.fetch("f"), b"x");
}

#[test]
fn a_client_that_leaves_ends_its_transfer() {
    let server = TestServer::new();
    let (ftp, data) = stuck_retr(&server);
    drop(ftp);
    server.wait_for_sessions(0);
    drop(data);
}

/// More downloads than there are blocks, each of a file that fits into one, to clients that take a
/// few bytes.
#[test]
fn a_slow_reader_stops_nobody_else() {
    let server = TestServer::with(|o| o.block_size = Some(ByteSize::new(8 << 20)));
    let file = bytes(100_000);
    server.put("f", &file);
    let mut stuck = Vec::new();
    for i in 0..20 {
        let mut ftp = server.login();
        if i % 2 == 1 {
            ftp.ok("TYPE A", 200);
        }
        let data = ftp.narrow("RETR f", 4096);
        stuck.push((ftp, data));
    }
    let mut ftp = server.login();
    for i in 0..3 {
        assert!(ftp.fetch("f") == file);
        assert_eq!(ftp.store(&format!("STOR g{i}"), &file).code, 226);
        ftp.ok("TYPE A", 200);
        assert_eq!(ftp.store("STOR text", b"a\r\nb\r\n").code, 226);
        ftp.ok("TYPE I", 200);
    }
    // Slow readers get all of it.
    let (mut ftp, data) = stuck.swap_remove(0);
    assert!(data.read() == file);
    assert_eq!(ftp.outcome().code, 226);
}

#[test]
fn a_file_that_loses_its_name_in_mid_transfer_is_sent_whole() {
    if lacks(|can| can.modes) {
        return;
    }
    for what in ["remove", "rename", "replace"] {
        let server = TestServer::new();
        // More than fits into the buffers of a connection.
        let file = bytes(64 << 20);
        server.put("f", &file);
        let mut ftp = server.login();
        let data = ftp.data();
        ftp.ok("RETR f", 150);
        let mut other = server.login();
        match what {
            "remove" => drop(other.ok("DELE f", 250)),
            "rename" => {
                other.ok("RNFR f", 350);
                other.ok("RNTO g", 250);
            }
            _ => assert_eq!(other.store("STOR f", b"another").code, 226),
        }
        assert!(data.read() == file);
        assert_eq!(ftp.reply().code, 226);
    }
}

#[test]
fn a_file_cut_short_in_mid_transfer_is_reported() {
    let server = TestServer::new();
    let (mut ftp, data) = stuck_retr(&server);
    std::fs::File::options()
        .write(true)
        .open(server.root.join("big"))
        .unwrap()
        .set_len(1 << 20)
        .unwrap();
    let mut data = data.0;
    let drained = std::io::copy(&mut data, &mut std::io::sink());
    let reply = ftp.reply();
    assert!(matches!(reply.code, 451 | 426), "{reply:?}");
    assert!(drained.is_err() || drained.unwrap() < 1 << 30);
    ftp.ok("NOOP", 200);
}

/// Same size, other bytes: only the time of the change tells.
#[test]
fn a_file_changed_in_place_in_mid_transfer_is_reported() {
    let server = TestServer::new();
    let path = server.put("f", bytes(64 << 20));
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
    let mut ftp = server.login();
    let data = ftp.data();
    ftp.ok("RETR f", 150);
    std::os::unix::fs::FileExt::write_all_at(&file, b"changed", 60 << 20).unwrap();
    let mut data = data.0;
    let drained = std::io::copy(&mut data, &mut std::io::sink());
    assert_eq!(ftp.reply().code, 451);
    assert!(
        drained.is_err(),
        "a file that is not whole ends with a reset"
    );
}

#[test]
fn a_new_pasv_drops_the_connection_of_the_old_one() {
    let server = TestServer::new();
    server.put("f", "new");
    let mut ftp = server.login();
    let old = ftp.data();
    let data = ftp.data();
    ftp.ok("RETR f", 150);
    assert_eq!(data.read(), b"new");
    assert_eq!(ftp.reply().code, 226);
    let mut byte = [0];
    assert!(matches!(
        std::io::Read::read(&mut &old.0, &mut byte),
        Ok(0) | Err(_)
    ));
}

#[test]
fn the_waits_of_transfers_are_told_from_the_first_question_on() {
    let server = TestServer::new();
    server.put("f", bytes(1 << 20));
    let mut ftp = server.login();
    ftp.fetch("f");
    let mut waits = |times| {
        for _ in 0..times {
            ftp.fetch("f");
        }
        Waits::parse(&ftp.ok("SITE WAITS", 250).text()).unwrap()
    };
    assert_eq!(waits(0), Waits::default());
    let first = waits(1);
    assert!(first.moving >= first.storage && first.sent > 0, "{first:?}");
    let both = waits(1);
    assert!(
        both.moving > first.moving && both.sent > first.sent,
        "{both:?}"
    );
    assert_eq!(waits(0), both);
}

//! SPAS, SPOR and delayed passive mode.

use std::net::{SocketAddr, TcpListener};

use crate::support::{Data, EOD, Ftp, Reply, TestServer, host_port};

/// Returns the only address of a striped reply: a header, indented lines, and `End` without a full
/// stop. Clients of the Grid Community Toolkit count its lines.
#[track_caller]
fn stripe(reply: &Reply) -> SocketAddr {
    let [first, line, last] = &reply.lines[..] else {
        panic!("{reply:?}")
    };
    assert_eq!(
        first,
        &format!("{}-Entering Striped Passive Mode.", reply.code)
    );
    assert_eq!(last, &format!("{} End", reply.code));
    let line = line.strip_prefix(' ').unwrap();
    if let Some(fields) = line.strip_prefix("|1|") {
        let (host, port) = fields.strip_suffix('|').unwrap().split_once('|').unwrap();
        return SocketAddr::new(host.parse().unwrap(), port.parse().unwrap());
    }
    let n: Vec<u8> = line.split(',').map(|n| n.parse().unwrap()).collect();
    SocketAddr::from(([n[0], n[1], n[2], n[3]], u16::from_be_bytes([n[4], n[5]])))
}

fn store_to(ftp: &mut Ftp, at: SocketAddr, begun: bool) {
    let mut data = Data::connect(at);
    if !begun {
        ftp.send("STOR f");
    }
    assert_eq!(ftp.reply().code, 150);
    data.block(0, 0, b"striped");
    data.end(1);
    assert_eq!(ftp.outcome().code, 226);
}

/// SPAS sends addresses in the form of PASV, or of EPRT where its argument is a protocol family.
#[test]
fn spas_has_two_forms() {
    let server = TestServer::new();
    let mut ftp = server.login();
    ftp.ok("MODE E", 200);
    for line in ["SPAS", "SPAS 1"] {
        let at = stripe(&ftp.ok(line, 229));
        store_to(&mut ftp, at, false);
        assert_eq!(server.get("f"), b"striped");
    }
    ftp.ok("SPAS 2", 522);
    ftp.ok("SPAS 3", 522);
}

/// SPOR accepts addresses in both forms, also mixed, and each listener gets its own EOD.
#[test]
fn spor_takes_both_forms() {
    let server = TestServer::new();
    server.put("f", "x");
    let mut ftp = server.login();
    ftp.ok("MODE E", 200);
    let listeners = [0; 2].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    let [one, two] = [&listeners[0], &listeners[1]].map(|listener| listener.local_addr().unwrap());
    let line = format!("SPOR {} |1|{}|{}|", host_port(one), two.ip(), two.port());
    ftp.ok(&line, 200);
    ftp.send("RETR f");
    let mut bytes = 0;
    for listener in &listeners {
        let mut data = Data::accept(listener);
        loop {
            let (flags, _, payload) = data.read_block();
            bytes += payload.len();
            if flags & EOD != 0 {
                break;
            }
        }
    }
    assert_eq!(bytes, 1);
    assert_eq!((ftp.reply().code, ftp.reply().code), (150, 226));
    for line in [
        "SPOR",
        "SPOR 1,2,3",
        "SPOR 127,0,0,1,200,1 x",
        "SPOR |1|127.0.0.1|",
    ] {
        ftp.ok(line, 501);
    }
}

/// With `AllowDelayed` the address comes with the transfer, before the 150: 127 after PASV, 129
/// after EPSV and SPAS, in the form of 227 and 229. The server's own suite tests PASV and EPSV.
#[test]
fn a_delayed_spas_sends_its_addresses_in_a_129() {
    let server = TestServer::new();
    let mut ftp = server.login();
    ftp.ok("MODE E", 200);
    ftp.ok("OPTS SPAS AllowDelayed=1;", 200);
    ftp.ok("SPAS", 200);
    ftp.send("STOR f");
    let delayed = ftp.reply();
    assert_eq!(delayed.code, 129);
    store_to(&mut ftp, stripe(&delayed), true);
    assert_eq!(server.get("f"), b"striped");
    ftp.ok("OPTS SPAS AllowDelayed=0;", 200);
    stripe(&ftp.ok("SPAS", 229));
}

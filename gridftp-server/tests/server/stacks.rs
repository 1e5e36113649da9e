//! Stacks that a client chooses, within what the server allows.

use crate::support::{TestServer, bytes};

fn list(names: &[&str]) -> Option<Vec<String>> {
    Some(names.iter().map(|name| (*name).to_owned()).collect())
}

#[test]
fn a_stack_of_data_connections_holds_until_the_default_is_back() {
    let server = TestServer::with(|o| o.net_stacks = list(&["tcp", "count,log"]));
    let file = bytes(500_000);
    let mut ftp = server.login();
    for stack in ["tcp,count", "tcp:nodelay=0,log:tag=x,count", "default"] {
        ftp.ok(&format!("SITE SETNETSTACK {stack}"), 250);
        assert_eq!(ftp.store("STOR f", &file).code, 226, "{stack}");
        assert_eq!(ftp.fetch("f"), file, "{stack}");
    }
    // A port that was told is of the stack then in force.
    ftp.ok("PASV", 227);
    ftp.ok("SITE SETNETSTACK tcp,count", 250);
    ftp.ok("RETR f", 425);
}

#[test]
fn a_forbidden_stack_is_refused_by_name_and_changes_nothing() {
    let server = TestServer::with(|o| o.net_stacks = list(&["tcp:nodelay=1", "count"]));
    server.put("f", "x");
    let mut ftp = server.login();
    for (stack, says) in [
        ("tcp,log", "`log`"),
        ("file", "`file`"),
        ("popen:argv=/bin/sh", "`popen`"),
        ("tcp,nonsense", "not whitelisted"),
        ("count", "needs a driver below it"),
        ("tcp,tcp", "bottom"),
        ("tcp:speed=9", "no option `speed`"),
        ("tcp:sndbuf=much", "sndbuf does not accept"),
        ("tcp:port=22", "port is this end's own business"),
        ("tcp:nodelay=0", "nodelay is fixed here"),
        (",", "no driver name"),
    ] {
        let reply = ftp.ok(&format!("SITE SETNETSTACK {stack}"), 500);
        assert!(reply.text().contains(says), "{stack}: {}", reply.text());
    }
    ftp.ok("SITE SETNETSTACK", 501);
    ftp.ok("SITE SETDISKSTACK file,count", 500);
    ftp.ok("SITE SETDISKSTACK tcp", 500);
    ftp.ok("SITE SETDISKSTACK file:flags=w", 500);
    ftp.ok("SITE SETDISKSTACK count,file", 500);
    assert_eq!(ftp.fetch("f"), b"x");
    // Files of this machine, and connections times connections.
    let server = TestServer::with(|o| o.net_stacks = list(&["tcp", "tls", "udt", "mode_e"]));
    let mut ftp = server.login();
    for (stack, says) in [
        (
            "tcp,tls:cert=/etc/passwd",
            "cert is this end's own business",
        ),
        (
            "tcp,tls:close_notify=optional",
            "close_notify is this end's",
        ),
        ("udt:port=22", "port is this end's own business"),
        ("udt:rcvbuf=1G", "rcvbuf does not accept"),
        (
            "tcp,mode_e:streams=64,mode_e:streams=64",
            "stands in a stack once",
        ),
    ] {
        let reply = ftp.ok(&format!("SITE SETNETSTACK {stack}"), 500);
        assert!(reply.text().contains(says), "{stack}: {}", reply.text());
    }
    // Without a word of the administrator, only TCP is there to choose.
    let server = TestServer::new();
    let mut ftp = server.login();
    ftp.ok("SITE SETNETSTACK tcp", 250);
    ftp.ok("SITE SETNETSTACK tcp,count", 500);
    ftp.ok("SITE SETDISKSTACK file", 250);
}

#[test]
fn a_file_passes_through_the_layers_over_it() {
    let server = TestServer::with(|o| o.disk_stacks = list(&["file", "count"]));
    let file = bytes(1_500_000);
    let mut ftp = server.login();
    ftp.ok("SITE SETDISKSTACK file,count", 250);
    for mode in ["S", "E"] {
        ftp.ok(&format!("MODE {mode}"), 200);
        if mode == "S" {
            assert_eq!(ftp.store("STOR f", &file).code, 226);
            assert_eq!(server.get("f"), file);
            assert_eq!(ftp.fetch("f"), file);
            assert_eq!(ftp.store("STOR empty", b"").code, 226);
            assert_eq!(ftp.fetch("empty"), b"");
        }
    }
    ftp.ok("MODE S", 200);
    // Commands that need a length or an offset in the file are refused before any data connection.
    ftp.ok("PASV", 227);
    ftp.ok("REST 10", 350);
    ftp.ok("RETR f", 504);
    ftp.ok("ERET P 0 5 f", 504);
    ftp.ok("APPE f", 504);
    ftp.ok("SITE SETDISKSTACK default", 250);
    ftp.ok("REST 10", 350);
    ftp.ok("PASV", 227);
    assert_eq!(server.get("f"), file);
}

#[test]
fn a_file_that_the_layers_did_not_write_is_no_passing_trouble() {
    let server = TestServer::with(|o| o.disk_stacks = list(&["file", "compress"]));
    server.put("f", bytes(100_000));
    let mut ftp = server.login();
    ftp.ok("SITE SETDISKSTACK file,compress", 250);
    assert_eq!(ftp.store("STOR whole", &bytes(100_000)).code, 226);
    let mut torn = server.get("whole");
    torn.truncate(torn.len() - 1);
    server.put("torn", torn);
    for (name, says) in [("f", "not the bytes of this layer"), ("torn", "compress")] {
        let data = ftp.data();
        ftp.ok(&format!("RETR {name}"), 150);
        let reply = ftp.outcome();
        drop(data);
        assert_eq!(reply.code, 550, "{}", reply.text());
        assert!(reply.text().contains(says), "{}", reply.text());
    }
}

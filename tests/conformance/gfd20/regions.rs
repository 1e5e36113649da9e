//! ERET, ESTO and REST with ranges.

use crate::support::{Data, EOD, EOF, Ftp, TestServer};
use crate::table;

/// Runs a command in MODE E over one connection, and returns its blocks by offset.
fn blocks(ftp: &mut Ftp, command: &str) -> Vec<(u64, Vec<u8>)> {
    let listener = ftp.port();
    ftp.send(command);
    let mut data = Data::accept(&listener);
    let mut blocks = Vec::new();
    loop {
        let (flags, offset, payload) = data.read_block();
        if flags & EOF == 0 && !payload.is_empty() {
            blocks.push((offset, payload));
        }
        if flags & EOD != 0 {
            break;
        }
    }
    assert_eq!(
        (ftp.reply().code, ftp.reply().code),
        (150, 226),
        "{command}"
    );
    blocks.sort();
    blocks
}

/// Offsets of an ERET P region start at 0, REST counts within it, and it ends at the end of the
/// file.
#[test]
fn eret_offsets_are_relative_to_the_region() {
    let server = TestServer::new();
    server.put("f", "0123456789");
    let mut ftp = server.login();
    for (command, bytes) in [
        ("ERET P 2 3 f", "234"),
        ("ERET P 8 100 f", "89"),
        ("ERET P 10 1 f", ""),
        ("ERET P 11 1 f", ""),
        ("ERET P 3 0 f", ""),
        ("ERET P 0 10 f", "0123456789"),
    ] {
        assert_eq!(ftp.get(command), bytes.as_bytes(), "{command}");
    }
    ftp.ok("REST 2", 350);
    assert_eq!(ftp.get("ERET P 4 5 f"), b"678");
    ftp.ok("MODE E", 200);
    ftp.ok("REST 1-3", 350);
    let sent = blocks(&mut ftp, "ERET P 4 5 f");
    assert_eq!(sent, [(0, b"4".to_vec()), (3, b"78".to_vec())]);
}

/// ESTO A adds its offset to every block, truncates nothing, and creates a missing file, in both
/// modes.
#[test]
fn esto_writes_into_a_file() {
    let server = TestServer::new();
    let mut ftp = server.login();
    server.put("f", "0123456789");
    assert_eq!(ftp.store("ESTO A 3 f", b"abc").code, 226);
    assert_eq!(server.get("f"), b"012abc6789");
    assert_eq!(ftp.store("ESTO A 0 new", b"abc").code, 226);
    assert_eq!(server.get("new"), b"abc");
    ftp.ok("MODE E", 200);
    let mut data = ftp.data();
    ftp.ok("ESTO A 8 f", 150);
    data.block(0, 2, b"yz");
    data.block(0, 0, b"wx");
    data.end(1);
    assert_eq!(ftp.outcome().code, 226);
    assert_eq!(server.get("f"), b"012abc67wxyz");
}

/// Unknown modules and invalid arguments. A length of −1, which crashes the Globus server, means
/// the rest of the file.
#[test]
fn invalid_regions_are_refused() {
    let server = TestServer::new();
    server.put("f", "0123456789");
    let mut ftp = server.login();
    ftp.pasv();
    table(
        &mut ftp,
        r#"
        501  ERET  ERET P  ERET P 0 f  ERET P 0 5  ERET P -1 5 f  ERET P 0 -2 f
        501  ERET P 18446744073709551615 1 f  ERET X 0 5 f
        504  ERET mod="a b" f
        501  ESTO A f  ESTO A -1 f
        504  ESTO mod="" f
        "#,
    );
    assert_eq!(ftp.get("ERET P 7 -1 f"), b"789");
}

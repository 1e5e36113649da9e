//! RFC 3659 §3, §2.3: MDTM.

use std::fs::File;
use std::time::{Duration, SystemTime};

use crate::support::TestServer;
use crate::{fresh, table};

/// §3.1, §2.3: the time is UTC, in fourteen digits. The optional fraction is left out, since some
/// clients do not parse it.
#[test]
fn times_are_utc_of_fourteen_digits() {
    let server = TestServer::new();
    let path = server.put("a b", "");
    let mut ftp = fresh(&server);
    let file = File::options().write(true).open(path).unwrap();
    for (seconds, nanos, text) in [
        (0, 0, "19700101000000"),
        (951_827_696, 789_000_000, "20000229123456"),
        (4_102_444_799, 999_999_999, "20991231235959"),
    ] {
        let time = SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos);
        file.set_modified(time).unwrap();
        assert_eq!(ftp.ok("MDTM a b", 213).text(), format!("213 {text}"));
    }
    file.set_modified(SystemTime::UNIX_EPOCH - Duration::from_secs(1))
        .unwrap();
    assert_eq!(ftp.ok("MDTM a b", 213).text(), "213 19691231235959");
}

/// §3.1: the whole argument of MDTM is the name. Some clients put a time before it to set the
/// time; that is part of the name too. MFMT sets times.
#[test]
fn mdtm_sets_nothing() {
    let server = TestServer::new();
    server.put("f", "");
    server.put("20200101000000 f", "");
    let mut ftp = fresh(&server);
    ftp.ok("MFMT 20210304050607 f", 213);
    ftp.ok("MFMT 19990304050607 20200101000000 f", 213);
    assert_eq!(
        ftp.ok("MDTM 20200101000000 f", 213).text(),
        "213 19990304050607"
    );
    assert_eq!(ftp.ok("MDTM f", 213).text(), "213 20210304050607");
    ftp.ok("MDTM 20200101000001 f", 550);
}

/// §3.2: 550 for a missing file, 501 for a missing name.
#[test]
fn a_missing_file_has_no_time() {
    let server = TestServer::new();
    table(&mut fresh(&server), "550  MDTM none\n501  MDTM");
}

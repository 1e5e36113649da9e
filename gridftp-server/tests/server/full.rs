//! A disk without room: the upload is told so, and leaves nothing that takes any.

use std::path::Path;

use crate::support::{TestServer, bytes, hidden};

/// A file system of one MiB, where this machine lets us have one.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"])
            .arg(dir.path())
            .output();
        if !mounted.is_ok_and(|output| output.status.success()) {
            eprintln!("SKIPPED: a full disk needs the right to mount a small tmpfs");
            return None;
        }
        Some(Self(dir))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = std::process::Command::new("umount")
            .arg("-l")
            .arg(self.path())
            .status();
        assert!(unmounted.is_ok_and(|status| status.success()) || std::thread::panicking());
    }
}

#[test]
fn a_full_disk_is_reported_and_nothing_is_left() {
    let Some(disk) = SmallDisk::mount() else {
        return;
    };
    let server = TestServer::with(|o| o.root = Some(disk.path().into()));
    server.put("old", "old");
    for verb in ["STOR f", "STOR old"] {
        let mut ftp = server.login();
        let mut data = ftp.data();
        ftp.ok(verb, 150);
        // The server may reset the connection before all of it is taken.
        let _ = std::io::Write::write_all(&mut data.0, &bytes(4 << 20));
        drop(data);
        let reply = ftp.outcome();
        assert_eq!(reply.code, 552, "{reply:?}");
        assert_eq!(hidden(&server.root), Vec::<String>::new());
    }
    assert!(!server.has("f"));
    assert_eq!(server.get("old"), b"old");
    drop(server);
}

/// The partial file of an earlier attempt is removed as well, to free its space.
#[test]
fn a_disk_that_is_full_at_last_has_its_room_again() {
    let Some(disk) = SmallDisk::mount() else {
        return;
    };
    let server = TestServer::with(|o| o.root = Some(disk.path().into()));
    let mut ftp = server.login();
    ftp.ok("ALLO 900000", 200);
    let mut data = ftp.data();
    ftp.ok("STOR f", 150);
    data.write(&bytes(500_000));
    data.finish();
    assert_eq!(ftp.outcome().code, 426);
    assert_eq!(hidden(&server.root).len(), 2);
    ftp.ok("REST 500000", 350);
    let mut data = ftp.data();
    ftp.ok("STOR f", 150);
    let _ = std::io::Write::write_all(&mut data.0, &bytes(4 << 20));
    drop(data);
    assert_eq!(ftp.outcome().code, 552);
    assert_eq!(ftp.ok("SITE HELD f", 213).lines, ["213 Range Marker"]);
    assert_eq!(hidden(&server.root), Vec::<String>::new());
    // Nothing of it is left to go on with, whatever the client was told before.
    for (mode, point) in [("S", "REST 500000"), ("E", "REST 0-500000")] {
        ftp.ok(&format!("MODE {mode}"), 200);
        ftp.ok(point, 350);
        ftp.pasv();
        ftp.ok("STOR f", 554);
    }
    ftp.ok("MODE S", 200);
    assert_eq!(ftp.store("STOR g", &bytes(900_000)).code, 226);
    drop((ftp, server));
}

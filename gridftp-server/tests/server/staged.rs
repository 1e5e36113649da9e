//! Storage with an archive: `SITE STAGE`, `X.staged`, and a download that waits.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::process::Daemon;

#[test]
fn a_download_waits_for_a_file_in_the_archive() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let root = folder.join("tree");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("f"), "content").unwrap();
    let program = |name: &str, text: &str| {
        let path = folder.join(name);
        let script = format!(
            "#!/bin/sh\nPATH=/usr/bin:/bin; cd {}\n{text}\n",
            folder.display()
        );
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    };
    let status = program("status", "test -e here$1");
    let recall = program(
        "recall",
        "echo \"$GRIDFTP_TASK $1\" >> calls; while ! test -e tape; do sleep 0.05; done; mkdir -p here; touch here$1",
    );
    let storage = format!(
        "posix:root={},staged:status={status};recall={recall}",
        root.display()
    );
    let flags = ["--storage", &storage, "--anonymous", "ro"];
    let server = Daemon::start(&root, &flags);
    let mut ftp = server.login();
    let facts = |ftp: &mut crate::support::Ftp| ftp.ok("MLST f", 250).text();
    assert!(facts(&mut ftp).contains("X.staged=false;"));
    ftp.ok("SITE TASKID move-1", 250);
    let waits = ftp.ok("SITE STAGE 0 f", 450).text();
    assert!(
        waits.contains("f: is being retrieved from the archive..."),
        "{waits}"
    );
    let mut other = server.login();
    let data = other.data();
    other.send("RETR f");
    // It is in the middle of its wait, which the tape ends.
    let again = ftp.ok("SITE STAGE 0 f", 450);
    fs::write(folder.join("tape"), "").unwrap();
    assert_eq!(other.outcome().code, 150, "{again:?}");
    assert_eq!(data.read(), b"content");
    assert_eq!(other.outcome().code, 226);
    ftp.ok("SITE STAGE 60 f", 250);
    assert!(facts(&mut ftp).contains("X.staged=true;"));
    let calls = fs::read_to_string(folder.join("calls")).unwrap();
    assert_eq!(calls, "move-1 /f\n", "one retrieval serves both");
    ftp.ok("SITE STAGE 0 nothing", 550);
}

//! Storage with an archive: `SITE STAGE`, `X.staged`, and a download that waits.

use std::fs;
use std::io::BufRead as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::process::Daemon;

/// The storage of the file `tree/f`, which is at hand once `tape` is in the folder.
pub(crate) fn archive_storage(folder: &Path) -> String {
    let root = folder.join("tree");
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
        "echo \"$STAGE_TASK $1\" >> calls; while ! test -e tape; do sleep 0.05; done; mkdir -p here; touch here$1",
    );
    format!(
        "posix:root={},staged:status={status};recall={recall}",
        root.display()
    )
}

/// A server of it.
fn archive(folder: &Path, flags: &[&str]) -> Daemon {
    let root = folder.join("tree");
    fs::create_dir(&root).unwrap();
    let storage = archive_storage(folder);
    let all = [&["--storage", &storage, "--anonymous", "ro"], flags].concat();
    Daemon::start(&root, &all)
}

#[test]
fn an_archive_of_a_file_in_the_archive_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let server = archive(dir.path(), &["--stall-timeout", "2"]);
    let mut ftp = server.login();
    let data = ftp.data();
    ftp.send("ERET tar=\"\" /");
    assert_eq!(ftp.outcome().code, 150);
    let ended = ftp.outcome();
    let text = ended.text();
    assert_eq!(ended.code, 450, "{text}");
    assert!(
        text.contains("/f") && text.contains("is being retrieved from the archive..."),
        "{text}"
    );
    drop(data);
    // The retrieval went on.
    fs::write(dir.path().join("tape"), "").unwrap();
    ftp.ok("SITE STAGE 60 f", 250);
    let tar = ftp.get("ERET tar=\"\" /");
    assert!(tar.windows(7).any(|bytes| bytes == b"content"));
    let calls = fs::read_to_string(dir.path().join("calls")).unwrap();
    assert_eq!(calls, " /f\n");
}

#[test]
fn a_download_waits_for_a_file_in_the_archive() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let server = archive(folder, &[]);
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
    other.ok("OPTS RETR Markers=1;", 200);
    let data = other.data();
    other.send("RETR f");
    // A sign comes as often as markers.
    let mut sign = String::new();
    other.reader.read_line(&mut sign).unwrap();
    let waits = "150-Waiting for the storage, which retrieves the file.\r\n";
    assert_eq!(sign, waits);
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

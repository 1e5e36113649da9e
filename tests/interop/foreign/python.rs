//! Python's `ftplib` and `PyFilesystem2` against our server.

use std::fs;

use anyhow::{Result, ensure};
use workspace_tests::{Finished, Peer, Tree, python, run};

use crate::bed::{LIMIT, Place};

/// Runs a program after `import` and with the server's port as `port`, or returns nothing where `peer` is missing.
fn script(peer: Peer, server: &Place, text: &str) -> Result<Option<Finished>> {
    if peer.require("interop: Python").is_none() {
        return Ok(None);
    }
    let Some(host) = &server.host else {
        return Ok(None);
    };
    let text = format!("port = {}\n{text}", host.addr().port());
    run(python().args(["-c", &text]), LIMIT).map(Some)
}

#[test]
fn ftplib_reads_the_name_of_a_new_directory() -> Result<()> {
    let server = Place::ours()?;
    let text = r#"
import ftplib
ftp = ftplib.FTP()
ftp.connect("127.0.0.1", port)
ftp.login()
assert ftp.mkd("made") == "/made", "MKD"
assert ftp.mkd('quo"ted') == '/quo"ted', "quotes are doubled"
assert ftp.pwd() == "/", "PWD"
"#;
    if let Some(finished) = script(Peer::Python, &server, text)? {
        finished.ok()?;
        ensure!(server.path("made").is_dir());
    }
    Ok(())
}

#[test]
fn ftplib_lists_and_moves_files() -> Result<()> {
    let server = Place::ours()?;
    server.tree.file("dir/one", 12_345, 1)?;
    let text = r#"
import ftplib, io
ftp = ftplib.FTP()
ftp.connect("127.0.0.1", port)
ftp.login()
facts = dict(ftp.mlsd("dir"))
assert facts["one"]["size"] == "12345", facts
assert ftp.nlst("dir") == ["one"], ftp.nlst("dir")
data = io.BytesIO()
ftp.retrbinary("RETR dir/one", data.write)
ftp.storbinary("STOR two", io.BytesIO(data.getvalue()))
ftp.storlines("STOR text", io.BytesIO(b"a\r\nb\r\n"))
lines = []
ftp.retrlines("RETR text", lines.append)
assert lines == ["a", "b"], lines
assert ftp.size("two") == 12345
ftp.rename("two", "three")
ftp.delete("dir/one")
ftp.rmd("dir")
ftp.quit()
"#;
    if let Some(finished) = script(Peer::Python, &server, text)? {
        finished.ok()?;
        ensure!(server.path("three").exists() && !server.path("dir").exists());
    }
    Ok(())
}

#[test]
fn pyfilesystem_writes_into_the_middle_of_a_file() -> Result<()> {
    let server = Place::ours()?;
    let path = server.tree.file("file", 100, 2)?;
    let before = fs::read(&path)?;
    let text = r#"
import fs.ftpfs
ftp = fs.ftpfs.FTPFS("127.0.0.1", port=port)
with ftp.openbin("file", "r+") as file:
    file.seek(10)
    file.write(b"XYZ")
with ftp.openbin("file", "r") as file:
    file.seek(8)
    assert file.read(7)[2:5] == b"XYZ"
assert ftp.getsize("file") == 100, ftp.getsize("file")
"#;
    if let Some(finished) = script(Peer::PyFilesystem, &server, text)? {
        finished.ok()?;
        let mut want = before;
        want.splice(10..13, *b"XYZ");
        ensure!(fs::read(&path)? == want, "other bytes changed");
    }
    Ok(())
}

#[test]
fn pyfilesystem_works_on_a_tree() -> Result<()> {
    let (server, _) = (Place::ours()?, Tree::new()?);
    let text = r#"
import fs.ftpfs, fs.memoryfs, fs.copy, fs.walk
ftp = fs.ftpfs.FTPFS("127.0.0.1", port=port)
memory = fs.memoryfs.MemoryFS()
for n in range(20):
    memory.makedirs(f"d{n % 3}/x", recreate=True)
    memory.writebytes(f"d{n % 3}/x/file {n}", bytes([n]) * n * 100)
fs.copy.copy_dir(memory, "/", ftp, "/")
for path in memory.walk.files():
    assert ftp.readbytes(path) == memory.readbytes(path), path
assert sorted(ftp.walk.files()) == sorted(memory.walk.files())
ftp.removetree("d1")
ftp.appendbytes("d0/x/file 3", b"more")
assert ftp.readbytes("d0/x/file 3").endswith(b"more")
ftp.move("d0/x/file 3", "moved")
assert ftp.exists("moved") and not ftp.exists("d1")
"#;
    if let Some(finished) = script(Peer::PyFilesystem, &server, text)? {
        finished.ok()?;
    }
    Ok(())
}

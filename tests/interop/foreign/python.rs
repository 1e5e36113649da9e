//! Python's `ftplib` and `PyFilesystem2` against our server.

use std::fs;

use anyhow::{Result, ensure};
use workspace_tests::{Finished, Peer, python, run};

use crate::bed::{End, LIMIT};

/// Runs a program whose variable `port` is the server's, or returns nothing where `peer` is
/// missing.
fn script(peer: Peer, server: &End, text: &str) -> Result<Option<Finished>> {
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
    let server = End::ours()?;
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
    let server = End::ours()?;
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
    let server = End::ours()?;
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
fn pyfilesystem_reads_writes_and_appends() -> Result<()> {
    let server = End::ours()?;
    server.tree.file("dir/old", 1000, 3)?;
    let text = r#"
import fs.ftpfs
ftp = fs.ftpfs.FTPFS("127.0.0.1", port=port)
assert ftp.listdir("dir") == ["old"]
ftp.writebytes("dir/new", b"new")
ftp.appendbytes("dir/new", b" and more")
assert ftp.readbytes("dir/new") == b"new and more"
assert ftp.getsize("dir/old") == 1000 and ftp.isfile("dir/old")
assert sorted(ftp.walk.files()) == ["/dir/new", "/dir/old"]
ftp.remove("dir/new")
"#;
    if let Some(finished) = script(Peer::PyFilesystem, &server, text)? {
        finished.ok()?;
        ensure!(!server.path("dir/new").exists());
    }
    Ok(())
}

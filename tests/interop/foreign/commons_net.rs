//! Apache Commons Net against our server.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use workspace_tests::{Peer, Tree, run};

use crate::bed::{End, LIMIT};

/// A program that lists by each verb, copies a file in both directions, and exits at the first
/// error.
const PROGRAM: &str = r#"
import java.io.*;
import org.apache.commons.net.ftp.*;

class Peer {
    static void check(boolean well, String what) {
        if (!well) throw new RuntimeException(what);
    }

    public static void main(String[] args) throws Exception {
        FTPClient ftp = new FTPClient();
        ftp.connect("127.0.0.1", Integer.parseInt(args[0]));
        check(ftp.login("anonymous", "x"), "login");
        ftp.enterLocalPassiveMode();
        ftp.setFileType(FTP.BINARY_FILE_TYPE);
        // It leaves the entries of the directory itself and of its parent in.
        FTPFile[] facts = ftp.mlistDir("dir", file -> file.isFile());
        check(facts.length == 2, "MLSD: " + facts.length + " of 2");
        for (FTPFile file : facts) check(file.getTimestamp() != null, "MLSD: no time of " + file);
        FTPFile[] files = ftp.listFiles("dir");
        check(files.length == 2, "LIST: " + files.length + " of 2");
        check(ftp.mlistFile("dir/one").getSize() == 1000, "MLST");
        ByteArrayOutputStream data = new ByteArrayOutputStream();
        check(ftp.retrieveFile("dir/one", data) && data.size() == 1000, "RETR");
        check(ftp.storeFile("dir/copy", new ByteArrayInputStream(data.toByteArray())), "STOR");
        check(ftp.setModificationTime("dir/copy", "20210304050607"), "MFMT");
        check(ftp.getModificationTime("dir/copy").contains("20210304050607"), "MDTM");
        check(ftp.rename("dir/copy", "moved") && ftp.makeDirectory("made"), "RNTO, MKD");
        check(ftp.changeWorkingDirectory("made"), "CWD");
        check("/made".equals(ftp.printWorkingDirectory()), "PWD");
        ftp.logout();
    }
}
"#;

#[test]
fn listings_and_copies_in_both_directions() -> Result<()> {
    let (server, local) = (End::ours()?, Tree::new()?);
    server.tree.file("dir/one", 1000, 1)?;
    server.tree.file("dir/two words", 2000, 2)?;
    let (Some(java), Some(_)) = (
        Peer::Java.require("interop: Commons Net"),
        Peer::CommonsNet.require("interop: Commons Net"),
    ) else {
        return Ok(());
    };
    let library = Peer::CommonsNet.find().context("no library")?;
    let source = local.path("Peer.java");
    fs::write(&source, PROGRAM)?;
    let host = server.host.as_ref().context("no server")?;
    let mut command = Command::new(java.get_program());
    command
        .arg("-cp")
        .arg(library)
        .arg(&source)
        .arg(host.addr().port().to_string());
    run(&mut command, LIMIT)?.ok()?;
    ensure!(fs::read(server.path("moved"))? == fs::read(server.path("dir/one"))?);
    Ok(())
}

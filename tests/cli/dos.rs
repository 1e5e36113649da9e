//! Servers whose `LIST` has the format of DOS, as the FTP service of Windows sends it.

use anyhow::{Result, ensure};
use workspace_tests::{Reaction, ScriptedServer, Tree};

use crate::sibling::gridftp_in;
use crate::{cp_in, fails};

const ROOT: &str = "\
01-02-20  03:04AM       <DIR>          sub dir\r\n\
12-31-2019  11:59PM                    3 a b\r\n\
01-02-20  03:04PM       <DIR>          empty\r\n";
const SUB: &str = "01-02-20  03:04PM               100000 data.root\r\n";

/// A server of two files, which knows neither `MLSD` nor the options of `LIST`.
fn windows(root: &'static str) -> Result<ScriptedServer> {
    let server = ScriptedServer::start(move |line| match line.split_once(' ') {
        // A path that begins with an option is a name there.
        Some(("LIST", path)) if path.starts_with("-a") => Reaction::say("550 not found"),
        Some(("LIST", path)) => Reaction::send(match path.trim_end_matches('/') {
            "/dir" => root.as_bytes(),
            "/dir/sub dir" => SUB.as_bytes(),
            _ => b"",
        }),
        _ => Reaction::Usual,
    })?;
    server.file("/dir/a b", "abc");
    server.file("/dir/sub dir/data.root", vec![3; 100_000]);
    server.dir("/dir/empty");
    Ok(server)
}

#[test]
fn a_tree_is_listed_and_copied_from_a_windows_server() -> Result<()> {
    let server = windows(ROOT)?;
    let tree = Tree::new()?;
    let listed = cp_in(&tree, &["--list", &server.url("dir")])?.ok()?;
    let has = |name: &str| listed.stdout.lines().any(|line| line.ends_with(name));
    ensure!(
        has(" a b") && has(" sub dir/") && has(" empty/"),
        "{}",
        listed.report()
    );
    cp_in(&tree, &["-r", &server.url("dir/"), "in/"])?.ok()?;
    let names = tree.names("")?;
    ensure!(names == ["in/a b", "in/sub dir/data.root"], "{names:?}");
    ensure!(tree.path("in/empty").is_dir());
    ensure!(std::fs::read(tree.path("in/a b"))? == b"abc");
    let copy = std::fs::read(tree.path("in/sub dir/data.root"))?;
    ensure!(copy == vec![3; 100_000]);
    let same = gridftp_in(&tree, &["check", "in", &server.url("dir")])?.ok()?;
    ensure!(same.stdout.contains("no difference"), "{}", same.report());
    Ok(())
}

#[test]
fn links_of_a_windows_server_are_copied_as_links() -> Result<()> {
    let server = windows(
        "01-02-20  03:04AM       <DIR>          sub dir\r\n\
         01-02-20  03:04AM    <SYMLINKD>     to data [.\\sub dir\\data.root]\r\n",
    )?;
    let tree = Tree::new()?;
    let args = ["-r", "--links", "copy", &server.url("dir/"), "in/"];
    cp_in(&tree, &args)?.ok()?;
    let target = std::fs::read_link(tree.path("in/to data"))?;
    ensure!(target.as_os_str() == "./sub dir/data.root", "{target:?}");
    Ok(())
}

#[test]
fn a_size_of_a_dos_listing_that_the_file_does_not_have_is_a_failure() -> Result<()> {
    let server = windows("01-02-20  03:04PM                    4 a b\r\n")?;
    let tree = Tree::new()?;
    let flags = ["-r", "--retries", "0"];
    let said = cp_in(&tree, &[&flags[..], &[&server.url("dir/"), "in/"]].concat())?;
    fails(&said, 1, &["3 bytes came of 4"])?;
    ensure!(!tree.path("in/a b").exists(), "{}", said.report());
    Ok(())
}

//! Servers with several host names, and a credential for each.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use workspace_tests::{Tree, same_file};

use super::bed::{Kind, Lab, copy, local, url};

/// Writes the credential of a host into a folder of the lab.
fn put(lab: &Lab, folder: &str, names: &[&str]) -> Result<()> {
    let grid = lab.files().grid();
    fs::create_dir_all(lab.files().path(folder))?;
    let pem = grid.host(names).to_pem();
    let key = pem.find("-----BEGIN PRIVATE KEY").context("no key")?;
    let (certificate, key) = pem.split_at(key);
    grid.write(&format!("{folder}/hostcert.pem"), certificate, 0o644);
    grid.write(&format!("{folder}/hostkey.pem"), key, 0o400);
    Ok(())
}

/// The default credential is for another name, so that every copy needs the one in the directory.
#[test]
fn a_client_meets_the_credential_for_the_name_that_it_asks_for() -> Result<()> {
    let lab = Lab::new()?;
    put(&lab, ".", &["other.example.org"])?;
    put(&lab, "vhosts/first", &["one.example.org"])?;
    put(&lab, "vhosts/second", &["localhost", "127.0.0.1"])?;
    for kind in [Kind::Ours, Kind::Globus] {
        let (there, here) = (Tree::new()?, Tree::new()?);
        there.file("file", 300_017, 10)?;
        let Some(server) = lab.serve_hosts(kind, &there, "vhosts")? else {
            continue;
        };
        for client in [Kind::Ours, Kind::Globus] {
            let Some(mut client) = lab.client(client)? else {
                continue;
            };
            copy(
                &mut client,
                &[],
                &url(&server, "file"),
                &local(&here, "got"),
            )?
            .ok()?;
            same_file(&there.path("file"), &here.path("got"))?;
        }
    }
    let (there, here) = (Tree::new()?, Tree::new()?);
    let server = lab.serve_ours(&there, &[])?;
    let mut client = lab.client(Kind::Ours)?.context("it is ours")?;
    let refused = copy(
        &mut client,
        &[],
        &url(&server, "file"),
        &local(&here, "got"),
    )?
    .failed()?;
    ensure!(
        refused.stderr.contains("other.example.org"),
        "{}",
        refused.report()
    );
    Ok(())
}

//! Object stores behind the storage interface and behind our server: versitygw and moto.

use std::fs;
use std::process::Command;

use anyhow::{Result, ensure};
use gridftp_dsi_object::{Config, Objects};
use workspace_tests::{Host, ObjectServer, ObjectServerKind, Tree, binary, run, same_file};

use crate::bed::LIMIT;

/// The bucket of a server, below a prefix that tests bytes of keys.
fn config(server: &ObjectServer) -> Result<Config> {
    let mut config = Config::new("s3://bucket/a prefix/é%20", server.dir("index")?);
    config.endpoint = Some(server.endpoint());
    config.region = Some("us-east-1".to_owned());
    config.credentials = Some(server.keys());
    // The least that S3 takes, so that the suite moves little.
    config.part = Some(5 << 20);
    Ok(config)
}

fn suite(kind: ObjectServerKind) -> Result<()> {
    let Some(server) = ObjectServer::start(kind)? else {
        return Ok(());
    };
    let store = Objects::open(&config(&server)?)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let report = runtime.block_on(xio_testkit::dsi_suite::run(&store));
    assert!(report.passed.len() > 25, "{report:?}");
    Ok(())
}

#[test]
fn versitygw_keeps_the_contract_of_storage() -> Result<()> {
    suite(ObjectServerKind::Versitygw)
}

#[test]
fn moto_keeps_the_contract_of_storage() -> Result<()> {
    suite(ObjectServerKind::Moto)
}

const SIZE: u64 = 100 << 20;

/// Most memory of a server that moves one such file: the pool, the parts and the read-ahead.
const MEMORY: u64 = 256 << 20;

/// Copies a file up and down through our server, in both modes, and names of all kinds.
fn through_the_server(kind: ObjectServerKind) -> Result<()> {
    let Some(server) = ObjectServer::start(kind)? else {
        return Ok(());
    };
    let tree = Tree::new()?;
    let file = tree.file("file", SIZE, 7)?;
    let index = server.dir("index")?;
    let host = Host::ours_with(tree.root(), &["--storage", &server.storage()?])?;
    let cp = |words: &[&str]| -> Result<()> {
        run(Command::new(binary("gridftp-cp")?).args(words), LIMIT)?.ok()?;
        Ok(())
    };
    let from = file.display().to_string();
    for streams in ["1", "4"] {
        let name = format!("p{streams} é#?%25");
        let (url, copy) = (host.url(&name), tree.path(&name));
        cp(&["-p", streams, &from, &url])?;
        cp(&["-p", streams, "--verify", &url, &copy.display().to_string()])?;
        same_file(&file, &copy)?;
    }
    let held = host.peak_memory()?;
    ensure!(held < MEMORY, "the server took {held} bytes");
    ensure!(server.orphans() == 0, "parts are left");
    ensure!(fs::read_dir(&index)?.count() == 0, "journals are left");
    ensure!(
        !host.output().contains(ObjectServer::SECRET),
        "the secret key is in the log"
    );
    Ok(())
}

#[test]
fn files_move_through_our_server_to_versitygw_and_back() -> Result<()> {
    through_the_server(ObjectServerKind::Versitygw)
}

#[test]
fn files_move_through_our_server_to_moto_and_back() -> Result<()> {
    through_the_server(ObjectServerKind::Moto)
}

//! Object stores behind the storage interface and behind our server: versitygw and moto.

use anyhow::Result;
use gridftp_dsi_object::{Config, Objects};
use workspace_tests::{ObjectServer, ObjectServerKind};

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

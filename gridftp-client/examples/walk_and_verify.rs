//! Compares a local tree with its copy at a server by digests, `walk_and_verify DIR URL`.
//!
//! ```text
//! walk_and_verify run7 ftp://dtn.example.org:2811/data/run7
//! ```
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use gridftp_client::local::{Found, walk};
use gridftp_client::types::ChecksumAlgorithm;
use gridftp_client::{Client, ConnectOptions, Location, names, url, verify};

/// Returns the number of files that differ or are missing.
pub(crate) async fn run(
    dir: &str,
    copy: &str,
    mut out: impl Write,
) -> Result<u64, Box<dyn std::error::Error>> {
    let Location::Remote(copy) = Location::parse(copy)? else {
        return Err("the copy has to be at a server".into());
    };
    let options = ConnectOptions::default().connect_within(Duration::from_secs(10));
    let client = Client::connect(&copy.site, Arc::new(options)).await?;
    let mut found = walk(dir.into(), None);
    let mut bad = 0;
    while let Some(object) = found.recv().await {
        let Found::File(item) = object else {
            continue;
        };
        let name = url::show(&item.relative);
        let algorithm = ChecksumAlgorithm::Sha256;
        let ours = verify::local(&item.path, algorithm, 0, None).await?;
        let there = names::join(&copy.path, &item.relative);
        let verdict = match client.checksum(&there, algorithm, 0, None).await {
            Ok(theirs) if theirs == ours => "same".to_owned(),
            Ok(_) => "differs".to_owned(),
            Err(error) => error.to_string(),
        };
        bad += u64::from(verdict != "same");
        writeln!(out, "{name}: {verdict}")?;
    }
    client.close().await;
    Ok(bad)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<_> = std::env::args().skip(1).collect();
    let [dir, copy] = words.as_slice() else {
        return Err("usage: walk_and_verify DIR URL".into());
    };
    match run(dir, copy, std::io::stdout()).await? {
        0 => Ok(()),
        bad => Err(format!("{bad} files differ").into()),
    }
}

//! Attribute certificates of VOMS in a proxy: carried along, and ignored without harm.

use anyhow::{Context as _, Result, ensure};
use workspace_tests::{Tree, binary, same_file};

use super::bed::{Kind, Lab, copy, local, url};
use super::ends::served;

/// The identifier of the extension with them.
const VOMS: &[u8] = &[0x06, 10, 0x2b, 6, 1, 4, 1, 0xbe, 0x45, 100, 100, 5];

fn has_attributes(der: &[u8]) -> bool {
    der.windows(VOMS.len()).any(|bytes| bytes == VOMS)
}

#[test]
fn files_go_up_and_down_by_a_proxy_with_attributes() -> Result<()> {
    let lab = Lab::new()?;
    let proxy = lab.files().grid().voms_proxy("Alice Lab");
    let _ = lab.files().grid().store(&proxy, "proxy.pem");
    for (client, server) in [
        (Kind::Ours, Kind::Ours),
        (Kind::Ours, Kind::Globus),
        (Kind::Globus, Kind::Ours),
    ] {
        let (far, near) = (Tree::new()?, Tree::new()?);
        let Some(host) = lab.serve_limited(server, &far, "TLS1_3_VERSION")? else {
            continue;
        };
        near.file("file", 1_000_003, 10)?;
        let flags: &[&str] = match client {
            Kind::Ours => &["-p", "4"],
            Kind::Globus => &["-p", "4", "-dcpriv"],
        };
        for (from, to) in [
            (local(&near, "file"), url(&host, "up")),
            (url(&host, "up"), local(&near, "down")),
        ] {
            let Some(mut program) = lab.client(client)? else {
                return Ok(());
            };
            copy(&mut program, flags, &from, &to)?
                .ok()
                .with_context(|| format!("{client:?} {server:?}: {}", host.output()))?;
        }
        same_file(&near.path("down"), &near.path("file"))?;
    }
    Ok(())
}

#[tokio::test]
async fn what_is_delegated_keeps_the_attributes() -> Result<()> {
    let lab = Lab::new()?;
    let proxy = lab.files().grid().voms_proxy("Alice Lab");
    let _ = lab.files().grid().store(&proxy, "proxy.pem");
    let host = lab.files().grid().host(&["localhost"]);
    let client = |port| {
        let mut client = std::process::Command::new(binary("gridftp-cp")?);
        lab.files().login(&mut client);
        client.args(["--retries", "0", "--list"]);
        client.arg(format!("gsiftp://localhost:{port}/"));
        Ok(client)
    };
    let (accepted, _) = served(lab.files(), &host, client).await?;
    let delegated = accepted?.delegated.context("nothing was delegated")?;
    ensure!(delegated.identity().to_string() == lab.files().identity());
    let with = delegated.chain().iter().filter(|der| has_attributes(der));
    ensure!(with.count() == 1, "the chain has the attributes once");
    Ok(())
}

//! Secrets: neither tokens nor keys in what `gridftp-cp` and the server tell, at any level.

use std::process::Command;

use anyhow::{Result, ensure};
use workspace_tests::{GridLab, Host, Tree, binary, run, same_file};

use crate::LIMIT;

#[test]
fn a_session_of_grid_security_tells_no_secret() -> Result<()> {
    let (lab, there, here) = (GridLab::new()?, Tree::new()?, Tree::new()?);
    there.file("file", 10_000, 1)?;
    let mut server = Command::new(binary("gridftp-server")?);
    server.args(["--bind", "127.0.0.1", "--port", "0", "--log-level", "trace"]);
    server.arg("--host-cert").arg(lab.path("hostcert.pem"));
    server.arg("--host-key").arg(lab.path("hostkey.pem"));
    server.arg("--ca-dir").arg(lab.grid().certificates());
    server.arg("--gridmap").arg(lab.path("grid-mapfile"));
    server.arg("--root").arg(there.root());
    let host = Host::ours_from(&mut server, there.root())?;
    let url = host.url("file").replace("127.0.0.1", "localhost");
    let url = url.replacen("ftp://", "gsiftp://", 1);
    let proxy = std::fs::read_to_string(lab.path("proxy.pem"))?;
    for credential in ["own", "auto"] {
        let mut client = Command::new(binary("gridftp-cp")?);
        lab.login(&mut client).current_dir(here.root());
        client.args(["--debug", "--data-cred", credential, &url, "copy"]);
        let finished = run(&mut client, LIMIT)?.ok()?;
        same_file(&there.path("file"), &here.path("copy"))?;
        let told = format!("{}{}{}", finished.stdout, finished.stderr, host.output());
        ensure!(told.contains("FEAT"), "the session is not told: {told}");
        for line in proxy.lines().filter(|line| line.len() == 64) {
            ensure!(!told.contains(line), "{told}");
        }
        // Tokens, and the key of a credential made for the session, are long words.
        let long = told.split_whitespace().find(|word| word.len() > 200);
        ensure!(long.is_none(), "{long:?}");
    }
    Ok(())
}

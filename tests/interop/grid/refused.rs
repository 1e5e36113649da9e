//! Clients of Grid security that our server refuses, with the reason in the reply.

use std::fs;

use anyhow::{Result, ensure};
use gsi::certificate::ProxyRights;
use gsi::proxy::ProxyOptions;
use workspace_tests::Tree;

use super::bed::{Kind, Lab, copy, local, url};

/// Uploads a file with `globus-url-copy` in a Grid that `change` has altered; the upload must fail
/// with these words, and leave nothing.
fn refused(change: impl FnOnce(&Lab) -> Result<()>, flags: &[&str], words: &str) -> Result<()> {
    let lab = Lab::new()?;
    change(&lab)?;
    let (far, near) = (Tree::new()?, Tree::new()?);
    let Some(host) = lab.serve_limited(Kind::Ours, &far, "TLS1_3_VERSION")? else {
        return Ok(());
    };
    let Some(mut client) = lab.client(Kind::Globus)? else {
        return Ok(());
    };
    near.file("file", 1000, 1)?;
    let failed = copy(&mut client, flags, &local(&near, "file"), &url(&host, "up"))?.failed()?;
    ensure!(failed.stderr.contains(words), "{}", failed.report());
    ensure!(!fs::exists(far.path("up"))?, "the file is there");
    Ok(())
}

#[test]
fn an_identity_without_a_line_in_the_grid_mapfile() -> Result<()> {
    let unmap = |lab: &Lab| {
        lab.files()
            .grid()
            .write("grid-mapfile", "\"/O=Grid/OU=Lab/CN=Bob\" bob\n", 0o644);
        Ok(())
    };
    refused(unmap, &[], "the server's grid-mapfile needs a line for it")
}

#[test]
fn a_revoked_certificate() -> Result<()> {
    let revoke = |lab: &Lab| {
        lab.files().grid().revoke(&["Alice Lab"]);
        Ok(())
    };
    refused(revoke, &[], "revoked")
}

#[test]
fn an_authority_without_a_signing_policy_for_the_name() -> Result<()> {
    // The client trusts by its own directory, which has the policy.
    let narrow = |lab: &Lab| {
        let (from, to) = (lab.files().grid().certificates(), lab.files().path("own"));
        fs::create_dir(&to)?;
        for file in fs::read_dir(&from)? {
            let file = file?;
            fs::copy(file.path(), to.join(file.file_name()))?;
        }
        let policy = format!("own/{}.signing_policy", lab.files().grid().hash());
        let text = "access_id_CA X509 '/O=Grid/OU=Lab/CN=Lab CA'\n\
                    pos_rights globus CA:sign\n\
                    cond_subjects globus '\"/O=Grid/OU=Elsewhere/*\"'\n";
        lab.files().grid().write(&policy, text, 0o644);
        Ok(())
    };
    refused(narrow, &[], "signing_policy does not allow")
}

#[test]
fn an_independent_proxy_is_not_its_user() -> Result<()> {
    let restrict = |lab: &Lab| {
        let mut options = ProxyOptions::default();
        options.rights = ProxyRights::Independent;
        let proxy = lab.files().proxy(&options);
        let _ = lab.files().grid().store(&proxy, "proxy.pem");
        Ok(())
    };
    // An independent proxy is somebody of its own, who has no account.
    refused(
        restrict,
        &[],
        "the server's grid-mapfile needs a line for it",
    )
}

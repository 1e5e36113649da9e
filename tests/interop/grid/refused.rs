//! Clients of Grid security that our server refuses, with the reason in the reply.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use gsi::certificate::ProxyRights;
use gsi::exchange::Delegation;
use gsi::proxy::ProxyOptions;
use tokio::io::AsyncReadExt as _;
use workspace_tests::Tree;
use xio::gsi::{Expect, Gsi};
use xio_testkit::{Grid, Validity};

use super::bed::{Kind, Lab, copy, local, url};
use super::ends::{authenticate, channel, judge, limited, login};

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
fn an_authority_without_a_signing_policy() -> Result<()> {
    let strip = |lab: &Lab| {
        let own = lab.copy_authorities("own")?;
        let policy = format!("{}.signing_policy", lab.files().grid().hash());
        Ok(fs::remove_file(own.join(policy))?)
    };
    refused(strip, &[], "signing_policy to the CA directory")
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
        lab.copy_authorities("own")?;
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

/// No client shows such a certificate, so one of the tests does.
#[tokio::test]
async fn certificates_that_are_not_valid_here() -> Result<()> {
    let (lab, other) = (Lab::new()?, Grid::named("Other CA"));
    let tree = Tree::new()?;
    let host = lab.serve_ours(&tree, &[])?;
    let own = lab.files().grid();
    for (credential, words) in [
        (
            own.issue("Alice Lab", &[], Validity::Expired),
            ["it expired at", "get a new one"],
        ),
        (
            own.issue("Alice Lab", &[], Validity::NotYet),
            ["it is valid from", "set the clock"],
        ),
        (
            own.self_signed("Alice Lab", &[]),
            ["signed by itself and not trusted", "to the CA directory"],
        ),
        (
            other.user("Alice Lab"),
            ["Other CA is unknown", "to the CA directory"],
        ),
    ] {
        let made = authenticate(lab.files(), host.addr(), credential, Delegation::None);
        let refused = limited(made).await.err().context("it is accepted")?;
        let told = refused.to_string();
        for word in words {
            ensure!(told.contains(word), "{word}: {told}");
        }
    }
    Ok(())
}

/// The server demands its own identity or that of `DCAU S` on data connections; the client takes
/// anybody. Without delegation the server has but the identity of the host, as that of GCT.
#[tokio::test]
async fn data_of_another_identity() -> Result<()> {
    let lab = Lab::new()?;
    let (alice, tree) = (lab.files().identity(), Tree::new()?);
    tree.file("file", 1000, 1)?;
    let host = lab.serve_ours(&tree, &[])?;
    for (delegation, demand, expected) in [
        (Delegation::None, "DCAU A", "/O=Grid/OU=Lab/CN=localhost"),
        (
            Delegation::Limited,
            "DCAU S /O=Grid/CN=Bob",
            "/O=Grid/CN=Bob",
        ),
    ] {
        for passive in [true, false] {
            limited(async {
                let mut session = login(lab.files(), host.addr(), delegation).await?;
                session.command(demand, "200").await?;
                session.command("PROT P", "200").await?;
                let proxy = lab.files().proxy(&ProxyOptions::default());
                let gsi = Gsi::new(&proxy, judge(lab.files())?)?.expect(Expect::Any);
                let made = channel(&mut session, gsi, passive, "RETR /file\r\n").await;
                if let Ok(mut data) = made {
                    // The client of TLS 1.3 is done before the server has looked at it.
                    let mut received = Vec::new();
                    let _ = data.read_to_end(&mut received).await;
                    ensure!(received.is_empty(), "the file is sent");
                }
                let reply = session.reply().await?;
                let words = format!(
                    "authenticated as {alice}. Expected the peer to authenticate as {expected}"
                );
                ensure!(reply.contains(&words), "{passive}: {reply}");
                Ok(())
            })
            .await?;
        }
    }
    Ok(())
}

#[test]
fn data_with_less_protection_than_the_server_demands() -> Result<()> {
    let lab = Lab::new()?;
    let (far, near) = (Tree::new()?, Tree::new()?);
    near.file("file", 1000, 1)?;
    for (level, few, enough) in [
        ("integrity", "clear", "safe"),
        ("private", "safe", "private"),
    ] {
        let host = lab.serve_ours(&far, &["--require-data", level])?;
        for kind in [Kind::Ours, Kind::Globus] {
            let flags = |level: &'static str| match (kind, level) {
                (Kind::Ours, level) => vec!["--protect", level],
                (Kind::Globus, "clear") => vec![],
                (Kind::Globus, "safe") => vec!["-dcsafe"],
                (Kind::Globus, _) => vec!["-dcpriv"],
            };
            let Some(mut client) = lab.client(kind)? else {
                return Ok(());
            };
            let (from, to) = (local(&near, "file"), url(&host, "up"));
            let failed = copy(&mut client, &flags(few), &from, &to)?.failed()?;
            let told = failed.stderr.contains("534") || failed.stderr.contains("required");
            ensure!(told, "{}", failed.report());
            ensure!(!fs::exists(far.path("up"))?, "the file is there");
            let Some(mut client) = lab.client(kind)? else {
                return Ok(());
            };
            copy(&mut client, &flags(enough), &from, &to)?.ok()?;
            fs::remove_file(far.path("up"))?;
        }
    }
    Ok(())
}

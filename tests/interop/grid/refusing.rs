//! Sessions that our client refuses, with the reason and the remedy, and with nothing sent.

use std::process::Command;

use anyhow::{Result, ensure};
use workspace_tests::Tree;
use xio_testkit::{Grid, Validity};

use super::bed::{Kind, Lab, copy, local, url};

/// Uploads a file with these choices, and returns what the client says to its refusal.
fn refusal(lab: &Lab, choose: impl Fn(&mut Command)) -> Result<Option<String>> {
    let (far, near) = (Tree::new()?, Tree::new()?);
    near.file("file", 1000, 10)?;
    let Some(host) = lab.serve_limited(Kind::Globus, &far, "TLS1_3_VERSION")? else {
        return Ok(None);
    };
    let Some(mut client) = lab.client(Kind::Ours)? else {
        return Ok(None);
    };
    client.args(["--retries", "0"]);
    choose(&mut client);
    let done = copy(&mut client, &[], &local(&near, "file"), &url(&host, "file"))?;
    let done = done.failed()?;
    ensure!(!far.path("file").exists(), "nothing is sent");
    Ok(Some(done.stderr))
}

#[track_caller]
fn tells(said: Option<String>, words: &[&str]) -> Result<()> {
    let Some(said) = said else { return Ok(()) };
    for word in words {
        ensure!(said.contains(word), "{word}: {said}");
    }
    Ok(())
}

#[test]
fn a_certificate_for_another_host_is_refused() -> Result<()> {
    let lab = Lab::new()?;
    let host = lab.files().grid().host(&["elsewhere.example.org"]);
    for file in ["hostcert.pem", "hostkey.pem"] {
        let _ = lab.files().grid().store(&host, file);
    }
    let words = [
        "the server is elsewhere.example.org, not localhost",
        "--subject",
    ];
    tells(refusal(&lab, |_| ())?, &words)?;
    // Whoever names its subject gets on.
    let said = refusal(&lab, |client| {
        client.args(["--subject", "/O=Grid/OU=Lab/CN=nobody"]);
    });
    tells(said?, &["not /O=Grid/OU=Lab/CN=nobody"])
}

#[test]
fn a_server_of_an_unknown_authority_is_refused() -> Result<()> {
    let (lab, other) = (Lab::new()?, Grid::named("Other CA"));
    let said = refusal(&lab, |client| {
        client.env("X509_CERT_DIR", other.certificates());
    });
    tells(said?, &["Lab CA", "X509_CERT_DIR"])
}

#[test]
fn a_credential_that_is_over_or_missing_is_told_with_its_place() -> Result<()> {
    let lab = Lab::new()?;
    let old = lab
        .files()
        .grid()
        .issue("Alice Lab", &[], Validity::Expired);
    let old = lab.files().grid().store(&old, "old.pem");
    let said = refusal(&lab, |client| {
        client.arg("--cred").arg(&old);
    });
    tells(said?, &["old.pem", "has expired", "gridftp-cp proxy init"])?;
    let said = refusal(&lab, |client| {
        client.env("X509_USER_PROXY", "/nonexistent/proxy");
    });
    tells(said?, &["/nonexistent/proxy"])
}

#[test]
fn data_is_not_authenticated_without_delegation() -> Result<()> {
    let said = refusal(&Lab::new()?, |client| {
        client.args(["--delegation", "none"]);
    });
    tells(said?, &["delegation", "--data-cred auto", "--dcau none"])
}

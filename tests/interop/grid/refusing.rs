//! Sessions that our client refuses, with the reason and the remedy, and with nothing sent.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use gsi::credential::Credential;
use gsi::proxy::ProxyOptions;
use workspace_tests::{Host, Reaction, ScriptedServer, Tree, binary};
use xio::gsi::AdatError;
use xio_testkit::{Grid, Validity};

use super::bed::{Kind, Lab, copy, local, url};
use super::ends::served;

/// A server, and a file to be uploaded to it.
struct Bed<'a> {
    lab: &'a Lab,
    kind: Kind,
    far: Tree,
    near: Tree,
    host: Host,
}

impl<'a> Bed<'a> {
    fn new(lab: &'a Lab, kind: Kind) -> Result<Option<Self>> {
        let (far, near) = (Tree::new()?, Tree::new()?);
        near.file("file", 1000, 10)?;
        let host = lab.serve_limited(kind, &far, "TLS1_3_VERSION")?;
        Ok(host.map(|host| Self {
            lab,
            kind,
            far,
            near,
            host,
        }))
    }

    /// Uploads the file with these choices, and expects the client's refusal in these words.
    fn refuses(&self, choose: impl FnOnce(&mut Command), words: &[&str]) -> Result<()> {
        let client = self.lab.client(Kind::Ours)?;
        let mut client = client.context("our client is there")?;
        client.args(["--retries", "0"]);
        choose(&mut client);
        let (from, to) = (local(&self.near, "file"), url(&self.host, "file"));
        let done = copy(&mut client, &[], &from, &to)?.failed()?;
        tells(&done.stderr, words)?;
        match fs::read(self.far.path("file")) {
            // It makes the file before the data connection.
            Ok(sent) if self.kind == Kind::Globus => ensure!(sent.is_empty(), "sent: {sent:?}"),
            Ok(_) => bail!("the file is there: {}", done.report()),
            Err(_) => {}
        }
        Ok(())
    }
}

fn tells(said: &str, words: &[&str]) -> Result<()> {
    for word in words {
        ensure!(said.contains(word), "no {word:?} in {said}");
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
    let Some(bed) = Bed::new(&lab, Kind::Globus)? else {
        return Ok(());
    };
    let words = [
        "the server is elsewhere.example.org, not localhost",
        "--subject",
    ];
    bed.refuses(|_| (), &words)?;
    // Whoever names its subject gets on.
    bed.refuses(
        |client| {
            client.args(["--subject", "/O=Grid/OU=Lab/CN=nobody"]);
        },
        &["not /O=Grid/OU=Lab/CN=nobody"],
    )
}

#[test]
fn a_server_of_an_unknown_authority_is_refused() -> Result<()> {
    let (lab, other) = (Lab::new()?, Grid::named("Other CA"));
    let Some(bed) = Bed::new(&lab, Kind::Globus)? else {
        return Ok(());
    };
    bed.refuses(
        |client| {
            client.env("X509_CERT_DIR", other.certificates());
        },
        &["Lab CA", "X509_CERT_DIR"],
    )
}

/// The credential of a host, the client's directory of authorities, and its words.
type Row = (Credential, PathBuf, [&'static str; 2]);

/// Directories of authorities: without a signing policy, with one for other names, and with a list
/// that revokes the host.
fn directories(lab: &Lab) -> Result<[PathBuf; 3]> {
    let grid = lab.files().grid();
    let (bare, narrow) = (
        lab.copy_authorities("bare")?,
        lab.copy_authorities("narrow")?,
    );
    let policy = format!("{}.signing_policy", grid.hash());
    fs::remove_file(bare.join(&policy))?;
    let text = fs::read_to_string(narrow.join(&policy))?;
    let text = text.replace("/O=Grid/OU=Lab/*", "/O=Grid/OU=Elsewhere/*");
    fs::write(narrow.join(&policy), text)?;
    // The server of the test does not look at its own certificate.
    grid.revoke(&["localhost"]);
    Ok([bare, narrow, grid.certificates()])
}

/// The server gets no token with the user's certificate.
#[tokio::test]
async fn certificates_of_hosts_that_are_not_valid_here() -> Result<()> {
    let (lab, other) = (Lab::new()?, Grid::named("Other CA"));
    let own = lab.files().grid();
    let whole = lab.copy_authorities("whole")?;
    let [bare, narrow, revoking] = directories(&lab)?;
    let good = || own.host(&["localhost"]);
    let issue = |validity| own.issue("localhost", &["localhost"], validity);
    let rows: [Row; 8] = [
        (
            issue(Validity::Expired),
            whole.clone(),
            ["it expired at", "get a new one"],
        ),
        (
            issue(Validity::NotYet),
            whole.clone(),
            ["it is valid from", "set the clock"],
        ),
        (
            own.self_signed("localhost", &["localhost"]),
            whole.clone(),
            ["signed by itself and not trusted", "X509_CERT_DIR"],
        ),
        (
            other.host(&["localhost"]),
            whole.clone(),
            ["Other CA is unknown", "X509_CERT_DIR"],
        ),
        (
            own.host(&["elsewhere.example.org"]),
            whole,
            ["is elsewhere.example.org, not localhost", "--subject"],
        ),
        (
            good(),
            bare,
            ["signing_policy to the CA directory", "X509_CERT_DIR"],
        ),
        (
            good(),
            narrow,
            ["signing_policy does not allow", "to sign this name"],
        ),
        (good(), revoking, ["revoked it", "get a new one"]),
    ];
    for (host, directory, words) in rows {
        let client = |port| {
            let mut client = Command::new(binary("gridftp-cp")?);
            lab.files().login(&mut client);
            client.env("X509_CERT_DIR", directory);
            client.args(["--retries", "0", "--list"]);
            client.arg(format!("gsiftp://localhost:{port}/"));
            Ok(client)
        };
        let (accepted, finished) = served(lab.files(), &host, client).await?;
        ensure!(
            matches!(accepted, Err(AdatError::Ended | AdatError::Io(_))),
            "{words:?}: {accepted:?}"
        );
        tells(&finished.failed()?.stderr, &words)?;
    }
    Ok(())
}

#[test]
fn a_credential_that_does_not_do_is_told_with_its_place() -> Result<()> {
    let lab = Lab::new()?;
    let Some(bed) = Bed::new(&lab, Kind::Ours)? else {
        return Ok(());
    };
    let own = lab.files().grid();
    let named = |path: &Path| {
        let path = path.to_owned();
        move |client: &mut Command| {
            client.arg("--cred").arg(path);
        }
    };
    let old = own.issue("Alice Lab", &[], Validity::Expired);
    let words = ["old.pem", "has expired", "gridftp-cp proxy init"];
    bed.refuses(named(&own.store(&old, "old.pem")), &words)?;
    bed.refuses(
        |client| {
            client.env("X509_USER_PROXY", "/nonexistent/proxy");
        },
        &["/nonexistent/proxy"],
    )?;
    // Only the server's clock can tell.
    let young = own.issue("Alice Lab", &[], Validity::NotYet);
    let words = ["it is valid from", "set the clock"];
    bed.refuses(named(&own.store(&young, "young.pem")), &words)?;
    let limited = lab.files().proxy(&ProxyOptions::limited());
    let limited = own.store(&limited, "limited.pem");
    bed.refuses(
        |client| {
            client.arg("--cred").arg(&limited);
            client.args(["--delegation", "full"]);
        },
        &["is a limited proxy", "ask for a limited proxy"],
    )
}

#[test]
fn data_is_not_authenticated_without_delegation() -> Result<()> {
    let lab = Lab::new()?;
    let Some(bed) = Bed::new(&lab, Kind::Ours)? else {
        return Ok(());
    };
    bed.refuses(
        |client| {
            client.args(["--delegation", "none"]);
        },
        &["delegation", "--data-cred auto", "--dcau none"],
    )
}

/// Each server expects Bob, and the client is Alice.
#[test]
fn data_of_another_subject_is_refused() -> Result<()> {
    let lab = Lab::new()?;
    for kind in [Kind::Ours, Kind::Globus] {
        let Some(bed) = Bed::new(&lab, kind)? else {
            return Ok(());
        };
        for mode in ["stream", "extended"] {
            bed.refuses(
                |client| {
                    client.args(["--mode", mode, "--dcau", "/O=Grid/OU=Lab/CN=Bob"]);
                },
                &["authenticated as", "/O=Grid/OU=Lab/CN=Bob", "--dcau"],
            )?;
        }
    }
    Ok(())
}

#[test]
fn an_identity_without_an_account_is_told() -> Result<()> {
    let lab = Lab::new()?;
    let map = "\"/O=Grid/OU=Lab/CN=Bob\" bob\n";
    lab.files().grid().write("grid-mapfile", map, 0o644);
    // Our server makes no key for a delegated credential of that identity.
    let needs = "the server's grid-mapfile needs a line for it";
    let by_certificate = "login by certificate";
    for (kind, delegation, words) in [
        (Kind::Ours, "limited", [needs, "refused the authentication"]),
        (Kind::Ours, "none", [needs, by_certificate]),
        (Kind::Globus, "limited", ["Could not map", by_certificate]),
    ] {
        if let Some(bed) = Bed::new(&lab, kind)? {
            let choose = |client: &mut Command| {
                client.args(["--delegation", delegation, "--data-cred", "auto"]);
            };
            let words = [&lab.files().identity(), words[0], words[1]];
            bed.refuses(choose, &words)?;
        }
    }
    Ok(())
}

/// GCT makes keys of the size of the user's, which is too small for RSA where that is on a curve.
#[test]
fn a_key_on_a_curve_is_not_delegated_to_the_globus_server() -> Result<()> {
    let lab = Lab::new()?;
    let curve = lab.files().grid().elliptic("Alice Lab");
    let curve = lab.files().grid().store(&curve, "curve.pem");
    let curve = curve.display().to_string();
    for kind in [Kind::Globus, Kind::Ours] {
        let Some(bed) = Bed::new(&lab, kind)? else {
            return Ok(());
        };
        let mut flags = vec!["--cred", &curve];
        if kind == Kind::Globus {
            let words = ["key size too small", "not RSA", "--data-cred auto"];
            let choose = |client: &mut Command| {
                client.args(&flags);
            };
            bed.refuses(choose, &words)?;
            flags.extend(["--delegation", "none", "--data-cred", "auto"]);
        }
        let mut client = lab.client(Kind::Ours)?.context("our client is there")?;
        let (from, to) = (local(&bed.near, "file"), url(&bed.host, "file"));
        copy(&mut client, &flags, &from, &to)?.ok()?;
    }
    Ok(())
}

/// A server without Grid security, and one behind a middle box that hides it, are all the same: no
/// list of features is believed.
#[test]
fn nothing_but_auth_goes_to_a_server_without_grid_security() -> Result<()> {
    let lab = Lab::new()?;
    let server = ScriptedServer::start(|line| match line {
        "AUTH GSSAPI" => Reaction::say("500 AUTH not understood"),
        _ => Reaction::Usual,
    })?;
    server.file("/file", "bytes");
    let tree = Tree::new()?;
    let mut client = lab.client(Kind::Ours)?.context("our client is there")?;
    let url = server.url("file").replacen("ftp://", "gsiftp://", 1);
    let failed = copy(&mut client, &[], &url, &local(&tree, "file"))?.failed()?;
    tells(
        &failed.stderr,
        &[
            "AUTH GSSAPI: 500 AUTH not understood",
            "nothing else was sent",
        ],
    )?;
    let mut commands = server.commands();
    commands.retain(|command| command != "QUIT");
    ensure!(commands == ["AUTH GSSAPI"], "{commands:?}");
    Ok(())
}

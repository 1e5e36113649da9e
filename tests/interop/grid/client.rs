//! Our client between two servers: one credential, two credentials, authorities that only it trusts.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use workspace_tests::{Host, Tree, same_file};
use xio_testkit::Grid;

use super::bed::{Kind, Lab, copy, url};

/// TLS 1.3 at the Globus servers.
const VERSION: &str = "TLS1_3_VERSION";

/// Servers of two kinds; each is the source once.
const KINDS: [[Kind; 2]; 4] = [
    [Kind::Globus, Kind::Globus],
    [Kind::Globus, Kind::Ours],
    [Kind::Ours, Kind::Globus],
    [Kind::Ours, Kind::Ours],
];

/// A server over a tree of its own.
fn server(lab: &Lab, kind: Kind, tree: &Tree) -> Result<Option<Host>> {
    lab.serve_limited(kind, tree, VERSION)
}

/// Copies a file from one server to the other, and checks it and what `-v` told.
fn across(
    lab: &Lab,
    flags: &[&str],
    (from, one): (&Host, &Tree),
    (to, other): (&Host, &Tree),
    told: &str,
) -> Result<()> {
    let Some(mut client) = lab.client(Kind::Ours)? else {
        return Ok(());
    };
    let both = lab.files().path("both");
    if both.exists() {
        client.env("X509_CERT_DIR", both);
    }
    let done = copy(
        client.arg("-v"),
        flags,
        &url(from, "file"),
        &url(to, "copy"),
    );
    let outputs = || format!("{flags:?}; {}; {}", from.output(), to.output());
    let done = done?.ok().with_context(outputs)?;
    same_file(&one.path("file"), &other.path("copy")).with_context(outputs)?;
    std::fs::remove_file(other.path("copy"))?;
    let said = done.stderr;
    ensure!(said.contains(told), "{flags:?}: {said}");
    Ok(())
}

#[test]
fn one_credential_protects_data_between_servers() -> Result<()> {
    KINDS.into_iter().try_for_each(one_credential)
}

fn one_credential(kinds: [Kind; 2]) -> Result<()> {
    let lab = Lab::new()?;
    let (one, other) = (Tree::new()?, Tree::new()?);
    let (Some(from), Some(to)) = (
        server(&lab, kinds[0], &one)?,
        server(&lab, kinds[1], &other)?,
    ) else {
        return Ok(());
    };
    one.file("file", 3_000_017, 10)?;
    for mode in ["stream", "extended"] {
        for (level, told) in [
            ("clear", "data clear, DCAU self"),
            ("safe", "data safe, DCAU self"),
            ("private", "data private, DCAU self"),
        ] {
            let flags = ["--mode", mode, "--protect", level];
            across(&lab, &flags, (&from, &one), (&to, &other), told)?;
        }
        let flags = [
            "--mode",
            mode,
            "--data-cred",
            "auto",
            "--delegation",
            "none",
        ];
        across(
            &lab,
            &flags,
            (&from, &one),
            (&to, &other),
            "data private, DCAU session",
        )?;
        let flags = ["--mode", mode, "--dcau", "none", "--protect", "clear"];
        across(
            &lab,
            &flags,
            (&from, &one),
            (&to, &other),
            "data clear, DCAU none",
        )?;
    }
    Ok(())
}

#[test]
fn two_credentials_know_each_other_by_subject_or_by_session() -> Result<()> {
    KINDS.into_iter().try_for_each(two_credentials)
}

fn two_credentials(kinds: [Kind; 2]) -> Result<()> {
    let lab = Lab::new()?;
    let (alice, bob) = (
        lab.files().path("proxy.pem"),
        lab.files().person("Bob Lab")?,
    );
    let (one, other) = (Tree::new()?, Tree::new()?);
    let (Some(from), Some(to)) = (
        server(&lab, kinds[0], &one)?,
        server(&lab, kinds[1], &other)?,
    ) else {
        return Ok(());
    };
    one.file("file", 3_000_017, 10)?;
    let credentials = |path: &Path| path.display().to_string();
    let (alice, bob) = (credentials(&alice), credentials(&bob));
    for extra in [&["--data-cred", "own"][..], &[], &["--data-cred", "auto"]] {
        for mode in ["stream", "extended"] {
            let flags = ["--mode", mode, "--src-cred", &alice, "--dst-cred", &bob];
            let flags = [&flags[..], extra].concat();
            across(&lab, &flags, (&from, &one), (&to, &other), "data private")?;
        }
    }
    Ok(())
}

#[test]
fn servers_that_share_no_authority_get_a_credential_of_the_session() -> Result<()> {
    KINDS.into_iter().try_for_each(no_authority)
}

fn no_authority(kinds: [Kind; 2]) -> Result<()> {
    let (lab, far) = (Lab::new()?, Lab::of(Grid::named("Far CA"))?);
    let stranger = far.files().person("Bob Lab")?;
    let (one, other) = (Tree::new()?, Tree::new()?);
    let (Some(from), Some(to)) = (
        server(&lab, kinds[0], &one)?,
        server(&far, kinds[1], &other)?,
    ) else {
        return Ok(());
    };
    one.file("file", 3_000_017, 10)?;
    let own = lab.files().path("proxy.pem").display().to_string();
    let stranger = stranger.display().to_string();
    let flags = ["--src-cred", &own, "--dst-cred", &stranger];
    // Only the client trusts both.
    let both = lab.files().path("both");
    std::fs::create_dir(&both)?;
    for grid in [lab.files().grid(), far.files().grid()] {
        for file in std::fs::read_dir(grid.certificates())? {
            let file = file?;
            std::fs::copy(file.path(), both.join(file.file_name()))?;
        }
    }
    across(&lab, &flags, (&from, &one), (&to, &other), "data private")
}

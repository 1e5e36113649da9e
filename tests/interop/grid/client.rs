//! Our client between two servers: one credential, two credentials, authorities that only it trusts.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use workspace_tests::{Host, Tree, same_file};
use xio_testkit::Grid;

use super::bed::{Kind, Lab, copy, url};

/// Servers of two kinds, each the source once, and the TLS of the Globus ones.
const PAIRS: [([Kind; 2], &str); 7] = [
    ([Kind::Globus, Kind::Globus], "TLS1_3_VERSION"),
    ([Kind::Globus, Kind::Ours], "TLS1_3_VERSION"),
    ([Kind::Ours, Kind::Globus], "TLS1_3_VERSION"),
    ([Kind::Ours, Kind::Ours], "TLS1_3_VERSION"),
    ([Kind::Globus, Kind::Globus], "TLS1_2_VERSION"),
    ([Kind::Globus, Kind::Ours], "TLS1_2_VERSION"),
    ([Kind::Ours, Kind::Globus], "TLS1_2_VERSION"),
];

/// Flags of the modes.
const MODES: [&[&str]; 2] = [&["--mode", "stream"], &["--mode", "extended", "-p", "4"]];

/// Two servers, of which the first has a file.
struct Servers {
    from: (Host, Tree),
    to: (Host, Tree),
}

impl Servers {
    /// Starts them with the credentials of these labs; `None` where one is not installed.
    fn new(labs: [&Lab; 2], kinds: [Kind; 2], version: &str) -> Result<Option<Self>> {
        let (one, other) = (Tree::new()?, Tree::new()?);
        let (Some(from), Some(to)) = (
            labs[0].serve_limited(kinds[0], &one, version)?,
            labs[1].serve_limited(kinds[1], &other, version)?,
        ) else {
            return Ok(None);
        };
        one.file("file", 3_000_017, 10)?;
        let (from, to) = ((from, one), (to, other));
        Ok(Some(Self { from, to }))
    }

    /// Copies the file from the first to the second, and checks it and the output of `-v`.
    fn across(&self, lab: &Lab, flags: &[&str], told: &str) -> Result<()> {
        let Some(mut client) = lab.client(Kind::Ours)? else {
            return Ok(());
        };
        let both = lab.files().path("both");
        if both.exists() {
            client.env("X509_CERT_DIR", both);
        }
        let ((from, one), (to, other)) = (&self.from, &self.to);
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
}

#[test]
fn one_credential_protects_data_between_servers() -> Result<()> {
    PAIRS.into_iter().try_for_each(one_credential)
}

fn one_credential((kinds, version): ([Kind; 2], &str)) -> Result<()> {
    let lab = Lab::new()?;
    let alice = lab.files().identity();
    let Some(servers) = Servers::new([&lab, &lab], kinds, version)? else {
        return Ok(());
    };
    let by_name = format!("data private, DCAU {alice}");
    for mode in MODES {
        for (flags, told) in [
            (&["--protect", "clear"][..], "data clear, DCAU self"),
            (&["--protect", "safe"], "data safe, DCAU self"),
            (&["--protect", "private"], "data private, DCAU self"),
            (&["--dcau", &alice], &by_name),
            (
                &["--data-cred", "auto", "--delegation", "none"],
                "data private, DCAU session",
            ),
            (
                &["--dcau", "none", "--protect", "clear"],
                "data clear, DCAU none",
            ),
        ] {
            let flags = [mode, flags].concat();
            servers
                .across(&lab, &flags, told)
                .with_context(|| format!("{kinds:?} {version}"))?;
        }
    }
    Ok(())
}

#[test]
fn two_credentials_know_each_other_by_subject_or_by_session() -> Result<()> {
    PAIRS.into_iter().try_for_each(two_credentials)
}

fn two_credentials((kinds, version): ([Kind; 2], &str)) -> Result<()> {
    let lab = Lab::new()?;
    let (alice, bob) = (
        lab.files().path("proxy.pem"),
        lab.files().person("Bob Lab")?,
    );
    let Some(servers) = Servers::new([&lab, &lab], kinds, version)? else {
        return Ok(());
    };
    let credentials = |path: &Path| path.display().to_string();
    let (alice, bob) = (credentials(&alice), credentials(&bob));
    for extra in [&["--data-cred", "own"][..], &[], &["--data-cred", "auto"]] {
        for mode in MODES {
            let credentials = ["--src-cred", &alice, "--dst-cred", &bob];
            let flags = [mode, &credentials, extra].concat();
            servers
                .across(&lab, &flags, "data private")
                .with_context(|| format!("{kinds:?} {version}"))?;
        }
    }
    Ok(())
}

#[test]
fn servers_that_share_no_authority_get_a_credential_of_the_session() -> Result<()> {
    PAIRS.into_iter().try_for_each(no_authority)
}

fn no_authority((kinds, version): ([Kind; 2], &str)) -> Result<()> {
    let (lab, far) = (Lab::new()?, Lab::of(Grid::named("Far CA"))?);
    let stranger = far.files().person("Bob Lab")?;
    let Some(servers) = Servers::new([&lab, &far], kinds, version)? else {
        return Ok(());
    };
    let own = lab.files().path("proxy.pem").display().to_string();
    let stranger = stranger.display().to_string();
    let flags = ["--src-cred", &own, "--dst-cred", &stranger];
    // Only the client trusts both.
    let both = lab.copy_authorities("both")?;
    for file in std::fs::read_dir(far.files().grid().certificates())? {
        let file = file?;
        std::fs::copy(file.path(), both.join(file.file_name()))?;
    }
    servers
        .across(&lab, &flags, "data private")
        .with_context(|| format!("{kinds:?} {version}"))
}

#[test]
fn data_that_passes_this_machine_is_protected_on_both_ways() -> Result<()> {
    let pairs = [
        [Kind::Globus, Kind::Globus],
        [Kind::Globus, Kind::Ours],
        [Kind::Ours, Kind::Globus],
        [Kind::Ours, Kind::Ours],
    ];
    for kinds in pairs {
        let lab = Lab::new()?;
        let Some(servers) = Servers::new([&lab, &lab], kinds, "TLS1_3_VERSION")? else {
            continue;
        };
        let always = ["--relay", "always", "--verify"];
        for (flags, told) in [
            (&[][..], "data private, DCAU self"),
            (&["--protect", "safe"], "data safe, DCAU self"),
            (
                &["--dcau", "none", "--protect", "clear"],
                "data clear, DCAU none",
            ),
        ] {
            let flags = [&always, flags].concat();
            servers
                .across(&lab, &flags, told)
                .with_context(|| format!("{kinds:?}"))?;
        }
    }
    Ok(())
}

/// Only one of the servers authenticates data connections.
#[test]
fn data_of_a_server_with_grid_security_passes_to_one_without_only_if_asked() -> Result<()> {
    let (lab, plain, secured) = (Lab::new()?, Tree::new()?, Tree::new()?);
    let server = lab.serve_ours(&secured, &[])?;
    let other = Host::ours(plain.root())?;
    secured.file("file", 3_000_017, 10)?;
    let relayed = |how| {
        let mut client = lab.client(Kind::Ours)?.context("our own client")?;
        let flags = ["--relay", how, "-v"];
        let (from, to) = (url(&server, "file"), other.url("copy"));
        copy(&mut client, &flags, &from, &to)
    };
    // One of the two ways would be in clear text.
    let refused = relayed("auto")?.failed()?;
    let told = "only one of the servers authenticates";
    ensure!(refused.stderr.contains(told), "{}", refused.report());
    ensure!(
        refused.stderr.contains("--relay always"),
        "{}",
        refused.report()
    );
    ensure!(!plain.path("copy").exists(), "it was copied");
    let done = relayed("always")?.ok()?;
    same_file(&secured.path("file"), &plain.path("copy"))?;
    ensure!(done.stderr.contains("data private"), "{}", done.report());
    Ok(())
}

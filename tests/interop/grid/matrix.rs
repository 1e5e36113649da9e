//! {our client, our server} × {globus-gridftp-server, globus-url-copy} × TLS version × DCAU × PROT
//! × mode × direction.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use workspace_tests::{Tree, same_file};

use super::bed::{Kind, Lab, copy, local, url};

/// The protection of data connections, and the flags that ask for it.
struct Protection {
    name: &'static str,
    ours: &'static [&'static str],
    globus: &'static [&'static str],
}

/// The user of the lab.
const ALICE: &str = "/O=Grid/OU=Lab/CN=Alice Lab";

const PROTECTIONS: [Protection; 4] = [
    Protection {
        name: "DCAU N",
        ours: &["--dcau", "none", "--protect", "clear"],
        globus: &["-nodcau"],
    },
    Protection {
        name: "DCAU A, PROT C",
        ours: &["--protect", "clear"],
        globus: &[],
    },
    Protection {
        name: "DCAU A, PROT S",
        ours: &["--protect", "safe"],
        globus: &["-dcsafe"],
    },
    Protection {
        name: "DCAU A, PROT P",
        ours: &["--protect", "private"],
        globus: &["-dcpriv"],
    },
];

/// A credential that is made for the data connections.
const SESSIONS: [Protection; 3] = [
    Protection {
        name: "DCSC, PROT C",
        ours: &["--data-cred", "auto", "--protect", "clear"],
        globus: &["-data-cred", "auto"],
    },
    Protection {
        name: "DCSC, PROT S",
        ours: &["--data-cred", "auto", "--protect", "safe"],
        globus: &["-data-cred", "auto", "-dcsafe"],
    },
    Protection {
        name: "DCSC, PROT P",
        ours: &["--data-cred", "auto", "--protect", "private"],
        globus: &["-data-cred", "auto", "-dcpriv"],
    },
];

/// The peer of data connections by name, which `globus-url-copy` demands only where it leads two
/// servers with two credentials.
const SUBJECTS: [Protection; 3] = [
    Protection {
        name: "DCAU S, PROT C",
        ours: &["--dcau", ALICE, "--protect", "clear"],
        globus: &[],
    },
    Protection {
        name: "DCAU S, PROT S",
        ours: &["--dcau", ALICE, "--protect", "safe"],
        globus: &[],
    },
    Protection {
        name: "DCAU S, PROT P",
        ours: &["--dcau", ALICE, "--protect", "private"],
        globus: &[],
    },
];

/// Modes, and the flags that ask for them.
const MODES: [(&str, &[&str], &[&str]); 2] = [
    ("MODE S", &["--mode", "stream"], &[]),
    ("MODE E", &["--mode", "extended", "-p", "4"], &["-p", "4"]),
];

/// Limits the Globus program to a version of TLS.
fn limit_tls(command: &mut Command, version: &str) {
    command.env("GLOBUS_GSSAPI_MAX_TLS_PROTOCOL", version);
}

/// The client of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Client {
    Ours,
    Globus,
    /// Ours, with the command line of the Globus one.
    DropIn,
}

impl Client {
    fn program(self, lab: &Lab) -> Result<Option<Command>> {
        match self {
            Self::Ours => lab.client(Kind::Ours),
            Self::Globus => lab.client(Kind::Globus),
            Self::DropIn => {
                let mut program = lab.client(Kind::Ours)?;
                program.as_mut().map(|program| program.arg("--globus"));
                Ok(program)
            }
        }
    }
}

/// Copies a file up and down in every protection and mode.
fn all_ways(client: Client, version: &str) -> Result<()> {
    let lab = Lab::new()?;
    let (far, near) = (Tree::new()?, Tree::new()?);
    let server = match client {
        Client::Ours | Client::DropIn => Kind::Globus,
        Client::Globus => Kind::Ours,
    };
    let Some(host) = lab.serve_limited(server, &far, version)? else {
        return Ok(());
    };
    near.file("file", 3_000_017, 10)?;
    let subjects = (client == Client::Ours).then_some(&SUBJECTS);
    let subjects = subjects.into_iter().flatten();
    for protection in PROTECTIONS.iter().chain(&SESSIONS).chain(subjects) {
        for (mode, ours, globus) in MODES {
            let (flags, mode_flags) = match client {
                Client::Ours => (protection.ours, ours),
                Client::Globus | Client::DropIn => (protection.globus, globus),
            };
            let flags = [flags, mode_flags].concat();
            let one = |from: &str, to: &str| -> Result<bool> {
                let Some(mut program) = client.program(&lab)? else {
                    return Ok(false);
                };
                limit_tls(&mut program, version);
                copy(&mut program, &flags, from, to)?.ok()?;
                Ok(true)
            };
            let told = || format!("{} {mode}; the server: {}", protection.name, host.output());
            if !one(&local(&near, "file"), &url(&host, "up")).with_context(told)? {
                return Ok(());
            }
            same_file(&far.path("up"), &near.path("file")).with_context(told)?;
            one(&url(&host, "up"), &local(&near, "down")).with_context(told)?;
            same_file(&near.path("down"), &near.path("file")).with_context(told)?;
            std::fs::remove_file(near.path("down"))?;
            std::fs::remove_file(far.path("up"))?;
        }
    }
    Ok(())
}

#[test]
fn globus_url_copy_to_our_server_under_tls_1_3() -> Result<()> {
    all_ways(Client::Globus, "TLS1_3_VERSION")
}

#[test]
fn globus_url_copy_to_our_server_under_tls_1_2() -> Result<()> {
    all_ways(Client::Globus, "TLS1_2_VERSION")
}

/// The credentials of two servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Credentials {
    /// One of the user's.
    One,
    /// Those of two users: each server is told the other's by `DCAU S`.
    Two,
    /// One that the client makes for the data connections, by `DCSC`.
    Session,
}

/// Two servers of the kinds exchange a file, led by a client with the command line of
/// `globus-url-copy`, under both versions of TLS where a Globus server takes part.
fn third_party(client: Client, kinds: [Kind; 2], credentials: Credentials) -> Result<()> {
    let versions = match kinds.contains(&Kind::Globus) {
        true => &["TLS1_3_VERSION", "TLS1_2_VERSION"][..],
        false => &["TLS1_3_VERSION"],
    };
    versions
        .iter()
        .try_for_each(|version| third_party_under(client, kinds, version, credentials))
}

fn third_party_under(
    client: Client,
    kinds: [Kind; 2],
    version: &str,
    credentials: Credentials,
) -> Result<()> {
    let lab = Lab::new()?;
    let file = |path: std::path::PathBuf| path.display().to_string();
    let (alice, bob) = (
        file(lab.files().path("proxy.pem")),
        file(lab.files().person("Bob Lab")?),
    );
    let more: &[&str] = match credentials {
        Credentials::One => &[],
        Credentials::Two => &["-src-cred", &alice, "-dst-cred", &bob],
        Credentials::Session => &["-data-cred", "auto"],
    };
    let trees = [Tree::new()?, Tree::new()?];
    let [from, to] = &trees;
    let (Some(source), Some(target)) = (
        lab.serve_limited(kinds[0], from, version)?,
        lab.serve_limited(kinds[1], to, version)?,
    ) else {
        return Ok(());
    };
    from.file("file", 3_000_017, 11)?;
    for protection in &PROTECTIONS[1..] {
        for (mode, _, flags) in MODES {
            let Some(mut program) = client.program(&lab)? else {
                return Ok(());
            };
            let flags = [protection.globus, flags, more].concat();
            copy(
                &mut program,
                &flags,
                &url(&source, "file"),
                &url(&target, "copy"),
            )?
            .ok()
            .with_context(|| {
                let (source, target) = (source.output(), target.output());
                format!(
                    "{kinds:?} {version} {credentials:?} {} {mode}; the servers: {source}\n{target}",
                    protection.name
                )
            })?;
            same_file(&to.path("copy"), &from.path("file"))?;
            std::fs::remove_file(to.path("copy"))?;
        }
    }
    Ok(())
}

#[test]
fn globus_url_copy_from_our_server_to_the_globus_one() -> Result<()> {
    third_party(Client::Globus, [Kind::Ours, Kind::Globus], Credentials::One)
}

#[test]
fn globus_url_copy_from_the_globus_server_to_ours() -> Result<()> {
    third_party(Client::Globus, [Kind::Globus, Kind::Ours], Credentials::One)
}

#[test]
fn globus_url_copy_between_our_servers() -> Result<()> {
    third_party(Client::Globus, [Kind::Ours, Kind::Ours], Credentials::One)
}

#[test]
fn globus_url_copy_gives_a_credential_for_the_data_connections() -> Result<()> {
    third_party(
        Client::Globus,
        [Kind::Ours, Kind::Globus],
        Credentials::Session,
    )?;
    third_party(
        Client::Globus,
        [Kind::Globus, Kind::Ours],
        Credentials::Session,
    )?;
    third_party(
        Client::Globus,
        [Kind::Ours, Kind::Ours],
        Credentials::Session,
    )
}

#[test]
fn globus_url_copy_tells_each_server_the_identity_of_the_other() -> Result<()> {
    third_party(Client::Globus, [Kind::Ours, Kind::Globus], Credentials::Two)?;
    third_party(Client::Globus, [Kind::Globus, Kind::Ours], Credentials::Two)?;
    third_party(Client::Globus, [Kind::Ours, Kind::Ours], Credentials::Two)
}

#[test]
fn our_client_protects_data_by_the_flags_of_globus_url_copy() -> Result<()> {
    all_ways(Client::DropIn, "TLS1_3_VERSION")?;
    let kinds = [Kind::Ours, Kind::Globus];
    third_party(Client::DropIn, kinds, Credentials::Two)?;
    third_party(Client::DropIn, kinds, Credentials::Session)
}

#[test]
fn our_client_to_the_globus_server_under_tls_1_3() -> Result<()> {
    all_ways(Client::Ours, "TLS1_3_VERSION")
}

#[test]
fn our_client_to_the_globus_server_under_tls_1_2() -> Result<()> {
    all_ways(Client::Ours, "TLS1_2_VERSION")
}

#[test]
fn the_protection_of_both_channels_is_told() -> Result<()> {
    let lab = Lab::new()?;
    for kind in [Kind::Ours, Kind::Globus] {
        let (far, near) = (Tree::new()?, Tree::new()?);
        let Some(host) = lab.serve_limited(kind, &far, "TLS1_3_VERSION")? else {
            return Ok(());
        };
        near.file("file", 1000, 1)?;
        let (from, to) = (local(&near, "file"), url(&host, "up"));
        for (flags, line) in [
            (
                &["-v"][..],
                "control GSI over TLS 1.3 with /O=Grid/OU=Lab/CN=localhost, data private, DCAU self",
            ),
            (
                &["--json", "--protect", "safe"],
                r#""control":"GSI over TLS 1.3 with /O=Grid/OU=Lab/CN=localhost","data":"safe","dcau":"self""#,
            ),
        ] {
            let Some(mut program) = lab.client(Kind::Ours)? else {
                return Ok(());
            };
            let done = copy(&mut program, flags, &from, &to)?.ok()?;
            let told = done.stderr.contains(line) || done.stdout.contains(line);
            ensure!(told, "{}", done.report());
        }
    }
    Ok(())
}

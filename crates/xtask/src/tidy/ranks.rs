//! Ranks of crates: dependencies point to lower ranks, and pure crates stay pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::metadata::{Dependency, Metadata, Package};

/// The kind of a crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// No I/O, no clock, no runtime.
    Pure,
    /// Traits and types for implementors and callers.
    Interface,
    /// An implementation of an interface; plugins do not depend on each other.
    Plugin,
    /// Anything else.
    Other,
}

use Kind::{Interface, Other, Plugin, Pure};

/// The table of ranks. A folder without an entry is a finding.
const RANKS: &[(&str, u8, Kind)] = &[
    ("crates/ranges", 0, Pure),
    ("crates/tls-secrets", 0, Pure),
    ("crates/digest-tree", 1, Pure),
    ("crates/ftp-wire", 1, Pure),
    ("crates/gsi", 1, Pure),
    ("crates/mode-e", 1, Pure),
    ("crates/udt-proto", 1, Pure),
    ("crates/dsi", 1, Interface),
    ("xio-core", 1, Interface),
    ("crates/ftp-proto", 2, Pure),
    ("crates/dsi-null", 2, Plugin),
    ("crates/dsi-object", 2, Plugin),
    ("crates/dsi-posix", 2, Plugin),
    ("crates/dsi-staged", 2, Plugin),
    ("drivers/compress", 2, Plugin),
    ("drivers/count", 2, Plugin),
    ("drivers/file", 2, Plugin),
    ("drivers/http", 2, Plugin),
    ("drivers/log", 2, Plugin),
    ("drivers/mode-e", 2, Plugin),
    ("drivers/multicast", 2, Plugin),
    ("drivers/ordering", 2, Plugin),
    ("drivers/pipe", 2, Plugin),
    ("drivers/popen", 2, Plugin),
    ("drivers/queue", 2, Plugin),
    ("drivers/rate", 2, Plugin),
    ("drivers/tcp", 2, Plugin),
    ("drivers/telnet", 2, Plugin),
    ("drivers/timeout", 2, Plugin),
    ("drivers/tls", 2, Plugin),
    ("drivers/udp", 2, Plugin),
    ("drivers/unix", 2, Plugin),
    ("drivers/verify", 2, Plugin),
    ("drivers/udt", 2, Plugin),
    ("crates/data", 3, Other),
    // Storage that another process serves; its conformance is that of a plugin behind it.
    ("crates/dsi-rpc", 3, Other),
    // Built on the driver for TLS, which it sets up in its own way.
    ("drivers/gsi", 3, Other),
    ("crates/cluster", 4, Other),
    ("crates/dsi-process", 4, Plugin),
    ("crates/xio", 4, Other),
    ("gridftp-client", 5, Other),
    // A server behind the server: the only way from the one program to the library of the other.
    ("crates/dsi-gridftp", 6, Other),
    ("gridftp-server", 7, Other),
    // This driver uses the client, so programs register it and not the facade.
    ("drivers/gridftp", 8, Other),
    ("crates/xio-perf", 9, Other),
    // The suites' library runs the programs; chores and benches use it.
    ("tests", SUITES, Other),
    ("benches", 11, Other),
    ("crates/xtask", 11, Other),
];

/// The rank of the suites: packages from here on contain nothing but tests and chores.
const SUITES: u8 = 10;

/// Test doubles and conformance suites: depends on interfaces and on pure crates, whose sessions
/// its servers run, and is a dev-dependency only.
const TESTKIT: &str = "crates/testkit";

/// Reports every dependency between our crates that does not point to a lower rank.
pub(super) fn check(metadata: &Metadata, findings: &mut Vec<String>) {
    let ranks: BTreeMap<&str, (u8, Kind)> = RANKS
        .iter()
        .map(|&(folder, rank, kind)| (folder, (rank, kind)))
        .collect();
    let members = metadata.members();
    for package in &members {
        let folder = package.folder().display().to_string();
        let rank = ranks.get(folder.as_str()).copied();
        if rank.is_none() && folder != TESTKIT {
            findings.push(format!(
                "{folder}: has no rank in crates/xtask/src/tidy/ranks.rs"
            ));
            continue;
        }
        for dependency in package
            .dependencies
            .iter()
            .filter(|dependency| dependency.path.is_some())
        {
            let Some(target) = members.iter().find(|member| member.name == dependency.name) else {
                continue;
            };
            let to = target.folder().display().to_string();
            if let Some(why) = refused(rank, dependency, &to, ranks.get(to.as_str()).copied()) {
                findings.push(format!("{folder}: names {}: {why}", dependency.name));
            }
        }
        if rank.is_some_and(|(_, kind)| kind == Pure) {
            if let Some(path) = reaches(metadata, package, "tokio") {
                findings.push(format!("{folder}: a pure crate reaches tokio by {path}"));
            }
            check_bans(package, &folder, findings);
        }
    }
}

/// Returns the reason why a crate at `from` may not depend on the one in folder `to`, if any.
fn refused(
    from: Option<(u8, Kind)>,
    dependency: &Dependency,
    to: &str,
    target: Option<(u8, Kind)>,
) -> Option<String> {
    let dev = dependency.kind.as_deref() == Some("dev");
    if to == TESTKIT {
        let allowed = dev || from.is_some_and(|(rank, _)| rank >= SUITES);
        return (!allowed).then(|| "the testkit is a dev-dependency only".into());
    }
    let (target_rank, target_kind) = target?;
    let Some((rank, kind)) = from else {
        // The testkit itself.
        let allowed = matches!(target_kind, Pure | Interface);
        return (!allowed).then(|| "the testkit depends on interfaces and pure crates only".into());
    };
    if target_rank >= rank {
        return Some(format!("rank {rank} may not depend on rank {target_rank}"));
    }
    match (kind, target_kind) {
        (Pure, Interface | Plugin | Other) if !dev => {
            Some("a pure crate depends on pure crates only".into())
        }
        _ => None,
    }
}

/// Returns a path of ordinary dependencies from a package to another, if there is one.
fn reaches(metadata: &Metadata, from: &Package, to: &str) -> Option<String> {
    let nodes: BTreeMap<&str, _> = metadata
        .resolve
        .nodes
        .iter()
        .map(|node| (node.id.as_str(), node))
        .collect();
    let names: BTreeMap<&str, &str> = metadata
        .packages
        .iter()
        .map(|p| (p.id.as_str(), p.name.as_str()))
        .collect();
    let mut seen = BTreeSet::new();
    let mut open = vec![(from.id.as_str(), from.name.clone())];
    while let Some((id, path)) = open.pop() {
        for next in nodes.get(id).into_iter().flat_map(|node| &node.deps) {
            let ordinary = next.dep_kinds.iter().any(|kind| kind.kind.is_none());
            let name = names.get(next.pkg.as_str()).copied().unwrap_or_default();
            let path = format!("{path} > {name}");
            if ordinary && name == to {
                return Some(path);
            }
            if ordinary && seen.insert(next.pkg.as_str()) {
                open.push((&next.pkg, path));
            }
        }
    }
    None
}

/// Reports a pure crate without bans of clocks, sockets and files in its lint configuration.
fn check_bans(package: &Package, folder: &str, findings: &mut Vec<String>) {
    let bans = [
        "Instant::now",
        "SystemTime::now",
        "TcpStream",
        "TcpListener",
        "UdpSocket",
        "fs::File",
    ];
    let path = package.manifest_path.with_file_name(".clippy.toml");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    for ban in bans.into_iter().filter(|ban| !text.contains(ban)) {
        findings.push(format!("{folder}/.clippy.toml: does not ban {ban}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(kind: Option<&str>) -> Dependency {
        Dependency {
            name: "x".into(),
            kind: kind.map(Into::into),
            path: None,
        }
    }

    #[test]
    fn dependencies_point_to_lower_ranks() {
        let ask = |from, kind, to| refused(Some(from), &named(kind), "x", Some(to)).is_none();
        assert!(ask((4, Other), None, (3, Other)));
        assert!(!ask((4, Other), None, (4, Other)));
        assert!(!ask((2, Plugin), Some("dev"), (2, Plugin)));
        assert!(!ask((2, Pure), None, (1, Interface)));
        assert!(ask((2, Pure), None, (1, Pure)));
    }

    #[test]
    fn the_testkit_is_a_dev_dependency_only() {
        let ask = |from, kind| refused(Some(from), &named(kind), TESTKIT, None).is_none();
        assert!(ask((2, Plugin), Some("dev")));
        assert!(!ask((2, Plugin), None));
        assert!(ask((SUITES, Other), None));
        assert!(!ask((SUITES - 1, Other), None));
    }

    #[test]
    fn the_testkit_depends_on_interfaces_and_pure_crates_only() {
        let ask = |to| refused(None, &named(None), "x", Some(to)).is_none();
        assert!(ask((1, Interface)) && ask((2, Pure)));
        assert!(!ask((2, Plugin)) && !ask((4, Other)));
    }
}

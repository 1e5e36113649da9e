//! FEAT and HELP: the features and the commands of a server.

use ftp_wire::facts::FactSet;
use ftp_wire::parse;
use ftp_wire::reply::{Code, Reply};

use super::out::Cx;
use super::settings::Settings;
use crate::modules::{RETRIEVE, Row, STORE};

/// Answers `FEAT` (RFC 2389 §3) in the shape that `globus-url-copy` reads: upper-case labels behind
/// exactly one blank. `chosen` are the facts in force after login.
pub(super) fn features(chosen: Option<FactSet>, cx: &mut Cx<'_>) {
    let settings = cx.settings;
    let logged_in = chosen.is_some();
    let mut lines: Vec<String> = Vec::new();
    if logged_in && !settings.checksums.is_empty() {
        let list: String = settings
            .checksums
            .iter()
            .map(|(name, cost)| format!("{name}:{cost};"))
            .collect();
        lines.push(format!("CKSM {list}"));
        lines.push("SCKS".to_owned());
    }
    if logged_in && let Some(dsi) = &settings.dsi {
        lines.push(format!("DSI {dsi}"));
    }
    for line in [
        "STORATTR", "MFMT", "WHOAMI", "MLSR", "MLSC", "UTF8", "TVFS", "LANG EN", "PARALLEL",
        "SBUF", "SIZE",
    ] {
        lines.push(line.to_owned());
    }
    // RFC 3659 §7.8: the marked facts are in force until the next OPTS MLST.
    lines.push(format!("MLST {}", chosen.unwrap_or_default().feat()));
    for line in [
        &format!("ERET P{}", names(RETRIEVE, settings)),
        &format!("ESTO A{}", names(STORE, settings)),
        "SPAS",
        "SPOR",
        "EPSV",
        "EPRT",
        "REST STREAM",
        "MDTM",
        "TREV",
        "PASV AllowDelayed;",
    ] {
        lines.push(line.to_owned());
    }
    if settings.tags && !settings.denies("ESTO") {
        let item = settings.stripes.map_or("Trailer", |_| "Striped");
        lines.push(format!("STOR Tagged;Digest;{item};"));
        // The tag tells the connections of a transfer from those that its sender gave up. Nodes have
        // limits of their own.
        let connections = settings.stripes.is_none();
        let connections = connections.then_some(settings.limits.parallelism);
        lines.extend(connections.map(|most| format!("CONNECTIONS {most}")));
    }
    let attributes = !settings.denies("STORATTR") && !settings.denies("SITE STORATTR");
    for (has, line) in [
        (!settings.denies("SITE WAITS"), "WAITS"),
        (settings.rates, "RATE"),
        (settings.keeps, "HELD"),
        (settings.exclusive && attributes, "EXCLUSIVE"),
        (settings.durable, "DURABLE"),
        (settings.space, "AVBL"),
        (settings.attributes, "XATTR"),
        (settings.data_elsewhere, "NODES"),
    ] {
        lines.extend(has.then(|| line.to_owned()));
    }
    // It would tell strangers which servers are of one machine.
    let boot = settings.boot.filter(|_| logged_in);
    lines.extend(boot.map(|boot| format!("BOOT {boot:032x}")));
    if settings.udt && !settings.denies("SITE SETNETSTACK") {
        let adapts = if settings.adapts { "Congestion;" } else { "" };
        lines.push(format!("LOSS {adapts}UDT;"));
    }
    lines.extend(settings.memory.map(|limits| format!("MEMORY {limits}")));
    if settings.tls {
        lines.extend(["AUTH TLS", "PBSZ", "PROT"].map(str::to_owned));
    }
    if settings.gssapi {
        lines.push("AUTH GSSAPI".to_owned());
    }
    // Without the label, a Globus client sends data in clear even where it was told to protect it.
    let clear = cx.security.protection.by.is_none();
    if cx.security.has_grid_data(settings) || (settings.gssapi && clear && !logged_in) {
        lines.extend(["DCAU", "DCSC P,D"].map(str::to_owned));
    }
    lines.retain(|line| {
        let label = line.split(' ').next().unwrap_or(line);
        let is_able = settings.sets_times() || label != "MFMT";
        is_able && !settings.denies(label) && !settings.denies(&format!("SITE {label}"))
    });
    indented::<211>("Extensions supported", lines, "End.", cx);
}

/// The names of the modules beside the one that every server has.
fn names<M>(table: &[Row<M>], settings: &Settings) -> String {
    let offered = Row::offered(table, settings);
    offered.map(|row| format!(",{}", row.name)).collect()
}

/// Answers `HELP [verb]`.
pub(super) fn help(about: Option<&str>, cx: &mut Cx<'_>) {
    let Some(about) = about.map(str::trim).filter(|about| !about.is_empty()) else {
        let names = parse::verbs()
            .map(|(name, _)| name)
            .filter(|name| is_offered(name, cx.settings) && !cx.settings.denies(name));
        let first = "The following commands are recognized:";
        return list(first, names.collect(), cx);
    };
    if about.eq_ignore_ascii_case("SITE") {
        let lines = parse::site_verbs().map(|(_, syntax)| syntax.to_owned());
        return indented::<214>("Help for SITE:", lines.collect(), "End.", cx);
    }
    syntax(about, parse::verbs(), cx);
}

/// Says whether a known command does more than refuse.
fn is_offered(name: &str, settings: &Settings) -> bool {
    match name {
        "AUTH" => settings.tls || settings.gssapi,
        "ADAT" => settings.gssapi,
        "DCSC" => settings.gssapi || settings.dcsc,
        _ => true,
    }
}

/// Answers `SITE HELP [name]` with the names of the SITE commands. `globus-url-copy` looks for its
/// commands there instead of trying each.
pub(super) fn site_help(about: Option<&str>, cx: &mut Cx<'_>) {
    let Some(about) = about.map(str::trim).filter(|about| !about.is_empty()) else {
        let names = parse::site_verbs()
            .map(|(name, _)| name)
            .filter(|name| !cx.settings.denies(name))
            .map(|name| name.strip_prefix("SITE ").unwrap_or(name));
        let first = "The following SITE commands are recognized:";
        return list(first, names.collect(), cx);
    };
    syntax(&format!("SITE {about}"), parse::site_verbs(), cx);
}

/// Answers with the syntax of one of these verbs.
fn syntax(
    about: &str,
    mut verbs: impl Iterator<Item = (&'static str, &'static str)>,
    cx: &mut Cx<'_>,
) {
    match verbs.find(|(name, _)| name.eq_ignore_ascii_case(about)) {
        Some((name, syntax)) => {
            let first = format!("Help for {name}:");
            let mut lines = vec![syntax.to_owned()];
            match name {
                "ERET" => lines.extend(syntaxes(RETRIEVE, cx.settings)),
                "ESTO" => lines.extend(syntaxes(STORE, cx.settings)),
                _ => {}
            }
            indented::<214>(&first, lines, "End.", cx);
        }
        None => cx.out.say::<502>(format!("Unknown command '{about}'.")),
    }
}

/// The syntax of each module.
fn syntaxes<M>(table: &[Row<M>], settings: &Settings) -> impl Iterator<Item = String> {
    Row::offered(table, settings).map(|row| row.syntax.to_owned())
}

/// Eight names a line, as `GridFTP` servers have it.
fn list(first: &str, names: Vec<&str>, cx: &mut Cx<'_>) {
    let lines = names.chunks(8).map(|row| {
        let row: Vec<String> = row.iter().map(|name| format!("{name:<8}")).collect();
        row.join(" ").trim_end().to_owned()
    });
    indented::<214>(first, lines.collect(), "End", cx);
}

fn indented<const CODE: u16>(first: &str, lines: Vec<String>, last: &str, cx: &mut Cx<'_>) {
    cx.out
        .reply(Reply::indented(Code::of::<CODE>(), first, lines, last));
}

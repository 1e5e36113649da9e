//! The options of `globus-url-copy`, each with its meaning for us or the reason of its refusal.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use gridftp_client::program::values::algorithm;

use super::options::{Options, Query, Verbosity};

/// The meaning of an option.
pub(super) enum Meaning {
    /// Nothing changes, and why.
    Always(&'static str),
    /// Our words.
    Words(&'static [&'static str]),
    /// Our flag with the same value.
    Flag(&'static str),
    /// A choice that is made.
    Sets(fn(&mut Options)),
    /// A choice with a value.
    Takes(fn(&mut Options, &OsStr) -> Result<(), String>),
    /// No value, and why it cannot be honoured.
    Refuses(&'static str),
    /// The same of an option with a value.
    RefusesValue(&'static str),
}

use Meaning::{Always, Flag, Refuses, RefusesValue, Sets, Takes, Words};

const STORAGE: &str = "storage modules of a session are not chosen by clients";
const ASSERTION: &str = "authorization assertions are not sent";
const POPEN: &str = "programs at servers are not run";
pub(super) const PIPELINED: &str = "commands are pipelined anyway, as far as the server allows";
const SIZES: &str = "sizes are always told to servers that take them";
const ONE_END: &str = "both ends have one stack; use the option for both";

/// Names of each option, and its meaning.
pub(super) const OPTIONS: &[(&[&str], Meaning)] = &[
    (&["help", "usage"], Sets(|it| it.ask = Some(Query::Help))),
    (
        &["version", "versions"],
        Sets(|it| it.ask = Some(Query::Version)),
    ),
    (&["c", "continue-on-error"], Sets(|it| it.goes_on = true)),
    (
        &["a", "ascii"],
        Refuses("text is not converted; files are copied as they are"),
    ),
    (&["b", "binary"], Always("files are copied as they are")),
    (
        &["f", "filename"],
        Takes(|it, file| path(&mut it.pairs_from, file)),
    ),
    (
        &["cd", "create-dest"],
        Always("missing directories are made anyway"),
    ),
    (&["r", "recurse"], Sets(|it| it.recursive = true)),
    (
        &["fast", "fast-data-channels"],
        Words(&["--mode", "extended"]),
    ),
    (
        &["t", "transfer-time"],
        Takes(|it, text| seconds(&mut it.within, text)),
    ),
    (&["q", "quiet"], Words(&["--quiet"])),
    (
        &["v", "verbose"],
        Sets(|it| it.shown = it.shown.max(Verbosity::Names)),
    ),
    (
        &["vb", "verbose-perf"],
        Sets(|it| it.shown = Verbosity::Rates),
    ),
    (&["dbg", "debugftp"], Words(&["--debug"])),
    (&["rst", "restart"], Sets(|it| it.restarts.on = true)),
    (
        &["rst-retries", "restart-retries"],
        Takes(|it, text| {
            it.restarts.most = Some(number(text)?);
            Ok(())
        }),
    ),
    (
        &["rst-interval", "restart-interval"],
        Takes(|it, text| seconds(&mut it.restarts.interval, text)),
    ),
    (
        &["rst-timeout", "restart-timeout"],
        Takes(|it, text| {
            it.restarts.within = Some(number(text)?);
            Ok(())
        }),
    ),
    (
        &["stall-timeout", "st"],
        Takes(|it, text| seconds(&mut it.stall, text)),
    ),
    (
        &["df", "dumpfile"],
        Takes(|it, file| path(&mut it.dump, file)),
    ),
    (
        &["do", "dump-only"],
        Takes(|it, file| path(&mut it.plan, file)),
    ),
    (&["rp", "relative-paths"], Sets(|it| it.relative = true)),
    (&["s", "subject"], Flag("--subject")),
    (
        &["ss", "source-subject"],
        Takes(|it, text| subject(it, 0, text)),
    ),
    (
        &["ds", "dest-subject"],
        Takes(|it, text| subject(it, 1, text)),
    ),
    (&["tcp-bs", "tcp-buffer-size"], Flag("--tcp-buffer")),
    (&["bs", "block-size"], Flag("--block-size")),
    (
        &["p", "parallel"],
        Takes(|it, text| {
            it.say(&["--mode", "extended", "--parallel"]);
            it.words.push(text.to_owned());
            Ok(())
        }),
    ),
    (
        &["notpt", "no-third-party-transfers"],
        Words(&["--relay", "always"]),
    ),
    (
        &["nodcau", "no-data-channel-authentication"],
        Words(&["--dcau", "none"]),
    ),
    (
        &["dcsafe", "data-channel-safe"],
        Sets(|it| it.protection = Some("safe")),
    ),
    (
        &["dcpriv", "data-channel-private"],
        Sets(|it| it.protection = Some("private")),
    ),
    (&["off", "partial-offset"], Flag("--offset")),
    (&["len", "partial-length"], Flag("--length")),
    (
        &["list", "list-url"],
        Takes(|it, url| {
            it.list = Some(url.to_owned());
            Ok(())
        }),
    ),
    (
        &["stripe", "striped"],
        Always("all stripes of a server are used anyway"),
    ),
    (
        &["sbs", "striped-block-size"],
        Takes(|it, text| {
            match number::<u64>(text)? {
                0 => it.say(&["--stripe-layout", "partitioned"]),
                _ => it.words.extend(["--stripe-block".into(), text.to_owned()]),
            }
            Ok(())
        }),
    ),
    (&["ipv6", "IPv6"], Always("both families are used anyway")),
    (&["udt", "u"], Words(&["--stack", "udt"])),
    (
        &["no-g2", "nogridftp2", "nog2", "g2", "gridftp2"],
        Always("commands of GridFTP version 2 are not used"),
    ),
    (
        &["dp", "delayed-pasv"],
        Refuses("servers tell their address before the file is known"),
    ),
    (&["mn", "module-name"], RefusesValue(STORAGE)),
    (&["mp", "module-parameters"], RefusesValue(STORAGE)),
    (&["smn", "src-module-name"], RefusesValue(STORAGE)),
    (&["smp", "src-module-parameters"], RefusesValue(STORAGE)),
    (&["dmn", "dst-module-name"], RefusesValue(STORAGE)),
    (&["dmp", "dst-module-parameters"], RefusesValue(STORAGE)),
    (&["aa", "authz-assert"], RefusesValue(ASSERTION)),
    (&["saa", "src-authz-assert"], RefusesValue(ASSERTION)),
    (&["daa", "dst-authz-assert"], RefusesValue(ASSERTION)),
    (&["cache-aa", "cache-authz-assert"], Refuses(ASSERTION)),
    (&["cache-saa", "cache-src-authz-assert"], Refuses(ASSERTION)),
    (&["cache-daa", "cache-dst-authz-assert"], Refuses(ASSERTION)),
    (&["pipeline", "pp"], Always(PIPELINED)),
    (
        &["ppq", "pipelineq"],
        Takes(|_, text| number::<u32>(text).map(drop)),
    ),
    (&["concurrency", "cc"], Flag("--concurrency")),
    (
        &["nl-bottleneck", "nlb"],
        Refuses("there is no NetLogger; gridftp speed measures the parts of the way"),
    ),
    (
        &["nl-interval", "nli"],
        RefusesValue("there is no NetLogger; gridftp speed measures the parts of the way"),
    ),
    (&["src-pipe", "SP", "sp"], RefusesValue(POPEN)),
    (&["dst-pipe", "DP"], RefusesValue(POPEN)),
    (&["pipe", "P"], RefusesValue(POPEN)),
    (
        &["dcstack", "data-channel-stack"],
        Takes(|it, text| {
            let text = text.to_str().ok_or("it is no text")?;
            // That layer is there wherever data channels are authenticated.
            let drivers: Vec<_> = text.split(',').filter(|one| *one != "gsi").collect();
            it.say(&["--stack", &drivers.join(",")]);
            Ok(())
        }),
    ),
    (&["fsstack", "file-system-stack"], Flag("--disk-stack")),
    (
        &["src-dcstack", "source-data-channel-stack"],
        RefusesValue(ONE_END),
    ),
    (
        &["src-fsstack", "source-file-system-stack"],
        RefusesValue(ONE_END),
    ),
    (
        &["dst-dcstack", "dest-data-channel-stack"],
        RefusesValue(ONE_END),
    ),
    (
        &["dst-fsstack", "dest-file-system-stack"],
        RefusesValue(ONE_END),
    ),
    (&["cred"], Flag("--cred")),
    (&["src-cred", "sc"], Flag("--src-cred")),
    (&["dst-cred", "dc"], Flag("--dst-cred")),
    (
        &["data-cred"],
        Takes(|it, text| {
            if text != "auto" {
                return Err(
                    "data connections have the credential of the session, or auto".to_owned(),
                );
            }
            it.say(&["--data-cred", "auto"]);
            Ok(())
        }),
    ),
    (
        &["af", "alias-file"],
        RefusesValue("a host stands for itself; name it in the URL"),
    ),
    (&["sync"], Sets(|it| it.sync = it.sync.or(Some(2)))),
    (
        &["sync-level"],
        Takes(|it, text| {
            let level = number(text)?;
            it.sync = Some(level);
            match level {
                0..=3 => Ok(()),
                _ => Err("levels are 0 to 3".to_owned()),
            }
        }),
    ),
    (
        &["checksum-alg", "algo"],
        Takes(|it, text| {
            let name = text.to_str().ok_or("it is no text")?;
            it.algorithm = Some(algorithm(name)?);
            Ok(())
        }),
    ),
    (
        &["verify-checksum", "checksum"],
        Sets(|it| it.verifies = true),
    ),
    // Times are carried over with the permission bits.
    (
        &["preserve", "cp", "copy-perms"],
        Sets(|it| it.preserves = true),
    ),
    (&["allo", "allocate"], Always(SIZES)),
    (&["no-allo", "no-allocate"], Refuses(SIZES)),
    (
        &["X", "extentions"],
        RefusesValue("there are no extensions"),
    ),
    (
        &["MC", "multicast"],
        RefusesValue("a file is copied to one place"),
    ),
    (&["CP", "plugin"], RefusesValue("there are no plugins")),
];

fn path(place: &mut Option<PathBuf>, text: &OsStr) -> Result<(), String> {
    *place = Some(text.into());
    Ok(())
}

fn subject(it: &mut Options, end: usize, text: &OsStr) -> Result<(), String> {
    if let Some(place) = it.subjects.get_mut(end) {
        *place = Some(text.to_owned());
    }
    Ok(())
}

fn number<T: std::str::FromStr>(text: &OsStr) -> Result<T, String> {
    let number = text.to_str().and_then(|text| text.parse().ok());
    number.ok_or_else(|| format!("{}: is no number", text.display()))
}

fn seconds(place: &mut Option<Duration>, text: &OsStr) -> Result<(), String> {
    *place = Some(Duration::from_secs(number(text)?));
    Ok(())
}

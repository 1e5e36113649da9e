//! Settings of places, of the defaults and of the environment, as words of command lines.

use super::*;

/// A part of `gridftp-cp`, with the flags of connections.
fn program() -> Command {
    use crate::program::connection::ConnectionFlags;
    use clap::Args as _;

    let switch = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
    let value = |name: &'static str| Arg::new(name).long(name);
    let verify = value("verify").num_args(0..=1).require_equals(true);
    let program = Command::new("gridftp-cp")
        .arg(Arg::new("locations").num_args(1..))
        .args(["recursive", "discard", "partials", "delete", "checksum"].map(switch))
        .arg(Arg::new("max_delete").long("max-delete").requires("delete"))
        .arg(Arg::new("backup_dir").long("backup-dir"))
        .args([verify, switch("no-verify").conflicts_with("verify")])
        .arg(value("stack"));
    ConnectionFlags::augment_args(program)
}

/// The words between the name of the program and those of a line, or the mistake.
fn settings(file: &str, variables: &[(&str, &str)], line: &str) -> Result<String, String> {
    let config = || Config::parse(file);
    let given = format!("gridftp-cp {line}");
    let given = given.split(' ').map(OsString::from).collect();
    let read = |name: &str| {
        let mut found = variables.iter().filter(|(variable, _)| *variable == name);
        found.next().map(|(_, value)| OsString::from(value))
    };
    let words = words_of(&program(), given, config, &read).map_err(|error| format!("{error:#}"))?;
    let parsed = program().try_get_matches_from(&words.all);
    parsed.map_err(|error| error.to_string())?;
    let words = words.all.iter().skip(1).map(|word| word.to_str().unwrap());
    Ok(words.collect::<Vec<_>>().join(" "))
}

/// As [`settings`], with flags of the places one and two.
fn both(one: &str, two: &str, line: &str) -> Result<String, String> {
    let file = format!(
        "[place.one]\nurl = 'ftp://h1/a'\n{one}\n[place.two]\nurl = 'ftp://h2/b'\n{two}\n\
         [place.same]\nurl = 'ftp://H1'\n"
    );
    settings(&file, &[], line)
}

/// As [`both`], with a flag of the place one.
fn one(flag: &str, line: &str) -> Result<String, String> {
    both(flag, "", line)
}

#[test]
fn users_and_credentials_of_places_hold_at_their_own_servers() {
    let users = ("user = 'ann'", "user = 'b@b'");
    for (told, expected) in [
        // Users are in the URLs.
        (
            both(users.0, users.1, "one:x two:"),
            "ftp://ann@h1/a/x ftp://b%40b@h2/b",
        ),
        (
            one("user = 'ann'", "one:x ftp://h2/"),
            "ftp://ann@h1/a/x ftp://h2/",
        ),
        (
            one("user = 'ann'", "-u bob one:x b"),
            "-u bob ftp://h1/a/x b",
        ),
        // Credentials are of the sources or the destination.
        (
            one("cred = 'c'", "one:x here"),
            "--cred=c ftp://h1/a/x here",
        ),
        (
            one("cred = 'c'", "one:x two:"),
            "--src-cred=c ftp://h1/a/x ftp://h2/b",
        ),
        (
            one("cred = 'c'", "two:x one:"),
            "--dst-cred=c ftp://h2/b/x ftp://h1/a",
        ),
        (
            one("cred = 'c'", "one:x same:"),
            "--cred=c ftp://h1/a/x ftp://H1",
        ),
        (
            both("cred = 'c'", "cred = 'd'", "one:x one:y two:"),
            "--dst-cred=d --src-cred=c ftp://h1/a/x ftp://h1/a/y ftp://h2/b",
        ),
    ] {
        assert_eq!(told.as_deref(), Ok(expected));
    }
    let told = both("cred = 'c'", "", "one:x two:y here").unwrap_err();
    assert!(
        told.contains("cred of [place.one] would also hold at h2:21"),
        "{told}"
    );
}

#[test]
fn other_flags_of_places_hold_where_all_servers_have_them() {
    for (told, expected) in [
        (
            one("security = 'none'", "one:x here"),
            "--security=none ftp://h1/a/x here",
        ),
        (
            one("security = 'none'", "one:x same:"),
            "--security=none ftp://h1/a/x ftp://H1",
        ),
        (
            both("security = 'none'", "security = 'none'", "one:x two:"),
            "--security=none ftp://h1/a/x ftp://h2/b",
        ),
        (
            one("security = 'none'", "--security=tls one:x two:"),
            "--security=tls ftp://h1/a/x ftp://h2/b",
        ),
        (
            one("timeout = 7", "one:x two:"),
            "--timeout=7 ftp://h1/a/x ftp://h2/b",
        ),
        (one("timeout = 7", "two:x here"), "ftp://h2/b/x here"),
        (
            both("timeout = 7", "timeout = 8", "--timeout=9 one:x two:"),
            "--timeout=9 ftp://h1/a/x ftp://h2/b",
        ),
        // Files are kept at the destination.
        (
            one("backup-dir = 'd'", "x one:"),
            "--backup-dir=d x ftp://h1/a",
        ),
        (one("backup-dir = 'd'", "one:x here"), "ftp://h1/a/x here"),
    ] {
        assert_eq!(told.as_deref(), Ok(expected));
    }
    for flag in [
        "security = 'none'",
        "protect = 'clear'",
        "cert = 'c'",
        "ca = 'c'",
        "stack = 'udt'",
        "delegation = 'full'",
        "dcau = 'none'",
        "trust-pasv-address = true",
        "netrc = true",
        "subject = '/CN=x'",
    ] {
        let (name, _) = flag.split_once(" = ").unwrap();
        for line in ["one:x two:", "ftp://h2/ one:"] {
            let told = one(flag, line);
            let expected = format!(
                ": {name} of [place.one] would also hold at h2:21; write --{name} to say so for both"
            );
            assert_eq!(told, Err(expected), "{flag} {line}");
        }
    }
    let told = both("timeout = 7", "timeout = 8", "one:x two:").unwrap_err();
    assert!(
        told.contains("timeout differs between [place.one] and [place.two]"),
        "{told}"
    );
}

#[test]
fn settings_that_lack_a_flag_or_do_not_fit_are_left_out() {
    for (file, variables, line, expected) in [
        ("max-delete = 7", &[][..], "a b", "a b"),
        (
            "max-delete = 7",
            &[],
            "--delete a b",
            "--max-delete=7 --delete a b",
        ),
        ("key = 'k'", &[], "a b", "a b"),
        (
            "key = 'k'",
            &[("GRIDFTP_CERT", "c")],
            "a b",
            "--cert=c --key=k a b",
        ),
        // That key is of the other certificate.
        ("cert = 'c'\nkey = 'k'", &[], "--cert d a b", "--cert d a b"),
        ("", &[("GRIDFTP_CHECKSUM", "sha256")], "a b", "a b"),
        ("", &[("GRIDFTP_CHECKSUM", "1")], "a b", "--checksum a b"),
        ("", &[("GRIDFTP_DELETE", "1")], "a b", "a b"),
        ("", &[("GRIDFTP_RECURSIVE", "1")], "a b", "--recursive a b"),
        (
            "",
            &[("GRIDFTP_RECURSIVE", "1")],
            "--discard a",
            "--discard a",
        ),
        // A flag that is off conflicts with none.
        (
            "verify = 'md5'",
            &[("GRIDFTP_NO_VERIFY", "0")],
            "a b",
            "--verify=md5 a b",
        ),
        (
            "verify = 'md5'",
            &[("GRIDFTP_NO_VERIFY", "1")],
            "a b",
            "--no-verify a b",
        ),
        (
            "no-verify = true",
            &[("GRIDFTP_NO_VERIFY", "0")],
            "a b",
            "a b",
        ),
    ] {
        let told = settings(&format!("[defaults]\n{file}"), variables, line);
        assert_eq!(told.as_deref(), Ok(expected), "{file} {variables:?}");
    }
}

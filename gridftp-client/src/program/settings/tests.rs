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

/// The words of the settings and of a line, and behind bars the URLs and the flags of places that
/// hold at their own servers; or the mistake.
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
    let told = words.all.iter().skip(1).map(|word| word.to_str().unwrap());
    let mut told: Vec<_> = told.map(ToOwned::to_owned).collect();
    for (_, own) in &words.own {
        let urls = own.urls.iter().map(|url| url.to_str().unwrap().to_owned());
        let flags = own.flags.iter().map(|(flag, values)| {
            let value = values.first().unwrap().to_str().unwrap();
            format!("--{flag}={value}")
        });
        told.push("|".to_owned());
        told.extend(urls.chain(flags));
    }
    Ok(told.join(" "))
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
fn users_of_places_hold_at_their_own_servers() {
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
    ] {
        assert_eq!(told.as_deref(), Ok(expected));
    }
}

#[test]
fn flags_of_its_server_hold_there_alone() {
    for (told, expected) in [
        (
            one("cred = 'c'", "one:x here"),
            "--cred=c ftp://h1/a/x here",
        ),
        (
            one("cred = 'c'", "one:x two:"),
            "ftp://h1/a/x ftp://h2/b | ftp://h1/a/x --cred=c",
        ),
        (
            one("cred = 'c'", "two:x one:"),
            "ftp://h2/b/x ftp://h1/a | ftp://h1/a --cred=c",
        ),
        (
            one("cred = 'c'", "one:x same:"),
            "--cred=c ftp://h1/a/x ftp://H1",
        ),
        (
            one("cred = 'c'", "one:x ftp://h1/y"),
            "--cred=c ftp://h1/a/x ftp://h1/y",
        ),
        (
            both("cred = 'c'", "cred = 'd'", "one:x one:y two:"),
            "ftp://h1/a/x ftp://h1/a/y ftp://h2/b \
             | ftp://h1/a/x ftp://h1/a/y --cred=c | ftp://h2/b --cred=d",
        ),
        (
            both("cred = 'c'", "", "--cred=d one:x two:"),
            "--cred=d ftp://h1/a/x ftp://h2/b",
        ),
        (
            both(
                "security = 'none'\ntimeout = 7",
                "security = 'tls'\nca = 'd'",
                "one:x two:",
            ),
            "--timeout=7 ftp://h1/a/x ftp://h2/b \
             | ftp://h1/a/x --security=none | ftp://h2/b --ca=d --security=tls",
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
            one("cert = 'c'\nkey = 'k'", "one:x two:"),
            "ftp://h1/a/x ftp://h2/b | ftp://h1/a/x --cert=c --key=k",
        ),
        (
            one("cert = 'c'\nkey = 'k'", "--cert d one:x two:"),
            "--cert d ftp://h1/a/x ftp://h2/b",
        ),
    ] {
        assert_eq!(told.as_deref(), Ok(expected));
    }
}

#[test]
fn flags_of_a_server_have_their_urls_and_their_rank() {
    for (told, expected) in [
        // URLs at the server of a place have its flags, beside other servers too.
        (
            one("cred = 'c'", "one:x ftp://h1/y two:"),
            "ftp://h1/a/x ftp://h1/y ftp://h2/b | ftp://h1/a/x ftp://h1/y --cred=c",
        ),
        (
            one("cred = 'c'", "one:x same:y two:"),
            "ftp://h1/a/x ftp://H1/y ftp://h2/b | ftp://h1/a/x ftp://H1/y --cred=c",
        ),
        // The command line goes before the place, and that before the defaults.
        (
            one("cred = 'c'", "--src-cred d one:x two:"),
            "--src-cred d ftp://h1/a/x ftp://h2/b",
        ),
        (
            one("cred = 'c'", "--dst-cred d one:x two:"),
            "--dst-cred d ftp://h1/a/x ftp://h2/b | ftp://h1/a/x --cred=c",
        ),
        (
            one("cred = 'c'", "--dst-cred d one:x two:y ftp://h1/z"),
            "--dst-cred d ftp://h1/a/x ftp://h2/b/y ftp://h1/z | ftp://h1/a/x --cred=c",
        ),
        (
            one("cred = 'c'", "--src-cred d ftp://h1/y two:x one:z"),
            "--src-cred d ftp://h1/y ftp://h2/b/x ftp://h1/a/z | ftp://h1/a/z --cred=c",
        ),
        (
            one(
                "cred = 'c'\n[defaults]\nsrc-cred = 'd'\ndst-cred = 'd'",
                "one:x here",
            ),
            "--cred=c ftp://h1/a/x here",
        ),
        (
            one("src-cred = 'c'", "--cred d one:x here"),
            "--cred d ftp://h1/a/x here",
        ),
        (
            one("src-cred = 'c'", "--cred d one:x two:"),
            "--cred d ftp://h1/a/x ftp://h2/b",
        ),
        // All servers have that flag, one of them by its place.
        (
            both("cred = 'c'", "cred = 'c'", "one:x two:y ftp://h2/z here"),
            "--cred=c ftp://h1/a/x ftp://h2/b/y ftp://h2/z here",
        ),
        // A flag that is turned off at one server.
        (
            one(
                "trust-pasv-address = false\n[defaults]\ntrust-pasv-address = true",
                "one:x two:",
            ),
            "--trust-pasv-address ftp://h1/a/x ftp://h2/b | ftp://h1/a/x --trust-pasv-address=false",
        ),
    ] {
        assert_eq!(told.as_deref(), Ok(expected));
    }
}

#[test]
fn each_flag_of_a_server_is_of_its_access() {
    for name in places::OF_SERVER.split(' ') {
        let value = if name == "trust-pasv-address" {
            "true"
        } else {
            "'none'"
        };
        let cert = if name == "key" { "cert = 'c'\n" } else { "" };
        let told = one(&format!("{cert}{name} = {value}"), "one:x two:").unwrap();
        let (all, own) = told.split_once(" | ").unwrap();
        assert_eq!(all, "ftp://h1/a/x ftp://h2/b", "{name}");
        assert!(own.contains(&format!(" --{name}")), "{own}");
    }
    let off = [("trust-pasv-address".to_owned(), vec!["false".into()])];
    let access = own::access(&off.into()).unwrap();
    assert_eq!(access.trust_pasv, Some(false));
    assert_eq!(access.security, None);
}

#[test]
fn flags_of_a_server_that_differ_are_refused() {
    let places = |rest: &str| {
        format!(
            "[place.a]\nurl = 'ftp://h/'\nsecurity = 'none'\n\
             [place.b]\nurl = 'ftp://h/'\nsecurity = 'tls'\n{rest}"
        )
    };
    for line in ["a: b: c", "a:x ftp://h/y b:z c", "ftp://h/y a:x b:z c"] {
        let told = settings(&places(""), &[], line).unwrap_err();
        let expected = "security differs between [place.a] and [place.b] for ftp://h/";
        assert!(told.contains(expected), "{line}: {told}");
    }
    let told = settings(&places(""), &[], "a:x b:y").unwrap();
    assert_eq!(
        told,
        "ftp://h/x ftp://h/y | ftp://h/x --security=none | ftp://h/y --security=tls"
    );
    // The certificate of the key is in the defaults, of both servers.
    let told = one("key = 'k'", "--cert d one:x two:").unwrap_err();
    assert!(
        told.contains("key of [place.one] would also hold at h2"),
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
            one("protect = 'clear'", "one:x same:"),
            "--protect=clear ftp://h1/a/x ftp://H1",
        ),
        (
            both("protect = 'clear'", "protect = 'clear'", "one:x two:"),
            "--protect=clear ftp://h1/a/x ftp://h2/b",
        ),
        (
            one("protect = 'clear'", "--protect=safe one:x two:"),
            "--protect=safe ftp://h1/a/x ftp://h2/b",
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
        "protect = 'clear'",
        "stack = 'udt'",
        "dcau = 'none'",
        "netrc = true",
        "src-cred = 'c'",
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

//! Flags from the configuration file and the environment, and named places.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt;

use anyhow::{Context as _, Result, ensure};
use workspace_tests::{Finished, ScriptedServer, Tree, run};

use crate::sibling::gridftp_command;
use crate::{Bed, LIMIT, command, fails};

/// Writes the configuration file of the tree's user.
fn configure(tree: &Tree, text: &str) -> Result<()> {
    let path = tree.path(".config/gridftp/config.toml");
    std::fs::create_dir_all(path.parent().unwrap_or(&path))?;
    Ok(std::fs::write(path, text)?)
}

/// Runs `gridftp-cp` with variables of the environment.
fn cp(tree: &Tree, vars: &[(&str, &str)], args: &[&str]) -> Result<Finished> {
    let mut command = command(tree, args)?;
    command.env_remove("XDG_CONFIG_HOME").envs(vars.to_vec());
    run(&mut command, LIMIT)
}

/// Runs `gridftp` with variables of the environment.
fn gridftp(tree: &Tree, vars: &[(&str, &str)], args: &[&str]) -> Result<Finished> {
    run(gridftp_command(tree, args)?.envs(vars.to_vec()), LIMIT)
}

#[test]
fn a_place_stands_for_its_url_and_flags() -> Result<()> {
    let bed = Bed::new()?;
    bed.there.file("data/run/a", 100, 1)?;
    let text = format!(
        "[place.lab]\nurl = '{}'\nrecursive = true\n",
        bed.url("data")
    );
    configure(&bed.here, &text)?;
    cp(&bed.here, &[], &["lab:/run/", "copy/"])?.ok()?;
    bed.same("copy/a", "data/run/a")?;
    cp(&bed.here, &[], &["copy/a", "lab:b"])?.ok()?;
    bed.same("copy/a", "data/b")?;
    let listed = cp(&bed.here, &[], &["--list=lab:run/"])?.ok()?;
    ensure!(listed.stdout.contains('a'), "{}", listed.report());
    // A file of such a name needs a path.
    std::fs::write(bed.here.path("lab:run"), "local")?;
    cp(&bed.here, &[], &["./lab:run", "lab:local"])?.ok()?;
    ensure!(std::fs::read(bed.there.path("data/local"))? == b"local");
    let said = gridftp(&bed.here, &[], &["places"])?.ok()?.stdout;
    ensure!(said == format!("lab\t{}\n", bed.url("data")), "{said}");
    gridftp(&bed.here, &[], &["sum", "lab:run/a"])?.ok()?;
    Ok(())
}

#[test]
fn the_command_line_wins_over_the_environment_a_place_and_the_defaults() -> Result<()> {
    let bed = Bed::new()?;
    bed.here.file("up", 100, 1)?;
    let text = format!(
        "[defaults]\nverify = 'md5'\nresume = true\n[place.lab]\nurl = '{}'\nverify = 'sha1'\n",
        bed.url("")
    );
    configure(&bed.here, &text)?;
    let (env, lab) = (&[("GRIDFTP_VERIFY", "sha256")][..], "lab:");
    for (vars, flags, to, algorithm) in [
        (&[][..], &[][..], bed.url(""), "MD5"),
        (&[], &[], lab.to_owned(), "SHA1"),
        (env, &[], lab.to_owned(), "SHA256"),
        (env, &["--verify=sha512"], lab.to_owned(), "SHA512"),
        (env, &["--no-verify", "--no-resume"], lab.to_owned(), "null"),
    ] {
        let args = [&["--json"], flags, &["up", &to]].concat();
        let finished = cp(&bed.here, vars, &args)?.ok()?;
        let told = match algorithm {
            "null" => "\"checksum\":null".to_owned(),
            name => format!("\"algorithm\":\"{name}\""),
        };
        ensure!(
            finished.stdout.contains(&told),
            "{algorithm}: {}",
            finished.report()
        );
    }
    // A place turns a default off, and a variable turns it on again.
    let text = text
        .replace("resume = true", "no-verify = true")
        .replace("'sha1'", "false");
    configure(&bed.here, &text.replace("verify = 'md5'\n", ""))?;
    let json = ["--json", "up", "lab:"];
    let off = cp(&bed.here, &[("GRIDFTP_NO_VERIFY", "1")], &json)?.ok()?;
    ensure!(off.stdout.contains("\"checksum\":null"), "{}", off.report());
    let on = cp(&bed.here, &[("GRIDFTP_NO_VERIFY", "0")], &json)?.ok()?;
    ensure!(on.stdout.contains("\"algorithm\""), "{}", on.report());
    Ok(())
}

#[test]
fn an_exact_number_beyond_a_bound_of_the_settings_is_refused() -> Result<()> {
    let bed = Bed::new()?;
    let text = format!("[place.lab]\nurl = '{}'\nmax-parallel = 4\n", bed.url(""));
    configure(&bed.here, &text)?;
    let vars = [("GRIDFTP_MAX_CONCURRENCY", "2")];
    for (flags, told) in [
        (["-p", "5"], "--parallel 5: more than --max-parallel 4"),
        (
            ["-j", "3"],
            "--concurrency 3: more than --max-concurrency 2",
        ),
    ] {
        let args = [&flags[..], &["lab:a", "b"]].concat();
        fails(&cp(&bed.here, &vars, &args)?, 2, &[told])?;
    }
    Ok(())
}

#[test]
fn a_variable_holds_the_bytes_of_a_path_or_is_a_mistake() -> Result<()> {
    let bed = Bed::new()?;
    bed.here.file("up", 100, 1)?;
    let to = bed.url("file");
    let with = |variable: &str, value: &[u8], flags: &[&str]| -> Result<Finished> {
        let mut program = command(&bed.here, &[flags, &["up", &to]].concat())?;
        program.env(variable, OsStr::from_bytes(value));
        run(&mut program, LIMIT)
    };
    with("GRIDFTP_LOG_FILE", b"log\xff", &[])?.ok()?;
    let log = bed.here.root().join(OsStr::from_bytes(b"log\xff"));
    ensure!(std::fs::read_to_string(log)?.contains("\"done\""));
    for variable in ["GRIDFTP_RETRIES", "GRIDFTP_VERIFY", "GRIDFTP_NO_VERIFY"] {
        let told = format!("{variable}: its value is not UTF-8");
        fails(&with(variable, b"1\xff", &[])?, 2, &[&told])?;
    }
    // The command line leaves nothing open.
    with("GRIDFTP_RETRIES", b"1\xff", &["--retries", "1"])?.ok()?;
    Ok(())
}

#[test]
fn the_defaults_may_have_flags_of_either_program() -> Result<()> {
    let bed = Bed::new()?;
    bed.here.file("up", 100, 1)?;
    configure(
        &bed.here,
        "[defaults]\nhuman = true\nretry-for = '90s'\ntimeout = 60\nseconds = '1m'\nall = true\n",
    )?;
    let to = bed.url("file");
    let vars = [("GRIDFTP_STATS", "5m"), ("GRIDFTP_MAX_AGE", "1d")];
    cp(&bed.here, &vars, &["up", &to])?.ok()?;
    let told = gridftp(&bed.here, &[], &["du", &to])?.ok()?;
    ensure!(told.stdout.starts_with("100 B\t"), "{}", told.report());
    Ok(())
}

#[test]
fn a_mistake_in_a_setting_is_named_with_its_place() -> Result<()> {
    let tree = Tree::new()?;
    tree.file("a", 1, 1)?;
    let place = "[place.lab]\nurl = 'ftp://localhost/'\n";
    for (text, told) in [
        (
            "[defaults]\nfast = true\n",
            "[defaults]: fast: gridftp-cp has no flag --fast",
        ),
        ("[defaults]\nhelp = true\n", "has no flag --help"),
        (
            "[defaults]\nforce = true\n",
            "[defaults]: force: --force comes from the command line alone; leave it out here",
        ),
        ("[default]\n", "default: unknown"),
        ("[place.lab]\nuser = 'x'\n", "[place.lab]: no url"),
        ("[place.lab]\nurl = '/data'\n", "no server in it"),
        ("[place.lab]\nurl = 'ftp://a:b@host/'\n", "has a password"),
        ("[place.'a b']\nurl = 'ftp://host/'\n", "a name has letters"),
        ("[defaults]\nretries = 'many'\n", "--retries=many ("),
        ("[defaults]\ntimeout = '2y'\n", "--timeout=2y ("),
        ("[defaults]\nretries = {}\n", "retries: write a text"),
        ("nonsense\n", "config.toml"),
        (&format!("{place}fast = 1\n"), "[place.lab]: fast"),
    ] {
        configure(&tree, text)?;
        fails(&cp(&tree, &[], &["a", "b"])?, 2, &[told])?;
        ensure!(!tree.path("b").exists());
    }
    let two = "timeout = 7\n[place.two]\nurl = 'ftp://localhost/'\ntimeout = 8\n";
    configure(&tree, &format!("{place}{two}"))?;
    let differ = cp(&tree, &[], &["lab:a", "two:a"])?;
    fails(
        &differ,
        2,
        &["timeout differs", "[place.lab]", "write --timeout"],
    )?;
    let given = cp(&tree, &[], &["--timeout=9", "lab:a", "-", "two:a"])?;
    fails(&given, 2, &["standard input"])?;
    // Commands in commands have settings too.
    let bits = &[("GRIDFTP_HOURS", "never")];
    let init = cp(&tree, bits, &["proxy", "init"])?;
    fails(&init, 2, &["--hours=never (environment)"])?;
    fails(
        &cp(&tree, &[("GRIDFTP_CONFIG", "/nowhere")], &["a", "b"])?,
        2,
        &["/nowhere"],
    )?;
    // Without a mistake it comes as far as its locations.
    fails(
        &cp(&tree, &[], &["-", "-"])?,
        2,
        &["standard output the destination"],
    )?;
    Ok(())
}

#[test]
fn the_configuration_file_of_the_help_is_valid() -> Result<()> {
    let tree = Tree::new()?;
    let help = cp(&tree, &[], &["--help"])?.ok()?.stdout;
    let (_, sample) = help.split_once("config.toml:\n").unwrap_or_default();
    let (sample, _) = sample.split_once("\n\n").unwrap_or_default();
    ensure!(sample.contains("[place.cern]"), "{help}");
    configure(&tree, sample)?;
    fails(
        &cp(&tree, &[], &["-", "-"])?,
        2,
        &["standard output the destination"],
    )?;
    Ok(())
}

#[test]
fn flags_that_remove_or_choose_other_work_are_of_the_command_line() -> Result<()> {
    let bed = Bed::new()?;
    configure(
        &bed.here,
        &format!("[place.lab]\nurl = '{}'\nrecursive = true\n", bed.url("")),
    )?;
    bed.here.file("up/sub/a", 100, 1)?;
    let all = [
        ("GRIDFTP_DELETE", "1"),
        ("GRIDFTP_DISCARD", "1"),
        ("GRIDFTP_FORCE", "1"),
        ("GRIDFTP_LENGTH", "1"),
        ("GRIDFTP_LIST", &bed.url("")),
        ("GRIDFTP_OFFSET", "1"),
        ("GRIDFTP_PARTIALS", "1"),
        ("GRIDFTP_RECURSIVE", "1"),
        ("GRIDFTP_TIME", "20010101000000"),
    ];
    for (number, variable) in all.iter().enumerate() {
        let old = bed.there.file(&format!("{number}/old"), 7, 1)?;
        cp(&bed.here, &[*variable], &["up/", &format!("lab:{number}/")])?.ok()?;
        bed.same("up/sub/a", &format!("{number}/sub/a"))?;
        ensure!(old.exists(), "{variable:?}");
    }
    bed.there.file("file", 7, 1)?;
    let says = |args: &[&str], needle: &str| fails(&gridftp(&bed.here, &all, args)?, 1, &[needle]);
    says(&["rm", "lab:0"], "-r removes it and all that it holds")?;
    ensure!(bed.there.path("0/sub/a").exists());
    says(&["rm", "lab:nothing"], "nothing: failed")?;
    says(&["ln", "-s", "up", "lab:file"], "file")?;
    says(&["sum", "lab:0"], "0")?;
    let listed = gridftp(&bed.here, &all, &["ls", "lab:0"])?.ok()?;
    ensure!(listed.stdout == "old\nsub\n", "{}", listed.report());
    gridftp(&bed.here, &all, &["touch", "lab:file"])?.ok()?;
    let age = std::fs::metadata(bed.there.path("file"))?
        .modified()?
        .elapsed()?;
    ensure!(age < LIMIT, "{age:?}");
    Ok(())
}

#[test]
fn each_place_has_its_own_user_and_protection() -> Result<()> {
    let (tree, here, there) = (
        Tree::new()?,
        ScriptedServer::usual()?,
        ScriptedServer::usual()?,
    );
    here.file("/from", "some");
    let netrc = tree.path(".netrc");
    let of = |user: &str| format!("machine 127.0.0.1 login {user} password x\n");
    std::fs::write(&netrc, of("ann") + &of("bob"))?;
    std::fs::set_permissions(&netrc, PermissionsExt::from_mode(0o600))?;
    let place = |name: &str, server: &ScriptedServer, rest: &str| {
        format!("[place.{name}]\nurl = '{}'\n{rest}\n", server.url(""))
    };
    let (ann, bob) = ("user = 'ann'\n", "user = 'bob'\n");
    let both = place("here", &here, ann) + &place("there", &there, bob);
    configure(&tree, &format!("[defaults]\nnetrc = true\n{both}"))?;
    let copy = ["--relay", "never", "here:from", "there:to"];
    cp(&tree, &[], &copy)?.ok()?;
    ensure!(there.bytes("/to") == here.bytes("/from"));
    for (server, user) in [(&here, "USER ann"), (&there, "USER bob")] {
        let all = server.commands();
        ensure!(
            server.count("USER") == 1 && all.iter().any(|line| line == user),
            "{all:?}"
        );
    }
    // Without protection at one end, there is none silently at the other.
    let (none, tls) = ("security = 'none'\n", "security = 'tls'\n");
    let two = place("here", &here, none) + &place("there", &there, tls);
    configure(&tree, &two)?;
    for line in [
        &["gridftp-cp", "--relay", "never", "here:from", "there:to"][..],
        &["gridftp-cp", "there:to", "here:from"],
        &["gridftp", "check", "here:", "there:"],
    ] {
        let (program, words) = line.split_first().context("no program")?;
        let run = if *program == "gridftp" { gridftp } else { cp };
        fails(
            &run(&tree, &[], words)?,
            4,
            &["AUTH TLS", "nothing else was sent"],
        )?;
    }
    ensure!(here.count("AUTH") == 0, "{:?}", here.commands());
    ensure!(there.count("USER") == 1, "{:?}", there.commands());
    cp(&tree, &[], &[&["--security", "none"], &copy[..]].concat())?.ok()?;
    // Data between both has one protection.
    configure(
        &tree,
        &(place("here", &here, "protect = 'clear'\n") + &place("there", &there, "")),
    )?;
    let told = "protect of [place.here] would also hold at ";
    fails(&cp(&tree, &[], &copy)?, 2, &[told, "write --protect"])
}

#[test]
fn settings_of_copies_mean_nothing_to_other_commands() -> Result<()> {
    let bed = Bed::new()?;
    bed.here.file("a", 100, 1)?;
    let url = bed.url("a");
    configure(
        &bed.here,
        "[defaults]\nverify = 'sha256'\nsubject = '/CN=x'\ncert = 'own'\nkey = 'own'\n",
    )?;
    let init = cp(&bed.here, &[("GRIDFTP_VERIFY", "md5")], &["proxy", "init"])?;
    fails(&init, 1, &["usercert.pem"])?;
    let no_proxy = ("X509_USER_PROXY", "none");
    let info = gridftp(
        &bed.here,
        &[no_proxy, ("GRIDFTP_BITS", "4096")],
        &["proxy", "info"],
    )?;
    fails(&info, 1, &["none"])?;
    configure(
        &bed.here,
        "[defaults]\nmax-delete = 7\nkey = 'own'\njson = true\n",
    )?;
    cp(&bed.here, &[("GRIDFTP_CHECKSUM", "sha256")], &["a", &url])?.ok()?;
    gridftp(
        &bed.here,
        &[("GRIDFTP_CHECKSUM", "1")],
        &["check", "a", &url],
    )?
    .ok()?;
    gridftp(&bed.here, &[], &["cat", &url])?.ok()?;
    Ok(())
}

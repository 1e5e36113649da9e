//! Flags from the configuration file and the environment, and named places.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use anyhow::{Result, ensure};
use workspace_tests::{Finished, Tree, binary, run};

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
    let mut places = std::process::Command::new(binary("gridftp")?);
    places
        .arg("places")
        .env("HOME", bed.here.root())
        .env_remove("XDG_CONFIG_HOME");
    let said = run(&mut places, LIMIT)?.ok()?.stdout;
    ensure!(said == format!("lab\t{}\n", bed.url("data")), "{said}");
    let mut cat = std::process::Command::new(binary("gridftp")?);
    cat.args(["sum", "lab:run/a"])
        .env("HOME", bed.here.root())
        .env_remove("XDG_CONFIG_HOME");
    run(&mut cat, LIMIT)?.ok()?;
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
    let mut du = std::process::Command::new(binary("gridftp")?);
    du.args(["du", &to])
        .env("HOME", bed.here.root())
        .env_remove("XDG_CONFIG_HOME");
    let told = run(&mut du, LIMIT)?.ok()?;
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

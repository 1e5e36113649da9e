//! Output of the program: help, completions, manual page, JSON, errors, and hidden passwords.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use workspace_tests::{Tree, binary, run};

use crate::sibling::gridftp_in;
use crate::{Bed, LIMIT, cp_in, fails};

/// The flags are taken from the shell completions.
#[test]
fn help_explains_every_option() -> Result<()> {
    let tree = Tree::new()?;
    let completions = cp_in(&tree, &["--completions", "bash"])?.ok()?.stdout;
    let flags: Vec<&str> = completions
        .lines()
        .find_map(|line| line.trim().strip_prefix("opts=\"-"))
        .context("no flags")?
        .trim_end_matches('"')
        .split_whitespace()
        .filter(|flag| flag.starts_with("--"))
        .collect();
    ensure!(flags.len() > 20, "{flags:?}");
    let help = cp_in(&tree, &["--help"])?.ok()?.stdout;
    for flag in flags {
        let mut lines = help.lines().skip_while(|line| {
            // A name at the begin of a line of the text is not its option.
            let long = line.strip_prefix(' ').map_or("", str::trim_start);
            let long = long.split_once(", ").map_or(long, |(_, long)| long);
            let is_flag = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            let end = long.find(|c: char| !is_flag(c));
            long.get(..end.unwrap_or(long.len())) != Some(flag)
        });
        ensure!(lines.next().is_some(), "{flag} is missing in {help}");
        let told: usize = lines
            .take_while(|line| !line.trim().is_empty())
            .map(|line| line.split_whitespace().count())
            .sum();
        let known = matches!(flag, "--help" | "--version");
        ensure!(told >= 3 || known, "{flag} is not explained in {help}");
    }
    Ok(())
}

#[test]
fn help_lists_exit_statuses_and_url_forms() -> Result<()> {
    let tree = Tree::new()?;
    for flag in ["-h", "--help"] {
        let help = cp_in(&tree, &[flag])?.ok()?.stdout;
        for needle in ["Exit status:", "130", "ftp://"] {
            ensure!(
                help.contains(needle) || flag == "-h" && needle == "ftp://",
                "{flag}: no {needle}"
            );
        }
        let has_examples = help.contains("Examples:\n  gridftp-cp -r run7/ ");
        ensure!(has_examples == (flag == "--help"), "{flag}: {help}");
    }
    Ok(())
}

#[test]
fn completions_and_man_page_come_from_the_same_definitions() -> Result<()> {
    let tree = Tree::new()?;
    for shell in ["bash", "zsh", "fish"] {
        let text = cp_in(&tree, &["--completions", shell])?.ok()?.stdout;
        ensure!(text.contains("no-clobber"), "{shell}");
    }
    let man = cp_in(&tree, &["--man"])?.ok()?.stdout;
    ensure!(
        man.contains(".TH gridftp-cp") && man.contains("no\\-clobber"),
        "{man}"
    );
    ensure!(man.contains("copies the contents of run7"), "{man}");
    Ok(())
}

/// Checks that a man page has each option and example of the long help, from which both are made;
/// returns how many there are.
fn has_all(man: &str, help: &str) -> Result<[usize; 2]> {
    let flags = help.lines().filter_map(|line| {
        let line = line.strip_prefix("      --").or_else(|| {
            line.get(2..)?
                .strip_prefix("-")?
                .get(1..)?
                .strip_prefix(", --")
        })?;
        line.split(|c: char| !c.is_ascii_alphanumeric() && c != '-')
            .next()
    });
    let flags: Vec<_> = flags.collect();
    for flag in &flags {
        ensure!(man.contains(&format!("\\fB--{flag}\\fR")), "{flag}");
    }
    let (_, examples) = help.split_once("\nExamples:\n").unwrap_or_default();
    let examples: Vec<_> = examples
        .lines()
        .take_while(|line| !line.is_empty())
        .collect();
    for line in &examples {
        ensure!(man.contains(line.trim()), "{line}");
    }
    Ok([flags.len(), examples.len()])
}

/// The text of man pages without the escapes of a hyphen and an apostrophe.
fn plain(man: &str) -> String {
    man.replace("\\-", "-").replace("\\*(Aq", "'")
}

#[test]
fn the_man_page_has_every_option_and_example() -> Result<()> {
    let tree = Tree::new()?;
    let man = plain(&cp_in(&tree, &["--man"])?.ok()?.stdout);
    let [flags, examples] = has_all(&man, &cp_in(&tree, &["--help"])?.ok()?.stdout)?;
    ensure!(flags > 80 && examples > 100, "{flags} {examples}");
    Ok(())
}

#[test]
fn each_command_of_the_sibling_has_a_man_page_with_every_option_and_example() -> Result<()> {
    let tree = Tree::new()?;
    let man = plain(&gridftp_in(&tree, &["--man"])?.ok()?.stdout);
    let mut commands: Vec<Vec<String>> = vec![Vec::new()];
    let mut done = 0;
    while let Some(words) = commands.pop() {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let name = [&["gridftp"], &words[..]].concat().join("-");
        let page = man.split_once(&format!(".TH {name} 1 ")).context(name)?.1;
        let page = page.split("\n.TH ").next().unwrap_or_default();
        let help = gridftp_in(&tree, &[&words[..], &["--help"]].concat())?.ok()?;
        let [flags, _] = has_all(page, &help.stdout).with_context(|| format!("{words:?}"))?;
        ensure!(flags > 0, "{words:?}");
        let (_, list) = help.stdout.split_once("\nCommands:\n").unwrap_or_default();
        for line in list.lines().take_while(|line| !line.is_empty()) {
            let command = line.split_whitespace().next().unwrap_or_default();
            let below = words.iter().chain([&command]);
            commands.push(below.map(|word| (*word).to_owned()).collect());
        }
        done += 1;
    }
    ensure!(done > 20, "{done} pages");
    Ok(())
}

/// Mistakes in a command line, and words of their remedies.
const MISTAKES: &[(&[&str], &str)] = &[
    (&["--bogus"], "--bogus"),
    (&["one"], "destination"),
    (&["-", "-"], "a file or a URL"),
    (&["--security", "tls", "gsiftp://h/x", "y"], "Grid security"),
    (
        &[
            "--dcau",
            "none",
            "--protect",
            "private",
            "gsiftp://h/x",
            "y",
        ],
        "nothing to protect data with",
    ),
    (
        &["--delegation", "none", "gsiftp://h/x", "y"],
        "--data-cred auto",
    ),
    (&["--dcau", "Alice", "gsiftp://h/x", "y"], "subject"),
    (&["gopher://h/x", "y"], "scheme gopher"),
    (&["http://h/", "y"], "no listings"),
    (&["ftp://h:99999/x", "y"], "port 99999"),
    (&["-p", "0", "ftp://h/x", "y"], "--parallel"),
    (
        &["--stack", "tcp,bogus", "ftp://127.0.0.1:9/x", "y"],
        "bogus",
    ),
    (&["--verify=rot13", "ftp://h/x", "y"], "md5"),
    (&["-r", "--offset", "1", "ftp://h/x", "y"], "tree"),
    (&["--list", "/etc"], "gsiftp://"),
    (&["--partials", "-"], "keeps nothing"),
    (&["a", "ftp://h/x", "-"], "exactly one source"),
    (&["--sync", "-", "ftp://h/x"], "leave out --sync"),
    (&["--delete", "a", "ftp://h/x"], "--recursive"),
    (&["-r", "--exclude", "[", "a/", "ftp://h/x"], "has no ]"),
    (
        &["-r", "--filter-from", "none", "a/", "ftp://h/x"],
        "none: read",
    ),
    (&["--data-ports", "9-1", "a", "ftp://h/x"], "range of ports"),
    (
        &["--receipt", "no/x", "a", "ftp://h/x"],
        "--receipt: no/x: write",
    ),
    (
        &["--log-file", "no/x", "a", "ftp://h/x"],
        "--log-file: no/x: write",
    ),
    (
        &["--failed-list", "no/x", "a", "ftp://h/x"],
        "--failed-list: no/x",
    ),
    (&["--ca", "none", "a", "ftp://h/x"], "none: No such file"),
    (
        &[
            "--stripe-layout",
            "partitioned",
            "--stripe-block",
            "1M",
            "a",
            "ftp://h/x",
        ],
        "--stripe-block: is of blocks",
    ),
];

#[test]
fn usage_errors_name_the_remedy() -> Result<()> {
    let tree = Tree::new()?;
    for (args, needle) in MISTAKES {
        fails(&cp_in(&tree, args)?, 2, &[*needle])?;
    }
    Ok(())
}

#[test]
fn connection_and_login_failures_have_exit_statuses_of_their_own() -> Result<()> {
    let bed = Bed::new()?;
    let port = std::net::TcpListener::bind("127.0.0.1:0")?
        .local_addr()?
        .port();
    let nobody = format!("ftp://127.0.0.1:{port}/x");
    fails(
        &bed.cp(&[&nobody, "y"])?,
        3,
        &["connect", "refused", "check host and port"],
    )?;
    let url = bed.url("x").replace("ftp://", "ftp://bob:hunter2@");
    let finished = bed.cp(&[&url, "y"])?;
    fails(&finished, 4, &["login as bob", "530"])?;
    ensure!(
        !finished.stderr.contains("hunter2"),
        "{}",
        finished.report()
    );
    Ok(())
}

#[test]
fn debug_output_hides_passwords() -> Result<()> {
    let bed = Bed::new()?;
    bed.there.file("file", 10, 1)?;
    let said = bed.cp(&["--debug", &bed.url("file"), "file"])?.ok()?.stderr;
    for needle in ["> USER anonymous", "> ERET digest=0 /file", "< 226 "] {
        ensure!(said.contains(needle), "no {needle} in {said}");
    }
    let url = bed.url("x").replace("ftp://", "ftp://bob:hunter2@");
    let said = bed.cp(&["--debug", &url, "y"])?.failed()?.stderr;
    ensure!(
        said.contains("> PASS") && !said.contains("hunter2"),
        "{said}"
    );
    Ok(())
}

#[test]
fn errors_do_not_repeat_parts_of_a_password() -> Result<()> {
    let bed = Bed::new()?;
    let said = bed.cp(&["ftp://bob:hun/ter2@host/x", "y"])?.failed()?;
    ensure!(!said.stderr.contains("hun"), "{}", said.stderr);
    fails(&said, 2, &["%2F"])
}

#[test]
fn accounts_are_read_from_a_netrc_file() -> Result<()> {
    let bed = Bed::new()?;
    let netrc = bed.here.path(".netrc");
    std::fs::write(&netrc, "machine 127.0.0.1 login carol password s3cret\n")?;
    std::fs::set_permissions(&netrc, std::fs::Permissions::from_mode(0o600))?;
    fails(
        &bed.cp(&["--netrc", &bed.url("x"), "y"])?,
        4,
        &["login as carol"],
    )?;
    std::fs::set_permissions(&netrc, std::fs::Permissions::from_mode(0o644))?;
    fails(
        &bed.cp(&["--netrc", &bed.url("x"), "y"])?,
        2,
        &["chmod 600"],
    )
}

#[test]
fn every_line_of_json_is_an_object() -> Result<()> {
    let bed = Bed::new()?;
    bed.here.file("tree/a \"b\"", 10, 1)?;
    let said = bed.cp(&[
        "--json",
        "--verify",
        "-r",
        "tree",
        "missing",
        &bed.url("new/"),
    ])?;
    ensure!(said.status.code() == Some(1), "{}", said.report());
    let mut events = Vec::new();
    for line in said.stdout.lines() {
        let value: serde_json::Value = serde_json::from_str(line)?;
        let event = value.get("event").and_then(serde_json::Value::as_str);
        events.extend(event.map(str::to_owned));
    }
    for event in ["done", "failed", "end"] {
        ensure!(
            events.iter().any(|e| e == event),
            "no {event} in {}",
            said.report()
        );
    }
    Ok(())
}

#[test]
fn a_failure_in_json_has_fields() -> Result<()> {
    let bed = Bed::new()?;
    let url = bed.url("missing");
    for (args, event) in [
        (&["--json", url.as_str(), "x"][..], "failed"),
        (&["--json", "--list", &url], "error"),
    ] {
        let said = bed.cp(args)?;
        let values = said.stdout.lines().map(serde_json::from_str);
        let values: Vec<serde_json::Value> = values.collect::<Result<_, _>>()?;
        let failure = values.iter().find(|value| value["event"] == event);
        let Some(failure) = failure else {
            anyhow::bail!("no {event} in {}", said.report());
        };
        let text = |name: &str| failure[name].as_str().unwrap_or_default();
        ensure!(text("class") == "transfer", "{failure}");
        ensure!(text("error").starts_with(text("site")), "{failure}");
        ensure!(text("operation").ends_with("missing"), "{failure}");
        ensure!(
            failure["code"] == 550 && failure["path"].is_null(),
            "{failure}"
        );
        ensure!(text("remedy") == "check the path", "{failure}");
    }
    Ok(())
}

#[test]
fn the_remedy_of_a_request_is_a_field_in_json() -> Result<()> {
    let bed = Bed::new()?;
    bed.there.file("dir/file", 10, 1)?;
    let said = bed.cp(&["--json", &bed.url("dir"), "x"])?;
    let values = said.stdout.lines().map(serde_json::from_str);
    let values: Vec<serde_json::Value> = values.collect::<Result<_, _>>()?;
    let told = values
        .iter()
        .any(|value| value["class"] == "usage" && value["remedy"] == "add --recursive to copy it");
    ensure!(told, "{}", said.report());
    Ok(())
}

#[test]
fn quiet_prints_only_errors() -> Result<()> {
    let bed = Bed::new()?;
    bed.here.file("file", 10, 1)?;
    let said = bed.cp(&["-q", "file", &bed.url("file")])?.ok()?;
    ensure!(
        said.stdout.is_empty() && said.stderr.is_empty(),
        "{}",
        said.report()
    );
    fails(&bed.cp(&["-q", &bed.url("missing"), "x"])?, 1, &["missing"])
}

#[test]
fn lists_directories_and_files() -> Result<()> {
    let bed = Bed::new()?;
    bed.there.file("dir/a b", 1234, 1)?;
    bed.there.dir("dir/sub")?;
    let said = bed.cp(&["--list", &bed.url("dir/")])?.ok()?.stdout;
    ensure!(
        said.contains("1234") && said.contains(" a b\n") && said.contains(" sub/\n"),
        "{said}"
    );
    let said = bed.cp(&["--json", "--list", &bed.url("dir")])?.ok()?.stdout;
    ensure!(
        said.lines().count() == 2 && said.contains("\"size\":1234"),
        "{said}"
    );
    let said = bed.cp(&["--list", &bed.url("dir/a b")])?.ok()?.stdout;
    ensure!(said.contains("1234") && said.lines().count() == 1, "{said}");
    let matching = |pattern: &str| bed.cp(&["--list", &format!("{}{pattern}", bed.url("dir/"))]);
    let said = matching("a*")?.ok()?.stdout;
    ensure!(said.contains("1234") && said.lines().count() == 1, "{said}");
    fails(&matching("x*")?, 1, &["dir/x*: no name there matches"])?;
    let missing = bed.cp(&["--list", &bed.url("missing")])?;
    fails(&missing, 1, &["check the path"])
}

#[test]
fn output_to_a_full_disk_is_a_failure() -> Result<()> {
    let bed = Bed::new()?;
    bed.there.file("file", 10, 1)?;
    let url = bed.url("file");
    for args in [
        &["--list", url.as_str()][..],
        &["--json", &url, "copy"],
        &["--man"],
        &["--completions", "bash"],
    ] {
        let program = binary("gridftp-cp")?;
        let mut shell = Command::new("sh");
        shell
            .args(["-c", "exec \"$0\" \"$@\" > /dev/full"])
            .arg(program)
            .args(args)
            .current_dir(bed.here.root());
        fails(&run(&mut shell, LIMIT)?, 1, &["output: write: No space"])?;
    }
    bed.same("copy", "file")
}

/// The bound on the rate makes the copy last for two periods at least.
#[test]
fn progress_is_a_line_each_period_without_a_terminal() -> Result<()> {
    let bed = Bed::new()?;
    bed.here.file("file", 2_700_000, 3)?;
    let to = bed.url("copy");
    let lines = |flags: &[&str]| -> Result<(usize, usize)> {
        let slow = ["--bwlimit", "1M", "file", &to];
        let said = bed.cp(&[flags, &slow].concat())?.ok()?;
        let of_text = |line: &&str| line.contains(" of 2.57 MiB, ");
        let of_json = |line: &&str| line.contains("\"event\":\"progress\"");
        let texts = said.stderr.lines().filter(of_text).count();
        Ok((texts, said.stdout.lines().filter(of_json).count()))
    };
    let (texts, none) = lines(&["--stats=1"])?;
    ensure!(texts >= 2 && none == 0, "{texts} lines, {none} objects");
    let (none, objects) = lines(&["--stats=1", "--json"])?;
    ensure!(objects >= 2 && none == 0, "{none} lines, {objects} objects");
    for flags in [&[][..], &["--stats=1", "--quiet"]] {
        let told = lines(flags)?;
        ensure!(told == (0, 0), "{flags:?}: {told:?}");
    }
    Ok(())
}

//! The help and the man pages of the daemon.

use std::fs;

use crate::process::{program, run};

/// The keys of the file are all there is, as the parser itself tells.
#[test]
fn help_explains_every_option() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config.toml");
    fs::write(&config, "no-such-key = 1\n").unwrap();
    let refused = run(program().arg("--config").arg(config));
    let refused = String::from_utf8_lossy(&refused.stderr).into_owned();
    let (_, keys) = refused.split_once("expected one of").unwrap();
    let mut keys: Vec<&str> = keys.split('`').skip(1).step_by(2).collect();
    assert!(keys.len() > 20, "{refused}");
    keys.push("config");
    // The section of a front end or a node is the flags of these commands.
    let help = run(program().args(["front", "--help"]));
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    for key in keys {
        // A flag stands on a line of its own, its explanation on those below.
        let mut lines = help.lines().skip_while(|line| {
            let line = line.trim_start();
            let long = line.split_once(", ").map_or(line, |(_, long)| long);
            let end = long.find(|c: char| !c.is_ascii_lowercase() && c != '-');
            long[..end.unwrap_or(long.len())] != format!("--{key}")
        });
        assert!(lines.next().is_some(), "{key} is missing in\n{help}");
        let words: usize = lines
            .take_while(|line| !line.trim().is_empty())
            .map(|line| line.split_whitespace().count())
            .sum();
        assert!(words >= 3, "{key} is not explained in\n{help}");
    }
}

#[test]
fn man_pages_are_written() {
    let man = run(program().arg("--man"));
    let text = String::from_utf8_lossy(&man.stdout).into_owned();
    assert!(man.status.success() && man.stderr.is_empty(), "{man:?}");
    for page in [
        ".TH gridftp-server 8 ",
        ".TH gridftp-server-cluster-join 8 ",
    ] {
        assert!(text.contains(page), "no {page}");
    }
}

/// The summary has none.
#[test]
fn the_help_of_a_command_has_its_own_examples() {
    let help = |flag| {
        let told = run(program().args(["cluster", "join", flag]));
        String::from_utf8_lossy(&told.stdout).into_owned()
    };
    let (long, short) = (help("--help"), help("-h"));
    assert!(
        long.contains("\n  gridftp-server cluster join --cluster node1 "),
        "{long}"
    );
    assert!(!long.contains("gridftp-server cluster init"), "{long}");
    assert!(
        short.contains("--cluster") && !short.contains("Examples"),
        "{short}"
    );
}

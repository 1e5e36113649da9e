//! RFC 3659 §7: MLST and MLSD.

use std::collections::BTreeMap;

use crate::support::{Ftp, TestServer};
use crate::{fresh, inner, lines};

/// Returns the facts of an entry by lower-case name, and its path, in the form of §7.2.
#[track_caller]
fn entry(line: &str) -> (BTreeMap<String, String>, &str) {
    let (facts, path) = line.split_once(' ').unwrap_or_else(|| panic!("{line:?}"));
    assert!(facts.is_empty() || facts.ends_with(';'), "{line:?}");
    let facts = facts.split_terminator(';').map(|fact| {
        let (name, value) = fact.split_once('=').unwrap_or_else(|| panic!("{line:?}"));
        (name.to_ascii_lowercase(), value.to_owned())
    });
    (facts.collect(), path)
}

/// Returns the entry of an MLST.
#[track_caller]
fn mlst(ftp: &mut Ftp, line: &str) -> (BTreeMap<String, String>, String) {
    let reply = ftp.ok(line, 250);
    assert_eq!(reply.lines.len(), 3, "{reply:?}");
    let entries = inner(&reply);
    let (facts, path) = entry(&entries[0]);
    (facts, path.to_owned())
}

/// Starts a server over a directory with a file, a hard link to it, a directory and an unusual
/// name.
fn server() -> TestServer {
    let server = TestServer::new();
    std::fs::create_dir_all(server.root.join("d/sub")).unwrap();
    server.put("d/a b", "12345");
    server.put("d/;=x; y", "");
    std::fs::hard_link(server.root.join("d/a b"), server.root.join("d/same")).unwrap();
    server
}

/// §7.2: an entry on the control connection has one leading blank, entries on the data connection
/// have none. The path is everything behind the first blank of an entry.
#[test]
fn entries_have_one_form() {
    let server = server();
    let mut ftp = fresh(&server);
    let mut names: Vec<String> = Vec::new();
    for line in lines(ftp.get("MLSD d")) {
        let (facts, path) = entry(&line);
        names.push(path.to_owned());
        if ![".", ".."].contains(&path) {
            let (of_one, named) = mlst(&mut ftp, &format!("MLST d/{path}"));
            assert_eq!((of_one, named), (facts, format!("d/{path}")), "{line}");
        }
    }
    names.sort();
    assert_eq!(names, [".", "..", ";=x; y", "a b", "same", "sub"]);
}

/// §7.2, §7.3: without an argument both describe the working directory. TYPE has no effect.
#[test]
fn no_argument_means_the_working_directory() {
    let server = server();
    let mut ftp = fresh(&server);
    ftp.ok("CWD d", 250);
    let (facts, path) = mlst(&mut ftp, "MLST");
    assert_eq!((facts["type"].as_str(), path.as_str()), ("dir", "/d"));
    let in_a = lines(ftp.get("MLSD"));
    ftp.ok("TYPE I", 200);
    assert_eq!(lines(ftp.get("MLSD")), in_a);
    assert_eq!(lines(ftp.get("MLSD /d")), in_a);
}

/// §7.2.1: 550 for a missing object, 501 for MLSD of a file. In the latter case the Globus server
/// sends the line of the file, and so do we.
#[test]
fn a_missing_object_has_no_facts() {
    let server = server();
    let mut ftp = fresh(&server);
    ftp.ok("MLST none", 550);
    ftp.pasv();
    ftp.ok("MLSD none", 550);
    let listed = lines(ftp.get("MLSD d/a b"));
    assert_eq!(listed.len(), 1);
    assert!(listed[0].ends_with("; a b"), "{listed:?}");
}

/// §7.5: types of entries, of the listed directory and of its parent; sizes and times equal those
/// of SIZE and MDTM; letters of Perm fit the type; Unique identifies an object.
#[test]
fn facts_describe_their_object() {
    let server = server();
    let mut ftp = fresh(&server);
    let listed = lines(ftp.get("MLSD d"));
    let entries: Vec<_> = listed.iter().map(|line| entry(line)).collect();
    let of = |name: &str| &entries.iter().find(|(_, path)| *path == name).unwrap().0;
    for (name, ty) in [
        (".", "cdir"),
        ("..", "pdir"),
        ("sub", "dir"),
        ("a b", "file"),
    ] {
        assert_eq!(of(name)["type"], ty, "{name}");
    }
    for (facts, path) in &entries {
        let letters = if facts["type"] == "file" {
            "adfrw"
        } else {
            "cdeflmp"
        };
        assert!(
            facts["perm"].chars().all(|c| letters.contains(c)),
            "{path}: {facts:?}"
        );
        let whole = facts["modify"].split('.').next().unwrap();
        let mdtm = ftp.ok(&format!("MDTM d/{path}"), 213).text();
        assert_eq!(mdtm, format!("213 {whole}"), "{path}");
        if facts["type"] == "file" {
            let size = ftp.ok(&format!("SIZE d/{path}"), 213).text();
            assert_eq!(size, format!("213 {}", facts["size"]), "{path}");
        }
    }
    assert_eq!(of("same")["unique"], of("a b")["unique"]);
    assert_ne!(of("sub")["unique"], of("a b")["unique"]);
    assert_ne!(of(".")["unique"], of("..")["unique"]);
}

/// §7.9: the reply to OPTS MLST lists the selected facts, each once, in the server's spelling.
/// Unknown facts are ignored, and an empty selection is valid. The Globus server sends no list.
#[test]
fn opts_mlst_chooses_facts() {
    let server = server();
    let mut ftp = fresh(&server);
    for (line, said, names) in [
        (
            "OPTS MLST type;size;",
            "200 MLST OPTS Type;Size;",
            &["size", "type"][..],
        ),
        (
            "OPTS MLST SIZE;Bogus;size;",
            "200 MLST OPTS Size;",
            &["size"],
        ),
        ("OPTS MLST Modify", "200 MLST OPTS Modify;", &["modify"]),
        ("OPTS MLST Bogus;", "200 MLST OPTS", &[]),
        ("OPTS MLST", "200 MLST OPTS", &[]),
    ] {
        assert_eq!(ftp.ok(line, 200).text(), said);
        let (facts, path) = mlst(&mut ftp, "MLST d/a b");
        assert_eq!(facts.keys().collect::<Vec<_>>(), names, "{line}");
        assert_eq!(path, "d/a b");
        for line in lines(ftp.get("MLSD d")) {
            let (facts, _) = entry(&line);
            assert!(facts.len() <= names.len(), "{line}");
        }
    }
}

/// §7.8: FEAT lists every fact once and marks the selected ones, which are the default ones before
/// the first OPTS MLST. The Globus server always marks the default ones.
#[test]
fn feat_marks_the_facts_in_force() {
    let server = server();
    let mut ftp = fresh(&server);
    let marked = |ftp: &mut Ftp| -> Vec<String> {
        let features = inner(&ftp.ok("FEAT", 211));
        let line = features
            .iter()
            .find_map(|line| line.strip_prefix("MLST "))
            .unwrap();
        assert!(line.ends_with(';') && !line.contains(' '), "{line}");
        let marked = line
            .split_terminator(';')
            .filter_map(|fact| fact.strip_suffix('*'));
        let mut marked: Vec<String> = marked.map(str::to_ascii_lowercase).collect();
        marked.sort();
        marked
    };
    // UNIX.slink is a fact of links alone, X.staged one of files in an archive.
    let by_default = marked(&mut ftp);
    let (facts, _) = mlst(&mut ftp, "MLST d/a b");
    let expected: Vec<&String> = by_default
        .iter()
        .filter(|name| !["unix.slink", "x.staged"].contains(&name.as_str()))
        .collect();
    assert_eq!(facts.keys().collect::<Vec<_>>(), expected);
    ftp.ok("OPTS MLST Unique;Type;", 200);
    assert_eq!(marked(&mut ftp), ["type", "unique"]);
    ftp.ok("OPTS MLST", 200);
    assert_eq!(marked(&mut ftp), [""; 0]);
    assert_eq!(
        marked(&mut fresh(&server)),
        by_default,
        "a selection is valid for its session only"
    );
}

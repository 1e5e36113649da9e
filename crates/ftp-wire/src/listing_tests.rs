//! Listing lines to the byte, hostile names, and lines of other servers.

use proptest::prelude::*;

use super::*;

fn entry() -> Entry {
    Entry {
        size: 7,
        modified: TimeVal::parse(b"20261120194724").unwrap(),
        mode: 0o644,
        perm: "r".into(),
        owner: (0, "root".into()),
        group: (0, "root".into()),
        unique: (0xfe00, 0xf6066),
        ..Entry::new(EntryKind::File, "lf.txt")
    }
}

fn facts(entry: &Entry, facts: FactSet) -> String {
    let mut out = Vec::new();
    entry.write_facts(facts, &mut out);
    String::from_utf8(out).unwrap()
}

fn long(entry: &Entry, now: TimeVal) -> String {
    let mut out = Vec::new();
    entry.write_long(now, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn facts_come_in_the_order_of_gct() {
    assert_eq!(
        facts(&entry(), FactSet::DEFAULT),
        "Type=file;Modify=20261120194724;Size=7;Perm=r;UNIX.mode=0644;UNIX.owner=root;UNIX.uid=0;\
         UNIX.group=root;UNIX.gid=0;Unique=fe00-f6066; lf.txt"
    );
    let dir = Entry {
        target: Some("a b;c\n€".into()),
        count: Some(4),
        error: Some("OpenFailed".into()),
        owner: (1, "x y".into()),
        ..Entry::new(EntryKind::Cdir, ".")
    };
    assert_eq!(
        facts(&dir, FactSet::ALL.without(Fact::Modify)),
        "Type=cdir;Charset=UTF-8;Size=0;Perm=;UNIX.mode=0000;UNIX.owner=x%20y;UNIX.uid=1;UNIX.group=;\
         UNIX.gid=0;Unique=0-0;UNIX.slink=a%20b%3Bc%0A%E2%82%AC;X.count=4;Error=OpenFailed; ."
    );
    assert_eq!(facts(&dir, FactSet::NONE), "Error=OpenFailed; .");
    assert_eq!(facts(&entry(), FactSet::NONE), " lf.txt");
}

#[test]
fn names_cannot_make_up_lines() {
    let evil = Entry {
        name: b"a\r\nType=file; b\0\x1b[31m".to_vec(),
        ..entry()
    };
    assert_eq!(
        facts(&evil, FactSet::NONE),
        "Error=InvalidName; a\u{fffd}\u{fffd}Type=file; b\u{fffd}\x1b[31m"
    );
    let line = long(&evil, evil.modified);
    assert!(line.ends_with(" a??Type=file; b??[31m"), "{line}");
}

/// A program opens the object by the bytes in the line; a terminal gets no control characters.
#[test]
fn lines_for_programs_carry_every_byte_of_a_name() {
    let bytes: Vec<u8> = (1..=0xff).filter(|b| !b"\r\n/".contains(b)).collect();
    for name in [
        bytes.as_slice(),
        b" x",
        b"x ",
        b" ",
        b"\t",
        b"a; b",
        b"\x01",
        "\u{9b}31m".as_bytes(),
    ] {
        let named = Entry {
            name: name.to_vec(),
            ..entry()
        };
        for set in [FactSet::NONE, FactSet::DEFAULT] {
            let mut line = Vec::new();
            named.write_facts(set, &mut line);
            let parsed = Entry::parse(&line).unwrap().0;
            assert_eq!((parsed.name, parsed.error), (name.to_vec(), None));
        }
        let mut line = Vec::new();
        named.write_long(named.modified, &mut line);
        let shown = String::from_utf8_lossy(&line);
        assert!(!shown.contains(char::is_control), "{shown:?}");
    }
}

/// Apache commons-net drops a line with more digits, and reads `.5` as five milliseconds.
#[test]
fn times_have_three_digits_of_a_second_or_none() {
    for (nanos, digits) in [
        (0, ""),
        (999_999, ""),
        (5_000_000, ".005"),
        (500_000_000, ".500"),
        (123_456_789, ".123"),
    ] {
        let timed = Entry {
            modified: TimeVal::new(0, nanos),
            ..entry()
        };
        assert_eq!(
            facts(&timed, FactSet::NONE.with(Fact::Modify)),
            format!("Modify=19700101000000{digits}; lf.txt")
        );
    }
}

#[test]
fn long_lines_look_like_ls() {
    let now = TimeVal::parse(b"20261225000000").unwrap();
    let file = entry();
    assert_eq!(
        long(&file, now),
        "-rw-r--r--   1     root     root            7 Nov 20 19:47 lf.txt"
    );
    let old = Entry {
        modified: TimeVal::parse(b"20240229000000").unwrap(),
        ..entry()
    };
    assert_eq!(
        long(&old, now),
        "-rw-r--r--   1     root     root            7 Feb 29  2024 lf.txt"
    );
    let future = Entry {
        modified: TimeVal::parse(b"20270301000000").unwrap(),
        ..entry()
    };
    assert!(long(&future, now).contains("Mar  1  2027"));
    let link = Entry {
        mode: 0o777,
        target: Some(b"../x\ny".to_vec()),
        owner: (5, String::new()),
        group: (6, "a b".into()),
        ..Entry::new(EntryKind::Slink, "l")
    };
    assert_eq!(
        long(&link, TimeVal::new(0, 0)),
        "lrwxrwxrwx   1        5      a?b            0 Jan  1 00:00 l -> ../x?y"
    );
    for (kind, mode, text) in [
        (EntryKind::Dir, 0o1777, "drwxrwxrwt"),
        (EntryKind::Pdir, 0o1666, "drw-rw-rwT"),
        (EntryKind::File, 0o6755, "-rwsr-sr-x"),
        (EntryKind::Char, 0o6000, "c--S--S---"),
        (EntryKind::Block, 0, "b---------"),
        (EntryKind::Pipe, 0o100_644, "prw-r--r--"),
    ] {
        assert_eq!(mode_text(kind, mode), text);
    }
}

#[test]
fn lines_of_other_servers_are_read() {
    let parse = |line: &str| Entry::parse(line.as_bytes());
    let (e, found) =
        parse("type=dir;sizd=4096;modify=20240101000000.5;UNIX.mode=0755;frob=1; a; b").unwrap();
    assert_eq!(
        (e.kind, e.name.as_slice(), e.mode),
        (EntryKind::Dir, &b"a; b"[..], 0o755)
    );
    assert_eq!(e.modified.nanos, 500_000_000);
    assert!(found.contains(Fact::Modify) && !found.contains(Fact::Size));
    let (e, _) = parse("Type=OS.unix=slink:/x;Unique=801g42; l").unwrap();
    assert_eq!(
        (e.kind, e.target.as_deref()),
        (EntryKind::Slink, Some(&b"/x"[..]))
    );
    let (e, _) = parse("Type=OS.unix=symlink;Unique=801g42; l").unwrap();
    assert_eq!((e.kind, e.target), (EntryKind::Slink, None));
    assert_ne!(e.unique, (0, 0));
    assert_eq!(e.unique, parse("Unique=801g42; other").unwrap().0.unique);
    assert_ne!(e.unique, parse("Unique=801g43; other").unwrap().0.unique);
    let (e, found) = parse(" just a name").unwrap();
    assert_eq!(
        (e.name.as_slice(), found),
        (&b"just a name"[..], FactSet::NONE)
    );
    let (e, _) = parse("Size=5 no semicolon").unwrap();
    assert_eq!((e.size, e.name.as_slice()), (5, &b"no semicolon"[..]));
    let (e, _) = parse("UNIX.owner=a%20b%zz%4;Error=OpenFailed; d").unwrap();
    assert_eq!(
        (e.owner.1.as_str(), e.error.as_deref()),
        ("a b%zz%4", Some("OpenFailed"))
    );
}

#[test]
fn malformed_lines_are_refused_with_the_place() {
    for (line, error) in [
        ("", BadFacts::Name),
        ("Type=file;Size=1;", BadFacts::Name),
        ("Type=file; ", BadFacts::Name),
        ("Type=file;Size; x", BadFacts::Fact { at: 10 }),
        ("Type=file;Size=-1; x", BadFacts::Value { at: 15 }),
        ("Size=18446744073709551616; x", BadFacts::Value { at: 5 }),
        ("Modify=yesterday; x", BadFacts::Value { at: 7 }),
        ("UNIX.mode=999; x", BadFacts::Value { at: 10 }),
    ] {
        assert_eq!(Entry::parse(line.as_bytes()), Err(error), "{line}");
    }
}

#[test]
fn fact_sets_parse_by_whole_names() {
    let set = FactSet::parse(b"UNIX.owner;type;Sizes;");
    assert_eq!(set, FactSet::NONE.with(Fact::UnixOwner).with(Fact::Type));
    assert_eq!(set.to_string(), "Type;UNIX.owner;");
    assert_eq!(
        FactSet::parse(FactSet::ALL.to_string().as_bytes()),
        FactSet::ALL
    );
    assert_eq!(
        FactSet::DEFAULT.feat(),
        "Type*;Size*;Modify*;Perm*;Charset;UNIX.mode*;UNIX.owner*;UNIX.uid*;UNIX.group*;UNIX.gid*;\
         Unique*;UNIX.slink*;X.count;X.staged*;"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn entries_round_trip(
        name in prop::collection::vec(0x20u8..=0xff, 1..20), size: u64, seconds in 0..4_000_000_000i64,
        mode in 0u32..0o10000, unique: (u64, u64), owner: (u32, String), count: Option<u64>,
        target in prop::option::of(prop::collection::vec(any::<u8>(), 0..20)),
    ) {
        let entry = Entry {
            size, modified: TimeVal::new(seconds, 5_000_000), mode, unique, owner, count, target,
            perm: "awr".into(),
            ..Entry::new(EntryKind::File, name)
        };
        let mut line = Vec::new();
        entry.write_facts(FactSet::ALL, &mut line);
        let (parsed, found) = Entry::parse(&line).unwrap();
        prop_assert_eq!(&parsed, &entry);
        prop_assert_eq!(found.contains(Fact::Count), entry.count.is_some());
    }

    #[test]
    fn no_line_panics(line in prop::collection::vec(any::<u8>(), 0..60)) {
        let _ = Entry::parse(&line);
    }
}

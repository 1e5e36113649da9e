//! Files of settings.

/// A file of settings, a command line of `gridftp-cp`, and words of the message; the exit status
/// is 2.
pub(in crate::usage) type Settings = (&'static str, &'static str, &'static [&'static str]);

pub(in crate::usage) const SETTINGS: &[Settings] = &[
    ("[defaults", "x y", &["config.toml: "]),
    (
        "bogus = 1",
        "x y",
        &["bogus: unknown; write [defaults] or [place.NAME]"],
    ),
    (
        "[defaults]\nbogus = 1",
        "x y",
        &[
            "[defaults]: bogus: ",
            "has no flag --bogus, and neither has gridftp",
        ],
    ),
    (
        "[defaults]\ndelete = true",
        "x y",
        &["--delete comes from the command line alone; leave it out here"],
    ),
    (
        "[defaults]\nparallel = 1979-05-27",
        "x y",
        &["parallel: write a text, a number, true, false, or a list of them"],
    ),
    ("[defaults]\nparallel = 0", "x y", &["0 is not in 1..=256"]),
    (
        "[place]\na = 1",
        "x y",
        &[
            "[place.a]: ",
            "no table; write url = \"gsiftp://HOST/\" in it",
        ],
    ),
    (
        "[place.'a b']\nurl = 'ftp://h/'",
        "x y",
        &["a name has letters, digits, '-', '_' and '.'"],
    ),
    (
        "[place.a]\n",
        "x y",
        &["[place.a]: no url; write url = \"gsiftp://HOST/\""],
    ),
    (
        "[place.a]\nurl = '/d'",
        "x y",
        &["url: /d: no server in it"],
    ),
    (
        "[place.a]\nurl = 'gopher://h/'",
        "x y",
        &["[place.a]: url: scheme gopher: unknown"],
    ),
    (
        "[place.a]\nurl = 'ftp://u:p@h/'",
        "x y",
        &["url: has a password; use a .netrc"],
    ),
    (
        "[place.a]\nurl = 'ftp://h/'\nuser = ['u', 'v']",
        "x y",
        &["user: write one name"],
    ),
    (
        "[place.a]\nurl = 'ftp://h/'\nca = 'x'\n[place.b]\nurl = 'ftp://h/'\nca = 'y'",
        "a: b: y",
        &["ca differs between [place.a] and [place.b] for ftp://h/; write --ca"],
    ),
    (
        "[place.a]\nurl = 'ftp://h/'\nsecurity = 'bogus'",
        "a:/x ftp://g/y",
        &["[place.a]: invalid value 'bogus' for '--security <HOW>'"],
    ),
    (
        "[place.a]\nurl = 'ftp://h/'\nca = 'none'",
        "a:/x ftp://g/y",
        &["[place.a]: ", "none: ", "No such file"],
    ),
    (
        "[place.a]\nurl = 'ftp://h/'\nprotect = 'clear'",
        "a:/x ftp://g/y",
        &["protect of [place.a] would also hold at"],
    ),
    (
        "[place.a]\nurl = 'ftp://h/'\nparallel = 1\n[place.b]\nurl = 'ftp://g/'\nparallel = 2",
        "a:/x b:/y",
        &["parallel differs between [place.a] and [place.b]; write --parallel"],
    ),
];

//! URLs and paths as people write them, read and shown.

use super::*;

fn remote(text: &str) -> Remote {
    match Location::parse(text).unwrap() {
        Location::Remote(remote) => remote,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn plain_paths_and_dash() {
    assert_eq!(Location::parse("-").unwrap(), Location::Stdio);
    assert_eq!(
        Location::parse("a b").unwrap(),
        Location::Local("a b".into())
    );
    assert_eq!(
        Location::parse("a:b").unwrap(),
        Location::Local("a:b".into())
    );
    assert_eq!(
        Location::parse("C:/x").unwrap(),
        Location::Local("C:/x".into())
    );
    assert!(Location::parse("dir/").unwrap().means_contents());
}

#[test]
fn file_urls() {
    for text in ["file:/a%20b", "file:///a%20b", "file://localhost/a%20b"] {
        assert_eq!(
            Location::parse(text).unwrap(),
            Location::Local("/a b".into()),
            "{text}"
        );
    }
    assert_eq!(
        Location::parse("file:rel").unwrap(),
        Location::Local("rel".into())
    );
    assert_eq!(
        Location::parse("file://far/x"),
        Err(UrlError::FileHost("far".into()))
    );
    assert_eq!(Location::parse("file:///x%00y"), Err(UrlError::ControlByte));
}

#[test]
fn ftp_urls() {
    let url = remote("ftp://us%40er:p%3Aw@host:2811/a%20b/c");
    assert_eq!(url.site.host, "host");
    assert_eq!(url.site.port, 2811);
    assert_eq!(url.site.user.as_deref(), Some("us@er"));
    assert_eq!(url.site.password.as_ref().map(Secret::reveal), Some("p:w"));
    assert_eq!(url.path, b"/a b/c");
    assert_eq!(remote("FTP://h").path, b"/");
    assert_eq!(remote("ftp://h").site.port, 21);
    assert_eq!(remote("ftp://[::1]:99/x").site.host, "::1");
    assert_eq!(remote("ftp://h/~/x").path, b"~/x");
    assert_eq!(remote("ftp://h/%2Fetc").path, b"/etc");
    assert_eq!(remote("ftp://u@h/").site.password, None);
    assert_eq!(remote("ftp://h/").site.scheme, Scheme::Ftp);
    assert_eq!(remote("FTPS://h/").site.scheme, Scheme::Ftps);
    assert_eq!(remote("ftps://h").site.port, 21);
    assert_eq!(remote("ftps://h:990").site.port, 990);
}

#[test]
fn urls_that_are_shown_can_be_read_again() {
    for path in [
        &b"/a b"[..],
        b"/%41",
        b"/*?[x]",
        b"/~x",
        b"/~",
        b"~/x",
        b"/",
        b"/a\x1b\xff",
        b"/#;&|<>\"'\\$`!(){}",
        "/é\u{202e}ü".as_bytes(),
        b"/@:x",
    ] {
        let mut site = Site::new("h", 2811);
        for account in [None, Some("us@er:x".to_owned())] {
            site.scheme = match account {
                None => Scheme::Ftp,
                Some(_) => Scheme::Ftps,
            };
            site.user = account;
            let shown = Location::Remote(Remote::new(site.clone(), path)).to_string();
            assert!(
                !shown.contains([' ', '\x1b', '\u{202e}', '*', '\'']),
                "{shown}"
            );
            let again = remote(&shown);
            assert_eq!(
                (&*again.path, &again.site, again.pattern),
                (path, &site, None),
                "{shown}"
            );
        }
    }
    for text in [
        "ftp://h:2811/d%20d/a%2Ab*[!x]?",
        "ftp://h:2811/~/x*",
        "ftp://h:2811/*",
    ] {
        let one = remote(text);
        let again = remote(&one.to_string());
        assert_eq!(again.pattern, one.pattern, "{one}");
        assert_eq!(
            crate::names::parent(&again.path),
            crate::names::parent(&one.path)
        );
    }
}

#[test]
fn a_path_need_not_be_text() {
    use std::os::unix::ffi::OsStrExt as _;
    let parse = |bytes| Location::parse_os(OsStr::from_bytes(bytes));
    let path = OsStr::from_bytes(b"\xff:x").into();
    assert_eq!(parse(b"\xff:x"), Ok(Location::Local(path)));
    assert_eq!(parse(b"ftp://h/\xff"), Err(UrlError::Encoding));
    assert_eq!(parse(b"-"), Ok(Location::Stdio));
}

#[test]
fn errors_of_urls_name_the_remedy() {
    assert_eq!(Location::parse(""), Err(UrlError::Empty));
    assert_eq!(Location::parse("ftp:///x"), Err(UrlError::NoHost));
    assert_eq!(
        Location::parse("ftp://h:0/x"),
        Err(UrlError::Port("0".into()))
    );
    assert_eq!(
        Location::parse("ftp://h:x/x"),
        Err(UrlError::Port("x".into()))
    );
    assert_eq!(
        Location::parse("ftp://h/a%0d%0aDELE%20x"),
        Err(UrlError::ControlByte)
    );
    assert_eq!(
        Location::parse("ftp://a%0aQUIT@h/"),
        Err(UrlError::ControlByte)
    );
    assert_eq!(
        Location::parse("gopher://h/x"),
        Err(UrlError::Scheme("gopher".into()))
    );
}

#[test]
fn a_password_is_never_shown() {
    let location = Location::parse("ftp://u:hunter2@h/x").unwrap();
    assert!(!format!("{location} {location:?}").contains("hunter2"));
}

#[test]
fn ssh_urls_and_the_syntax_of_scp() {
    for (text, url) in [
        ("sshftp://host/a%20b", "sshftp://host:22/a%20b"),
        ("sshftp://ann@host:2022/~/x", "sshftp://ann@host:2022/~/x"),
        ("host:/a b/c%d", "sshftp://host:22/a%20b/c%25d"),
        ("ann@host:dir/x", "sshftp://ann@host:22/~/dir/x"),
        ("ann@host:", "sshftp://ann@host:22/~/"),
        ("host:~/x", "sshftp://host:22/~/x"),
        ("ann@[::1]:/x", "sshftp://ann@[::1]:22/x"),
        ("[::1]:/x", "sshftp://[::1]:22/x"),
        ("host:/x*", "sshftp://host:22/x*"),
    ] {
        let remote = remote(text);
        assert_eq!(
            (remote.site.scheme, remote.to_string().as_str()),
            (Scheme::Ssh, url),
            "{text}"
        );
    }
    for path in ["a:b", "C:/x", "./host:/x", "dir/host:/x", ":/x", "/a@b:c"] {
        assert_eq!(Location::parse(path).unwrap(), Location::Local(path.into()));
    }
}

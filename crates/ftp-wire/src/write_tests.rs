//! The wire form, the form for logs, and text that tries to carry a second command.

use super::*;
use crate::attribute::Attribute;
use crate::command::{Secret, Spot, Tag};
use crate::receipt::Extent;

fn wire(command: &Command) -> Vec<u8> {
    let mut out = Vec::new();
    command.write_to(&mut out);
    out
}

fn path(text: &str) -> FtpPath {
    FtpPath::new(text).unwrap()
}

#[test]
fn secrets_are_sent_but_not_shown() {
    let pass = Command::Pass(Secret::new("hunter2"));
    assert_eq!(wire(&pass), b"PASS hunter2\r\n");
    assert_eq!(pass.to_string(), "PASS ****");
    assert!(!format!("{pass:?}").contains("hunter2"));
    for secret in [
        Command::Adat(Secret::new("QUJD")),
        Command::Dcsc(Secret::new("P QUJD")),
    ] {
        assert!(String::from_utf8(wire(&secret)).unwrap().contains("QUJD"));
        let shown = format!("{secret} {secret:?}");
        assert!(!shown.contains("QUJD"), "{shown}");
    }
}

#[test]
fn the_value_of_an_attribute_is_sent_but_not_shown() {
    let attribute = Attribute::new(b"user.a b", b"value").unwrap();
    let set = Command::Site(SiteCommand::SetXattr(attribute, path("/x")));
    assert_eq!(wire(&set), b"SITE SETXATTR user.a%20b=dmFsdWU= /x\r\n");
    assert_eq!(set.to_string(), "SITE SETXATTR user.a%20b=(5 bytes) /x");
}

#[test]
fn no_text_carries_a_second_command() {
    let evil = "x\r\nDELE /\0".to_owned();
    for command in [
        Command::User(evil.clone()),
        Command::Pass(Secret::new(evil.clone())),
        Command::Site(SiteCommand::ClientInfo(evil.clone())),
        Command::Scks {
            algorithm: evil.clone(),
            digest: evil.clone(),
        },
        Command::Dcau(Dcau::Subject(evil)),
    ] {
        let wire = wire(&command);
        let (text, end) = wire.split_at(wire.len() - 2);
        assert_eq!(end, b"\r\n");
        assert!(
            !text.iter().any(|b| matches!(b, 0 | b'\r' | b'\n')),
            "{command}"
        );
        assert!(!command.to_string().contains('\n'));
    }
}

#[test]
fn paths_that_a_line_would_bend_are_written_another_way() {
    for (command, sent) in [
        (Command::Retr(path(" x")), "RETR ./ x\r\n"),
        (Command::Retr(path("-x")), "RETR -x\r\n"),
        (Command::List(Some(path("-x"))), "LIST ./-x\r\n"),
        (Command::ListAll(path("/x")), "LIST -a /x\r\n"),
        (Command::Nlst(Some(path(" -x"))), "NLST ./ -x\r\n"),
    ] {
        assert_eq!(wire(&command), sent.as_bytes());
        let parsed = Command::parse(sent.trim_end().as_bytes()).unwrap();
        let (Command::Retr(sent) | Command::List(Some(sent)) | Command::Nlst(Some(sent))) = &parsed
        else {
            panic!("{parsed}")
        };
        let (Command::Retr(meant)
        | Command::List(Some(meant))
        | Command::ListAll(meant)
        | Command::Nlst(Some(meant))) = &command
        else {
            panic!("{command}")
        };
        assert_eq!(sent.normalized(), meant.normalized());
    }
}

#[test]
fn a_raw_line_is_written_as_it_is() {
    let command = Command::Raw(path("AVBL /a b"));
    assert_eq!(wire(&command), b"AVBL /a b\r\n");
}

#[test]
fn the_telnet_byte_is_doubled_and_read_back_single() {
    let command = Command::Dele(FtpPath::new(&b"/a\xff\xffb"[..]).unwrap());
    let wire = wire(&command);
    assert_eq!(wire, b"DELE /a\xff\xff\xff\xffb\r\n");
    let mut lines = crate::line::LineSplitter::new();
    lines.push(&wire);
    assert_eq!(
        Command::parse(lines.next_line().unwrap().unwrap()),
        Ok(command)
    );
}

#[test]
fn an_ipv6_address_shows_in_port_rather_than_vanishing() {
    let port = Command::Port("[2001:db8::1]:5".parse().unwrap());
    assert_eq!(port.to_string(), "PORT |2|2001:db8::1|5|");
}

#[test]
fn transfers_are_written_with_their_region_spot_and_tag() {
    let path = || path("/f");
    let get = |region, tag| Command::retrieve(path(), region, tag).to_string();
    assert_eq!(get(None, None), "RETR /f");
    assert_eq!(get(Some((3, Some(4))), None), "ERET P 3 4 /f");
    // A length of -1 ends a session of the Globus server.
    let most = u64::MAX / 2 - 3;
    assert_eq!(get(Some((3, None)), None), format!("ERET P 3 {most} /f"));
    let put = |spot, tag| Command::store(path(), spot, tag).to_string();
    assert_eq!(put(Spot::Whole, None), "STOR /f");
    assert_eq!(put(Spot::Sized(9), None), "STOR /f");
    assert_eq!(put(Spot::At(3), None), "ESTO A 3 /f");
    assert_eq!(put(Spot::End, None), "APPE /f");
    for command in [
        Command::retrieve(path(), Some((3, Some(4))), Some(Tag::new(5, Extent::Whole))),
        Command::store(path(), Spot::Sized(9), Some(Tag::new(5, Extent::Head))),
    ] {
        let wire = wire(&command);
        let line = wire.strip_suffix(b"\r\n").unwrap();
        assert_eq!(Command::parse(line), Ok(command));
    }
}

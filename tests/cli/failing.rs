//! Every failure that a command line can cause, by the variant of its error: the exit status, the
//! words and the remedy.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use workspace_tests::{GridLab, Reaction, ScriptedServer, Tree, binary, run};

use crate::{LIMIT, command, cp_in, fails};

type Script = fn(&str) -> Reaction;

/// One way to fail: the variant, the replies of the server, the arguments with `URL` for a file
/// there and `URL2` for one at another server, the exit status and the words.
type Row = (
    &'static str,
    Script,
    &'static [&'static str],
    i32,
    &'static [&'static str],
);

/// Variants that take a race or a broken host, or a reader of the library.
const NOT_BY_A_COMMAND_LINE: &[&str] = &[
    "TransferError::Cut",
    "TransferError::Changed",
    "TransferError::Shrunk",
    "TransferError::Unmarked",
];

/// Variants with a test of their own: below, with servers that have TLS or Grid security, and with
/// web servers.
const ELSEWHERE: &[&str] = &[
    "ConnectError::Unreachable",
    "ConnectError::Implicit",
    "ConnectError::NoGrid",
    "ConnectError::NoProtection",
    "NetrcError::Open",
    "NetrcError::Read",
    "NetrcError::TooLarge",
    "UrlError::Encoding",
    "WebError::Answer",
    "WebError::Broken",
    "WebError::Proxy",
    "WebError::Redirect",
    "WebError::Refused",
    "WebError::Unanswered",
];

/// Variants that are told as the error within.
const TRANSPARENT: &[&str] = &[
    "TransferError::Connect",
    "TransferError::Control",
    "TransferError::Web",
    "ConnectError::Control",
];

const GET: &[&str] = &["URL", "y"];
const PUT: &[&str] = &["x", "URL"];

/// Reacts with `say` to the commands that begin with `to`.
macro_rules! on {
    ($($to:literal => $say:expr),+) => {
        |line| match line {
            $(line if line.starts_with($to) => $say,)+
            _ => Reaction::Usual,
        }
    };
}

const ROWS: &[Row] = &[
    (
        "UrlError::Empty",
        |_| Reaction::Usual,
        &["", "y"],
        2,
        &["url: empty; give a path"],
    ),
    (
        "UrlError::Scheme",
        |_| Reaction::Usual,
        &["gopher://h/x", "y"],
        2,
        &["url: scheme gopher: unknown"],
    ),
    (
        "UrlError::NoHost",
        |_| Reaction::Usual,
        &["ftp:///x", "y"],
        2,
        &["url: no host"],
    ),
    (
        "UrlError::Port",
        |_| Reaction::Usual,
        &["ftp://h:99999/x", "y"],
        2,
        &["url: port 99999: must be 1 to 65535"],
    ),
    (
        "UrlError::FileHost",
        |_| Reaction::Usual,
        &["file://h/x", "y"],
        2,
        &["url: file://h: names another host"],
    ),
    (
        "UrlError::ControlByte",
        |_| Reaction::Usual,
        &["ftp://h/a%0Ab", "y"],
        2,
        &["url: path holds NUL, CR or LF"],
    ),
    (
        "ConnectError::Stack",
        |_| Reaction::Usual,
        &["--stack", "tcp,bogus", "URL", "y"],
        2,
        &["stack:", "bogus"],
    ),
    (
        "ConnectError::Late",
        on!("USER" => Reaction::Silence),
        &["--timeout", "1", "URL", "y"],
        3,
        &["login: not done within 1 s", "--timeout"],
    ),
    (
        "ConnectError::Busy",
        on!("CONNECT" => Reaction::HangUp("421 too many sessions".to_owned())),
        GET,
        3,
        &["server refuses sessions", "too many sessions"],
    ),
    (
        "ConnectError::Choice",
        |_| Reaction::Usual,
        &["--security", "none", "--protect", "private", "URL", "y"],
        2,
        &["--protect"],
    ),
    (
        "ConnectError::Tls",
        on!("AUTH TLS" => Reaction::say("234 go on")),
        &["--security", "tls", "--timeout", "2", "URL", "y"],
        3,
        &["tls: connect: the peer ended in the middle of the handshake"],
    ),
    (
        "ConnectError::NoTls",
        on!("AUTH" => Reaction::say("504 no such mechanism")),
        &["--security", "tls", "URL", "y"],
        4,
        &["AUTH TLS", "504", "nothing else was sent"],
    ),
    (
        "ConnectError::Grid",
        on!("AUTH" => Reaction::say("334 go on")),
        &["GSIURL", "y"],
        4,
        &["proxy"],
    ),
    (
        "ConnectError::Security",
        on!("USER" => Reaction::say("530 TLS is required.")),
        GET,
        4,
        &["no login in clear text", "--security tls"],
    ),
    (
        "ConnectError::Login",
        on!("PASS" => Reaction::say("530 Login incorrect.")),
        GET,
        4,
        &["login as", "Login incorrect", "--user"],
    ),
    (
        "ConnectError::StackRefused",
        on!("SITE SETNETSTACK" => Reaction::say("500 driver is not whitelisted")),
        &["--stack", "tcp,count", "URL", "y"],
        1,
        &["stack tcp,count", "net-stacks"],
    ),
    (
        "ControlError::Refused",
        on!("RETR" => Reaction::say("550 x: Permission denied.")),
        GET,
        1,
        &["RETR", "Permission denied"],
    ),
    (
        "ControlError::Lost",
        on!("PASV" => Reaction::HangUp(String::new())),
        GET,
        3,
        &["PASV", "closed by the server"],
    ),
    (
        "ControlError::Misbehaved",
        on!("PASV" => Reaction::say("227 no address"), "EPSV" => Reaction::say("229 no port")),
        GET,
        1,
        &["PASV", "server broke the protocol", "no address"],
    ),
    (
        "TransferError::Data",
        on!("MIDWAY RETR" => Reaction::Reset("426 broken".to_owned()), "RETR" => Reaction::Until(2)),
        GET,
        1,
        &["426 broken"],
    ),
    (
        "TransferError::Local",
        |_| Reaction::Usual,
        &["URL", "x/y"],
        1,
        &["local: make directory x", "File exists"],
    ),
    (
        "TransferError::Size",
        on!("SIZE" => Reaction::say("213 5")),
        &["--mode", "stream", "URL", "y"],
        1,
        &["3 bytes came of 5"],
    ),
    (
        "TransferError::Mismatch",
        on!(
            "FEAT" => Reaction::say("211-\r\n CKSM MD5:10;\r\n211 end"),
            "CKSM" => Reaction::say("213 00112233445566778899aabbccddeeff")
        ),
        &["--verify", "URL", "y"],
        5,
        &["MD5 of the source is 00112233", "of the copy"],
    ),
    (
        "TransferError::BadName",
        on!(
            "FEAT" => Reaction::say("211-\r\n MLST type*;size*;\r\n211 end"),
            "MLSD" => Reaction::send(b"type=file;size=3; ../x\r\n"),
            "CWD" => Reaction::say("250 on")
        ),
        &["-r", "DIRURL", "y"],
        1,
        &["source: name ../x"],
    ),
    (
        "TransferError::Source",
        |_| Reaction::Usual,
        &["URLno*", "y"],
        1,
        &["xno*: no name there matches", "%2A"],
    ),
    (
        "TransferError::Request",
        |_| Reaction::Usual,
        &["d", "URL"],
        2,
        &["source: d: is a directory", "add --recursive"],
    ),
    (
        "TransferError::Unset",
        on!(
            "FEAT" => Reaction::say("211-\r\n XATTR\r\n211 end"),
            "SITE XATTR" => Reaction::say("550 no attributes today")
        ),
        &["--xattrs", "URL", "y"],
        1,
        &[
            "y: the copy is whole and stays, without its extended attributes",
            "550 no attributes",
        ],
    ),
    (
        "TransferError::ThirdPartyRefused",
        on!("PORT" => Reaction::say("500 Illegal PORT command.")),
        &["--relay", "never", "URL", "URL2"],
        1,
        &["500 Illegal PORT command", "--relay"],
    ),
    (
        "TransferError::Both",
        on!(
            "MIDWAY RETR" => Reaction::Reset("426 broken".to_owned()),
            "RETR" => Reaction::Until(2),
            "END STOR" => Reaction::say("451 broken too")
        ),
        &["URL", "URL2"],
        1,
        &["source: ", "426 broken", "destination: ", "451 broken too"],
    ),
    (
        "ControlError::Refused",
        on!("STOR" => Reaction::say("552 Disk quota exceeded.")),
        PUT,
        1,
        &["STOR", "quota"],
    ),
];

/// The variants of an error in the text of its file.
fn variants(name: &str, text: &str) -> Result<BTreeSet<String>> {
    let start = text
        .find(&format!("pub enum {name} {{"))
        .context("no such error")?;
    let body = text.get(start..).context("cut")?.lines().skip(1);
    let variants = body.take_while(|line| *line != "}").filter_map(|line| {
        let word = line.strip_prefix("    ")?;
        let end = word.find(|c: char| !c.is_ascii_alphanumeric())?;
        let (variant, rest) = word.split_at_checked(end)?;
        let is_one = variant.starts_with(|c: char| c.is_ascii_uppercase())
            && matches!(rest.trim(), "{" | ",")
            || rest.starts_with('(');
        is_one.then(|| format!("{name}::{variant}"))
    });
    Ok(variants.collect())
}

#[test]
fn every_failure_has_its_status_and_its_words() -> Result<()> {
    let mut wrong = Vec::new();
    for (variant, script, args, status, needles) in ROWS {
        let (server, other) = (
            ScriptedServer::start(*script)?,
            ScriptedServer::start(*script)?,
        );
        server.file("/x", "abc");
        server.file("/dir/one", "abc");
        let tree = Tree::new()?;
        tree.file("x", 3, 1)?;
        tree.file("d/one", 3, 1)?;
        let (url, to) = (server.url("x"), other.url("y"));
        let args = args.iter().map(|arg| match *arg {
            "URL2" => to.clone(),
            "DIRURL" => server.url("dir/"),
            "GSIURL" => url.replace("ftp://", "gsiftp://"),
            arg => arg.replace("URL", &url),
        });
        let args: Vec<String> = ["--retries", "0"]
            .map(str::to_owned)
            .into_iter()
            .chain(args)
            .collect();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let finished = cp_in(&tree, &args)?;
        if let Err(error) = fails(&finished, *status, needles) {
            wrong.push(format!("{variant}: {error:#}"));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// Only a client with a credential begins Grid security.
#[test]
fn a_server_without_grid_security_is_named() -> Result<()> {
    let (lab, tree) = (GridLab::new()?, Tree::new()?);
    let server = ScriptedServer::start(|line| match line.starts_with("AUTH") {
        true => Reaction::say("504 no such mechanism"),
        false => Reaction::Usual,
    })?;
    let url = server.url("x").replace("ftp://", "gsiftp://");
    let mut client = Command::new(binary("gridftp-cp")?);
    lab.login(&mut client).current_dir(tree.root());
    let finished = run(client.args(["--retries", "0", &url, "y"]), LIMIT)?;
    let needles = [
        "AUTH GSSAPI",
        "504",
        "no Grid security",
        "nothing else was sent",
    ];
    fails(&finished, 4, &needles)?;
    let mut commands = server.commands();
    commands.retain(|line| line != "QUIT");
    ensure!(commands == ["AUTH GSSAPI"], "{commands:?}");
    Ok(())
}

#[test]
fn an_unreachable_server_is_named() -> Result<()> {
    let tree = Tree::new()?;
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let url = format!("ftp://127.0.0.1:{port}/x");
    let finished = cp_in(&tree, &["--retries", "0", &url, "y"])?;
    fails(&finished, 3, &["connect: ", "check host and port"])
}

#[test]
fn a_url_of_other_bytes_is_a_mistake() -> Result<()> {
    let tree = Tree::new()?;
    let mut client = command(&tree, &[])?;
    let url = OsStr::from_bytes(b"ftp://h/\xff");
    let finished = run(client.args([url, OsStr::new("y")]), LIMIT)?;
    fails(
        &finished,
        2,
        &["url: holds bytes that are not UTF-8", "%XX"],
    )
}

#[test]
fn a_netrc_file_that_is_not_read_is_named() -> Result<()> {
    let tree = Tree::new()?;
    let netrc = tree.path(".netrc");
    let told = |needle: &str| -> Result<()> {
        let finished = cp_in(&tree, &["--netrc", "ftp://localhost:1/x", "y"])?;
        fails(&finished, 2, &["netrc: read ", needle])
    };
    told("No such file")?;
    fs::write(&netrc, vec![b' '; (1 << 20) + 1])?;
    fs::set_permissions(&netrc, Permissions::from_mode(0o640))?;
    told("mode 0640 lets others read it; run chmod 600 on it")?;
    fs::set_permissions(&netrc, Permissions::from_mode(0o600))?;
    told("larger than 1 MiB")
}

#[test]
fn no_variant_of_an_error_lacks_a_row() -> Result<()> {
    let connect = include_str!("../../gridftp-client/src/connect_error.rs");
    let others = include_str!("../../gridftp-client/src/error.rs");
    let mut all = variants("ConnectError", connect)?;
    all.extend(variants("ControlError", others)?);
    all.extend(variants("TransferError", others)?);
    let web = include_str!("../../gridftp-client/src/web/fault.rs");
    all.extend(variants("WebError", web)?);
    let url = include_str!("../../gridftp-client/src/url/fault.rs");
    all.extend(variants("UrlError", url)?);
    let netrc = include_str!("../../gridftp-client/src/netrc.rs");
    all.extend(variants("NetrcError", netrc)?);
    ensure!(all.len() > 25, "{all:?}");
    let rows = ROWS.iter().map(|(variant, ..)| *variant);
    let told: BTreeSet<_> = rows
        .chain(ELSEWHERE.iter().copied())
        .chain(NOT_BY_A_COMMAND_LINE.iter().copied())
        .chain(TRANSPARENT.iter().copied())
        .map(str::to_owned)
        .collect();
    ensure!(
        told == all,
        "{:?}",
        told.symmetric_difference(&all).collect::<Vec<_>>()
    );
    Ok(())
}

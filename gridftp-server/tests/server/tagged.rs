//! Tagged stores, whose data is sent before the reply: it is stored under its own name or nowhere.

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, RandomState};
use std::io::Write as _;

use digest_tree::{Piece, Tree};
use xio_testkit::Random;

use crate::support::{Data, EOD, EOF, Ftp, Reply, TestServer, bytes, header, lacks, pasv_address};

const TAG: u8 = 0x01;
const DIGEST: u8 = 0x02;
/// BLAKE3 of `123456789`.
const BLAKE3: &str = "b7d65b48420d1033cb2595293263b6f72eabee20d55e699d0df1973b3c9deed1";
/// Bytes of every file, so that none can be told by its length.
const SIZE: usize = 600;

/// A session in MODE E.
fn session(server: &TestServer) -> Ftp {
    let mut ftp = server.login();
    ftp.ok("MODE E", 200);
    ftp
}

/// One file's part of each connection: its tag, its share of the content, its end.
fn wires(tag: Option<u64>, content: &[u8], connections: usize) -> Vec<Vec<u8>> {
    let share = content.len().div_ceil(connections);
    (0..connections)
        .map(|index| {
            let mut wire = Vec::new();
            wire.extend(tag.into_iter().flat_map(|tag| header(TAG, 0, tag)));
            if let Some(part) = content.chunks(share).nth(index) {
                wire.extend(header(0, part.len() as u64, (index * share) as u64));
                wire.extend(part);
            }
            wire.extend(match index {
                0 => header(EOF | EOD, 0, connections as u64),
                _ => header(EOD, 0, 0),
            });
            wire
        })
        .collect()
}

/// Reads replies until so many commands have their last one.
fn finals(ftp: &mut Ftp, commands: usize) -> Vec<Reply> {
    let mut last = Vec::new();
    while last.len() < commands {
        last.extend(Some(ftp.reply()).filter(|reply| reply.code >= 200));
    }
    last
}

#[test]
fn stores_that_fail_leave_the_channel_to_the_others() {
    let server = TestServer::new();
    std::fs::create_dir(server.root.join("dir")).unwrap();
    let mut ftp = session(&server);
    let mut data = Data::connect(pasv_address(&ftp.ok("PASV", 227)));
    let lines = [
        "ESTO tag=0 a",
        "ESTO tag=1 nothing/b",
        "ESTO tag=2 dir",
        "ESTO tag=3",
        "SCKS MD5 00000000000000000000000000000000",
        "ESTO tag=4 another",
        "ALLO 100000",
        "ESTO tag=5 short",
        "REST 0-5",
        "ESTO tag=6 not-begun",
        "ESTO tag=8 c",
    ];
    ftp.raw(lines.map(|line| format!("{line}\r\n")).concat());
    for (tag, text) in (0..).zip([
        "for a",
        "b",
        "a directory",
        "no name",
        "wrong",
        "short",
        "part",
        "none",
        "for c",
    ]) {
        data.write(&wires(Some(tag), text.as_bytes(), 1).concat());
    }
    let codes: Vec<u16> = finals(&mut ftp, lines.len())
        .iter()
        .map(|reply| reply.code)
        .collect();
    assert_eq!(
        codes,
        [226, 550, 550, 501, 200, 550, 200, 426, 350, 554, 226]
    );
    assert_eq!(server.get("a"), b"for a");
    assert_eq!(server.get("c"), b"for c");
    assert!(!server.has("another") && !server.has("short"));
}

#[test]
fn a_refusal_does_not_wait_for_the_data() {
    let server = TestServer::new();
    let mut ftp = session(&server);
    let mut data = ftp.data();
    data.write(&header(TAG, 0, 1));
    assert_eq!(ftp.cmd("ESTO tag=1 nothing/f").code, 550);
    // The next one skips the rest of its data.
    ftp.send("ESTO tag=2 g");
    data.block(0, 0, &[7; 1 << 20]);
    data.end(1);
    data.write(&wires(Some(2), b"next", 1).concat());
    assert_eq!(finals(&mut ftp, 1)[0].code, 226);
    assert_eq!(server.get("g"), b"next");
}

#[test]
fn the_final_reply_has_the_receipt() {
    if lacks(|can| can.updates) {
        return;
    }
    let server = TestServer::new();
    let mut ftp = session(&server);
    let mut data = ftp.data();
    for command in ["ESTO tag=1,A,3 f", "ESTO digest=2,A,3 f"] {
        let tag = if command.contains("tag") { 1 } else { 2 };
        data.write(&wires(Some(tag), b"123456789", 1).concat());
        ftp.send(command);
        let reply = finals(&mut ftp, 1).remove(0);
        assert_eq!(
            reply.text(),
            format!("226 Transfer Complete. Bytes=9;BLAKE3={BLAKE3};")
        );
        assert_eq!(server.get("f"), [&[0; 3][..], b"123456789"].concat());
    }
    ftp.ok("FEAT", 211);
}

/// The bytes of the first store were changed on the way.
#[test]
fn a_store_with_another_digest_is_not_published_and_leaves_the_channel() {
    let server = TestServer::new();
    let mut ftp = session(&server);
    let mut data = ftp.data();
    let halves: Vec<u64> = (0..64)
        .step_by(16)
        .map(|at| u64::from_str_radix(&BLAKE3[at..at + 16], 16).unwrap())
        .collect();
    for (tag, content) in (1..).zip([b"12345678X", b"123456789"]) {
        let mut wire = header(TAG, 0, tag).to_vec();
        wire.extend(header(0, 9, 0));
        wire.extend(content);
        wire.extend(
            halves
                .chunks(2)
                .flat_map(|half| header(DIGEST, half[0], half[1])),
        );
        wire.extend(header(EOF | EOD, 0, 1));
        data.write(&wire);
        ftp.send(&format!("ESTO digest={tag} f{tag}"));
    }
    let codes: Vec<u16> = finals(&mut ftp, 2).iter().map(|reply| reply.code).collect();
    assert_eq!(codes, [426, 226]);
    assert!(!server.has("f1"));
    assert_eq!(ftp.ok("SITE HELD f1", 213).lines, ["213 Range Marker"]);
    assert_eq!(server.get("f2"), b"123456789");
}

/// Although the digest of all bytes is announced, and its sender tells it.
#[test]
fn the_receipt_of_the_first_bytes_has_their_digest() {
    let server = TestServer::new();
    let mut ftp = session(&server);
    let mut data = ftp.data();
    let content = bytes(200_000);
    let digest = |content: &[u8]| {
        let mut tree = Tree::new();
        tree.insert(Piece::of(0, content));
        tree.digest(content.len() as u64).unwrap()
    };
    let whole = digest(&content);
    ftp.ok(&format!("SITE STORATTR x.checksum.blake3={whole};"), 250);
    let mut wire = header(TAG, 0, 1).to_vec();
    wire.extend(header(0, content.len() as u64, 0));
    wire.extend(&content);
    let number = |half: &[u8]| u64::from_be_bytes(half.try_into().unwrap());
    let halves = whole.as_bytes().chunks(16);
    wire.extend(halves.flat_map(|half| header(DIGEST, number(&half[..8]), number(&half[8..]))));
    wire.extend(header(EOF | EOD, 0, 1));
    ftp.send("ESTO tag=1 f");
    data.write(&wire);
    let head = digest(&content[..128 << 10]);
    assert_eq!(
        finals(&mut ftp, 1).remove(0).text(),
        format!("226 Transfer Complete. Bytes=200000;BLAKE3={head};")
    );
}

#[test]
fn data_without_its_tag_is_refused_and_ends_the_channel() {
    for sent in [None, Some(2)] {
        let server = TestServer::new();
        let mut ftp = session(&server);
        let mut data = ftp.data();
        data.write(&wires(sent, b"another's", 1).concat());
        ftp.raw("ESTO tag=1 f\r\nESTO tag=2 g\r\n");
        let codes: Vec<u16> = finals(&mut ftp, 2).iter().map(|reply| reply.code).collect();
        assert_eq!(codes, [426, 425], "{sent:?}");
        assert!(!server.has("f") && !server.has("g"));
    }
}

#[test]
fn a_tagged_retrieval_begins_with_its_tag() {
    let server = TestServer::new();
    server.put("f", "0123456789");
    let mut ftp = session(&server);
    let listener = ftp.port();
    ftp.raw("ERET tag=5 none\r\nERET tag=6,P,2,3 f\r\n");
    let mut data = Data::accept(&listener);
    assert_eq!(data.read_block(), (TAG, 6, Vec::new()));
    assert_eq!(data.read_block(), (0, 0, b"234".to_vec()));
    let replies = finals(&mut ftp, 2);
    assert_eq!(replies[0].code, 550);
    let told = replies[1].text();
    assert!(
        told.starts_with("226 Transfer Complete. Bytes=3;BLAKE3="),
        "{told}"
    );
}

/// The effect of the commands before a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Stored,
    /// Refused for this reason, or accepted: the test compares the bytes of each name.
    Any(&'static str),
    Aborted,
}

/// A client that sends everything ahead, whatever becomes of it.
struct Client<'a> {
    server: &'a TestServer,
    ftp: Ftp,
    data: Vec<Data>,
    tag: u64,
    random: Random,
    seed: u64,
}

impl<'a> Client<'a> {
    fn new(server: &'a TestServer, seed: u64) -> Self {
        Self {
            server,
            ftp: session(server),
            data: Vec::new(),
            tag: 0,
            random: Random::new(seed),
            seed,
        }
    }

    fn connect(&mut self) {
        let address = self.ftp.pasv();
        let connections = self.random.up_to(3);
        self.data = (0..connections).map(|_| Data::connect(address)).collect();
    }

    /// A store of a new name with the commands before it: its lines, its name, its result.
    fn store(&mut self) -> (Vec<Vec<u8>>, String, Fate) {
        let (tag, mut name) = (self.tag, format!("{}-{}", self.seed, self.tag));
        let esto = |how: &str, name: &str| format!("ESTO tag={tag}{how} {name}").into_bytes();
        let plain = esto("", &name);
        let any = |why| (vec![plain.clone()], Fate::Any(why));
        let before = |line: &str, why| {
            (
                vec![line.as_bytes().to_vec(), plain.clone()],
                Fate::Any(why),
            )
        };
        let (lines, fate) = match self.random.up_to(18) {
            1 => (
                vec![esto("", &format!("none/{name}"))],
                Fate::Any("no directory"),
            ),
            2 => (vec![esto("", "dir")], Fate::Any("a directory")),
            3 => {
                name.push('\u{1}');
                (vec![esto("", &name)], Fate::Any("control byte"))
            }
            4 => (vec![esto("", &format!("{name}\0"))], Fate::Any("NUL")),
            5 => (vec![esto(",Q", &name)], Fate::Any("module")),
            6 => (
                vec![format!("ESTO tag={tag}").into_bytes()],
                Fate::Any("no path"),
            ),
            7 => (
                vec![format!("STOP tag={tag} {name}").into_bytes()],
                Fate::Any("verb"),
            ),
            8 => (vec![b"".to_vec()], Fate::Any("an empty line")),
            9 => before("REST 0-100", "nothing to resume"),
            10 => before("ALLO 100000", "short"),
            11 => before("SCKS MD5 00112233445566778899aabbccddeeff", "digest"),
            12 => before("SCKS nosuch 00", "algorithm"),
            13 => (
                vec![format!("STOR {name}").into_bytes()],
                Fate::Any("untagged store"),
            ),
            14 if self.random.percent(50) => (vec![plain, b"ABOR".to_vec()], Fate::Aborted),
            15 if self.random.percent(50) => any("data of another tag"),
            16 if self.random.percent(50) => any("data without a tag"),
            17 => (vec![esto(",A,0", &name)], Fate::Stored),
            _ => (vec![plain], Fate::Stored),
        };
        (lines, name, fate)
    }

    /// Sends some stores and their data, cut and mixed at random; then no file may hold another's
    /// bytes.
    fn round(&mut self) {
        if self.data.is_empty() {
            self.connect();
        }
        let mut lines = VecDeque::new();
        let mut wire = vec![VecDeque::new(); self.data.len()];
        let mut stores = Vec::new();
        for _ in 0..self.random.up_to(8) {
            self.tag += 1;
            let (commands, name, fate) = self.store();
            let content = [u8::try_from(self.tag).unwrap(); SIZE];
            let tag = match fate {
                Fate::Any("data of another tag") => Some(self.tag + 1000),
                Fate::Any("data without a tag") => None,
                _ => Some(self.tag),
            };
            for (wire, part) in wire.iter_mut().zip(wires(tag, &content, self.data.len())) {
                wire.extend(part);
            }
            stores.push((lines.len(), commands.len(), name, content, fate));
            lines.extend(commands);
        }
        let commands = lines.len();
        let mut line = lines
            .into_iter()
            .flat_map(|line| [line, b"\r\n".to_vec()].concat())
            .collect::<VecDeque<u8>>();
        while !line.is_empty() || wire.iter().any(|wire| !wire.is_empty()) {
            let index = self.random.up_to(self.data.len() + 1) - 1;
            let from = wire.get_mut(index).unwrap_or(&mut line);
            let most = self.random.up_to(200).min(from.len());
            let piece: Vec<u8> = from.drain(..most).collect();
            match self.data.get_mut(index) {
                // The server ends a channel that is out of step.
                Some(data) => drop(data.0.write_all(&piece)),
                None => self.ftp.raw(piece),
            }
        }
        let replies = finals(&mut self.ftp, commands);
        let broken = |reply: &Reply| matches!(reply.code, 425 | 426);
        let whole =
            !replies.iter().any(broken) && !stores.iter().any(|store| store.4 == Fate::Aborted);
        for (at, count, name, content, fate) in &stores {
            let reply = &replies[at + count - 1];
            let told = format!("seed {}, {name}, {fate:?}: {reply:?}", self.seed);
            let there = self.server.has(name).then(|| self.server.get(name));
            // One that is written in place may have been cut off.
            let own = |byte: &u8| *byte == 0 || *byte == content[0];
            assert!(there.iter().flatten().all(own), "{told}: {there:?}");
            let taken = reply.code == 226 && *fate != Fate::Aborted;
            assert!(
                !taken || there.as_deref() == Some(content),
                "{told}: {there:?}"
            );
            assert!(!whole || *fate != Fate::Stored || taken, "{told}");
        }
        if !whole {
            self.data.clear();
        }
    }

    /// Looks at everything there is, half uploads too: no file may hold bytes of two.
    fn check(&self) {
        for entry in std::fs::read_dir(&self.server.root).unwrap() {
            let entry = entry.unwrap();
            let record = entry.file_name().to_string_lossy().ends_with("-held");
            if entry.file_type().unwrap().is_file() && !record {
                let mut bytes = std::fs::read(entry.path()).unwrap();
                bytes.retain(|byte| *byte != 0);
                bytes.dedup();
                assert!(bytes.len() <= 1, "seed {}: {entry:?}: {bytes:?}", self.seed);
            }
        }
    }
}

#[test]
fn no_sequence_of_stores_gives_a_file_the_bytes_of_another() {
    if lacks(|can| can.updates) {
        return;
    }
    let server = TestServer::new();
    std::fs::create_dir(server.root.join("dir")).unwrap();
    let unknown = RandomState::new().hash_one(0) >> 32;
    for seed in (0..15).chain([unknown]) {
        let mut client = Client::new(&server, seed);
        for _ in 0..25 {
            client.round();
        }
        client.check();
    }
}

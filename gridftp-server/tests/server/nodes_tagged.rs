//! Tagged transfers over data nodes: each hashes its part, and the front end has the receipt.

use std::net::{SocketAddr, TcpListener as Listener};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use digest_tree::{Piece, Tree};

use crate::nodes::{BLOCK, Farm, deal, honest_with, join, last, spas};
use crate::support::{Data, EOD, EOF, Ftp, bytes, header, host_port};

const TAG: u8 = 0x01;
const DIGEST: u8 = 0x02;

/// The receipt of a file of these bytes.
fn receipt(content: &[u8]) -> String {
    let digest = tree(content).digest(content.len() as u64).unwrap();
    format!("Bytes={};BLAKE3={digest};", content.len())
}

fn tree(content: &[u8]) -> Tree {
    let mut tree = Tree::new();
    tree.insert(Piece::of(0, content));
    tree
}

/// The blocks with the digest of a file, and with the values of its sections.
fn told(content: &[u8]) -> Vec<u8> {
    let (tree, size) = (tree(content), content.len() as u64);
    let digest: [u8; 32] = tree.digest(size).unwrap().into();
    let sections = tree.sections(size).unwrap();
    let sections = sections.iter().map(|value| &value[..16]);
    let halves = digest.chunks(16).chain(sections);
    let number = |half: &[u8]| u64::from_be_bytes(half.try_into().unwrap());
    halves
        .flat_map(|half| header(DIGEST, number(&half[..8]), number(&half[8..])))
        .collect()
}

/// Stores `sent` over these connections, behind a tag and with the digest of `content` on the first.
fn store(ftp: &mut Ftp, conns: &mut [Data], tag: u64, (sent, content): (&[u8], &[u8])) -> String {
    ftp.send(&format!("ESTO digest={tag} f"));
    for conn in &mut *conns {
        conn.write(&header(TAG, 0, tag));
    }
    deal(sent, conns);
    conns[0].write(&told(content));
    conns.iter_mut().for_each(|conn| conn.end(1));
    last(ftp).text()
}

#[test]
fn a_striped_upload_is_proven_by_the_nodes() {
    let farm = Farm::new(3);
    let content = bytes(BLOCK * 40 + 7);
    let mut ftp = farm.extended();
    let offered = ftp.ok("FEAT", 211).text();
    assert!(offered.contains("STOR Tagged;Digest;Striped;"), "{offered}");
    let to = spas(&mut ftp);
    assert_eq!(to.len(), 3, "{to:?}");
    let mut conns: Vec<_> = to.into_iter().map(Data::connect).collect();
    for (tag, content) in [(1, &content[..]), (2, b"small"), (3, b"")] {
        let told = store(&mut ftp, &mut conns, tag, (content, content));
        let expected = format!("226 Transfer Complete. {}", receipt(content));
        assert_eq!(told, expected);
        assert!(farm.server.get("f") == content);
    }
}

/// A session with connections to two nodes, and an upload of which a byte of the second group was
/// changed on the way to one of them: it is refused, and both ends agree on all other groups.
fn disagree(farm: &Farm, content: &[u8]) -> (Ftp, Vec<Data>) {
    let mut bad = content.to_vec();
    bad[BLOCK * 17 + 9] ^= 1;
    let mut ftp = farm.extended();
    let mut conns: Vec<_> = spas(&mut ftp).into_iter().map(Data::connect).collect();
    let refused = store(&mut ftp, &mut conns, 1, (&bad, content));
    assert!(refused.starts_with("426"), "{refused}");
    assert!(!farm.server.has("f"));
    (ftp, conns)
}

/// Sends the second group; gives the reply.
fn mend(ftp: &mut Ftp, conns: &mut [Data], content: &[u8]) -> String {
    let held = ftp.ok("SITE HELD f", 213).text();
    let agreed = format!("0-1048576,2097152-{}", content.len());
    assert!(held.ends_with(&agreed), "{held}");
    ftp.ok(&format!("REST {agreed}"), 350);
    ftp.send("ESTO digest=2 f");
    for conn in &mut *conns {
        conn.write(&header(TAG, 0, 2));
    }
    for (n, block) in (16..32).zip(content[1 << 20..2 << 20].chunks(BLOCK)) {
        conns[n % 2].block(0, (n * BLOCK) as u64, block);
    }
    conns[0].write(&told(content));
    conns.iter_mut().for_each(|conn| conn.end(1));
    last(ftp).text()
}

#[test]
fn a_corrupt_striped_upload_is_not_published_and_goes_on() {
    let farm = Farm::new(2);
    let content = bytes(BLOCK * 40 + 7);
    let (mut ftp, mut conns) = disagree(&farm, &content);
    // The nodes keep the connections, and have the bytes of before proven too.
    let stored = mend(&mut ftp, &mut conns, &content);
    let digest = receipt(&content);
    let (_, digest) = digest.split_once(';').unwrap();
    let expected = format!("226 Transfer Complete. Bytes={};{digest}", 1 << 20);
    assert_eq!(stored, expected);
    assert!(farm.server.get("f") == content);
}

/// Another program changes them, and nobody sees it.
#[test]
fn the_bytes_of_an_earlier_striped_upload_are_not_read_again() {
    let farm = Farm::new(2);
    let content = bytes(BLOCK * 40 + 7);
    let (mut ftp, mut conns) = disagree(&farm, &content);
    let part = farm.server.root.join(".f.gridftp-part");
    let part = std::fs::OpenOptions::new().write(true).open(part).unwrap();
    part.write_all_at(&[!content[100]], 100).unwrap();
    let stored = mend(&mut ftp, &mut conns, &content);
    assert!(stored.starts_with("226"), "{stored}");
    let mut found = farm.server.get("f");
    found[100] = !found[100];
    assert!(found == content);
}

/// The recorded values of such bytes would be wrong.
#[test]
fn bytes_that_are_held_do_not_come_again() {
    let farm = Farm::new(2);
    let content = bytes(BLOCK * 40 + 7);
    let (mut ftp, mut conns) = disagree(&farm, &content);
    ftp.ok("REST 0-1048576", 350);
    let refused = store(&mut ftp, &mut conns, 2, (&content, &content));
    let expected = "554 restart: byte 0 came again, which REST named as held";
    assert!(refused.starts_with(expected), "{refused}");
    assert!(!farm.server.has("f"));
    let mut ftp = farm.extended();
    let mut conns: Vec<_> = spas(&mut ftp).into_iter().map(Data::connect).collect();
    let stored = store(&mut ftp, &mut conns, 1, (&content, &content));
    assert!(stored.starts_with("226"), "{stored}");
    assert!(farm.server.get("f") == content);
}

/// Reads a tagged file, one connection after the other; gives the blocks with the digest too.
fn fetch(conns: &mut [Data], tag: u64, size: usize) -> (Vec<u8>, Vec<u8>) {
    let (mut found, mut digest) = (vec![0; size], Vec::new());
    for conn in conns {
        assert_eq!(conn.read_block(), (TAG, tag, Vec::new()));
        loop {
            let mut head = [0; 17];
            std::io::Read::read_exact(&mut conn.0, &mut head).unwrap();
            let [count, offset] =
                [1, 9].map(|at| u64::from_be_bytes(head[at..at + 8].try_into().unwrap()) as usize);
            match head[0] {
                DIGEST => digest.extend(head),
                0 => {
                    let part = &mut found[offset..offset + count];
                    std::io::Read::read_exact(&mut conn.0, part).unwrap();
                }
                end => {
                    assert_eq!(end & (EOF | EOD), EOF | EOD);
                    break;
                }
            }
        }
    }
    (found, digest)
}

#[test]
fn a_striped_download_has_the_receipt_of_all_nodes() {
    let farm = Farm::new(2);
    let content = bytes(BLOCK * 40 + 7);
    farm.server.put("f", &content);
    farm.server.put("g", "small");
    let mut ftp = farm.extended();
    ftp.ok(
        &format!("OPTS RETR StripeLayout=Blocked;BlockSize={BLOCK};"),
        200,
    );
    let ports = [0, 1].map(|_| Listener::bind("127.0.0.1:0").unwrap());
    let named = ports
        .each_ref()
        .map(|port| host_port(port.local_addr().unwrap()));
    ftp.ok(&format!("SPOR {}", named.join(" ")), 200);
    let mut conns = Vec::new();
    for (tag, name, content) in [(1, "f", &content[..]), (2, "g", b"small")] {
        ftp.send(&format!("ERET digest={tag} {name}"));
        if conns.is_empty() {
            conns.extend(ports.iter().map(Data::accept));
        }
        let (found, digest) = fetch(&mut conns, tag, content.len());
        assert!(found == content && digest == told(content), "{name}");
        let expected = format!("226 Transfer Complete. {}", receipt(content));
        assert_eq!(last(&mut ftp).text(), expected, "{name}");
    }
    // The bytes of a region.
    ftp.send("ERET digest=3,P,100000,200000 f");
    let (found, _) = fetch(&mut conns, 3, 200_000);
    assert!(found == content[100_000..300_000]);
    let expected = format!("226 Transfer Complete. {}", receipt(&found));
    assert_eq!(last(&mut ftp).text(), expected);
}

#[test]
fn one_node_proves_what_it_sends_and_receives() {
    let farm = Farm::new(2);
    let content = bytes(BLOCK * 3 + 7);
    let mut ftp = farm.extended();
    let to: SocketAddr = ftp.pasv();
    let mut conns = [Data::connect(to)];
    let expected = format!("226 Transfer Complete. {}", receipt(&content));
    let stored = store(&mut ftp, &mut conns, 1, (&content, &content));
    assert_eq!(stored, expected);
    let mut bad = content.clone();
    bad[5] ^= 1;
    // A store that a name refuses leaves its data, which the next one skips.
    ftp.send("ESTO digest=2 nothing/g");
    conns[0].write(&header(TAG, 0, 2));
    conns[0].block(0, 0, &bad);
    conns[0].end(1);
    assert_eq!(last(&mut ftp).code, 550);
    let refused = store(&mut ftp, &mut conns, 3, (&bad, &content));
    assert!(refused.starts_with("426"), "{refused}");
    assert!(farm.server.get("f") == content);
    let port = ftp.port();
    ftp.send("ERET digest=4 f");
    let mut conns = [Data::accept(&port)];
    let (found, digest) = fetch(&mut conns, 4, content.len());
    assert!(found == content && digest == told(&content));
    assert_eq!(last(&mut ftp).text(), expected);
}

/// An upload into a part of a file, and one through layers over files, which a node stores alone.
#[test]
fn the_receipt_is_of_the_bytes_that_are_sent() {
    let layers = || Some(["file", "count"].map(str::to_owned).into());
    let farm = Farm::configured(
        |options| options.disk_stacks = layers(),
        |front| front,
        |folder, root, runtime, address| {
            let node = honest_with(root, 1, |options| options.disk_stacks = layers());
            vec![join(folder, "n1", Arc::new(node), runtime, address)]
        },
    );
    farm.server.put("f", bytes(1000));
    let part = bytes(500);
    let expected = format!("226 Transfer Complete. {}", receipt(&part));
    let mut ftp = farm.extended();
    for (tag, line, found) in [
        (1, "ESTO digest=1,A,100 f", 100..600),
        (2, "ESTO digest=2 f", 0..500),
    ] {
        let mut conn = Data::connect(ftp.pasv());
        ftp.send(line);
        conn.write(&header(TAG, 0, tag));
        conn.block(0, 0, &part);
        conn.write(&told(&part));
        conn.end(1);
        assert_eq!(last(&mut ftp).text(), expected, "{line}");
        assert!(farm.server.get("f")[found] == part, "{line}");
        ftp.ok("SITE SETDISKSTACK file,count", 250);
    }
}

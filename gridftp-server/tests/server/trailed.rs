//! Transfers in MODE S with a digest: a trailer behind the data tells a whole file from a broken one.

use digest_tree::{Piece, Tree};
use gridftp_dsi::WriteModel;

use crate::support::{Ftp, Reply, TestServer, bytes, hidden, lacks};

fn digest(content: &[u8]) -> [u8; 32] {
    let mut tree = Tree::new();
    tree.insert(Piece::of(0, content));
    tree.digest(content.len() as u64).unwrap().into()
}

/// The trailer with a digest, or of a sender that knows none.
fn trailer(digest: Option<[u8; 32]>) -> Vec<u8> {
    let begin = if digest.is_some() {
        b"GFTP-dig"
    } else {
        b"GFTP-nil"
    };
    let digest = digest.unwrap_or_default();
    [&begin[..], &digest, &[0; 8], b"GFTP-end"].concat()
}

/// `content` with its trailer.
fn trailed(content: &[u8]) -> Vec<u8> {
    [content, &trailer(Some(digest(content)))].concat()
}

/// The last reply to a transfer of the `content` with this many bytes on the wire.
fn receipt(bytes: usize, content: &[u8]) -> String {
    let hex: String = digest(content).iter().map(|b| format!("{b:02x}")).collect();
    format!("226 Transfer Complete. Bytes={bytes};BLAKE3={hex};")
}

/// Retrieves a file; returns the bytes of the connection and the last reply.
fn retrieve(ftp: &mut Ftp, command: &str) -> (Vec<u8>, Reply) {
    let data = ftp.data();
    ftp.ok(command, 150);
    (data.read(), ftp.outcome())
}

#[test]
fn files_of_every_size_are_stored_and_retrieved_with_their_digest() {
    let server = TestServer::new();
    let mut ftp = server.login();
    let feat = ftp.ok("FEAT", 211).text();
    assert!(feat.contains("\n STOR Tagged;Digest;Trailer;"), "{feat}");
    for len in [0, 1, 47, 48, 300_000] {
        let content = bytes(len);
        let stored = ftp.store(&format!("ESTO digest=1,S,{len} f"), &trailed(&content));
        assert_eq!(stored.text(), receipt(len, &content));
        assert!(server.get("f") == content);
        let (got, reply) = retrieve(&mut ftp, "ERET digest=1 f");
        assert!(got == trailed(&content), "{len}");
        assert_eq!(reply.text(), receipt(len, &content));
    }
    let (got, reply) = retrieve(&mut ftp, "ERET digest=2,P,10,100 f");
    let part = &server.get("f")[10..110];
    assert!(got == trailed(part));
    assert_eq!(reply.text(), receipt(100, part));
}

#[test]
fn a_store_without_its_trailer_is_broken_off_and_goes_on() {
    if lacks(|can| can.writes == WriteModel::Random) {
        return;
    }
    let server = TestServer::new();
    let file = bytes(200_000);
    server.put("f", "the old file");
    let mut ftp = server.login();
    // All bytes of the file are here, and nothing tells that.
    let whole = trailed(&file);
    for cut in [120_056, 200_000, whole.len() - 1] {
        let reply = ftp.store("ESTO digest=1 f", &whole[..cut]);
        assert_eq!(reply.code, 426, "{reply:?}");
        assert_eq!(server.get("f"), b"the old file");
        let held = format!("213 Range Marker 0-{}", cut - 56);
        assert_eq!(ftp.ok("SITE HELD f", 213).lines, [held]);
    }
    ftp.ok("REST 150000", 350);
    let rest = [&file[150_000..], &trailer(Some(digest(&file)))].concat();
    let reply = ftp.store("ESTO digest=2 f", &rest);
    assert_eq!(reply.text(), receipt(50_000, &file));
    assert!(server.get("f") == file);
    assert_eq!(hidden(&server.root), Vec::<String>::new());
}

#[test]
fn a_store_with_another_digest_is_not_published() {
    let server = TestServer::new();
    let mut ftp = server.login();
    let file = bytes(100_000);
    let mut changed = trailed(&file);
    changed[70_000] ^= 1;
    let reply = ftp.store("ESTO digest=1 f", &changed);
    assert_eq!(reply.code, 426, "{reply:?}");
    assert!(!server.has("f"));
    assert_eq!(ftp.ok("SITE HELD f", 213).lines, ["213 Range Marker"]);
    // A sender that knows no digest is believed, and the server tells its own.
    let unknown = [&file[..], &trailer(None)].concat();
    let reply = ftp.store("ESTO digest=2 f", &unknown);
    assert_eq!(reply.text(), receipt(100_000, &file));
    assert!(server.get("f") == file);
}

#[test]
fn a_store_in_place_goes_on_without_a_digest_of_its_sender() {
    if lacks(|can| can.updates) {
        return;
    }
    let file = bytes(200_000);
    let rest = [&file[150_000..], &trailer(None)].concat();
    for (in_place, code) in [(true, 226), (false, 550)] {
        let server = TestServer::with(|options| options.in_place = Some(in_place));
        server.put("f", &file[..150_000]);
        let mut ftp = server.login();
        ftp.ok("REST 150000", 350);
        let reply = ftp.store("ESTO digest=1 f", &rest);
        assert_eq!(reply.code, code, "{reply:?}");
        let len = if in_place { 200_000 } else { 150_000 };
        assert!(server.get("f") == file[..len]);
    }
}

/// Ranges that are no beginning of a file are of a partial file alone, never of the published one.
#[test]
fn ranges_of_a_file_that_nothing_is_kept_of_are_refused_before_the_data() {
    let server = TestServer::new();
    server.put("f", bytes(1000));
    let mut ftp = server.login();
    ftp.ok("REST 0-10,20-30", 350);
    ftp.pasv();
    ftp.ok("ESTO digest=1 f", 554);
    assert!(server.get("f") == bytes(1000));
    assert_eq!(ftp.ok("SITE HELD f", 213).lines, ["213 Range Marker"]);
}

#[test]
fn a_retrieval_behind_a_restart_tells_the_digest_of_the_file() {
    let server = TestServer::new();
    let file = bytes(200_000);
    server.put("f", &file);
    let mut ftp = server.login();
    ftp.ok("REST 150000", 350);
    let (got, reply) = retrieve(&mut ftp, "ERET digest=1 f");
    let expected = [&file[150_000..], &trailer(Some(digest(&file)))].concat();
    assert!(got == expected);
    assert_eq!(reply.text(), receipt(50_000, &file));
}

#[test]
fn the_head_alone_and_text_have_no_trailer() {
    let server = TestServer::new();
    server.put("f", "0123456789");
    let mut ftp = server.login();
    ftp.pasv();
    ftp.ok("ERET tag=1 f", 504);
    ftp.ok("ESTO tag=1 g", 504);
    ftp.ok("TYPE A", 200);
    ftp.ok("ERET digest=1 f", 504);
    ftp.ok("ESTO digest=1 g", 504);
    ftp.ok("TYPE I", 200);
    assert_eq!(ftp.fetch("f"), b"0123456789");
    assert!(!server.has("g"));
}

/// Its connections close in order, the control connection first.
#[test]
fn a_store_whose_client_is_gone_is_not_published() {
    let server = TestServer::new();
    let mut ftp = server.login();
    let mut data = ftp.data();
    ftp.ok("ESTO digest=1 f", 150);
    data.write(&bytes(10_000));
    drop(ftp);
    drop(data);
    server.wait_for_sessions(0);
    assert!(!server.has("f"));
}

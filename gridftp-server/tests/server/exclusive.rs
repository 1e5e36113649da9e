//! Files that replace nothing: `SITE STORATTR x.exclusive=1`, and two uploads at the same time.

use crate::support::{TestServer, bytes};

const EXCLUSIVE: &str = "SITE STORATTR x.exclusive=1;";

#[test]
fn of_two_exclusive_uploads_at_the_same_time_one_is_refused() {
    // In one block, and in several.
    for len in [3000, 300_000] {
        let server = TestServer::new();
        let (one, two) = (bytes(len), vec![2; len]);
        let (mut first, mut second) = (server.login(), server.login());
        let features = first.ok("FEAT", 211).text();
        assert!(features.contains(" EXCLUSIVE"), "{features}");
        let mut uploads = Vec::new();
        for ftp in [&mut first, &mut second] {
            ftp.ok(&format!("ALLO {len}"), 200);
            ftp.ok(EXCLUSIVE, 250);
            let data = ftp.data();
            ftp.ok("STOR f", 150);
            uploads.push(data);
        }
        let [mut ours, mut theirs] = <[_; 2]>::try_from(uploads).ok().unwrap();
        theirs.write(&two);
        ours.write(&one);
        ours.finish();
        assert_eq!(first.outcome().code, 226);
        theirs.finish();
        let refused = second.outcome();
        let text = refused.text();
        assert_eq!(refused.code, 550, "{text}");
        assert!(text.contains("PATH_EXISTS"), "{text}");
        assert!(server.get("f") == one);
        let held = second.ok("SITE HELD f", 213).text();
        assert!(!held.contains('-'), "{held}");
    }
}

#[test]
fn an_exclusive_upload_to_a_name_in_use_is_refused_before_its_data() {
    let server = TestServer::new();
    server.put("f", "old");
    let mut ftp = server.login();
    ftp.ok(EXCLUSIVE, 250);
    let data = ftp.data();
    let text = ftp.ok("STOR f", 550).text();
    assert!(text.contains("PATH_EXISTS"), "{text}");
    drop(data);
    assert_eq!(server.get("f"), b"old");
    // It is spent: the next store replaces.
    assert_eq!(ftp.store("STOR f", b"new").code, 226);
    assert_eq!(server.get("f"), b"new");
}

#[test]
fn a_server_that_writes_in_place_has_no_exclusive_uploads() {
    let server = TestServer::with(|options| options.in_place = Some(true));
    let mut ftp = server.login();
    let features = ftp.ok("FEAT", 211).text();
    assert!(!features.contains("EXCLUSIVE"), "{features}");
    ftp.ok(EXCLUSIVE, 504);
}

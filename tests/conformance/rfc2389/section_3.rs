//! RFC 2389 §3: FEAT.

use std::collections::BTreeSet;

use crate::support::TestServer;
use crate::{fresh, inner};

/// §3.2: `211-`, each feature behind exactly one blank, `211 End`. After `End` the Globus server writes a full stop, and
/// so do we: its client reads this reply to the byte.
#[test]
fn features_stand_behind_one_blank() {
    let server = TestServer::new();
    for (mut ftp, line) in [(server.connect(), "FEAT"), (fresh(&server), "feat")] {
        let reply = ftp.ok(line, 211);
        assert!(reply.lines[0].starts_with("211-"), "{reply:?}");
        assert_eq!(reply.lines.last().unwrap(), "211 End.");
        for feature in inner(&reply) {
            assert!(
                feature.bytes().all(|byte| (b' '..=b'~').contains(&byte)),
                "{feature:?}"
            );
            assert!(
                !feature.starts_with(' ') && !feature.ends_with(' '),
                "{feature:?}"
            );
        }
        // §3.1 has 501 for an argument; the Globus server takes no notice of one where a command has none.
        assert_eq!(ftp.ok("FEAT now", 211), reply);
    }
}

/// §3.2: every extension of a specification is listed once, FEAT and OPTS are not, nor is what RFC 959 has itself.
#[test]
fn every_extension_is_listed_and_nothing_else() {
    let server = TestServer::new();
    let features = inner(&fresh(&server).ok("FEAT", 211));
    let labels: Vec<&str> = features
        .iter()
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    let distinct: BTreeSet<&str> = labels.iter().copied().collect();
    assert_eq!(distinct.len(), labels.len(), "{features:?}");
    for exact in [
        "EPRT",
        "EPSV",
        "MDTM",
        "SIZE",
        "REST STREAM",
        "TVFS",
        "UTF8",
        "LANG EN",
    ] {
        assert!(
            features.iter().any(|feature| feature == exact),
            "{exact}: {features:?}"
        );
    }
    assert!(distinct.contains("MLST"));
    // MLSD comes with MLST and has no line of its own (RFC 3659 §7.8). PASV and STOR name options of theirs.
    for absent in [
        "FEAT", "OPTS", "MLSD", "RETR", "PORT", "LIST", "STOU", "NOOP", "SITE",
    ] {
        assert!(!distinct.contains(absent), "{absent}: {features:?}");
    }
    assert!(
        features
            .iter()
            .any(|feature| feature == "PASV AllowDelayed;")
    );
}

//! RFC 2389 §3: FEAT.

use std::collections::BTreeSet;

use crate::support::TestServer;
use crate::{fresh, inner};

/// §3.2: `211-`, each feature behind exactly one blank, `211 End`. The Globus server writes a full
/// stop after `End`, and so do we: its client compares this reply byte by byte.
#[test]
fn features_have_one_leading_blank() {
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
        // §3.1 has 501 for an argument; the Globus server ignores it.
        assert_eq!(ftp.ok("FEAT now", 211), reply);
    }
}

/// §3.2: every specified extension is listed once; FEAT, OPTS and commands of RFC 959 are not.
#[test]
fn only_extensions_are_listed() {
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
    // MLSD is implied by MLST and has no line (RFC 3659 §7.8). PASV and STOR have lines of
    // options.
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

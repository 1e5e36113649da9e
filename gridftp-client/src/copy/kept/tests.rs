//! Held bytes are proven, and a server hears of the client meanwhile.

use ftp_proto::client::Settings;
use tokio::io::AsyncWriteExt as _;

use super::*;
use crate::played;

#[tokio::test(start_paused = true)]
async fn held_bytes_are_proven_at_any_size() {
    let (control, _banner, _far) = played::connect(Settings::default());
    let (abilities, path) = (Abilities::default(), FtpPath::new(b"/file".to_vec()));
    let shared = CopyState::plain();
    let copy = Copy {
        control: &control,
        abilities: &abilities,
        path: &path.unwrap(),
        part: (0, 1 << 50),
        whole: true,
        goes_on: false,
        recalled: false,
        shared: &shared,
    };
    let original = Original::Here(Path::new("/nowhere"));
    let kept = copy.told(&RangeSet::up_to(1 << 49), &original).await;
    assert_eq!(kept.unwrap().after, Some(ChecksumAlgorithm::Md5));
}

/// A server of others has them all under the hidden name; holes are left between them.
#[tokio::test]
async fn ranges_of_an_earlier_run_are_proven_one_by_one() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, b"abc..abc..abc...").unwrap();
    let right = "213 900150983cd24fb0d6963f7d28e17f72";
    let (wrong, gone) = ("213 00000000000000000000000000000000", "550 no such file");
    for (replies, proven) in [
        ([right, right, right], "0-3,5-8,10-13"),
        ([right, wrong, right], "0-3,10-13"),
        ([wrong, right, gone], "5-8"),
        ([wrong, gone, "500 what?"], ""),
    ] {
        let (control, mut lines, mut far) = played::greeted(Settings::default()).await;
        let (abilities, path) = (Abilities::default(), FtpPath::new(b"/file".to_vec()));
        let shared = CopyState::plain();
        let copy = Copy {
            control: &control,
            abilities: &abilities,
            path: &path.unwrap(),
            part: (0, 16),
            whole: true,
            goes_on: true,
            recalled: true,
            shared: &shared,
        };
        let held = byte_ranges::text::parse(b"0-3,5-8,10-13,20-30", 4).unwrap();
        let original = Original::Here(&file);
        let server = async {
            let signs = lines.next_line().await.unwrap().unwrap();
            assert_eq!(signs, "OPTS CKSM markers=10;");
            far.write_all(b"200 so be it\r\n").await.unwrap();
            // All are asked for before the first is told.
            for offset in [0, 5, 10] {
                let line = lines.next_line().await.unwrap().unwrap();
                assert_eq!(line, format!("CKSM MD5 {offset} 3 /file"));
            }
            for reply in replies {
                let reply = format!("{reply}\r\n");
                far.write_all(reply.as_bytes()).await.unwrap();
            }
        };
        let (kept, ()) = tokio::join!(copy.told(&held, &original), server);
        let after = Some(ChecksumAlgorithm::Md5);
        let kept = kept.map(|kept| (kept.held.to_string(), kept.after));
        let expected = (!proven.is_empty()).then(|| (proven.to_owned(), after));
        assert_eq!(kept, expected, "{replies:?}");
        assert!(shared.totals.take_hashing() && !shared.totals.take_hashing());
    }
}

#[test]
fn the_longest_of_many_ranges_are_hashed() {
    let range = |n: u64| Range64::from_len(n << 20, n);
    let held: RangeSet = (1..=100).filter_map(range).collect();
    let hashed: RangeSet = (37..=100).filter_map(range).collect();
    assert_eq!(longest(&held), hashed);
}

#[tokio::test(start_paused = true)]
async fn an_upload_goes_on_with_what_the_server_has_recorded() {
    use Mode::{Extended, Stream};
    let told = Some("213 Range Marker 0-900");
    let holes = Some("213 Range Marker 0-900,950-1000");
    for (length, mode, goes_on, reply, held) in [
        (SMALL + 1, Extended, true, told, "0-900"),
        (SMALL + 1, Extended, true, Some("550 no such file"), "0-5"),
        (SMALL + 1, Extended, true, Some("213 Range Marker"), ""),
        (SMALL + 1, Extended, false, None, "0-5"),
        (SMALL, Extended, true, None, "0-5"),
        // Without markers nothing is known of a small one either.
        (2000, Stream, true, holes, "0-900,950-1000"),
        (2000, Stream, true, Some("213 Range Marker"), ""),
    ] {
        let (control, mut lines, mut replies) = played::greeted(Settings::default()).await;
        let abilities = Abilities {
            held: true,
            ..Abilities::default()
        };
        let path = FtpPath::new(b"/file".to_vec()).unwrap();
        let shared = CopyState::plain();
        let mut copy = Copy {
            control: &control,
            abilities: &abilities,
            path: &path,
            part: (0, length),
            whole: true,
            goes_on,
            recalled: false,
            shared: &shared,
        };
        let mut job = FileJob::new(b"/here".to_vec(), b"/file".to_vec());
        job.held = RangeSet::up_to(5);
        let original = Original::Here(Path::new("/here"));
        let server = async {
            if let Some(reply) = reply {
                let line = lines.next_line().await.unwrap().unwrap();
                assert_eq!(line, "SITE HELD /file");
                let reply = format!("{reply}\r\n");
                replies.write_all(reply.as_bytes()).await.unwrap();
            }
        };
        tokio::join!(copy.take_recorded(&mut job, &original, mode), server);
        assert_eq!(job.held.to_string(), held, "{reply:?}");
        assert_eq!(job.recalled, held.starts_with("0-900"));
    }
}

/// Whoever told them: the next `REST` has all that are left.
#[tokio::test(start_paused = true)]
async fn an_upload_goes_on_with_no_more_ranges_than_a_line_names() {
    let block = |n: u64| Range64::from_len(n << 20, 1 << 19);
    let many: RangeSet = (0..2000).filter_map(block).collect();
    for told in [None, Some(format!("213 Range Marker {many}\r\n"))] {
        let (control, mut lines, mut replies) = played::greeted(Settings::default()).await;
        let abilities = Abilities {
            held: true,
            ..Abilities::default()
        };
        let (shared, path) = (CopyState::plain(), FtpPath::new(b"/file".to_vec()).unwrap());
        let mut copy = Copy {
            control: &control,
            abilities: &abilities,
            path: &path,
            part: (0, 1 << 40),
            whole: true,
            goes_on: told.is_some(),
            recalled: false,
            shared: &shared,
        };
        let mut job = FileJob::new(b"/here".to_vec(), b"/file".to_vec());
        job.held = many.clone();
        let original = Original::Here(Path::new("/here"));
        let server = async {
            if let Some(told) = &told {
                lines.next_line().await.unwrap().unwrap();
                replies.write_all(told.as_bytes()).await.unwrap();
            }
        };
        tokio::join!(
            copy.take_recorded(&mut job, &original, Mode::Extended),
            server
        );
        let text = job.held.to_string();
        assert!((7900..=8000).contains(&text.len()), "{}", text.len());
    }
}

/// A server that hashes a source sends markers meanwhile.
#[tokio::test(start_paused = true)]
async fn markers_of_a_source_are_signs_that_it_is_hashed() {
    let (control, mut lines, mut replies) = played::greeted(Settings::default()).await;
    let (abilities, path) = (Abilities::default(), FtpPath::new(b"/file".to_vec()));
    let (shared, path) = (CopyState::plain(), path.unwrap());
    let copy = Copy {
        control: &control,
        abilities: &abilities,
        path: &path,
        part: (0, 16),
        whole: true,
        goes_on: true,
        recalled: false,
        shared: &shared,
    };
    let original = Original::There(&control, &abilities, &path);
    let server = async {
        for _ in 0..2 {
            lines.next_line().await.unwrap().unwrap();
        }
        let marker = b"200 so be it\r\n113-Status Marker\r\n Timestamp: 1.5\r\n \
            Bytes Processed: 9\r\n113 End.\r\n";
        replies.write_all(marker).await.unwrap();
        while !shared.totals.take_hashing() {
            tokio::task::yield_now().await;
        }
        replies.write_all(b"213 abcd\r\n").await.unwrap();
    };
    let (digest, ()) = tokio::join!(
        copy.digest(&original, ChecksumAlgorithm::Md5, 0, None),
        server
    );
    assert_eq!(digest.as_deref(), Some("abcd"));
    let here = shared.totals.hash_here();
    assert!(shared.totals.take_hashing() && shared.totals.take_hashing());
    drop(here);
    assert!(!shared.totals.take_hashing());
}

#[tokio::test(start_paused = true)]
async fn a_server_hears_of_us_while_we_hash() {
    let (control, mut lines, mut replies) = played::greeted(Settings::default()).await;
    let server = async {
        for _ in 0..3 {
            assert_eq!(lines.next_line().await.unwrap().unwrap(), "NOOP");
            replies.write_all(b"200 well\r\n").await.unwrap();
        }
    };
    let hashing = awake(&control, tokio::time::sleep(AWAKE * 3 + AWAKE / 2));
    tokio::join!(hashing, server);
}

#[test]
fn bytes_in_use_are_asked_for_again_but_at_the_last_attempt() {
    let waits = |reply: &Reply, failures, retries| {
        let options = CopyOptions {
            retries,
            ..CopyOptions::default()
        };
        is_busy(Some(reply), failures, &options)
    };
    let (in_use, refused) = (Reply::of::<450>("busy"), Reply::of::<501>("what?"));
    assert!(waits(&in_use, 0, 2) && waits(&in_use, 3, 9));
    assert!(!waits(&in_use, 0, 1) && !waits(&in_use, 1, 2) && !waits(&in_use, 4, 9));
    assert!(!waits(&refused, 0, 9));
}

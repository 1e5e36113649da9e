//! The bytes read back decide the offset at which an upload goes on.

use std::os::unix::ffi::OsStringExt as _;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

use super::*;
use crate::client::scripted;
use crate::copy::job::Item;

fn range(start: u64, end: u64) -> Range64 {
    Range64::new(start, end).unwrap()
}

#[test]
fn the_last_bytes_are_compared_from_an_aligned_offset_on() {
    for (start, end, most, first) in [
        (0, 5, MOST, 0),
        (0, MOST, MOST, 0),
        (0, MOST + 1, MOST, STEP),
        (0, 9 * MOST, MOST, 8 * MOST),
        (0, 9 * MOST + 5, MOST, 8 * MOST + STEP),
        (7, STEP + 7, STEP, 7),
        (7, 3 * STEP + 7, STEP, 3 * STEP),
    ] {
        let part = Part::last(range(start, end), most);
        assert_eq!(part.start, first, "{start}-{end}");
        assert!(part.left() <= most && part.left() > 0, "{start}-{end}");
    }
}

#[test]
fn an_upload_goes_on_before_the_step_of_the_first_difference() {
    let (all, first) = (9 * MOST + 5, 8 * MOST + STEP);
    let here = vec![7; 3 * 1024 * 1024];
    for (differs, goes_on) in [
        (None, Some(first + 3 * STEP)),
        (Some(0), None),
        (Some(STEP - 1), None),
        (Some(STEP), Some(first + STEP)),
        (Some(3 * STEP - 1), Some(first + 2 * STEP)),
    ] {
        let mut there = here.clone();
        if let Some(at) = differs {
            there[usize::try_from(at).unwrap()] = 8;
        }
        let mut part = Part::last(range(0, all), MOST);
        part.note(&there, &here);
        assert_eq!(part.differs, differs.is_some());
        // Less came than the server says that it has, so a whole step counts.
        let equal = part.equal().map(|range| (range.start(), range.end()));
        assert_eq!(equal, goes_on.map(|end| (0, end)), "{differs:?}");
    }
    // Zeros may be a hole, and prove nothing of the bytes before them.
    let mut zeros = Part::last(range(0, all), MOST);
    zeros.note(&[0; 8192], &[0; 8192]);
    zeros.equal = first + STEP;
    assert_eq!(zeros.equal(), None);
    zeros.note(b"ab", b"ac");
    assert_eq!(zeros.equal(), Some(range(0, first + STEP)));
    let mut whole = Part::last(range(0, 5), MOST);
    whole.note(b"ab", b"ab");
    assert_eq!((whole.left(), whole.equal()), (3, None));
    whole.note(b"cde", b"cde");
    assert_eq!((whole.left(), whole.equal()), (0, Some(range(0, 5))));
}

#[test]
fn ranges_share_the_bound_and_are_left_where_the_server_sends_too_much() {
    let there: RangeSet = (0..64)
        .map(|n| range(n * MOST, n * MOST + 5 * STEP))
        .collect();
    let size = there.end();
    let all = parts(&there, size, true);
    assert_eq!(all.len(), 64);
    assert_eq!(all.iter().map(Part::left).sum::<u64>(), MOST);
    let ends = parts(&there, size, false);
    let starts: Vec<_> = ends.iter().map(|part| part.start).collect();
    assert_eq!(starts, [size - STEP]);
}

/// The outcome of reading `there` back from a server that replies so to `RETR`.
async fn outcome(source: &[u8], there: Vec<u8>, retr: &str) -> (RangeSet, ReadBack, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    std::fs::write(&path, source).unwrap();
    let opened = FileSource::open(&path).await.unwrap();
    let mut job = FileJob::new(path.into_os_string().into_vec(), b"/file".to_vec());
    job.facts = Facts::of_source(&opened);
    job.hidden = FtpPath::new(b"/.file.gridftp-0".to_vec());
    (job.begun, job.read_back) = (true, ReadBack::Due);
    // The next attempt would be the last.
    job.failures = 2;
    let shared = Arc::new(CopyState::plain());
    shared.queue.push(Item::File(Box::new(job)));
    let taken = shared.queue.next(|_| true).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let replies = vec![
        ("SIZE", format!("213 {}", there.len())),
        ("PASV", scripted::passive(port)),
        ("REST", "350 from there".to_owned()),
        ("RETR", retr.to_owned()),
        ("QUIT", "221 bye".to_owned()),
    ];
    let (mut client, server) = scripted::session(replies).await;
    let using = async {
        let mode = shared.mode(&client);
        let read = Box::pin(read_back(&mut client, None, mode, &shared, taken)).await;
        client.close().await;
        read
    };
    let sends = retr.starts_with("150");
    let data = async {
        if sends {
            let (mut data, _) = listener.accept().await.unwrap();
            data.write_all(&there).await.unwrap();
        }
    };
    let (read, sent, ()) = tokio::join!(using, server, data);
    let taken = read.unwrap().unwrap();
    let job = taken.file();
    (job.held.clone(), job.read_back, sent)
}

#[tokio::test]
async fn a_server_sends_its_bytes_back() {
    let source: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let sends = "150 here it comes\r\n226 that was it";
    let half = source.get(..5_000_003).unwrap().to_vec();
    let (held, state, sent) = outcome(&source, half.clone(), sends).await;
    assert_eq!(held, RangeSet::up_to(5_000_003));
    assert_eq!(state, ReadBack::Done { ends: true });
    let file = "/.file.gridftp-0";
    let lines = [
        format!("SIZE {file}"),
        "PASV".to_owned(),
        format!("RETR {file}"),
        "QUIT".to_owned(),
    ];
    assert_eq!(sent, lines);
    let mut damaged = half.clone();
    damaged.truncate(4_000_000);
    damaged.resize(5_000_003, 0);
    let (held, state, _) = outcome(&source, damaged, sends).await;
    assert_eq!(held, RangeSet::up_to(3 * STEP));
    assert_eq!(state, ReadBack::Done { ends: false });
    let nothing = (RangeSet::new(), ReadBack::Done { ends: false });
    let (held, state, _) = outcome(&source, vec![0; 5_000_003], sends).await;
    assert_eq!((held, state), nothing);
    // A file longer than the source is not read.
    let longer = [source.clone(), vec![0]].concat();
    let (held, state, sent) = outcome(&source, longer, "").await;
    assert_eq!((held, state), nothing);
    assert_eq!(sent, [format!("SIZE {file}"), "QUIT".to_owned()]);
    let refused = (RangeSet::new(), ReadBack::Refused);
    for retr in ["550 you may not read that", "150 well\r\n451 it broke off"] {
        let (held, state, _) = outcome(&source, half.clone(), retr).await;
        assert_eq!((held, state), refused, "{retr}");
    }
}

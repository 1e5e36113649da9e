//! Names of uploads: the objects that a rename replaces, and those that stay when it is refused.

use ftp_proto::client::Settings;
use tokio::io::AsyncWriteExt as _;

use super::*;
use crate::played;

#[test]
fn only_a_file_of_the_name_is_replaced() {
    let told = |lines: &[&str]| {
        let lines: Vec<_> = lines.iter().map(|line| line.as_bytes().to_vec()).collect();
        there::by_lines(&lines, b"name")
    };
    assert_eq!(told(&[]), Old::Nothing);
    assert_eq!(
        told(&[" -rw-r--r--    1 0  0   0 Jan 01 00:00 name"]),
        Old::File
    );
    for other in [
        &["crw-rw-rw-    1 0  0   1,   3 Jan 01 00:00 name"][..],
        &["prw-r--r--    1 0  0   0 Jan 01 00:00 name"],
        &["lrwxrwxrwx    1 0  0   4 Jan 01 00:00 name -> file"],
        // Entries of a directory.
        &["-rw-r--r--    1 0  0   0 Jan 01 00:00 another"],
        &[
            "-rw-r--r--    1 0  0   0 Jan 01 00:00 a",
            "-rw-r--r-- 1 0 0 0 Jan 01 00:00 name",
        ],
        &["01-01-26  10:00AM    7 name"],
    ] {
        assert_eq!(told(other), Old::Other, "{other:?}");
    }
    let line = b"-rw-r--r--    1 0  0   0 Jan 01 00:00 name ";
    for name in [&b"name"[..], b"name "] {
        assert_eq!(there::by_lines(&[line.to_vec()], name), Old::File);
    }
}

/// Renames with a server that gives these replies; gives the commands.
async fn published(replies: &[&str]) -> (bool, Vec<String>) {
    let (done, sent) = renamed_by(false, replies).await;
    (done.unwrap(), sent)
}

/// As [`published`]; nothing is overwritten where the copy `keeps` old files.
async fn renamed_by(keeps: bool, replies: &[&str]) -> (Result<bool, TransferError>, Vec<String>) {
    let (control, mut lines, mut back) = played::greeted(Settings::default()).await;
    let [at, to] = ["/.f.gridftp-1", "/f"].map(|name| FtpPath::new(name).unwrap());
    let hiding = HiddenNames::default();
    let server = async {
        let mut sent = Vec::new();
        for reply in replies {
            sent.push(lines.next_line().await.unwrap().unwrap());
            back.write_all(format!("{reply}\r\n").as_bytes())
                .await
                .unwrap();
        }
        sent
    };
    let hidden = Hidden::ask(&control, true, at, to);
    let renamed = async {
        let renaming = hidden.rename(&control, keeps).await.unwrap();
        renaming.done(&control, &hiding).await
    };
    tokio::join!(renamed, server)
}

#[tokio::test(start_paused = true)]
async fn a_hidden_file_stays_noted_after_a_lost_session() {
    let (control, _banner, far) = played::connect(Settings::default());
    drop(far);
    let hiding = HiddenNames::default();
    hiding.leave(FtpPath::new("/.f.gridftp-00000000").unwrap());
    hiding.clean(&control).await;
    assert!(hiding.has_left());
}

#[tokio::test(start_paused = true)]
async fn an_old_file_that_the_server_does_not_replace_is_moved_aside() {
    let begin = [
        "550 nothing there",
        "350 well",
        "553 it already exists",
        "350 well",
        "250 aside",
    ];
    let end = ["350 well", "250 done", "250 gone", "200 well"];
    let (done, sent) = published(&[&begin[..], &end].concat()).await;
    assert!(done);
    assert_eq!(sent[3..5], ["RNFR /f", "RNTO /.f.gridftp-1.old"]);
    assert_eq!(sent[7], "DELE /.f.gridftp-1.old");
    // It comes back where the new one does not get its name.
    let end = ["350 well", "550 no", "350 well", "250 back"];
    let (done, sent) = published(&[&begin[..], &end].concat()).await;
    assert!(!done);
    assert_eq!(sent[7..], ["RNFR /.f.gridftp-1.old", "RNTO /f"]);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_appeared_is_not_overwritten_where_none_may_be() {
    let (control, mut lines, mut back) = played::greeted(Settings::default()).await;
    let [at, to] = ["/.f.gridftp-1", "/f"].map(|name| FtpPath::new(name).unwrap());
    let hidden = Hidden::ask(&control, true, at, to);
    assert_eq!(lines.next_line().await.unwrap().unwrap(), "MLST /f");
    let facts = b"250-Listing\r\n type=file;size=3; /f\r\n250 End\r\n";
    back.write_all(facts).await.unwrap();
    let error = hidden.rename(&control, true).await.err().unwrap();
    assert!(error.to_string().contains("left alone"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_file_that_appears_before_the_rename_is_not_moved_aside_where_none_may_be() {
    let replies = ["550 nothing there", "350 well", "553 it already exists"];
    let (done, sent) = renamed_by(true, &replies).await;
    assert!(done.unwrap_err().to_string().contains("left alone"));
    assert_eq!(sent, ["MLST /f", "RNFR /.f.gridftp-1", "RNTO /f"]);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_changes_its_hidden_name_begins_anew() {
    let (control, _banner, _far) = played::connect(Settings::default());
    let shared = CopyState::plain();
    let mut job = FileJob::new(b"f".to_vec(), b"/f".to_vec());
    job.hidden = FtpPath::new("/.f.gridftp-1");
    job.hold(&byte_ranges::RangeSet::up_to(1000));
    shared.hiding.off.store(true, Ordering::Relaxed);
    let name = shared.hide(&control, &Abilities::default(), &mut job).await;
    assert!(name.is_none() && job.hidden.is_none() && job.held.is_empty());
    assert!(shared.hiding.has_left(), "the part is not removed");
}

#[tokio::test(start_paused = true)]
async fn a_refused_name_costs_no_old_file() {
    let (done, sent) = published(&["550 nothing there", "350 well", "550 no"]).await;
    assert!(!done);
    assert_eq!(sent, ["MLST /f", "RNFR /.f.gridftp-1", "RNTO /f"]);
}

#[tokio::test(start_paused = true)]
async fn a_device_is_not_replaced_by_a_rename() {
    let facts = "250-Listing\r\n type=OS.unix=chr;size=0; /f\r\n250 End";
    let (done, sent) = published(&[facts]).await;
    assert!(!done);
    assert_eq!(sent, ["MLST /f"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_rename_gets_the_file_under_its_name() {
    let (done, _) = published(&["550 no", "550 not you", "503 RNFR first"]).await;
    assert!(!done);
}

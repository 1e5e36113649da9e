//! Final replies: late, behind a reset, behind a download that was given up.

use ftp_proto::client::Settings;
use ftp_wire::command::{Command, Mode};
use ftp_wire::path::FtpPath;
use gridftp_data::{DataChannel, Options};
use tokio::io::AsyncWriteExt as _;
use xio_core::Pool;

use super::*;
use crate::played;

#[tokio::test(start_paused = true)]
async fn the_final_reply_to_an_upload_may_take_minutes() {
    let (control, mut lines, mut far) = played::greeted(Settings::default()).await;
    let path = FtpPath::new(b"/file".to_vec()).unwrap();
    let mut transfer = Transfer::upload(control.send(Command::Stor(path)), b"/file");
    lines.next_line().await.unwrap();
    let server = async {
        far.write_all(b"150 send it\r\n").await.unwrap();
        tokio::time::sleep(Duration::from_secs(300)).await;
        far.write_all(b"226 all is safe\r\n").await.unwrap();
    };
    let (end, ()) = tokio::join!(transfer.end(|_| ()), server);
    end.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_final_reply_is_due_soon_after_a_reset() {
    for replies in [true, false] {
        let (control, mut lines, mut far) = played::greeted(Settings::default()).await;
        let path = FtpPath::new(b"/file".to_vec()).unwrap();
        let mut transfer = Transfer::upload(control.send(Command::Stor(path)), b"/file");
        lines.next_line().await.unwrap();
        far.write_all(b"150 send it\r\n").await.unwrap();
        let reset = CancellationToken::new();
        let server = async {
            tokio::time::sleep(Duration::from_secs(300)).await;
            reset.cancel();
            // A marker shows that the server works on it.
            tokio::time::sleep(ACCOUNT / 2).await;
            far.write_all(b"111 Range Marker 0-1\r\n").await.unwrap();
            tokio::time::sleep(ACCOUNT * 3 / 4).await;
            if replies {
                far.write_all(b"226 all is safe\r\n").await.unwrap();
            }
        };
        let begun = tokio::time::Instant::now();
        let (end, ()) = tokio::join!(transfer.end_or_reset(&reset, ACCOUNT, |_| ()), server);
        assert_eq!(end.is_ok(), replies);
        assert!(begun.elapsed() <= Duration::from_secs(300) + 3 * ACCOUNT);
        let told = end.err().map(|failure| failure.error.to_string());
        assert!(told.is_none_or(|told| told.contains("a data connection broke")));
    }
}

#[tokio::test(start_paused = true)]
async fn the_final_reply_outlives_a_download_that_is_given_up() {
    let (control, mut lines, mut far) = played::greeted(Settings::default()).await;
    let path = FtpPath::new(b"/file".to_vec()).unwrap();
    let mut transfer = Transfer::download(control.send(Command::Retr(path)), b"/file");
    lines.next_line().await.unwrap();
    far.write_all(b"150 here it is\r\n226 all is sent\r\n")
        .await
        .unwrap();
    let watch = Watch::new();
    // The last bytes are still on their way when the caller has enough.
    let data = std::future::pending::<gridftp_data::Result<()>>();
    let passing = timeout(QUIET, transfer.pass(&watch, data, |_| ()));
    assert!(passing.await.is_err());
    let account = transfer.account(ACCOUNT, |_| ()).await;
    account.expect("it has arrived").unwrap();
}

/// Old servers say of a listing only that they have sent it.
#[tokio::test(start_paused = true)]
async fn data_may_end_behind_a_success_without_a_preliminary_reply() {
    for is_whole in [true, false] {
        let (control, mut lines, mut far) = played::greeted(Settings::default()).await;
        let mut transfer = Transfer::download(control.send(Command::Nlst(None)), b"/");
        lines.next_line().await.unwrap();
        far.write_all(b"250 listed\r\n").await.unwrap();
        let mut channel = DataChannel::new(Options::default(), Pool::new(1 << 10, 1));
        let broken = channel.open(Mode::Stream, 1).await.unwrap_err();
        let data = async {
            // The reply comes first.
            tokio::time::sleep(QUIET).await;
            is_whole.then_some(7).ok_or(broken)
        };
        match transfer.run(&Watch::new(), data).await {
            Ok(bytes) => assert!(is_whole && bytes == 7),
            Err(Failure { error, .. }) => {
                assert!(
                    !is_whole && matches!(error, TransferError::Data { .. }),
                    "{error}"
                );
            }
        }
    }
}

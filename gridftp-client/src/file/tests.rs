//! The session behind a reader or a writer, and its last commands.

use std::net::TcpListener;

use ftp_wire::command::Command;

use super::*;
use crate::client::scripted;
use crate::error::ControlError;

#[tokio::test]
async fn a_session_that_ends_behind_its_confirmation_leaves_the_transfer_done() {
    for is_done in [true, false] {
        let (client, server) = scripted::session(Vec::new()).await;
        drop(server);
        let noop = client.control.send(Command::Noop).finish().await;
        let lost = noop.expect_err("the server is gone");
        assert!(matches!(lost, ControlError::Lost { .. }), "{lost}");
        let result = match is_done {
            true => Ok(()),
            false => Err(Failure::midway(lost, SessionState::ChannelBroken)),
        };
        assert_eq!(Done::of(client, result, true).client.is_some(), is_done);
    }
}

#[tokio::test]
async fn a_refused_store_is_not_aborted() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let replies = vec![
        ("PASV", scripted::passive(port)),
        ("STOR", "553 not here".to_owned()),
        ("QUIT", "221 bye".to_owned()),
    ];
    let (client, server) = scripted::session(replies).await;
    let writing = async {
        let mut writer = client.into_writer("/file", WriteOptions::default());
        writer.begin().await.unwrap_err();
        drop(writer.into_client().unwrap());
    };
    let ((), received) = tokio::join!(writing, server);
    assert_eq!(received, ["PASV", "STOR /file", "QUIT"]);
}

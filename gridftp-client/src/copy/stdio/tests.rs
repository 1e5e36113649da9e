//! The begin of an upload from a pipe.

use std::net::TcpListener;

use super::put::begin;
use super::*;
use crate::client::scripted;
use crate::url::Site;

/// The server may have made the file before it refused the data connection.
#[tokio::test]
async fn the_hidden_file_of_an_upload_that_fails_to_begin_is_removed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let replies = vec![
        ("RNFR", "550 no such file".to_owned()),
        ("RNTO", "503 RNFR first".to_owned()),
        ("STAT", "550 no such file".to_owned()),
        ("PASV", scripted::passive(port)),
        ("STOR", "425 no data connection".to_owned()),
        ("DELE", "250 removed".to_owned()),
        ("QUIT", "221 bye".to_owned()),
    ];
    let (client, server) = scripted::session(replies).await;
    let shared = CopyState::plain();
    let beginning = async {
        let to = b"/dir/file".to_vec();
        let path = client.path(&to).unwrap();
        let remote = Remote {
            site: Site::new("127.0.0.1", port),
            path: to.clone(),
            pattern: None,
        };
        let mut job = FileJob::new(b"-".to_vec(), to);
        begin(client, &shared, &mut job, &remote, &path)
            .await
            .map(drop)
            .unwrap_err();
    };
    let ((), received) = tokio::join!(beginning, server);
    let name = |verb: &str| received.iter().find_map(|line| line.strip_prefix(verb));
    let stored = name("STOR ").unwrap();
    assert!(stored.starts_with("/dir/.file."), "{stored}");
    assert_eq!(name("DELE "), Some(stored));
}

//! Requests and replies of sessions, and the ways in which sessions end.

use ftp_wire::command::StackSide;
use tokio::io::duplex;
use tokio::sync::mpsc;
use tonic::Code;
use tonic::codegen::http::Uri;

use super::{Connected, Double, Lab, next, open, soon};
use crate::connections::State;
use crate::error::Error;
use crate::identity::Peer;
use crate::link::{self, Beats, Work};
use crate::message::{FromNode, ToNode};
use crate::proto::node_client::NodeClient;
use crate::proto::{self, to_node};

#[tokio::test]
async fn a_session_asks_and_is_answered() {
    let mut one = Connected::new().await;
    let mut session = one.session("a").await;
    assert_eq!(session.node(), "one");
    for _ in 0..3 {
        let request = ToNode::Stack(StackSide::Net, Some("tcp".into()));
        session.send(request).await.unwrap();
        assert_eq!(session.recv().await.unwrap(), FromNode::Done);
    }
    assert_eq!(next(&mut one.events).await, "a from front");
    session.finish();
    assert_eq!(next(&mut one.events).await, "a ended");
    assert!(matches!(session.recv().await, Err(Error::Ended { .. })));
    assert!(session.send(ToNode::DropData).await.is_err());
}

#[tokio::test]
async fn a_session_that_is_dropped_ends_on_the_node() {
    let mut one = Connected::new().await;
    let session = one.session("a").await;
    assert_eq!(next(&mut one.events).await, "a from front");
    assert_eq!(one.nodes.list()[0].placed, 1);
    drop(session);
    assert_eq!(next(&mut one.events).await, "a ended");
    assert_eq!(one.nodes.list()[0].placed, 0);
}

#[tokio::test]
async fn a_session_that_the_node_ends_is_told() {
    let one = Connected::new().await;
    let mut session = one.session("a").await;
    session.send(ToNode::DropData).await.unwrap();
    assert!(matches!(session.recv().await, Err(Error::Ended { .. })));
}

#[tokio::test]
async fn the_sessions_of_a_node_that_is_killed_fail_at_once() {
    let one = Connected::new().await;
    let mut session = one.session("a").await;
    drop(one.node);
    let error = session.recv().await.unwrap_err();
    assert!(matches!(error, Error::Connection { .. }), "{error}");
}

#[tokio::test]
async fn messages_that_are_too_long_or_malformed_break_the_session_off() {
    let lab = Lab::new();
    let stack = |length| {
        to_node::Kind::Stack(proto::Stack {
            disk: false,
            stack: Some("x".repeat(length)),
        })
    };
    for (kind, code) in [
        (Some(stack(3 << 20)), Code::OutOfRange),
        (Some(stack(5000)), Code::InvalidArgument),
        (None, Code::InvalidArgument),
    ] {
        let (double, mut events) = Double::new();
        let node = lab.node("one", &double);
        let peer = Peer {
            identity: lab.front().identity().clone(),
            issued: lab.front().not_after(),
            not_after: lab.front().not_after(),
        };
        let (here, there) = duplex(1 << 16);
        let _node = Work::spawn(async move {
            let _ = node.serve(there, peer, State::default()).await;
        });
        let (caller, connection) = link::call(here).await.unwrap();
        let _connection = Work::spawn(async { drop(connection.await) });
        let mut client = NodeClient::with_origin(caller, Uri::from_static("http://node"));
        let (requests, queue) = mpsc::channel(2);
        requests.send(open("a").into()).await.unwrap();
        let heartbeat = || proto::ToNode { kind: None };
        let call = client.session(Beats::new(queue, heartbeat, None));
        let mut replies = soon(call).await.unwrap().into_inner();
        assert_eq!(next(&mut events).await, "a from front");
        requests.send(proto::ToNode { kind }).await.unwrap();
        let status = soon(replies.message()).await.unwrap_err();
        assert_eq!(status.code(), code, "{status}");
        assert_eq!(next(&mut events).await, "a ended");
    }
}

#[tokio::test]
async fn a_session_begins_with_its_opening() {
    let one = Connected::new().await;
    let handle = one.nodes.named("one").unwrap();
    let mut bad = open("a");
    bad.user.name = "x".repeat(5000);
    let error = handle.session(bad).await.unwrap_err();
    assert!(
        matches!(&error, Error::Refused { reason, .. } if reason.contains("user.name")),
        "{error}"
    );
}

//! Requests and replies of sessions, and the ways in which sessions end.

use ftp_wire::command::StackSide;

use super::{Double, Lab, dial, handle, next, open, serve};
use crate::error::Error;
use crate::message::{FromNode, ToNode};

#[tokio::test]
async fn a_session_asks_and_is_answered() {
    let lab = Lab::new();
    let nodes = lab.nodes();
    let (address, _front) = serve(&nodes).await;
    let (double, mut events) = Double::new();
    let _node = dial(&lab.node("one", &double), address);
    let mut session = handle(&nodes, "one")
        .await
        .session(open("a"))
        .await
        .unwrap();
    assert_eq!(session.node(), "one");
    for _ in 0..3 {
        let request = ToNode::Stack(StackSide::Net, Some("tcp".into()));
        session.send(request).await.unwrap();
        assert_eq!(session.recv().await.unwrap(), FromNode::Done);
    }
    assert_eq!(next(&mut events).await, "a from front");
    session.finish();
    assert_eq!(next(&mut events).await, "a ended");
    assert!(matches!(session.recv().await, Err(Error::Ended { .. })));
    assert!(session.send(ToNode::DropData).await.is_err());
}

#[tokio::test]
async fn a_session_that_is_dropped_ends_on_the_node() {
    let lab = Lab::new();
    let nodes = lab.nodes();
    let (address, _front) = serve(&nodes).await;
    let (double, mut events) = Double::new();
    let _node = dial(&lab.node("one", &double), address);
    let session = handle(&nodes, "one")
        .await
        .session(open("a"))
        .await
        .unwrap();
    assert_eq!(next(&mut events).await, "a from front");
    assert_eq!(nodes.list()[0].placed, 1);
    drop(session);
    assert_eq!(next(&mut events).await, "a ended");
    assert_eq!(nodes.list()[0].placed, 0);
}

#[tokio::test]
async fn a_session_that_the_node_ends_is_told() {
    let lab = Lab::new();
    let nodes = lab.nodes();
    let (address, _front) = serve(&nodes).await;
    let (double, _) = Double::new();
    let _node = dial(&lab.node("one", &double), address);
    let mut session = handle(&nodes, "one")
        .await
        .session(open("a"))
        .await
        .unwrap();
    session.send(ToNode::DropData).await.unwrap();
    assert!(matches!(session.recv().await, Err(Error::Ended { .. })));
}

#[tokio::test]
async fn the_sessions_of_a_node_that_is_killed_fail_at_once() {
    let lab = Lab::new();
    let nodes = lab.nodes();
    let (address, _front) = serve(&nodes).await;
    let (double, _) = Double::new();
    let node = dial(&lab.node("one", &double), address);
    let mut session = handle(&nodes, "one")
        .await
        .session(open("a"))
        .await
        .unwrap();
    drop(node);
    let error = session.recv().await.unwrap_err();
    assert!(matches!(error, Error::Connection { .. }), "{error}");
}

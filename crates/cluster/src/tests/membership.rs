//! Nodes come and go, report, and are drained.

use std::sync::Arc;

use super::{Connected, Double, Lab, begin, dial, listener, next, open, serve, soon, until};
use crate::connections::{Registration, State};
use crate::error::Error;
use crate::handshakes::Handshakes;
use crate::identity::Role;
use crate::link::Work;
use crate::member::Member;
use crate::node::Node;
use crate::nodes::Nodes;

#[tokio::test]
async fn nodes_come_and_go_while_they_are_connected() {
    let one = Connected::new().await;
    one.double.set(|report| report.free_space = Some(7));
    let _two = dial(&one.lab.node("two", &one.double), one.address);
    until(&one.nodes, &["one", "two"]).await;
    let info = one.nodes.list().remove(1);
    assert_eq!(info.report.capacity, 4);
    assert_eq!(info.report.free_space, Some(7));
    assert_eq!(info.version.program, "node 1.0");
    drop(one.node);
    until(&one.nodes, &["two"]).await;
}

#[tokio::test]
async fn a_node_dials_again_when_its_front_end_comes_back() {
    let lab = Lab::new();
    let (listener, address) = listener().await;
    let (double, _) = Double::new();
    let _node = dial(&lab.node("one", &double), address);
    for _ in 0..2 {
        let nodes = lab.nodes();
        let (stream, from) = soon(listener.accept()).await.unwrap();
        let permit = Handshakes::default().begin(from.ip()).unwrap();
        let accepting = nodes.clone();
        let front = Work::spawn(async move {
            let _ = Box::pin(accepting.accept(stream, from, permit)).await;
        });
        until(&nodes, &["one"]).await;
        drop(front);
        until(&nodes, &[]).await;
    }
}

#[tokio::test]
async fn a_front_end_dials_nodes_that_listen() {
    let lab = Lab::new();
    let nodes = lab.nodes();
    let (double, mut events) = Double::new();
    let (listener, address) = listener().await;
    let node = lab.node("one", &double);
    let _node = Work::spawn(async move { node.listen(listener).await });
    let dialling = nodes.clone();
    let _front = Work::spawn(async move { dialling.dial(&address.to_string()).await });
    let session = begin(&nodes, "a", &mut events).await;
    drop(session);
}

#[tokio::test]
async fn two_front_ends_share_a_node() {
    let lab = Lab::new();
    let first = lab.nodes();
    let second = lab.member(Role::Front, "second");
    let second = Nodes::new(second, "front 1.0").unwrap();
    let (double, mut events) = Double::new();
    let node = lab.node("one", &double);
    let (to_first, _a) = serve(&first).await;
    let (to_second, b) = serve(&second).await;
    let _dials = [dial(&node, to_first), dial(&node, to_second)];
    let here = begin(&first, "a", &mut events).await;
    let there = begin(&second, "b", &mut events).await;
    // The end of one front end ends its own sessions only.
    drop(b);
    assert_eq!(next(&mut events).await, "b ended");
    assert_eq!(first.list().len(), 1);
    drop(there);
    drop(here);
    assert_eq!(next(&mut events).await, "a ended");
}

#[tokio::test]
async fn a_draining_node_is_not_chosen() {
    let one = Connected::new().await;
    let nodes = &one.nodes;
    assert_eq!(nodes.choose(2, &[]).len(), 1);
    assert_eq!(nodes.choose(2, &["one"]).len(), 0);
    nodes.drain("one", true).await.unwrap();
    assert!(one.double.report.lock().unwrap().draining);
    assert_eq!(nodes.choose(2, &[]).len(), 0);
    assert!(nodes.list()[0].report.draining);
    nodes.drain("one", false).await.unwrap();
    assert_eq!(nodes.choose(2, &[]).len(), 1);
    let absent = nodes.drain("two", true).await.unwrap_err();
    assert!(matches!(absent, Error::NoNode(_)));
}

#[tokio::test]
async fn sessions_that_are_open_count_at_once() {
    let one = Connected::new().await;
    let nodes = &one.nodes;
    let _two = dial(&one.lab.node("two", &one.double), one.address);
    until(nodes, &["one", "two"]).await;
    let mut chosen = Vec::new();
    for _ in 0..8 {
        chosen.extend(nodes.choose(1, &[]));
    }
    for name in ["one", "two"] {
        let count = chosen.iter().filter(|node| node.name() == name).count();
        assert_eq!(count, 4, "{name}");
    }
    assert!(nodes.list().iter().all(|node| node.placed == 4));
    drop(chosen);
    assert!(nodes.list().iter().all(|node| node.placed == 0));
}

#[tokio::test]
async fn a_node_of_another_major_version_is_refused() {
    let lab = Lab::new();
    let nodes = lab.nodes();
    let (listener, address) = listener().await;
    let (double, _) = Double::new();
    let mut node: Node<Double> = lab.node("one", &double);
    node.version.major += 1;
    let accepting = async {
        let (stream, from) = listener.accept().await.unwrap();
        let permit = Handshakes::default().begin(from.ip()).unwrap();
        nodes.accept(stream, from, permit).await.unwrap_err()
    };
    let state = State::default();
    let address = address.to_string();
    let dialled = node.dial_once(&address, Arc::clone(&state));
    let (refused, _) = tokio::join!(accepting, dialled);
    assert_eq!(
        refused.to_string(),
        "cluster: one speaks version 2 of the service, and this program 1: run the same release \
         on every member"
    );
    assert_eq!(*state.borrow(), Registration::Refused);
    assert!(nodes.list().is_empty());
}

#[tokio::test]
async fn a_second_process_of_one_name_is_refused() {
    let one = Connected::new().await;
    let same = Member::load(one.lab.path("one")).unwrap();
    let second = Node::new(same, Arc::new(one.double.clone()), "node 2.0").unwrap();
    let state = State::default();
    let address = one.address.to_string();
    // It ends when the front end closes the connection.
    let _ = soon(second.dial_once(&address, Arc::clone(&state))).await;
    assert_eq!(*state.borrow(), Registration::Refused);
    assert_eq!(one.nodes.list()[0].version.program, "node 1.0");
}

/// Sessions that begin while one node is up are placed anew when another one joins.
#[tokio::test]
async fn sessions_that_are_open_move_to_a_node_that_joins() {
    let one = Connected::new().await;
    let nodes = &one.nodes;
    let mut sessions = Vec::new();
    for task in 0..8 {
        sessions.push([one.session(&task.to_string()).await]);
    }
    assert!(
        sessions
            .iter()
            .all(|session| nodes.misplaced(session).is_none())
    );
    let _two = dial(&one.lab.node("two", &one.double), one.address);
    until(nodes, &["one", "two"]).await;
    for _ in 0..2 {
        for session in &mut sessions {
            if nodes.misplaced(&*session).is_some() {
                let best = nodes.choose(1, &[]).remove(0);
                *session = [best.session(open("again")).await.unwrap()];
            }
        }
        let mut placed: Vec<_> = nodes.list().iter().map(|node| node.placed).collect();
        placed.sort_unstable();
        assert_eq!(placed, [3, 5]);
    }
}

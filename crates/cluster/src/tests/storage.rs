//! The storage of nodes, as a front end uses it.

use std::sync::Arc;

use byte_ranges::RangeSet;
use bytes::Bytes;
use gridftp_dsi::{Create, Dsi as _, DsiPath, ErrorKind, Finish, Sink as _, User};
use gridftp_dsi_posix::Posix;
use gridftp_dsi_rpc::Remote;

use super::{Double, Lab, dial, serve, soon, until};
use crate::connections::{Registration, State};
use crate::node::Node;

fn path(text: String) -> DsiPath {
    DsiPath::new(text.as_bytes()).unwrap()
}

#[tokio::test]
async fn calls_go_to_the_nodes_that_are_there() {
    let lab = Lab::new();
    let nodes = lab.nodes();
    let (address, _front) = serve(&nodes).await;
    let storage = Remote::new(nodes.clone());
    let ann = User::new("ann", DsiPath::root(), true);
    let none = storage.stat(&ann, &DsiPath::root()).await.unwrap_err();
    assert_eq!(none.kind(), ErrorKind::Unavailable);
    assert!(!storage.capabilities().shares_uploads);
    // One storage behind both.
    let (double, _events) = Double::new();
    let one = dial(&lab.node("one", &double), address);
    let _two = dial(&lab.node("two", &double), address);
    until(&nodes, &["one", "two"]).await;
    assert!(storage.capabilities().shares_uploads);
    for n in 0..8 {
        soon(storage.make_dir(&ann, &path(format!("/{n}"))))
            .await
            .unwrap();
    }
    let mut open = Vec::new();
    for n in 0..8 {
        let whole = Create::Whole { size: Some(0) };
        let file = path(format!("/{n}/file"));
        open.push(storage.write(&ann, &file, whole).await.unwrap());
    }
    drop(one);
    until(&nodes, &["two"]).await;
    let mut published = 0;
    for sink in open {
        // Those at the lost node failed with it.
        match soon(sink.finish(Finish::whole(0))).await {
            Ok(_) => published += 1,
            Err(error) => assert!(error.is_transient() || error.kind() == ErrorKind::Io),
        }
    }
    assert!((1..8).contains(&published), "all files were at one node");
    for n in 0..8 {
        soon(storage.remove_tree(&ann, &path(format!("/{n}"))))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn every_node_is_asked_for_partial_files() {
    let lab = Lab::new();
    let nodes = lab.nodes();
    let (address, _front) = serve(&nodes).await;
    let ann = User::new("ann", DsiPath::root(), true);
    std::fs::create_dir(lab.path("tree")).unwrap();
    let mut running = Vec::new();
    for name in ["one", "two"] {
        // One tree; each has an index of its own.
        let index = lab.path(&format!("index-{name}"));
        let posix = Posix::open(&lab.path("tree")).unwrap().with_index(&index);
        let (file, resume) = (path(format!("/{name}")), Create::Resume { size: None });
        let sink = posix.write(&ann, &file, resume).await.unwrap();
        sink.write_at(0, Bytes::from_static(b"part")).await.unwrap();
        sink.checkpoint(&RangeSet::up_to(4), false).await.unwrap();
        drop(sink);
        let (mut double, _) = Double::new();
        double.storage = Arc::new(posix);
        running.push(dial(&lab.node(name, &double), address));
    }
    until(&nodes, &["one", "two"]).await;
    let storage = Remote::new(nodes.clone());
    let listed = soon(storage.partials(&ann, &DsiPath::root())).await;
    let (found, is_cut) = listed.unwrap();
    let names: Vec<_> = found.iter().map(|one| one.name.as_slice()).collect();
    assert_eq!(names, [b"one", b"two"]);
    assert!(!is_cut);
}

#[tokio::test]
async fn a_node_with_another_storage_is_refused() {
    let lab = Lab::new();
    let nodes = lab.nodes();
    let (address, _front) = serve(&nodes).await;
    for tree in ["tree", "other"] {
        std::fs::create_dir(lab.path(tree)).unwrap();
    }
    let over = |name: &str, tree: &str| {
        let (mut double, _) = Double::new();
        double.storage = Arc::new(Posix::open(&lab.path(tree)).unwrap());
        lab.node(name, &double)
    };
    let is_refused = async |node: &Node<Double>| {
        let state = State::default();
        let _ = soon(node.dial_once(&address.to_string(), Arc::clone(&state))).await;
        *state.borrow() == Registration::Refused
    };
    let (one, other) = (over("one", "tree"), over("other", "other"));
    let first = dial(&one, address);
    until(&nodes, &["one"]).await;
    assert!(is_refused(&other).await);
    let _two = dial(&over("two", "tree"), address);
    until(&nodes, &["one", "two"]).await;
    // The front end itself has the other one.
    let own = Posix::open(&lab.path("other")).unwrap();
    nodes.expect_storage(own.identity().unwrap());
    until(&nodes, &[]).await;
    drop(first);
    assert!(is_refused(&one).await);
    let _other = dial(&other, address);
    until(&nodes, &["other"]).await;
}

#[tokio::test]
async fn a_node_that_drains_serves_only_without_another() {
    let lab = Lab::new();
    let nodes = lab.nodes();
    let (address, _front) = serve(&nodes).await;
    let ((one, _), (two, _)) = (Double::new(), Double::new());
    let _one = dial(&lab.node("one", &one), address);
    until(&nodes, &["one"]).await;
    let ann = User::new("ann", DsiPath::root(), true);
    let storage = Remote::new(nodes.clone());
    soon(nodes.drain("one", true)).await.unwrap();
    soon(storage.make_dir(&ann, &path("/alone".into())))
        .await
        .unwrap();
    let _two = dial(&lab.node("two", &two), address);
    until(&nodes, &["one", "two"]).await;
    for n in 0..8 {
        soon(storage.make_dir(&ann, &path(format!("/{n}"))))
            .await
            .unwrap();
    }
    let listed = async |double: &Double| {
        let mut listing = double.storage.list(&ann, &DsiPath::root()).await.unwrap();
        gridftp_dsi::Listing::next(&mut listing)
            .await
            .unwrap()
            .len()
    };
    assert_eq!((listed(&one).await, listed(&two).await), (1, 8));
}

#[tokio::test]
async fn calls_and_open_files_keep_the_storage_of_a_node_in_use() {
    let lab = Lab::new();
    let nodes = lab.nodes();
    let (address, _front) = serve(&nodes).await;
    let (double, _events) = Double::new();
    let node = lab.node("one", &double);
    let _one = dial(&node, address);
    until(&nodes, &["one"]).await;
    let ann = User::new("ann", DsiPath::root(), true);
    let (storage, whole) = (Remote::new(nodes.clone()), Create::Whole { size: None });
    let (published, given_up) = (path("/a".into()), path("/b".into()));
    let published = storage.write(&ann, &published, whole).await.unwrap();
    let given_up = storage.write(&ann, &given_up, whole).await.unwrap();
    assert_eq!(node.storage_uses(), 2);
    soon(published.finish(Finish::whole(0))).await.unwrap();
    drop(given_up);
    // The closing call is on its way.
    soon(async {
        while node.storage_uses() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn listings_that_nobody_reads_delay_no_call() {
    let lab = Lab::new();
    let nodes = lab.nodes();
    let (address, _front) = serve(&nodes).await;
    let (double, _events) = Double::new();
    let ann = User::new("ann", DsiPath::root(), true);
    for n in 0..2000 {
        let name = path(format!("/{n:0200}"));
        double.storage.make_dir(&ann, &name).await.unwrap();
    }
    let _one = dial(&lab.node("one", &double), address);
    until(&nodes, &["one"]).await;
    let storage = Remote::new(nodes.clone());
    let mut unread = Vec::new();
    for _ in 0..200 {
        let listing = soon(storage.list(&ann, &DsiPath::root())).await.unwrap();
        unread.push(listing);
    }
    soon(storage.stat(&ann, &DsiPath::root())).await.unwrap();
}

//! Certificates that are missing, of another cluster, of another role or expired.

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use gridftp_dsi_rpc::proto::DescribeRequest;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, duplex};
use tokio::net::TcpListener;
use tonic::codegen::http::Uri;

use super::{Double, Lab, begin, dial, listener, next, open, serve, soon, until};
use crate::connections::{Registration, State, connect};
use crate::error::{Error, Result};
use crate::handshakes::Handshakes;
use crate::identity::{Identity, Peer, Role};
use crate::link;
use crate::member::Member;
use crate::nodes::Nodes;
use crate::proto;
use crate::proto::node_client::NodeClient;
use crate::tls::{self, NODE};

/// Accepts one connection at a front end.
async fn accept(nodes: &Nodes, listener: &TcpListener) -> Result<()> {
    let (stream, address) = listener.accept().await.unwrap();
    let permit = Handshakes::default().begin(address.ip()).unwrap();
    soon(Box::pin(nodes.accept(stream, address, permit))).await
}

/// Dials with these options, and reads until the end.
async fn read(address: String, config: Arc<ClientConfig>) -> io::Result<Vec<u8>> {
    // Under TLS 1.3 the handshake of the end that dials succeeds in any case.
    let mut stream = connect(&address, config).await.unwrap();
    let mut bytes = Vec::new();
    soon(stream.read_to_end(&mut bytes)).await?;
    Ok(bytes)
}

#[tokio::test]
async fn a_node_of_another_cluster_is_refused() {
    let (here, there) = (Lab::new(), Lab::new());
    let (nodes, (double, _)) = (here.nodes(), Double::new());
    let node = there.node("one", &double);
    let (listener, address) = listener().await;
    let address = address.to_string();
    let dialled = node.dial_once(&address, State::default());
    let (refused, dialled) = tokio::join!(accept(&nodes, &listener), dialled);
    // The node checks first.
    let error = dialled.unwrap_err().to_string();
    assert!(error.contains("UnknownIssuer"), "{error}");
    assert!(refused.is_err());
    assert!(nodes.list().is_empty());
}

#[tokio::test]
async fn a_certificate_of_another_cluster_is_refused_by_a_front_end() {
    let (here, there) = (Lab::new(), Lab::new());
    let nodes = here.nodes();
    // It has the right root of trust, and the wrong certificate.
    let current = there.member(Role::Node, "one").current();
    let credentials = tls::Credentials {
        chain: current.credentials.chain.clone(),
        key: current.credentials.key.clone_key(),
        roots: here.front().current().credentials.roots.clone(),
    };
    let own = here.front();
    let config = tls::client(&credentials, own.own(), Role::Front, NODE).unwrap();
    let (listener, address) = listener().await;
    let dialled = read(address.to_string(), config);
    let (refused, dialled) = tokio::join!(accept(&nodes, &listener), dialled);
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("UnknownIssuer"), "{error}");
    let error = dialled.unwrap_err().to_string();
    assert!(error.contains("UnknownCA"), "{error}");
}

#[tokio::test]
async fn the_certificate_of_a_front_end_makes_no_node() {
    let lab = Lab::new();
    let (nodes, (double, _)) = (lab.nodes(), Double::new());
    let second = lab.member(Role::Front, "second");
    let made = crate::Node::new(Arc::clone(&second), Arc::new(double), "node 1.0");
    assert!(matches!(made, Err(Error::Role { .. })));
    let credentials = &second.current().credentials;
    let config = tls::client(credentials, second.own(), Role::Front, NODE).unwrap();
    let (listener, address) = listener().await;
    let dialled = read(address.to_string(), config);
    let (refused, dialled) = tokio::join!(accept(&nodes, &listener), dialled);
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("/front/second\", expected: Node"), "{error}");
    assert!(dialled.is_err());
}

#[tokio::test]
async fn the_certificate_of_a_node_makes_no_front_end() {
    let lab = Lab::new();
    let (double, mut events) = Double::new();
    let other = lab.member(Role::Node, "other");
    assert!(matches!(
        Nodes::new(Arc::clone(&other), "front"),
        Err(Error::Role { .. })
    ));
    let (listener, address) = listener().await;
    let node = lab.node("one", &double);
    let _node = link::Work::spawn(async move { node.listen(listener).await });
    let credentials = &other.current().credentials;
    let config = tls::client(credentials, other.own(), Role::Node, NODE).unwrap();
    assert!(read(address.to_string(), config).await.is_err());
    assert!(events.try_recv().is_err());
}

#[tokio::test]
async fn without_a_certificate_the_first_call_is_refused() {
    let lab = Lab::new();
    let nodes = lab.nodes();
    let mut roots = RootCertStore::empty();
    for root in &lab.front().current().credentials.roots {
        roots.add(root.clone()).unwrap();
    }
    let current = lab.front().current();
    let root = crate::authority::sha256(&current.credentials.roots[0]);
    // It accepts the front end, which shows its authority on this protocol only.
    let shown = tls::pinned(root).unwrap();
    let mut config = ClientConfig::clone(&current.renew);
    config.client_auth_cert_resolver = shown.client_auth_cert_resolver.clone();
    config.alpn_protocols = vec![NODE.to_vec()];
    let (listener, address) = listener().await;
    let dialled = read(address.to_string(), Arc::new(config));
    let (refused, dialled) = tokio::join!(accept(&nodes, &listener), dialled);
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("peer sent no certificates"), "{error}");
    let error = dialled.unwrap_err().to_string();
    assert!(error.contains("CertificateRequired"), "{error}");
}

#[tokio::test]
async fn every_call_checks_role_and_validity() {
    let lab = Lab::new();
    let cluster = lab.front().identity().cluster.clone();
    let later = SystemTime::now() + Duration::from_secs(60);
    let earlier = SystemTime::now() - Duration::from_secs(60);
    for (cluster, role, not_after, refused) in [
        (&*cluster, Role::Front, later, None),
        (&*cluster, Role::Front, earlier, Some("certificate expired")),
        (
            &*cluster,
            Role::Node,
            later,
            Some("where one of a front is needed"),
        ),
        (
            "other",
            Role::Front,
            later,
            Some("where one of a front is needed"),
        ),
    ] {
        let (double, _) = Double::new();
        let node = lab.node("one", &double);
        let peer = Peer {
            identity: Identity::new(cluster, role, "front").unwrap(),
            issued: earlier,
            not_after,
        };
        let (here, there) = duplex(1 << 16);
        let _node = link::Work::spawn(async move {
            let _ = node.serve(there, peer, State::default()).await;
        });
        let (caller, connection) = link::call(here).await.unwrap();
        let _connection = link::Work::spawn(async { drop(connection.await) });
        let mut storage = gridftp_dsi_rpc::Peer::new("node", caller.clone()).client();
        let mut client = NodeClient::with_origin(caller, Uri::from_static("http://node"));
        let described = soon(storage.describe(DescribeRequest {})).await;
        let code = described.err().map(|status| status.code());
        assert_eq!(code, refused.map(|_| tonic::Code::PermissionDenied));
        let request = proto::DrainRequest { draining: true };
        let answer = soon(client.drain(request)).await;
        match refused {
            None => drop(answer.unwrap()),
            Some(reason) => {
                let status = answer.unwrap_err();
                assert_eq!(status.code(), tonic::Code::PermissionDenied);
                assert!(status.message().contains(reason), "{status}");
            }
        }
        assert_eq!(double.report.lock().unwrap().draining, refused.is_none());
    }
}

#[tokio::test]
async fn a_revoked_node_leaves_at_once_and_joins_again_with_a_new_certificate() {
    let lab = Lab::new();
    let nodes = lab.nodes();
    let (address, _front) = serve(&nodes).await;
    let (double, mut events) = Double::new();
    let node = lab.node("one", &double);
    let _two = dial(&lab.node("two", &double), address);
    let _one = dial(&node, address);
    until(&nodes, &["one", "two"]).await;
    let session = nodes.named("one").unwrap();
    let _session = session.session(open("a")).await.unwrap();
    assert_eq!(next(&mut events).await, "a from front");
    let revoked = crate::revoke(lab.path("front"), Role::Node, "one").unwrap();
    assert!(revoked.to_string().ends_with("/node/one"));
    until(&nodes, &["two"]).await;
    assert_eq!(next(&mut events).await, "a ended");
    let renewed = Member::load(lab.path("one")).unwrap();
    let refused = renewed.renew(&address.to_string()).await;
    assert!(refused.is_err(), "the thief renewed the certificate");
    // The handshake fails, so nothing is registered.
    let _ = soon(node.dial_once(&address.to_string(), State::default())).await;
    until(&nodes, &["two"]).await;
    // As if the revocation were older than the certificate.
    let file = lab.path("front").join("revoked");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("node one "), "{text}");
    std::fs::write(file, "node one 1\n").unwrap();
    until(&nodes, &["one", "two"]).await;
}

/// A thief would otherwise go on in the session that is open.
#[tokio::test]
async fn the_open_streams_of_a_revoked_front_end_end() {
    let lab = Lab::new();
    let second = Nodes::new(lab.member(Role::Front, "second"), "front 1.0").unwrap();
    let (address, _second) = serve(&second).await;
    let (double, mut events) = Double::new();
    let node = lab.node("one", &double);
    let _one = dial(&node, address);
    let mut session = begin(&second, "a", &mut events).await;
    let mut idle = begin(&second, "b", &mut events).await;
    // No request follows, and the work goes on.
    idle.finish();
    crate::revoke(lab.path("front"), Role::Front, "second").unwrap();
    let own = lab.path("one");
    std::fs::copy(lab.path("front").join("revoked"), own.join("copy")).unwrap();
    std::fs::rename(own.join("copy"), own.join("revoked")).unwrap();
    let mut ends = [next(&mut events).await, next(&mut events).await];
    ends.sort_unstable();
    assert_eq!(ends, ["a ended", "b ended"]);
    assert!(soon(session.recv()).await.is_err());
    until(&second, &[]).await;
    assert!(
        soon(node.dial_once(&address.to_string(), State::default()))
            .await
            .is_err()
    );
}

/// The steps of the manual, one right after the other.
#[tokio::test]
async fn a_node_joins_again_at_once_after_its_revocation() {
    let lab = Lab::new();
    let nodes = lab.nodes();
    let (address, _front) = serve(&nodes).await;
    lab.member(Role::Node, "one");
    crate::revoke(lab.path("front"), Role::Node, "one").unwrap();
    let hour = Duration::from_secs(3600);
    let address = address.to_string();
    let token = crate::create_token(lab.path("front"), &address, Role::Node, None, hour).unwrap();
    crate::join(lab.path("again"), &token, "one").await.unwrap();
    let member = Member::load(lab.path("again")).unwrap();
    let node = crate::Node::new(member, Arc::new(Double::new().0), "node 1.0").unwrap();
    let _node = link::Work::spawn(async move { node.dial(&address).await });
    until(&nodes, &["one"]).await;
}

/// Sessions on a connection that another one has replaced are not used for more, and end with the
/// right of the node.
#[tokio::test]
async fn a_replaced_connection_of_a_revoked_node_ends() {
    let lab = Lab::new();
    let nodes = lab.nodes();
    let (address, _front) = serve(&nodes).await;
    let (double, mut events) = Double::new();
    let node = lab.node("one", &double);
    let address = address.to_string();
    let dialled = |state| {
        let (node, address) = (node.clone(), address.clone());
        link::Work::spawn(async move {
            let _ = node.dial_once(&address, state).await;
        })
    };
    let first = State::default();
    let _first = dialled(Arc::clone(&first));
    let mut session = begin(&nodes, "a", &mut events).await;
    assert!(nodes.places_on(&session));
    let _second = dialled(State::default());
    let mut states = first.subscribe();
    let released = states.wait_for(|state| *state == Registration::Released);
    soon(released).await.unwrap();
    assert_eq!(nodes.list()[0].name, "one");
    assert!(session.is_open() && !nodes.places_on(&session));
    crate::revoke(lab.path("front"), Role::Node, "one").unwrap();
    assert!(soon(session.recv()).await.is_err());
    assert_eq!(next(&mut events).await, "a ended");
    until(&nodes, &[]).await;
}

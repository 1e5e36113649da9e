//! Joining by tokens, renewal, and change of the authority.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ftp_wire::command::StackSide;
use tonic::codegen::http::Uri;

use super::{Double, Lab, begin, dial, next, serve, soon, until};
use crate::connections::connect;
use crate::error::Error;
use crate::folder::Folder;
use crate::identity::Role;
use crate::link::{self, Work};
use crate::member::Member;
use crate::message::{FromNode, ToNode};
use crate::node::Node;
use crate::proto;
use crate::proto::authority_client::AuthorityClient;
use crate::token::{self, JoinToken};
use crate::{create_token, join, retire, rotate, tls};

const MINUTE: Duration = Duration::from_secs(60);

impl Lab {
    fn token(&self, front: &str, name: Option<&str>) -> JoinToken {
        let token = create_token(self.path("front"), front, Role::Node, name, MINUTE).unwrap();
        // As it is carried by the administrator.
        token.reveal().parse().unwrap()
    }

    /// The files of a member.
    fn text(&self, member: &str, file: &str) -> String {
        fs::read_to_string(self.path(member).join(file)).unwrap()
    }
}

fn refusal(error: Error) -> String {
    match error {
        Error::Refused { reason, .. } => reason,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_node_joins_with_a_token_once() {
    let lab = Lab::new();
    let nodes = lab.nodes();
    let (address, _front) = serve(&nodes).await;
    let token = lab.token(&address.to_string(), None);
    let identity = join(lab.path("one"), &token, "one").await.unwrap();
    assert_eq!(identity.role, Role::Node);
    assert_eq!(identity.cluster, lab.front().identity().cluster);
    for folder in ["front", "one"] {
        let key: PathBuf = lab.path(folder).join("key.pem");
        assert_eq!(
            fs::metadata(key).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }
    let member = Member::load(lab.path("one")).unwrap();
    let (double, _) = Double::new();
    let node = Node::new(member, Arc::new(double), "node 1.0").unwrap();
    let _node = dial(&node, address);
    until(&nodes, &["one"]).await;
    let replayed = join(lab.path("two"), &token, "two").await.unwrap_err();
    assert!(refusal(replayed).contains("not known here, or used already"));
    assert!(!lab.path("two").join("key.pem").exists());
    let again = join(lab.path("one"), &token, "one").await.unwrap_err();
    assert!(again.to_string().contains("exists already"), "{again}");
}

#[tokio::test]
async fn a_token_is_for_its_name_and_its_cluster() {
    let lab = Lab::new();
    let (address, _front) = serve(&lab.nodes()).await;
    let token = lab.token(&address.to_string(), Some("one"));
    let other = join(lab.path("two"), &token, "two").await.unwrap_err();
    assert!(refusal(other).contains("for a member of another name"));
    let invalid = join(lab.path("two"), &token, "one/../two")
        .await
        .unwrap_err();
    refusal(invalid);
    // A front end of another cluster at the same address is not believed.
    let stranger = Lab::new().token(&address.to_string(), None);
    let refused = join(lab.path("two"), &stranger, "two").await.unwrap_err();
    assert!(refused.to_string().contains("UnknownIssuer"), "{refused}");
    join(lab.path("one"), &token, "one").await.unwrap();
}

#[tokio::test]
async fn requests_for_certificates_are_limited_and_lists_are_not() {
    let lab = Lab::new();
    let (address, _front) = serve(&lab.nodes()).await;
    let token = lab.token(&address.to_string(), Some("one"));
    for _ in 0..30 {
        let other = join(lab.path("two"), &token, "two").await.unwrap_err();
        assert!(refusal(other).contains("for a member of another name"));
    }
    let limited = join(lab.path("one"), &token, "one").await.unwrap_err();
    assert!(refusal(limited).contains("try again in a minute"));
    let front = lab.front();
    for _ in 0..31 {
        assert!(
            front
                .nodes_of(&address.to_string())
                .await
                .unwrap()
                .is_empty()
        );
    }
}

#[test]
fn an_expired_token_is_refused_and_removed() {
    let lab = Lab::new();
    let folder = Folder::new(lab.path("front"));
    let token = lab.token("front:2812", None);
    let now = SystemTime::now();
    token::look_up(&folder, &*token.secret, "one", now).unwrap();
    let expired = token::look_up(&folder, &*token.secret, "one", now + 2 * MINUTE);
    assert!(expired.unwrap_err().to_string().contains("expired"));
    create_token(lab.path("front"), "f:1", Role::Node, None, Duration::ZERO).unwrap();
    assert_eq!(fs::read_dir(folder.path("tokens")).unwrap().count(), 2);
    lab.token("front:2812", None);
    assert_eq!(fs::read_dir(folder.path("tokens")).unwrap().count(), 2);
}

#[test]
fn of_two_uses_at_the_same_time_one_succeeds() {
    let lab = Lab::new();
    let folder = Folder::new(lab.path("front"));
    let token = lab.token("front:2812", None);
    let [one, two] = [(); 2]
        .map(|()| token::look_up(&folder, &*token.secret, "one", SystemTime::now()).unwrap());
    one.use_up().unwrap();
    two.use_up().unwrap_err();
}

#[test]
fn tokens_hide_their_secret_and_reject_other_texts() {
    let token = Lab::new().token("front:2812", None);
    let text = token.reveal();
    let record = format!("{token:?}");
    assert_eq!(record, "JoinToken { front: \"front:2812\", .. }");
    // All of it but the address, of which any part would do.
    for cut in 0..=text.len() - "front:2812".len() * 4 / 3 - 1 {
        assert!(text[..cut].parse::<JoinToken>().is_err(), "{cut}");
    }
    assert!(
        format!("{}{}", &*text, "A".repeat(999))
            .parse::<JoinToken>()
            .is_err()
    );
}

#[tokio::test]
async fn without_a_certificate_only_one_join_is_served() {
    let lab = Lab::new();
    let (address, _front) = serve(&lab.nodes()).await;
    let token = lab.token("front:2812", None);
    let config = tls::pinned(token.authority).unwrap();
    let stream = connect(&address.to_string(), config).await.unwrap();
    let (caller, connection) = link::call(stream).await.unwrap();
    let _connection = Work::spawn(async { drop(connection.await) });
    let mut client = AuthorityClient::with_origin(caller, Uri::from_static("http://a"));
    let renewed = soon(client.renew(proto::RenewRequest::default())).await;
    assert_eq!(renewed.unwrap_err().code(), tonic::Code::Unauthenticated);
    let oversize = proto::JoinRequest {
        secret: Vec::new(),
        name: String::new(),
        request: vec![0; 17 << 10],
    };
    let oversize = soon(client.join(oversize)).await;
    assert_eq!(oversize.unwrap_err().code(), tonic::Code::OutOfRange);
    // A request that cannot be signed leaves the token valid, and uses the connection up.
    let broken = proto::JoinRequest {
        secret: token.secret.to_vec(),
        name: "one".into(),
        request: vec![0; 99],
    };
    let refused = soon(client.join(broken.clone())).await;
    assert_eq!(refused.unwrap_err().code(), tonic::Code::PermissionDenied);
    let second = soon(client.join(broken)).await;
    assert_eq!(second.unwrap_err().code(), tonic::Code::ResourceExhausted);
    let folder = Folder::new(lab.path("front"));
    token::look_up(&folder, &*token.secret, "one", SystemTime::now()).unwrap();
}

#[tokio::test]
async fn a_renewed_certificate_is_used_without_ending_sessions() {
    let lab = Lab::new();
    let nodes = lab.nodes();
    let (address, _front) = serve(&nodes).await;
    let member = lab.member(Role::Node, "one");
    let (double, mut events) = Double::new();
    let node = Node::new(Arc::clone(&member), Arc::new(double), "node 1.0").unwrap();
    let _node = dial(&node, address);
    let mut session = begin(&nodes, "a", &mut events).await;
    let (before, old) = (member.not_after(), nodes.list()[0].address.clone());
    let key = lab.text("one", "key.pem");
    member.renew(&address.to_string()).await.unwrap();
    assert!(member.not_after() > before);
    assert_eq!(lab.text("one", "key.pem"), key);
    // Another connection replaces the old one, which serves its session on.
    let mut changes = nodes.changes();
    while nodes.list().iter().any(|node| node.address == old) {
        assert_eq!(nodes.list().len(), 1);
        soon(changes.changed()).await.unwrap();
    }
    assert_eq!(nodes.list().len(), 1);
    session
        .send(ToNode::Stack(StackSide::Net, None))
        .await
        .unwrap();
    assert_eq!(soon(session.recv()).await.unwrap(), FromNode::Done);
    drop(session);
    assert_eq!(next(&mut events).await, "a ended");
}

#[tokio::test]
async fn a_new_authority_takes_over_while_members_renew() {
    let lab = Lab::new();
    let nodes = lab.nodes();
    let (address, _front) = serve(&nodes).await;
    let text = address.to_string();
    let (old, late) = (
        lab.member(Role::Node, "old"),
        lab.member(Role::Node, "late"),
    );
    rotate(lab.path("front")).unwrap();
    nodes.shared.member.reload().unwrap();
    // A member that has not renewed and one that joins now both connect.
    join(lab.path("new"), &lab.token(&text, None), "new")
        .await
        .unwrap();
    let new = Member::load(lab.path("new")).unwrap();
    let (double, _) = Double::new();
    let connect = |member: &Arc<Member>| {
        let node = Node::new(Arc::clone(member), Arc::new(double.clone()), "node 1.0");
        dial(&node.unwrap(), address)
    };
    let first = [connect(&old), connect(&new)];
    until(&nodes, &["new", "old"]).await;
    drop(first);
    until(&nodes, &[]).await;
    old.renew(&text).await.unwrap();
    assert_eq!(lab.text("old", "ca.pem"), lab.text("front", "ca.pem"));
    // The trust in the old authority ends.
    retire(lab.path("front")).unwrap();
    nodes.shared.member.reload().unwrap();
    let _ends = [connect(&old), connect(&new)];
    until(&nodes, &["new", "old"]).await;
    let (listener, address) = super::listener().await;
    let late = Node::new(late, Arc::new(double.clone()), "node 1.0").unwrap();
    let address = address.to_string();
    let accepted = async {
        let (stream, from) = listener.accept().await.unwrap();
        let permit = crate::handshakes::Handshakes::default().begin(from.ip());
        nodes.accept(stream, from, permit.unwrap()).await
    };
    let (accepted, _) = tokio::join!(accepted, late.dial_once(&address, Arc::default()));
    accepted.unwrap_err();
    // The front end renews by its own authority.
    nodes.shared.member.renew("").await.unwrap();
}

#[tokio::test]
async fn a_front_end_without_the_authority_issues_nothing() {
    let lab = Lab::new();
    let second = lab.member(Role::Front, "second");
    let second = crate::Nodes::new(second, "front 1.0").unwrap();
    let (address, _front) = serve(&second).await;
    let token = lab.token(&address.to_string(), None);
    let refused = join(lab.path("one"), &token, "one").await.unwrap_err();
    assert!(refusal(refused).contains("holds no authority"));
}

#[test]
fn a_key_that_others_may_read_is_refused() {
    let lab = Lab::new();
    let key = lab.path("front").join("key.pem");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).unwrap();
    let error = Member::load(lab.path("front")).unwrap_err().to_string();
    assert!(
        error.ends_with("others have access (mode 640): chmod 600"),
        "{error}"
    );
    let error = crate::init(lab.path("front"), "front")
        .unwrap_err()
        .to_string();
    assert!(error.contains("exists already"), "{error}");
}

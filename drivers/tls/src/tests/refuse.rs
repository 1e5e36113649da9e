//! Refused peers, and the errors at both ends.

use xio_core::{ErrorKind, Operation, Target, Transform as _};
use xio_testkit::{Authority, Mem, Validity};

use super::{HOST, drain, identity, message, roots, shake, target};
use crate::{MinVersion, Roots, Tls};

/// The errors of the client and the server when a certificate is refused.
async fn said(client: &Tls, server: &Tls) -> (String, String) {
    let (near, far) = Mem::new().pair();
    let (near, far) = shake(client, server, near, far).await;
    let near = match near {
        Err(error) => error.to_string(),
        // In TLS 1.3 a client learns of the server's refusal when it reads.
        Ok(mut near) => match drain(&mut near).await.1 {
            Ok(()) => "it worked".to_owned(),
            Err(error) => error.to_string(),
        },
    };
    let far = far.map_or_else(|error| error.to_string(), |_| "it worked".to_owned());
    (near, far)
}

#[tokio::test]
async fn a_server_certificate_is_refused_with_its_reason() {
    let authority = Authority::new("test authority");
    let client = Tls::client(roots(&authority)).build().unwrap();
    let stranger = Authority::new("somebody else");
    for (own, near_says, far_says) in [
        (
            authority.issue_valid("old", &[HOST], Validity::Expired),
            "expired",
            "our certificate has expired",
        ),
        (
            authority.issue_valid("early", &[HOST], Validity::NotYet),
            "becomes valid in",
            "refused by the peer",
        ),
        (
            authority.issue("other", &["one.example.org", "two.example.org"]),
            "is not for dtn.example.org but for",
            "does not accept our certificate",
        ),
        (
            stranger.issue("server", &[HOST]),
            "comes from an authority that is not trusted here",
            "does not trust the authority",
        ),
    ] {
        let server = Tls::server(identity(&own)).build().unwrap();
        let (near, far) = said(&client, &server).await;
        assert!(
            near.starts_with("tls: connect: ") && near.contains(near_says),
            "{near}"
        );
        assert!(
            far.starts_with("tls: open: ") && far.contains(far_says),
            "{far}"
        );
    }
}

#[tokio::test]
async fn a_client_without_a_good_certificate_is_refused() {
    let authority = Authority::new("test authority");
    let stranger = Authority::new("somebody else");
    let server = Tls::server(identity(&authority.issue("server", &[HOST])))
        .require_client_certificates(roots(&authority))
        .build()
        .unwrap();
    let bare = Tls::client(roots(&authority)).build().unwrap();
    let (near, far) = said(&bare, &server).await;
    assert!(near.contains("give one with cert and key"), "{near}");
    assert!(far.contains("showed no certificate"), "{far}");
    let other = Tls::client(roots(&authority))
        .client_identity(identity(&stranger.issue("user", &[])))
        .build()
        .unwrap();
    let (near, far) = said(&other, &server).await;
    assert!(near.contains("does not trust the authority"), "{near}");
    assert!(far.contains("not trusted here"), "{far}");
    let old = authority.issue_valid("user", &[], Validity::Expired);
    let old = Tls::client(roots(&authority))
        .client_identity(identity(&old))
        .build()
        .unwrap();
    let (near, far) = said(&old, &server).await;
    assert!(near.contains("our certificate has expired"), "{near}");
    assert!(far.contains("expired") && far.contains("days ago"), "{far}");
}

#[tokio::test]
async fn the_name_is_the_targets_or_the_users() {
    let authority = Authority::new("test authority");
    let own = identity(&authority.issue("server", &["10.0.0.7", HOST]));
    let server = Tls::server(own).build().unwrap();
    let client = Tls::client(roots(&authority)).build().unwrap();
    let named = Tls::client(roots(&authority))
        .server_name(HOST)
        .build()
        .unwrap();
    let try_as = async |client: &Tls, target: Target| {
        let (near, far) = Mem::new().pair();
        let (near, _) = tokio::join!(client.initiate(near, &target), server.respond(far));
        near.map(|_| ()).map_err(|error| error.to_string())
    };
    try_as(&client, "10.0.0.7:2811".parse().unwrap())
        .await
        .unwrap();
    try_as(
        &client,
        "ftp://<dtn.example.org>:127.0.0.1:2811".parse().unwrap(),
    )
    .await
    .unwrap();
    let error = try_as(&client, "10.0.0.8:2811".parse().unwrap())
        .await
        .unwrap_err();
    assert!(error.contains("is not for 10.0.0.8"), "{error}");
    try_as(&named, "10.0.0.8:2811".parse().unwrap())
        .await
        .unwrap();
    let error = try_as(&client, "/a/path".parse().unwrap())
        .await
        .unwrap_err();
    assert!(error.contains("expected name in the option"), "{error}");
    let error = Tls::client(roots(&authority))
        .server_name("not a name")
        .build();
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("neither a host name")
    );
}

#[tokio::test]
async fn handshakes_without_common_parameters_name_them() {
    let authority = Authority::new("test authority");
    let own = identity(&authority.issue("server", &[HOST]));
    let server = Tls::server(own).alpn(["ftp"]).build().unwrap();
    let client = Tls::client(roots(&authority)).alpn(["h2"]).build().unwrap();
    let (near, far) = said(&client, &server).await;
    assert!(near.contains("named in alpn"), "{near}");
    assert!(far.contains("named in alpn"), "{far}");
}

#[tokio::test]
async fn a_layer_made_for_one_end_says_so_at_the_other() {
    let authority = Authority::new("test authority");
    let server = Tls::server(identity(&authority.issue("server", &[HOST])))
        .min_version(MinVersion::Tls13)
        .build()
        .unwrap();
    let client = Tls::client(Roots::system()).build().unwrap();
    let (near, far) = Mem::new().pair();
    let error = server.initiate(near, &target()).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.operation()),
        (ErrorKind::Unsupported, Operation::Connect)
    );
    let error = message(client.respond(far)).await;
    assert!(error.contains("give it in the option cert"), "{error}");
}

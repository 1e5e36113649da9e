//! TLS of a member: version 1.3, certificates of the cluster's own authorities, and their roles.

use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, OtherError,
    PeerIncompatible, RootCertStore, ServerConfig, SignatureScheme,
};

use crate::authority::sha256;
use crate::error::{Error, Result};
use crate::identity::{Identity, Peer, Role};
use crate::revocations::Revocations;

/// The protocol of a connection on which the front end calls the node.
pub(crate) const NODE: &[u8] = b"gridftp-cluster";
/// The protocol of a connection on which a program asks for a certificate.
pub(crate) const AUTHORITY: &[u8] = b"gridftp-cluster-authority";

/// The certificates of one end.
#[derive(Debug)]
pub(crate) struct Credentials {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
    pub(crate) roots: Vec<CertificateDer<'static>>,
}

fn algorithms() -> WebPkiSupportedAlgorithms {
    aws_lc_rs::default_provider().signature_verification_algorithms
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// The methods of both verifiers that concern signatures. TLS 1.2 is not offered.
macro_rules! signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            Err(PeerIncompatible::Tls12NotOffered.into())
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            verify_tls13_signature(message, certificate, signature, &algorithms())
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            algorithms().supported_schemes()
        }
    };
}

/// Accepts members of one cluster with one role, or of both where it is `None`.
#[derive(Debug)]
struct Members {
    /// Checks chain and signatures. It demands no host name, which a member does not have.
    chain: Arc<dyn ClientCertVerifier>,
    /// The cluster; `None` where the root is known to be the cluster's own.
    cluster: Option<String>,
    role: Option<Role>,
    revocations: Option<Arc<Revocations>>,
}

/// The end that checks a peer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Own<'a> {
    pub(crate) identity: &'a Identity,
    pub(crate) revocations: &'a Arc<Revocations>,
}

impl Members {
    fn check(&self, certificate: &CertificateDer<'_>) -> Result<(), rustls::Error> {
        let refuse = |error: Error| {
            let error = OtherError(Arc::new(error));
            rustls::Error::InvalidCertificate(CertificateError::Other(error))
        };
        let peer = Peer::of_certificate(certificate).map_err(refuse)?;
        if let Some(revocations) = &self.revocations {
            revocations.check(&peer).map_err(refuse)?;
        }
        let role = self.role.unwrap_or(peer.identity.role);
        let Identity { cluster, .. } = &peer.identity;
        let of_cluster = self.cluster.as_ref().is_none_or(|own| own == cluster);
        match of_cluster && peer.identity.role == role {
            true => Ok(()),
            false => Err(refuse(Error::Role {
                found: peer.identity.to_string(),
                expected: role,
            })),
        }
    }
}

impl ClientCertVerifier for Members {
    fn client_auth_mandatory(&self) -> bool {
        self.chain.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verified = self
            .chain
            .verify_client_cert(end_entity, intermediates, now)?;
        self.check(end_entity)?;
        Ok(verified)
    }

    signatures!();
}

/// The same check at the end that dials, with authorities that are known, or that the peer shows.
#[derive(Debug)]
enum Dialled {
    Members(Members),
    /// A front end of the authority with this SHA-256, which it shows itself.
    Pinned([u8; 32]),
}

impl ServerCertVerifier for Dialled {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let pinned;
        let members = match self {
            Self::Members(members) => members,
            Self::Pinned(authority) => {
                let root = intermediates
                    .iter()
                    .find(|certificate| sha256(certificate) == *authority)
                    .ok_or(CertificateError::UnknownIssuer)?
                    .clone()
                    .into_owned();
                let front = Some(Role::Front);
                pinned = members(&[root], None, front, Certificate::Mandatory)
                    .map_err(|error| rustls::Error::General(error.to_string()))?;
                &pinned
            }
        };
        members
            .verify_client_cert(end_entity, intermediates, now)
            .map(|_| ServerCertVerified::assertion())
    }

    signatures!();
}

/// Whether a peer may come without a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Certificate {
    Mandatory,
    Optional,
}

fn members(
    roots: &[CertificateDer<'static>],
    own: Option<Own<'_>>,
    role: Option<Role>,
    certificate: Certificate,
) -> Result<Members> {
    let mut store = RootCertStore::empty();
    for root in roots {
        store
            .add(root.clone())
            .map_err(|error| Error::certificate("ca.pem", error))?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(store), provider());
    let builder = match certificate {
        Certificate::Mandatory => builder,
        Certificate::Optional => builder.allow_unauthenticated(),
    };
    let chain = builder
        .build()
        .map_err(|error| Error::certificate("ca.pem", error))?;
    Ok(Members {
        chain,
        cluster: own.map(|own| own.identity.cluster.clone()),
        role,
        revocations: own.map(|own| Arc::clone(own.revocations)),
    })
}

fn bad_pair(error: rustls::Error) -> Error {
    Error::certificate("cert.pem and key.pem", error)
}

/// The end that accepts connections of one protocol.
pub(crate) fn server(
    credentials: &Credentials,
    own: Own<'_>,
    role: Option<Role>,
    certificate: Certificate,
    protocol: &[u8],
) -> Result<Arc<ServerConfig>> {
    let verifier = members(&credentials.roots, Some(own), role, certificate)?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(bad_pair)?
        .with_client_cert_verifier(Arc::new(verifier))
        .with_single_cert(credentials.chain.clone(), credentials.key.clone_key())
        .map_err(bad_pair)?;
    config.alpn_protocols = vec![protocol.to_vec()];
    // A resumed session would outlive a change of authorities.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// The end that dials a member with this role.
pub(crate) fn client(
    credentials: &Credentials,
    own: Own<'_>,
    role: Role,
    protocol: &[u8],
) -> Result<Arc<ClientConfig>> {
    let verifier = members(
        &credentials.roots,
        Some(own),
        Some(role),
        Certificate::Mandatory,
    )?;
    let config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(bad_pair)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Dialled::Members(verifier)))
        .with_client_auth_cert(credentials.chain.clone(), credentials.key.clone_key())
        .map_err(bad_pair)?;
    Ok(Arc::new(dialling(config, protocol)))
}

/// The end that dials a front end of the authority whose certificate has this SHA-256, and that has
/// no certificate itself.
pub(crate) fn pinned(authority: [u8; 32]) -> Result<Arc<ClientConfig>> {
    let config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(bad_pair)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Dialled::Pinned(authority)))
        .with_no_client_auth();
    Ok(Arc::new(dialling(config, AUTHORITY)))
}

/// Sets the options that every dialling end has.
fn dialling(mut config: ClientConfig, protocol: &[u8]) -> ClientConfig {
    config.alpn_protocols = vec![protocol.to_vec()];
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    config
}

/// The name that TLS demands of a server, which no member checks.
pub(crate) fn server_name() -> ServerName<'static> {
    ServerName::try_from("gridftp-cluster").expect("a valid name")
}

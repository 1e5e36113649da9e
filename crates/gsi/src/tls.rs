//! TLS for Grid security: configurations of rustls whose certificates a [`Verifier`] judges.

use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::ResolvesServerCert;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::SingleCertAndKey;
use rustls::time_provider::TimeProvider;
use rustls::{
    CertificateError, ClientConfig, CommonState, DigitallySignedStruct, DistinguishedName, Error,
    OtherError, PeerMisbehaved, ServerConfig, SignatureScheme, SupportedProtocolVersion,
};
use tls_secrets::records;

use crate::certificate::Certificate;
use crate::credential::Credential;
use crate::verify::{Once, Peer, Refusal, Verifier};
use crate::vhost::Choice;
use crate::{der, sni};

/// The parts that the two ends of all connections have in common.
#[derive(Clone, Debug)]
pub struct Tls {
    verifier: Arc<dyn Verifier>,
    clock: Arc<dyn TimeProvider>,
    versions: Versions,
}

/// Versions of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Versions {
    /// TLS 1.2 and 1.3.
    #[default]
    All,
    /// TLS 1.2 only.
    Tls12,
    /// TLS 1.3 only.
    Tls13,
}

/// The rule for clients without a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Clients {
    /// They are refused.
    #[default]
    Certified,
    /// They come in, without a [`Peer`].
    Anonymous,
}

/// A clock that stands, for tests.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "it is this value")]
pub struct Fixed(pub UnixTime);

impl TimeProvider for Fixed {
    fn current_time(&self) -> Option<UnixTime> {
        Some(self.0)
    }
}

impl Tls {
    /// Takes the judge of certificates and the clock that the handshakes ask.
    pub fn new(verifier: Arc<dyn Verifier>, clock: Arc<dyn TimeProvider>) -> Self {
        Self {
            verifier,
            clock,
            versions: Versions::All,
        }
    }

    /// Restricts the versions.
    #[must_use]
    pub fn versions(mut self, versions: Versions) -> Self {
        self.versions = versions;
        self
    }

    /// Returns the parts for one connection: the chain of its peer is judged in the handshake, and
    /// that verdict serves its owner too. Of another connection they would remember the peer.
    #[must_use]
    pub fn once(&self) -> Self {
        Self {
            verifier: Arc::new(Once::new(Arc::clone(&self.verifier))),
            ..self.clone()
        }
    }

    /// Returns the judge of certificates.
    pub fn verifier(&self) -> &Arc<dyn Verifier> {
        &self.verifier
    }

    /// Configures the end that connects; without a credential it is anonymous.
    ///
    /// The name of the server is not compared with its certificate here: the name rules of Grid
    /// security are the caller's part, with the verified [`Peer`]. No session is resumed.
    ///
    /// # Errors
    ///
    /// The provider of cryptography has no cipher suite for a version.
    pub fn client(&self, credential: Option<&Credential>) -> Result<ClientConfig, Error> {
        self.client_with(records::provider(), credential)
    }

    pub(crate) fn client_with(
        &self,
        provider: CryptoProvider,
        credential: Option<&Credential>,
    ) -> Result<ClientConfig, Error> {
        let provider = Arc::new(provider);
        let judge = self.judge(&provider, Clients::Certified);
        let builder = ClientConfig::builder_with_details(provider, Arc::clone(&self.clock))
            .with_protocol_versions(self.versions.list())?
            .dangerous()
            .with_custom_certificate_verifier(judge);
        let mut config = match credential {
            Some(credential) => builder.with_client_cert_resolver(resolver(credential)),
            None => builder.with_no_client_auth(),
        };
        config.resumption = Resumption::disabled();
        Ok(config)
    }

    /// Configures the end that is connected to. There are no session tickets, since the peer would
    /// take one for the byte that ends the exchange.
    ///
    /// # Errors
    ///
    /// The provider of cryptography has no cipher suite for a version.
    pub fn server(&self, credential: &Credential, clients: Clients) -> Result<ServerConfig, Error> {
        self.server_with(records::provider(), resolver(credential), clients)
    }

    /// Configures the end that is connected to like [`server`](Self::server), for one connection,
    /// whose client chooses the credential by the name that it asks for.
    ///
    /// # Errors
    ///
    /// The provider of cryptography has no cipher suite for a version.
    pub fn server_of(&self, choice: Arc<Choice>, clients: Clients) -> Result<ServerConfig, Error> {
        self.server_with(records::provider(), choice, clients)
    }

    /// Configures the end of a data channel that is connected to, behind a
    /// [`NameFilter`](sni::NameFilter) for each connection.
    ///
    /// # Errors
    ///
    /// The provider of cryptography has no cipher suite for a version.
    pub fn data_server(&self, credential: &Credential) -> Result<ServerConfig, Error> {
        self.server_with(sni::provider(), resolver(credential), Clients::Certified)
    }

    pub(crate) fn server_with(
        &self,
        provider: CryptoProvider,
        resolver: Arc<dyn ResolvesServerCert>,
        clients: Clients,
    ) -> Result<ServerConfig, Error> {
        let provider = Arc::new(provider);
        let judge = self.judge(&provider, clients);
        let mut config = ServerConfig::builder_with_details(provider, Arc::clone(&self.clock))
            .with_protocol_versions(self.versions.list())?
            .with_client_cert_verifier(judge)
            .with_cert_resolver(resolver);
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        Ok(config)
    }

    fn judge(&self, provider: &Arc<CryptoProvider>, clients: Clients) -> Arc<Judge> {
        Arc::new(Judge {
            verifier: Arc::clone(&self.verifier),
            provider: Arc::clone(provider),
            clients,
        })
    }

    /// Returns the peer of a connection whose handshake is complete; `None` if it is anonymous.
    ///
    /// # Errors
    ///
    /// The chain is no longer valid at `now`.
    pub fn peer(&self, connection: &CommonState, now: UnixTime) -> Result<Option<Peer>, Refusal> {
        let chain = connection.peer_certificates();
        chain
            .map(|chain| self.verifier.verify(chain, now))
            .transpose()
    }
}

impl Versions {
    fn list(self) -> &'static [&'static SupportedProtocolVersion] {
        static TLS12: &[&SupportedProtocolVersion] = &[&rustls::version::TLS12];
        static TLS13: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13];
        match self {
            Self::All => rustls::ALL_VERSIONS,
            Self::Tls12 => TLS12,
            Self::Tls13 => TLS13,
        }
    }
}

/// Returns the refusal of the peer's certificate in an error of rustls.
pub fn refusal(error: &Error) -> Option<&Refusal> {
    match error {
        Error::InvalidCertificate(CertificateError::Other(OtherError(error))) => {
            error.downcast_ref()
        }
        _ => None,
    }
}

pub(crate) fn resolver(credential: &Credential) -> Arc<SingleCertAndKey> {
    Arc::new(SingleCertAndKey::from(credential.certified_key()))
}

/// A [`Verifier`] in the place that rustls has for one, on both ends.
#[derive(Debug)]
struct Judge {
    verifier: Arc<dyn Verifier>,
    provider: Arc<CryptoProvider>,
    clients: Clients,
}

impl Judge {
    fn chain(
        &self,
        leaf: &CertificateDer<'_>,
        above: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        let chain: Vec<CertificateDer<'_>> = std::iter::once(leaf)
            .chain(above)
            .map(|der| CertificateDer::from(&**der))
            .collect();
        let verdict = self.verifier.verify(&chain, now);
        verdict.map(drop).map_err(|refusal| {
            let other = OtherError(Arc::new(refusal));
            Error::InvalidCertificate(CertificateError::Other(other))
        })
    }

    /// Verifies a signature of the transcript in TLS 1.2. The helpers of rustls refuse proxies,
    /// whose extension is critical.
    fn signed12(
        &self,
        transcript: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let spki = public_key(leaf)?;
        let (kind, key) = der::public_key(&spki).ok_or(CertificateError::BadEncoding)?;
        let algorithms = self.provider.signature_verification_algorithms.mapping;
        let (_, known) = algorithms
            .iter()
            .find(|(scheme, _)| *scheme == signed.scheme)
            .ok_or(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme)?;
        let algorithm = known
            .iter()
            .find(|algorithm| algorithm.public_key_alg_id().as_ref() == kind)
            .ok_or(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme)?;
        algorithm
            .verify_signature(key, &sni::sent(transcript), signed.signature())
            .map_err(|_| CertificateError::BadSignature)?;
        Ok(HandshakeSignatureValid::assertion())
    }

    fn signed13(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let spki = SubjectPublicKeyInfoDer::from(public_key(leaf)?);
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature_with_raw_key(message, &spki, signed, algorithms)
    }
}

fn public_key(leaf: &CertificateDer<'_>) -> Result<Vec<u8>, Error> {
    let leaf = Certificate::parse(CertificateDer::from(&**leaf));
    let leaf = leaf.map_err(|_| CertificateError::BadEncoding)?;
    Ok(leaf.public_key().to_vec())
}

impl ServerCertVerifier for Judge {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        above: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.chain(leaf, above, now)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed12(message, leaf, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed13(message, leaf, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

impl ClientCertVerifier for Judge {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // GCT sends none, and its clients have one credential anyway.
        &[]
    }

    fn client_auth_mandatory(&self) -> bool {
        self.clients == Clients::Certified
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        above: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.chain(leaf, above, now)?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed12(message, leaf, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed13(message, leaf, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

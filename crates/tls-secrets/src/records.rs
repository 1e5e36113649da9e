//! Cipher suites that decrypt the data of records in place, of which rustls then keeps no copy.
//!
//! rustls copies the data of each received record into memory that it frees as it is, be the data a
//! password or a key. The suites of [`provider`] give rustls its first byte alone, as a sign that
//! data is there, and note its place in the buffer of received records. This holds inside [`step`]
//! only, around a call into a connection of `rustls::unbuffered`; elsewhere they are those of rustls.

use std::cell::Cell;
use std::sync::OnceLock;

use rustls::crypto::cipher::{
    AeadKey, InboundOpaqueMessage, InboundPlainMessage, Iv, KeyBlockShape, MessageDecrypter,
    MessageEncrypter, Tls12AeadAlgorithm, Tls13AeadAlgorithm, UnsupportedOperationError,
};
use rustls::crypto::{CipherSuiteCommon, CryptoProvider, aws_lc_rs};
use rustls::unbuffered::{ConnectionState, UnbufferedStatus};
use rustls::{
    ConnectionTrafficSecrets, ContentType, Error, SupportedCipherSuite, Tls12CipherSuite,
    Tls13CipherSuite,
};

/// The place of decrypted data in the buffer of received records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    address: usize,
    length: usize,
}

impl Place {
    fn of(data: &[u8]) -> Self {
        Self {
            address: data.as_ptr().addr(),
            length: data.len(),
        }
    }

    /// Returns the data in the buffer that rustls decrypted.
    ///
    /// # Errors
    ///
    /// It is another buffer.
    fn within(self, received: &[u8]) -> Result<&[u8], Error> {
        let start = self.address.checked_sub(received.as_ptr().addr());
        let end = start.and_then(|start| start.checked_add(self.length));
        let data = start.zip(end).and_then(|(from, to)| received.get(from..to));
        data.ok_or_else(|| Error::General("data was decrypted in another buffer".to_owned()))
    }
}

/// Whether this thread is inside [`in_place`].
#[derive(Clone, Copy)]
enum Scope {
    Outside,
    /// With the place of the data, once there is any.
    Inside(Option<Place>),
}

thread_local! {
    static SCOPE: Cell<Scope> = const { Cell::new(Scope::Outside) };
}

/// Ends the scope, after a panic too.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        SCOPE.set(Scope::Outside);
    }
}

/// Makes one call of `process_tls_records`: passes the data of a record to `sink`, and any other
/// state of the connection to `act`.
///
/// `received` must be the whole buffer every time. Returns the number of bytes to discard at its
/// front, and the result of `act`; `None` after data.
///
/// # Errors
///
/// Those of rustls and of `act`. Data of more than one record, which is not all known, is an error.
pub fn step<'c, D: 'c, T>(
    received: &mut [u8],
    process: impl for<'i> FnOnce(&'i mut [u8]) -> UnbufferedStatus<'c, 'i, D>,
    sink: &mut dyn FnMut(&[u8]),
    act: impl for<'i> FnOnce(ConnectionState<'c, 'i, D>) -> Result<T, Error>,
) -> (usize, Result<Option<T>, Error>) {
    let whole = &mut *received;
    let (status, place) = in_place(move || process(whole));
    let mut seen = status.discard;
    let mut records = 0;
    match status.state {
        Err(error) => return (seen, Err(error)),
        Ok(ConnectionState::ReadTraffic(mut traffic)) => {
            while let Some(record) = traffic.next_record() {
                let record = match record {
                    Ok(record) => record,
                    Err(error) => return (seen, Err(error)),
                };
                seen += record.discard;
                records += 1;
                if place.is_none() {
                    sink(record.payload);
                }
            }
        }
        Ok(state) if place.is_none() => return (seen, act(state).map(Some)),
        Ok(_) => {}
    }
    let Some(place) = place else {
        return (seen, Ok(None));
    };
    if records != 1 {
        return (seen, Err(several()));
    }
    (seen, place.within(received).map(sink).map(|()| None))
}

/// The payloads that rustls has would be parts of the data.
fn several() -> Error {
    Error::General("not one record was decrypted in a call, but several".to_owned())
}

/// Makes one call of `process_tls_records`, and returns the place of the data that it decrypted.
///
/// With a place, the payload of the record that rustls returns is the first byte of this data.
/// Without one there is no data, or the configuration has other cipher suites, and the payload is
/// whole.
fn in_place<R>(process: impl FnOnce() -> R) -> (R, Option<Place>) {
    SCOPE.set(Scope::Inside(None));
    let end = End;
    let done = process();
    let place = match SCOPE.get() {
        Scope::Inside(place) => place,
        Scope::Outside => None,
    };
    drop(end);
    (done, place)
}

/// Returns the provider of rustls and `aws-lc-rs`, with the cipher suites of this module.
pub fn provider() -> CryptoProvider {
    static SUITES: OnceLock<Vec<SupportedCipherSuite>> = OnceLock::new();
    let stock = aws_lc_rs::default_provider();
    let suites = SUITES.get_or_init(|| stock.cipher_suites.iter().map(noting).collect());
    CryptoProvider {
        cipher_suites: suites.clone(),
        ..stock
    }
}

/// A suite that notes places. It is never freed, and made once.
fn noting(suite: &SupportedCipherSuite) -> SupportedCipherSuite {
    let common = |common: &CipherSuiteCommon| CipherSuiteCommon {
        suite: common.suite,
        hash_provider: common.hash_provider,
        confidentiality_limit: common.confidentiality_limit,
    };
    match *suite {
        SupportedCipherSuite::Tls12(suite) => {
            SupportedCipherSuite::Tls12(Box::leak(Box::new(Tls12CipherSuite {
                common: common(&suite.common),
                aead_alg: Box::leak(Box::new(Noting12(suite.aead_alg))),
                ..*suite
            })))
        }
        SupportedCipherSuite::Tls13(suite) => {
            SupportedCipherSuite::Tls13(Box::leak(Box::new(Tls13CipherSuite {
                common: common(&suite.common),
                aead_alg: Box::leak(Box::new(Noting13(suite.aead_alg))),
                ..*suite
            })))
        }
    }
}

struct Noting12(&'static dyn Tls12AeadAlgorithm);

impl Tls12AeadAlgorithm for Noting12 {
    fn encrypter(&self, key: AeadKey, iv: &[u8], extra: &[u8]) -> Box<dyn MessageEncrypter> {
        self.0.encrypter(key, iv, extra)
    }

    fn decrypter(&self, key: AeadKey, iv: &[u8]) -> Box<dyn MessageDecrypter> {
        Box::new(Noting(self.0.decrypter(key, iv)))
    }

    fn key_block_shape(&self) -> KeyBlockShape {
        self.0.key_block_shape()
    }

    fn extract_keys(
        &self,
        key: AeadKey,
        iv: &[u8],
        explicit: &[u8],
    ) -> Result<ConnectionTrafficSecrets, UnsupportedOperationError> {
        self.0.extract_keys(key, iv, explicit)
    }

    fn fips(&self) -> bool {
        self.0.fips()
    }
}

struct Noting13(&'static dyn Tls13AeadAlgorithm);

impl Tls13AeadAlgorithm for Noting13 {
    fn encrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageEncrypter> {
        self.0.encrypter(key, iv)
    }

    fn decrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageDecrypter> {
        Box::new(Noting(self.0.decrypter(key, iv)))
    }

    fn key_len(&self) -> usize {
        self.0.key_len()
    }

    fn extract_keys(
        &self,
        key: AeadKey,
        iv: Iv,
    ) -> Result<ConnectionTrafficSecrets, UnsupportedOperationError> {
        self.0.extract_keys(key, iv)
    }

    fn fips(&self) -> bool {
        self.0.fips()
    }
}

struct Noting(Box<dyn MessageDecrypter>);

impl MessageDecrypter for Noting {
    fn decrypt<'a>(
        &mut self,
        message: InboundOpaqueMessage<'a>,
        seq: u64,
    ) -> Result<InboundPlainMessage<'a>, Error> {
        let mut plain = self.0.decrypt(message, seq)?;
        // rustls counts empty records itself, and bounds them.
        if plain.typ == ContentType::ApplicationData
            && let Scope::Inside(place) = SCOPE.get()
            && let Some(first) = plain.payload.get(..1)
        {
            if place.is_some() {
                return Err(several());
            }
            SCOPE.set(Scope::Inside(Some(Place::of(plain.payload))));
            plain.payload = first;
        }
        Ok(plain)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::client::UnbufferedClientConnection;
    use rustls::pki_types::{PrivateKeyDer, ServerName};
    use rustls::server::UnbufferedServerConnection;
    use rustls::unbuffered::EncodeError;
    use rustls::{ClientConfig, ProtocolVersion, RootCertStore, ServerConfig};

    use super::*;

    /// The two ends of a session, with the suites of `server` at the end that reads.
    fn ends(
        suite: SupportedCipherSuite,
        server: CryptoProvider,
    ) -> (UnbufferedClientConnection, UnbufferedServerConnection) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let own = made.cert.der().clone();
        let mut roots = RootCertStore::empty();
        roots.add(own.clone()).unwrap();
        let provider = CryptoProvider {
            cipher_suites: vec![suite],
            ..aws_lc_rs::default_provider()
        };
        let client = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[suite.version()])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
        let server = ServerConfig::builder_with_provider(Arc::new(server))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![own], key)
            .unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        (
            UnbufferedClientConnection::new(Arc::new(client), name).unwrap(),
            UnbufferedServerConnection::new(Arc::new(server)).unwrap(),
        )
    }

    /// Acts on a state; returns the bytes to discard, the payload of a record, and whether to go on.
    fn settle<D>(
        status: UnbufferedStatus<'_, '_, D>,
        out: &mut Vec<u8>,
        word: &mut Option<&[u8]>,
    ) -> (usize, Option<Vec<u8>>, bool) {
        let (mut payload, mut more) = (None, true);
        match status.state.unwrap() {
            ConnectionState::EncodeTlsData(mut message) => {
                let Err(EncodeError::InsufficientSize(size)) = message.encode(&mut []) else {
                    panic!("no room was there")
                };
                let at = out.len();
                out.resize(at + size.required_size, 0);
                message.encode(&mut out[at..]).unwrap();
            }
            ConnectionState::TransmitTlsData(transmit) => transmit.done(),
            ConnectionState::ReadTraffic(mut traffic) => {
                payload = Some(traffic.next_record().unwrap().unwrap().payload.to_vec());
            }
            ConnectionState::WriteTraffic(mut traffic) => {
                if let Some(word) = word.take() {
                    let at = out.len();
                    out.resize(at + word.len() + 64, 0);
                    let length = traffic.encrypt(word, &mut out[at..]).unwrap();
                    out.truncate(at + length);
                }
                more = false;
            }
            _ => more = false,
        }
        (status.discard, payload, more)
    }

    /// Sends a word; returns the payload that rustls gives the reader, and the data at its place.
    fn read(suite: SupportedCipherSuite, server: CryptoProvider) -> (Vec<u8>, Option<Vec<u8>>) {
        let (mut client, mut server) = ends(suite, server);
        let (mut to_client, mut to_server) = (Vec::new(), Vec::new());
        let mut word = Some(&b"PASS open sesame"[..]);
        for _ in 0..20 {
            loop {
                let status = client.process_tls_records(&mut to_client);
                let (seen, _, more) = settle(status, &mut to_server, &mut word);
                to_client.drain(..seen);
                if !more {
                    break;
                }
            }
            loop {
                let (status, place) = in_place(|| server.process_tls_records(&mut to_server));
                let (seen, payload, more) = settle(status, &mut to_client, &mut None);
                if let Some(payload) = payload {
                    let data = place.map(|place| place.within(&to_server).unwrap().to_vec());
                    return (payload, data);
                }
                assert_eq!(place, None);
                to_server.drain(..seen);
                if !more {
                    break;
                }
            }
        }
        panic!("the word did not arrive")
    }

    #[test]
    fn rustls_keeps_no_copy_of_data() {
        let suites = aws_lc_rs::default_provider().cipher_suites;
        let suites = suites.into_iter().filter(|suite| {
            // The key is on a curve.
            !format!("{:?}", suite.suite()).contains("_RSA_")
        });
        let mut tried = 0;
        for suite in suites {
            let (payload, data) = read(suite, provider());
            assert_eq!(payload, b"P", "{suite:?}");
            assert_eq!(data.as_deref(), Some(&b"PASS open sesame"[..]), "{suite:?}");
            tried += 1;
        }
        assert_eq!(tried, 6, "three of each version");
    }

    #[test]
    fn other_suites_give_the_whole_payload() {
        let suite = aws_lc_rs::cipher_suite::TLS13_AES_256_GCM_SHA384;
        let (payload, data) = read(suite, aws_lc_rs::default_provider());
        assert_eq!(payload, b"PASS open sesame");
        assert_eq!(data, None);
    }

    /// Gives back the payload as it is.
    struct Clear;

    impl MessageDecrypter for Clear {
        fn decrypt<'a>(
            &mut self,
            message: InboundOpaqueMessage<'a>,
            _: u64,
        ) -> Result<InboundPlainMessage<'a>, Error> {
            Ok(message.into_plain_message())
        }
    }

    #[test]
    fn a_second_record_in_one_call_is_an_error() {
        let mut suite = Noting(Box::new(Clear));
        let mut decrypt = |kind, payload: &str| {
            let mut payload = payload.as_bytes().to_vec();
            let message = InboundOpaqueMessage::new(kind, ProtocolVersion::TLSv1_3, &mut payload);
            suite.decrypt(message, 0).map(drop)
        };
        let data = ContentType::ApplicationData;
        for (second, is_lost) in [
            ((data, "two"), true),
            // Neither is noted.
            ((data, ""), false),
            ((ContentType::Alert, "two"), false),
        ] {
            let (last, place) = in_place(|| {
                decrypt(data, "one").unwrap();
                decrypt(second.0, second.1)
            });
            assert_eq!(last.is_err(), is_lost, "{second:?}");
            assert_eq!(place.map(|place| place.length), Some(3));
        }
        // Outside, each is whole.
        decrypt(data, "one")
            .and_then(|()| decrypt(data, "two"))
            .unwrap();
    }

    #[test]
    fn a_place_is_of_one_buffer() {
        let buffers = [[7; 8], [8; 8]];
        let place = Place::of(&buffers[0][2..6]);
        assert_eq!(place.within(&buffers[0]).unwrap(), &[7; 4]);
        assert!(place.within(&buffers[0][3..]).is_err());
        assert!(place.within(&buffers[0][..5]).is_err());
        assert!(place.within(&buffers[1]).is_err());
    }
}

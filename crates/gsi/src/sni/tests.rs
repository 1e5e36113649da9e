//! Handshakes of clients that send a person's name as the name of the host.

use std::panic::{AssertUnwindSafe, catch_unwind};

use aws_lc_rs::digest;
use proptest::prelude::*;
use rustls::pki_types::ServerName;
use rustls::server::UnbufferedServerConnection;
use rustls::sign::{CertifiedKey, Signer, SigningKey, SingleCertAndKey};
use rustls::unbuffered::{ConnectionState, UnbufferedStatus};
use rustls::{
    ClientConnection, Error, ServerConfig, ServerConnection, SignatureAlgorithm, SignatureScheme,
};
use std::io::{Read, Write};

use super::*;
use crate::lab::Lab;
use crate::tls::Versions;

/// The name that the client's rustls writes, and the one that goes over the wire.
const HOST: &[u8] = b"alice-lab";
const PERSON: &[u8] = b"Alice Lab";

/// A client of Globus: one of rustls, whose greetings get a person's name on their way out, and
/// whose transcript has that name too.
struct Client {
    connection: ClientConnection,
    names: NameFilter,
    /// Payload of the records that a greeting is cut into.
    cut: usize,
    /// Transcript before a second greeting, which rustls hashes together with it as a client.
    retry: Vec<u8>,
}

/// A key that signs the transcript as sent, which TLS 1.2 does itself.
#[derive(Debug)]
struct SentKey(Arc<dyn SigningKey>);

impl SigningKey for SentKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        Some(Box::new(SentSigner(self.0.choose_scheme(offered)?)))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.0.algorithm()
    }
}

#[derive(Debug)]
struct SentSigner(Box<dyn Signer>);

impl Signer for SentSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        self.0.sign(&sent(message))
    }

    fn scheme(&self) -> SignatureScheme {
        self.0.scheme()
    }
}

impl Client {
    fn new(versions: Versions, cut: usize) -> Self {
        let user = &Lab::get().user;
        let mut config = Lab::tls(versions)
            .client_with(provider(), Some(user))
            .unwrap();
        let key = Arc::new(SentKey(user.key().signing()));
        let key = CertifiedKey::new(user.chain().to_vec(), key);
        config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(key));
        let name = ServerName::try_from("alice-lab").unwrap();
        let connection = ClientConnection::new(Arc::new(config), name).unwrap();
        Self {
            connection,
            names: NameFilter::new(),
            cut,
            retry: Vec::new(),
        }
    }

    /// Takes the records to send, with greetings changed.
    fn take(&mut self) -> Vec<u8> {
        let mut written = Vec::new();
        while self.connection.wants_write() {
            self.connection.write_tls(&mut written).unwrap();
        }
        let mut out = Vec::new();
        let mut rest = written.as_slice();
        while let Some((header, after)) = rest.split_at_checked(5) {
            let (payload, after) =
                after.split_at(usize::from(u16::from_be_bytes([header[3], header[4]])));
            let host = payload.windows(HOST.len()).position(|name| name == HOST);
            match host {
                Some(at) => {
                    let mut sent = payload.to_vec();
                    sent[at..at + HOST.len()].copy_from_slice(PERSON);
                    for piece in sent.chunks(self.cut) {
                        out.extend_from_slice(&header[..3]);
                        out.extend(u16::try_from(piece.len()).unwrap().to_be_bytes());
                        out.extend_from_slice(piece);
                    }
                    let shown = [self.retry.as_slice(), payload].concat();
                    let sent = [self.retry.as_slice(), &sent].concat();
                    self.names.hellos.push(Arc::new(Hello { sent, shown }));
                }
                None => out.extend_from_slice(&rest[..5 + payload.len()]),
            }
            rest = after;
        }
        out
    }

    fn read(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        // RFC 8446 §4.1.3: this random marks a HelloRetryRequest; §4.4.1: the first greeting is
        // then hashed by its hash.
        if let [
            22,
            _,
            _,
            high,
            low,
            2,
            _,
            _,
            _,
            _,
            _,
            0xcf,
            0x21,
            0xad,
            0x74,
            ..,
        ] = *bytes
        {
            let first = digest::digest(&digest::SHA384, &self.names.hellos[0].sent);
            let end = 5 + usize::from(u16::from_be_bytes([high, low]));
            self.retry = [&[254, 0, 0, 48], first.as_ref(), &bytes[5..end]].concat();
        }
        let Self {
            connection, names, ..
        } = self;
        names.scope(|| {
            while !bytes.is_empty() {
                connection.read_tls(&mut bytes).unwrap();
                connection.process_new_packets()?;
            }
            Ok(())
        })
    }
}

/// The two ways to drive the acceptor of rustls.
trait Server {
    fn read(&mut self, bytes: &mut [u8]) -> Result<(), Error>;
    fn take(&mut self) -> Vec<u8>;
    fn data(&mut self) -> Vec<u8>;
    fn has_peer(&self) -> bool;
}

struct Buffered {
    connection: ServerConnection,
    filter: NameFilter,
}

impl Server for Buffered {
    fn read(&mut self, bytes: &mut [u8]) -> Result<(), Error> {
        let Self { connection, filter } = self;
        filter.admit(bytes);
        let mut bytes = &*bytes;
        filter.scope(|| {
            while !bytes.is_empty() {
                connection.read_tls(&mut bytes).unwrap();
                connection.process_new_packets()?;
            }
            Ok(())
        })
    }

    fn take(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        while self.connection.wants_write() {
            self.connection.write_tls(&mut out).unwrap();
        }
        out
    }

    fn data(&mut self) -> Vec<u8> {
        let mut data = vec![0; 100];
        let length = self.connection.reader().read(&mut data).unwrap_or(0);
        data.truncate(length);
        data
    }

    fn has_peer(&self) -> bool {
        self.connection.peer_certificates().is_some()
    }
}

struct Unbuffered {
    connection: UnbufferedServerConnection,
    filter: NameFilter,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    data: Vec<u8>,
}

impl Server for Unbuffered {
    fn read(&mut self, bytes: &mut [u8]) -> Result<(), Error> {
        self.filter.admit(bytes);
        self.incoming.extend_from_slice(bytes);
        let Self {
            connection,
            filter,
            incoming,
            outgoing,
            data,
        } = self;
        filter.scope(|| {
            loop {
                let UnbufferedStatus { mut discard, state } =
                    connection.process_tls_records(incoming);
                let goes_on = match state? {
                    ConnectionState::EncodeTlsData(mut message) => {
                        let mut room = vec![0; 32 * 1024];
                        let length = message.encode(&mut room).unwrap();
                        outgoing.extend_from_slice(&room[..length]);
                        true
                    }
                    ConnectionState::TransmitTlsData(transmit) => {
                        transmit.done();
                        true
                    }
                    ConnectionState::ReadTraffic(mut traffic) => {
                        while let Some(record) = traffic.next_record() {
                            let record = record?;
                            discard += record.discard;
                            data.extend_from_slice(record.payload);
                        }
                        true
                    }
                    _ => false,
                };
                incoming.drain(..discard);
                if !goes_on {
                    return Ok(());
                }
            }
        })
    }

    fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.outgoing)
    }

    fn data(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.data)
    }

    fn has_peer(&self) -> bool {
        self.connection.peer_certificates().is_some()
    }
}

type Api = fn(ServerConfig) -> Box<dyn Server>;

fn buffered(config: ServerConfig) -> Box<dyn Server> {
    let connection = ServerConnection::new(Arc::new(config)).unwrap();
    Box::new(Buffered {
        connection,
        filter: NameFilter::new(),
    })
}

fn unbuffered(config: ServerConfig) -> Box<dyn Server> {
    Box::new(Unbuffered {
        connection: UnbufferedServerConnection::new(Arc::new(config)).unwrap(),
        filter: NameFilter::new(),
        incoming: Vec::new(),
        outgoing: Vec::new(),
        data: Vec::new(),
    })
}

/// Carries a flight each way, to the server in pieces of a length.
fn turn(client: &mut Client, server: &mut dyn Server, piece: usize) -> Result<(), Error> {
    let mut flight = client.take();
    for bytes in flight.chunks_mut(piece) {
        server.read(bytes)?;
    }
    client.read(&server.take())
}

fn data_server() -> ServerConfig {
    Lab::tls(Versions::All)
        .data_server(&Lab::get().host)
        .unwrap()
}

/// Trap 1.
#[test]
fn a_persons_name_in_sni_does_not_stop_the_handshake() {
    for versions in [Versions::Tls12, Versions::Tls13] {
        for (api, server) in [
            ("buffered", buffered as Api),
            ("unbuffered", unbuffered as Api),
        ] {
            for (cut, piece) in [
                (usize::MAX, usize::MAX),
                (40, usize::MAX),
                (usize::MAX, 1),
                (7, 3),
            ] {
                let case = format!("{versions:?} {api} {cut} {piece}");
                let mut client = Client::new(versions, cut.min(10_000));
                let mut server = server(data_server());
                for _ in 0..3 {
                    turn(&mut client, &mut *server, piece).expect(&case);
                }
                assert!(!client.connection.is_handshaking(), "{case}");
                assert!(server.has_peer(), "{case}");
                client.connection.writer().write_all(b"block").unwrap();
                turn(&mut client, &mut *server, piece).expect(&case);
                assert_eq!(server.data(), b"block", "{case}");
                assert_eq!(sent(b"x").as_ref(), b"x");
                assert!(CURRENT.with_borrow(Vec::is_empty), "{case}");
            }
        }
    }
}

#[test]
fn a_greeting_that_is_asked_for_again_is_filtered_again() {
    for server in [buffered as Api, unbuffered as Api] {
        let mut curves = provider();
        curves.kx_groups = vec![rustls::crypto::aws_lc_rs::kx_group::SECP384R1];
        let lab = Lab::tls(Versions::Tls13);
        let config = lab.server_with(
            curves,
            crate::tls::resolver(&Lab::get().host),
            crate::tls::Clients::Certified,
        );
        let mut server = server(config.unwrap());
        let mut client = Client::new(Versions::Tls13, 50);
        for _ in 0..3 {
            turn(&mut client, &mut *server, 11).unwrap();
        }
        assert_eq!(
            client.names.hellos.len(),
            2,
            "no second greeting was asked for"
        );
        assert!(server.has_peer());
    }
}

#[test]
fn connections_on_one_thread_do_not_mix() {
    let mut pairs: Vec<_> = (0..3)
        .map(|_| (Client::new(Versions::All, 1000), buffered(data_server())))
        .collect();
    for _ in 0..3 {
        for (client, server) in &mut pairs {
            turn(client, &mut **server, 100).unwrap();
        }
    }
    assert!(pairs.iter().all(|(_, server)| server.has_peer()));
}

/// Shows that the filter is still needed: without it rustls refuses the name.
#[test]
fn rustls_alone_refuses_a_persons_name() {
    let mut client = Client::new(Versions::All, 1000);
    let config = Lab::tls(Versions::All).server(&Lab::get().host, crate::tls::Clients::Certified);
    let mut server = ServerConnection::new(Arc::new(config.unwrap())).unwrap();
    server.read_tls(&mut client.take().as_slice()).unwrap();
    assert!(server.process_new_packets().is_err());
}

#[test]
fn a_scope_ends_with_a_panic_too() {
    let hello = Hello {
        sent: b"Alice".to_vec(),
        shown: b"aaaaa".to_vec(),
    };
    let filter = NameFilter {
        hellos: vec![Arc::new(hello)],
        ..NameFilter::default()
    };
    filter.scope(|| assert_eq!(sent(b"aaaaa and more").as_ref(), b"Alice and more"));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        filter.scope(|| panic!("in a handshake"))
    }));
    assert!(panicked.is_err());
    assert_eq!(sent(b"aaaaa").as_ref(), b"aaaaa");
}

/// A client that is given an address sends no name, so nothing is changed.
#[test]
fn an_address_is_not_told() {
    for (name, changes) in [("192.0.2.1", false), ("::1", false), ("localhost", true)] {
        let config = Lab::tls(Versions::All).client(None).unwrap();
        let name = ServerName::try_from(name).unwrap();
        let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut hello = Vec::new();
        client.write_tls(&mut hello).unwrap();
        let mut admitted = hello.clone();
        NameFilter::new().admit(&mut admitted);
        assert_eq!(admitted != hello, changes);
    }
}

#[test]
fn other_protocols_pass_unchanged() {
    for bytes in [
        &b"GET / HTTP/1.0\r\n\r\n"[..],
        &[23, 3, 3, 0, 1, 0, 0],
        &[22, 3, 3, 0, 0, 1],
    ] {
        let mut filter = NameFilter::new();
        let mut admitted = bytes.to_vec();
        filter.admit(&mut admitted);
        assert_eq!(admitted, bytes);
        assert!(filter.is_done());
    }
}

proptest! {
    #[test]
    fn pieces_make_no_difference(
        body in prop::collection::vec(prop_oneof![Just(0u8), Just(1), any::<u8>()], 0..300),
        cuts in prop::collection::vec(1usize..50, 1..20),
    ) {
        let length = u16::try_from(body.len() + 4).unwrap().to_be_bytes();
        let inner = u16::try_from(body.len()).unwrap().to_be_bytes();
        let head = [22, 3, 1, length[0], length[1], 1, 0, inner[0], inner[1]];
        let whole = [&head[..], &body].concat();
        let mut at_once = whole.clone();
        NameFilter::new().admit(&mut at_once);

        let mut in_pieces = whole;
        let mut filter = NameFilter::new();
        let mut rest = in_pieces.as_mut_slice();
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, after) = rest.split_at_mut((*cut).min(rest.len()));
            filter.admit(piece);
            rest = after;
        }
        prop_assert_eq!(at_once, in_pieces);
    }
}

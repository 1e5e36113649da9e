//! Data channels from Globus clients: a person's name where TLS expects the name of a host.
//!
//! A Globus program that connects a data channel writes the common name of the expected peer into
//! the extension `server_name`, as in `Alice Lab`. A blank makes it no host name, and rustls
//! refuses the whole handshake. [`NameFilter`] gives the extension a number that no protocol
//! uses, so that rustls skips it, and the transcript of the handshake is still hashed over the
//! bytes that the peer sent, by cipher suites whose hash exchanges the two.
//!
//! rustls 0.24 has an option for it (`invalid_sni_policy`), with which this file goes away.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

use rustls::crypto::hash::{Context, Hash, HashAlgorithm, Output};
use rustls::crypto::{CipherSuiteCommon, CryptoProvider};
use rustls::{SupportedCipherSuite, Tls12CipherSuite, Tls13CipherSuite};
use tls_secrets::records;

/// Number given to the extension, which is unassigned. Its first byte is that of `server_name`.
const SKIPPED: u8 = 0xff;
/// Bound of a `ClientHello` in bytes, which is also that of rustls.
const MAX_HELLO: usize = 0xffff;

/// A greeting as sent, and as rustls sees it.
#[derive(Debug)]
struct Hello {
    sent: Vec<u8>,
    shown: Vec<u8>,
}

/// The filter in front of an acceptor, made for each connection.
///
/// Every byte of the peer passes [`admit`](Self::admit) once and in order, before rustls sees it,
/// in pieces of any size, and every call into rustls is made inside [`scope`](Self::scope). The
/// configuration has the [`provider`] of this module. When the handshake is over, or
/// [`is_done`](Self::is_done) says so and the connection no longer handshakes, both may stop.
#[derive(Debug, Default)]
pub struct NameFilter {
    hellos: Vec<Arc<Hello>>,
    state: Record,
    /// Header of the current record, as far as it was admitted.
    header: Vec<u8>,
    hello: Walk,
    greetings: u8,
}

/// Place in the stream of records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Record {
    #[default]
    Header,
    /// Payload of a change of cipher spec, which a peer may send before its second greeting.
    Skip(usize),
    Handshake(usize),
    /// No greeting can follow.
    Done,
}

impl NameFilter {
    /// Starts with a connection of which no byte was read.
    pub fn new() -> Self {
        Self::default()
    }

    /// Tells whether the peer's greetings are through.
    pub fn is_done(&self) -> bool {
        self.state == Record::Done
    }

    /// Takes the next bytes of the peer, and changes those that rustls must not see.
    pub fn admit(&mut self, incoming: &mut [u8]) {
        for byte in incoming {
            match self.state {
                Record::Done => return,
                Record::Header => self.on_header(*byte),
                Record::Skip(left) => self.state = Record::after(left, Record::Skip),
                Record::Handshake(left) => {
                    self.state = Record::after(left, Record::Handshake);
                    self.on_handshake(byte);
                }
            }
        }
    }

    fn on_header(&mut self, byte: u8) {
        self.header.push(byte);
        let &[kind, _, _, high, low] = self.header.as_slice() else {
            return;
        };
        self.header.clear();
        let length = usize::from(u16::from_be_bytes([high, low]));
        self.state = match kind {
            _ if length == 0 => Record::Done,
            20 => Record::Skip(length),
            22 => Record::Handshake(length),
            _ => Record::Done,
        };
    }

    fn on_handshake(&mut self, byte: &mut u8) {
        match self.hello.take(byte) {
            Progress::More => {}
            Progress::NoHello => self.state = Record::Done,
            Progress::Whole(hello) => {
                if hello.sent != hello.shown {
                    self.hellos.push(Arc::new(hello));
                }
                self.greetings += 1;
                // RFC 8446 §4.1.4: at most one is asked for again.
                if self.greetings == 2 {
                    self.state = Record::Done;
                }
            }
        }
    }

    /// Calls `process`, in which rustls reads admitted bytes and hashes those of the peer.
    pub fn scope<R>(&self, process: impl FnOnce() -> R) -> R {
        let _restored = Restored(CURRENT.replace(self.hellos.clone()));
        process()
    }
}

impl Record {
    /// The state after one byte of a payload that had `left` bytes.
    fn after(left: usize, same: impl Fn(usize) -> Self) -> Self {
        match left.saturating_sub(1) {
            0 => Self::Header,
            left => same(left),
        }
    }
}

/// Field of a `ClientHello` (RFC 8446 §4.1.2), and the number of its bytes to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    /// Type and length of the message, version and random.
    Head(usize),
    /// Length of the field of this number: session, cipher suites, compression methods.
    Length(u8, usize),
    Body(u8, usize),
    ExtensionsLength(usize),
    ExtensionKind(usize),
    ExtensionLength(usize),
    Extension(usize),
}

/// Reads a `ClientHello` byte by byte.
#[derive(Debug)]
struct Walk {
    sent: Vec<u8>,
    shown: Vec<u8>,
    field: Field,
    /// Value of the length that is being read.
    value: usize,
}

enum Progress {
    More,
    Whole(Hello),
    NoHello,
}

impl Default for Walk {
    fn default() -> Self {
        Self {
            sent: Vec::new(),
            shown: Vec::new(),
            field: Field::Head(38),
            value: 0,
        }
    }
}

impl Walk {
    /// Takes a byte, changed where it is the second of the extension's number.
    fn take(&mut self, byte: &mut u8) -> Progress {
        self.sent.push(*byte);
        if self.step(*byte) {
            *byte = SKIPPED;
        }
        self.shown.push(*byte);
        match self.sent.as_slice() {
            [kind, ..] if *kind != 1 => Progress::NoHello,
            [_, high, middle, low, ..] => {
                let length = u32::from_be_bytes([0, *high, *middle, *low]) as usize;
                if length > MAX_HELLO {
                    Progress::NoHello
                } else if self.sent.len() == 4 + length {
                    let Self { sent, shown, .. } = std::mem::take(self);
                    Progress::Whole(Hello { sent, shown })
                } else {
                    Progress::More
                }
            }
            _ => Progress::More,
        }
    }

    /// Moves on by a byte; tells whether it completes the number of `server_name`.
    fn step(&mut self, byte: u8) -> bool {
        self.value = (self.value & 0xff) << 8 | usize::from(byte);
        let mut hit = false;
        let (field, left) = match self.field {
            Field::Head(left) => (Field::Head(left - 1), left),
            Field::Length(which, left) => (Field::Length(which, left - 1), left),
            Field::Body(which, left) => (Field::Body(which, left - 1), left),
            Field::ExtensionsLength(left) => (Field::ExtensionsLength(left - 1), left),
            Field::ExtensionKind(left) => (Field::ExtensionKind(left - 1), left),
            Field::ExtensionLength(left) => (Field::ExtensionLength(left - 1), left),
            Field::Extension(left) => (Field::Extension(left - 1), left),
        };
        self.field = field;
        if left > 1 {
            return hit;
        }
        // The field is complete, and empty fields after it are skipped.
        let value = std::mem::take(&mut self.value);
        self.field = match field {
            Field::Head(_) => Field::Length(0, 1),
            Field::Length(which, _) if value > 0 => Field::Body(which, value),
            Field::Length(which, _) | Field::Body(which, _) => match which {
                0 => Field::Length(1, 2),
                1 => Field::Length(2, 1),
                _ => Field::ExtensionsLength(2),
            },
            Field::ExtensionKind(_) => {
                hit = value == 0;
                Field::ExtensionLength(2)
            }
            Field::ExtensionLength(_) if value > 0 => Field::Extension(value),
            Field::ExtensionsLength(_) | Field::ExtensionLength(_) | Field::Extension(_) => {
                Field::ExtensionKind(2)
            }
        };
        hit
    }
}

thread_local! {
    /// Greetings of the connection whose bytes this thread processes right now.
    static CURRENT: RefCell<Vec<Arc<Hello>>> = const { RefCell::new(Vec::new()) };
}

/// Puts back the greetings of the outer scope.
struct Restored(Vec<Arc<Hello>>);

impl Drop for Restored {
    fn drop(&mut self) {
        CURRENT.set(std::mem::take(&mut self.0));
    }
}

/// Calls `with` on the bytes that the peer sent in place of `shown`, in up to two pieces.
fn exchanged<R>(shown: &[u8], with: impl FnOnce(&[u8], &[u8]) -> R) -> R {
    CURRENT.with_borrow(|hellos| {
        for hello in hellos {
            if let Some(rest) = shown.strip_prefix(hello.shown.as_slice()) {
                return with(&hello.sent, rest);
            }
        }
        with(shown, &[])
    })
}

/// Returns a transcript as the peer sent it (TLS 1.2 signs the transcript itself).
pub(crate) fn sent(transcript: &[u8]) -> Cow<'_, [u8]> {
    exchanged(transcript, |first, rest| {
        if first.len() + rest.len() == transcript.len() && std::ptr::eq(first, transcript) {
            Cow::Borrowed(transcript)
        } else {
            Cow::Owned([first, rest].concat())
        }
    })
}

struct SentHash(&'static dyn Hash);

impl Hash for SentHash {
    fn start(&self) -> Box<dyn Context> {
        Box::new(SentContext(self.0.start()))
    }

    fn hash(&self, data: &[u8]) -> Output {
        let mut context = self.start();
        context.update(data);
        context.finish()
    }

    fn output_len(&self) -> usize {
        self.0.output_len()
    }

    fn algorithm(&self) -> HashAlgorithm {
        self.0.algorithm()
    }

    fn fips(&self) -> bool {
        self.0.fips()
    }
}

struct SentContext(Box<dyn Context>);

impl Context for SentContext {
    fn fork_finish(&self) -> Output {
        self.0.fork_finish()
    }

    fn fork(&self) -> Box<dyn Context> {
        Box::new(Self(self.0.fork()))
    }

    fn finish(self: Box<Self>) -> Output {
        self.0.finish()
    }

    fn update(&mut self, data: &[u8]) {
        exchanged(data, |first, rest| {
            self.0.update(first);
            if !rest.is_empty() {
                self.0.update(rest);
            }
        });
    }
}

/// A suite of rustls with the hash of this module; made once.
enum Suite {
    Tls12(Tls12CipherSuite),
    Tls13(Tls13CipherSuite),
}

/// Returns the provider for acceptors behind a [`NameFilter`]: that of [`records`], with a
/// transcript hash that knows the filter.
pub fn provider() -> CryptoProvider {
    static HASHES: OnceLock<Vec<SentHash>> = OnceLock::new();
    static SUITES: OnceLock<Vec<Suite>> = OnceLock::new();
    let stock = records::provider();
    let hashes = HASHES.get_or_init(|| {
        let hash = |suite: &SupportedCipherSuite| SentHash(common(suite).hash_provider);
        stock.cipher_suites.iter().map(hash).collect()
    });
    let suites = SUITES.get_or_init(|| {
        let pairs = stock.cipher_suites.iter().zip(hashes);
        pairs.map(|(suite, hash)| suite_with(suite, hash)).collect()
    });
    let cipher_suites = suites.iter().map(|suite| match suite {
        Suite::Tls12(suite) => SupportedCipherSuite::Tls12(suite),
        Suite::Tls13(suite) => SupportedCipherSuite::Tls13(suite),
    });
    CryptoProvider {
        cipher_suites: cipher_suites.collect(),
        ..stock
    }
}

fn common(suite: &SupportedCipherSuite) -> &'static CipherSuiteCommon {
    match suite {
        SupportedCipherSuite::Tls12(suite) => &suite.common,
        SupportedCipherSuite::Tls13(suite) => &suite.common,
    }
}

fn suite_with(suite: &SupportedCipherSuite, hash_provider: &'static dyn Hash) -> Suite {
    let stock = common(suite);
    let common = CipherSuiteCommon {
        suite: stock.suite,
        hash_provider,
        confidentiality_limit: stock.confidentiality_limit,
    };
    match suite {
        SupportedCipherSuite::Tls12(suite) => Suite::Tls12(Tls12CipherSuite {
            common,
            prf_provider: suite.prf_provider,
            kx: suite.kx,
            sign: suite.sign,
            aead_alg: suite.aead_alg,
        }),
        SupportedCipherSuite::Tls13(suite) => Suite::Tls13(Tls13CipherSuite {
            common,
            hkdf_provider: suite.hkdf_provider,
            aead_alg: suite.aead_alg,
            quic: suite.quic,
        }),
    }
}

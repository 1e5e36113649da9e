//! Data connections: a listing of the URL's directory, and extended passive mode.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use ftp_proto::client::FailureKind;
use ftp_wire::addr::{self, Passive};
use ftp_wire::command::{Command, Epsv};
use ftp_wire::facts::EntryKind;
use ftp_wire::reply::Reply;
use gridftp_data::{ErrorKind, Wait};
use gsi::finding::Finding;

use super::network::connect;
use super::{Visit, bare};
use crate::client::Client;
use crate::error::{ControlError, TransferError};
use crate::names;
use crate::text::{bytes, counted};
use crate::url::{Remote, show};

const TOPIC: &str = "data";

/// The way through a firewall.
const FIREWALL: &str = "firewalls on the way must let TCP connections to the data ports of the \
                        server through: its administrator names them by --data-ports LO-HI \
                        (GLOBUS_TCP_PORT_RANGE of a Globus server)";

/// The remedy where packets of full size are lost.
pub(super) const STALLED: &str = "the connection opened, and its data stalls while replies pass: \
                                  packets of full size may be lost on the way; see the MTU of \
                                  interfaces and tunnels, and let ICMP through (`ping -M do -s 1472 \
                                  HOST` tests 1500 bytes over IPv4, `-s 1452` over IPv6)";

/// The remedy where data comes, and not all of it in time.
pub(super) const SLOW: &str = "the path or the server is slow: see a longer --timeout";

/// The remedy where this end knows none.
pub(super) const LOG: &str = "the log of the server tells more";

/// The object of the URL.
pub(super) struct Place {
    /// The directory there, or that of the file.
    pub(super) directory: Vec<u8>,
    pub(super) file: Option<File>,
}

impl Place {
    fn directory(path: &[u8]) -> Self {
        Self {
            directory: path.to_vec(),
            file: None,
        }
    }
}

/// A file of the server.
pub(super) struct File {
    pub(super) path: Vec<u8>,
    pub(super) size: u64,
}

impl Visit<'_> {
    /// Lists the directory of the URL through a passive data connection; gives the object there.
    pub(super) async fn data(&mut self, client: &mut Client, remote: &Remote) -> Option<Place> {
        let place = self.place(client, remote).await;
        let (begun, limit) = (Instant::now(), self.transfer_limit());
        let mut entries = 0;
        let listing = client.list(&place.directory, |_, _| entries += 1);
        let listed = tokio::time::timeout(limit, listing).await;
        let peer = client.control.peer();
        let told = self.told(peer);
        let is_other = |at: SocketAddr| {
            at.ip().to_canonical() != peer && (self.options.trust_pasv || !client.may_listen_at(at))
        };
        if let Some((at, _)) = told.filter(|(at, _)| is_other(*at)) {
            let fact = format!("the server tells the data address {at}, and itself is {peer}");
            let remedy = match self.options.trust_pasv {
                true => "it was used, as --trust-pasv-address asks",
                false => {
                    "its own was used; behind address translation its administrator sets \
                     --advertise to the address that clients reach"
                }
            };
            self.tell(Finding::warn(TOPIC, fact, remedy));
        }
        let through = match told {
            Some((at, command)) => format!("port {} ({command})", at.port()),
            None => "no port".to_owned(),
        };
        let name = show(&place.directory);
        match listed {
            Ok(Ok(())) => {
                let fact = format!(
                    "listing of {name}: {} through {through} in {:.1?}",
                    counted(entries, "entry", "entries"),
                    begun.elapsed()
                );
                self.tell(Finding::ok(TOPIC, fact));
                Some(place)
            }
            Ok(Err(error)) => {
                self.tell(failed(&name, &through, &error));
                None
            }
            Err(_) => {
                let fact = format!(
                    "listing of {name} through {through}: not done within {} s, with {}",
                    limit.as_secs(),
                    counted(entries, "entry", "entries")
                );
                self.tell(match entries {
                    0 => Finding::fail(TOPIC, fact, FIREWALL),
                    _ => Finding::warn(TOPIC, fact, SLOW),
                });
                None
            }
        }
    }

    /// The object of the URL: the root where there is none.
    async fn place(&mut self, client: &Client, remote: &Remote) -> Place {
        let path = match remote.pattern {
            Some(_) => names::parent(&remote.path),
            None => &remote.path,
        };
        if names::trim_slashes(path).is_empty() {
            return Place::directory(b"/");
        }
        match client.stat(path).await {
            Ok((entry, _)) if entry.kind == EntryKind::File => {
                let fact = format!("{} is a file of {}", show(path), bytes(&entry.size));
                self.tell(Finding::ok("path", fact));
                Place {
                    directory: names::parent(path).to_vec(),
                    file: Some(File {
                        path: path.to_vec(),
                        size: entry.size,
                    }),
                }
            }
            Ok(_) => {
                self.tell(Finding::ok("path", format!("{} is there", show(path))));
                Place::directory(path)
            }
            Err(error) => {
                let remedy = "check the path, and the rights of the account";
                self.tell(Finding::error("path", &error.to_string(), remedy));
                Place::directory(b"/")
            }
        }
    }

    /// The data address that the server told last, and the command.
    fn told(&self, peer: IpAddr) -> Option<(SocketAddr, &'static str)> {
        let read = |reply: &Reply| {
            Passive::from_reply(reply)
                .ok()?
                .resolve(peer)
                .first()
                .copied()
        };
        let rest = |line: String| line.get(4..).unwrap_or_default().to_owned();
        let plain = self.recorder.received("227").map(rest);
        let plain = plain.and_then(|text| read(&Reply::of::<227>(text)));
        let extended = || {
            let text = self.recorder.received("229").map(rest)?;
            Some((read(&Reply::of::<229>(text))?, "EPSV"))
        };
        let striped = || {
            let item = self.recorder.second_line("229")?;
            Some((addr::parse_item(item.as_bytes()).ok()?, "SPAS"))
        };
        let plain = plain.map(|at| (at, "PASV"));
        plain.or_else(extended).or_else(striped)
    }

    /// Asks an IPv4 server to listen by `EPSV`, and connects there.
    pub(super) async fn extended_passive(&mut self, client: &Client) {
        let peer = client.control.peer();
        if peer.is_ipv6() {
            // The listing did so.
            return;
        }
        let asked = tokio::time::timeout(self.limit, client.ask(Command::Epsv(Epsv::Any)));
        let reply = match asked.await {
            Ok(Ok(reply)) => reply,
            Ok(Err(ControlError::Refused { reply, .. })) => {
                let fact = format!(
                    "EPSV: the server refuses it: {}",
                    crate::error::Text(&reply)
                );
                let remedy = "PASV works; clients of IPv6 need EPSV";
                return self.tell(Finding::warn(TOPIC, fact, remedy));
            }
            Ok(Err(error)) => {
                return self.tell(Finding::error(TOPIC, &error.to_string(), FIREWALL));
            }
            Err(_) => {
                let fact = format!("EPSV: no reply within {} s", self.limit.as_secs());
                return self.tell(Finding::warn(TOPIC, fact, "PASV works"));
            }
        };
        let at = Passive::from_reply(&reply).ok();
        let at = at.and_then(|passive| passive.resolve(peer).first().copied());
        let finding = match at {
            None => Finding::warn(TOPIC, "EPSV: the reply names no port", "PASV works"),
            Some(at) => answer(at, self.limit).await,
        };
        self.tell(finding);
    }
}

/// Connects to a port of extended passive mode.
async fn answer(at: SocketAddr, limit: Duration) -> Finding {
    match connect(at, limit).await {
        Ok(time) => Finding::ok(
            TOPIC,
            format!("EPSV: port {} answers in {time:.1?}", at.port()),
        ),
        Err(error) => Finding::fail(TOPIC, format!("EPSV: {at}: {error}"), FIREWALL),
    }
}

/// The finding about a listing that failed.
fn failed(directory: &str, through: &str, error: &TransferError) -> Finding {
    let told = error.to_string();
    let known = error.fields().remedy.unwrap_or_default();
    let why = bare(&told, known);
    let is_lost = match error {
        TransferError::Data { .. } => true,
        TransferError::Control(refusal) => refusal.kind() == Some(FailureKind::DataChannel),
        _ => false,
    };
    match error {
        TransferError::Control(ControlError::Refused { command, .. })
            if ["PASV", "EPSV"].contains(&command.as_str()) =>
        {
            let remedy = "the server must allow passive data connections, and have ports for them";
            Finding::fail(TOPIC, why, remedy)
        }
        _ if is_lost => {
            let fact = format!("listing of {directory} through {through}: {why}");
            let remedy = match is_stalled(error) {
                true => STALLED,
                false => FIREWALL,
            };
            Finding::fail(TOPIC, fact, remedy)
        }
        _ if known.is_empty() => Finding::fail(TOPIC, why, LOG),
        _ => Finding::fail(TOPIC, why, known),
    }
}

/// Says whether a transfer failed by silence on an open data connection.
pub(super) fn is_stalled(error: &TransferError) -> bool {
    match error {
        TransferError::Cut { cause, .. } => is_stalled(cause),
        TransferError::Data { cause, .. } => cause.kind() == ErrorKind::Timeout(Wait::Receive),
        _ => false,
    }
}

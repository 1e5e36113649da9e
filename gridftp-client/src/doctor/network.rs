//! The way to the control port: the addresses of the host, and whether each answers.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use gsi::finding::{Finding, Verdict};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::Visit;

/// Most addresses of a host that are tried.
const MANY: usize = 8;

impl Visit<'_> {
    /// Finds the addresses of the host.
    pub(super) async fn resolve(&mut self) -> Option<Vec<SocketAddr>> {
        let (host, port) = (self.site.host.clone(), self.site.port);
        if let Ok(ip) = host.parse::<IpAddr>() {
            self.tell(Finding::ok("name", format!("{host} is an address itself")));
            return Some(vec![SocketAddr::new(ip, port)]);
        }
        let begun = Instant::now();
        let asked = tokio::net::lookup_host((host.clone(), port));
        let found: io::Result<Vec<_>> = match tokio::time::timeout(self.limit, asked).await {
            Ok(found) => found.map(Iterator::collect),
            Err(_) => Err(late(self.limit)),
        };
        let mut found = match found {
            Ok(found) if !found.is_empty() => found,
            Ok(_) => {
                self.tell(unknown(&host, "it has no address"));
                return None;
            }
            Err(error) => {
                self.tell(unknown(&host, &error.to_string()));
                return None;
            }
        };
        found.dedup();
        found.truncate(MANY);
        let listed: Vec<_> = found.iter().map(|at| at.ip().to_string()).collect();
        let fact = format!(
            "{host} is {}, found in {:.1?}",
            listed.join(", "),
            begun.elapsed()
        );
        self.tell(Finding::ok("name", fact));
        Some(found)
    }

    /// Connects to each address, all at once.
    pub(super) async fn reach(&mut self, addresses: Vec<SocketAddr>) -> Option<()> {
        let limit = self.limit;
        let mut tries = JoinSet::new();
        for (place, address) in addresses.into_iter().enumerate() {
            tries.spawn(async move { (place, address, connect(address, limit).await) });
        }
        let mut outcomes = tries.join_all().await;
        outcomes.sort_by_key(|(place, ..)| *place);
        let answers = outcomes.iter().any(|(_, _, outcome)| outcome.is_ok());
        for (_, address, outcome) in outcomes {
            self.tell(match outcome {
                Ok(time) => Finding::ok("port", format!("{address} answers in {time:.1?}")),
                Err(error) => {
                    let mut finding = closed(address, &error);
                    if answers {
                        // Clients go on to the next address.
                        finding.verdict = Verdict::Warn;
                    }
                    finding
                }
            });
        }
        answers.then_some(())
    }
}

/// Connects, and tells the time that it takes.
pub(super) async fn connect(address: SocketAddr, limit: Duration) -> io::Result<Duration> {
    let begun = Instant::now();
    match tokio::time::timeout(limit, TcpStream::connect(address)).await {
        Ok(connected) => connected.map(|_| begun.elapsed()),
        Err(_) => Err(late(limit)),
    }
}

fn late(limit: Duration) -> io::Error {
    let fact = format!("no answer within {} s", limit.as_secs());
    io::Error::new(ErrorKind::TimedOut, fact)
}

fn unknown(host: &str, why: &str) -> Finding {
    let remedy = "check the spelling of the host, and DNS";
    Finding::fail("name", format!("{host}: {why}"), remedy)
}

/// The finding about a port that does not answer.
fn closed(address: SocketAddr, error: &io::Error) -> Finding {
    let port = address.port();
    let remedy = match error.kind() {
        ErrorKind::ConnectionRefused => {
            "the host is up, and nothing listens there: start the server, or name its port (2811 \
             is that of GridFTP, 21 of FTP)"
                .to_owned()
        }
        ErrorKind::TimedOut => format!(
            "the host is down, or a firewall drops packets: it must let TCP port {port} through"
        ),
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => {
            "there is no route: check the network of this host".to_owned()
        }
        _ => format!("a firewall must let TCP port {port} through"),
    };
    Finding::fail("port", format!("{address}: {error}"), remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_has_a_remedy_of_its_own() {
        let of = |kind: ErrorKind| {
            let finding = closed("192.0.2.1:2811".parse().unwrap(), &kind.into());
            finding.remedy.unwrap()
        };
        assert!(of(ErrorKind::ConnectionRefused).contains("nothing listens there"));
        assert!(of(ErrorKind::TimedOut).contains("must let TCP port 2811 through"));
        assert!(of(ErrorKind::NetworkUnreachable).contains("no route"));
    }
}

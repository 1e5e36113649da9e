//! Names: that of this host, and those in certificates, as the resolver knows them.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::sync::mpsc;
use std::time::Duration;

use gsi::certificate::Certificate;
use gsi::finding::Finding;
use gsi::host::{Host, Names};

use super::Site;

/// Longest wait for the resolver.
const RESOLVE: Duration = Duration::from_secs(5);

/// Most names of a certificate that are resolved.
const MANY: usize = 20;

/// The addresses of a name.
enum Found {
    /// None of them is of this host.
    Elsewhere(Vec<IpAddr>),
    /// One is of this host.
    Here(IpAddr),
    /// The resolver has none, or does not answer.
    Nowhere(String),
}

impl Site<'_> {
    /// Examines the name of this host.
    pub(super) fn host_name(&mut self) {
        let host = self.host.clone();
        let finding = match resolve(&host) {
            Found::Here(ip) => {
                Finding::ok("names", format!("{host} is {ip}, an address of this host"))
            }
            Found::Elsewhere(found) => {
                let found: Vec<_> = found.iter().map(IpAddr::to_string).collect();
                let fact = format!("{host} is {}, no address of this host", found.join(", "));
                let remedy = "correct DNS or /etc/hosts; behind address translation it is right, \
                              and --advertise names that address";
                Finding::warn("names", fact, remedy)
            }
            Found::Nowhere(why) => {
                let fact = format!("{host}, the name of this host, is unknown: {why}");
                let remedy = "enter it in DNS, or name the host as clients do by --host";
                Finding::warn("names", fact, remedy)
            }
        };
        self.add(finding);
    }

    /// Examines whether a certificate is for this host.
    pub(super) fn names_of(&mut self, topic: &'static str, what: &str, certificate: &Certificate) {
        let names = names(certificate);
        let host = &self.host;
        let finding = if Host::new(host).fits(certificate, Names::default()) {
            Finding::ok(topic, format!("{what}: it is for {host}"))
        } else if let Some((name, ip)) = names
            .iter()
            .take(MANY)
            .filter(|_| !self.is_host_given)
            .find_map(|name| match resolve(name) {
                Found::Here(ip) => Some((name, ip)),
                Found::Elsewhere(_) | Found::Nowhere(_) => None,
            })
        {
            Finding::ok(
                topic,
                format!("{what}: it is for {name}, which is {ip} of this host"),
            )
        } else {
            let listed = match names.is_empty() {
                true => certificate.subject().to_string(),
                false => names.join(", "),
            };
            let fact = format!("{what}: it is for {listed}, and not for {host}");
            let remedy = "clients must connect to a name in it: have one issued for this host, or \
                          name the host as clients do by --host";
            match self.is_host_given {
                true => Finding::fail(topic, fact, remedy),
                false => Finding::warn(topic, fact, remedy),
            }
        };
        self.add(finding);
    }
}

/// The names and addresses of hosts in a certificate.
fn names(certificate: &Certificate) -> Vec<String> {
    let addresses = certificate.ip_addresses().iter().map(IpAddr::to_string);
    let mut names: Vec<String> = certificate
        .dns_names()
        .iter()
        .cloned()
        .chain(addresses)
        .collect();
    if names.is_empty() {
        // As `host/NAME` in certificates of services.
        let common = certificate.subject().common_name();
        names.extend(common.map(|name| name.rsplit('/').next().unwrap_or_default().to_owned()));
    }
    names
}

/// Asks the resolver, within its time.
fn resolve(name: &str) -> Found {
    let (tell, told) = mpsc::channel();
    let asked = name.to_owned();
    let ask = move || {
        let found = (asked.as_str(), 0).to_socket_addrs();
        // Nobody waits any more where it was too slow.
        let _ = tell.send(found.map(|found| found.map(|at| at.ip()).collect::<Vec<_>>()));
    };
    if let Err(error) = std::thread::Builder::new().spawn(ask) {
        return Found::Nowhere(error.to_string());
    }
    match told.recv_timeout(RESOLVE) {
        Ok(Ok(found)) => match found.iter().find(|ip| is_here(**ip)) {
            Some(ip) => Found::Here(*ip),
            None => Found::Elsewhere(found),
        },
        Ok(Err(error)) => Found::Nowhere(error.to_string()),
        Err(_) => Found::Nowhere(format!("no answer within {} s", RESOLVE.as_secs())),
    }
}

/// Says whether an address is of this host: only then a socket can have it.
fn is_here(ip: IpAddr) -> bool {
    !ip.is_unspecified() && UdpSocket::bind(SocketAddr::new(ip, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_of_this_host_or_not() {
        assert!(is_here([127, 0, 0, 1].into()));
        // For documentation (RFC 5737 §3).
        assert!(!is_here([192, 0, 2, 1].into()));
        assert!(matches!(resolve("127.0.0.1"), Found::Here(_)));
        assert!(matches!(resolve("192.0.2.1"), Found::Elsewhere(_)));
        assert!(matches!(resolve("no such name"), Found::Nowhere(_)));
    }
}

//! `resolve`: the addresses of a target, by the driver's resolver.

use std::future::Future;
use std::io;
use std::net::SocketAddr;

use crate::error::{Error, ErrorKind, Operation, Result};
use crate::target::Target;

/// The addresses that `to` stands for, in the resolver's order; at least one.
///
/// `port` is the one to use, from the target or from the driver's options. `lookup` is asked for
/// names only, with a host and a port: this crate has no resolver of its own. Errors name `layer`
/// and `op`.
///
/// # Errors
/// [`BadTarget`](ErrorKind::BadTarget) without a host or port, and
/// [`Unreachable`](ErrorKind::Unreachable) where no address is found, or none that is IPv4 when
/// `ipv4_only`.
///
/// # Cancel safety
/// Dropping the future gives up `lookup`, and changes nothing.
pub async fn resolve<A, F>(
    to: &Target,
    port: Option<u16>,
    ipv4_only: bool,
    (layer, op): (&'static str, Operation),
    lookup: impl FnOnce(String, u16) -> F,
) -> Result<Vec<SocketAddr>>
where
    A: Iterator<Item = SocketAddr>,
    F: Future<Output = io::Result<A>>,
{
    let bad = |fact: String| Error::new(ErrorKind::BadTarget, layer, op, fact);
    let host = to
        .host
        .as_deref()
        .ok_or_else(|| bad(format!("`{to:?}` names no host; write host:port")))?;
    let port = port.ok_or_else(|| bad(format!("`{to:?}` names no port; write host:port")))?;
    let unreachable = |fact: String| Error::new(ErrorKind::Unreachable, layer, op, fact);
    let mut found: Vec<SocketAddr> = match to.address() {
        Some(mut address) => {
            address.set_port(port);
            vec![address]
        }
        None => lookup(host.to_owned(), port)
            .await
            .map_err(|e| unreachable(format!("no address for host {host}: {e}")).with_source(e))?
            .collect(),
    };
    if ipv4_only {
        found.retain(SocketAddr::is_ipv4);
    }
    if found.is_empty() {
        return Err(unreachable(format!(
            "host {host} has no address of a family that may be used"
        )));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn found(to: &str, port: Option<u16>, ipv4_only: bool) -> Result<Vec<SocketAddr>> {
        let lookup = |host: String, port: u16| async move {
            match host.as_str() {
                "both" => Ok(vec![
                    SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], port)),
                    SocketAddr::from(([127, 0, 0, 1], port)),
                ]
                .into_iter()),
                _ => Err(io::Error::other("no such host")),
            }
        };
        resolve(
            &to.parse().unwrap(),
            port,
            ipv4_only,
            ("tcp", Operation::Connect),
            lookup,
        )
        .await
    }

    #[tokio::test]
    async fn names_are_looked_up_and_addresses_are_not() {
        let texts = |found: Vec<SocketAddr>| found.iter().map(ToString::to_string).collect();
        let both: Vec<String> = texts(found("both:0", Some(5), false).await.unwrap());
        assert_eq!(both, ["[::1]:5", "127.0.0.1:5"]);
        let one: Vec<String> = texts(found("both:0", Some(5), true).await.unwrap());
        assert_eq!(one, ["127.0.0.1:5"]);
        let plain: Vec<String> = texts(found("10.0.0.1:7", Some(9), true).await.unwrap());
        assert_eq!(plain, ["10.0.0.1:9"]);
    }

    #[tokio::test]
    async fn what_is_missing_is_named() {
        for (to, port, ipv4_only, kind, word) in [
            ("/tmp/x", Some(1), false, ErrorKind::BadTarget, "no host"),
            ("both:1", None, false, ErrorKind::BadTarget, "no port"),
            ("none:1", Some(1), false, ErrorKind::Unreachable, "none"),
            ("[::1]:1", Some(1), true, ErrorKind::Unreachable, "family"),
        ] {
            let error = found(to, port, ipv4_only).await.unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(word), "{error}");
        }
    }
}

//! The tunnel through a proxy to a web server of TLS.

use tokio::time::timeout;
use xio::http::{Http, HttpOptions};
use xio_core::{BoxStream, Error, ErrorKind, Operation, Target, Transform as _};

use super::fault::WebError;
use super::proxy::named;
use super::request::{broken, proxy_login};
use crate::options::ConnectOptions;
use crate::url::Site;

/// Has the proxy at the other end of a stream connect to a server (RFC 9110 §9.3.6).
///
/// # Errors
/// When the proxy refuses that, breaks the protocol, or takes longer than a connection may.
///
/// # Cancel safety
/// Dropping the future closes the connection.
pub(super) async fn tunnel(
    stream: BoxStream,
    proxy: &Site,
    server: &Site,
    options: &ConnectOptions,
) -> Result<BoxStream, WebError> {
    let limit = options.connect_within;
    let mut http = HttpOptions::default();
    "CONNECT".clone_into(&mut http.method);
    // With the port, be it that of the scheme (RFC 9112 §3.2.3).
    http.target = Some(server.to_string());
    http.host = Some(server.to_string());
    http.headers = proxy_login(proxy).into_iter().collect();
    http.head_timeout = limit;
    http.any_status = true;
    // The tunnel ends the connection, and not the exchange.
    http.persistent = true;
    let opening = async {
        let to = Target::host(server.host.clone(), server.port);
        let mut stream = Http::new().with_options(http).initiate(stream, &to).await?;
        let response = stream.receive_response().await?;
        Ok::<_, Error>((stream, response))
    };
    let opened = timeout(limit, opening).await;
    let opened = opened.unwrap_or_else(|_| {
        let fact = format!("no answer within {} s", limit.as_secs());
        Err(Error::new(
            ErrorKind::TimedOut,
            "http",
            Operation::Connect,
            fact,
        ))
    });
    let request = format!("CONNECT {server}");
    match opened {
        Ok((stream, response)) if response.is_success() => Ok(Box::new(stream)),
        Ok((_, response)) => Err(WebError::by_proxy(named(proxy), request, &response)),
        Err(cause) if cause.kind() == ErrorKind::TimedOut => Err(WebError::Unanswered {
            proxy: named(proxy),
            request,
            cause,
        }),
        Err(cause) => Err(broken(&named(proxy), cause)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

    use super::*;
    use crate::error::{Class, TransferError};
    use crate::played::Wire;

    const LIMIT: Duration = Duration::from_secs(7);

    async fn opened(near: DuplexStream) -> Result<BoxStream, WebError> {
        let (proxy, server) = (Site::new("p", 3128), Site::new("h", 443));
        let options = ConnectOptions::default().connect_within(LIMIT);
        tunnel(Box::new(Wire(near)), &proxy, &server, &options).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_proxy_has_the_time_of_a_connection() {
        let (near, mut far) = tokio::io::duplex(1 << 10);
        let begun = tokio::time::Instant::now();
        // A byte now and then is no answer.
        let trickling = async {
            for byte in b"HTTP/1.1 200 OK\r\n".iter().cycle() {
                tokio::time::sleep(LIMIT / 2).await;
                far.write_all(&[*byte]).await.unwrap();
            }
        };
        let error = tokio::select! {
            done = opened(near) => done.err().unwrap(),
            () = trickling => unreachable!("it has no end"),
        };
        assert_eq!(begun.elapsed(), LIMIT);
        let told = error.to_string();
        let is_said =
            told.starts_with("proxy p:3128: CONNECT h:443: ") && told.contains("within 7 s");
        assert!(is_said, "{told}");
        assert_eq!(error.fields().class, Class::Connect);
        let error = TransferError::from(error);
        assert!(error.is_transient() && error.is_gone(), "{told}");
    }

    #[tokio::test]
    async fn bytes_pass_behind_the_head_alone() {
        let (near, mut far) = tokio::io::duplex(1 << 10);
        far.write_all(b"HTTP/1.1 200 OK\r\n\r\nabc").await.unwrap();
        let mut stream = opened(near).await.unwrap();
        let mut bytes = [0; 3];
        stream.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"abc");
    }
}

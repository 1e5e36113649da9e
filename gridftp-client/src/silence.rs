//! The greeting of a server, and the cause of one that does not come.

use std::future::Future;
use std::time::Duration;

use ftp_proto::client::Security as Steps;
use ftp_proto::security::Mechanism;
use ftp_wire::reply::Reply;
use xio_core::ErrorKind;

use crate::control::Replies;
use crate::error::ConnectError;
use crate::guard::Guard;
use crate::login::{last, reach};
use crate::options::{ConnectOptions, Security};
use crate::url::{FTPS_PORT, Scheme, Site};

/// Time without a greeting after which the cause is sought.
const QUIET: Duration = Duration::from_secs(3);

/// Reads the greeting of a session that takes these steps.
///
/// A server of implicit TLS and a client that waits for its greeting would both wait for ever.
///
/// # Errors
/// [`ConnectError::Implicit`], or the end of the connection.
pub(crate) async fn greeting(
    banner: &mut Replies,
    steps: Steps,
    site: &Site,
    options: &ConnectOptions,
) -> Result<Reply, ConnectError> {
    let waits = match steps {
        Steps::Explicit(Mechanism::Tls, _) => true,
        Steps::Explicit(..) | Steps::Clear => site.port == FTPS_PORT && site.scheme != Scheme::Ssh,
        Steps::Implicit(_) => false,
    };
    if !waits {
        return Ok(last(banner).await?);
    }
    match unless(last(banner), speaks_tls(site, options)).await {
        Some(greeting) => Ok(greeting?),
        None => Err(ConnectError::Implicit {
            site: site.to_string(),
        }),
    }
}

/// Waits for a greeting, unless there is a cause that it does not come.
async fn unless<T>(
    greeting: impl Future<Output = T>,
    cause: impl Future<Output = bool>,
) -> Option<T> {
    let sought = async {
        tokio::time::sleep(QUIET).await;
        if !cause.await {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        biased;
        greeting = greeting => Some(greeting),
        () = sought => None,
    }
}

/// Says whether the server answers a handshake of TLS, on a connection of its own: many servers are
/// slow to greet.
async fn speaks_tls(site: &Site, options: &ConnectOptions) -> bool {
    let site = Site {
        scheme: Scheme::Ftps,
        ..site.clone()
    };
    let options = ConnectOptions {
        security: Security::Implicit,
        protect: None,
        identity: None,
        ..options.clone()
    };
    let Ok(guard) = Guard::of(&site, &options, None) else {
        return false;
    };
    let Ok((stream, _)) = reach(&site, &site.to_string(), &options).await else {
        return false;
    };
    match guard.protect(stream).await {
        Ok(_) => true,
        // Its certificate or its alert has come.
        Err(error) => error.kind() == ErrorKind::Security,
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tokio::time::{Instant, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_server_that_waits_for_tls_is_not_waited_for() {
        let begun = Instant::now();
        assert_eq!(unless(pending::<()>(), ready(true)).await, None);
        assert_eq!(begun.elapsed(), QUIET);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_greeting_is_taken() {
        let slow = async || {
            sleep(QUIET * 5).await;
            "220 ready"
        };
        for cause in [false, true] {
            let cause = async move {
                // A handshake with a server that says nothing takes its time.
                sleep(QUIET * if cause { 10 } else { 0 }).await;
                cause
            };
            assert_eq!(unless(slow(), cause).await, Some("220 ready"));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_quick_greeting_needs_no_cause() {
        let never = async { panic!("the cause is sought") };
        assert_eq!(unless(sleep(QUIET / 2), never).await, Some(()));
    }
}

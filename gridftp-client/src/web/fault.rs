//! `WebError`: the failure of an exchange with a web server, and the remedy.

use std::time::Duration;

use xio::http::Response;
use xio_core::ErrorKind;

use super::answer::retry_after;
use crate::error::{Class, Fields, Remedy, TransferError};
use crate::text::Chain;
use crate::url::show_text;

/// Longest text of a server that an error repeats, in bytes.
const WORDS: usize = 200;

/// The remedy for a server that a proxy does not reach.
const NOT_REACHED: &str = "it does not reach the server, try again later";

/// The failure of an exchange with a web server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WebError {
    /// The server refuses the request.
    #[error("{url}: {status}{reason}{}", Remedy(remedy(*.status)))]
    Refused {
        /// The URL, without its password.
        url: String,
        /// The status.
        status: u16,
        /// The reason phrase behind a blank; empty where the server tells none.
        reason: String,
        /// The pause that the server asks for before the next request.
        wait: Option<Duration>,
    },
    /// A proxy on the way refuses the request, or does not reach the server.
    #[error("{proxy}: {request}: {status}{reason}{}", Remedy(proxy_remedy(*.status)))]
    Proxy {
        /// The word `proxy`, and its `host:port`.
        proxy: String,
        /// `CONNECT` and the server, or the URL without its password.
        request: String,
        /// The status.
        status: u16,
        /// The reason phrase behind a blank; empty where the proxy tells none.
        reason: String,
        /// The pause that the proxy asks for before the next request.
        wait: Option<Duration>,
    },
    /// A proxy does not say in time whether it reaches the server.
    #[error("{proxy}: {request}: {}{}", Chain(.cause), Remedy(NOT_REACHED))]
    Unanswered {
        /// The word `proxy`, and its `host:port`.
        proxy: String,
        /// `CONNECT` and the server.
        request: String,
        /// The error of the connection, which names the time limit.
        #[source]
        cause: xio_core::Error,
    },
    /// The connection broke, or the server or a proxy broke the protocol.
    #[error("{url}: {}", Chain(.cause))]
    Broken {
        /// The URL, without its password, or the proxy.
        url: String,
        /// The error of the connection.
        #[source]
        cause: xio_core::Error,
    },
    /// The answer leads to a place that is not asked.
    #[error("{url}: it leads {why}")]
    Redirect {
        /// The URL, without its password.
        url: String,
        /// The fault of that place.
        why: &'static str,
    },
    /// The answer does not fit the request.
    #[error("{url}: {what}")]
    Answer {
        /// The URL, without its password.
        url: String,
        /// The fault.
        what: String,
    },
}

impl WebError {
    /// Makes a refusal; the server's words are made safe to print.
    pub(super) fn refused(url: String, status: u16, reason: &str, wait: Option<Duration>) -> Self {
        Self::Refused {
            url,
            status,
            reason: words(reason),
            wait,
        }
    }

    /// Makes the refusal of a proxy, as [`refused`](Self::refused) does that of a server.
    pub(super) fn by_proxy(proxy: String, request: String, response: &Response) -> Self {
        Self::Proxy {
            proxy,
            request,
            status: response.status,
            reason: words(&response.reason),
            wait: retry_after(&response.headers),
        }
    }

    /// Says whether trying again may help.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Refused { status, .. } | Self::Proxy { status, .. } => {
                matches!(status, 408 | 425 | 429 | 500 | 502 | 503 | 504)
            }
            Self::Unanswered { .. } => true,
            Self::Broken { cause, .. } => cause.is_transient(),
            Self::Redirect { .. } | Self::Answer { .. } => false,
        }
    }

    /// Says whether a proxy does not reach the server, which may come back: RFC 9110 §15.6.3 to
    /// §15.6.5 have these statuses for a gateway, and only `CONNECT` tells them as the proxy's own.
    pub(crate) fn is_gone(&self) -> bool {
        match self {
            Self::Proxy { status, .. } => matches!(status, 502..=504),
            Self::Unanswered { .. } => true,
            Self::Refused { .. }
            | Self::Broken { .. }
            | Self::Redirect { .. }
            | Self::Answer { .. } => false,
        }
    }

    /// Tells the parts of the error.
    pub fn fields(&self) -> Fields<'_> {
        let at = |class, url| Fields {
            operation: Some("GET"),
            path: Some(url),
            ..Fields::of(class)
        };
        match self {
            Self::Refused { url, status, .. } => {
                let class = match status {
                    401 | 407 => Class::Login,
                    _ => Class::Transfer,
                };
                let code = Some(*status);
                let fields = at(class, url).with_remedy(remedy(*status));
                Fields { code, ..fields }
            }
            Self::Proxy {
                proxy,
                request,
                status,
                ..
            } => Fields {
                site: Some(proxy),
                operation: Some(request),
                code: Some(*status),
                ..Fields::of(match status {
                    407 => Class::Login,
                    _ => Class::Connect,
                })
                .with_remedy(proxy_remedy(*status))
            },
            Self::Unanswered { proxy, request, .. } => Fields {
                site: Some(proxy),
                operation: Some(request),
                ..Fields::of(Class::Connect).with_remedy(NOT_REACHED)
            },
            Self::Broken { url, cause } => match cause.kind() {
                ErrorKind::Unreachable | ErrorKind::Refused => at(Class::Connect, url),
                _ => at(Class::Transfer, url),
            },
            Self::Redirect { url, .. } | Self::Answer { url, .. } => at(Class::Transfer, url),
        }
    }
}

impl TransferError {
    /// The pause that a web server asks for before the next attempt.
    pub(crate) fn asked_pause(&self) -> Duration {
        match self {
            Self::Web(WebError::Refused { wait, .. } | WebError::Proxy { wait, .. }) => {
                wait.unwrap_or_default()
            }
            _ => Duration::ZERO,
        }
    }
}

/// A reason phrase behind a blank, cut and made safe to print.
fn words(reason: &str) -> String {
    let bytes = reason.as_bytes();
    let reason = show_text(bytes.get(..WORDS).unwrap_or(bytes));
    let blank = if reason.is_empty() { "" } else { " " };
    format!("{blank}{reason}")
}

/// The remedy for a refusal by a proxy; empty where none is known.
fn proxy_remedy(status: u16) -> &'static str {
    match status {
        407 => "name an account in the URL of the proxy, as http://USER:PASSWORD@HOST:PORT",
        403 | 405 => "the proxy does not allow it, name the server in no_proxy",
        502..=504 => NOT_REACHED,
        _ => "",
    }
}

/// The remedy for a refusal; empty where none is known.
fn remedy(status: u16) -> &'static str {
    match status {
        401 => "name an account in the URL or with --netrc",
        403 => "this account may not read it",
        404 | 410 => "check the URL",
        407 => "the gateway on the way asks for an account",
        416 => "it has become smaller, copy it again",
        429 | 503 => "try again later, or with a smaller --concurrency",
        500 | 502 | 504 => "try again later",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_tells_the_class_and_whether_to_try_again() {
        for (status, class, again) in [
            (401, Class::Login, false),
            (403, Class::Transfer, false),
            (404, Class::Transfer, false),
            (416, Class::Transfer, false),
            (429, Class::Transfer, true),
            (500, Class::Transfer, true),
            (501, Class::Transfer, false),
            (503, Class::Transfer, true),
        ] {
            let error = WebError::refused("http://h:80/x".to_owned(), status, "No", None);
            let fields = error.fields();
            assert_eq!((fields.class, fields.code), (class, Some(status)));
            assert_eq!(error.is_transient(), again, "{status}");
            assert!(
                error
                    .to_string()
                    .starts_with(&format!("http://h:80/x: {status} No"))
            );
        }
    }

    #[test]
    fn the_refusal_of_a_proxy_names_it() {
        // RFC 9110 §15.6.3 to §15.6.5.
        for (status, class, again, gone) in [
            (403, Class::Connect, false, false),
            (407, Class::Login, false, false),
            (500, Class::Connect, true, false),
            (502, Class::Connect, true, true),
            (503, Class::Connect, true, true),
            (504, Class::Connect, true, true),
        ] {
            let mut response = Response::new(status).unwrap();
            response.reason = "No".to_owned();
            response.headers.push("Retry-After", "9").unwrap();
            let (proxy, request) = ("proxy p:1".to_owned(), "CONNECT h:443".to_owned());
            let error = WebError::by_proxy(proxy, request, &response);
            let fields = error.fields();
            assert_eq!((fields.class, fields.code), (class, Some(status)));
            assert_eq!(fields.site, Some("proxy p:1"));
            assert_eq!(fields.remedy.is_some(), status != 500, "{status}");
            assert_eq!(error.is_transient(), again, "{status}");
            let told = error.to_string();
            let fact = format!("proxy p:1: CONNECT h:443: {status} No");
            assert!(told.starts_with(&fact), "{told}");
            let error = TransferError::from(error);
            assert_eq!(error.is_gone(), gone, "{status}");
            assert_eq!(error.asked_pause(), Duration::from_secs(9));
        }
    }

    #[test]
    fn words_of_a_server_are_cut_and_cannot_drive_a_terminal() {
        let reason = "\u{1b}[2J".repeat(1000);
        let error = WebError::refused(String::new(), 404, &reason, None).to_string();
        assert!(
            error.len() < 4 * WORDS && !error.contains('\u{1b}'),
            "{error}"
        );
    }
}

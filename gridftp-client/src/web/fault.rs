//! `WebError`: the failure of an exchange with a web server, and the remedy.

use std::time::Duration;

use xio_core::ErrorKind;

use crate::error::{Class, Fields, Remedy, TransferError};
use crate::text::Chain;
use crate::url::show;

/// Longest text of a server that an error repeats, in bytes.
const WORDS: usize = 200;

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
    /// The connection broke, or the server broke the protocol.
    #[error("{url}: {}", Chain(.cause))]
    Broken {
        /// The URL, without its password.
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
        let bytes = reason.as_bytes();
        let reason = show(bytes.get(..WORDS).unwrap_or(bytes));
        let blank = if reason.is_empty() { "" } else { " " };
        Self::Refused {
            url,
            status,
            reason: format!("{blank}{reason}"),
            wait,
        }
    }

    /// Says whether trying again may help.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Refused { status, .. } => {
                matches!(status, 408 | 425 | 429 | 500 | 502 | 503 | 504)
            }
            Self::Broken { cause, .. } => cause.is_transient(),
            Self::Redirect { .. } | Self::Answer { .. } => false,
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
            Self::Web(WebError::Refused { wait, .. }) => wait.unwrap_or_default(),
            _ => Duration::ZERO,
        }
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
    fn words_of_a_server_are_cut_and_cannot_drive_a_terminal() {
        let reason = "\u{1b}[2J".repeat(1000);
        let error = WebError::refused(String::new(), 404, &reason, None).to_string();
        assert!(
            error.len() < 4 * WORDS && !error.contains('\u{1b}'),
            "{error}"
        );
    }
}

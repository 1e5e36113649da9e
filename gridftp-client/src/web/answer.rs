//! `Answer`: the answer of a web server, and its bytes in order.

use std::time::Duration;

use bytes::BytesMut;
use tokio::io::AsyncReadExt as _;
use tokio::time::timeout;
use xio::http::{Headers, HttpHandle, Response};
use xio_core::{BoxStream, Error, ErrorKind, Operation};

use super::fault::WebError;
use super::head::is_coded;
use super::request::broken;
use super::{Head, date};
use crate::error::TransferError;
use crate::options::ConnectOptions;
use crate::url::url_path;

/// Bytes read at once.
const PIECE: usize = 256 * 1024;

/// Bytes that are worth a write.
const ENOUGH: usize = 64 * 1024;

/// Longest pause that a server may ask for.
const LONGEST_WAIT: u64 = 120;

/// The answer of a web server.
pub(crate) struct Answer {
    /// The URL that was asked for.
    pub(crate) url: String,
    pub(crate) head: Head,
    /// The proxy that forwards the request, in messages.
    proxy: Option<String>,
    response: Response,
    stream: HttpHandle<BoxStream>,
    /// Bytes that have come and are not taken.
    first: BytesMut,
    /// Whether its end has come.
    is_over: bool,
    /// The error behind the first bytes.
    failure: Option<std::io::Error>,
    /// Longest wait for the next bytes.
    stall: Duration,
}

impl Answer {
    /// Reads the head.
    pub(super) async fn read(
        mut stream: HttpHandle<BoxStream>,
        url: String,
        proxy: Option<String>,
        options: &ConnectOptions,
    ) -> Result<Self, WebError> {
        let mut first = BytesMut::with_capacity(PIECE);
        let read = timeout(options.reply_within, stream.read_buf(&mut first)).await;
        let read = read.unwrap_or_else(|_| Err(silent(options.reply_within)));
        let response = stream.response();
        let (is_over, failure) = match read {
            Ok(read) => (read == 0, None),
            // The head tells more than the end of its body.
            Err(error) if response.is_some() => (false, Some(error)),
            Err(error) => return Err(lost(&url, error)),
        };
        let Some(response) = response else {
            let what = "it has no head".to_owned();
            return Err(WebError::Answer { url, what });
        };
        Ok(Self {
            head: Head::of(&response),
            url,
            proxy,
            response,
            stream,
            first,
            is_over,
            failure,
            stall: options.stall,
        })
    }

    /// The place that it leads to.
    pub(super) fn location(&self) -> Option<&str> {
        let leads = matches!(self.response.status, 301 | 302 | 303 | 307 | 308);
        self.response.headers.get("Location").filter(|_| leads)
    }

    /// Gives an answer with a file, or with a part of it.
    pub(super) fn accepted(self) -> Result<Self, TransferError> {
        match self.response.status {
            // 203 tells that a gateway has changed the bytes.
            200 | 206 if !is_coded(&self.response.headers, url_path(self.url.as_bytes())) => {
                Ok(self)
            }
            200 | 206 => {
                let what = "it comes compressed (Content-Encoding), which is another file";
                let (url, what) = (self.url, what.to_owned());
                Err(WebError::Answer { url, what }.into())
            }
            status => {
                // No server has it, only the proxy.
                if let (407, Some(proxy)) = (status, self.proxy) {
                    return Err(WebError::by_proxy(proxy, self.url, &self.response).into());
                }
                let wait = retry_after(&self.response.headers);
                let reason = &self.response.reason;
                Err(WebError::refused(self.url, status, reason, wait).into())
            }
        }
    }

    /// Whether the end that its connection has is that of the file: nothing tells a part from the
    /// whole in clear text without a length.
    pub(crate) fn tells_its_end(&self) -> bool {
        use xio_core::Stream as _;
        self.head.is_framed || self.stream.info().security.is_some()
    }

    /// The next bytes, at most `most`; none is the end.
    ///
    /// # Errors
    /// When the connection breaks, or ends before the answer.
    ///
    /// # Cancel safety
    /// Dropping the future may lose bytes.
    pub(crate) async fn piece(&mut self, most: u64) -> Result<BytesMut, WebError> {
        if most == 0 {
            // The server may go on, or be silent.
            return Ok(BytesMut::new());
        }
        self.first.reserve(PIECE - self.first.len().min(PIECE));
        while self.first.len() < ENOUGH && !self.is_over && self.failure.is_none() {
            let read = timeout(self.stall, self.stream.read_buf(&mut self.first)).await;
            match read.unwrap_or_else(|_| Err(silent(self.stall))) {
                Ok(read) => self.is_over = read == 0,
                Err(error) => self.failure = Some(error),
            }
        }
        if self.first.is_empty()
            && let Some(error) = self.failure.take()
        {
            return Err(lost(&self.url, error));
        }
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        Ok(self.first.split_to(most.min(self.first.len())))
    }
}

/// The pause that a server asks for, in seconds or up to a date (RFC 9110 §10.2.3).
pub(super) fn retry_after(headers: &Headers) -> Option<Duration> {
    let value = headers.get("Retry-After")?;
    let seconds = match value.parse::<u64>() {
        Ok(seconds) => seconds,
        Err(_) => {
            // Its own clock, where it tells that, has made the date.
            let now = headers.get("Date").and_then(date::parse);
            let left = date::parse(value)?.saturating_sub(now.unwrap_or_else(date::now));
            u64::try_from(left).unwrap_or(0)
        }
    };
    Some(Duration::from_secs(seconds.min(LONGEST_WAIT)))
}

fn silent(within: Duration) -> std::io::Error {
    let fact = format!("nothing came for {} s", within.as_secs());
    Error::new(ErrorKind::TimedOut, "http", Operation::Read, fact).into()
}

fn lost(url: &str, error: std::io::Error) -> WebError {
    broken(url, Error::from_io(error, "http", Operation::Read))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_of_seconds_or_up_to_a_date_and_has_a_bound() {
        let date = ("Date", "Sun, 06 Nov 1994 08:49:37 GMT");
        for (value, fields, wanted) in [
            ("Sun, 06 Nov 1994 08:49:44 GMT", &[date][..], Some(7)),
            ("Sunday, 06-Nov-94 08:49:44 GMT", &[date], Some(7)),
            ("Sun Nov  6 08:49:44 1994", &[date], Some(7)),
            ("Mon, 07 Nov 1994 08:49:37 GMT", &[date], Some(LONGEST_WAIT)),
            ("Sun, 06 Nov 1994 08:49:30 GMT", &[date], Some(0)),
            // By the clock of this machine, where the server does not tell its own.
            ("Sun, 06 Nov 1994 08:49:44 GMT", &[], Some(0)),
            ("Fri, 31 Dec 9999 23:59:59 GMT", &[], Some(LONGEST_WAIT)),
            ("7", &[], Some(7)),
            ("100000", &[], Some(LONGEST_WAIT)),
            ("soon", &[date], None),
            ("-1", &[date], None),
            ("", &[date], None),
        ] {
            let mut headers = Headers::new();
            headers.push("Retry-After", value).unwrap();
            for (name, value) in fields {
                headers.push(name, value).unwrap();
            }
            let wanted = wanted.map(Duration::from_secs);
            assert_eq!(retry_after(&headers), wanted, "{value} {fields:?}");
        }
        assert_eq!(retry_after(&Headers::new()), None);
    }
}

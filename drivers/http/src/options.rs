//! `HttpOptions`: the settings of the messages that this end writes.

use std::time::Duration;

use xio_core::{BadValue, Setting, Value, print_list};

use crate::Http;
use crate::head::{Headers, Request, Response, Version};

/// Fields that delimit a message or address it; they have their own options.
const RESERVED: [&str; 4] = ["connection", "content-length", "host", "transfer-encoding"];

xio_core::options! {
    /// Settings of the messages that this end writes.
    pub struct HttpOptions for "http" [impl Http] {
        /// Whether the entity of a response other than success is read like any other.
        any_status: bool = false, "any_status", Setting::new().local();
        /// Whether the request waits for the first write or read.
        delay_write_header: bool = false, "delay_write_header";
        /// Longest time for a peer to send the head of a request, or to read it.
        head_timeout: Duration = Duration::from_secs(30), "head_timeout", Setting::new().local();
        /// Header fields to add.
        headers: Vec<(String, String)> = Vec::new(), "header",
            Setting::with("a list whose first character is its delimiter, as #Accept: */*#Range: bytes=5-",
                &["#Accept: */*#Range: bytes=5-"],
                fields,
                |fields| {
                    let lines = fields.iter().map(|(name, value)| format!("{name}: {value}"));
                    Some(print_list(&lines.collect::<Vec<_>>()))
                },
            );
        /// Value of the field Host; the target's host and port by default.
        host: Option<String> = None, "host",
            Setting::new()
                .takes("a host, or host:port", &["example.org:8080"])
                .read_by(host);
        /// Length of the entity in bytes; sent in chunks by default.
        length: Option<u64> = None, "length",
            Setting::new()
                .takes("a number of bytes", &["0", "5000000000"])
                .only(|length| length.is_some_and(|length| i64::try_from(length).is_ok()));
        /// Method of the request.
        method: String = "GET".to_owned(), "method",
            Setting::new()
                .takes("a method, as PUT", &["PUT"])
                .only(|method| Request::new(method, "/").is_ok());
        /// Whether the connection is kept for further exchanges.
        persistent: bool = false, "persistent";
        /// Status of the response.
        status: u16 = 200, "status",
            Setting::new()
                .takes("a number from 200 to 999", &["200", "999"])
                .only(|status| Response::new(*status).is_ok());
        /// Target of the request line, as it is sent; the target's path, encoded, by default.
        target: Option<String> = None, "target",
            Setting::new()
                .takes("a target of a request, as /path?query", &["/a%2Fb?c=d"])
                .only(|target: &Option<String>| {
                    let is_sent = |target: &str| Request::new("GET", target).is_ok();
                    target.as_deref().is_some_and(is_sent)
                })
                .local();
        /// Version of the written messages.
        version: Version = Version::Http11, "version",
            Setting::with("1.0 or 1.1", &["1.0", "1.1"], version, |version| {
                Some(version.to_string().replace("HTTP/", ""))
            });
    }
}

fn host(value: Value<'_>) -> Result<Option<String>, BadValue> {
    let fits = |b: u8| b.is_ascii_graphic() && !b"/?#@".contains(&b);
    match value.word()? {
        host if host.bytes().all(fits) => Ok(Some(host)),
        _ => Err(BadValue),
    }
}

fn version(value: Value<'_>) -> Result<Version, BadValue> {
    match value.text() {
        "1.0" => Ok(Version::Http10),
        "1.1" => Ok(Version::Http11),
        _ => Err(BadValue),
    }
}

impl HttpOptions {
    /// Adds the fields of the option `header` to a head.
    pub(crate) fn add_to(&self, headers: &mut Headers) -> Result<(), crate::BadHead> {
        for (name, value) in &self.headers {
            if is_reserved(name) {
                return Err(crate::BadHead::Field);
            }
            headers.push(name, value)?;
        }
        Ok(())
    }
}

/// Whether the layer writes this field by itself.
pub(crate) fn is_reserved(name: &str) -> bool {
    RESERVED
        .iter()
        .any(|known| known.eq_ignore_ascii_case(name))
}

fn fields(value: Value<'_>) -> Result<Vec<(String, String)>, BadValue> {
    let mut checked = Headers::new();
    value
        .list()?
        .into_iter()
        .map(|field| {
            let (name, text) = field.split_once(':').ok_or(BadValue)?;
            if is_reserved(name) {
                return Err(BadValue);
            }
            checked.push(name, text).map_err(|_| BadValue)?;
            Ok((name.to_owned(), text.trim_ascii().to_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_would_break_a_message_are_refused() {
        for text in [
            "method=GET /x",
            "method=",
            "header=#X: a%0D%0AY: b",
            "header=#X",
            "header=#Content-Length: 5",
            "header=#Transfer-encoding: chunked",
            "header=",
            "host=a b",
            "host=a/b",
            "length=-1",
            "length=99999999999999999999",
            "status=100",
            "status=1000",
            "target=",
            "target=/a b",
            "version=2",
        ] {
            let error = text.parse::<HttpOptions>().unwrap_err().to_string();
            assert!(error.contains("does not accept"), "{text}: {error}");
        }
    }
}

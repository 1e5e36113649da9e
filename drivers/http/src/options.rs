//! `HttpOptions`: what a stack string says of the messages that this end writes.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use xio_core::{BadValue, Entry, Error, Opt, OptionText, Result, Value, seconds};

use crate::error::LAYER;
use crate::head::{Headers, Request, Response, Version};

const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) const OPTIONS: &[Opt] = &[
    Opt::new(
        "any_status",
        "yes or no",
        "whether the entity of a response that is no success is read like any other",
    )
    .local(),
    Opt::new(
        "delay_write_header",
        "yes or no",
        "whether the request waits for the first write or read",
    ),
    Opt::new(
        "head_timeout",
        "seconds, as 30 or 2.5",
        "how long a peer may take to send each request, or to take its head",
    )
    .local(),
    Opt::new(
        "header",
        "a list whose first character is its delimiter, as #Accept: */*#Range: bytes=5-",
        "header fields to add",
    ),
    Opt::new("host", "a host, or host:port", "what the field Host says"),
    Opt::new(
        "length",
        "a number of bytes",
        "how long the entity will be, in place of chunks",
    ),
    Opt::new("method", "a method, as PUT", "what to ask for"),
    Opt::new(
        "persistent",
        "yes or no",
        "whether the connection is kept for further exchanges",
    ),
    Opt::new("status", "a number from 200 to 999", "what to answer"),
    Opt::new("version", "1.0 or 1.1", "the version to write"),
];

/// Fields that say where a message ends or who it is for; they have options of their own.
const RESERVED: [&str; 4] = ["connection", "content-length", "host", "transfer-encoding"];

/// What a stack string says of the messages that this end writes.
///
/// The string form and this struct meet in `FromStr` and `Display`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpOptions {
    /// Whether the entity of a response that is no success is read like any other.
    pub any_status: bool,
    /// Whether the request waits for the first write or read.
    pub delay_write_header: bool,
    /// How long a peer may take to send each request, or to take its head.
    pub head_timeout: Duration,
    /// Header fields to add.
    pub headers: Vec<(String, String)>,
    /// What the field Host says; the target's host and port if nothing.
    pub host: Option<String>,
    /// How long the entity will be, in bytes; chunked if unknown.
    pub length: Option<u64>,
    /// What to ask for.
    pub method: String,
    /// Whether the connection is kept for further exchanges.
    pub persistent: bool,
    /// What to answer.
    pub status: u16,
    /// The version to write.
    pub version: Version,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            any_status: false,
            delay_write_header: false,
            head_timeout: HEAD_TIMEOUT,
            headers: Vec::new(),
            host: None,
            length: None,
            method: "GET".to_owned(),
            persistent: false,
            status: 200,
            version: Version::Http11,
        }
    }
}

impl HttpOptions {
    /// Asks for an entity, or for whatever else `method` means.
    #[must_use]
    pub fn method(method: &str) -> Self {
        Self {
            method: method.to_owned(),
            ..Self::default()
        }
    }

    /// Reads the options of one entry of a stack string.
    ///
    /// # Errors
    /// An option that is unknown or whose value is not accepted.
    pub fn from_entry(entry: &Entry) -> Result<Self> {
        let mut options = Self::default();
        entry.apply(OPTIONS, &mut options, Self::set)?;
        Ok(options)
    }

    fn set(&mut self, key: &str, value: Value<'_>) -> Result<(), BadValue> {
        match key {
            "any_status" => self.any_status = value.bool()?,
            "delay_write_header" => self.delay_write_header = value.bool()?,
            "head_timeout" => self.head_timeout = value.seconds()?,
            "header" => self.headers = fields(value)?,
            "host" => {
                let fits = |b: u8| b.is_ascii_graphic() && !b"/?#@".contains(&b);
                match value.text() {
                    host if !host.is_empty() && host.bytes().all(fits) => {
                        self.host = Some(host.to_owned());
                    }
                    _ => return Err(BadValue),
                }
            }
            "length" => {
                let length: i64 = value.parse()?;
                self.length = Some(u64::try_from(length).map_err(|_| BadValue)?);
            }
            "method" => {
                Request::new(value.text(), "/").map_err(|_| BadValue)?;
                self.method = value.text().to_owned();
            }
            "persistent" => self.persistent = value.bool()?,
            "status" => {
                self.status = value.parse()?;
                Response::new(self.status).map_err(|_| BadValue)?;
            }
            "version" => {
                self.version = match value.text() {
                    "1.0" => Version::Http10,
                    "1.1" => Version::Http11,
                    _ => return Err(BadValue),
                }
            }
            _ => return Err(BadValue),
        }
        Ok(())
    }

    /// The fields to add, as they go into a head.
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

/// Prints fields as [`fields`] reads them.
fn listed(fields: &[(String, String)]) -> Option<String> {
    let used = |c: char| {
        fields
            .iter()
            .any(|(name, value)| name.contains(c) || value.contains(c))
    };
    // Some character is in none of the fields, since a plan is shorter than there are characters.
    let delimiter = "#|!/~^".chars().find(|c| !used(*c));
    let delimiter = delimiter.or_else(|| ('\u{100}'..).find(|c| !used(*c)))?;
    (!fields.is_empty()).then(|| {
        fields.iter().fold(String::new(), |text, (name, value)| {
            format!("{text}{delimiter}{name}: {value}")
        })
    })
}

impl FromStr for HttpOptions {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::from_entry(&Entry::new(LAYER)?.with_options(text)?)
    }
}

impl fmt::Display for HttpOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let standard = Self::default();
        let timeout = self.head_timeout;
        OptionText::new()
            .add("any_status", self.any_status.then_some("yes"))
            .add(
                "delay_write_header",
                self.delay_write_header.then_some("yes"),
            )
            .add(
                "head_timeout",
                (timeout != standard.head_timeout).then(|| seconds(timeout)),
            )
            .add("header", listed(&self.headers))
            .add("host", self.host.as_ref())
            .add("length", self.length)
            .add(
                "method",
                (self.method != standard.method).then_some(&self.method),
            )
            .add("persistent", self.persistent.then_some("yes"))
            .add(
                "status",
                (self.status != standard.status).then_some(self.status),
            )
            .add(
                "version",
                (self.version == Version::Http10).then_some("1.0"),
            )
            .fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Strategy, any, prop, prop_assert_eq, proptest};

    use super::*;

    fn options() -> impl Strategy<Value = HttpOptions> {
        let field = ("[A-Z][a-z-]{1,8}x", "[!-~]{0,5}( [!-~]{1,5})?").prop_map(|(name, value)| {
            let value: String = value;
            (name, value.trim_ascii().to_owned())
        });
        let words = (
            prop::collection::vec(field, 0..3),
            prop::option::of("[a-z.:0-9]{1,20}"),
            prop::option::of(0..u64::from(u32::MAX)),
            "[A-Z]{1,8}",
        );
        let rest = (any::<[bool; 4]>(), 200..1000_u16, 1..999_999_999_u64);
        (words, rest).prop_map(|((headers, host, length, method), (flags, status, time))| {
            HttpOptions {
                any_status: flags[0],
                delay_write_header: flags[1],
                head_timeout: Duration::from_millis(time),
                headers,
                host,
                length,
                method,
                persistent: flags[2],
                status,
                version: if flags[3] {
                    Version::Http10
                } else {
                    Version::Http11
                },
            }
        })
    }

    proptest! {
        #[test]
        fn display_round_trips(options in options()) {
            prop_assert_eq!(options.to_string().parse::<HttpOptions>().unwrap(), options);
        }
    }

    #[test]
    fn what_would_break_a_message_is_refused() {
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
            "version=2",
        ] {
            let error = text.parse::<HttpOptions>().unwrap_err().to_string();
            assert!(error.contains("does not accept"), "{text}: {error}");
        }
    }
}

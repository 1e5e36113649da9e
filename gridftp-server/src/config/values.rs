//! Values that flags and file write in the same grammar: sizes, times and ranges of ports.

use std::fmt;

use serde::de::{Deserializer, Error, Visitor};
use xio::{OptionValue, parse_duration, read_value};

/// A number or a text of the file, as a text.
struct Text;

impl Visitor<'_> for Text {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number or a text")
    }

    fn visit_i64<E>(self, number: i64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_str<E>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }
}

/// Reads a key of the file in the grammar of its flag.
pub(super) fn in_file<'de, D: Deserializer<'de>, T: OptionValue>(
    file: D,
) -> Result<Option<T>, D::Error> {
    let text = file.deserialize_any(Text)?;
    read_value(&text)
        .map(Some)
        .map_err(|takes| D::Error::custom(format!("`{text}`: {takes}")))
}

/// Reads a time in whole seconds.
pub(super) fn seconds(text: &str) -> Result<u32, String> {
    let time = parse_duration(text)
        .ok()
        .filter(|time| time.subsec_nanos() == 0);
    time.and_then(|time| u32::try_from(time.as_secs()).ok())
        .ok_or_else(|| "it takes whole seconds, as 30, or 10m".to_owned())
}

/// Reads a key of the file as [`seconds`] reads a flag.
pub(super) fn seconds_in_file<'de, D: Deserializer<'de>>(file: D) -> Result<Option<u32>, D::Error> {
    let text = file.deserialize_any(Text)?;
    seconds(&text)
        .map(Some)
        .map_err(|takes| D::Error::custom(format!("`{text}`: {takes}")))
}

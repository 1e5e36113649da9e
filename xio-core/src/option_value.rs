//! `OptionValue`: the types of options, with their readers, printers and words for the manual.

use std::net::IpAddr;
use std::time::Duration;

use crate::value::{BadValue, ByteSize, PortRange, Value, seconds};

/// The type of an option's value: its reader, its printer and its words for the manual.
pub trait OptionValue: Sized {
    /// The accepted values, for the table and for error messages: `bytes, as 4M`.
    const TAKES: &'static str;
    /// Values that are accepted, for tests.
    const EXAMPLES: &'static [&'static str];

    /// Reads a value.
    ///
    /// # Errors
    /// [`BadValue`] when it is not accepted.
    fn read(value: Value<'_>) -> Result<Self, BadValue>;

    /// Prints the value as [`read`](Self::read) reads it; `None` where no value is set.
    fn print(&self) -> Option<String>;
}

/// Gives each type that has `FromStr` and `Display` the value's kind and examples.
macro_rules! text_values {
    ($($type:ty: $takes:literal, $examples:expr;)*) => {$(
        impl OptionValue for $type {
            const TAKES: &'static str = $takes;
            const EXAMPLES: &'static [&'static str] = &$examples;

            fn read(value: Value<'_>) -> Result<Self, BadValue> {
                value.parse()
            }

            fn print(&self) -> Option<String> {
                Some(self.to_string())
            }
        }
    )*};
}

text_values! {
    u8: "a number from 0 to 255", ["0", "9", "255"];
    u16: "a number from 0 to 65535", ["0", "2811", "65535"];
    u32: "a number", ["0", "64", "100000"];
    u64: "a number", ["0", "5", "5000000000"];
    PortRange: "ports, as 50000-51000", ["50000-51000", "7,7"];
}

/// Gives types that [`Value`] has a method for the value's kind and examples.
macro_rules! plain_values {
    ($($type:ty: $takes:literal, $examples:expr, $read:path, $print:expr;)*) => {$(
        impl OptionValue for $type {
            const TAKES: &'static str = $takes;
            const EXAMPLES: &'static [&'static str] = &$examples;

            fn read(value: Value<'_>) -> Result<Self, BadValue> {
                $read(value)
            }

            fn print(&self) -> Option<String> {
                let print: fn(&Self) -> String = $print;
                Some(print(self))
            }
        }
    )*};
}

plain_values! {
    bool: "yes or no", ["yes", "no", "1", "0"], Value::bool, |on| if *on { "yes" } else { "no" }.to_owned();
    ByteSize: "bytes, as 4M", ["4M", "1500", "64k"], Value::size_above_zero, ToString::to_string;
    Duration: "a time above 0, as 2.5 (seconds) or 10m", ["2.5", "30", "0.001", "10m"], Value::duration, |time| seconds(*time);
    IpAddr: "an IP address", ["127.0.0.1", "::1"], Value::ip, ToString::to_string;
    String: "a word", ["word", "a b"], Value::word, Clone::clone;
    Vec<String>: "a list whose first character is its delimiter, as #a#b", ["#a#b", "|#|;"], Value::words, |list| print_list(list);
}

impl<T: OptionValue> OptionValue for Option<T> {
    const TAKES: &'static str = T::TAKES;
    const EXAMPLES: &'static [&'static str] = T::EXAMPLES;

    fn read(value: Value<'_>) -> Result<Self, BadValue> {
        T::read(value).map(Some)
    }

    fn print(&self) -> Option<String> {
        self.as_ref().and_then(T::print)
    }
}

/// Reads a value outside a stack string: of a flag, or of a configuration file.
///
/// # Errors
/// Names the values that are accepted.
pub fn read_value<T: OptionValue>(text: &str) -> Result<T, String> {
    T::read(Value::new(text)).map_err(|BadValue| format!("it takes {}", T::TAKES))
}

/// Prints a list as [`Value::list`] reads it, with a delimiter that no item contains.
#[must_use]
pub fn print_list<S: AsRef<str>>(items: &[S]) -> String {
    let free = |mark: &char| !items.iter().any(|item| item.as_ref().contains(*mark));
    let mark = "#|!/~^@".chars().find(free);
    let mark = mark.or_else(|| ('\u{100}'..).find(free)).unwrap_or('#');
    items.iter().fold(String::new(), |mut text, item| {
        text.push(mark);
        text.push_str(item.as_ref());
        text
    })
}

//! `MemoryLimits`: the bounds of a transfer from or to a server's memory, in FEAT and in a module.

use std::fmt;

use crate::tagged::number;

/// The bounds of a transfer from or to the memory of a server, which touches no storage: `MEMORY` in
/// FEAT, and the module `memory` of ERET and ESTO.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryLimits {
    /// Most bytes.
    pub bytes: u64,
    /// Longest time, in seconds.
    pub seconds: u64,
}

impl MemoryLimits {
    /// Makes the bounds of so many bytes and seconds.
    pub const fn new(bytes: u64, seconds: u64) -> Self {
        Self { bytes, seconds }
    }

    /// Reads the parameters of `MEMORY` in FEAT, `Bytes=n;Seconds=n;`; other ones are ignored.
    pub fn from_feat(parameters: &str) -> Option<Self> {
        let value = |wanted: &str| {
            let mut items = parameters
                .split(';')
                .filter_map(|item| item.split_once('='));
            let (_, value) = items.find(|(name, _)| name.trim().eq_ignore_ascii_case(wanted))?;
            number(value.trim())
        };
        Some(Self::new(value("Bytes")?, value("Seconds")?))
    }

    /// Reads the arguments of the module, `bytes seconds`.
    pub fn from_arguments(arguments: &str) -> Option<Self> {
        let mut words = arguments.split_ascii_whitespace();
        let limits = Self::new(number(words.next()?)?, number(words.next()?)?);
        words.next().is_none().then_some(limits)
    }

    /// The call of the module, as ERET and ESTO have it: `memory="bytes seconds"`.
    pub fn call(self) -> String {
        format!("memory=\"{} {}\"", self.bytes, self.seconds)
    }

    /// The lower one of each of both bounds.
    #[must_use]
    pub fn within(self, other: Self) -> Self {
        Self::new(self.bytes.min(other.bytes), self.seconds.min(other.seconds))
    }
}

/// Writes the parameters of `MEMORY` in FEAT.
impl fmt::Display for MemoryLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bytes={};Seconds={};", self.bytes, self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module::ModuleCall;

    #[test]
    fn limits_are_read_as_they_are_written() {
        let limits = MemoryLimits::new(1 << 40, 60);
        assert_eq!(limits.to_string(), "Bytes=1099511627776;Seconds=60;");
        assert_eq!(MemoryLimits::from_feat(&limits.to_string()), Some(limits));
        let call = limits.call();
        let call = ModuleCall::parse(&call).unwrap();
        assert_eq!(call.name, "memory");
        assert_eq!(MemoryLimits::from_arguments(call.arguments), Some(limits));
    }

    #[test]
    fn parameters_stand_in_any_order_beside_others() {
        let limits = Some(MemoryLimits::new(5, 7));
        for text in ["seconds=7; BYTES=5", "New=x;Bytes=5;Seconds=7;y"] {
            assert_eq!(MemoryLimits::from_feat(text), limits, "{text}");
        }
        for text in ["", "Bytes=5;", "Bytes=5;Seconds=;", "Bytes=+5;Seconds=7;"] {
            assert_eq!(MemoryLimits::from_feat(text), None, "{text}");
        }
    }

    #[test]
    fn arguments_are_two_numbers() {
        let limits = Some(MemoryLimits::new(5, 7));
        assert_eq!(MemoryLimits::from_arguments(" 5  7"), limits);
        for text in [
            "",
            "5",
            "5 7 9",
            "5 -1",
            "5 +7",
            "5 1.5",
            "18446744073709551616 1",
        ] {
            assert_eq!(MemoryLimits::from_arguments(text), None, "{text}");
        }
    }

    #[test]
    fn the_lower_bound_holds() {
        let both = MemoryLimits::new(9, 1).within(MemoryLimits::new(5, 7));
        assert_eq!(both, MemoryLimits::new(5, 1));
    }
}

//! Parsers for values of flags.

use gridftp_dsi::types::ChecksumAlgorithm;
use xio_core::ByteSize;

/// Reads a number of bytes: `4M` is 4 MiB.
pub fn size(text: &str) -> Result<u64, String> {
    let size = text.parse::<ByteSize>();
    let takes = "write a number of bytes, such as 65536, 64K or 4M";
    size.map(ByteSize::bytes).map_err(|_| takes.to_owned())
}

/// Reads the name of an algorithm.
pub fn algorithm(text: &str) -> Result<ChecksumAlgorithm, String> {
    ChecksumAlgorithm::from_name(text.as_bytes()).ok_or_else(|| {
        let known = ChecksumAlgorithm::ALL.iter();
        let known: Vec<_> = known.map(|a| a.name().to_ascii_lowercase()).collect();
        format!("unknown algorithm; known are {}", known.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(size("0"), Ok(0));
        assert_eq!(size("4m"), Ok(4 << 20));
        assert_eq!(size("64KiB"), Ok(64 << 10));
        for bad in ["", "K", "4X", "-1", "1.5M", "99999999999T"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }
}

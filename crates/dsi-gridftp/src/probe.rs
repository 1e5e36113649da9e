//! `Probe`: finds a gateway that is its own upstream, directly or through other gateways.
//!
//! Behind each login the gateway asks for a name that nobody else has. A gateway that is asked for
//! its own name is in a loop; for that of another it asks its upstream, a few times.

use std::fmt::Write as _;

use gridftp_client::Client;
use gridftp_dsi::{DsiPath, Error, ErrorKind, Result};

const NAME: &str = ".gridftp-loop-";

/// Gateways in a row.
const HOPS: u32 = 4;

const LOOP: &str = "the gateway is its own upstream";

/// The name that the gateway asks for.
#[derive(Debug)]
pub(crate) struct Probe {
    token: String,
}

/// A path that a gateway is asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Some object.
    Other,
    /// Its own name.
    Own,
    /// The name of another gateway, and the path to ask the upstream for.
    Foreign(DsiPath),
    /// The name of another gateway, at the end of a long row of gateways.
    TooFar,
}

impl Probe {
    pub(crate) fn new() -> Result<Self> {
        let mut bytes = [0; 16];
        let failed = |_| Error::new(ErrorKind::Io, "open gateway").because("no random numbers");
        getrandom::fill(&mut bytes).map_err(failed)?;
        let mut token = String::with_capacity(32);
        for byte in bytes {
            // Writing to a string does not fail.
            let _ = write!(token, "{byte:02x}");
        }
        Ok(Self { token })
    }

    /// Reads a path.
    pub(crate) fn read(&self, path: &DsiPath) -> Asked {
        let name = std::str::from_utf8(path.name()).ok();
        let Some((hops, token)) = name
            .and_then(|name| name.strip_prefix(NAME))
            .and_then(|rest| rest.split_once('-'))
        else {
            return Asked::Other;
        };
        if token == self.token {
            return Asked::Own;
        }
        let left = hops.parse::<u32>().ok().filter(|left| *left <= HOPS);
        let Some(left) = left.and_then(|left| left.checked_sub(1)) else {
            return Asked::TooFar;
        };
        let next = path
            .parent()
            .and_then(|dir| dir.child(format!("{NAME}{left}-{token}").as_bytes()));
        next.map_or(Asked::Other, Asked::Foreign)
    }

    /// The answer to a gateway in a loop.
    pub(crate) fn refusal(op: &'static str, path: &DsiPath) -> Error {
        Error::new(ErrorKind::Denied, op).at(path).because(LOOP)
    }

    /// Asks a new session for the own name in the directory `base`.
    pub(crate) async fn run(&self, client: &Client, base: &[u8]) -> Result<(), String> {
        let name = format!("/{NAME}{HOPS}-{}", self.token);
        let base = base.strip_suffix(b"/").unwrap_or(base);
        let Err(error) = client.stat(&[base, name.as_bytes()].concat()).await else {
            return Ok(());
        };
        match error
            .reply()
            .is_some_and(|reply| reply.text().contains(LOOP))
        {
            true => Err(format!(
                "{LOOP} ({}); name another server in its url",
                client.site()
            )),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_goes_through_a_few_gateways_and_finds_its_own() {
        let (own, other) = (Probe::new().unwrap(), Probe::new().unwrap());
        let mut path = DsiPath::new(format!("/d/{NAME}{HOPS}-{}", own.token).as_bytes()).unwrap();
        assert_eq!(own.read(&path), Asked::Own);
        for _ in 0..HOPS {
            let Asked::Foreign(next) = other.read(&path) else {
                panic!("{path} is not passed on");
            };
            path = next;
            assert_eq!(own.read(&path), Asked::Own);
        }
        assert_eq!(other.read(&path), Asked::TooFar);
        for text in ["/d", "/.gridftp-loop-x", "/"] {
            let path = DsiPath::new(text.as_bytes()).unwrap();
            assert_eq!(own.read(&path), Asked::Other, "{text}");
        }
        let path = DsiPath::new(b"/.gridftp-loop-99999999999-x").unwrap();
        assert_eq!(own.read(&path), Asked::TooFar);
    }
}

//! `OPTS`: option lists of RETR, PASV, MLST, MLSR, CKSM and UTF8 (GFD.20, RFC 2389).

use crate::facts::FactSet;

/// A parsed `OPTS` command. Values absent from the command are `None` and stay as they are.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Opts {
    /// `OPTS RETR …`.
    Retr {
        /// `Parallelism=a,b,c;`: connections to open, at least 1.
        parallelism: Option<u32>,
        /// `StripeLayout=` and `BlockSize=`: bytes of a stripe block; 0 for one piece a stripe.
        stripe_block: Option<u64>,
        /// `Markers=n;`: seconds between performance markers while sending; 0 for none.
        markers: Option<u32>,
    },
    /// `OPTS STOR Eager=0|1;`, ours: the client sends a file's data right behind its `STOR`, without
    /// waiting for the 125; a `STOR` that fails takes that data off the channel first.
    Stor {
        /// Whether data comes unasked.
        eager: bool,
    },
    /// `OPTS PASV|SPAS|EPSV AllowDelayed=0|1;`.
    Passive {
        /// Whether the address comes with 127 or 129 instead of 227 or 229.
        delayed: bool,
    },
    /// `OPTS MLST|MLSD facts;`: the facts that were recognised.
    Facts(FactSet),
    /// `OPTS MLSR …`.
    Mlsr {
        /// Facts, when any were named.
        facts: Option<FactSet>,
        /// `OnError=Fail|Continue;`.
        fail: Option<bool>,
        /// `TraverseSymbolicLinks=True|False;`.
        follow: Option<bool>,
    },
    /// `OPTS CKSM markers=n;`: seconds between 113 markers; 0 for none.
    Cksm {
        /// Seconds.
        markers: u32,
    },
    /// `OPTS UTF8 [ON]`.
    Utf8,
}

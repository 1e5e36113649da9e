//! `Abilities`: the features that this client makes use of, as the server's FEAT reply tells.

use std::sync::atomic::{AtomicU64, Ordering};

use ftp_proto::client::Capabilities;
use ftp_wire::command::Tag;
use ftp_wire::memory::MemoryLimits;
use ftp_wire::receipt::Extent;
use gridftp_dsi::types::ChecksumAlgorithm;

/// The features of a server that this client makes use of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Abilities {
    /// MODE E.
    pub extended: bool,
    /// Machine-readable listings.
    pub mlst: bool,
    /// Machine-readable listings name the targets of symbolic links (`UNIX.slink`).
    pub slink: bool,
    /// Transfers may be tagged: the data of a store may follow it unasked.
    pub tags: bool,
    /// Tagged transfers may be in MODE S too, where a trailer with the digest follows the data.
    pub trailers: bool,
    /// Tagged transfers may go over stripes: the server joins the digests of their parts.
    pub striped_tags: bool,
    /// The bytes of a broken upload are kept apart from its final name, and `SITE HELD` tells of
    /// them; a file without the digest that `SITE STORATTR` announced is never published.
    pub held: bool,
    /// A stored file can be told to replace nothing, even if another appears meanwhile.
    pub exclusive: bool,
    /// A stored file is on the medium before its final reply.
    pub durable: bool,
    /// The boot of the machine in which files wait to be written to the medium (`BOOT`).
    pub boot: Option<u128>,
    /// `SITE WAITS` tells where the time of transfers went there.
    pub waits: bool,
    /// `SITE RATE` bounds the bytes a second of data connections there.
    pub rate: bool,
    /// Files and directories have extended attributes (`SITE XATTR`).
    pub xattrs: bool,
    /// `ERET memory=` and `ESTO memory=` move bytes of the server's memory within these bounds
    /// (`MEMORY`); `None` of a server without them.
    pub memory: Option<MemoryLimits>,
    /// Many small files may come by one command (`ERET files=`).
    pub retrieves_files: bool,
    /// Many small files may go by one command (`ESTO files=`).
    pub stores_files: bool,
    /// `ERET`; else a part of a file begins by `REST` and ends with the connection.
    pub eret: bool,
    /// `MFMT`; else `SITE UTIME` is tried.
    pub mfmt: bool,
    /// `DCSC` with a credential: data connections may have one of their own.
    pub dcsc: bool,
    /// `SPAS` and `SPOR`: it may have several hosts for data connections.
    pub stripes: bool,
    /// `CONNECTIONS`: the most data connections of a file, the sender of which adds some while it
    /// runs; `None` of a server that does not tell.
    pub connections: Option<u32>,
    /// `NODES`: its data connections are on other hosts, which `SPAS` tells.
    pub nodes: bool,
    /// Data connections may be over UDT (`LOSS` with `UDT`).
    pub udt: bool,
    /// A sender there changes its congestion control on a path that loses packets (`LOSS` with
    /// `Congestion`).
    pub adapts: bool,
    /// `CKSM` is worth a try: it is listed, or the server has MODE E and so need not list it.
    pub cksm: bool,
    /// Checksum algorithms and their relative costs.
    pub checksums: Vec<(ChecksumAlgorithm, u32)>,
}

impl Abilities {
    /// Picks the features that this client makes use of.
    pub(crate) fn of(known: &Capabilities) -> Self {
        let checksums = known
            .checksums()
            .into_iter()
            .filter_map(|(name, cost)| Some((ChecksumAlgorithm::from_name(name.as_bytes())?, cost)))
            .collect();
        let loss = known.parameters("LOSS").unwrap_or_default();
        let counters = |means: &str| loss.split(';').any(|item| item.eq_ignore_ascii_case(means));
        let moves_files = |verb: &str| {
            let modules = known.parameters(verb).unwrap_or_default();
            modules.split(',').any(|module| module.trim() == "files")
        };
        Self {
            extended: known.extended_mode().may(),
            mlst: known.has("MLST").may(),
            slink: known
                .parameters("MLST")
                .is_some_and(|facts| facts.to_ascii_lowercase().contains("unix.slink")),
            tags: known.tagged_transfers().is_yes(),
            trailers: known.trailers().is_yes(),
            striped_tags: known.tagged_stripes().is_yes(),
            held: known.has("HELD").is_yes(),
            exclusive: known.has("EXCLUSIVE").is_yes(),
            durable: known.has("DURABLE").is_yes(),
            boot: known.parameters("BOOT").and_then(boot),
            waits: known.has("WAITS").is_yes(),
            rate: known.has("RATE").is_yes(),
            xattrs: known.has("XATTR").is_yes(),
            memory: known.parameters("MEMORY").and_then(MemoryLimits::from_feat),
            retrieves_files: moves_files("ERET"),
            stores_files: moves_files("ESTO"),
            eret: known.has("ERET").is_yes(),
            mfmt: known.has("MFMT").is_yes(),
            dcsc: known
                .parameters("DCSC")
                .is_some_and(|kinds| kinds.contains('P')),
            stripes: known.has("SPAS").is_yes() && known.has("SPOR").is_yes(),
            connections: known
                .parameters("CONNECTIONS")
                .and_then(|most| most.parse().ok()),
            nodes: known.has("NODES").is_yes(),
            udt: counters("UDT"),
            adapts: counters("Congestion"),
            cksm: known.has("CKSM").is_yes() || known.extended_mode().is_yes(),
            checksums,
        }
    }

    /// Says whether a transfer has receipts of both ends, over stripes or not.
    pub(crate) fn proves(&self, is_striped: bool) -> bool {
        self.tags && (self.striped_tags || !is_striped)
    }

    /// Says whether a checksum is known there: servers need not list their algorithms, and all of
    /// them know MD5.
    pub(crate) fn knows(&self, algorithm: ChecksumAlgorithm) -> bool {
        self.cost(algorithm).is_some()
            || (self.checksums.is_empty() && algorithm == ChecksumAlgorithm::Md5)
    }

    /// The cost of a checksum, if it is offered.
    pub fn cost(&self, algorithm: ChecksumAlgorithm) -> Option<u32> {
        self.checksums
            .iter()
            .find(|(a, _)| *a == algorithm)
            .map(|(_, cost)| *cost)
    }
}

/// Numbers the tagged transfers of one session, each higher than those before it.
#[derive(Debug, Default)]
pub(crate) struct Tags(AtomicU64);

impl Tags {
    /// The tag of the next transfer.
    pub(crate) fn next(&self, extent: Extent) -> Tag {
        Tag::new(self.0.fetch_add(1, Ordering::Relaxed), extent)
    }
}

/// The boot that a server tells: 32 hexadecimal digits.
fn boot(digits: &str) -> Option<u128> {
    let is_one = digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    u128::from_str_radix(digits, 16).ok().filter(|_| is_one)
}

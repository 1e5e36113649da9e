//! `Capabilities`: the features of a server, by its reply to FEAT.

use std::collections::BTreeMap;

use ftp_wire::reply::Reply;

/// Support of a feature by a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Support {
    /// Listed.
    Yes,
    /// Not listed.
    No,
    /// Unknown until it is tried.
    Maybe,
}

impl Support {
    /// Says whether to try it.
    pub const fn may(self) -> bool {
        !matches!(self, Self::No)
    }

    /// Says whether it is certain.
    pub const fn is_yes(self) -> bool {
        matches!(self, Self::Yes)
    }
}

/// Labels that servers leave out of FEAT although they support them (GCT leaves out most), so that
/// their absence means nothing.
const UNLISTED: &[&str] = &[
    "EPSV", "EPRT", "SBUF", "TREV", "SCKS", "MLSR", "MLSC", "MFMT", "CKSM", "SITE", "SIZE", "MDTM",
];

/// Most labels kept of a FEAT reply.
const MAX_LABELS: usize = 256;

/// The features of one server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// Label in upper case to its parameters; `None` when FEAT failed, and nothing is known.
    listed: Option<BTreeMap<String, String>>,
}

impl Capabilities {
    /// Reads the reply to FEAT (RFC 2389 §3.2); any reply but 211 leaves everything at "maybe".
    pub fn from_feat(reply: &Reply) -> Self {
        if reply.code().number() != 211 {
            return Self::default();
        }
        let lines = reply.inner().iter().take(MAX_LABELS);
        let listed = lines.map(|line| {
            let line = String::from_utf8_lossy(line);
            let line = line.trim();
            let (label, rest) = line.split_once(' ').unwrap_or((line, ""));
            (label.to_ascii_uppercase(), rest.trim().to_owned())
        });
        Self {
            listed: Some(listed.collect()),
        }
    }

    /// Says whether the server has the feature of this label, or the command of this name.
    pub fn has(&self, label: &str) -> Support {
        match &self.listed {
            None => Support::Maybe,
            Some(listed) if listed.contains_key(label) => Support::Yes,
            Some(_) if UNLISTED.contains(&label) || label.starts_with("SITE ") => Support::Maybe,
            Some(_) => Support::No,
        }
    }

    /// The parameters of a feature, as the server wrote them.
    pub fn parameters(&self, label: &str) -> Option<&str> {
        self.listed.as_ref()?.get(label).map(String::as_str)
    }

    /// MODE E, with parallel streams.
    pub fn extended_mode(&self) -> Support {
        self.has("PARALLEL")
    }

    /// Tagged transfers, an extension: the data of a store may be sent right behind its command.
    pub fn tagged_transfers(&self) -> Support {
        match self.parameters("STOR") {
            Some(text) if text.to_ascii_uppercase().contains("TAGGED;DIGEST;") => Support::Yes,
            // No other server has it, so it is never tried unlisted.
            _ => Support::No,
        }
    }

    /// Tagged transfers in MODE S, where a trailer with the digest follows the data.
    pub fn trailers(&self) -> Support {
        self.tagged_with("Trailer")
    }

    /// Tagged transfers over several stripes, of which the server joins the digests.
    pub fn tagged_stripes(&self) -> Support {
        self.tagged_with("Striped")
    }

    /// Tagged transfers, with an item of their line.
    fn tagged_with(&self, item: &str) -> Support {
        let text = self.parameters("STOR").unwrap_or_default();
        let mut items = text.split(';').map(str::trim);
        match items.any(|listed| listed.eq_ignore_ascii_case(item)) {
            true => self.tagged_transfers(),
            false => Support::No,
        }
    }

    /// Checksum algorithms in upper case with their costs, cheapest first; none when not listed.
    pub fn checksums(&self) -> Vec<(String, u32)> {
        let text = self.parameters("CKSM").unwrap_or_default();
        let items = text
            .split(';')
            .map(str::trim)
            .filter(|item| !item.is_empty());
        let mut found: Vec<(String, u32)> = items
            .map(|item| {
                let (name, cost) = item.split_once(':').unwrap_or((item, "10"));
                (name.to_ascii_uppercase(), cost.trim().parse().unwrap_or(10))
            })
            .collect();
        found.sort_by_key(|(_, cost)| *cost);
        found
    }
}

#[cfg(test)]
mod tests {
    use ftp_wire::reply::Code;

    use super::*;

    fn feat(lines: &[&str]) -> Capabilities {
        let lines = lines.iter().copied();
        let code = Code::of::<211>();
        Capabilities::from_feat(&Reply::indented(
            code,
            "Extensions supported",
            lines,
            "End.",
        ))
    }

    #[test]
    fn the_list_of_globus_is_read() {
        let caps = feat(&[
            "CKSM MD5:10;ADLER32:9;SHA1:10;",
            "PARALLEL",
            "ERET",
            "REST STREAM",
            "PASV AllowDelayed;",
        ]);
        assert!(caps.extended_mode().is_yes());
        assert_eq!(caps.checksums()[0], ("ADLER32".to_owned(), 9));
        assert_eq!(caps.has("EPSV"), Support::Maybe);
        assert_eq!(caps.has("ESTO"), Support::No);
        assert_eq!(caps.tagged_transfers(), Support::No);
    }

    #[test]
    fn a_failed_feat_leaves_everything_open_but_tagged_transfers() {
        let caps = Capabilities::from_feat(&Reply::of::<500>("?"));
        assert_eq!(caps.extended_mode(), Support::Maybe);
        assert_eq!(caps.tagged_transfers(), Support::No);
        assert_eq!(caps.tagged_stripes(), Support::No);
    }

    #[test]
    fn tags_in_mode_s_and_over_stripes_are_items_of_their_own() {
        for (line, tags, trailers, striped) in [
            ("STOR Tagged;Digest;", true, false, false),
            ("STOR Tagged;Digest;Trailer;", true, true, false),
            ("STOR Tagged;Digest;Striped;", true, false, true),
            ("stor tagged;digest;other;trailer;striped", true, true, true),
            ("STOR Trailer;Striped;", false, false, false),
        ] {
            let caps = feat(&[line]);
            let tagged = [
                caps.tagged_transfers(),
                caps.trailers(),
                caps.tagged_stripes(),
            ];
            let tagged = tagged.map(Support::is_yes);
            assert_eq!(tagged, [tags, trailers, striped], "{line}");
        }
    }
}

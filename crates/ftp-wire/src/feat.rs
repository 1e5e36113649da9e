//! FEAT lines as a typed set, unknown features kept verbatim (RFC 2389).

use std::fmt;

use crate::facts::FactSet;
use crate::memory::MemoryLimits;
use crate::reply::{Code, Reply};

/// One feature of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Feature {
    /// `CKSM ALG:cost;…`: checksums, with relative costs, the lower the cheaper.
    Cksm(Vec<(String, u8)>),
    /// `CONNECTIONS 64`, ours: the most data connections of a transfer, and that `OPTS RETR
    /// Parallelism` takes the most of a file beside the starting number.
    Connections(u32),
    /// `DCAU`: authentication of data connections.
    Dcau,
    /// `DCSC P,D`: credentials for data connections.
    Dcsc(String),
    /// `DSI name-version`: the storage behind the server.
    Dsi(String),
    /// `DURABLE`, ours: a file is on the medium, its name included, before the reply to its `STOR`.
    Durable,
    /// `EPRT` (RFC 2428).
    Eprt,
    /// `EPSV` (RFC 2428).
    Epsv,
    /// `ERET`: partial retrieval.
    Eret,
    /// `ESTO`: adjusted storing.
    Esto,
    /// `EXCLUSIVE`, ours: `SITE STORATTR x.exclusive=1` lets the next stored file replace nothing.
    Exclusive,
    /// `GETPUT` (GFD.47).
    GetPut,
    /// `HELD`, ours: `SITE HELD` reports the ranges kept of an interrupted upload, and lists the
    /// [partial files](crate::partial) of a directory; `SITE DELHELD` removes one.
    Held,
    /// `LANG tags` (RFC 2640).
    Lang(String),
    /// `LOSS Congestion;UDT;`, ours: the means against the loss of packets on data connections. A
    /// sender changes its congestion control, and clients may choose UDT (`SITE SETNETSTACK`).
    Loss(String),
    /// `MDTM` (RFC 3659).
    Mdtm,
    /// `MEMORY Bytes=n;Seconds=n;`, ours: `ERET memory=` and `ESTO memory=` move bytes from and to
    /// memory, for measurements within these bounds.
    Memory(MemoryLimits),
    /// `MFMT`.
    Mfmt,
    /// `MLSC`: a listing on the control channel.
    Mlsc,
    /// `MLSR`: a recursive listing.
    Mlsr,
    /// `MLST facts`: machine listings, and the facts printed by default.
    Mlst(FactSet),
    /// `NODES`, ours: data connections are on other hosts, which `SPAS` tells.
    Nodes,
    /// `PARALLEL`: MODE E over several connections.
    Parallel,
    /// `PASV AllowDelayed;`.
    PasvDelayed,
    /// `REST STREAM` (RFC 3659).
    RestStream,
    /// `SBUF`.
    Sbuf,
    /// `SIZE` (RFC 3659).
    Size,
    /// `SPAS`.
    Spas,
    /// `SPOR`.
    Spor,
    /// `STOR Tagged;Digest;`, ours: `ESTO tag=`, with data that may precede the 150, `ERET tag=`, and
    /// both with `digest=`.
    StorTagged {
        /// `Trailer;`: `digest=` in MODE S too, where a [trailer](crate::command::Tag) follows the data.
        trailer: bool,
        /// `Striped;`: both over several stripes too.
        striped: bool,
    },
    /// `STORATTR`: attributes of the next stored file.
    StorAttr,
    /// `TVFS` (RFC 3659).
    Tvfs,
    /// `UTF8` (RFC 2640).
    Utf8,
    /// `WHOAMI`.
    Whoami,
    /// Any other line, as received.
    Other(String),
}

impl Feature {
    /// Reads one line, blanks around it trimmed.
    pub fn parse(line: &[u8]) -> Self {
        let text = String::from_utf8_lossy(line.trim_ascii()).into_owned();
        let (label, params) = text.split_once(' ').unwrap_or((&text, ""));
        let params = params.trim();
        match (label.to_ascii_uppercase().as_str(), params) {
            ("CKSM", _) => Self::Cksm(parse_costs(params)),
            ("CONNECTIONS", _) => match params.parse() {
                Ok(most) => Self::Connections(most),
                Err(_) => Self::Other(text),
            },
            ("DCAU", _) => Self::Dcau,
            ("DCSC", _) => Self::Dcsc(params.to_owned()),
            ("DSI", _) => Self::Dsi(params.to_owned()),
            ("DURABLE", _) => Self::Durable,
            ("EPRT", "") => Self::Eprt,
            ("EPSV", "") => Self::Epsv,
            ("ERET", _) => Self::Eret,
            ("ESTO", _) => Self::Esto,
            ("EXCLUSIVE", _) => Self::Exclusive,
            ("GETPUT", _) => Self::GetPut,
            ("HELD", _) => Self::Held,
            ("LANG", _) => Self::Lang(params.to_owned()),
            ("LOSS", _) => Self::Loss(params.to_owned()),
            ("MDTM", _) => Self::Mdtm,
            ("MEMORY", _) => match MemoryLimits::from_feat(params) {
                Some(limits) => Self::Memory(limits),
                None => Self::Other(text),
            },
            ("MFMT", _) => Self::Mfmt,
            ("MLSC", _) => Self::Mlsc,
            ("MLSR", _) => Self::Mlsr,
            ("MLST", _) => Self::Mlst(parse_marked(params)),
            ("NODES", _) => Self::Nodes,
            ("PARALLEL", _) => Self::Parallel,
            ("PASV", _) if has_item(params, "AllowDelayed") => Self::PasvDelayed,
            ("REST", _) if params.eq_ignore_ascii_case("STREAM") => Self::RestStream,
            ("SBUF", _) => Self::Sbuf,
            ("SIZE", _) => Self::Size,
            ("SPAS", _) => Self::Spas,
            ("SPOR", _) => Self::Spor,
            ("STOR", _) if has_item(params, "Tagged") && has_item(params, "Digest") => {
                let [trailer, striped] = ["Trailer", "Striped"].map(|item| has_item(params, item));
                Self::StorTagged { trailer, striped }
            }
            ("STORATTR", _) => Self::StorAttr,
            ("TVFS", _) => Self::Tvfs,
            ("UTF8", _) => Self::Utf8,
            ("WHOAMI", _) => Self::Whoami,
            _ => Self::Other(text),
        }
    }
}

fn has_item(params: &str, item: &str) -> bool {
    params
        .split(';')
        .any(|found| found.trim().eq_ignore_ascii_case(item))
}

/// Reads `MD5:10;ADLER32:10;`; an algorithm without a cost gets 20.
fn parse_costs(params: &str) -> Vec<(String, u8)> {
    let items = params
        .split([';', ','])
        .map(str::trim)
        .filter(|item| !item.is_empty());
    let cost = |item: &str| {
        let (name, cost) = item.split_once(':').unwrap_or((item, ""));
        (name.to_ascii_uppercase(), cost.parse().unwrap_or(20))
    };
    items.map(cost).collect()
}

/// The facts of `Type*;Size;…` that are marked with `*`.
fn parse_marked(params: &str) -> FactSet {
    let marked: Vec<_> = params
        .split(';')
        .filter_map(|item| item.trim().strip_suffix('*'))
        .collect();
    FactSet::parse(marked.join(";").as_bytes())
}

/// Writes the line as FEAT has it, without the blank before it and the line end.
impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self {
            Self::Cksm(costs) => {
                f.write_str("CKSM ")?;
                return costs
                    .iter()
                    .try_for_each(|(name, cost)| write!(f, "{name}:{cost};"));
            }
            Self::Connections(most) => return write!(f, "CONNECTIONS {most}"),
            Self::Dcsc(params) => return write!(f, "DCSC {params}"),
            Self::Dsi(name) => return write!(f, "DSI {name}"),
            Self::Lang(tags) => return write!(f, "LANG {tags}"),
            Self::Loss(means) => return write!(f, "LOSS {means}"),
            Self::Memory(limits) => return write!(f, "MEMORY {limits}"),
            Self::Mlst(facts) => return write!(f, "MLST {}", facts.feat()),
            Self::Other(text) => text,
            Self::StorTagged { trailer, striped } => {
                let items = [("Trailer;", trailer), ("Striped;", striped)];
                let mut items = items.into_iter().filter(|(_, has)| **has);
                f.write_str("STOR Tagged;Digest;")?;
                return items.try_for_each(|(item, _)| f.write_str(item));
            }
            Self::Dcau => "DCAU",
            Self::Durable => "DURABLE",
            Self::Eprt => "EPRT",
            Self::Epsv => "EPSV",
            Self::Eret => "ERET",
            Self::Esto => "ESTO",
            Self::Exclusive => "EXCLUSIVE",
            Self::GetPut => "GETPUT",
            Self::Held => "HELD",
            Self::Nodes => "NODES",
            Self::Mdtm => "MDTM",
            Self::Mfmt => "MFMT",
            Self::Mlsc => "MLSC",
            Self::Mlsr => "MLSR",
            Self::Parallel => "PARALLEL",
            Self::PasvDelayed => "PASV AllowDelayed;",
            Self::RestStream => "REST STREAM",
            Self::Sbuf => "SBUF",
            Self::Size => "SIZE",
            Self::Spas => "SPAS",
            Self::Spor => "SPOR",
            Self::StorAttr => "STORATTR",
            Self::Tvfs => "TVFS",
            Self::Utf8 => "UTF8",
            Self::Whoami => "WHOAMI",
        };
        f.write_str(word)
    }
}

/// The features of a server, in the order of its reply.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Features {
    list: Vec<Feature>,
}

impl Features {
    /// No feature.
    pub const fn new() -> Self {
        Self { list: Vec::new() }
    }

    /// Appends a feature.
    pub fn push(&mut self, feature: Feature) {
        self.list.push(feature);
    }

    /// Says whether exactly this feature, parameters included, is in the list.
    pub fn has(&self, feature: &Feature) -> bool {
        self.list.contains(feature)
    }

    /// The features, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Feature> {
        self.list.iter()
    }

    /// Checksum algorithms with their relative costs, as named.
    pub fn checksums(&self) -> &[(String, u8)] {
        let found = self.iter().find_map(|feature| match feature {
            Feature::Cksm(costs) => Some(costs.as_slice()),
            _ => None,
        });
        found.unwrap_or_default()
    }

    /// Says whether the server has machine listings (MLST, MLSD).
    pub fn mlst(&self) -> bool {
        self.iter()
            .any(|feature| matches!(feature, Feature::Mlst(_)))
    }

    /// Reads the reply to FEAT; a reply other than 211 has no features.
    pub fn from_reply(reply: &Reply) -> Self {
        if reply.code() != Code::of::<211>() {
            return Self::new();
        }
        reply
            .inner()
            .iter()
            .map(|line| Feature::parse(line))
            .collect()
    }

    /// The reply to FEAT: one blank before each label, upper case, as GCT's client requires.
    pub fn to_reply(&self) -> Reply {
        let lines = self.iter().map(Feature::to_string);
        Reply::indented(Code::of::<211>(), "Extensions supported", lines, "End.")
    }
}

impl FromIterator<Feature> for Features {
    fn from_iter<I: IntoIterator<Item = Feature>>(features: I) -> Self {
        Self {
            list: features.into_iter().collect(),
        }
    }
}

impl Extend<Feature> for Features {
    fn extend<I: IntoIterator<Item = Feature>>(&mut self, features: I) {
        self.list.extend(features);
    }
}

impl<'a> IntoIterator for &'a Features {
    type Item = &'a Feature;
    type IntoIter = std::slice::Iter<'a, Feature>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Fact;
    use crate::reply_parser::ReplyParser;

    /// The answer of a stock GCT 13.24 after login.
    const GCT: &str = "211-Extensions supported\r\n \
        CKSM MD5:10;ADLER32:10;SHA1:10;SHA256:11;SHA512:12;\r\n DSI file-13.24\r\n STORATTR\r\n HTTP\r\n \
        DCSC P,D\r\n MFMT\r\n WHOAMI\r\n AUTHZ_ASSERT\r\n MLSR\r\n MLSC\r\n UTF8\r\n LANG EN\r\n DCAU\r\n \
        PARALLEL\r\n SIZE\r\n MLST Type*;Size*;Modify*;Perm*;Charset;UNIX.mode*;UNIX.owner*;UNIX.uid*;\
        UNIX.group*;UNIX.gid*;Unique*;UNIX.slink*;X.count;\r\n ERET\r\n ESTO\r\n SPAS\r\n SPOR\r\n \
        REST STREAM\r\n MDTM\r\n PASV AllowDelayed;\r\n211 End.\r\n";

    fn parse(text: &str) -> Features {
        let mut parser = ReplyParser::new();
        parser.push(text.as_bytes());
        Features::from_reply(&parser.next_reply().unwrap().unwrap())
    }

    #[test]
    fn gct_is_read_and_written_to_the_byte() {
        let features = parse(GCT);
        assert_eq!(features.iter().count(), 23);
        assert_eq!(features.checksums().len(), 5);
        assert_eq!(features.checksums()[3], ("SHA256".to_owned(), 11));
        let facts = FactSet::DEFAULT.without(Fact::Staged);
        assert!(features.mlst() && features.has(&Feature::Mlst(facts)));
        for feature in [
            Feature::RestStream,
            Feature::PasvDelayed,
            Feature::Parallel,
            Feature::Eret,
        ] {
            assert!(features.has(&feature), "{feature}");
        }
        assert!(!features.has(&Feature::StorTagged {
            trailer: false,
            striped: false
        }));
        assert!(features.has(&Feature::Other("AUTHZ_ASSERT".into())));
        assert_eq!(features.to_reply().to_string(), GCT);
    }

    #[test]
    fn coded_and_lower_case_lines_are_read_too() {
        for (more, trailer, striped) in [
            ("", false, false),
            ("trailer;", true, false),
            ("other;striped;", false, true),
        ] {
            let lines = format!("211-rest stream\r\n211-stor tagged;digest;{more}\r\n211-epsv");
            let features = parse(&format!("211-Features:\r\n{lines}\r\n211 End\r\n"));
            let tagged = Feature::StorTagged { trailer, striped };
            assert_eq!(Feature::parse(tagged.to_string().as_bytes()), tagged);
            let all = [Feature::RestStream, tagged, Feature::Epsv];
            assert_eq!(features, all.into_iter().collect());
        }
    }

    #[test]
    fn the_limits_of_memory_are_read_and_written() {
        let line = "MEMORY Bytes=5;Seconds=7;";
        let feature = Feature::parse(line.as_bytes());
        assert_eq!(feature, Feature::Memory(MemoryLimits::new(5, 7)));
        assert_eq!(feature.to_string(), line);
        let other = Feature::parse(b"MEMORY plenty");
        assert_eq!(other, Feature::Other("MEMORY plenty".into()));
    }

    #[test]
    fn no_features_and_refusals_are_empty() {
        assert_eq!(parse("211 no features\r\n"), Features::new());
        assert_eq!(parse("500-x\r\n UTF8\r\n500 End.\r\n"), Features::new());
        assert_eq!(Features::new().checksums(), []);
    }
}

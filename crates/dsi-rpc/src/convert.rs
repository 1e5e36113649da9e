//! Messages of the service, and the values of the storage interface.

use byte_ranges::{Range64, RangeSet};
use gridftp_dsi::types::{Attribute, MAX_ATTRIBUTES, MAX_VALUE};
use gridftp_dsi::{Capabilities, ChecksumAlgorithm, Create, DsiPath, Kind, Stat, User, WriteModel};

use crate::proto::{self, order};

/// Version of the service.
pub const VERSION: u32 = 1;

/// Longest name of an extended attribute, in bytes.
const MAX_NAME: usize = 255;

/// Most ranges in one message.
pub const MAX_RANGES: usize = 65_536;

impl From<&User> for proto::User {
    /// The user without the credential, which does not leave this process.
    fn from(user: &User) -> Self {
        Self {
            name: user.name.clone(),
            follows_links: user.follows_links,
            home: user.home.as_bytes().to_vec(),
            may_write: user.may_write,
        }
    }
}

impl proto::User {
    /// The user; `None` if the home is no path.
    pub fn into_user(self) -> Option<User> {
        let mut user = User::new(self.name, DsiPath::new(&self.home)?, self.may_write);
        user.follows_links = self.follows_links;
        Some(user)
    }
}

/// The place of a call.
pub(crate) fn place(user: &User, path: &DsiPath) -> proto::Place {
    proto::Place {
        user: Some(user.into()),
        path: path.as_bytes().to_vec(),
    }
}

impl proto::Time {
    /// Seconds since 1970, and nanoseconds below a second.
    pub fn pair(self) -> (i64, u32) {
        (self.seconds, self.nanos.min(999_999_999))
    }
}

impl From<(i64, u32)> for proto::Time {
    fn from((seconds, nanos): (i64, u32)) -> Self {
        Self { seconds, nanos }
    }
}

impl From<&RangeSet> for proto::RangeList {
    fn from(set: &RangeSet) -> Self {
        let bounds = set.iter().flat_map(|range| [range.start(), range.end()]);
        let bounds = bounds.collect();
        Self { bounds }
    }
}

impl proto::RangeList {
    /// The set; `None` for more than [`MAX_RANGES`] ranges, or ones out of order or not apart.
    pub fn to_set(&self) -> Option<RangeSet> {
        let (pairs, []) = self.bounds.as_chunks::<2>() else {
            return None;
        };
        let is_sorted = self.bounds.is_sorted_by(|earlier, later| earlier < later);
        if !is_sorted || pairs.len() > MAX_RANGES {
            return None;
        }
        let ranges = pairs.iter();
        Some(
            ranges
                .filter_map(|&[start, end]| Range64::new(start, end))
                .collect(),
        )
    }
}

impl From<&Stat> for proto::Facts {
    fn from(stat: &Stat) -> Self {
        let kind = match stat.kind {
            Kind::File => proto::Kind::File,
            Kind::Directory => proto::Kind::Directory,
            Kind::Link => proto::Kind::Link,
            Kind::CharDevice => proto::Kind::CharDevice,
            Kind::BlockDevice => proto::Kind::BlockDevice,
            Kind::Fifo => proto::Kind::Fifo,
            _ => proto::Kind::Other,
        };
        Self {
            name: stat.name.clone(),
            kind: kind.into(),
            size: stat.size,
            modified: Some(stat.modified.into()),
            mode: stat.mode,
            links: stat.links,
            uid: stat.uid,
            gid: stat.gid,
            device: stat.device,
            inode: stat.inode,
            target: stat.target.clone(),
            staged: stat.staged,
        }
    }
}

/// The facts of an object called `name`.
pub(crate) fn stat(facts: proto::Facts, name: &[u8]) -> Stat {
    let kind = match facts.kind() {
        proto::Kind::File => Kind::File,
        proto::Kind::Directory => Kind::Directory,
        proto::Kind::Link => Kind::Link,
        proto::Kind::CharDevice => Kind::CharDevice,
        proto::Kind::BlockDevice => Kind::BlockDevice,
        proto::Kind::Fifo => Kind::Fifo,
        proto::Kind::Other => Kind::Other,
    };
    let mut stat = Stat::new(name, kind);
    stat.size = facts.size;
    stat.modified = facts.modified.unwrap_or_default().pair();
    stat.mode = facts.mode & 0o7777;
    stat.links = facts.links;
    (stat.uid, stat.gid) = (facts.uid, facts.gid);
    (stat.device, stat.inode) = (facts.device, facts.inode);
    (stat.target, stat.staged) = (facts.target, facts.staged);
    stat
}

impl From<Attribute> for proto::Attribute {
    fn from((name, value): Attribute) -> Self {
        Self { name, value }
    }
}

/// An attribute of a message; `None` for one that is longer than those of storages.
pub(crate) fn attribute(told: proto::Attribute) -> Option<Attribute> {
    let fits = told.name.len() <= MAX_NAME && told.value.len() <= MAX_VALUE;
    fits.then_some((told.name, told.value))
}

/// The attributes of a file; `None` for more or longer ones than a file has.
pub(crate) fn attributes(told: proto::AttributeList) -> Option<Vec<Attribute>> {
    let told = told.attributes;
    let fits = told.len() <= MAX_ATTRIBUTES;
    fits.then(|| told.into_iter().map(attribute).collect())?
}

impl From<WriteModel> for proto::Order {
    fn from(order: WriteModel) -> Self {
        let kind = match order {
            WriteModel::Parts(part) => Some(order::Kind::Part(part)),
            WriteModel::Sequential => Some(order::Kind::Sequential(proto::Done {})),
            _ => None,
        };
        Self { kind }
    }
}

/// The order of writes; parts of no bytes are no order.
pub(crate) fn write_model(order: Option<proto::Order>) -> WriteModel {
    match order.and_then(|order| order.kind) {
        Some(order::Kind::Part(part)) if part > 0 => WriteModel::Parts(part),
        Some(order::Kind::Sequential(_)) => WriteModel::Sequential,
        _ => WriteModel::Random,
    }
}

/// The way of a request, and the expected bytes.
pub(crate) fn way(how: Create) -> (proto::Way, Option<u64>) {
    match how {
        Create::Resume { size } => (proto::Way::Resume, size),
        Create::Update { size } => (proto::Way::Update, size),
        Create::InPlace { truncate: false } => (proto::Way::InPlace, None),
        Create::InPlace { truncate: true } => (proto::Way::Truncate, None),
        Create::Append => (proto::Way::Append, None),
        Create::Whole { size } => (proto::Way::Whole, size),
        _ => (proto::Way::Whole, None),
    }
}

/// The way that a request asks for.
pub(crate) fn create(way: proto::Way, size: Option<u64>) -> Create {
    match way {
        proto::Way::Whole => Create::Whole { size },
        proto::Way::Resume => Create::Resume { size },
        proto::Way::Update => Create::Update { size },
        proto::Way::InPlace => Create::InPlace { truncate: false },
        proto::Way::Truncate => Create::InPlace { truncate: true },
        proto::Way::Append => Create::Append,
    }
}

impl From<&Capabilities> for proto::Description {
    fn from(can: &Capabilities) -> Self {
        let checksums = can.checksums.iter().map(|(algorithm, cost)| {
            let (name, cost) = (algorithm.name().to_owned(), (*cost).into());
            proto::Checksum { name, cost }
        });
        Self {
            version: VERSION,
            checksums: checksums.collect(),
            modes: can.modes,
            times: can.times,
            time_grain: can.time_grain,
            symlinks: can.symlinks,
            resume: can.resume,
            shares_uploads: can.shares_uploads,
            updates: can.updates,
            stages: can.stages,
            discards: !can.keeps,
            order: Some(can.writes.into()),
            identity: String::new(),
            exclusive: can.exclusive,
            durable: can.durable,
            tells_space: can.tells_space,
            attributes: can.attributes,
        }
    }
}

impl proto::Description {
    /// The capabilities of a storage called `name`. It acts for no users, since their credentials
    /// are not sent.
    pub fn capabilities(&self, name: &'static str) -> Capabilities {
        let known = self.checksums.iter().filter_map(|offered| {
            let algorithm = ChecksumAlgorithm::from_name(offered.name.as_bytes())?;
            let cost = u8::try_from(offered.cost.clamp(1, 20)).unwrap_or(20);
            Some((algorithm, cost))
        });
        Capabilities::new(name, write_model(self.order))
            .with_checksums(known.collect::<Vec<_>>())
            .with_modes(self.modes)
            .with_times(self.times)
            .with_time_grain(self.time_grain)
            .with_symlinks(self.symlinks)
            .with_resume(self.resume)
            .with_shared_uploads(self.shares_uploads)
            .with_updates(self.updates)
            .with_stages(self.stages)
            .with_keeps(!self.discards)
            .with_exclusive(self.exclusive)
            .with_durable(self.durable)
            .with_space(self.tells_space)
            .with_attributes(self.attributes)
    }
}

/// A peer's digest, in lower case; `None` unless it is one of the algorithm.
pub(crate) fn digest(algorithm: ChecksumAlgorithm, text: &str) -> Option<String> {
    let is_hex = text.bytes().all(|b| b.is_ascii_hexdigit());
    (is_hex && text.len() == algorithm.hex_len()).then(|| text.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_no_more_and_no_longer_than_those_of_a_file() {
        let of = |count: usize, name: usize, value: usize| {
            let (name, value) = (vec![b'n'; name], vec![b'v'; value]);
            let all = vec![proto::Attribute { name, value }; count];
            attributes(proto::AttributeList { attributes: all }).map(|all| all.len())
        };
        assert_eq!(
            of(MAX_ATTRIBUTES, MAX_NAME, MAX_VALUE),
            Some(MAX_ATTRIBUTES)
        );
        assert_eq!(of(0, 0, 0), Some(0));
        assert_eq!(of(MAX_ATTRIBUTES + 1, 1, 1), None);
        assert_eq!(of(1, MAX_NAME + 1, 1), None);
        assert_eq!(of(1, 1, MAX_VALUE + 1), None);
    }

    #[test]
    fn a_digest_is_hexadecimal_and_of_the_length_of_its_algorithm() {
        let of = |text: &str| digest(ChecksumAlgorithm::Adler32, text);
        assert_eq!(of("00FF11ab").unwrap(), "00ff11ab");
        for wrong in ["", "00ff11a", "00ff11abc", "00ff11ag", "\r\n226 ok"] {
            assert_eq!(of(wrong), None, "{wrong:?}");
        }
    }
}

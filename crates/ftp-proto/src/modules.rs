//! The modules of ERET and ESTO beside `P` and `A`: names, syntax and arguments.

use ftp_wire::memory::MemoryLimits;
use ftp_wire::module::ModuleCall;
use ftp_wire::stored::MOST_FILES;

use crate::server::Settings;

/// A module of `ERET` that makes the bytes of a retrieval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetrieveModule {
    /// A region as with `ERET P`, whose digest the outcome tells.
    Checksum {
        /// One of the backend's algorithms, upper case.
        algorithm: String,
        /// First byte.
        offset: u64,
        /// Number of bytes; `None` to the end.
        length: Option<u64>,
    },
    /// A directory, or any object, as a tar archive.
    Tar,
}

/// A module of `ESTO` that takes the bytes of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreModule {
    /// A region as with `ESTO A`, published if it has this digest.
    Checksum {
        /// One of the backend's algorithms, upper case.
        algorithm: String,
        /// The digest of all bytes sent, lower-case hexadecimal.
        digest: String,
        /// Offset in the file of the first byte sent.
        offset: u64,
    },
}

/// The call of a module.
#[derive(Debug)]
pub(crate) enum Called<M> {
    /// Of one that works on the path.
    By(M),
    /// Of the one that moves bytes of memory, within these bounds and those of the settings.
    Memory(MemoryLimits),
    /// Of the one that moves many small files.
    Files(Files),
}

/// The arguments of the module `files`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Files {
    /// The number of the transfer's tag.
    pub(crate) number: u64,
    /// The files.
    pub(crate) count: usize,
    /// Whether their modification times and permission bits are told.
    pub(crate) facts: bool,
}

/// A row of the table of modules.
pub(crate) struct Row<M> {
    /// The name on the wire.
    pub(crate) name: &'static str,
    /// The syntax, for HELP.
    pub(crate) syntax: &'static str,
    is_offered: fn(&Settings) -> bool,
    parse: fn(&str, &Settings) -> Option<Called<M>>,
}

/// The modules of `ERET`.
pub(crate) const RETRIEVE: &[Row<RetrieveModule>] = &[
    Row {
        name: "checksum",
        syntax: "ERET <sp> checksum=\"algorithm <sp> offset <sp> length\" <sp> path",
        is_offered: has_checksums,
        parse: |arguments, settings| {
            let (algorithm, [offset, length]) = fields(arguments, settings)?;
            let (offset, length) = match length {
                "-1" => (number(offset)?, None),
                length => (number(offset)?, Some(number(length)?)),
            };
            offset.checked_add(length.unwrap_or(0))?;
            Some(Called::By(RetrieveModule::Checksum {
                algorithm,
                offset,
                length,
            }))
        },
    },
    Row {
        name: "tar",
        syntax: "ERET <sp> tar=\"\" <sp> path",
        is_offered: |_| true,
        parse: |arguments, _| {
            let tar = Called::By(RetrieveModule::Tar);
            arguments.is_empty().then_some(tar)
        },
    },
    Row {
        name: "memory",
        syntax: "ERET <sp> memory=\"bytes <sp> seconds\" <sp> path",
        is_offered: |settings| settings.memory.is_some() && !settings.denies("RETR"),
        parse: memory,
    },
    Row {
        name: "files",
        syntax: "ERET <sp> files=\"tag <sp> count [<sp> facts]\" <sp> directory/name/name...",
        is_offered: |settings| settings.offers_files() && !settings.denies("RETR"),
        parse: files,
    },
];

/// The modules of `ESTO`.
pub(crate) const STORE: &[Row<StoreModule>] = &[
    Row {
        name: "checksum",
        syntax: "ESTO <sp> checksum=\"algorithm <sp> digest <sp> offset\" <sp> path",
        is_offered: has_checksums,
        parse: |arguments, settings| {
            let (algorithm, [digest, offset]) = fields(arguments, settings)?;
            let is_digest = !digest.is_empty() && digest.bytes().all(|b| b.is_ascii_hexdigit());
            Some(Called::By(StoreModule::Checksum {
                algorithm,
                digest: is_digest.then(|| digest.to_ascii_lowercase())?,
                offset: number(offset)?,
            }))
        },
    },
    Row {
        name: "memory",
        syntax: "ESTO <sp> memory=\"bytes <sp> seconds\" <sp> path",
        is_offered: |settings| settings.memory.is_some() && !settings.denies("STOR"),
        parse: memory,
    },
    Row {
        name: "files",
        syntax: "ESTO <sp> files=\"tag <sp> count\" <sp> directory",
        is_offered: |settings| settings.offers_files() && !settings.denies("STOR"),
        parse: |arguments, settings| {
            let is_plain = !arguments.ends_with("facts");
            files(arguments, settings).filter(|_| is_plain)
        },
    },
];

/// The reason why a module cannot be called.
#[derive(Debug)]
pub(crate) enum BadModule {
    /// This server has no such module.
    Unknown,
    /// The arguments are not those of its syntax.
    Arguments(&'static str),
}

impl<M> Row<M> {
    /// Finds a module by the text of the command, and reads its arguments.
    pub(crate) fn call(
        table: &[Self],
        text: &str,
        settings: &Settings,
    ) -> Result<Called<M>, BadModule> {
        let call = ModuleCall::parse(text).ok_or(BadModule::Unknown)?;
        let mut offered = Self::offered(table, settings);
        let row = offered.find(|row| row.name.eq_ignore_ascii_case(call.name));
        let row = row.ok_or(BadModule::Unknown)?;
        (row.parse)(call.arguments, settings).ok_or(BadModule::Arguments(row.syntax))
    }

    /// The modules that a server with these settings has.
    pub(crate) fn offered<'t>(
        table: &'t [Self],
        settings: &Settings,
    ) -> impl Iterator<Item = &'t Self> {
        table.iter().filter(|row| (row.is_offered)(settings))
    }
}

/// The arguments of `memory`, cut to the bounds of the settings.
fn memory<M>(arguments: &str, settings: &Settings) -> Option<Called<M>> {
    let asked = MemoryLimits::from_arguments(arguments)?;
    Some(Called::Memory(asked.within(settings.memory?)))
}

/// The arguments of `files`.
fn files<M>(arguments: &str, _: &Settings) -> Option<Called<M>> {
    let words: Vec<_> = arguments.split(' ').collect();
    let (tag, count, facts) = match words.as_slice() {
        [tag, count] => (tag, count, false),
        [tag, count, "facts"] => (tag, count, true),
        _ => return None,
    };
    let count = usize::try_from(number(count)?).ok()?;
    let files = Files {
        number: number(tag)?,
        count,
        facts,
    };
    (1..=MOST_FILES)
        .contains(&count)
        .then_some(Called::Files(files))
}

fn has_checksums(settings: &Settings) -> bool {
    !settings.checksums.is_empty()
}

/// An algorithm of this server, and two words behind it.
fn fields<'a>(arguments: &'a str, settings: &Settings) -> Option<(String, [&'a str; 2])> {
    let mut words = arguments.split_ascii_whitespace();
    let algorithm = settings.checksum(words.next()?)?.to_owned();
    let fields = [words.next()?, words.next()?];
    words.next().is_none().then_some((algorithm, fields))
}

fn number(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

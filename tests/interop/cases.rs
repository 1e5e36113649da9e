//! Cases of the matrix: the files, and the flags of each client.

/// The files of a case.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Load {
    /// One file of this size in bytes.
    File(u64),
    /// One file with blanks in its name and in that of its directory.
    Blanks,
    /// This number of small files, named one by one.
    Many(u64),
    /// One sparse file larger than 4 GiB.
    Sparse,
    /// A part of one file.
    Part { offset: u64, length: u64 },
}

/// One case of the matrix.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) load: Load,
    /// Flags of globus-url-copy.
    pub(crate) guc: &'static [&'static str],
    /// Flags of gridftp-cp.
    pub(crate) cp: &'static [&'static str],
}

const ODD: u64 = 5_000_003;
const PART: Load = Load::Part {
    offset: 100_001,
    length: 2_000_000,
};

const fn case(
    name: &'static str,
    load: Load,
    guc: &'static [&'static str],
    cp: &'static [&'static str],
) -> Case {
    Case {
        name,
        load,
        guc,
        cp,
    }
}

/// All cases.
#[rustfmt::skip]
const CASES: &[Case] = &[
    case("mode_s",           Load::File(ODD),  &[],                  &["--mode", "stream"]),
    case("p_1",              Load::File(ODD),  &["-p", "1"],         &["--mode", "extended", "-p", "1"]),
    case("p_4",              Load::File(ODD),  &["-p", "4"],         &["--mode", "extended", "-p", "4"]),
    case("fast_many",        Load::Many(60),   &["-fast"],           &[]),
    case("pipelined_many",   Load::Many(60),   &["-fast", "-pp"],    &["-j", "1"]),
    case("concurrent_many",  Load::Many(60),   &["-cc", "4"],        &["-j", "4"]),
    case("stream_many",      Load::Many(20),   &[],                  &["--mode", "stream"]),
    case("partial_s",        PART,             &["-off", "100001", "-len", "2000000"],
                                              &["--mode", "stream", "--offset", "100001", "--length", "2000000"]),
    case("partial_p_4",      PART,             &["-p", "4", "-off", "100001", "-len", "2000000"],
                                              &["-p", "4", "--offset", "100001", "--length", "2000000"]),
    case("empty_s",          Load::File(0),    &[],                  &["--mode", "stream"]),
    case("empty_p_4",        Load::File(0),    &["-p", "4"],         &["-p", "4"]),
    case("one_byte_s",       Load::File(1),    &[],                  &["--mode", "stream"]),
    case("one_byte_p_4",     Load::File(1),    &["-p", "4"],         &["-p", "4"]),
    case("over_4_gib_s",     Load::Sparse,     &[],                  &["--mode", "stream"]),
    case("over_4_gib_p_4",   Load::Sparse,     &["-p", "4"],         &["-p", "4"]),
    case("blanks_s",         Load::Blanks,     &[],                  &["--mode", "stream"]),
    case("blanks_p_4",       Load::Blanks,     &["-p", "4"],         &["-p", "4"]),
];

/// Returns the case of that name.
pub(crate) fn named(name: &str) -> &'static Case {
    CASES
        .iter()
        .find(|case| case.name == name)
        .expect("the matrix names a case of this table")
}

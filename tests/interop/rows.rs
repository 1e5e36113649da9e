//! The ways to run a copy: what is copied, and by which flags of either client.

/// What a row copies.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Load {
    /// One file of so many bytes.
    File(u64),
    /// One file with blanks in its name and in that of its directory.
    Blanks,
    /// So many small files, named one by one.
    Many(u64),
    /// One sparse file beyond what 32 bits can count.
    Sparse,
    /// A part of one file.
    Part { offset: u64, length: u64 },
}

/// One row of the matrix.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) load: Load,
    /// The flags of globus-url-copy.
    pub(crate) guc: &'static [&'static str],
    /// The flags of gridftp-cp.
    pub(crate) cp: &'static [&'static str],
}

const ODD: u64 = 5_000_003;
const PART: Load = Load::Part {
    offset: 100_001,
    length: 2_000_000,
};

const fn row(
    name: &'static str,
    load: Load,
    guc: &'static [&'static str],
    cp: &'static [&'static str],
) -> Row {
    Row {
        name,
        load,
        guc,
        cp,
    }
}

/// All rows.
#[rustfmt::skip]
const ROWS: &[Row] = &[
    row("mode_s",           Load::File(ODD),  &[],                  &["--mode", "stream"]),
    row("p_1",              Load::File(ODD),  &["-p", "1"],         &["--mode", "extended", "-p", "1"]),
    row("p_4",              Load::File(ODD),  &["-p", "4"],         &["--mode", "extended", "-p", "4"]),
    row("fast_many",        Load::Many(60),   &["-fast"],           &[]),
    row("pipelined_many",   Load::Many(60),   &["-fast", "-pp"],    &["-j", "1"]),
    row("concurrent_many",  Load::Many(60),   &["-cc", "4"],        &["-j", "4"]),
    row("stream_many",      Load::Many(20),   &[],                  &["--mode", "stream"]),
    row("partial_s",        PART,             &["-off", "100001", "-len", "2000000"],
                                              &["--mode", "stream", "--offset", "100001", "--length", "2000000"]),
    row("partial_p_4",      PART,             &["-p", "4", "-off", "100001", "-len", "2000000"],
                                              &["-p", "4", "--offset", "100001", "--length", "2000000"]),
    row("empty_s",          Load::File(0),    &[],                  &["--mode", "stream"]),
    row("empty_p_4",        Load::File(0),    &["-p", "4"],         &["-p", "4"]),
    row("one_byte_s",       Load::File(1),    &[],                  &["--mode", "stream"]),
    row("one_byte_p_4",     Load::File(1),    &["-p", "4"],         &["-p", "4"]),
    row("over_4_gib_s",     Load::Sparse,     &[],                  &["--mode", "stream"]),
    row("over_4_gib_p_4",   Load::Sparse,     &["-p", "4"],         &["-p", "4"]),
    row("blanks_s",         Load::Blanks,     &[],                  &["--mode", "stream"]),
    row("blanks_p_4",       Load::Blanks,     &["-p", "4"],         &["-p", "4"]),
];

/// Returns the row of that name.
pub(crate) fn named(name: &str) -> &'static Row {
    ROWS.iter()
        .find(|row| row.name == name)
        .expect("the matrix names a row of this table")
}

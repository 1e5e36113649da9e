//! `Flags`: the command line, from which help, completions and the man page are made as well.

use std::ffi::OsString;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgAction, Parser, Subcommand, ValueHint};
use clap_complete::Shell;
use ftp_wire::opts::DEFAULT_STRIPE_BLOCK as STRIPE_BLOCK;
use gridftp_client::options::{ConnectOptions, CopyOptions, Layout, Resume, Verify};
use gridftp_client::program::connection::ConnectionFlags;
use gridftp_client::program::examples::{section, with_examples};
use gridftp_client::program::schedule::Schedule;
use gridftp_client::program::settings::RULES;
use gridftp_client::program::values::{LONGEST, algorithm, size, time};
use gridftp_client::program::{doctor, events, proxy};
use gridftp_dsi::types::ChecksumAlgorithm;

use crate::choice::ChoiceFlags;
use crate::help::{ABOUT, EXAMPLES, EXIT, SETTINGS};
use crate::manner::MannerFlags;
use crate::partials::PartialFlags;
use crate::tuning::TuningFlags;
use crate::values::{LayoutFlag, LinksFlag, ModeFlag, RelayFlag};

/// Copies files to, from and between GridFTP servers, and on this machine.
#[derive(Debug, Parser)]
#[command(
    name = "gridftp-cp",
    version,
    long_about = ABOUT,
    after_help = EXIT,
    after_long_help = format!("{}{SETTINGS}{RULES}{}{EXIT}", section("gridftp-cp", EXAMPLES), events::of_copies()),
    mut_subcommands = |command| with_examples(command, "gridftp-cp", &[]),
    max_term_width = 100,
    arg_required_else_help = true,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    disable_help_subcommand = true
)]
pub(crate) struct Flags {
    /// A command that copies nothing.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    /// Source and destination: one or more sources, then the destination
    #[arg(value_name = "SOURCE... DEST", value_hint = ValueHint::AnyPath,
          required_unless_present_any = ["list", "partials", "completions", "man"])]
    pub(crate) locations: Vec<OsString>,

    /// Copy directories and all below them
    #[arg(short, long)]
    pub(crate) recursive: bool,

    /// Treatment of symbolic links below the sources. follow copies their targets. copy makes links
    /// with the same target, at destinations that keep links; those of a server that lead out of its
    /// tree are errors. skip leaves them out, and with --delete keeps all at the destination. A link
    /// that is itself the source is followed
    #[arg(long, value_enum, value_name = "HOW", default_value = "follow")]
    pub(crate) links: LinksFlag,

    #[command(flatten)]
    pub(crate) choice: ChoiceFlags,

    #[command(flatten)]
    pub(crate) manner: MannerFlags,

    #[command(flatten)]
    pub(crate) tuning: TuningFlags,

    /// Most hosts of a server that take part in one file of 64 MiB or more, in MODE E, or off; a
    /// Globus server that receives from another takes part with all [default: all that the server has]
    #[arg(long, value_name = "N|off", value_parser = stripes)]
    pub(crate) stripes: Option<NonZero<u32>>,

    /// Parts of a file that the hosts of a source send: blocks in turn, or one contiguous part each
    /// [default: the server's choice]
    #[arg(long, value_enum, value_name = "LAYOUT")]
    pub(crate) stripe_layout: Option<LayoutFlag>,

    /// Size of those blocks, in bytes; K, M and G are accepted [default: 1M]
    #[arg(long, value_name = "BYTES", value_parser = block)]
    pub(crate) stripe_block: Option<NonZero<u64>>,

    /// Transmission mode [default: extended where the server has it]
    #[arg(long, value_enum)]
    pub(crate) mode: Option<ModeFlag>,

    /// Size of blocks sent in MODE E, in bytes; K, M and G are accepted
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub(crate) block_size: Option<u64>,

    /// TCP buffer of data connections on both ends, in bytes; K, M and G are accepted
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub(crate) tcp_buffer: Option<u64>,

    /// Stack of the data connections at both ends, bottom first, as udt,compress:codec=zlib; the
    /// server must allow its drivers [default: tcp, and udt on a path that loses packets where no BBR
    /// is allowed and the servers offer udt]
    #[arg(long, value_name = "STRING")]
    pub(crate) stack: Option<String>,

    /// Stack that servers put over their files, as file,compress:codec=zlib; the server must allow
    /// its drivers
    #[arg(long, value_name = "STRING",
          conflicts_with_all = ["offset", "length", "verify"])]
    pub(crate) disk_stack: Option<String>,

    /// Most bytes a second of all files together, up and down each; K, M and G are accepted. Times of
    /// the day have their own: "08:00,10M 18:00,off". Between servers where one of them bounds it, as
    /// ours do, or where the bytes pass this machine (--relay always)
    #[arg(long, value_name = "RATE")]
    pub(crate) bwlimit: Option<Schedule>,

    /// Leave the path to others while its round trip is longer than half above the least one: fewer
    /// streams, then fewer files at once, then a lower rate. A queue of its own packets counts too.
    /// Between two servers, where the source tells its round trips, and the rate where one of them can
    /// bound it, as ours do; streams and files are fewer of those that are still to come
    #[arg(long)]
    pub(crate) polite: bool,

    /// First byte to copy; K, M and G are accepted. An upload is written into the file that is
    /// there, which a copy that breaks off leaves half changed
    #[arg(long, value_name = "BYTES", value_parser = size, allow_negative_numbers = true)]
    pub(crate) offset: Option<u64>,

    /// Number of bytes to copy; K, M and G are accepted
    #[arg(long, value_name = "BYTES", value_parser = size, allow_negative_numbers = true)]
    pub(crate) length: Option<u64>,

    /// Compare digests of the stored files of both ends, with ALG or the best one that costs little;
    /// with `disk` as ALG, sync files written here and read them back from the medium [default: at a
    /// gridftp-server, digests that both ends compute of the bytes while they pass; at another, those
    /// of stored files that it gives, or the size; on this machine, of the bytes read and the file
    /// written]
    #[arg(long, value_name = "ALG", num_args = 0..=1, require_equals = true,
          default_missing_value = "cheapest", value_parser = verify)]
    pub(crate) verify: Option<Verify>,

    /// Compare lengths and no digests: corruption goes undetected, but in a file that goes on with
    /// bytes of an earlier run, and at a gridftp-server in the first 128 KiB in MODE E, and in small
    /// files that share a command
    #[arg(long, conflicts_with = "verify")]
    pub(crate) no_verify: bool,

    /// Have the data between two servers pass this machine, in MODE S over one stream a file, without
    /// a file here
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    pub(crate) relay: RelayFlag,

    /// Go on with the bytes that an earlier run stored, of files of any size; of a download from a
    /// server without digests if its source had not changed for an hour [default: of files of more
    /// than 64 MiB]
    #[arg(short = 'c', long)]
    pub(crate) resume: bool,

    /// Begin all files anew, and keep no part of one that fails
    #[arg(long, conflicts_with = "resume")]
    pub(crate) no_resume: bool,

    /// Tries after the first for a failed file or a lost connection
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) retries: u32,

    /// Longest time for which a server that is gone, or that an HTTP proxy does not reach, is tried
    /// again beyond --retries, in seconds, or as 90s, 10m or 2h; 0 leaves it at those, and --retries 0
    /// at none
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = time(0..=LONGEST))]
    pub(crate) retry_for: Duration,

    /// Leave existing destination files as they are
    #[arg(short = 'n', long)]
    pub(crate) no_clobber: bool,

    /// Carry over modification times and permission bits, of whole files
    #[arg(long)]
    pub(crate) preserve: bool,

    /// Carry over extended attributes of whole files and of directories, those named user.*, at most
    /// 64 of at most 4 KiB each; a server that keeps none is warned about
    #[arg(long)]
    pub(crate) xattrs: bool,

    /// Sync each file written here, name included, to the medium before it counts as copied; warn
    /// about uploads to servers that do not do that
    #[arg(long)]
    pub(crate) sync_writes: bool,

    /// Leave whole blocks of zeros out of files written here, as holes that take no space; warn
    /// about uploads, with which a gridftp-server does the same at its storage posix:sparse=yes
    #[arg(long)]
    pub(crate) sparse: bool,

    /// Name the files that would be copied, the directories that would be made, and the names that
    /// would move to --backup-dir or be removed, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// End at the first file that fails for good; those that are not copied then are left out
    #[arg(long)]
    pub(crate) fail_fast: bool,

    /// Write the names of the files that failed to FILE, as they are below the destination, for
    /// --files-from: its source is run7 after a copy of run7/, and the directory that holds run7
    /// after a copy of run7; several sources have to be in one directory. The names are one a line,
    /// or each ended by a NUL where one has a line end. FILE is replaced when the run ends; one that
    /// breaks off, or leaves files out, adds its names to those in FILE
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) failed_list: Option<PathBuf>,

    /// Append to FILE one JSON object a line of all that happens in the copy, as --json writes but
    /// for its progress, with the field time, in seconds since 1970; an error that ends it is the
    /// last line
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) log_file: Option<PathBuf>,

    /// Append to FILE one JSON object a line for each copied file: both names, size, digest,
    /// protection, route, retries and times, signed by --cred or the credential of the user where
    /// there is one; gridftp check-receipt checks them
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) receipt: Option<PathBuf>,

    /// Tell the progress in a line every 10 seconds, or so often, in seconds or as 5m, where no bar
    /// does: with --json or --debug, or where standard error is no terminal
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true,
          default_missing_value = "10", value_parser = time(1..=86_400))]
    pub(crate) stats: Option<Duration>,

    /// Tell at the end where the time went, and the one change that would help most, and in the lines
    /// of progress where most of it goes; not of a copy within this machine
    #[arg(long)]
    pub(crate) explain: bool,

    /// List a directory or file instead of copying
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url, conflicts_with = "locations")]
    pub(crate) list: Option<String>,

    #[command(flatten)]
    pub(crate) partials: PartialFlags,

    #[command(flatten)]
    pub(crate) connection: ConnectionFlags,

    /// Write one JSON object a line instead of text; the end of the long help names the events and
    /// their fields
    #[arg(long)]
    pub(crate) json: bool,

    /// Write errors only
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Name each file when it is done, and tell of fallbacks
    #[arg(short, long, action = ArgAction::Count)]
    pub(crate) verbose: u8,

    /// Write the control conversation to standard error, passwords masked
    #[arg(long)]
    pub(crate) debug: bool,

    /// Write completions for SHELL to standard output; those of bash, zsh and fish ask for names of
    /// places and servers, without the flags on the command line, with those of the configuration file
    #[arg(long, value_name = "SHELL", value_enum, exclusive = true)]
    pub(crate) completions: Option<Shell>,

    /// Write the man page to standard output
    #[arg(long, exclusive = true)]
    pub(crate) man: bool,
}

/// The commands beside copies. A file of such a name is written as `./proxy`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a proxy of a user certificate, show it, or destroy it
    #[command(long_about = proxy::ABOUT, after_help = "A file called proxy is copied as ./proxy.", disable_help_subcommand = true)]
    Proxy(proxy::Args),

    /// Examine the way to a server step by step
    #[command(long_about = doctor::ABOUT, disable_help_subcommand = true)]
    Doctor(Box<doctor::Args>),
}

impl Flags {
    /// The options of connections; reads the certificates.
    pub(crate) fn connect_options(&self) -> anyhow::Result<ConnectOptions> {
        let mut options = self.connection.options()?;
        options.mode = self.mode.map(Into::into);
        options.tcp_buffer = self.tcp_buffer;
        options.block_size = self.block_size;
        options.rate_limit = self.bwlimit.as_ref().map(Schedule::limit);
        if let Some(stack) = &self.stack {
            options.stack.clone_from(stack);
        }
        options.disk_stack.clone_from(&self.disk_stack);
        Ok(options)
    }

    /// Refuses words that look like one thing and are another.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let taken = |text: &OsString| -> Option<String> {
            let name = text.to_str()?;
            let known = ChecksumAlgorithm::from_name(name.as_bytes()).is_some();
            (known && !Path::new(text).exists()).then(|| name.to_owned())
        };
        if self.verify == Some(Verify::Cheapest)
            && let Some(name) = self.locations.iter().find_map(taken)
        {
            anyhow::bail!("usage: {name}: is no source here; write --verify={name}");
        }
        if self.stripe_layout == Some(LayoutFlag::Partitioned) && self.stripe_block.is_some() {
            anyhow::bail!(
                "usage: --stripe-block: is of blocks; leave out --stripe-layout partitioned"
            );
        }
        self.tuning.check()
    }

    /// The options of copies.
    pub(crate) fn copy_options(&self) -> anyhow::Result<CopyOptions> {
        let mut options = CopyOptions::default();
        options.connect = self.connect_options()?;
        self.tuning.set(&mut options);
        options.stripes = self.stripes;
        options.stripe_layout = match (self.stripe_layout, self.stripe_block) {
            (Some(LayoutFlag::Partitioned), _) => Some(Layout::Partitioned),
            (_, Some(block)) => Some(Layout::Blocked(block)),
            (Some(LayoutFlag::Blocked), None) => NonZero::new(STRIPE_BLOCK).map(Layout::Blocked),
            (None, None) => None,
        };
        options.recursive = self.recursive;
        options.links = self.links.into();
        options.choice = self.choice.choice()?;
        options.manner = self.manner.manner();
        options.offset = self.offset;
        options.length = self.length;
        options.notes = of_user("XDG_STATE_HOME", ".local/state", "uploads");
        options.memory = of_user("XDG_CACHE_HOME", ".cache", "paths");
        options.polite = self.polite;
        options.over_udt = self.stack.is_none();
        options.resume = match (self.resume, self.no_resume) {
            (true, _) => Resume::All,
            (false, true) => Resume::Never,
            (false, false) => Resume::Large,
        };
        options.verify = match (self.verify, self.no_verify) {
            (Some(verify), _) => verify,
            (None, true) => Verify::No,
            (None, false) => Verify::Auto,
        };
        options.relay = self.relay.into();
        options.retries = self.retries;
        options.retry_for = self.retry_for;
        options.no_clobber = self.no_clobber;
        options.preserve = self.preserve;
        options.xattrs = self.xattrs;
        options.sync_writes = self.sync_writes;
        options.sparse = self.sparse;
        options.dry_run = self.dry_run;
        options.fail_fast = self.fail_fast;
        options.explain = self.explain;
        Ok(options)
    }
}

/// Reads the size of a block, which is not 0.
fn block(text: &str) -> Result<NonZero<u64>, String> {
    NonZero::new(size(text)?).ok_or_else(|| "a block has one byte at least".to_owned())
}

/// Reads a number of stripes, of which `off` is one.
fn stripes(text: &str) -> Result<NonZero<u32>, String> {
    if text == "off" {
        return Ok(NonZero::<u32>::MIN);
    }
    let number = text.parse().ok().filter(|n: &NonZero<u32>| n.get() <= 256);
    number.ok_or_else(|| "write a number from 1 to 256, or off".to_owned())
}

/// The file `name` of this program in the directory of the user that the variable names, by default
/// `or` in the home directory.
fn of_user(variable: &str, or: &str, name: &str) -> Option<PathBuf> {
    let named = std::env::var_os(variable).map(PathBuf::from);
    let dir = match named.filter(|dir| dir.is_absolute()) {
        Some(dir) => dir,
        None => std::env::home_dir()?.join(or),
    };
    Some(dir.join("gridftp").join(name))
}

fn verify(text: &str) -> Result<Verify, String> {
    match text {
        "cheapest" => Ok(Verify::Cheapest),
        "disk" => Ok(Verify::Disk),
        name => algorithm(name).map(Verify::With),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use gridftp_client::program::examples::{check_chapter, missing};

    use super::*;

    #[test]
    fn definitions_are_consistent() {
        Flags::command().debug_assert();
    }

    #[test]
    fn each_option_is_in_an_example_that_parses() {
        let all = Flags::command();
        let missing = missing(&all, &[("gridftp-cp", EXAMPLES)], &all).unwrap();
        assert!(missing.is_empty(), "{missing:#?}");
        check_chapter(&all, &[("gridftp-cp", EXAMPLES)]).unwrap();
    }

    #[test]
    fn the_timeout_is_for_every_wait() {
        let within = |args: &[&str]| {
            let args = [&["gridftp-cp"], args, &["a", "b"]].concat();
            let options = Flags::try_parse_from(args)
                .unwrap()
                .connect_options()
                .unwrap();
            [options.connect_within, options.reply_within, options.stall].map(|wait| wait.as_secs())
        };
        assert_eq!(within(&[]), [30, 120, 120]);
        assert_eq!(within(&["--timeout", "7"]), [7; 3]);
        assert_eq!(within(&["--timeout", "5m"]), [300; 3]);
    }

    #[test]
    fn verify_stands_alone_or_names_an_algorithm() {
        let parse =
            |args: &[&str]| Flags::try_parse_from([&["gridftp-cp"], args, &["a", "b"]].concat());
        for (args, verify) in [
            (&[][..], Verify::Auto),
            (&["--verify"], Verify::Cheapest),
            (
                &["--verify=sha256"],
                Verify::With(ChecksumAlgorithm::Sha256),
            ),
            (&["--no-verify"], Verify::No),
        ] {
            let options = parse(args).unwrap().copy_options().unwrap();
            assert_eq!(options.verify, verify, "{args:?}");
        }
        assert!(parse(&["--verify=rot13"]).is_err());
        assert!(parse(&["--no-verify", "--verify"]).is_err());
    }

    #[test]
    fn stripes_have_a_number_and_a_layout() {
        let parse = |args: &[&str]| {
            let flags = Flags::try_parse_from([&["gridftp-cp"], args, &["a", "b"]].concat());
            let flags = flags.map_err(|error| error.to_string())?;
            flags.check().map_err(|error| error.to_string())?;
            let options = flags.copy_options().unwrap();
            Ok::<_, String>((options.stripes.map(NonZero::get), options.stripe_layout))
        };
        let blocked = |block| NonZero::new(block).map(Layout::Blocked);
        for (args, stripes, layout) in [
            (&[][..], None, None),
            (&["--stripes", "off"], Some(1), None),
            (&["--stripes", "3"], Some(3), None),
            (&["--stripe-layout", "blocked"], None, blocked(1 << 20)),
            (&["--stripe-block", "64K"], None, blocked(64 << 10)),
            (
                &["--stripe-layout", "partitioned"],
                None,
                Some(Layout::Partitioned),
            ),
        ] {
            assert_eq!(parse(args), Ok((stripes, layout)), "{args:?}");
        }
        for bad in [
            "--stripes=0",
            "--stripes=on",
            "--stripes=999",
            "--stripe-block=0",
        ] {
            assert!(parse(&[bad]).is_err(), "{bad}");
        }
        assert!(parse(&["--stripe-layout=partitioned", "--stripe-block=1M"]).is_err());
    }

    #[test]
    fn zero_streams_are_refused() {
        for flag in ["-p", "-j", "--max-parallel", "--max-concurrency"] {
            assert!(
                Flags::try_parse_from(["gridftp-cp", flag, "0", "a", "b"]).is_err(),
                "{flag}"
            );
        }
    }
}

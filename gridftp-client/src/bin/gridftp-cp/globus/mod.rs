//! `globus-url-copy`: its command line, environment, output and exit statuses.

mod environment;
mod help;
mod list;
mod options;
mod output;
mod pairs;
mod rates;
mod table;
mod words;

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::{CommandFactory as _, FromArgMatches as _};
use gridftp_client::options::CopyOptions;
use gridftp_client::program::accounts::Accounts;
use gridftp_client::program::exit::Status;
use gridftp_client::program::grid::GridFlags;
use gridftp_client::program::report::Report;
use gridftp_client::program::run::{ended, stopped_by_signal, wait_for};
use gridftp_client::program::values::mistake;
use gridftp_client::{Location, Totals, copy};

use self::environment::Environment;
use self::help::SYNTAX;
use self::options::{Options, Query};
use self::output::Output;
use self::pairs::{Batch, Pair, Part};
use crate::flags::Flags;

/// The name that it is called by.
const PROGRAM: &str = "globus-url-copy";

/// Longest time without a byte, where nothing else is said.
const STALL: Duration = Duration::from_secs(600);

/// As good as no limit.
const NO_LIMIT: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// The words behind the program's name, where that or the first of them asks for the manner of
/// `globus-url-copy`.
pub(crate) fn words() -> Option<Vec<OsString>> {
    let mut words = std::env::args_os();
    let called = words.next()?;
    let mut words: VecDeque<_> = words.collect();
    let is_flag = words.front().is_some_and(|first| first == "--globus");
    if is_flag {
        words.pop_front();
    }
    let is_name = Path::new(&called).file_name() == Some(OsStr::new(PROGRAM));
    (is_flag || is_name).then(|| words.into())
}

/// Runs a command line of `globus-url-copy`.
pub(crate) fn run(words: Vec<OsString>) -> ExitCode {
    let plain = Report::of_lines(PROGRAM, false, false);
    let wanted = match Options::parse(words) {
        Ok(wanted) => wanted,
        Err(error) => {
            plain.err(&format!(
                "\nError, {error}\n\n{SYNTAX}\n\nUse -help to display full usage."
            ));
            return ExitCode::FAILURE;
        }
    };
    match wanted.ask {
        Some(Query::Help) => {
            plain.out(&help::text());
            return ended(Status::Done, &plain);
        }
        Some(Query::Version) => {
            let version = env!("CARGO_PKG_VERSION");
            plain.err(&format!("{PROGRAM}: by gridftp-cp {version}"));
            return ExitCode::SUCCESS;
        }
        None => {}
    }
    // Many files may be under way at a time; where it cannot be raised, fewer are.
    let _ = gridftp_data::raise_descriptors();
    let quiet = wanted.words.iter().any(|word| word == "--quiet");
    let debug = wanted.words.iter().any(|word| word == "--debug");
    let report = Report::of_lines(PROGRAM, false, quiet)
        .with_debug(debug)
        .with_words(words::told);
    let report = Arc::new(report.of_entries(0));
    let work = async {
        let done = Box::pin(work(&wanted, &report)).await;
        Ok(done.unwrap_or_else(|error| {
            let error = words::told(&format!("{error:#}"));
            report.err(&format!("\nerror: {error}\n"));
            Status::Failed
        }))
    };
    ended(wait_for(work, &report), &report)
}

async fn work(wanted: &Options, report: &Arc<Report>) -> anyhow::Result<Status> {
    let environment = Environment::read(std::env::var_os);
    let environment = environment.map_err(anyhow::Error::msg)?;
    if let Some(url) = &wanted.list {
        return list::run((wanted, &environment), url, report).await;
    }
    let pairs = pairs_of(wanted)?;
    let flags = flags_of((wanted, &environment), &pairs)?;
    let mut options = flags.copy_options()?;
    choose(wanted, &environment, &mut options).await?;
    let shown = (wanted.shown, wanted.goes_on);
    let output = Output::new(Arc::clone(report), shown, wanted.plan.as_deref())?;
    let output = Arc::new(output);
    let mut batches = VecDeque::from(pairs::batches(pairs));
    let mut accounts = Accounts::new(&flags.connection);
    let copying = async {
        while let Some(batch) = batches.pop_front() {
            let (grid, accounts) = (&flags.connection.grid, &mut accounts);
            let ends = ends(&batch, grid, |text| locate(text, accounts));
            output.begin(&batch.pairs);
            let failed = match ends {
                Ok(ends) => {
                    let part = batch.pairs.first().and_then(|pair| pair.part);
                    copy_batch(&ends, of_part(&options, part), &output).await
                }
                Err(error) => {
                    output.fail(&format!("{error:#}"));
                    true
                }
            };
            if failed && !wanted.goes_on {
                // Directories may hold files that were not found yet.
                output.leave(batch.pairs.into_iter().filter(|pair| !pair.is_file()));
                break;
            }
        }
        Status::Done
    };
    let within = wanted.within.filter(|limit| !limit.is_zero());
    let limited = tokio::time::timeout(within.unwrap_or(NO_LIMIT), copying);
    let status = match stopped_by_signal(Box::pin(limited)).await {
        Some(Ok(status)) => status,
        Some(Err(_)) => {
            report.err("\nCancelling copy...");
            output.stop();
            Status::Done
        }
        None => {
            output.stop();
            Status::Interrupted
        }
    };
    output.leave(batches.into_iter().flat_map(|batch| batch.pairs));
    let (failed, left) = output.end();
    if let Some(dump) = &wanted.dump {
        write_left(dump, &left)?;
    }
    Ok(match (status, failed) {
        (Status::Done, 1..) => Status::Failed,
        (status, _) => status,
    })
}

/// Reads a location, and completes its account. A password in a URL causes no warning: scripts for that
/// program have no other place for it. The help tells where it shows.
fn locate(text: &OsStr, accounts: &mut Accounts<'_>) -> anyhow::Result<Location> {
    let mut location = Location::parse_os(text)?;
    accounts.complete(&mut location, text)?;
    Ok(location)
}

/// The sources and the destination of a batch.
fn ends(
    batch: &Batch,
    grid: &GridFlags,
    mut parse: impl FnMut(&OsStr) -> anyhow::Result<Location>,
) -> anyhow::Result<(Vec<Location>, Location)> {
    let sources = batch.pairs.iter();
    let sources = sources.map(|pair| Ok(grid.of_source(parse(&pair.from)?)));
    let sources = sources.collect::<anyhow::Result<_>>()?;
    Ok((sources, grid.of_destination(parse(&batch.to)?)))
}

/// Copies the files of a batch; says whether one failed.
async fn copy_batch(
    (sources, destination): &(Vec<Location>, Location),
    options: CopyOptions,
    output: &Arc<Output>,
) -> bool {
    let totals = Arc::new(Totals::default());
    let observer = Arc::clone(output) as Arc<_>;
    let shared = Arc::clone(&totals);
    let copied = copy(sources, destination, options, observer, shared);
    let done = tokio::select! {
        done = copied => done,
        () = output.follow(&totals) => unreachable!("it follows until it is dropped"),
    };
    match done {
        Ok(summary) => summary.failed.is_some(),
        Err(error) => {
            output.fail(&error);
            true
        }
    }
}

/// The pairs that the command line names, or the files that it names.
fn pairs_of(wanted: &Options) -> anyhow::Result<Vec<Pair>> {
    let again = wanted.dump.as_ref().filter(|dump| dump.exists());
    let mut pairs = match again.or(wanted.pairs_from.as_ref()) {
        Some(file) => {
            let shown = file.display();
            let text = read(file).with_context(|| shown.to_string())?;
            pairs::read(&text).map_err(|error| anyhow::anyhow!("{shown}: {error}"))?
        }
        None => {
            let [from, to] = wanted.urls.as_slice() else {
                let why = match wanted.urls.len() {
                    0 | 1 => "source and dest url strings are required",
                    _ => "too many url strings specified",
                };
                anyhow::bail!("{why}\n\n{SYNTAX}");
            };
            let [from, to] = [from, to].map(OsString::clone);
            vec![Pair {
                from,
                to,
                part: None,
                is_match: false,
            }]
        }
    };
    if wanted.relative {
        for pair in &mut pairs {
            (pair.from, pair.to) = (relative(&pair.from), relative(&pair.to));
        }
    }
    let pairs = pairs.into_iter();
    Ok(pairs
        .flat_map(|pair| pair.expand(wanted.recursive))
        .collect())
}

/// Reads a list of pairs, of which `-` is standard input.
fn read(file: &Path) -> std::io::Result<Vec<u8>> {
    if file.as_os_str() != "-" {
        return std::fs::read(file);
    }
    let mut text = Vec::new();
    std::io::stdin().lock().read_to_end(&mut text)?;
    Ok(text)
}

/// Makes the path of a URL relative to the login directory, unless it begins with `%2F`.
fn relative(url: &OsStr) -> OsString {
    let text = url.as_bytes();
    let cut = |text: &[u8], of: &[u8]| text.windows(of.len()).position(|part| part == of);
    let path = cut(text, b"://").and_then(|at| {
        let host = at + 3;
        Some(host + cut(text.get(host..)?, b"/")? + 1)
    });
    let Some((host, path)) = path.and_then(|at| text.split_at_checked(at)) else {
        return url.to_owned();
    };
    if [&b"file:"[..], b"http:", b"https:"]
        .iter()
        .any(|scheme| host.starts_with(scheme))
    {
        return url.to_owned();
    }
    OsString::from_vec(match path.get(..3) {
        Some(slash) if slash.eq_ignore_ascii_case(b"%2F") => {
            [host, path.get(3..).unwrap_or_default()].concat()
        }
        _ => [host, b"~/", path].concat(),
    })
}

/// The flags of `gridftp-cp` that mean the same.
fn flags_of(
    (wanted, environment): (&Options, &Environment),
    pairs: &[Pair],
) -> anyhow::Result<Flags> {
    let is_remote = |url: &OsStr| match Location::parse_os(url) {
        Ok(Location::Remote(remote)) => !remote.site.scheme.is_web(),
        _ => false,
    };
    let from = pairs.iter().any(|pair| is_remote(&pair.from));
    let to = pairs.iter().any(|pair| is_remote(&pair.to));
    let mut words = vec![OsString::from(PROGRAM)];
    words.extend(wanted.words.iter().cloned());
    words.extend(subject(&wanted.subjects, from, to)?);
    // The files of a directory and those that wildcards match are copied, and no directory in it.
    let is_files = |pair: &Pair| !pair.is_file();
    match (wanted.recursive, pairs.iter().any(is_files)) {
        (true, _) => words.push("-r".into()),
        (false, true) => words.extend(["-r", "--max-depth", "1"].map(OsString::from)),
        (false, false) => {}
    }
    if wanted.plan.is_some() {
        words.push("--dry-run".into());
    }
    if let Some(program) = &environment.remote_program {
        words.extend(["--remote-program".into(), program.into()]);
    }
    // In MODE E it is the sender that connects.
    let is_extended = words.iter().any(|word| word == "extended");
    if environment.source_listens {
        if to || is_extended {
            anyhow::bail!(
                "GLOBUS_FTP_CLIENT_SOURCE_PASV: cannot be honoured: a source listens for downloads \
                 without -fast and -p alone"
            );
        }
        words.extend(["--mode", "stream"].map(OsString::from));
    }
    if environment.no_passive && from && !to && !is_extended {
        anyhow::bail!(
            "GLOBUS_FTP_CLIENT_NO_SERVER_PASV: cannot be honoured: servers connect to this end \
             with -fast and -p alone"
        );
    }
    // The URLs are not looked at there.
    words.extend(["--".into(), "from".into(), "to".into()]);
    // Of an option that is there twice the last counts.
    let found = Flags::command()
        .args_override_self(true)
        .try_get_matches_from(words);
    let flags = found.and_then(|found| Flags::from_arg_matches(&found));
    let flags = flags.map_err(|error| mistake(&error))?;
    flags.check()?;
    let mut bounds = pairs.iter().filter_map(|pair| pair.part.map(Part::bounds));
    if flags.disk_stack.is_some() && bounds.any(|bounds| bounds != (None, None)) {
        anyhow::bail!("-fsstack : cannot be honoured: parts of files have no layers");
    }
    Ok(flags)
}

/// The flag of the subject that servers have, where `from` and `to` tell the ends that are servers.
fn subject(
    subjects: &[Option<OsString>; 2],
    from: bool,
    to: bool,
) -> anyhow::Result<impl Iterator<Item = OsString>> {
    let [one, other] = subjects;
    let named = match (from, to) {
        _ if one == other => one,
        (true, false) => one,
        (false, _) => other,
        (true, true) => {
            anyhow::bail!("-ss, -ds : cannot be honoured: both servers have one subject, see -s")
        }
    };
    let named = named.clone().into_iter();
    Ok(named.flat_map(|subject| ["--subject".into(), subject]))
}

/// Makes the choices for which there are no flags.
async fn choose(
    wanted: &Options,
    environment: &Environment,
    options: &mut CopyOptions,
) -> anyhow::Result<()> {
    options.connect.stall = match wanted.stall.or(environment.stall).unwrap_or(STALL) {
        Duration::ZERO => NO_LIMIT,
        stall => stall,
    };
    if let Some(pause) = wanted.interval() {
        options.backoff = pause;
    }
    if let Some(compare) = wanted.compare() {
        options.manner.compare = Some(compare);
    }
    options.manner.algorithm = wanted.algorithm;
    environment.choose(&mut options.connect).await
}

/// The options of a batch, which has this part in place of that of the command line.
fn of_part(options: &CopyOptions, part: Option<Part>) -> CopyOptions {
    let mut options = options.clone();
    if let Some(part) = part {
        (options.offset, options.length) = part.bounds();
    }
    options
}

/// Writes the pairs that are left, or removes the file where there are none.
fn write_left(path: &Path, left: &[Pair]) -> anyhow::Result<()> {
    let shown = || path.display().to_string();
    if left.is_empty() {
        return match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(shown)
            }
            _ => Ok(()),
        };
    }
    let mut text = Vec::new();
    for pair in left {
        pair.write(&mut text)?;
    }
    std::fs::write(path, text).with_context(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_paths_are_below_the_login_directory() {
        for (url, expected) in [
            ("ftp://h/a/b", "ftp://h/~/a/b"),
            ("ftp://h/%2Fa", "ftp://h/a"),
            ("ftp://h/", "ftp://h/~/"),
            ("file:///a", "file:///a"),
            ("https://h/a", "https://h/a"),
            ("ftp://h", "ftp://h"),
        ] {
            assert_eq!(relative(url.as_ref()), expected, "{url}");
        }
    }
}

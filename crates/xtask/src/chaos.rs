//! Random faults during random copies: no fault may leave a wrong file, a false success, or remains
//! behind the next copy, or have bytes sent again that were on stable storage.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, bail};
use workspace_tests::{Noise, Profile, binaries};

use self::plan::{Direction, End, Fault, Plan};
use self::round::{Ended, Round};
use self::server::Program;

mod bound;
mod check;
mod files;
mod plan;
mod round;
mod server;

const ROUNDS: u64 = 60;
/// Rounds with small files for each series of those with large ones.
const SERIES: usize = 60;
/// Large files that are copied at once.
const LANES: usize = 2;
/// The rounds of so many that are with other servers, where these are installed.
const FOREIGN: u64 = 5;
const OTHERS: [(u64, Program); 2] = [(0, Program::Globus), (2, Program::Vsftpd)];
/// Rounds of `cargo xtask test`.
const QUICK: u64 = 60;
/// Seed of `cargo xtask test`.
const SEED: u64 = 8;

/// The rounds with a large file: each end is killed once in each direction, with our servers and with
/// those of Globus. vsftpd is left out: the next copy first reads up to 64 MiB back.
const LARGE: [(Program, Direction, End); 14] = [
    (Program::Ours, Direction::Up, End::Client),
    (Program::Ours, Direction::Up, End::Destination),
    (Program::Ours, Direction::Down, End::Client),
    (Program::Ours, Direction::Down, End::Source),
    (Program::Ours, Direction::ThirdParty, End::Client),
    (Program::Ours, Direction::ThirdParty, End::Source),
    (Program::Ours, Direction::ThirdParty, End::Destination),
    (Program::Globus, Direction::Up, End::Client),
    (Program::Globus, Direction::Up, End::Destination),
    (Program::Globus, Direction::Down, End::Client),
    (Program::Globus, Direction::Down, End::Source),
    (Program::Globus, Direction::ThirdParty, End::Client),
    (Program::Globus, Direction::ThirdParty, End::Source),
    (Program::Globus, Direction::ThirdParty, End::Destination),
];

/// The first exit statuses of rounds, and their numbers.
type Ends = BTreeMap<(Program, Fault, String), u64>;
/// Bytes that rounds with a large file have sent again, by kind of round.
type Resent = BTreeMap<(Program, Direction, End), Vec<u64>>;

/// Runs rounds of random copies and faults; `--seed N` repeats a series, `--rounds N` sets its
/// length, and `--with PROGRAM` has all rounds with these servers, without those with large files.
pub(crate) fn run(words: &[String]) -> Result<()> {
    let (mut rounds, mut seed, mut with) = (ROUNDS, None, None);
    for pair in words.chunks(2) {
        match pair {
            [flag, value] if flag == "--rounds" => rounds = value.parse()?,
            [flag, value] if flag == "--seed" => seed = Some(value.parse()?),
            [flag, value] if flag == "--with" => {
                let program = Program::ALL.into_iter().find(|one| one.name() == value);
                with = Some(program.context("--with takes ours, globus or vsftpd")?);
            }
            _ => bail!("chaos takes --rounds N, --seed N and --with PROGRAM"),
        }
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    println!("building gridftp-server and gridftp-cp (release)");
    let programs = binaries(Profile::Release)?;
    series(&programs, rounds, seed.unwrap_or(now.as_secs()), with)
}

/// Runs the series of `cargo xtask test` with the programs in `folder`.
pub(crate) fn quick(folder: &Path) -> Result<()> {
    series(folder, QUICK, SEED, None)
}

/// Runs a series of rounds with the programs in `folder`, and prints the results of the copies;
/// `with` names the servers of all of them. Large files are copied at a low rate meanwhile.
fn series(folder: &Path, rounds: u64, seed: u64, with: Option<Program>) -> Result<()> {
    println!("chaos: {rounds} rounds, --seed {seed}");
    let here = Program::ALL.into_iter().filter(|program| program.is_here());
    let here: &[Program] = &here.collect::<Vec<_>>();
    let has_failed = &AtomicBool::new(false);
    let (small, large) = thread::scope(|scope| {
        let lanes = 0..with.map_or(LANES, |_| 0);
        let lane =
            |lane| scope.spawn(move || large(folder, (rounds, seed), lane, here, has_failed));
        let lanes: Vec<_> = lanes.map(lane).collect();
        let small = small(folder, (rounds, seed), with, here, has_failed);
        let ended = lanes.into_iter().map(|lane| {
            let panicked = |_| Err(anyhow!("a round with a large file panicked"));
            lane.join().unwrap_or_else(panicked)
        });
        (small, ended.collect::<Result<Vec<_>>>())
    });
    match (small, large) {
        (Err(small), Err(large)) => Err(small.context(format!("{large:#}; and"))),
        (Err(error), Ok(_)) | (Ok(_), Err(error)) => Err(error),
        (Ok(ends), Ok(lanes)) => {
            for ((program, fault, end), count) in ends {
                let fault = format!("{program:?} {fault:?}");
                println!("  {count:>4} x {fault:<26} first copy: {end}");
            }
            for ((program, direction, end), resent) in lanes.into_iter().flatten() {
                print_resent(&format!("{program:?} {direction:?} Kill({end:?})"), resent);
            }
            println!("chaos: no wrong file, no false success, nothing left behind, all completed");
            Ok(())
        }
    }
}

/// Prints the bytes that rounds of one kind have sent again.
fn print_resent(kind: &str, mut resent: Vec<u64>) {
    resent.sort_unstable();
    let mib = |bytes: Option<&u64>| bytes.map_or(0, |bytes| bytes >> 20);
    println!(
        "  {:>4} x {kind:<36} large file: {} MiB sent again (median), {} at most",
        resent.len(),
        mib(resent.get(resent.len() / 2)),
        mib(resent.last()),
    );
}

/// Runs the rounds with small files and trees, until one of any kind has failed.
fn small(
    folder: &Path,
    (rounds, seed): (u64, u64),
    with: Option<Program>,
    here: &[Program],
    has_failed: &AtomicBool,
) -> Result<Ends> {
    let mut ends = Ends::new();
    for round in 0..rounds {
        if has_failed.load(Ordering::Relaxed) {
            break;
        }
        let seed = seed.wrapping_add(round);
        let mut noise = Noise::new(seed);
        let drawn = || OTHERS.into_iter().find(|(at, _)| *at == seed % FOREIGN);
        let program = with.or_else(|| drawn().map(|(_, program)| program));
        let program = program.filter(|program| here.contains(program));
        let plan = Plan::draw(&mut noise).with(program.unwrap_or(Program::Ours));
        let again = format!("--rounds 1 --seed {seed} --with {}", plan.program.name());
        let Ended { first, .. } = one(folder, &plan, &mut noise, &again, has_failed)?;
        *ends.entry((plan.program, plan.fault, first)).or_default() += 1;
    }
    Ok(ends)
}

/// Runs the rounds with large files of one lane, until one of any kind has failed.
fn large(
    folder: &Path,
    (rounds, seed): (u64, u64),
    lane: usize,
    here: &[Program],
    has_failed: &AtomicBool,
) -> Result<Resent> {
    let mut resent = Resent::new();
    for series in (0..rounds.max(1)).step_by(SERIES) {
        let seed = seed.wrapping_add(series);
        for (number, round) in (0..).zip(LARGE).skip(lane).step_by(LANES) {
            if has_failed.load(Ordering::Relaxed) {
                return Ok(resent);
            }
            if here.contains(&round.0) {
                let mut noise = Noise::new(seed.wrapping_add(number));
                let plan = Plan::large(round, &mut noise);
                let again = format!("--rounds 0 --seed {seed}");
                let ended = one(folder, &plan, &mut noise, &again, has_failed)?;
                resent.entry(round).or_default().push(ended.resent);
            }
        }
    }
    Ok(resent)
}

/// Runs one round, which the flags `again` repeat.
fn one(
    folder: &Path,
    plan: &Plan,
    noise: &mut Noise,
    again: &str,
    has_failed: &AtomicBool,
) -> Result<Ended> {
    let files = plan.files(noise);
    let end = Round::new(folder, plan, &files).and_then(Round::run);
    if end.is_err() {
        has_failed.store(true, Ordering::Relaxed);
    }
    end.with_context(|| format!("{plan:?}; repeat it with: chaos {again}"))
}

//! Random faults during random copies: no fault may leave a wrong file, a false success, bytes to be
//! sent again that were safe, or a partial file behind the next copy.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use workspace_tests::{
    Break, Digests, Noise, Profile, Relay, Tree, binaries, sha256, tree_digests,
};

use self::files::files;
use self::plan::{Direction, Fault, Plan, RATE};
use self::server::{Program, Server};

mod files;
mod plan;
mod server;

const ROUNDS: u64 = 60;
/// The rounds of so many that are with other servers, where these are installed.
const FOREIGN: u64 = 5;
const OTHERS: [(u64, Program); 2] = [(0, Program::Globus), (2, Program::Vsftpd)];
/// Rounds of `cargo xtask test`.
const QUICK: u64 = 60;
/// Seed of `cargo xtask test`.
const SEED: u64 = 8;
/// Longest duration of a copy, including faults.
const LIMIT: Duration = Duration::from_secs(90);
/// Interval between looks at a running copy.
const POLL: Duration = Duration::from_millis(2);
/// Files of a tree.
const FILES: u64 = 40;
/// Size of a file that is worth continuing.
const LARGE: u64 = (200 << 20) + 4099;
/// Bytes of a partial file without a record, which the next copy may send again: 64 MiB, and those
/// that arrive until the next second begins and while the record waits for a slow disk.
const UNRECORDED: u64 = (64 << 20) + 4 * RATE;
/// Bytes of the large file that are stored before the client is killed.
const STORED: u64 = 180 << 20;
/// Bytes on their way.
const IN_FLIGHT: u64 = 8 << 20;

/// Forms of names with a number N; a client or a server might trim, expand or refuse them.
const ODD: [&str; 8] = [
    "file N",
    "file N",
    "file N",
    " before N",
    "after N ",
    "bell\u{7} N",
    "*N?[]",
    "\u{202e}N",
];

/// Runs rounds of random copies and faults; `--seed N` repeats a series, `--rounds N` sets its
/// length, and `--with PROGRAM` has all rounds with these servers.
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

/// Runs a series of rounds with the programs in `folder`, and prints the results of the copies; `with`
/// names the servers of all of them.
fn series(folder: &Path, rounds: u64, seed: u64, with: Option<Program>) -> Result<()> {
    println!("chaos: {rounds} rounds, --seed {seed}");
    let mut ends: BTreeMap<(Program, Fault, String), u64> = BTreeMap::new();
    for direction in [Direction::Up, Direction::Down] {
        let mut noise = Noise::new(seed);
        let plan = Plan::large(direction, &mut noise);
        Round::new(folder, &plan, &mut noise)
            .and_then(|round| round.run(&mut noise))
            .with_context(|| format!("{plan:?}; repeat it with: chaos --rounds 0 --seed {seed}"))?;
    }
    let here = Program::ALL.map(|program| (program, program.is_here()));
    for round in 0..rounds {
        let seed = seed.wrapping_add(round);
        let mut noise = Noise::new(seed);
        let drawn = || OTHERS.into_iter().find(|(at, _)| *at == seed % FOREIGN);
        let program = with.or_else(|| drawn().map(|(_, program)| program));
        let program = program.filter(|program| here.contains(&(*program, true)));
        let plan = Plan::draw(&mut noise).with(program.unwrap_or(Program::Ours));
        let end = Round::new(folder, &plan, &mut noise)
            .and_then(|round| round.run(&mut noise))
            .with_context(|| {
                let name = plan.program.name();
                format!("{plan:?}; repeat it with: chaos --rounds 1 --seed {seed} --with {name}")
            })?;
        *ends.entry((plan.program, plan.fault, end)).or_default() += 1;
    }
    for ((program, fault, end), count) in ends {
        println!(
            "  {count:>4} x {:<24} first copy: {end}",
            format!("{program:?} {fault:?}")
        );
    }
    println!("chaos: no wrong file, no false success, and every second copy completed the tree");
    Ok(())
}

/// One round: a source, a destination, and the servers between them.
struct Round<'a> {
    folder: &'a Path,
    plan: &'a Plan,
    tree: Tree,
    /// The server of each end, unless the end is local.
    from: Option<Server<'a>>,
    to: Option<Server<'a>>,
    /// Digests of the source, and of the destination before the copies.
    source: Digests,
    before: Digests,
    /// File names under which the destination has a directory.
    refused: Vec<String>,
}

impl<'a> Round<'a> {
    fn new(folder: &'a Path, plan: &'a Plan, noise: &mut Noise) -> Result<Self> {
        let tree = Tree::new()?;
        tree.dir("to/tree")?;
        let mut refused = Vec::new();
        for n in 0..FILES {
            // Half of the files have equal sizes, so that only the content differs.
            let size = *noise.pick(&[0, 1, 1000, 1000, 1000, 1000, 70_001, 1 << 20]);
            let size = match n {
                0 if plan.large => LARGE,
                0 => 12 << 20,
                _ => size,
            };
            let odd = match plan.program {
                Program::Ours => noise.pick(&ODD),
                // No command to it carries the other names.
                Program::Globus | Program::Vsftpd => noise.pick(&ODD[..5]),
            };
            let name = format!("d{}/{}", n % 3, odd.replace('N', &n.to_string()));
            tree.file(&format!("from/tree/{name}"), size, noise.below(u64::MAX))?;
            match noise.below(8) {
                0 | 1 => {
                    drop(tree.file(&format!("to/tree/{name}"), 1000, noise.below(u64::MAX))?)
                }
                2 if plan.fault == Fault::Refuse => {
                    tree.dir(&format!("to/tree/{name}/in the direction"))?;
                    refused.push(name);
                }
                _ => {}
            }
        }
        let server = |name: &str| Server::start(folder, plan.program, tree.path(name)).map(Some);
        let from = match plan.direction {
            Direction::Up => None,
            Direction::Down | Direction::ThirdParty => server("from")?,
        };
        let to = match plan.direction {
            Direction::Down => None,
            Direction::Up | Direction::ThirdParty => server("to")?,
        };
        Ok(Self {
            folder,
            plan,
            source: tree_digests(&tree.path("from/tree"))?,
            before: tree_digests(&tree.path("to/tree"))?,
            tree,
            from,
            to,
            refused,
        })
    }

    /// Copies with the fault and checks, copies without it and checks; returns the first exit
    /// status.
    fn run(mut self, noise: &mut Noise) -> Result<String> {
        let relay = self.relay()?;
        let first = self.copy(relay.as_ref(), Some(noise))?;
        let log = fs::read_to_string(self.log())?;
        let look = |round: &Self, status: ExitStatus| round.look(status.success());
        look(&self, first)
            .with_context(|| format!("after the first copy ({first}); its output:\n{log}"))?;
        let most = self.most_again()?;
        let passed = || relay.as_ref().map_or(0, Relay::passed);
        let before = passed();
        let second = self.copy(relay.as_ref(), None)?;
        let log = fs::read_to_string(self.log())?;
        look(&self, second)
            .and_then(|()| {
                ensure!(
                    second.success() == self.refused.is_empty(),
                    "it ended with {second}"
                );
                let sent = passed() - before;
                ensure!(
                    sent <= most,
                    "{sent} bytes were sent, {most} at most are missing"
                );
                self.check_leftovers()
            })
            .with_context(|| format!("after the second copy ({second}); its output:\n{log}"))?;
        self.check_complete()?;
        Ok(first.to_string())
    }

    /// Checks that every name has the new file, or the old state unless the copy succeeded.
    fn look(&self, success: bool) -> Result<()> {
        ensure!(
            !success || self.refused.is_empty(),
            "success although names were refused"
        );
        for (name, want) in &self.source {
            let path = self.tree.path("to/tree").join(name);
            if self.refused.contains(name) {
                ensure!(path.is_dir(), "{name} is no longer a directory");
                continue;
            }
            let got = path.exists().then(|| sha256(&path)).transpose()?;
            let whole = got.as_ref() == Some(want);
            let old = got.as_ref() == self.before.get(name);
            let size = fs::metadata(&path).map_or(0, |meta| meta.len());
            ensure!(
                whole || (old && !success),
                "{name} is wrong: {size} bytes, digest {got:?}; success is {success}"
            );
        }
        Ok(())
    }

    fn check_complete(&self) -> Result<()> {
        for (name, want) in &self.source {
            let path = self.tree.path("to/tree").join(name);
            ensure!(
                self.refused.contains(name) || sha256(&path)? == *want,
                "{name} is missing or wrong"
            );
        }
        Ok(())
    }

    /// Most bytes that the next copy may send: all but those of large partial files, and of these
    /// the ones that no record tells of.
    fn most_again(&self) -> Result<u64> {
        let safe = self.partial()?.saturating_sub(UNRECORDED);
        ensure!(safe > 0 || !self.plan.large, "no bytes are safe");
        let all: u64 = files(&self.tree.path("from/tree"))?
            .iter()
            .map(|(_, file)| file.len())
            .sum();
        Ok((all + IN_FLIGHT).saturating_sub(safe))
    }

    /// Bytes of the largest partial file.
    fn partial(&self) -> Result<u64> {
        let files = files(&self.tree.path("to/tree"))?.into_iter();
        let partial = files.filter(|(name, _)| name.ends_with(".gridftp-part"));
        Ok(partial
            .map(|(_, file)| file.blocks() * 512)
            .max()
            .unwrap_or(0))
    }

    /// Checks that the destination has no names but those of the files that were there or copied.
    fn check_leftovers(&self) -> Result<()> {
        for (name, _) in files(&self.tree.path("to/tree"))? {
            let is_known = self.source.contains_key(&name) || self.before.contains_key(&name);
            ensure!(is_known, "{name} was left behind");
        }
        Ok(())
    }

    fn log(&self) -> PathBuf {
        self.tree.path("client.log")
    }

    /// A relay in front of the only server, which resets connections if that is the fault.
    fn relay(&self) -> Result<Option<Relay>> {
        let after = self.plan.budget;
        let plan = match self.plan.fault {
            Fault::ResetData => Break::Data { after },
            Fault::ResetEverything => Break::Everything { after },
            _ => Break::Never,
        };
        let ((Some(server), None) | (None, Some(server))) = (&self.from, &self.to) else {
            return Ok(None);
        };
        Relay::start(server.addr()?, plan).map(Some)
    }

    /// Runs the client, with the fault if there is `noise`.
    fn copy(&mut self, relay: Option<&Relay>, noise: Option<&mut Noise>) -> Result<ExitStatus> {
        let url = |server: &Option<Server<'_>>, folder: &str| -> Result<String> {
            let Some(server) = server else {
                return Ok(format!(
                    "{}/",
                    self.tree.path(folder).join("tree").display()
                ));
            };
            server.url_at(relay.map_or(server.addr()?, Relay::addr), "tree/")
        };
        let (from, to) = (url(&self.from, "from")?, url(&self.to, "to")?);
        let log = File::create(self.log())?;
        let mut client = Command::new(self.folder.join("gridftp-cp"))
            .args(&self.plan.flags)
            .args([from, to])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        let ended = self.watch(&mut client, noise);
        if ended.is_err() {
            // The client must not outlive the round.
            let _ = client.kill();
            let _ = client.wait();
        }
        ended
    }

    /// Waits until the client exits, and injects the fault meanwhile.
    fn watch(&mut self, client: &mut Child, noise: Option<&mut Noise>) -> Result<ExitStatus> {
        let started = Instant::now();
        let mut noise = noise;
        loop {
            if let Some(status) = client.try_wait()? {
                return Ok(status);
            }
            ensure!(
                started.elapsed() < LIMIT,
                "the copy does not end; its output:\n{}",
                fs::read_to_string(self.log())?
            );
            let is_due = match self.plan.large {
                true => self.partial()? >= STORED,
                false => started.elapsed() >= self.plan.after,
            };
            if is_due && let Some(noise) = noise.take() {
                self.inject(client, noise)?;
            }
            thread::sleep(POLL);
        }
    }

    fn inject(&mut self, client: &Child, noise: &mut Noise) -> Result<()> {
        let lasts = self.plan.lasts;
        let process = Pid::from_child(client);
        let mut servers: Vec<&mut Server<'_>> = [self.from.as_mut(), self.to.as_mut()]
            .into_iter()
            .flatten()
            .collect();
        let at = usize::try_from(noise.below(servers.len() as u64))?;
        let server = servers.get_mut(at).context("a copy without a server")?;
        match self.plan.fault {
            Fault::KillClient => kill_process(process, Signal::KILL)?,
            Fault::StallClient => {
                kill_process(process, Signal::STOP)?;
                thread::sleep(lasts);
                kill_process(process, Signal::CONT)?;
            }
            Fault::KillServer => {
                server.kill()?;
                thread::sleep(lasts);
                server.restart()?;
            }
            Fault::StallServer => {
                server.signal(Signal::STOP)?;
                thread::sleep(lasts);
                server.signal(Signal::CONT)?;
            }
            Fault::None | Fault::ResetData | Fault::ResetEverything | Fault::Refuse => {}
        }
        Ok(())
    }
}

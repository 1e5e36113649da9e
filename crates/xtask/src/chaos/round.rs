//! `Round`: one source and one destination, two copies between them, and the fault of the first.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use workspace_tests::{Break, Digests, Relay, Tree, tree_digests};

use super::bound::Remaining;
use super::plan::{Direction, End, Fault, Moment, Plan, Planned, Shape, TOP, There};
use super::server::Server;

/// Longest duration of a copy, including faults.
const LIMIT: Duration = Duration::from_secs(90);
/// Interval between looks at a running copy.
pub(super) const POLL: Duration = Duration::from_millis(2);

/// The two runs of the same command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    First,
    Second,
}

/// The results of a round.
#[derive(Debug)]
pub(super) struct Ended {
    /// Exit status of the first copy.
    pub(super) first: String,
    /// Bytes that were at the destination at the fault, and sent again.
    pub(super) resent: u64,
}

/// One round: a source, a destination, and the servers between them.
pub(super) struct Round<'a> {
    folder: &'a Path,
    pub(super) plan: &'a Plan,
    /// The server of each end, unless the end is local.
    from: Option<Server<'a>>,
    to: Option<Server<'a>>,
    /// In front of the server of the destination, or of the only one.
    pub(super) relay: Relay,
    /// Digests of the source, and of the destination before the copies.
    pub(super) source: Digests,
    pub(super) before: Digests,
    /// File names under which the destination has a directory.
    pub(super) refused: Vec<String>,
    /// The bytes that were left at the kill of a server, if there was one.
    killed: Option<Remaining>,
    /// Dropped last, behind the servers of its folders.
    pub(super) tree: Tree,
}

impl<'a> Round<'a> {
    pub(super) fn new(folder: &'a Path, plan: &'a Plan, files: &[Planned]) -> Result<Self> {
        let tree = Tree::new()?;
        tree.dir("home")?;
        tree.dir(&format!("to/{TOP}"))?;
        if plan.exists && plan.shape == Shape::Tree {
            tree.dir(&format!("to/{}", plan.shape.path()))?;
        }
        let mut refused = Vec::new();
        for file in files {
            tree.file(&format!("from/{}", file.name), file.size, file.seed)?;
            let there = format!("to/{}", file.name);
            match file.there {
                There::Nothing => {}
                There::File { size, seed } => drop(tree.file(&there, size, seed)?),
                There::Directory => {
                    tree.dir(&format!("{there}/in the directory"))?;
                    refused.push(file.name.clone());
                }
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
        let near = to.as_ref().or(from.as_ref());
        let near = near.context("a copy without a server")?.addr()?;
        Ok(Self {
            folder,
            plan,
            source: tree_digests(&tree.path("from"))?,
            before: tree_digests(&tree.path("to"))?,
            relay: Relay::paced(near, breaks(plan), plan.pace())?,
            tree,
            from,
            to,
            refused,
            killed: None,
        })
    }

    /// Copies with the fault and checks, copies without it and checks.
    pub(super) fn run(mut self) -> Result<Ended> {
        let first = self.copy(Run::First)?;
        let passed = self.relay.passed();
        let looked = self.look(first.success()).and_then(|()| {
            let killed = self.killed.as_ref().filter(|_| first.success());
            let resent = killed.map(|left| left.resent(passed)).transpose()?;
            Ok((resent, self.left(first.success())?))
        });
        let (outlived, mut left) = self.with_output(looked, "first", first)?;

        // Those that the first copy has not waited for.
        for server in [&mut self.from, &mut self.to].into_iter().flatten() {
            server.restart()?;
        }
        // Without those that a session of the first copy had on their way.
        left.passed = self.relay.passed();
        let second = self.copy(Run::Second)?;
        let looked = self.look(second.success()).and_then(|()| {
            ensure!(
                second.success() == self.refused.is_empty(),
                "it ended with {second}"
            );
            self.check_complete()?;
            self.check_leftovers()?;
            left.resent(self.relay.passed())
        });
        let resent = self.with_output(looked, "second", second)?;
        Ok(Ended {
            first: first.to_string(),
            resent: outlived.unwrap_or(resent),
        })
    }

    /// Adds the output of a copy to an error about its result.
    fn with_output<T>(&self, looked: Result<T>, run: &str, status: ExitStatus) -> Result<T> {
        let log = fs::read_to_string(self.log())?;
        looked.with_context(|| format!("after the {run} copy ({status}); its output:\n{log}"))
    }

    fn log(&self) -> PathBuf {
        self.tree.path("client.log")
    }

    /// The name of an end on the command line of the client.
    fn name(&self, end: End) -> Result<String> {
        let (server, folder, is_relayed) = match end {
            End::Source => (&self.from, "from", self.to.is_none()),
            End::Client | End::Destination => (&self.to, "to", true),
        };
        let path = self.plan.shape.path();
        let Some(server) = server else {
            return Ok(format!("{}/{path}", self.tree.path(folder).display()));
        };
        let addr = match is_relayed {
            true => self.relay.addr(),
            false => server.addr()?,
        };
        server.url_at(addr, path)
    }

    /// Runs the client, with the fault if it is the first run.
    fn copy(&mut self, run: Run) -> Result<ExitStatus> {
        let (from, to) = (self.name(End::Source)?, self.name(End::Destination)?);
        let log = File::create(self.log())?;
        let mut command = Command::new(self.folder.join("gridftp-cp"));
        if run == Run::First && self.plan.gives_up {
            // The second keeps its retries: a session of the first may have its files for a moment.
            command.args(["--retries", "0"]);
        }
        let mut client = command
            .args(self.plan.flags())
            .args([from, to])
            .env_remove("NETRC")
            .env_remove("XDG_CACHE_HOME")
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_STATE_HOME")
            .env("HOME", self.tree.path("home"))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        let ended = self.watch(&mut client, run);
        if ended.is_err() {
            // The client must not outlive the round.
            let _ = client.kill();
            let _ = client.wait();
        }
        ended
    }

    /// Waits until the client exits, and injects the fault meanwhile.
    fn watch(&mut self, client: &mut Child, run: Run) -> Result<ExitStatus> {
        let started = Instant::now();
        let mut is_ahead = run == Run::First;
        loop {
            if let Some(status) = client.try_wait()? {
                return Ok(status);
            }
            ensure!(
                started.elapsed() < LIMIT,
                "the copy does not end; its output:\n{}",
                fs::read_to_string(self.log())?
            );
            let is_due = match self.plan.moment {
                Moment::After(time) => started.elapsed() >= time,
                Moment::Passed(bytes) => self.relay.passed() >= bytes,
                Moment::Stored(bytes) => is_ahead && self.partial()? >= bytes,
            };
            if is_due && is_ahead {
                is_ahead = false;
                self.inject(client)?;
            }
            thread::sleep(POLL);
        }
    }

    fn inject(&mut self, client: &Child) -> Result<()> {
        let (process, lasts) = (Pid::from_child(client), self.plan.lasts);
        match self.plan.fault {
            Fault::Kill(End::Client) => kill_process(process, Signal::KILL)?,
            Fault::Stall(End::Client) => {
                kill_process(process, Signal::STOP)?;
                thread::sleep(lasts);
                kill_process(process, Signal::CONT)?;
            }
            Fault::Kill(end) => {
                self.server(end)?.kill()?;
                self.killed = Some(self.left(false)?);
                if !self.plan.gives_up {
                    thread::sleep(lasts);
                    self.server(end)?.restart()?;
                }
            }
            Fault::Stall(end) => {
                self.server(end)?.signal(Signal::STOP)?;
                thread::sleep(lasts);
                self.server(end)?.signal(Signal::CONT)?;
            }
            Fault::None | Fault::ResetData | Fault::ResetEverything | Fault::Refuse => {}
        }
        Ok(())
    }

    fn server(&mut self, end: End) -> Result<&mut Server<'a>> {
        let server = match end {
            End::Source => &mut self.from,
            End::Client | End::Destination => &mut self.to,
        };
        server.as_mut().context("an end without a server")
    }
}

/// The fault of the relay.
fn breaks(plan: &Plan) -> Break {
    let after = plan.budget;
    match plan.fault {
        Fault::ResetData => Break::Data { after },
        Fault::ResetEverything => Break::Everything { after },
        _ => Break::Never,
    }
}

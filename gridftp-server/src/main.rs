//! Flags to configuration to `Server::run` to exit status; the only place that prints.
#![forbid(unsafe_code)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program talks to its user"
)]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::{CommandFactory as _, Parser, Subcommand};
use gridftp_server::config::{ClusterOptions, Config, LogLevel, Options};
use gridftp_server::storage::{KINDS, LAYERS};

use crate::daemon::Entry;

/// Time that abandoned work on the storage may go on when the server ends.
const LEAVING: Duration = Duration::from_millis(500);

mod cluster;
mod daemon;
mod examples;
mod man;
mod passwd;
mod report;

/// Serves a directory tree over FTP and GridFTP.
///
/// Prints `listening on ADDR:PORT` when it is ready. Without --anonymous or --users no login is
/// possible. SIGTERM lets running transfers end and then stops; SIGHUP reads the
/// configuration, the accounts and the certificates again.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100, after_long_help = examples::text())]
#[command(args_conflicts_with_subcommands = true, mut_subcommands = examples::of_command)]
struct Cli {
    /// TOML file with the same options as keys; a flag wins over it.
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Serve one session on standard input and output, as the person who runs this program: for
    /// ssh, whose login it trusts. Serves / unless --root says otherwise, and logs errors only
    #[arg(long, conflicts_with_all = ["bind", "port", "anonymous", "users", "tls_port"])]
    stdio: bool,

    /// Write the manual pages to standard output
    #[arg(long, exclusive = true)]
    man: bool,

    #[command(flatten)]
    options: Options,

    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Makes a line for the users file; reads the password from the terminal, or from standard
    /// input when that is no terminal.
    Passwd(passwd::Args),

    /// Examines the set-up that flags and file describe, and changes nothing: files, accounts,
    /// certificates, names, clock, ports, rules. Prints one line a fact (ok, skip, warn or FAIL) with
    /// its remedy; exit status 1 if any is FAIL.
    Check(Box<report::Args>),

    /// Lists the storages by name, with their options.
    Storages,

    /// Serves as a front end: control connections, sessions and policy here, data on data nodes.
    Front(Box<ClusterArgs>),

    /// Serves as a data node: data connections and storage here, for the sessions of front ends.
    Node(Box<ClusterArgs>),

    /// Lists the data nodes that are connected to a front end, or drains one.
    Nodes(cluster::NodesArgs),

    /// Makes and joins clusters of front ends and data nodes.
    #[command(subcommand)]
    Cluster(cluster::Command),
}

/// The options of `gridftp-server front` and `gridftp-server node`.
#[derive(Debug, clap::Args)]
struct ClusterArgs {
    /// TOML file with the same options as keys, those of the cluster in a section [cluster]; a flag
    /// wins over it.
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(flatten)]
    cluster: ClusterOptions,

    #[command(flatten)]
    options: Options,
}

/// The part of a server that the process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// All of it.
    Whole,
    /// One session on standard input and output.
    Stdio,
    Front,
    Node,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    gridftp_data::forbid_core_dumps();
    let result = match cli.command {
        Some(Command::Passwd(args)) => passwd::run(&args),
        Some(Command::Check(args)) => match report::run(&args) {
            Ok(false) => return ExitCode::FAILURE,
            done => done.map(drop),
        },
        Some(Command::Storages) => {
            print!("{}", storages());
            Ok(())
        }
        Some(Command::Front(args)) => serve(args.config.clone(), args.flags(), Part::Front),
        Some(Command::Node(args)) => serve(args.config.clone(), args.flags(), Part::Node),
        Some(Command::Nodes(args)) => cluster::nodes(&args),
        Some(Command::Cluster(command)) => cluster::run(command),
        None if cli.man => man::print(Cli::command()),
        None if cli.stdio => serve(cli.config, cli.options, Part::Stdio),
        None => serve(cli.config, cli.options, Part::Whole),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gridftp-server: {error:#}");
            ExitCode::FAILURE
        }
    }
}

impl ClusterArgs {
    fn flags(self) -> Options {
        let mut options = self.options;
        options.cluster = Some(self.cluster);
        options
    }
}

/// The storages, one a paragraph.
fn storages() -> String {
    let kinds = KINDS.iter();
    let kinds = kinds.map(|kind| (kind.name.to_owned(), kind.about, kind.options));
    let layers = LAYERS.iter();
    let layers = layers.map(|layer| (format!("…,{}", layer.name), layer.about, layer.options));
    let mut text = String::new();
    for (name, about, options) in kinds.chain(layers) {
        text.push_str(&format!("{name}: {about}\n"));
        for option in options {
            let about = option.about.trim().trim_end_matches('.');
            text.push_str(&format!(
                "    {}: {about} ({})\n",
                option.name, option.takes
            ));
        }
    }
    text
}

fn serve(file: Option<PathBuf>, flags: Options, part: Part) -> anyhow::Result<()> {
    let mut options = daemon::merge(file.as_deref(), &flags)?;
    if part == Part::Stdio {
        options.root.get_or_insert_with(|| "/".into());
        options.log_level.get_or_insert(LogLevel::Error);
    }
    let config = Config::check(&options)?;
    let _log = gridftp_server::log::install(config.log_format, config.log_level)
        .context("start the log")?;
    // One more than can run at once, since each may have to wait a moment for the storage.
    let threads = std::thread::available_parallelism().map_or(2, |cores| cores.get() + 1);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .context("start the runtime")?;
    let ready = |address, tls: Option<SocketAddr>| {
        let tls = tls.map(|address| format!("listening with TLS on {address}\n"));
        daemon::announce(&format!(
            "{}listening on {address}\n",
            tls.unwrap_or_default()
        ));
    };
    // On a worker rather than here: a connection stays on the thread that accepted it.
    let cluster = options.cluster.take().unwrap_or_default();
    let entry = match part {
        Part::Stdio => Entry::Stdio,
        Part::Node => Entry::Node(cluster),
        Part::Front => Entry::Listener(file, Box::new(flags), Some(cluster)),
        Part::Whole => Entry::Listener(file, Box::new(flags), None),
    };
    let served = runtime.block_on(async { tokio::spawn(daemon::run(config, entry, ready)).await });
    // Copies and hashes still under way on threads are abandoned.
    runtime.shutdown_timeout(LEAVING);
    served?
}

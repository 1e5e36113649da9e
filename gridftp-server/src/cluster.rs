//! The process as a front end or a data node, and the commands about the cluster.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::Subcommand;
use gridftp_cluster::{JoinToken, Member, Node, Nodes, Role, Serve as _, create_token};
use gridftp_dsi::DynDsi;
use gridftp_server::config::{CLUSTER_PORT, ClusterOptions, Config};
use gridftp_server::{DataNode, Front};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;

use crate::daemon::announce;

/// The name and version of this program, for the lists of other members.
const PROGRAM: &str = concat!("gridftp-server ", env!("CARGO_PKG_VERSION"));

/// Interval of looking whether the transfers and storage calls of a draining node have ended.
const LOOK: Duration = Duration::from_millis(200);

/// Commands about the cluster.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Makes a cluster: its certificate authority, and the certificate of this front end
    Init {
        /// Folder to make [default: /etc/gridftp/cluster].
        #[arg(long, value_name = "DIR")]
        cluster: Option<PathBuf>,
        /// Name of this front end [default: the name of the host].
        #[arg(long)]
        name: Option<String>,
    },

    /// Prints a token with which one host joins the cluster; the front end must run then
    Token {
        /// Folder of this front end [default: /etc/gridftp/cluster].
        #[arg(long, value_name = "DIR")]
        cluster: Option<PathBuf>,
        /// Address at which the new host reaches this front end, as HOST:PORT [default: the name of
        /// this host, port 2812].
        #[arg(long, value_name = "HOST:PORT")]
        address: Option<String>,
        /// Whether the new host will be a front end, rather than a data node.
        #[arg(long)]
        front: bool,
        /// Seconds for which the token holds [default: 3600].
        #[arg(long, value_name = "N")]
        valid: Option<u64>,
    },

    /// Joins a cluster by a token: gets a certificate for this host
    Join {
        /// The token that `cluster token` printed at a front end; - reads it from standard input,
        /// where no other user of this host sees it.
        token: String,
        /// Folder to make [default: /etc/gridftp/cluster].
        #[arg(long, value_name = "DIR")]
        cluster: Option<PathBuf>,
        /// Name of this host in the cluster [default: the name of the host].
        #[arg(long)]
        name: Option<String>,
    },

    /// Makes a new authority at the front end beside the old one, which stays trusted until
    /// `cluster retire`; members take both when they renew their certificates
    Rotate {
        /// Folder of this front end [default: /etc/gridftp/cluster].
        #[arg(long, value_name = "DIR")]
        cluster: Option<PathBuf>,
    },

    /// Refuses every certificate that a member has now, and ends its connections, since its key may
    /// be stolen; with a new token it joins again
    Revoke {
        /// Name of the member.
        name: String,
        /// Folder of this front end [default: /etc/gridftp/cluster].
        #[arg(long, value_name = "DIR")]
        cluster: Option<PathBuf>,
        /// Whether the member is a front end, rather than a data node.
        #[arg(long)]
        front: bool,
    },

    /// Trusts the old authorities no more, once every member has renewed its certificate
    Retire {
        /// Folder of this front end [default: /etc/gridftp/cluster].
        #[arg(long, value_name = "DIR")]
        cluster: Option<PathBuf>,
    },
}

/// The options of `gridftp-server nodes`.
#[derive(Debug, clap::Args)]
pub(crate) struct NodesArgs {
    /// Address of the front end for nodes [default: 127.0.0.1:2812].
    #[arg(long, value_name = "HOST:PORT")]
    front: Option<String>,

    /// Folder with the certificate of a front end [default: /etc/gridftp/cluster].
    #[arg(long, value_name = "DIR")]
    cluster: Option<PathBuf>,

    /// Place no more sessions on this node; its transfers go on.
    #[arg(long, value_name = "NAME")]
    drain: Option<String>,

    /// Place sessions on this node again.
    #[arg(long, value_name = "NAME", conflicts_with = "drain")]
    undrain: Option<String>,

    /// Prints one JSON object a line.
    #[arg(long)]
    json: bool,
}

/// Begins to await data nodes, and has them move the data.
pub(crate) async fn begin_front(
    config: &mut Config,
    options: &ClusterOptions,
    tasks: &mut JoinSet<()>,
) -> anyhow::Result<()> {
    ensure!(
        options.fronts.is_empty(),
        "--front is for a data node: a front end has --node"
    );
    let folder = options.folder();
    let member = Member::load(&folder).with_context(|| {
        let folder = folder.display();
        format!("read the cluster certificate in {folder}; `gridftp-server cluster init` makes it")
    })?;
    let nodes = Arc::new(Nodes::new(Arc::clone(&member), PROGRAM)?);
    // A front end without the authority asks the first one that it is told of.
    let authority = options.authority.clone().unwrap_or_default();
    tasks.spawn(reload(Arc::clone(&member), signal(SignalKind::hangup())?));
    tasks.spawn(async move { member.keep_renewed(&authority).await });
    let address = options.front_address();
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("listen for data nodes on {address}"))?;
    announce(&format!(
        "listening for data nodes on {}\n",
        listener.local_addr()?
    ));
    let listening = Arc::clone(&nodes);
    tasks.spawn(async move { listening.listen(listener).await });
    for node in options.nodes.clone() {
        let nodes = Arc::clone(&nodes);
        tasks.spawn(async move { nodes.dial(&node).await });
    }
    let front = Front::new(nodes, options.stripes.unwrap_or(16));
    config.set_front(match options.hybrid {
        true => front.hybrid(),
        false => front,
    });
    Ok(())
}

/// Reads the certificates again after each signal; a mistake changes nothing.
async fn reload(member: Arc<Member>, mut signal: Signal) {
    while signal.recv().await.is_some() {
        if let Err(error) = member.reload() {
            tracing::error!(%error, "cluster certificate kept as it was");
        }
    }
}

/// Serves the sessions that front ends place here, until `shutdown` completes and the transfers and
/// storage calls have ended, or `hurry` completes as well.
pub(crate) async fn run_node(
    config: Config,
    dsi: Arc<dyn DynDsi>,
    options: &ClusterOptions,
    shutdown: impl Future<Output = ()>,
    hurry: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    ensure!(
        options.nodes.is_empty(),
        "--node is for a front end: a data node has --front"
    );
    ensure!(
        !options.fronts.is_empty() || options.listen.is_some(),
        "a data node dials a front end (--front HOST:PORT) or awaits one (--cluster-listen)"
    );
    let folder = options.folder();
    let member = Member::load(&folder).with_context(|| {
        let folder = folder.display();
        format!("read the cluster certificate in {folder}; `gridftp-server cluster join` makes it")
    })?;
    let drain_timeout = config.drain_timeout;
    let capacity = options.capacity.unwrap_or(64);
    let serve = DataNode::new(config, Arc::clone(&dsi), capacity).with_storage(dsi);
    let serve = Arc::new(serve);
    let node = Node::new(Arc::clone(&member), Arc::clone(&serve), PROGRAM)?;
    let mut tasks = JoinSet::new();
    tasks.spawn(reload(Arc::clone(&member), signal(SignalKind::hangup())?));
    if let Some(address) = options.listen {
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("listen for front ends on {address}"))?;
        announce(&format!(
            "listening for front ends on {}\n",
            listener.local_addr()?
        ));
        let node = node.clone();
        tasks.spawn(async move { node.listen(listener).await });
    }
    if let Some(front) = options.fronts.first().cloned() {
        let member = Arc::clone(&member);
        tasks.spawn(async move { member.keep_renewed(&front).await });
    }
    for front in options.fronts.clone() {
        let node = node.clone();
        tasks.spawn(async move { node.dial(&front).await });
    }
    announce("serving as a data node\n");
    shutdown.await;
    serve.drain(true);
    let ended = async {
        while serve.running() > 0 || node.storage_uses() > 0 {
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::select! {
        () = ended => {}
        () = tokio::time::sleep(drain_timeout) => {}
        () = hurry => {}
    }
    tasks.shutdown().await;
    Ok(())
}

/// Runs a command about the cluster.
pub(crate) fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Init { cluster, name } => {
            let folder = folder(cluster);
            let name = name.unwrap_or_else(host_name);
            let identity = gridftp_cluster::init(&folder, &name)?;
            println!("made {identity} in {}", folder.display());
        }
        Command::Token {
            cluster,
            address,
            front,
            valid,
        } => {
            let address = address.unwrap_or_else(|| format!("{}:{CLUSTER_PORT}", full_name()));
            let role = if front { Role::Front } else { Role::Node };
            let valid = Duration::from_secs(valid.unwrap_or(3600));
            let token = create_token(folder(cluster), &address, role, None, valid)?;
            println!("{}", *token.reveal());
        }
        Command::Join {
            token,
            cluster,
            name,
        } => {
            let token = match token.as_str() {
                "-" => std::io::read_to_string(std::io::stdin())?,
                _ => token,
            };
            let token: JoinToken = token.trim().parse()?;
            let folder = folder(cluster);
            let name = name.unwrap_or_else(host_name);
            let identity = wait(gridftp_cluster::join(&folder, &token, &name))??;
            println!("made {identity} in {}", folder.display());
        }
        Command::Revoke {
            name,
            cluster,
            front,
        } => {
            let role = if front { Role::Front } else { Role::Node };
            let identity = gridftp_cluster::revoke(folder(cluster), role, &name)?;
            println!("revoked the certificates of {identity}");
        }
        Command::Rotate { cluster } => gridftp_cluster::rotate(folder(cluster))?,
        Command::Retire { cluster } => gridftp_cluster::retire(folder(cluster))?,
    }
    Ok(())
}

/// Lists the data nodes of a front end, or drains one.
pub(crate) fn nodes(args: &NodesArgs) -> anyhow::Result<()> {
    let member = Member::load(folder(args.cluster.clone()))?;
    let local = format!("127.0.0.1:{CLUSTER_PORT}");
    let front = args.front.as_ref().unwrap_or(&local);
    let change = args.drain.as_ref().map(|name| (name, true));
    if let Some((name, draining)) =
        change.or_else(|| args.undrain.as_ref().map(|name| (name, false)))
    {
        return Ok(wait(member.drain_at(front, name, draining))??);
    }
    for node in wait(member.nodes_of(front))?? {
        let report = &node.report;
        if args.json {
            println!(
                "{}",
                serde_json::json!({
                    "name": node.name,
                    "address": node.address,
                    "version": node.version.to_string(),
                    "capacity": report.capacity,
                    "running": report.running,
                    "sessions": node.placed,
                    "load": report.load,
                    "free": report.free_space,
                    "draining": report.draining,
                    "late": node.late,
                })
            );
            continue;
        }
        let state = match (report.draining, node.late) {
            (true, _) => "draining",
            (false, true) => "late",
            (false, false) => "ready",
        };
        let free = report.free_space.map(xio::ByteSize::new);
        println!(
            "{} {state} {} running {} of {} load {:.2} free {} {}",
            node.name,
            node.address,
            report.running,
            report.capacity,
            report.load,
            free.map_or_else(|| "unknown".to_owned(), |free| free.to_string()),
            node.version
        );
    }
    Ok(())
}

/// Runs one future to its end.
fn wait<T>(work: impl Future<Output = T>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the runtime")?;
    Ok(runtime.block_on(work))
}

/// The folder of this host's cluster certificate.
fn folder(named: Option<PathBuf>) -> PathBuf {
    named.unwrap_or_else(|| ClusterOptions::default().folder())
}

/// The name of this host.
fn full_name() -> String {
    let system = rustix::system::uname();
    system.nodename().to_string_lossy().into_owned()
}

/// The first label of the name of this host.
fn host_name() -> String {
    let name = full_name();
    name.split('.').next().unwrap_or_default().to_owned()
}

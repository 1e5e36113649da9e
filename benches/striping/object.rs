//! One large file to an object store and back: through our server, and by `rclone` directly.

use std::fs;
use std::process::Command;

use anyhow::{Result, ensure};
use workspace_benches::pair::{Side, measured, quiet, time_of};
use workspace_benches::ratio::{Cost, Line, alternate};
use workspace_tests::{
    Host, ObjectServer, ObjectServerKind, Peer, Tree, binary, file_url, same_file,
};

use crate::options::Options;
use workspace_benches::copying::{FILE, Way};

const SUITE: &str = "bench striping object";

/// Most memory of our server.
const MEMORY: u64 = 256 << 20;

/// Measures both directions, then the memory that our server has held.
pub(crate) fn measure(options: &Options) -> Result<Vec<Line>> {
    let size = options.scale.amount(1 << 30, 128 << 20);
    let (Some(store), Some(rclone)) = (
        ObjectServer::start_in(ObjectServerKind::Versitygw, Tree::roomy(4 * size)?)?,
        Peer::Rclone.require(SUITE),
    ) else {
        return Ok(Vec::new());
    };
    let tree = Tree::roomy(3 * size)?;
    tree.file(FILE, size, 1)?;
    let server = Host::ours_with(tree.root(), &["--storage", &store.storage()?])?;
    let bed = Bed {
        tree,
        store,
        server,
        rclone: rclone.get_program().into(),
    };
    let mut lines = Vec::new();
    // First up, so that there is a file to download.
    for way in [Way::Put, Way::Get] {
        let (us, them) = alternate(options.scale.runs(), || bed.ours(way), || bed.rclone(way))?;
        let what = format!(
            "{} MiB {} through our server to versitygw, against rclone there, 4 streams",
            size >> 20,
            way.name()
        );
        eprintln!("{what}: ours {us:.2?}, rclone {them:.2?}");
        let ratio = them.wall / us.wall;
        lines.push(Line {
            what,
            ratio,
            cpu: Some(them.cpu / us.cpu),
            target: "1",
            reached: ratio >= 1.0,
            note: format!("{:.2} / {:.2} s", us.wall, them.wall),
        });
    }
    lines.push(bed.memory()?);
    Ok(lines)
}

/// The store, our server before it, and the file.
struct Bed {
    tree: Tree,
    store: ObjectServer,
    server: Host,
    rclone: std::path::PathBuf,
}

impl Bed {
    /// Copies the file by our client and server.
    fn ours(&self, way: Way) -> Result<Cost> {
        let mut command = Command::new(binary("gridftp-cp")?);
        command
            .args(quiet(Side::Ours))
            .args(["--mode", "extended", "-p", "4"]);
        match way {
            Way::Put => command.args([file_url(&self.tree.path(FILE)), self.server.url("ours")]),
            Way::Get => command.args([self.server.url("ours"), file_url(&self.tree.path("copy"))]),
        };
        self.cost(&mut command, way)
    }

    /// Copies the file by `rclone`, without its digests: ours are not asked for either.
    fn rclone(&self, way: Way) -> Result<Cost> {
        let mut command = Command::new(&self.rclone);
        command
            .args(["copyto", "--config", "/dev/null", "--ignore-checksum"])
            // It copies nothing that is there already.
            .arg("--ignore-times")
            .args(["--s3-disable-checksum", "--s3-no-check-bucket"])
            // Else it waits a second for the store's consent to each part.
            .args(["--expect-continue-timeout", "0"])
            // Parts of the size of ours.
            .args(["--s3-upload-concurrency", "4", "--s3-chunk-size", "8M"])
            .args([
                "--multi-thread-streams",
                "4",
                "--multi-thread-cutoff",
                "64M",
            ])
            // Its library does not accept authorities of the machine beside a transport of its own.
            .env_remove("AWS_CA_BUNDLE")
            .env("HOME", self.tree.root())
            .env("RCLONE_CONFIG_STORE_TYPE", "s3")
            .env("RCLONE_CONFIG_STORE_PROVIDER", "Other")
            .env("RCLONE_CONFIG_STORE_REGION", "us-east-1")
            .env("RCLONE_CONFIG_STORE_ENDPOINT", self.store.endpoint())
            .env("RCLONE_CONFIG_STORE_ACCESS_KEY_ID", ObjectServer::ACCESS)
            .env(
                "RCLONE_CONFIG_STORE_SECRET_ACCESS_KEY",
                ObjectServer::SECRET,
            );
        let (local, remote) = (self.tree.root(), "store:bucket/theirs");
        match way {
            Way::Put => command.arg(local.join(FILE)).arg(remote),
            Way::Get => command.arg(remote).arg(local.join("copy")),
        };
        self.cost(&mut command, way)
    }

    fn cost(&self, command: &mut Command, way: Way) -> Result<Cost> {
        let copied = self.tree.path("copy");
        let _ = fs::remove_file(&copied);
        let cost = measured(Some(&self.server), || time_of(command))?;
        if way == Way::Get {
            same_file(&self.tree.path(FILE), &copied)?;
        }
        Ok(cost)
    }

    /// The most memory of our server in all copies.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    fn memory(&self) -> Result<Line> {
        let held = self.server.peak_memory()?;
        ensure!(held > 0, "no memory was read");
        Ok(Line {
            what: "memory of our server in these copies: 256 MiB by its peak".to_owned(),
            ratio: MEMORY as f64 / held as f64,
            cpu: None,
            target: "256 MiB",
            reached: held <= MEMORY,
            note: format!("{} MiB", held >> 20),
        })
    }
}

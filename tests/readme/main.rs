//! Runs the shell lines of the README in order.
#![forbid(unsafe_code)]

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use workspace_tests::{Daemon, Tree, binary, run};

const LIMIT: Duration = Duration::from_secs(60);
/// The port in the README, which the test replaces by a free one.
const PORT: &str = "2811";

/// Returns the lines of the first fenced block of a language.
fn block(readme: &str, kind: &str) -> Result<Vec<String>> {
    let (_, rest) = readme
        .split_once(&format!("```{kind}\n"))
        .context("no such block")?;
    let (block, _) = rest.split_once("```").context("the block does not end")?;
    Ok(block.lines().map(ToOwned::to_owned).collect())
}

#[test]
fn the_shell_lines_succeed() -> Result<()> {
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md"))?;
    let programs = binary("gridftp-server")?
        .parent()
        .context("a folder")?
        .to_path_buf();
    let path = env::join_paths(
        [programs]
            .into_iter()
            .chain(env::split_paths(&env::var_os("PATH").unwrap_or_default())),
    )?;
    let shell = |line: &str, tree: &Tree| {
        let mut shell = Command::new("sh");
        shell
            .args(["-ec", line])
            .current_dir(tree.root())
            .env("PATH", &path)
            .env("HOME", tree.root());
        shell
    };
    let tree = Tree::new()?;
    let mut server: Option<Daemon> = None;
    let lines = block(&readme, "sh")?;
    ensure!(lines.len() <= 10, "{} lines are more than ten", lines.len());
    // The first line builds the programs, which is done already.
    for line in lines.iter().skip(1) {
        if let Some(background) = line.strip_suffix(" &") {
            let line = format!("exec {}", background.replace(PORT, "0"));
            let ready = |line: &str| line.strip_prefix("listening on ")?.parse().ok();
            server = Some(Daemon::start(&mut shell(&line, &tree), ready)?);
            continue;
        }
        let port = server.as_ref().map_or(0, |server| server.addr().port());
        let output = || server.as_ref().map(Daemon::output).unwrap_or_default();
        run(
            &mut shell(&line.replace(PORT, &port.to_string()), &tree),
            LIMIT,
        )?
        .ok()
        .with_context(output)?;
    }
    ensure!(
        tree.path("shared/skel").is_dir(),
        "the directory did not arrive"
    );
    Ok(())
}

//! Costs of sessions: server memory during a download, and logins per second.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use workspace_benches::pair::{Pair, Side};
use workspace_benches::ratio::{Cost, Line, alternate};
use workspace_benches::session::Session;
use workspace_benches::usage::{pss_of_tree, settle};
use workspace_tests::{Host, Tree};

use crate::options::Options;

/// Measures the server memory of a session in the middle of a download by a client that does not
/// read.
pub(crate) fn memory(pair: &Pair, options: &Options) -> Result<Vec<Line>> {
    let count = options.scale.amount(400, 40);
    let tree = Tree::new()?;
    tree.sparse("file", 1 << 30, 1)?;
    let mut sizes = [0.0; 2];
    for (side, size) in [Side::Ours, Side::Globus].into_iter().zip(&mut sizes) {
        let server = pair.serve(side, tree.root())?;
        // Two sessions first, so that one-time allocations are not counted.
        hold(&server, 2)?;
        settle(server.pid())?;
        let before = pss_of_tree(server.pid())?;
        let held = hold(&server, count)?;
        let after = pss_of_tree(server.pid())?;
        drop(held);
        *size = kilobytes(after.saturating_sub(before)) / kilobytes(count * 1000);
    }
    let [ours, globus] = sizes;
    eprintln!("memory of a session: ours {ours:.1} kB, Globus {globus:.1} kB");
    Ok(vec![Line {
        what: format!("server memory (PSS) a session, {count} in the middle of a download"),
        ratio: globus / ours,
        cpu: None,
        target: "64 kB a session",
        reached: ours <= 64.0,
        note: format!("{ours:.1} kB"),
    }])
}

/// Measures logins per second, one after the other and four at a time.
pub(crate) fn logins(pair: &Pair, options: &Options) -> Result<Vec<Line>> {
    let tree = Tree::new()?;
    let ours = pair.serve(Side::Ours, tree.root())?;
    let globus = pair.serve(Side::Globus, tree.root())?;
    let mut lines = Vec::new();
    for clients in [1, 4] {
        let (us, them) = alternate(
            options.scale.runs(),
            || login(&ours, clients, options.scale.amount(2000, 200)),
            || login(&globus, clients, options.scale.amount(200, 20)),
        )?;
        eprintln!(
            "logins, {clients} clients: ours {:.0} a second, Globus {:.0}",
            1.0 / us.wall,
            1.0 / them.wall
        );
        lines.push(Line {
            what: format!("logins per second, {clients} at a time"),
            ratio: them.wall / us.wall,
            cpu: None,
            target: "10",
            reached: them.wall / us.wall >= 10.0,
            note: String::new(),
        });
    }
    Ok(lines)
}

/// Opens `count` sessions, each with a download in progress.
fn hold(server: &Host, count: u64) -> Result<Vec<Session>> {
    let path = server.url("file");
    // The path of the URL is the server's path of the file.
    let path = path
        .splitn(4, '/')
        .nth(3)
        .map(|path| format!("/{path}"))
        .unwrap_or_default();
    (0..count)
        .map(|_| {
            let mut session = Session::login(server.addr())?;
            session.begin_download(&path)?;
            Ok(session)
        })
        .collect()
}

/// Logs in and out `count` times and returns the time of one login.
fn login(server: &Host, clients: usize, count: u64) -> Result<Cost> {
    let started = Instant::now();
    let done: Vec<Result<u64>> = std::thread::scope(|scope| {
        let each = count / clients as u64;
        let threads: Vec<_> = (0..clients)
            .map(|_| {
                scope.spawn(move || {
                    for _ in 0..each {
                        Session::login(server.addr())?.quit()?;
                    }
                    Ok(each)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no login thread panics"))
            .collect()
    });
    let done: u64 = done.into_iter().sum::<Result<u64>>()?;
    ensure!(done > 0, "no login succeeded");
    Ok(Cost::new(
        started.elapsed().div_f64(count_of(done)),
        Duration::ZERO,
    ))
}

#[expect(clippy::cast_precision_loss, reason = "counts of a bench are small")]
fn count_of(number: u64) -> f64 {
    number as f64
}

fn kilobytes(bytes: u64) -> f64 {
    count_of(bytes) / 1000.0
}

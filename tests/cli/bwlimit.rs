//! The bound on the bytes a second of a copy.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use workspace_tests::{Reaction, ScriptedServer, same_file};

use crate::{Bed, fails};

#[test]
fn all_files_together_keep_to_the_rate() -> Result<()> {
    for flags in [&["--mode", "stream"][..], &["-p", "3"]] {
        let bed = Bed::new()?;
        for name in ["a", "b", "c"] {
            bed.here.file(&format!("dir/{name}"), 700_000, 3)?;
        }
        let to = bed.url("up/");
        let (back, from) = ("back/", bed.url("up/"));
        let other = bed.url("other/");
        for [from, to] in [
            ["dir/", &to],
            [&from, back],
            [&from, &other],
            ["dir/", "here/"],
        ] {
            let begun = Instant::now();
            let limited = ["-r", "-j", "3", "--bwlimit", "1M", "--relay", "always"];
            bed.cp(&[flags, &limited, &[from, to]].concat())?.ok()?;
            // The bytes of 50 ms may pass at once.
            let least = Duration::from_millis(1_950);
            ensure!(begun.elapsed() > least, "{flags:?}: {:?}", begun.elapsed());
        }
        for name in ["a", "b", "c"] {
            bed.same(&format!("dir/{name}"), &format!("up/{name}"))?;
            bed.same(&format!("back/{name}"), &format!("up/{name}"))?;
            bed.same(&format!("dir/{name}"), &format!("other/{name}"))?;
            bed.same(&format!("here/{name}"), &format!("other/{name}"))?;
        }
    }
    Ok(())
}

/// The sessions of three files have a share each.
#[test]
fn servers_keep_to_the_rate_of_the_bytes_between_them() -> Result<()> {
    for flags in [&["--mode", "stream"][..], &["-p", "3"]] {
        let bed = Bed::new()?;
        for name in ["a", "b", "c"] {
            bed.there.file(&format!("from/{name}"), 700_000, 3)?;
        }
        let (from, to) = (bed.url("from/"), bed.url("to/"));
        let begun = Instant::now();
        let limited = ["-r", "-j", "3", "--bwlimit", "1M", "--debug"];
        let told = bed.cp(&[flags, &limited, &[&from, &to]].concat())?.ok()?;
        // One that begins first has all of it for a moment.
        let least = Duration::from_millis(1_600);
        ensure!(begun.elapsed() > least, "{flags:?}: {:?}", begun.elapsed());
        ensure!(told.stderr.contains("SITE RATE "), "{}", told.report());
        for name in ["a", "b", "c"] {
            let copy = bed.there.path(&format!("to/{name}"));
            same_file(&bed.there.path(&format!("from/{name}")), &copy)?;
        }
    }
    Ok(())
}

/// The layer that bounds the rate is under connections from their begin.
#[test]
fn a_polite_copy_between_servers_can_be_slowed_down_later() -> Result<()> {
    let bed = Bed::new()?;
    bed.there.file("from", 100_000, 3)?;
    let (from, to) = (bed.url("from"), bed.url("to"));
    let told = bed.cp(&["--polite", "--debug", &from, &to])?.ok()?;
    ensure!(told.stderr.contains("SITE RATE off"), "{}", told.report());
    same_file(&bed.there.path("from"), &bed.there.path("to"))
}

#[test]
fn a_rate_that_cannot_be_kept_is_refused() -> Result<()> {
    let bed = Bed::new()?;
    let [source, destination] = [ScriptedServer::usual()?, ScriptedServer::usual()?];
    source.file("/a", vec![7; 100_000]);
    let (from, to) = (source.url("a"), destination.url("b"));
    let remedy = "bounds the rate of its data (SITE RATE); --relay always has it pass this machine";
    for relay in ["auto", "never"] {
        let told = bed.cp(&["--bwlimit", "1M", "--relay", relay, &from, &to])?;
        fails(&told, 2, &["neither ", remedy])?;
    }
    for server in [&source, &destination] {
        let moves = server.count("RETR") + server.count("STOR");
        ensure!(moves == 0, "{:?}", server.commands());
    }
    // Nobody asked for a rate.
    bed.cp(&["--polite", &from, &to])?.ok()?;
    // One of them is enough.
    bed.cp(&["--bwlimit", "1M", &from, &bed.url("c")])?.ok()?;
    ensure!(std::fs::metadata(bed.there.path("c"))?.len() == 100_000);
    let told = bed.cp(&["--bwlimit", "25:00,1M", &from, "b"])?;
    fails(&told, 2, &["25:00: write hours and minutes"])
}

/// Their bytes pass this machine, which bounds them.
#[test]
fn servers_that_refuse_data_of_each_other_need_no_rate() -> Result<()> {
    let bed = Bed::new()?;
    let source = ScriptedServer::start(|line| match line.split(' ').next() {
        Some("PORT" | "EPRT") => Reaction::say("500 Illegal PORT command."),
        _ => Reaction::Usual,
    })?;
    let destination = ScriptedServer::usual()?;
    source.file("/a", vec![7; 300_000]);
    let (from, to) = (source.url("a"), destination.url("b"));
    let begun = Instant::now();
    let told = bed.cp(&["--bwlimit", "200K", &from, &to])?.ok()?;
    ensure!(
        begun.elapsed() > Duration::from_secs(1),
        "{:?}",
        begun.elapsed()
    );
    ensure!(
        told.stderr.contains("pass this machine"),
        "{}",
        told.report()
    );
    ensure!(destination.bytes("/b") == Some(vec![7; 300_000]));
    Ok(())
}

#[test]
fn without_a_rate_at_this_time_nothing_is_held_up() -> Result<()> {
    let bed = Bed::new()?;
    bed.here.file("a", 50_000_000, 3)?;
    let to = bed.url("a");
    let date = std::process::Command::new("date").arg("+%H").output()?;
    let hour: u32 = String::from_utf8(date.stdout)?.trim().parse()?;
    // The other rate, of half a day later, would take hours.
    let rates = format!("{hour:02}:00,off {:02}:00,1K", (hour + 12) % 24);
    bed.cp(&["--bwlimit", &rates, "a", &to])?.ok()?;
    bed.same("a", "a")
}

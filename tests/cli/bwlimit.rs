//! The bound on the bytes a second of a copy.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

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

#[test]
fn a_rate_that_cannot_be_kept_is_refused() -> Result<()> {
    let bed = Bed::new()?;
    let (from, to) = (bed.url("a"), bed.url("b"));
    let told = bed.cp(&["--bwlimit", "1M", &from, &to])?;
    let remedy = "bytes between two servers do not pass here; add --relay always";
    fails(&told, 2, &[remedy])?;
    let told = bed.cp(&["--bwlimit", "25:00,1M", &from, "b"])?;
    fails(&told, 2, &["25:00: write hours and minutes"])
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

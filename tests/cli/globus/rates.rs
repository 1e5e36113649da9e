//! The lines of `-vb`, beside those of the real program.

use std::fs;

use anyhow::{Result, bail, ensure};
use workspace_tests::{Break, Relay, file_url};

use super::{globus, real};
use crate::Bed;

/// Bytes of a file.
const SIZE: u64 = 6_000_000;
/// Bytes a second of a data connection.
const RATE: u64 = 3_000_000;

/// The output with a word for all lines of a file, each of which has the columns of the real program,
/// and no more bytes than the file.
fn shape(told: &str) -> Result<String> {
    let mut shape = String::new();
    for piece in told.split_inclusive('\r') {
        let at = piece.rfind('\n').map_or(0, |at| at + 1);
        let (before, line) = piece.split_at(at);
        shape.push_str(before);
        let Some(line) = line.strip_suffix('\r') else {
            shape.push_str(line);
            continue;
        };
        let words: Vec<_> = line.split_whitespace().collect();
        let &[bytes, "bytes", mean, "MB/sec", "avg", now, "MB/sec", "inst"] = words.as_slice()
        else {
            bail!("other words: {line:?}");
        };
        let (bytes, mean, now): (u64, f64, f64) = (bytes.parse()?, mean.parse()?, now.parse()?);
        let columns = format!(" {bytes:>12} bytes {mean:>12.2} MB/sec avg {now:>12.2} MB/sec inst");
        ensure!(line == columns && bytes <= SIZE, "{line:?}");
        if !shape.ends_with("rates\r") {
            shape.push_str("rates\r");
        }
    }
    Ok(shape)
}

#[test]
fn rates_are_those_of_each_file() -> Result<()> {
    let bed = Bed::new()?;
    // Each takes two seconds.
    let relay = Relay::paced(bed.server.addr(), Break::Never, RATE)?;
    let mut pairs = String::new();
    for (name, copy) in [("a", "x"), ("b", "y")] {
        bed.there.file(name, SIZE, 3)?;
        let from = bed.server.url_at(relay.addr(), name);
        let to = file_url(&bed.here.path(copy));
        pairs.push_str(&format!("{from} {to}\n"));
    }
    fs::write(bed.here.path("pairs"), pairs)?;
    // The real program has one connection anyway.
    let ours = globus(&bed.here, &["-vb", "-p", "1", "-f", "pairs"])?.ok()?;
    let told = shape(&ours.stdout)?;
    ensure!(told.matches("rates\r").count() == 2, "{}", ours.report());
    ensure!(told.ends_with("\n\nrates\r\n"), "{}", ours.report());
    let Some(theirs) = real(&bed.here, &["-vb", "-f", "pairs"])? else {
        return Ok(());
    };
    let theirs = theirs.ok()?;
    ensure!(
        told == shape(&theirs.stdout)?,
        "{}\n{}",
        ours.report(),
        theirs.report()
    );
    Ok(())
}

//! Receipts of copies: signed, checked, and found false.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use workspace_tests::{Finished, GridLab, binary, run};

use crate::{Bed, LIMIT, command, fails};

/// A copy of two files with a receipt, by a person with a proxy.
struct Signed {
    bed: Bed,
    grid: GridLab,
}

impl Signed {
    fn new() -> Result<Self> {
        let (bed, grid) = (Bed::new()?, GridLab::new()?);
        bed.here.file("dir/a", 70_001, 3)?;
        bed.here.file("dir/b", 5, 4)?;
        let signed = Self { bed, grid };
        signed.copy()?.ok()?;
        Ok(signed)
    }

    fn copy(&self) -> Result<Finished> {
        let to = self.bed.url("copy/");
        let args = ["-r", "--receipt", "receipts", "dir/", &to];
        let mut copy = command(&self.bed.here, &args)?;
        run(self.grid.login(&mut copy), LIMIT)
    }

    fn check(&self, more: &[&str]) -> Result<Finished> {
        let mut check = Command::new(binary("gridftp")?);
        check
            .current_dir(self.bed.here.root())
            .args(["check-receipt"]);
        check.args(more).arg("receipts");
        run(self.grid.login(&mut check), LIMIT)
    }

    fn lines(&self) -> Result<Vec<Value>> {
        let text = fs::read_to_string(self.bed.here.path("receipts"))?;
        let lines = text.lines().map(serde_json::from_str);
        Ok(lines.collect::<Result<_, _>>()?)
    }

    /// Changes the text of the receipts.
    fn change(&self, change: impl FnOnce(String) -> String) -> Result<()> {
        let path = self.bed.here.path("receipts");
        let text = fs::read_to_string(&path)?;
        Ok(fs::write(path, change(text))?)
    }
}

#[test]
fn a_receipt_tells_and_proves_each_file() -> Result<()> {
    let signed = Signed::new()?;
    let lines = signed.lines()?;
    let [_run, one, other, signature] = lines.as_slice() else {
        anyhow::bail!("{lines:?}")
    };
    let large = if one["bytes"] == 5 { other } else { one };
    ensure!(
        large["bytes"] == 70_001 && large["route"] == "upload",
        "{large}"
    );
    ensure!(
        large["verified"] == "digest" && large["retries"] == 0,
        "{large}"
    );
    ensure!(large["checksum"]["algorithm"] == "BLAKE3", "{large}");
    let source = large["source"].as_str().context("no source")?;
    ensure!(source.ends_with("dir/a"), "{large}");
    ensure!(large["servers"][0]["data"] == "clear", "{large}");
    ensure!(
        large["ended"].as_f64() >= large["started"].as_f64(),
        "{large}"
    );
    ensure!(signature["files"] == 2, "{signature}");
    let said = signed.check(&["--compare"])?.ok()?;
    let identity = signed.grid.identity();
    ensure!(
        said.stdout.starts_with("2 files, 68.37 KiB, signed by ")
            && said.stdout.contains(&identity),
        "{}",
        said.report()
    );
    // Another run goes on in the same file.
    signed.copy()?.ok()?;
    let said = signed.check(&[])?.ok()?;
    ensure!(said.stdout.lines().count() == 2, "{}", said.report());
    Ok(())
}

#[test]
fn a_signature_that_is_no_such_is_told() -> Result<()> {
    let no_chain = |text: String| {
        let start = text.rfind("\"certificates\":[").unwrap_or(0) + "\"certificates\":[".len();
        let end = text[start..].find(']').unwrap_or(0) + start;
        [&text[..start], &text[end..]].concat()
    };
    let no_base64 = |text: String| text.replace("\"signature\":\"", "\"signature\":\"!");
    let cases: [(&str, &dyn Fn(String) -> String); 2] = [
        ("a chain of 0 certificates", &no_chain),
        ("no Base64", &no_base64),
    ];
    for (told, change) in cases {
        let signed = Signed::new()?;
        signed.change(change)?;
        fails(&signed.check(&[])?, 5, &[told])?;
    }
    Ok(())
}

#[test]
fn a_false_receipt_is_found() -> Result<()> {
    let taken_out = |text: String| {
        let lines = text.split_inclusive('\n').enumerate();
        lines
            .filter(|(at, _)| *at != 1)
            .map(|(_, line)| line)
            .collect()
    };
    let moved = |text: String| {
        let mut lines: Vec<_> = text.split_inclusive('\n').collect();
        lines.swap(1, 2);
        lines.concat()
    };
    let changed = |text: String| text.replacen("70001", "70002", 1);
    let later = |text: String| {
        let at = text.rfind("\"time\":").unwrap_or(0) + "\"time\":".len();
        let digit = text[at..].chars().nth(9).unwrap_or('0');
        let other = if digit == '0' { "1" } else { "0" };
        [&text[..at + 9], other, &text[at + 10..]].concat()
    };
    let cases: [(&str, &dyn Fn(String) -> String); 4] = [
        ("taken out", &taken_out),
        ("moved", &moved),
        ("changed", &changed),
        ("later", &later),
    ];
    for (what, change) in cases {
        let signed = Signed::new()?;
        signed.change(change)?;
        let said = signed.check(&[])?;
        fails(
            &said,
            5,
            &["the receipts before it are not those that", "has signed"],
        )
        .context(what)?;
        ensure!(said.stdout.is_empty(), "{what}: {}", said.report());
    }
    Ok(())
}

#[test]
fn receipts_need_a_signature_of_a_trusted_person() -> Result<()> {
    let signed = Signed::new()?;
    let mut check = Command::new(binary("gridftp")?);
    check.current_dir(signed.bed.here.root());
    check.args(["check-receipt", "receipts"]);
    // A directory without authorities.
    check.env("X509_CERT_DIR", signed.bed.there.root());
    fails(
        &run(&mut check, LIMIT)?,
        2,
        &["there is no authority in it"],
    )?;
    // The last run has signed nothing.
    signed.change(|text| {
        let receipts = text.lines().filter(|line| line.contains("\"file\""));
        receipts.map(|line| format!("{line}\n")).collect()
    })?;
    fails(
        &signed.check(&[])?,
        5,
        &["the last 2 receipts of a run are not signed"],
    )?;
    signed.check(&["--unsigned"])?.ok()?;
    signed.change(|text| text + "{}\n")?;
    fails(
        &signed.check(&["--unsigned"])?,
        5,
        &["line 3: is no receipt"],
    )
}

#[test]
fn a_file_that_is_not_as_its_receipt_is_found() -> Result<()> {
    let signed = Signed::new()?;
    signed.bed.there.file("copy/b", 5, 9)?;
    let said = signed.check(&["--compare"])?;
    fails(&said, 5, &["copy/b: BLAKE3 is", "and its receipt has"])?;
    fs::remove_file(signed.bed.there.path("copy/b"))?;
    fails(&signed.check(&["--compare"])?, 1, &["copy/b"])
}

#[test]
fn a_torn_line_is_told_and_hides_no_others() -> Result<()> {
    let signed = Signed::new()?;
    signed.change(|text| text + "{\"receipt\":\"fi")?;
    signed.copy()?.ok()?;
    let said = signed.check(&["--compare"])?;
    fails(&said, 5, &["line 5: "])?;
    ensure!(said.stdout.lines().count() == 2, "{}", said.report());
    Ok(())
}

#[test]
fn a_receipt_of_a_part_is_not_compared_with_the_file() -> Result<()> {
    let signed = Signed::new()?;
    let to = signed.bed.url("copy/a");
    let args = [
        "--offset",
        "1000",
        "--length",
        "50",
        "--receipt",
        "receipts",
        "dir/a",
        &to,
    ];
    let mut copy = command(&signed.bed.here, &args)?;
    run(signed.grid.login(&mut copy), LIMIT)?.ok()?;
    let said = signed.check(&["--compare"])?.ok()?;
    ensure!(
        said.stderr.contains("its receipt is of a part"),
        "{}",
        said.report()
    );
    Ok(())
}

/// A line end and a literal `\n` in a name are told apart, so each file is compared with its own
/// receipt.
#[test]
fn receipts_tell_names_with_backslashes_from_others() -> Result<()> {
    let bed = Bed::new()?;
    for (seed, (from, to)) in (0..).zip([("a", "x\ny"), ("b", "x\\ny"), ("c", "z\\")]) {
        bed.there.file(from, 70_001, seed)?;
        bed.cp(&["--receipt", "receipts", &bed.url(from), to])?
            .ok()?;
    }
    let check = || {
        let mut check = Command::new(binary("gridftp")?);
        check.current_dir(bed.here.root());
        check.args(["check-receipt", "--compare", "--unsigned", "receipts"]);
        run(&mut check, LIMIT)
    };
    check()?.ok()?;
    bed.here.file("x\\ny", 70_001, 9)?;
    fails(&check()?, 5, &["x\\\\ny: BLAKE3 is"])
}

#[test]
fn without_a_credential_receipts_are_not_signed() -> Result<()> {
    let bed = Bed::new()?;
    bed.here.file("a", 5, 4)?;
    let to = bed.url("a");
    let said = bed.cp(&["-v", "--receipt", "receipts", "a", &to])?.ok()?;
    ensure!(
        said.stderr.contains("receipts are not signed"),
        "{}",
        said.report()
    );
    let text = fs::read_to_string(bed.here.path("receipts"))?;
    ensure!(text.lines().count() == 2, "{text}");
    let failed = bed.cp(&["--cred", "none", "--receipt", "receipts", "a", &to])?;
    fails(&failed, 2, &["none"])
}

/// Receipts are kept until their signature is compared.
#[test]
fn receipts_of_more_than_64_mib_before_one_signature_are_not_compared() -> Result<()> {
    let bed = Bed::new()?;
    let name = "n".repeat(1 << 19);
    let line = format!("{{\"receipt\":\"file\",\"destination\":\"{name}\"}}\n");
    fs::write(bed.here.path("receipts"), line.repeat(129))?;
    let mut check = Command::new(binary("gridftp")?);
    check.current_dir(bed.here.root());
    check.args(["check-receipt", "--compare", "receipts"]);
    let needle = "more than 64 MiB of receipts come before one signature: they are not compared";
    fails(&run(&mut check, LIMIT)?, 5, &[needle, "are not signed"])
}

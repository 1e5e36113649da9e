//! `--sparse`, and the storage `posix:sparse=yes`: zeros take no space, and all bytes are the same.

use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use workspace_tests::{Host, Reaction, Tree, same_file};

use crate::{Bed, cp_in, resume};

const SIZE: u64 = 24 << 20;

/// Makes a file that is zeros but for three places, one across the blocks of the sender.
fn write(path: &Path) -> Result<()> {
    let file = std::fs::File::create(path)?;
    file.set_len(SIZE)?;
    for at in [0, (5 << 20) - 3, (17 << 20) + 100] {
        file.write_all_at(&[7; 1000], at)?;
    }
    Ok(())
}

/// Checks that a file takes space for a small part of its bytes only, or for all.
fn is_sparse(path: &Path, sparse: bool) -> Result<()> {
    let meta = std::fs::metadata(path)?;
    let taken = meta.blocks() * 512;
    ensure!(meta.len() == SIZE, "{} bytes", meta.len());
    ensure!((taken < SIZE / 4) == sparse, "{taken} bytes are taken");
    Ok(())
}

#[test]
fn zeros_of_downloads_take_no_space() -> Result<()> {
    let bed = Bed::new()?;
    write(&bed.there.path("file"))?;
    let url = bed.url("file");
    for mode in ["extended", "stream"] {
        for (flags, sparse) in [(&["--sparse"][..], true), (&[], false)] {
            let args = [flags, &["--mode", mode, &url, "copy"]].concat();
            bed.cp(&args)?.ok()?;
            bed.same("copy", "file")?;
            is_sparse(&bed.here.path("copy"), sparse).with_context(|| format!("{args:?}"))?;
        }
    }
    Ok(())
}

#[test]
fn zeros_of_uploads_take_no_space_where_the_storage_leaves_them_out() -> Result<()> {
    let (here, there) = (Tree::new()?, Tree::new()?);
    write(&here.path("file"))?;
    let storage = format!("posix:root={};sparse=yes", there.root().display());
    let server = Host::ours_with(there.root(), &["--storage", &storage])?;
    for mode in ["extended", "stream"] {
        let args = ["--mode", mode, "file", &server.url("copy")];
        cp_in(&here, &args)?.ok()?;
        same_file(&here.path("file"), &there.path("copy"))?;
        is_sparse(&there.path("copy"), true).context(mode)?;
    }
    Ok(())
}

#[test]
fn an_upload_warns_once_that_the_option_has_no_effect() -> Result<()> {
    let bed = Bed::new()?;
    let warning = "--sparse is for files written here";
    for name in ["tree/a", "tree/b"] {
        bed.here.file(name, 10, 1)?;
        bed.there.file(name, 10, 1)?;
    }
    for source in ["tree/", "tree/a"] {
        let said = bed.cp(&["-r", "--sparse", source, &bed.url("to/")])?.ok()?;
        ensure!(
            said.stderr.matches(warning).count() == 1,
            "{}",
            said.report()
        );
    }
    let here = bed
        .cp(&["-r", "--sparse", &bed.url("tree/"), "to/"])?
        .ok()?;
    ensure!(!here.stderr.contains(warning), "{}", here.report());
    Ok(())
}

#[test]
fn a_sparse_partial_file_goes_on() -> Result<()> {
    let here = Tree::new()?;
    write(&here.path("source"))?;
    let bytes = std::fs::read(here.path("source"))?;
    // In the middle of zeros.
    let until = (9 << 20) + 5;
    let broken = Reaction::say("426 broken");
    let server = resume::Server::start(bytes, until, broken, resume::DIGESTS)?;
    for (breaks, rest) in [(true, vec![]), (false, vec![format!("REST {until}")])] {
        let said = server.copy(&here, &["-c", "--sparse"])?;
        if breaks {
            said.failed()?;
            server.mend();
        } else {
            said.ok()?;
        }
        ensure!(server.restarts() == rest, "{:?}", server.restarts());
    }
    same_file(&here.path("source"), &here.path("file"))?;
    is_sparse(&here.path("file"), true)
}

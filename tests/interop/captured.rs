//! Flags of `globus-url-copy` beyond the matrix, with checks of the exchanged lines.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use workspace_tests::{Finished, Host, run, same_file, sha256, sha256_range, tree_digests};

use crate::bed::{Client, End, LIMIT, Way};

/// Runs `globus-url-copy -dbg` between two ends.
fn converse(
    flags: &[&str],
    env: &[(&str, &str)],
    from: (&End, &str),
    to: (&End, &str),
) -> Result<Option<Finished>> {
    let Some(mut command) = Client::Guc.command()? else {
        return Ok(None);
    };
    command
        .arg("-dbg")
        .args(flags)
        .envs(env.iter().copied())
        .args([from.0.url(from.1), to.0.url(to.1)]);
    let output = || {
        format!(
            "output of the source:\n{}output of the destination:\n{}",
            from.0.output(),
            to.0.output()
        )
    };
    run(&mut command, LIMIT).with_context(output).map(Some)
}

/// Checks that lines with these beginnings were sent or received.
fn exchanged(finished: &Finished, beginnings: &[&str]) -> Result<()> {
    for beginning in beginnings {
        let mut lines = finished.stderr.lines().chain(finished.stdout.lines());
        ensure!(
            lines.any(|line| line.starts_with(beginning)),
            "no line {beginning:?}: {}",
            finished.report()
        );
    }
    Ok(())
}

/// Copies one file with `flags`, and checks the exchanged lines and the copy.
fn says(way: Way, flags: &[&str], env: &[(&str, &str)], lines: &[&str]) -> Result<()> {
    let Some((from, to)) = Client::Guc.ends(way)? else {
        return Ok(());
    };
    from.tree.file("file", 1_000_003, 11)?;
    if let Some(finished) = converse(flags, env, (&from, "file"), (&to, "file"))? {
        exchanged(&finished.ok()?, lines)?;
        same_file(&from.path("file"), &to.path("file"))?;
    }
    Ok(())
}

macro_rules! conversations {
    ($($name:ident: $way:ident $flags:expr, $env:expr, $lines:expr;)*) => {
        $(
            #[test]
            fn $name() -> Result<()> {
                says(Way::$way, &$flags, &$env, &$lines)
            }
        )*
    };
}

conversations! {
    put_announces_its_size: Put [], [], ["PASV", "ALLO 1000003", "STOR /file", "150 ", "226 "];
    put_in_mode_e_gets_markers: Put ["-p", "4"], [], ["MODE E", "112-Perf Marker", "111 Range Marker 0-1000003"];
    get_in_mode_e_is_active: Get ["-p", "4"], [], ["OPTS RETR Parallelism=4,4,4;", "PORT ", "RETR /file"];
    third_party_queries_the_size: ToOurs ["-p", "4"], [], ["SIZE ", "ALLO 1000003", "111 Range Marker"];
    third_party_from_ours_queries_the_size: FromOurs ["-p", "4"], [], ["SIZE /file", "213 1000003"];
    stripes_put: Put ["-stripe", "-p", "2"], [], ["SPAS", "229"];
    stripes_get: Get ["-stripe", "-p", "2"], [], ["RETR /file"];
    stripes_of_a_size: Get ["-stripe", "-sbs", "65536", "-p", "2"], [], ["OPTS RETR StripeLayout=Blocked;BlockSize=65536;"];
    stripes_third_party: FromOurs ["-stripe", "-p", "2"], [], ["SPAS"];
    stripes_third_party_to_ours: ToOurs ["-stripe", "-p", "2"], [], ["SPAS"];
    buffers_put: Put ["-tcp-bs", "65536"], [], ["SITE STORBUFSIZE 65536"];
    buffers_get: Get ["-tcp-bs", "65536", "-p", "2"], [], ["SITE RETRBUFSIZE 65536"];
    active_stream_get: Get [], [("GLOBUS_FTP_CLIENT_NO_SERVER_PASV", "1")], ["PORT ", "RETR /file"];
    passive_source: FromOurs [], [("GLOBUS_FTP_CLIENT_SOURCE_PASV", "1")], ["RETR /file"];
    passive_source_to_ours: ToOurs [], [("GLOBUS_FTP_CLIENT_SOURCE_PASV", "1")], ["STOR /file"];
    delayed_passive: ToOurs ["-dp", "-p", "2"], [], ["OPTS PASV AllowDelayed=1;", "127 "];
    no_authentication_of_data: Put ["-nodcau"], [], ["STOR /file"];
    no_getput: Get ["-no-g2"], [], ["RETR /file"];
    checksum_md5_put: Put ["-verify-checksum"], [], ["CKSM MD5 0 -1 /file"];
    checksum_sha1_get: Get ["-verify-checksum", "-checksum-alg", "SHA1"], [], ["CKSM SHA1 0 -1 /file"];
    checksum_sha256_third: ToOurs ["-verify-checksum", "-checksum-alg", "SHA256"], [], ["CKSM SHA256 0 -1 /file"];
    checksum_sha512_third: FromOurs ["-verify-checksum", "-checksum-alg", "SHA512"], [], ["CKSM SHA512 0 -1 /file"];
    checksum_adler32_third: FromOurs ["-verify-checksum", "-checksum-alg", "ADLER32"], [], ["CKSM ADLER32 0 -1 /file"];
}

/// The client requests the rest of a file by REST.
#[test]
fn get_from_an_offset() -> Result<()> {
    for (flags, line) in [
        (&["-off", "300000"][..], "REST 300000"),
        (&["-p", "2", "-off", "300000"], "REST 0-300000"),
    ] {
        let (from, to) = (End::ours()?, End::local()?);
        from.tree.file("file", 1_000_003, 12)?;
        let Some(finished) = converse(flags, &[], (&from, "file"), (&to, "file"))? else {
            return Ok(());
        };
        exchanged(&finished.ok()?, &[line])?;
        let (want, got) = (from.path("file"), to.path("file"));
        ensure!(
            sha256_range(&want, 300_000, u64::MAX)? == sha256_range(&got, 300_000, u64::MAX)?,
            "the rest differs"
        );
    }
    Ok(())
}

/// Parts are transferred by ERET and ESTO.
#[test]
fn parts_use_their_verbs() -> Result<()> {
    for (way, line) in [
        (Way::Get, "ERET P 1000 5000 /file"),
        (Way::Put, "ESTO A 1000 /file"),
        (Way::FromOurs, "ERET P 1000 5000 /file"),
        (Way::ToOurs, "ESTO A 1000 /file"),
    ] {
        let Some((from, to)) = Client::Guc.ends(way)? else {
            return Ok(());
        };
        from.tree.file("file", 1_000_003, 13)?;
        let flags = ["-off", "1000", "-len", "5000"];
        let Some(finished) = converse(&flags, &[], (&from, "file"), (&to, "file"))? else {
            return Ok(());
        };
        exchanged(&finished.ok()?, &[line])?;
        let (want, got) = (from.path("file"), to.path("file"));
        ensure!(
            sha256_range(&want, 1000, 5000)? == sha256_range(&got, 1000, u64::MAX)?,
            "{way:?}: the part differs"
        );
    }
    Ok(())
}

/// After a failed STOR both servers accept another copy.
#[test]
fn third_party_succeeds_after_a_failed_stor() -> Result<()> {
    for way in [Way::ToOurs, Way::FromOurs] {
        let Some((from, to)) = Client::Guc.ends(way)? else {
            return Ok(());
        };
        from.tree.file("file", 1_000_003, 14)?;
        let Some(finished) = converse(&["-p", "2"], &[], (&from, "file"), (&to, "nowhere/file"))?
        else {
            return Ok(());
        };
        finished.failed()?;
        if let Some(finished) = converse(&["-p", "2"], &[], (&from, "file"), (&to, "file"))? {
            finished.ok()?;
        }
        ensure!(
            sha256(&from.path("file"))? == sha256(&to.path("file"))?,
            "{way:?}: the copy differs"
        );
    }
    Ok(())
}

/// Over IPv6 the extended verbs carry the addresses.
#[test]
fn extended_verbs_over_ipv6() -> Result<()> {
    for (get, flags, lines) in [
        (true, &["-ipv6"][..], &["EPSV", "229 "][..]),
        (false, &["-ipv6"], &["EPSV", "229 "]),
        (true, &["-ipv6", "-p", "2"], &["EPRT |2|::1|", "200 "]),
        (false, &["-ipv6", "-p", "2"], &["EPSV", "229 "]),
    ] {
        let (near, mut far) = (End::local()?, End::local()?);
        far.host = Some(Host::ours_over_ipv6(far.tree.root())?);
        let (from, to) = if get { (&far, &near) } else { (&near, &far) };
        from.tree.file("file", 1_000_003, 21)?;
        let Some(finished) = converse(flags, &[], (from, "file"), (to, "file"))? else {
            return Ok(());
        };
        exchanged(&finished.ok()?, lines)?;
        ensure!(
            sha256(&from.path("file"))? == sha256(&to.path("file"))?,
            "{flags:?}: the copy differs"
        );
    }
    Ok(())
}

/// With `-fast` one data connection serves every file, so later files are announced by 125.
#[test]
fn fast_reuses_the_data_connection() -> Result<()> {
    for way in [Way::Get, Way::Put] {
        let Some((from, to)) = Client::Guc.ends(way)? else {
            return Ok(());
        };
        for n in 0..5 {
            from.tree.file(&format!("tree/{n}"), 1000 + n, n)?;
        }
        let flags = ["-fast", "-r", "-cd"];
        let Some(finished) = converse(&flags, &[], (&from, "tree/"), (&to, "copy/"))? else {
            return Ok(());
        };
        exchanged(&finished.ok()?, &["125 "])?;
        ensure!(
            tree_digests(&from.path("tree"))? == tree_digests(&to.path("copy"))?,
            "{way:?}: trees differ"
        );
    }
    Ok(())
}

/// Listings and wildcards are answered by MLSD.
#[test]
fn listing_and_wildcards() -> Result<()> {
    let (server, local) = (End::ours()?, End::local()?);
    for name in ["folder/one.dat", "folder/two.dat", "folder/three.txt"] {
        server.tree.file(name, 100, 15)?;
    }
    let Some(mut command) = Client::Guc.command()? else {
        return Ok(());
    };
    let listed = run(command.args(["-list", &server.url("folder/")]), LIMIT)?.ok()?;
    exchanged(&listed, &["    one.dat", "    two.dat", "    three.txt"])?;
    local.tree.dir("to")?;
    let pattern = server.url("folder/") + "*.dat";
    let Some(mut command) = Client::Guc.command()? else {
        return Ok(());
    };
    run(command.args([pattern, local.url("to/")]), LIMIT)?.ok()?;
    ensure!(
        local.tree.names("to")? == ["one.dat", "two.dat"],
        "{:?}",
        local.tree.names("to")?
    );
    Ok(())
}

/// Every level of `-sync` copies changed files only.
#[test]
fn sync_copies_changed_files() -> Result<()> {
    for level in ["0", "1", "2", "3"] {
        let (from, to) = (End::local()?, End::ours()?);
        from.tree.file("tree/a", 100, 16)?;
        from.tree.file("tree/b", 200, 17)?;
        let sync = |expected: &[&str]| -> Result<()> {
            let Some(mut command) = Client::Guc.command()? else {
                return Ok(());
            };
            command.args([
                "-v",
                "-r",
                "-cd",
                "-sync",
                "-sync-level",
                level,
                &from.url("tree/"),
                &to.url("copy/"),
            ]);
            let finished = run(&mut command, LIMIT)?.ok()?;
            let copied: Vec<&str> = finished
                .stdout
                .lines()
                .filter_map(|line| line.strip_prefix("  "))
                .collect();
            let mut copied: Vec<&str> = copied
                .into_iter()
                .map(str::trim)
                .filter(|name| !name.is_empty())
                .collect();
            copied.sort_unstable();
            ensure!(
                copied == expected,
                "level {level}: copied {copied:?}: {}",
                finished.report()
            );
            Ok(())
        };
        sync(&["a", "b"])?;
        sync(&[])?;
        from.tree.file("tree/c", 300, 18)?;
        sync(&["c"])?;
        ensure!(
            tree_digests(&from.path("tree"))? == tree_digests(&to.path("copy"))?,
            "level {level}: trees differ"
        );
    }
    Ok(())
}

/// The client names a module by ESTO.
#[test]
fn an_unknown_module_is_refused() -> Result<()> {
    let (from, to) = (End::local()?, End::ours()?);
    from.tree.file("file", 1000, 19)?;
    let Some(finished) = converse(
        &["-mn", "foo", "-mp", "bar"],
        &[],
        (&from, "file"),
        (&to, "file"),
    )?
    else {
        return Ok(());
    };
    exchanged(&finished.failed()?, &["ESTO foo=\"bar\" /file"])?;
    ensure!(
        !to.path("file").exists(),
        "a refused command created a file"
    );
    Ok(())
}

/// The client forwards the data between two servers.
#[test]
fn without_third_party() -> Result<()> {
    says(Way::ToOurs, &["-notpt"], &[], &["RETR ", "STOR /file"])
}

#[test]
fn ten_clients_at_once() -> Result<()> {
    let (server, local) = (End::ours()?, End::local()?);
    server.tree.file("file", 2_000_003, 20)?;
    let Some(_) = Client::Guc.command()? else {
        return Ok(());
    };
    let results: Vec<Result<()>> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..10)
            .map(|n| {
                let (from, to) = (server.url("file"), local.url(&format!("{n}")));
                scope.spawn(move || {
                    let mut command: Command =
                        Client::Guc.command()?.context("was there before")?;
                    run(command.args(["-p", "2", &from, &to]), LIMIT)?
                        .ok()
                        .map(drop)
                })
            })
            .collect();
        clients
            .into_iter()
            .map(|client| client.join().expect("no client thread panics"))
            .collect()
    });
    results.into_iter().collect::<Result<()>>()?;
    let want = sha256(&server.path("file"))?;
    for n in 0..10 {
        ensure!(
            sha256(&local.path(&n.to_string()))? == want,
            "copy {n} differs"
        );
    }
    ensure!(
        fs::read_dir(local.tree.root())?.count() == 10,
        "more than ten files"
    );
    Ok(())
}

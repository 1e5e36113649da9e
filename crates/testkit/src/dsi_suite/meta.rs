//! Metadata: times, modes, links, lengths and checksums.

use bytes::Bytes;
use gridftp_dsi::{ChecksumAlgorithm, Dsi, DsiPath, ErrorKind, Finish, Kind, Meta, Progress, Sink};

use super::{Bench, Outcome, refused};

pub(super) async fn times_are_kept_to_the_nanosecond<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    let grain = bench.dsi.capabilities().time_grain;
    let kept = |(seconds, nanos): (i64, u32)| (seconds, nanos - nanos % grain);
    for time in [
        (1_700_000_000, 123_456_789),
        (0, 0),
        (-1, 999_999_999),
        (4_300_000_000, 1),
    ] {
        let sink = bench.whole("file").await?;
        sink.write_at(0, Bytes::from_static(b"x")).await?;
        let stat = sink
            .finish(Finish::whole(1).with_modified(time.0, time.1))
            .await?;
        assert_eq!(stat.modified, kept(time));
        assert_eq!(bench.stat("file").await?.modified, kept(time));
    }
    let meta = Meta::new().with_modified(86_400, 42);
    bench
        .dsi
        .set_meta(&bench.user, &bench.at("file"), meta)
        .await?;
    assert_eq!(bench.stat("file").await?.modified, kept((86_400, 42)));
    bench
        .dsi
        .set_meta(&bench.user, &bench.at("file"), Meta::new())
        .await?;
    assert_eq!(bench.stat("file").await?.modified, kept((86_400, 42)));
    let absent = bench
        .dsi
        .set_meta(&bench.user, &bench.at("absent"), Meta::new())
        .await;
    refused(absent, &[ErrorKind::NotFound]);
    Ok(())
}

pub(super) async fn files_are_truncated_but_not_extended<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    bench.put("file", b"0123456789").await?;
    let cut = |length| bench.dsi.truncate(&bench.user, &bench.dir, length);
    refused(cut(0).await, &[ErrorKind::IsDirectory]);
    let path = bench.at("file");
    bench.dsi.truncate(&bench.user, &path, 4).await?;
    assert_eq!(bench.get("file").await?, b"0123");
    refused(
        bench.dsi.truncate(&bench.user, &path, 5).await,
        &[ErrorKind::TooLarge],
    );
    refused(
        bench.dsi.truncate(&bench.user, &path, u64::MAX).await,
        &[ErrorKind::TooLarge],
    );
    assert_eq!(bench.get("file").await?, b"0123");
    Ok(())
}

pub(super) async fn free_space_is_that_of_an_object<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    bench.put("file", b"x").await?;
    for path in [&bench.dir, &bench.at("file")] {
        let free = bench.dsi.free_space(&bench.user, path).await?;
        assert!(free > 0, "{path}");
    }
    let absent = bench.dsi.free_space(&bench.user, &bench.at("absent")).await;
    refused(absent, &[ErrorKind::NotFound]);
    Ok(())
}

pub(super) async fn attributes_are_kept<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    let (dsi, user, path) = (bench.dsi, &bench.user, bench.at("file"));
    bench.put("file", b"x").await?;
    assert_eq!(dsi.attributes(user, &path).await?, []);
    let of = |name: &str, value: &[u8]| (name.as_bytes().to_vec(), value.to_vec());
    for value in [&b"first"[..], b"\0\xff"] {
        match dsi.set_attribute(user, &path, of("user.one", value)).await {
            // The file system of the test has none.
            Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(()),
            done => done?,
        }
    }
    dsi.set_attribute(user, &path, of("user.two", b"")).await?;
    let mut all = dsi.attributes(user, &path).await?;
    all.sort();
    assert_eq!(all, [of("user.one", b"\0\xff"), of("user.two", b"")]);
    let trusted = dsi.set_attribute(user, &path, of("trusted.one", b"")).await;
    refused(trusted, &[ErrorKind::Denied]);
    let dir = bench.at("dir");
    dsi.make_dir(user, &dir).await?;
    let three = of("user.three", b"of a directory");
    dsi.set_attribute(user, &dir, three.clone()).await?;
    assert_eq!(dsi.attributes(user, &dir).await?, [three]);
    let absent = dsi.attributes(user, &bench.at("absent")).await;
    refused(absent, &[ErrorKind::NotFound]);
    let mut reader = user.clone();
    reader.may_write = false;
    let set = dsi.set_attribute(&reader, &path, of("user.one", b"")).await;
    refused(set, &[ErrorKind::Denied]);
    Ok(())
}

pub(super) async fn modes_are_kept<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    let (dsi, user, path) = (bench.dsi, &bench.user, bench.at("file"));
    bench.put("file", b"old").await?;
    dsi.set_meta(user, &path, Meta::new().with_mode(0o640))
        .await?;
    assert_eq!(bench.stat("file").await?.mode, 0o640);
    // A new file takes over the mode of the one it replaces.
    bench.put("file", b"new").await?;
    assert_eq!(bench.stat("file").await?.mode, 0o640);
    let sink = bench.whole("file").await?;
    sink.finish(Finish::whole(0).with_mode(0o600)).await?;
    assert_eq!(bench.stat("file").await?.mode, 0o600);
    let group = bench.stat("file").await?.gid;
    dsi.set_meta(user, &path, Meta::new().with_group(group.to_string()))
        .await?;
    let unknown = Meta::new().with_group("no such group, surely");
    refused(
        dsi.set_meta(user, &path, unknown).await,
        &[ErrorKind::BadName],
    );
    Ok(())
}

pub(super) async fn links_stay_inside_the_tree<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    let (dsi, user) = (bench.dsi, &bench.user);
    dsi.make_dir(user, &bench.at("dir")).await?;
    bench.put("dir/file", b"reached").await?;
    dsi.symlink(user, b"dir/file", &bench.at("relative"))
        .await?;
    dsi.symlink(
        user,
        bench.at("dir/file").as_bytes(),
        &bench.at("dir/absolute"),
    )
    .await?;
    dsi.symlink(user, b"dir", &bench.at("to-dir")).await?;
    dsi.symlink(user, b"nowhere", &bench.at("dangling")).await?;
    for name in ["relative", "dir/absolute", "to-dir/file"] {
        assert_eq!(bench.get(name).await?, b"reached", "{name}");
    }
    let stat = bench.stat("relative").await?;
    assert_eq!((stat.kind, stat.size), (Kind::File, 7));
    assert_eq!(stat.target.as_deref(), Some(b"dir/file".as_slice()));
    assert_eq!(bench.stat("dangling").await?.kind, Kind::Link);
    refused(bench.source("dangling").await, &[ErrorKind::NotFound]);
    // Writing through a link keeps the link.
    bench.put("relative", b"written").await?;
    assert_eq!(bench.get("dir/file").await?, b"written");
    assert!(bench.stat("relative").await?.target.is_some());
    refused(
        dsi.symlink(user, b"../../outside", &bench.at("bad")).await,
        &[ErrorKind::Outside],
    );
    refused(
        dsi.symlink(user, b"dir", &bench.at("relative")).await,
        &[ErrorKind::Exists],
    );
    dsi.remove_tree(user, &bench.at("to-dir")).await?;
    assert_eq!(bench.get("dir/file").await?, b"written");
    dsi.symlink(user, b"/", &bench.at("root")).await?;
    let around = DsiPath::new(&[bench.dir.as_bytes(), b"/root", bench.dir.as_bytes()].concat());
    assert!(
        dsi.stat(user, &around.ok_or("a path was refused")?)
            .await?
            .is_dir()
    );
    Ok(())
}

pub(super) async fn checksums_are_right<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    let known = [
        (ChecksumAlgorithm::Md5, "25f9e794323b453885f5181f1b624d0b"),
        (ChecksumAlgorithm::Adler32, "091e01de"),
        (ChecksumAlgorithm::Crc32c, "e3069283"),
        (
            ChecksumAlgorithm::Sha1,
            "f7c3bc1d808e04732adf679965ccc34ca7ae3441",
        ),
        (
            ChecksumAlgorithm::Sha256,
            "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225",
        ),
    ];
    bench.put("file", b"xx123456789yy").await?;
    let costs = bench.dsi.capabilities().checksums;
    assert!(costs.is_sorted_by_key(|(_, cost)| *cost));
    for (algorithm, digest) in known {
        if !costs.iter().any(|(offered, _)| *offered == algorithm) {
            continue;
        }
        let progress = Progress::new();
        let sum = |offset, length| {
            bench.dsi.checksum(
                &bench.user,
                &bench.dir,
                algorithm,
                offset,
                length,
                &progress,
            )
        };
        refused(sum(0, None).await, &[ErrorKind::IsDirectory]);
        let (path, user) = (bench.at("file"), &bench.user);
        let middle = bench
            .dsi
            .checksum(user, &path, algorithm, 2, Some(9), &progress)
            .await?;
        assert_eq!(middle, digest);
        assert_eq!(progress.get(), 9);
        // A range past the end is empty and no error.
        let beyond = bench
            .dsi
            .checksum(user, &path, algorithm, 99, Some(9), &progress)
            .await?;
        bench.put("empty", b"").await?;
        let empty = bench
            .dsi
            .checksum(user, &bench.at("empty"), algorithm, 0, None, &progress)
            .await?;
        assert_eq!(beyond, empty);
    }
    Ok(())
}

pub(super) async fn a_wrong_digest_is_not_published<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    let Some((algorithm, _)) = bench.dsi.capabilities().checksums.first().copied() else {
        return Ok(());
    };
    bench.put("model", b"content").await?;
    let path = bench.at("model");
    let digest = bench
        .dsi
        .checksum(&bench.user, &path, algorithm, 0, None, &Progress::new())
        .await?;
    let sink = bench.whole("file").await?;
    sink.write_at(0, Bytes::from_static(b"c0ntent")).await?;
    let done = Finish::whole(7).with_checksum(algorithm, digest.as_str());
    refused(sink.finish(done.clone()).await, &[ErrorKind::Mismatch]);
    refused(bench.stat("file").await, &[ErrorKind::NotFound]);
    if bench.dsi.capabilities().resume {
        assert!(
            bench.resume("file").await?.held().is_empty(),
            "wrong bytes are kept"
        );
    }
    let sink = bench.whole("file").await?;
    sink.write_at(0, Bytes::from_static(b"content")).await?;
    sink.finish(Finish::whole(7).with_checksum(algorithm, digest.to_uppercase()))
        .await?;
    assert_eq!(bench.get("file").await?, b"content");
    drop(done);
    Ok(())
}

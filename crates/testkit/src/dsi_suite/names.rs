//! Names: creation, listing, renaming and removal.

use bytes::Bytes;
use gridftp_dsi::{Create, Dsi, DsiPath, ErrorKind, Listing, Sink};

use super::{Bench, Outcome, ranges, refused};

pub(super) async fn directories_are_made_and_removed<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    let (dsi, user) = (bench.dsi, &bench.user);
    dsi.make_dir(user, &bench.at("a")).await?;
    dsi.make_dir(user, &bench.at("a/b")).await?;
    assert!(bench.stat("a/b").await?.is_dir());
    refused(
        dsi.make_dir(user, &bench.at("a")).await,
        &[ErrorKind::Exists],
    );
    refused(
        dsi.make_dir(user, &DsiPath::root()).await,
        &[ErrorKind::Exists],
    );
    refused(
        dsi.make_dir(user, &bench.at("x/y")).await,
        &[ErrorKind::NotFound],
    );
    refused(
        dsi.remove_dir(user, &bench.at("a")).await,
        &[ErrorKind::NotEmpty],
    );
    refused(
        dsi.remove_dir(user, &bench.at("x")).await,
        &[ErrorKind::NotFound],
    );
    refused(
        dsi.remove_dir(user, &DsiPath::root()).await,
        &[ErrorKind::Denied],
    );
    dsi.remove_dir(user, &bench.at("a/b")).await?;
    dsi.remove_dir(user, &bench.at("a")).await?;
    refused(bench.stat("a").await, &[ErrorKind::NotFound]);
    // A hidden partial file does not prevent the removal of its directory.
    dsi.make_dir(user, &bench.at("left")).await?;
    let sink = bench
        .sink("left/file", Create::Whole { size: Some(1) })
        .await?;
    sink.write_at(0, Bytes::from_static(b"x")).await?;
    sink.checkpoint(&ranges(&[(0, 1)]), false).await?;
    drop(sink);
    dsi.remove_dir(user, &bench.at("left")).await?;
    Ok(())
}

pub(super) async fn files_are_removed<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    let (dsi, user) = (bench.dsi, &bench.user);
    bench.put("file", b"x").await?;
    dsi.remove(user, &bench.at("file")).await?;
    refused(bench.get("file").await, &[ErrorKind::NotFound]);
    refused(
        dsi.remove(user, &bench.at("file")).await,
        &[ErrorKind::NotFound],
    );
    dsi.make_dir(user, &bench.at("dir")).await?;
    refused(
        dsi.remove(user, &bench.at("dir")).await,
        &[ErrorKind::IsDirectory],
    );
    Ok(())
}

pub(super) async fn renaming_replaces_the_target<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    let (dsi, user) = (bench.dsi, &bench.user);
    bench.put("a", b"a").await?;
    bench.put("b", b"b").await?;
    dsi.rename(user, &bench.at("a"), &bench.at("b")).await?;
    assert_eq!(bench.get("b").await?, b"a");
    refused(bench.stat("a").await, &[ErrorKind::NotFound]);
    dsi.rename(user, &bench.at("b"), &bench.at("b")).await?;
    assert_eq!(bench.get("b").await?, b"a");
    for dir in ["dir", "dir/sub", "empty"] {
        dsi.make_dir(user, &bench.at(dir)).await?;
    }
    bench.put("dir/sub/file", b"deep").await?;
    dsi.rename(user, &bench.at("dir"), &bench.at("empty"))
        .await?;
    assert_eq!(bench.get("empty/sub/file").await?, b"deep");
    refused(
        dsi.rename(user, &bench.at("none"), &bench.at("c")).await,
        &[ErrorKind::NotFound],
    );
    refused(
        dsi.rename(user, &bench.at("b"), &bench.at("none/c")).await,
        &[ErrorKind::NotFound],
    );
    refused(
        dsi.rename(user, &bench.at("b"), &bench.at("empty")).await,
        &[ErrorKind::IsDirectory],
    );
    let into_itself = dsi
        .rename(user, &bench.at("empty"), &bench.at("empty/sub/x"))
        .await;
    refused(into_itself, &[ErrorKind::BadName, ErrorKind::NotFound]);
    refused(
        dsi.rename(user, &DsiPath::root(), &bench.at("r")).await,
        &[ErrorKind::Denied],
    );
    refused(
        dsi.rename(user, &bench.at("b"), &DsiPath::root()).await,
        &[ErrorKind::Denied],
    );
    Ok(())
}

pub(super) async fn trees_are_removed_recursively<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    let (dsi, user) = (bench.dsi, &bench.user);
    for dir in ["t", "t/a", "t/a/b", "t/c"] {
        dsi.make_dir(user, &bench.at(dir)).await?;
        bench.put(&format!("{dir}/file"), b"x").await?;
    }
    bench.put("t-beside", b"stays").await?;
    dsi.remove_tree(user, &bench.at("t")).await?;
    assert_eq!(bench.names("").await?, [b"t-beside"]);
    dsi.remove_tree(user, &bench.at("t-beside")).await?;
    assert!(bench.names("").await?.is_empty());
    refused(
        dsi.remove_tree(user, &bench.at("t")).await,
        &[ErrorKind::NotFound],
    );
    refused(
        dsi.remove_tree(user, &DsiPath::root()).await,
        &[ErrorKind::Denied],
    );
    assert!(dsi.stat(user, &DsiPath::root()).await?.is_dir());
    Ok(())
}

pub(super) async fn listings_are_complete<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    let (dsi, user) = (bench.dsi, &bench.user);
    dsi.make_dir(user, &bench.at("many")).await?;
    let mut expected = Vec::new();
    for number in 0..700 {
        let name = format!("file-{number:04}");
        bench.put(&format!("many/{name}"), name.as_bytes()).await?;
        expected.push(name.into_bytes());
    }
    dsi.make_dir(user, &bench.at("many/sub")).await?;
    bench.put("many/sub/not-listed", b"").await?;
    expected.push(b"sub".to_vec());
    assert!(
        bench.names("many").await? == expected,
        "entries are missing, repeated or unexpected"
    );
    let mut listing = dsi.list(user, &bench.at("many")).await?;
    let first = listing.next().await?;
    assert!(
        (1..=512).contains(&first.len()),
        "a batch of {}",
        first.len()
    );
    assert!(first.iter().all(|stat| stat.is_dir() || stat.size == 9));
    // Entries may be removed during a listing.
    for stat in bench.names("many").await? {
        let path = bench
            .at("many")
            .child(&stat)
            .ok_or("a listed name is no name")?;
        if stat != b"sub" {
            dsi.remove(user, &path).await?;
        }
    }
    while !listing.next().await?.is_empty() {}
    dsi.make_dir(user, &bench.at("none")).await?;
    assert!(bench.names("none").await?.is_empty());
    refused(
        dsi.list(user, &bench.at("absent")).await,
        &[ErrorKind::NotFound],
    );
    refused(
        dsi.list(user, &bench.at("many/sub/not-listed")).await,
        &[ErrorKind::NotDirectory],
    );
    assert_eq!(dsi.stat(user, &DsiPath::root()).await?.name, b"/");
    Ok(())
}

pub(super) async fn wrong_kinds_of_objects_are_errors<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    bench.put("file", b"x").await?;
    bench.dsi.make_dir(&bench.user, &bench.at("dir")).await?;
    refused(bench.source("dir").await, &[ErrorKind::IsDirectory]);
    refused(bench.source("absent").await, &[ErrorKind::NotFound]);
    refused(
        bench.source("file/below").await,
        &[ErrorKind::NotDirectory, ErrorKind::NotFound],
    );
    for how in [
        Create::Whole { size: None },
        Create::Resume { size: None },
        Create::InPlace { truncate: false },
    ] {
        refused(bench.sink("dir", how).await, &[ErrorKind::IsDirectory]);
        refused(bench.sink("absent/file", how).await, &[ErrorKind::NotFound]);
        refused(
            bench.sink("file/below", how).await,
            &[ErrorKind::NotDirectory],
        );
    }
    refused(
        bench.dsi.remove_dir(&bench.user, &bench.at("file")).await,
        &[ErrorKind::NotDirectory],
    );
    Ok(())
}

pub(super) async fn unusual_names_are_kept<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    let mut names: Vec<Vec<u8>> = vec![
        b" leading and trailing ".to_vec(),
        b"-rf".to_vec(),
        b"...".to_vec(),
        b"%2e%2e".to_vec(),
        b"back\\slash".to_vec(),
        b"new\nline\x1b[31m".to_vec(),
        b"not utf-8 \xff\xfe".to_vec(),
        "grüße".into(),
        b"*?[a]{b}".to_vec(),
        vec![b'x'; 255],
    ];
    names.sort();
    let mut kept = Vec::new();
    for name in &names {
        let path = bench.dir.child(name).ok_or("a name was refused")?;
        let sink = bench
            .dsi
            .write(&bench.user, &path, Create::Whole { size: None })
            .await;
        let is_text = std::str::from_utf8(name).is_ok_and(|name| !name.contains(char::is_control));
        let sink = match sink {
            // A backend may keep text alone.
            Err(error) if error.kind() == ErrorKind::BadName && !is_text => continue,
            sink => sink?,
        };
        kept.push(name.clone());
        sink.write_at(0, Bytes::copy_from_slice(name)).await?;
        let stat = sink.finish(gridftp_dsi::Finish::as_is()).await?;
        assert_eq!(&stat.name, name);
        assert_eq!(&bench.dsi.stat(&bench.user, &path).await?.name, name);
    }
    assert_eq!(bench.names("").await?, kept);
    Ok(())
}

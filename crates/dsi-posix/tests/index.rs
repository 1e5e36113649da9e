//! The index of partial files: the expiry reads nothing else, and every partial file is listed.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod support;

use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::time::Duration;

use byte_ranges::{Range64, RangeSet};
use bytes::Bytes;
use gridftp_dsi::types::MAX_PARTIALS;
use gridftp_dsi::{
    Create, Dsi, DsiPath, ErrorKind, Finish, Memory, Mount, Mounts, Partial, Sink, User,
};
use gridftp_dsi_posix::{FileSink, Posix};
use support::{INDEX, RESUME, Tree, WHOLE, names_in, path};

const HOUR: Duration = Duration::from_secs(3600);

fn set(start: u64, end: u64) -> RangeSet {
    Range64::new(start, end).into_iter().collect()
}

/// Begins an upload and records it.
async fn begin(tree: &Tree, name: &str) -> FileSink {
    let sink = tree.open(name, WHOLE).await.unwrap();
    sink.write_at(0, Bytes::from(vec![7; 100_000]))
        .await
        .unwrap();
    sink.checkpoint(&set(0, 100_000), false).await.unwrap();
    sink
}

/// Bytes that turned out to be wrong are not kept on the disk.
#[tokio::test]
async fn an_upload_of_which_nothing_is_held_leaves_nothing() {
    let tree = Tree::new();
    std::fs::create_dir(tree.real("dir")).unwrap();
    let sink = begin(&tree, "/dir/file").await;
    sink.checkpoint(&RangeSet::new(), false).await.unwrap();
    drop(sink);
    assert!(names_in(&tree.real("dir")).is_empty() && tree.indexed().is_empty());
    let sink = begin(&tree, "/dir/file").await;
    sink.checkpoint(&RangeSet::new(), false).await.unwrap();
    sink.checkpoint(&set(0, 10), false).await.unwrap();
    drop(sink);
    assert_eq!(
        tree.open("/dir/file", RESUME).await.unwrap().held(),
        set(0, 10)
    );
}

#[tokio::test]
async fn an_entry_is_there_as_long_as_its_upload() {
    let tree = Tree::new();
    std::fs::create_dir_all(tree.real("a/b")).unwrap();
    symlink("a/b", tree.real("link")).unwrap();
    let sink = tree.open("/link/file", WHOLE).await.unwrap();
    assert_eq!(tree.indexed(), ["a/b/.file.gridftp-part"]);
    sink.finish(Finish::whole(0)).await.unwrap();
    assert!(tree.indexed().is_empty());
    drop(tree.open("/file", WHOLE).await.unwrap());
    assert!(tree.indexed().is_empty());
    // Continued any number of times, it is one upload.
    drop(begin(&tree, "/file").await);
    for _ in 0..3 {
        let sink = tree.open("/file", RESUME).await.unwrap();
        sink.checkpoint(&set(0, 100_000), false).await.unwrap();
        drop(sink);
        assert_eq!(tree.indexed(), [".file.gridftp-part"]);
    }
    drop(begin(&tree, "/file").await);
    assert_eq!(tree.indexed(), [".file.gridftp-part"]);
    tree.posix
        .drop_held(&tree.user, &path("/file"))
        .await
        .unwrap();
    assert!(tree.indexed().is_empty());
}

#[tokio::test]
async fn the_expiry_reads_only_the_index() {
    let tree = Tree::new();
    std::fs::create_dir(tree.real("dir")).unwrap();
    drop(begin(&tree, "/dir/named").await);
    tree.age("dir/.named.gridftp-part");
    // A walk would find this one.
    std::fs::write(tree.real("dir/.other.gridftp-part"), "x").unwrap();
    tree.age("dir/.other.gridftp-part");
    assert_eq!(tree.again().expire(HOUR).await.unwrap(), 1);
    assert_eq!(names_in(&tree.real("dir")), [".other.gridftp-part"]);
    assert!(tree.indexed().is_empty());
    assert_eq!(tree.again().expire(HOUR).await.unwrap(), 0);
}

#[tokio::test]
async fn forged_entries_remove_nothing_but_old_partial_files() {
    let tree = Tree::new();
    drop(begin(&tree, "/file").await);
    std::fs::write(tree.real("precious"), "x").unwrap();
    std::fs::write(tree.all.path().join(".out.gridftp-part"), "x").unwrap();
    for (number, to) in ["precious", "../.out.gridftp-part", "..", "", "/"]
        .iter()
        .enumerate()
    {
        let entry = format!("{INDEX}/{number:016x}");
        if to.is_empty() {
            std::fs::write(tree.real(&entry), "").unwrap();
        } else {
            symlink(to, tree.real(&entry)).unwrap();
        }
    }
    std::fs::write(tree.real(&format!("{INDEX}/no entry")), "x").unwrap();
    let count = tree.posix.expire(Duration::ZERO).await.unwrap();
    assert_eq!(count, 1, "the one of ours");
    assert_eq!(tree.everything(), ["precious"]);
    assert!(tree.all.path().join(".out.gridftp-part").exists());
}

#[tokio::test]
async fn an_upload_that_cannot_be_continued_goes_sooner() {
    let tree = Tree::new();
    let sink = tree.open("/file", WHOLE).await.unwrap();
    tree.age(".file.gridftp-part");
    let expire = || async { tree.again().expire(24 * HOUR).await.unwrap() };
    assert_eq!(expire().await, 0, "somebody writes to it");
    // The state after a process is killed before its first record.
    std::mem::forget(sink);
    let part = tree.real(".file.gridftp-part");
    let copy = tree.real("copy");
    std::fs::copy(&part, &copy).unwrap();
    std::fs::rename(&copy, &part).unwrap();
    assert_eq!(expire().await, 0, "it is new");
    tree.age(".file.gridftp-part");
    assert_eq!(expire().await, 1);
    assert!(tree.everything().is_empty() && tree.indexed().is_empty());
}

#[tokio::test]
async fn entries_follow_a_directory_that_is_renamed() {
    let tree = Tree::new();
    let user = &tree.user;
    std::fs::create_dir_all(tree.real("old/inner")).unwrap();
    std::fs::create_dir(tree.real("older")).unwrap();
    drop(begin(&tree, "/old/inner/left").await);
    drop(begin(&tree, "/older/stays").await);
    let live = begin(&tree, "/old/inner/live").await;
    let rename = |from: &'static str, to: &'static str| {
        let posix = tree.posix.clone();
        async move { posix.rename(user, &path(from), &path(to)).await }
    };
    rename("/old", "/new").await.unwrap();
    rename("/nowhere", "/else").await.unwrap_err();
    rename("/new", "/older").await.unwrap_err();
    let expected = [
        "new/inner/.left.gridftp-part",
        "new/inner/.live.gridftp-part",
        "older/.stays.gridftp-part",
    ];
    assert_eq!(tree.indexed(), expected);
    drop(live);
    assert_eq!(tree.indexed(), expected);
    for name in ["left", "live"] {
        tree.age(&format!("new/inner/.{name}.gridftp-part"));
    }
    assert_eq!(tree.posix.expire(HOUR).await.unwrap(), 2);
    assert!(names_in(&tree.real("new/inner")).is_empty());
    assert_eq!(tree.indexed(), expected[2..]);
}

#[tokio::test]
async fn processes_share_a_tree() {
    let tree = Tree::new();
    let other = tree.again();
    let mine = begin(&tree, "/mine").await;
    let theirs = other
        .write(&tree.user, &path("/theirs"), WHOLE)
        .await
        .unwrap();
    for name in [".mine.gridftp-part", ".theirs.gridftp-part"] {
        tree.age(name);
    }
    for posix in [&tree.posix, &other] {
        assert_eq!(posix.expire(HOUR).await.unwrap(), 0);
    }
    drop(mine);
    theirs.finish(Finish::whole(0)).await.unwrap();
    assert_eq!(tree.indexed(), [".mine.gridftp-part"]);
    assert_eq!(other.expire(HOUR).await.unwrap(), 1);
    assert_eq!(tree.everything(), ["theirs"]);
}

#[tokio::test]
async fn wrong_clocks_remove_no_file_in_use() {
    let tree = Tree::new();
    let live = begin(&tree, "/live").await;
    for (name, seconds) in [("future", 1 << 33), ("past", 0)] {
        drop(begin(&tree, &format!("/{name}")).await);
        let part = tree.real(&format!(".{name}.gridftp-part"));
        let file = std::fs::File::options().write(true).open(part).unwrap();
        let time = std::time::UNIX_EPOCH + Duration::from_secs(seconds);
        file.set_modified(time).unwrap();
    }
    // An age of more than the time since 1970, and that of a clock far ahead.
    assert_eq!(tree.posix.expire(Duration::MAX).await.unwrap(), 0);
    assert_eq!(tree.posix.expire(Duration::ZERO).await.unwrap(), 1);
    assert_eq!(
        tree.indexed(),
        [".future.gridftp-part", ".live.gridftp-part"]
    );
    live.finish(Finish::whole(100_000)).await.unwrap();
}

#[tokio::test]
async fn no_user_can_access_the_index() {
    let tree = Tree::new();
    drop(begin(&tree, "/file").await);
    std::fs::create_dir(tree.real("dir")).unwrap();
    let (posix, user) = (&tree.posix, &tree.user);
    let id = names_in(&tree.real(INDEX))[0].clone();
    for name in [format!("/{INDEX}"), format!("/{INDEX}/{id}")] {
        let at = path(&name);
        for done in [
            posix.stat(user, &at).await.map(drop),
            posix.list(user, &at).await.map(drop),
            posix.read(user, &at).await.map(drop),
            posix.write(user, &at, WHOLE).await.map(drop),
            posix.remove(user, &at).await,
            posix.remove_dir(user, &at).await,
            posix.remove_tree(user, &at).await,
            posix.rename(user, &at, &path("/new")).await,
            posix.rename(user, &path("/dir"), &at).await,
            posix.make_dir(user, &at).await,
            posix.symlink(user, name.as_bytes(), &path("/link")).await,
            posix
                .symlink(user, &name.as_bytes()[1..], &path("/link"))
                .await,
        ] {
            let kind = done.unwrap_err().kind();
            assert!(
                matches!(kind, ErrorKind::NotFound | ErrorKind::BadName),
                "{name}: {kind:?}"
            );
        }
    }
    assert_eq!(tree.indexed(), [".file.gridftp-part"]);
}

/// Lists the names in `dir`.
async fn listed(tree: &Tree, dir: &str) -> Vec<String> {
    let (found, _) = tree.posix.partials(&tree.user, &path(dir)).await.unwrap();
    let name = |partial: &Partial| String::from_utf8(partial.name.clone()).unwrap();
    found.iter().map(name).collect()
}

#[tokio::test]
async fn a_directory_lists_the_partial_files_below_it() {
    let tree = Tree::new();
    std::fs::create_dir_all(tree.real("a/b")).unwrap();
    std::fs::create_dir(tree.real("ab")).unwrap();
    symlink("a", tree.real("link")).unwrap();
    let writer = begin(&tree, "/a/b/file").await;
    for name in ["/file", "/a/file", "/ab/file"] {
        let how = Create::Resume {
            size: Some(200_000),
        };
        let sink = tree.open(name, how).await.unwrap();
        sink.write_at(0, Bytes::from(vec![7; 7])).await.unwrap();
        sink.checkpoint(&set(0, 7), false).await.unwrap();
    }
    // One that cannot be continued is not told.
    std::fs::remove_file(tree.real("ab/.file.gridftp-held")).unwrap();
    assert_eq!(listed(&tree, "/").await, ["a/b/file", "a/file", "file"]);
    assert_eq!(listed(&tree, "/a").await, ["b/file", "file"]);
    assert_eq!(listed(&tree, "/link").await, ["b/file", "file"]);
    assert!(listed(&tree, "/ab").await.is_empty());
    let (found, _) = tree.posix.partials(&tree.user, &path("/a")).await.unwrap();
    let facts: Vec<_> = found
        .iter()
        .map(|partial| (partial.held, partial.size, partial.in_use))
        .collect();
    assert_eq!(facts, [(100_000, None, true), (7, Some(200_000), false)]);
    drop(writer);
    for name in ["/a/b/file", "/a/file"] {
        let dropped = tree.posix.drop_held(&tree.user, &path(name)).await;
        dropped.unwrap();
    }
    assert_eq!(listed(&tree, "/").await, ["file"]);
    for (user, dir, kind) in [
        (
            User::new("u", DsiPath::root(), false),
            "/",
            ErrorKind::Denied,
        ),
        (tree.user.clone(), "/none", ErrorKind::NotFound),
        (tree.user.clone(), "/.gridftp-index", ErrorKind::NotFound),
    ] {
        let error = tree.posix.partials(&user, &path(dir)).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{dir}");
    }
}

/// The number of names that `dsi` lists, and whether there are others.
async fn number(tree: &Tree, dsi: &impl Dsi) -> (usize, bool) {
    let listed = dsi.partials(&tree.user, &DsiPath::root()).await;
    let (found, is_cut) = listed.unwrap();
    (found.len(), is_cut)
}

#[tokio::test]
async fn a_list_of_partial_files_is_bounded() {
    let tree = Tree::in_memory();
    std::fs::create_dir(tree.real("sub")).unwrap();
    for n in 0..MAX_PARTIALS {
        drop(begin(&tree, &format!("/sub/{n}")).await);
    }
    assert_eq!(number(&tree, &tree.posix).await, (MAX_PARTIALS, false));
    drop(begin(&tree, "/sub/more").await);
    assert_eq!(number(&tree, &tree.posix).await, (MAX_PARTIALS, true));
    // Those that another storage covers are left out, and the list is cut all the same.
    let below = Mount::new(path("/sub"), Arc::new(Memory::new()));
    let root = Mount::new(DsiPath::root(), Arc::new(tree.posix.clone()));
    let mounted = Mounts::new([root, below]).unwrap();
    assert_eq!(number(&tree, &mounted).await, (0, true));
}

#[tokio::test]
async fn trees_without_room_for_an_index_are_served() {
    let tree = Tree::new();
    // The name is taken by a file: there is no index, and uploads are still accepted.
    std::fs::write(tree.real(INDEX), "").unwrap();
    drop(begin(&tree, "/file").await);
    assert_eq!(
        tree.open("/file", RESUME).await.unwrap().held(),
        set(0, 100_000)
    );
    let nowhere = tree.again().with_index(&tree.all.path().join("no/such"));
    let sink = nowhere
        .write(&tree.user, &path("/new"), WHOLE)
        .await
        .unwrap();
    sink.finish(Finish::whole(0)).await.unwrap();
    // The index may be elsewhere, and must be if the root is that of the machine.
    let index = tree.all.path().join("index");
    let machine = Posix::open("/".as_ref()).unwrap().with_index(&index);
    let real = tree.real("dir");
    std::fs::create_dir(&real).unwrap();
    let real = std::fs::canonicalize(real).unwrap();
    let at = path(real.join("file").to_str().unwrap());
    let sink = machine.write(&tree.user, &at, WHOLE).await.unwrap();
    sink.checkpoint(&set(0, 1), false).await.unwrap();
    drop(sink);
    assert_eq!(names_in(&real).len(), 2);
    assert_eq!(names_in(&index).len(), 1);
    let gone = machine.expire(Duration::ZERO).await.unwrap();
    assert_eq!(gone, 1);
    assert!(names_in(&real).is_empty() && names_in(&index).is_empty());
    // Reading from a tree writes nothing to it.
    let system = Posix::open("/proc".as_ref()).unwrap();
    assert_eq!(system.expire(HOUR).await.unwrap(), 0);
}

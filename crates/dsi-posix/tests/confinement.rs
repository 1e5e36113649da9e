//! Nothing outside the tree is read, written or removed, in spite of links and races.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod support;

use std::os::unix::fs::{FileTypeExt, symlink};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use gridftp_dsi::{Create, Dsi, DsiPath, ErrorKind, Kind, Meta};
use gridftp_dsi_posix::Posix;
use support::{RESUME, Tree, WHOLE, path};

fn kind<T>(done: Result<T, gridftp_dsi::Error>) -> ErrorKind {
    done.err().expect("refused").kind()
}

/// Checks that an operation on `name` was refused as outside the root.
#[track_caller]
fn refused<T>(done: gridftp_dsi::Result<T>, name: &str) {
    assert_eq!(kind(done), ErrorKind::Outside, "{name}");
}

#[tokio::test]
async fn links_that_leave_are_refused_by_every_operation() {
    let tree = Tree::new();
    let outside = tree.all.path().to_str().unwrap().to_owned();
    for (name, target) in [
        ("up", "..".to_owned()),
        ("file-up", "../secret".to_owned()),
        ("absolute", outside.clone()),
        ("file-absolute", format!("{outside}/secret")),
        ("root", "/".to_owned()),
        ("hop", "up".to_owned()),
        ("back", "../root".to_owned()),
    ] {
        symlink(target, tree.real(name)).unwrap();
    }
    let (posix, user) = (&tree.posix, &tree.user);
    for name in [
        "/up/secret",
        "/file-up",
        "/absolute/secret",
        "/file-absolute",
        "/hop/secret",
        "/root/etc/passwd",
    ] {
        refused(tree.read(name).await, name);
        for how in [WHOLE, RESUME, Create::InPlace { truncate: true }] {
            refused(tree.open(name, how).await, name);
        }
        refused(posix.truncate(user, &path(name), 0).await, name);
        let meta = Meta::new().with_mode(0o777).with_modified(0, 0);
        refused(posix.set_meta(user, &path(name), meta).await, name);
    }
    for name in ["/up/secret", "/absolute/secret", "/hop/secret"] {
        let at = path(name);
        refused(posix.remove(user, &at).await, name);
        refused(posix.remove_tree(user, &at).await, name);
        refused(posix.rename(user, &at, &path("/x")).await, name);
        refused(posix.rename(user, &path("/up"), &at).await, name);
        refused(posix.make_dir(user, &at).await, name);
        refused(posix.symlink(user, b"x", &at).await, name);
    }
    let links = ["/up", "/absolute", "/root", "/hop", "/back"];
    for name in links {
        refused(posix.list(user, &path(name)).await, name);
        // The link itself may be listed, as a link, and removed.
        assert_eq!(
            posix.stat(user, &path(name)).await.unwrap().kind,
            Kind::Link
        );
    }
    for name in links {
        posix.remove_tree(user, &path(name)).await.unwrap();
    }
    assert_eq!(
        std::fs::read(tree.all.path().join("secret")).unwrap(),
        b"secret"
    );
}

#[tokio::test]
async fn magic_links_of_proc_are_refused() {
    let proc = Posix::open(std::path::Path::new("/proc")).unwrap();
    let user = Tree::new().user;
    for name in [
        "/self/root",
        "/self/cwd",
        "/self/root/etc/passwd",
        "/self/cwd/Cargo.toml",
        "/self/exe",
    ] {
        let refused = kind(proc.read(&user, &path(name)).await);
        assert_eq!(refused, ErrorKind::Outside, "{name}");
    }
    let tree = Tree::new();
    symlink("/proc/self/root", tree.real("magic")).unwrap();
    assert_eq!(
        kind(tree.read("/magic/etc/passwd").await),
        ErrorKind::Outside
    );
}

#[tokio::test]
async fn loops_of_links_end() {
    let tree = Tree::new();
    symlink("b", tree.real("a")).unwrap();
    symlink("a", tree.real("b")).unwrap();
    assert_eq!(kind(tree.read("/a").await), ErrorKind::Outside);
    assert_eq!(kind(tree.open("/a", WHOLE).await), ErrorKind::Outside);
    assert_eq!(
        tree.posix.stat(&tree.user, &path("/a")).await.unwrap().kind,
        Kind::Link
    );
}

/// A directory and a link out of the tree are exchanged all the time, during all operations.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_race_of_renames_never_escapes() {
    let tree = Tree::new();
    std::fs::create_dir(tree.real("door")).unwrap();
    std::fs::write(tree.real("door/secret"), "public").unwrap();
    symlink("..", tree.real("gap")).unwrap();
    let (stop, swaps) = (AtomicBool::new(false), AtomicU32::new(0));
    let (door, gap) = (tree.real("door"), tree.real("gap"));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            use rustix::fs::{CWD, RenameFlags, renameat_with};
            while !stop.load(Ordering::Relaxed) {
                renameat_with(CWD, &door, CWD, &gap, RenameFlags::EXCHANGE).unwrap();
                swaps.fetch_add(1, Ordering::Relaxed);
            }
        });
        let attempts = async {
            let (mut inside, mut refused) = (0, 0);
            for round in 0_u32.. {
                if round >= 3000 && swaps.load(Ordering::Relaxed) >= 100_000 {
                    break;
                }
                match tree.read("/door/secret").await {
                    Ok(bytes) => {
                        assert_eq!(bytes, b"public", "read outside of the tree");
                        inside += 1;
                    }
                    Err(_) => refused += 1,
                }
                let _ = tree.put("/door/new", b"x").await;
                let _ = tree.open("/door/new", Create::Append).await;
                let _ = tree
                    .posix
                    .make_dir(&tree.user, &path(&format!("/door/dir{round}")))
                    .await;
                let _ = tree
                    .posix
                    .rename(&tree.user, &path("/door/new"), &path("/door/newer"))
                    .await;
            }
            (inside, refused)
        };
        let counts =
            tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(attempts));
        stop.store(true, Ordering::Relaxed);
        assert!(
            counts.0 > 0 && counts.1 > 0,
            "the race did not happen: {counts:?}"
        );
    });
    let mut left: Vec<_> = std::fs::read_dir(tree.all.path())
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(
        left,
        ["root", "secret"],
        "something was made outside of the tree"
    );
    assert_eq!(
        std::fs::read(tree.all.path().join("secret")).unwrap(),
        b"secret"
    );
}

/// While a tree is removed, directories in it are replaced by links.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removing_a_tree_never_leaves_it() {
    let tree = Tree::new();
    std::fs::create_dir(tree.real("keep")).unwrap();
    std::fs::write(tree.real("keep/file"), "kept").unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let _ = std::fs::create_dir_all(tree.real("t/a/b/c"));
                let _ = std::fs::write(tree.real("t/a/b/c/file"), "x");
                let _ = std::fs::rename(tree.real("t/a/b"), tree.real("moved"));
                let _ = symlink("../../keep", tree.real("t/a/b"));
                let _ = symlink("../..", tree.real("t/a/c"));
                let _ = std::fs::remove_dir_all(tree.real("moved"));
            }
        });
        let attempts = async {
            for _ in 0..5000 {
                // It may fail, but must not leave the tree.
                let _ = tree.posix.remove_tree(&tree.user, &path("/t")).await;
            }
        };
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(attempts));
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(std::fs::read(tree.real("keep/file")).unwrap(), b"kept");
    assert_eq!(
        std::fs::read(tree.all.path().join("secret")).unwrap(),
        b"secret"
    );
}

#[tokio::test]
async fn fifos_devices_and_sockets_are_refused_without_waiting() {
    let tree = Tree::new();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        tree.real("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o666),
        0,
    )
    .unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(tree.real("socket")).unwrap();
    assert!(
        std::fs::metadata(tree.real("fifo"))
            .unwrap()
            .file_type()
            .is_fifo()
    );
    let attempts = async {
        for name in ["/fifo", "/socket"] {
            assert_eq!(kind(tree.read(name).await), ErrorKind::NotRegular);
            for how in [WHOLE, RESUME, Create::InPlace { truncate: true }] {
                assert_eq!(kind(tree.open(name, how).await), ErrorKind::NotRegular);
            }
            assert_eq!(
                kind(tree.posix.truncate(&tree.user, &path(name), 0).await),
                ErrorKind::NotRegular
            );
        }
        assert_eq!(
            tree.posix
                .stat(&tree.user, &path("/fifo"))
                .await
                .unwrap()
                .kind,
            Kind::Fifo
        );
        let dev = Posix::open(std::path::Path::new("/dev")).unwrap();
        assert_eq!(
            kind(dev.read(&tree.user, &path("/zero")).await),
            ErrorKind::NotRegular
        );
        assert_eq!(
            kind(dev.write(&tree.user, &path("/null"), WHOLE).await),
            ErrorKind::NotRegular
        );
    };
    tokio::time::timeout(Duration::from_secs(30), attempts)
        .await
        .expect("the operation blocked");
}

#[tokio::test]
async fn names_of_uploads_in_progress_are_inaccessible() {
    let tree = Tree::new();
    let (posix, user) = (&tree.posix, &tree.user);
    std::fs::write(tree.real(".file.gridftp-part"), "half").unwrap();
    let name = path("/.file.gridftp-part");
    assert_eq!(kind(posix.read(user, &name).await), ErrorKind::NotFound);
    assert_eq!(kind(posix.stat(user, &name).await), ErrorKind::NotFound);
    assert_eq!(kind(posix.remove(user, &name).await), ErrorKind::NotFound);
    assert_eq!(
        kind(posix.rename(user, &name, &path("/x")).await),
        ErrorKind::NotFound
    );
    assert_eq!(kind(posix.make_dir(user, &name).await), ErrorKind::BadName);
    assert_eq!(
        kind(posix.symlink(user, b"x", &name).await),
        ErrorKind::BadName
    );
    assert_eq!(
        kind(
            posix
                .symlink(user, b".file.gridftp-part", &path("/x"))
                .await
        ),
        ErrorKind::BadName
    );
    for how in [WHOLE, RESUME, Create::InPlace { truncate: true }] {
        assert_eq!(
            kind(tree.open("/.file.gridftp-part", how).await),
            ErrorKind::BadName
        );
    }
}

#[tokio::test]
async fn a_planted_partial_is_not_followed() {
    let tree = Tree::new();
    symlink("../secret", tree.real(".file.gridftp-part")).unwrap();
    assert!(tree.put("/file", b"x").await.is_err());
    std::fs::remove_file(tree.real(".file.gridftp-part")).unwrap();
    symlink("../secret", tree.real(".file.gridftp-held")).unwrap();
    tree.put("/file", b"x").await.unwrap();
    assert_eq!(
        std::fs::read(tree.all.path().join("secret")).unwrap(),
        b"secret"
    );
}

#[tokio::test]
async fn paths_beyond_the_kernels_limit_and_deep_trees_work() {
    let tree = Tree::new();
    let part = "d".repeat(200);
    let (posix, user) = (&tree.posix, &tree.user);
    let mut deep = DsiPath::root();
    for _ in 0..60 {
        deep = deep.child(part.as_bytes()).unwrap();
        posix.make_dir(user, &deep).await.unwrap();
    }
    assert!(deep.as_bytes().len() > 2 * 4096);
    let file = format!("{}/file", std::str::from_utf8(deep.as_bytes()).unwrap());
    tree.put(&file, b"deep").await.unwrap();
    assert_eq!(tree.read(&file).await.unwrap(), b"deep");
    posix
        .rename(user, &path(&file), &path("/up-here"))
        .await
        .unwrap();
    assert_eq!(tree.read("/up-here").await.unwrap(), b"deep");
    posix
        .remove_tree(user, &path(&format!("/{part}")))
        .await
        .unwrap();
    assert_eq!(tree.everything(), ["up-here"]);
}

#[tokio::test]
async fn a_tree_deeper_than_there_are_descriptors_is_removed() {
    use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    // A limit of the whole process, and enough for the other tests.
    const DESCRIPTORS: u64 = 512;
    let before = getrlimit(Resource::Nofile);
    let limit = Rlimit {
        current: Some(DESCRIPTORS),
        ..before
    };
    setrlimit(Resource::Nofile, limit).unwrap();
    let tree = Tree::in_memory();
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut dir = openat(CWD, tree.real(""), flags, Mode::empty()).unwrap();
    for level in 0..4 * DESCRIPTORS {
        mkdirat(&dir, c"d", Mode::RWXU).unwrap();
        if level % 100 == 0 {
            mkdirat(&dir, c"e", Mode::RWXU).unwrap();
        }
        dir = openat(&dir, c"d", flags, Mode::empty()).unwrap();
    }
    tree.posix
        .remove_tree(&tree.user, &path("/d"))
        .await
        .unwrap();
    setrlimit(Resource::Nofile, before).unwrap();
    assert_eq!(tree.everything(), ["e"]);
}

#[tokio::test]
async fn without_links_a_path_leads_through_directories_only() {
    let tree = Tree::new();
    let (posix, mut user) = (&tree.posix, tree.user.clone());
    user.follows_links = false;
    std::fs::create_dir(tree.real("dir")).unwrap();
    std::fs::write(tree.real("dir/file"), "old").unwrap();
    symlink("dir", tree.real("to-dir")).unwrap();
    symlink("dir/file", tree.real("to-file")).unwrap();
    for name in ["/to-dir/file", "/to-file"] {
        assert_eq!(
            kind(posix.read(&user, &path(name)).await),
            ErrorKind::Denied,
            "{name}"
        );
        for how in [WHOLE, RESUME, Create::InPlace { truncate: true }] {
            let opened = posix.write(&user, &path(name), how).await;
            assert_eq!(kind(opened), ErrorKind::Denied, "{name}");
        }
        assert!(posix.truncate(&user, &path(name), 0).await.is_err());
        let meta = Meta::new().with_mode(0o700);
        assert!(posix.set_meta(&user, &path(name), meta).await.is_err());
    }
    assert!(posix.list(&user, &path("/to-dir")).await.is_err());
    assert!(posix.make_dir(&user, &path("/to-dir/new")).await.is_err());
    assert!(posix.remove(&user, &path("/to-dir/file")).await.is_err());
    assert!(posix.symlink(&user, b"dir", &path("/more")).await.is_err());
    // The link itself can be listed, moved and removed.
    let stat = posix.stat(&user, &path("/to-dir")).await.unwrap();
    assert_eq!(
        (stat.kind, stat.target),
        (Kind::Link, Some(b"dir".to_vec()))
    );
    posix.remove(&user, &path("/to-file")).await.unwrap();
    assert_eq!(std::fs::read(tree.real("dir/file")).unwrap(), b"old");
    assert!(posix.read(&user, &path("/dir/file")).await.is_ok());
}

//! Several storages in one tree: through the conformance suite, and at their borders.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use gridftp_dsi::{
    Create, Dsi, DsiPath, DynDsi, ErrorKind, Finish, Kind, Listing as _, Memory, Mount, Mounts,
    Result, Sink, Source as _, User, WriteModel,
};
use xio_testkit::dsi_suite;

fn path(text: &str) -> DsiPath {
    DsiPath::new(text.as_bytes()).expect("an absolute path")
}

fn user() -> User {
    User::new("u", DsiPath::root(), true)
}

fn mount(at: &str, storage: &Memory) -> Mount {
    Mount::new(path(at), Arc::new(storage.clone()))
}

async fn open(dsi: &impl Dsi, name: &str) -> Result<impl Sink> {
    let how = Create::Whole { size: None };
    dsi.write(&user(), &path(name), how).await
}

async fn store(dsi: &impl Dsi, name: &str, text: &'static str) -> Result<()> {
    let sink = open(dsi, name).await?;
    sink.write_at(0, Bytes::from_static(text.as_bytes()))
        .await?;
    sink.finish(Finish::whole(text.len() as u64)).await?;
    Ok(())
}

async fn load(dsi: &impl Dsi, name: &str) -> Result<BytesMut> {
    let source = dsi.read(&user(), &path(name)).await?;
    source.read_at(0, BytesMut::with_capacity(100)).await
}

async fn names(dsi: &impl Dsi, dir: &str) -> Result<Vec<String>> {
    names_for(dsi, &user(), dir).await
}

async fn names_for(dsi: &impl Dsi, user: &User, dir: &str) -> Result<Vec<String>> {
    let mut listing = dsi.list(user, &path(dir)).await?;
    let mut names = Vec::new();
    loop {
        let batch = listing.next().await?;
        if batch.is_empty() {
            names.sort();
            return Ok(names);
        }
        names.extend(
            batch
                .iter()
                .map(|stat| String::from_utf8_lossy(&stat.name).into_owned()),
        );
    }
}

#[tokio::test]
async fn a_mounted_tree_keeps_the_contract() {
    let (one, other) = (Memory::new(), Memory::new());
    let tree = Mounts::new([mount("/", &one), mount("/far/archive", &other)]).unwrap();
    let report = dsi_suite::run(&tree).await;
    assert!(report.passed.len() > 25, "{report:?}");
    assert_eq!(
        names(&other, "/").await.unwrap(),
        [""; 0],
        "nothing was for the other storage"
    );
}

#[tokio::test]
async fn a_token_is_of_the_storage_of_its_path() {
    let (one, other) = (Memory::new(), Memory::new());
    let tree = Mounts::new([mount("/", &one), mount("/archive", &other)]).unwrap();
    assert!(tree.capabilities().shares_uploads);
    let owner = open(&tree, "/archive/file").await.unwrap();
    let token = owner.share(None).await.unwrap();
    let join = async |at: &str| tree.join(&user(), &path(at), &token).await;
    let refused = join("/file").await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "storage: join /file: permission denied"
    );
    let joined = join("/archive/file").await.unwrap();
    joined
        .write_at(0, Bytes::from_static(b"far"))
        .await
        .unwrap();
    assert_eq!(owner.data().await.unwrap().unwrap().to_string(), "0-3");
    owner.finish(Finish::whole(3)).await.unwrap();
    assert_eq!(load(&other, "/file").await.unwrap(), "far");
}

#[tokio::test]
async fn a_path_belongs_to_the_longest_mount_point() {
    let [root, archive, old] = [(); 3].map(|()| Memory::new());
    let points = [
        mount("/", &root),
        mount("/archive", &archive),
        mount("/archive/old", &old),
    ];
    let tree = Mounts::new(points).unwrap();
    for (name, storage, there) in [
        ("/a", &root, "/a"),
        ("/archives", &root, "/archives"),
        ("/archive/b", &archive, "/b"),
        ("/archive/older", &archive, "/older"),
        ("/archive/old/c", &old, "/c"),
    ] {
        store(&tree, name, "text").await.unwrap();
        assert_eq!(load(storage, there).await.unwrap(), "text", "{name}");
        assert_eq!(load(&tree, name).await.unwrap(), "text");
        let stat = tree.stat(&user(), &path(name)).await.unwrap();
        assert_eq!(stat.name, path(name).name());
    }
    assert_eq!(
        names(&tree, "/").await.unwrap(),
        ["a", "archive", "archives"]
    );
    assert_eq!(
        names(&tree, "/archive").await.unwrap(),
        ["b", "old", "older"]
    );
    let stat = tree.stat(&user(), &path("/archive/old")).await.unwrap();
    assert_eq!(
        (stat.kind, stat.name.as_slice()),
        (Kind::Directory, &b"old"[..])
    );
    assert!(Mounts::new([mount("/a", &root), mount("/a", &old)]).is_err());
}

#[tokio::test]
async fn directories_lead_to_the_mount_points() {
    let storage = Memory::new();
    let tree = Mounts::new([mount("/a/b/c", &storage)]).unwrap();
    for (dir, below) in [("/", "a"), ("/a", "b"), ("/a/b", "c")] {
        assert!(
            tree.stat(&user(), &path(dir)).await.unwrap().is_dir(),
            "{dir}"
        );
        assert_eq!(names(&tree, dir).await.unwrap(), [below]);
        let attributes = tree.attributes(&user(), &path(dir)).await;
        assert_eq!(attributes.unwrap(), [], "{dir}");
    }
    for missing in ["/x", "/a/x", "/a/b/x"] {
        let error = tree.stat(&user(), &path(missing)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(error.path(), missing);
        let error = store(&tree, missing, "").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{missing}");
    }
    // A file of the storage above does not hide them.
    let above = Memory::new();
    store(&above, "/a", "in the way").await.unwrap();
    let tree = Mounts::new([mount("/", &above), mount("/a/b", &storage)]).unwrap();
    assert!(tree.stat(&user(), &path("/a")).await.unwrap().is_dir());
    assert_eq!(names(&tree, "/").await.unwrap(), ["a"]);
    assert_eq!(names(&tree, "/a").await.unwrap(), ["b"]);
}

#[tokio::test]
async fn mount_points_stay_where_they_are() {
    let (root, storage) = (Memory::new(), Memory::new());
    let tree = Mounts::new([mount("/", &root), mount("/a/b", &storage)]).unwrap();
    let (user, free) = (user(), path("/free"));
    store(&tree, "/file", "text").await.unwrap();
    for fixed in ["/", "/a", "/a/b"] {
        let fixed = path(fixed);
        let refusals = [
            tree.remove(&user, &fixed).await,
            tree.remove_dir(&user, &fixed).await,
            tree.remove_tree(&user, &fixed).await,
            tree.rename(&user, &fixed, &free).await,
            tree.rename(&user, &path("/file"), &fixed).await,
            tree.symlink(&user, b"file", &fixed).await,
        ];
        for refused in refusals {
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::Denied, "{fixed}");
        }
        let made = tree.make_dir(&user, &fixed).await;
        assert_eq!(made.unwrap_err().kind(), ErrorKind::Exists);
        let written = tree.write(&user, &fixed, Create::Append).await;
        assert_eq!(written.unwrap_err().kind(), ErrorKind::IsDirectory);
    }
}

#[tokio::test]
async fn names_stay_in_their_storage() {
    let (root, storage) = (Memory::new(), Memory::new());
    let tree = Mounts::new([mount("/", &root), mount("/a", &storage)]).unwrap();
    let user = user();
    store(&tree, "/file", "text").await.unwrap();
    let moved = tree.rename(&user, &path("/file"), &path("/a/file")).await;
    let error = moved.unwrap_err();
    assert_eq!(
        (error.kind(), error.path()),
        (ErrorKind::Unsupported, "/file")
    );
    assert_eq!(load(&tree, "/file").await.unwrap(), "text");
    let linked = tree.symlink(&user, b"/file", &path("/a/link")).await;
    assert_eq!(linked.unwrap_err().kind(), ErrorKind::Unsupported);
    store(&tree, "/a/one", "text").await.unwrap();
    tree.rename(&user, &path("/a/one"), &path("/a/two"))
        .await
        .unwrap();
    assert_eq!(load(&storage, "/two").await.unwrap(), "text");
}

#[tokio::test]
async fn errors_tell_the_path_of_the_tree() {
    let tree = Mounts::new([mount("/a", &Memory::with_limit(10))]).unwrap();
    let error = load(&tree, "/a/missing").await.unwrap_err();
    assert_eq!(error.path(), "/a/missing");
    let sink = open(&tree, "/a/file").await.unwrap();
    let error = sink
        .write_at(100, Bytes::from_static(b"x"))
        .await
        .unwrap_err();
    assert_eq!(error.path(), "/a/file");
}

#[tokio::test]
async fn a_read_only_mount_point_is_read_only_for_everybody() {
    let storage = Memory::new();
    store(&storage, "/file", "text").await.unwrap();
    let tree = Mounts::new([mount("/a", &storage).read_only()]).unwrap();
    assert_eq!(load(&tree, "/a/file").await.unwrap(), "text");
    let refused = tree.remove(&user(), &path("/a/file")).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Denied);
    let refused = store(&tree, "/a/new", "text").await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Denied);
}

#[test]
fn the_tree_can_do_what_all_storages_can() {
    let memory: Arc<dyn DynDsi> = Arc::new(Memory::new());
    let own = memory.capabilities_dyn();
    let both = [
        Mount::new(path("/"), memory.clone()),
        Mount::new(path("/a"), memory),
    ];
    let tree = Mounts::new(both).unwrap().capabilities();
    assert_eq!(tree.checksums, own.checksums);
    assert_eq!(tree.writes, WriteModel::Random);
    assert_eq!(tree.name, "mounts");
}

#[tokio::test]
async fn a_storage_for_some_users_is_refused_to_others() {
    let closed = Mount::new(path("/closed"), Arc::new(Memory::new()));
    let deeper = Mount::new(path("/closed/open"), Arc::new(Memory::new()));
    let tree = Mounts::new([
        Mount::new(DsiPath::root(), Arc::new(Memory::new())),
        closed.for_users(["ann".to_owned()]),
        deeper,
    ])
    .unwrap();
    let user = |name: &str| User::new(name, DsiPath::root(), true);
    let (ann, bob) = (user("ann"), user("bob"));
    tree.make_dir(&ann, &path("/closed/dir")).await.unwrap();
    let denied = |kind| assert_eq!(kind, ErrorKind::Denied);
    for inside in ["/closed/dir", "/closed/other"] {
        denied(tree.stat(&bob, &path(inside)).await.unwrap_err().kind());
        denied(tree.list(&bob, &path(inside)).await.unwrap_err().kind());
        denied(tree.read(&bob, &path(inside)).await.unwrap_err().kind());
        denied(tree.make_dir(&bob, &path(inside)).await.unwrap_err().kind());
    }
    // The way to what is open to them stays, and shows nothing else.
    assert_eq!(names_for(&tree, &bob, "/").await.unwrap(), ["closed"]);
    assert_eq!(names_for(&tree, &bob, "/closed").await.unwrap(), ["open"]);
    assert_eq!(
        names_for(&tree, &ann, "/closed").await.unwrap(),
        ["dir", "open"]
    );
    tree.make_dir(&bob, &path("/closed/open/dir"))
        .await
        .unwrap();
}

//! Recursive listings: every entry once, in little memory, whatever the tree.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use ftp_wire::facts::FactSet;
use gridftp_dsi::Memory;
use gridftp_dsi_posix::Posix;

use super::*;

/// Returns the names of a listing in order, and its peak memory.
async fn walk<D: Dsi>(dsi: &D, follow: bool) -> (Vec<String>, usize) {
    let user = User::new("ann", DsiPath::root(), true);
    let owners = Owners::load();
    let form = ListForm::Tree {
        facts: FactSet::DEFAULT,
        follow,
        fail: true,
    };
    let root = DsiPath::root();
    let mut lister = Lister::open(dsi, &user, &owners, &root, form)
        .await
        .unwrap();
    let (mut names, mut most) = (Vec::new(), 0);
    while let Some(lines) = lister.next_lines().await.unwrap() {
        let known = lister
            .levels
            .iter()
            .filter_map(|level| level.ahead.as_ref());
        let inner: usize = known.flat_map(|known| &known.inner).map(Inner::cost).sum();
        assert_eq!(inner, lister.waiting);
        let levels = lister.levels.len() * (size_of::<Level>() + size_of::<Ahead>());
        most = most.max(inner + levels + lines.len());
        let lines = String::from_utf8(lines).unwrap();
        let name = |line: &str| line.split_once("; ").unwrap().1.to_owned();
        names.extend(lines.lines().map(name));
    }
    (names, most)
}

/// The same by the standard library.
fn expected(dir: &Path, prefix: &str, into: &mut BTreeSet<String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            expected(&entry.path(), &format!("{name}/"), into);
        }
        assert!(into.insert(name));
    }
}

/// Makes a tree with more in each level than the walk remembers; only one directory of each has
/// inner ones.
fn make_deep(dir: &Path) {
    let mut at = dir.to_owned();
    for level in 0..6 {
        for i in 0..80 {
            let name = format!("{i:0200}");
            fs::create_dir(at.join(&name)).unwrap();
            fs::write(at.join(&name).join("file"), "x").unwrap();
        }
        fs::write(at.join("between"), "x").unwrap();
        at = at.join(format!("{:0200}", level * 5));
    }
}

#[tokio::test]
async fn a_wide_and_deep_tree_is_listed_once_in_little_memory() {
    let dir = tempfile::tempdir().unwrap();
    make_deep(dir.path());
    let mut whole = BTreeSet::new();
    expected(dir.path(), "", &mut whole);
    whole.insert(".".to_owned());
    let (names, most) = walk(&Posix::open(dir.path()).unwrap(), false).await;
    assert_eq!(names.len(), whole.len());
    assert!(names.into_iter().collect::<BTreeSet<_>>() == whole);
    // The directories of one batch at least, and lines with names of 1,400 bytes.
    assert!(most < WAITING + 16 * 1024 + PIECE + 4096, "{most} bytes");
}

#[tokio::test]
async fn a_deep_tree_costs_a_little_for_each_level() {
    let dir = tempfile::tempdir().unwrap();
    let deep = "d/".repeat(1000);
    fs::create_dir_all(dir.path().join(&deep)).unwrap();
    let (names, most) = walk(&Posix::open(dir.path()).unwrap(), false).await;
    assert_eq!(names.len(), 1001);
    assert_eq!(names.last().map(|name| name.len() + 1), Some(deep.len()));
    assert!(most < 256 * 1024, "{most} bytes");
}

/// It is read again for its inner ones, which were forgotten, when it is gone.
#[tokio::test]
async fn a_directory_that_goes_during_the_walk_costs_no_other_one() {
    for fail in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        make_deep(dir.path());
        let (posix, user) = (
            Posix::open(dir.path()).unwrap(),
            User::new("ann", DsiPath::root(), true),
        );
        let (owners, root) = (Owners::load(), DsiPath::root());
        let form = ListForm::Tree {
            facts: FactSet::DEFAULT,
            follow: false,
            fail,
        };
        let lister = Lister::open(&posix, &user, &owners, &root, form);
        let mut lister = lister.await.unwrap();
        let (mut removed, mut told, mut files) = (false, 0, 0);
        let ended = loop {
            let lines = match lister.next_lines().await {
                Ok(Some(lines)) => String::from_utf8(lines).unwrap(),
                ended => break ended,
            };
            for line in lines.lines() {
                let (facts, name) = line.split_once("; ").unwrap();
                let depth = name.matches('/').count();
                if depth == 5 && !removed {
                    removed = true;
                    fs::remove_dir_all(dir.path().join(&name[..200])).unwrap();
                }
                told += usize::from(facts.contains("Error=OpenFailed") && depth == 0);
                files += usize::from(name.ends_with("/file") && depth == 1);
            }
        };
        assert!(removed);
        match ended {
            Ok(_) => assert_eq!((fail, told), (false, 1)),
            Err(error) => assert_eq!((fail, error.kind()), (true, ErrorKind::NotFound)),
        }
        assert!(fail || files >= 79, "{files} of 80 directories are listed");
    }
}

#[tokio::test]
async fn links_that_lead_back_end_the_way() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("a/b")).unwrap();
    symlink("../..", dir.path().join("a/b/up")).unwrap();
    symlink("b", dir.path().join("a/again")).unwrap();
    let (mut names, _) = walk(&Posix::open(dir.path()).unwrap(), true).await;
    names.sort_unstable();
    assert_eq!(names, [".", "a", "a/again", "a/again/up", "a/b", "a/b/up"]);
}

/// Such a backend has no marks in a directory.
#[tokio::test]
async fn a_backend_without_marks_is_listed_once_as_well() {
    let memory = Memory::new();
    let user = User::new("ann", DsiPath::root(), true);
    let mut whole = BTreeSet::from([".".to_owned()]);
    for i in 0..400 {
        let name = format!("{i:0200}");
        for path in [name.clone(), format!("{name}/inner")] {
            let at = DsiPath::new(format!("/{path}").as_bytes()).unwrap();
            memory.make_dir(&user, &at).await.unwrap();
            whole.insert(path);
        }
    }
    let (names, _) = walk(&memory, false).await;
    assert_eq!(names.len(), whole.len());
    assert!(names.into_iter().collect::<BTreeSet<_>>() == whole);
}

//! Requirements on a storage that nobody may write to, whose files its author has put there.

use std::collections::BTreeMap;

use bytes::BytesMut;
use gridftp_dsi::{Create, Dsi, DsiPath, ErrorKind, Listing, Meta, Progress, Source, User};

use super::{len, refused};

/// Errors that a change may be refused with.
const REFUSED: [ErrorKind; 3] = [
    ErrorKind::Denied,
    ErrorKind::ReadOnly,
    ErrorKind::Unsupported,
];

/// Checks a storage that holds these files, and no object besides but their directories; changes
/// are refused to a user who may write.
///
/// # Panics
/// When a requirement is not met; the message names the path.
pub async fn run_read_only<D: Dsi>(dsi: &D, files: &BTreeMap<DsiPath, Vec<u8>>) {
    let user = User::new("suite", DsiPath::root(), true);
    let mut found = BTreeMap::new();
    let mut dirs = vec![DsiPath::root()];
    while let Some(dir) = dirs.pop() {
        let stat = dsi.stat(&user, &dir).await;
        assert!(stat.unwrap_or_else(|e| panic!("{dir}: {e}")).is_dir());
        refused(dsi.read(&user, &dir).await, &[ErrorKind::IsDirectory]);
        let mut listing = dsi
            .list(&user, &dir)
            .await
            .unwrap_or_else(|e| panic!("{dir}: {e}"));
        loop {
            let batch = listing
                .next()
                .await
                .unwrap_or_else(|e| panic!("{dir}: {e}"));
            if batch.is_empty() {
                break;
            }
            for stat in batch {
                let path = dir
                    .child(&stat.name)
                    .unwrap_or_else(|| panic!("{dir}: {stat:?}"));
                match stat.is_dir() {
                    true => dirs.push(path),
                    false => drop(found.insert(path, stat.size)),
                }
            }
        }
    }
    let expected = files.iter().map(|(path, bytes)| (path.clone(), len(bytes)));
    assert_eq!(found, expected.collect(), "the files of the listings");
    for (path, bytes) in files {
        content(dsi, &user, path, bytes).await;
        changes(dsi, &user, path).await;
        content(dsi, &user, path, bytes).await;
    }
    let absent = DsiPath::root()
        .child(b"no such object")
        .unwrap_or_else(DsiPath::root);
    let missing = [ErrorKind::NotFound];
    refused(dsi.stat(&user, &absent).await, &missing);
    refused(dsi.list(&user, &absent).await, &missing);
    refused(dsi.read(&user, &absent).await, &missing);
    let new = Create::Whole { size: None };
    refused(dsi.write(&user, &absent, new).await, &REFUSED);
    refused(dsi.make_dir(&user, &absent).await, &REFUSED);
}

/// Checks the facts and the bytes of a file.
async fn content<D: Dsi>(dsi: &D, user: &User, path: &DsiPath, bytes: &[u8]) {
    let stat = dsi
        .stat(user, path)
        .await
        .unwrap_or_else(|e| panic!("{path}: {e}"));
    assert!(stat.is_file(), "{path}");
    assert_eq!((stat.name.as_slice(), stat.size), (path.name(), len(bytes)));
    refused(dsi.list(user, path).await, &[ErrorKind::NotDirectory]);
    let source = dsi
        .read(user, path)
        .await
        .unwrap_or_else(|e| panic!("{path}: {e}"));
    assert_eq!(source.size(), len(bytes), "{path}");
    let mut read = Vec::new();
    loop {
        let piece = source
            .read_at(len(&read), BytesMut::with_capacity(4096))
            .await;
        let piece = piece.unwrap_or_else(|e| panic!("{path}: {e}"));
        if piece.is_empty() {
            break;
        }
        read.extend_from_slice(&piece);
    }
    assert!(read == bytes, "{path}: the read bytes differ");
    for beyond in [len(bytes), len(bytes).saturating_add(1), u64::MAX] {
        let piece = source.read_at(beyond, BytesMut::with_capacity(64)).await;
        assert!(
            piece.is_ok_and(|piece| piece.is_empty()),
            "{path}: {beyond}"
        );
    }
    let unchanged = source.unchanged().await;
    unchanged.unwrap_or_else(|e| panic!("{path}: {e}"));
    for (algorithm, _) in dsi.capabilities().checksums {
        let progress = Progress::new();
        let digest = dsi
            .checksum(user, path, algorithm, 0, None, &progress)
            .await;
        let digest = digest.unwrap_or_else(|e| panic!("{path}: {e}"));
        assert_eq!(digest.len(), algorithm.hex_len(), "{path}: {algorithm}");
        assert_eq!(progress.get(), len(bytes), "{path}: {algorithm}");
    }
}

/// Checks that nothing about a file can be changed.
async fn changes<D: Dsi>(dsi: &D, user: &User, path: &DsiPath) {
    for how in [
        Create::Whole { size: None },
        Create::Resume { size: None },
        Create::Update { size: None },
        Create::InPlace { truncate: false },
        Create::InPlace { truncate: true },
        Create::Append,
    ] {
        refused(dsi.write(user, path, how).await, &REFUSED);
    }
    let beside = path.parent().and_then(|dir| dir.child(b"another name"));
    let beside = beside.unwrap_or_else(DsiPath::root);
    refused(dsi.remove(user, path).await, &REFUSED);
    refused(dsi.remove_tree(user, path).await, &REFUSED);
    refused(dsi.rename(user, path, &beside).await, &REFUSED);
    refused(dsi.symlink(user, b"x", &beside).await, &REFUSED);
    refused(dsi.truncate(user, path, 0).await, &REFUSED);
    let times = Meta::new().with_modified(1, 0);
    refused(dsi.set_meta(user, path, times).await, &REFUSED);
}

//! Reads of objects in chunks: the memory, the requests, and readers that wait for each other.
#![expect(clippy::cast_possible_truncation, reason = "test files are small")]

use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::stream::{self, BoxStream};
use gridftp_dsi::Budget;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, ListResult, MultipartUpload, ObjectStore, PutMultipartOptions, PutOptions,
    PutPayload, PutResult, Result as StoreResult,
};

use super::*;
use crate::store::Config;

/// Bytes that repeat after a length in which no chunk ends.
fn content(size: usize) -> Vec<u8> {
    let period: Vec<u8> = (0..65_521_usize)
        .map(|at| at.wrapping_mul(31).wrapping_add(at >> 8).to_le_bytes()[0])
        .collect();
    let mut content = period.repeat(size.div_ceil(period.len()));
    content.truncate(size);
    content
}

#[tokio::test]
async fn readers_in_several_places_share_bounded_memory() {
    const SIZE: usize = (18 << 20) + 5;
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let content = content(SIZE);
    std::fs::write(root.join("file"), &content).unwrap();
    for (read_ahead, most) in [(0, 1), (17 << 20, 2), (64 << 20, 8)] {
        let mut config = Config::new(format!("file://{}", root.display()), dir.path().join("i"));
        config.read_ahead = read_ahead;
        let store = Arc::new(Store::open(&config).unwrap());
        let path = DsiPath::new(b"/file").unwrap();
        let meta = store.file("open", &path).await.unwrap();
        let source = ObjectSource::new(&store, "ann", &path, meta);
        let mut places = [(0, 6 << 20), (6 << 20, 12 << 20), (12 << 20, SIZE)];
        while places.iter().any(|(at, end)| at < end) {
            for (at, end) in &mut places {
                let room = (*end - *at).min(700_000);
                let offset = *at as u64;
                let read = source
                    .read_at(offset, BytesMut::with_capacity(room))
                    .await
                    .unwrap();
                assert!(read.len() <= room.max(1), "{} of {room}", read.len());
                assert!(read == content[*at..*at + read.len()], "at {at}");
                *at += read.len();
                let known = source.chunks.lock().unwrap().known.len();
                assert!(known <= most, "{known} chunks in memory");
            }
        }
        source.unchanged().await.unwrap();
    }
}

/// Reads one byte of each chunk, so that all of them stay in memory.
async fn touch(source: &ObjectSource) -> usize {
    for index in 0..source.size().div_ceil(CHUNK) {
        let at = index * CHUNK;
        let read = source.lend(at, 1).await.unwrap();
        assert_eq!(read.len(), 1);
    }
    source.chunks().known.len()
}

#[tokio::test]
async fn all_sources_of_all_users_read_ahead_within_one_budget() {
    const SIZE: usize = 8 << 23;
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let content = content(SIZE);
    std::fs::write(root.join("file"), &content).unwrap();
    let mut config = Config::new(format!("file://{}", root.display()), dir.path().join("i"));
    config.read_memory = Budget::new(8 * CHUNK);
    let stores = [
        Arc::new(Store::open(&config).unwrap()),
        Arc::new(Store::open(&config).unwrap()),
    ];
    let path = DsiPath::new(b"/file").unwrap();
    let meta = stores[0].file("open", &path).await.unwrap();
    let open = |user, store| ObjectSource::new(store, user, &path, meta.clone());
    let chunks = || config.read_memory.taken() / CHUNK;

    let first = open("ann", &stores[0]);
    assert_eq!((touch(&first).await, chunks()), (OWN + 4, 4));
    let second = open("ann", &stores[1]);
    assert_eq!((touch(&second).await, chunks()), (OWN, 4));
    let other = open("bob", &stores[1]);
    assert_eq!((touch(&other).await, chunks()), (OWN + 2, 6));

    // Without room, a source still serves all bytes, and returns them once read.
    for (source, left) in [(&second, 6), (&first, 2), (&other, 0)] {
        let mut at = 0;
        while at < SIZE {
            let read = source.lend(at as u64, 1 << 20).await.unwrap();
            assert!(read == content[at..at + read.len()], "at {at}");
            at += read.len();
        }
        source
            .chunks()
            .known
            .retain(|_, (chunk, _)| !chunk.is_read());
        assert_eq!(chunks(), left);
    }
    assert!(touch(&open("cat", &stores[0])).await > OWN);
    drop((first, second, other));
    assert_eq!(chunks(), 0);
}

/// A store in memory that counts the requests for bytes, and sends them slowly.
#[derive(Debug, Default)]
struct Slow {
    objects: InMemory,
    gets: AtomicU64,
}

impl fmt::Display for Slow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Slow")
    }
}

/// Time from a request to its first bytes, and from one piece to the next.
const PIECE: Duration = Duration::from_millis(3);

#[async_trait::async_trait]
impl ObjectStore for Slow {
    async fn put_opts(
        &self,
        key: &Path,
        data: PutPayload,
        how: PutOptions,
    ) -> StoreResult<PutResult> {
        self.objects.put_opts(key, data, how).await
    }

    async fn put_multipart_opts(
        &self,
        key: &Path,
        how: PutMultipartOptions,
    ) -> StoreResult<Box<dyn MultipartUpload>> {
        self.objects.put_multipart_opts(key, how).await
    }

    async fn get_opts(&self, key: &Path, how: GetOptions) -> StoreResult<GetResult> {
        let got = self.objects.get_opts(key, how).await?;
        self.gets.fetch_add(1, Ordering::Relaxed);
        let (meta, range, attributes) = (got.meta.clone(), got.range.clone(), Default::default());
        let bytes = got.bytes().await?;
        let pieces = stream::unfold(bytes, |mut left| async move {
            if left.is_empty() {
                return None;
            }
            tokio::time::sleep(PIECE).await;
            let piece = left.split_to(left.len().min(100_000));
            Some((Ok(piece), left))
        });
        Ok(GetResult {
            payload: GetResultPayload::Stream(pieces.boxed()),
            meta,
            range,
            attributes,
            extensions: Default::default(),
        })
    }

    fn delete_stream(
        &self,
        keys: BoxStream<'static, StoreResult<Path>>,
    ) -> BoxStream<'static, StoreResult<Path>> {
        self.objects.delete_stream(keys)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        self.objects.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> StoreResult<ListResult> {
        self.objects.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, how: CopyOptions) -> StoreResult<()> {
        self.objects.copy_opts(from, to, how).await
    }
}

/// An open object with these bytes in a slow store, with memory for `own` chunks alone.
async fn slow(content: &[u8], read_ahead: u64, read_memory: u64) -> (Arc<Slow>, ObjectSource) {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("file://{}", dir.path().display());
    let mut config = Config::new(url, dir.path().join("index"));
    config.read_ahead = read_ahead;
    config.read_memory = Budget::new(read_memory);
    let mut store = Store::open(&config).unwrap();
    let slow = Arc::<Slow>::default();
    store.objects = slow.clone();
    let key = Path::from("file");
    slow.objects
        .put(&key, content.to_vec().into())
        .await
        .unwrap();
    let meta = slow.objects.head(&key).await.unwrap();
    let path = DsiPath::new(b"/file").unwrap();
    let source = ObjectSource::new(&Arc::new(store), "ann", &path, meta);
    (slow, source)
}

/// Reads the block at `from`, piece by piece, and compares it.
async fn read_block(source: &ObjectSource, content: &[u8], from: usize, len: usize) {
    let (mut at, end) = (from, content.len().min(from + len));
    while at < end {
        let read = source.lend(at as u64, (end - at) as u64).await.unwrap();
        assert!(
            !read.is_empty() && read == content[at..at + read.len()],
            "at {at}"
        );
        at += read.len();
    }
}

/// Connections of a transfer in MODE E: each reads the next block of this length.
async fn read_all(source: &ObjectSource, content: &[u8], readers: usize, from: usize) {
    const BLOCK: usize = 4 << 20;
    let next = &AtomicU64::new(from as u64);
    let reader = |_| async move {
        loop {
            let from = next.fetch_add(BLOCK as u64, Ordering::Relaxed);
            let from = usize::try_from(from).unwrap();
            if from >= content.len() {
                return;
            }
            read_block(source, content, from, BLOCK).await;
        }
    };
    futures_util::future::join_all((0..readers).map(reader)).await;
}

#[tokio::test(start_paused = true)]
async fn readers_without_room_wait_for_chunks_of_those_before_them() {
    let content = content((96 << 20) + 5);
    let chunks = (content.len() as u64).div_ceil(CHUNK);
    for (read_ahead, read_memory) in [
        (0, 0),
        (64 << 20, 0),
        (64 << 20, 2 * CHUNK),
        (2 * CHUNK, 1 << 30),
    ] {
        for readers in [1, 4, 8] {
            let (store, source) = slow(&content, read_ahead, read_memory).await;
            read_all(&source, &content, readers, 0).await;
            let gets = store.gets.load(Ordering::Relaxed);
            assert_eq!(
                gets, chunks,
                "{readers} readers, {read_ahead} ahead, memory {read_memory}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_whose_neighbour_stalls_goes_on_without_a_chunk_until_there_is_room() {
    let content = content(96 << 20);
    let (store, source) = slow(&content, 0, 0).await;
    let began = Instant::now();
    // A connection that stalls behind its first bytes has the only chunk.
    source.lend(0, 1).await.unwrap();
    read_block(&source, &content, CHUNK as usize, CHUNK as usize).await;
    let littles = CHUNK / LITTLE;
    assert_eq!(store.gets.load(Ordering::Relaxed), 1 + littles);
    assert!(
        began.elapsed() < 2 * STALL + Duration::from_secs(1),
        "each request waited"
    );
    // The connection goes on: its chunk makes room for the others.
    read_block(&source, &content, 1, CHUNK as usize - 1).await;
    read_all(&source, &content, 4, 2 * CHUNK as usize).await;
    let chunks = content.len() as u64 / CHUNK;
    assert_eq!(store.gets.load(Ordering::Relaxed), chunks - 1 + littles);
}

#[tokio::test(start_paused = true)]
async fn a_reader_beside_a_slow_one_waits_for_bounded_time() {
    let content = content(16 << 20);
    let (_store, source) = slow(&content, 0, 0).await;
    let (source, content) = (&source, &content);
    let drip = async {
        for at in 0..1000 {
            source.lend(at, 1).await.unwrap();
            tokio::time::sleep(STALL / 2).await;
        }
    };
    let began = Instant::now();
    let other = read_block(source, content, CHUNK as usize, CHUNK as usize);
    tokio::select! {
        biased;
        () = drip => panic!("the reader waits for a slow one"),
        () = other => {}
    }
    assert!(
        began.elapsed() < PATIENCE + 2 * STALL,
        "{:?}",
        began.elapsed()
    );
}

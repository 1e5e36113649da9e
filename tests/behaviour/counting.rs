//! Counts of the `count` layer for every kind of read and write.

use std::future::poll_fn;
use std::io::{IoSlice, Write as _};
use std::os::fd::AsFd as _;
use std::pin::Pin;

use tokio::io::{AsyncReadExt as _, AsyncWrite as _, AsyncWriteExt as _};
use xio_core::{
    BoxStream, Incoming as _, KernelTransfer, Listener as _, Passive as _, Pool, Stream as _,
    Target, Transport as _, copy_file,
};
use xio_count::Counts;
use xio_testkit::Random;

async fn pair(text: &str) -> (BoxStream, BoxStream) {
    let stack = crate::everything().stack(text).unwrap();
    let mut listener = stack.listen(&crate::loopback()).await.unwrap();
    let to = Target::from(listener.info().local.unwrap());
    let (near, far) = tokio::join!(stack.connect(&to), async {
        listener.accept().await.unwrap().open().await
    });
    (near.unwrap(), far.unwrap())
}

fn counts(stream: &BoxStream) -> Counts {
    stream
        .info()
        .get::<Counts>()
        .expect("the stack counts")
        .clone()
}

#[tokio::test]
async fn each_kind_of_write_is_counted_once() {
    for stack in ["tcp,count", "mem,count", "tcp,count,log,timeout:all=60"] {
        let (mut near, mut far) = pair(stack).await;
        let seen = counts(&near);
        near.write_all(b"12345").await.unwrap();
        assert_eq!((seen.written(), seen.writes()), (5, 1), "{stack}");
        let slices = [IoSlice::new(b"123"), IoSlice::new(b"4567")];
        let n = poll_fn(|cx| Pin::new(&mut near).poll_write_vectored(cx, &slices))
            .await
            .unwrap();
        assert_eq!((n, seen.written()), (7, 12), "{stack}");
        if near.kernel_transfers().send_file {
            let n = poll_fn(|cx| near.poll_kernel(cx, KernelTransfer::Head(b"ab"))).await;
            assert_eq!((n.unwrap(), seen.written()), (2, 14), "{stack}");
        } else {
            near.write_all(b"ab").await.unwrap();
        }
        near.shutdown().await.unwrap();
        let mut bytes = Vec::new();
        far.read_to_end(&mut bytes).await.unwrap();
        assert_eq!(bytes, b"123451234567ab", "{stack}");
        assert_eq!(counts(&far).read(), 14, "{stack}");
        drop(near);
        assert_eq!(seen.written(), 14, "the numbers outlive the handle");
    }
}

#[tokio::test]
async fn bytes_sent_from_files_are_counted_by_every_layer() {
    let (mut near, mut far) = pair("tcp,count,log,count").await;
    let info = near.info();
    let seen: Vec<Counts> = info.all::<Counts>().cloned().collect();
    assert_eq!(seen.len(), 2);
    let bytes = Random::new(1).bytes(2 << 20);
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&bytes).unwrap();
    let sending = async {
        let mut offset = 0;
        while offset < bytes.len() as u64 {
            let transfer = KernelTransfer::SendFile {
                file: file.as_fd(),
                offset,
                len: usize::MAX,
            };
            let n = poll_fn(|cx| near.poll_kernel(cx, transfer));
            offset += n.await.unwrap() as u64;
        }
        near.shutdown().await.unwrap();
    };
    let mut arrived = Vec::new();
    let ((), n) = tokio::join!(sending, far.read_to_end(&mut arrived));
    n.unwrap();
    assert!(arrived == bytes);
    for layer in seen {
        assert_eq!(layer.sent_from_files(), bytes.len() as u64);
        assert_eq!(layer.written(), bytes.len() as u64);
        assert!(
            layer.sends_from_files() >= 4,
            "one call moves at most half a megabyte"
        );
    }
}

#[tokio::test]
async fn copy_file_uses_send_file_where_possible() {
    let bytes = Random::new(2).bytes(1_000_000);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&bytes).unwrap();
    let source = xio_file::File::default();
    let target = Target::file(file.path().to_str().unwrap());
    let pool = Pool::new(64 * 1024, 2);
    for (stack, by_file) in [
        ("tcp,count", true),
        ("mem:chunk=7000,count", false),
        ("tcp,count,fault:short=1", false),
    ] {
        let (mut near, mut far) = pair(stack).await;
        let seen = counts(&near);
        let from = source.connect(&target).await.unwrap();
        let sending = async {
            let n = copy_file(&from, 100_000, 800_000, &mut near, &pool)
                .await
                .unwrap();
            assert_eq!(n, 800_000, "{stack}");
            // A range past the end is no error.
            let n = copy_file(&from, 900_000, u64::MAX, &mut near, &pool)
                .await
                .unwrap();
            assert_eq!(n, 100_000, "{stack}");
            near.shutdown().await.unwrap();
        };
        let mut arrived = Vec::new();
        let ((), n) = tokio::join!(sending, far.read_to_end(&mut arrived));
        n.unwrap();
        assert!(arrived == bytes[100_000..], "{stack}");
        assert_eq!(seen.sent_from_files() > 0, by_file, "{stack}");
        assert_eq!(seen.written(), 900_000, "{stack}");
        assert_eq!(pool.available(), 2, "{stack}");
    }
}

#[tokio::test]
async fn copy_returns_every_block_to_the_pool() {
    let (mut near, mut middle) = pair("mem:chunk=999;seed=5").await;
    let (mut onward, mut far) = pair("tcp,count").await;
    let bytes = Random::new(3).bytes(500_000);
    let pool = Pool::new(4096, 1);
    let sending = async {
        near.write_all(&bytes).await.unwrap();
        near.shutdown().await.unwrap();
    };
    let copying = async {
        let n = xio_core::copy(&mut middle, &mut onward, &pool)
            .await
            .unwrap();
        assert_eq!(n, 500_000);
        onward.shutdown().await.unwrap();
    };
    let mut arrived = Vec::new();
    let ((), (), n) = tokio::join!(sending, copying, far.read_to_end(&mut arrived));
    n.unwrap();
    assert!(arrived == bytes);
    assert_eq!(pool.available(), 1);
}

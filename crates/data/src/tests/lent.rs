//! A storage that lends its memory: its bytes leave without a copy into a block.

use bytes::{Bytes, BytesMut};
use ftp_wire::command::Mode;
use gridftp_dsi::{Error as StorageError, Source};
use tokio::time::timeout;
use xio_core::Pool;

use super::*;

/// A file that lends its memory, at most 10,000 bytes at a time.
struct Lending(Bytes);

impl Source for Lending {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    async fn read_at(&self, _: u64, _: BytesMut) -> Result<BytesMut, StorageError> {
        panic!("the bytes are copied");
    }

    fn lends(&self) -> bool {
        true
    }

    async fn lend(&self, offset: u64, len: u64) -> Result<Bytes, StorageError> {
        let from = (offset as usize).min(self.0.len());
        let end = self.0.len().min(from + len.min(10_000) as usize);
        Ok(self.0.slice(from..end))
    }
}

#[tokio::test]
async fn lent_memory_is_sent_without_a_block() {
    for (mode, streams) in [(Mode::Stream, 1), (Mode::Extended, 3)] {
        let pool = Pool::new(4096, 1);
        let (mut from, mut to) = (with_pool(pool.clone()), with_pool(Pool::new(4096, 4)));
        let address = to.listen(&tcp(), &here(), Peers::Any).await.unwrap();
        from.connect_to(tcp(), vec![address]);
        // Nobody else gets the only block.
        let _block = pool.get().await;
        let content = bytes(1_500_000);
        let sink = Kept::default();
        let plan = whole(mode, 1_500_000).parallelism(streams);
        let source = Lending(Bytes::from(content.clone()));
        let moving = move_file(&mut from, &mut to, &source, &plan, &sink);
        timeout(Duration::from_secs(60), moving)
            .await
            .expect("it waits for a block");
        assert!(sink.data() == content, "{mode:?}");
    }
}

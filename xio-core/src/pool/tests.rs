//! The pool: bounded, fair, and nothing held while waiting.

use std::future::Future;
use std::task::Waker;

use super::*;

fn now<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn blocks_are_bounded_aligned_and_reused() {
    let pool = Pool::new(10_000, 2);
    let mut first = pool.try_get().unwrap();
    assert_eq!(first.extend(&[7; 20_000]), 10_000);
    assert_eq!(first.as_ptr().align_offset(ALIGN), 0);
    let place = first.as_ptr();
    let second = pool.try_get().unwrap();
    assert!(pool.try_get().is_none());
    drop(first);
    let again = pool.try_get().unwrap();
    assert!(again.is_empty());
    assert_eq!(again.memory.as_ptr(), place);
    drop(second);
    assert_eq!(pool.available(), 1);
}

#[test]
fn waiting_is_fair() {
    let pool = Pool::new(16, 1);
    let held = pool.try_get().unwrap();
    let mut first = pin!(pool.get());
    let mut second = pin!(pool.get());
    assert!(now(first.as_mut()).is_pending());
    assert!(now(second.as_mut()).is_pending());
    drop(held);
    assert!(
        pool.try_get().is_none(),
        "a passer-by does not overtake the queue"
    );
    assert!(now(second.as_mut()).is_pending());
    let Poll::Ready(block) = now(first.as_mut()) else {
        panic!("the first in the queue is served");
    };
    drop(block);
    assert!(now(second.as_mut()).is_ready());
}

#[test]
fn bytes_give_the_block_back() {
    let pool = Pool::new(64, 1);
    let mut block = pool.try_get().unwrap();
    block.extend(b"payload");
    let bytes = Bytes::from(block);
    let clone = bytes.slice(3..);
    drop(bytes);
    assert_eq!(pool.available(), 0);
    assert_eq!(&clone[..], b"load");
    drop(clone);
    assert_eq!(pool.available(), 1);
}

#[test]
fn a_reader_that_waits_holds_no_block() {
    let pool = Pool::new(64, 1);
    let (mut near, mut far) = tokio::io::duplex(128);
    let mut reading = Box::pin(pool.read(&mut near, 5));
    assert!(now(reading.as_mut()).is_pending());
    assert_eq!(pool.available(), 1);

    let mut writing = pin!(tokio::io::AsyncWriteExt::write_all(&mut far, b"0123456789"));
    assert!(now(writing.as_mut()).is_ready());
    // The only block is held: the read waits for it, and takes no byte meanwhile.
    let other = pool.try_get().unwrap();
    assert!(now(reading.as_mut()).is_pending());
    drop(other);
    let Poll::Ready(Ok(block)) = now(reading.as_mut()) else {
        panic!("bytes and a block are there");
    };
    assert_eq!(&block[..], b"01234");
    drop(reading);
    drop(block);
    drop(far);
    for rest in [&b"56789"[..], b""] {
        let mut reading = pin!(pool.read(&mut near, 64));
        assert!(matches!(now(reading.as_mut()), Poll::Ready(Ok(block)) if &block[..] == rest));
    }
}

#[test]
fn lent_memory_comes_back_to_the_pool() {
    let pool = Pool::new(64, 1);
    let mut block = pool.try_get().unwrap();
    let mut lent = block.take();
    let place = lent.as_ptr();
    lent.extend_from_slice(b"abc");
    block.restore(lent);
    assert_eq!(&block[..], b"abc");
    drop(block);
    assert_eq!(pool.try_get().unwrap().memory.as_ptr(), place);
}

#[test]
fn a_share_holds_no_more_than_its_part() {
    let pool = Pool::new(64, 4);
    let share = pool.share(2);
    let clone = share.clone();
    let held = [share.try_get().unwrap(), clone.try_get().unwrap()];
    assert!(share.try_get().is_none());
    let mut waiting = pin!(share.get());
    assert!(now(waiting.as_mut()).is_pending());
    // A task that waits for its own limit takes nothing from others.
    assert_eq!(pool.available(), 2);
    let others = [pool.try_get().unwrap(), pool.share(9).try_get().unwrap()];
    drop(held);
    assert!(now(waiting.as_mut()).is_ready());
    drop(others);
}

#[test]
fn unused_memory_is_freed() {
    let pool = Pool::new(10_000, 3);
    let block = pool.try_get().unwrap();
    let second = pool.try_get().unwrap();
    assert_eq!(second.as_ptr().align_offset(ALIGN), 0);
    assert_eq!(second.as_ptr().addr() - block.as_ptr().addr(), 12_288);
    drop(second);
    for _ in 0..3 {
        pool.trim();
        assert_eq!(pool.stock().free.len(), 2, "one is held");
    }
    drop(block);
    pool.trim();
    assert_eq!(pool.stock().free.len(), 3, "it was just used");
    pool.trim();
    assert_eq!(pool.stock().free.len(), 0);
    let again = [(); 3].map(|()| pool.try_get().unwrap());
    assert!(pool.try_get().is_none());
    drop(again);
    assert_eq!(pool.available(), 3);
}

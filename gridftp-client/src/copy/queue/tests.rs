//! The order of the items, and the end of the work.

use super::*;

impl Queue {
    /// Items that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.state().waiting()
    }
}

fn file(name: &str) -> Item {
    Item::File(Box::new(FileJob::new(name.as_bytes().to_vec(), Vec::new())))
}

fn name(item: &Item) -> String {
    let Item::File(job) = item else {
        panic!("{item:?}")
    };
    String::from_utf8(job.from.clone()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_file_is_alone_until_another_is_found() {
    let queue = Queue::default();
    let producer = queue.producer();
    queue.push(file("a"));
    let taken = queue.next(|_| true).await.unwrap();
    assert!(!queue.has_one_file(), "more may be found");
    queue.push(file("b"));
    assert!(!queue.has_one_file());
    let other = queue.next(|_| true).await.unwrap();
    assert!(!queue.has_one_file(), "both are under way");
    taken.done(|_| ());
    drop(producer);
    assert!(queue.has_one_file());
    drop(other);
}

#[tokio::test]
async fn ends_when_all_is_done_and_no_producer_is_left() {
    let queue = Queue::default();
    let producer = queue.producer();
    queue.push(file("a"));
    let taken = queue.next(|_| true).await.unwrap();
    drop(producer);
    let waiter = tokio::spawn({
        let queue = queue.clone();
        async move { queue.next(|_| true).await.is_none() }
    });
    tokio::task::yield_now().await;
    assert!(!waiter.is_finished(), "the taken item may come back");
    assert!(taken.done(|_| queue.is_open()), "not before the account");
    assert!(waiter.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn all_is_found_when_no_directory_is_left() {
    let queue = Queue::default();
    let found = || tokio::time::timeout(Duration::from_secs(1), queue.all_found());
    let producer = queue.producer();
    queue.push(file("a"));
    assert!(found().await.is_err());
    let dir = crate::copy::job::DirJob::new(Vec::new(), Vec::new());
    queue.push(Item::Dir(Box::new(dir)));
    drop(producer);
    let dir = queue.next(|_| true).await.unwrap();
    assert!(found().await.is_err(), "it is still listed");
    dir.done(drop);
    let taken = queue.next(|_| true).await.unwrap();
    assert!(found().await.is_ok());
    taken.done(drop);
    assert!(found().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_item_comes_back_first() {
    let queue = Queue::default();
    queue.push(file("a"));
    queue.push(file("b"));
    drop(queue.next(|_| true).await.unwrap());
    assert_eq!(name(queue.next(|_| true).await.unwrap().item()), "a");
}

#[tokio::test(start_paused = true)]
async fn an_item_that_does_not_fit_stays() {
    let queue = Queue::default();
    queue.push(file("a"));
    assert!(queue.next(|_| false).await.is_none());
    assert!(queue.next_of(Kind::Files, |_| false).await.is_none());
    let taken = queue.next_of(Kind::Files, |_| true).await.unwrap();
    assert_eq!(taken.done(|item| name(&item)), "a");
    assert!(queue.next_of(Kind::Dirs, |_| true).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn closing_wakes_all_and_gives_back_open_items() {
    let queue = Queue::default();
    let producer = queue.producer();
    queue.push(file("a"));
    queue.push(file("b"));
    let taken = queue.next(|_| true).await.unwrap();
    let waiter = tokio::spawn({
        let queue = queue.clone();
        async move { queue.deeper_than(10).await }
    });
    let sleeper = tokio::spawn({
        let queue = queue.clone();
        async move {
            queue.sleep(Duration::from_secs(3600)).await;
            drop((taken, producer));
        }
    });
    tokio::task::yield_now().await;
    let left: Vec<String> = queue.close().await.iter().map(name).collect();
    assert_eq!(left, ["b", "a"]);
    assert!(!waiter.await.unwrap());
    sleeper.await.unwrap();
    assert!(queue.next(|_| true).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_tree_without_end_is_not_listed_further_while_files_wait() {
    let queue = Queue::default();
    let dir = |name: &str| {
        let job = crate::copy::job::DirJob::new(name.as_bytes().to_vec(), Vec::new());
        Item::Dir(Box::new(job))
    };
    queue.push(dir("a"));
    queue.push(dir("b"));
    let next = |kind| {
        let queue = queue.clone();
        async move { queue.next_of(kind, |_| true).await.unwrap() }
    };
    let latest = next(Kind::Any).await;
    assert!(matches!(latest.item(), Item::Dir(job) if job.from == b"b"));
    for n in 0..ENOUGH {
        queue.push(file(&n.to_string()));
    }
    assert_eq!(name(next(Kind::Any).await.item()), "0");
    drop(latest);
    let done = next(Kind::Any).await.done(|item| name(&item));
    assert_eq!(done, "0", "a returned item is the first again");
    assert!(matches!(next(Kind::Any).await.item(), Item::Dir(_)));
}

#[tokio::test]
async fn files_are_found_until_the_last_directory_is_listed() {
    let queue = Queue::default();
    let producer = queue.producer();
    let dir = crate::copy::job::DirJob::new(b"a".to_vec(), Vec::new());
    queue.push(Item::Dir(Box::new(dir)));
    queue.push(file("f"));
    drop(producer);
    let listing = queue.next(|_| true).await.unwrap();
    assert!(queue.finds());
    listing.done(drop);
    assert!(!queue.finds() && queue.has_files());
}

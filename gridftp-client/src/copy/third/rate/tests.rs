//! Shares of a bound, the session that keeps to it, and the changes that a server is told.

use ftp_proto::client::Settings;
use tokio::io::AsyncWriteExt as _;

use super::*;
use crate::client::scripted;
use crate::played;

/// A copy with this bound.
fn copy(limit: Option<RateLimit>) -> CopyState {
    let mut shared = CopyState::plain();
    shared.options.connect.rate_limit = limit;
    shared
}

fn rate(bytes: u64) -> Option<NonZero<u64>> {
    NonZero::new(bytes)
}

/// The lines that the source and the destination receive of a session of `shared`, of which these have
/// `SITE RATE` and answer so.
async fn begun(
    shared: CopyState,
    able: [bool; 2],
    reply: &str,
) -> ([Vec<String>; 2], Result<(), Stop>) {
    let replies = || vec![("SITE", reply.to_owned()), ("QUIT", "221 bye".to_owned())];
    let (mut source, one) = scripted::session(replies()).await;
    let (mut destination, other) = scripted::session(replies()).await;
    [source.abilities.rate, destination.abilities.rate] = able;
    let shared = Arc::new(shared);
    let client = async {
        let mut rated = Rated::of(&shared, &source, &destination);
        let mut done = begin(&mut rated).await.map(drop);
        if done.is_ok() {
            done = check(&shared, &source, &destination).map_err(Stop::Fatal);
        }
        tokio::join!(source.close(), destination.close());
        done
    };
    let (one, other, done) = tokio::join!(one, other, client);
    assert_eq!(*shared.sharers.0.borrow(), 0);
    ([one, other], done)
}

#[tokio::test(start_paused = true)]
async fn the_sender_keeps_to_the_bound_or_else_the_receiver() {
    let limit = || Some(RateLimit::new(Some(1000)));
    let told = &["SITE RATE 1000", "QUIT"][..];
    let quit = &["QUIT"][..];
    for (able, expected) in [
        ([true, true], [told, quit]),
        ([true, false], [told, quit]),
        ([false, true], [quit, told]),
    ] {
        let (lines, done) = begun(copy(limit()), able, "250 ok").await;
        assert!(done.is_ok(), "{done:?}");
        assert_eq!(lines, expected);
    }
    let (lines, done) = begun(copy(limit()), [false; 2], "250 ok").await;
    let Err(Stop::Fatal(error)) = done else {
        panic!("{done:?}")
    };
    assert!(error.to_string().contains("server:1"), "{error}");
    assert_eq!(error.fields().remedy, Some(RELAY));
    assert_eq!(lines, [quit; 2]);
}

#[tokio::test(start_paused = true)]
async fn a_polite_copy_goes_on_without_a_server_that_keeps_to_its_rate() {
    let polite = || copy(Some(RateLimit::of_polite_copy_alone()));
    let (lines, done) = begun(polite(), [false; 2], "250 ok").await;
    assert!(done.is_ok(), "{done:?}");
    assert_eq!(lines, [["QUIT"]; 2]);
    // Its connections can be slowed down later.
    let (lines, done) = begun(polite(), [true, false], "250 ok").await;
    assert!(done.is_ok(), "{done:?}");
    assert_eq!(lines, [&["SITE RATE off", "QUIT"][..], &["QUIT"]]);
    let (_, done) = begun(polite(), [true, false], "500 no").await;
    assert!(done.is_ok(), "{done:?}");
    let bound = copy(Some(RateLimit::new(None)));
    let (_, done) = begun(bound, [true, false], "500 no").await;
    assert!(matches!(done, Err(Stop::Fatal(_))), "{done:?}");
    let (lines, done) = begun(copy(None), [true; 2], "250 ok").await;
    assert!(done.is_ok() && lines == [["QUIT"]; 2], "{lines:?}");
}

/// The server is in the middle of a transfer: it replies at the end alone.
#[tokio::test(start_paused = true)]
async fn a_server_is_told_each_share_in_the_middle_of_a_transfer() {
    let limit = RateLimit::new(Some(1_000_000)).of_polite_copy();
    let shared = Arc::new(copy(Some(limit.clone())));
    let (control, mut lines, mut replies) = played::greeted(Settings::default()).await;
    let mut rated = Rated {
        shared: Arc::clone(&shared),
        limit: limit.clone(),
        control,
        told: None,
        unanswered: VecDeque::new(),
    };
    let first = async {
        let line = lines.next_line().await.unwrap().unwrap();
        replies.write_all(b"250 ok\r\n").await.unwrap();
        line
    };
    let (share, line) = tokio::join!(rated.begin(), first);
    let share = share.unwrap();
    assert_eq!(line, "SITE RATE 1000000");
    let server = async {
        let mut next = async || {
            let line = lines.next_line();
            let line = tokio::time::timeout(2 * LOOK, line).await;
            line.ok().and_then(|line| line.unwrap())
        };
        let others = [(); 3].map(|()| Share::of(&shared));
        assert_eq!(next().await.as_deref(), Some("SITE RATE 250000"));
        drop(others);
        assert_eq!(next().await.as_deref(), Some("SITE RATE 1000000"));
        limit.yield_to(Some(980_000));
        assert_eq!(next().await, None, "it is near enough");
        limit.yield_to(Some(70_000));
        assert_eq!(next().await.as_deref(), Some("SITE RATE 70000"));
        limit.yield_to(None);
        limit.set(None);
        assert_eq!(next().await.as_deref(), Some("SITE RATE off"));
        replies.write_all(&b"250 ok\r\n".repeat(4)).await.unwrap();
        assert_eq!(next().await, None);
    };
    tokio::select! {
        never = rated.keep() => match never {},
        () = server => {}
    }
    assert!(rated.unanswered.is_empty());
    drop(share);
    assert_eq!(*shared.sharers.0.borrow(), 0);
}

#[test]
fn the_changes_of_a_transfer_of_a_day_leave_room_for_commands() {
    let (mut now, mut told) = (Duration::ZERO, 0);
    let mut shares = [rate(1000), rate(500)].into_iter().cycle();
    let mut last = shares.next().flatten();
    while now < Duration::from_secs(86_400) {
        let next = shares.next().flatten();
        now += pause(last, next, told).max(Duration::from_millis(1));
        (last, told) = (next, told + 1);
    }
    assert!(told < 300, "{told}");
}

#[test]
fn less_is_told_at_once_and_more_after_a_second() {
    assert_eq!(pause(rate(1000), rate(500), 0), Duration::ZERO);
    assert_eq!(pause(None, rate(500), 0), Duration::ZERO);
    assert_eq!(pause(rate(500), rate(1000), 0), LOOK);
    assert_eq!(pause(rate(500), None, 0), LOOK);
    for (told, now, expected) in [
        (rate(1000), rate(1050), false),
        (rate(1000), rate(1051), true),
        (rate(1000), rate(949), true),
        (rate(10), rate(11), true),
        (None, rate(u64::MAX / 2), true),
        (None, None, false),
        (rate(5), None, true),
    ] {
        assert_eq!(differs(told, now), expected, "{told:?} {now:?}");
    }
}

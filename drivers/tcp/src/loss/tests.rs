//! Tests of `LossWatch` and `Arrival` over made-up counts of the kernel.

use super::*;

/// A round trip without a queue, in milliseconds.
fn clear(time: u64) -> Trip {
    let mut stats = PathStats::new();
    stats.round_trip = Some(Duration::from_millis(time));
    Trip::of(&stats).unwrap()
}

/// The half second in which a path of 10,000 packets in each, with these retransmitted by the end
/// of each, is found lossy.
fn lossy_after(trip: Trip, again: &[u64]) -> Option<usize> {
    let (mut judge, begun) = (Judge::default(), Instant::now());
    again.iter().enumerate().position(|(half, again)| {
        let at = half as u64;
        let now = begun + Duration::from_millis(at * 500);
        judge.look(now, trip, (at * 10_000, *again))
    })
}

/// The totals of a path that loses these packets in each half second.
fn each(lost: u64) -> Vec<u64> {
    (0..24).map(|half| half * lost).collect()
}

#[test]
fn a_long_path_with_rare_loss_in_each_second_is_lossy() {
    let far = clear(100);
    assert_eq!(lossy_after(far, &each(2)), Some(6));
    // Less than one in ten thousand.
    let rarer: Vec<u64> = (0..24).map(|half| half / 2).collect();
    assert_eq!(lossy_after(far, &rarer), None);
    // Periods of ten round trips.
    let farther = clear(300);
    assert_eq!(lossy_after(farther, &each(2)), Some(18));
    let near = clear(19);
    assert_eq!(lossy_after(near, &each(2)), None);
}

#[test]
fn heavy_loss_is_found_in_half_the_time() {
    let far = clear(100);
    assert_eq!(lossy_after(far, &each(10)), Some(3));
    assert_eq!(lossy_after(far, &each(9)), Some(6));
    // Periods of five round trips.
    let farther = clear(200);
    assert_eq!(lossy_after(farther, &each(10)), Some(6));
}

#[test]
fn a_full_queue_is_no_lossy_path() {
    let far = clear(100);
    // Once and again, also over the end of a period.
    let queue = [0, 50, 90, 90, 90, 90, 140, 190, 190, 190, 190, 190, 240];
    assert_eq!(lossy_after(far, &queue), None);
}

#[test]
fn a_path_whose_round_trip_is_half_as_long_again_has_a_queue() {
    let mut stats = counts(0, 0);
    let mut is_queued = |least| {
        stats.least_round_trip = Some(Duration::from_millis(least));
        Trip::of(&stats).unwrap().is_queued
    };
    assert_eq!([67, 66, 20].map(&mut is_queued), [false, true, true]);
    let queued = Trip {
        is_queued: true,
        ..clear(100)
    };
    assert_eq!(lossy_after(queued, &each(50)), None);
}

#[test]
fn the_loss_of_a_queue_does_not_count_and_does_not_end_the_count() {
    let (mut judge, begun) = (Judge::default(), Instant::now());
    let found = (0..8_u32).position(|half| {
        let trip = Trip {
            is_queued: half == 2,
            ..clear(100)
        };
        let packets = u64::from(half) * 1000;
        judge.look(begun + half * HEAVY.least, trip, (packets, packets / 100))
    });
    // One later than without it.
    assert_eq!(found, Some(4));
}

/// Whether a connection finds loss beside a queue, on a path that may have been found lossy before.
fn found_in_queue(is_found_before: bool) -> bool {
    let (peers, begun) = (Arc::<LossyPeers>::default(), Instant::now());
    let peer = IpAddr::from([10, 0, 0, 1]);
    if is_found_before {
        assert!(peers.is_known(peer, true, (begun, clear(100)), (0, 0)));
    }
    let mut watch = LossWatch::new("bbr".to_owned(), Some(peer), Arc::clone(&peers));
    // Behind the life of that finding.
    let later = begun + SHARED;
    (0..8_u32).any(|period| {
        let mut stats = counts(u64::from(period) * 100, u64::from(period));
        stats.least_round_trip = Some(Duration::from_millis(50));
        watch.is_lossy(later + period * Duration::from_millis(500), &stats)
    })
}

#[test]
fn a_queue_hides_loss_on_paths_only_that_never_were_lossy() {
    assert!(!found_in_queue(false));
    assert!(found_in_queue(true));
}

#[test]
fn the_time_of_an_idle_connection_does_not_count() {
    let (mut judge, begun) = (Judge::default(), Instant::now());
    for minute in 0..9 {
        let far = clear(100);
        let now = begun + Duration::from_secs(minute * 60);
        assert!(!judge.look(now, far, (minute * 100, minute)));
    }
}

#[test]
fn a_receiver_tells_of_its_path_as_long_as_it_is_asked() {
    let (arrival, begun) = (Arrival::default(), Instant::now());
    let is_lossy = |second, out_of_order| {
        let mut stats = PathStats::new();
        stats.round_trip = Some(Duration::from_millis(100));
        stats.received = Some(second * 10_000);
        stats.out_of_order = Some(out_of_order);
        arrival.is_lossy_at(begun + Duration::from_secs(second), &stats)
    };
    assert_eq!(
        [0, 1, 2].map(|second| is_lossy(second, second * 2)),
        [false; 3]
    );
    assert!(is_lossy(3, 6));
    // It stays so.
    assert!(is_lossy(4, 6) && is_lossy(9, 6));
}

#[test]
fn connections_to_a_peer_share_a_finding_of_one() {
    let peers = LossyPeers::default();
    let [one, other] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(IpAddr::from);
    let begun = Instant::now();
    let is_known = |peer: IpAddr, is_found, second| {
        let now = begun + Duration::from_secs(second);
        peers.is_known(peer, is_found, (now, clear(100)), (0, 0))
    };
    assert!(!is_known(one, false, 0));
    assert!(is_known(one, true, 1));
    assert!(is_known(one, false, 2));
    assert!(!is_known(other, false, 2));
    // It was found again.
    assert!(is_known(one, true, 50));
    assert!(is_known(one, false, 109));
    assert!(!is_known(one, false, 110));
    for host in 0..=u8::MAX {
        assert!(is_known([10, 0, 1, host].into(), true, 120));
    }
    assert_eq!(peers.0.lock().unwrap().len(), PEERS);
}

/// The counts of a long path.
fn counts(sent: u64, again: u64) -> PathStats {
    let mut stats = PathStats::new();
    stats.round_trip = Some(Duration::from_millis(100));
    (stats.sent, stats.retransmitted) = (Some(sent), Some(again));
    stats
}

/// The period in which one of `N` connections to a peer is found lossy, each of `rate` packets a second,
/// of which `again` says how many were sent again by a time in milliseconds. They look one behind the
/// other.
fn found_together<const N: usize>(rate: u64, again: impl Fn(u64, u64) -> u64) -> Option<u64> {
    let (peers, begun) = (Arc::<LossyPeers>::default(), Instant::now());
    let peer = Some([10, 0, 0, 1].into());
    let mut watches = [(); N].map(|()| LossWatch::new("bbr".to_owned(), peer, Arc::clone(&peers)));
    (0..120).find(|period| {
        let mut found = 0;
        for (at, watch) in (0_u64..).zip(&mut watches) {
            let time = period * 500 + at * 450 / N as u64;
            let stats = counts(time * rate / 1000, again(at, time));
            found += u32::from(watch.is_lossy(begun + Duration::from_millis(time), &stats));
        }
        found > 0
    })
}

#[test]
fn connections_to_a_peer_find_heavy_loss_together() {
    // Of each one packet in six periods is lost, one in 480.
    let again = |at, time| (time / 500 + at) / 6;
    assert_eq!(found_together::<5>(160, again), Some(6));
}

/// Of 16 connections of 400 packets a second, each loses one in so many.
fn rare(one_in: u64) -> Option<u64> {
    // Not at the same time, and never two one behind the other.
    let again = |at: u64, time: u64| (time * 2 / 5 + at * 7 % 16 * one_in / 16) / one_in;
    found_together::<16>(400, again)
}

#[test]
fn connections_to_a_peer_find_rare_loss_together() {
    assert_eq!(rare(1_500), Some(4));
    assert_eq!(rare(2_000), Some(5));
    // As of CUBIC at a short queue.
    assert_eq!(rare(7_000), None);
}

/// A period of all connections to a peer.
fn period(sent: u64, lost: u64, is_queued: bool) -> Period {
    Period {
        is_busy: true,
        is_queued,
        sent,
        lost,
        has_loss: false,
    }
}

#[test]
fn the_burst_of_a_full_queue_does_not_count_for_a_tally() {
    let mut tally = Tally::default();
    let mut add = |sent, lost, is_queued| {
        tally.add(&period(sent, lost, is_queued));
        tally.is_lossy()
    };
    // Nor the losses with a queue, or those of many packets.
    for (sent, lost, is_queued) in [
        (6_000, 3, false),
        (6_000, 3, false),
        (6_000, 3, false),
        (6_000, 24, false),
        (6_000, 3, false),
        (6_000, 3, false),
        (6_000, 20, true),
        (6_000, 3, false),
        (100_000, 4, false),
    ] {
        assert!(!add(sent, lost, is_queued));
    }
    // Behind 16 periods it begins anew.
    let later = (0..32).position(|_| add(6_000, 3, false));
    assert_eq!(later, Some(15));
}

#[test]
fn a_queue_that_is_full_every_few_seconds_is_no_lossy_path() {
    // Within two periods, and then not for three or more.
    for (sent, lost) in [
        (1_000, 4),
        (2_000, 4),
        (4_300, 4),
        (4_300, 21),
        (10_000, 50),
    ] {
        for clear in 3..12 {
            let mut tally = Tally::default();
            let is_lossy = (0..100).any(|at| {
                let lost = if at % (clear + 2) < 2 { lost } else { 0 };
                tally.add(&period(sent, lost, false));
                tally.is_lossy()
            });
            assert!(!is_lossy, "{lost} of {sent}, {clear}");
        }
    }
}

#[test]
fn a_full_queue_of_several_connections_is_no_lossy_path() {
    // Its packets are sent again for three round trips, and the last of them are told in the third
    // period.
    let again = |_, time: u64| time.saturating_sub(940).min(300) / 30;
    assert_eq!(found_together::<5>(160, again), None);
}

#[test]
fn peers_on_short_paths_are_not_in_the_list() {
    let peers = Arc::<LossyPeers>::default();
    let peer = Some([10, 0, 0, 1].into());
    let mut watch = LossWatch::new("bbr".to_owned(), peer, Arc::clone(&peers));
    let mut stats = counts(100, 1);
    stats.round_trip = Some(Duration::from_millis(19));
    assert!(!watch.is_lossy(Instant::now(), &stats));
    assert!(peers.0.lock().unwrap().is_empty());
    assert!(!watch.is_lossy(Instant::now(), &counts(200, 2)));
    assert_eq!(peers.0.lock().unwrap().len(), 1);
}

/// The second in which the second of two connections is found lossy, of which the first loses
/// packets in each second, and the other with these totals.
fn joins_after(peers: [[u8; 4]; 2], again: &[u64]) -> Option<usize> {
    let (known, begun) = (Arc::<LossyPeers>::default(), Instant::now());
    let watch =
        |peer: [u8; 4]| LossWatch::new("bbr".to_owned(), Some(peer.into()), Arc::clone(&known));
    let [mut first, mut second] = peers.map(watch);
    again.iter().enumerate().position(|(at, again)| {
        let (at, now) = (at as u64, begun + Duration::from_secs(at as u64));
        first.is_lossy(now, &counts(at * 1000, at));
        second.is_lossy(now, &counts(at * 1000, *again))
    })
}

#[test]
fn a_connection_with_some_loss_joins_the_finding_of_another() {
    let (one, other) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let rare = [0, 1, 1, 1, 1, 1, 1, 1];
    assert_eq!(joins_after([one, one], &rare), Some(3));
    assert_eq!(joins_after([one, other], &rare), None);
    // Behind the same address another path may begin.
    assert_eq!(joins_after([one, one], &[0; 8]), None);
}

#[test]
fn a_path_without_measurements_is_not_judged() {
    let mut watch = LossWatch::new("bbr".to_owned(), None, Arc::default());
    assert!(!watch.is_lossy(Instant::now(), &PathStats::new()));
    assert!(!Arrival::default().is_lossy(&PathStats::new()));
}

#[test]
fn the_kernel_is_asked_rarely_while_it_tells_no_round_trip() {
    let (mut judge, begun) = (Judge::default(), Instant::now());
    judge.look(begun, clear(100), (0, 0));
    let now = begun + Duration::from_secs(9);
    assert_eq!(judge.left(now, None), RARE.least);
}

#[tokio::test]
async fn a_lossy_connection_changes_its_congestion_control() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let socket = TcpStream::connect(listener.local_addr().unwrap()).await;
    let socket = socket.unwrap();
    let cc = || {
        let name = SockRef::from(&socket).tcp_congestion().unwrap();
        String::from_utf8_lossy(&name)
            .trim_end_matches('\0')
            .to_owned()
    };
    let before = cc();
    let other = if before == "reno" { "cubic" } else { "reno" };
    let watch = |name: &str| LossWatch::new(name.to_owned(), None, Arc::default());
    let mut watch_of_other = watch(other);
    // On loopback no packet is lost.
    assert_eq!(watch_of_other.wrote(&socket, STEP - 1), Path::Watched);
    assert_eq!(watch_of_other.wrote(&socket, STEP), Path::Watched);
    // The kernel is asked once a period.
    let due = watch_of_other.due.unwrap();
    assert!(due > Instant::now());
    assert_eq!(watch_of_other.wrote(&socket, STEP), Path::Watched);
    assert_eq!(watch_of_other.due, Some(due));
    assert_eq!(cc(), before);
    assert_eq!(watch_of_other.change(&socket), Path::Settled);
    assert_eq!(cc(), other);
    let unsent = SockRef::from(&socket).tcp_notsent_lowat().unwrap();
    assert_eq!(unsent, UNSENT);
    let absent = watch("no_such_name");
    assert_eq!(absent.change(&socket), Path::Lossy);
    assert_eq!(cc(), other);
    assert!(may_change_to(&before) && !may_change_to("no_such_name"));
}

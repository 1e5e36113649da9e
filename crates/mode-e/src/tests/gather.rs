//! Several connections: consistent and inconsistent numbers of marks.

use std::num::NonZero;

use super::*;

fn gather(begun: u32) -> Gather {
    let mut gather = Gather::new(limits());
    for _ in 0..begun {
        gather.opened().unwrap();
        gather.begun().unwrap();
    }
    gather
}

#[test]
fn complete_when_as_many_marks_as_announced_have_come_in_any_order() {
    for order in 0..3 {
        let mut gather = gather(2);
        for step in 0..3 {
            assert!(!gather.is_complete());
            if step == order {
                gather.eof(2).unwrap()
            } else {
                gather.eod().unwrap()
            }
        }
        assert!(gather.is_complete());
        assert_eq!((gather.eods(), gather.expected()), (2, Some(2)));
    }
}

#[test]
fn the_marks_of_several_senders_are_added() {
    let of = |senders| {
        let mut gather = Gather::new(limits()).with_senders(NonZero::new(senders).unwrap());
        for _ in 0..3 {
            gather.opened().unwrap();
            gather.begun().unwrap();
        }
        gather
    };
    let mut g = of(2);
    g.eof(1).unwrap();
    for _ in 0..3 {
        g.eod().unwrap();
        assert!(!g.is_complete(), "the other sender is silent");
    }
    g.eof(2).unwrap();
    assert!(g.is_complete());
    assert_eq!(g.expected(), Some(3));
    let contradiction = GatherError::Contradiction {
        first: 3,
        second: 5,
    };
    assert_eq!(g.eof(2), Err(contradiction));

    let mut g = of(2);
    g.eof(1).unwrap();
    let low = GatherError::CountTooLow {
        announced: 2,
        connections: 3,
    };
    g.eod().unwrap();
    g.eod().unwrap();
    assert_eq!(g.eof(1), Err(low));
    let absurd = |announced| {
        let limit = limits().max_connections;
        GatherError::AbsurdCount { announced, limit }
    };
    let mut g = of(2);
    assert_eq!(g.eof(0), Err(absurd(0)));
    g.eof(1).unwrap();
    assert_eq!(g.eof(u64::MAX), Err(absurd(u64::MAX)));
    assert_eq!(g.eof(0), Err(absurd(1)));
}

#[test]
fn inconsistent_numbers_of_marks_are_errors() {
    let mut g = gather(2);
    g.eod().unwrap();
    g.eod().unwrap();
    assert_eq!(
        g.eof(1),
        Err(GatherError::CountTooLow {
            announced: 1,
            connections: 2
        })
    );

    let mut g = gather(1);
    g.eof(1).unwrap();
    g.eod().unwrap();
    assert_eq!(
        g.eod(),
        Err(GatherError::CountTooLow {
            announced: 1,
            connections: 2
        })
    );

    // The count is too low while another connection is in the middle of its blocks.
    let mut g = gather(2);
    g.eof(1).unwrap();
    assert_eq!(
        g.eod(),
        Err(GatherError::CountTooLow {
            announced: 1,
            connections: 2
        })
    );

    // The count is too low for a connection that begins afterwards.
    let mut g = gather(1);
    g.eof(1).unwrap();
    g.eod().unwrap();
    assert_eq!(
        g.begun(),
        Err(GatherError::CountTooLow {
            announced: 1,
            connections: 2
        })
    );

    let mut g = gather(2);
    g.eof(2).unwrap();
    g.eof(2).unwrap();
    assert_eq!(
        g.eof(3),
        Err(GatherError::Contradiction {
            first: 2,
            second: 3
        })
    );
    assert_eq!(
        g.eof(0),
        Err(GatherError::AbsurdCount {
            announced: 0,
            limit: 8
        })
    );
    assert_eq!(
        g.eof(1 << 32),
        Err(GatherError::AbsurdCount {
            announced: 1 << 32,
            limit: 8
        })
    );
}

#[test]
fn an_announced_count_that_is_too_high_ends_with_the_last_connection() {
    let mut g = gather(2);
    g.eof(3).unwrap();
    g.eod().unwrap();
    g.eod().unwrap();
    g.closed().unwrap();
    assert_eq!(
        g.closed(),
        Err(GatherError::Short {
            marks: 2,
            announced: Some(3)
        })
    );

    let mut g = gather(1);
    g.eod().unwrap();
    assert_eq!(
        g.closed(),
        Err(GatherError::Short {
            marks: 1,
            announced: None
        })
    );

    let mut g = gather(1);
    g.eof(1).unwrap();
    g.eod().unwrap();
    assert_eq!(g.closed(), Ok(()));
}

#[test]
fn a_connection_without_a_header_harms_nothing() {
    let mut g = Gather::new(limits());
    g.opened().unwrap();
    g.closed().unwrap();
    g.opened().unwrap();
    g.begun().unwrap();
    g.eof(1).unwrap();
    g.eod().unwrap();
    assert!(g.is_complete());
}

#[test]
fn connections_and_pieces_are_bounded() {
    let mut g = gather(8);
    assert_eq!(
        g.opened(),
        Err(GatherError::TooManyConnections { limit: 8 })
    );
    assert_eq!(g.begun(), Err(GatherError::TooManyConnections { limit: 8 }));
    let mut g = Gather::new(limits().with_max_ranges(3));
    for i in 0..3 {
        g.record(i * 10, 5).unwrap();
    }
    assert_eq!(
        g.record(100, 5),
        Err(GatherError::TooManyRanges { limit: 3 })
    );
}

#[test]
fn ranges_are_returned_once_as_new_and_always_as_received() {
    let mut g = gather(1);
    g.record(0, 10).unwrap();
    g.record(20, 5).unwrap();
    g.record(7, 0).unwrap();
    assert_eq!(g.take_new().to_string(), "0-10,20-25");
    g.record(10, 10).unwrap();
    g.record(0, 4).unwrap();
    assert_eq!(g.take_new().to_string(), "0-4,10-20");
    assert!(g.take_new().is_empty());
    assert_eq!((g.received().to_string().as_str(), g.bytes()), ("0-25", 29));
}

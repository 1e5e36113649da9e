//! Connections by the mode and the round trip.

use super::*;

#[test]
fn in_mode_s_connections_grow_with_the_round_trip() {
    let most = |ms| worth(Mode::Stream, Duration::from_millis(ms), 4).0;
    assert_eq!([0, 6, 20, 50, 2000].map(most), [4, 4, 13, MOST, MOST]);
}

#[test]
fn in_mode_e_four_connections_hide_any_round_trip() {
    let most = |ms| worth(Mode::Extended, Duration::from_millis(ms), 4).0;
    assert_eq!([2, 50, 2000].map(most), [4, 4, 4]);
}

//! The waits of one transfer, as its watch has measured them.

use ftp_wire::waits::Waits;
use gridftp_data::Watch;

/// Where the time of a transfer has gone so far.
pub(crate) fn waits_of(watch: &Watch) -> Waits {
    let mut waits = Waits::default();
    (waits.moving, waits.storage) = watch.times();
    waits.connections = watch.carrying();
    if let Some(path) = watch.path() {
        waits.busy = path.busy.unwrap_or_default();
        waits.receiver_full = path.receiver_full.unwrap_or_default();
        waits.buffer_full = path.buffer_full.unwrap_or_default();
        waits.round_trip = path.round_trip.unwrap_or_default();
        waits.sent = path.sent.unwrap_or_default();
        waits.retransmitted = path.retransmitted.unwrap_or_default();
        waits.is_lossy = path.is_lossy;
    }
    waits
}

//! The waits of one transfer, as its watch has measured them.

use ftp_wire::waits::Waits;
use gridftp_data::Watch;

/// Least payload in bytes of a connection, for its idle time to count: one with less waits for the
/// others most of the time.
const MANY: u64 = 4 << 20;

/// Where the time of a transfer has gone so far.
pub(crate) fn waits_of(watch: &Watch) -> Waits {
    let (mut waits, times) = (Waits::default(), watch.times());
    (waits.moving, waits.storage, waits.digests) = (times.moving, times.storage, times.digests);
    waits.connections = watch.carrying();
    if let Some(path) = watch.path() {
        waits.busy = path.busy.unwrap_or_default();
        waits.receiver_full = path.receiver_full.unwrap_or_default();
        waits.buffer_full = path.buffer_full.unwrap_or_default();
        waits.round_trip = path.round_trip.unwrap_or_default();
        waits.sent = path.sent.unwrap_or_default();
        waits.retransmitted = path.retransmitted.unwrap_or_default();
        waits.is_lossy = path.is_lossy;
        if path.busy.is_some() {
            let counted = u32::try_from(watch.bytes() / MANY).unwrap_or(u32::MAX);
            let counted = watch.most_carrying().min(counted).max(1);
            let rest = times.moving.saturating_sub(times.storage + times.digests);
            waits.unready = rest.saturating_sub(waits.busy / counted);
        }
    }
    waits
}

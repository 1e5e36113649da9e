//! Address lists and passive replies are bounded and round-trip.

use ftp_wire::addr::{self, Passive};
use ftp_wire::reply::Reply;

/// `data` is an address list and the text of a reply.
pub(crate) fn check(data: &[u8]) {
    if let Ok(list) = addr::parse_list(data) {
        assert!((1..=addr::MAX_ADDRESSES).contains(&list.len()));
        assert_eq!(
            addr::parse_list(addr::list_text(&list).as_bytes()).as_ref(),
            Ok(&list)
        );
        for extended in [false, true] {
            let reply = addr::spas_reply(&list, extended, false);
            assert_eq!(
                Passive::from_reply(&reply),
                Ok(Passive::Addrs(list.clone()))
            );
        }
    }
    for reply in [Reply::of::<227>(data), Reply::of::<229>(data)] {
        if let Ok(passive) = Passive::from_reply(&reply) {
            let addrs = passive.resolve([192, 0, 2, 1].into());
            assert!(
                addrs
                    .iter()
                    .all(|addr| !addr.ip().is_unspecified() && addr.port() != 0)
            );
        }
    }
}

//! RFC 2228: security extensions, of which this server has none to offer.

mod section_3;

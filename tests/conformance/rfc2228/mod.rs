//! RFC 2228: security extensions, which this server does not support yet.

mod section_3;

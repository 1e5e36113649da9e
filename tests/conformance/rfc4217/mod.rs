//! RFC 4217: FTP over TLS, which this server does not have yet.

mod section_4;

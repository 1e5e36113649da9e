//! RFC 4217: FTP over TLS, which this server does not support yet.

mod section_4;

//! GridFTP server: daemon and library.

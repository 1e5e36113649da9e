//! A file as a transport.

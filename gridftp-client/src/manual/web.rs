//! The files of web servers: redirections, accounts, parts, digests.
//!
//! An `http://` or `https://` URL is a source of a copy, one file for each: HTTP has no listings. It is
//! no destination, and has no [`Client`]. `HEAD` tells size and time, or `GET` where the server takes no
//! `HEAD`; the bytes come by one `GET` over HTTP/1.1. Path and query are sent as the URL has them.
//!
//! - Up to five redirections are followed, none from TLS to clear text. User and password of the URL
//!   go to its own scheme, host and port only, as `Basic`, and not in clear text over a network unless
//!   [`Security::None`](crate::options::Security::None) says so; the same server alone may ask for
//!   [`ConnectOptions::identity`]. A proxy of the Grid is not shown.
//!   Servers are verified by [`ConnectOptions::roots`], also behind a
//!   proxy of [`ConnectOptions::proxies`], by TLS through it.
//! - A version of a file is its size, its time and its strong entity tag. A copy to this machine that
//!   broke off goes on while they are the same: in the same run by the tag, or by a time that was a
//!   minute old when it was told; in a later run by the tag, or by a time that is an hour old, with the
//!   last stored bytes compared. Without them, or without parts, it begins anew.
//! - A copy to a server is stored as standard input is, and a broken connection to the web server is
//!   made again behind the last byte; if the destination fails, the file begins anew. One to standard
//!   output goes on in the same way, and does not begin anew.
//! - A body that ends before its length or its last chunk is a failure. One with neither counts as
//!   whole behind the end mark of TLS, or if it has the server's digest.
//! - Stored bytes are compared with a digest in `Repr-Digest` (RFC 9530) or `Digest` (RFC 3230), of
//!   SHA-256, SHA-512, MD5 or Adler-32. Without one size and framing have to do, which a warning tells,
//!   and a [`Verify`] that demands one is a failure. A server that receives the file is
//!   compared with the bytes that passed as well.
//! - Bytes are asked for without a content coding. Coded ones are refused, unless the name of the file
//!   tells the coding, as `x.tar.gz` does: they would be another file.
//! - The statuses 408, 425, 429, 500, 502, 503 and 504 are tried again, after the pause of
//!   `Retry-After`, in seconds or up to a date, and after two minutes at most.
//!
//! [`Client`]: crate::Client
//! [`ConnectOptions::identity`]: crate::options::ConnectOptions::identity
//! [`ConnectOptions::proxies`]: field@crate::options::ConnectOptions::proxies
//! [`ConnectOptions::roots`]: crate::options::ConnectOptions::roots
//! [`Verify`]: crate::options::Verify

//! What the server trusts, and what it does about those it does not.
//!
//! This release speaks clear FTP: names, passwords and data can be read by whoever sees the network. Use it where the
//! network is trusted, or for public data.
//!
//! - **Nobody gets in by default.** `--anonymous` and `--users` open the door.
//! - **Logins.** A refused login is answered after `--login-delay` seconds, counted from the attempt, whatever the
//!   reason; for an unknown name the same work is done as for a known one. After `--login-attempts` refusals in a row,
//!   that name is locked out from that network (IPv4 /24, IPv6 /64) for `--lockout` seconds, the right password
//!   included.
//! - **Strangers.** Who does not log in within `--login-timeout` seconds is disconnected. When more than
//!   `--max-unauthenticated` connections wait to log in, one of them picked at random is dropped for each new one:
//!   a flood of idle connections does not keep users out.
//! - **The tree.** Paths are resolved beneath the root by the kernel: neither `..` nor a symbolic link nor a link of
//!   `/proc` leads out of it, at no moment. FIFOs, devices and sockets are refused. After `SITE CHROOT` or `SITE RESTRICT`
//!   a session follows no symbolic link at all, and makes none.
//! - **Data connections.** A data port serves only the host of the control connection, and data is sent only there; a
//!   stranger who connects first is dropped and the client is still served. Transfers between two servers need other
//!   hosts: `--third-party` says who may have them (users with a password, by default). Such a user's data port serves
//!   whoever connects, since nothing tells the other server from a stranger on a clear channel: say `--third-party off`
//!   where that is not needed. Data never goes to a port below 1024.
//! - **Uploads.** A final name shows a whole file or nothing: data goes to a temporary name in the same directory, and
//!   is renamed when all of it has come. What a failed upload left is kept for a restart, under a name that
//!   is not listed, until `--partial-expiry` hours have passed or `SITE DELHELD` removes it; where the disk had no room for
//!   it, nothing is kept. `APPE` and `ESTO`, and all uploads with `--in-place`, write to the file itself: one
//!   that has lost its name by the end is an error, and no two of them overwrite what the other appends or cuts off.

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
//! - **Strangers.** Who does not log in within `--login-timeout` seconds is disconnected; so is, at once, who sends a
//!   hundred commands without a login. Connections that have not logged in have `--max-unauthenticated` places of
//!   their own, apart from the `--max-sessions` of users. When all of them are taken, one of the older ones, picked at
//!   random, goes for each new one, and is told so with `421`: a flood of idle connections does not keep users out.
//!   One address (IPv6: one /64) has `--max-per-address` of these places, a quarter of them by default; beyond that
//!   its own older connections go. Many users behind one address translation share this bound while they log in, and
//!   only then: raise it where more than that begin at the same moment. Unless the option is given, connections from
//!   this host itself have no such bound, since a tunnel or a proxy on it stands for many clients.
//! - **Passwords that wait.** As many passwords are hashed at a time as there are cores, in memory that is allocated
//!   once for each core and given back when none waits; the addresses that wait are served in turn. While its password
//!   waits or is hashed, a connection holds a user's place if one is free and does not go for another one. Hanging up
//!   changes nothing: the hash still counts against that bound, and a wrong password as a failure. A password has at
//!   most 1024 bytes. The server overwrites passwords in its memory when it has looked at them.
//! - **The tree.** Paths are resolved beneath the root by the kernel: neither `..` nor a symbolic link nor a link of
//!   `/proc` leads out of it, at no moment. FIFOs, devices and sockets are refused. After `SITE CHROOT` or `SITE RESTRICT`
//!   a session follows no symbolic link at all, and makes none.
//! - **Data connections.** A data port serves only the host of the control connection, and data is sent only there; a
//!   stranger who connects first is dropped and the client is still served. Transfers between two servers need other
//!   hosts: `--third-party users` lets those have them who logged in with a password, `all` anonymous users too; by
//!   default nobody may. Such a user's data port serves whoever connects, since nothing tells the other server from a
//!   stranger on a clear channel. Data never goes to a port below 1024, and to loopback and link-local addresses only
//!   for clients that are there: services that trust this host or its link cannot be reached through it.
//! - **Uploads.** A final name shows a whole file or nothing: data goes to a temporary name in the same directory, and
//!   is renamed when all of it has come. What a failed upload left is kept for a restart, under a name that
//!   is not listed, until `--partial-expiry` hours have passed or `SITE DELHELD` removes it; where the disk had no room for
//!   it, nothing is kept. `APPE` and `ESTO`, and all uploads with `--in-place`, write to the file itself: one
//!   that has lost its name by the end is an error, and no two of them overwrite what the other appends or cuts off.

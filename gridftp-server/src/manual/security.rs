//! Trust: logins, floods, the exported tree, data connections, and the state of uploads.
//!
//! This release speaks clear FTP: anyone who can see the network reads names, passwords and data.
//! Use it on a trusted network, or for public data.
//!
//! - **No login by default.** `--anonymous` and `--users` allow logins.
//! - **Logins.** A refused login is answered `--login-delay` seconds after the attempt, whatever
//!   the reason; an unknown name costs the same work as a known one. After `--login-attempts`
//!   refusals in a row, that name is locked out from that network (IPv4 /24, IPv6 /64) for
//!   `--lockout` seconds, even with the right password.
//! - **Unauthenticated connections.** A client that does not log in within `--login-timeout`
//!   seconds is disconnected, and so is one that sends a hundred commands without a login.
//!   Connections without a login have a limit of their own, `--max-unauthenticated`, apart from the
//!   `--max-sessions` of users. At this limit each new connection evicts an older one, picked at
//!   random, with `421`: a flood of idle connections does not keep users out. One address (IPv6:
//!   one /64) may have `--max-per-address` of these connections, a quarter of them by default, and
//!   then evicts its own older ones. Many users behind one address translation share this limit
//!   while they log in, and only then: raise it where more than that log in at the same moment.
//!   Connections from this host have no such limit unless the option is given, since a tunnel or a
//!   proxy on it carries many clients.
//! - **Password hashing.** At most one password per core is hashed at a time; waiting addresses are
//!   served in turn. A turn's memory passes to the next one, and returns to the system when no
//!   password waits. While its password waits or is hashed, a connection reserves a session if one
//!   is free, and is not evicted then. Hanging up changes nothing: the hash still counts against
//!   the bound, and a wrong password as a failure. A password has at most 1024 bytes. The server
//!   overwrites passwords in its memory after the check.
//! - **The tree.** The kernel resolves paths beneath the root: neither `..` nor a symbolic link nor
//!   a link of `/proc` leads out of it at any moment. FIFOs, devices and sockets are refused. After
//!   `SITE CHROOT` or `SITE RESTRICT` a session follows no symbolic link at all, and makes none.
//! - **Data connections.** A data port serves the host of the control connection only, and data is
//!   sent only to that host; connections from other hosts are dropped, and the client is still
//!   served. Transfers between two servers need other hosts: `--third-party users` allows them to
//!   users with a password, `all` to anonymous users too; the default is neither. The data port of
//!   such a user serves any host that connects, since a clear channel has nothing to identify the
//!   other server by. Data never goes to a port below 1024. It goes to loopback and link-local
//!   addresses only for clients on this host or link, so that services that trust them cannot be
//!   reached through the server.
//! - **Uploads.** A final name shows a whole file or nothing: the data goes to a hidden file in the
//!   same directory, or for a small file of known size to one without a name, which gets the final
//!   name when all data has arrived. This holds for the death of the server at any moment. For a
//!   crash of the machine or a loss of power it holds with `--sync-writes` only: without it, the
//!   name may reach the disk before the data. The rest of a failed upload is kept for a restart,
//!   under a name that is not listed, until `--partial-expiry` hours have passed or `SITE DELHELD`
//!   removes it; where the disk is full, nothing is kept. `APPE` and `ESTO`, and all uploads with
//!   `--in-place`, write to the file itself: an upload whose file has lost its name by the end is
//!   an error, and no two of them overwrite each other's appended or truncated bytes.

//! Trust: logins, floods, the exported tree, data connections, and the state of uploads.
//!
//! A clear channel can be read by anyone who can see the network: names, passwords and data. With a
//! certificate the server speaks TLS 1.2 and 1.3.
//!
//! # TLS
//!
//! ```text
//! gridftp-server --root /srv/data --users /etc/gridftp/users \
//!     --tls-cert /etc/gridftp/cert.pem --tls-key /etc/gridftp/key.pem
//! ```
//!
//! The certificate file holds the server's certificate and then its chain; the key may stand in the
//! same file. Clients protect the control channel by `AUTH TLS` on the usual port (`ftpes://`, or
//! `curl --ssl-reqd ftp://`), and data connections by `PBSZ 0` and `PROT P`. `--tls-port 990` opens
//! a second port for clients that begin with TLS at once (`ftps://`). After SIGHUP new sessions use
//! the renewed files; a mistake in them changes nothing, and the log names it. `CCC` is refused: a
//! protected channel stays so. A client that asks for another application protocol than `ftp` (ALPN),
//! or for a host that the certificate does not name (SNI), was led astray and is refused.
//!
//! On data connections the server is the server of TLS whichever end connects. A client proves that
//! a data connection is its own by resuming the TLS session of its control connection; no other
//! connection knows this session. Clients such as Python's `ftplib` cannot resume, and `curl` with
//! TLS 1.3 runs out of tickets after the first of several uploads. By default
//! (`--tls-session-reuse optional`) such a connection is known by its host, as on a clear channel,
//! and the first one gives way to one that resumes within 0.3 s and four round trips. A connection
//! of another host must resume, and so must one of a client that has shown that it can: one that has
//! resumed a session of TLS 1.2 or used one twice, and with TLS 1.3 one that holds a ticket for sure,
//! since it has resumed and then read more data connections than it has used tickets. An upload
//! behind another upload is therefore known by the host alone with `curl`. With `required` every
//! data connection must. A refused connection does not take the place of the client's own; where
//! none follows within three seconds, the transfer is answered `425` with the reason. An upload that
//! ends without the end mark of TLS is not published.
//!
//! With `--tls-client-ca` clients are asked for a certificate of these authorities, and may have
//! none. `--tls-map` names the users that a certificate logs in without a password (`USER` is
//! answered `232`); their accounts stand in the users file, with `*` for the hash where no password
//! shall do:
//!
//! ```text
//! "/O=Example/CN=Ann Example" ann
//! email:bob@example.org bob,operator
//! ```
//!
//! A subject with a value such as `Org/CN=Ann` reads as another one, and matches no line.
//!
//! # Demands on both channels
//!
//! | Login | Control channel | Data connections | Options |
//! | --- | --- | --- | --- |
//! | with a password, from this host | clear | clear | `require-control`, `require-data` |
//! | with a password, from a network of `allow-clear-passwords` | clear | clear | `require-data` |
//! | with a password, from elsewhere | private | clear | `require-control`, `require-data` |
//! | by certificate (`--tls-map`) | private | clear | `require-data` |
//! | by Grid security | private | clear, authenticated (`DCAU A`) | `require-data` |
//! | anonymous | clear | clear | `require-anonymous-control`, `require-anonymous-data` |
//! | any, from a network of `require-from` | as it says | as it says | `require-from` |
//! | a user of `require-user` | as it says, or more | as it says, or more | `require-user` |
//! | over ssh (`--stdio`) | that of ssh | clear | none |
//!
//! The table has the defaults; each option takes `clear`, `integrity` or `private` and then holds
//! for every host, this one included. `require-from` has a list of networks with the demands on
//! every login from there, in place of all other options; the first network that has the client's
//! address counts. This leaves one laboratory in clear text and protects all others:
//!
//! ```toml
//! require-from = ["192.0.2.0/24=clear", "0.0.0.0/0=private/integrity", "::/0=private/integrity"]
//! ```
//!
//! `require-user` demands more of some users, whatever the network: `["alice=private"]`. The level
//! of the data connections follows the slash; a single level holds for both channels. A login on a
//! channel that is too weak is answered `534` at `USER`, before the password is sent; the reply
//! names the remedy. A transfer whose data would be too weakly protected is answered `521`,
//! or `534` under Grid security, and a `PROT` below the demand `534`.
//!
//! # Bounds and rules
//!
//! - **No login by default.** `--anonymous` and `--users` allow logins.
//! - **Logins.** A refused login is answered `--login-delay` seconds after the attempt, whatever
//!   the reason; an unknown name costs the same work as a known one. After `--login-attempts`
//!   refusals in a row, that name is locked out from that network (IPv4 /24, IPv6 /64) for
//!   `--lockout` seconds, even with the right password.
//! - **Unauthenticated connections.** A client that does not log in within `--login-timeout`
//!   seconds is disconnected, and so is one that sends a hundred commands without a login.
//!   Connections without a login have a limit of their own, `--max-unauthenticated`, apart from the
//!   `--max-sessions` of users. At this limit each new connection evicts an older one with `421`:
//!   the oldest one of the address (IPv6: the /64) that has most of them, and where several have
//!   equally many, of one of these, picked at random. So a flood of idle connections does not keep
//!   users out, whether it comes from one address or from thousands. One address may have
//!   `--max-per-address` of these connections, a quarter of them by default, and then evicts its own
//!   oldest one. Many users behind one address translation share this limit while they log in, and
//!   only then: raise it where more than that log in at the same moment.
//!   Connections from this host have no such limit unless the option is given, since a tunnel or a
//!   proxy on it carries many clients.
//! - **Password hashing.** At most one password per core is hashed at a time; waiting addresses are
//!   served in turn. A turn's memory passes to the next one, and returns to the system when no
//!   password waits. While its password waits or is hashed, a connection reserves a session if one
//!   is free, and is not evicted then. Hanging up changes nothing: the hash still counts against
//!   the bound, and a wrong password as a failure. A password has at most 1024 bytes. The server
//!   overwrites passwords in its memory after the check, also those received by TLS.
//! - **Keys.** Private keys are overwritten when they are dropped, and printed nowhere. So is the text
//!   from which they are read, in PEM files and in `DCSC`, whether it is accepted or refused. Of the
//!   keys of a cluster's members and of its authority, and of the credentials that a front end sends
//!   to its nodes, copies may stay in freed memory. Neither program leaves a core dump (a soft
//!   `RLIMIT_CORE` of 0, which `prlimit --core` raises again).
//! - **The tree.** The kernel resolves paths beneath the root: neither `..` nor a symbolic link nor
//!   a link of `/proc` leads out of it at any moment. FIFOs, devices and sockets are refused. After
//!   `SITE CHROOT` or `SITE RESTRICT` a session follows no symbolic link at all, and makes none.
//! - **Handshakes.** A connection in a handshake counts as one without a login: their number is
//!   bounded as above, and the time of the handshake is part of the time for the login. The work of
//!   handshakes, checks of certificates included, runs beside the sessions, one handshake a core at
//!   a time, so that a flood of them does not hold up transfers. Bytes that
//!   arrive in clear behind `AUTH` end the session, so that a command injected there never runs.
//!   A data port runs 32 handshakes of the client's host at a time, and 64 of other hosts; at these
//!   bounds the oldest gives way once it is three seconds old, so that strangers that connect and
//!   say nothing keep no client out.
//! - **Data connections.** A clear data port serves the host of the control connection only, and
//!   data is sent only to that host; connections from other hosts are dropped, and the client is
//!   still served; where its transfer fails, the reply names the first three of these hosts.
//!   Transfers between two servers need other hosts: `--third-party users` allows them to users with
//!   a password, `anonymous` to anonymous users too, and a list of networks
//!   (`192.0.2.0/24,2001:db8::/32`) to everybody with hosts of these networks; the default is
//!   `off`. The data port then serves any such host that connects, since a clear channel has
//!   nothing to identify the other server by. For users with a password or a certificate,
//!   authenticated data connections (`PROT P` with the session of the control connection, `DCAU A`
//!   or `S` with their own credential) are always allowed, since a stranger cannot pass. The host's
//!   own credential, which stands in for users who delegate none, is for their own hosts only. Data
//!   never goes to a port below 1024. It goes to loopback and link-local addresses only for clients
//!   on this host or link, so that services that trust them cannot be reached through the server.
//! - **Uploads.** A final name shows a whole file or nothing: the data goes to a hidden file in the
//!   same directory, or for a small file of known size to one without a name, which gets the final
//!   name when all data has arrived. This holds for the death of the server at any moment. For a
//!   crash of the machine or a loss of power it holds with `--sync-writes` only, the default of front
//!   ends and nodes: without it, the name may reach the disk before the data, and the record of an
//!   upload that was cut off is valid until the machine restarts. Large uploads go on after that all
//!   the same: whenever 64 MiB of one are not on the disk, a sync begins in the background, one at a
//!   time for each upload and 16 in all, and a record of its own names the synced bytes. Sent
//!   again are these 64 MiB, the data that arrives in a second and during a sync, and of an upload
//!   that broke the data since its last sync. As a crash may leave other bytes than this record was
//!   made for, only a client that proves the whole file goes on with them, by `SITE STORATTR` with a
//!   digest or by that of a tagged transfer, as ours does: the server reads the file before it gets its
//!   name, and keeps nothing where the digest differs. `SITE HELD` tells these bytes, and `REST` of
//!   another client is refused. Neither markers nor the final reply wait for these
//!   syncs; where one fails, the upload does. A server that is killed during one keeps its port and its
//!   locks until the disk has ended it. Uploads below 64 MiB, changes of a part of a file, writes in
//!   place and uploads at data nodes have none. The record of a running upload lacks the data of a
//!   second or 64 MiB, whichever is more, however seldom the client wants markers; with
//!   `--sync-writes` one sync at a time precedes it. The rest of a failed
//!   upload is kept for a restart, under a name that is not listed, until `--partial-expiry` hours have
//!   passed or `SITE DELHELD` removes it; where the disk is full, nothing is kept. `APPE` and `ESTO`, and
//!   all uploads with `--in-place`, write to the file itself: an upload whose file has lost its name by
//!   the end is an error, and no two of them overwrite each other's appended or truncated bytes.

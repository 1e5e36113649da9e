//! Every option, as a flag and as a key of the file.
//!
//! `gridftp-server --help` lists all options with their units and defaults. Each is also a key of the TOML file given
//! by `--config`, under the same name and without a section:
//!
//! ```toml
//! bind = "192.0.2.10"
//! root = "/srv/data"
//! users = "/etc/gridftp/users"
//! data-ports = "50000-51000"
//! advertise = "198.51.100.4"
//! max-sessions = 500
//! block-size = "1M"
//! in-place = false
//! log-format = "json"
//! ```
//!
//! A flag wins over the file. An unknown key or a value of the wrong kind stops the server at the start, with the line
//! and the column of the mistake.
//!
//! # Behind address translation
//!
//! `data-ports` limits the ports that must be forwarded; `advertise` is the address that clients are told for
//! them. A range of one port works, for one session at a time that waits for data; when no port is free, `PASV` is
//! answered `425`. Ports are taken at random, from the kernel's `ip_local_port_range` where `data-ports` names none.
//!
//! # Stacks that clients choose
//!
//! `net-stacks` lists the drivers that a client may name for data connections (`SITE SETNETSTACK`, `gridftp-cp --stack`),
//! `disk-stacks` those over files (`SITE SETDISKSTACK`, `gridftp-cp --disk-stack`):
//!
//! ```toml
//! net-stacks = ["tcp", "udt", "compress", "rate"]
//! disk-stacks = ["file", "compress"]
//! ```
//!
//! Without them there is `tcp` and `file`. Options in these lists are this server's own: they go with every such stack,
//! and no client can change them (`"tls:cert=/etc/gridftp/cert.pem;key=/etc/gridftp/key.pem"`). A client's stack names each
//! layer once, and sets no option that names something of this machine or that each end decides for itself: files, ports,
//! what a certificate must show, how long to wait. What it may ask for in buffers is bounded, for one connection by some
//! hundred MiB: allow `udt`, `queue` and `ordering` to clients whom you would lend that. Data ports of `udt` are UDP
//! ports of the same `data-ports`.
//!
//! # Partial uploads
//!
//! What a failed upload leaves is kept in a hidden file beside its target, for `partial-expiry` hours; what cannot be
//! continued goes within hours. Old ones are found by an index, never by a walk of the tree, so the size of the tree does not
//! matter. The index is the directory `.gridftp-index` in the root, unless `partial-index` names another one: say so where the
//! server may not write to the root itself (`root = "/"`), and give each tree one of its own. Several servers of one
//! tree share its index. Without one, uploads work and nothing expires; the server logs that.
//!
//! A directory that someone on this machine renames takes its partial uploads away from the index, as does removing the
//! index. Such files, and those of servers before the index, are found by
//! `find ROOT -name '.*.gridftp-part' -mtime +7`.
//!
//! # What bounds memory
//!
//! All sessions share one stock of 64 MiB of blocks (`block-size` each), of which one session holds an eighth at most. A
//! block is held while the storage works on it, never while a client is waited for. Some seconds after the last one was
//! needed, the memory goes back to the system.
//!
//! Beside them a session takes some kilobytes, and 64 KiB where its client is at its worst: at most 1000 commands or 48 KiB
//! of them wait in its queue (before login 32, or 4 KiB and a line), lines are at most 8 KiB, no command is run while 16 KiB
//! of replies wait to be read, and listings are made 8 KiB at a time whatever the size of the directory or the tree. In `TYPE A`, what a client sends in MODE E before its turn
//! is left at the client. Digests are computed one a core, in turns, and end with their session.
//!
//! Hashing a password takes 19 MiB with the hashes that `passwd` makes, for as many at a time as there are cores, and
//! nothing when none is hashed.
//!
//! # What bounds descriptors
//!
//! The server raises its limit of open descriptors as far as it may (`ulimit -Hn`) and shares them out: one for each of
//! `max-unauthenticated`, within a quarter; one for each of `max-sessions`, within a third of what remains; all others for
//! transfers, of which one in `MODE S` takes 5 or 7 (port, connection, a pipe for a large upload, and 3 for the file) and
//! each further connection 1 or 3. Where a limit does not carry `max-sessions` and `max-unauthenticated`, both are lowered,
//! and the log says to what. A port or a connection for which there is none is refused with `425`, a file with `450`; both may
//! be tried again when other transfers have ended. So no transfer takes the descriptors of a login. When there is none left
//! all the same, a new connection is told `421`.
//!
//! A session gets an eighth of those for transfers, and at least 16, so that a few sessions with many connections leave the
//! others theirs; half of that share is never spent on pipes. With `ulimit -Hn 1024` and the defaults this is 66, enough for
//! 40 connections; a session that asks for more connections than its share carries is refused with `425`.

//! Every option, as a flag and as a key of the file.
//!
//! `gridftp-server --help` lists all options with units, defaults and examples, and so does the
//! manual page (`gridftp-server --man | man -l -`). Each is also a key of the TOML file given by
//! `--config`, under the same name and without a section:
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
//! A flag overrides the file. An unknown key or a value of the wrong kind stops the server at its
//! start; the message gives the line and the column.
//!
//! # Behind address translation
//!
//! `data-ports` limits the ports that must be forwarded; `advertise` is the address that clients
//! are told for them. A range of one port works for one waiting session at a time; when no port is
//! free, `PASV` is answered `425`. Ports are picked at random, from the kernel's
//! `ip_local_port_range` without `data-ports`.
//!
//! # Stacks that clients choose
//!
//! `net-stacks` lists the drivers that a client may name for data connections (`SITE SETNETSTACK`,
//! `gridftp-cp --stack`), `disk-stacks` those over files (`SITE SETDISKSTACK`,
//! `gridftp-cp --disk-stack`):
//!
//! ```toml
//! net-stacks = ["tcp", "udt", "compress", "rate"]
//! disk-stacks = ["file", "compress"]
//! ```
//!
//! The defaults are `tcp` and `file`. Options in these lists belong to the server: they apply to
//! every such stack, those of `tcp` to data connections without a stack of the client too, and no
//! client can change them (`"tls:cert=/etc/gridftp/cert.pem;key=/etc/gridftp/key.pem"`). With `udt`,
//! `gridftp-cp` goes over to UDT by itself on a long path that loses packets, where the kernel of the
//! sender allows no BBR. A client's stack names each layer
//! once. It sets no option that names something of this machine or that each end decides for
//! itself: files, ports, the demands on a certificate, timeouts. The buffers that it may ask for
//! are bounded, at some hundred MiB for one connection: allow `udt`, `queue` and `ordering` to
//! clients that you would lend as much. Data ports of `udt` are UDP ports from the same
//! `data-ports`.
//!
//! # Storage by name
//!
//! `storage` names the storage of the tree with its options, as `posix:root=/srv/data;sync=yes`;
//! `root = "/srv/data"` is short for it. `gridftp-server storages` lists all storages. Sections
//! `[[storage]]` mount several in one tree, each at a directory of its own:
//!
//! ```toml
//! [[storage]]
//! at = "/"
//! storage = "posix:root=/srv/data"
//!
//! [[storage]]
//! at = "/archive"
//! storage = "posix:root=/mnt/archive"
//! read-only = true
//! users = ["ann", "operator"]
//! ```
//!
//! A storage may stand over another, behind a comma: [archives](super::archive) do.
//!
//! With `read-only`, nobody changes anything there. With `users`, all others are answered `550` there;
//! they see the name of the place and no more. The names are those of the local accounts.
//!
//! A path belongs to the longest place that leads to it. A name does not move from one storage to
//! another: such a rename is answered `504`, and the file has to be copied. `FEAT` names the
//! abilities that all storages have. `sync-writes` holds for every storage that does not say
//! otherwise. The values of options are percent-decoded: a comma in a path is written `%2C`, a
//! semicolon `%3B`.
//!
//! `posix:sparse=yes` leaves whole blocks of zeros (4 KiB) out of uploads, as holes that take no space;
//! what a client reads is the same. Uploads whose data arrives at several nodes have all their bytes.
//!
//! [Object stores](super::objects), [other servers](super::gateway) and
//! [processes](super::process) have pages of their own.
//!
//! # Partial uploads
//!
//! The rest of a failed upload is kept in a hidden file beside its target for `partial-expiry`
//! hours; a rest that cannot be continued is removed within hours. Its records are beside it:
//! `.NAME.gridftp-held` has the ranges, `.NAME.gridftp-sync` those that outlive a crash of the machine
//! where `sync-writes` is off, of uploads with a digest from 64 MiB on, and `.NAME.gridftp-sums` the BLAKE3 values,
//! 36 bytes for each MiB, of uploads that our client digests on the way (`digest=n`), so that these are
//! not read again at the end. An index finds the old ones, so that the server never walks the tree. The index is the
//! directory `.gridftp-index` in the root, unless `partial-index` names another one: set it where the
//! server may not write to the root itself (`root = "/"`), and give each tree an index of its own.
//! Several servers of one tree share its index. Without an index, uploads work and nothing expires;
//! the log says so.
//!
//! Renaming a directory on this machine, or removing the index, takes partial uploads out of the
//! index. `find ROOT -name '.*.gridftp-part' -mtime +7` lists such files.
//!
//! # Bounds on memory
//!
//! All sessions share one pool of 64 MiB of blocks (`block-size` each). One session holds at most
//! an eighth of it. A block is held while the storage works on it, never while the session waits
//! for a client. The memory returns to the system some seconds after its last use.
//!
//! Beside the pool an idle session takes some kilobytes. Each of these has a bound of its own:
//!
//! | Memory | Bound for one session |
//! | --- | --- |
//! | queued commands | 1000, or 48 KiB and a line; before login 32, or 4 KiB and a line |
//! | one line | 8 KiB; 128 KiB for tokens, and for `DCSC` behind them or over ssh |
//! | replies not yet read | 16 KiB, then no further command runs |
//! | a listing in the making | 8 KiB, whatever the size of the directory or the tree |
//! | ranges of one upload | 2048, of one `REST` 4096 |
//! | many small files in one transfer | 160 KiB of a download, 128 KiB and a block of an upload |
//! | an upload to a file that must be written in order | 16 KiB ahead of its turn |
//! | a download from an object store | its `read_ahead`; 8 MiB beyond the memory of all |
//! | a download from another server | 4 MiB for each place that is read, at most four |
//!
//! Parts of uploads to object stores take at most `part-memory`, all sessions together, and those of
//! one user at most half of it; the read-ahead of downloads takes at most as much again.
//!
//! A session at one of these bounds takes about 64 KiB, with small files up to three times that; a
//! client that reaches all of them at once makes it take some 300 KiB. In `TYPE A`, data in MODE E that
//! arrives before its turn stays in the socket. Digests are computed one per core, in turns, and end with their session.
//!
//! Hashing a password takes 19 MiB with the hashes that `passwd` makes, for at most one password
//! per core at a time, and nothing otherwise.
//!
//! # Bounds on descriptors
//!
//! The server raises its limit of open descriptors as far as it may (`ulimit -Hn`) and shares them
//! out: one for each of `max-unauthenticated`, within a quarter; one for each of `max-sessions`,
//! within a third of the rest; all others for transfers. A transfer in `MODE S` takes 5 or 7 of
//! these (a port, a connection, a pipe for a large upload, and 3 for the file), and each further
//! connection takes 1 or 3. Where the limit is too low for `max-sessions` and
//! `max-unauthenticated`, both are lowered, and the log gives their values. A port or a connection
//! for which no descriptor is left is refused with `425`, a file with `450`; both may be tried
//! again after other transfers have ended. So no transfer takes the descriptors of a login. If none
//! is left nevertheless, a new connection is answered `421`.
//!
//! A session may use an eighth of the descriptors for transfers, and at least 16, so that a few
//! sessions with many connections leave the others theirs; half of that share is never spent on
//! pipes. With `ulimit -Hn 1024` and the defaults this is 66, enough for 40 connections; a session
//! that asks for more connections than its share is refused with `425`.

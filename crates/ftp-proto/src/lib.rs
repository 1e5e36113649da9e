//! Both ends of the GridFTP control conversation as state machines, without I/O.
//!
//! # The drive contract
//!
//! [`server::ServerSession`] and [`client::ClientSession`] use no socket, no file, no clock and no
//! task. Both are driven alike: feed one input, poll outputs until `Wait`, and return with the next
//! input or at the deadline of `Wait`. `Wait` is the only way out of the loop, so no deadline is
//! forgotten.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Instant;
//!
//! use ftp_proto::server::{Input, Output, ServerSession, Settings};
//! use ftp_proto::types::{Action, Outcome};
//! use ftp_wire::path::FtpPath;
//!
//! let settings = Arc::new(Settings::new("dtn.example.org", "0.1"));
//! let mut session = ServerSession::new(Instant::now(), settings, [127, 0, 0, 1].into());
//! let (mut said, mut todo) = (String::new(), Vec::new());
//! for line in [&b"USER ann"[..], b"PASS secret", b"PWD", b"QUIT"] {
//!     session.handle(Instant::now(), Input::Line(line));
//!     loop {
//!         match session.poll() {
//!             Output::Reply(reply) => said += &reply.to_string(),
//!             Output::Action(ticket, action) => todo.push((ticket, action)),
//!             Output::Wait(_deadline) => match todo.pop() {
//!                 // A real edge spawns the work, and feeds `Done` when it is done.
//!                 Some((ticket, Action::Login { .. })) => {
//!                     let home = FtpPath::root();
//!                     let outcome = Outcome::LoggedIn { user: None, home, message: vec![] };
//!                     session.handle(Instant::now(), Input::Done(ticket, outcome));
//!                 }
//!                 _ => break,
//!             },
//!             _ => {} // Output::Close
//!         }
//!     }
//! }
//! assert!(said.ends_with("257 \"/\" is current directory.\r\n221 Goodbye.\r\n"), "{said}");
//! ```
//!
//! Work that a session cannot do itself is an [`Action`](types::Action) under a
//! [`Ticket`](types::Ticket); its progress and its outcome return as inputs under the same ticket.
//! At most one action with an outcome is outstanding. Meanwhile further commands wait in a queue of
//! bounded length and bytes; `ABOR` and `SITE RATE` alone act at once. Every command has exactly one final reply,
//! in order.
//!
//! The client's end matches replies to commands; [`client::Login`] is the login of every client, as
//! a value that runs over any connection. It asks for TLS before it names the account
//! ([`client::Security`]), and sends nothing more to a server that refuses.
//!
//! # Verbs implemented by the server
//!
//! | Group | Verbs |
//! | --- | --- |
//! | RFC 959 | USER PASS ACCT (202) QUIT NOOP HELP SYST STAT TYPE (A, I) MODE (S, E) STRU (F) ALLO REST RETR STOR APPE ABOR PASV PORT LIST NLST CWD CDUP PWD MKD RMD DELE RNFR RNTO SITE |
//! | RFC 2389, 2428, 2640, 3659 | FEAT OPTS EPSV (ALL too) EPRT LANG (EN) SIZE MDTM MLST MLSD, and AVBL of a draft |
//! | GFD.20 and GCT | SPAS SPOR (several stripes where the settings have them) ERET P, checksum, tar, files and memory, ESTO A, checksum, files and memory, SBUF TREV MFMT MLSR MLSC CKSM SCKS, REST with ranges, delayed passive, 111, 112 and 113 markers |
//! | SITE | HELP SBUF and the other buffer names, CHMOD CHGRP UTIME SYMLINKFROM SYMLINKTO SYMLINK RDEL HELD DELHELD XATTR SETXATTR STAGE TRNC WAITS RATE WHOAMI VERSION CLIENTINFO TASKID STORATTR SETNETSTACK SETDISKSTACK RESTRICT CHROOT |
//! | RFC 2228, 4217, GFD.20 | where the settings offer a mechanism: AUTH TLS and GSSAPI, PBSZ, PROT C (S) P, DCAU N A S, DCSC P D; without one DCAU N, PBSZ and PROT C |
//!
//! The machine sees plain lines: the edge runs the handshake of an upgrade, ADAT included, and
//! wraps the lines behind it. [`security`] has the values that both exchange.
//!
//! **Not** implemented, and refused: PROT E (536), CCC on a protected channel (534), other
//! modules of ERET and ESTO (504), STOU, REIN, SMNT, ABUF, MIC, ENC and CCC in clear, and GFD.47's GET and PUT (500
//! or 502), SITE `AUTHZ_ASSERT`, DSI, SHARING, HTTP, UPAS, UPRT and FAULT (500).
//!
//! # Where it departs from the servers of the Grid Community Toolkit, and why
//!
//! - A blank line is answered 500; GCT hangs up.
//! - A wrong data set-up is answered 425, and the text names the right command; GCT answers 500
//!   with the names of its functions.
//! - `ABOR` is answered with both replies of RFC 959 and the session continues; GCT ends it.
//!   Commands sent before the `ABOR` that have not begun are answered 426 and not run.
//! - Errors of `TYPE` and `LANG` name the argument without a line end, which in GCT's replies makes
//!   a second, broken line.
//! - `LANG EN-US` is English. `TYPE L 8` is TYPE I.
//! - `EPSV ALL` lasts (RFC 2428 §4): other set-up commands are answered 503. `EPSV 3` is answered
//!   522, not 501.
//! - `OPTS MLST` is answered with the list in force (RFC 3659 §7.9). `OPTS MLSR` without facts
//!   leaves the facts as they are; GCT switches all of them off.
//! - `OPTS RETR Parallelism=0` is refused; GCT accepts it and dies. A large number is cut to the
//!   server's limit. It applies to connections opened later. The third number, which GCT ignores,
//!   is the most connections: a sender opens as many, and begins with the first number.
//! - Without data nodes, `OPTS RETR` accepts `StripeLayout` and `BlockSize`; its reply says that
//!   there is a single stripe, and neither has an effect. With them, blocks have at least 4 KiB,
//!   `Partitioned` divides the bytes that a restart still needs, and stripes serve files in MODE E
//!   and TYPE I alone, without a module: 425 otherwise.
//! - `ERET P offset -1` means "to the end"; GCT dies.
//! - Quotes in the paths of 257 are doubled (RFC 959, appendix II).
//! - A path outside `SITE RESTRICT` is answered 550, not 500. Patterns and aliases in its list are
//!   refused with 501 rather than ignored. Commands on a whole tree (RNFR, MLSR, SITE RDEL) are
//!   refused where a rule forbids a path beneath it.
//! - After `SITE CHROOT` or `SITE RESTRICT` symbolic links are neither followed nor made, so that
//!   none leads out of the remaining tree.
//! - `SITE RDEL /` is refused.
//! - `SCKS` and `CKSM` refuse algorithms the server does not have, at once.
//! - `SITE HELP` lists the SITE commands, since some clients look there. FEAT names SBUF, EPSV,
//!   EPRT, TREV, SCKS and TVFS as well, and `STOR Tagged;Digest;Trailer;`, an extension: `ESTO tag=n path`
//!   is a `STOR` in MODE E whose data begins with that number and so may be sent right behind the
//!   pipelined command; `ERET tag=n path` is its counterpart for a source. Their 226 ends with a
//!   [receipt](ftp_wire::receipt). `ESTO digest=n path` and `ERET digest=n path` are transfers in MODE S
//!   too, with a [trailer](ftp_wire::command::Tag), and leave out all ranges that `REST` names. A server
//!   with data on several hosts has `Striped;` for `Trailer;`: they may go over stripes, and not in MODE S. `HELD` is another: `SITE HELD` lists the ranges kept of a broken
//!   upload, as a 111 would, or the [partial files](ftp_wire::partial) of a directory, and `SITE
//!   DELHELD` removes one: 250, or 550 where nothing is kept. `EXCLUSIVE` is a third: after `SITE
//!   STORATTR x.exclusive=1` the next `STOR`, tagged or not, replaces nothing, and is refused with 550 where something has the name. `XATTR` is a
//!   fourth: `SITE XATTR path` lists extended attributes, and `SITE SETXATTR` sets one. `NODES` says that
//!   data connections are on other hosts, those that `SPAS` tells. `WAITS` is `SITE WAITS`: the first
//!   one has the transfers of the session measured, and each tells their [waits](ftp_wire::waits), as
//!   do the 112 markers of sends behind it. `RATE` is `SITE RATE bytes` (0 or `off` for none): the
//!   bytes a second that all data connections of the session send, and as many that they receive. It
//!   is in force when it arrives, for a transfer under way too, and is answered in its turn.
//! - `OPTS SPAS Stripes=n;`, an extension: at most `n` hosts listen for each `SPAS` from then on.
//! - `OPTS SPAS Command=RETR;`, an extension: each `SPAS` from then on lists the hosts that send a
//!   file, where the storage takes a file from one host only. `Command=STOR;` takes that back.
//! - `ERET checksum="MD5 5 10" path` is an `ERET P 5 10` whose 226 tells the digest of the bytes,
//!   and `ESTO checksum="MD5 digest 5" path` an `ESTO A 5` that changes the file only if the bytes
//!   have that digest. `ERET tar="" path` sends a directory as an archive. FEAT names these modules.
//! - `ERET memory="bytes seconds" path` and `ESTO memory="bytes seconds" path`, an extension of
//!   servers with `MEMORY Bytes=n;Seconds=n;` in FEAT, move bytes of memory and touch no storage:
//!   sent until one of the bounds is reached, and received within them. Larger bounds are cut to
//!   those of FEAT. A user without the rights to read and to write `path` is refused.
//! - `ERET files="tag count" dir/name/name...` sends that many small files of a directory (with `facts`
//!   behind the count their times and permission bits too), and `ESTO
//!   files="tag count" dir` stores them, an extension of servers that name `files` in FEAT: a record of each
//!   is in the data, which has that tag in MODE E. The 226 of a store tells which [are
//!   stored](ftp_wire::stored).
//! - A file that the storage retrieves from an archive is waited for: the 150 is a reply of many
//!   lines then, of which one comes every ten seconds. `SITE STAGE seconds path` asks for it ahead:
//!   250, or 450 while it is under way.
//! - `TREV PERF` sends 112 markers of uploads in MODE S as well. They continue while an upload is
//!   flushed, hashed and published.
//! - Errors before the data connections exist leave the set-up usable in MODE S too. A tagged store
//!   that fails leaves the connections to the next one, which skips the rest of its data.
//! - Before login only the table of open commands runs; 32 bad commands or 4 refused logins end the
//!   session. The time for the login is 30 seconds (GCT: 120).
//! - `AUTH TLS` is offered beside GSSAPI. A name whose login needs a protected channel is refused at
//!   `USER` with 534, before the password is sent. Anything in clear behind `AUTH` ends the session,
//!   and so does a failed handshake. With TLS, data is PROT C or P, and DCAU A and S are refused.
//! - A first line of HTTP, TLS or SSH ends the session without an answer.
//! - Ports below 1024, and hosts other than the peer's unless third-party transfers are allowed,
//!   are refused in PORT, EPRT and SPOR.
#![forbid(unsafe_code)]
#![expect(
    clippy::exhaustive_enums,
    reason = "the server and the client match every variant, so the compiler names what a new one touches"
)]

pub mod client;
pub mod error;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod modules;
mod names;
pub mod security;
pub mod server;
pub mod ssh;
pub mod types;

#[cfg(test)]
mod tests;

//! Where this server differs from the specifications, and from the Globus server.
//!
//! - Failures to open a file are answered `550`, `552` or `553` with a `GlobusError` body, where the Globus server answers `500`.
//!   The first line of such a body is the reason in words, since many clients show no other. A session in which no command of
//!   GridFTP came (`MODE E`, `OPTS RETR`, `DCAU`, `SITE CLIENTINFO` and their kin) is told the reason alone. `MKD` of what is there
//!   already is answered `550`, as RFC 959 §5.4 allows, and not `553`.
//! - One blank stands between a command and a path, and the rest of the line is the name: blanks at its ends and control
//!   bytes belong to it. `MLSD`, `MLST`, `MLSR`, `MLSC` and `NLST` give names byte for byte; `LIST` and `STAT`, which
//!   people read on terminals, show a control character as `?`. A name with CR or LF, which no line can carry, is listed
//!   with `Error=InvalidName;` and U+FFFD in their place, so that a client can count it and finds no other file by it.
//! - `Modify` has three digits of a second at most. `MFMT` is answered `213 Modify=time; path`, as its draft has it.
//! - `OPTS RETR` takes `StripeLayout` and `BlockSize` and says that there is a single stripe.
//! - `SITE CHMOD` sets permission bits only; with setuid, setgid or sticky bits it is answered `550`.
//! - `ABOR` ends the transfer and keeps the session: `426`, then `226`.
//! - UTF-8 names work on a clear control channel.
//! - `Parallelism=0`, `ERET P off -1` and a `CLOSE` without `EOD` are answered; they end a session of the Globus server.
//! - `LIST` and `NLST` leave out `.` and `..`; an empty directory is an empty listing.
//! - An upload in MODE S that ends before the length given by `ALLO` is taken for cut off: `426`, and what came is
//!   kept. Without `ALLO`, the end of the connection is the end of the file, as RFC 959 has it, unless the control
//!   connection is gone as well.
//! - An upload in MODE E with holes is refused when it ends; the Globus server stores zeros there.
//! - A `REST` that claims bytes which are not here is refused with `554`.
//! - `REST` and `STOR` into a whole file change what is written and keep the rest of it, as elsewhere; ranges in MODE E
//!   likewise. It is done in a copy, which takes the place of the file in one step when all has come, and is refused with
//!   `451` when the file is another one by then. With `--in-place` the file itself is written. Where an upload of a new
//!   file broke, `REST` continues that one, whose length is that of what came; the old file is not changed until the
//!   other is complete, begun anew or removed, and a `REST` for it is refused with `554`.
//! - `APPE` has the end of the file for itself: another `APPE`, `ESTO` or `SITE TRNC` is answered `450` meanwhile. A file
//!   that was removed, renamed or replaced while `APPE` or `ESTO` wrote to it is answered `451`.
//! - A file that is removed or replaced while it is sent is sent whole, and answered `226`; one that is changed in place is
//!   answered `451`.
//! - `SITE HELD path` is ours, named `HELD` in `FEAT`: it tells what is kept of an upload that broke, as
//!   `213 Range Marker 0-5242880`, the ranges as in a 111; nothing follows the label where nothing is kept. `REST` and
//!   `STOR` go on from there, in the same session or another; `SITE DELHELD path` removes it, answered `250`, `550`
//!   where nothing is kept, `450` while an upload goes on with it. After `552`, for want of room, nothing is kept. Announce the digest of the whole file before it by
//!   `SITE STORATTR x.checksum.sha256=…;`: nobody else can know whose bytes those are. A server that writes in place
//!   has no `HELD`: there, `SIZE` and `CKSM` tell the same.
//! - `NLST` with a pattern answers with paths, which `RETR` takes as they are; the Globus server knows no patterns.
//! - `FEAT` marks the facts that `OPTS MLST` chose; the Globus server goes on marking the default ones.
//! - As with the Globus server, and not as the RFCs have it: `SIZE` tells the bytes of the file in `TYPE A` too, and answers
//!   for directories; `MLSD` of a file lists that file; `NLST d` gives names within `d`; `RNTO` alone is answered `501`, an
//!   `OPTS` that is not understood `500`; `PBSZ` and `PROT C` need no `AUTH`; `FEAT` ends in `211 End.`.
//! - There is no default data connection to the control port of the client: without `PASV`, `PORT` or their like a
//!   transfer is answered `425`. Connections that the server makes come from any port, not from 20. `STRU R`, `STOU`, `REIN` and `SMNT` are not there. `STAT` during a transfer is answered
//!   after it.
//! - `PASV` on an IPv6 control connection is answered `522`; use `EPSV`.
//! - `ESTO tag=n path` is ours (`STOR Tagged;` in `FEAT`; also `tag=n,S,size`, `tag=n,A,offset` and `tag=n,E`): a `STOR` in MODE E whose data the
//!   client sends unasked. The first block of each connection for each file has the descriptor 0x01, no payload and the tag in
//!   its offset field; tags rise. Data of a lower tag is that of a store that failed, and is thrown away; data without the tag
//!   fails with `426`. A store that fails for another reason keeps the connections. `ERET tag=n path` (`tag=n,P,offset,length`)
//!   sends such blocks. The `226` of both ends with `Bytes=…;CRC32C=…;`, the digest that of the first 131,072 bytes.
//! - MODE E blocks that overlap are compared with what is stored: a store whose blocks differ for one place fails with `426`.
//!   What is stored in order (`TYPE A`, a disk stack, a FIFO) cannot be compared, so there every overlap fails.
//! - `REST` before a store in `TYPE A` is answered `504`: its offset counts bytes on the wire (RFC 3659 §5), where lines end in
//!   two bytes, and is no place in the file.
//! - `SITE SETNETSTACK` and `SITE SETDISKSTACK` refuse an option that they do not know, and one that names something of
//!   this machine (a port, a file); the Globus server ignores them. A file behind a disk stack is moved whole: `REST`, `ERET`,
//!   `ESTO`, `APPE` and a digest given ahead are answered `504`.
//! - `MLSC` and `STAT` of a directory are said as its entries are found. Where the storage fails in the middle, the control
//!   connection is closed before the last line of the reply: its code has been said by then.
//! - A `CKSM` ends with the control connection, also where `QUIT` was sent behind it.
//!
//! Not there yet: GSSAPI and TLS (`AUTH`), `DCAU A` and `S`, `PROT P`, striping over several hosts and
//! `SITE DSI`.

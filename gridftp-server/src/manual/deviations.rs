//! Differences from the specifications, and from the Globus server.
//!
//! - Failures to open a file are answered `550`, `552` or `553` with a `GlobusError` body; the
//!   Globus server answers `500`. The first line of such a body is the reason in words, since many
//!   clients show no other line. A session without any command of GridFTP (`MODE E`, `OPTS RETR`,
//!   `DCAU`, `SITE CLIENTINFO` and their kin) gets the reason alone. `MKD` of an existing name is
//!   answered `550`, as RFC 959 §5.4 allows, and not `553`.
//! - One blank stands between a command and a path, and the rest of the line is the name: blanks at
//!   its ends and control bytes belong to it. `MLSD`, `MLST`, `MLSR`, `MLSC` and `NLST` give names
//!   byte for byte; `LIST` and `STAT`, which people read on terminals, show a control character as
//!   `?`. A name with CR or LF, which no line can carry, is listed with `Error=InvalidName;` and
//!   U+FFFD instead of each, so that a client can count it and finds no other file by it.
//! - `Modify` has at most three digits of a fraction of a second. `MFMT` is answered
//!   `213 Modify=time; path`, as its draft has it.
//! - Without data nodes, `OPTS RETR` accepts `StripeLayout` and `BlockSize`; its reply says that
//!   there is a single stripe, and neither has an effect. With them, blocks have at least 4 KiB,
//!   `Partitioned` divides the bytes that a restart still needs, and stripes serve files in MODE E
//!   and TYPE I alone, without a module: 425 otherwise.
//! - `SITE CHMOD` sets permission bits only; with setuid, setgid or sticky bits it is answered
//!   `550`.
//! - `ABOR` ends the transfer and keeps the session: `426`, then `226`.
//! - UTF-8 names work on a clear control channel.
//! - `Parallelism=0`, `ERET P off -1` and a `CLOSE` without `EOD` are answered; they end a session
//!   of the Globus server.
//! - `LIST` and `NLST` leave out `.` and `..`; an empty directory is an empty listing.
//! - An upload in MODE S that ends before the length given by `ALLO` counts as cut off: `426`, and
//!   the received bytes are kept. Without `ALLO` or `digest=`, the end of the connection is the end of
//!   the file, as in RFC 959, unless the control connection is gone as well, or the connection was
//!   protected and ended without close-notify: `426`. An empty file of `globus-url-copy`, which
//!   announces all others, is stored nevertheless.
//! - An upload in MODE E with holes is refused when it ends; the Globus server stores zeros there.
//! - A `REST` that names bytes which are not here is refused with `554`.
//! - `REST` and `STOR` into a whole file change the written bytes and keep the others, as
//!   elsewhere; ranges in MODE E likewise. The server writes to a copy, which replaces the file in
//!   one step when all data has arrived; the upload is refused with `451` when the file is another
//!   one by then. With `--in-place` it writes to the file itself. Where an upload of a new file
//!   broke, `REST` continues that one, whose length is that of the received data; the old file does
//!   not change until the other is complete, begun anew or removed, and a `REST` for it is refused
//!   with `554`.
//! - `APPE` holds the end of the file alone: another `APPE`, `ESTO` or `SITE TRNC` is answered
//!   `450` meanwhile. A file that was removed, renamed or replaced while `APPE` or `ESTO` wrote to
//!   it is answered `451`.
//! - A file that is removed or replaced while it is sent is sent whole, and answered `226`; one
//!   that is changed in place is answered `451`.
//! - `SITE HELD path` is an extension, named `HELD` in `FEAT`: it lists the ranges kept of a broken
//!   upload, as `213 Range Marker 0-5242880`, in the form of a 111; nothing follows the label where
//!   nothing is kept. In a directory of this machine it names more than the last 111 did: an upload
//!   is recorded each second in which it is fast. `REST` and `STOR` continue from there, in the same
//!   session or another; `SITE DELHELD path` removes the partial file, answered `250`, or `550` where
//!   nothing is kept, or `450` while an upload writes to it. After `552`, for want of space, nothing
//!   is kept. Announce the digest of the whole file by `SITE STORATTR x.checksum.sha256=…;` before
//!   continuing: only the digest shows whose bytes those are. A server that writes in place has no
//!   `HELD`: there, `SIZE` and `CKSM` tell the same.
//! - `SITE HELD` of a directory lists the partial files in it and below it, whoever began them, as
//!   `213-Partial files in /data`, a line ` Held=5242880;Size=9000000;Modify=20261120194724; run7/f`
//!   for each, and `213 End.`: the bytes kept, those of the whole file where the upload told them, and
//!   the last change; `Used=1;` stands for an upload that writes to it now. Names that the session
//!   may not write are left out. At most 256 are looked at: the last line of a longer list begins with
//!   `213 More`, and so does that of a list without names that have a line end. Partial uploads are
//!   found by their [index](super::config), of directories of this machine and of data nodes, which are
//!   all asked; a process tells its own. Object stores and other servers list none.
//! - `SITE WAITS` is an extension, named `WAITS` in `FEAT`: from the first one on the transfers of the
//!   session are measured, and each tells where their time went, in microseconds: `250 Waits:
//!   Moving=…;Storage=…;Digests=…;Unready=…;Busy=…;ReceiverFull=…;BufferFull=…;RoundTrip=…;Sent=…;
//!   Retransmitted=…;Connections=…;Lossy=…;`, in one line. `Moving` is the time of the data, `Storage`
//!   the part of it in which the storage worked, `Digests` that in which passing bytes were hashed, and
//!   `Unready` the rest in which a sender had no data ready (encryption, or a bound on its rate); the
//!   others are those of the TCP connections of sent data, `Sent` and `Retransmitted` in segments. `Connections` are those with data, at most, and `Lossy` is 1 where a
//!   path loses packets and the congestion control cannot be changed. After `OPTS RETR Markers=n;` each
//!   112 of a transfer that sends has the same of that transfer so far in one more line, ` Waits:
//!   Moving=…;`, and the first comes after `n` seconds. Transfers over data nodes are not measured.
//! - `SITE RATE bytes` is an extension, named `RATE` in `FEAT`: all data connections of the session
//!   together send at most so many bytes a second, and receive as many; 0 or `off` for no bound. The
//!   command is in force when it arrives, for a running transfer too, and is answered `250` in its
//!   turn, behind that transfer. It holds for data connections that were set up (`PASV`, `PORT` or
//!   their like) behind the first such command of the session: send `SITE RATE off` ahead of a
//!   transfer whose rate may have to change. Over data nodes each stripe has an equal share; a slow
//!   stripe leaves some of its share unused.
//! - `SITE STORATTR x.exclusive=1;` is an extension, named `EXCLUSIVE` in `FEAT`: the next `STOR`
//!   replaces nothing. It is answered `550` where something has the name, before its data, or behind
//!   it where another upload was faster; of several at the same time one succeeds. A server that
//!   writes in place has none of that, and neither has one with a storage that lacks it.
//! - `BOOT` in `FEAT`, behind the login, is an extension of a server without `DURABLE`: 32 hexadecimal
//!   digits that change when the machine restarts. While they are the same, no restart has lost a stored
//!   file that was not on the medium yet; a disk that fails or is detached may have. A server whose
//!   storage is on several machines or in an object store tells none.
//! - `DURABLE` in `FEAT` is an extension: a stored file is on the medium, its name and the
//!   directories made for it included, before the final reply to it. A server with `--sync-writes` has
//!   it, as front ends do by default, and one over an object store; one with `--in-place` has not.
//! - `SITE XATTR path` and `SITE SETXATTR attribute path` are an extension, named `XATTR` in `FEAT`
//!   where every storage of the tree has them: directories of this machine and of data nodes do, and
//!   processes may. They list and set extended attributes of files and directories, those of the
//!   namespace `user.` alone, at most 64 of at most 4 KiB each; of a file with more, and on a file system without any,
//!   they are answered `552` and `504`. An attribute is `user.NAME=VALUE`, the name percent-encoded and
//!   the value in base64, and the list is a `250` of one line each. Users who may only read set none.
//! - `AVBL path`, of a draft, is answered `213` and the bytes that are free where `path` is, and named
//!   in `FEAT` where every storage of the tree tells its free space: directories of this machine do, and
//!   processes may. Other storages answer `504`.
//! - `CONNECTIONS n` in `FEAT` is an extension of a server with tagged transfers and without data
//!   nodes: the most data connections of one, `max-streams`. `OPTS RETR Parallelism=4,4,16;` then has a sender in MODE E
//!   open 16, of which 4 carry data until more raise the rate of the file.
//! - `LOSS Congestion;UDT;` in `FEAT` is an extension, of a server that allows `udt` in `net-stacks`: the
//!   means against the loss of packets on data connections. `UDT` may be chosen by `SITE SETNETSTACK`;
//!   `Congestion` stands where a sender may change its congestion control to BBR.
//! - `NODES` in `FEAT` is an extension: data connections are on other hosts than the control
//!   connection, those that `SPAS` tells, for transfers with a single address as well.
//! - `NLST` with a pattern answers with paths, which `RETR` accepts as they are; the Globus server
//!   knows no patterns.
//! - `FEAT` marks the facts chosen by `OPTS MLST`; the Globus server goes on marking the default
//!   ones.
//! - As with the Globus server, and not as in the RFCs: `SIZE` tells the bytes of the file in
//!   `TYPE A` too, and answers for directories; `MLSD` of a file lists that file; `NLST d` gives
//!   names within `d`; `RNTO` alone is answered `501`, an unknown `OPTS` `500`; `PBSZ` and `PROT C`
//!   need no `AUTH`; `FEAT` ends in `211 End.`.
//! - There is no default data connection to the control port of the client: without `PASV`, `PORT`
//!   or their like a transfer is answered `425`. Connections that the server makes come from any
//!   port, not from 20. `STRU R`, `STOU`, `REIN` and `SMNT` are not implemented. `STAT` during a
//!   transfer is answered after it.
//! - `PASV` on an IPv6 control connection is answered `522`; use `EPSV`.
//! - Where data connections are on other hosts (`NODES` in `FEAT`), the reply to `EPSV` has the
//!   address too (`|2|address|port|`, as the Globus server's under `-epsv-ip`) for a client that
//!   has sent a command of GridFTP, and is `502` for others: RFC 2428 §3 has the port alone.
//! - `ESTO tag=n path` is an extension (`STOR Tagged;Digest;Trailer;` in `FEAT`; also `tag=n,S,size`,
//!   `tag=n,A,offset` and `tag=n,E`): a `STOR` in MODE E whose data the client may send before the
//!   reply. The first block of each connection for each file has the descriptor 0x01, no payload
//!   and the tag in its offset field; tags rise. Data of a lower tag belongs to a failed store, and
//!   is discarded; data without the tag fails with `426`. A store that fails for another reason
//!   keeps the connections. `ERET tag=n path` (`tag=n,P,offset,length`) sends such blocks. The
//!   `226` of both ends with `Bytes=…;BLAKE3=…;`, the digest of the first 131,072 bytes. With
//!   `digest=n` in place of `tag=n` it is the digest of the whole file, with the bytes of earlier
//!   transfers; an end that does not know those tells none. The sender of a file also sends it
//!   ahead of its end-of-file mark, in two blocks with the descriptor 0x02 and 16 bytes of it each in
//!   their count and offset fields, and behind them in further such blocks the first 16 bytes of the
//!   values of its sections: at most 1,024 parts of a power of two of bytes, at least 1,048,576, of
//!   which each value is the BLAKE3 chaining value. Where sections are longer than groups of 1,048,576
//!   bytes, there follow 1,024 sums over the groups, in four parts of 256: the first four bytes of the
//!   BLAKE3 digest of a group's number (8 bytes, big-endian, from 0) choose its sum in each part. A sum
//!   is two big-endian numbers of 8 bytes modulo 2⁶⁴ − 59: of the first 16 bytes of the values of its
//!   groups, and of those times the number of each. The differences of both ends' sums tell the
//!   numbers of about 700 differing groups of a file of any size. A store whose bytes have another
//!   digest fails with `426`, and is not published; `SITE HELD` tells the groups that agree (the
//!   sections, where more groups differ), with which the next store goes on. Bytes written into a
//!   file in place (`digest=n,A`, `digest=n,E`, `in-place`) stay there. Where the server does not
//!   know its own digest, as after a restart without the values of earlier bytes, it reads the file
//!   and compares it with the sender's. With `Striped;` in that line of `FEAT`, of a front end, tagged
//!   transfers may go over several [nodes](super::cluster): each connection to each of them begins with
//!   the tag. The first address of an upload is told the digest; of a download over stripes the stripe that
//!   ends last tells it, to the first of its addresses.
//! - `ESTO digest=n path` and `ERET digest=n path`, with the same arguments, are transfers in MODE S
//!   too, in `TYPE I` (`Trailer` in that line of `FEAT`; `tag=n` is not, and is answered `504`). The
//!   number means nothing there, and no block precedes the data, which is that of all ranges that `REST`
//!   does not name, in order. A trailer follows it: the values and sums that MODE E has behind the digest,
//!   16 bytes each, of which there are at most two for each 1,048,576 bytes of the file; the 8 bytes
//!   `GFTP-dig`, the 32 of the BLAKE3 digest, the number of values and sums in 8 bytes, the 8 bytes
//!   `GFTP-end`. A sender that does not know the digest, as behind `REST` without the values of earlier
//!   bytes, tells no values, and sends `GFTP-nil` and zeros for the digest. A store without its trailer was
//!   cut off: it fails with `426`, and what has come is kept for a restart. One whose bytes have another
//!   digest fails as in MODE E, and what agrees is kept.
//! - `ERET` and `ESTO` have the modules `checksum`, `tar` and `memory`, see [modules](super::modules),
//!   and `FEAT` lists them; its line `MEMORY Bytes=n;Seconds=n;` tells the bounds of the last one. Another module is answered `504`; the Globus server answers `500`.
//! - `SITE STAGE seconds path` retrieves a file from an [archive](super::archive); on other storage
//!   the answer is `250`.
//! - MODE E blocks that overlap are compared with the stored bytes: a store whose blocks differ at
//!   one offset fails with `426`. A target that must be written in order (`TYPE A`, a disk stack, a
//!   FIFO) cannot be compared, so every overlap fails there.
//! - `REST` before a store in `TYPE A` is answered `504`: its offset counts bytes on the wire
//!   (RFC 3659 §5), where lines end in two bytes, and is no offset in the file.
//! - `SITE SETNETSTACK` and `SITE SETDISKSTACK` refuse an unknown option, and one that names
//!   something of this machine (a port, a file); the Globus server ignores them. A file behind a
//!   disk stack is moved whole: `REST`, `ERET`, `ESTO`, `APPE` and a digest given ahead are
//!   answered `504`.
//! - `MLSC` and `STAT` of a directory are answered while its entries are read. Where the storage
//!   fails in the middle, the control connection is closed before the last line of the reply, since
//!   its code has been sent.
//! - A `CKSM` ends with the control connection, also where `QUIT` was sent behind it.
//!
//! - `AUTH TLS` is answered `234` where the server has a certificate. `AUTH SSL` and `TLS-P` are
//!   not known (`504`), `CCC` is answered `534`, and a second `AUTH` `503`. The data connections of
//!   a session behind TLS are private after `PROT P` and clear otherwise; their handshake follows
//!   the `150`, so a failed one is answered `425` behind it.
//! - A name whose login needs a protected channel is answered `534`, not `331`.
//!
//! - Grid security differs from the Globus programs where those are weaker or break off. A clear
//!   command on a protected channel is answered `533` and ends the session; it crashes a process of
//!   the Globus server. A failed exchange is answered `530` with the certificate and the rule, and
//!   the connection is closed, since the exchange cannot go on. `adat` in lower case is accepted.
//! - Besides the credentials in `X509_VHOST_CRED_DIR` the server needs one for other names. A broken one
//!   among them is left out, where the Globus server refuses every client. The mapping is that of the
//!   grid-mapfile, without the callouts of `GSI_AUTHZ_CONF`.
//! - The server demands a client certificate within the exchange; at the Globus server a client
//!   without one comes as far as the grid-mapfile. Behind `AUTH GSSAPI` the name of the session is
//!   that of the grid-mapfile, and any password is taken.
//! - Keys for delegated proxies have 2048 to 4096 bits whatever the client's own key is; a client
//!   with a key on an elliptic curve can delegate. The delegated chain is verified.
//! - Suites without encryption are never agreed to, so that `PROT S` is as private as `PROT P`.
//!   `CONF` and `MIC` are accepted as `ENC`; replies are always `632`.
//! - SHA-1 and MD5 signatures, RSA keys below 2048 bits, legacy proxies, and name constraints are
//!   refused. The certificate of `DCSC` that `globus-url-copy` makes is signed with MD5: it is
//!   trusted for being the very one that the control channel brought. Proxies of certificates that
//!   end after 2049 have a proper date; the Globus programs write one that nobody accepts.
//! - A command behind `AUTH` in the same segment ends the session.
//! - `SSCN` and `CPSV` are not known (`500`): two servers protect the data between them by Grid
//!   security, which tells their identities (`DCAU S`, `DCSC`).
//!
//! Not implemented: `SITE DSI`.

//! GridFTP client: library and the gridftp-cp and gridftp programs.
//!
//! A download, an upload, a copy from server to server, one on this machine and one from a web server
//! are one call:
//! [`copy()`] with [`Location`]s. A [`Client`] is one session, for work on names and listings.
//!
//! ```no_run
//! use std::sync::Arc;
//! use gridftp_client::{CopyOptions, Location, Silent, Totals, copy};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let options = CopyOptions::default().recursive(true);
//! let from = [Location::parse("ftp://data.example.org:2811/run7/")?];
//! let to = Location::parse("/scratch/run7/")?;
//! let (observer, totals) = (Arc::new(Silent::default()), Arc::new(Totals::default()));
//! let summary = copy(&from, &to, options, observer, totals).await?;
//! assert_eq!(summary.counts.files_failed, 0);
//! # Ok(())
//! # }
//! ```
//!
//! | Module | Subject |
//! | --- | --- |
//! | [`url`] | names of sources and destinations, and their parser |
//! | [`options`] | the choices of a caller |
//! | [`choice`], [`filter`] | the files of a source that are copied |
//! | [`manner`] | files that are at their destination already |
//! | [`client`] | one session: login, features, names |
//! | [`remote`] | trees, links and raw lines of a server |
//! | [`list`] | listings |
//! | [`file`](mod@file) | one file as bytes in order: a reader, a writer |
//! | [`copy`](mod@copy) | many files over several sessions |
//! | [`blocking`] | copies and sessions without an asynchronous runtime |
//! | [`partials`] | what copies that broke off have left |
//! | [`doctor`] | the steps to a server, one by one, with a finding for each |
//! | [`progress`] | events and counts |
//! | [`results`] | one result a file, by an observer that is ready |
//! | [`error`] | failures: site, operation, path, code and remedy |
//! | [`netrc`] | accounts from a `.netrc` |
//! | [`local`], [`names`], [`verify`] | local trees, safe names, digests |
//! | [`words`] | protections as options spell them |
//!
//! # Data between two servers
//!
//! It goes from one to the other (third party). Where they refuse that, or cannot protect
//! it and both protect data alike here, it passes this machine: a file is read from the source while
//! it is written to the destination, in MODE S, with about 1 MiB of it in memory and none on disk.
//! Where the destination gives digests, its own is then compared with that of the bytes which passed,
//! or of a resumed file with the source's. [`options::Relay`] has it always or never so.
//!
//! # Data on this machine
//!
//! A copy between two local places has the walk of an upload and the landing of a download. Its digest
//! is computed while the source is read, and the written file is read back for its own: from the
//! kernel's cache, or from the medium with [`options::Verify::Disk`]. With [`options::Verify::No`] the
//! kernel copies the bytes, by reference where the file system can. Holes stay holes.
//!
//! # Files of web servers
//!
//! An `http://` or `https://` URL is a source of a copy, one file for each: HTTP has no listings. It is
//! no destination, and has no [`Client`]. `HEAD` tells size and time, or `GET` where the server takes no
//! `HEAD`; the bytes come by one `GET` over HTTP/1.1. Path and query are sent as the URL has them.
//!
//! - Up to five redirections are followed, none from TLS to clear text. User and password of the URL
//!   go to its own scheme, host and port only, as `Basic`, and not in clear text over a network unless
//!   [`Security::None`](options::Security::None) says so; the same server alone may ask for
//!   [`ConnectOptions::identity`](options::ConnectOptions::identity). A proxy of the Grid is not shown.
//!   Servers are verified by [`ConnectOptions::roots`](options::ConnectOptions::roots), also behind a
//!   proxy of [`ConnectOptions::proxies`](field@options::ConnectOptions::proxies), by TLS through it.
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
//!   and a [`Verify`](options::Verify) that demands one is a failure. A server that receives the file is
//!   compared with the bytes that passed as well.
//! - Bytes are asked for without a content coding. Coded ones are refused, unless the name of the file
//!   tells the coding, as `x.tar.gz` does: they would be another file.
//! - The statuses 408, 425, 429, 500, 502, 503 and 504 are tried again, after the pause of
//!   `Retry-After`, in seconds or up to a date, and after two minutes at most.
//!
//! # Streams and files at once
//!
//! Rules choose the first numbers: by size, distance, mode and the number of files. A copy over a path
//! of 2 ms or more is then measured each second, or each 10 s between two servers, by their markers.
//! It tries more and fewer streams of a large file, and files at once, for five periods each, of which
//! the last three count, and keeps to those with the best score: the rate, less 2 % for each
//! connection, and less ten times the part of segments that were sent again. The kernel's times of the
//! sender's connections stop a search for more streams: while the receiver has no room, or the
//! connections nothing to send. Where a server of ours sends, to this end or to another server, its
//! markers tell them each second (`WAITS` in `FEAT`); of other servers, and of data nodes, nothing is
//! known. Numbers of the caller stay.
//!
//! - There are at most 16 streams of a file, 16 files in MODE E (8 of four streams) and 32 in MODE S,
//!   and 32 connections.
//! - Streams change from file to file. A large file that is alone begins with those that served
//!   best before, or four, and its sender adds connections while it runs, from and to servers that
//!   tell the most of them (`CONNECTIONS` in `FEAT`). At most 16 are open from the start; twice as
//!   many carry data as long as that has a rate of 5 % more in periods of a second, or ten round
//!   trips, and those that are not needed end early. It is not so for a polite copy and under a
//!   rate limit. Between two servers the number is kept where the source is one of ours, which tells it.
//! - Commands ahead and the size of blocks follow from the path and the file, and are not searched. A
//!   transfer is asked for ahead while a connection has less under way than twice the bytes of its path
//!   (the rate of the last period times the round trip), from 8 to 256 MiB and up to 256 transfers: more
//!   ahead costs nothing, and less leaves the path empty. A block of MODE E is a quarter of the share of
//!   a connection, from 256 KiB to 4 MiB, and of a slow one the bytes of half a second.
//! - What served best is kept for a pair of ends, a mode and a stack in the file
//!   [`options::CopyOptions::memory`], for small files and for large ones: the last 256 of them.
//!   A copy that is polite, or has a rate limit, adds nothing to it.
//! - A copy that is [polite](field@options::CopyOptions::polite) measures near paths too, and compares
//!   the round trips of each peer with the least one of the last minute. It tells its own
//!   queue from that of others by nothing, and a path that was full from the start of its first
//!   connection seems longer than it is. A file that is under way keeps its streams, so that the rate
//!   gives way first. Between two servers the next files have fewer streams, and fewer are under way at
//!   once; the rate gives way where one of them bounds it (`RATE` in `FEAT`). The round trips are those
//!   that a source of ours tells; a warning says where it tells none.
//!
//! # Paths that lose packets
//!
//! Most congestion controls take a lost packet for a full link, so that on a long path a few in ten
//! thousand cost most of the rate. Three steps help:
//!
//! - A sender with a connection over a path of 20 ms or more, which loses packets in three seconds
//!   on end, changes it to BBR; others to the same host follow at their first loss, in the minute
//!   behind that.
//! - Where its kernel refuses that, more streams share the loss.
//! - The copy goes on over UDT, with [`options::CopyOptions::over_udt`], the stack
//!   that is the default, and servers that offer UDT (`LOSS` in `FEAT`), where at least 64 MiB
//!   and ten seconds are left. A listing in a session of its own first shows that UDT gets through, and
//!   between two servers, from one to the other, bytes of their memory (`MEMORY` in `FEAT`); where
//!   they do not, the copy stays with TCP, and a note tells it. Then the sessions end in the
//!   middle of their transfers, and others with UDT go on behind the bytes that have arrived, with
//!   the same protection. That is no failed attempt. It returns to TCP, once, where a connection
//!   breaks; and until it has moved data for ten seconds (twenty between two servers), where nothing
//!   moves for a minute in which no end is known to hash held bytes, or where the transfers are
//!   slower than before from the fifth second on, in total and each of them. A copy that is polite,
//!   has a rate limit, layers over its files or chosen data ports stays with TCP, and so do one of
//!   files without a modification time, and one to a server that keeps no broken uploads: they would
//!   begin anew. Between two servers the source has to tell that the path loses packets (`WAITS` in
//!   `FEAT`), and the change comes once all files are found.
//!
//! # How a broken transfer goes on
//!
//! | Transfer | Bytes of the next try |
//! | --- | --- |
//! | download | the missing ones: `REST` with ranges in MODE E, with an offset in MODE S |
//! | upload in MODE E | those that our server has not recorded, at others those beside the 111 markers, if the source is unchanged |
//! | upload in MODE S | those behind the proven bytes, if the source is unchanged: see below |
//! | server to server | as an upload, if the source server says that its file is unchanged |
//! | on this machine | the missing ones; all of the source is read again for its digest |
//! | from a web server | the missing ones, by `Range` and `If-Range`, of the same version only |
//! | standard input or output, a FIFO | none: bytes that were read or written are gone |
//!
//! MODE S has no markers, so the server is asked how much it has, on whatever connection: the first
//! may be lost. Its bytes may be older, another client's, or hold holes, so they have to be proven:
//!
//! - Our own server keeps the bytes apart, and publishes nothing without the digest of the source: that
//!   behind the data or, where this end does not know the values of those, that of `SITE STORATTR`.
//!   `SITE HELD` tells how many there are (`HELD` in `FEAT`), in MODE E of files of more than 64 MiB.
//! - Any other tells the number of those under the name that is written, by `SIZE`. They count if
//!   `CKSM` gives the digest that as many bytes of the source have.
//! - Of one without digests, such as `vsftpd`, the bytes of an upload from this machine under its
//!   hidden name (see below) are read back, by `REST` and `RETR` in MODE S with the protection of
//!   the session, and compared with the source: the last 64 MiB, or all if there are fewer. The
//!   upload goes on behind them or, where they differ, behind the last complete MiB before the
//!   first difference. It begins at the start if no complete MiB is equal, or if there are more
//!   than 64 MiB and all that are equal are zeros, as a server also shows them where it never
//!   wrote. The bytes before those 64 MiB are not compared: nothing but this upload of this version
//!   of the source has written under that name, and a server that loses power loses the last ones.
//!   One that lost others would keep a file that is damaged there, which is compared by size only,
//!   as any file at such a server. The first bytes are not looked at either, since `RETR` would
//!   send all that is behind them. In MODE E that is done with the ranges that the markers of an
//!   earlier run told, the 64 longest and 64 MiB in all, each by `ERET`; without that, the last
//!   ones alone. A server that refuses `RETR`, as one that takes files and shows none, gets all of
//!   the file again.
//!
//! The rest follows by `REST` and `STOR`, or by `APPE` where `REST` is refused and the server has no
//! other bytes. Without such a proof, all of the file is sent again.
//!
//! MODE S has no mark for the end of a file either, so after an upload the server is asked for its
//! size; our own is told it before and gets a mark behind the data, and takes no less for the whole.
//!
//! Of a copy between servers that send no markers nothing is heard until its end. After two minutes
//! without a word the size of the copy is asked for over a session of its own, and as long as it
//! grows the copy goes on. One that stands still, or has no size that can be asked for, is given up
//! after 600 s, or after [`ConnectOptions::stall`] where that is longer.
//!
//! A server that is gone, or the connection to it, is tried again for [`CopyOptions::retry_for`],
//! and the bytes of a download stay. So is a web server that an HTTP proxy does not reach: it answers
//! `CONNECT` by 502, 503 or 504, or not in time. Other failures have [`CopyOptions::retries`], counted
//! anew after an attempt that brought more than any before it.
//!
//! # Stripes
//!
//! A server that lists `SPAS` and `SPOR` may have several hosts for data connections. In MODE E all
//! of them take part in a file of 64 MiB or more, unless [`CopyOptions::stripes`] says otherwise: an
//! upload asks where they listen (`SPAS`) and deals blocks to them as they take them; for a download
//! all connect to one port of ours (`SPOR`), and the hosts that `SPAS` tells may do so; between two
//! servers the source gets all addresses of the destination, or the one that it has (`PORT`). A
//! server that refuses, or tells one address, is asked once a session. Those of a front end of ours
//! (`NODES` in its `FEAT`) are hosts of all other data connections as well.
//!
//! Hosts of stripes are others than the server's own. A server gives none to which its own address
//! could not lead: no loopback, link-local or private one unless it has such an address itself, and
//! no port below 1024, else the file takes one connection ([`ConnectOptions::trust_pasv`] lifts
//! this). When a stripe fails and others have brought bytes, the missing ranges are asked for at
//! once. The stripes of Globus servers send wrong ranges of a part of a file and after `REST`, so
//! from these they take part in whole files only.
//!
//! # Protection by TLS
//!
//! [`options::Security`] and the scheme choose it, and their choice is used, or nothing: there
//! is no fall-back.
//!
//! | URL | Control connection |
//! | --- | --- |
//! | `ftps://` | `AUTH TLS` (RFC 4217) before anything else; at port 990 TLS before the greeting |
//! | `ftp://` with a password | the same `AUTH TLS`, unless the server is on this machine |
//! | `ftp://` without one | clear text |
//!
//! The mail address or the word `guest` that follows the name of an anonymous login (RFC 1635) is no
//! password.
//!
//! A server that refuses `AUTH TLS` gets neither name nor password. The features that it lists do
//! not matter: a third party on the way can remove one from the list as well as refuse the command.
//! Clear text that arrives behind the agreement on TLS ends the session. The certificate must be
//! for the host of the URL, by an authority of [`ConnectOptions::roots`].
//!
//! Data connections of such a session are private (`PROT P`), listings too, in both modes and
//! whichever end connects: this end is the TLS client and resumes the session of the control
//! connection, which some servers demand. [`ConnectOptions::protect`] leaves them in clear text. One
//! that ends without the end mark of TLS was cut off. Two servers cannot protect the data between
//! them by TLS, so it passes this machine unless it may be clear, or [`options::Relay::Never`].
//!
//! # Grid security
//!
//! `gsiftp://` asks for `AUTH GSSAPI` and shows the server a certificate: that of
//! [`Site::credential`](url::Site::credential) or of [`options::GridOptions`], or else of the
//! environment: the files of `X509_USER_PROXY`, or of `X509_USER_CERT` and `X509_USER_KEY`, then the
//! proxy `/tmp/x509up_u<uid>`, the user's own, the host's. The server must have a certificate of an
//! authority in `X509_CERT_DIR` for the host of the URL, or the subject that was asked for; before
//! that is proven nothing is delegated. It gets a limited proxy, by which it proves the user's
//! identity on data connections. The account is the one that it maps the certificate to, unless the
//! URL names one.
//!
//! Data connections are authenticated and private by default (`DCAU A`, `PROT P`), as under TLS: the
//! Globus programs leave data in clear text behind the authentication, which
//! [`ConnectOptions::protect`] asks for where speed matters more. A server that does not list `DCAU`
//! is refused unless data is to be in clear text, and so are options without delegation, since the
//! server has nothing to prove the user's identity with.
//!
//! Behind ssh (`sshftp://`) the data connections have a credential that is made for the session and
//! goes to the server through ssh (`DCSC P`, `DCAU A`, `PROT P`): no certificates are needed. A
//! server that does not take one is refused, unless [`ConnectOptions::protect`] has data in clear
//! text.
//!
//! Between two servers the login with one credential is enough. Those that know different identities
//! get a credential that is made for the session, which both trust and nothing else (`DCSC P`, then
//! `DCAU A`); where one of them takes none, each is told the identity of the other (`DCAU S`).
//!
//! # Plain FTP servers
//!
//! In MODE S data follows the server's word that it takes the upload, and between two servers
//! `STOR` goes before `RETR`. The password goes out when the server asks for it. Where there is no
//! `MLSD`, `LIST -a` and `LIST` serve; their lines tell no times, and a symbolic link that is
//! followed is taken for a file. A part of a file is written by `ESTO`, which not every server has, and
//! read by `REST` where there is no `ERET`, and the connection closed behind it.
//!
//! # Which bytes are compared
//!
//! Between this library and our own server both ends compute the BLAKE3 digest of all bytes of a
//! transfer while they pass (`Digest` in `FEAT`; in MODE S `Stream`, over stripes `Striped`), and the
//! sender tells its digest on the data channel: the receiver publishes nothing that differs. Each data
//! node digests its part, and the front end joins the digests; that of a striped download is in the
//! final reply. In MODE E at most 34 KiB follow with which the receiver finds the differing groups of
//! 1 MiB of a file of any size, so that only those are sent again; where about 700 or more differ, it
//! is the differing ones of 1,024 sections. A part written into a file that exists is there at once.
//! Behind a transfer of a pipe, over the stripes of two servers, or that continued one of which an end
//! does not know the values, the stored files are read again for their digests, where both ends know
//! BLAKE3 and the server does not refuse.
//!
//! At any other server the stored files are read again for a digest (`CKSM`): the best of those that
//! cost little more than its cheapest, so SHA-256 and CRC-32C before Adler-32 unless it keeps that;
//! MD5 is tried at a server with MODE E that lists none. The question goes out with the commands
//! behind the transfer and costs no round trip of its own, but the server reads the file before it
//! begins the next one of that connection. A large file shows as "verifying 43 %" where the server
//! sends markers. Lengths are compared in any case. Where no digest is to be had (the server has none,
//! refuses, or does not reply) the copy stands, nothing is copied again, and a warning tells once that
//! copies are compared by size only; [`progress::Verification`] tells it of each file. A copy that
//! differs is copied again and never has the final name, or is removed where it was written under that.
//!
//! [`Verify::Cheapest`](options::Verify::Cheapest) and [`Verify::With`](options::Verify::With) fail
//! without digests, and so does [`Verify::Disk`](options::Verify::Disk), which syncs a downloaded file,
//! drops it from the page cache and compares the bytes that it reads back from the medium. An upload is
//! read again by the server, which syncs it before that if its `FEAT` has `DURABLE`; a warning tells
//! where not. [`Verify::No`](options::Verify::No) leaves corrupted bytes undetected but for the
//! first 128 KiB of such a MODE E transfer. [`mod@file`], listings and gateways compare no digests.
//!
//! # Downloads that outlive a run
//!
//! The bytes of a file of more than 64 MiB (any size with [`Resume::All`](options::Resume::All))
//! are in `.NAME.gridftp-part` until it is whole. Once a second, or at the latest behind 64 MiB where
//! that takes longer and `Resume::All` is not asked for, they are synced, and `.NAME.gridftp-held`
//! then records their ranges with the URL, size and time of the source. The next run continues behind
//! them, whatever ended the one before; a source that has changed is read from its start. A digest of the whole file
//! proves the copy then, whatever [`CopyOptions::verify`](options::CopyOptions::verify) says.
//!
//! Where the server offers no digest, size and time have to do, of a source that had not changed for an
//! hour. The next run receives the end of each recorded range again, an eighth of it between 1 and
//! 8 MiB: where it differs from the stored bytes, the file begins anew with a warning. Without such a
//! time, and with [`Resume::Never`](options::Resume::Never), a failed download leaves nothing.
//!
//! From our server, over MODE E and with [`Verify::Auto`](options::Verify::Auto), a complete MiB is
//! not read again for that digest: `.NAME.gridftp-sums` has its BLAKE3 value, in 36 bytes, written once
//! its bytes are synced. The next run reads back the ends of the ranges alone; a value that is wrong has
//! its section copied again. The server keeps the values of sent groups in memory, for 512 GiB of
//! all files together, and reads a file as a whole without them. Bytes that
//! change on the medium between two runs are found by [`Verify::Disk`](options::Verify::Disk).
//!
//! Of uploads and copies between servers, which outlive a run by the same rule, the bytes are at the
//! destination: our server keeps them apart, at others they are under the hidden name of below. A
//! note of this machine ([`CopyOptions::notes`]) names the version of the source, that hidden name
//! and the ranges of the restart markers; one run at a time has it locked. Beside it are the values
//! of the source's complete MiB that were sent, which are of use while no time of the source changes:
//! with them an upload to our server does not read those again. The next run continues
//! where the server proves the bytes, by the digest of the file that our server compares before it
//! publishes, or by those of the stored ranges (`CKSM`) elsewhere, of which the 64 longest are
//! hashed. At a server without digests the last 64 MiB are read back and compared (see above), and
//! a copy between two servers begins anew. [`partials`] tells what is kept and removes it, at
//! our server also that of other machines and accounts; what nobody continues for a week is removed
//! by the next run that writes to its directory and succeeds, here and at servers. Our server removes
//! its own by itself.
//!
//! # Trees that outlive a run
//!
//! The same command, started again behind a kill, a failure or a lost server, leaves the files that it
//! has finished: a record in the directory [`CopyOptions::notes`] tells them, written twice a second
//! with the files of that time, up to 2^20 of them; those that a server took in the first half second
//! are not in it. A file is left only if its source has the size, time and mode of then, and its
//! destination the size and time that it told behind the copy: servers tell both in `MLST`, and
//! without that, or a time of the source, it is copied again. The next run lists the directories of
//! the destination for it, as `--sync` does. Files at a server count as long as it tells the same
//! facts; files written here count until this machine restarts, or with
//! [`CopyOptions::sync_writes`](options::CopyOptions::sync_writes) beyond that. A run that completes
//! the tree removes the record, and the next copy of any tree one that is a week old. The sources, the
//! destination and the options by which copies differ have to be the same. There is none of a single
//! file, of parts, through a disk stack, with [`Resume::Never`](options::Resume::Never), in a dry run,
//! and for a copy that compares the files itself ([`Manner`], [`CopyOptions::no_clobber`]). With
//! [`Manner::backup_dir`] a finished file is not moved there by the next run.
//!
//! [`CopyOptions::notes`]: options::CopyOptions::notes
//! [`CopyOptions::no_clobber`]: options::CopyOptions::no_clobber
//!
//! # Uploads under a hidden name
//!
//! Our own server publishes an upload when it is whole. At any other an upload, in whichever mode
//! and from wherever it comes, is written under a hidden name of the run (`.NAME.gridftp-0a1b2c3d`;
//! another once its source has changed), and renamed when the server has taken all of it and
//! digests agree where any are compared: an old file stays until then. The new file has the owner
//! and permissions of a new file. A copy that is given up, and that no later run goes on with,
//! removes the hidden file, over another session where its own has ended; one that is killed, or
//! has lost its server, leaves it, and the next run of this account to that server removes it,
//! unless it goes on with it ([`CopyOptions::notes`] holds the record). A file is written under its
//! own name
//!
//! - where the server refuses the hidden one or does not rename,
//! - where the server tells that the name belongs to something other than a file (a symbolic link
//!   that it takes for a file, or tells nothing of, is replaced), and where the hidden name would
//!   exceed 255 bytes,
//! - where a part of it is copied ([`CopyOptions::offset`], [`CopyOptions::length`]): that is
//!   written into the file that is there, and a copy that breaks off leaves it half changed,
//! - through a [disk stack](ConnectOptions::disk_stack), and by a [`Writer`](file::Writer).
//!
//! # Symbolic links
//!
//! Links in a tree are followed unless [`CopyOptions::links`](options::CopyOptions::links) says
//! otherwise; a source or a destination that is named itself is followed in any case. With
//! [`Links::Copy`](options::Links::Copy)
//!
//! - links are made once all files of their sources are in place, so that no file is written through
//!   one of them. They have no times of their own.
//! - a link of a server that leads out of its tree is counted as failed: by an absolute path, by more
//!   `..` than it is deep, or by a `..` behind a name, which may be a link too. A later run would
//!   write there. A link of this machine is sent as it is; our server takes an absolute target for
//!   one in what it serves, writes it as a relative one, and makes no link that leads out of that.
//! - an absolute target within the source tree becomes a relative one. A Globus server tells all
//!   targets so, and resolved: a link to a link leads to the end of both, and a source has to be named
//!   by a path without links. It does not list links that lead nowhere.
//! - a link at the destination that differs is replaced, as a file is, and one in the place of a file
//!   is removed before that is written. One in the place of a directory is an error, and nothing is
//!   written through it; a server that tells no links is warned of. Its age does not count for
//!   `--update`.
//! - links are made here and at servers of this kind. Others make links to their own objects only, by
//!   absolute paths, or none: there links are left out, and a warning tells it.
//! - a server without `UNIX.slink` in its `MLST` feature may not tell its links, which are followed
//!   then; a warning tells it, and another that a link has no target in its listing and is left out.
//!
//! [`Manner::delete`] removes links that no source has, and never what they lead to. With
//! [`Links::Skip`](options::Links::Skip) it keeps all links at the destination, and refuses servers
//! that do not tell them.
//!
//! # Sources that are not copied
//!
//! - A source that is its own destination, or a tree that the destination lies in, is refused
//!   before anything is written. At one server the fact `Unique` tells, or else the paths; where
//!   both ends are on one machine as far as addresses tell, `Unique` or device and inode, and the
//!   time with them. Two names of one file on two machines are not seen through.
//! - A source that has become smaller since an attempt began to write is not tried again.
//! - A name that no command can carry (NUL, CR, LF; at a Globus server all bytes that are neither
//!   printable ASCII nor white space) is counted as failed and told.
//! - A file that says that it is empty and holds bytes, as those of `/proc` do, is told in a tree,
//!   and read like a pipe when it is the one source.
//!
//! # Memory
//!
//! Names that wait to be copied are at most some 16,000, some 400 bytes each; those of a listing
//! for which there is no room wait in a file of the temporary directory, and are compared with each
//! other 65,536 at a time. Two things grow with a copy: some eight bytes a file where there are
//! several sources, of which no two may have one destination, or names are deleted at the
//! destination, and the directories of a copy with
//! [`CopyOptions::preserve`] or `xattrs`, which get times and attributes at its end. Of the names at a destination that is
//! compared at most 262,144 are kept, some 20 MB; those of larger directories are asked for one by
//! one. Names to be deleted are at most a million.
//!
//! # Remains of a cancelled transfer
//!
//! Every future may be dropped. The data connections are then reset, so that no peer takes a
//! cut-off file for a whole one, and a [`copy()`] closes its control connections. A download that
//! was not published is removed. Of an upload, the server keeps as much as of any broken
//! connection; our own server publishes nothing and keeps the partial file for a restart.
#![forbid(unsafe_code)]

pub mod abilities;
pub mod blocking;
pub mod choice;
pub mod client;
mod clock;
mod connect_error;
mod control;
pub mod copy;
pub mod doctor;
pub mod error;
pub mod explain;
pub mod file;
pub mod filter;
mod gateway;
mod glob;
mod grid;
mod guard;
mod links;
pub mod list;
pub mod local;
mod login;
mod ls;
pub mod manner;
mod masked;
pub mod names;
pub mod netrc;
mod objects;
pub mod options;
pub mod partials;
#[cfg(test)]
mod played;
#[cfg(feature = "program")]
#[doc(hidden)]
pub mod program;
pub mod progress;
mod rate_limit;
pub mod remote;
pub mod results;
mod running;
mod setup;
mod silence;
mod ssh;
mod stacks;
mod stripes;
mod text;
mod transfer;
pub mod types;
pub mod url;
pub mod verify;
mod web;
pub mod words;

pub use choice::Choice;
pub use client::Client;
pub use copy::{Summary, copy};
pub use explain::{Cause, Explanation, Tuned};
pub use filter::Filter;
pub use manner::{Compare, Manner};
pub use options::{ConnectOptions, CopyOptions};
pub use progress::{Event, Observer, Silent, Totals};
pub use results::{FileResult, Results};
pub use running::{RunningFile, Unfinished};
#[doc(hidden)]
pub use text::counted;
pub use url::{Location, Site};

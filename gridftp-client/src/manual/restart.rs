//! How broken transfers go on, in the same run and in a later one.
//!
//! # How a broken transfer goes on
//!
//! | Transfer | Bytes of the next try |
//! | --- | --- |
//! | download | the missing ones: `REST` with ranges in MODE E and from our server; from others in MODE S all bytes behind the first missing one, `REST` with an offset |
//! | upload in MODE E | those that our server has not recorded, at others those beside the 111 markers, if the source is unchanged |
//! | upload in MODE S | those that our server has not recorded, at others those behind the proven bytes, if the source is unchanged: see below |
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
//! - Of one without digests, such as `vsftpd`, the bytes of an upload under its hidden name (see
//!   below) are read back, by `REST` and `RETR` in MODE S with the protection of the session, and
//!   compared with the source: the last 64 MiB, or all if there are fewer. A source on another server
//!   sends those again, too, except where data between the two have Grid security. The
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
//! A Globus server reports the ranges of a MODE E upload every five seconds, and nothing else does:
//! bytes that arrived after its last report are sent again, even if they are more than 64 MiB.
//!
//! A server that is gone, or the connection to it, is tried again for [`CopyOptions::retry_for`],
//! and the bytes of a download stay. So is a web server that an HTTP proxy does not reach: it answers
//! `CONNECT` by 502, 503 or 504, or not in time. Other failures have [`CopyOptions::retries`], counted
//! anew after an attempt that brought more than any before it.
//!
//! # Messages about broken transfers
//!
//! ```text
//! connection lost, trying again for 9:30 (--retry-for): dtn.example.org:2811: ...
//! large.h5: continuing at 34.20 GiB of 50.00 GiB
//! large.h5: 34.20 GiB of 50.00 GiB are kept; the same command goes on with them
//! ftp://ftp.example.org/large.h5: may be incomplete: 12,845,056 of 50,000,000 bytes
//! ```
//!
//! The last one is of a file that was written under its own name (see below) at a server that is not
//! ours, and is there in part. With `--json` these are the events `gone`, `continue`, `kept` and
//! `incomplete`.
//!
//! # Downloads that outlive a run
//!
//! The bytes of a file of more than 64 MiB (any size with [`Resume::All`]) are in
//! `.NAME.gridftp-part` until it is whole. Once a second, or at the latest behind 64 MiB where that
//! takes longer and `Resume::All` is not asked for, they are synced, and `.NAME.gridftp-held` then
//! records their ranges with the URL, size and time of the source. The next run continues behind
//! them, whatever ended the one before; a source that has changed is read from its start. A digest of
//! the whole file proves the copy then, whatever [`CopyOptions::verify`] says.
//!
//! Where the server offers no digest, size and time have to do, of a source that had not changed for an
//! hour. The next run receives the end of each recorded range again, an eighth of it between 1 and
//! 8 MiB: where it differs from the stored bytes, the file begins anew with a warning. Without such a
//! time, and with [`Resume::Never`], a failed download leaves nothing.
//!
//! From our server, with [`Verify::Auto`], a complete MiB is not read again for that digest:
//! `.NAME.gridftp-sums` has its BLAKE3 value, in 36 bytes, written once its bytes are synced. The next
//! run reads back the ends of the ranges alone; a value that is wrong has that MiB copied again. The
//! server keeps the values of sent groups in memory, for 512 GiB of all files together, and reads a
//! file as a whole without them. Bytes that change on the medium between two runs are found by
//! [`Verify::Disk`].
//!
//! Of uploads and copies between servers, which outlive a run by the same rule, the bytes are at the
//! destination: our server keeps them apart, at others they are under the hidden name of below. A
//! note of this machine ([`CopyOptions::notes`]) names the version of the source, that hidden name
//! and the ranges of the restart markers; one run at a time has it locked. Beside it are the values
//! of the source's complete MiB that were sent, which are of use while no time of the source changes:
//! with them an upload to our server does not read those again. The next run continues where the
//! server proves the bytes, by the digest of the file that our server compares before it
//! publishes, or by those of the stored ranges (`CKSM`) elsewhere, of which the 64 longest are
//! hashed. At a server without digests the last 64 MiB are read back and compared (see above).
//! [`partials`] lists and removes the partial files, at our server also those of other machines and
//! accounts. A partial file that nobody continues for a week is removed by the next run that writes to
//! its directory and succeeds, here and at servers. Our server removes its own by itself.
//!
//! # Trees that outlive a run
//!
//! The same command, started again behind a kill, a failure or a lost server, leaves the files that it
//! has finished: a record in the directory [`CopyOptions::notes`] tells them, written twice a second
//! with the files of that time, up to 2^20 of them; those that a server took in the first half second
//! are not in it. A file is left only if its source has the size, time and mode of then, and its
//! destination the size and time that it told behind the copy: servers tell both in `MLST`, and
//! without that, or a time of the source, it is copied again. The next run lists the directories of
//! the destination for it, as `--sync` does. Files written here count until this machine restarts, or
//! with [`CopyOptions::sync_writes`] beyond that. Files at a server that does not sync them (no `DURABLE`
//! in `FEAT`) count until its machine restarts, and from the 61st second on beyond that; where it tells
//! no restarts (`BOOT` in `FEAT`), they are in the record from then on only. A run that completes the
//! tree removes the record, and the next copy of any tree one that is a week old. The sources, the
//! destination and the options by which copies differ have to be the same. There is none of a single
//! file, of parts, through a disk stack, with [`Resume::Never`], in a dry run,
//! and for a copy that compares the files itself ([`Manner`], [`CopyOptions::no_clobber`]). With
//! [`Manner::backup_dir`] a finished file is not moved there by the next run.
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
//! - through a [disk stack], and by a [`Writer`].
//!
//! [`ConnectOptions::stall`]: crate::ConnectOptions::stall
//! [`CopyOptions::length`]: crate::CopyOptions::length
//! [`CopyOptions::no_clobber`]: crate::CopyOptions::no_clobber
//! [`CopyOptions::notes`]: crate::CopyOptions::notes
//! [`CopyOptions::offset`]: crate::CopyOptions::offset
//! [`CopyOptions::retries`]: crate::CopyOptions::retries
//! [`CopyOptions::retry_for`]: crate::CopyOptions::retry_for
//! [`CopyOptions::sync_writes`]: crate::options::CopyOptions::sync_writes
//! [`CopyOptions::verify`]: crate::options::CopyOptions::verify
//! [`Manner::backup_dir`]: crate::Manner::backup_dir
//! [`Manner`]: crate::Manner
//! [`Resume::All`]: crate::options::Resume::All
//! [`Resume::Never`]: crate::options::Resume::Never
//! [`Verify::Auto`]: crate::options::Verify::Auto
//! [`Verify::Disk`]: crate::options::Verify::Disk
//! [`Writer`]: crate::file::Writer
//! [`partials`]: crate::partials
//! [disk stack]: crate::ConnectOptions::disk_stack

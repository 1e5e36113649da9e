//! A gateway: another FTP or GridFTP server as storage.
//!
//! The server logs in to another one, the upstream, and serves a directory of it as its own tree, or
//! as a part of that. Clients see one server; all data passes it.
//!
//! # A first gateway
//!
//! Both servers are on one machine here, the upstream at port 2813:
//!
//! ```sh
//! mkdir -p far
//! gridftp-server --root far --bind 127.0.0.1 --port 2813 --anonymous rw &
//! gridftp-server --storage gridftp:url=ftp://127.0.0.1:2813/ --port 2811 --anonymous rw &
//! head -c 10000000 /dev/urandom > run7
//! gridftp-cp run7 ftp://dtn.example.org:2811/run7
//! cmp run7 far/run7
//! gridftp-cp --verify ftp://dtn.example.org:2811/run7 back
//! cmp run7 back
//! gridftp-cp --list ftp://dtn.example.org:2811/
//! ```
//!
//! ```toml
//! [[storage]]
//! at = "/archive"
//! storage = "gridftp:url=gsiftp://dtn1.example.org/data;cred=/etc/gridftp/service.pem"
//! ```
//!
//! `gridftp-server storages` lists the options. The server is built with them unless its feature
//! `gateway` is off.
//!
//! # Accounts at the upstream
//!
//! | `url` | Users of this server act there as |
//! | --- | --- |
//! | `ftp://`, `ftps://` | the account in the file of `netrc`, for all; `anonymous` without it |
//! | `gsiftp://` | themselves, with the credential that they delegated at their login here |
//! | `gsiftp://` with `cred=FILE` | the same; those who delegated none as the owner of that credential |
//! | `gsiftp://` with `cred=FILE;delegated=no` | the owner of that credential, for all |
//!
//! Without a delegated credential and without `cred`, commands are refused with `550`. Which of its
//! users may read or write is this server's decision as with any storage; the upstream decides about
//! the account. A password in the URL is refused, since others read options: the file of `netrc`
//! belongs to the user of the server alone (mode 600). To another machine a password goes under TLS
//! only, unless `security=none` says otherwise. `ca`, `cert`, `dcau`, `protect` and `subject` mean
//! the same as for `gridftp-cp`. On data nodes, users act as on their front end: it hands the delegated
//! credential over with the session, unless its own storage is `nodes`: then they act with `cred`.
//!
//! # Uploads
//!
//! A file is written from its start to its end under a hidden name of its directory
//! (`.gridftp-gateway-…`, which listings through the gateway leave out), gets its time and mode, and
//! is renamed when the upstream has all of it and its size and its digest, if one was announced, are
//! right. It goes over one data connection, so that a part of it has no holes; `streams` is for
//! downloads. Where renaming does not replace a file, the old one is moved to another hidden name, and
//! removed when the new one has its name. Blocks of MODE E that arrive early wait in their connections.
//!
//! When the client's connection breaks, the bytes stay at the upstream under the hidden name, and a
//! restarted upload of the same user continues behind them, also after a restart of the gateway.
//! Nothing is kept on this machine. Before a marker (`111`) names bytes, the upstream confirms them:
//! the transfer to it ends, and the next bytes are appended by another. There are no markers, and a
//! broken upload begins anew, with `sync-writes` (the default of a front end), since no upstream tells
//! when bytes are on its disk, and over another gateway, which appends to no file. A second upload of
//! one user to one name has a hidden file of its own, without markers.
//!
//! A hidden file that nobody continues is removed by the next upload of its user to its name, with its
//! directory, and when it is older than `keep` (a week) by a listing of its directory or behind an
//! upload into that, as far as the account may remove it. One with the end `-replaced` has the old
//! bytes of a file whose replacement broke, and stays until you rename or remove it.
//!
//! # Several gateways before one upstream
//!
//! Each writes hidden files of its own, with its `name` in theirs: any number may serve one directory,
//! and a file has the bytes of the upload that ended last. By default the `name` is that of the
//! host. Gateways on one host that are processes of their own need different names
//! (`name=north`, `name=south`); storages of one server do not, and may even serve the same directory.
//! An upload that broke is continued through a gateway of the same name only, and begins anew through
//! another one. With the same `name` on all data nodes, any of them continues it; two of them must not
//! write one file of one user at the same time then. No gateway removes a directory in which an
//! upload through itself is under way (`450`); of those through others it knows nothing. Their `keep`
//! should be the same, and the clocks of gateways and upstream right within it.
//!
//! The upstream has to allow renaming, and names that begin with a dot. `APPE`, `ESTO`, `SITE TRNC`,
//! links and restarts of complete files are answered `504`. Times, modes and groups are those that
//! the upstream keeps; an upload succeeds without them.
//!
//! # Downloads and digests
//!
//! A download is one transfer at the upstream; one in parts, as with stripes or several `ERET`, is up
//! to four. Two versions of a file are told apart by size, time and, where the upstream tells it, the
//! identity of the file: a replaced one is an error (`451`). `CKSM` is answered by the upstream's, if
//! it has the algorithm, else the bytes are read and hashed here.
//!
//! # Sessions, and an upstream that is gone
//!
//! At most `sessions` control connections are open with one credential; a command that finds none
//! free within `connect_timeout` is answered `450`. One that was idle for `idle` is closed. An
//! upstream that refuses connections, or does not answer within `connect_timeout` and
//! `reply_timeout`, fails the command with `451`, its name and its words
//! (`upstream gsiftp://dtn1.example.org:2811: …`); a transfer without progress ends after `stall`, and
//! an upload whose end the upstream does not confirm after `end_timeout`. The next command tries
//! again.
//!
//! A gateway whose upstream is itself, directly or through others, refuses all commands with `550`.
//! A tree that has a gateway to its own root as a part of it looks endless to programs that walk it.

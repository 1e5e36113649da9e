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
//! | [`manual`] | how copies work: [restart](manual::restart), [verification](manual::verification), [tuning](manual::tuning), [web sources](manual::web) |
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
//! [`Site::access`](url::Site::access) or of [`options::GridOptions`], or else of the
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
//! Names that wait to be copied are at most some 8,000, some 500 bytes each; those of a listing
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
mod access;
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
pub mod manual;
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

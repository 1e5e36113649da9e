//! Starting the server, stopping it, and what it says.
//!
//! # A first run
//!
//! ```text
//! gridftp-server --bind 127.0.0.1 --port 2811 --root /srv/data --anonymous ro
//! ```
//!
//! When it is ready it prints one line, `listening on ADDR:PORT`, to standard output; with `--port 0` that line is
//! where to learn the port. Everything else goes to the log on standard error. Without `--anonymous` or `--users`
//! nobody can log in, and the log says so.
//!
//! No part of the server needs to be root. Files are read and written as the user who started it.
//!
//! # Accounts
//!
//! ```text
//! gridftp-server passwd ann --users /etc/gridftp/users
//! gridftp-server --root /srv/data --users /etc/gridftp/users
//! ```
//!
//! A line of the file is `name:hash[:ro|rw[:home]]`. `passwd` makes argon2id hashes; `$6$`, `$5$` and `$y$` hashes of
//! the system's `crypt` are taken as they are.
//!
//! # Stopping
//!
//! SIGTERM (or SIGINT): no more connections are taken, sessions that do nothing are told `421` and end, transfers
//! that run are finished and end then. What runs still after `--drain-timeout` seconds, or when the signal comes again,
//! is aborted: such an upload is kept for a restart, as after any failure. The process is gone five seconds after that,
//! whatever the storage does. The exit status is 0.
//!
//! A limit on the size of files (`ulimit -f`) does not stop the server: the upload that reaches it ends with `552`.
//!
//! # Reloading
//!
//! SIGHUP: the file given by `--config` and the one given by `--users` are read again. Accounts, access, limits and
//! timeouts hold for sessions that begin after it; addresses, ports, storage and log need a restart, and the log names
//! those that were changed in vain. A file with a mistake changes nothing, and the log says what the mistake is.
//!
//! # The log
//!
//! Every transfer leaves one line, failed ones too:
//!
//! ```text
//! 2026-11-20T19:47:24.779034Z  INFO transfer user=ann verb="STOR" path=/data/run7 bytes=10485760 seconds=0.21 streams=4 peer=192.0.2.7 task=42 result=ok
//! ```
//!
//! A value with a blank, a quote or an `=` in it stands in quotes, and an empty `task` is left out. With `--log-format
//! json` each line is one JSON object with the same fields. Names that come from clients are escaped, so that they can
//! neither begin a line nor a field nor move a cursor. Passwords are never logged.
//!
//! No session waits for the log. Where standard error does not take lines as fast as they come, or takes none (a pipe
//! that nobody reads, a full disk), up to 1 MiB of them waits and the rest is dropped; once it takes some again, a
//! warning says how many lines were lost.

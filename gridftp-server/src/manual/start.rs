//! Starting and stopping the server, accounts, and the log.
//!
//! # A first run
//!
//! ```text
//! gridftp-server --bind 127.0.0.1 --port 2811 --root /srv/data --anonymous ro
//! ```
//!
//! When the server is ready, it prints one line, `listening on ADDR:PORT`, to standard output; with
//! `--port 0` that line tells the port. Everything else goes to the log on standard error. Without
//! `--anonymous` or `--users` no login is possible, and the log says so.
//!
//! No part of the server needs root. Files are read and written as the user who started it.
//!
//! `gridftp-server check` with the same flags, and `--config`, examines the set-up and tells what to
//! mend: see [tls](super::tls) and [grid](super::grid).
//!
//! # Accounts
//!
//! ```text
//! gridftp-server passwd ann --users /etc/gridftp/users
//! gridftp-server --root /srv/data --users /etc/gridftp/users
//! ```
//!
//! Users of other hosts log in behind TLS only: see [security](super::security) for `--tls-cert`.
//!
//! A line of the file is `name:hash[:ro|rw[:home]]`. `passwd` makes argon2id hashes; `$6$`, `$5$`
//! and `$y$` hashes of the system's `crypt` are accepted too.
//!
//! # Stopping
//!
//! After SIGTERM or SIGINT the server accepts no more connections. Idle sessions are answered `421`
//! and end; running transfers are finished first. A transfer that still runs after
//! `--drain-timeout` seconds, or when the signal comes again, is aborted; its upload is kept for a
//! restart, as after any failure. The process ends within five seconds after that, whatever the
//! storage does. The exit status is 0.
//!
//! A limit on the size of files (`ulimit -f`) does not stop the server: the upload that reaches it
//! ends with `552`.
//!
//! # Reloading
//!
//! After SIGHUP the server reads the files given by `--config` and `--users` again, and the
//! certificates. They, accounts, access, limits and timeouts apply to sessions that begin later. Addresses, ports, storage and
//! log need a restart; the log names such options where they have changed. A file with a mistake
//! changes nothing, and the log names the mistake.
//!
//! # The log
//!
//! Every transfer leaves one line, failed ones too; one of many small files a line for each of them that
//! was moved, and one of its own where it failed, or moved none:
//!
//! ```text
//! 2026-11-20T19:47:24.779034Z  INFO transfer user=ann verb="STOR" path=/data/run7 bytes=10485760 seconds=0.21 streams=4 peer=192.0.2.7 task=42 result=ok
//! ```
//!
//! A value that holds a blank, a quote or an `=` is quoted, and an empty `task` is left out. With
//! `--log-format json` each line is one JSON object with the same fields. Names given by clients
//! are escaped, so that they cannot begin a line or a field or move a cursor. Passwords are never
//! logged.
//!
//! No session waits for the log. While standard error accepts no lines (a pipe without a reader, a
//! full disk), up to 1 MiB of them waits and the rest is dropped; afterwards a warning gives the
//! number of lost lines.

//! Copies to and from hosts that are reached through ssh, without a daemon.
//!
//! Nothing runs on the host between copies. Whoever may log in by ssh may copy: the client starts
//! `gridftp-server --stdio` there through the system's `ssh`, with the person's own configuration,
//! agent and known hosts, and the server runs as that person.
//!
//! # Set-up
//!
//! Put the binary `gridftp-server` into the `PATH` of the host, for example `/usr/local/bin`. A
//! binary elsewhere is named by the client's `--remote-program PATH`. There is nothing to configure,
//! no certificate, and no port to open but those of data connections, which the server chooses.
//!
//! # Copies
//!
//! ```sh
//! gridftp-cp -r results/ dtn:/srv/data/results
//! gridftp-cp dtn:/srv/data/results/run7 .
//! gridftp-cp --list sshftp://dtn/srv/data/results/
//! gridftp-cp doctor sshftp://dtn/srv/data/results/
//! gridftp-cp dtn:/srv/data/results/run7 dtn2:/srv/data/copy
//! ```
//!
//! `HOST:/PATH`, as `scp` has it, is short for `sshftp://HOST/PATH`; `HOST:~/PATH` is in the home
//! directory. The host may be an alias of `~/.ssh/config`. The last line copies from one host to
//! the other directly; the data does not pass this machine.
//!
//! # Protection
//!
//! Commands and replies travel inside ssh. Data connections are separate, fast, and private: the
//! client makes a key and a certificate for the session and gives them to the server through ssh
//! (`DCSC`), and both ends prove by them who they are. `--protect clear` leaves the data in clear
//! text.
//!
//! # The Globus programs
//!
//! On a host without `gridftp-server`, the client starts the Globus server by `~/.globus/sshftp` or
//! `/etc/grid-security/sshftp`. That takes the credential of the session where it finds a directory
//! of authorities (`X509_CERT_DIR`); otherwise it is refused, and `--protect clear` does without.
//!
//! `globus-url-copy sshftp://` starts the same files, which may as well start
//! `gridftp-server --stdio`; so does `GLOBUS_REMOTE_SSHFTP="gridftp-server --stdio"` in its
//! environment. Its data is in clear text unless it is given `-data-cred auto -dcpriv`.
//!
//! # Addresses
//!
//! Data connections go to the address at which the host was reached, as `SSH_CONNECTION` tells it
//! there. Behind address translation, start the server through a script with `--advertise ADDR`
//! and `--data-ports LO-HI`, and name the script by `--remote-program`.
//! `gridftp-cp doctor` tells the ports that data connections are made to, and whether they can be
//! reached.

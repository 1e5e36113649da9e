//! Grid security: X.509 proxies, delegation and protected data channels, as at Grid sites.
//!
//! # What is needed
//!
//! | File | Contents |
//! | --- | --- |
//! | `/etc/grid-security/hostcert.pem`, `hostkey.pem` | the credential of the host, key with mode 0400 |
//! | `/etc/grid-security/certificates` | trusted authorities as `HASH.0`, each with its `HASH.signing_policy`, and revocation lists as `HASH.r0` |
//! | `/etc/grid-security/grid-mapfile` | lines of `"DN" user[,user...]` |
//! | a directory of pool accounts, `GRIDMAPDIR` | an empty file for each account, its name the account's |
//! | `~/.globus/usercert.pem`, `userkey.pem` | the credential of a person, key with mode 0400 |
//! | `~/.globus/usercred.p12` | the same in PKCS#12, where there is no `usercert.pem` |
//!
//! Authorities, policies and revocation lists are those that Grid distributions install; changed
//! files count after some seconds, without a restart. The variables `X509_CERT_DIR`,
//! `X509_USER_CERT`, `X509_USER_KEY`, `X509_USER_PROXY` and `GRIDMAP` name other places, as for the
//! Globus programs.
//!
//! A server with several names has a directory for each of them below that of `--host-certs`, or of the
//! variable `X509_VHOST_CRED_DIR`, as the Globus server does, with the files `hostcert.pem` and
//! `hostkey.pem`, or others that end in `cert.pem` and `key.pem`. A client that asks for a name in one
//! of these certificates meets that credential, on its data connections too if it delegates none;
//! every other client meets that of `--host-cert`. The names of the directories do not matter. A
//! credential that cannot be used is left out, and the log names the fault; after SIGHUP new sessions
//! meet the renewed ones. The certificate of `--tls-cert` is the same for all names.
//!
//! ```text
//! /etc/grid-security/vhosts/
//!     archive.example.org/hostcert.pem, hostkey.pem
//!     dtn2.example.org/hostcert.pem, hostkey.pem
//! ```
//!
//! A line `"DN" .lab` gives the person an account of a pool: the first of the files `lab1`, `lab2`, …
//! in the directory of the variable `GRIDMAPDIR` that nobody has. The lease is a second link of that
//! file, `%2fo%3dgrid%2f...`, which the Globus server makes and reads too; it lasts until the
//! administrator removes the link. The server needs to write this directory.
//!
//! # A first copy
//!
//! ```sh
//! gridftp-server --host-cert /etc/grid-security/hostcert.pem --host-key /etc/grid-security/hostkey.pem --ca-dir /etc/grid-security/certificates --gridmap /etc/grid-security/grid-mapfile --root /srv/data --port 2811 &
//! gridftp-cp proxy init --hours 12
//! gridftp-cp proxy info
//! printf 'content\n' > run7
//! gridftp-cp run7 gsiftp://dtn.example.org:2811/run7
//! gridftp-cp gsiftp://dtn.example.org:2811/run7 back
//! cmp run7 back
//! gridftp-cp --list gsiftp://dtn.example.org:2811/
//! gridftp-cp proxy destroy
//! ```
//!
//! The passphrase of the key is asked for on the terminal. A person whose identity has no line in
//! the grid-mapfile is refused with `530`, and the reply names the identity. The mapped name is the
//! user of the session: its home and access are those of the account of that name in `--users`,
//! and without one it may read and write the whole tree, or read it with `--gridmap-access ro`.
//!
//! # Protection
//!
//! Commands and replies are encrypted. On data connections both ends prove who they are (`DCAU A`);
//! the client delegates a limited proxy for that. `gridftp-cp` also encrypts the data; `--protect
//! clear` and `safe` ask for less, and `--dcau none` for connections without any proof. Programs of
//! Globus choose by `-dcpriv`, `-dcsafe` and `-nodcau`; without a flag their data is in clear text
//! behind the proof. `--require-data private` refuses that.
//!
//! Keys may be RSA or on an elliptic curve; delegation from or to the Globus programs needs RSA.
//! Attribute certificates of VOMS in a proxy are carried along and not evaluated.
//!
//! The Globus programs end protected data connections without close-notify, so anybody on the path
//! can end one early. In MODE S the server therefore publishes an upload behind `PROT S` or `P` if
//! its end is a close-notify or a trailer, which `gridftp-cp` sends, or if `ALLO` has told its length, as
//! `globus-url-copy` does for every file that is not empty; an upload that fails both is answered
//! `426` and kept for a restart. A client of another kind that does neither needs MODE E, whose
//! blocks say where the file ends. In the other direction `gridftp-cp` compares the length of the data
//! with that of the file; where the server tells none, a download in MODE S fails unless it ends with
//! close-notify. A listing has no length: in MODE S, which `--list` uses, one of a Globus server may
//! have been cut off. With `PROT C` the data is in clear, and whoever is on the path can
//! change and end it.
//!
//! Legacy proxies (`CN=proxy`) are refused. Certificates with SHA-1 signatures or RSA keys below
//! 2048 bits are refused, those of authorities too.
//!
//! # When something does not work
//!
//! ```sh
//! gridftp-server check --host-cert /etc/grid-security/hostcert.pem --host-key /etc/grid-security/hostkey.pem --ca-dir /etc/grid-security/certificates --gridmap /etc/grid-security/grid-mapfile --root /srv/data --port 2811 --subject "/O=Grid/OU=Lab/CN=Alice Lab"
//! gridftp-cp proxy init
//! gridftp-cp doctor gsiftp://dtn.example.org:2811/
//! ```
//!
//! On the host, as the user of the server, `check` examines the credential of the host, each authority
//! with its signing policy and its revocation list, the grid-mapfile, names, clock and ports; with
//! `--subject` it tells the account of a person. On the person's machine, `doctor` examines the
//! credential, goes the way to the server, and tells the authority of its certificate and the
//! protection in force. Both print one line a fact: `ok`, `warn` or `FAIL`, the fact, and the remedy,
//! or `skip` for a fact behind a fault. The exit status is 1 if there is a `FAIL`.
//!
//! ```text
//! FAIL  authorities: b699121e.0: certificates by /O=Grid/CN=Lab CA are refused: the revocation list of /O=Grid/CN=Lab CA expired at ...: fetch a new b699121e.r0
//! warn  gridmap: /etc/grid-security/grid-mapfile: ann has no account in --users, and may read and write the whole tree; ...
//! ```

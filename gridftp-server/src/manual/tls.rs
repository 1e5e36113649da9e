//! FTP over TLS, from an empty machine to a first copy.
//!
//! # A certificate
//!
//! Use the one that your authority issued for the host, with its chain in the same file. To try
//! things out, make an authority of your own and a certificate by it; clients then name the
//! authority by `--ca`:
//!
//! ```sh
//! openssl req -x509 -newkey rsa:2048 -nodes -days 365 -subj "/CN=Example CA" -keyout ca.key -out ca.pem
//! openssl req -newkey rsa:2048 -nodes -subj "/CN=dtn.example.org" -keyout key.pem -out request.pem
//! printf 'subjectAltName=DNS:dtn.example.org\n' > names
//! openssl x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 365 -extfile names -out cert.pem
//! mkdir -p data && printf 'secret\n' | gridftp-server passwd ann --users users
//! gridftp-server --tls-cert cert.pem --tls-key key.pem --users users --root data --port 2811 &
//! printf 'machine dtn.example.org login ann password secret\n' > netrc && chmod 600 netrc
//! printf 'content\n' > run7
//! gridftp-cp --ca ca.pem --netrc=netrc run7 ftps://ann@dtn.example.org:2811/run7
//! gridftp-cp --ca ca.pem --netrc=netrc ftps://ann@dtn.example.org:2811/run7 back
//! cmp run7 back
//! curl --silent --ssl-reqd --cacert ca.pem --netrc-file netrc --output again ftp://dtn.example.org:2811/run7
//! cmp run7 again
//! ```
//!
//! `ftps://` begins in clear text and asks for TLS before anything else (`AUTH TLS`); on port 990 it
//! is TLS from the first byte, which `--tls-port 990` serves; on other ports `--security implicit`
//! begins so. Data is private as well, unless
//! `--protect clear` says otherwise. A server without TLS, a certificate of another host or one
//! that has expired is an error, never a fall-back to clear text.
//!
//! # When something does not work
//!
//! ```sh
//! gridftp-server check --tls-cert cert.pem --tls-key key.pem --users users --root data --port 2811 --host dtn.example.org
//! gridftp-cp doctor --ca ca.pem --netrc=netrc ftps://ann@dtn.example.org:2811/
//! ```
//!
//! `check` takes the server's own flags and `--config`, and examines on the host whatever the server
//! would use: the tree, the accounts, certificates and keys, the names in them, the clock, the ports,
//! and the rules for each kind of login. It changes nothing, and runs beside the server as well as
//! before it; run it as the user of the server. `doctor` goes the way of a client step by step, to a
//! listing through a data connection of each direction, and to the disk of the client. Both print one
//! line a fact: `ok`, `warn` or `FAIL`, the fact, and the remedy, or `skip` for a fact behind a fault;
//! with `--json` one object a line. The exit status is 1 if there is a `FAIL`.
//!
//! ```text
//! FAIL  tls: certificate cert.pem: /CN=dtn.example.org, expired 3 days ago; renew it
//! FAIL  tls: key key.pem: its mode 0644 lets others at it; chmod 600 key.pem, and replace the key if they were
//! ```
//!
//! # Rules
//!
//! What the server demands of which login, and how data connections are bound to their session,
//! stands in [`security`](super::security).

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
//! What the server demands of which login, and how data connections are bound to their session,
//! stands in [`security`](super::security).

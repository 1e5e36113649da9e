//! Storage in a process of its own: a back end that others write, in any language.
//!
//! ```text
//! folder.py /srv/data /run/folder.sock &
//! gridftp-server --storage process:socket=/run/folder.sock
//! ```
//!
//! The process serves a gRPC service on a Unix socket, and passes the descriptors of its files on a
//! second one (`/run/folder.sock.fd`). The service is `proto/storage.proto` of the crate
//! `gridftp-dsi-rpc`, with the complete example `examples/folder.py` in Python. Whoever can
//! connect to the sockets can do everything the process can: keep them in a directory that only the
//! server and the process may enter.
//!
//! The process has to run when the server starts. When it ends later, its transfers fail with `450` or `451`,
//! and the next command connects to the process that was started in its place; other storages and
//! their sessions notice nothing. Uploads appear whole, under their final names, once the process
//! has finished them. They cannot be continued, and `APPE` and `ESTO` are answered `504`,
//! unless the process describes itself otherwise.

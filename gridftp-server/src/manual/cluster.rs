//! Data nodes: one front end for the control connections, many hosts for the data.
//!
//! The nodes are processes on hosts that share a storage: a POSIX file system that all mount at the
//! same place or at different ones. The front end mounts it as well, or asks the nodes (`--storage
//! nodes`, below); a node with another directory or bucket is refused. No data passes the front
//! end. Clients see one server; a client that asks for stripes (`gridftp-cp` does so for large files,
//! `globus-url-copy -stripe`) uses all nodes for one file, any other client one node for a transfer.
//!
//! # A first cluster
//!
//! Here all members are on one host; on several, the `node` lines run on the hosts of the nodes. The
//! first line builds the programs, in a checkout, and needs Rust and nothing else.
//!
//! ```sh
//! cargo build --release --bins && export PATH="$PWD/target/release:$PATH"
//! gridftp-server cluster init --cluster front --name front
//! mkdir -p data
//! gridftp-server front --cluster front --cluster-listen 0.0.0.0:2812 --root data --port 2811 --anonymous rw &
//! gridftp-server cluster token --cluster front --address dtn.example.org:2812 > token1
//! gridftp-server cluster join --cluster node1 --name node1 - < token1
//! gridftp-server node --cluster node1 --front dtn.example.org:2812 --root data &
//! gridftp-server cluster token --cluster front --address dtn.example.org:2812 > token2
//! gridftp-server cluster join --cluster node2 --name node2 - < token2
//! gridftp-server node --cluster node2 --front dtn.example.org:2812 --root data &
//! gridftp-server nodes --cluster front --front dtn.example.org:2812
//! head -c 100000000 /dev/urandom > run7
//! gridftp-cp run7 ftp://dtn.example.org:2811/run7
//! gridftp-cp ftp://dtn.example.org:2811/run7 back
//! cmp run7 back
//! ```
//!
//! `cluster init` makes the cluster's own certificate authority and the certificate of this front
//! end. A token lets one host join once, within an hour (`--valid`); it holds the address of the front
//! end and the digest of the authority, so the new host talks to nobody else. `--front` makes a token
//! for a further front end over the same nodes; a node then names both by `--front`. The folders hold
//! private keys: keep them for the user of the server alone. The default is `/etc/gridftp/cluster`.
//!
//! The options can stand in the file of `--config` as well, those of the cluster in a section:
//!
//! ```toml
//! [cluster]
//! folder = "/etc/gridftp/cluster"
//! fronts = ["dtn.example.org:2812"]
//! capacity = 64
//! ```
//!
//! # A front end without the storage
//!
//! With `--storage nodes` the front end needs no mount: it lists, renames, hashes and publishes through
//! the nodes, whatever storage they have. Here it takes the place of the one above,
//! which is stopped first, and the nodes find it by themselves:
//!
//! ```sh
//! gridftp-server front --cluster front --cluster-listen 0.0.0.0:2812 --storage nodes --port 2811 --anonymous rw &
//! gridftp-cp ftp://dtn.example.org:2811/run7 again
//! cmp run7 again
//! ```
//!
//! Each call goes to one node, that of a path and a user as long as it is connected, a checksum to the
//! node with the least load. When a node is lost, another one gets its calls; a change that may have been
//! made is not repeated, but answered 451, and an upload that was opened there fails and can be
//! continued. Without a node, commands are answered 450 until one is there. The storage stands alone, at
//! `/`, and not with `--hybrid`; checks of rights are those of the process of the node, which trusts the
//! front end for the names of users. The lock on an upload to files that a frozen node holds stays
//! until its session ends: continue it once the node runs again or is stopped. Old partial uploads are removed by
//! the nodes (`--partial-expiry` there).
//!
//! The list of partial uploads (`SITE HELD` of a directory, `gridftp-cp --partials`) is asked of all nodes
//! at once, since each may have an index on its own disk (`--partial-index`), and merged by name. One that
//! is lost meanwhile, or of a version without such lists, tells none: the list says that more are kept, and
//! the log of the front end names it. A front end with a mount lists by its own index: give it that of the
//! nodes. `SITE DELHELD` (`gridftp-cp --discard`) goes to one node, as all changes do.
//!
//! # Ports
//!
//! | Port | Of | For |
//! | --- | --- | --- |
//! | 2811 | the front end | clients |
//! | 2812 (`--cluster-listen`) | the front end | nodes, and hosts that join; TLS with certificates of both ends |
//! | `--data-ports` | the nodes | data of clients |
//!
//! A node needs no port that anybody knows beforehand, and no root. Where nodes may not dial out, they
//! listen (`--cluster-listen`), and the front end dials them (`--node HOST:PORT`). Only control crosses
//! these connections. A node tells clients the address that it has towards them; `--bind` and
//! `--advertise` of the node choose another.
//!
//! # Nodes that come and go
//!
//! A front end uses every node that is connected, the one with the fewest transfers for its
//! `--capacity` first, and at most `--stripes` of them for one transfer. Nodes come and go without a
//! restart: the sessions of a busy node move to one that joins with their next `PASV` or `SPAS`. `--drain` places no more sessions on a node, so that it can be stopped once `running` is 0;
//! SIGTERM at the node does the same by itself and waits `--drain-timeout`, also for files and calls that
//! front ends have open at its storage.
//!
//! ```sh
//! gridftp-server nodes --cluster front --front dtn.example.org:2812 --drain node1
//! gridftp-server nodes --cluster front --front dtn.example.org:2812 --json
//! gridftp-server nodes --cluster front --front dtn.example.org:2812 --undrain node1
//! ```
//!
//! A node that dies or stands still fails its transfers within five seconds: the client is told the
//! ranges that are stored (111), then 426 with the name of the node, and continues with the nodes that
//! are left; others do not notice. Ranges that the storage cannot record within these seconds are not
//! told. An upload appears under its name once every node has its bytes on stable
//! storage, and the front end has found every reported range in the file; markers name such ranges
//! only. `--sync-writes=false` of the front end spares the syncs, about one a second for each node of
//! an upload: a crash of a machine may then lose bytes that a marker named. Ranges that the front end
//! cannot look for are not kept. On NFS, SMB, FUSE and ZFS, where holes of a file do not show, it sees
//! only that the file is long enough.
//!
//! Where one node stores a file alone, it publishes it by itself, and the front end compares the size
//! of the file with the report of the node and with the announcement of the client (`ALLO`): another
//! size is answered 451. It is also the answer where another program moves, removes or rewrites the file
//! between its publication and this look, though the file was published. A front end over NFS must see
//! new and changed files within three seconds: mount it with `actimeo=3`, or `noac`. Where one of several
//! storages in a tree keeps no files (`null`), the front end looks at none. After `ABOR` the reply is
//! that of its end; a node, or a storage at the look, that takes longer than a minute is given up with
//! 426, and the file may be published.
//!
//! With `--hybrid` the front end itself serves clients that ask for no stripes.
//!
//! # The rate of a session
//!
//! A bound on the bytes a second of a session (`SITE RATE`, see [deviations](super::deviations)) is kept
//! by its nodes: the front end tells each stripe of a transfer an equal share, and a new share at each
//! change. A slow stripe, or a stripe without bytes, leaves the rest of its share unused. `gridftp-cp`
//! sends the command between two servers for `--bwlimit` and `--polite`. Upgrade nodes before front ends:
//! a node of a version without the request ends each session with such a bound.
//!
//! # Digests of copies over nodes
//!
//! A tagged transfer (`ESTO digest=`, `ERET digest=`, see [deviations](super::deviations)) is proven over
//! nodes as on one host, without a second reading: each node digests the blocks that it sends or
//! receives, and tells the front end their values, 41 bytes for each block of a stripe or each MiB,
//! four times a second. The front end joins them to the digest of the whole, which the final reply
//! tells. Of an upload the sender tells its digest to a node, and the front end publishes nothing that
//! differs. Of a download each node asks the front end before its end marks, and the last one to ask is
//! given the digest, which it tells the receiver: so a copy between two servers over several stripes is
//! compared before it is published, and of one that differs only the bad parts are sent again.
//! `gridftp-cp` makes use of it (`Striped` in `FEAT`). Upgrade nodes before front ends: to a node of a
//! version without it tagged data is no valid block, so that it fails each such transfer.
//!
//! An upload that continues an earlier one goes on with the values that the front end has recorded
//! beside the partial file, or in the journal of an object store, so that its bytes are not read again.
//! With `--storage nodes` a node records them, and hashes the ends of the ranges, less than 1 MiB each;
//! through a node of an older version the file is read before it is published. The front end refuses a
//! tagged upload (554) when the client sends bytes again that its `REST` named: the recorded values of
//! these bytes would be wrong.
//!
//! Without a digest, and so verified by `CKSM` behind the transfer, are downloads that continue with more
//! than 256 MiB of which the front end does not know the values, as after its restart; and transfers in
//! pieces of less than some KiB at a high rate, or with one node more than 65,536 blocks ahead of
//! another: 64 GiB with blocks of 1 MiB, 4 GiB with 64 KiB. With blocks that are no multiple of 1 KiB it
//! is 4,096 of them.
//!
//! # Security
//!
//! Sessions, accounts, policy, the way of storing (`--in-place`, `--sync-writes`) and the checks of
//! certificates are the front end's. For data channels with authentication (`DCAU`, `PROT` under Grid
//! security) the node gets the credential of the session with the set-up of the connections (`PASV`,
//! `SPAS`, `PORT`, `SPOR`). It drops it at the end of the transfer; in MODE E, where a set-up serves
//! further transfers, with the next set-up or the end of the session. It needs `--ca-dir` and a host
//! credential of its own for the authorities. TLS without Grid security (`AUTH TLS`) ends at the front
//! end: `PROT P` is answered 536, unless `--hybrid` lets the front end move the data.
//!
//! Digests (`CKSM` with `--storage nodes`, `ERET checksum=`) are the word of a node: the front end reads
//! nothing again, and compares with `ERET` the algorithm and the number of bytes.
//!
//! Members renew their certificates by themselves. A new authority comes in beside the old one, which
//! is trusted until it is retired; SIGHUP has the front end read its folder again:
//!
//! ```sh
//! gridftp-server cluster rotate --cluster front
//! ```
//!
//! The old one ends after all members have renewed: a certificate holds 30 days and is renewed ten days
//! before its end.
//!
//! ```sh
//! gridftp-server cluster retire --cluster front
//! ```
//!
//! Where the key of a node may be stolen, its certificates up to now are refused at once, and its
//! connections end; it joins again with a new token, into a new folder:
//!
//! ```sh
//! gridftp-server cluster revoke --cluster front node2
//! ```
//!
//! The front ends learn it from the file `revoked` in their folders: with several, copy it to each. To
//! revoke a front end (`--front`), copy it to the folders of the nodes as well. Install a copy by
//! renaming it, so that no program reads half of it:
//!
//! ```sh
//! cp front/revoked node1/revoked.new
//! mv node1/revoked.new node1/revoked
//! ```
//!
//! A running program ends the connections within a second. It keeps the revocations that it has where
//! the file is not readable, not complete or removed, and logs it; it does not start with such a file.
//!
//! Two nodes of one name are a mistake, or a stolen key: the front end refuses the second one as long
//! as the first one reports.
//!
//! # Limits
//!
//! Several nodes share an upload in storages of the kind `posix`; with others, object stores among
//! them, one node stores a file (`SPAS` returns one address) while all nodes send one (`SPOR`);
//! `gridftp-cp` asks for those before (`OPTS SPAS Command=RETR;`). Checksums and listings on the control channel are made at the front end, or at a node with `--storage nodes`;
//! credentials of users do not pass to storages there.
//!
//! The reply to `EPSV` names no host by its standard. Clients of GridFTP (`gridftp-cp`,
//! `globus-url-copy -ipv6`) get the address of a node in it all the same; for others it is refused.
//! Over IPv6 these clients have active mode (`EPRT`), or need `--hybrid`. So do clients that put the
//! address of the server in place of the one that `PASV` tells, as curl does without
//! `--no-ftp-skip-pasv-ip`.

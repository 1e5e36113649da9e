//! Object stores: a bucket as storage, from an empty machine on.
//!
//! # A first store
//!
//! `versitygw` serves a directory with the interface of S3, so everything can be tried on one
//! machine. With a provider, begin at the file of keys and leave `endpoint` out.
//!
//! ```sh
//! go install github.com/versity/versitygw/cmd/versitygw@latest
//! mkdir -p files/bucket index
//! ROOT_ACCESS_KEY=someone ROOT_SECRET_KEY=some-secret versitygw --port 127.0.0.1:7070 posix files &
//! printf 'AWS_ACCESS_KEY_ID=someone\nAWS_SECRET_ACCESS_KEY=some-secret\n' > keys
//! chmod 600 keys
//! gridftp-server storages
//! gridftp-server --storage 'object:url=s3://bucket/data;endpoint=http://127.0.0.1:7070;region=us-east-1;credentials=keys;index=index' --port 2811 --anonymous rw &
//! head -c 30000000 /dev/urandom > run7
//! gridftp-cp run7 ftp://dtn.example.org:2811/run7
//! gridftp-cp --verify ftp://dtn.example.org:2811/run7 back
//! cmp run7 back
//! gridftp-cp -r /etc/skel ftp://dtn.example.org:2811/
//! gridftp-cp --list ftp://dtn.example.org:2811/
//! cmp run7 files/bucket/data/run7
//! test -z "$(ls index)"
//! ```
//!
//! The last line shows that no upload is left unfinished. `gridftp-server check` with the same
//! options examines the configuration before the server starts. In the file of `--config` the storage
//! is a section, beside others in one tree:
//!
//! ```toml
//! [[storage]]
//! at = "/bucket"
//! storage = "object:url=s3://bucket/prefix;region=eu-west-1;index=/var/lib/gridftp/bucket"
//! ```
//!
//! The server is built with object stores unless its feature `object` is off.
//!
//! # Stores and their keys
//!
//! | Store | `url` | Variables |
//! | --- | --- | --- |
//! | S3, and services with its interface | `s3://bucket/prefix` | `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, `AWS_REGION` |
//! | Google Cloud Storage | `gs://bucket/prefix` | `GOOGLE_SERVICE_ACCOUNT`: the path of the account's key file |
//! | Azure | `az://container/prefix` | `AZURE_STORAGE_ACCOUNT_NAME`, `AZURE_STORAGE_ACCOUNT_KEY` or `AZURE_STORAGE_SAS_TOKEN` |
//! | a directory of this machine, for tests | `file:///path` | none |
//!
//! The variables stand in the environment of the server, or in the file that `credentials` names, one
//! `NAME=VALUE` a line, which goes first; without either, the identity of the machine is used where
//! the provider gives it one. Keys are never an option, since other users of the machine read the
//! arguments of programs: give the file to the user of the server alone. `endpoint` names a service
//! in place of the provider's own; with `http://` keys and data go in clear text, which is for
//! services on the same machine. `region` is that of the bucket. Every byte of the prefix counts, and
//! the values of options are percent-decoded once (`%2C` for a comma, `%3B` for a semicolon).
//!
//! # Uploads, parts and memory
//!
//! A small file goes to the store in one request, a larger one in parts of max(8 MiB, length / 9000).
//! If the client does not announce its length (`ALLO`), parts have an eighth of `--part-memory`, at
//! least 8 MiB and at most 128 MiB; `part` fixes their size. All parts of a file but the last have
//! one size, as some services demand (R2), and a store takes 10,000 of them: a file without an
//! announced length has at most 156 GiB by default, and 1.2 TiB with `--part-memory 1G`; one with an
//! announced length at most 10,000 times `--part-memory` (1.2 TiB by default). Data in MODE E arrives
//! in any order and is collected into parts.
//! All uploads together have `--part-memory` (128 MiB) for that: each begins once there is room for
//! one part, in turn, and takes more up to an equal share; beyond that, connections wait. The uploads
//! of one user have at most half of what others leave, or one part, so that slow ones of one user do
//! not stop the next.
//!
//! A download reads `read_ahead` bytes ahead (64 MiB), in requests of 8 MiB. All downloads together
//! have as much memory for that as all uploads for parts, with the same share of each user; beyond it
//! a download has one such request in memory, and its further connections wait until that is read, or
//! read 256 KiB at a time beside one that stalls. Bytes are freed once read.
//!
//! The object appears with its last part: until then, and after a failure, the name has its old
//! object or none. A digest that the client announces (`SCKS`) is checked before, if the parts arrive
//! about in order; else the object is read again once it is there, and is removed if it differs, so
//! that an older object is not replaced in this way (`504`, as soon as the order shows it; a restart
//! with a digest is refused with `554` before its data, and the client begins anew: the parts of the
//! broken upload cannot be read before they are an object). `gridftp-cp` needs none of this: its digest is
//! that of the data on arrival, and the journal has that of the parts of a broken upload, by groups of
//! 1 MiB (of parts that consist of such, as by default). An object that another client puts there
//! meanwhile is neither checked nor removed (`451`). Stores complete an upload in parts whatever the name
//! has then: an object that another client puts there between the last look at it and the completion
//! is replaced, and nobody is told.
//!
//! An upload that is to replace nothing (`SITE STORATTR x.exclusive=1`, which `gridftp-cp` sends with
//! `--no-clobber` and `--immutable`) is refused with `550` where the name has an object. The store
//! itself decides that, so that of several uploads at the same time one succeeds: S3 for every file,
//! Google and Azure for those of one request. For a file in parts, `object_store` has no such condition
//! there, and the server looks right before it completes the upload; so it does where a service
//! ignores the condition, or where `AWS_CONDITIONAL_PUT=disabled` says that it has none. If the
//! store's reply is lost, the server tells its own object by a unique value in the metadata
//! (`gridftp-upload`) of such a small file, and by the end of the upload in parts. Where the store
//! keeps no metadata, or does not answer, the reply says that the outcome is unknown.
//!
//! # Restarts and orphans
//!
//! The index is a directory on this machine, which must not be in a temporary place: its journals
//! hold the id of each unfinished upload and its stored parts. A client continues a broken upload
//! behind them, also after the server was killed, or where the store did not answer the last request
//! within two minutes. Without `index`, journals are in the directory `objects` of `--partial-index`.
//! Data nodes on several hosts share one index in a directory of all of them, so that the nodes that
//! are left continue the uploads of one that has failed. A server touches the journals of its running
//! uploads each second; the upload of a process that is frozen for four is taken over by the next
//! one that is to continue it.
//! What nobody continues is ended at the store, parts
//! and all, after `--partial-expiry` hours. A journal that is lost leaves parts at the store that
//! cost money and that no listing shows: let the bucket's own rules end unfinished uploads after
//! some days as well (for S3, `AbortIncompleteMultipartUpload`).
//!
//! # Refused commands
//!
//! | Command | Reply | Reason |
//! | --- | --- | --- |
//! | `RNTO` of an object, or of a directory with one, above the store's limit of copies (5 GiB at S3) | `550`, with the limit and the object | a rename is a copy and a removal: upload it again under the new name |
//! | `RNTO` of an object that another client replaces meanwhile | `451`, with the object | both names are there, the new content under the old one |
//! | `APPE`, `ESTO A`, `SITE TRNC`, a restart of a complete file | `504` | a store changes no part of an object |
//! | `MFMT`, `SITE UTIME`, `SITE CHMOD`, `SITE CHGRP` | `504` | a store keeps its own times, and no modes or groups |
//! | `SITE SYMLINK` | `504` | there are no links |
//! | names that are not UTF-8, or have control characters | `553` | a key cannot hold them |
//! | an announced length above 5 TiB, or above 10,000 parts of `--part-memory` | `552` | no store takes it, or there is no memory for its parts: raise `--part-memory` |
//! | more than 10,000 parts of a file whose length is not announced | `552` | send `ALLO`, or fix `part` |
//!
//! A directory is an empty object that marks it, or the prefix of other objects.
//!
//! # Checksums
//!
//! `CKSM` reads the object. An entity tag is no digest of an object in parts, or of an encrypted one,
//! and the digests that some stores keep (`x-amz-checksum-…`, `x-goog-hash`, `Content-MD5`) are not in
//! the replies as `object_store` gives them. The server keeps no digest of its own beside the object
//! either: metadata is sent when an upload in parts begins, before its digest is known, and a small
//! object is read as fast as its metadata.

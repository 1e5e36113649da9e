//! Files in an archive: storage over another one, from which a program retrieves files.
//!
//! Where the data of files may be on tape, put the layer `staged` over the storage, and name two
//! programs:
//!
//! ```text
//! gridftp-server --storage 'posix:root=/archive,staged:status=/usr/local/bin/on-disk;recall=/usr/local/bin/recall'
//! ```
//!
//! Each program gets the path of a file within the storage as its only argument, and the variables
//! `STAGE_USER` and `STAGE_TASK` (the client's `SITE TASKID`) as its whole environment; no shell
//! reads them. `status` ends with 0 if the data of the file is at hand and with 1 if it is in the
//! archive. `recall` retrieves it and ends with 0 once it is at hand; its first line on standard
//! error tells clients why it failed. Their number and their time are bounded, see
//! `gridftp-server storages`; a program that runs too long is killed with its children.
//!
//! | Command | Answer |
//! | --- | --- |
//! | `MLST file` | the fact `X.staged=true` or `false` |
//! | `SITE STAGE 30 file` | `250` once the data is at hand; after 30 seconds (at most 600) `450 file: is being retrieved from the archive...`, and the retrieval goes on |
//! | `ERET tar="" dir` | waits a minute for each file; then it ends with `450` and the path of the file, whose retrieval goes on |
//! | `RETR file` | waits for the data, as long as the option `wait` says, then `450`; every ten seconds, or as often as the client wishes markers, a line of the `150` shows that the server is alive |
//!
//! A client that repeats `SITE STAGE` within one task finds its retrieval; one that leaves does not
//! end it. One user has at most 512 retrievals under way or waiting, all together 4096: beyond that,
//! the user with the most gives way. A change of a file in the archive waits as well, except where all of it is replaced.

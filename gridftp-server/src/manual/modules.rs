//! Modules of `ERET` and `ESTO`: archives of directories, regions with a digest, many small files, and
//! measurements.
//!
//! A module makes the bytes of a download, or takes those of an upload. A client names it before
//! the path, with its arguments in quotes, as `globus-url-copy -mn NAME -mp ARGUMENTS` does. `FEAT`
//! lists the modules, and `HELP ERET` and `HELP ESTO` their syntax.
//!
//! | Command | Effect |
//! | --- | --- |
//! | `ERET P 5 10 path` | sends the 10 bytes from offset 5; a length of -1 means to the end |
//! | `ERET checksum="MD5 5 10" path` | sends the same, and the `226` ends with the digest of the bytes: `Bytes=10;MD5=…;` |
//! | `ERET tar="" path` | sends a directory and all below it as a tar archive |
//! | `ERET files="tag 3" dir/a/b/c` | sends the small files `a`, `b` and `c` of `dir`, see below; with their times and permission bits: `"tag 3 facts"` |
//! | `ESTO files="tag 3" dir` | takes three small files, and stores them in `dir` |
//! | `ERET memory="bytes seconds" path` | sends bytes of this server's memory, see below |
//! | `ESTO memory="bytes seconds" path` | takes bytes and discards them |
//! | `ESTO A 5 path` | writes from offset 5 on, visible at once |
//! | `ESTO checksum="MD5 digest 5" path` | writes from offset 5 on, and changes the file only if all bytes sent have this digest, else `550` |
//!
//! The algorithms are those of `CKSM` in `FEAT`. Modules work in `TYPE I`, in both modes, over the
//! file itself (no disk stack), and without `REST`; otherwise the answer is `504`, as for a module
//! that the server does not have. Wrong arguments are answered `501`.
//!
//! # Archives
//!
//! An archive is in the format of POSIX (ustar with pax headers, where names, sizes or times need
//! them): `tar`, `bsdtar` and Python's `tarfile` read it. It has the permission bits, the numbers
//! of owner and group, the modification times to the nanosecond, and symbolic links as links.
//! Devices and sockets are left out. Paths begin with the name of the requested object, and none
//! leads out of it.
//!
//! The archive is made while it is sent, so that it takes neither disk nor much memory, and its
//! length is not known ahead. Entries are sorted by name. A file that changes or cannot be read
//! ends the transfer with an error: an archive behind a `226` is complete.
//!
//! # Many small files
//!
//! A copy of many small files by our client spends one command on up to 512 of one directory, of at
//! most 64 KiB each, instead of one on each. The data has a record for each file, in order: its name, a
//! check of the whole record by BLAKE3, and its bytes ([`gridftp_data::pack`] has the form); in MODE E the
//! tag precedes it, as that of `ERET tag=`. A file that is larger, cannot be read or is no file has a record without bytes,
//! and the client asks for it by a command of its own, which tells the reason.
//!
//! Each file that arrives is stored as by a `STOR` of its own, if its check is right, and with the
//! modification time and the permission bits that its record tells, if any; a record may say that the
//! file is to replace nothing.
//! The `226` tells the modification time of each, and `-` for one that is not stored:
//! `Stored=20261129173217.123,-,20261129173217.124;`. The client sends such a file again by a command of
//! its own. A stored file stays, also where the transfer breaks off later.
//!
//! The log has a line for each file that was sent or stored, with the verb `RETR` or `STOR`. A rule of `SITE RESTRICT` beneath
//! the directory has the command refused by `550`. Front ends, and storage with an archive, where one
//! file may keep the others waiting, do not have this module.
//!
//! # Measurements
//!
//! `gridftp speed` measures the path between the memory of both ends by the module `memory`, which
//! touches no storage. The bytes go over data connections as those of a file do: in both modes, over
//! as many connections as the client asks for, protected as it asks or the policy demands, through
//! the chosen stack, within `max-streams`, `stall-timeout` and the descriptors for data. The log has
//! a line for each, with the verb `ERET memory` or `ESTO memory`.
//!
//! A download ends when the bytes are sent or the seconds are over. An upload ends with the client;
//! more bytes than it said are answered `552`, and one that goes on a minute behind its time `426`.
//! `MEMORY Bytes=1099511627776;Seconds=60;` in `FEAT` tells the bounds, to which larger numbers are
//! cut. `max-measurement` sets the seconds; with 0 there are no measurements, and front ends have
//! none either.
//!
//! Anonymous users of one address (IPv6: of one /64) have at most four measurements at once, and are
//! answered `450` beyond that; users with a password or a certificate have no such limit.
//!
//! Anyone may measure who may look at `path`, an object there is: no byte stays, so that read access
//! suffices for uploads. A path that the storage or `SITE RESTRICT` hides is answered `550`.

//! The numbers of streams and of files at once, and paths that lose packets.
//!
//! # Streams and files at once
//!
//! Rules choose the first numbers: by size, distance, mode and the number of files. A copy over a path
//! of 2 ms or more is then measured each second, or each 10 s between two servers, by their markers.
//! It tries more and fewer streams of a large file, and files at once, for five periods each, of which
//! the last three count, and keeps to those with the best score: the rate, less 2 % for each
//! connection, and less ten times the part of segments that were sent again. The kernel's times of the
//! sender's connections stop a search for more streams: while the receiver has no room, or the
//! connections nothing to send. Where a server of ours sends, to this end or to another server, its
//! markers tell them each second (`WAITS` in `FEAT`); of other servers, and of data nodes, nothing is
//! known. Numbers of the caller stay.
//!
//! - There are at most 16 streams of a file, 16 files in MODE E (8 of four streams) and 32 in MODE S,
//!   and 32 connections.
//! - Streams change from file to file. A large file that is alone begins with those that served
//!   best before, or four, and its sender adds connections while it runs, from and to servers that
//!   tell the most of them (`CONNECTIONS` in `FEAT`). At most 16 are open from the start; twice as
//!   many carry data as long as that raises the score by 5 %, in periods of a second or ten round trips.
//!   The score is the rate, less ten times the part of the packets that were sent again. Where 2 % or
//!   more are sent again in two measurements in a row, half as many connections carry data as long as
//!   95 % of the rate stay. Connections that are not needed end early. It is not so for a polite copy
//!   and under a rate limit. Between two servers the number is kept where the source is one of ours,
//!   which tells it.
//! - Commands ahead and the size of blocks follow from the path and the file, and are not searched. A
//!   transfer is asked for ahead while a connection has less under way than twice the bytes of its path
//!   (the rate of the last period times the round trip), from 8 to 256 MiB and up to 256 transfers: over
//!   50 ms and 1 Gbit/s twice as much ahead brings nothing, and a quarter takes up to twice as long. A
//!   block of MODE E is a quarter of the share of a connection, from 256 KiB to 4 MiB, and of a slow one
//!   the bytes of half a second: blocks of 64 KiB to 16 MiB differ by a tenth in their rates on loopback,
//!   and not on a long path.
//! - Files of at most 64 KiB of a directory share commands from and to servers of ours (`files` in the
//!   lines `ERET` and `ESTO` of `FEAT`): up to 512 of them, 256 KiB in all, so that a command and a reply
//!   cost many files as much as one. It is not so for copies with `--xattrs`, `--resume`, an
//!   offset or a length, another digest than by default, layers over the files, or between two servers;
//!   nor for uploads to servers that store in place, or with times to servers that set none.
//! - What served best is kept for a pair of ends, a mode and a stack in the file
//!   [`CopyOptions::memory`], for small files and for large ones: the last 256 of them.
//!   A copy that is polite, or has a rate limit, adds nothing to it.
//! - A copy that is [polite] measures near paths too, and compares
//!   the round trips of each peer with the least one of the last minute. It tells its own
//!   queue from that of others by nothing, and a path that was full from the start of its first
//!   connection seems longer than it is. A file that is under way keeps its streams, so that the rate
//!   gives way first. Between two servers the next files have fewer streams, and fewer are under way at
//!   once; the rate gives way where one of them bounds it (`RATE` in `FEAT`). The round trips are those
//!   that a source of ours tells; a warning says where it tells none.
//!
//! # Paths that lose packets
//!
//! Most congestion controls take a lost packet for a full link, so that on a long path a few in ten
//! thousand cost most of the rate. Three steps help:
//!
//! - A sender with a connection over a path of 20 ms or more, which loses packets in three periods on
//!   end, changes it to BBR: one in 1,000 in periods of 0.5 s or five round trips, whichever is longer,
//!   or one in 10,000 in periods of a second or ten round trips. Others to the same host follow at their
//!   first loss, in the minute behind that. Where there are several, the packets of all together tell it
//!   in about two seconds.
//! - Where its kernel refuses that, more streams share the loss.
//! - The copy goes on over UDT, with [`CopyOptions::over_udt`], the stack
//!   that is the default, and servers that offer UDT (`LOSS` in `FEAT`), where at least 64 MiB
//!   and ten seconds are left. A listing in a session of its own first shows that UDT gets through, and
//!   between two servers, from one to the other, bytes of their memory (`MEMORY` in `FEAT`); where
//!   they do not, the copy stays with TCP, and a note tells it. Then the sessions end in the
//!   middle of their transfers, and others with UDT go on behind the bytes that have arrived, with
//!   the same protection. That is no failed attempt. It returns to TCP, once, where a connection
//!   breaks; and until it has moved data for ten seconds (twenty between two servers), where nothing
//!   moves for a minute in which no end is known to hash held bytes, or where the transfers are
//!   slower than before from the fifth second on, in total and each of them. A copy that is polite,
//!   has a rate limit, layers over its files or chosen data ports stays with TCP, and so do one of
//!   files without a modification time, and one to a server that keeps no broken uploads: they would
//!   begin anew. Between two servers the source has to tell that the path loses packets (`WAITS` in
//!   `FEAT`), and the change comes once all files are found.
//!
//! [`CopyOptions::memory`]: crate::options::CopyOptions::memory
//! [`CopyOptions::over_udt`]: crate::options::CopyOptions::over_udt
//! [polite]: field@crate::options::CopyOptions::polite

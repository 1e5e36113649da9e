//! Which bytes of a copy are compared, by whom, and when.
//!
//! Between this library and our own server both ends compute the BLAKE3 digest of all bytes of a
//! transfer while they pass (`Digest` in `FEAT`; in MODE S `Trailer`, over stripes `Striped`), and the
//! sender tells its digest on the data channel: the receiver publishes nothing that differs. Each data
//! node digests its part, and the front end joins the digests. At most 34 KiB go with the digest, with
//! which the receiver finds the differing groups of 1 MiB of a file of any size, so that only those are
//! sent again; where about 700 or more differ, it is the differing ones of 1,024 sections. A part written
//! into a file that exists is there at once. Behind a transfer of a pipe, or that continued one of which
//! an end does not know the values, the stored files are read again for their digests, where both ends
//! know BLAKE3 and the server does not refuse.
//!
//! Small files, which share commands, have a check each, of their names, facts and bytes by BLAKE3: the end
//! that receives them compares it before it gives the file its name, and stores nothing that differs.
//!
//! At any other server the stored files are read again for a digest (`CKSM`): the best of those that
//! cost little more than its cheapest, so SHA-256 and CRC-32C before Adler-32 unless it keeps that;
//! MD5 is tried at a server with MODE E that lists none. The question goes out with the commands
//! behind the transfer and costs no round trip of its own, but the server reads the file before it
//! begins the next one of that connection. A large file shows as "verifying 43 %" where the server
//! sends markers. Lengths are compared in any case. Where no digest is to be had (the server has none,
//! refuses, or does not reply) the copy stands, nothing is copied again, and a warning tells once that
//! copies are compared by size only; [`progress::Verification`] tells it of each file. A copy that
//! differs is copied again and never has the final name, or is removed where it was written under that.
//!
//! [`Verify::Cheapest`] and [`Verify::With`] fail
//! without digests, and so does [`Verify::Disk`], which syncs a downloaded file,
//! drops it from the page cache and compares the bytes that it reads back from the medium. An upload is
//! read again by the server, which syncs it before that if its `FEAT` has `DURABLE`; a warning tells
//! where not. [`Verify::No`] leaves corrupted bytes undetected but for the
//! first 128 KiB of such a MODE E transfer, and small files that share a command.
//! [`file`], listings and gateways compare no digests.
//!
//! [`Verify::Cheapest`]: crate::options::Verify::Cheapest
//! [`Verify::Disk`]: crate::options::Verify::Disk
//! [`Verify::No`]: crate::options::Verify::No
//! [`Verify::With`]: crate::options::Verify::With
//! [`file`]: mod@crate::file
//! [`progress::Verification`]: crate::progress::Verification

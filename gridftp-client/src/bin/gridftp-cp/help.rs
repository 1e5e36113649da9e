//! The texts of `--help` and the man page before and behind the flags.

/// The exit statuses, for `--help` and the man page.
pub(crate) const EXIT: &str = "\
Exit status:
  0    all was done
  1    some files or operations failed; each is named on standard error
  2    the command line or a URL is wrong
  3    a server cannot be reached, or the connection to it was lost for good
  4    a server refused the login
  5    verification found a copy that differs from its source
  130  stopped by a signal; no name here holds a file that is not whole, but for
       one of which --offset or --length replaced a part; what is written in
       order, as standard output or a FIFO, has got the beginning";

/// The example commands, for `--help` and the man page.
pub(crate) const EXAMPLES: &str = "\
Examples:
  gridftp-cp -r run7/ gsiftp://dtn.example.org/data/run7/
      copies the contents of run7
  gridftp-cp -r --sync run7/ gsiftp://dtn.example.org/data/run7/
      copies the files that are not there, or have another size or time
  gridftp-cp -r --sync --checksum gsiftp://dtn.example.org/data/run7/ run7/
      copies the files that differ, whatever their times
  gridftp-cp -r --update --backup-dir /data/old run7/ gsiftp://dtn.example.org/data/run7/
      keeps newer files, and moves those that are replaced to /data/old first
  gridftp-cp -r --sync --delete --max-delete 100 --dry-run run7/ gsiftp://dtn.example.org/data/run7/
      tells what would be copied, and what would be removed there
  gridftp-cp -r --links copy run7/ gsiftp://dtn.example.org/data/run7/
      copies symbolic links as links
  gridftp-cp -r --failed-list failed gsiftp://dtn.example.org/data/run7/ run7/
  gridftp-cp -r --files-from failed gsiftp://dtn.example.org/data/run7/ run7/
      copies all, and later those that failed
  gridftp-cp -4 --data-ports 50000-50100 gsiftp://dtn.example.org/data/file .
      uses IPv4 and the ports that the firewall here lets in
  gridftp-cp -r --fail-fast --stats --log-file log run7/ gsiftp://dtn.example.org/data/run7/
      ends at the first failure, tells the progress every 10 s, and keeps a log
  gridftp-cp -r --immutable run7/ gsiftp://dtn.example.org/data/run7/
      adds files, and fails for each that is there and differs
  gridftp-cp -r --bwlimit '08:00,10M 18:00,off' run7/ gsiftp://dtn.example.org/data/run7/
      leaves most of the link to others by day
  gridftp-cp -r --polite run7/ gsiftp://dtn.example.org/data/run7/
      gives way to other traffic on a path whose queues grow
  gridftp-cp --explain run7/large gsiftp://dtn.example.org/data/
      tells where the time went, and what would help most
  gridftp-cp -r --sync-writes gsiftp://dtn.example.org/data/run7/ run7/
      has each file on the disk before it counts as copied
  gridftp-cp -r --receipt receipts run7/ gsiftp://dtn.example.org/data/run7/
      keeps signed receipts of the copies, which gridftp check-receipt checks
  gridftp-cp --partials /data gsiftp://dtn.example.org/data/
  gridftp-cp --discard /data gsiftp://dtn.example.org/data/
      lists the remains of copies that broke off there, and removes them
  gridftp-cp -r run7/ cern:run7/
      copies to the place cern of the configuration file below
  gridftp-cp -r --sync --delete --preserve run7/ /mnt/disk/run7/
      makes a second copy on this machine, compared with its source

";

/// A configuration file, for `--help` and the man page.
pub(crate) const SETTINGS: &str = "\
Configuration file, ~/.config/gridftp/config.toml:
  [defaults]
  retry-for = 3600
  [place.cern]
  url = \"gsiftp://dtn.example.org/data\"
  parallel = 8
  preserve = true

";

/// The text of `--help` before the flags.
pub(crate) const ABOUT: &str = "\
Copies files to, from and between GridFTP servers, and from one place of this machine to another.

A source or destination is an ftp://[USER[:PASSWORD]@]HOST[:PORT]/PATH URL, an ftps:// URL for TLS, \
a gsiftp:// URL for Grid security, \
an sshftp://[USER@]HOST[:PORT]/PATH URL or [USER@]HOST:/PATH for a host that is reached through ssh, \
a file: URL, a plain path, or - for standard input or output. A directory source that ends in / means its contents; \
without the slash the directory itself is copied into the destination. Missing destination \
directories are made. The last component of a source URL may have wildcards (* ? [a-z]), which are \
matched against what is there; %2A, %3F and %5B stand for themselves. A path /~/x of a URL is \
relative to the home directory of the account. A source that is its own destination, or a tree that \
the destination lies in, is refused.

A copy lands under a temporary name beside its target and is renamed when it is complete and \
checked, at servers that rename too; a part of a file (--offset, --length) is written into a file \
at a server that has it. A destination that exists and is no regular file, such as /dev/null or a FIFO, is \
written directly.

A copy between two local places needs no server, and flags of connections have no effect on it. Holes \
of files stay holes. With --no-verify the kernel copies the bytes, by reference on file systems that can.

Data between two servers goes from one to the other, or passes this machine where they refuse that \
and both protect it alike (--relay).

NAME:/PATH is a path below the URL of [place.NAME] in ~/.config/gridftp/config.toml, or in \
$GRIDFTP_CONFIG. A flag that the command line leaves out is taken from its variable (--block-size \
from GRIDFTP_BLOCK_SIZE), the place, or [defaults], in this order; a local path of that form is \
written as ./NAME:/PATH.

Started as globus-url-copy, or with --globus as the first word, it takes the options of that program \
and writes its output; an option or a GLOBUS_ variable that cannot be honoured is an error.

Unless -p and -j say otherwise, a copy over a path of 2 ms or more tries more and fewer streams of a large file, and files at once, and keeps to those with the best rate for their number; where this end sends, the kernel's times of its connections tell when more cannot help. The numbers that served best between two ends are the start of the next copy: they are in ~/.cache/gridftp/paths, or in $XDG_CACHE_HOME, a text file that may be removed. --explain tells them. A large file that is copied alone gets more streams while it runs, up to 16, as long as twice as many have a better rate, and keeps to the best number; between other files, streams change from file to file.

On a path of 20 ms or more that loses packets, a sender changes to BBR. Where its kernel refuses that \
(net.ipv4.tcp_allowed_congestion_control), and the server offers udt (net-stacks), a large download or \
upload goes on over UDT behind the bytes that have arrived, and returns to TCP if that is slower; -v \
tells it. A named stack, also tcp, a polite copy and a bound on the rate leave that out.

With the word proxy first, it makes, shows and destroys proxies of the Grid instead, and with the \
word doctor it examines the way to a server; files of these names are copied as ./proxy and ./doctor.";

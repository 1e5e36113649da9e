//! The texts of `--help` and the man page before and behind the flags.

use gridftp_client::program::examples::Example;

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

/// The example commands, for `--help` and the man page, by use; each option is in one of them.
pub(crate) const EXAMPLES: &[Example] = &[
    (
        "gridftp-cp -r run7/ gsiftp://dtn.example.org/data/run7/",
        "copies the contents of run7",
    ),
    (
        "gridftp-cp -v 'gsiftp://dtn.example.org/data/run7/*.h5' .",
        "copies the files that the pattern fits, and names each when it is done",
    ),
    (
        "gridftp-cp -r run7/ cern:run7/",
        "copies to the place cern of the configuration file below",
    ),
    (
        "gridftp-cp -r gsiftp://dtn.example.org/data/run7/ gsiftp://dtn2.example.net/data/run7/",
        "copies from one server to the other",
    ),
    (
        "tar -c run7 | gridftp-cp - gsiftp://dtn.example.org/data/run7.tar",
        "writes standard input to a file there",
    ),
    (
        "gridftp-cp https://data.example.org/run7/large.h5 gsiftp://dtn.example.org/data/",
        "copies a file of a web server",
    ),
    (
        "gridftp-cp --list gsiftp://dtn.example.org/data/",
        "lists a directory",
    ),
    (
        "gridftp-cp -r --sync run7/ gsiftp://dtn.example.org/data/run7/",
        "copies the files that are not there, or have another size or time",
    ),
    (
        "gridftp-cp -r --sync --checksum gsiftp://dtn.example.org/data/run7/ run7/",
        "copies the files that differ, whatever their times",
    ),
    (
        "gridftp-cp -r --update --backup-dir /data/old run7/ gsiftp://dtn.example.org/data/run7/",
        "keeps newer files, and moves those that are replaced to /data/old first",
    ),
    (
        "gridftp-cp -r --sync --delete --max-delete 100 --dry-run run7/ gsiftp://dtn.example.org/data/run7/",
        "tells what would be copied, and what would be removed there",
    ),
    (
        "gridftp-cp -r --sync --delete --preserve run7/ /mnt/disk/run7/",
        "makes a second copy on this machine, compared with its source",
    ),
    (
        "gridftp-cp -r --immutable run7/ gsiftp://dtn.example.org/data/run7/",
        "adds files, and fails for each that is there and differs",
    ),
    (
        "gridftp-cp -r --no-clobber run7/ gsiftp://dtn.example.org/data/run7/",
        "adds files, and leaves those that are there",
    ),
    (
        "gridftp-cp -r --include '*.h5' --max-depth 2 gsiftp://dtn.example.org/data/run7/ run7/",
        "copies the files of one kind, no deeper than in the directories of run7",
    ),
    (
        "gridftp-cp -r --exclude scratch/ --exclude '*.tmp' run7/ gsiftp://dtn.example.org/data/run7/",
        "leaves out a directory, and the files of one kind",
    ),
    (
        "gridftp-cp -r --filter-from rules run7/ gsiftp://dtn.example.org/data/run7/",
        "reads such patterns from a file, in lines as: - *.tmp",
    ),
    (
        "gridftp-cp -r --min-size 1M --max-size 10G --max-age 7d gsiftp://dtn.example.org/data/run7/ run7/",
        "copies the files of the last week that have such a size",
    ),
    (
        "gridftp-cp -r --failed-list failed gsiftp://dtn.example.org/data/run7/ run7/",
        "copies all, and writes the names that failed to a file",
    ),
    (
        "gridftp-cp -r --files-from failed gsiftp://dtn.example.org/data/run7/ run7/",
        "copies the names in that file",
    ),
    (
        "gridftp-cp --resume gsiftp://dtn.example.org/data/large.h5 .",
        "goes on with the bytes of a broken copy, of a file of any size",
    ),
    (
        "gridftp-cp -r --no-resume run7/ gsiftp://dtn.example.org/data/run7/",
        "begins all files anew, and keeps no part of one that fails",
    ),
    (
        "gridftp-cp --partials /data gsiftp://dtn.example.org/data/",
        "lists the remains of copies that broke off there",
    ),
    (
        "gridftp-cp --discard /data gsiftp://dtn.example.org/data/",
        "removes them",
    ),
    (
        "gridftp-cp -r --retries 10 --retry-for 2h --timeout 10m gsiftp://dtn.example.org/data/run7/ .",
        "waits through two hours of maintenance, and ten minutes for a tape",
    ),
    (
        "gridftp-cp -r --fail-fast --stats=5m --log-file log run7/ gsiftp://dtn.example.org/data/run7/",
        "ends at the first failure, tells the progress every five minutes, and keeps a log",
    ),
    (
        "gridftp-cp -r --quiet --json run7/ gsiftp://dtn.example.org/data/run7/",
        "writes errors only, as JSON",
    ),
    (
        "gridftp-cp -r --receipt receipts run7/ gsiftp://dtn.example.org/data/run7/",
        "keeps signed receipts of the copies, which gridftp check-receipt checks",
    ),
    (
        "gridftp-cp -r --verify=sha256 run7/ gsiftp://dtn.example.org/data/run7/",
        "compares SHA-256 digests of the stored files of both ends",
    ),
    (
        "gridftp-cp --no-verify gsiftp://dtn.example.org/data/large.h5 /dev/null",
        "moves the bytes without digests, to measure the way",
    ),
    (
        "gridftp-cp --explain run7/large.h5 gsiftp://dtn.example.org/data/",
        "tells where the time went, and what would help most",
    ),
    (
        "gridftp-cp -r --parallel 8 --concurrency 4 run7/ gsiftp://dtn.example.org/data/run7/",
        "keeps to 8 streams of a file and 4 files at once",
    ),
    (
        "gridftp-cp -r --max-parallel 4 --max-concurrency 3 run7/ gsiftp://dtn.example.org/data/run7/",
        "has the copy choose both numbers, up to 4 streams of a file and 3 files at once",
    ),
    (
        "gridftp-cp -r --polite run7/ gsiftp://dtn.example.org/data/run7/",
        "gives way to other traffic on a path whose queues grow",
    ),
    (
        "gridftp-cp -r --bwlimit '08:00,10M 18:00,off' run7/ gsiftp://dtn.example.org/data/run7/",
        "leaves most of the link to others by day",
    ),
    (
        "gridftp-cp --tcp-buffer 64M --block-size 1M run7/large.h5 gsiftp://dtn.example.org/data/",
        "keeps to a TCP buffer for a long path, and to larger blocks",
    ),
    (
        "gridftp-cp --stripes 4 --stripe-layout partitioned gsiftp://dtn.example.org/data/large.h5 .",
        "has at most four hosts of the server send one contiguous part each",
    ),
    (
        "gridftp-cp --stripe-block 4M gsiftp://dtn.example.org/data/large.h5 .",
        "has them send blocks of 4 MiB in turn",
    ),
    (
        "gridftp-cp --stack udt gsiftp://dtn.example.org/data/large.h5 .",
        "moves data over UDT",
    ),
    (
        "gridftp-cp --stack tcp,compress:codec=zlib gsiftp://dtn.example.org/data/table.csv .",
        "compresses data on the way",
    ),
    (
        "gridftp-cp --disk-stack file,compress:codec=zlib table.csv gsiftp://dtn.example.org/data/",
        "has the server compress the file that it stores",
    ),
    (
        "gridftp-cp --mode stream ftp://ftp.example.org/pub/file .",
        "uses MODE S, at a server that is slow in MODE E",
    ),
    (
        "gridftp-cp -r --relay always gsiftp://dtn.example.org/data/ gsiftp://dtn2.example.net/data/",
        "has the data pass this machine, where the servers do not reach each other",
    ),
    (
        "gridftp-cp --offset 1G --length 64M gsiftp://dtn.example.org/data/large.h5 part",
        "copies 64 MiB of a file, behind its first GiB",
    ),
    (
        "gridftp-cp -r --links copy run7/ gsiftp://dtn.example.org/data/run7/",
        "copies symbolic links as links",
    ),
    (
        "gridftp-cp -r --preserve --xattrs run7/ gsiftp://dtn.example.org/data/run7/",
        "carries over times, permission bits and extended attributes",
    ),
    (
        "gridftp-cp --sparse gsiftp://dtn.example.org/data/disk.img .",
        "leaves zeros out as holes, which take no space",
    ),
    (
        "gridftp-cp -r --sync-writes gsiftp://dtn.example.org/data/run7/ run7/",
        "has each file on the disk before it counts as copied",
    ),
    (
        "gridftp-cp -r --cred /run/robot/proxy run7/ gsiftp://dtn.example.org/data/run7/",
        "proves another identity than that of the user's proxy",
    ),
    (
        "gridftp-cp -r --src-cred a.pem --dst-cred b.pem cern:run7/ gsiftp://dtn2.example.net/run7/",
        "copies between servers that know the user by different certificates",
    ),
    (
        "gridftp-cp --delegation none --data-cred auto gsiftp://dtn.example.org/data/file .",
        "gives the server no rights of the user, and data connections a credential of this copy",
    ),
    (
        "gridftp-cp -r --dcau none --protect clear run7/ gsiftp://dtn.example.org/data/run7/",
        "leaves data in clear text, as on a network of one's own",
    ),
    (
        "gridftp-cp --subject /O=Grid/CN=dtn7.example.org gsiftp://dtn.example.org/data/file .",
        "expects a server with the certificate of another name",
    ),
    (
        "gridftp-cp --names HYBRID gsiftp://192.0.2.7/data/file .",
        "takes a certificate for the name that the address resolves to, too",
    ),
    (
        "gridftp-cp --user ann --netrc ftps://ftp.example.org/in/file .",
        "logs in as ann with the password in ~/.netrc",
    ),
    (
        "gridftp-cp --ca lab-ca.pem --cert ann.pem --key ann.key ftps://ftp.example.org/in/file .",
        "trusts an authority of one's own, and has a certificate for the server",
    ),
    (
        "gridftp-cp --user ann --security none ftp://ftp.lab.example.org/in/file .",
        "sends the password in clear text, to a server that has no TLS",
    ),
    (
        "gridftp-cp -r --remote-program /opt/gridftp/gridftp-server run7/ ann@dtn.example.org:/data/",
        "goes through ssh, to a host with the server outside PATH",
    ),
    (
        "gridftp-cp --ipv4 --data-ports 50000-50100 gsiftp://dtn.example.org/data/file .",
        "uses IPv4 and the ports that the firewall here lets in",
    ),
    (
        "gridftp-cp --ipv6 gsiftp://dtn.example.org/data/file .",
        "uses IPv6 alone",
    ),
    (
        "gridftp-cp --trust-pasv-address ftp://ftp.example.org/pub/file .",
        "connects to the data address that the server gives, where it is not its own",
    ),
    (
        "gridftp-cp --debug gsiftp://dtn.example.org/data/file .",
        "shows the control conversation, as for a report of a fault",
    ),
    (
        "gridftp-cp --completions bash > ~/.local/share/bash-completion/completions/gridftp-cp",
        "has bash complete options, and names of places and servers",
    ),
    ("gridftp-cp --man | man -l -", "shows the man page"),
];

/// A configuration file, for `--help` and the man page.
pub(crate) const SETTINGS: &str = "\
Configuration file, ~/.config/gridftp/config.toml:
  [defaults]
  retry-for = \"1h\"
  [place.cern]
  url = \"gsiftp://dtn.example.org/data\"
  parallel = 8
  preserve = true
  [place.lab]
  url = \"ftp://ftp.lab.example.org/run7\"
  user = \"alice\"
  security = \"tls\"
  stack = \"tcp:cc=bbr\"

";

/// The text of `--help` before the flags.
pub(crate) const ABOUT: &str = "\
Copies files to, from and between GridFTP servers, from one place of this machine to another, and from web servers.

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

An http:// or https:// URL is a source too, one file for each: web servers have no listings. Its path \
and its query are sent as they are written; the name of the copy is that of the path. Up to five \
redirections are followed, none from https:// to http://. An account of the URL or of --netrc goes to \
that server only, and over http:// not in clear text through a network, unless --security none says so. \
A copy to this machine goes on by the entity tag or the time of the file, in the next run too if it has \
more than 64 MiB or --resume is given. \
It is compared with the digest in Repr-Digest or Digest, where the server tells one. Servers are \
verified by the authorities of the system ($SSL_CERT_FILE, $SSL_CERT_DIR), or those of --ca; --cert is \
shown to the server of the URL alone, and a proxy of the Grid to none. Signatures and tokens of a query are *** \
in --log-file and --receipt.

Web servers are reached through the proxies that http_proxy (in lower case only), https_proxy, all_proxy \
and no_proxy of the environment name, as curl reads them: http://[USER:PASSWORD@]HOST[:PORT], with port 1080 \
where none is named. An https:// source is under TLS up to its server. Proxies of another kind \
(https://, socks5://) are an error.

Data between two servers goes from one to the other, or passes this machine where they refuse that \
and both protect it alike (--relay).

NAME:/PATH is a path below the URL of [place.NAME] in ~/.config/gridftp/config.toml, or in \
$GRIDFTP_CONFIG. A flag that the command line leaves out is taken from its variable (--block-size \
from GRIDFTP_BLOCK_SIZE), the place, or [defaults], in this order, by the rules at the end of the \
long help; a local path of that form is written as ./NAME:/PATH.

Started as globus-url-copy, or with --globus as the first word, it takes the options of that program \
and writes its output; an option or a GLOBUS_ variable that cannot be honoured is an error. \
gridftp-cp --globus -help tells each option.

Unless -p and -j say otherwise, a copy over a path of 2 ms or more tries more and fewer streams of a large file, and files at once, and keeps to those with the best rate for their number; the kernel's times of the sender's connections tell when more cannot help, those here or those that a server of ours tells. The numbers that served best between two ends are the start of the next copy: they are in ~/.cache/gridftp/paths, or in $XDG_CACHE_HOME, a text file that may be removed. --explain tells them. A large file that is copied alone gets more streams while it runs, up to 16, as long as twice as many have a better rate, and keeps to the best number; between other files, streams change from file to file. \
--max-parallel and --max-concurrency bound all of that, also the numbers of earlier copies; what serves best within them is the \
start of copies with the same bounds, and not of others.

On a path of 20 ms or more that loses packets, a sender changes to BBR. Where its kernel refuses that \
(net.ipv4.tcp_allowed_congestion_control), and the servers offer udt (net-stacks), a large copy goes \
on over UDT behind the bytes that have arrived, and returns to TCP if that is slower; -v tells \
it. A named stack, also tcp, a polite copy and a bound on the rate leave that out.

With the word proxy first, it makes, shows and destroys proxies of the Grid instead, and with the \
word doctor it examines the way to a server; files of these names are copied as ./proxy and ./doctor.";

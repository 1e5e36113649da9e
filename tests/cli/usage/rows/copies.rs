//! Command lines of `gridftp-cp`.

use super::Row;

pub(in crate::usage) const COPIES: &[Row] = &[
    ("", 2, &["Usage: gridftp-cp "]),
    ("--bogus x y", 2, &["unexpected argument '--bogus'"]),
    ("x", 2, &["no destination; write SOURCE... DEST"]),
    ("--list x", 2, &["--list needs an ftp://"]),
    ("--list", 2, &["a value is required for '--list <URL>'"]),
    (
        "--parallel 0 x y",
        2,
        &["--parallel <N>", "0 is not in 1..=256"],
    ),
    (
        "--concurrency 65 x y",
        2,
        &["--concurrency <N>", "65 is not in 1..=64"],
    ),
    (
        "--max-parallel=2 --parallel=4 x y",
        2,
        &[
            "more than --max-parallel 2 allows; write",
            ", or a larger --max-parallel",
        ],
    ),
    (
        "--max-depth 0 x y",
        2,
        &["--max-depth <N>", "0 is not in 1.."],
    ),
    (
        "--stripes 0 x y",
        2,
        &["write a number from 1 to 256, or off"],
    ),
    (
        "--stripe-block 0 x y",
        2,
        &["a block has one byte at least"],
    ),
    (
        "--stripe-layout partitioned --stripe-block 1M x y",
        2,
        &["--stripe-block: is of blocks"],
    ),
    (
        "--stripe-layout round x y",
        2,
        &["[possible values: blocked, partitioned]"],
    ),
    (
        "--block-size 4Q x y",
        2,
        &["write a number of bytes, such as 65536"],
    ),
    (
        "--offset -1 x y",
        2,
        &["--offset <BYTES>", "write a number of bytes"],
    ),
    (
        "--mode block x y",
        2,
        &["--mode <MODE>", "possible values: "],
    ),
    (
        "--bwlimit 0 x y",
        2,
        &["a rate of 0 moves nothing; write off for none"],
    ),
    (
        "--bwlimit 25:00,1M x y",
        2,
        &["25:00: write hours and minutes, such as 18:00"],
    ),
    ("--bwlimit= x y", 2, &["write a rate, or one for each time"]),
    (
        "--timeout 0 x y",
        2,
        &["write whole seconds, or a time with a unit, from 1s to 1d"],
    ),
    ("--retry-for soon x y", 2, &["from 0s to 10000d"]),
    (
        "--data-ports 9-1 x y",
        2,
        &["write a range of ports, such as 50000-51000"],
    ),
    ("--dcau bogus x y", 2, &["write self, none, or a subject"]),
    ("--verify=sha0 x y", 2, &["unknown algorithm; known are"]),
    (
        "--verify sha256 y",
        2,
        &["sha256: is no source here; write --verify=sha256"],
    ),
    (
        "--verify --no-verify x y",
        2,
        &["'--verify[=<ALG>]' cannot be used with '--no-verify'"],
    ),
    (
        "--resume --no-resume x y",
        2,
        &["'--resume' cannot be used with '--no-resume'"],
    ),
    ("--delete x y", 2, &["not provided", "--recursive"]),
    ("-r --max-delete 3 x y", 2, &["not provided", "--delete"]),
    ("--key k x y", 2, &["not provided", "--cert <FILE>"]),
    ("-4 -6 x y", 2, &["'--ipv4' cannot be used with '--ipv6'"]),
    ("-q -v x y", 2, &["cannot be used with '--verbose"]),
    ("--discard", 2, &["not provided"]),
    (
        "--filter-from - --files-from - x y",
        2,
        &["standard input is one list"],
    ),
    ("--filter-from none x y", 2, &["none: read: No such file"]),
    (
        "--filter-from x x y",
        2,
        &["--filter-from: x: line 1: write + PATTERN or - PATTERN"],
    ),
    ("-r --include [ x y", 2, &["usage: --include [: "]),
    (
        "-r --include \\ d y",
        2,
        &["usage: --include \\: nothing follows its last backslash"],
    ),
    (
        "-r --include / d y",
        2,
        &["usage: --include /: the pattern names nothing"],
    ),
    (
        "--files-from x - y",
        2,
        &["usage: the names of --files-from are of one source directory"],
    ),
    (
        "--backup-dir .. -r d y",
        2,
        &["usage: --backup-dir: no name of a directory without . and .."],
    ),
    (
        "x d/one -",
        2,
        &["usage: standard input or output takes exactly one source"],
    ),
    (
        "URL/x* -",
        2,
        &["usage: standard output takes one file, not a pattern"],
    ),
    (
        "--verify x -",
        2,
        &["usage: --verify: nobody tells a digest of standard output; leave it out"],
    ),
    (
        "--partials -",
        2,
        &["usage: -: standard output keeps nothing; name a directory, a file or a URL"],
    ),
    (
        "--security none ftps://localhost:1/x y",
        2,
        &["security: none contradicts ftps://; write ftp:// for clear text"],
    ),
    (
        "--security none --protect private URL/x y",
        2,
        &["security: none leaves nothing to protect data or to show a certificate"],
    ),
    (
        "--security tls gsiftp://localhost:1/x y",
        2,
        &["security: gsiftp:// has Grid security"],
    ),
    (
        "--security tls sshftp://localhost:1/x y",
        2,
        &["security: sshftp:// has the protection of ssh"],
    ),
    (
        "--dcau none --protect private gsiftp://localhost:1/x y",
        2,
        &["dcau: none leaves nothing to protect data with; leave out --dcau none"],
    ),
    (
        "--dcau /CN=x sshftp://localhost:1/x y",
        2,
        &["dcau: data behind ssh has a credential of the session, and no subject"],
    ),
    (
        "--delegation none --dcau self gsiftp://localhost:1/x y",
        2,
        &["delegation: without it the server has no credential for data connections"],
    ),
    (
        "http_proxy=socks5://localhost:1 http://localhost:1/x y",
        2,
        &["proxy: http_proxy: socks5:// proxies are not supported"],
    ),
    (
        "http_proxy=localhost:port http://localhost:1/x y",
        2,
        &["proxy: http_proxy: it is no URL of a proxy"],
    ),
    ("--files-from none x y", 2, &["none: read: No such file"]),
    (
        "--failed-list l d/one x y",
        2,
        &["and these sources have none in common; give each a run and a list of its own"],
    ),
    ("--failed-list none/l x y", 2, &["--failed-list: none/l: "]),
    ("--log-file none/l x y", 2, &["--log-file: none/l: "]),
    ("--receipt none/l x y", 2, &["--receipt: none/l: write: "]),
    ("--completions basic", 2, &["possible values: "]),
    (
        "--globus -fsstack file,count -f pairs",
        1,
        &["-fsstack : cannot be honoured: parts of files have no layers"],
    ),
    (
        "--globus -ss /CN=a -ds /CN=b URL/x URL2/y",
        1,
        &["-ss, -ds : cannot be honoured: both servers have one subject, see -s"],
    ),
    (
        "GLOBUS_FTP_CLIENT_SOURCE_PASV=1 --globus x URL/x",
        1,
        &["GLOBUS_FTP_CLIENT_SOURCE_PASV: cannot be honoured: a source listens for downloads"],
    ),
    (
        "GLOBUS_FTP_CLIENT_NO_SERVER_PASV=1 --globus URL/x file:///y",
        1,
        &["GLOBUS_FTP_CLIENT_NO_SERVER_PASV: cannot be honoured: servers connect to this end"],
    ),
    (
        "GLOBUS_DOMAIN_NAME=h --globus x URL/x",
        1,
        &[
            "GLOBUS_DOMAIN_NAME: cannot be honoured: ",
            "see GLOBUS_HOSTNAME",
        ],
    ),
    (
        "GLOBUS_HOSTNAME=h:1 --globus x URL/x",
        1,
        &["GLOBUS_HOSTNAME: h:1: "],
    ),
    (
        "GLOBUS_TCP_SOURCE_RANGE=2-1 --globus x URL/x",
        1,
        &["GLOBUS_TCP_SOURCE_RANGE: 2-1: write a range of ports, as 50000,51000"],
    ),
    (
        "GLOBUS_REMOTE_SSHFTP=-x --globus x URL/x",
        1,
        &["GLOBUS_REMOTE_SSHFTP: -x: cannot be honoured: write one program without arguments"],
    ),
    (
        "GUC_STALL_TIMEOUT=soon --globus x URL/x",
        1,
        &["GUC_STALL_TIMEOUT: soon: is no number"],
    ),
    (
        "--globus x",
        1,
        &["source and dest url strings are required"],
    ),
    ("--globus x y z", 1, &["too many url strings specified"]),
    ("--globus -list -", 1, &["-: has no names"]),
    (
        "--globus -f x",
        1,
        &["x: line 1: write a source and a destination"],
    ),
    (
        "--globus -f parts",
        1,
        &["parts: line 1: 1;2: write OFFSET,LENGTH in bytes, or 0,-1 for all"],
    ),
    (
        "--globus -frob x URL/x",
        1,
        &["argument #1 (-frob) : unknown option"],
    ),
    (
        "--globus x URL/x -p",
        1,
        &["argument #3 (-p) : not enough arguments"],
    ),
    (
        "--globus -t soon x URL/x",
        1,
        &["argument #1 (-t) : soon: is no number"],
    ),
    (
        "--globus -sync-level 4 x URL/x",
        1,
        &["argument #1 (-sync-level) : levels are 0 to 3"],
    ),
    (
        "--globus -data-cred p x URL/x",
        1,
        &["data connections have the credential of the session, or auto"],
    ),
    ("none y", 1, &["local: ", "none", "No such file"]),
    ("doctor", 2, &["<URL>"]),
    ("doctor x", 2, &["doctor needs an ftp://"]),
    ("proxy init --cert none --key none", 1, &["none: "]),
    (
        "proxy init",
        1,
        &["no such user certificate: name it with --cert and --key"],
    ),
    (
        "proxy init --valid 12",
        2,
        &["write hours and minutes, such as 12:00"],
    ),
    (
        "proxy init --hours 0",
        2,
        &["--hours <N>", "0 is not in 1.."],
    ),
    ("proxy init --bits 512", 2, &["possible values: 2048"]),
    (
        "proxy destroy x",
        1,
        &["it holds no proxy: remove it with `rm` if it is of no use"],
    ),
    ("proxy info --file none", 1, &["none: "]),
];

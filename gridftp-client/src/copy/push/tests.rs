//! Directories are sent for as fast as a server makes them, and no faster; files have the facts of
//! their opening.

use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex as StdMutex};
use std::time::Duration;

use byte_ranges::RangeSet;
use ftp_proto::client::Settings;
use ftp_wire::command::Mode;
use ftp_wire::path::FtpPath;
use gridftp_data::{DataChannel, Options};
use gridftp_dsi_posix::FileSource;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use xio_core::Pool;

use super::Push;
use super::ask::{Asker, settle_rest};
use crate::abilities::{Abilities, Tags};
use crate::control::Control;
use crate::copy::Stop;
use crate::copy::job::{DirJob, Facts, FileJob, Item, ReadBack};
use crate::copy::making::{Dirs, make_dir};
use crate::copy::pipeline::{Depth, Pipeline, Route as _};
use crate::copy::queue::Taken;
use crate::copy::state::CopyState;
use crate::copy::window::{COMMANDS, Window};
use crate::played;
use crate::stripes::{PathFacts, Width};

/// Directories of the tree.
const DIRS: usize = 3 * COMMANDS;

#[tokio::test(start_paused = true)]
async fn a_tree_of_directories_does_not_outrun_the_server() {
    // All that is sent for is on the wire, so that it can be counted.
    let mut settings = Settings::default();
    settings.window = 8 * DIRS;
    let (control, mut banner, far) = played::connect(settings);
    let shared = Arc::new(CopyState::plain());
    let maker = tokio::spawn({
        let shared = Arc::clone(&shared);
        async move {
            banner.finish().await.unwrap();
            let mut dirs = Dirs::default();
            for n in 0..DIRS {
                let dir = DirJob::new(Vec::new(), format!("/{n}").into_bytes());
                shared.queue.push(Item::Dir(Box::new(dir)));
                let taken = shared.queue.next(|_| true).await.unwrap();
                make_dir((&control, &Abilities::default()), &shared, taken, &mut dirs).await;
            }
            while shared.queue.next(|_| true).await.is_some() {}
        }
    });
    let (far, mut replies) = tokio::io::split(far);
    let mut lines = BufReader::new(far).lines();
    replies.write_all(b"220 ready\r\n").await.unwrap();
    let (mut made, mut unanswered) = (0, Vec::new());
    loop {
        // Time is paused: it passes only when nobody has anything left to do.
        match tokio::time::timeout(Duration::from_millis(1), lines.next_line()).await {
            Ok(line) => match line.unwrap() {
                Some(line) => unanswered.push(line),
                None => break,
            },
            Err(_) if unanswered.is_empty() => break,
            Err(_) => {
                assert!(unanswered.len() <= 2 * COMMANDS, "{}", unanswered.len());
                for line in unanswered.drain(..) {
                    made += usize::from(line.starts_with("MKD "));
                    let reply = if line == "QUIT" {
                        "221 bye"
                    } else {
                        "250 done"
                    };
                    let reply = format!("{reply}\r\n");
                    replies.write_all(reply.as_bytes()).await.unwrap();
                }
            }
        }
    }
    maker.await.unwrap();
    assert_eq!((made, shared.worst()), (DIRS, None));
}

/// The numbers of tags.
static NUMBERS: LazyLock<Tags> = LazyLock::new(Tags::default);

/// Asks over one session in MODE E, without tags.
fn asker<'a>(
    control: &'a Control,
    shared: &'a Arc<CopyState>,
    (abilities, window): (&'a Abilities, &'a Window),
) -> Asker<'a> {
    Asker {
        control,
        abilities,
        shared,
        algorithm: None,
        mode: Mode::Extended,
        tags: None,
        numbers: &NUMBERS,
        window,
    }
}

/// Uploads over one connection.
fn push(asker: Asker<'_>) -> Push<'_> {
    Push {
        asker,
        width: Width::of_streams(1),
        reply_within: Duration::from_secs(60),
        opens: false,
        reset: StdMutex::default(),
        silence: Duration::from_millis(50),
    }
}

/// The silence about a store with a reset connection holds up the next store no longer.
#[tokio::test]
async fn stores_fail_soon_after_their_connection_was_reset() {
    let dir = tempfile::tempdir().unwrap();
    let shared = Arc::new(CopyState::plain());
    for name in ["one", "two"] {
        let path = dir.path().join(name);
        std::fs::write(&path, vec![1; 1000]).unwrap();
        let to = format!("/{name}").into_bytes();
        let mut job = FileJob::new(path.into_os_string().into_vec(), to);
        job.facts.size = Some(1000);
        job.straight = true;
        shared.queue.push(Item::File(Box::new(job)));
    }
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut channel = DataChannel::new(Options::default(), Pool::new(64 << 10, 8));
    let tcp = xio::registry().stack("tcp").unwrap();
    channel.connect_to(tcp, vec![server.local_addr().unwrap()]);
    let (control, mut lines, mut far) = played::greeted(Settings::default()).await;
    let (abilities, window) = <(Abilities, Window)>::default();
    let route = push(asker(&control, &shared, (&abilities, &window)));
    let path = PathFacts {
        connections: None,
        round_trip: Duration::ZERO,
        may_stripe: false,
        parts: false,
        nodes: false,
    };
    let pipeline = Pipeline {
        depth: Depth::Window,
        width: Some(Width::of_streams(1)),
        ..Pipeline::new(&shared, &window, path)
    };
    let first = shared.queue.next(|_| true).await.unwrap();
    let mut dirs = Dirs::default();
    let states = (&mut dirs, &mut channel);
    let copied = pipeline.run(&route, states, async { Ok(()) }, first);
    let forgets = async {
        let mut stores = 0;
        while stores < 2 {
            let line = lines.next_line().await.unwrap().unwrap();
            stores += usize::from(line.starts_with("STOR "));
        }
        far.write_all(b"150 send it\r\n").await.unwrap();
        let (data, _) = server.accept().await.unwrap();
        // All of it is here, and closing with unread bytes is a reset.
        loop {
            match data.peek(&mut [0; 2000]).await.unwrap() {
                0 => panic!("the data connection is closed"),
                1001.. => break,
                _ => {}
            }
        }
    };
    let both = Box::pin(async { tokio::join!(copied, forgets) });
    let both = tokio::time::timeout(Duration::from_secs(30), both).await;
    let (copied, ()) = both.expect("it waits for a reply");
    let stop = copied.unwrap_err();
    assert!(matches!(stop, Stop::Lost(_)));
}

#[tokio::test(start_paused = true)]
async fn a_job_has_the_facts_of_the_opened_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    std::fs::write(&path, "new").unwrap();
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    let time = std::time::UNIX_EPOCH + Duration::new(1_580_608_922, 7);
    file.set_modified(time).unwrap();
    file.set_permissions(std::fs::Permissions::from_mode(0o640))
        .unwrap();
    let (control, _banner, _far) = played::connect(Settings::default());
    let shared = Arc::new(CopyState::plain());
    let mut job = FileJob::new(path.into_os_string().into_vec(), b"/to".to_vec());
    job.facts = Facts {
        size: Some(4),
        modified: Some((1, 0)),
        mode: Some(0o600),
    };
    job.straight = true;
    shared.queue.push(Item::File(Box::new(job)));
    let taken = shared.queue.next(|_| true).await.unwrap();
    let (abilities, window) = <(Abilities, Window)>::default();
    let asker = asker(&control, &shared, (&abilities, &window));
    let asked = asker.ask(taken, &mut Dirs::default()).await.unwrap();
    let now = Facts {
        size: Some(3),
        modified: Some((1_580_608_922, 7)),
        mode: Some(0o640),
    };
    assert_eq!(asked.taken.file().facts, now);
}

/// The job of a file of which the server has the first byte.
async fn begun(path: &Path, shared: &CopyState) -> Taken {
    let from = path.as_os_str().as_bytes().to_vec();
    let mut job = FileJob::new(from, b"/to".to_vec());
    job.facts = Facts::of_source(&FileSource::open(path).await.unwrap());
    job.held = RangeSet::up_to(1);
    (job.begun, job.straight) = (true, true);
    shared.queue.push(Item::File(Box::new(job)));
    shared.queue.next(|_| true).await.unwrap()
}

/// It is the server's word, not that the source had changed.
#[tokio::test(start_paused = true)]
async fn a_refused_restart_is_told_as_that() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    std::fs::write(&path, "abc").unwrap();
    let (control, _banner, far) = played::connect(Settings::default());
    let shared = Arc::new(CopyState::plain());
    let taken = begun(&path, &shared).await;
    let (abilities, window) = <(Abilities, Window)>::default();
    let asker = asker(&control, &shared, (&abilities, &window));
    let mut asked = asker.ask(taken, &mut Dirs::default()).await.unwrap();
    let server = async {
        let (far, mut replies) = tokio::io::split(far);
        let mut lines = BufReader::new(far).lines();
        replies.write_all(b"220 ready\r\n").await.unwrap();
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.starts_with("REST ") {
                replies.write_all(b"501 not that range\r\n").await.unwrap();
                return line;
            }
            replies.write_all(b"200 ok\r\n").await.unwrap();
        }
        String::new()
    };
    let (refused, line) = tokio::join!(settle_rest(&mut asked), server);
    assert_eq!(line, "REST 0-1");
    let refused = refused.unwrap().unwrap().to_string();
    assert!(refused.contains("501 not that range"), "{refused}");
}

/// The server replies to a tagged store while the client sends its data.
#[tokio::test]
async fn a_restart_that_is_refused_under_its_data_begins_anew() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    // More than a connection holds of data that nobody reads.
    std::fs::write(&path, vec![1; 32 << 20]).unwrap();
    let shared = Arc::new(CopyState::plain());
    let taken = begun(&path, &shared).await;
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut channel = DataChannel::new(Options::default(), Pool::new(64 << 10, 8));
    let tcp = xio::registry().stack("tcp").unwrap();
    channel.connect_to(tcp, vec![server.local_addr().unwrap()]);
    let (control, mut lines, mut far) = played::greeted(Settings::default()).await;
    let (abilities, window) = <(Abilities, Window)>::default();
    let tags = Tags::default();
    let route = push(Asker {
        tags: Some(&tags),
        ..asker(&control, &shared, (&abilities, &window))
    });
    let mut dirs = Dirs::default();
    let attempt = async {
        let asked = route.ask(&mut dirs, taken).await?.unwrap();
        route.pass(&mut channel, asked).await
    };
    let refuses = async {
        let mut data = None;
        while let Some(line) = lines.next_line().await.unwrap() {
            let reply = match line.split(' ').next() {
                Some("REST") => "350 well",
                Some("ESTO") => {
                    data = Some(server.accept().await.unwrap());
                    "554 send the file from its start"
                }
                _ => "500 what?",
            };
            let reply = format!("{reply}\r\n");
            far.write_all(reply.as_bytes()).await.unwrap();
        }
        drop(data);
    };
    let passed = tokio::select! {
        passed = Box::pin(attempt) => passed,
        () = refuses => panic!("the session ended"),
    };
    assert!(!matches!(passed, Ok(Some(_))));
    assert_eq!(shared.worst(), None);
    let mut again = shared.queue.next(|_| true).await.unwrap();
    let job = again.file_mut();
    assert!(job.anew && job.held.is_empty());
}

/// Asks for the store of a file in MODE S that was begun under a hidden name; `replies` are those to
/// verbs. Gives the state of reading its bytes back, and whether it is asked for.
async fn asked_again(mut job: FileJob, replies: &[(&str, &str)]) -> (FileJob, Vec<String>, bool) {
    let (control, mut lines, mut far) = played::greeted(Settings::default()).await;
    let shared = Arc::new(CopyState::plain());
    job.begun = true;
    job.hidden = FtpPath::new(b"/.to.gridftp-0".to_vec());
    shared.queue.push(Item::File(Box::new(job)));
    let taken = shared.queue.next(|_| true).await.unwrap();
    let (abilities, window) = <(Abilities, Window)>::default();
    let asker = Asker {
        mode: Mode::Stream,
        ..asker(&control, &shared, (&abilities, &window))
    };
    let (mut sent, mut dirs) = (Vec::new(), Dirs::default());
    let server = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            let known = replies.iter().find(|(verb, _)| line.starts_with(verb));
            let reply = known.map_or("500 what?", |(_, reply)| *reply);
            let reply = format!("{reply}\r\n");
            far.write_all(reply.as_bytes()).await.unwrap();
            sent.push(line);
        }
    };
    let asked = tokio::select! {
        asked = Box::pin(asker.ask(taken, &mut dirs)) => asked,
        () = server => panic!("the session ended"),
    };
    let is_asked = asked.is_some();
    let mut taken = match asked {
        Some(asked) => asked.taken,
        None => shared.queue.next(|_| true).await.unwrap(),
    };
    let job = std::mem::take(taken.file_mut());
    (job, sent, is_asked)
}

#[tokio::test]
async fn bytes_that_no_digest_proves_are_read_back_first() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    std::fs::write(&path, "abc").unwrap();
    let facts = Facts::of_source(&FileSource::open(&path).await.unwrap());
    let job = || FileJob::new(path.clone().into_os_string().into_vec(), b"/to".to_vec());
    let replies = [
        ("SIZE", "213 2"),
        ("REST", "350 well"),
        ("STOR", "150 well"),
    ];
    for refusal in ["500 what?", "550 Permission denied."] {
        let replies = [("SIZE", "213 2"), ("CKSM", refusal)];
        let (due, sent, is_asked) = asked_again(job().with_facts(facts), &replies).await;
        assert!(due.read_back == ReadBack::Due && !is_asked, "{sent:?}");
        assert!(sent.iter().any(|line| line.starts_with("CKSM MD5 0 2 ")));
    }
    let mut read = job().with_facts(facts);
    read.read_back = ReadBack::Done { ends: true };
    read.held = RangeSet::up_to(2);
    let (read, sent, is_asked) = asked_again(read, &replies).await;
    assert!(is_asked && read.read_back == ReadBack::Unasked);
    assert!(sent.contains(&"REST 2".to_owned()), "{sent:?}");
    // The server has removed it meanwhile, and a store behind the hole would have its size.
    let mut gone = job().with_facts(facts);
    gone.read_back = ReadBack::Done { ends: true };
    gone.held = RangeSet::up_to(2);
    let replies = [("SIZE", "550 no such file"), ("STOR", "150 well")];
    let (gone, sent, is_asked) = asked_again(gone, &replies).await;
    assert!(is_asked && gone.held.is_empty());
    assert!(!sent.iter().any(|line| line.starts_with("REST")));
    // Nothing is equal, and it is not read again before the next failure.
    let mut differs = job().with_facts(facts);
    differs.read_back = ReadBack::Done { ends: false };
    let (_, sent, is_asked) = asked_again(differs, &replies).await;
    assert!(is_asked && !sent.iter().any(|line| line.starts_with("REST")));
}

/// The store of the version before may be the last that reached the server.
#[tokio::test]
async fn a_source_that_has_changed_gets_another_hidden_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    std::fs::write(&path, "abc").unwrap();
    let path = path.into_os_string().into_vec();
    let (job, sent, is_asked) = asked_again(FileJob::new(path, b"/to".to_vec()), &[]).await;
    assert!(
        !is_asked && job.hidden.is_none() && job.versions == 1,
        "{sent:?}"
    );
}

//! A front end with two stripes, of which the second fails in the first transfer.
#![expect(clippy::cast_possible_truncation, reason = "the test file is small")]

use std::sync::{Arc, LazyLock, Mutex};

use byte_ranges::{Range64, RangeSet, Stripe};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::options::Layout;

/// Size of the file, in bytes: large enough for stripes.
pub(super) const LEN: u64 = (64 << 20) + 7;

/// Connections of each stripe.
const STREAMS: u64 = 2;

/// Bytes of a block, and blocks of a download that a stripe moves before the second one fails.
const BLOCK: u64 = 1 << 20;
const BEFORE: usize = 3;

/// Blocks that each connection of an upload takes before a stripe fails. Each has its first at once;
/// a further one may wait behind others for ever, in the buffers of a connection that is not read.
const FIRST: usize = 1;

/// The file, made once: a byte at a time takes a build without optimization a second.
pub(super) fn content() -> &'static [u8] {
    static CONTENT: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let len = usize::try_from(LEN).unwrap();
        let mut content = Vec::with_capacity(len);
        for page in (0..=u8::MAX).cycle() {
            let more = (len - content.len()).min(4099);
            if more == 0 {
                break;
            }
            content.resize(content.len() + more, page);
        }
        content
    });
    &CONTENT
}

/// The facts of all sessions.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    /// Ranges that each stripe of each upload got.
    pub(super) moved: Vec<[RangeSet; 2]>,
    /// Ranges of each `REST`.
    pub(super) rest: Vec<RangeSet>,
    /// Bytes of a download that were told and lost.
    pub(super) told_twice: u64,
    transfers: usize,
}

#[derive(Debug)]
pub(super) struct Front {
    port: u16,
    seen: Arc<Mutex<Seen>>,
}

impl Front {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, seen) = (listener.local_addr().unwrap().port(), Arc::default());
        let shared = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let seen = Arc::clone(&shared);
                tokio::spawn(Session::run(stream, seen));
            }
        });
        Self { port, seen }
    }

    pub(super) fn url(&self) -> String {
        format!("ftp://127.0.0.1:{}/file", self.port)
    }

    pub(super) fn seen(&self) -> Seen {
        self.seen.lock().unwrap().clone()
    }
}

struct Session {
    out: OwnedWriteHalf,
    seen: Arc<Mutex<Seen>>,
    /// Ports of the stripes.
    ports: Vec<TcpListener>,
    /// Connections of each stripe.
    conns: [Vec<TcpStream>; 2],
    /// Addresses of the client.
    to: Vec<String>,
    held: RangeSet,
}

impl Session {
    async fn run(stream: TcpStream, seen: Arc<Mutex<Seen>>) {
        let (read, out) = stream.into_split();
        let mut session = Self {
            out,
            seen,
            ports: Vec::new(),
            conns: Default::default(),
            to: Vec::new(),
            held: RangeSet::new(),
        };
        session.say("220 ready").await;
        let mut lines = BufReader::new(read).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let reply = session.answer(&line).await;
            session.say(&reply).await;
        }
    }

    async fn say(&mut self, text: &str) {
        let _gone = self.out.write_all(format!("{text}\r\n").as_bytes()).await;
    }

    async fn answer(&mut self, line: &str) -> String {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        match verb {
            "USER" => "331 password".to_owned(),
            "PASS" => "230 in".to_owned(),
            "FEAT" => "211-has\r\n PARALLEL\r\n SPAS\r\n SPOR\r\n SIZE\r\n ERET\r\n HELD\r\n \
                       MLST Type*;Size*;Modify*;\r\n211 end"
                .to_owned(),
            "MLST" if rest == "/file" && self.seen.lock().unwrap().moved.is_empty() => {
                format!("250-is\r\n Type=file;Size={LEN};Modify=20200101000000; {rest}\r\n250 end")
            }
            "MLST" => "550 no such file".to_owned(),
            "SIZE" => format!("213 {LEN}"),
            "REST" => {
                self.held = rest.parse().unwrap();
                self.seen.lock().unwrap().rest.push(self.held.clone());
                "350 go on".to_owned()
            }
            "SPAS" => self.listen().await,
            "SPOR" => {
                self.to = rest.split(' ').map(str::to_owned).collect();
                "200 well".to_owned()
            }
            "STOR" => self.store().await,
            "RETR" => self.retrieve().await,
            _ => "200 well".to_owned(),
        }
    }

    async fn listen(&mut self) -> String {
        self.ports.clear();
        let mut told = "229-stripes\r\n".to_owned();
        for _ in 0..2 {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            told += &format!(" 127,0,0,1,{},{}\r\n", port >> 8, port & 0xff);
            self.ports.push(listener);
        }
        self.conns = Default::default();
        told + "229 end"
    }

    /// Whether a stripe fails in the transfer that begins.
    fn fails(&self) -> bool {
        let mut seen = self.seen.lock().unwrap();
        seen.transfers += 1;
        seen.transfers == 1
    }

    async fn markers(&mut self, moved: [u64; 2]) {
        for (index, bytes) in moved.iter().enumerate() {
            self.say(&format!(
                "112-Perf Marker\r\n Timestamp: 1.0\r\n Stripe Index: {index}\r\n \
                 Stripe Bytes Transferred: {bytes}\r\n Total Stripe Count: 2\r\n112 End."
            ))
            .await;
        }
    }

    async fn store(&mut self) -> String {
        let fails = self.fails();
        for (port, conns) in self.ports.iter().zip(&mut self.conns) {
            while conns.len() < STREAMS as usize {
                conns.push(port.accept().await.unwrap().0);
            }
        }
        self.say("150 go").await;
        let content = content();
        let mut taking = JoinSet::new();
        for (index, conns) in self.conns.iter_mut().enumerate() {
            for conn in conns.drain(..) {
                let most = if fails { FIRST } else { usize::MAX };
                taking.spawn(async move { (index, take(conn, most, content).await) });
            }
        }
        let mut moved: [RangeSet; 2] = Default::default();
        while let Some(taken) = taking.join_next().await {
            let (index, (conn, ranges)) = taken.unwrap();
            moved[index].extend(&ranges);
            self.conns[index].push(conn);
        }
        self.seen.lock().unwrap().moved.push(moved.clone());
        self.markers(moved.each_ref().map(RangeSet::total)).await;
        if !fails {
            return "226 well".to_owned();
        }
        self.conns[1].clear();
        let all: RangeSet = moved.iter().flatten().collect();
        self.say(&format!("111 Range Marker {all}")).await;
        "426 a stripe has failed".to_owned()
    }

    async fn retrieve(&mut self) -> String {
        let fails = self.fails();
        self.say("150 go").await;
        let content = content();
        let missing = std::mem::take(&mut self.held).complement(LEN);
        let mut moved = [0; 2];
        let block = Layout::Blocked(BLOCK.try_into().unwrap());
        let mut open = Vec::new();
        for (index, at) in self.to.iter().enumerate() {
            let numbers: Vec<u16> = at.split(',').map(|n| n.parse().unwrap()).collect();
            let port = numbers[4] << 8 | numbers[5];
            let stripe = Stripe::new(block, u32::try_from(index).unwrap(), 2).unwrap();
            let mut share = stripe.share(&missing);
            let mut conns = Vec::new();
            for _ in 0..STREAMS {
                conns.push(TcpStream::connect(("127.0.0.1", port)).await.unwrap());
            }
            let dies = fails && index == 1;
            let most = if dies { BEFORE } else { usize::MAX };
            for (n, range) in share.by_ref().take(most).enumerate() {
                let conn = &mut conns[n % STREAMS as usize];
                let payload = &content[range.start() as usize..range.end() as usize];
                conn.write_all(&header(0, range.len(), range.start()))
                    .await
                    .unwrap();
                conn.write_all(payload).await.unwrap();
                moved[index] += range.len();
            }
            if dies {
                // The bytes in front of the end arrive, and no mark.
                drop(conns);
                continue;
            }
            let eof = [(0x48, STREAMS), (0x08, 0)];
            for (conn, (flags, count)) in conns.iter_mut().zip(eof) {
                conn.write_all(&header(flags, 0, count)).await.unwrap();
            }
            open.push(conns);
        }
        self.markers(moved).await;
        if !fails {
            self.conns[0] = open.into_iter().flatten().collect();
            let mut seen = self.seen.lock().unwrap();
            seen.told_twice -= seen.rest[0].total();
            return "226 well".to_owned();
        }
        self.seen.lock().unwrap().told_twice = moved.iter().sum();
        "426 a stripe has failed".to_owned()
    }
}

fn header(flags: u8, count: u64, offset: u64) -> Vec<u8> {
    let mut bytes = vec![flags];
    bytes.extend(count.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes
}

/// Reads at most so many blocks.
async fn take(mut conn: TcpStream, most: usize, content: &[u8]) -> (TcpStream, RangeSet) {
    let mut moved = RangeSet::new();
    for _ in 0..most {
        let flags = conn.read_u8().await.unwrap();
        let (count, offset) = (
            conn.read_u64().await.unwrap(),
            conn.read_u64().await.unwrap(),
        );
        if flags != 0 {
            break;
        }
        let mut payload = vec![0; count as usize];
        conn.read_exact(&mut payload).await.unwrap();
        assert!(content[offset as usize..][..payload.len()] == payload);
        moved.extend(Range64::from_len(offset, count));
    }
    (conn, moved)
}

//! A server of its own for each test, on port 0 over a temporary tree, and a raw client to talk to
//! it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gridftp_dsi::{Capabilities, DynDsi};
use gridftp_server::config::{Access, Config, Options};
use gridftp_server::{Control, Server};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

/// Longest wait for anything: a hang is a failure.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A running server; dropping it ends its sessions and removes its tree.
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    pub(crate) tls_address: Option<SocketAddr>,
    pub(crate) root: PathBuf,
    pub(crate) control: Control<Arc<dyn DynDsi>>,
    /// Held: the server runs until this is gone.
    _stop: oneshot::Sender<()>,
    runtime: Option<Runtime>,
    _dir: TempDir,
}

impl TestServer {
    /// A server that anonymous users may write to.
    pub(crate) fn new() -> Self {
        Self::with(|_| ())
    }

    /// The same, with options changed.
    pub(crate) fn with(change: impl FnOnce(&mut Options)) -> Self {
        Self::configured(change, |_, _, _| ())
    }

    /// The same, with the checked configuration changed as well, for this tree.
    pub(crate) fn configured(
        change: impl FnOnce(&mut Options),
        configure: impl FnOnce(&mut Config, &Runtime, &Path),
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("tree");
        fs::create_dir(&root).unwrap();
        let mut options = Options::default();
        options.bind = Some([127, 0, 0, 1].into());
        options.port = Some(0);
        options.anonymous = Some(Access::Rw);
        options.login_delay = Some(0);
        change(&mut options);
        if let Some(elsewhere) = &options.root {
            fs::create_dir_all(elsewhere).unwrap();
        }
        let root = options.root.clone().unwrap_or(root);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let mut config = Config::check(&options).unwrap();
        configure(&mut config, &runtime, &root);
        let server = {
            let _inside = runtime.enter();
            let storage = match &options.storage {
                Some(_) => config.open_storage().unwrap().unwrap(),
                None => crate::storage(&root),
            };
            Server::bind(config, storage).unwrap()
        };
        let (address, control) = (server.local_addr(), server.control());
        let tls_address = server.local_tls_addr();
        let (stop, stopped) = oneshot::channel();
        let stop_when = async { drop(stopped.await) };
        runtime.spawn(server.run(stop_when, std::future::pending()));
        Self {
            address,
            tls_address,
            root,
            control,
            _stop: stop,
            runtime: Some(runtime),
            _dir: dir,
        }
    }

    /// Writes a file into the tree.
    pub(crate) fn put(&self, name: &str, data: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root.join(name);
        fs::write(&path, data).unwrap();
        path
    }

    /// Reads a file of the tree.
    pub(crate) fn get(&self, name: &str) -> Vec<u8> {
        fs::read(self.root.join(name)).unwrap()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.root.join(name).exists()
    }

    /// Connects and reads the greeting.
    pub(crate) fn connect(&self) -> Ftp {
        Ftp::connect(self.address)
    }

    /// An anonymous session in TYPE I.
    pub(crate) fn login(&self) -> Ftp {
        let mut ftp = self.connect();
        ftp.login("anonymous", "test@");
        ftp.ok("TYPE I", 200);
        ftp
    }

    /// Waits until that many sessions are left.
    pub(crate) fn wait_for_sessions(&self, wanted: usize) {
        let start = std::time::Instant::now();
        while self.control.sessions() != wanted {
            assert!(
                start.elapsed() < PATIENCE,
                "{} sessions, not {wanted}",
                self.control.sessions()
            );
            std::thread::yield_now();
        }
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(PATIENCE);
        }
    }
}

/// Whether the storage of this suite cannot do what a test needs, which is told.
pub(crate) fn lacks(needs: fn(&Capabilities) -> bool) -> bool {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("tree");
    fs::create_dir(&root).unwrap();
    let can = crate::storage(&root).capabilities_dyn();
    let lacks = !needs(&can);
    if lacks {
        eprintln!("SKIPPED: the storage {} lacks that", can.name);
    }
    lacks
}

/// One whole reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) code: u16,
    pub(crate) lines: Vec<String>,
}

impl Reply {
    pub(crate) fn text(&self) -> String {
        self.lines.join("\n")
    }
}

/// The client's end of a control connection.
pub(crate) struct Ftp {
    pub(crate) stream: TcpStream,
    pub(crate) reader: BufReader<TcpStream>,
}

impl Ftp {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let mut ftp = Self::silent(TcpStream::connect(address).unwrap());
        assert_eq!(ftp.reply().code, 220);
        ftp
    }

    /// Wraps a connection before its greeting is read.
    pub(crate) fn silent(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        let reader = BufReader::new(stream.try_clone().unwrap());
        Self { stream, reader }
    }

    pub(crate) fn login(&mut self, user: &str, password: &str) {
        self.ok(&format!("USER {user}"), 331);
        self.ok(&format!("PASS {password}"), 230);
    }

    /// Sends bytes as they are.
    pub(crate) fn raw(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// Sends a line without waiting.
    pub(crate) fn send(&mut self, line: &str) {
        self.raw(format!("{line}\r\n"));
    }

    /// The next reply; `None` when the server closed.
    pub(crate) fn try_reply(&mut self) -> Option<Reply> {
        let mut lines = Vec::new();
        loop {
            let mut line = Vec::new();
            match self.reader.read_until(b'\n', &mut line) {
                Ok(0) => return None,
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("no reply: {error}; so far {lines:?}"),
            }
            assert!(
                line.ends_with(b"\r\n"),
                "{:?}",
                String::from_utf8_lossy(&line)
            );
            line.truncate(line.len() - 2);
            let line = String::from_utf8_lossy(&line).into_owned();
            let code = line.get(..3).and_then(|code| code.parse().ok());
            let last = code.is_some() && line.as_bytes().get(3) == Some(&b' ');
            lines.push(line);
            if let (Some(code), true) = (code, last) {
                return Some(Reply { code, lines });
            }
        }
    }

    pub(crate) fn reply(&mut self) -> Reply {
        self.try_reply().expect("the server closed the connection")
    }

    /// The next reply that is not a marker.
    pub(crate) fn outcome(&mut self) -> Reply {
        loop {
            let reply = self.reply();
            if !matches!(reply.code, 111..=113) {
                return reply;
            }
        }
    }

    pub(crate) fn cmd(&mut self, line: &str) -> Reply {
        self.send(line);
        self.reply()
    }

    /// Sends a line that must be answered with this code.
    #[track_caller]
    pub(crate) fn ok(&mut self, line: &str, code: u16) -> Reply {
        let reply = self.cmd(line);
        assert_eq!(reply.code, code, "{line}: {reply:?}");
        reply
    }

    /// Reads to the end: nothing but these last replies may come.
    pub(crate) fn rest(&mut self) -> Vec<Reply> {
        std::iter::from_fn(|| self.try_reply()).collect()
    }

    /// Sends PASV and gives the address.
    #[track_caller]
    pub(crate) fn pasv(&mut self) -> SocketAddr {
        pasv_address(&self.ok("PASV", 227))
    }

    /// Sends PASV and connects.
    pub(crate) fn data(&mut self) -> Data {
        Data::connect(self.pasv())
    }

    /// Listens on a port of ours and tells the server to connect to it.
    pub(crate) fn port(&mut self) -> TcpListener {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        self.ok(
            &format!("PORT {}", host_port(listener.local_addr().unwrap())),
            200,
        );
        listener
    }

    /// Begins a command that sends, over a connection with room for few bytes at each end.
    #[track_caller]
    pub(crate) fn narrow(&mut self, command: &str, room: usize) -> Data {
        use socket2::{Domain, Socket, Type};
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_recv_buffer_size(room).unwrap();
        socket
            .bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())
            .unwrap();
        socket.listen(1).unwrap();
        let listener = TcpListener::from(socket);
        self.ok(&format!("SBUF {room}"), 200);
        let address = host_port(listener.local_addr().unwrap());
        self.ok(&format!("PORT {address}"), 200);
        self.send(command);
        let data = Data::accept(&listener);
        assert_eq!(self.reply().code, 150, "{command}");
        data
    }

    /// Fetches a file in MODE S.
    pub(crate) fn fetch(&mut self, path: &str) -> Vec<u8> {
        self.get(&format!("RETR {path}"))
    }

    /// Runs a command that sends in MODE S, and returns the data.
    #[track_caller]
    pub(crate) fn get(&mut self, command: &str) -> Vec<u8> {
        let data = self.data();
        self.ok(command, 150);
        let bytes = data.read();
        let reply = self.reply();
        assert_eq!(reply.code, 226, "{command}: {reply:?}");
        bytes
    }

    /// Runs a command that stores in MODE S.
    #[track_caller]
    pub(crate) fn store(&mut self, command: &str, bytes: &[u8]) -> Reply {
        let mut data = self.data();
        self.ok(command, 150);
        data.write(bytes);
        data.finish();
        self.outcome()
    }
}

/// The address of a 227.
pub(crate) fn pasv_address(reply: &Reply) -> SocketAddr {
    let text = reply.text();
    let inner = text.split_once('(').unwrap().1.split_once(')').unwrap().0;
    let n: Vec<u8> = inner.split(',').map(|n| n.parse().unwrap()).collect();
    SocketAddr::from(([n[0], n[1], n[2], n[3]], u16::from_be_bytes([n[4], n[5]])))
}

/// The `h,h,h,h,p,p` of PORT.
pub(crate) fn host_port(address: SocketAddr) -> String {
    let [high, low] = address.port().to_be_bytes();
    format!(
        "{},{high},{low}",
        address.ip().to_string().replace('.', ",")
    )
}

/// The client's end of a data connection.
pub(crate) struct Data(pub(crate) TcpStream);

impl Data {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).unwrap())
    }

    pub(crate) fn accept(listener: &TcpListener) -> Self {
        Self::over(listener.accept().unwrap().0)
    }

    fn over(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self(stream)
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    /// Ends our direction in good order.
    pub(crate) fn finish(self) {
        self.0.shutdown(Shutdown::Write).unwrap();
    }

    /// Reads to the end.
    pub(crate) fn read(mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.0.read_to_end(&mut bytes).unwrap();
        bytes
    }

    /// Closes with a reset.
    pub(crate) fn reset(self) {
        let linger = socket2::SockRef::from(&self.0);
        linger.set_linger(Some(Duration::ZERO)).unwrap();
    }

    /// Sends one MODE E block.
    pub(crate) fn block(&mut self, flags: u8, offset: u64, payload: &[u8]) {
        self.write(&header(flags, payload.len() as u64, offset));
        self.write(payload);
    }

    /// Sends EOF and EOD, announcing so many connections.
    pub(crate) fn end(&mut self, connections: u64) {
        self.write(&header(EOF | EOD, 0, connections));
    }

    /// Reads one MODE E block: flags, offset, payload.
    pub(crate) fn read_block(&mut self) -> (u8, u64, Vec<u8>) {
        let mut head = [0; 17];
        self.0.read_exact(&mut head).unwrap();
        let count = u64::from_be_bytes(head[1..9].try_into().unwrap());
        let offset = u64::from_be_bytes(head[9..17].try_into().unwrap());
        if head[0] & EOF != 0 {
            return (head[0], offset, Vec::new());
        }
        let mut payload = vec![0; count.try_into().unwrap()];
        self.0.read_exact(&mut payload).unwrap();
        (head[0], offset, payload)
    }
}

pub(crate) const EOF: u8 = 0x40;
pub(crate) const EOD: u8 = 0x08;
pub(crate) const CLOSE: u8 = 0x04;

/// A MODE E header.
pub(crate) fn header(flags: u8, count: u64, offset: u64) -> [u8; 17] {
    let mut head = [flags; 17];
    head[1..9].copy_from_slice(&count.to_be_bytes());
    head[9..17].copy_from_slice(&offset.to_be_bytes());
    head
}

/// Memory of a process that is in use now, in bytes.
pub(crate) fn resident(pid: u32) -> usize {
    kilobytes(pid, "VmRSS:")
}

/// The most memory that was ever in use.
pub(crate) fn most_resident(pid: u32) -> usize {
    kilobytes(pid, "VmHWM:")
}

fn kilobytes(pid: u32, name: &str) -> usize {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.unwrap().trim().strip_suffix(" kB").unwrap();
    number.parse::<usize>().unwrap() << 10
}

/// So many bytes that repeat late.
pub(crate) fn bytes(n: usize) -> Vec<u8> {
    (0..n as u64)
        .map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8)
        .collect()
}

/// Names of a directory that a plain listing of it would not show.
pub(crate) fn hidden(root: &Path) -> Vec<String> {
    fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with('.') && name != ".gridftp-index")
        .collect()
}

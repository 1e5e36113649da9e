//! `Service`: the requests of S3 that uploads need, in memory, with failures on demand.

#![allow(dead_code, reason = "each of two suites needs a part of it")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use gridftp_dsi::ChecksumAlgorithm;
use gridftp_dsi::hasher::Hasher;
use gridftp_dsi_object::{Config, Objects};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;

/// The kind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Begin,
    Part,
    Complete,
    Abort,
    Put,
    Copy,
    Head,
    Get,
    Delete,
    List,
    /// Credentials for a while, as a provider gives them to its machines.
    Credentials,
}

/// A failure in place of the right reply.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// `503 Slow Down`.
    SlowDown,
    /// `403 Access Denied`, which is not repeated.
    Denied,
    /// The connection closes before the request is executed.
    Lost,
    /// The request is executed, and the connection closes.
    ReplyLost,
    /// The request is executed, and answered with `503 Slow Down`.
    Executed,
    /// Status 200 with this error code in the body, and nothing is done.
    Body(&'static str),
    /// The request is executed, and the store takes the parts again behind it.
    LateParts,
    /// Another client puts an object there right before the request is executed.
    Preceded,
    /// Another client replaces the object, or the source of a copy, before the reply.
    Replaced,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) objects: BTreeMap<String, Vec<u8>>,
    /// Parts of unfinished uploads, by the name of the upload.
    pub(crate) uploads: BTreeMap<String, BTreeMap<u32, Vec<u8>>>,
    /// The next failures.
    pub(crate) faults: Vec<(Op, Fault)>,
    pub(crate) requests: Vec<Op>,
    /// The key with which each request is signed, and whether it has the condition that there be no
    /// object.
    pub(crate) signed: Vec<(Op, String, bool)>,
    /// Whether conditions are ignored.
    pub(crate) is_unconditional: bool,
    /// Whether tags are no digests, as those of encrypted objects.
    pub(crate) is_opaque: bool,
    /// Whether metadata of objects are dropped.
    pub(crate) is_forgetful: bool,
    /// Replies to reads wait here for others.
    pub(crate) readers: Option<Arc<Barrier>>,
    tags: BTreeMap<String, String>,
    /// Lines of metadata.
    metadata: BTreeMap<String, String>,
    begun: u32,
}

pub(crate) struct Service {
    pub(crate) state: Arc<Mutex<State>>,
    endpoint: String,
}

struct Request {
    op: Op,
    key: String,
    query: BTreeMap<String, String>,
    /// Key of the object that is copied.
    from: Option<String>,
    /// Range of the bytes that are read.
    range: Option<(usize, usize)>,
    /// Whether there must be no object.
    is_new: bool,
    /// Lines of metadata.
    metadata: String,
    /// The key with which it is signed.
    signer: String,
    body: Vec<u8>,
}

/// Path of the credentials.
const CREDENTIALS: &str = "/credentials";

fn md5(bytes: &[u8]) -> String {
    let mut hasher = Hasher::new(ChecksumAlgorithm::Md5).unwrap();
    hasher.update(bytes);
    hasher.finish()
}

impl Service {
    pub(crate) async fn start(faults: &[(Op, Fault)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State {
            faults: faults.to_vec(),
            ..State::default()
        }));
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&shared);
                tokio::spawn(async move { serve(stream, &state).await });
            }
        });
        Self { state, endpoint }
    }

    /// The store, with journals in `index`.
    pub(crate) fn store(&self, index: &Path, change: impl FnOnce(&mut Config)) -> Objects {
        let keys = index.with_extension("keys");
        std::fs::write(&keys, "AWS_ACCESS_KEY_ID=me\nAWS_SECRET_ACCESS_KEY=mine\n").unwrap();
        let mut config = Config::new("s3://bucket", index);
        config.endpoint = Some(self.endpoint.clone());
        config.region = Some("here".to_owned());
        config.credentials = Some(keys);
        config.part = Some(1000);
        change(&mut config);
        Objects::open(&config).unwrap()
    }

    /// A file of credentials that names the service itself as their source.
    pub(crate) fn issue_credentials(&self, file: &Path) {
        let token = file.with_extension("token");
        std::fs::write(&token, "token").unwrap();
        let lines = format!(
            "AWS_CONTAINER_CREDENTIALS_FULL_URI={}{CREDENTIALS}\nAWS_CONTAINER_AUTHORIZATION_TOKEN_FILE={}\n",
            self.endpoint,
            token.display()
        );
        std::fs::write(file, lines).unwrap();
    }

    pub(crate) fn count(&self, op: Op) -> usize {
        let state = self.state.lock().unwrap();
        state.requests.iter().filter(|made| **made == op).count()
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let (mut length, mut header) = (0, String::new());
    let (mut from, mut range, mut is_new) = (None, None, false);
    let (mut metadata, mut signer) = (String::new(), String::new());
    loop {
        header.clear();
        stream.read_line(&mut header).await.ok()?;
        let header = header.trim().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        is_new |= header == "if-none-match: *";
        if let Some((_, scope)) = header.split_once("credential=") {
            signer = scope.split('/').next()?.to_owned();
        }
        if header.starts_with("x-amz-meta-") {
            metadata += &format!("{header}\r\n");
        }
        if let Some(value) = header.strip_prefix("x-amz-copy-source:") {
            from = value.trim().strip_prefix("bucket/").map(str::to_owned);
        }
        if let Some(value) = header.strip_prefix("range: bytes=") {
            let (first, last) = value.split_once('-')?;
            range = Some((first.parse().ok()?, last.parse::<usize>().ok()? + 1));
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let pairs = query
        .split('&')
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let query: BTreeMap<_, _> = pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
    let key = path.trim_start_matches("/bucket").trim_start_matches('/');
    let op = match (method.as_str(), query.contains_key("uploadId")) {
        _ if path == CREDENTIALS => Op::Credentials,
        ("POST", false) if query.contains_key("delete") => Op::Delete,
        ("POST", false) => Op::Begin,
        ("PUT", false) if from.is_some() => Op::Copy,
        ("PUT", true) => Op::Part,
        ("POST", true) => Op::Complete,
        ("DELETE", true) => Op::Abort,
        ("PUT", false) => Op::Put,
        ("HEAD", _) => Op::Head,
        ("DELETE", false) => Op::Delete,
        _ if query.contains_key("list-type") => Op::List,
        _ => Op::Get,
    };
    Some(Request {
        op,
        key: key.to_owned(),
        query,
        from,
        range,
        is_new,
        metadata,
        signer,
        body,
    })
}

async fn serve(stream: TcpStream, state: &Mutex<State>) -> Option<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let request = read(&mut stream).await?;
        let readers = state.lock().unwrap().readers.clone();
        if let Some(readers) = readers.filter(|_| request.op == Op::Get) {
            readers.wait().await;
        }
        let (fault, reply) = {
            let mut state = state.lock().unwrap();
            state.requests.push(request.op);
            let signed = (request.op, request.signer.clone(), request.is_new);
            state.signed.push(signed);
            let fault = state.faults.iter().position(|(op, _)| *op == request.op);
            let fault = fault.map(|at| state.faults.remove(at).1);
            let reply = match fault {
                Some(Fault::SlowDown) => error(503, "SlowDown"),
                Some(Fault::Denied) => error(403, "AccessDenied"),
                Some(Fault::Body(code)) => error(200, code),
                Some(Fault::Lost) => return None,
                Some(Fault::LateParts) => {
                    let id = request.query["uploadId"].clone();
                    let parts = state.uploads[&id].clone();
                    let reply = state.execute(&request);
                    state.uploads.insert(id, parts);
                    reply
                }
                Some(Fault::Preceded) => {
                    state.put(&request.key, b"first".to_vec());
                    state.execute(&request)
                }
                Some(Fault::Executed) => {
                    state.execute(&request);
                    error(503, "SlowDown")
                }
                Some(Fault::ReplyLost | Fault::Replaced) | None => state.execute(&request),
            };
            if let Some(Fault::Replaced) = fault {
                let key = request.from.as_ref().unwrap_or(&request.key);
                state.put(key, b"replaced".to_vec());
            }
            (fault, reply)
        };
        if let Some(Fault::ReplyLost) = fault {
            return None;
        }
        stream.write_all(&reply).await.ok()?;
    }
}

fn error(status: u16, code: &str) -> Vec<u8> {
    let body = format!("<Error><Code>{code}</Code><Message>no</Message></Error>");
    reply(status, "", body.as_bytes())
}

fn reply(status: u16, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let mut all =
        format!("HTTP/1.1 {status} x\r\n{headers}Content-Length: {length}\r\n\r\n").into_bytes();
    all.extend(body);
    all
}

impl State {
    pub(crate) fn put(&mut self, key: &str, content: Vec<u8>) -> String {
        let tag = format!("\"{}\"", md5(&content));
        self.objects.insert(key.to_owned(), content);
        self.tags.insert(key.to_owned(), tag.clone());
        self.metadata.remove(key);
        tag
    }

    fn get(&self, request: &Request) -> Vec<u8> {
        let (Some(object), Some((first, end))) = (self.objects.get(&request.key), request.range)
        else {
            return error(404, "NoSuchKey");
        };
        let headers = format!(
            "ETag: {}\r\nLast-Modified: Wed, 21 Oct 2015 07:28:00 GMT\r\nContent-Range: bytes {first}-{}/{}\r\n",
            self.tags[&request.key],
            end - 1,
            object.len()
        );
        reply(206, &headers, &object[first..end])
    }

    fn issue(&self) -> Vec<u8> {
        let asked = self.requests.iter().filter(|op| **op == Op::Credentials);
        let body = format!(
            r#"{{"AccessKeyId":"key{}","SecretAccessKey":"s","Token":"t","Expiration":"2999-01-01T00:00:00Z"}}"#,
            asked.count()
        );
        reply(200, "", body.as_bytes())
    }

    fn head(&self, key: &str) -> Vec<u8> {
        let Some(object) = self.objects.get(key) else {
            return b"HTTP/1.1 404 x\r\nContent-Length: 0\r\n\r\n".to_vec();
        };
        // The header tells the length of a body that is not sent.
        format!(
            "HTTP/1.1 200 x\r\nETag: {}\r\n{}Last-Modified: Wed, 21 Oct 2015 07:28:00 GMT\r\nContent-Length: {}\r\n\r\n",
            self.tags[key],
            self.metadata.get(key).map_or("", String::as_str),
            object.len()
        )
        .into_bytes()
    }

    fn delete(&mut self, request: &Request) -> Vec<u8> {
        let body = String::from_utf8_lossy(&request.body).into_owned();
        let keys = body
            .split("<Key>")
            .skip(1)
            .filter_map(|rest| rest.split('<').next());
        let mut deleted = String::new();
        for key in keys {
            self.objects.remove(key);
            deleted += &format!("<Deleted><Key>{key}</Key></Deleted>");
        }
        self.objects.remove(&request.key);
        let body = format!("<DeleteResult>{deleted}</DeleteResult>");
        reply(200, "", body.as_bytes())
    }

    fn execute(&mut self, request: &Request) -> Vec<u8> {
        let id = request.query.get("uploadId").cloned().unwrap_or_default();
        let key = request.key.clone();
        if request.is_new && !self.is_unconditional && self.objects.contains_key(&key) {
            return error(412, "PreconditionFailed");
        }
        match request.op {
            Op::Begin => {
                self.begun += 1;
                let id = format!("upload-{}", self.begun);
                self.uploads.insert(id.clone(), BTreeMap::new());
                let body = format!(
                    "<InitiateMultipartUploadResult><UploadId>{id}</UploadId></InitiateMultipartUploadResult>"
                );
                reply(200, "", body.as_bytes())
            }
            Op::Part => {
                let Some(parts) = self.uploads.get_mut(&id) else {
                    return error(404, "NoSuchUpload");
                };
                let tag = match self.is_opaque {
                    true => "ETag: \"sealed\"\r\n".to_owned(),
                    false => format!("ETag: \"{}\"\r\n", md5(&request.body)),
                };
                parts.insert(
                    request.query["partNumber"].parse().unwrap(),
                    request.body.clone(),
                );
                reply(200, &tag, b"")
            }
            Op::Complete => {
                let Some(parts) = self.uploads.remove(&id) else {
                    return error(404, "NoSuchUpload");
                };
                let digests = parts.values().flat_map(|part| {
                    let hex = md5(part);
                    (0..16).map(move |at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap())
                });
                let tag = md5(&digests.collect::<Vec<_>>());
                let tag = match self.is_opaque {
                    true => format!("\"sealed-{}\"", self.begun),
                    false => format!("\"{tag}-{}\"", parts.len()),
                };
                let whole = parts.into_values().flatten().collect();
                self.objects.insert(key.clone(), whole);
                self.tags.insert(key, tag.clone());
                let body = format!(
                    "<CompleteMultipartUploadResult><ETag>{tag}</ETag></CompleteMultipartUploadResult>"
                );
                reply(200, "", body.as_bytes())
            }
            Op::Abort => match self.uploads.remove(&id) {
                Some(_) => reply(204, "", b""),
                None => error(404, "NoSuchUpload"),
            },
            Op::Put => {
                let tag = self.put(&key, request.body.clone());
                if !self.is_forgetful {
                    self.metadata.insert(key, request.metadata.clone());
                }
                reply(200, &format!("ETag: {tag}\r\n"), b"")
            }
            Op::Copy => {
                let from = request.from.clone().unwrap_or_default();
                let Some(content) = self.objects.get(&from).cloned() else {
                    return error(404, "NoSuchKey");
                };
                let tag = self.put(&key, content);
                let body = format!("<CopyObjectResult><ETag>{tag}</ETag></CopyObjectResult>");
                reply(200, "", body.as_bytes())
            }
            Op::Head => self.head(&key),
            Op::Get => self.get(request),
            Op::Delete => self.delete(request),
            Op::Credentials => self.issue(),
            Op::List => reply(200, "", b"<ListBucketResult></ListBucketResult>"),
        }
    }
}

//! `Web`: a web server that answers as a test says, over TCP or TLS.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use xio_core::{BoxStream, Transform as _};
use xio_http::{Http, HttpHandle, Request, Response, Version};
use xio_tls::Tls;

use crate::secured::Plain;

/// An answer of the server.
#[derive(Clone, Debug, Default)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) fields: Vec<(&'static str, String)>,
    pub(super) body: Vec<u8>,
    /// Bytes of the body behind which the connection ends.
    pub(super) until: Option<usize>,
    /// Whether it comes in chunks, without its length.
    pub(super) chunked: bool,
}

impl Answer {
    pub(super) fn status(status: u16) -> Self {
        Self {
            status,
            ..Self::default()
        }
    }

    pub(super) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.fields.push((name, value.into()));
        self
    }
}

/// A file with an entity tag.
#[derive(Clone, Debug)]
pub(super) struct File {
    pub(super) bytes: Vec<u8>,
    pub(super) tag: &'static str,
}

impl File {
    /// The answer that RFC 9110 has for a request of it.
    pub(super) fn answer(&self, request: &Request) -> Answer {
        let range = request.headers.get("Range");
        let begin = range.and_then(|text| text.strip_prefix("bytes=")?.split('-').next());
        let begin = begin.and_then(|text| text.parse::<usize>().ok());
        let condition = request.headers.get("If-Range");
        let begin = begin.filter(|_| condition.is_none_or(|tag| tag == self.tag));
        let size = self.bytes.len();
        let answer = match begin {
            None => Answer {
                body: self.bytes.clone(),
                ..Answer::status(200)
            },
            Some(begin) => Answer {
                body: self.bytes.get(begin..).unwrap_or_default().to_vec(),
                ..Answer::status(206)
            }
            .with(
                "Content-Range",
                format!("bytes {begin}-{}/{size}", size - 1),
            ),
        };
        answer
            .with("ETag", self.tag)
            .with("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT")
    }
}

/// A web server; it ends with its runtime.
pub(super) struct Web {
    pub(super) addr: SocketAddr,
    scheme: &'static str,
    asked: Arc<Mutex<Vec<Request>>>,
    _runtime: Runtime,
}

/// Listens on a free port, with a runtime for the server behind it.
pub(super) fn listen() -> Result<(Runtime, TcpListener, SocketAddr)> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
    let addr = listener.local_addr()?;
    Ok((runtime, listener, addr))
}

impl Web {
    /// Starts a server that answers as `answer` says.
    pub(super) fn start(
        answer: impl Fn(&Request) -> Answer + Send + Sync + 'static,
    ) -> Result<Self> {
        Self::over(None, Http::new(), answer)
    }

    /// The same by HTTP/1.0, without lengths: the end of the connection is that of the file.
    pub(super) fn start_old(
        answer: impl Fn(&Request) -> Answer + Send + Sync + 'static,
    ) -> Result<Self> {
        Self::over(None, Http::new().version(Version::Http10), answer)
    }

    /// The same under TLS.
    pub(super) fn start_tls(
        tls: Tls,
        answer: impl Fn(&Request) -> Answer + Send + Sync + 'static,
    ) -> Result<Self> {
        Self::over(Some(Arc::new(tls)), Http::new(), answer)
    }

    fn over(
        tls: Option<Arc<Tls>>,
        http: Http,
        answer: impl Fn(&Request) -> Answer + Send + Sync + 'static,
    ) -> Result<Self> {
        let (runtime, listener, addr) = listen()?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let (asked, answer) = (Arc::new(Mutex::new(Vec::new())), Arc::new(answer));
        let told = Arc::clone(&asked);
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (told, answer) = (Arc::clone(&told), Arc::clone(&answer));
                let (tls, http) = (tls.clone(), http.clone());
                tokio::spawn(async move {
                    let stream: BoxStream = match &tls {
                        Some(tls) => Box::new(tls.respond(Plain(stream)).await?),
                        None => Box::new(Plain(stream)),
                    };
                    // A client that is told to fail may leave first.
                    serve(http.respond(stream).await?, &told, &*answer).await
                });
            }
        });
        Ok(Self {
            addr,
            scheme,
            asked,
            _runtime: runtime,
        })
    }

    pub(super) fn url(&self, target: &str) -> String {
        format!("{}://{}{target}", self.scheme, self.addr)
    }

    /// The requests for bytes so far.
    pub(super) fn gets(&self) -> Vec<Request> {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let is_get = |request: &&Request| request.method == "GET";
        asked.iter().filter(is_get).cloned().collect()
    }

    /// The ranges of those requests.
    pub(super) fn ranges(&self) -> Vec<String> {
        let range = |request: &Request| request.headers.get("Range").map(str::to_owned);
        self.gets().iter().filter_map(range).collect()
    }
}

async fn serve(
    mut stream: HttpHandle<BoxStream>,
    told: &Mutex<Vec<Request>>,
    answer: &(dyn Fn(&Request) -> Answer + Send + Sync),
) -> Result<()> {
    let request = stream.exchange().request().context("no request")?;
    let answer = answer(&request);
    let is_head = request.method == "HEAD";
    told.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(request);
    let mut response = Response::new(answer.status)?;
    for (name, value) in &answer.fields {
        response.headers.push(name, value)?;
    }
    if !answer.chunked {
        let length = answer.body.len().to_string();
        response.headers.push("Content-Length", length)?;
    }
    stream.exchange().reply(response)?;
    if !is_head {
        let until = answer.until.unwrap_or(answer.body.len());
        let sent = answer.body.get(..until).unwrap_or(&answer.body);
        stream.write_all(sent).await?;
        stream.flush().await?;
        if until < answer.body.len() {
            // It ends in the middle.
            return Ok(());
        }
    }
    stream.shutdown().await?;
    Ok(())
}

//! `Caller`: makes the calls of a client over one HTTP/2 connection that someone else opened.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use tonic::body::Body;
use tonic::codegen::{Service, http};

/// Makes calls over one connection. Clones share it.
#[derive(Debug, Clone)]
pub struct Caller(SendRequest<Body>);

impl Caller {
    /// Calls over the connection of `sender`, which someone else drives.
    pub fn new(sender: SendRequest<Body>) -> Self {
        Self(sender)
    }

    /// Whether the connection has ended.
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}

impl Service<http::Request<Body>> for Caller {
    type Response = http::Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = hyper::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<hyper::Result<()>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}

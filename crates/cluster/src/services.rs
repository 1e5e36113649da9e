//! `Services`: the services of one connection, chosen by the path of the call.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::Incoming;
use tokio_util::task::TaskTracker;
use tonic::body::Body;
use tonic::codegen::{Bytes, Service, StdError, http};
use tonic::server::NamedService;

type Call = http::Request<Incoming>;
type Answer = http::Response<Body>;
type Answering = Pin<Box<dyn Future<Output = Result<Answer, Infallible>> + Send>>;

/// Calls of one service go to it, if it is there, and all others to the main one.
#[derive(Debug, Clone)]
pub(crate) struct Services<M, B> {
    main: M,
    storage: Option<B>,
    uses: TaskTracker,
}

impl<M, B> Services<M, B> {
    /// Counts the calls of `storage` in progress as tasks of `uses`.
    pub(crate) const fn new(main: M, storage: Option<B>, uses: TaskTracker) -> Self {
        Self {
            main,
            storage,
            uses,
        }
    }
}

impl<M, B, T> Service<Call> for Services<M, B>
where
    M: Service<Call, Response = Answer, Error = Infallible, Future: Send + 'static>,
    B: Service<Call, Response = http::Response<T>, Error = Infallible, Future: Send + 'static>
        + NamedService,
    T: tonic::codegen::Body<Data = Bytes, Error: Into<StdError>> + Send + 'static,
{
    type Response = Answer;
    type Error = Infallible;
    type Future = Answering;

    /// Services of tonic are always ready.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: Call) -> Answering {
        let service = call.uri().path().split('/').nth(1);
        match &mut self.storage {
            Some(storage) if service == Some(B::NAME) => {
                let answering = self.uses.track_future(storage.call(call));
                Box::pin(async move { Ok(answering.await?.map(Body::new)) })
            }
            _ => Box::pin(self.main.call(call)),
        }
    }
}

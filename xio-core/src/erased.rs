//! The `_dyn` twins of the set-up traits and `DynStack`; nothing here is on the data path.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::datagram::{Bind, BoxDatagram};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::info::Info;
use crate::plan::Entry;
use crate::stream::{BoxStream, Stream};
use crate::target::Target;
use crate::transform::Transform;
use crate::transport::{Incoming, Listener, Passive, Transport};

/// A boxed future, as the twins give it.
type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// [`Transport`] without its types.
trait TransportDyn: Send + Sync + 'static {
    /// Twin of [`Transport::connect`].
    fn connect_dyn<'a>(&'a self, to: &'a Target) -> BoxFuture<'a, Result<BoxStream>>;
}

impl<T: Transport<Handle: Stream>> TransportDyn for T {
    fn connect_dyn<'a>(&'a self, to: &'a Target) -> BoxFuture<'a, Result<BoxStream>> {
        Box::pin(async move { Ok(Box::new(self.connect(to).await?) as BoxStream) })
    }
}

/// [`Passive`] without its types.
trait PassiveDyn: TransportDyn {
    /// Twin of [`Passive::listen`].
    fn listen_dyn<'a>(&'a self, at: &'a Target) -> BoxFuture<'a, Result<BoxListener>>;
}

impl<T: Passive<Handle: Stream>> PassiveDyn for T {
    fn listen_dyn<'a>(&'a self, at: &'a Target) -> BoxFuture<'a, Result<BoxListener>> {
        Box::pin(async move { Ok(BoxListener(Box::new(self.listen(at).await?))) })
    }
}

/// [`Listener`] without its types.
trait ListenerDyn: Send + 'static {
    fn accept_dyn(&mut self) -> BoxFuture<'_, Result<BoxIncoming>>;
    fn describe_dyn(&self, info: &mut Info);
}

impl<L: Listener<Handle: Stream>> ListenerDyn for L {
    fn accept_dyn(&mut self) -> BoxFuture<'_, Result<BoxIncoming>> {
        Box::pin(async move { Ok(BoxIncoming(Box::new(self.accept().await?))) })
    }

    fn describe_dyn(&self, info: &mut Info) {
        self.describe(info);
    }
}

/// [`Incoming`] without its types.
trait IncomingDyn: Send + 'static {
    fn open_dyn(self: Box<Self>) -> BoxFuture<'static, Result<BoxStream>>;
    fn describe_dyn(&self, info: &mut Info);
}

impl<I: Incoming<Handle: Stream>> IncomingDyn for I {
    fn open_dyn(self: Box<Self>) -> BoxFuture<'static, Result<BoxStream>> {
        Box::pin(async move { Ok(Box::new((*self).open().await?) as BoxStream) })
    }

    fn describe_dyn(&self, info: &mut Info) {
        self.describe(info);
    }
}

/// A listener of an erased type.
pub struct BoxListener(Box<dyn ListenerDyn>);

impl Listener for BoxListener {
    type Handle = BoxStream;
    type Incoming = BoxIncoming;

    async fn accept(&mut self) -> Result<BoxIncoming> {
        self.0.accept_dyn().await
    }

    fn describe(&self, info: &mut Info) {
        self.0.describe_dyn(info);
    }
}

impl fmt::Debug for BoxListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.info())
    }
}

/// An accepted peer of an erased type.
pub struct BoxIncoming(Box<dyn IncomingDyn>);

impl Incoming for BoxIncoming {
    type Handle = BoxStream;

    fn describe(&self, info: &mut Info) {
        self.0.describe_dyn(info);
    }

    async fn open(self) -> Result<BoxStream> {
        self.0.open_dyn().await
    }
}

impl fmt::Debug for BoxIncoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.info())
    }
}

/// [`Transform`] without its types.
trait TransformDyn: Send + Sync + 'static {
    fn initiate_dyn<'a>(
        &'a self,
        inner: BoxStream,
        to: &'a Target,
    ) -> BoxFuture<'a, Result<BoxStream>>;
    fn respond_dyn(&self, inner: BoxStream) -> BoxFuture<'_, Result<BoxStream>>;
    fn describe_dyn(&self, info: &mut Info);
}

impl<U: Transform<BoxStream, Handle: Stream>> TransformDyn for U {
    fn initiate_dyn<'a>(
        &'a self,
        inner: BoxStream,
        to: &'a Target,
    ) -> BoxFuture<'a, Result<BoxStream>> {
        Box::pin(async move { Ok(Box::new(self.initiate(inner, to).await?) as BoxStream) })
    }

    fn respond_dyn(&self, inner: BoxStream) -> BoxFuture<'_, Result<BoxStream>> {
        Box::pin(async move { Ok(Box::new(self.respond(inner).await?) as BoxStream) })
    }

    fn describe_dyn(&self, info: &mut Info) {
        self.describe(info);
    }
}

/// A layer of an erased type, as the registry's layer drivers make it.
#[derive(Clone)]
pub struct DynLayer(Arc<dyn TransformDyn>);

impl DynLayer {
    /// Erases a layer.
    pub fn new<U: Transform<BoxStream, Handle: Stream>>(layer: U) -> Self {
        Self(Arc::new(layer))
    }
}

impl Transform<BoxStream> for DynLayer {
    type Handle = BoxStream;

    async fn initiate(&self, inner: BoxStream, to: &Target) -> Result<BoxStream> {
        self.0.initiate_dyn(inner, to).await
    }

    async fn respond(&self, inner: BoxStream) -> Result<BoxStream> {
        self.0.respond_dyn(inner).await
    }

    fn describe(&self, info: &mut Info) {
        self.0.describe_dyn(info);
    }
}

impl fmt::Debug for DynLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut info = Info::default();
        self.describe(&mut info);
        write!(f, "{info}")
    }
}

/// A stack of an erased type, made from a stack string.
///
/// It is a [`Transport`] and a [`Passive`] like any typed stack, so typed layers may sit on it.
/// Listening on a stack with a bottom that cannot listen is an error of kind
/// [`Unsupported`](ErrorKind::Unsupported). Clones share the stack.
#[derive(Clone)]
pub struct DynStack {
    active: Arc<dyn TransportDyn>,
    passive: Option<Arc<dyn PassiveDyn>>,
    /// The stack as a string, for messages.
    text: Arc<str>,
}

impl DynStack {
    /// Erases a transport that only opens actively; `text` is its stack string.
    pub fn active(transport: impl Transport<Handle: Stream>, text: &str) -> Self {
        Self {
            active: Arc::new(transport),
            passive: None,
            text: text.into(),
        }
    }

    /// Erases a transport that opens both ways; `text` is its stack string.
    pub fn new(transport: impl Passive<Handle: Stream>, text: &str) -> Self {
        let passive = Arc::new(transport);
        Self {
            active: Arc::clone(&passive) as Arc<dyn TransportDyn>,
            passive: Some(passive),
            text: text.into(),
        }
    }

    /// Puts a layer on top; `entry` is its part of the stack string.
    #[must_use]
    pub fn layer(self, layer: DynLayer, entry: &Entry) -> Self {
        let stack = self.clone().push(layer);
        self.under(stack, entry)
    }

    /// Erases `transport`, which opens its handles in this stack: it can listen where this one can.
    /// `entry` is its part of the stack string.
    #[must_use]
    pub fn under(&self, transport: impl Passive<Handle: Stream>, entry: &Entry) -> Self {
        let text = format!("{},{entry}", self.text);
        match self.can_listen() {
            true => Self::new(transport, &text),
            false => Self::active(transport, &text),
        }
    }

    /// Whether [`listen`](Passive::listen) can work.
    #[must_use]
    pub fn can_listen(&self) -> bool {
        self.passive.is_some()
    }

    /// The stack as a string.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl Transport for DynStack {
    type Handle = BoxStream;

    async fn connect(&self, to: &Target) -> Result<BoxStream> {
        self.active.connect_dyn(to).await
    }
}

impl Passive for DynStack {
    type Listener = BoxListener;

    async fn listen(&self, at: &Target) -> Result<BoxListener> {
        match &self.passive {
            Some(passive) => passive.listen_dyn(at).await,
            None => Err(Error::new(
                ErrorKind::Unsupported,
                self.text.to_string(),
                Operation::Listen,
                "this stack only opens actively; listen on one with a socket at the bottom",
            )),
        }
    }
}

impl fmt::Debug for DynStack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for DynStack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// [`Bind`] without its types.
trait BindDyn: Send + Sync + 'static {
    fn bind_dyn<'a>(&'a self, at: &'a Target) -> BoxFuture<'a, Result<BoxDatagram>>;
}

impl<B: Bind> BindDyn for B {
    fn bind_dyn<'a>(&'a self, at: &'a Target) -> BoxFuture<'a, Result<BoxDatagram>> {
        Box::pin(async move { Ok(Box::new(self.bind(at).await?) as BoxDatagram) })
    }
}

/// A source of datagram sockets of an erased type: the bottom of a stack such as `udp,udt`.
#[derive(Clone)]
pub struct DynBind {
    inner: Arc<dyn BindDyn>,
    text: Arc<str>,
}

impl DynBind {
    /// Erases it; `text` is its part of the stack string.
    pub fn new(bind: impl Bind, text: &str) -> Self {
        Self {
            inner: Arc::new(bind),
            text: text.into(),
        }
    }

    /// The driver and its options as a string; empty when the driver above brought it along.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The stack string with `entry` on top, as its writer put it.
    #[must_use]
    pub fn under(&self, entry: &Entry) -> String {
        match self.text() {
            "" => entry.to_string(),
            below => format!("{below},{entry}"),
        }
    }

    /// The same without a part in the stack string.
    pub(crate) fn unsaid(self) -> Self {
        let text = "".into();
        Self { text, ..self }
    }
}

impl Bind for DynBind {
    type Socket = BoxDatagram;

    async fn bind(&self, at: &Target) -> Result<BoxDatagram> {
        self.inner.bind_dyn(at).await
    }
}

impl fmt::Debug for DynBind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

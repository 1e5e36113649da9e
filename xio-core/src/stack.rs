//! `Stack<Lower, Upper>` and `.push()`: a stack is a transport.

use std::fmt;
use std::sync::Arc;

use crate::error::Result;
use crate::info::Info;
use crate::target::Target;
use crate::transform::Transform;
use crate::transport::{Incoming, Listener, Passive, Transport};

/// A layer on a transport; itself a transport.
///
/// Made by [`Transport::push`], read bottom first. `Debug` prints the layers flat: `tcp, count`.
#[derive(Clone)]
pub struct Stack<Lower, Upper> {
    lower: Lower,
    // Shared with the listeners and the accepted peers, which outlive a borrow.
    upper: Arc<Upper>,
}

impl<L, U> Stack<L, U> {
    /// Puts `upper` on `lower`.
    pub fn new(lower: L, upper: U) -> Self {
        Self {
            lower,
            upper: Arc::new(upper),
        }
    }
}

impl<L: fmt::Debug, U: fmt::Debug> fmt::Debug for Stack<L, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, {:?}", self.lower, self.upper)
    }
}

impl<L, U> Transport for Stack<L, U>
where
    L: Transport,
    U: Transform<L::Handle>,
{
    type Handle = U::Handle;

    async fn connect(&self, to: &Target) -> Result<Self::Handle> {
        let inner = self.lower.connect(to).await?;
        self.upper.initiate(inner, to).await
    }
}

impl<L, U> Passive for Stack<L, U>
where
    L: Passive,
    U: Transform<L::Handle>,
{
    type Listener = StackListener<L::Listener, U>;

    async fn listen(&self, at: &Target) -> Result<Self::Listener> {
        Ok(StackListener {
            lower: self.lower.listen(at).await?,
            upper: Arc::clone(&self.upper),
        })
    }
}

/// The listener of a [`Stack`].
pub struct StackListener<L, U> {
    lower: L,
    upper: Arc<U>,
}

impl<L: fmt::Debug, U: fmt::Debug> fmt::Debug for StackListener<L, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, {:?}", self.lower, self.upper)
    }
}

impl<L, U> Listener for StackListener<L, U>
where
    L: Listener,
    U: Transform<L::Handle>,
{
    type Handle = U::Handle;
    type Incoming = StackIncoming<L::Incoming, U>;

    async fn accept(&mut self) -> Result<Self::Incoming> {
        Ok(StackIncoming {
            lower: self.lower.accept().await?,
            upper: Arc::clone(&self.upper),
        })
    }

    fn describe(&self, info: &mut Info) {
        self.lower.describe(info);
        self.upper.describe(info);
    }
}

/// A peer that a [`StackListener`] accepted.
pub struct StackIncoming<I, U> {
    lower: I,
    upper: Arc<U>,
}

impl<I: fmt::Debug, U: fmt::Debug> fmt::Debug for StackIncoming<I, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, {:?}", self.lower, self.upper)
    }
}

impl<I, U> Incoming for StackIncoming<I, U>
where
    I: Incoming,
    U: Transform<I::Handle>,
{
    type Handle = U::Handle;

    fn describe(&self, info: &mut Info) {
        self.lower.describe(info);
        self.upper.describe(info);
    }

    async fn open(self) -> Result<Self::Handle> {
        let inner = self.lower.open().await?;
        self.upper.respond(inner).await
    }
}

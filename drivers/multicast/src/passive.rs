//! `MulticastPassive`: waits for senders, and connects to the receivers they name.

use std::fmt;
use std::sync::Arc;

use xio_core::{
    Error, ErrorKind, Incoming, Info, Listener, Operation, Passive, Result, Stream, Target,
};

use crate::fan::Fan;
use crate::intro::Intro;
use crate::{LAYER, Multicast, MulticastHandle};

impl<T: Passive<Handle: Stream>> Passive for Multicast<T> {
    type Listener = MulticastPassive<T>;

    async fn listen(&self, at: &Target) -> Result<Self::Listener> {
        Ok(MulticastPassive {
            listener: self.below.listen(at).await?,
            stack: Self {
                below: Arc::clone(&self.below),
                options: self.options.clone(),
            },
        })
    }
}

/// The listener of a [`Multicast`].
pub struct MulticastPassive<T: Passive> {
    listener: T::Listener,
    stack: Multicast<T>,
}

impl<T: Passive<Handle: Stream>> Listener for MulticastPassive<T> {
    type Handle = MulticastHandle<T::Handle>;
    type Incoming = MulticastIncoming<T>;

    async fn accept(&mut self) -> Result<Self::Incoming> {
        Ok(MulticastIncoming {
            incoming: self.listener.accept().await?,
            stack: Multicast {
                below: Arc::clone(&self.stack.below),
                options: self.stack.options.clone(),
            },
        })
    }

    fn describe(&self, info: &mut Info) {
        self.listener.describe(info);
        info.layer(LAYER);
    }
}

impl<T: Passive> fmt::Debug for MulticastPassive<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {LAYER}", self.listener.info())
    }
}

/// An accepted sender.
pub struct MulticastIncoming<T: Passive> {
    incoming: <T::Listener as Listener>::Incoming,
    stack: Multicast<T>,
}

impl<T: Passive<Handle: Stream>> Incoming for MulticastIncoming<T> {
    type Handle = MulticastHandle<T::Handle>;

    fn describe(&self, info: &mut Info) {
        self.incoming.describe(info);
        info.layer(LAYER);
    }

    async fn open(self) -> Result<Self::Handle> {
        let mut above = self.incoming.open().await?;
        let Intro {
            answers,
            p,
            receivers,
        } = Intro::read(&mut above).await?;
        if !receivers.is_empty() && !self.stack.options.forward {
            let count = receivers.len();
            let fact = format!(
                "the sender asks to forward to {count} receivers; permit it with forward=yes"
            );
            let kind = ErrorKind::Unsupported;
            return Err(Error::new(kind, LAYER, Operation::Open, fact));
        }
        let fan = Fan::open(&*self.stack.below, &receivers, p, false).await;
        Ok(MulticastHandle::node(above, answers, fan))
    }
}

impl<T: Passive> fmt::Debug for MulticastIncoming<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {LAYER}", self.incoming.info())
    }
}

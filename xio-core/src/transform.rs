//! `Transform`: one layer, both directions.

use std::future::Future;

use crate::error::Result;
use crate::info::Info;
use crate::target::Target;

/// A layer: makes a handle of the handle below it.
///
/// [`Stack`](crate::Stack) supplies transport, listener and incoming from these two methods. A
/// driver that opens more than one handle below is no transform but a transport over a transport.
pub trait Transform<H>: Send + Sync + 'static {
    /// The handle of this layer.
    type Handle: Send + 'static;

    /// Puts the layer on a handle that was opened actively to `to`; by default as
    /// [`respond`](Self::respond) does.
    ///
    /// # Cancel safety
    /// Dropping the future drops `inner`, which closes it.
    fn initiate(&self, inner: H, to: &Target) -> impl Future<Output = Result<Self::Handle>> + Send {
        let _ = to;
        self.respond(inner)
    }

    /// Puts the layer on a handle that a peer opened.
    ///
    /// # Cancel safety
    /// Dropping the future drops `inner`, which closes it.
    fn respond(&self, inner: H) -> impl Future<Output = Result<Self::Handle>> + Send;

    /// Adds the name of the layer to the description of a listener.
    fn describe(&self, info: &mut Info);
}

//! Grid security at its edges: files, keys and streams for the rules of `grid-security`.
//!
//! # What it does
//!
//! | Part | Purpose |
//! | --- | --- |
//! | [`Gsi`] | the layer of data channels: both ends prove who they are by certificates |
//! | [`GssapiAcceptor`], [`GssapiInitiator`] | the exchange by `ADAT` on a control channel |
//! | [`GssapiStream`] | plain lines over lines that are wrapped one by one |
//! | [`Environment`] | the user, the variables and the folders of a process, as values |
//! | [`find`], [`CredentialFiles`] | credentials in the places of the Globus programs |
//! | [`TrustDirectory`] | authorities, signing policies and revocation lists, read again when they change |
//! | [`authorities`], [`authority`] | findings about a CA directory, for whoever keeps it |
//! | [`GridMapFile`] | a grid-mapfile, read again when it changes |
//! | [`KeyPool`] | RSA keys for delegation, generated ahead of need |
//!
//! The bytes are those of GridFTP: on a data channel the end that connects is the client of TLS;
//! under `protection=none` the handshake is followed by the records of GSI and then by bytes in
//! clear, otherwise by TLS. A peer has to be of a trusted authority *and* the expected one.
//!
//! # When not to use it
//!
//! Where no Grid is: `tls` has the rules of the web for certificates, and an end mark. Here the end
//! of the stream below is an end, since the Globus programs send no close-notify. Delegation is a
//! matter of control channels. Programs of Globus XIO outside GridFTP, as `globus-xioperf -D gsi`,
//! frame their bytes in a way of their own.
//!
//! # String form
//!
//! `gsi` or `gsi:key=value;key=value`. Values with `,` `;` `:` or `%` are `%HH`-encoded. The options
//! are those of [`GsiOptions`]. The files are read when the stack is made, so a peer's string must
//! not set them.
//!
//! # Cost
//!
//! Each connection makes a full handshake with two signatures. With `protection=none` the bytes then
//! pass untouched, and the kernel may send files; otherwise it is the cost of `tls`.
//!
//! # Example
//!
//! ```
//! use std::sync::Arc;
//!
//! use gsi::proxy::ProxyOptions;
//! use gsi::trust::TrustOptions;
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! use xio_core::{Incoming, Listener, Passive, Transport};
//! use xio_gsi::{Gsi, Judge, Level, TrustDirectory};
//! use xio_testkit::{Grid, Mem};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let grid = Grid::new();
//! let proxy = grid.proxy(&grid.user("Alice Lab"), &ProxyOptions::default());
//! let trust = TrustDirectory::open(grid.certificates(), TrustOptions::default())?;
//! let gsi = Gsi::new(&proxy, Judge::from(Arc::new(trust)))?.level(Level::Private);
//!
//! let stack = Mem::new().push(gsi);
//! let at = "dtn.example.org:2811".parse()?;
//! let mut listener = stack.listen(&at).await?;
//! let (near, far) = tokio::join!(stack.connect(&at), async {
//!     listener.accept().await?.open().await
//! });
//! let (mut near, mut far) = (near?, far?);
//!
//! near.write_all(b"hello").await?;
//! near.shutdown().await?;
//! let mut text = String::new();
//! far.read_to_string(&mut text).await?;
//! assert_eq!(text, "hello");
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod control;
mod credential;
mod data;
mod environment;
mod file;
mod gridmap;
mod info;
mod keys;
mod options;
mod pool;
mod trust;

use xio_core::{Driver, DynLayer};

pub use control::{AdatError, Established, GssapiAcceptor, GssapiInitiator, GssapiStream, Refused};
pub use credential::{CredentialFiles, Found, NoCredential, Purpose, find, of_hosts};
pub use data::{Expect, Gsi};
pub use environment::Environment;
pub use file::{FileError, FileFault};
pub use gridmap::GridMapFile;
pub use info::{GsiInfo, Level};
pub use keys::KeyPool;
pub use options::{Auth, GsiOptions};
pub use pool::accounts as pool_accounts;
pub use trust::{Judge, NoTrust, TrustDirectory, authorities, authority};

const LAYER: &str = "gsi";

/// The driver for a registry.
#[must_use]
pub fn driver() -> Driver {
    let about = "Grid security: certificates and proxies on both ends";
    Driver::layer(LAYER, about, |options: GsiOptions, _| {
        Ok(DynLayer::new(options.build()?))
    })
}

//! Tutorial: a layer of your own that changes bytes, typed, by name, and held to the contract.
//!
//! The layer below shifts every letter by some places of the alphabet, as Caesar did. It is a
//! [`ByteMap`](crate::ByteMap), which sees plain slices; [`Mapped`](crate::Mapped) makes a
//! [`Stream`](crate::Stream) of it, with the buffers, wakers and ends. A layer that leaves the
//! bytes as they are is an [`Observer`](crate::Observer) in a [`Tap`](crate::Tap) instead, and one
//! with blocks or a handshake implements [`Stream`](crate::Stream) itself.
//!
//! The options are a table, which also makes the parser, the printer and the chained setters. The
//! driver suite then runs each rule of [the contract](crate::stream) over the stack.
//!
//! ```
//! use xio::{ByteMap, Driver, DynLayer, Info, Mapped, Result, Setting, Stream, Transform, Transport};
//! use xio_testkit::driver_suite::{self, Subject};
//!
//! xio::options! {
//!     /// Options of the layer.
//!     #[derive(Copy)]
//!     pub struct CaesarOptions for "caesar" [impl Caesar] {
//!         /// Places that a letter moves forward.
//!         shift: u8 = 3, "shift", Setting::new().takes("1 to 25", &["1", "25"])
//!             .only(|shift| (1..26).contains(shift));
//!     }
//! }
//!
//! /// The layer.
//! #[derive(Debug, Clone, Copy, Default)]
//! pub struct Caesar {
//!     options: CaesarOptions,
//! }
//!
//! impl<S: Stream> Transform<S> for Caesar {
//!     type Handle = Mapped<S, Shift>;
//!
//!     async fn respond(&self, inner: S) -> Result<Self::Handle> {
//!         Ok(Mapped::new(inner, Shift(self.options.shift)))
//!     }
//!
//!     fn describe(&self, info: &mut Info) {
//!         info.layer("caesar");
//!     }
//! }
//!
//! /// The bytes of one stream.
//! pub struct Shift(u8);
//!
//! fn shifted(byte: u8, by: u8) -> u8 {
//!     match byte {
//!         b'a'..=b'z' => (byte - b'a' + by) % 26 + b'a',
//!         b'A'..=b'Z' => (byte - b'A' + by) % 26 + b'A',
//!         other => other,
//!     }
//! }
//!
//! impl ByteMap for Shift {
//!     const LAYER: &'static str = "caesar";
//!
//!     fn encode(&mut self, data: &[u8], out: &mut Vec<u8>) {
//!         out.extend(data.iter().map(|&byte| shifted(byte, self.0)));
//!     }
//!
//!     fn decode(&mut self, bytes: &mut [u8], _: &mut Vec<u8>) -> Result<usize> {
//!         bytes.iter_mut().for_each(|byte| *byte = shifted(*byte, 26 - self.0));
//!         Ok(bytes.len())
//!     }
//! }
//!
//! /// The driver for a registry.
//! pub fn driver() -> Driver {
//!     Driver::layer("caesar", "shifts letters", |options: CaesarOptions, _| {
//!         Ok(DynLayer::new(Caesar::default().with_options(options)))
//!     })
//! }
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<()> {
//!     // Typed, and by name.
//!     let typed = xio::tcp::Tcp::new().push(Caesar::default().shift(13_u8));
//!     let mut registry = xio::registry();
//!     let named = registry.register(driver()).stack("tcp,caesar:shift=13")?;
//!     assert_eq!(format!("{:?}", named), "tcp,caesar:shift=13");
//!
//!     // End of file, abort, cancellation, half-close and a dozen other rules.
//!     driver_suite::run(&Subject::new(named, "127.0.0.1:0".parse()?, &["tcp", "caesar"])).await;
//! #     drop(typed);
//!     Ok(())
//! }
//! ```

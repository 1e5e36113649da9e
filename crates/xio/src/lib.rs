//! Composable transports: every enabled driver behind one name, and stacks from strings.

#![forbid(unsafe_code)]

mod drivers;

pub use drivers::registry;
pub use xio_core::*;

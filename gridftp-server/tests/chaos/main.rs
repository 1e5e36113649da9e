//! Suites of the server over a storage that is slow, gives short reads and other orders: all pass.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::print_stderr,
    reason = "a test's helpers fail like the test itself, and serve other suites as well"
)]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gridftp_dsi::DynDsi;
use gridftp_dsi_posix::Posix;
use xio_testkit::{Chaos, ChaosOptions};

mod suites;

// The suites name each other from the root.
use suites::*;

/// The storage of a server of a test.
fn storage(root: &Path) -> Arc<dyn DynDsi> {
    let mut options = ChaosOptions::default();
    (options.seed, options.short, options.shuffle) = (7, true, true);
    options.delay = Duration::from_micros(500);
    Arc::new(Chaos::new(Posix::open(root).unwrap(), options))
}

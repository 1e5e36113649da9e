//! Suites of the server over an object store that is slow, gives short reads and other orders: all
//! pass that its abilities allow.
#![cfg(feature = "object")]
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
use gridftp_dsi_object::{Config, Objects};
use xio_testkit::{Chaos, ChaosOptions};

#[path = "../chaos/suites.rs"]
mod suites;

// The suites name each other from the root.
use suites::*;

/// The storage of a server of a test: the objects are the files in `root`.
fn storage(root: &Path) -> Arc<dyn DynDsi> {
    let url = format!("file://{}", root.display());
    let mut config = Config::new(url, root.with_extension("index"));
    config.part = Some(64 << 10);
    let mut options = ChaosOptions::default();
    (options.seed, options.short, options.shuffle) = (7, true, true);
    options.delay = Duration::from_micros(500);
    Arc::new(Chaos::new(Objects::open(&config).unwrap(), options))
}

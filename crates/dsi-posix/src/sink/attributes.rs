//! Extended attributes of a file that is not published yet.

use std::sync::Arc;

use gridftp_dsi::types::Attribute;
use gridftp_dsi::{ErrorKind, Result};

use super::{FileSink, Inner};
use crate::attributes;
use crate::blocking::{Work, run};
use crate::error::{Fault, Outcome};
use crate::root::is_regular;

impl Inner {
    fn set_attributes(&self, all: &[Attribute]) -> Outcome<()> {
        let _open = self.enter()?;
        self.catch_up()?;
        let file = self.file()?;
        if !is_regular(&rustix::fs::fstat(file)?) {
            let what = "a regular file alone has attributes of users";
            return Err(Fault::Rule(ErrorKind::Unsupported, what));
        }
        all.iter().try_for_each(|one| attributes::set(file, one))
    }
}

impl FileSink {
    /// Sets extended attributes of the file; others stay. The kernel wants permission to write to the
    /// file for that, which the mode that [`finish`](gridftp_dsi::Sink::finish) gives it may take.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] on a file system that keeps none, or of a FIFO or a device; errors of
    /// the kernel.
    ///
    /// # Cancel safety
    /// The attributes may be set, or some of them, after the future is dropped.
    pub async fn set_attributes(&self, all: Vec<Attribute>) -> Result<()> {
        if all.is_empty() {
            return Ok(());
        }
        let inner = Arc::clone(&self.inner);
        run(Work::Brief, "set attributes", move || {
            let set = inner.set_attributes(&all);
            // A full file system is no reason to remove the bytes.
            set.map_err(|fault| fault.of("set attributes", &inner.path))
        })
        .await
    }
}

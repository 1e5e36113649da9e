//! `UnixOptions`: the settings of a local socket.

use xio_core::Setting;

use crate::Unix;

xio_core::options! {
    /// Settings of a local socket.
    #[derive(Copy)]
    pub struct UnixOptions for "unix" [impl Unix] {
        /// Permissions of a listener's path; by default those of the umask.
        mode: Option<u32> = None, "mode",
            Setting::with("octal permissions, as 0600",
                &["0600", "777"],
                |value| value.octal(0o777).map(Some),
                |mode| Some(format!("{:04o}", (*mode)?)),
            )
            .local();
    }
}

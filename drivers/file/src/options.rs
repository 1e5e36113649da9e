//! `FileOptions`: access, permissions and offset of a file.

use xio_core::Setting;

use crate::File;

/// Access to a file, as `fopen` names it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Flags {
    /// `r`: reading.
    #[default]
    Read,
    /// `r+`: reading and writing a file that exists.
    Update,
    /// `w`: writing a file that is created or truncated.
    Write,
    /// `w+`: reading and writing a file that is created or truncated.
    Rewrite,
    /// `a`: writing at the end of a file, which is created if missing.
    Append,
    /// `a+`: reading, and writing at the end.
    ReadAppend,
}

xio_core::words! {
    Flags: "one of r r+ w w+ a a+",
    Read = "r", Update = "r+", Write = "w", Rewrite = "w+", Append = "a", ReadAppend = "a+",
}

xio_core::options! {
    /// Access, permissions and offset of a file.
    #[derive(Copy)]
    pub struct FileOptions for "file" [impl File] {
        /// Changes nothing: files are read and written on threads that may block.
        blocking: bool = false, "blocking";
        /// Access to the file, as `fopen` names it.
        flags: Flags = Flags::Read, "flags", Setting::new().local();
        /// Permissions of a new file, before the umask.
        mode: u32 = 0o666, "mode",
            Setting::with("octal digits, as 0644",
                &["0644", "7777"],
                |value| value.octal(0o7777),
                |mode| Some(format!("{mode:04o}")),
            )
            .local();
        /// Offset of the first byte to read or write, from the start of the file.
        offset: u64 = 0, "offset",
            Setting::bytes()
            .local();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_values_are_refused() {
        for bad in [
            "flags=rw",
            "flags=",
            "mode=+644",
            "mode=888",
            "mode=17777",
            "offset=-1",
            "blocking=maybe",
        ] {
            assert!(bad.parse::<FileOptions>().is_err(), "{bad}");
        }
    }
}

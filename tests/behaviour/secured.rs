//! Certificates for TLS stacks, created for this run.

use std::sync::OnceLock;

use xio_testkit::{Authority, Grid};

struct Files {
    ca: String,
    host: String,
    grid: Grid,
    user: String,
    // Dropping the folder removes the files.
    _folder: tempfile::TempDir,
}

/// Replaces `OWN` in a stack string by options with an authority and a certificate for loopback, and
/// `GRID` by those with a directory of authorities and a user's credential.
pub(crate) fn fill_in(text: &str) -> String {
    static FILES: OnceLock<Files> = OnceLock::new();
    let files = FILES.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let authority = Authority::new("behaviour suite");
        let host = authority.issue("host", &["localhost", "127.0.0.1", "::1"]);
        let grid = Grid::new();
        let user = grid.store(&grid.user("Alice Lab"), "user.pem");
        Files {
            user: user.display().to_string(),
            grid,
            ca: authority.write(folder.path()).display().to_string(),
            host: host.write(folder.path(), "host").display().to_string(),
            _folder: folder,
        }
    });
    let certificates = files.grid.certificates().display().to_string();
    text.replace("OWN", &format!("ca={};cert={}", files.ca, files.host))
        .replace(
            "GRID",
            &format!("ca_dir={certificates};cert={}", files.user),
        )
}

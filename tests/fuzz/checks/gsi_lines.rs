//! Lines of a stranger in place of the exchange get replies, and never a session.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use gsi::credential::Credential;
use gsi::trust::{TrustOptions, TrustStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Builder;
use tokio::time::Instant;
use xio_gsi::{GssapiAcceptor, Judge, KeyPool};
use xio_testkit::Mem;

static ACCEPTOR: LazyLock<GssapiAcceptor> = LazyLock::new(|| {
    let store = TrustStore::new(TrustOptions::default());
    let host = Credential::from_pem(include_bytes!("../corpus/gsi_credential/proxy")).unwrap();
    let keys = Arc::new(KeyPool::new(1).unwrap());
    GssapiAcceptor::new(&host, Judge::new(Arc::new(store)), keys).unwrap()
});

/// `data` is the bytes behind the reply to `AUTH`.
pub(crate) fn check(data: &[u8]) {
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    let (near, far) = Mem::new().pair();
    let replies = runtime.block_on(async {
        let (mut read, mut write) = tokio::io::split(near);
        let accept = async {
            let deadline = Instant::now() + Duration::from_secs(60);
            let refused = ACCEPTOR.accept(far, deadline).await;
            drop(refused.map(drop).expect_err("a stranger has no key").stream);
        };
        let send = async {
            // The other end may be gone.
            let _ = write.write_all(data).await;
            let _ = write.shutdown().await;
        };
        let mut replies = Vec::new();
        let (_, (), ()) = tokio::join!(read.read_to_end(&mut replies), send, accept);
        replies
    });
    for line in replies.split_inclusive(|byte| *byte == b'\n') {
        let known = [&b"211 "[..], b"335 ADAT=", b"530-", b"530 "];
        assert!(
            known.iter().any(|start| line.starts_with(start)),
            "{line:?}"
        );
        assert!(line.ends_with(b"\r\n"), "{line:?}");
    }
}

//! `registry()`: one line per driver, in one place, nothing that runs before `main`.

use xio_core::Registry;

/// A registry with every driver that this build has.
///
/// For a string that comes from a peer, [`restrict`](Registry::restrict) it first.
#[must_use]
pub fn registry() -> Registry {
    #[allow(unused_mut, reason = "a build without drivers registers none")]
    let mut registry = Registry::new();
    #[cfg(feature = "compress")]
    registry.register(xio_compress::driver());
    #[cfg(feature = "count")]
    registry.register(xio_count::driver());
    #[cfg(feature = "file")]
    registry.register(xio_file::driver());
    #[cfg(feature = "gsi")]
    registry.register(xio_gsi::driver());
    #[cfg(feature = "http")]
    registry.register(xio_http::driver());
    #[cfg(feature = "log")]
    registry.register(xio_log::driver());
    #[cfg(feature = "mode-e")]
    registry.register(xio_mode_e::driver());
    #[cfg(feature = "multicast")]
    registry.register(xio_multicast::driver());
    #[cfg(feature = "ordering")]
    registry.register(xio_ordering::driver());
    #[cfg(feature = "pipe")]
    registry.register(xio_pipe::driver());
    #[cfg(feature = "popen")]
    registry.register(xio_popen::driver());
    #[cfg(feature = "queue")]
    registry.register(xio_queue::driver());
    #[cfg(feature = "rate")]
    registry.register(xio_rate::driver());
    #[cfg(feature = "tcp")]
    registry.register(xio_tcp::driver());
    #[cfg(feature = "telnet")]
    registry.register(xio_telnet::driver());
    #[cfg(feature = "timeout")]
    registry.register(xio_timeout::driver());
    #[cfg(feature = "udp")]
    registry.register(xio_udp::driver());
    #[cfg(feature = "udt")]
    registry.register({
        let udt = xio_udt::driver();
        // A stack may begin with it, as a Globus stack does: `udt` is `udp,udt`.
        #[cfg(feature = "udp")]
        let udt = udt.brings(xio_udp::driver());
        udt
    });
    #[cfg(feature = "tls")]
    registry.register(xio_tls::driver());
    #[cfg(feature = "udp")]
    registry.register(xio_udp::driver());
    #[cfg(feature = "unix")]
    registry.register(xio_unix::driver());
    #[cfg(feature = "verify")]
    registry.register(xio_verify::driver());
    registry
}

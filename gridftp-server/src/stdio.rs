//! One session on a connected stream that is handed over, standard input and output among them, for
//! the person who runs the process.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr};

use ftp_proto::ssh::addresses;
use gridftp_dsi::{Dsi, DsiPath};
use tokio::sync::watch;
use xio::pipe::Pipe;
use xio::{Stream, Target, Transport as _};

use crate::auth::{Admitted, admit};
use crate::config::Config;
use crate::data::Ends;
use crate::server::{Entry, Shared};

/// Serves one session on standard input and output until the client ends it.
///
/// Any name and password log in as the person who runs the process: whoever opened the stream, such
/// as `sshd`, has authenticated that person. Addresses for data are those of the environment
/// variable `SSH_CONNECTION`; without it they are loopback. A session begins to end when `shutdown`
/// completes, and aborts its transfer when `hurry` completes as well.
///
/// # Errors
/// Those of opening the standard descriptors.
///
/// # Cancel safety
/// Dropped, the session ends at once; incomplete uploads never show under their names.
pub async fn serve_stdio<D: Dsi>(
    config: Config,
    dsi: D,
    shutdown: impl Future<Output = ()>,
    hurry: impl Future<Output = ()>,
) -> io::Result<()> {
    let connection = std::env::var("SSH_CONNECTION").unwrap_or_default();
    let (peer, local) = match addresses(&connection) {
        Some((client, server)) => (client.ip(), server.ip()),
        None => (Ipv4Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()),
    };
    let stream = Pipe::standard().connect(&Target::file("-")).await?;
    serve_stream(config, dsi, (stream, peer, local), shutdown, hurry).await
}

/// Serves one session on a connected stream, with the addresses of the client and of this host, until
/// the client ends it: whole, or as a front end where the configuration has data nodes
/// ([`Config::set_front`]).
///
/// Logins, data and ends are those of [`serve_stdio`].
///
/// # Errors
/// A limit of no sessions.
///
/// # Cancel safety
/// Dropped, the session ends at once; incomplete uploads never show under their names.
pub async fn serve_stream<D: Dsi>(
    config: Config,
    dsi: D,
    (stream, peer, local): (impl Stream, IpAddr, IpAddr),
    shutdown: impl Future<Output = ()>,
    hurry: impl Future<Output = ()>,
) -> io::Result<()> {
    let ends = Ends {
        local,
        peer,
        link: 0,
        advertise: config.advertise,
    };
    let person = person(&config);
    let shared = Shared::new(config, dsi);
    let rules = shared.rules();
    let permit = shared
        .admit(&rules.policy, peer)
        .map_err(|_| io::Error::other("max-sessions is 0"))?;
    let (stop, stopping) = watch::channel(0);
    let session = shared.session(
        Box::new(stream),
        ends,
        (rules, permit),
        Entry::Given(person),
        stopping,
    );
    let ask = async {
        shutdown.await;
        // The session may have ended.
        let _ = stop.send(1);
        hurry.await;
        let _ = stop.send(2);
        std::future::pending::<()>().await
    };
    tokio::select! {
        biased;
        () = session.run() => {}
        () = ask => {}
    }
    Ok(())
}

/// The account of the person who runs the process, who may do whatever the system allows.
fn person(config: &Config) -> Admitted {
    let uid = nix::unistd::geteuid();
    // Directory services may not answer.
    let entry = nix::unistd::User::from_uid(uid).ok().flatten();
    let name = entry
        .as_ref()
        .map_or_else(|| uid.to_string(), |user| user.name.clone());
    let root = config.storages.root();
    let home = entry.and_then(|user| home_below(root.as_deref()?, &user.dir));
    let home = home.unwrap_or_else(DsiPath::root);
    admit(&name, home, true, true)
}

/// The path of a home directory below the root.
fn home_below(root: &std::path::Path, home: &std::path::Path) -> Option<DsiPath> {
    use std::os::unix::ffi::OsStrExt as _;
    let below = home.strip_prefix(root).ok()?;
    DsiPath::new(&[b"/", below.as_os_str().as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_home_directory_is_that_below_the_root() {
        let below = |root: &str, home: &str| {
            home_below(root.as_ref(), home.as_ref()).map(|path| path.as_bytes().to_vec())
        };
        assert_eq!(below("/", "/home/ann").as_deref(), Some(&b"/home/ann"[..]));
        assert_eq!(below("/home", "/home/ann").as_deref(), Some(&b"/ann"[..]));
        assert_eq!(below("/srv", "/home/ann"), None);
    }
}

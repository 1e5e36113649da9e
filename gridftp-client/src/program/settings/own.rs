//! The access to a server by the flags of its place.

use clap::{Args as _, Command, FromArgMatches as _};

use super::config::Values;
use super::scope::settable;
use super::spelled;
use crate::options::{Access, ConnectOptions};
use crate::program::connection::ConnectionFlags;
use crate::program::values::mistake;

/// The access to a server by the flags of its place; reads the certificates.
///
/// # Errors
/// A value that a flag does not take, and a file that cannot be read.
pub(super) fn access(place: &Values) -> anyhow::Result<Access> {
    let mut command = ConnectionFlags::augment_args(Command::new("place").no_binary_name(true));
    command.build();
    let words = place.iter().flat_map(|(flag, values)| {
        let arg = settable(&command, flag);
        let words = arg.map(|arg| {
            values
                .iter()
                .flat_map(move |value| spelled(arg, flag, value))
        });
        words.into_iter().flatten()
    });
    let words: Vec<_> = words.collect();
    let parsed = command.try_get_matches_from(words);
    let flags = parsed.and_then(|found| ConnectionFlags::from_arg_matches(&found));
    let flags = flags.map_err(|error| mistake(&error))?;
    let mut options = ConnectOptions::default();
    flags.choose_access(&mut options)?;
    let has = |flag: &str| place.contains_key(flag);
    Ok(Access {
        security: has("security").then_some(options.security),
        roots: has("ca").then_some(options.roots),
        identity: options.identity,
        credential: options.grid.credential,
        delegation: has("delegation").then_some(options.grid.delegation),
        subject: options.grid.subject,
        names: has("names").then_some(options.grid.names),
        remote_program: options.remote_program,
        trust_pasv: has("trust-pasv-address").then_some(options.trust_pasv),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Delegation, Names, Security};
    use crate::program::settings::places::OF_SERVER;

    /// Says whether options have the value of a flag.
    type IsSet = fn(&ConnectOptions) -> bool;

    #[test]
    fn each_flag_of_a_server_changes_the_options_of_its_sessions() {
        let dir = tempfile::tempdir().unwrap();
        let authority = xio_testkit::Authority::new("test authority");
        let ca = authority.write(dir.path());
        let cert = authority.issue("ann", &[]).write(dir.path(), "ann");
        let [ca, cert] = [&ca, &cert].map(|path| path.to_str().unwrap());
        let rows: [(&[(&str, &str)], IsSet); 9] = [
            (&[("security", "tls")], |it| it.security == Security::Tls),
            (&[("ca", ca)], |it| {
                it.roots != ConnectOptions::default().roots
            }),
            (&[("cert", cert), ("key", cert)], |it| it.identity.is_some()),
            (&[("cred", "c")], |it| {
                it.grid.credential == Some("c".into())
            }),
            (&[("delegation", "none")], |it| {
                it.grid.delegation == Delegation::None
            }),
            (&[("subject", "/CN=x")], |it| {
                it.grid.subject.as_deref() == Some("/CN=x")
            }),
            (&[("names", "HYBRID")], |it| it.grid.names == Names::Hybrid),
            (&[("remote-program", "p")], |it| {
                it.remote_program.as_deref() == Some("p")
            }),
            (&[("trust-pasv-address", "true")], |it| it.trust_pasv),
        ];
        let mut flags = Vec::new();
        for (place, is_set) in rows {
            let values = |(flag, value): &(&str, &str)| ((*flag).to_owned(), vec![(*value).into()]);
            let own = access(&place.iter().map(values).collect()).unwrap();
            let before = ConnectOptions::default();
            assert!(!is_set(&before) && is_set(&own.over(&before)), "{place:?}");
            flags.extend(place.iter().map(|(flag, _)| *flag));
        }
        for flag in OF_SERVER.split(' ') {
            assert!(flags.contains(&flag), "{flag}");
        }
    }
}

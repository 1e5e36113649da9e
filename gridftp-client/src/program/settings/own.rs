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

//! `GridFlags`: the part of the command line that chooses Grid security.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::Location;
use crate::options::{DataCredential, Dcau, Delegation, GridOptions, Names};
use clap::{Arg, Args, ValueEnum, ValueHint};

/// Choices of Grid security.
#[derive(Debug, Args)]
#[command(next_help_heading = "Grid security (gsiftp://, and data of sshftp://)")]
pub struct GridFlags {
    /// Credential, a PEM file with certificate and key as a proxy has [default: the files in the
    /// environment, then the proxy, the user's, the host's]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    cred: Option<PathBuf>,

    /// Credential for sources, where it is another
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    src_cred: Option<PathBuf>,

    /// Credential for the destination, where it is another
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    dst_cred: Option<PathBuf>,

    /// Rights that servers get, by which they prove the user's identity on data connections
    #[arg(long, value_enum, value_name = "RIGHTS", default_value = "limited")]
    delegation: DelegationFlag,

    /// Expect servers with this subject, such as /O=Grid/CN=host/lab, and not one of the URL's host
    #[arg(long, value_name = "DN")]
    subject: Option<String>,

    /// Rules for host names in certificates
    #[arg(
        long,
        value_name = "STRICT_RFC2818|HYBRID|STRICT_GT2",
        default_value = "STRICT_RFC2818"
    )]
    names: Names,

    /// Identity that both ends of data connections prove: the user's (self), this one, or none,
    /// which leaves data in clear text
    #[arg(long, value_name = "self|none|SUBJECT", default_value = "self", value_parser = dcau)]
    dcau: Dcau,

    /// Credential of data connections: one made for this copy (auto), or that of the control
    /// connection (own) [default: own for gsiftp://; auto behind ssh, and between servers with
    /// different credentials that take one]
    #[arg(long, value_enum, value_name = "HOW")]
    data_cred: Option<DataCredFlag>,
}

/// `--delegation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DelegationFlag {
    /// None.
    None,
    /// Those of a limited proxy: data, and no jobs.
    Limited,
    /// All of the user's.
    Full,
}

/// `--data-cred`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DataCredFlag {
    /// One made for this copy.
    Auto,
    /// That of the control connection.
    Own,
}

impl GridFlags {
    /// Sets the choices.
    pub fn choose(&self, options: &mut GridOptions) {
        options.credential.clone_from(&self.cred);
        options.delegation = match self.delegation {
            DelegationFlag::None => Delegation::None,
            DelegationFlag::Limited => Delegation::Limited,
            DelegationFlag::Full => Delegation::Full,
        };
        options.subject.clone_from(&self.subject);
        options.names = self.names;
        options.authentication = self.dcau.clone();
        options.data_credential = match self.data_cred {
            None => DataCredential::Auto,
            Some(DataCredFlag::Auto) => DataCredential::Session,
            Some(DataCredFlag::Own) => DataCredential::Own,
        };
    }

    /// Gives a source its credential.
    pub fn of_source(&self, location: Location) -> Location {
        with_credential(location, self.src_cred.as_deref())
    }

    /// Gives the destination its credential.
    pub fn of_destination(&self, location: Location) -> Location {
        with_credential(location, self.dst_cred.as_deref())
    }
}

/// Hides the flags of sources and destinations, for commands that copy nothing.
pub fn without_ends(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "src_cred" | "dst_cred" => arg.hide(true),
        _ => arg,
    }
}

fn with_credential(mut location: Location, credential: Option<&Path>) -> Location {
    if let Location::Remote(remote) = &mut location
        && let Some(path) = credential
    {
        let access = Arc::make_mut(remote.site.access.get_or_insert_default());
        // That of its place goes before.
        access.credential.get_or_insert_with(|| path.to_owned());
    }
    location
}

fn dcau(text: &str) -> Result<Dcau, String> {
    match text {
        "none" => Ok(Dcau::None),
        "self" => Ok(Dcau::Own),
        subject if subject.starts_with('/') => Ok(Dcau::Subject(subject.to_owned())),
        _ => Err("write self, none, or a subject such as /O=Grid/CN=Alice Lab".to_owned()),
    }
}

//! `GridftpOptions`: the part of a remote file, the access to it, and the way of its bytes.

use std::path::PathBuf;
use std::time::Duration;

use ftp_wire::command::Mode;
use gridftp_client::options::{Dcau, Identity, Level, Roots, Security};
use gridftp_client::{ConnectOptions, words};
use xio::file::Flags;
use xio::{BadValue, ByteSize, Plan, Setting, Value};

use crate::Gridftp;

xio::options! {
    /// Options of a remote file.
    pub struct GridftpOptions for "gridftp" [impl Gridftp] {
        /// The same as `flags=a`.
        append: bool = false, "append";
        /// File or directory of the authorities of TLS servers; those of the system by default.
        ca: Option<String> = None, "ca", Setting::new().takes("a path", &["/etc/ssl/lab.pem"]).local();
        /// File with a certificate and its key, for TLS servers that ask for one.
        cert: Option<String> = None, "cert", Setting::new().takes("a path", &["me.pem"]).local();
        /// Longest wait for a connection, and for the login.
        connect_timeout: Duration = Duration::from_secs(30), "connect_timeout";
        /// File of the credential for Grid security; the places of the Globus programs by default.
        cred: Option<String> = None, "cred", Setting::new().takes("a path", &["/tmp/x509up_u0"]).local();
        /// Identity that both ends of a data connection demand of each other, with Grid security.
        dcau: Dcau = Dcau::Own, "dcau",
            Setting::with("self, none or a subject", &["self", "none", "/O=Grid/CN=Alice"], dcau, |peer| {
                Some(words::of_dcau(peer))
            });
        /// Stack that the server puts over its file; none by default.
        disk_stack: Option<String> = None, "disk_stack",
            Setting::new()
                .takes("a stack, as file%2Ccompress", &["file,compress"])
                .read_by(|value| stack(value).map(Some));
        /// Module of the server that read data goes through.
        eret: Option<String> = None, "eret",
            Setting::new().takes("name=\"arguments\"", &["P=\"0,5\""]);
        /// Module of the server that written data goes through.
        esto: Option<String> = None, "esto", Setting::new().takes("name=\"arguments\"", &["A=\"5\""]);
        /// Access to the file, as `fopen` names it.
        flags: Flags = Flags::Read, "flags",
            Setting::new()
                .takes("one of r r+ w w+ a", &["r", "r+", "w", "w+", "a"])
                .only(|flags| *flags != Flags::ReadAppend);
        /// Transmission mode of the data.
        mode: Mode = Mode::Stream, "mode",
            Setting::with("S or E", &["S", "E"], mode, |mode| {
                Some(words::of_mode(*mode).to_owned())
            });
        /// File with the accounts of servers, in the form of `.netrc`.
        netrc: Option<String> = None, "netrc", Setting::new().takes("a path", &["/etc/netrc"]).local();
        /// Offset of the first byte to read or write, from the start of the file.
        offset: u64 = 0, "offset",
            Setting::bytes();
        /// Protection of data; private by default where the control connection is protected.
        protect: Option<Level> = None, "protect",
            Setting::with("clear, safe or private", &["clear", "safe", "private"], level, |level| {
                Some(words::of_level((*level)?)?.to_owned())
            });
        /// Protection of the control connection.
        security: Security = Security::Auto, "security",
            Setting::with("auto, none, tls or implicit", &["auto", "none", "tls", "implicit"], security, |security| {
                Some(words::of_security(*security)?.to_owned())
            });
        /// Stack of data connections at both ends.
        stack: String = "tcp".to_owned(), "stack",
            Setting::new()
                .takes("a stack, as udt%2Ccompress", &["udt,compress"])
                .read_by(stack);
        /// Longest time in which a transfer may move nothing.
        stall: Duration = Duration::from_secs(120), "stall";
        /// Number of data connections, with `mode=E`.
        streams: u32 = 1, "streams",
            Setting::new()
                .takes("a number, 1 to 64", &["1", "64"])
                .only(|streams| (1..=64).contains(streams));
        /// TCP buffer of data connections at both ends; the kernels choose by default.
        tcpbuffer: Option<ByteSize> = None, "tcpbuffer";
        /// Account on the server, where the target names none; `anonymous` by default.
        user: Option<String> = None, "user", Setting::new().takes("a name", &["alice"]);
    }
}

impl GridftpOptions {
    /// Access to the file, by whichever option.
    pub(crate) const fn access(&self) -> Flags {
        if self.append {
            Flags::Append
        } else {
            self.flags
        }
    }

    /// The options of the client library; reads the certificates.
    ///
    /// # Errors
    /// The files that cannot be read.
    pub(crate) fn connect_options(&self) -> xio::Result<ConnectOptions> {
        let mut options = ConnectOptions::default();
        options.mode = Some(self.mode);
        options.connect_within = self.connect_timeout;
        options.stall = self.stall;
        options.reach_within = self.connect_timeout;
        options.tcp_buffer = self.tcpbuffer.map(ByteSize::bytes);
        options.stack.clone_from(&self.stack);
        options.disk_stack.clone_from(&self.disk_stack);
        options.anonymous_password = "xio@".to_owned();
        options.security = self.security;
        options.protect = self.protect;
        options.grid.authentication = self.dcau.clone();
        options.grid.credential = self.cred.as_ref().map(PathBuf::from);
        if let Some(path) = &self.ca {
            options.roots = Roots::pem_path(path)?;
        }
        if let Some(path) = &self.cert {
            options.identity = Some(Identity::pem_files(path, path)?);
        }
        Ok(options)
    }
}

fn level(value: Value<'_>) -> Result<Option<Level>, BadValue> {
    words::level(value.text()).map(Some).ok_or(BadValue)
}

fn security(value: Value<'_>) -> Result<Security, BadValue> {
    words::security(value.text()).ok_or(BadValue)
}

fn dcau(value: Value<'_>) -> Result<Dcau, BadValue> {
    words::dcau(value.text()).ok_or(BadValue)
}

fn mode(value: Value<'_>) -> Result<Mode, BadValue> {
    words::mode(value.text()).ok_or(BadValue)
}

fn stack(value: Value<'_>) -> Result<String, BadValue> {
    let plan: Plan = value.text().parse().map_err(|_| BadValue)?;
    Ok(plan.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_values_are_refused() {
        for bad in [
            "flags=a+",
            "flags=rw",
            "mode=B",
            "streams=0",
            "streams=65",
            "offset=-1",
            "stack=,",
            "eret=",
            "stall=0",
            "connect_timeout=x",
            "password=secret",
            "dcau=N",
            "protect=maybe",
            "security=",
        ] {
            assert!(bad.parse::<GridftpOptions>().is_err(), "{bad}");
        }
        let options: GridftpOptions = "append=yes;mode=e".parse().unwrap();
        assert_eq!(
            (options.access(), options.mode),
            (Flags::Append, Mode::Extended)
        );
        assert_eq!(options.to_string(), "append=yes;mode=E");
    }
}

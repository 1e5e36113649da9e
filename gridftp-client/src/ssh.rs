//! A control channel through the system's `ssh`: a server process on the host, started for it.

use std::net::SocketAddr;

use ftp_proto::ssh::addresses;
use tokio::io::AsyncReadExt as _;
use xio::popen::Popen;
use xio_core::Transport as _;
use xio_core::{BoxStream, Error, ErrorKind, Info, Observer, Operation, Result, Tap, Target};

use crate::options::{ConnectOptions, Family};
use crate::url::{SSH_PORT, Site};

const LAYER: &str = "ssh";

/// Begins the line in which the remote shell tells the addresses of the connection.
const MARK: &str = "gridftp-ssh ";

/// Most bytes that the remote shell may write before that line, as its start-up files do.
const NOISE: usize = 64 << 10;

/// Starts a server on the site's host, and returns its control channel.
///
/// `ssh` runs with the person's own configuration, agent and known hosts, and may ask for a
/// passphrase on the terminal. `program` is the path of the server there.
///
/// # Errors
/// The failure of `ssh`, with the end of its standard error.
pub(crate) async fn connect(site: &Site, options: &ConnectOptions) -> Result<BoxStream> {
    let ssh = Popen::new()
        .argv(command(site, options))
        .pass_env(true)
        .foreground(true);
    let mut stream = ssh.connect(&Target::file("ssh")).await?;
    let ends = read_ends(&mut stream).await?;
    Ok(Box::new(Tap::new(stream, ends)))
}

/// The command line of `ssh`.
fn command(site: &Site, options: &ConnectOptions) -> Vec<String> {
    let mut words = ["ssh", "-T", "-x", "-a"].map(str::to_owned).to_vec();
    match options.family {
        Some(Family::V4) => words.push("-4".to_owned()),
        Some(Family::V6) => words.push("-6".to_owned()),
        _ => {}
    }
    // Without it the port of the person's configuration applies.
    if site.port != SSH_PORT {
        words.extend(["-p".to_owned(), site.port.to_string()]);
    }
    if let Some(user) = &site.user {
        words.extend(["-l".to_owned(), user.clone()]);
    }
    // No host name is taken for an option.
    words.extend([
        "--".to_owned(),
        site.host.clone(),
        remote_command(options.remote_program.as_deref()),
    ]);
    words
}

/// The command for the remote shell, of any kind: it tells the addresses and becomes the server.
fn remote_command(program: Option<&str>) -> String {
    let start = match program {
        Some(program) => format!("exec {} --stdio", quoted(program)),
        None => "command -v gridftp-server >/dev/null && exec gridftp-server --stdio; \
                 for entry in \"$HOME/.globus/sshftp\" /etc/grid-security/sshftp; \
                 do test -x \"$entry\" && exec \"$entry\"; done; \
                 echo \"gridftp-server is not in the PATH ($PATH)\" >&2; exit 127"
            .to_owned(),
    };
    let script = format!("echo \"{MARK}$SSH_CONNECTION\"; {start}");
    format!("exec sh -c {}", quoted(&script))
}

/// One word of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Reads up to the line with the addresses.
async fn read_ends(stream: &mut xio::popen::PopenHandle) -> Result<Ends> {
    let mut line = Vec::new();
    for _ in 0..NOISE {
        let read = stream.read_u8().await;
        match read.map_err(|error| Error::from_io(error, LAYER, Operation::Connect))? {
            b'\n' => {
                let text = String::from_utf8_lossy(&line);
                if let Some(words) = text.trim_end().strip_prefix(MARK) {
                    let (local, peer) = addresses(words).ok_or_else(unaddressed)?;
                    return Ok(Ends { local, peer });
                }
                line.clear();
            }
            byte => line.push(byte),
        }
    }
    let fact = "the shell of the host writes too much before it runs the command; \
                its start-up files must be silent without a terminal";
    Err(Error::new(
        ErrorKind::Protocol,
        LAYER,
        Operation::Connect,
        fact,
    ))
}

fn unaddressed() -> Error {
    let fact = "the host does not tell the addresses of the connection (SSH_CONNECTION)";
    Error::new(ErrorKind::Protocol, LAYER, Operation::Connect, fact)
}

/// The addresses of the connection as the host sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ends {
    local: SocketAddr,
    peer: SocketAddr,
}

impl Observer for Ends {
    fn describe(&self, info: &mut Info) {
        info.layer(LAYER);
        (info.local, info.peer) = (Some(self.local), Some(self.peer));
        info.security = Some(LAYER.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_leaves_the_choice_to_the_configuration_of_ssh() {
        let words = command(
            &Site {
                scheme: crate::url::Scheme::Ssh,
                ..Site::new("-oProxyCommand=x", SSH_PORT)
            },
            &ConnectOptions {
                remote_program: Some("/opt/it's/gridftp-server".to_owned()),
                ..ConnectOptions::default()
            },
        );
        assert_eq!(words[..5], ["ssh", "-T", "-x", "-a", "--"]);
        assert_eq!(words[5], "-oProxyCommand=x");
        let inner =
            r#"echo "gridftp-ssh $SSH_CONNECTION"; exec '/opt/it'\''s/gridftp-server' --stdio"#;
        assert_eq!(words[6], format!("exec sh -c {}", quoted(inner)));
        let options = ConnectOptions {
            family: Some(Family::V6),
            ..ConnectOptions::default()
        };
        let words = command(&Site::new("h", 2022).with_account("ann", None), &options);
        assert_eq!(words[4..11], ["-6", "-p", "2022", "-l", "ann", "--", "h"]);
    }
}

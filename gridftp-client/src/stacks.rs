//! The stack of data connections, and the commands that tell the server of it.

use ftp_wire::command::{Command, SiteCommand, StackSide};
use xio_core::{DynStack, Plan, PortRange};

use crate::control::Control;
use crate::error::{ConnectError, ControlError};
use crate::options::ConnectOptions;

/// The stack of data connections.
///
/// # Errors
/// [`ConnectError::Stack`] for a string that names none.
pub(crate) fn of_data(options: &ConnectOptions) -> Result<DynStack, ConnectError> {
    let mut stack = options.stack.clone();
    for (flag, option, ports) in [
        ("--data-ports", "listen_range", options.data_ports),
        (
            "ports to connect from",
            "connect_range",
            options.source_ports,
        ),
    ] {
        if let Some(ports) = ports {
            stack = at_ports(&stack, (flag, option), ports)?;
        }
    }
    let stack = xio::registry().stack(&stack).map_err(bad)?;
    Ok(match &options.rate_limit {
        Some(limit) => limit.over(stack),
        None => stack,
    })
}

/// Whether the stack is TCP as it is by default, but for the congestion control on a lossy path.
pub(crate) fn is_plain_tcp(stack: &str) -> bool {
    let plan = stack.parse::<Plan>();
    plan.is_ok_and(|plan| match plan.entries() {
        [only] => only.driver() == "tcp" && only.options().all(|(key, _)| key == "lossy"),
        _ => false,
    })
}

/// The stack with `ports` as that option of TCP, which errors call `flag`.
fn at_ports(
    stack: &str,
    (flag, option): (&str, &str),
    ports: PortRange,
) -> Result<String, ConnectError> {
    let rest = stack.strip_prefix("tcp");
    let range = format!("tcp:{option}={ports}");
    match rest.map(|rest| (rest.chars().next(), rest)) {
        Some((None | Some(','), rest)) => Ok(format!("{range}{rest}")),
        Some((Some(':'), rest)) => Ok(format!("{range};{}", rest.trim_start_matches(':'))),
        _ => {
            let what = format!("{flag} are of tcp, which is not the first driver of {stack}");
            Err(ConnectError::Stack { cause: what.into() })
        }
    }
}

/// Tells the server which stacks to build, where they are not its own choice.
///
/// # Errors
/// [`ConnectError::StackRefused`] when it does not build such a stack.
pub(crate) async fn tell(control: &Control, options: &ConnectOptions) -> Result<(), ConnectError> {
    let sent: Vec<_> = to_tell(options)?
        .into_iter()
        .map(|(side, stack)| {
            let command = Command::Site(SiteCommand::Stack(side, Some(stack.clone())));
            (stack, control.send(command))
        })
        .collect();
    for (stack, mut replies) in sent {
        match replies.finish().await {
            Ok(_) => {}
            Err(ControlError::Refused { site, reply, .. }) => {
                return Err(ConnectError::StackRefused { site, stack, reply });
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// The stack as the server is told it, without the options of our end.
fn to_tell(options: &ConnectOptions) -> Result<Vec<(StackSide, String)>, ConnectError> {
    let net: Plan = options.stack.parse().map_err(bad)?;
    let mut stacks = Vec::new();
    // Options of TCP matter to one end alone, and are every server's own choice.
    if !matches!(net.entries(), [only] if only.driver() == "tcp") {
        let told = xio::registry().for_peer(&net).map_err(bad)?;
        stacks.push((StackSide::Net, told.to_string()));
    }
    if let Some(disk) = &options.disk_stack {
        let disk: Plan = disk.parse().map_err(bad)?;
        stacks.push((StackSide::Disk, disk.to_string()));
    }
    Ok(stacks)
}

fn bad(error: xio_core::Error) -> ConnectError {
    ConnectError::Stack {
        cause: error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn told(stack: &str, disk: Option<&str>) -> Vec<(StackSide, String)> {
        let options = ConnectOptions {
            stack: stack.to_owned(),
            disk_stack: disk.map(str::to_owned),
            ..ConnectOptions::default()
        };
        to_tell(&options).unwrap()
    }

    #[test]
    fn options_of_sockets_and_layers_are_choices_of_the_caller() {
        for stack in ["tcp", "tcp:lossy=none"] {
            assert!(is_plain_tcp(stack), "{stack}");
        }
        for stack in ["tcp:pacing=1M", "tcp,count", "udt", "", "tcp:"] {
            assert!(!is_plain_tcp(stack), "{stack}");
        }
    }

    #[test]
    fn ports_to_listen_at_and_to_connect_from_are_options_of_tcp() {
        let at = |stack, option| at_ports(stack, ("x", option), "3-4".parse().unwrap());
        let listening = at("tcp", "listen_range").unwrap();
        assert_eq!(listening, "tcp:listen_range=3-4");
        assert_eq!(
            at("tcp:listen_range=1-2,count", "connect_range").unwrap(),
            "tcp:connect_range=3-4;listen_range=1-2,count"
        );
        assert!(at("udt", "connect_range").is_err());
    }

    #[test]
    fn a_server_hears_of_every_stack_but_plain_tcp() {
        assert!(told("tcp", None).is_empty());
        assert!(told("tcp:nodelay=1;sndbuf=4M", None).is_empty());
        assert_eq!(
            told("tcp:port=4;sndbuf=4M,count", Some("file,count")),
            [
                (StackSide::Net, "tcp:sndbuf=4M,count".to_owned()),
                (StackSide::Disk, "file,count".to_owned())
            ]
        );
        let options = ConnectOptions {
            stack: "tcp,nonsense".to_owned(),
            ..ConnectOptions::default()
        };
        assert!(matches!(to_tell(&options), Err(ConnectError::Stack { .. })));
    }
}

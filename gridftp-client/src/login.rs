//! The way to a session: the connection, the greeting and the login, each within its limit.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use ftp_proto::client::{Login, LoginError, LoginStep, Settings};
use ftp_proto::security::Mechanism;
use ftp_wire::command::{Mode, Secret};
use ftp_wire::reply::Reply;
use xio_core::{BoxStream, DynStack, ErrorKind, Operation, Target, Transport as _};

use crate::abilities::Abilities;
use crate::client::Client;
use crate::control::Replies;
use crate::error::{ConnectError, ControlError};
use crate::grid::{MAPPED, NO_PASSWORD};
use crate::options::{ConnectOptions, Family};
use crate::ssh;
use crate::url::{Scheme, Site};

/// Stack of control connections. They are idle while a transfer runs, and NAT and firewalls on the
/// way forget idle connections after some minutes.
const CONTROL: &str = "tcp:keepidle=60";

impl Client {
    /// Logs in by the conversation of [`Login`].
    pub(crate) async fn login(
        &mut self,
        site: &Site,
        greeting: &Reply,
    ) -> Result<(), ConnectError> {
        let is_grid = site.scheme == Scheme::Grid;
        let nobody = if is_grid { MAPPED } else { "anonymous" };
        let user = site.user.clone().unwrap_or_else(|| nobody.to_owned());
        let password = match (&site.password, &site.user) {
            (Some(password), _) => password.clone(),
            (None, _) if is_grid => Secret::new(NO_PASSWORD),
            (None, None) => Secret::new(self.options.anonymous_password.clone()),
            (None, Some(_)) => Secret::new(""),
        };
        let guard = &self.guard;
        let mut login = Login::new(&user, password, self.options.mode).with_security(guard.steps());
        if let Some(grid) = guard.grid() {
            login = login.with_data(grid.settings());
        }
        login.reply(greeting);
        let mut due = VecDeque::new();
        let done = loop {
            match login.step() {
                LoginStep::Send(command) => due.push_back(self.control.send(command)),
                LoginStep::Secure(_) => {
                    let secured = self.control.upgrade(guard).await?;
                    *self.link = secured.map_err(|cause| guard.failed(site, cause))?;
                    login.secured();
                }
                LoginStep::Done(done) => break done,
                LoginStep::Wait => {
                    let Some(mut replies) = due.pop_front() else {
                        unreachable!("it waits for as many replies as it has sent commands");
                    };
                    login.reply(&last(&mut replies).await?);
                }
            }
        };
        let for_password = guard.is_for_password();
        let session = done.map_err(|error| refused(error, self.site(), user, for_password))?;
        self.abilities = Abilities::of(&session.capabilities);
        self.control.ascii_only = session.ascii_only;
        self.control.mfmt = self.abilities.mfmt;
        // To have done it says more than to list it.
        self.abilities.extended = session.extended;
        if session.extended {
            self.state.mode = Mode::Extended;
        }
        Ok(())
    }
}

/// The failure of a login as this user.
fn refused(error: LoginError, site: &str, user: String, for_password: bool) -> ConnectError {
    let site = site.to_owned();
    match error {
        LoginError::Greeting(reply) => ConnectError::Busy { site, reply },
        LoginError::Mechanism(Mechanism::Gssapi, reply) => ConnectError::NoGrid { site, reply },
        LoginError::Feature(feature) => ConnectError::NoProtection { site, feature },
        LoginError::Mechanism(Mechanism::Tls, reply) => ConnectError::NoTls {
            site,
            reply,
            for_password,
        },
        LoginError::Clear(reply) => ConnectError::Security { site, reply },
        LoginError::Setting(command, reply) => {
            let command = command.to_string();
            ConnectError::Control(ControlError::Refused {
                site,
                command,
                reply,
            })
        }
        LoginError::Account(reply) => ConnectError::Login { site, user, reply },
    }
}

pub(crate) async fn reach(
    site: &Site,
    name: &str,
    options: &ConnectOptions,
) -> Result<(BoxStream, Duration), ConnectError> {
    let limit = options.connect_within;
    let unreachable = |cause: Box<dyn std::error::Error + Send + Sync>| ConnectError::Unreachable {
        site: name.to_owned(),
        cause,
    };
    let begun = Instant::now();
    let connecting = async {
        if site.scheme == Scheme::Ssh {
            return ssh::connect(site, options).await;
        }
        let target = Target::host(site.host.clone(), site.port);
        let stack = xio::registry().stack(CONTROL)?;
        match options.family {
            Some(family) => over(family, &stack, &target).await,
            None => stack.connect(&target).await,
        }
    };
    match tokio::time::timeout(limit, connecting).await {
        Ok(Ok(stream)) => Ok((stream, begun.elapsed())),
        Ok(Err(error)) => Err(unreachable(error.into())),
        Err(_) => Err(unreachable(
            format!("no answer within {} s", limit.as_secs()).into(),
        )),
    }
}

/// Connects to the first address of a family that answers.
async fn over(
    family: Family,
    stack: &DynStack,
    target: &Target,
) -> Result<BoxStream, xio_core::Error> {
    let lookup = |host: String, port| async move { tokio::net::lookup_host((host, port)).await };
    let place = ("tcp", Operation::Connect);
    let mut found = xio_core::resolve(target, target.port, false, place, lookup).await?;
    found.retain(|at| at.is_ipv4() == (family == Family::V4));
    let host = target.host.as_deref().unwrap_or_default();
    let name = if family == Family::V4 { "IPv4" } else { "IPv6" };
    let none = format!("host {host} has no {name} address");
    let mut failed = xio_core::Error::new(ErrorKind::Unreachable, "tcp", Operation::Connect, none);
    for address in found {
        match stack.connect(&Target::from(address)).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

pub(crate) fn settings(options: &ConnectOptions) -> Settings {
    let mut settings = Settings::default();
    settings.greet_within = options.connect_within;
    settings.reply_within = options.reply_within;
    settings.silence = options.stall.max(Duration::from_secs(600));
    settings
}

/// The final reply, be it a refusal.
pub(crate) async fn last(replies: &mut Replies) -> Result<Reply, ControlError> {
    match replies.finish().await {
        Ok(reply) | Err(ControlError::Refused { reply, .. }) => Ok(reply),
        Err(error) => Err(error),
    }
}

/// Logs in within `limit`, beyond which nothing but that is told: a reply with the same limit
/// has been waited for no longer.
pub(crate) async fn within(
    limit: Duration,
    site: &str,
    login: impl Future<Output = Result<(), ConnectError>>,
) -> Result<(), ConnectError> {
    let begun = tokio::time::Instant::now();
    match tokio::time::timeout(limit, login).await {
        Ok(done) if done.is_ok() || begun.elapsed() < limit => done,
        _ => Err(ConnectError::Late {
            site: site.to_owned(),
            limit,
        }),
    }
}

#[cfg(test)]
mod tests {
    use ftp_wire::command::Command;
    use tokio::io::AsyncWriteExt as _;

    use super::*;
    use crate::played;

    const LIMIT: Duration = Duration::from_secs(1);

    fn limited() -> Settings {
        let mut settings = Settings::default();
        settings.greet_within = LIMIT;
        settings.reply_within = LIMIT;
        settings
    }

    /// Every limit is the same: of those that end together the one of the login is told.
    #[tokio::test(start_paused = true)]
    async fn a_silent_login_is_told_as_that_whatever_reply_is_due() {
        let (control, mut lines, _back) = played::greeted(limited()).await;
        let login = within(LIMIT, "server:1", async {
            last(&mut control.send(Command::Noop)).await?;
            Ok(())
        });
        let (ended, line) = tokio::join!(login, lines.next_line());
        assert_eq!(line.unwrap().unwrap(), "NOOP");
        assert!(matches!(ended, Err(ConnectError::Late { .. })), "{ended:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_greeting_that_never_comes_is_told_as_that() {
        let (_control, mut banner, _far) = played::connect(limited());
        let told = last(&mut banner).await.unwrap_err().to_string();
        assert!(told.contains("greeting: no reply in time"), "{told}");
    }

    /// Each is a reply in time, and none of them is the greeting (RFC 959 §5.4).
    #[tokio::test(start_paused = true)]
    async fn a_greeting_that_is_put_off_for_ever_ends_with_its_limit() {
        let (_control, mut banner, mut far) = played::connect(limited());
        let server = async {
            for _ in 0..1000 {
                tokio::time::sleep(LIMIT * 9 / 10).await;
                if far.write_all(b"120 ready in a minute\r\n").await.is_err() {
                    break;
                }
            }
        };
        let begun = tokio::time::Instant::now();
        let told = tokio::select! {
            ended = last(&mut banner) => ended.unwrap_err().to_string(),
            () = server => panic!("it waits for longer than its limit"),
        };
        assert!(told.contains("greeting: no reply in time"), "{told}");
        assert_eq!(begun.elapsed().as_secs(), LIMIT.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_login_that_is_lost_in_time_is_told_as_lost() {
        let (control, mut banner, far) = played::connect(limited());
        let (_, mut back) = tokio::io::split(far);
        back.write_all(b"220 ready\r\n").await.unwrap();
        last(&mut banner).await.unwrap();
        back.write_all(b"421 going down\r\n").await.unwrap();
        let ended = within(LIMIT, "server:1", async {
            last(&mut control.send(Command::Noop)).await?;
            Ok(())
        });
        let told = ended.await.unwrap_err().to_string();
        assert!(told.contains("going down"), "{told}");
    }
}

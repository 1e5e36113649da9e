//! `proxy`: makes, shows and destroys proxies, as the `grid-proxy` programs do.

mod destroy;
mod facts;
mod info;
mod init;

use std::time::Duration;

use crate::program::exit::Status;
use crate::program::report::Report;

/// The text of `proxy --help` before the flags.
pub const ABOUT: &str = "\
Makes a proxy, shows it, or destroys it, as grid-proxy-init, grid-proxy-info and \
grid-proxy-destroy do.

A proxy is a certificate for some hours that a user certificate signs, with a key of its own that \
has no passphrase. It lies in $X509_USER_PROXY, or else in /tmp/x509up_u<uid>, where the programs \
of the Grid look for it.";

/// The options of `proxy`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,

    /// Write one JSON object a line instead of text
    #[arg(long, global = true, display_order = 900)]
    json: bool,

    /// Write errors only
    #[arg(short, long, global = true, display_order = 900)]
    quiet: bool,
}

/// The verbs of `proxy`.
#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Make a proxy of a user certificate
    Init(init::Args),
    /// Show a proxy
    Info(info::Args),
    /// Overwrite a proxy and remove it
    Destroy(destroy::Args),
}

impl Args {
    /// The form of the output.
    pub fn report(&self, program: &'static str) -> Report {
        Report::of_lines(program, self.json, self.quiet)
    }

    /// Runs the command, and returns the exit status.
    pub fn run(&self, report: &Report) -> Status {
        let done = match &self.verb {
            Verb::Init(args) => init::run(args, report),
            Verb::Info(args) => info::run(args, report),
            Verb::Destroy(args) => destroy::run(args, report),
        };
        done.unwrap_or_else(|error| {
            report.fatal(&format!("proxy: {error:#}"), None);
            Status::Failed
        })
    }
}

/// Reads a time as hours and minutes.
fn hours_and_minutes(text: &str) -> Result<Duration, String> {
    let time = text.split_once(':').and_then(|(hours, minutes)| {
        let number = |digits: &str| digits.parse::<u32>().ok();
        let minutes = number(minutes).filter(|minutes| *minutes < 60)?;
        Some(u64::from(number(hours)?) * 3600 + u64::from(minutes) * 60)
    });
    time.map(Duration::from_secs)
        .ok_or_else(|| "write hours and minutes, such as 12:00".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_hours_and_minutes() {
        let seconds = |text| hours_and_minutes(text).map(|time| time.as_secs());
        assert_eq!(seconds("12:00"), Ok(43_200));
        assert_eq!(seconds("0:5"), Ok(300));
        assert_eq!(seconds("4294967295:59"), Ok(15_461_882_265_540));
        for bad in ["", "12", ":", "1:60", "-1:0", "1:00:00", "99999999999:0"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }
}

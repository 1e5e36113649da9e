//! `gridftp places`: lists the places of the configuration file.

use std::process::ExitCode;

use clap::Args;
use gridftp_client::program::events::named;
use gridftp_client::program::exit::Status;
use gridftp_client::program::report::Report;
use gridftp_client::program::run::ended;
use gridftp_client::program::settings::Config;
use serde_json::json;

/// Flags of `gridftp places`.
#[derive(Debug, Args)]
#[command(after_help = format!("\
A line is the name, a tab and the URL of [place.NAME] in the configuration file.

{}", named(&["place"])))]
pub(crate) struct PlacesArgs {
    /// Write one JSON object a line instead of text
    #[arg(long)]
    json: bool,
}

/// Lists each place with its URL.
pub(crate) fn run(args: &PlacesArgs) -> ExitCode {
    let report = Report::of_lines(crate::PROGRAM, args.json, false);
    let config = match Config::read() {
        Ok(config) => config,
        Err(error) => {
            report.fatal(&format!("{error:#}"), None);
            return Status::Usage.into();
        }
    };
    for (name, place) in &config.places {
        let url = &place.url;
        match args.json {
            true => report.emit(&json!({"event": "place", "name": name, "url": url})),
            false => report.out(&format!("{name}\t{url}")),
        }
    }
    ended(Status::Done, &report)
}

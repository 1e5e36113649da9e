//! A process that logs in again and again with our client library, in the environment of a user.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use gridftp_client::client::Client;
use gridftp_client::options::ConnectOptions;
use gridftp_client::url::{Location, Site};
use tokio::runtime::Builder;
use tokio::task::JoinSet;

/// The first argument of a worker.
pub(crate) const WORKER: &str = "login";

/// Runs a worker if the arguments are those of one.
pub(crate) fn run(words: &[String]) -> Option<Result<()>> {
    match words.split_first()? {
        (first, rest) if first == WORKER => Some(log_in(rest)),
        _ => None,
    }
}

/// Logs in as often as the arguments demand, and prints the seconds of one login.
fn log_in(words: &[String]) -> Result<()> {
    let [url, clients, count] = words else {
        bail!("a worker takes a URL, the logins at a time, and their number");
    };
    let Location::Remote(remote) = Location::parse(url)? else {
        bail!("{url} is no server");
    };
    let (clients, count): (u32, u32) = (clients.parse()?, count.parse()?);
    let took = Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(async {
            let options = Arc::new(ConnectOptions::default());
            let began = Instant::now();
            let mut tasks = JoinSet::new();
            for _ in 0..clients {
                let (site, options) = (remote.site.clone(), Arc::clone(&options));
                tasks.spawn(repeat(site, options, count / clients));
            }
            while let Some(done) = tasks.join_next().await {
                done.context("a login panicked")??;
            }
            anyhow::Ok(began.elapsed())
        })?;
    println!(
        "{}",
        took.as_secs_f64() / f64::from(count / clients * clients)
    );
    Ok(())
}

/// Logs in with delegation, up to the point at which data could be sent, and out.
async fn repeat(site: Site, options: Arc<ConnectOptions>, count: u32) -> Result<()> {
    for _ in 0..count {
        let client = Client::connect(&site, Arc::clone(&options)).await?;
        client.close().await;
    }
    Ok(())
}

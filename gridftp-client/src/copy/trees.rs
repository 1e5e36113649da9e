//! Remote to remote, the directories: listed at the source and made at the destination.

use std::sync::Arc;

use super::job::{DirJob, Item};
use super::known::Known;
use super::listing::go_on;
use super::making::Making;
use super::queue::Kind;
use super::state::CopyState;
use super::{Stop, pull};
use crate::client::Client;
use crate::names;
use crate::url::show;

/// Lists directories of the source, and makes them at the destination, until nothing is left.
pub(crate) async fn list(
    source: &mut Client,
    destination: &Client,
    shared: &Arc<CopyState>,
) -> Result<(), Stop> {
    let mut told = Known::default();
    while let Some(taken) = shared.queue.next_of(Kind::Dirs, |_| true).await {
        if let Some(gone) = destination.control.gone() {
            return Err(Stop::Lost(gone.into()));
        }
        shared.queue.room(Kind::Files).await;
        let Some(taken) = go_on(shared, taken) else {
            continue;
        };
        let Item::Dir(job) = taken.item() else {
            continue;
        };
        let (from, dir) = (job.from.clone(), names::trim_slashes(&job.to).to_vec());
        // After a failure it may be noted although it was never made.
        if job.failures > 0 || job.listed {
            told.remove(&dir);
        }
        let server = Some((&destination.control, &destination.abilities));
        let is_planned = shared.options.dry_run && job.is_made();
        let looked = async {
            shared.check_parents(&dir, server).await?;
            match is_planned {
                true => shared.plan_dirs(&dir, server).await,
                false => Ok(()),
            }
        };
        if let Err(error) = looked.await {
            shared.fail(taken, &error);
            continue;
        }
        let made = match job.is_made() {
            false => Making::nothing(),
            true => Making::send(&destination.control, shared, &dir, &mut told),
        };
        if job.listed {
            match made.settle().await {
                Ok(_) => taken.done(|item| {
                    if let Item::Dir(job) = item {
                        shared.note_dir(*job);
                    }
                }),
                Err(error) => shared.fail(taken, &error),
            }
            continue;
        }
        // A directory that is listed may be the last of the work, and not yet made.
        let _open = shared.queue.producer();
        let ended = pull::list_one(source, shared, taken).await;
        pull::go_on(source, shared, ended)?;
        if let Err(error) = made.settle().await {
            let noted = shared.forget_dir(&dir);
            if error.is_transient() {
                let mut again = noted.unwrap_or_else(|| DirJob::new(from, dir));
                again.listed = true;
                shared.queue.push(Item::Dir(Box::new(again)));
            } else {
                shared.give_up_found(&show(&dir), shared.below_root(&dir), &error);
            }
        }
    }
    Ok(())
}

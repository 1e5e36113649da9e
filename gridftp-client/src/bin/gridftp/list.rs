//! `gridftp ls`, `stat` and `tree`: names and facts.

use std::ffi::OsString;

use clap::ValueHint;
use ftp_wire::facts::TimeVal;
use gridftp_client::counted;
use gridftp_client::error::TransferError;
use gridftp_client::names;
use gridftp_client::program::events::named;
use gridftp_client::program::report::Report;
use gridftp_client::url::show;
use serde_json::{Value, json};

use crate::end::Object;
use crate::walk::{Step, Walk};
use crate::work::{Common, Place, Work};

/// The options of `gridftp ls`.
#[derive(Debug, clap::Args)]
#[command(after_help = named(&["entry"]))]
pub(crate) struct LsArgs {
    /// Directories or files
    #[arg(value_name = "PLACE", required = true, value_hint = ValueHint::AnyPath)]
    places: Vec<OsString>,

    /// Show kind and permission bits, owner, group, size and time too
    #[arg(short, long)]
    long: bool,

    /// List the directories below too
    #[arg(short = 'R', long)]
    recursive: bool,

    /// Show names that begin with a dot
    #[arg(short, long)]
    all: bool,

    #[command(flatten)]
    pub(crate) common: Common,
}

/// Lists directories.
pub(crate) async fn ls(args: &LsArgs, work: &mut Work<'_>) -> anyhow::Result<()> {
    let mut places = Vec::new();
    for text in &args.places {
        places.push(work.place(text)?);
    }
    let titled = places.len() > 1 || args.recursive;
    let mut first = true;
    work.each(places, async |work, place| {
        let mut waiting = vec![place.clone()];
        while let Some(dir) = waiting.pop() {
            let found = match work.at(&dir).await.list(&dir.path).await {
                Ok(found) => found,
                Err(error) if dir == *place => return Err(error),
                Err(error) => {
                    work.fail(&dir, &error);
                    continue;
                }
            };
            if titled && !args.common.json {
                let blank = if std::mem::take(&mut first) { "" } else { "\n" };
                work.report.out(&format!("{blank}{}:", dir.url()));
            }
            let shown = |object: &&Object| args.all || !object.name().starts_with(b".");
            let mut below = Vec::new();
            for object in found.iter().filter(shown) {
                let path = names::join(&dir.path, object.name());
                let is_itself = found.len() == 1 && names::last(&dir.path) == object.name();
                let at = match is_itself && !object.is_tree() {
                    true => dir.clone(),
                    false => dir.with_path(path),
                };
                line(&work.report, args.long, &at, object);
                if args.recursive && object.is_tree() && at.path.len() <= 4096 {
                    below.push(at);
                }
            }
            waiting.extend(below.into_iter().rev());
        }
        Ok(())
    })
    .await;
    Ok(())
}

fn line(report: &Report, long: bool, at: &Place, object: &Object) {
    if report.is_json() {
        return report.emit(&facts("entry", at, object));
    }
    let name = show(object.name());
    if !long {
        return report.out(&name);
    }
    let target = object.entry.target.as_deref().map(show);
    let target = target.map_or_else(String::new, |target| format!(" -> {target}"));
    let size = object.size().map(|size| size.to_string());
    report.out(&format!(
        "{} {:<8} {:<8} {:>13} {} {name}{target}",
        rights(object),
        object.owner().unwrap_or("?"),
        object.group().unwrap_or("?"),
        size.unwrap_or_else(|| "-".to_owned()),
        when(object.modified()),
    ));
}

/// All that is known of an object.
fn facts(event: &str, at: &Place, object: &Object) -> Value {
    json!({
        "event": event, "url": at.url(), "name": show(object.name()), "type": object.kind(),
        "size": object.size(), "modified": object.modified().map(|time| time.to_string()),
        "mode": object.mode().map(|mode| format!("{mode:04o}")), "owner": object.owner(),
        "group": object.group(), "target": object.entry.target.as_deref().map(show),
    })
}

/// The kind and the permission bits as `ls -l` shows them.
fn rights(object: &Object) -> String {
    let kind = match object.kind() {
        "dir" => 'd',
        "link" => 'l',
        "file" => '-',
        _ => '?',
    };
    let Some(mode) = object.mode() else {
        return format!("{kind}?????????");
    };
    let bits = (0..9).map(|at| {
        let is_set = mode & (0o400 >> at) != 0;
        let special = mode & (0o4000 >> (at / 3)) != 0;
        match (at, is_set, special) {
            (2 | 5, true, true) => 's',
            (2 | 5, false, true) => 'S',
            (8, true, true) => 't',
            (8, false, true) => 'T',
            (_, false, _) => '-',
            (0 | 3 | 6, true, _) => 'r',
            (1 | 4 | 7, true, _) => 'w',
            (_, true, _) => 'x',
        }
    });
    std::iter::once(kind).chain(bits).collect()
}

/// A time as `2026-11-23 10:45:00`, in UTC.
pub(crate) fn when(time: Option<TimeVal>) -> String {
    let Some(time) = time else {
        return format!("{:<19}", "?");
    };
    let digits = time.whole().to_string();
    let part = |range: std::ops::Range<usize>| digits.get(range).unwrap_or_default();
    format!(
        "{}-{}-{} {}:{}:{}",
        part(0..4),
        part(4..6),
        part(6..8),
        part(8..10),
        part(10..12),
        part(12..14)
    )
}

/// The options of `gridftp stat`.
#[derive(Debug, clap::Args)]
#[command(after_help = named(&["stat"]))]
pub(crate) struct StatArgs {
    /// Files or directories
    #[arg(value_name = "PLACE", required = true, value_hint = ValueHint::AnyPath)]
    places: Vec<OsString>,

    #[command(flatten)]
    pub(crate) common: Common,
}

/// Tells all that is known of objects.
pub(crate) async fn stat(args: &StatArgs, work: &mut Work<'_>) -> anyhow::Result<()> {
    let mut places = Vec::new();
    for text in &args.places {
        places.push(work.place(text)?);
    }
    work.each(places, async |work, place| {
        let object = work.at(place).await.stat(&place.path).await?;
        let told = facts("stat", place, &object);
        if work.report.is_json() {
            work.report.emit(&told);
            return Ok(());
        }
        work.report.out(&place.url());
        for name in ["type", "size", "mode", "owner", "group", "target"] {
            let value = match told.get(name) {
                Some(Value::String(text)) => text.clone(),
                Some(Value::Number(number)) => number.to_string(),
                _ => continue,
            };
            work.report.out(&format!("  {name:<9} {value}"));
        }
        if object.modified().is_some() {
            let time = when(object.modified());
            work.report.out(&format!("  modified  {time} UTC"));
        }
        Ok(())
    })
    .await;
    Ok(())
}

/// The options of `gridftp tree`.
#[derive(Debug, clap::Args)]
#[command(after_help = named(&["entry", "end"]))]
pub(crate) struct TreeArgs {
    /// Directories
    #[arg(value_name = "PLACE", required = true, value_hint = ValueHint::AnyPath)]
    places: Vec<OsString>,

    /// Show names that begin with a dot
    #[arg(short, long)]
    all: bool,

    /// Levels of directories that are shown
    #[arg(short = 'L', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    depth: Option<u32>,

    #[command(flatten)]
    pub(crate) common: Common,
}

/// Draws directories.
pub(crate) async fn tree(args: &TreeArgs, work: &mut Work<'_>) -> anyhow::Result<()> {
    let mut places = Vec::new();
    for text in &args.places {
        places.push(work.place(text)?);
    }
    let (mut dirs, mut files) = (0_u64, 0_u64);
    work.each(places, async |work, place| {
        if !args.common.json {
            work.report.out(&place.url());
        }
        draw(args, work, place, (&mut dirs, &mut files)).await
    })
    .await;
    if args.common.json {
        let end = json!({ "event": "end", "directories": dirs, "files": files });
        work.report.emit(&end);
    } else if !args.common.quiet {
        let dirs = counted(dirs, "directory", "directories");
        let files = counted(files, "file", "files");
        work.report.out(&format!("\n{dirs}, {files}"));
    }
    Ok(())
}

async fn draw(
    args: &TreeArgs,
    work: &mut Work<'_>,
    place: &Place,
    (dirs, files): (&mut u64, &mut u64),
) -> Result<(), TransferError> {
    let mut walk = Walk::new(place.path.clone());
    walk.all = args.all;
    while let Some(step) = walk.next(work.at(place).await).await {
        let (path, object, last) = match step {
            Step::Found { path, object, last } => (path, object, last),
            Step::Left(_) => continue,
            Step::Failed(path, error) if path == place.path => return Err(error),
            Step::Failed(path, error) => {
                work.fail(&place.with_path(path), &error);
                continue;
            }
        };
        *(if object.is_tree() {
            &mut *dirs
        } else {
            &mut *files
        }) += 1;
        if args.depth.is_some_and(|depth| last.len() >= depth as usize) {
            walk.skip();
        }
        if args.common.json {
            let at = place.with_path(path);
            work.report.emit(&facts("entry", &at, &object));
            continue;
        }
        let Some((own, above)) = last.split_last() else {
            continue;
        };
        let mut text: String = above
            .iter()
            .map(|last| if *last { "    " } else { "│   " })
            .collect();
        text.push_str(if *own { "└── " } else { "├── " });
        text.push_str(&show(object.name()));
        if let Some(target) = &object.entry.target {
            text.push_str(&format!(" -> {}", show(target)));
        }
        work.report.out(&text);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_for_people() {
        assert_eq!(when(Some(TimeVal::new(0, 5))), "1970-01-01 00:00:00");
        assert_eq!(when(None).trim_end(), "?");
    }
}

//! RETR, ERET and listings: from the storage to the client.

use byte_ranges::RangeSet;
use ftp_proto::types::{Channel, ListForm};
use ftp_wire::command::Type;
use gridftp_data::{Chunks, SendPlan, Watch};
use gridftp_dsi::{Dsi, DsiPath, Source as _, User};

use super::reporter::Reporter;
use super::{Buffers, DataSide};
use crate::error::Error;
use crate::listing::Lister;
use crate::owners::Owners;

/// Sends a file, or a region of it, less the ranges that the client holds; returns the bytes sent.
///
/// # Errors
/// Before the data connection is used, those of opening; after it, those of the transfer, and the
/// storage's when the file changed meanwhile.
#[expect(
    clippy::too_many_arguments,
    reason = "what RETR depends on; each caller names all of it"
)]
pub(crate) async fn retrieve<D: Dsi>(
    dsi: &D,
    user: &User,
    side: &mut DataSide,
    path: &DsiPath,
    region: Option<(u64, Option<u64>)>,
    held: &RangeSet,
    tag: Option<u64>,
    how: &Channel,
    watch: &Watch,
    reporter: &mut Reporter,
) -> Result<u64, Error> {
    let source = reporter.run_quietly(dsi.read(user, path)).await?;
    if let Some(disk) = &side.disk {
        if region.is_some() || !held.is_empty() || how.ty == Type::Ascii {
            return Err(Error::NotThroughLayers);
        }
        let mut chunks = reporter.run_quietly(disk.read(source)).await?;
        return send_all(&mut chunks, side, tag, how, watch, reporter).await;
    }
    let size = source.size();
    let (base, length) = match region {
        None => (0, size),
        Some((offset, length)) => {
            let rest = size.saturating_sub(offset);
            (offset, length.map_or(rest, |length| length.min(rest)))
        }
    };
    if held.end() > length {
        return Err(Error::RestartBeyondEnd {
            held: held.end(),
            length,
        });
    }
    let mut ranges = held.complement(length);
    if base > 0 {
        // The region lies within the file, so moving its ranges cannot overflow.
        ranges = ranges.shift_up(base).unwrap_or_default();
    }
    side.settle(Buffers::from(how));
    let plan = SendPlan::new(how.mode, how.ty, ranges)
        .parallelism(how.parallelism)
        .base(base)
        .tag(tag);
    let sent = reporter
        .run(watch, side.channel.send(&source, &plan, watch), |_| {
            std::future::ready(Ok(()))
        })
        .await?;
    Ok(sent.bytes)
}

/// Sends a listing; returns the bytes sent.
///
/// # Errors
/// As [`retrieve`].
#[expect(
    clippy::too_many_arguments,
    reason = "what LIST depends on; each caller names all of it"
)]
pub(crate) async fn list<D: Dsi>(
    dsi: &D,
    user: &User,
    owners: &Owners,
    side: &mut DataSide,
    path: &DsiPath,
    form: ListForm,
    how: &Channel,
    watch: &Watch,
    reporter: &mut Reporter,
) -> Result<u64, Error> {
    let mut lister = reporter
        .run_quietly(Lister::open(dsi, user, owners, path, form))
        .await?;
    send_all(&mut lister, side, None, how, watch, reporter).await
}

/// Sends bytes of unknown number; returns the number.
///
/// They are sent unchanged: lines of a listing end in CRLF already, and the output of layers is no
/// text.
async fn send_all<C: Chunks>(
    chunks: &mut C,
    side: &mut DataSide,
    tag: Option<u64>,
    how: &Channel,
    watch: &Watch,
    reporter: &mut Reporter,
) -> Result<u64, Error> {
    side.settle(Buffers::from(how));
    let plan = SendPlan::new(how.mode, Type::Image, RangeSet::new())
        .parallelism(how.parallelism)
        .tag(tag);
    let sending = side.channel.send_chunks(chunks, &plan, watch);
    let sent = reporter
        .run(watch, sending, |_| std::future::ready(Ok(())))
        .await?;
    Ok(sent.bytes)
}

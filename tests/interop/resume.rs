//! MODE S transfers that break in the middle: the retry transfers only the missing bytes.

use anyhow::{Context, Result, ensure};
use workspace_tests::{Break, Finished, Relay, run, sha256};

use crate::bed::{Client, End, LIMIT};

const SIZE: u64 = 12_000_001;
const AFTER: u64 = 9_000_000;

/// Upper limit of forwarded bytes that the receiver did not get before the break.
const LOST: u64 = 1_000_000;

/// One end of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Here,
    Ours,
    Globus,
}

impl Side {
    fn end(self) -> Result<Option<End>> {
        match self {
            Self::Here => End::local().map(Some),
            Self::Ours => End::ours().map(Some),
            Self::Globus => End::globus(),
        }
    }
}

/// A copy through a relay in front of one of its servers.
struct Cut {
    from: End,
    to: End,
    relay: Relay,
    finished: Finished,
}

/// Copies one file through a relay, paced so that the receiver keeps up: a reset discards unread
/// bytes in its socket. `before` may put files at the destination.
fn cut(
    from: Side,
    to: Side,
    plan: Break,
    flags: &[&str],
    before: impl FnOnce(&End) -> Result<()>,
) -> Result<Option<Cut>> {
    let (Some(from), Some(to)) = (from.end()?, to.end()?) else {
        return Ok(None);
    };
    from.tree.file("file", SIZE, 21)?;
    before(&to)?;
    let behind = if to.host.is_some() { &to } else { &from };
    let host = behind.host.as_ref().context("one end is a server")?;
    let relay = Relay::paced(host.addr(), plan, 12_000_000)?;
    let relayed = host.url_at(relay.addr(), "file");
    let (source, target) = match to.host {
        Some(_) => (from.url("file"), relayed),
        None => (relayed, to.url("file")),
    };
    let mut command = Client::Cp.command()?.context("our own client")?;
    command.args(["--mode", "stream", "--debug"]).args(flags);
    let finished = run(command.args([source, target]), LIMIT)?;
    Ok(Some(Cut {
        from,
        to,
        relay,
        finished,
    }))
}

impl Cut {
    /// Checks that the copy is complete, and that `bytes` of payload or few more were forwarded.
    fn moved(self, bytes: u64) -> Result<()> {
        ensure!(self.relay.broke(), "nothing broke");
        let finished = self.finished.ok().with_context(|| self.to.output())?;
        ensure!(
            sha256(&self.from.path("file"))? == sha256(&self.to.path("file"))?,
            "the copy differs: {}",
            finished.report()
        );
        ensure!(
            self.to.tree.names("")? == ["file"],
            "other files are left: {:?}",
            self.to.tree.names("")?
        );
        let passed = self.relay.passed();
        ensure!(
            (bytes..bytes + LOST).contains(&passed),
            "{passed} bytes passed instead of {bytes}: {}",
            finished.report()
        );
        Ok(())
    }
}

fn continues(from: Side, to: Side, plan: Break, flags: &[&str]) -> Result<()> {
    match cut(from, to, plan, flags, |_| Ok(()))? {
        Some(cut) => cut.moved(SIZE),
        None => Ok(()),
    }
}

const DATA: Break = Break::Data { after: AFTER };
const ALL: Break = Break::Everything { after: AFTER };

macro_rules! continuations {
    ($($name:ident: $from:ident $to:ident $plan:ident $($flag:literal)*;)*) => {
        $(
            #[test]
            fn $name() -> Result<()> {
                continues(Side::$from, Side::$to, $plan, &[$($flag),*])
            }
        )*
    };
}

continuations! {
    put_to_ours: Here Ours DATA;
    put_to_ours_control_lost: Here Ours ALL;
    put_to_globus: Here Globus DATA;
    put_to_globus_control_lost: Here Globus ALL;
    get_from_ours: Ours Here DATA;
    get_from_ours_control_lost: Ours Here ALL;
    get_from_globus: Globus Here DATA;
    get_from_globus_control_lost: Globus Here ALL;
    ours_to_ours: Ours Ours DATA;
    ours_to_ours_control_lost: Ours Ours ALL;
    globus_to_ours: Globus Ours DATA;
    globus_to_ours_control_lost: Globus Ours ALL;
    ours_to_globus: Ours Globus DATA;
    ours_to_globus_control_lost: Ours Globus ALL;
    ours_to_ours_relayed: Ours Ours DATA "--relay" "always";
    ours_to_ours_relayed_control_lost: Ours Ours ALL "--relay" "always";
    globus_to_ours_relayed: Globus Ours DATA "--relay" "always";
    ours_to_globus_relayed: Ours Globus ALL "--relay" "always";
}

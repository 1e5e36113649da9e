//! `Get` and `Put`: the commands that move one file, or a part of it, once the data side is set up.

use byte_ranges::RangeSet;
use ftp_wire::command::{Command, Eret, Esto, Mode, Restart, Site, StorAttr};
use ftp_wire::facts::TimeVal;
use ftp_wire::path::FtpPath;

use super::super::capabilities::Capabilities;
use crate::error::PeerIncompatible;

/// The commands for one file, in order; the last one moves the data.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Plan {
    /// All but the last have one final reply; the last may have news before it.
    pub commands: Vec<Command>,
    /// The file's offset that is offset 0 on the wire in MODE E.
    pub base: u64,
    /// The file's offset of the first byte in MODE S.
    pub start: u64,
    /// Bytes after which to stop reading, because the server cannot cut the file itself (MODE S).
    pub stop_after: Option<u64>,
}

/// One file, or a part of it, from the server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Get {
    /// The file.
    pub path: FtpPath,
    /// First byte.
    pub offset: u64,
    /// Number of bytes; `None` to the end.
    pub length: Option<u64>,
    /// File offsets already here.
    pub held: RangeSet,
}

impl Get {
    /// The whole file.
    pub const fn new(path: FtpPath) -> Self {
        Self {
            path,
            offset: 0,
            length: None,
            held: RangeSet::new(),
        }
    }

    /// Plans the commands.
    ///
    /// A part without a length is asked for by `REST`, never by `ERET P offset -1`, which ends a GCT
    /// server's session.
    ///
    /// # Errors
    ///
    /// [`PeerIncompatible`] when the server has neither way to it.
    pub fn plan(&self, mode: Mode, capabilities: &Capabilities) -> Result<Plan, PeerIncompatible> {
        let restart = match mode {
            Mode::Extended => true,
            _ => capabilities.stream_restart().may(),
        };
        let partial = self.length.filter(|_| capabilities.has("ERET").may());
        let mut held = self.held.clone();
        let mut commands = Vec::new();
        let base = match partial {
            Some(_) => self.offset,
            None => {
                held.extend(RangeSet::up_to(self.offset).iter());
                0
            }
        };
        if mode == Mode::Extended && partial.is_none() && self.length.is_some() {
            // Without ERET the server would send everything behind the part as well.
            return Err(PeerIncompatible::NoPartial);
        }
        let relative = held.shift_down(base);
        let start = base + relative.first_hole();
        if !relative.is_empty() && (mode == Mode::Extended || relative.first_hole() > 0) {
            if !restart {
                return Err(PeerIncompatible::NoRestart);
            }
            commands.push(rest(mode, relative));
        }
        commands.push(match partial {
            Some(length) => {
                let offset = self.offset;
                let length = Some(length);
                Command::Eret(Eret::Partial { offset, length }, self.path.clone())
            }
            None => Command::Retr(self.path.clone()),
        });
        let end = self.length.map(|n| self.offset.saturating_add(n));
        let stop_after = match partial {
            Some(_) => None,
            None => end.map(|end| end.saturating_sub(start)),
        };
        Ok(Plan {
            commands,
            base,
            start,
            stop_after,
        })
    }
}

/// One file, or a part of it, to the server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Put {
    /// The file.
    pub path: FtpPath,
    /// Where in the server's file the data goes, leaving the rest as it is; `None` to replace it.
    pub offset: Option<u64>,
    /// Number of bytes, when known.
    pub size: Option<u64>,
    /// Ranges the server already holds, relative to `offset`.
    pub held: RangeSet,
    /// Modification time to set, where the server has `SITE STORATTR`.
    pub modified: Option<TimeVal>,
    /// Algorithm and digest that the stored file must have, where the server has `SITE STORATTR`.
    pub checksum: Option<(String, String)>,
}

impl Put {
    /// A whole file.
    pub const fn new(path: FtpPath) -> Self {
        Self {
            path,
            offset: None,
            size: None,
            held: RangeSet::new(),
            modified: None,
            checksum: None,
        }
    }

    /// Plans the commands.
    ///
    /// # Errors
    ///
    /// [`PeerIncompatible`] when the server cannot write into the middle of a file, or cannot
    /// continue one.
    pub fn plan(&self, mode: Mode, capabilities: &Capabilities) -> Result<Plan, PeerIncompatible> {
        let mut commands = Vec::new();
        if let Some(size) = self.size.filter(|size| *size > 0) {
            commands.push(Command::Allo(size));
        }
        if (self.modified.is_some() || self.checksum.is_some())
            && capabilities.has("STORATTR").is_yes()
        {
            let mut attributes = StorAttr::default();
            attributes.modified = self.modified;
            attributes.checksum = self.checksum.clone();
            commands.push(Command::Site(Site::StorAttr(attributes)));
        }
        let first_hole = self.held.first_hole();
        if !self.held.is_empty() && (mode == Mode::Extended || first_hole > 0) {
            if mode != Mode::Extended && !capabilities.stream_restart().may() {
                return Err(PeerIncompatible::NoRestart);
            }
            commands.push(rest(mode, self.held.clone()));
        }
        let base = self.offset.unwrap_or(0);
        commands.push(match self.offset {
            None => Command::Stor(self.path.clone()),
            Some(_) if !capabilities.has("ESTO").may() => return Err(PeerIncompatible::NoPartial),
            Some(offset) => Command::Esto(Esto::Adjusted { offset }, self.path.clone()),
        });
        let start = match mode {
            Mode::Extended => base,
            _ => base + first_hole,
        };
        Ok(Plan {
            commands,
            base,
            start,
            stop_after: None,
        })
    }
}

/// `REST` in the form the mode has for it: an offset in MODE S, ranges in MODE E.
fn rest(mode: Mode, held: RangeSet) -> Command {
    Command::Rest(match mode {
        Mode::Extended => Restart::Ranges(held),
        _ => Restart::Offset(held.first_hole()),
    })
}

#[cfg(test)]
mod tests {
    use byte_ranges::Range64;
    use ftp_wire::reply::{Code, Reply};

    use super::*;

    fn path() -> FtpPath {
        FtpPath::new("/f").unwrap()
    }

    fn caps(lines: &[&str]) -> Capabilities {
        let lines = lines.iter().copied();
        Capabilities::from_feat(&Reply::indented(Code::of::<211>(), "", lines, "End"))
    }

    fn shown(plan: &Plan) -> Vec<String> {
        plan.commands.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn whole_files_and_parts_are_asked_for_as_every_server_has_it() {
        let all = caps(&["ERET", "ESTO", "REST STREAM", "PARALLEL"]);
        let mut get = Get::new(path());
        assert_eq!(shown(&get.plan(Mode::Stream, &all).unwrap()), ["RETR /f"]);
        get.offset = 1000;
        let plan = get.plan(Mode::Stream, &all).unwrap();
        assert_eq!(shown(&plan), ["REST 1000", "RETR /f"]);
        assert_eq!((plan.base, plan.start), (0, 1000));
        let plan = get.plan(Mode::Extended, &all).unwrap();
        assert_eq!(shown(&plan), ["REST 0-1000", "RETR /f"]);
        get.length = Some(5000);
        let plan = get.plan(Mode::Extended, &all).unwrap();
        assert_eq!(shown(&plan), ["ERET P 1000 5000 /f"]);
        assert_eq!((plan.base, plan.start), (1000, 1000));
        get.held = Range64::new(1000, 3000).unwrap().into();
        let plan = get.plan(Mode::Extended, &all).unwrap();
        assert_eq!(shown(&plan), ["REST 0-2000", "ERET P 1000 5000 /f"]);
        assert_eq!(plan.start, 3000);
    }

    #[test]
    fn a_server_without_eret_is_read_from_the_offset_and_cut_off() {
        let plain = caps(&["REST STREAM"]);
        let mut get = Get::new(path());
        (get.offset, get.length) = (10, Some(5));
        let plan = get.plan(Mode::Stream, &plain).unwrap();
        assert_eq!(shown(&plan), ["REST 10", "RETR /f"]);
        assert_eq!(plan.stop_after, Some(5));
        let none = caps(&[]);
        assert_eq!(
            get.plan(Mode::Stream, &none),
            Err(PeerIncompatible::NoRestart)
        );
        assert_eq!(
            get.plan(Mode::Extended, &plain),
            Err(PeerIncompatible::NoPartial)
        );
    }

    #[test]
    fn puts_say_size_attributes_and_restart_before_the_data() {
        let all = caps(&["ESTO", "STORATTR", "REST STREAM"]);
        let mut put = Put::new(path());
        (put.size, put.offset) = (Some(5000), Some(1000));
        let plan = put.plan(Mode::Extended, &all).unwrap();
        assert_eq!(shown(&plan), ["ALLO 5000", "ESTO A 1000 /f"]);
        assert_eq!(plan.base, 1000);
        let mut put = Put::new(path());
        put.size = Some(0);
        put.checksum = Some(("MD5".into(), "00".into()));
        put.held = RangeSet::up_to(7);
        let plan = put.plan(Mode::Stream, &all).unwrap();
        assert_eq!(plan.commands.len(), 3, "{:?}", shown(&plan));
        assert_eq!(plan.start, 7);
        assert_eq!(shown(&plan)[1..], ["REST 7", "STOR /f"]);
    }
}

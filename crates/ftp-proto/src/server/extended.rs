//! ERET and ESTO: regions, tagged transfers and modules.

use ftp_wire::command::{Eret, Esto, Mode, Spot, Tag, Type};
use ftp_wire::path::FtpPath;
use ftp_wire::receipt::Extent;
use ftp_wire::stored::LONGEST_NAME;

use super::out::Cx;
use super::user::LoggedIn;
use super::view::Access;
use crate::modules::{BadModule, Called, Files, RETRIEVE, RetrieveModule, Row, STORE};
use crate::types::{Placement, TransferKind};

impl LoggedIn {
    /// `ERET`.
    pub(super) fn extended_retrieve(&mut self, how: Eret, path: &FtpPath, cx: &mut Cx<'_>) {
        match how {
            Eret::Partial { offset, length } => {
                self.retrieve(path, Some((offset, length)), None, cx);
            }
            Eret::Tagged { tag, region } if self.may_tag("RETR", tag, cx) => {
                self.retrieve(path, region, Some(tag), cx);
            }
            Eret::Tagged { .. } => cx.out.say::<504>("ERET module not available."),
            Eret::Module(text) => {
                let kind = match self.module(RETRIEVE, "ERET", &text, cx) {
                    None => return,
                    Some(Called::By(module)) => {
                        let found = match module {
                            RetrieveModule::Tar => self.find_tree(Some(path), Access::Read, cx),
                            RetrieveModule::Checksum { .. } => {
                                self.find(Some(path), Access::Read, cx)
                            }
                        };
                        found.map(|found| TransferKind::RetrieveBy {
                            path: found.real,
                            module,
                        })
                    }
                    Some(Called::Memory(most)) => {
                        let found = self.find(Some(path), Access::Metadata, cx);
                        found.map(|found| TransferKind::RetrieveMemory {
                            path: found.real,
                            most,
                        })
                    }
                    Some(Called::Files(files)) => return self.retrieve_files(files, path, cx),
                };
                if let Some(kind) = kind {
                    self.begin(kind, None, cx);
                }
            }
        }
    }

    /// `ERET files=`: the last names of the path are the files, and the rest of it their directory.
    fn retrieve_files(&mut self, files: Files, path: &FtpPath, cx: &mut Cx<'_>) {
        let Some((dir, names)) = last_names(path, files.count) else {
            cx.out
                .say::<501>("The path does not end with as many names of files.");
            return;
        };
        if let Some(found) = self.find_tree(Some(&dir), Access::Read, cx) {
            let kind = TransferKind::RetrieveFiles {
                dir: found.real,
                names,
                facts: files.facts,
            };
            let tag = self.tag_of(files);
            self.begin(kind, tag, cx);
        }
    }

    /// `ESTO files=`.
    fn store_files(&mut self, files: Files, path: &FtpPath, cx: &mut Cx<'_>) {
        if let Some(found) = self.find_tree(Some(path), Access::Write, cx) {
            let kind = TransferKind::StoreFiles {
                dir: found.real,
                count: files.count,
                times: cx.settings.sets_times(),
                modes: !cx.settings.denies("SITE") && !cx.settings.denies("SITE CHMOD"),
            };
            let tag = self.tag_of(files);
            self.begin(kind, tag, cx);
        }
    }

    /// The tag of a transfer of many files. In MODE S it has a connection of its own.
    fn tag_of(&self, files: Files) -> Option<Tag> {
        let is_tagged = self.data.channel.mode == Mode::Extended;
        is_tagged.then(|| Tag::new(files.number, Extent::Head))
    }

    /// `ESTO`.
    pub(super) fn extended_store(&mut self, how: Esto, path: &FtpPath, cx: &mut Cx<'_>) {
        match how {
            Esto::Adjusted { offset } => self.store(path, Placement::At(offset), None, cx),
            Esto::Tagged { tag, spot } if self.may_tag("STOR", tag, cx) => {
                let into = match spot {
                    Spot::At(offset) => Placement::At(offset),
                    Spot::End => Placement::End,
                    Spot::Whole => Placement::Whole,
                    Spot::Sized(size) => {
                        self.next.size = Some(size);
                        Placement::Whole
                    }
                };
                self.store(path, into, Some(tag), cx);
            }
            Esto::Tagged { .. } => cx.out.say::<504>("ESTO module not available."),
            Esto::Module(text) => {
                let Some(module) = self.module(STORE, "ESTO", &text, cx) else {
                    return;
                };
                let size = self.next.size.take();
                let kind = match module {
                    Called::By(module) => {
                        let found = self.find(Some(path), Access::Write, cx);
                        found.map(|found| TransferKind::StoreBy {
                            path: found.real,
                            module,
                            size,
                        })
                    }
                    // No byte stays, so that the right to look at the path is enough.
                    Called::Memory(most) => {
                        let found = self.find(Some(path), Access::Metadata, cx);
                        found.map(|found| TransferKind::StoreMemory {
                            path: found.real,
                            most,
                        })
                    }
                    Called::Files(files) => return self.store_files(files, path, cx),
                };
                if let Some(kind) = kind {
                    self.begin(kind, None, cx);
                }
            }
        }
    }

    /// Finds a module and reads its arguments; answers and returns nothing where it cannot be
    /// called.
    fn module<M>(
        &mut self,
        table: &[Row<M>],
        verb: &str,
        text: &str,
        cx: &mut Cx<'_>,
    ) -> Option<Called<M>> {
        let is_restarted = !self.take_held(None).is_empty();
        match Row::call(table, text, cx.settings) {
            Err(BadModule::Unknown) => {
                cx.out.say::<504>(format!("{verb} module not available."));
            }
            Err(BadModule::Arguments(syntax)) => {
                cx.out
                    .say::<501>(format!("Bad arguments of the module: {syntax}."));
            }
            Ok(_) if is_restarted => {
                cx.out
                    .say::<504>("A module has no restart, send it without REST.");
            }
            Ok(_) if self.data.channel.ty == Type::Ascii => {
                cx.out.say::<504>("A module moves bytes, send TYPE I.");
            }
            Ok(module) => return Some(module),
        }
        None
    }

    /// Says whether a transfer with this tag is allowed; a denial of `as_if`, the command without a
    /// tag, forbids it too.
    fn may_tag(&self, as_if: &str, tag: Tag, cx: &Cx<'_>) -> bool {
        let channel = &self.data.channel;
        let has_place = match channel.mode {
            Mode::Extended => true,
            // In a trailer, which text has not, and which is of use for the digest of all bytes. Data
            // nodes have none.
            Mode::Stream => {
                let is_whole = tag.extent == Extent::Whole && channel.ty == Type::Image;
                is_whole && cx.settings.stripes.is_none()
            }
        };
        cx.settings.tags && has_place && !cx.settings.denies(as_if)
    }
}

/// The last `count` components of a path, which are names, and the directory before them.
fn last_names(path: &FtpPath, count: usize) -> Option<(FtpPath, Vec<Vec<u8>>)> {
    let mut rest = Some(path.as_bytes());
    let mut names = Vec::with_capacity(count);
    for _ in 0..count {
        let text = rest?;
        let (before, name) = match text.iter().rposition(|b| *b == b'/') {
            Some(at) => (text.get(..at), text.get(at + 1..)?),
            None => (None, text),
        };
        if matches!(name, b"" | b"." | b"..") || name.len() > LONGEST_NAME {
            return None;
        }
        names.push(name.to_vec());
        rest = before;
    }
    names.reverse();
    let dir = match rest {
        None => b".",
        Some(b"") => &b"/"[..],
        Some(dir) => dir,
    };
    Some((FtpPath::new(dir)?, names))
}

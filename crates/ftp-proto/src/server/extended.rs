//! ERET and ESTO: regions, tagged transfers and modules.

use ftp_wire::command::{Eret, Esto, Mode, Spot, Tag, Type};
use ftp_wire::path::FtpPath;
use ftp_wire::receipt::Extent;

use super::out::Cx;
use super::user::LoggedIn;
use super::view::Access;
use crate::modules::{BadModule, Called, RETRIEVE, RetrieveModule, Row, STORE};
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
                };
                if let Some(kind) = kind {
                    self.begin(kind, None, cx);
                }
            }
        }
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
                // No byte stays, so that the right to look at the path is enough.
                let access = match module {
                    Called::By(_) => Access::Write,
                    Called::Memory(_) => Access::Metadata,
                };
                if let Some(found) = self.find(Some(path), access, cx) {
                    let path = found.real;
                    let kind = match module {
                        Called::By(module) => TransferKind::StoreBy { path, module, size },
                        Called::Memory(most) => TransferKind::StoreMemory { path, most },
                    };
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

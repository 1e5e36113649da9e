//! Conversion of messages from their form on the wire, with every field checked.

use std::num::NonZero;
use std::time::Duration;

use byte_ranges::Layout;
use digest_tree::{Known, MAX_SECTIONS, SUMS};
use ftp_proto::modules::RetrieveModule;
use ftp_proto::security::{DataProtection, Level};
use ftp_proto::types::{Channel, ListForm, Placement};
use ftp_wire::command::{Dcau, Family, Mode, StackSide, Tag, Type};
use ftp_wire::facts::{Fact, FactSet, TimeVal};
use ftp_wire::opts::MAX_PARALLELISM;
use ftp_wire::path::FtpPath;
use ftp_wire::receipt::Extent;
use ftp_wire::reply::{Code, Reply};
use gridftp_dsi::Delegated;
use gridftp_dsi_rpc::proto::Digest;

use super::bounds::{
    MAX_BYTES, MAX_LIST, MAX_STRIPES, Malformed, Result, address, bytes, check, list, ranges,
    some_text, text,
};
use super::{
    Connect, Credential, DataIdentity, Failed, Fault, FromNode, Listen, NodeTag, Open, PeerRule,
    SessionLimits, StoreRules, ToNode, Told, Transfer, TransferKind, Transferred, Whole,
};
use crate::proto::{self, from_node, peers, to_node, transfer};

/// Reads the first message of a session.
pub(crate) fn open(message: proto::ToNode) -> Result<Open> {
    let Some(to_node::Kind::Open(mut open)) = message.kind else {
        return Err(Malformed::new("open"));
    };
    let mut user = open.user.take().ok_or(Malformed::new("user"))?;
    user.name = text(user.name, "user.name")?;
    user.home = bytes(user.home, "user.home")?;
    let mut user = user.into_user().ok_or(Malformed::new("user.home"))?;
    let own = pem(&mut open.credential, "credential")?;
    user.credential = own.map(|own| Delegated::new(own.reveal()));
    let limits = open.limits.ok_or(Malformed::new("limits"))?;
    Ok(Open {
        task: text(std::mem::take(&mut open.task), "task")?,
        client: address(&open.client, "client")?,
        user,
        limits: SessionLimits {
            connect_timeout: Duration::from_millis(limits.connect_timeout_ms),
            stall_timeout: Duration::from_millis(limits.stall_timeout_ms),
            max_streams: limits.max_streams,
        },
    })
}

/// Reads a request that is not the first message; `None` for a heartbeat.
pub(crate) fn request(message: proto::ToNode) -> Result<Option<ToNode>> {
    Ok(Some(match message.kind.ok_or(Malformed::new("kind"))? {
        to_node::Kind::Alive(_) => return Ok(None),
        to_node::Kind::Open(_) => return Err(Malformed::new("open")),
        to_node::Kind::Listen(listen) => ToNode::Listen(Box::new(listen.try_into()?)),
        to_node::Kind::Connect(connect) => ToNode::Connect(Box::new(connect.try_into()?)),
        to_node::Kind::Stack(stack) => {
            let side = match stack.disk {
                true => StackSide::Disk,
                false => StackSide::Net,
            };
            let stack = stack.stack.map(|stack| text(stack, "stack"));
            ToNode::Stack(side, stack.transpose()?)
        }
        to_node::Kind::Transfer(transfer) => ToNode::Transfer(Box::new(transfer.try_into()?)),
        to_node::Kind::Abort(_) => ToNode::Abort,
        to_node::Kind::Publish(_) => ToNode::Publish,
        to_node::Kind::EndData(end) => {
            let told = end.told.map(Told::try_from).transpose()?;
            ToNode::EndData(told.map(Box::new))
        }
        to_node::Kind::DropData(_) => ToNode::DropData,
        to_node::Kind::Rate(rate) => ToNode::Rate(NonZero::new(rate)),
    }))
}

/// Reads an answer or an event; `None` for a heartbeat.
pub(crate) fn reply(message: proto::FromNode) -> Result<Option<FromNode>> {
    Ok(Some(match message.kind.ok_or(Malformed::new("kind"))? {
        from_node::Kind::Alive(_) => return Ok(None),
        from_node::Kind::Done(_) => FromNode::Done,
        from_node::Kind::Failed(failed) => FromNode::Failed(Box::new(failed.try_into()?)),
        from_node::Kind::Listening(listening) => {
            FromNode::Listening(address(&listening.address, "listening.address")?)
        }
        from_node::Kind::Opened(opened) => FromNode::Opened {
            reused: opened.reused,
        },
        from_node::Kind::Received(set) => FromNode::Received(ranges(Some(set), "received")?),
        from_node::Kind::Moved(bytes) => FromNode::Moved(bytes),
        from_node::Kind::Waiting(_) => FromNode::Waiting,
        from_node::Kind::Arrived(_) => FromNode::Arrived,
        from_node::Kind::Hashed(known) => {
            let known = Known::from_bytes(&known).ok_or(Malformed::new("hashed"))?;
            FromNode::Hashed(Box::new(known))
        }
        from_node::Kind::Told(told) => FromNode::Told(Box::new(told.try_into()?)),
        from_node::Kind::Sent(bytes) => FromNode::Sent(bytes),
        from_node::Kind::Transferred(end) => FromNode::Transferred(Box::new(end.try_into()?)),
    }))
}

impl TryFrom<proto::Listen> for Listen {
    type Error = Malformed;

    fn try_from(listen: proto::Listen) -> Result<Self> {
        let (protection, identity) = protection(listen.protection)?;
        Ok(Self {
            family: match listen.family {
                0 => None,
                1 => Some(Family::V4),
                2 => Some(Family::V6),
                _ => return Err(Malformed::new("listen.family")),
            },
            send_buffer: listen.send_buffer,
            receive_buffer: listen.receive_buffer,
            peers: peer_rule(listen.peers)?,
            protection,
            identity,
        })
    }
}

impl TryFrom<proto::Connect> for Connect {
    type Error = Malformed;

    fn try_from(connect: proto::Connect) -> Result<Self> {
        let field = "connect.addresses";
        let addresses = list(connect.addresses, field, |text| address(&text, field))?;
        let some = !addresses.is_empty();
        let (protection, identity) = protection(connect.protection)?;
        Ok(Self {
            addresses: check(addresses, some, field)?,
            peers: peer_rule(connect.peers)?,
            protection,
            identity,
        })
    }
}

/// The hosts that may be the other end of data connections.
fn peer_rule(peers: Option<proto::Peers>) -> Result<PeerRule> {
    let rule = peers.and_then(|peers| peers.rule);
    Ok(match rule.ok_or(Malformed::new("peers"))? {
        peers::Rule::Own(_) => PeerRule::Own,
        peers::Rule::Any(_) => PeerRule::Any,
        peers::Rule::Among(among) => {
            let field = "peers.networks";
            PeerRule::Among(list(among.networks, field, |network| text(network, field))?)
        }
    })
}

/// A credential of bounded length; `None` without one.
fn pem(value: &mut Vec<u8>, field: &'static str) -> Result<Option<Credential>> {
    let credential = Credential::new(std::mem::take(value));
    let length = credential.reveal().len();
    let credential = check(credential, length <= MAX_BYTES, field)?;
    Ok((length > 0).then_some(credential))
}

/// The protection of data connections, and the identity of our end.
fn protection(value: Option<proto::Protection>) -> Result<(DataProtection, DataIdentity)> {
    let mut value = value.ok_or(Malformed::new("protection"))?;
    let credential = pem(&mut value.credential, "protection.credential")?;
    let level = match value.level {
        0 => Level::Clear,
        1 => Level::Integrity,
        2 => Level::Private,
        _ => return Err(Malformed::new("protection.level")),
    };
    let subject = some_text(std::mem::take(&mut value.subject), "protection.subject")?;
    let authentication = proto::Authentication::try_from(value.authentication)
        .map_err(|_| Malformed::new("protection.authentication"))?;
    let authentication = match authentication {
        proto::Authentication::None => Dcau::None,
        proto::Authentication::Own => Dcau::Own,
        proto::Authentication::Subject => {
            Dcau::Subject(subject.ok_or(Malformed::new("protection.subject"))?)
        }
    };
    let identity = DataIdentity {
        credential,
        own_authorities: value.own_authorities,
    };
    Ok((DataProtection::new(authentication, level), identity))
}

impl TryFrom<proto::Transfer> for Transfer {
    type Error = Malformed;

    fn try_from(transfer: proto::Transfer) -> Result<Self> {
        let mut channel = Channel::new(match transfer.extended {
            true => Mode::Extended,
            false => Mode::Stream,
        });
        channel.ty = match transfer.ascii {
            true => Type::Ascii,
            false => Type::Image,
        };
        let streams = transfer.parallelism;
        let holds = (1..=MAX_PARALLELISM).contains(&streams);
        channel.parallelism = check(streams, holds, "transfer.parallelism")?;
        let most = transfer.most_parallelism;
        let most = check(most, most <= MAX_PARALLELISM, "transfer.most_parallelism")?;
        // Front ends before this field send 0.
        channel.most_parallelism = most.max(streams);
        channel.send_buffer = transfer.send_buffer;
        channel.receive_buffer = transfer.receive_buffer;
        Ok(Self {
            kind: transfer
                .kind
                .ok_or(Malformed::new("transfer.kind"))?
                .try_into()?,
            channel,
            perf_every: transfer.perf_ms.map(Duration::from_millis),
            restart_every: transfer.restart_ms.map(Duration::from_millis),
            drains: transfer.drains,
            tag: transfer.tag.map(NodeTag::from),
        })
    }
}

impl From<proto::Tag> for NodeTag {
    fn from(tag: proto::Tag) -> Self {
        let extent = match tag.whole {
            true => Extent::Whole,
            false => Extent::Head,
        };
        Self {
            tag: Tag::new(tag.number, extent),
            part_of: tag.part_of,
            asks: tag.asks,
        }
    }
}

impl TryFrom<proto::Told> for Told {
    type Error = Malformed;

    fn try_from(told: proto::Told) -> Result<Self> {
        let (hints, rest) = told.hints.as_chunks();
        let holds = rest.is_empty() && hints.len() <= MAX_SECTIONS + SUMS;
        Ok(Self {
            digest: blake3(&told.digest, "told.digest")?,
            hints: check(hints.to_vec(), holds, "told.hints")?,
        })
    }
}

/// A digest of BLAKE3.
fn blake3(value: &[u8], field: &'static str) -> Result<[u8; 32]> {
    value.try_into().map_err(|_| Malformed::new(field))
}

impl TryFrom<transfer::Kind> for TransferKind {
    type Error = Malformed;

    fn try_from(kind: transfer::Kind) -> Result<Self> {
        Ok(match kind {
            transfer::Kind::Retrieve(get) => {
                let holds = get.stripe < get.stripes && get.stripes <= MAX_STRIPES;
                let stripe = check(get.stripe, holds, "retrieve.stripe")?;
                Self::Retrieve {
                    path: path(get.path)?,
                    region: get.region.map(|region| (region.offset, region.length)),
                    held: ranges(get.held, "retrieve.held")?,
                    layout: NonZero::new(get.block).map_or(Layout::Partitioned, Layout::Blocked),
                    stripe,
                    stripes: get.stripes,
                }
            }
            transfer::Kind::Store(put) => Self::Store {
                path: path(put.path)?,
                upload: bytes(put.upload, "store.upload")?,
                base: put.base,
                held: ranges(put.held, "store.held")?,
                rules: rules(put.rules, "store.rules")?,
            },
            transfer::Kind::RetrieveBy(get) => Self::RetrieveBy {
                path: path(get.path)?,
                module: module(get.module)?,
            },
            transfer::Kind::Whole(whole) => Self::Whole(Box::new(whole.try_into()?)),
            transfer::Kind::List(list) => Self::List {
                path: path(list.path)?,
                form: form(list.form)?,
            },
        })
    }
}

impl TryFrom<proto::Whole> for Whole {
    type Error = Malformed;

    fn try_from(whole: proto::Whole) -> Result<Self> {
        Ok(Self {
            path: path(whole.path)?,
            into: match whole.into.ok_or(Malformed::new("whole.into"))? {
                proto::whole::Into::New(_) => Placement::Whole,
                proto::whole::Into::Exclusive(_) => Placement::New,
                proto::whole::Into::At(offset) => Placement::At(offset),
                proto::whole::Into::End(_) => Placement::End,
            },
            held: ranges(whole.held, "whole.held")?,
            size: whole.size,
            modified: whole.modified.map(|time| TimeVal {
                seconds: time.seconds,
                nanos: time.nanos,
            }),
            checksum: digest(whole.checksum, "whole.checksum")?,
            proof: digest(whole.proof, "whole.proof")?,
            rules: rules(whole.rules, "whole.rules")?,
        })
    }
}

/// The way of storing.
fn rules(rules: Option<proto::StoreRules>, field: &'static str) -> Result<StoreRules> {
    let rules = rules.ok_or_else(|| Malformed::new(field))?;
    Ok(StoreRules {
        in_place: rules.in_place,
        durable: rules.durable,
        empty_unannounced: rules.empty_unannounced,
    })
}

/// An algorithm, and a digest of it.
fn digest(value: Option<Digest>, field: &'static str) -> Result<Option<(String, String)>> {
    let pair = value.map(|value| Ok((text(value.algorithm, field)?, text(value.digest, field)?)));
    pair.transpose()
}

/// A module of ERET.
fn module(module: Option<proto::retrieve_by::Module>) -> Result<RetrieveModule> {
    let module = module.ok_or(Malformed::new("retrieve_by.module"))?;
    Ok(match module {
        proto::retrieve_by::Module::Tar(_) => RetrieveModule::Tar,
        proto::retrieve_by::Module::Checksum(of) => {
            let field = "retrieve_by.checksum";
            let region = of.region.ok_or_else(|| Malformed::new(field))?;
            RetrieveModule::Checksum {
                algorithm: text(of.algorithm, field)?,
                offset: region.offset,
                length: region.length,
            }
        }
    })
}

/// A path that a command could carry.
fn path(value: Vec<u8>) -> Result<FtpPath> {
    FtpPath::new(bytes(value, "path")?).ok_or(Malformed::new("path"))
}

/// The form of a listing.
fn form(form: Option<proto::list::Form>) -> Result<ListForm> {
    Ok(match form.ok_or(Malformed::new("list.form"))? {
        proto::list::Form::Long(_) => ListForm::Long,
        proto::list::Form::Names(before) => ListForm::Names {
            before: bytes(before, "list.names")?,
        },
        proto::list::Form::Facts(form) => ListForm::Facts {
            facts: facts(form.facts)?,
            root: form.root,
        },
        proto::list::Form::Tree(form) => ListForm::Tree {
            facts: facts(form.facts)?,
            follow: form.follow,
            fail: form.fail,
        },
    })
}

/// A set of facts by name; names that a later version added are left out.
fn facts(names: Vec<String>) -> Result<FactSet> {
    let known = list(names, "list.facts", |name| {
        Ok(Fact::from_name(name.as_bytes()))
    })?;
    let known = known.into_iter().flatten();
    Ok(known.fold(FactSet::NONE, FactSet::with))
}

impl TryFrom<proto::Failed> for Failed {
    type Error = Malformed;

    fn try_from(failed: proto::Failed) -> Result<Self> {
        let code = u16::try_from(failed.code).ok().and_then(Code::new);
        let code = code
            .filter(|code| code.is_failure())
            .ok_or(Malformed::new("failed.code"))?;
        let holds = failed.lines.len() <= MAX_LIST
            && failed.lines.iter().map(Vec::len).sum::<usize>() <= MAX_BYTES;
        let lines = check(failed.lines, holds, "failed.lines")?;
        let fault = proto::Fault::try_from(failed.fault);
        Ok(Self {
            reply: Reply::coded(code, lines),
            fault: match fault.map_err(|_| Malformed::new("failed.fault"))? {
                proto::Fault::Node => Fault::Node,
                proto::Fault::Peer => Fault::Peer,
                proto::Fault::Storage => Fault::Storage,
                proto::Fault::Request => Fault::Request,
                proto::Fault::Aborted => Fault::Aborted,
            },
        })
    }
}

impl TryFrom<proto::Transferred> for Transferred {
    type Error = Malformed;

    fn try_from(end: proto::Transferred) -> Result<Self> {
        Ok(Self {
            bytes: end.bytes,
            ranges: ranges(end.ranges, "transferred.ranges")?,
            end: end.end,
            ended_unmarked: end.ended_unmarked,
            connections: end.connections,
            digest: digest(end.digest, "transferred.digest")?,
            proven: end
                .proven
                .map(|proven| blake3(&proven, "transferred.proven"))
                .transpose()?,
        })
    }
}

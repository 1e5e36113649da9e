//! Conversion of messages to their form on the wire.

use std::num::NonZero;
use std::time::Duration;

use byte_ranges::Layout;
use ftp_proto::modules::RetrieveModule;
use ftp_proto::security::{DataProtection, Level};
use ftp_proto::types::{ListForm, Placement};
use ftp_wire::command::{Dcau, Family, Mode, StackSide, Type};
use ftp_wire::facts::{Fact, FactSet};
use ftp_wire::receipt::Extent;
use gridftp_dsi_rpc::proto as storage;

use super::{
    Connect, DataIdentity, Failed, Fault, FromNode, Listen, NodeTag, Open, PeerRule, StoreRules,
    ToNode, Told, Transfer, TransferKind, Transferred, Whole,
};
use crate::proto::{self, from_node, list, peers, to_node, transfer};

impl From<Open> for proto::ToNode {
    fn from(open: Open) -> Self {
        let limits = proto::SessionLimits {
            connect_timeout_ms: millis(open.limits.connect_timeout),
            stall_timeout_ms: millis(open.limits.stall_timeout),
            max_streams: open.limits.max_streams,
        };
        let own = open.user.credential.as_ref();
        to_node(to_node::Kind::Open(proto::Open {
            credential: own.map_or_else(Vec::new, |own| own.reveal().to_vec()),
            task: open.task,
            client: open.client.to_string(),
            user: Some((&open.user).into()),
            limits: Some(limits),
        }))
    }
}

impl From<ToNode> for proto::ToNode {
    fn from(message: ToNode) -> Self {
        to_node(match message {
            ToNode::Listen(listen) => to_node::Kind::Listen((*listen).into()),
            ToNode::Connect(connect) => to_node::Kind::Connect((*connect).into()),
            ToNode::Stack(side, stack) => to_node::Kind::Stack(proto::Stack {
                disk: side == StackSide::Disk,
                stack,
            }),
            ToNode::Transfer(transfer) => to_node::Kind::Transfer((*transfer).into()),
            ToNode::Abort => to_node::Kind::Abort(proto::Empty {}),
            ToNode::Publish => to_node::Kind::Publish(proto::Empty {}),
            ToNode::EndData(told) => to_node::Kind::EndData(proto::EndData {
                told: told.map(|told| (*told).into()),
            }),
            ToNode::DropData => to_node::Kind::DropData(proto::Empty {}),
            ToNode::Rate(rate) => to_node::Kind::Rate(rate.map_or(0, NonZero::get)),
        })
    }
}

impl From<FromNode> for proto::FromNode {
    fn from(message: FromNode) -> Self {
        let kind = match message {
            FromNode::Done => from_node::Kind::Done(proto::Empty {}),
            FromNode::Failed(failed) => from_node::Kind::Failed((*failed).into()),
            FromNode::Listening(address) => from_node::Kind::Listening(proto::Listening {
                address: address.to_string(),
            }),
            FromNode::Opened { reused } => from_node::Kind::Opened(proto::Opened { reused }),
            FromNode::Received(ranges) => from_node::Kind::Received((&ranges).into()),
            FromNode::Moved(bytes) => from_node::Kind::Moved(bytes),
            FromNode::Waiting => from_node::Kind::Waiting(proto::Empty {}),
            FromNode::Arrived => from_node::Kind::Arrived(proto::Empty {}),
            FromNode::Hashed(known) => from_node::Kind::Hashed(known.to_bytes()),
            FromNode::Told(told) => from_node::Kind::Told((*told).into()),
            FromNode::Sent(bytes) => from_node::Kind::Sent(bytes),
            FromNode::Transferred(end) => from_node::Kind::Transferred((*end).into()),
        };
        Self { kind: Some(kind) }
    }
}

/// Wraps the kind of a message.
const fn to_node(kind: to_node::Kind) -> proto::ToNode {
    proto::ToNode { kind: Some(kind) }
}

impl From<Listen> for proto::Listen {
    fn from(listen: Listen) -> Self {
        Self {
            family: match listen.family {
                None => 0,
                Some(Family::V4) => 1,
                Some(Family::V6) => 2,
            },
            send_buffer: listen.send_buffer,
            receive_buffer: listen.receive_buffer,
            peers: Some(listen.peers.into()),
            protection: Some(protection(listen.protection, listen.identity)),
        }
    }
}

impl From<Connect> for proto::Connect {
    fn from(connect: Connect) -> Self {
        Self {
            addresses: connect.addresses.iter().map(ToString::to_string).collect(),
            peers: Some(connect.peers.into()),
            protection: Some(protection(connect.protection, connect.identity)),
        }
    }
}

impl From<PeerRule> for proto::Peers {
    fn from(rule: PeerRule) -> Self {
        let rule = match rule {
            PeerRule::Own => peers::Rule::Own(proto::Empty {}),
            PeerRule::Any => peers::Rule::Any(proto::Empty {}),
            PeerRule::Among(networks) => peers::Rule::Among(proto::Networks { networks }),
        };
        Self { rule: Some(rule) }
    }
}

/// The protection of data connections, with the identity of our end.
fn protection(protection: DataProtection, identity: DataIdentity) -> proto::Protection {
    let (authentication, subject) = match protection.authentication {
        Dcau::None => (proto::Authentication::None, None),
        Dcau::Own => (proto::Authentication::Own, None),
        Dcau::Subject(subject) => (proto::Authentication::Subject, Some(subject)),
    };
    proto::Protection {
        level: match protection.level {
            Level::Clear => 0,
            Level::Integrity => 1,
            Level::Private => 2,
        },
        authentication: authentication.into(),
        subject: subject.unwrap_or_default(),
        credential: identity
            .credential
            .map(|credential| credential.reveal().to_vec())
            .unwrap_or_default(),
        own_authorities: identity.own_authorities,
    }
}

impl From<Transfer> for proto::Transfer {
    fn from(transfer: Transfer) -> Self {
        let channel = transfer.channel;
        Self {
            kind: Some(transfer.kind.into()),
            extended: channel.mode == Mode::Extended,
            ascii: channel.ty == Type::Ascii,
            parallelism: channel.parallelism,
            most_parallelism: channel.most_parallelism,
            send_buffer: channel.send_buffer,
            receive_buffer: channel.receive_buffer,
            perf_ms: transfer.perf_every.map(millis),
            restart_ms: transfer.restart_every.map(millis),
            drains: transfer.drains,
            tag: transfer.tag.map(Into::into),
        }
    }
}

impl From<NodeTag> for proto::Tag {
    fn from(tag: NodeTag) -> Self {
        Self {
            number: tag.tag.number,
            whole: tag.tag.extent == Extent::Whole,
            part_of: tag.part_of,
            asks: tag.asks,
        }
    }
}

impl From<Told> for proto::Told {
    fn from(told: Told) -> Self {
        Self {
            digest: told.digest.to_vec(),
            hints: told.hints.concat(),
        }
    }
}

impl From<TransferKind> for transfer::Kind {
    fn from(kind: TransferKind) -> Self {
        match kind {
            TransferKind::Retrieve {
                path,
                region,
                held,
                layout,
                stripe,
                stripes,
            } => Self::Retrieve(proto::Retrieve {
                path: path.as_bytes().to_vec(),
                region: region.map(|(offset, length)| proto::Region { offset, length }),
                held: Some((&held).into()),
                block: match layout {
                    Layout::Partitioned => 0,
                    Layout::Blocked(bytes) => bytes.get(),
                },
                stripe,
                stripes,
            }),
            TransferKind::Store {
                path,
                upload,
                base,
                held,
                rules,
            } => Self::Store(proto::Store {
                path: path.as_bytes().to_vec(),
                upload,
                base,
                held: Some((&held).into()),
                rules: Some(rules.into()),
            }),
            TransferKind::RetrieveBy { path, module } => Self::RetrieveBy(proto::RetrieveBy {
                path: path.as_bytes().to_vec(),
                module: Some(module_of(module)),
            }),
            TransferKind::Whole(whole) => Self::Whole((*whole).into()),
            TransferKind::List { path, form } => Self::List(proto::List {
                path: path.as_bytes().to_vec(),
                form: Some(form_of(form)),
            }),
        }
    }
}

impl From<Whole> for proto::Whole {
    fn from(whole: Whole) -> Self {
        Self {
            path: whole.path.as_bytes().to_vec(),
            into: Some(match whole.into {
                Placement::Whole => proto::whole::Into::New(proto::Empty {}),
                Placement::New => proto::whole::Into::Exclusive(proto::Empty {}),
                Placement::At(offset) => proto::whole::Into::At(offset),
                Placement::End => proto::whole::Into::End(proto::Empty {}),
            }),
            held: Some((&whole.held).into()),
            size: whole.size,
            modified: whole.modified.map(|time| (time.seconds, time.nanos).into()),
            checksum: whole.checksum.map(digest),
            proof: whole.proof.map(digest),
            rules: Some(whole.rules.into()),
        }
    }
}

impl From<StoreRules> for proto::StoreRules {
    fn from(rules: StoreRules) -> Self {
        Self {
            in_place: rules.in_place,
            durable: rules.durable,
            empty_unannounced: rules.empty_unannounced,
        }
    }
}

/// An algorithm, and a digest of it.
fn digest((algorithm, digest): (String, String)) -> storage::Digest {
    storage::Digest {
        algorithm,
        digest,
        bytes: 0,
    }
}

/// A module of ERET.
fn module_of(module: RetrieveModule) -> proto::retrieve_by::Module {
    match module {
        RetrieveModule::Tar => proto::retrieve_by::Module::Tar(proto::Empty {}),
        RetrieveModule::Checksum {
            algorithm,
            offset,
            length,
        } => proto::retrieve_by::Module::Checksum(proto::RegionDigest {
            algorithm,
            region: Some(proto::Region { offset, length }),
        }),
    }
}

/// The form of a listing.
fn form_of(form: ListForm) -> list::Form {
    match form {
        ListForm::Long => list::Form::Long(proto::Empty {}),
        ListForm::Names { before } => list::Form::Names(before),
        ListForm::Facts { facts, root } => list::Form::Facts(proto::FactForm {
            facts: names(facts),
            root,
        }),
        ListForm::Tree {
            facts,
            follow,
            fail,
        } => list::Form::Tree(proto::TreeForm {
            facts: names(facts),
            follow,
            fail,
        }),
    }
}

/// The names of facts.
fn names(facts: FactSet) -> Vec<String> {
    let printed = Fact::ALL.into_iter().filter(|fact| facts.contains(*fact));
    printed.map(|fact| fact.as_str().to_owned()).collect()
}

impl From<Failed> for proto::Failed {
    fn from(failed: Failed) -> Self {
        let fault = match failed.fault {
            Fault::Node => proto::Fault::Node,
            Fault::Peer => proto::Fault::Peer,
            Fault::Storage => proto::Fault::Storage,
            Fault::Request => proto::Fault::Request,
            Fault::Aborted => proto::Fault::Aborted,
        };
        Self {
            code: failed.reply.code().number().into(),
            lines: failed.reply.lines().to_vec(),
            fault: fault.into(),
        }
    }
}

impl From<Transferred> for proto::Transferred {
    fn from(end: Transferred) -> Self {
        Self {
            bytes: end.bytes,
            ranges: Some((&end.ranges).into()),
            end: end.end,
            ended_unmarked: end.ended_unmarked,
            connections: end.connections,
            digest: end.digest.map(digest),
            proven: end.proven.map(Vec::from),
        }
    }
}

/// A duration in milliseconds.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

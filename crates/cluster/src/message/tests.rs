//! Messages are read as they were written.

use proptest::prelude::*;
use prost::Message as _;

use digest_tree::{Piece, Tree};
use ftp_proto::security::{DataProtection, Level};
use ftp_wire::command::{Dcau, Mode, Type};
use ftp_wire::facts::FactSet;
use ftp_wire::receipt::Extent;

use super::*;
use crate::proto::{self, list, to_node, transfer};

fn opening() -> Open {
    let home = gridftp_dsi::DsiPath::new(b"/home/\xff").unwrap();
    let mut user = User::new("alice", home, true);
    user.follows_links = false;
    user.credential = Some(gridftp_dsi::Delegated::new(b"PEM"));
    Open {
        task: "7".into(),
        client: "[2001:db8::1]:40000".parse().unwrap(),
        user,
        limits: SessionLimits {
            connect_timeout: Duration::from_millis(1500),
            stall_timeout: Duration::from_secs(300),
            max_streams: 64,
        },
    }
}

fn ranges() -> RangeSet {
    format!("0-100,200-{}", u64::MAX).parse().unwrap()
}

fn path(text: &[u8]) -> FtpPath {
    FtpPath::new(text).unwrap()
}

/// The ways to protect data connections, with their identities.
fn protections() -> Vec<(DataProtection, DataIdentity)> {
    let credential = Some(Credential::new("PEM"));
    vec![
        (DataProtection::default(), DataIdentity::default()),
        (
            DataProtection::new(Dcau::None, Level::Private),
            DataIdentity::default(),
        ),
        (
            DataProtection::new(Dcau::Own, Level::Integrity),
            DataIdentity {
                credential: credential.clone(),
                own_authorities: true,
            },
        ),
        (
            DataProtection::new(Dcau::Subject("/O=Grid/CN=Bob".into()), Level::Private),
            DataIdentity {
                credential,
                own_authorities: false,
            },
        ),
    ]
}

pub(super) fn kinds() -> Vec<TransferKind> {
    let forms = [
        ListForm::Long,
        ListForm::Names {
            before: b"dir/".to_vec(),
        },
        ListForm::Facts {
            facts: FactSet::ALL,
            root: true,
        },
        ListForm::Tree {
            facts: FactSet::DEFAULT,
            follow: true,
            fail: false,
        },
    ];
    let mut kinds: Vec<_> = forms
        .into_iter()
        .map(|form| TransferKind::List {
            path: path(b"/dir"),
            form,
        })
        .collect();
    for (region, layout) in [
        (None, Layout::Partitioned),
        (Some((7, None)), Layout::Blocked(NonZero::<u64>::MIN)),
        (
            Some((0, Some(u64::MAX))),
            Layout::Blocked(NonZero::<u64>::MAX),
        ),
    ] {
        kinds.push(TransferKind::Retrieve {
            path: path(b"/caf\xc3\xa9 \xff"),
            region,
            held: ranges(),
            layout,
            stripe: 255,
            stripes: 256,
        });
    }
    kinds.push(TransferKind::Store {
        path: path(b"/up"),
        upload: vec![0, 1, 255],
        base: 9,
        held: ranges(),
        rules: StoreRules {
            durable: true,
            ..StoreRules::default()
        },
    });
    let checksum = RetrieveModule::Checksum {
        algorithm: "MD5".into(),
        offset: 3,
        length: Some(0),
    };
    for module in [RetrieveModule::Tar, checksum] {
        let path = path(b"/dir");
        kinds.push(TransferKind::RetrieveBy { path, module });
    }
    let digest = Some(("MD5".to_owned(), "00ff".to_owned()));
    for (into, checksum, proof) in [
        (Placement::Whole, None, digest.clone()),
        (Placement::At(u64::MAX), digest, None),
        (Placement::End, None, None),
    ] {
        kinds.push(TransferKind::Whole(Box::new(Whole {
            path: path(b"/up"),
            into,
            held: ranges(),
            size: Some(0),
            modified: None,
            rules: StoreRules {
                in_place: checksum.is_some(),
                durable: proof.is_some(),
                empty_unannounced: into == Placement::End,
            },
            checksum,
            proof,
        })));
    }
    kinds
}

fn requests() -> Vec<ToNode> {
    let mut requests = vec![
        ToNode::Stack(StackSide::Net, None),
        ToNode::Stack(StackSide::Disk, Some("file,rate:1M".into())),
        ToNode::Abort,
        ToNode::Publish,
        ToNode::EndData(None),
        ToNode::EndData(Some(Box::new(Told {
            digest: [8; 32],
            hints: vec![[9; 16]; 3],
        }))),
        ToNode::DropData,
        ToNode::Rate(None),
        ToNode::Rate(Some(NonZero::<u64>::MIN)),
        ToNode::Rate(Some(NonZero::<u64>::MAX)),
    ];
    for (index, (protection, identity)) in protections().into_iter().enumerate() {
        requests.push(ToNode::Listen(Box::new(Listen {
            family: [None, Some(Family::V4), Some(Family::V6), None][index],
            send_buffer: 1,
            receive_buffer: u64::MAX,
            peers: PeerRule::Among(vec!["192.0.2.0/24".into()]),
            protection: protection.clone(),
            identity: identity.clone(),
        })));
        requests.push(ToNode::Connect(Box::new(Connect {
            addresses: vec!["192.0.2.1:1025".parse().unwrap()],
            peers: [PeerRule::Own, PeerRule::Any][index % 2].clone(),
            protection: protection.clone(),
            identity: identity.clone(),
        })));
        for kind in kinds() {
            let mut channel = Channel::new([Mode::Stream, Mode::Extended][index % 2]);
            channel.ty = [Type::Image, Type::Ascii][index % 2];
            (channel.parallelism, channel.most_parallelism) = (16, 32);
            channel.send_buffer = 3;
            channel.receive_buffer = 4;
            let extent = [Extent::Head, Extent::Whole][index % 2];
            let part_of = [None, Some(0), Some(u64::MAX), None][index];
            requests.push(ToNode::Transfer(Box::new(Transfer {
                kind,
                channel,
                tag: (index > 0).then_some(NodeTag {
                    tag: Tag::new(u64::MAX, extent),
                    part_of,
                    asks: index == 2,
                }),
                perf_every: Some(Duration::from_secs(5)),
                restart_every: None,
                drains: index % 2 == 0,
            })));
        }
    }
    requests
}

/// Values of a part of a file, and bytes of a chunk of it.
fn known() -> Known {
    let mut part = Tree::of_part();
    part.insert(Piece::of(1 << 20, &[5; 5000]));
    part.take_known()
}

fn replies() -> Vec<FromNode> {
    let faults = [
        Fault::Node,
        Fault::Peer,
        Fault::Storage,
        Fault::Request,
        Fault::Aborted,
    ];
    let mut replies: Vec<_> = faults
        .into_iter()
        .map(|fault| {
            FromNode::Failed(Box::new(Failed {
                reply: Reply::coded(
                    ftp_wire::reply::Code::of::<426>(),
                    ["first", "data connection: reset by the peer"],
                ),
                fault,
            }))
        })
        .collect();
    replies.extend([
        FromNode::Done,
        FromNode::Listening("192.0.2.1:50000".parse().unwrap()),
        FromNode::Opened { reused: true },
        FromNode::Received(ranges()),
        FromNode::Received(RangeSet::new()),
        FromNode::Moved(u64::MAX),
        FromNode::Waiting,
        FromNode::Arrived,
        FromNode::Hashed(Box::new(known())),
        FromNode::Hashed(Box::default()),
        FromNode::Told(Box::new(Told {
            digest: [7; 32],
            hints: vec![[8; 16], [9; 16]],
        })),
        FromNode::Sent(u64::MAX),
        FromNode::Transferred(Box::new(Transferred {
            bytes: 1,
            ranges: ranges(),
            end: u64::MAX,
            ended_unmarked: true,
            connections: 4,
            digest: Some(("MD5".into(), "00ff".into())),
            proven: Some([3; 32]),
        })),
    ]);
    replies
}

#[test]
fn messages_are_read_as_they_were_written() {
    let sent = proto::ToNode::from(opening()).encode_to_vec();
    let received = proto::ToNode::decode(&*sent).unwrap();
    assert_eq!(open(received), Ok(opening()));
    for message in requests() {
        let sent = proto::ToNode::from(message.clone()).encode_to_vec();
        let received = proto::ToNode::decode(&*sent).unwrap();
        assert_eq!(request(received), Ok(Some(message)));
    }
    for message in replies() {
        let sent = proto::FromNode::from(message.clone()).encode_to_vec();
        let received = proto::FromNode::decode(&*sent).unwrap();
        assert_eq!(reply(received), Ok(Some(message)));
    }
}

#[test]
fn a_credential_is_in_no_log() {
    let opened = (format!("{:?}", opening()), proto::ToNode::from(opening()));
    let asked = requests().into_iter().map(|message| {
        let text = format!("{message:?}");
        (text, proto::ToNode::from(message))
    });
    for (message, wire) in asked.chain([opened]) {
        // As text, and as the list of its bytes.
        for text in [message, format!("{wire:?}")] {
            assert!(
                !text.contains("PEM") && !text.contains("80, 69, 77"),
                "{text}"
            );
        }
    }
}

#[test]
fn the_greatest_set_of_ranges_fits_in_a_message() {
    let end = u64::MAX - 4 * gridftp_dsi_rpc::MAX_RANGES as u64;
    let ranges = (0..gridftp_dsi_rpc::MAX_RANGES as u64)
        .filter_map(|index| byte_ranges::Range64::from_len(end + 4 * index, 2));
    let message = FromNode::Received(ranges.collect());
    let wire = proto::FromNode::from(message.clone());
    assert!(wire.encoded_len() <= MAX_MESSAGE, "{}", wire.encoded_len());
    assert_eq!(reply(wire), Ok(Some(message)));
}

/// A bound that only types with a secret that is overwritten when dropped meet.
#[test]
fn messages_with_secrets_overwrite_them() {
    const fn wiped<T: zeroize::ZeroizeOnDrop>() {}
    wiped::<proto::Open>();
    wiped::<proto::Protection>();
    wiped::<proto::JoinRequest>();
}

#[test]
fn facts_of_a_later_version_are_left_out() {
    let list = proto::ToNode::from(ToNode::Transfer(Box::new(Transfer {
        kind: TransferKind::List {
            path: path(b"/"),
            form: ListForm::Facts {
                facts: FactSet::NONE,
                root: false,
            },
        },
        channel: Channel::default(),
        perf_every: None,
        restart_every: None,
        drains: false,
        tag: None,
    })));
    let Some(to_node::Kind::Transfer(mut transfer)) = list.kind else {
        unreachable!()
    };
    let Some(transfer::Kind::List(listing)) = &mut transfer.kind else {
        unreachable!()
    };
    let Some(list::Form::Facts(form)) = &mut listing.form else {
        unreachable!()
    };
    form.facts = vec!["X.later".into(), "size".into()];
    let read = Transfer::try_from(transfer).unwrap();
    let TransferKind::List {
        form: ListForm::Facts { facts, .. },
        ..
    } = read.kind
    else {
        unreachable!()
    };
    assert_eq!(facts, FactSet::NONE.with(ftp_wire::facts::Fact::Size));
}

#[test]
fn a_session_opens_once() {
    let again = request(opening().into()).unwrap_err();
    assert_eq!(again.field, "open");
    let other = open(ToNode::DropData.into()).unwrap_err();
    assert_eq!(other.field, "open");
    let mut control = opening();
    control.task = "a\nb".into();
    assert_eq!(open(control.into()).unwrap_err().field, "task");
}

proptest! {
    #[test]
    fn no_bytes_cause_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(message) = proto::ToNode::decode(&*bytes) {
            let _ = open(message.clone());
            let _ = request(message);
        }
        if let Ok(message) = proto::FromNode::decode(&*bytes) {
            let _ = reply(message);
        }
    }

    #[test]
    fn no_change_of_a_byte_causes_a_panic(which in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), byte: u8) {
        let requests = requests();
        let mut bytes = proto::ToNode::from(which.get(&requests).clone()).encode_to_vec();
        *at.get_mut(&mut bytes) = byte;
        if let Ok(message) = proto::ToNode::decode(&*bytes) {
            let _ = request(message);
        }
    }
}

//! Malformed messages are refused, and the error names the field.

use ftp_proto::security::DataProtection;

use super::tests::kinds;
use super::*;
use crate::proto::{self, from_node, list, to_node, transfer};

/// The field at fault in a request after a change.
fn fault(message: &ToNode, change: impl FnOnce(&mut to_node::Kind)) -> Option<&'static str> {
    let mut wire = proto::ToNode::from(message.clone());
    change(wire.kind.as_mut().unwrap());
    request(wire).err().map(|malformed| malformed.field)
}

/// The field at fault in a transfer of this kind after a change.
fn transfer_fault(
    kind: &TransferKind,
    change: impl FnOnce(&mut proto::Transfer),
) -> Option<&'static str> {
    let message = ToNode::Transfer(Box::new(Transfer {
        kind: kind.clone(),
        channel: Channel::default(),
        perf_every: None,
        restart_every: None,
        drains: false,
        tag: None,
    }));
    fault(&message, |wire| match wire {
        to_node::Kind::Transfer(transfer) => change(transfer),
        _ => unreachable!(),
    })
}

#[test]
fn malformed_transfers_are_refused_by_field() {
    let kinds = kinds();
    let get = kinds
        .iter()
        .find(|kind| matches!(kind, TransferKind::Retrieve { .. }));
    let get = get.unwrap();
    assert_eq!(transfer_fault(get, |_| {}), None);
    for (streams, field) in [
        (0, Some("transfer.parallelism")),
        (1024, None),
        (1025, Some("transfer.parallelism")),
    ] {
        assert_eq!(
            transfer_fault(get, |wire| wire.parallelism = streams),
            field
        );
    }
    assert_eq!(
        transfer_fault(get, |wire| wire.most_parallelism = 1025),
        Some("transfer.most_parallelism")
    );
    assert_eq!(
        transfer_fault(get, |wire| wire.kind = None),
        Some("transfer.kind")
    );
    let with = |change: &dyn Fn(&mut proto::Retrieve)| {
        transfer_fault(get, |wire| match &mut wire.kind {
            Some(transfer::Kind::Retrieve(get)) => change(get),
            _ => unreachable!(),
        })
    };
    assert_eq!(with(&|get| get.stripe = 256), Some("retrieve.stripe"));
    assert_eq!(with(&|get| get.stripes = 257), Some("retrieve.stripe"));
    for path in [&b""[..], b"a\nb", &[b'x'; 65_537]] {
        assert_eq!(with(&|get| get.path = path.to_vec()), Some("path"));
    }
    for bounds in [
        vec![1],
        vec![2, 1],
        vec![1, 1],
        vec![1, 2, 2, 3],
        vec![0; 131_074],
    ] {
        let held = gridftp_dsi_rpc::proto::RangeList { bounds };
        assert_eq!(
            with(&|get| get.held = Some(held.clone())),
            Some("retrieve.held")
        );
    }
    let names = |wire: &mut proto::Transfer| {
        let list = proto::List {
            path: b"/".to_vec(),
            form: Some(list::Form::Facts(proto::FactForm {
                facts: vec!["Type".into(); 1025],
                root: false,
            })),
        };
        wire.kind = Some(transfer::Kind::List(list));
    };
    assert_eq!(transfer_fault(get, names), Some("list.facts"));
}

#[test]
fn malformed_protections_are_refused_by_field() {
    let connect = ToNode::Connect(Box::new(Connect {
        addresses: vec!["192.0.2.1:1025".parse().unwrap()],
        peers: PeerRule::Own,
        protection: DataProtection::default(),
        identity: DataIdentity::default(),
    }));
    let with = |change: &dyn Fn(&mut Option<proto::Protection>)| {
        fault(&connect, |wire| match wire {
            to_node::Kind::Connect(connect) => change(&mut connect.protection),
            _ => unreachable!(),
        })
    };
    assert_eq!(with(&|_| {}), None);
    assert_eq!(with(&|protection| *protection = None), Some("protection"));
    for level in [3, u32::MAX] {
        let change = |wire: &mut Option<proto::Protection>| wire.as_mut().unwrap().level = level;
        assert_eq!(with(&change), Some("protection.level"));
    }
    let long = |wire: &mut Option<proto::Protection>| {
        wire.as_mut().unwrap().credential = vec![0; 65_537];
    };
    assert_eq!(with(&long), Some("protection.credential"));
    let nobody = |wire: &mut Option<proto::Protection>| wire.as_mut().unwrap().authentication = 2;
    assert_eq!(with(&nobody), Some("protection.subject"));
}

#[test]
fn malformed_ends_are_refused_by_field() {
    let told = Some(proto::Told {
        digest: vec![0; 31],
        hints: Vec::new(),
    });
    let kind = Some(to_node::Kind::EndData(proto::EndData { told }));
    let error = request(proto::ToNode { kind }).unwrap_err();
    assert_eq!(error.field, "told.digest");
}

#[test]
fn malformed_replies_are_refused_by_field() {
    let failed = |code, lines: Vec<Vec<u8>>, fault| {
        from_node::Kind::Failed(proto::Failed { code, lines, fault })
    };
    let told = |digest, hints| {
        from_node::Kind::Told(proto::Told {
            digest: vec![0; digest],
            hints: vec![0; hints],
        })
    };
    for (kind, field) in [
        // A node does not turn a failure into a success.
        (failed(226, vec![], 0), "failed.code"),
        (failed(99, vec![], 0), "failed.code"),
        (failed(426, vec![], 9), "failed.fault"),
        (failed(426, vec![vec![b'x'; 65_537]], 0), "failed.lines"),
        (failed(426, vec![vec![]; 1025], 0), "failed.lines"),
        (
            from_node::Kind::Listening(proto::Listening {
                address: "front:21".into(),
            }),
            "listening.address",
        ),
        (from_node::Kind::Hashed(vec![11; 41]), "hashed"),
        (from_node::Kind::Hashed(vec![0; 41 * 1600]), "hashed"),
        (told(31, 0), "told.digest"),
        (told(32, 15), "told.hints"),
        (told(32, 16 * 2049), "told.hints"),
        (
            from_node::Kind::Transferred(proto::Transferred {
                proven: Some(vec![0; 33]),
                ..proto::Transferred::default()
            }),
            "transferred.proven",
        ),
    ] {
        let error = reply(proto::FromNode { kind: Some(kind) }).unwrap_err();
        assert_eq!(error.field, field);
    }
    assert!(reply(proto::FromNode { kind: None }).is_err());
}

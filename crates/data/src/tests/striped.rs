//! Tagged transfers over stripes: the hosts of the stripes hand on the values of their parts.

use std::num::NonZero;

use byte_ranges::{Layout, Stripe};
use ftp_wire::command::Tag;
use ftp_wire::receipt::Extent;

use super::*;
use crate::ErrorKind;

/// Bytes of a file, no multiple of a block.
const LEN: usize = 3_000_005;

const TAG: Tag = Tag::new(1, Extent::Whole);

/// The watches of two hosts with a part each, and that of all parts.
fn watches() -> ([Watch; 2], Watch) {
    let (parts, whole) = ([Watch::new(), Watch::new()], Watch::new());
    let from = whole.prove_parts(TAG, 0, 0);
    parts.iter().for_each(|part| part.hand_on(from));
    (parts, whole)
}

/// Joins the parts; gives the digests that the senders told.
fn join(parts: &[Watch; 2], whole: &Watch) -> [bool; 2] {
    parts.each_ref().map(|part| {
        whole.moved(part.bytes());
        while let known = part.take_known()
            && !known.is_empty()
        {
            whole.add_known(known);
        }
        let told = part.take_told();
        let is_told = told.is_some();
        told.into_iter().for_each(|told| whole.note_told(told));
        is_told
    })
}

#[tokio::test]
async fn an_upload_to_two_hosts_has_the_digest_that_the_first_is_told() {
    for len in [5, LEN] {
        let (mut one, mut two) = (channel(), channel());
        let mut to = Vec::new();
        for receiver in [&mut one, &mut two] {
            to.push(receiver.listen(&tcp(), &here(), Peers::Any).await.unwrap());
        }
        let mut from = channel();
        from.connect_to(tcp(), to);
        let content = bytes(len);
        let plan = whole(Mode::Extended, len as u64)
            .parallelism(2)
            .tag(Some(TAG));
        let (sending, (parts, all)) = (Watch::new(), watches());
        let (sink, taken) = (Kept::default(), incoming(Mode::Extended).tag(Some(TAG)));
        let source = Disk::new(&content);
        tokio::try_join!(
            from.send(&source, &plan, &sending),
            one.receive(&sink, &taken, &parts[0]),
            two.receive(&sink, &taken, &parts[1]),
        )
        .unwrap();
        assert!(sink.data() == content);
        assert_eq!(join(&parts, &all), [true, false]);
        let receipt = all.receipt();
        assert_eq!(receipt, sending.receipt());
        let digest = Some(blake3::hash(&content).into());
        assert_eq!(receipt.unwrap().blake3, digest);
        all.compare().unwrap();
        // One more byte than the sender has.
        all.moved(1);
        all.add_known({
            let part = Watch::new();
            part.hand_on(0);
            part.prove(Some(TAG), 0, 0);
            part.show(len as u64, b"x");
            part.take_known()
        });
        assert_eq!(all.compare().unwrap_err().kind(), ErrorKind::Corrupt);
    }
}

#[tokio::test]
async fn a_download_from_two_hosts_has_the_same_receipt_at_both_ends() {
    for layout in [
        Layout::Partitioned,
        Layout::Blocked(NonZero::new(10_000).unwrap()),
    ] {
        let mut to = channel();
        let address = to.listen(&tcp(), &here(), Peers::Any).await.unwrap();
        let (content, (parts, all)) = (bytes(LEN), watches());
        let source = Disk::new(&content);
        let mut senders = [channel(), channel()];
        for sender in &mut senders {
            sender.connect_to(tcp(), vec![address]);
        }
        let [one, two] = &mut senders;
        let plan = |stripe| {
            let plan = whole(Mode::Extended, LEN as u64).tag(Some(TAG));
            plan.stripe(Stripe::new(layout, stripe, 2))
        };
        let (sink, receiving) = (Kept::default(), Watch::new());
        let taken = incoming(Mode::Extended).stripes(NonZero::new(2));
        let taken = taken.tag(Some(TAG));
        let plans = [plan(0), plan(1)];
        tokio::try_join!(
            one.send(&source, &plans[0], &parts[0]),
            two.send(&source, &plans[1], &parts[1]),
            to.receive(&sink, &taken, &receiving),
        )
        .unwrap();
        assert!(sink.data() == content);
        // No host knows the digest of the whole.
        assert_eq!(
            (join(&parts, &all), receiving.told_digest()),
            ([false; 2], None)
        );
        assert_eq!(all.receipt(), receiving.receipt());
        let digest = Some(blake3::hash(&content).into());
        assert_eq!(all.receipt().unwrap().blake3, digest);
    }
}

#[tokio::test]
async fn the_host_that_ends_last_tells_the_receiver_the_digest_of_all() {
    // The second host has no bytes of a short file; a byte that nobody has leaves no digest.
    for (len, missing) in [(5, 0), (LEN, 0), (LEN, 1)] {
        let mut to = channel();
        let address = to.listen(&tcp(), &here(), Peers::Any).await.unwrap();
        let (content, (parts, all)) = (bytes(len), watches());
        parts.iter().for_each(Watch::ask_before_end);
        let source = Disk::new(&content);
        let mut senders = [channel(), channel()];
        for sender in &mut senders {
            sender.connect_to(tcp(), vec![address]);
        }
        let [one, two] = &mut senders;
        let layout = Layout::Blocked(NonZero::new(10_000).unwrap());
        let plan = |stripe| {
            let plan = whole(Mode::Extended, len as u64).tag(Some(TAG));
            plan.stripe(Stripe::new(layout, stripe, 2))
        };
        let (sink, receiving) = (Kept::default(), Watch::new());
        let taken = incoming(Mode::Extended).stripes(NonZero::new(2));
        let taken = taken.tag(Some(TAG));
        let plans = [plan(0), plan(1)];
        let joins = async {
            parts[1].stripe_sent().await;
            parts[1].end_stripe(None);
            parts[0].stripe_sent().await;
            join(&parts, &all);
            all.moved(missing);
            parts[0].end_stripe(all.joined());
            Ok(())
        };
        let moved = tokio::try_join!(
            one.send(&source, &plans[0], &parts[0]),
            two.send(&source, &plans[1], &parts[1]),
            to.receive(&sink, &taken, &receiving),
            joins,
        );
        moved.unwrap();
        let digest = blake3::hash(&content).to_string();
        let told = (missing == 0).then_some(digest);
        assert_eq!(receiving.told_digest(), told);
        assert!(sink.data() == content);
    }
}

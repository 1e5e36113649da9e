//! Messages to libudt and back, in order.

use std::time::Duration;

use xio_core::{Target, Transport as _};
use xio_testkit::Random;
use xio_udp::Udp;
use xio_udt::{MessageOptions, Udt, UdtOptions};

use crate::peer::{finish, program, start};
use crate::relay::Relay;

#[test]
fn messages_are_echoed_unchanged() {
    let Some(program) = program("udt: messages with libudt") else {
        return;
    };
    for loss in [0, 10] {
        let peer = start(program, &["listen", "echo", "1400"]);
        let relay = Relay::start(loss, 7);
        relay.set_far(peer.addr());
        let options: UdtOptions = "mss=1400".parse().unwrap();
        let udt = Udt::over(Udp::default()).with_options(options).messages();
        crate::block_on(async {
            let talk = async {
                let mut handle = udt.connect(&Target::from(relay.near)).await.unwrap();
                let mut random = Random::new(loss);
                let in_order = MessageOptions::default().with_order(true);
                for size in [1, 1356, 1357, 40_000, 3, 300_000, 1355, 2 * 1356] {
                    let message = random.bytes(size);
                    handle.send(&message, in_order).await.unwrap();
                    let mut back = vec![0; size + 1];
                    let len = handle.receive(&mut back).await.unwrap();
                    assert_eq!(len, Some(size));
                    assert!(
                        back[..size] == message,
                        "a message of {size} bytes was changed"
                    );
                }
                handle.shutdown().await.unwrap();
                tokio::task::spawn_blocking(move || finish(peer))
                    .await
                    .unwrap();
            };
            let ended = tokio::time::timeout(Duration::from_secs(60), talk).await;
            assert!(ended.is_ok(), "no end with {loss} lost of 1000");
        });
    }
}

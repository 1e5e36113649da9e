//! A session over a connection in memory, to a server that has one reply for each verb.

use ftp_proto::client::Settings;
use gridftp_data::Options;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use super::*;
use crate::played;

/// The reply to `PASV` of a server that listens at this port of the loopback address.
pub(crate) fn passive(port: u16) -> String {
    format!("227 here (127,0,0,1,{},{})", port >> 8, port & 0xff)
}

/// Gives a session, and its server, which returns the received commands when the session ends.
pub(crate) async fn session(
    replies: Vec<(&'static str, String)>,
) -> (Client, impl Future<Output = Vec<String>>) {
    let (control, mut banner, far) = played::connect(Settings::default());
    let (far, mut out) = tokio::io::split(far);
    out.write_all(b"220 ready\r\n").await.unwrap();
    banner.finish().await.unwrap();
    let options = Arc::new(ConnectOptions::default());
    let client = Client {
        control,
        channel: Exclusive(Mutex::new(DataChannel::new(Options::default(), pool()))),
        stack: stacks::of_data(&options).unwrap(),
        link: Box::default(),
        guard: Guard::of(&Site::new("server", 1), &options, None).unwrap(),
        options,
        abilities: Abilities::default(),
        state: ChannelState::default(),
        observer: Arc::new(Silent),
    };
    let server = async move {
        let mut lines = BufReader::new(far).lines();
        let mut received = Vec::new();
        while let Some(line) = lines.next_line().await.unwrap() {
            let verb = line.split(' ').next().unwrap();
            let reply = replies.iter().find(|(known, _)| *known == verb);
            let reply = reply.map_or("500 what", |(_, reply)| reply);
            out.write_all(format!("{reply}\r\n").as_bytes())
                .await
                .unwrap();
            let is_last = verb == "QUIT";
            received.push(line);
            if is_last {
                break;
            }
        }
        received
    };
    (client, server)
}

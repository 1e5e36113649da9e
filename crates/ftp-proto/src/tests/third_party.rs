//! Third-party transfers: two pairs and one script, without sockets.

use ftp_wire::command::Mode;

use super::pair::Pair;
use super::{HOST, path};
use crate::client::script::{
    Channel, Get, Put, Side, ThirdParty, ThirdPartyError, ThirdStep, Transferred,
};
use crate::client::{Capabilities, FailureKind};
use crate::types::What;

struct Servers {
    source: Pair,
    destination: Pair,
    caps: [Capabilities; 2],
    sent: Vec<String>,
}

impl Servers {
    fn new() -> Self {
        let (mut source, mut destination) = (Pair::new(1000), Pair::new(1000));
        let caps = [source.log_in(), destination.log_in()];
        Self {
            source,
            destination,
            caps,
            sent: Vec::new(),
        }
    }

    fn script(&self, mode: Mode, get: &Get, put: &Put, channels: [Channel; 2]) -> ThirdParty {
        let source = (HOST, channels[0], &self.caps[0], get);
        let destination = (HOST, channels[1], &self.caps[1], put);
        ThirdParty::new(mode, 4, source, destination).unwrap()
    }

    fn pair(&mut self, side: Side) -> &mut Pair {
        match side {
            Side::Source => &mut self.source,
            Side::Destination => &mut self.destination,
        }
    }

    fn run(&mut self, mut script: ThirdParty) -> Result<Transferred, ThirdPartyError> {
        for _ in 0..1000 {
            match script.step() {
                ThirdStep::Send(side, command) => {
                    self.sent.push(format!("{side}: {command}"));
                    if command == ftp_wire::command::Command::Abor {
                        let now = self.pair(side).now;
                        self.pair(side).client.abort(now).unwrap();
                    } else {
                        self.pair(side).send(&command);
                    }
                }
                ThirdStep::Wait => {
                    let mut progress = false;
                    for side in [Side::Source, Side::Destination] {
                        self.pair(side).settle();
                        if let Some((_, reply)) = self.pair(side).replies.pop_front() {
                            script.reply(side, &reply);
                            progress = true;
                            break;
                        }
                    }
                    assert!(progress, "both wait for ever: {:#?}", self.sent);
                }
                ThirdStep::Done(result) => return result,
            }
        }
        panic!("the script does not end: {:#?}", self.sent);
    }
}

#[test]
fn the_destination_listens_and_the_source_connects() {
    for mode in [Mode::Stream, Mode::Extended] {
        let mut servers = Servers::new();
        let mut put = Put::new(path("/copy"));
        put.size = Some(5);
        let script = servers.script(mode, &Get::new(path("/f")), &put, Default::default());
        servers.run(script).unwrap();
        let at = |line: &str| {
            let found = servers.sent.iter().position(|sent| sent == line);
            found.unwrap_or_else(|| panic!("{line} is missing in {:#?}", servers.sent))
        };
        assert!(at("destination: PASV") < at("source: PORT 127,0,0,1,195,80"));
        assert!(at("destination: ALLO 5") < at("destination: STOR /copy"));
        at("source: RETR /f");
        assert!(servers.destination.tree.objects.contains_key("/copy"));
    }
}

#[test]
fn connections_serve_the_next_file_again() {
    let mut servers = Servers::new();
    let (get, put) = (Get::new(path("/f")), Put::new(path("/one")));
    let script = servers.script(Mode::Extended, &get, &put, Default::default());
    let done = servers.run(script).unwrap();
    servers.sent.clear();
    let put = Put::new(path("/two"));
    let channels = [done.source, done.destination];
    let script = servers.script(Mode::Extended, &get, &put, channels);
    servers.run(script.reusing_connections()).unwrap();
    assert_eq!(servers.sent, ["destination: STOR /two", "source: RETR /f"]);
}

#[test]
fn a_part_is_cut_by_the_source_and_placed_by_the_destination() {
    let mut servers = Servers::new();
    let mut get = Get::new(path("/f"));
    (get.offset, get.length) = (1, Some(3));
    let mut put = Put::new(path("/f2"));
    put.offset = Some(100);
    let script = servers.script(Mode::Extended, &get, &put, Default::default());
    servers.run(script).unwrap();
    assert!(servers.sent.contains(&"source: ERET P 1 3 /f".to_owned()));
    assert!(
        servers
            .sent
            .contains(&"destination: ESTO A 100 /f2".to_owned())
    );
    assert!(matches!(
        servers.source.tree.transfers[0],
        What::Retrieve { .. }
    ));
}

#[test]
fn when_one_side_fails_the_other_is_aborted_and_its_words_are_kept() {
    let mut servers = Servers::new();
    servers.destination.hold_transfers = true;
    let get = Get::new(path("/missing"));
    let script = servers.script(
        Mode::Stream,
        &get,
        &Put::new(path("/x")),
        Default::default(),
    );
    let error = servers.run(script).unwrap_err();
    assert!(
        servers.sent.contains(&"destination: ABOR".to_owned()),
        "{:#?}",
        servers.sent
    );
    let text = error.to_string();
    assert!(
        text.starts_with("source: server: RETR: 550 No such file"),
        "{text}"
    );
    assert!(text.contains("destination: server: STOR: 426"), "{text}");
    let crate::client::script::ScriptError::Refused(failure) = &error.errors[0].1 else {
        panic!()
    };
    assert_eq!(failure.kind, FailureKind::NotFound);
}

#[test]
fn a_lost_connection_aborts_the_other_side() {
    let mut servers = Servers::new();
    servers.destination.hold_transfers = true;
    servers.source.hold_transfers = true;
    let get = Get::new(path("/f"));
    let mut script = servers.script(
        Mode::Stream,
        &get,
        &Put::new(path("/x")),
        Default::default(),
    );
    // Run until the transfer commands are under way, then lose the source.
    let mut stored = false;
    while !stored {
        match script.step() {
            ThirdStep::Send(side, command) => {
                stored = command.verb() == "STOR";
                servers.pair(side).send(&command);
            }
            ThirdStep::Wait => {
                for side in [Side::Source, Side::Destination] {
                    servers.pair(side).settle();
                    while let Some((_, reply)) = servers.pair(side).replies.pop_front() {
                        script.reply(side, &reply);
                    }
                }
            }
            ThirdStep::Done(result) => panic!("{result:?}"),
        }
    }
    servers.destination.settle();
    script.lost(Side::Source);
    let error = servers.run(script).unwrap_err();
    assert_eq!(error.lost, [Side::Source]);
    assert!(
        error.to_string().contains("source: connection lost"),
        "{error}"
    );
}

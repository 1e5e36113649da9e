//! Drivers of every kind on each other, and the errors where they do not fit.

use std::future::Future;
use std::io::{self, IoSliceMut};
use std::task::{Context, Poll};

use super::*;
use crate::{Bind, Datagram, Info, Received, Setting, Target, Transmit, Transport};

/// A socket that nothing ever comes out of.
struct Silent;

impl Datagram for Silent {
    fn describe(&self, info: &mut Info) {
        info.layer("silent");
    }

    fn poll_send(&self, _: &mut Context<'_>, _: &Transmit<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_recv(
        &self,
        _: &mut Context<'_>,
        _: &mut [IoSliceMut<'_>],
        _: &mut [Option<Received>],
    ) -> Poll<io::Result<usize>> {
        Poll::Pending
    }
}

struct Udp;

impl Bind for Udp {
    type Socket = Silent;

    async fn bind(&self, _: &Target) -> Result<Silent> {
        Ok(Silent)
    }
}

/// Options of every key and value.
#[derive(Debug, Clone, Default, PartialEq)]
struct Anything;

impl Options for Anything {
    const OPTIONS: &'static [Opt] = &[];

    fn update(&mut self, _: &Entry) -> Result<()> {
        Ok(())
    }

    fn value(&self, _: &str) -> Option<String> {
        None
    }
}

impl std::str::FromStr for Anything {
    type Err = Error;

    fn from_str(_: &str) -> Result<Self> {
        Ok(Self)
    }
}

impl fmt::Display for Anything {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}

/// A transport with its name in its errors, for stacks that are only built.
struct Named(&'static str);

impl Transport for Named {
    type Handle = crate::BoxStream;

    async fn connect(&self, _: &Target) -> Result<crate::BoxStream> {
        Err(Error::new(
            ErrorKind::Refused,
            self.0,
            Operation::Connect,
            "never",
        ))
    }
}

fn registry() -> Registry {
    let mut registry = Registry::new();
    registry
        .register(Driver::base("tcp", "", |_: Anything, entry| {
            Ok(DynStack::active(Named("tcp"), &entry.to_string()))
        }))
        .register(Driver::socket("udp", "", |_: Anything, entry| {
            Ok(DynBind::new(Udp, &entry.to_string()))
        }))
        .register(Driver::over_socket(
            "udt",
            "",
            |_: Anything, entry, below| {
                let text = format!("{},{entry}", below.text());
                Ok(DynStack::active(Named("udt"), &text))
            },
        ))
        .register(Driver::over("mode_e", "", |_: Anything, entry, below| {
            let text = format!("{},{entry}", below.text());
            Ok(DynStack::active(Named("mode_e"), &text))
        }));
    registry
}

#[test]
fn a_driver_that_brings_its_socket_may_stand_at_the_bottom() {
    let mut registry = registry();
    let udp = registry.get("udp").unwrap().clone();
    let udt = Driver::over_socket("udt", "", |_: Anything, entry, below| {
        Ok(DynStack::active(Named("udt"), &below.under(entry)))
    });
    assert!(!udt.is_base());
    let udt = udt.brings(udp);
    assert!(udt.is_base());
    registry.register(udt);
    // A smaller registry that names the upper driver alone still builds it.
    for registry in [registry.clone(), registry.restrict(&["udt", "mode_e"])] {
        for text in ["udt", "udt:a=b%2C", "udt,mode_e"] {
            assert_eq!(registry.stack(text).unwrap().text(), text);
        }
    }
    assert_eq!(registry.stack("udp:a=b,udt").unwrap().text(), "udp:a=b,udt");
    let error = registry.restrict(&["udt"]).stack("udp,udt").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownDriver);
    let error = registry.stack("tcp,udt").unwrap_err().to_string();
    assert!(
        error.contains("needs a datagram socket below it"),
        "{error}"
    );
}

fn refused(text: &str) -> String {
    registry().stack(text).unwrap_err().to_string()
}

#[test]
fn drivers_of_every_kind_fit() {
    for text in [
        "tcp",
        "udp,udt",
        "tcp,mode_e",
        "udp,udt,mode_e",
        "udp:a=b%2C,udt",
    ] {
        assert_eq!(registry().stack(text).unwrap().text(), text);
    }
}

#[test]
fn misfits_are_explained() {
    assert_eq!(
        refused("tcp,udt"),
        "tcp,udt: plan: `udt` needs a datagram socket below it, but `tcp` yields a byte stream"
    );
    assert_eq!(
        refused("udp,mode_e"),
        "udp,mode_e: plan: `mode_e` needs a byte stream below it, but `udp` yields a datagram socket"
    );
    assert_eq!(
        refused("udp"),
        "udp: plan: `udp` yields a datagram socket; a layer that makes a byte stream of it must follow"
    );
    assert_eq!(
        refused("tcp,udp"),
        "tcp,udp: plan: `udp` stands at the bottom of a stack, not on `tcp`"
    );
    assert_eq!(
        refused("udt"),
        "udt: plan: `udt` needs a driver below it, such as `tcp`"
    );
}

#[test]
fn an_erased_socket_is_the_socket() {
    let bind = DynBind::new(Udp, "udp");
    let target = Target::host("127.0.0.1", 0);
    let mut opening = Box::pin(bind.bind(&target));
    let mut cx = Context::from_waker(std::task::Waker::noop());
    let Poll::Ready(Ok(socket)) = opening.as_mut().poll(&mut cx) else {
        panic!("it is ready at once");
    };
    assert_eq!(socket.info().to_string(), "silent");
    assert_eq!(socket.max_batch(), 1);
    assert!(socket.poll_send(&mut cx, &Transmit::new(b"x")).is_ready());
}

#[test]
fn local_options_are_refused_to_peers() {
    crate::options! {
        /// Options of which one names a port of this machine.
        struct Ported for "tcp" {
            /// Port to listen at.
            port: u16 = 0, "port", Setting::new().local();
            /// Size of something.
            size: u32 = 0, "size";
        }
    }
    let mut registry = Registry::new();
    registry.register(Driver::base("tcp", "", |_: Ported, entry| {
        Ok(DynStack::active(Named("tcp"), &entry.to_string()))
    }));
    let text = "tcp:port=5;size=7";
    assert_eq!(registry.stack(text).unwrap().text(), text);
    let told = registry.for_peer(&text.parse().unwrap()).unwrap();
    assert_eq!(told.to_string(), "tcp:size=7");
    let restricted = registry.restrict(&["tcp"]);
    assert_eq!(
        restricted.stack(text).unwrap_err().to_string(),
        "tcp: plan: option port is this end's own business; leave it out"
    );
    assert!(restricted.stack("tcp:size=7").is_ok());
}

#[test]
fn options_that_are_fixed_go_with_every_stack_and_cannot_be_changed() {
    let mut registry = registry();
    registry.fix("tcp:a=1;b=2".parse().unwrap());
    assert_eq!(registry.stack("tcp:c=3").unwrap().text(), "tcp:a=1;b=2;c=3");
    assert_eq!(
        registry.stack("tcp:b=3").unwrap_err().to_string(),
        "tcp: plan: option b is fixed here; leave it out"
    );
}

#[test]
fn a_socket_that_is_brought_along_has_the_fixed_options_too() {
    let mut registry = registry();
    let udp = Driver::socket("udp", "", |_: Anything, entry| {
        Err(Error::new(
            ErrorKind::Io,
            "udp",
            Operation::Plan,
            entry.to_string(),
        ))
    });
    let udt = registry.get("udt").unwrap().clone().brings(udp);
    registry.register(udt);
    registry.fix("udp:iface=1".parse().unwrap());
    let error = registry.stack("udt").unwrap_err();
    assert_eq!(error.fact(), "udp:iface=1");
}

#[test]
fn a_peer_puts_no_layer_on_itself() {
    let text = "tcp,mode_e,mode_e";
    assert!(registry().stack(text).is_ok());
    let error = registry().restrict(&["tcp", "mode_e"]).stack(text);
    assert_eq!(
        error.unwrap_err().to_string(),
        "tcp,mode_e,mode_e: plan: `mode_e` stands in a stack once"
    );
}

//! `Registry`: names to drivers, and stack strings to stacks; `restrict` for strings from a peer.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::erased::{DynBind, DynLayer, DynStack};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::options::Options;
use crate::plan::{Entry, Opt, Plan};

type Make<T> = Arc<dyn Fn(&Entry) -> Result<T> + Send + Sync>;
type MakeOver<B, T> = Arc<dyn Fn(&Entry, B) -> Result<T> + Send + Sync>;

/// The layer below that a driver needs, and the one that it yields above.
#[derive(Clone)]
enum Kind {
    /// Bottom of a stack: yields a byte stream.
    Base(Make<DynStack>),
    /// Bottom of a stack: yields a datagram socket.
    Socket(Make<DynBind>),
    /// Byte stream on byte stream.
    Layer(Make<DynLayer>),
    /// Transport over a transport: opens its own handles below.
    Over(MakeOver<DynStack, DynStack>),
    /// Byte streams over a datagram socket.
    OverSocket(MakeOver<DynBind, DynStack>),
}

/// A driver as a registry knows it: name, options and how to make one.
#[derive(Clone)]
pub struct Driver {
    name: &'static str,
    about: &'static str,
    options: &'static [Opt],
    kind: Kind,
    /// The socket below it where a stack begins with it.
    brings: Option<Arc<Self>>,
    /// Whether strings from a peer must never name it.
    private: bool,
}

impl Driver {
    fn new(name: &'static str, about: &'static str, options: &'static [Opt], kind: Kind) -> Self {
        Self {
            name,
            about,
            options,
            kind,
            brings: None,
            private: false,
        }
    }

    /// A driver at the bottom of a stack that yields byte streams.
    pub fn base<O: Options>(
        name: &'static str,
        about: &'static str,
        make: impl Fn(O, &Entry) -> Result<DynStack> + Send + Sync + 'static,
    ) -> Self {
        let make = Arc::new(move |entry: &Entry| make(O::from_entry(entry)?, entry));
        Self::new(name, about, O::OPTIONS, Kind::Base(make))
    }

    /// A driver at the bottom of a stack that yields datagram sockets.
    pub fn socket<O: Options>(
        name: &'static str,
        about: &'static str,
        make: impl Fn(O, &Entry) -> Result<DynBind> + Send + Sync + 'static,
    ) -> Self {
        let make = Arc::new(move |entry: &Entry| make(O::from_entry(entry)?, entry));
        Self::new(name, about, O::OPTIONS, Kind::Socket(make))
    }

    /// A layer: byte stream on byte stream.
    pub fn layer<O: Options>(
        name: &'static str,
        about: &'static str,
        make: impl Fn(O, &Entry) -> Result<DynLayer> + Send + Sync + 'static,
    ) -> Self {
        let make = Arc::new(move |entry: &Entry| make(O::from_entry(entry)?, entry));
        Self::new(name, about, O::OPTIONS, Kind::Layer(make))
    }

    /// A transport over the stack below, which opens its own handles there.
    pub fn over<O: Options>(
        name: &'static str,
        about: &'static str,
        make: impl Fn(O, &Entry, DynStack) -> Result<DynStack> + Send + Sync + 'static,
    ) -> Self {
        let make = Arc::new(move |entry: &Entry, below| make(O::from_entry(entry)?, entry, below));
        Self::new(name, about, O::OPTIONS, Kind::Over(make))
    }

    /// A transport that makes byte streams over a datagram socket.
    pub fn over_socket<O: Options>(
        name: &'static str,
        about: &'static str,
        make: impl Fn(O, &Entry, DynBind) -> Result<DynStack> + Send + Sync + 'static,
    ) -> Self {
        let make = Arc::new(move |entry: &Entry, below| make(O::from_entry(entry)?, entry, below));
        Self::new(name, about, O::OPTIONS, Kind::OverSocket(make))
    }

    /// Lets a stack begin with it: `socket`, without options, is then its bottom.
    #[must_use]
    pub fn brings(mut self, socket: Self) -> Self {
        self.brings = Some(Arc::new(socket));
        self
    }

    /// Keeps it out of every [restricted](Registry::restrict) registry, since no peer may ask for
    /// its service, such as running programs.
    #[must_use]
    pub const fn private(mut self) -> Self {
        self.private = true;
        self
    }

    /// Its name in a stack string.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// A description in one sentence.
    #[must_use]
    pub fn about(&self) -> &'static str {
        self.about
    }

    /// The options it accepts.
    #[must_use]
    pub fn options(&self) -> &'static [Opt] {
        self.options
    }

    /// Whether a stack can begin with it.
    #[must_use]
    pub fn is_base(&self) -> bool {
        matches!(self.kind, Kind::Base(_) | Kind::Socket(_)) || self.brings.is_some()
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The part of a stack that is built, from the bottom.
enum Built {
    Nothing,
    Stream(DynStack),
    Socket(DynBind),
}

/// The drivers that stack strings may name.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    drivers: BTreeMap<&'static str, Driver>,
    /// Options that this end sets, by driver.
    fixed: BTreeMap<String, Entry>,
    /// Whether strings come from peers, which may not set options that are local to this machine.
    for_peers: bool,
}

impl Registry {
    /// A registry without drivers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a driver; one of the same name is replaced.
    pub fn register(&mut self, driver: Driver) -> &mut Self {
        self.drivers.insert(driver.name, driver);
        self
    }

    /// A registry of the drivers in `allowed` that this one holds, for a peer's strings.
    ///
    /// Its strings may not set options that name something of this machine ([`Opt::local`]) nor put
    /// a layer on itself, and a [private](Driver::private) driver is never among them.
    #[must_use]
    pub fn restrict<S: AsRef<str>>(&self, allowed: &[S]) -> Self {
        let mut smaller = self.clone();
        smaller
            .drivers
            .retain(|name, driver| !driver.private && allowed.iter().any(|a| a.as_ref() == *name));
        smaller.for_peers = true;
        smaller
    }

    /// Sets the options of `entry` for its driver in every stack made here, and refuses strings
    /// that set one of them.
    pub fn fix(&mut self, entry: Entry) -> &mut Self {
        self.fixed.insert(entry.driver().to_owned(), entry);
        self
    }

    /// The plan in the form for the other end: without options that name something of this machine.
    ///
    /// # Errors
    /// [`UnknownDriver`](ErrorKind::UnknownDriver).
    pub fn for_peer(&self, plan: &Plan) -> Result<Plan> {
        for entry in plan.entries() {
            self.get(entry.driver())
                .ok_or_else(|| self.unknown(entry.driver()))?;
        }
        Ok(plan.without(|entry, key| {
            let options = self
                .get(entry.driver())
                .map_or(&[][..], |driver| driver.options);
            options.iter().any(|opt| opt.local && opt.name == key)
        }))
    }

    /// The drivers, by name.
    pub fn drivers(&self) -> impl Iterator<Item = &Driver> {
        self.drivers.values()
    }

    /// The driver of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Driver> {
        self.drivers.get(name)
    }

    /// Makes the stack that a string describes, bottom first: `tcp:nodelay=1;sndbuf=4M,count`.
    ///
    /// # Errors
    /// [`BadPlan`](ErrorKind::BadPlan), [`UnknownDriver`](ErrorKind::UnknownDriver) or
    /// [`BadOption`](ErrorKind::BadOption); each names the accepted values.
    pub fn stack(&self, text: &str) -> Result<DynStack> {
        self.build(&text.parse()?)
    }

    /// Makes the stack of a plan.
    ///
    /// # Errors
    /// As [`stack`](Self::stack).
    pub fn build(&self, plan: &Plan) -> Result<DynStack> {
        let mut built = Built::Nothing;
        let mut below = "";
        for (at, entry) in plan.entries().iter().enumerate() {
            let driver = self
                .get(entry.driver())
                .ok_or_else(|| self.unknown(entry.driver()))?;
            let misplaced = |why: &str| {
                let fact = format!("`{}` {}", driver.name, why.replace("{below}", below));
                Error::new(ErrorKind::BadPlan, plan.to_string(), Operation::Plan, fact)
            };
            if self.for_peers {
                entry.is_from_peer(driver.options)?;
                let mut before = plan.entries().iter().take(at);
                // Layers of one kind multiply their cost, in connections as in memory.
                if !driver.is_base() && before.any(|one| one.driver() == driver.name) {
                    return Err(misplaced("stands in a stack once"));
                }
            }
            built = self
                .place(driver, entry, built)
                .map_err(|misfit| match misfit {
                    Misfit::Made(error) => error,
                    Misfit::Order(why) => misplaced(why),
                })?;
            below = driver.name;
        }
        match built {
            Built::Stream(stack) => Ok(stack),
            Built::Socket(_) | Built::Nothing => Err(Error::new(
                ErrorKind::BadPlan,
                plan.to_string(),
                Operation::Plan,
                format!(
                    "`{below}` yields a datagram socket; a layer that makes a byte stream of it must follow"
                ),
            )),
        }
    }

    /// Puts one driver on the stack below it.
    fn place(
        &self,
        driver: &Driver,
        entry: &Entry,
        below: Built,
    ) -> std::result::Result<Built, Misfit> {
        let fixed = self.fixed.get(driver.name);
        let fixed = fixed.map(|fixed| entry.with_fixed(fixed)).transpose()?;
        let entry = fixed.as_ref().unwrap_or(entry);
        let below = match (below, &driver.brings) {
            (Built::Nothing, Some(socket)) => {
                let plain = Entry::new(socket.name)?;
                match self.place(socket, &plain, Built::Nothing)? {
                    Built::Socket(socket) => Built::Socket(socket.unsaid()),
                    other => other,
                }
            }
            (below, _) => below,
        };
        Ok(match (&driver.kind, below) {
            (Kind::Base(make), Built::Nothing) => Built::Stream(make(entry)?),
            (Kind::Socket(make), Built::Nothing) => Built::Socket(make(entry)?),
            (Kind::Base(_) | Kind::Socket(_), _) => {
                return Err(Misfit::Order(
                    "stands at the bottom of a stack, not on `{below}`",
                ));
            }
            (Kind::Layer(make), Built::Stream(stack)) => {
                Built::Stream(stack.layer(make(entry)?, entry))
            }
            (Kind::Over(make), Built::Stream(stack)) => Built::Stream(make(entry, stack)?),
            (Kind::OverSocket(make), Built::Socket(socket)) => Built::Stream(make(entry, socket)?),
            (_, Built::Nothing) => {
                return Err(Misfit::Order("needs a driver below it, such as `tcp`"));
            }
            (Kind::Layer(_) | Kind::Over(_), Built::Socket(_)) => {
                return Err(Misfit::Order(
                    "needs a byte stream below it, but `{below}` yields a datagram socket",
                ));
            }
            (Kind::OverSocket(_), Built::Stream(_)) => {
                return Err(Misfit::Order(
                    "needs a datagram socket below it, but `{below}` yields a byte stream",
                ));
            }
        })
    }

    fn unknown(&self, name: &str) -> Error {
        let known: Vec<_> = self.drivers.keys().copied().collect();
        let known = if known.is_empty() {
            "none".to_owned()
        } else {
            known.join(", ")
        };
        Error::new(
            ErrorKind::UnknownDriver,
            "stack",
            Operation::Plan,
            format!("no driver `{name}`; available drivers: {known}"),
        )
    }
}

enum Misfit {
    Made(Error),
    Order(&'static str),
}

impl From<Error> for Misfit {
    fn from(error: Error) -> Self {
        Self::Made(error)
    }
}

#[cfg(test)]
mod tests;

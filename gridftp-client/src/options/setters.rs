//! Setters of the options, one for each field, to be chained.

use std::net::IpAddr;
use std::num::NonZero;
use std::path::PathBuf;
use std::time::Duration;

use ftp_wire::command::Mode;

use super::{
    Choice, ConnectOptions, CopyOptions, Family, GridOptions, Identity, Layout, Level, Links,
    Manner, PortRange, Proxies, RateLimit, Relay, Resume, Roots, Security, Verify,
};

impl ConnectOptions {
    /// Sets [`mode`](field@Self::mode).
    #[must_use]
    pub fn mode(mut self, mode: impl Into<Option<Mode>>) -> Self {
        self.mode = mode.into();
        self
    }

    /// Sets [`connect_within`](field@Self::connect_within).
    #[must_use]
    pub fn connect_within(mut self, connect_within: Duration) -> Self {
        self.connect_within = connect_within;
        self
    }

    /// Sets [`reply_within`](field@Self::reply_within).
    #[must_use]
    pub fn reply_within(mut self, reply_within: Duration) -> Self {
        self.reply_within = reply_within;
        self
    }

    /// Sets [`stall`](field@Self::stall).
    #[must_use]
    pub fn stall(mut self, stall: Duration) -> Self {
        self.stall = stall;
        self
    }

    /// Sets [`reach_within`](field@Self::reach_within).
    #[must_use]
    pub fn reach_within(mut self, reach_within: Duration) -> Self {
        self.reach_within = reach_within;
        self
    }

    /// Sets [`tcp_buffer`](field@Self::tcp_buffer).
    #[must_use]
    pub fn tcp_buffer(mut self, tcp_buffer: impl Into<Option<u64>>) -> Self {
        self.tcp_buffer = tcp_buffer.into();
        self
    }

    /// Sets [`block_size`](field@Self::block_size).
    #[must_use]
    pub fn block_size(mut self, block_size: impl Into<Option<u64>>) -> Self {
        self.block_size = block_size.into();
        self
    }

    /// Sets [`stack`](field@Self::stack).
    #[must_use]
    pub fn stack(mut self, stack: impl Into<String>) -> Self {
        self.stack = stack.into();
        self
    }

    /// Sets [`disk_stack`](field@Self::disk_stack).
    #[must_use]
    pub fn disk_stack(mut self, disk_stack: impl Into<Option<String>>) -> Self {
        self.disk_stack = disk_stack.into();
        self
    }

    /// Sets [`trust_pasv`](field@Self::trust_pasv).
    #[must_use]
    pub fn trust_pasv(mut self, trust_pasv: bool) -> Self {
        self.trust_pasv = trust_pasv;
        self
    }

    /// Sets [`anonymous_password`](field@Self::anonymous_password).
    #[must_use]
    pub fn anonymous_password(mut self, anonymous_password: impl Into<String>) -> Self {
        self.anonymous_password = anonymous_password.into();
        self
    }

    /// Sets [`remote_program`](field@Self::remote_program).
    #[must_use]
    pub fn remote_program(mut self, remote_program: impl Into<Option<String>>) -> Self {
        self.remote_program = remote_program.into();
        self
    }

    /// Sets [`security`](field@Self::security).
    #[must_use]
    pub fn security(mut self, security: Security) -> Self {
        self.security = security;
        self
    }

    /// Sets [`protect`](field@Self::protect).
    #[must_use]
    pub fn protect(mut self, protect: impl Into<Option<Level>>) -> Self {
        self.protect = protect.into();
        self
    }

    /// Sets [`roots`](field@Self::roots).
    #[must_use]
    pub fn roots(mut self, roots: Roots) -> Self {
        self.roots = roots;
        self
    }

    /// Sets [`identity`](field@Self::identity).
    #[must_use]
    pub fn identity(mut self, identity: impl Into<Option<Identity>>) -> Self {
        self.identity = identity.into();
        self
    }

    /// Sets [`grid`](field@Self::grid).
    #[must_use]
    pub fn grid(mut self, grid: GridOptions) -> Self {
        self.grid = grid;
        self
    }

    /// Sets [`family`](field@Self::family).
    #[must_use]
    pub fn family(mut self, family: impl Into<Option<Family>>) -> Self {
        self.family = family.into();
        self
    }

    /// Sets [`proxies`](field@Self::proxies).
    #[must_use]
    pub fn proxies(mut self, proxies: Proxies) -> Self {
        self.proxies = proxies;
        self
    }

    /// Sets [`data_ports`](field@Self::data_ports).
    #[must_use]
    pub fn data_ports(mut self, data_ports: impl Into<Option<PortRange>>) -> Self {
        self.data_ports = data_ports.into();
        self
    }

    /// Sets [`source_ports`](field@Self::source_ports).
    #[must_use]
    pub fn source_ports(mut self, source_ports: impl Into<Option<PortRange>>) -> Self {
        self.source_ports = source_ports.into();
        self
    }

    /// Sets [`data_address`](field@Self::data_address).
    #[must_use]
    pub fn data_address(mut self, data_address: impl Into<Option<IpAddr>>) -> Self {
        self.data_address = data_address.into();
        self
    }

    /// Sets [`rate_limit`](field@Self::rate_limit).
    #[must_use]
    pub fn rate_limit(mut self, rate_limit: impl Into<Option<RateLimit>>) -> Self {
        self.rate_limit = rate_limit.into();
        self
    }
}

impl CopyOptions {
    /// Sets [`connect`](field@Self::connect).
    #[must_use]
    pub fn connect(mut self, connect: ConnectOptions) -> Self {
        self.connect = connect;
        self
    }

    /// Sets [`parallel`](field@Self::parallel).
    #[must_use]
    pub fn parallel(mut self, parallel: impl Into<Option<u32>>) -> Self {
        self.parallel = parallel.into();
        self
    }

    /// Sets [`max_parallel`](field@Self::max_parallel).
    #[must_use]
    pub fn max_parallel(mut self, max_parallel: impl Into<Option<NonZero<u32>>>) -> Self {
        self.max_parallel = max_parallel.into();
        self
    }

    /// Sets [`stripes`](field@Self::stripes).
    #[must_use]
    pub fn stripes(mut self, stripes: impl Into<Option<NonZero<u32>>>) -> Self {
        self.stripes = stripes.into();
        self
    }

    /// Sets [`stripe_layout`](field@Self::stripe_layout).
    #[must_use]
    pub fn stripe_layout(mut self, stripe_layout: impl Into<Option<Layout>>) -> Self {
        self.stripe_layout = stripe_layout.into();
        self
    }

    /// Sets [`concurrency`](field@Self::concurrency).
    #[must_use]
    pub fn concurrency(mut self, concurrency: impl Into<Option<u32>>) -> Self {
        self.concurrency = concurrency.into();
        self
    }

    /// Sets [`max_concurrency`](field@Self::max_concurrency).
    #[must_use]
    pub fn max_concurrency(mut self, max_concurrency: impl Into<Option<NonZero<u32>>>) -> Self {
        self.max_concurrency = max_concurrency.into();
        self
    }

    /// Sets [`recursive`](field@Self::recursive).
    #[must_use]
    pub fn recursive(mut self, recursive: bool) -> Self {
        self.recursive = recursive;
        self
    }

    /// Sets [`choice`](field@Self::choice).
    #[must_use]
    pub fn choice(mut self, choice: Choice) -> Self {
        self.choice = choice;
        self
    }

    /// Sets [`manner`](field@Self::manner).
    #[must_use]
    pub fn manner(mut self, manner: Manner) -> Self {
        self.manner = manner;
        self
    }

    /// Sets [`offset`](field@Self::offset).
    #[must_use]
    pub fn offset(mut self, offset: impl Into<Option<u64>>) -> Self {
        self.offset = offset.into();
        self
    }

    /// Sets [`length`](field@Self::length).
    #[must_use]
    pub fn length(mut self, length: impl Into<Option<u64>>) -> Self {
        self.length = length.into();
        self
    }

    /// Sets [`verify`](field@Self::verify).
    #[must_use]
    pub fn verify(mut self, verify: Verify) -> Self {
        self.verify = verify;
        self
    }

    /// Sets [`relay`](field@Self::relay).
    #[must_use]
    pub fn relay(mut self, relay: Relay) -> Self {
        self.relay = relay;
        self
    }

    /// Sets [`resume`](field@Self::resume).
    #[must_use]
    pub fn resume(mut self, resume: Resume) -> Self {
        self.resume = resume;
        self
    }

    /// Sets [`notes`](field@Self::notes).
    #[must_use]
    pub fn notes(mut self, notes: impl Into<Option<PathBuf>>) -> Self {
        self.notes = notes.into();
        self
    }

    /// Sets [`retries`](field@Self::retries).
    #[must_use]
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Sets [`retry_for`](field@Self::retry_for).
    #[must_use]
    pub fn retry_for(mut self, retry_for: Duration) -> Self {
        self.retry_for = retry_for;
        self
    }

    /// Sets [`backoff`](field@Self::backoff).
    #[must_use]
    pub fn backoff(mut self, backoff: Duration) -> Self {
        self.backoff = backoff;
        self
    }

    /// Sets [`no_clobber`](field@Self::no_clobber).
    #[must_use]
    pub fn no_clobber(mut self, no_clobber: bool) -> Self {
        self.no_clobber = no_clobber;
        self
    }

    /// Sets [`preserve`](field@Self::preserve).
    #[must_use]
    pub fn preserve(mut self, preserve: bool) -> Self {
        self.preserve = preserve;
        self
    }

    /// Sets [`xattrs`](field@Self::xattrs).
    #[must_use]
    pub fn xattrs(mut self, xattrs: bool) -> Self {
        self.xattrs = xattrs;
        self
    }

    /// Sets [`sync_writes`](field@Self::sync_writes).
    #[must_use]
    pub fn sync_writes(mut self, sync_writes: bool) -> Self {
        self.sync_writes = sync_writes;
        self
    }

    /// Sets [`sparse`](field@Self::sparse).
    #[must_use]
    pub fn sparse(mut self, sparse: bool) -> Self {
        self.sparse = sparse;
        self
    }

    /// Sets [`dry_run`](field@Self::dry_run).
    #[must_use]
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    /// Sets [`fail_fast`](field@Self::fail_fast).
    #[must_use]
    pub fn fail_fast(mut self, fail_fast: bool) -> Self {
        self.fail_fast = fail_fast;
        self
    }

    /// Sets [`links`](field@Self::links).
    #[must_use]
    pub fn links(mut self, links: Links) -> Self {
        self.links = links;
        self
    }

    /// Sets [`polite`](field@Self::polite).
    #[must_use]
    pub fn polite(mut self, polite: bool) -> Self {
        self.polite = polite;
        self
    }

    /// Sets [`over_udt`](field@Self::over_udt).
    #[must_use]
    pub fn over_udt(mut self, over_udt: bool) -> Self {
        self.over_udt = over_udt;
        self
    }

    /// Sets [`memory`](field@Self::memory).
    #[must_use]
    pub fn memory(mut self, memory: impl Into<Option<PathBuf>>) -> Self {
        self.memory = memory.into();
        self
    }

    /// Sets [`explain`](field@Self::explain).
    #[must_use]
    pub fn explain(mut self, explain: bool) -> Self {
        self.explain = explain;
        self
    }
}

#[cfg(test)]
mod tests {
    const SETTERS: &str = include_str!("setters.rs");
    const OPTIONS: &str = include_str!("../options.rs");
    const CHOICE: &str = include_str!("../choice.rs");
    const MANNER: &str = include_str!("../manner.rs");
    const GRID: &str = include_str!("../grid.rs");
    const READER: &str = include_str!("../file/reader.rs");
    const WRITER: &str = include_str!("../file/writer.rs");

    /// The text of an item from its first line to its closing brace.
    fn item<'a>(source: &'a str, first: &str) -> &'a str {
        let (_, rest) = source.split_once(first).unwrap();
        rest.split_once("\n}\n").unwrap().0
    }

    #[test]
    fn each_public_field_has_a_setter_of_its_name() {
        for (name, source, setters) in [
            ("ConnectOptions", OPTIONS, SETTERS),
            ("CopyOptions", OPTIONS, SETTERS),
            ("Choice", CHOICE, CHOICE),
            ("Manner", MANNER, MANNER),
            ("GridOptions", GRID, GRID),
            ("ReadOptions", READER, READER),
            ("WriteOptions", WRITER, WRITER),
        ] {
            let fields = item(source, &format!("pub struct {name} {{\n"));
            let setters = item(setters, &format!("\nimpl {name} {{\n"));
            let names = fields.lines().filter_map(|line| {
                let (name, _) = line.strip_prefix("    pub ")?.split_once(':')?;
                Some(name)
            });
            let mut known = 0;
            for field in names {
                let sets = format!("        self.{field} = {field}");
                let found = setters.matches(&format!("pub fn {field}(mut self")).count();
                assert_eq!(found, 1, "{name}::{field}");
                assert!(setters.contains(&sets), "{name}::{field}");
                known += 1;
            }
            assert!(known > 2, "{name}: {known} fields");
        }
    }
}

//! `GridftpOptions`: which part of a remote file is opened for what, and how its bytes travel.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use ftp_wire::command::Mode;
use gridftp_client::ConnectOptions;
use xio::file::Flags;
use xio::{BadValue, ByteSize, Entry, Error, Opt, OptionText, Plan, Result, Value, seconds};

pub(crate) const OPTIONS: &[Opt] = &[
    Opt::new("append", "yes or no", "the same as flags=a"),
    Opt::new(
        "connect_timeout",
        "seconds",
        "longest wait for a connection, and for the login",
    ),
    Opt::new(
        "disk_stack",
        "a stack, as file%2Ccompress",
        "what the server reads and writes the file through",
    ),
    Opt::new(
        "eret",
        "name=\"arguments\"",
        "module of the server that what is read goes through",
    ),
    Opt::new(
        "esto",
        "name=\"arguments\"",
        "module of the server that what is written goes through",
    ),
    Opt::new(
        "flags",
        "one of r r+ w w+ a",
        "what the file is opened for, as fopen has it",
    ),
    Opt::new("mode", "S or E", "transmission mode of the data"),
    Opt::new("netrc", "a path", "file that holds the accounts of servers").local(),
    Opt::new("offset", "bytes, as 1M", "where reading and writing begin"),
    Opt::new(
        "stack",
        "a stack, as udt%2Ccompress",
        "what both ends put under the data",
    ),
    Opt::new(
        "stall",
        "seconds",
        "longest time in which a transfer may move nothing",
    ),
    Opt::new(
        "streams",
        "a number, 1 to 64",
        "data connections, with mode=E",
    ),
    Opt::new(
        "tcpbuffer",
        "bytes, as 4M",
        "TCP buffer of data connections, at both ends",
    ),
    Opt::new("user", "a name", "account on the server"),
];

/// How a remote file is opened. The string form and this struct meet in `FromStr` and `Display`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GridftpOptions {
    /// What it is opened for; reading by default. [`Flags::ReadAppend`] is refused.
    pub flags: Flags,
    /// Where reading and writing begin, in bytes from the start; 0 by default.
    pub offset: u64,
    /// Transmission mode: MODE S by default, or MODE E.
    pub mode: Mode,
    /// Data connections in MODE E; 1 by default.
    pub streams: u32,
    /// TCP buffer of data connections at both ends; by default the kernels choose.
    pub tcpbuffer: Option<ByteSize>,
    /// Stack of data connections, bottom first; `tcp` by default.
    pub stack: String,
    /// Stack that the server puts over its file; none by default.
    pub disk_stack: Option<String>,
    /// Module of the server that what is read goes through, `name="arguments"`.
    pub eret: Option<String>,
    /// Module of the server that what is written goes through, `name="arguments"`.
    pub esto: Option<String>,
    /// Account, where the target names none; `anonymous` by default.
    pub user: Option<String>,
    /// File with accounts and passwords in the form of `.netrc`.
    pub netrc: Option<PathBuf>,
    /// Longest wait for a connection, and for the login to end; 30 s by default.
    pub connect_timeout: Duration,
    /// Longest time in which a transfer may move nothing; 120 s by default.
    pub stall: Duration,
}

impl Default for GridftpOptions {
    fn default() -> Self {
        let plain = ConnectOptions::default();
        Self {
            flags: Flags::Read,
            offset: 0,
            mode: Mode::Stream,
            streams: 1,
            tcpbuffer: None,
            stack: plain.stack,
            disk_stack: None,
            eret: None,
            esto: None,
            user: None,
            netrc: None,
            connect_timeout: plain.connect_within,
            stall: plain.stall,
        }
    }
}

impl GridftpOptions {
    /// Reads the options of one entry of a stack string.
    ///
    /// # Errors
    /// An option that is unknown or whose value is not accepted.
    pub fn from_entry(entry: &Entry) -> Result<Self> {
        let mut options = Self::default();
        entry.apply(OPTIONS, &mut options, Self::set)?;
        Ok(options)
    }

    fn set(&mut self, key: &str, value: Value<'_>) -> Result<(), BadValue> {
        match key {
            "append" => {
                if value.bool()? {
                    self.flags = Flags::Append;
                }
            }
            "connect_timeout" => self.connect_timeout = some_time(value)?,
            "disk_stack" => self.disk_stack = Some(stack(value)?),
            "eret" => self.eret = Some(word(value)?),
            "esto" => self.esto = Some(word(value)?),
            "flags" => match value.parse()? {
                Flags::ReadAppend => return Err(BadValue),
                flags => self.flags = flags,
            },
            "mode" => {
                self.mode = match value.text() {
                    "S" | "s" => Mode::Stream,
                    "E" | "e" => Mode::Extended,
                    _ => return Err(BadValue),
                }
            }
            "netrc" => self.netrc = Some(word(value)?.into()),
            "offset" => self.offset = value.size()?.bytes(),
            "stack" => self.stack = stack(value)?,
            "stall" => self.stall = some_time(value)?,
            "streams" => {
                self.streams = value.parse()?;
                if !(1..=64).contains(&self.streams) {
                    return Err(BadValue);
                }
            }
            "tcpbuffer" => self.tcpbuffer = Some(value.size()?),
            "user" => self.user = Some(word(value)?),
            _ => return Err(BadValue),
        }
        Ok(())
    }

    /// What the client library is to be told.
    pub(crate) fn connect_options(&self) -> ConnectOptions {
        let mut options = ConnectOptions::default();
        options.mode = Some(self.mode);
        options.connect_within = self.connect_timeout;
        options.stall = self.stall;
        options.reach_within = self.connect_timeout;
        options.tcp_buffer = self.tcpbuffer.map(ByteSize::bytes);
        options.stack.clone_from(&self.stack);
        options.disk_stack.clone_from(&self.disk_stack);
        options.anonymous_password = "xio@".to_owned();
        options
    }
}

fn some_time(value: Value<'_>) -> Result<Duration, BadValue> {
    let time = value.seconds()?;
    if time.is_zero() {
        return Err(BadValue);
    }
    Ok(time)
}

fn word(value: Value<'_>) -> Result<String, BadValue> {
    let text = value.text();
    if text.is_empty() || text.contains(char::is_control) {
        return Err(BadValue);
    }
    Ok(text.to_owned())
}

fn stack(value: Value<'_>) -> Result<String, BadValue> {
    let plan: Plan = value.text().parse().map_err(|_| BadValue)?;
    Ok(plan.to_string())
}

impl FromStr for GridftpOptions {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::from_entry(&Entry::new(crate::LAYER)?.with_options(text)?)
    }
}

impl fmt::Display for GridftpOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = Self::default();
        let time = |own: Duration, usual: Duration| (own != usual).then(|| seconds(own));
        OptionText::new()
            .add(
                "connect_timeout",
                time(self.connect_timeout, plain.connect_timeout),
            )
            .add("disk_stack", self.disk_stack.as_ref())
            .add("eret", self.eret.as_ref())
            .add("esto", self.esto.as_ref())
            .add("flags", (self.flags != plain.flags).then_some(self.flags))
            .add("mode", (self.mode == Mode::Extended).then_some('E'))
            .add("netrc", self.netrc.as_ref().map(|path| path.display()))
            .add("offset", (self.offset > 0).then_some(self.offset))
            .add("stack", (self.stack != plain.stack).then_some(&self.stack))
            .add("stall", time(self.stall, plain.stall))
            .add(
                "streams",
                (self.streams != plain.streams).then_some(self.streams),
            )
            .add("tcpbuffer", self.tcpbuffer.map(ByteSize::bytes))
            .add("user", self.user.as_ref())
            .fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::option::of;
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::*;

    proptest! {
        #[test]
        fn display_round_trips(
            flags in 0..5_usize, extended in any::<bool>(), offset in any::<u64>(),
            streams in 1..=64_u32, buffer in of(any::<u64>()), eret in of("[ -~]{1,20}"),
            esto in of("[ -~]{1,20}"), user in of("[ -~]{1,20}"), times in (1..1000_u64, 1..1000_u64),
            layers in 0..3_usize,
        ) {
            let flags = ["r", "r+", "w", "w+", "a"][flags].parse().unwrap();
            let stacks = ["tcp", "udt,compress:codec=zlib;level=3", "tcp:nodelay=0"];
            let options = GridftpOptions {
                flags, offset, streams, eret, esto, user,
                mode: if extended { Mode::Extended } else { Mode::Stream },
                tcpbuffer: buffer.map(ByteSize::new),
                stack: stacks[layers].to_owned(),
                disk_stack: (layers > 1).then(|| "file,compress".to_owned()),
                netrc: extended.then(|| "/home/me, too/.netrc".into()),
                connect_timeout: Duration::from_millis(times.0 * 250),
                stall: Duration::from_secs(times.1),
            };
            prop_assert_eq!(options.to_string().parse::<GridftpOptions>().unwrap(), options);
        }
    }

    #[test]
    fn bad_values_are_refused() {
        for bad in [
            "flags=a+",
            "flags=rw",
            "mode=B",
            "streams=0",
            "streams=65",
            "offset=-1",
            "stack=,",
            "eret=",
            "stall=0",
            "connect_timeout=x",
            "password=secret",
            "dcau=N",
        ] {
            assert!(bad.parse::<GridftpOptions>().is_err(), "{bad}");
        }
        let options: GridftpOptions = "append=yes;mode=e".parse().unwrap();
        assert_eq!(
            (options.flags, options.mode),
            (Flags::Append, Mode::Extended)
        );
        assert_eq!(options.to_string(), "flags=a;mode=E");
    }
}

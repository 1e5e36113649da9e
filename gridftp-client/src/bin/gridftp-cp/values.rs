//! The values of the flags that take one of some words.

use clap::ValueEnum;
use ftp_wire::command::Mode;
use gridftp_client::options::{Links, Relay};

/// `--mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModeFlag {
    /// MODE S: one connection a file.
    Stream,
    /// MODE E: any number of connections, kept from file to file.
    Extended,
}

/// `--relay`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum RelayFlag {
    /// Where the servers refuse connections to each other, or cannot protect them and both protect
    /// those to this machine alike.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never: a refusal is the failure.
    Never,
}

/// `--links`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LinksFlag {
    /// Their targets are copied.
    Follow,
    /// They become links.
    Copy,
    /// They are left out.
    Skip,
}

/// `--stripe-layout`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LayoutFlag {
    /// Blocks in turn.
    Blocked,
    /// One contiguous part each.
    Partitioned,
}

impl From<ModeFlag> for Mode {
    fn from(flag: ModeFlag) -> Self {
        match flag {
            ModeFlag::Stream => Self::Stream,
            ModeFlag::Extended => Self::Extended,
        }
    }
}

impl From<RelayFlag> for Relay {
    fn from(flag: RelayFlag) -> Self {
        match flag {
            RelayFlag::Auto => Self::Auto,
            RelayFlag::Always => Self::Always,
            RelayFlag::Never => Self::Never,
        }
    }
}

impl From<LinksFlag> for Links {
    fn from(flag: LinksFlag) -> Self {
        match flag {
            LinksFlag::Follow => Self::Follow,
            LinksFlag::Copy => Self::Copy,
            LinksFlag::Skip => Self::Skip,
        }
    }
}

//! `Link`: two network namespaces with an emulated link between them.
//!
//! It needs root. Programs run in a namespace by `ip netns exec`. Dropping the value removes the
//! namespaces.

use std::net::IpAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use workspace_tests::Place;

use crate::shape::Shape;
use crate::star::{Ray, Star};

const MTU: u16 = 1500;

/// An emulated link between a near and a far namespace.
#[derive(Debug)]
pub struct Link {
    near: Place,
    far: Place,
    _star: Star,
}

impl Link {
    /// Creates the link, with the same shape in both directions.
    pub fn new(shape: Shape) -> Result<Self> {
        let ray = |name: &str| Ray {
            name: name.to_owned(),
            up: shape,
            down: Shape::new(0, Duration::ZERO),
        };
        let star = Star::new(MTU, &[ray("near"), ray("far")])?;
        Ok(Self {
            near: star.place(0)?,
            far: star.place(1)?,
            _star: star,
        })
    }

    /// Returns a command that runs `program` at the near end.
    pub fn near(&self, program: &Path) -> Command {
        self.near.command(program)
    }

    /// Returns a command that runs `program` at the far end.
    pub fn far(&self, program: &Path) -> Command {
        self.far.command(program)
    }

    /// Returns the address of the far end.
    pub fn far_addr(&self) -> IpAddr {
        self.far.ip
    }
}

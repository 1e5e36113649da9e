//! The server over real sockets: one server per test, stopped by drop.

mod control;
mod data;
mod login;
mod mode_e;
mod process;
mod restart;
mod support;
mod tree;

//! Grid security between our programs and the Globus ones: every protection of both channels.

mod bed;
mod client;
mod ends;
mod hosts;
mod matrix;
mod refused;
mod refusing;
mod voms;

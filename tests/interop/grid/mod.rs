//! Grid security between our programs and the Globus ones: every protection of both channels.

mod bed;
mod ends;
mod matrix;
mod refused;

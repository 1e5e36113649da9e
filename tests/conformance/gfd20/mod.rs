//! GFD.20 and GFD.47: GridFTP, as its servers and clients speak it; files are named after what they ask for.

mod commands;
mod markers;
mod mode_e;
mod regions;
mod stripes;

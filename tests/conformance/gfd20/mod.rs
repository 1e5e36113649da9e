//! GFD.20 and GFD.47: GridFTP as its servers and clients use it, one file for each subject.

mod commands;
mod markers;
mod mode_e;
mod regions;
mod stripes;

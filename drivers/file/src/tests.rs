//! The file driver against real files.

//! Suites of the server that pass over every storage.

#[path = "../server/data.rs"]
pub(crate) mod data;
#[path = "../server/exclusive.rs"]
pub(crate) mod exclusive;
#[path = "../server/mode_e.rs"]
pub(crate) mod mode_e;
#[path = "../server/modules.rs"]
pub(crate) mod modules;
#[path = "../server/names.rs"]
pub(crate) mod names;
#[path = "../server/restart.rs"]
pub(crate) mod restart;
#[path = "../server/support.rs"]
pub(crate) mod support;
#[path = "../server/tagged.rs"]
pub(crate) mod tagged;
#[path = "../server/tree.rs"]
pub(crate) mod tree;

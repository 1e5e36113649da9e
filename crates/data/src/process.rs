//! Limits of the process that the programs set when they start.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Forbids core dumps, which would hold keys and passwords; `prlimit --core` allows them again.
pub fn forbid_core_dumps() {
    let limit = Rlimit {
        current: Some(0),
        ..getrlimit(Resource::Core)
    };
    // Lowering a limit is always allowed.
    let _ = setrlimit(Resource::Core, limit);
}

/// Raises the limit of open descriptors as far as allowed; returns it, unless there is none.
pub fn raise_descriptors() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    }
}

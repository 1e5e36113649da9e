//! The options that a reload cannot change.

use super::Config;

impl Config {
    /// Returns the options with other values in `new` that need a restart.
    pub fn needs_restart(&self, new: &Self) -> Vec<&'static str> {
        // Destructured without `..`, so that a new option is handled here or left to the policy.
        macro_rules! changed {
            ($($name:literal $option:ident),*) => {{
                let Self { policy: _, front: _, $($option),* } = self;
                let options = [$(($name, *$option != new.$option)),*];
                options.into_iter().filter_map(|(name, differs)| differs.then_some(name)).collect()
            }};
        }
        changed! {
            "bind and port" listen, "tls-port" listen_tls, "root and storage" storages, "block-size" block_size,
            "part-memory" part_memory,
            "in-place" in_place, "sync-writes" sync_writes, "partial-expiry" partial_expiry,
            "data-ports" data_ports, "net-stacks" net_stacks,
            "disk-stacks" disk_stacks, "advertise" advertise, "third-party" third_party,
            "drain-timeout" drain_timeout, "log-format" log_format, "log-level" log_level
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, Options};

    #[test]
    fn only_options_that_need_a_restart_are_named() {
        let mut options = Options::default();
        let running = Config::check(&options).unwrap();
        // A default given explicitly is no change.
        options.port = Some(2811);
        options.max_sessions = Some(5);
        let new = Config::check(&options).unwrap();
        assert!(running.needs_restart(&new).is_empty());
        options.port = Some(2812);
        options.drain_timeout = Some(1);
        let new = Config::check(&options).unwrap();
        assert_eq!(
            running.needs_restart(&new),
            ["bind and port", "drain-timeout"]
        );
    }
}

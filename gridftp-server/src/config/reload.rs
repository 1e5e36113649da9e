//! The options that a reload cannot change.

use super::Config;

impl Config {
    /// Returns the options with other values in `new` that need a restart.
    pub fn needs_restart(&self, new: &Self) -> Vec<&'static str> {
        // Destructured without `..`, so that a new option is handled here or left to the policy.
        let Self {
            listen,
            root,
            backend,
            block_size,
            in_place,
            sync_writes,
            partial_expiry,
            partial_index,
            data_ports,
            net_stacks,
            disk_stacks,
            advertise,
            third_party,
            drain_timeout,
            log_format,
            log_level,
            policy: _,
        } = self;
        [
            ("bind and port", *listen != new.listen),
            ("root", *root != new.root),
            ("backend", *backend != new.backend),
            ("block-size", *block_size != new.block_size),
            ("in-place", *in_place != new.in_place),
            ("sync-writes", *sync_writes != new.sync_writes),
            ("partial-expiry", *partial_expiry != new.partial_expiry),
            ("partial-index", *partial_index != new.partial_index),
            ("data-ports", *data_ports != new.data_ports),
            ("net-stacks", *net_stacks != new.net_stacks),
            ("disk-stacks", *disk_stacks != new.disk_stacks),
            ("advertise", *advertise != new.advertise),
            ("third-party", *third_party != new.third_party),
            ("drain-timeout", *drain_timeout != new.drain_timeout),
            ("log-format", *log_format != new.log_format),
            ("log-level", *log_level != new.log_level),
        ]
        .into_iter()
        .filter_map(|(option, differs)| differs.then_some(option))
        .collect()
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

//! Temporary trees, peers and servers for the suites; one server per test on port 0, stopped by drop.

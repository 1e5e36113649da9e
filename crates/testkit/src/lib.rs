//! Doubles and conformance suites for drivers and storage backends.

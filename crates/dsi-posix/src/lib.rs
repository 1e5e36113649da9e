//! A directory tree behind the storage interface, confined beneath one descriptor.

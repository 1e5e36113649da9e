//! Counts the bytes and calls that pass through a stack.

//! Logs what passes through a stack, without its contents.

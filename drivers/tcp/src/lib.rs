//! TCP: the bottom of most stacks.

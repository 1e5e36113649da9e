//! Traits and stacks: transports and transforms that compose, in types and from strings.

//! Every interleaving.

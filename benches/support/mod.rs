//! What the benches share: link emulator, tables and peers.

//! Extended-block framing (MODE E) and its end-of-data bookkeeping, without I/O.

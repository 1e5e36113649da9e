//! Moves one file or listing over the data channels of one transfer, for both ends.

//! GridFTP client: library and the gridftp-cp program.

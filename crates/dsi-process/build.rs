//! Generates the messages and the client of `proto/storage.proto`, without `protoc`.
#![forbid(unsafe_code)]

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = "proto/storage.proto";
    println!("cargo:rerun-if-changed={file}");
    let descriptors = protox::compile([file], ["proto"])?;
    tonic_prost_build::configure()
        // The connections are made here, not by tonic.
        .build_transport(false)
        .build_server(false)
        .compile_fds(descriptors)?;
    Ok(())
}

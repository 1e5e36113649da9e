//! Generates the messages, the client and the server of `proto/storage.proto`, without `protoc`.
#![forbid(unsafe_code)]

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = "proto/storage.proto";
    println!("cargo:rerun-if-changed={file}");
    let descriptors = protox::compile([file], ["proto"])?;
    tonic_prost_build::configure()
        // The connections are made elsewhere, not by tonic.
        .build_transport(false)
        // Blocks of files are not copied.
        .bytes(".gridftp.storage.v1.Block")
        .bytes(".gridftp.storage.v1.WriteRequest")
        .compile_fds(descriptors)?;
    Ok(())
}

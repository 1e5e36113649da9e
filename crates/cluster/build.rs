//! Generates the messages, clients and servers of `proto/cluster.proto`, without `protoc`.
#![forbid(unsafe_code)]

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = "proto/cluster.proto";
    println!("cargo:rerun-if-changed={file}");
    println!("cargo:rerun-if-changed=proto/storage.proto");
    let descriptors = protox::compile([file], ["proto"])?;
    tonic_prost_build::configure()
        // The connections are made here, not by tonic.
        .build_transport(false)
        .extern_path(".gridftp.storage.v1", "::gridftp_dsi_rpc::proto")
        // It holds a delegated credential, or a secret to join.
        .skip_debug(["Open", "Protection", "JoinRequest"])
        .compile_fds(descriptors)?;
    Ok(())
}

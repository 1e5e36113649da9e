//! The host's own credential is lent to nobody: sessions in clear, and users who delegate nothing.

use gridftp_server::config::Access;
use gsi::exchange::Delegation;
use xio::gsi::Level;

use crate::grid_support::{Lab, clear, drive, open, taken};

#[test]
fn a_session_in_clear_has_no_data_of_grid_security() {
    let lab = Lab::new();
    let server = lab.serve(|o| o.anonymous = Some(Access::Ro));
    drive(async {
        let mut ftp = clear(server.address).await;
        ftp.ok("USER ftp", 331).await;
        ftp.ok("PASS x", 230).await;
        let features = ftp.ok("FEAT", 211).await;
        assert!(!features.contains("DC"), "{features}");
        for (line, code) in [
            ("DCAU A", 504),
            ("DCAU S /O=Grid/OU=Lab/CN=Alice Lab", 504),
            ("DCSC P QUJD", 502),
            ("PROT P", 536),
        ] {
            ftp.ok(line, code).await;
        }
    });
}

#[test]
fn without_delegation_data_goes_to_the_own_host_only() {
    let lab = Lab::new();
    let server = lab.serve(|_| ());
    drive(async {
        for (delegation, code) in [(Delegation::None, 550), (Delegation::Limited, 200)] {
            let mut ftp = lab.login_with(server.address, delegation).await;
            let said = ftp.ok("PORT 198,51,100,1,100,1", code).await;
            assert_eq!(said.contains("--third-party"), code == 550, "{said}");
            ftp.ok("DCAU S /O=Grid/OU=Lab/CN=myproxy", 200).await;
            ftp.ok("PORT 198,51,100,1,100,1", code).await;
        }
    });
}

/// `--host-certs`, which is `X509_VHOST_CRED_DIR`: a broken credential keeps no other name out.
#[test]
fn the_name_that_a_client_asks_for_chooses_the_credential_of_both_channels() {
    let lab = Lab::new();
    let one = lab.host_files("vhosts/a", "one.example.org");
    lab.host_files("vhosts/b", "broken.example.org");
    lab.grid.write("vhosts/b/hostkey.pem", "no key", 0o400);
    let two = lab.host_files("vhosts/c", "two.example.org");
    let hosts = lab.grid.folder().join("vhosts");
    let server = lab.serve(|o| o.host_certs = Some(hosts));
    server.put("f", "content");
    drive(async {
        for (name, host) in [("one.example.org", &one), ("two.example.org", &two)] {
            let (own, none) = (lab.proxy("Alice Lab"), Delegation::None);
            let mut ftp = lab.ask_for(name, own, server.address, none).await;
            ftp.log_in().await;
            ftp.ok("PROT P", 200).await;
            // Nothing is delegated: both ends have to have the credential of the host.
            let address = ftp.pasv().await;
            ftp.send("RETR f").await;
            let data = open(lab.data(host, Level::Private), address).await;
            assert_eq!(taken(data).await, b"content", "{name}");
            assert!(ftp.outcome().await.starts_with("226"), "{name}");
        }
        lab.login(server.address).await;
    });
}

//! The host's own credential is lent to nobody: sessions in clear, and users who delegate nothing.

use gridftp_server::config::Access;
use gsi::exchange::Delegation;

use crate::grid_support::{Lab, clear, drive};

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

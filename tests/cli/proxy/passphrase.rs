//! Keys behind a passphrase, in PEM and in PKCS#12.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use anyhow::{Result, ensure};
use workspace_tests::{Finished, Peer, run, run_with_input};

use super::Home;
use crate::{LIMIT, fails};

#[test]
fn the_passphrase_of_a_key_is_read_from_standard_input() -> Result<()> {
    let home = Home::new()?;
    let key = home.path("home/.globus/userkey.pem");
    let Some(mut openssl) = Peer::Openssl.require("cli: keys with a passphrase") else {
        return Ok(());
    };
    let locked = home.write("locked", "");
    openssl.args(["pkcs8", "-topk8", "-passout", "pass:open-sesame", "-in"]);
    run(openssl.arg(&key).arg("-out").arg(&locked), LIMIT)?.ok()?;
    fs::rename(&locked, &key)?;
    let init = |input: &str| {
        let input = File::open(home.write("input", input))?;
        run_with_input(&mut home.command(&["init"])?, Stdio::from(input), LIMIT)
    };
    for wrong in ["", "open\n", "open-sesame \n"] {
        let refused = init(wrong)?;
        fails(&refused, 1, &["userkey.pem: the passphrase does not open"])?;
        ensure!(!refused.stderr.contains("open-ses"), "{}", refused.report());
    }
    fails(&init(&"x".repeat(5000))?, 1, &["more than 4096 bytes"])?;
    ensure!(!home.path("px").exists());
    for right in ["open-sesame\nmore", "open-sesame\r\n", "open-sesame"] {
        let made = init(right)?.ok()?;
        ensure!(!format!("{made:?}").contains("sesame"), "{}", made.report());
        home.proxy(&["destroy"])?.ok()?;
    }
    Ok(())
}

/// As browsers keep certificates, in the old and in the new form of OpenSSL.
#[test]
fn a_proxy_is_made_of_an_archive() -> Result<()> {
    let home = Home::new()?;
    let own = |name: &str| home.path("home/.globus").join(name);
    let old = [
        "-keypbe",
        "PBE-SHA1-3DES",
        "-certpbe",
        "PBE-SHA1-3DES",
        "-macalg",
        "sha1",
    ];
    for form in [&[][..], &old] {
        let Some(mut openssl) = Peer::Openssl.require("cli: PKCS#12") else {
            return Ok(());
        };
        openssl.args([
            "pkcs12",
            "-export",
            "-passout",
            "pass:open-sesame",
            "-inkey",
        ]);
        openssl
            .arg(own("userkey.pem"))
            .arg("-in")
            .arg(own("usercert.pem"));
        openssl.args(form).arg("-out").arg(own("new.p12"));
        run(&mut openssl, LIMIT)?.ok()?;
        fs::set_permissions(own("new.p12"), fs::Permissions::from_mode(0o600))?;
        fs::rename(own("new.p12"), own("usercred.p12"))?;
        let aside = home.path("aside.pem");
        fs::rename(own("usercert.pem"), &aside)?;
        let init = |input: &str, args: &[&str]| -> Result<Finished> {
            let input = File::open(home.write("input", input))?;
            let mut command = home.command(&[&["init"], args].concat())?;
            run_with_input(&mut command, Stdio::from(input), LIMIT)
        };
        let refused = init("open\n", &[])?;
        fails(&refused, 1, &["usercred.p12: the passphrase does not open"])?;
        let made = init("open-sesame\n", &[])?.ok()?;
        ensure!(!format!("{made:?}").contains("sesame"), "{}", made.report());
        ensure!(made.stdout.contains("/O=Grid/OU=Lab/CN=Alice Lab"));
        home.proxy(&["destroy"])?.ok()?;
        fs::rename(&aside, own("usercert.pem"))?;
        // It may be named, too.
        let named = own("usercred.p12").display().to_string();
        init("open-sesame\n", &["--cert", &named])?.ok()?;
        home.proxy(&["destroy"])?.ok()?;
    }
    Ok(())
}

//! Opens any contact with any stack: `open STACK CONTACT`, standard input to it, it to standard output.
//!
//! ```text
//! open file /etc/hostname                                a file
//! open tcp mail.example.org:25                           TCP
//! open tcp,http http://www.example.org/                  HTTP over TCP
//! open udt,http http://www.example.org:9000/             HTTP over UDT
//! open udt,tls:ca=ca.pem dtn.example.org:9000            TLS over UDT
//! ```
#![allow(clippy::print_stderr, reason = "a program speaks to a person")]

use tokio::io::AsyncWriteExt;

async fn open(stack: &str, contact: &str) -> Result<(), Box<dyn std::error::Error>> {
    let stack = xio::registry().stack(stack)?;
    let handle = xio::Transport::connect(&stack, &contact.parse()?).await?;
    eprintln!("{}", xio::Stream::info(&handle));
    let (mut from, mut to) = tokio::io::split(handle);
    let sending = async {
        tokio::io::copy(&mut tokio::io::stdin(), &mut to).await?;
        to.shutdown().await
    };
    let mut out = tokio::io::stdout();
    let (sent, received) = tokio::join!(sending, tokio::io::copy(&mut from, &mut out));
    out.flush().await?;
    received?;
    sent?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::process::ExitCode {
    let words: Vec<_> = std::env::args().collect();
    let done = match words.as_slice() {
        [_, stack, contact] => open(stack, contact).await,
        _ => Err("usage: open STACK CONTACT".into()),
    };
    let report = |error| eprintln!("open: {error}");
    u8::from(done.map_err(report).is_err()).into()
}

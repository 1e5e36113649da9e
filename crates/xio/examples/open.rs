//! Opens any contact with any stack, `open STACK CONTACT`, on standard input and output.
//!
//! ```text
//! open file /etc/hostname                                a file
//! open tcp mail.example.org:25                           TCP
//! open tcp,http http://www.example.org/                  HTTP over TCP
//! open udt,http http://www.example.org:9000/             HTTP over UDT
//! open udt,tls:ca=ca.pem dtn.example.org:9000            TLS over UDT
//! ```
use anyhow::Context;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy, split, stdin, stdout};
use xio::{Stream, Transport};

pub(crate) async fn open<I: AsyncRead + Unpin, O: AsyncWrite + Unpin>(
    (stack, contact): (&str, &str),
    (mut input, mut output): (I, O),
) -> anyhow::Result<()> {
    let stack = xio::registry().stack(stack)?;
    let handle = stack.connect(&contact.parse()?).await?;
    let info = handle.info();
    let (mut from, mut to) = split(handle);
    let sending = async {
        let said = copy(&mut input, &mut to).await?;
        // Where ending one way ends both, an end without input leaves that to the peer.
        if said > 0 || !info.ends_together {
            to.shutdown().await?;
        }
        std::io::Result::Ok(said)
    };
    let (said, received) = tokio::join!(sending, copy(&mut from, &mut output));
    output.flush().await?;
    if said? == 0 || !info.ends_together {
        received?;
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let word = |n| std::env::args().nth(n).context("usage: open STACK CONTACT");
    open((&word(1)?, &word(2)?), (stdin(), stdout())).await
}

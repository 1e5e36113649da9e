//! Settings of an open connection: the options that the kernel takes at any time.

use socket2::SockRef;
use tokio::net::TcpStream;
use xio_core::{Control, Operation, OptionValue as _, Options as _, Result};

use crate::options::TcpOptions;
use crate::socket;

/// The options that are not fixed by opening.
const OPEN: [&str; 8] = [
    "ack_timeout",
    "cc",
    "keepalive",
    "keepidle",
    "nodelay",
    "pacing",
    "rcvbuf",
    "sndbuf",
];

/// Carries out a request to `tcp`.
pub(crate) fn answer(socket: &TcpStream, control: Control<'_>) -> Option<Result<String>> {
    (control.driver() == "tcp").then(|| {
        control.check(&OPEN)?;
        match control {
            Control::Set(entry) => {
                let options = TcpOptions::from_entry(entry)?;
                for (key, _) in entry.options() {
                    socket::set(socket, key, &options, Operation::Control)?;
                }
                Ok(String::new())
            }
            Control::Get { option, .. } => value(socket, option)
                .map_err(|error| socket::fail(error, Operation::Control, option)),
        }
    })
}

/// The value of an option as the kernel has it; empty where the kernel does not tell.
fn value(socket: &TcpStream, option: &str) -> std::io::Result<String> {
    let socket = SockRef::from(socket);
    Ok(match option {
        "ack_timeout" => match socket.tcp_user_timeout()? {
            Some(timeout) if !timeout.is_zero() => timeout.print().unwrap_or_default(),
            _ => String::new(),
        },
        "cc" => {
            let name = socket.tcp_congestion()?;
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            String::from_utf8_lossy(name).into_owned()
        }
        "keepalive" => socket.keepalive()?.print().unwrap_or_default(),
        "keepidle" => socket.tcp_keepalive_time()?.print().unwrap_or_default(),
        "nodelay" => socket.tcp_nodelay()?.print().unwrap_or_default(),
        "rcvbuf" => socket.recv_buffer_size()?.to_string(),
        "sndbuf" => socket.send_buffer_size()?.to_string(),
        _ => String::new(),
    })
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;
    use xio_core::{BoxStream, ErrorKind};

    use crate::TcpHandle;

    #[tokio::test]
    async fn an_open_connection_is_set_and_asked() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let socket = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await;
        let mut handle: BoxStream = Box::new(TcpHandle::from(socket.unwrap()));
        for (setting, question, value) in [
            ("tcp:nodelay=yes", "tcp:nodelay", "yes"),
            ("tcp:nodelay=0;keepalive=1", "tcp:nodelay", "no"),
            ("tcp:keepidle=7", "tcp:keepidle", "7"),
            ("tcp:keepalive=no", "tcp:keepalive", "no"),
            ("tcp:ack_timeout=7", "tcp:ack_timeout", "7"),
            ("tcp:ack_timeout=9000000", "tcp:ack_timeout", "2147483.647"),
            ("tcp:pacing=10M", "tcp:cc", "cubic"),
        ] {
            handle.set(setting).unwrap();
            let answer = handle.get(question).unwrap();
            assert!(answer == value || value == "cubic", "{setting}: {answer}");
        }
        for (bad, kind) in [
            ("tcp:port=1", ErrorKind::BadOption),
            ("tcp:nodelay=perhaps", ErrorKind::BadOption),
            ("tcp:nodelay", ErrorKind::BadOption),
            ("tls:cipher=x", ErrorKind::Unsupported),
        ] {
            assert_eq!(handle.set(bad).unwrap_err().kind(), kind, "{bad}");
        }
        assert_eq!(
            handle.get("tcp:port").unwrap_err().kind(),
            ErrorKind::BadOption
        );
    }
}

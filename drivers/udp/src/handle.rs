//! `UdpHandle`: a socket that sends and receives in batches, with or without help of the kernel.

use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use quinn_udp::{RecvMeta, UdpSocketState};
use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::runtime::Handle;
use xio_core::{Datagram, Info, Operation, Received, Result, Transmit, at_layer};

use crate::senders::Senders;
use crate::socket::fail;

/// Most buffers that one call of `poll_recv` fills.
pub const RECEIVE_BATCH: usize = quinn_udp::BATCH_SIZE;

/// Most segments of one send call (`UDP_MAX_SEGMENTS`).
const MAX_SEGMENTS: usize = 64;

/// An open UDP socket.
pub struct UdpHandle {
    socket: Arc<UdpSocket>,
    state: UdpSocketState,
    /// The only peer, once connected.
    peer: Option<SocketAddr>,
    ipv6: bool,
    /// Whether the kernel segments batches; once it has refused, it is not asked again.
    cuts: AtomicBool,
    senders: Arc<Senders>,
    refusals: Mutex<Option<Waiting>>,
    /// Second descriptor of the socket, for its writability once the runtime reports it always.
    room: Mutex<Option<UdpSocket>>,
    runtime: Handle,
}

/// Completes when the network has reported an error of an earlier message.
type Waiting = Pin<Box<dyn Future<Output = ()> + Send>>;

impl UdpHandle {
    pub(crate) fn new(socket: UdpSocket, offload: bool) -> io::Result<Self> {
        Ok(Self {
            state: UdpSocketState::new((&socket).into())?,
            peer: None,
            ipv6: socket.local_addr()?.is_ipv6(),
            cuts: AtomicBool::new(offload),
            senders: Arc::default(),
            refusals: Mutex::default(),
            room: Mutex::default(),
            runtime: Handle::current(),
            socket: Arc::new(socket),
        })
    }

    /// Connects the socket to a peer.
    pub(crate) fn connected(mut self, peer: SocketAddr, op: Operation) -> Result<Self> {
        SockRef::from(&*self.socket)
            .connect(&self.outward(peer).into())
            .map_err(|e| fail(e, op, &peer.to_string()))?;
        self.peer = Some(peer);
        Ok(self)
    }

    /// Returns the socket, for operations beyond this interface.
    #[must_use]
    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Converts an address for this socket: IPv4 is mapped on an IPv6 socket.
    fn outward(&self, to: SocketAddr) -> SocketAddr {
        match to {
            SocketAddr::V4(v4) if self.ipv6 => (v4.ip().to_ipv6_mapped(), v4.port()).into(),
            _ => to,
        }
    }

    fn outward_ip(&self, ip: IpAddr) -> IpAddr {
        match ip {
            IpAddr::V4(v4) if self.ipv6 => v4.to_ipv6_mapped().into(),
            _ => ip,
        }
    }

    fn send(&self, to: SocketAddr, message: &Transmit<'_>) -> io::Result<()> {
        let mut one = quinn_udp::Transmit {
            destination: to,
            ecn: None,
            contents: message.payload,
            segment_size: message.segment,
            src_ip: message.from.map(|ip| self.outward_ip(ip)),
        };
        let size = message.segment.unwrap_or(usize::MAX).max(1);
        if size >= message.payload.len() {
            one.segment_size = None;
            return self.state.try_send((&*self.socket).into(), &one);
        }
        if self.max_batch() > 1 {
            match self.state.try_send((&*self.socket).into(), &one) {
                Err(e) if refuses_to_cut(&e) => self.cuts.store(false, Ordering::Relaxed),
                done => return done,
            }
        }
        one.segment_size = None;
        one_by_one(message.payload, size, |part| {
            let one = quinn_udp::Transmit {
                contents: part,
                ..one
            };
            self.state.try_send((&*self.socket).into(), &one)
        })
    }

    /// Returns the network's error for an earlier message: port closed or no route.
    ///
    /// The runtime wakes a reader for messages only, so errors need a wait of their own.
    fn poll_refused(&self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let waiting = refusals.get_or_insert_with(|| {
                let socket = Arc::clone(&self.socket);
                Box::pin(async move {
                    let _ = socket.ready(Interest::ERROR).await;
                })
            });
            ready!(waiting.as_mut().poll(cx));
            *refusals = None;
            // Clears the runtime's error readiness.
            let again = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
            let _ = self.socket.try_io(Interest::ERROR, again);
            if let Ok(Some(error)) = self.socket.take_error() {
                return Poll::Ready(error);
            }
        }
    }

    /// Tries to send, and again once the socket is writable.
    fn poll_sending(
        &self,
        cx: &Context<'_>,
        mut send: impl FnMut() -> io::Result<()>,
    ) -> Poll<io::Result<()>> {
        let is_full = |e: &io::Error| e.kind() == io::ErrorKind::WouldBlock;
        for _ in 0..2 {
            match self.socket.try_io(Interest::WRITABLE, &mut send) {
                Err(e) if is_full(&e) => ready!(self.poll_writable(cx))?,
                done => return Poll::Ready(done),
            }
        }
        for _ in 0..2 {
            ready!(self.poll_room(cx))?;
            match send() {
                Err(e) if is_full(&e) => {}
                done => return Poll::Ready(done),
            }
        }
        // Another sender took the room each time.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn poll_writable(&self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        self.senders.wait(cx.waker());
        let all = Waker::from(Arc::clone(&self.senders));
        self.socket.poll_send_ready(&mut Context::from_waker(&all))
    }

    /// Waits for room where the runtime reports the socket as writable by mistake.
    ///
    /// After a refusal the runtime takes the socket as closed, and so as writable for good. A
    /// second descriptor of it has fresh state, and serves once: another refusal spoils it as well,
    /// and its readiness may be old.
    fn poll_room(&self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        self.senders.wait(cx.waker());
        let all = Waker::from(Arc::clone(&self.senders));
        let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        let other = match room.take() {
            Some(other) => other,
            None => {
                let _runtime = self.runtime.enter();
                let other = self.socket.as_fd().try_clone_to_owned()?;
                UdpSocket::from_std(other.into())?
            }
        };
        let ready = other.poll_send_ready(&mut Context::from_waker(&all));
        match ready {
            Poll::Pending => *room = Some(other),
            // The descriptor is dropped, so the other senders must register with the next.
            Poll::Ready(_) => self.senders.wake_others(cx.waker()),
        }
        ready
    }
}

/// Sends the messages of a batch, each of `size` bytes but the last.
///
/// If the socket is full in between, the rest is lost, as messages may be at any time. Reporting
/// the batch as unsent would be wrong: the peer may answer its first messages.
fn one_by_one(
    batch: &[u8],
    size: usize,
    mut send: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut parts = batch.chunks(size);
    parts.next().map_or(Ok(()), &mut send)?;
    match parts.try_for_each(send) {
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(()),
        done => done,
    }
}

/// Whether the kernel or the device cannot segment a batch: no checksums by hardware, or messages
/// that do not fit the path and would need fragmentation too.
fn refuses_to_cut(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EIO | libc::EINVAL | libc::EMSGSIZE)
    )
}

/// Converts a mapped address to IPv4.
fn plain(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(v6) => match v6.ip().to_ipv4_mapped() {
            Some(v4) => (v4, v6.port()).into(),
            None => address,
        },
        SocketAddr::V4(_) => address,
    }
}

impl Datagram for UdpHandle {
    fn describe(&self, info: &mut Info) {
        info.layer("udp");
        info.local = self.socket.local_addr().ok().map(plain);
        info.peer = self.peer;
    }

    fn poll_send(&self, cx: &mut Context<'_>, message: &Transmit<'_>) -> Poll<io::Result<()>> {
        let Some(to) = message.to.or(self.peer) else {
            let fact = "this socket serves any peer, so every message must name one";
            let error = io::Error::new(io::ErrorKind::NotConnected, fact);
            return Poll::Ready(Err(at_layer(error, "udp", Operation::Write)));
        };
        let to = self.outward(to);
        let sent = ready!(self.poll_sending(cx, || self.send(to, message)));
        Poll::Ready(sent.map_err(|e| at_layer(e, "udp", Operation::Write)))
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        received: &mut [Option<Received>],
    ) -> Poll<io::Result<usize>> {
        let mut met = [RecvMeta::default(); RECEIVE_BATCH];
        let count = bufs.len().min(received.len()).min(RECEIVE_BATCH);
        let bufs = bufs.get_mut(..count).unwrap_or_default();
        let filled = loop {
            let filled = self.socket.try_io(Interest::READABLE, || {
                self.state.recv((&*self.socket).into(), bufs, &mut met)
            });
            match filled {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    match self.socket.poll_recv_ready(cx) {
                        Poll::Pending if self.peer.is_some() => {
                            let error = ready!(self.poll_refused(cx));
                            return Poll::Ready(Err(at_layer(error, "udp", Operation::Read)));
                        }
                        ready => ready!(ready)?,
                    }
                }
                done => break done.map_err(|e| at_layer(e, "udp", Operation::Read))?,
            }
        };
        for ((place, met), buf) in received.iter_mut().zip(&met).zip(&*bufs).take(filled) {
            let mut one = Received::new(plain(met.addr), met.len)
                .segmented(met.stride.min(met.len))
                .cut(met.len == buf.len());
            one.to = met.dst_ip.map(|ip| ip.to_canonical());
            *place = Some(one);
        }
        Poll::Ready(Ok(filled))
    }

    fn max_batch(&self) -> usize {
        match self.cuts.load(Ordering::Relaxed) {
            true => self.state.max_gso_segments().min(MAX_SEGMENTS),
            false => 1,
        }
    }

    fn max_joined(&self) -> usize {
        self.state.gro_segments()
    }
}

impl fmt::Debug for UdpHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.info())
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use nix::sys::socket::{GetSockOpt, SetSockOpt};
    use nix::{getsockopt_impl, setsockopt_impl, sockopt_impl};
    use tokio::sync::Notify;
    use xio_core::{Bind, Target, Transport};

    use super::*;
    use crate::Udp;

    sockopt_impl!(
        /// Messages without checksums, which the kernel does not segment.
        NoCheck,
        SetOnly,
        libc::SOL_SOCKET,
        libc::SO_NO_CHECK,
        bool
    );

    #[tokio::test]
    async fn a_batch_that_is_not_cut_up_is_sent_message_by_message() {
        let at: Target = "127.0.0.1:0".parse().unwrap();
        let near = Udp::default().bind(&at).await.unwrap();
        let far = Udp::default().bind(&at).await.unwrap();
        if near.max_batch() == 1 {
            return; // This kernel cuts up nothing, so there is nothing to refuse.
        }
        NoCheck.set(near.socket(), &true).unwrap();
        let bytes: Vec<u8> = (0..250).collect();
        for round in 0..2 {
            let to = far.info().local.unwrap();
            let batch = Transmit::new(&bytes).to(to).segmented(100);
            poll_fn(|cx| near.poll_send(cx, &batch)).await.unwrap();
            assert_eq!(near.max_batch(), 1, "in round {round}");
            for part in bytes.chunks(100) {
                let (mut room, mut met) = ([0; 1000], [None]);
                let mut bufs = [IoSliceMut::new(&mut room)];
                poll_fn(|cx| far.poll_recv(cx, &mut bufs, &mut met))
                    .await
                    .unwrap();
                let met = met[0].unwrap();
                assert_eq!((&room[..met.len], met.segment), (part, part.len()));
            }
        }
    }

    sockopt_impl!(
        /// Handling of messages larger than the path MTU.
        Discover,
        GetOnly,
        libc::IPPROTO_IP,
        libc::IP_MTU_DISCOVER,
        libc::c_int
    );

    #[tokio::test]
    async fn routers_may_fragment_unless_that_was_refused() {
        for at in ["127.0.0.1:0", ":0"] {
            let at: Target = at.parse().unwrap();
            for (options, expected) in [
                ("", libc::IP_PMTUDISC_DONT),
                ("dontfrag=1", libc::IP_PMTUDISC_DO),
            ] {
                let udp = Udp::new().with_options(options.parse().unwrap());
                let socket = udp.bind(&at).await.unwrap();
                assert_eq!(Discover.get(socket.socket()).unwrap(), expected);
            }
        }
    }

    #[test]
    fn a_batch_of_which_some_has_left_is_not_sent_again() {
        for (room, expected) in [(0, Err(())), (1, Ok(())), (2, Ok(())), (3, Ok(()))] {
            let mut left = Vec::new();
            let sent = one_by_one(b"one two six ", 4, |part| {
                if left.len() == room {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                left.push(part.to_vec());
                Ok(())
            });
            let whole = [b"one ", b"two ", b"six "];
            assert_eq!((sent.map_err(drop), left.len()), (expected, room));
            assert!(whole.iter().zip(left).all(|(want, got)| *want == &got[..]));
        }
    }

    /// Counts its wake-ups, and notifies a waiting test.
    #[derive(Default)]
    struct Count(AtomicUsize, Notify);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
            self.1.notify_one();
        }
    }

    sockopt_impl!(
        /// Whether the socket holds sent messages back.
        Cork,
        SetOnly,
        libc::SOL_UDP,
        libc::UDP_CORK,
        bool
    );

    #[tokio::test]
    async fn a_sender_that_finds_room_wakes_the_others() {
        let at: Target = "127.0.0.1:0".parse().unwrap();
        let near = Udp::default().bind(&at).await.unwrap();
        let counts = [(); 2].map(|()| Arc::new(Count::default()));
        let wakers = counts
            .each_ref()
            .map(|count| Waker::from(Arc::clone(count)));
        let cx = Context::from_waker(&wakers[0]);
        assert!(near.poll_room(&cx).is_pending());
        counts[0].1.notified().await;
        // A sender that began to wait while the runtime was waking.
        near.senders.wait(&wakers[1]);
        assert!(near.poll_room(&cx).is_ready());
        let woken = counts.map(|count| count.0.load(Ordering::Relaxed));
        assert_eq!(woken, [1, 1]);
    }

    #[tokio::test]
    async fn a_socket_that_is_full_is_waited_for_although_its_peer_has_refused() {
        // A socket connected to another peer refuses messages of others.
        let far = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let at = far.local_addr().unwrap();
        far.connect(at).unwrap();
        let udp = Udp::new().with_options("sndbuf=1".parse().unwrap());
        let near = udp.connect(&Target::from(at)).await.unwrap();
        for round in 0..3 {
            poll_fn(|cx| near.poll_send(cx, &Transmit::new(b"anybody there?")))
                .await
                .unwrap();
            let (mut room, mut met) = ([0; 100], [None]);
            let mut bufs = [IoSliceMut::new(&mut room)];
            let refused = poll_fn(|cx| near.poll_recv(cx, &mut bufs, &mut met));
            assert_eq!(
                refused.await.unwrap_err().kind(),
                io::ErrorKind::ConnectionRefused
            );
            // More than the buffer holds, so that the next send has to wait.
            far.connect(near.info().local.unwrap()).unwrap();
            Cork.set(near.socket(), &true).unwrap();
            let long = [7; 10_000];
            poll_fn(|cx| near.poll_send(cx, &Transmit::new(&long)))
                .await
                .unwrap();
            let count = Arc::new(Count::default());
            let waker = Waker::from(Arc::clone(&count));
            let full = || Err(io::ErrorKind::WouldBlock.into());
            let sent = near.poll_sending(&Context::from_waker(&waker), full);
            assert!(sent.is_pending());
            // Long enough for the runtime to poll its sockets.
            for _ in 0..1000 {
                tokio::task::yield_now().await;
            }
            let woken = count.0.load(Ordering::Relaxed);
            assert_eq!(woken, 0, "it is asked again at once, in round {round}");
            Cork.set(near.socket(), &false).unwrap();
            count.1.notified().await;
            poll_fn(|cx| near.poll_send(cx, &Transmit::new(b"here")))
                .await
                .unwrap();
            let mut room = [0; 20_000];
            assert_eq!(far.recv(&mut room).unwrap(), long.len());
            assert_eq!(far.recv(&mut room).unwrap(), 4);
            far.connect(at).unwrap();
        }
    }
}

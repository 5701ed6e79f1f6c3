//! Connection below a link, and the socket options of its TCP.

use std::pin::Pin;

use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};

#[cfg(target_os = "linux")]
use crate::limits::SILENCE_TIMEOUT;

/// Bytes that the kernel may hold unsent on a link: two messages. Data that TCP cannot send yet
/// waits in the streams instead, where small messages overtake it.
pub(crate) const MAX_UNSENT_BYTES: u32 = 32 * 1024;

/// Sets the socket options of a link's TCP connection, as far as the system supports them.
///
/// `TCP_USER_TIMEOUT`: the kernel drops the connection when nothing is acknowledged for as long as
/// a link may be silent, which also ends blocked writes. `TCP_NOTSENT_LOWAT`: the kernel takes no
/// more than it is about to send.
pub fn set_link_options(tcp: &TcpStream) {
    // These fail only on a dead socket; its first read reports that.
    #[cfg(target_os = "linux")]
    let _ = socket2::SockRef::from(tcp).set_tcp_user_timeout(Some(SILENCE_TIMEOUT));
    limit_unsent(tcp, MAX_UNSENT_BYTES);
}

fn limit_unsent(tcp: &TcpStream, bytes: u32) {
    #[cfg(target_os = "linux")]
    let _ = socket2::SockRef::from(tcp).set_tcp_notsent_lowat(bytes);
    #[cfg(not(target_os = "linux"))]
    let _ = (tcp, bytes);
}

/// Connection below a link: any byte stream, or one over TCP, whose socket options follow the path.
pub struct LinkIo(Box<dyn Transport>);

impl LinkIo {
    /// Connection over this TCP connection, for example with TLS.
    pub fn over_tcp<IO>(io: IO, tcp: fn(&IO) -> &TcpStream) -> Self
    where
        IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let tcp = Some(tcp);
        LinkIo(Box::new(Connection { io, tcp }))
    }

    pub(crate) fn pin(&mut self) -> Pin<&mut dyn ByteIo> {
        self.0.pin()
    }

    /// Lets the kernel hold so many bytes unsent.
    pub(crate) fn limit_unsent(&self, bytes: u32) {
        if let Some(tcp) = self.0.tcp() {
            limit_unsent(tcp, bytes);
        }
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin + Send + 'static> From<IO> for LinkIo {
    fn from(io: IO) -> Self {
        LinkIo(Box::new(Connection { io, tcp: None }))
    }
}

pub(crate) trait ByteIo: AsyncRead + AsyncWrite + Unpin {}

impl<IO: AsyncRead + AsyncWrite + Unpin> ByteIo for IO {}

/// A connection, and the way to its TCP through the layers above it.
trait Transport: Send {
    fn pin(&mut self) -> Pin<&mut dyn ByteIo>;
    fn tcp(&self) -> Option<&TcpStream>;
}

struct Connection<IO> {
    io: IO,
    tcp: Option<fn(&IO) -> &TcpStream>,
}

impl<IO: AsyncRead + AsyncWrite + Unpin + Send + 'static> Transport for Connection<IO> {
    fn pin(&mut self) -> Pin<&mut dyn ByteIo> {
        Pin::new(&mut self.io)
    }

    fn tcp(&self) -> Option<&TcpStream> {
        self.tcp.map(|tcp| tcp(&self.io))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::input_gate::InputGate;

    #[tokio::test]
    async fn unsent_bytes_of_the_tcp_below_are_limited() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let tcp = TcpStream::connect(address).await.unwrap();
        set_link_options(&tcp);
        let socket = socket2::SockRef::from(&tcp).try_clone().unwrap();
        assert_eq!(socket.tcp_notsent_lowat().unwrap(), MAX_UNSENT_BYTES);
        let io = LinkIo::over_tcp(InputGate::new(tcp), |gate| gate.get_ref());
        io.limit_unsent(1 << 20);
        assert_eq!(socket.tcp_notsent_lowat().unwrap(), 1 << 20);
    }
}

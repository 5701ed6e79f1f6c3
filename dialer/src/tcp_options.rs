//! Socket options of the TCP connection below a link.

use tokio::net::TcpStream;

#[cfg(target_os = "linux")]
use crate::limits::SILENCE_TIMEOUT;

/// Bytes that the kernel may hold unsent on a link: two messages. Data that TCP cannot send yet
/// waits in the streams instead, where small messages overtake it.
#[cfg(target_os = "linux")]
pub(crate) const MAX_UNSENT_BYTES: u32 = 32 * 1024;

/// Sets the socket options of a link's TCP connection, as far as the system supports them.
///
/// `TCP_USER_TIMEOUT`: the kernel drops the connection when nothing is acknowledged for as long as
/// a link may be silent, which also ends blocked writes. `TCP_NOTSENT_LOWAT`: the kernel takes no
/// more than it is about to send.
pub fn set_link_options(tcp: &TcpStream) {
    #[cfg(target_os = "linux")]
    {
        let tcp = socket2::SockRef::from(tcp);
        // These fail only on a dead socket; its first read reports that.
        let _ = tcp.set_tcp_user_timeout(Some(SILENCE_TIMEOUT));
        let _ = tcp.set_tcp_notsent_lowat(MAX_UNSENT_BYTES);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = tcp;
}

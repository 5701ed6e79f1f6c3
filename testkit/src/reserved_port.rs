//! Ports for programs that cannot report the one that they got, or that start again on the same one.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
};

use tokio::net::TcpSocket;

/// A bound port without a listener. The system gives it to nobody who asks for any free one, until this is dropped.
///
/// A program with `SO_REUSEADDR` can listen on it meanwhile, and again after its end. Fairlead, Go and squid set that option.
#[derive(Debug)]
pub struct ReservedPort {
    address: SocketAddr,
    _socket: TcpSocket,
}

impl ReservedPort {
    /// Reserves a port of loopback.
    ///
    /// # Errors
    /// There is no free port.
    pub fn new() -> io::Result<Self> {
        Self::on(Ipv4Addr::LOCALHOST.into())
    }

    /// Reserves a port of an address of this machine.
    ///
    /// # Errors
    /// There is no free port, or the address is not one of this machine.
    pub fn on(ip: IpAddr) -> io::Result<Self> {
        let socket = match ip {
            IpAddr::V4(_) => TcpSocket::new_v4()?,
            IpAddr::V6(_) => TcpSocket::new_v6()?,
        };
        socket.set_reuseaddr(true)?;
        socket.bind(SocketAddr::new(ip, 0))?;
        Ok(Self {
            address: socket.local_addr()?,
            _socket: socket,
        })
    }

    /// Address with the port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn program_listens_twice_on_a_port_that_others_cannot_bind() {
        let port = ReservedPort::new().unwrap();
        assert!(TcpStream::connect(port.address()).is_err());
        for _ in 0..2 {
            let listener = TcpListener::bind(port.address()).unwrap();
            TcpStream::connect(port.address()).unwrap();
            drop(listener);
        }
        let other = TcpSocket::new_v4().unwrap();
        assert!(other.bind(port.address()).is_err());
    }
}

//! Syslog (RFC 5424), over TCP and TLS with octet counting (RFC 6587), and over a Unix datagram socket.

use std::{sync::Arc, time::Duration};

use rustls::pki_types::ServerName;
use serde::Deserialize;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpStream, UnixDatagram},
    time::timeout,
};
use tokio_rustls::TlsConnector;

use crate::config::SyslogAddress;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Time in which a server that has closed the connection shows it after a write.
const CLOSE_GRACE: Duration = Duration::from_millis(50);
/// Facility 13 (log audit), severity 6 (informational).
const SYSLOG_PRIORITY: u8 = 13 * 8 + 6;

trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

enum Connection {
    Stream(Box<dyn ByteStream>),
    Datagram(UnixDatagram),
}

pub(super) struct SyslogSink {
    address: SyslogAddress,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    host: String,
    connection: Option<Connection>,
}

/// Time of an event.
#[derive(Deserialize)]
struct EventTime {
    at: String,
}

impl SyslogSink {
    pub(super) fn new(
        address: &SyslogAddress,
        ca: Option<&str>,
        hub: &str,
    ) -> Result<Self, String> {
        let tls = match address {
            SyslogAddress::Tls(_, host) => {
                let config = fairlead_certs::outer_client(ca, None).map_err(|it| it.to_string())?;
                let name = ServerName::try_from(host.clone()).map_err(|it| it.to_string())?;
                Some((TlsConnector::from(Arc::new((*config).clone())), name))
            }
            _ => None,
        };
        let host = hub.split("://").last().unwrap_or(hub);
        Ok(SyslogSink {
            address: address.clone(),
            tls,
            host: host
                .chars()
                .filter(char::is_ascii_graphic)
                .take(255)
                .collect(),
            connection: None,
        })
    }

    pub(super) async fn send(&mut self, lines: &[String]) -> Result<(), String> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => timeout(CONNECT_TIMEOUT, self.connect())
                .await
                .map_err(|_| "no connection in time".to_owned())??,
        };
        let sent = timeout(WRITE_TIMEOUT, self.write(connection, lines)).await;
        let connection = sent.map_err(|_| "it does not read".to_owned())?;
        self.connection = Some(connection.map_err(|error| error.to_string())?);
        Ok(())
    }

    async fn connect(&mut self) -> Result<Connection, String> {
        let text = |error: std::io::Error| error.to_string();
        Ok(match &self.address {
            SyslogAddress::Unix(path) => {
                let socket = UnixDatagram::unbound().map_err(text)?;
                socket.connect(path).map_err(text)?;
                Connection::Datagram(socket)
            }
            SyslogAddress::Tcp(address) | SyslogAddress::Tls(address, _) => {
                let stream = TcpStream::connect(address).await.map_err(text)?;
                match &self.tls {
                    Some((tls, name)) => {
                        let stream = tls.connect(name.clone(), stream).await.map_err(text)?;
                        Connection::Stream(Box::new(stream))
                    }
                    None => Connection::Stream(Box::new(stream)),
                }
            }
        })
    }

    async fn write(
        &mut self,
        connection: Connection,
        lines: &[String],
    ) -> std::io::Result<Connection> {
        match connection {
            Connection::Datagram(socket) => {
                for line in lines {
                    socket.send(self.message(line).as_bytes()).await?;
                }
                Ok(Connection::Datagram(socket))
            }
            Connection::Stream(mut stream) => {
                let mut frames = String::new();
                for line in lines {
                    let message = self.message(line);
                    frames.push_str(&format!("{} {message}", message.len()));
                }
                stream.write_all(frames.as_bytes()).await?;
                stream.flush().await?;
                // Syslog has no acknowledgement: a closed connection is the only sign of a loss.
                match timeout(CLOSE_GRACE, stream.read(&mut [0; 64])).await {
                    Ok(Ok(0)) => Err(std::io::ErrorKind::UnexpectedEof.into()),
                    Ok(Err(error)) => Err(error),
                    Ok(Ok(_)) | Err(_) => Ok(Connection::Stream(stream)),
                }
            }
        }
    }

    fn message(&self, line: &str) -> String {
        let at = serde_json::from_str::<EventTime>(line).map(|event| event.at);
        let at = at.unwrap_or_else(|_| "-".to_owned());
        format!(
            "<{SYSLOG_PRIORITY}>1 {at} {} fairlead - audit - {line}",
            self.host
        )
    }
}

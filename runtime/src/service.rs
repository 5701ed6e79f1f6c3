//! Notifications to the service manager that started the process, as sd_notify(3) describes them.

#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt;
use std::{
    io,
    os::unix::net::{SocketAddr, UnixDatagram},
    time::Duration,
};

use tracing::warn;

/// Variable with the socket of the service manager: a path, or `@` and a name that is no file.
pub const SOCKET_VARIABLE: &str = "NOTIFY_SOCKET";
/// Deadline of one notification.
const NOTIFICATION_DEADLINE: Duration = Duration::from_secs(1);

/// The service manager of this process; without a socket it gets no notification.
#[derive(Debug, Clone, Default)]
pub struct ServiceManager(Option<SocketAddr>);

impl ServiceManager {
    /// The service manager at the address in [`SOCKET_VARIABLE`].
    #[must_use]
    pub fn at(address: Option<&str>) -> Self {
        let address =
            address
                .filter(|it| !it.is_empty())
                .map(|address| match address.strip_prefix('@') {
                    #[cfg(target_os = "linux")]
                    Some(name) => SocketAddr::from_abstract_name(name),
                    _ => SocketAddr::from_pathname(address),
                });
        let address = address.transpose().unwrap_or_else(|error| {
            warn!(%error, "address of the service manager ignored");
            None
        });
        ServiceManager(address)
    }

    /// Reports that the start is complete.
    pub(crate) fn started(&self) {
        self.notify("READY=1");
    }

    /// Reports that the process drains.
    pub(crate) fn stopping(&self) {
        self.notify("STOPPING=1");
    }

    fn notify(&self, state: &'static str) {
        let Some(address) = &self.0 else { return };
        let send = || -> io::Result<()> {
            let socket = UnixDatagram::unbound()?;
            socket.set_write_timeout(Some(NOTIFICATION_DEADLINE))?;
            socket.send_to_addr(state.as_bytes(), address).map(drop)
        };
        if let Err(error) = send() {
            warn!(%error, state, "service manager not notified");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Process;

    fn next(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 64];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }

    #[tokio::test]
    async fn start_and_drain_are_reported_once_each() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        let manager = ServiceManager::at(path.to_str());
        let process = Process::new().with_service_manager(manager);
        process.started();
        process.start_drain();
        process.finish(Duration::ZERO).await;
        assert_eq!(next(&socket), "READY=1");
        assert_eq!(next(&socket), "STOPPING=1");
        socket.set_nonblocking(true).unwrap();
        let more = socket.recv(&mut [0; 1]).unwrap_err();
        assert_eq!(more.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn abstract_socket_is_notified() {
        let name = format!("fairlead-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        ServiceManager::at(Some(&format!("@{name}"))).started();
        assert_eq!(next(&socket), "READY=1");
    }

    #[test]
    fn process_without_service_manager_notifies_nobody() {
        for address in [None, Some("")] {
            assert!(ServiceManager::at(address).0.is_none());
        }
    }

    #[test]
    fn missing_service_manager_does_not_fail_the_process() {
        ServiceManager::at(Some("/nonexistent/notify")).started();
    }
}

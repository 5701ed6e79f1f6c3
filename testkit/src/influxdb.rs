//! An InfluxDB in a scratch directory, on a port of loopback.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use anyhow::{Context, ensure};
use tempfile::TempDir;

use crate::service::Service;

/// Name of the one user of the server.
pub const USER: &str = "me";
/// Password of [`USER`].
pub const PASSWORD: &str = "secret";
/// [`USER`] and [`PASSWORD`] as HTTP sends them.
const BASIC_CREDENTIALS: &str = "Basic bWU6c2VjcmV0";

/// An InfluxDB server with the database `facts`. It ends when this is dropped or when this program ends.
#[derive(Debug)]
pub struct InfluxDb {
    folder: TempDir,
    /// Kept for restarts, so that clients find the server again.
    address: String,
    service: Option<Service>,
}

impl InfluxDb {
    /// Starts a server and creates its user and its database.
    ///
    /// # Errors
    /// It cannot be built, or does not get ready.
    pub fn start() -> anyhow::Result<Self> {
        let mut server = Self {
            folder: tempfile::tempdir()?,
            address: "127.0.0.1:0".to_owned(),
            service: None,
        };
        server.resume()?;
        server.execute(&format!(
            "CREATE USER {USER} WITH PASSWORD '{PASSWORD}' WITH ALL PRIVILEGES"
        ))?;
        server.execute("CREATE DATABASE facts")?;
        Ok(server)
    }

    /// Base URL of the HTTP API.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn execute(&self, statement: &str) -> anyhow::Result<()> {
        let body = format!("q={}", statement.replace(' ', "+"));
        let request = format!(
            "POST /query HTTP/1.0\r\nAuthorization: {BASIC_CREDENTIALS}\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = TcpStream::connect(&self.address)?;
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        ensure!(answer.starts_with("HTTP/1.0 200"), "{statement}: {answer}");
        Ok(())
    }

    /// Kills the server and keeps its data.
    pub fn stop(&mut self) {
        if let Some(service) = self.service.take() {
            service.stop();
        }
    }

    /// Starts the server again on the same data and the same port.
    ///
    /// # Errors
    /// It does not get ready.
    pub fn resume(&mut self) -> anyhow::Result<()> {
        let (_, port) = self.address.rsplit_once(':').context("no port")?;
        let folder = self.folder.path().display().to_string();
        let (service, line) = Service::start("influxdb", [folder.as_str(), port])?;
        ensure!(
            line.starts_with("127.0.0.1:"),
            "InfluxDB is not ready: {line}"
        );
        self.address = line;
        self.service = Some(service);
        Ok(())
    }
}

impl Drop for InfluxDb {
    fn drop(&mut self) {
        self.stop();
    }
}

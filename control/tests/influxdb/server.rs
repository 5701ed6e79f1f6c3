//! A private InfluxDB in a scratch directory on a loopback port, stopped on drop and at program
//! exit.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
};

use tempfile::TempDir;

const RIG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../e2e/influxdb");
pub(crate) const USER: &str = "me";
pub(crate) const PASSWORD: &str = "secret";
/// Both, as HTTP basic credentials.
const LOGIN: &str = "Basic bWU6c2VjcmV0";

pub(crate) struct Server {
    folder: TempDir,
    /// It restarts on the same port.
    address: String,
    runs: Option<Child>,
}

impl Server {
    /// Starts with a database `facts`.
    pub(crate) fn start() -> Self {
        let mut server = Server {
            folder: tempfile::tempdir().unwrap(),
            address: "127.0.0.1:0".to_owned(),
            runs: None,
        };
        server.resume();
        server.ask(&format!(
            "CREATE USER {USER} WITH PASSWORD '{PASSWORD}' WITH ALL PRIVILEGES"
        ));
        server.ask("CREATE DATABASE facts");
        server
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn ask(&self, statement: &str) {
        let body = format!("q={}", statement.replace(' ', "+"));
        let request = format!(
            "POST /query HTTP/1.0\r\nAuthorization: {LOGIN}\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
    }

    /// Stops as if by `kill -9`.
    pub(crate) fn stop(&mut self) {
        if let Some(mut child) = self.runs.take() {
            // A line on standard input stops the server but keeps its folder.
            child.stdin.take().unwrap().write_all(b"\n").ok();
            child.wait().unwrap();
        }
    }

    pub(crate) fn resume(&mut self) {
        let built = Command::new(format!("{RIG}/build")).output().unwrap();
        assert!(
            built.status.success(),
            "there is no InfluxDB to test with: {}",
            String::from_utf8_lossy(&built.stderr)
        );
        let program = String::from_utf8(built.stdout).unwrap();
        let (_, port) = self.address.rsplit_once(':').unwrap();
        let mut child = Command::new(format!("{RIG}/server"))
            .arg(program.trim())
            .arg(self.folder.path())
            .arg(port)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut said).unwrap();
        assert!(said.starts_with("127.0.0.1:"), "{said:?}");
        said.trim().clone_into(&mut self.address);
        self.runs = Some(child);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

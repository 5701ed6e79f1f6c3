//! A Git server: `git http-backend` (CGI, RFC 3875) behind HTTP/1.1, one request for each connection.

use std::{
    path::PathBuf,
    process::Stdio,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU16, Ordering},
    },
};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    process::Command,
};

/// Server of one repository.
pub struct GitServer {
    served: Arc<Served>,
    port: u16,
}

struct Served {
    root: PathBuf,
    /// Status of all answers; 0 answers by git.
    refusal: AtomicU16,
    /// Expected value of `Authorization`.
    login: Mutex<Option<String>>,
}

impl GitServer {
    /// Starts on a free port.
    pub async fn start(root: PathBuf) -> Self {
        std::fs::create_dir_all(&root).unwrap();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let served = Arc::new(Served {
            root,
            refusal: AtomicU16::new(0),
            login: Mutex::default(),
        });
        let shared = Arc::clone(&served);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let served = Arc::clone(&shared);
                tokio::spawn(async move { served.answer(stream).await });
            }
        });
        GitServer { served, port }
    }

    /// Address of the repository.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/platform.git", self.port)
    }

    /// `host:port` of the server.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Folder of the bare repository.
    #[must_use]
    pub fn repository(&self) -> PathBuf {
        self.served.root.join("platform.git")
    }

    /// Answers everything with this status; 0 ends that.
    pub fn refuse(&self, status: u16) {
        self.served.refusal.store(status, Ordering::SeqCst);
    }

    /// Asks for this login from now on.
    pub fn require(&self, user: &str, password: &str) {
        use base64::{Engine, engine::general_purpose::STANDARD};
        let login = STANDARD.encode(format!("{user}:{password}"));
        *self.served.login.lock().unwrap() = Some(format!("Basic {login}"));
    }
}

impl Served {
    async fn answer(&self, stream: TcpStream) -> Option<()> {
        let mut stream = BufReader::new(stream);
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await.ok()?;
            if line.trim().is_empty() {
                break;
            }
            head.push(line.trim().to_owned());
        }
        let header = |name: &str| {
            let mut fields = head.iter().skip(1).filter_map(|it| it.split_once(": "));
            fields
                .find(|(known, _)| known.eq_ignore_ascii_case(name))
                .map(|(_, value)| value.to_owned())
        };
        let length = header("content-length")
            .and_then(|it| it.parse().ok())
            .unwrap_or(0);
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.ok()?;
        let refusal = self.refusal.load(Ordering::SeqCst);
        let login = self.login.lock().unwrap().clone();
        let answer = match refusal {
            0 if login.is_some() && header("authorization") != login => {
                "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"git\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".into()
            }
            0 => self.run(head.first()?, header, &body).await?,
            status => format!("HTTP/1.1 {status} Refused\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").into_bytes(),
        };
        stream.write_all(&answer).await.ok()?;
        stream.shutdown().await.ok()
    }

    async fn run(
        &self,
        request: &str,
        header: impl Fn(&str) -> Option<String>,
        body: &[u8],
    ) -> Option<Vec<u8>> {
        let mut words = request.split(' ');
        let (method, target) = (words.next()?, words.next()?);
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut child = Command::new("git")
            .arg("http-backend")
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("GIT_PROJECT_ROOT", &self.root)
            .env("GIT_HTTP_EXPORT_ALL", "1")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("REQUEST_METHOD", method)
            .env("PATH_INFO", path)
            .env("QUERY_STRING", query)
            .env("CONTENT_TYPE", header("content-type").unwrap_or_default())
            .env("CONTENT_LENGTH", body.len().to_string())
            .env(
                "HTTP_CONTENT_ENCODING",
                header("content-encoding").unwrap_or_default(),
            )
            .env("GIT_PROTOCOL", header("git-protocol").unwrap_or_default())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        child.stdin.take()?.write_all(body).await.ok()?;
        let output = child.wait_with_output().await.ok()?.stdout;
        let end = output.windows(4).position(|it| it == b"\r\n\r\n")?;
        let (fields, content) = (String::from_utf8_lossy(&output[..end]), &output[end + 4..]);
        let status = fields.lines().find_map(|it| it.strip_prefix("Status: "));
        let status = status.unwrap_or("200 OK");
        let length = content.len();
        let mut answer = format!(
            "HTTP/1.1 {status}\r\n{fields}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        )
        .into_bytes();
        answer.extend_from_slice(content);
        Some(answer)
    }
}

//! Authorization code with PKCE (RFC 7636) on a loopback redirect (RFC 8252).

use std::{io, net::Ipv4Addr, net::Ipv6Addr, net::SocketAddr, time::Duration};

use aws_lc_rs::{digest, rand};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use reqwest::Url;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::timeout,
};

use super::{
    error::SignInError,
    provider::{Answered, Provider, quoted},
    token::IssuedTokens,
};

const PATH: &str = "/callback";
const MAX_HEAD_BYTES: usize = 16 * 1024;
const HEAD_DEADLINE: Duration = Duration::from_secs(5);
/// Connections answered at once; browsers open some without a request.
const MAX_CONNECTIONS: usize = 16;

/// A browser sign-in that waits for the redirect.
pub struct BrowserSignIn<'a> {
    provider: &'a Provider,
    listeners: Vec<TcpListener>,
    redirect_uri: String,
    url: Url,
    secrets: Secrets,
}

struct Secrets {
    state: String,
    nonce: String,
    verifier: String,
}

/// Parameters of the redirect (RFC 6749, section 4.1.2; RFC 9207).
#[derive(Default)]
struct Redirected {
    state: Option<String>,
    code: Option<String>,
    iss: Option<String>,
    error: Option<String>,
    description: Option<String>,
}

impl<'a> BrowserSignIn<'a> {
    /// Opens the loopback listener and makes the authorization URL.
    ///
    /// # Errors
    /// [`SignInError::NoLoopback`], [`SignInError::BadIssuer`]
    pub async fn begin(provider: &'a Provider) -> Result<Self, SignInError> {
        let issuer = &provider.issuer;
        let is_localhost = issuer.redirect_host == "localhost";
        let (listeners, address) = listen(is_localhost)
            .await
            .map_err(SignInError::NoLoopback)?;
        let redirect_uri = match is_localhost {
            true => format!("http://localhost:{}{PATH}", address.port()),
            false => format!("http://{address}{PATH}"),
        };
        let secrets = Secrets {
            state: random_text()?,
            nonce: random_text()?,
            verifier: random_text()?,
        };
        let hash = digest::digest(&digest::SHA256, secrets.verifier.as_bytes());
        let challenge = URL_SAFE_NO_PAD.encode(hash.as_ref());
        let endpoint = &provider.endpoints.authorization_endpoint;
        let url = Url::parse(endpoint)
            .ok()
            .filter(|it| it.scheme() == "https");
        let mut url = url.ok_or_else(|| {
            SignInError::BadIssuer(format!("{}: invalid authorization endpoint", issuer.url))
        })?;
        url.query_pairs_mut().extend_pairs([
            ("response_type", "code"),
            ("client_id", &issuer.client_id),
            ("redirect_uri", &redirect_uri),
            ("scope", &issuer.scopes.join(" ")),
            ("state", &secrets.state),
            ("nonce", &secrets.nonce),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ]);
        Ok(BrowserSignIn {
            provider,
            listeners,
            redirect_uri,
            url,
            secrets,
        })
    }

    /// Address for the browser.
    #[must_use]
    pub fn url(&self) -> &str {
        self.url.as_str()
    }

    /// Nonce that the ID token must contain.
    pub(super) fn nonce(&self) -> &str {
        &self.secrets.nonce
    }

    /// Waits for the redirect and exchanges its code for tokens.
    ///
    /// # Errors
    /// [`SignInError`]
    pub async fn finish(&self, wait: Duration) -> Result<IssuedTokens, SignInError> {
        let redirected = timeout(wait, self.redirected());
        let Ok(redirected) = redirected.await else {
            return Err(SignInError::TimedOut(wait.as_secs()));
        };
        let code = self.code_of(redirected?)?;
        let fields = [
            ("grant_type", "authorization_code"),
            ("code", &code),
            ("redirect_uri", &self.redirect_uri),
            ("code_verifier", &self.secrets.verifier),
        ];
        match self.provider.tokens(&fields).await? {
            Answered::Ok(tokens) => Ok(tokens),
            Answered::Error(error) => Err(SignInError::BadIssuer(error.shown())),
        }
    }

    fn code_of(&self, redirected: Redirected) -> Result<String, SignInError> {
        let issuer = &self.provider.issuer.url;
        if redirected.state.as_deref() != Some(&self.secrets.state) {
            return Err(SignInError::Mismatch("the redirect has another state"));
        }
        let endpoints = &self.provider.endpoints;
        match &redirected.iss {
            Some(iss) if iss != issuer => {
                return Err(SignInError::Mismatch("the redirect is of another issuer"));
            }
            None if endpoints.authorization_response_iss_parameter_supported => {
                return Err(SignInError::Mismatch("the redirect names no issuer"));
            }
            _ => {}
        }
        if let Some(error) = redirected.error {
            let shown = match redirected.description {
                Some(description) => format!("{}: {}", quoted(&error), quoted(&description)),
                None => quoted(&error),
            };
            return Err(match error.as_str() {
                "access_denied" => SignInError::Denied(shown),
                _ => SignInError::BadIssuer(shown),
            });
        }
        let code = redirected.code;
        code.ok_or_else(|| SignInError::BadIssuer("the redirect has no code".to_owned()))
    }

    /// The first request for the redirect's path.
    async fn redirected(&self) -> Result<Redirected, SignInError> {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = accept(&self.listeners), if connections.len() < MAX_CONNECTIONS => match accepted {
                    Ok(connection) => {
                        connections.spawn(timeout(HEAD_DEADLINE, answer(connection)));
                    }
                    Err(error) => return Err(SignInError::NoLoopback(error)),
                },
                Some(answered) = connections.join_next() => {
                    if let Ok(Ok(Some(redirected))) = answered {
                        return Ok(redirected);
                    }
                }
            }
        }
    }
}

/// Random text of 256 bits: a state, a nonce, or a PKCE verifier.
fn random_text() -> Result<String, SignInError> {
    let mut bytes = [0; 32];
    rand::fill(&mut bytes).map_err(|_| SignInError::NoRandomness)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// Listens on a free port. For `localhost` both addresses are served if both exist.
async fn listen(is_localhost: bool) -> io::Result<(Vec<TcpListener>, SocketAddr)> {
    let first = match TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await {
        Ok(listener) => listener,
        Err(_) => TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).await?,
    };
    let address = first.local_addr()?;
    let mut listeners = vec![first];
    if is_localhost && address.is_ipv4() {
        let second = TcpListener::bind((Ipv6Addr::LOCALHOST, address.port())).await;
        listeners.extend(second.ok());
    }
    Ok((listeners, address))
}

async fn accept(listeners: &[TcpListener]) -> io::Result<TcpStream> {
    let one = async |at: usize| match listeners.get(at) {
        Some(listener) => listener.accept().await.map(|(connection, _)| connection),
        None => std::future::pending().await,
    };
    tokio::select! {
        accepted = one(0) => accepted,
        accepted = one(1) => accepted,
    }
}

/// Answers one request; `None` unless it is the redirect.
async fn answer(mut connection: TcpStream) -> Option<Redirected> {
    let mut head = Vec::new();
    while !head.windows(4).any(|it| it == b"\r\n\r\n") {
        if head.len() > MAX_HEAD_BYTES || connection.read_buf(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    let redirected = redirected_of(&head);
    let (status, text) = match &redirected {
        None => ("404 Not Found", "Not found."),
        Some(it) if it.error.is_some() => {
            ("200 OK", "The sign-in failed. The terminal has the reason.")
        }
        Some(_) => (
            "200 OK",
            "Return to the terminal. This window may be closed.",
        ),
    };
    let page = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\n\
         cache-control: no-store\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n\r\n{text}",
        text.len()
    );
    // The browser may be gone; the redirect counts nevertheless.
    let _ = connection.write_all(page.as_bytes()).await;
    let _ = connection.shutdown().await;
    redirected
}

fn redirected_of(head: &[u8]) -> Option<Redirected> {
    let line = std::str::from_utf8(head.split(|byte| *byte == b'\r').next()?).ok()?;
    let target = line.strip_prefix("GET ")?.split(' ').next()?;
    let url = Url::parse("http://loopback").ok()?.join(target).ok()?;
    if url.path() != PATH {
        return None;
    }
    let mut found = Redirected::default();
    for (name, value) in url.query_pairs() {
        let field = match name.as_ref() {
            "state" => &mut found.state,
            "code" => &mut found.code,
            "iss" => &mut found.iss,
            "error" => &mut found.error,
            "error_description" => &mut found.description,
            _ => continue,
        };
        // A parameter must not occur twice (RFC 6749, section 3.1).
        if field.replace(value.into_owned()).is_some() {
            return Some(Redirected::default());
        }
    }
    Some(found)
}

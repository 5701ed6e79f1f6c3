//! A scripted InfluxDB that records the lines it accepts.

use std::{
    io::Read,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU16, Ordering},
    },
};

use axum::{
    Router,
    body::Bytes,
    extract::{RawQuery, State},
    routing::post,
};
use http::{HeaderMap, StatusCode, header};
use tokio::net::TcpListener;

/// Lines that contain this are rejected.
pub(super) const WRONG: &str = "wrong";

pub(super) struct Fake {
    pub(super) url: String,
    state: Arc<Told>,
}

struct Told {
    /// 0 accepts everything.
    status: AtomicU16,
    /// Reports the number of rejected lines, and accepts the others.
    is_helpful: bool,
    lines: Mutex<Vec<String>>,
}

impl Fake {
    pub(super) async fn start(is_helpful: bool) -> Fake {
        let state = Arc::new(Told {
            status: AtomicU16::new(0),
            is_helpful,
            lines: Mutex::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let app = Router::new().route("/write", post(write));
        let app = app.with_state(Arc::clone(&state));
        drop(tokio::spawn(async { axum::serve(listener, app).await }));
        Fake { url, state }
    }

    /// Response status from now on; 0 accepts everything.
    pub(super) fn answers(&self, status: u16) {
        self.state.status.store(status, Ordering::SeqCst);
    }

    /// Lines accepted since the last call, without tags and times.
    pub(super) fn taken(&self) -> Vec<String> {
        let lines = std::mem::take(&mut *self.state.lines.lock().unwrap());
        let short = |line: &String| {
            let (series, rest) = line.split_once(' ').unwrap();
            let (fields, _) = rest.rsplit_once(' ').unwrap();
            let (name, _) = series.split_once(',').unwrap();
            format!("{name} {fields}")
        };
        lines.iter().map(short).collect()
    }

    pub(super) fn taken_whole(&self) -> Vec<String> {
        std::mem::take(&mut *self.state.lines.lock().unwrap())
    }
}

async fn write(
    State(told): State<Arc<Told>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, String) {
    assert_eq!(query.as_deref(), Some("db=facts&precision=ms"));
    assert_eq!(headers[header::CONTENT_ENCODING], "gzip");
    // me:secret
    assert_eq!(headers[header::AUTHORIZATION], "Basic bWU6c2VjcmV0");
    let status = told.status.load(Ordering::SeqCst);
    if status != 0 {
        let status = StatusCode::from_u16(status).unwrap();
        return (status, r#"{"error":"not now"}"#.to_owned());
    }
    let mut text = String::new();
    let mut decoder = flate2::read::GzDecoder::new(body.as_ref());
    decoder.read_to_string(&mut text).unwrap();
    let lines = text.lines().map(str::to_owned);
    let (wrong, good): (Vec<String>, Vec<String>) = lines.partition(|line| line.contains(WRONG));
    if !wrong.is_empty() && !told.is_helpful {
        let said = r#"{"error":"unable to parse something"}"#;
        return (StatusCode::BAD_REQUEST, said.to_owned());
    }
    told.lines.lock().unwrap().extend(good);
    if wrong.is_empty() {
        return (StatusCode::NO_CONTENT, String::new());
    }
    let said = format!(
        r#"{{"error":"partial write: field type conflict dropped={}"}}"#,
        wrong.len()
    );
    (StatusCode::BAD_REQUEST, said)
}

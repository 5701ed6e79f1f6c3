use std::sync::{Arc, Mutex};

use axum::{
    Router,
    extract::State,
    http::{Method, StatusCode, Uri},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use tokio::net::UnixListener;

use super::{
    super::{note::HelmWork, testing::RUN},
    *,
};

/// Program of the fake runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Program {
    Alive,
    Ended,
    Forgotten,
}

struct FakeRunner {
    runner: Runner,
    program: Arc<Mutex<Program>>,
    _folder: tempfile::TempDir,
}

impl FakeRunner {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        let program = Arc::new(Mutex::new(Program::Alive));
        let router = Router::new().fallback(answer).with_state(program.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self {
            runner: Runner::at(socket),
            program,
            _folder: folder,
        }
    }
}

/// Answers as a runner does: the length of a JSON text in four bytes, and the text.
async fn answer(State(program): State<Arc<Mutex<Program>>>, method: Method, uri: Uri) -> Response {
    let mut program = program.lock().unwrap();
    let (code, head) = match (method.as_str(), uri.path()) {
        ("GET", "/v1/info") => {
            let info =
                json!({"instance": "i", "place": "p", "pid": 1, "version": "1", "running": 1});
            (StatusCode::OK, info)
        }
        ("DELETE", _) => {
            *program = Program::Forgotten;
            (StatusCode::OK, Value::Null)
        }
        ("POST", _) => {
            assert_eq!(uri.query(), Some("hard"));
            *program = Program::Ended;
            (StatusCode::OK, status(*program))
        }
        _ if *program == Program::Forgotten => {
            (StatusCode::NOT_FOUND, json!({"reason": "unknownRun"}))
        }
        _ => (StatusCode::OK, status(*program)),
    };
    let head = serde_json::to_vec(&head).unwrap();
    let mut body = u32::try_from(head.len()).unwrap().to_be_bytes().to_vec();
    body.extend(head);
    (code, body).into_response()
}

fn status(program: Program) -> Value {
    let state = match program {
        Program::Alive => json!({"running": {"pid": 7}}),
        _ => {
            json!({"ended": {"exit": {"signal": 9}, "cause": "cancelled", "outOfMemory": false, "durationMs": 1}})
        }
    };
    json!({"key": format!("{RUN}.1"), "operation": "upgrade-install", "state": state, "outputBytes": 0, "errorTail": ""})
}

fn step(instance: &str, place: &str) -> HelmStep {
    HelmStep {
        key: format!("{RUN}.1").parse().unwrap(),
        work: HelmWork::UpgradeInstall,
        before: None,
        runner: RunnerMark {
            instance: instance.to_owned(),
            place: place.to_owned(),
        },
    }
}

#[tokio::test]
async fn living_program_of_an_earlier_attempt_is_killed() {
    let fake = FakeRunner::start();
    assert!(end(&fake.runner, &step("i", "p")).await);
    assert_eq!(*fake.program.lock().unwrap(), Program::Forgotten);
}

#[tokio::test]
async fn program_of_an_earlier_runner_has_ended_with_it() {
    let fake = FakeRunner::start();
    assert!(end(&fake.runner, &step("earlier", "p")).await);
    assert_eq!(*fake.program.lock().unwrap(), Program::Alive);
}

#[tokio::test]
async fn program_may_live_without_an_answer_of_its_runner() {
    let fake = FakeRunner::start();
    assert!(!end(&fake.runner, &step("i", "other pod")).await);
    let silent = Runner::at("/nonexistent/socket");
    assert!(!end(&silent, &step("i", "p")).await);
}

//! Logs: repeated, reordered and cut uploads, and the limit of a log.

use std::{net::Ipv4Addr, sync::Arc};

use axum::{Router, body::Body, response::Response};
use bytes::Bytes;
use fairlead_api::{
    Code, RunId,
    delivery::{AttemptOutcome, RunKind},
    resources::Role,
};
use fairlead_rollout::{LogLimits, MAX_LOG_BYTES};
use fairlead_routes::ServedModules;
use fairlead_seam::{Caller, ClusterScope, Principal};
use http::{Request, StatusCode, header};
use tower::ServiceExt;

use super::{Rig, cluster};
use crate::{
    DeliveryModule, SourceSettings,
    runs::refusal::{PieceRefusal, RunRefusal},
};

impl Rig {
    async fn claimed(&self) -> RunId {
        self.create(RunKind::Sync, false).await;
        self.claim().await.unwrap().run
    }

    async fn append(&self, id: &RunId, at: u64, bytes: &[u8]) -> Result<u64, u64> {
        let bytes = Bytes::copy_from_slice(bytes);
        match self.runs.append(&cluster(), id, (1, at, &bytes)).await {
            Ok(length) => Ok(length),
            Err(PieceRefusal::Gap { wanted }) => Err(wanted),
            Err(PieceRefusal::Other(refusal)) => panic!("{refusal}"),
        }
    }

    /// Calls `GET /v1/runs/{id}/log` as an admin, at a hub of its own on the same store.
    async fn get_log(&self, id: &RunId, accept: &str) -> Response {
        let caller = Caller {
            token: None,
            name: "anna".to_owned(),
            role: Role::Admin,
            tenant: None,
            clusters: ClusterScope::All,
            namespaces: Vec::new(),
            grants: [].into(),
            subject: None,
            expires: None,
        };
        let settings = SourceSettings::of_data_dir(self.home.path());
        let module = DeliveryModule::new(self.runs.parts.clone(), settings);
        let modules = ServedModules::new(vec![Arc::new(module)]).modules;
        let routers = modules.iter().map(|it| it.user_routes());
        let router = routers.fold(Router::new(), Router::merge);
        let request = Request::get(format!("/v1/runs/{id}/log"))
            .header(header::ACCEPT, accept)
            .extension(Principal::known(caller, Ipv4Addr::LOCALHOST.into()));
        let request = request.body(Body::empty()).unwrap();
        router.oneshot(request).await.unwrap()
    }

    async fn text(&self, id: &RunId) -> Bytes {
        self.runs.text(id, 0).await.unwrap().0
    }
}

#[tokio::test]
async fn repeated_and_reordered_pieces_make_one_log() {
    let rig = Rig::new().await;
    let id = rig.claimed().await;
    assert_eq!(
        rig.append(&id, 6, b"world").await,
        Err(0),
        "bytes are missing"
    );
    assert_eq!(rig.append(&id, 0, b"hello ").await, Ok(6));
    assert_eq!(rig.append(&id, 0, b"hello ").await, Ok(6));
    assert_eq!(rig.append(&id, 4, b"o world").await, Ok(11));
    assert_eq!(rig.append(&id, 2, b"llo").await, Ok(11));
    assert_eq!(rig.text(&id).await, "hello world");
    let (rest, length) = rig.runs.text(&id, 6).await.unwrap();
    assert_eq!((rest, length), (Bytes::from_static(b"world"), 11));
    let other = Bytes::from_static(b"HELLO");
    let refused = rig.runs.append(&cluster(), &id, (1, 0, &other)).await;
    let Err(PieceRefusal::Other(RunRefusal::OtherLog { at: 0, .. })) = refused else {
        panic!("other bytes must be refused");
    };
    let stale = rig.runs.append(&cluster(), &id, (2, 11, &other)).await;
    assert!(matches!(
        stale,
        Err(PieceRefusal::Other(RunRefusal::Stop { .. }))
    ));
}

#[tokio::test]
async fn a_result_waits_for_its_whole_log() {
    let rig = Rig::new().await;
    let id = rig.claimed().await;
    rig.append(&id, 0, b"abc").await.unwrap();
    let early = rig.finish(&id, (1, AttemptOutcome::Succeeded, 5)).await;
    let Err(RunRefusal::LogIncomplete {
        stored: 3,
        expected: 5,
        ..
    }) = early
    else {
        panic!("{early:?}");
    };
    rig.append(&id, 3, b"de").await.unwrap();
    rig.finish(&id, (1, AttemptOutcome::Succeeded, 5))
        .await
        .unwrap();
    assert_eq!(rig.stored(&id).await.shown(None, None).log_bytes, 5);
}

#[tokio::test]
async fn the_middle_of_a_long_log_is_cut_in_the_database_too() {
    let rig = Rig::new().await;
    let id = rig.claimed().await;
    let piece: Vec<u8> = (0..64 * 1024_u32)
        .map(|it| b'a' + (it % 26) as u8)
        .collect();
    let mut at = 0;
    for _ in 0..64 {
        at = rig.append(&id, at, &piece).await.unwrap();
    }
    assert_eq!(at, 4 * 1024 * 1024);
    let text = rig.text(&id).await;
    let cut = at - MAX_LOG_BYTES;
    let mark = format!("\n[... {cut} bytes cut ...]\n");
    assert_eq!(text.len() as u64, MAX_LOG_BYTES + mark.len() as u64);
    let half = (MAX_LOG_BYTES / 2) as usize;
    assert!(text[half..].starts_with(mark.as_bytes()));
    let stored = rig.runs.parts.logs.sizes().await.unwrap();
    assert!(
        stored[0].1 <= MAX_LOG_BYTES + piece.len() as u64,
        "{stored:?}"
    );
    assert_eq!(
        rig.append(&id, 0, &piece).await,
        Ok(at),
        "a repeated first piece"
    );
    assert_eq!(
        rig.append(&id, 1024 * 1024, &piece).await,
        Ok(at),
        "a repeated cut piece"
    );
}

#[tokio::test]
async fn each_piece_renews_the_lease() {
    let rig = Rig::new().await;
    let id = rig.claimed().await;
    for at in 0..4 {
        rig.advance(50);
        assert_eq!(rig.append(&id, at, b"x").await, Ok(at + 1));
    }
    rig.advance(91);
    let second = rig.claim().await.unwrap();
    assert_eq!(
        (second.attempt, second.log_offset),
        (2, 4),
        "the next attempt goes on"
    );
}

#[tokio::test]
async fn oldest_logs_go_beyond_the_limits() {
    let rig = Rig::new().await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        let id = rig.claimed().await;
        rig.append(&id, 0, &[b'x'; 1000]).await.unwrap();
        rig.finish(&id, (1, AttemptOutcome::Succeeded, 1000))
            .await
            .unwrap();
        ids.push(id);
        rig.advance(3600);
    }
    let limits = LogLimits {
        max_total_bytes: 2500,
        ..LogLimits::default()
    };
    rig.runs.forget_old(limits).await.unwrap();
    assert_eq!(rig.text(&ids[0]).await, "");
    let forgotten = rig.runs.check_kept(&rig.stored(&ids[0]).await).await;
    let forgotten = forgotten.unwrap_err();
    assert_eq!(forgotten.code, Code::LogForgotten);
    assert_eq!(
        forgotten.cause,
        format!(
            "the log of {} had 1000 bytes, and is no longer kept",
            ids[0]
        )
    );
    let kept = rig.runs.check_kept(&rig.stored(&ids[1]).await).await;
    assert_eq!(kept, Ok(()));
    rig.advance(15 * 86_400);
    rig.runs.forget_old(LogLimits::default()).await.unwrap();
    assert_eq!(rig.runs.parts.logs.sizes().await.unwrap(), []);
    assert!(
        rig.runs.parts.runs.get(&ids[0]).await.unwrap().is_some(),
        "runs stay longer"
    );
    rig.advance(90 * 86_400);
    rig.runs.forget_old(LogLimits::default()).await.unwrap();
    assert_eq!(rig.runs.parts.runs.get(&ids[0]).await.unwrap(), None);
}

#[tokio::test]
async fn route_refuses_a_forgotten_log_as_bytes_and_as_events() {
    let rig = Rig::new().await;
    let id = rig.claimed().await;
    rig.append(&id, 0, b"hello\n").await.unwrap();
    let ended = rig.finish(&id, (1, AttemptOutcome::Succeeded, 6)).await;
    ended.unwrap();
    for accept in ["text/plain", "text/event-stream"] {
        let kept = rig.get_log(&id, accept).await;
        assert_eq!(kept.status(), StatusCode::OK, "{accept}");
    }
    rig.runs.parts.logs.forget(&id).await.unwrap();
    for accept in ["text/plain", "text/event-stream"] {
        let answer = rig.get_log(&id, accept).await;
        let status = answer.status().as_u16();
        assert_eq!(status, Code::LogForgotten.http_status(), "{accept}");
        let body = axum::body::to_bytes(answer.into_body(), 4096).await;
        let refusal: serde_json::Value = serde_json::from_slice(&body.unwrap()).unwrap();
        assert_eq!(refusal["code"], "FL-6508", "{accept}: {refusal}");
        let cause = format!("the log of {id} had 6 bytes, and is no longer kept");
        assert_eq!(refusal["reason"], cause, "{accept}");
    }
}

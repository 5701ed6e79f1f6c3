//! `POST /v1/artifacts`: upload of the content of a bundle, streamed.

use std::io;

use axum::{Json, extract::State};
use bytes::Bytes;
use fairlead_api::{
    Code, Failure, TenantId,
    delivery::{ArtifactId, UploadedArtifact},
};
use fairlead_registry::{RegistryError, allow, allow_in_tenant, sees_tenant};
use fairlead_routes::{
    ApiRoutes, Query, QueryParameter, RouteSpec, invalid,
    reply::{Answer, Authenticated, BodyStream, Rejected, check_content_type},
};
use fairlead_seam::Caller;
use fairlead_store::{View, millis};
use http::{HeaderMap, StatusCode, Uri};
use tokio::{
    sync::mpsc::{self, Sender},
    task::spawn_blocking,
};
use tracing::info;

use super::{
    Artifacts, MAX_ARCHIVE_BYTES, PackedFolder,
    pieces::{PieceReader, QUEUE_CAPACITY},
};
use crate::{
    charts::ChartFetcher,
    parts::DeliveryParts,
    rights::{DELIVER, TAG},
};

const CONTENT_TYPES: &[&str] = &[
    "application/x-tar",
    "application/gzip",
    "application/x-gzip",
    "application/octet-stream",
];

pub(crate) fn routes() -> ApiRoutes<DeliveryParts> {
    ApiRoutes::new().route(
        RouteSpec::post(
            TAG,
            "/v1/artifacts",
            "uploadArtifact",
            "Upload the content of a bundle: a tar or a gzipped tar of its folder",
        )
        .needs(&[DELIVER])
        .takes_bytes(CONTENT_TYPES)
        .query([QueryParameter::tenant(
            "Tenant whose bundles may use the content; default: that of the caller",
        )])
        .gives::<UploadedArtifact>(201),
        upload,
    )
}

async fn upload(
    State(parts): State<DeliveryParts>,
    Authenticated(caller): Authenticated,
    uri: Uri,
    headers: HeaderMap,
    body: BodyStream,
) -> Answer<(StatusCode, Json<UploadedArtifact>)> {
    let query = Query::of(&uri)?;
    let tenant = query.one("tenant")?.map(str::parse::<TenantId>);
    let tenant = tenant.transpose();
    let tenant = tenant.map_err(|error| invalid(format_args!("tenant: {error}")))?;
    let tenant = uploader(&parts.store.view(), &caller, tenant)?;
    check_content_type(&headers, CONTENT_TYPES)?;
    let sender = tenant.as_ref().map_or("all tenants", |it| it.as_str());
    let folder = receive(&parts.artifacts, body.within(MAX_ARCHIVE_BYTES)?, sender).await?;
    let folder = with_chart(&parts.charts, folder).await?;
    let now = millis(parts.clock.now());
    let stored = parts.artifacts.store(folder, now).await;
    let stored = stored.map_err(RegistryError::from)?;
    note(&parts, tenant.as_ref(), &stored.id, now).await?;
    info!(artifact = %stored.id, files = stored.files, bytes = stored.packed_bytes, caller = caller.name, "content uploaded");
    Ok((StatusCode::CREATED, Json(stored)))
}

/// Tenant for which the caller uploads; `None` is all tenants.
fn uploader(
    view: &View,
    caller: &Caller,
    tenant: Option<TenantId>,
) -> Result<Option<TenantId>, RegistryError> {
    let Some(tenant) = tenant.or_else(|| caller.tenant.clone()) else {
        allow(caller, DELIVER)?;
        return Ok(None);
    };
    if view.tenant(&tenant).is_none() || !sees_tenant(view, caller, &tenant) {
        return Err(RegistryError::UnknownTenant);
    }
    allow_in_tenant(view, caller, &tenant, DELIVER)?;
    Ok(Some(tenant))
}

async fn note(
    parts: &DeliveryParts,
    tenant: Option<&TenantId>,
    artifact: &ArtifactId,
    now: i64,
) -> Result<(), RegistryError> {
    Ok(parts.artifacts.note_upload(tenant, artifact, now).await?)
}

/// Fetches the chart that a folder without one names; other folders stay.
async fn with_chart(charts: &ChartFetcher, folder: PackedFolder) -> Answer<PackedFolder> {
    let Some(chart) = folder.chart_to_fetch() else {
        return Ok(folder);
    };
    let chart = charts.fetch(chart).await;
    let chart = chart.map_err(|cause| Failure::with_cause(Code::ChartNotFetched, cause))?;
    let packed = spawn_blocking(move || folder.replaced_by(chart)).await;
    Ok(packed.map_err(RegistryError::internal)??)
}

/// Unpacks a body while it arrives.
async fn receive(
    artifacts: &Artifacts,
    mut body: BodyStream,
    sender: &str,
) -> Answer<PackedFolder> {
    let _turn = artifacts.turn().await?;
    let (pieces, receiver) = mpsc::channel(QUEUE_CAPACITY);
    let (unpacker, sender) = (artifacts.clone(), sender.to_owned());
    let packing = spawn_blocking(move || unpacker.pack(PieceReader::new(receiver), &sender));
    let sent = send_pieces(&mut body, pieces).await;
    let packed = packing.await.map_err(RegistryError::internal)?;
    // The error of the body explains that of the archive.
    sent?;
    Ok(packed?)
}

async fn send_pieces(body: &mut BodyStream, pieces: Sender<io::Result<Bytes>>) -> Answer<()> {
    loop {
        match body.next_piece().await {
            Ok(None) => return Ok(()),
            Ok(Some(piece)) => {
                if pieces.send(Ok(piece)).await.is_err() {
                    // The archive is refused already.
                    return Ok(());
                }
            }
            Err(rejected) => {
                let broken = io::Error::from(io::ErrorKind::ConnectionReset);
                let _ = pieces.send(Err(broken)).await;
                return Err(Rejected::from(rejected.into_failure()));
            }
        }
    }
}

//! Requests for content by digest.

use std::time::Duration;

use aws_lc_rs::digest;
use bytes::{Bytes, BytesMut};
use fairlead_api::delivery::{ARTIFACTS_PATH, ArtifactId, MAX_SPEC_BYTES, SPECS_PATH, SpecId};
use fairlead_bundle::folder::{Folder, FolderError, MAX_PACKED_BYTES};
use http::{Request, Response, StatusCode, header};
use tokio::time::timeout;

use super::{ContentError, cache::Partial, unreadable};
use crate::hub::HubConnection;

/// Bytes per request: a broken session costs at most this much.
const PIECE_BYTES: usize = 512 * 1024;
/// Deadline of one request, with the wait for a session.
const REQUEST_DEADLINE: Duration = Duration::from_secs(120);

/// True if the bytes have the digest of the spec.
pub(super) fn is_spec(bytes: &[u8], id: &SpecId) -> bool {
    let digest = digest::digest(&digest::SHA256, bytes);
    let digest: Result<[u8; 32], _> = digest.as_ref().try_into();
    digest.is_ok_and(|it| SpecId::of_sha256(&it) == *id)
}

/// Fetches a spec.
pub(super) async fn spec(hub: &dyn HubConnection, id: &SpecId) -> Result<Bytes, ContentError> {
    let path = format!("{SPECS_PATH}{id}");
    let answer = send(hub, &path, None, MAX_SPEC_BYTES).await?;
    if answer.status() != StatusCode::OK {
        return Err(refused(id.as_str(), answer.status()));
    }
    let bytes = answer.into_body();
    if is_spec(&bytes, id) {
        Ok(bytes)
    } else {
        Err(ContentError::Digest(id.to_string()))
    }
}

/// Fetches a packed artifact piece by piece, from the end of `partial` on. A fetch that breaks off, or is dropped, keeps its pieces
/// there.
pub(super) async fn artifact(
    hub: &dyn HubConnection,
    id: &ArtifactId,
    partial: &mut Partial<'_>,
) -> Result<Bytes, ContentError> {
    let fetched = pieces(hub, id, &mut partial.bytes).await;
    // After any other answer than a broken one, these bytes may be the cause.
    match fetched {
        Ok(None) => Ok(partial.take()),
        Ok(Some(whole)) => {
            partial.take();
            Ok(whole)
        }
        Err(error @ ContentError::Unreachable(_)) => Err(error),
        Err(error) => {
            partial.take();
            Err(error)
        }
    }
}

/// Appends all missing pieces, or returns the whole if the hub sends no pieces.
async fn pieces(
    hub: &dyn HubConnection,
    id: &ArtifactId,
    bytes: &mut BytesMut,
) -> Result<Option<Bytes>, ContentError> {
    let path = format!("{ARTIFACTS_PATH}{id}");
    let limit = usize::try_from(MAX_PACKED_BYTES).unwrap_or(usize::MAX);
    loop {
        let range = (bytes.len(), bytes.len() + PIECE_BYTES - 1);
        let answer = send(hub, &path, Some(range), limit).await?;
        match answer.status() {
            // A hub without ranges sends the whole artifact.
            StatusCode::OK => return Ok(Some(answer.into_body())),
            StatusCode::PARTIAL_CONTENT => {}
            status => return Err(refused(id.as_str(), status)),
        }
        let total = total(&answer, bytes.len())
            .ok_or_else(|| unreadable(id.as_str(), "the hub sends another range"))?;
        bytes.extend_from_slice(answer.body());
        if bytes.len() >= total {
            return Ok(None);
        }
        if total > limit || answer.body().is_empty() {
            return Err(unreadable(id.as_str(), "its length is wrong"));
        }
    }
}

/// Unpacks an artifact, and compares its digest.
pub(super) async fn unpack(id: &ArtifactId, packed: Bytes) -> Result<Folder, ContentError> {
    let of = id.clone();
    let unpacking = tokio::task::spawn_blocking(move || Folder::from_artifact(&*packed, &of));
    let unpacked = unpacking
        .await
        .map_err(|error| unreadable(id.as_str(), error))?;
    unpacked.map_err(|error| match error {
        FolderError::Digest { .. } => ContentError::Digest(id.to_string()),
        other => unreadable(id.as_str(), other),
    })
}

/// Length of the whole artifact, from `bytes FIRST-LAST/TOTAL`.
fn total(answer: &Response<Bytes>, from: usize) -> Option<usize> {
    let range = answer.headers().get(header::CONTENT_RANGE)?.to_str().ok()?;
    let (range, total) = range.strip_prefix("bytes ")?.split_once('/')?;
    let (first, _) = range.split_once('-')?;
    (first.parse::<usize>().ok()? == from).then(|| total.parse().ok())?
}

fn refused(name: &str, status: StatusCode) -> ContentError {
    ContentError::Refused {
        name: name.to_owned(),
        status: status.as_u16(),
    }
}

async fn send(
    hub: &dyn HubConnection,
    path: &str,
    range: Option<(usize, usize)>,
    limit: usize,
) -> Result<Response<Bytes>, ContentError> {
    let mut request = Request::get(path);
    if let Some((first, last)) = range {
        request = request.header(header::RANGE, format!("bytes={first}-{last}"));
    }
    let request = request
        .body(Bytes::new())
        .map_err(|error| unreadable(path, error))?;
    let sent = timeout(REQUEST_DEADLINE, hub.send(request, limit)).await;
    let sent = sent.map_err(|_| ContentError::Unreachable("it did not answer".to_owned()))?;
    sent.map_err(|error| ContentError::Unreachable(error.0))
}

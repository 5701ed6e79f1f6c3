use std::sync::Mutex;

use async_trait::async_trait;
use bytes::Bytes;
use fairlead_bundle::folder::{FileEntry, Folder};
use http::{Request, Response, StatusCode, header};

use super::*;
use crate::hub::HubUnreachable;

/// Hub with one artifact, which breaks some requests.
struct Hub {
    packed: Bytes,
    requests: Mutex<Vec<String>>,
    breaks: Mutex<Vec<usize>>,
}

#[async_trait]
impl HubConnection for Hub {
    async fn send(
        &self,
        request: Request<Bytes>,
        _: usize,
    ) -> Result<Response<Bytes>, HubUnreachable> {
        let range = request.headers()[header::RANGE]
            .to_str()
            .unwrap()
            .to_owned();
        let mut requests = self.requests.lock().unwrap();
        requests.push(range.clone());
        if self.breaks.lock().unwrap().contains(&requests.len()) {
            return Err(HubUnreachable("broken".to_owned()));
        }
        let (first, last) = range
            .strip_prefix("bytes=")
            .unwrap()
            .split_once('-')
            .unwrap();
        let first: usize = first.parse().unwrap();
        let last = last.parse::<usize>().unwrap().min(self.packed.len() - 1);
        let total = self.packed.len();
        let response = Response::builder()
            .status(StatusCode::PARTIAL_CONTENT)
            .header(
                header::CONTENT_RANGE,
                format!("bytes {first}-{last}/{total}"),
            );
        Ok(response.body(self.packed.slice(first..=last)).unwrap())
    }
}

fn hub() -> (Arc<Hub>, ArtifactId) {
    // Random bytes stay large when packed.
    let mut content = vec![0; 1_200_000];
    getrandom::fill(&mut content).unwrap();
    let file = FileEntry {
        path: "a.bin".to_owned(),
        mode: 0o100_644,
        content,
    };
    let artifact = Folder::from_files([file]).unwrap().pack().unwrap();
    let hub = Hub {
        packed: Bytes::from(artifact.packed.clone()),
        requests: Mutex::default(),
        breaks: Mutex::default(),
    };
    (Arc::new(hub), artifact.id)
}

#[tokio::test]
async fn artifact_comes_in_pieces_and_stays_in_the_folder() {
    let (hub, id) = hub();
    let folder = tempfile::tempdir().unwrap();
    let cache = ContentCache::new(hub.clone(), Some(folder.path().to_owned()));
    assert_eq!(cache.artifact(&id).await.unwrap().len(), 1);
    assert_eq!(hub.requests.lock().unwrap().len(), 3);
    let restarted = ContentCache::new(hub.clone(), Some(folder.path().to_owned()));
    assert_eq!(restarted.artifact(&id).await.unwrap().len(), 1);
    assert_eq!(hub.requests.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn other_content_is_refused() {
    let (hub, _) = hub();
    let id = ArtifactId::of_sha256(&[1; 32]);
    let cache = ContentCache::new(hub, None);
    let error = cache.artifact(&id).await.unwrap_err();
    assert_eq!(error, ContentError::Digest(id.to_string()));
}

#[tokio::test]
async fn damaged_file_of_the_cache_is_fetched_again() {
    let (hub, id) = hub();
    let folder = tempfile::tempdir().unwrap();
    let file = id.as_str().strip_prefix("sha256:").unwrap();
    std::fs::write(folder.path().join(file), b"damaged").unwrap();
    let cache = ContentCache::new(hub, Some(folder.path().to_owned()));
    assert!(cache.artifact(&id).await.is_ok());
}

#[tokio::test]
async fn broken_request_is_an_error_of_the_hub() {
    let (hub, id) = hub();
    hub.breaks.lock().unwrap().push(2);
    let cache = ContentCache::new(hub, None);
    let error = cache.artifact(&id).await.unwrap_err();
    assert!(matches!(error, ContentError::Unreachable(_)));
}

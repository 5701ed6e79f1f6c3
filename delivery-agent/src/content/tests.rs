use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

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
    /// Numbers of the requests whose body is cut in its middle.
    breaks: Mutex<Vec<usize>>,
    /// Numbers of the requests that are answered with status 416.
    refusals: Mutex<Vec<usize>>,
    sent_bytes: AtomicUsize,
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
        if self.refusals.lock().unwrap().contains(&requests.len()) {
            let refusal = Response::builder().status(StatusCode::RANGE_NOT_SATISFIABLE);
            return Ok(refusal.body(Bytes::new()).unwrap());
        }
        let (first, last) = range
            .strip_prefix("bytes=")
            .unwrap()
            .split_once('-')
            .unwrap();
        let first: usize = first.parse().unwrap();
        let last = last.parse::<usize>().unwrap().min(self.packed.len() - 1);
        let total = self.packed.len();
        let length = last + 1 - first;
        if self.breaks.lock().unwrap().contains(&requests.len()) {
            self.sent_bytes.fetch_add(length / 2, Ordering::Relaxed);
            return Err(HubUnreachable("broken".to_owned()));
        }
        self.sent_bytes.fetch_add(length, Ordering::Relaxed);
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
        refusals: Mutex::default(),
        sent_bytes: AtomicUsize::new(0),
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

const PIECE_BYTES: usize = 512 * 1024;

#[tokio::test]
async fn cut_fetch_continues_at_its_last_piece() {
    let (hub, id) = hub();
    hub.breaks.lock().unwrap().extend([2, 4]);
    let cache = ContentCache::new(hub.clone(), None);
    for _ in 0..2 {
        let error = cache.artifact(&id).await.unwrap_err();
        assert!(matches!(error, ContentError::Unreachable(_)));
    }
    assert_eq!(cache.artifact(&id).await.unwrap().len(), 1);
    let firsts = [0, 1, 1, 2, 2].map(|piece| piece * PIECE_BYTES);
    let ranges = firsts.map(|first| format!("bytes={first}-{}", first + PIECE_BYTES - 1));
    assert_eq!(*hub.requests.lock().unwrap(), ranges);
    let repeated = PIECE_BYTES / 2 + (hub.packed.len() - 2 * PIECE_BYTES) / 2;
    let sent = hub.sent_bytes.load(Ordering::Relaxed);
    assert_eq!(sent, hub.packed.len() + repeated, "a cut costs its piece");
    assert_eq!(cache.artifact(&id).await.unwrap().len(), 1);
    assert_eq!(hub.requests.lock().unwrap().len(), 5);
}

#[tokio::test]
async fn refused_or_damaged_bytes_are_not_continued() {
    let (hub, id) = hub();
    hub.refusals.lock().unwrap().push(2);
    let cache = ContentCache::new(hub.clone(), None);
    let error = cache.artifact(&id).await.unwrap_err();
    assert!(matches!(error, ContentError::Refused { .. }));
    let other = ArtifactId::of_sha256(&[1; 32]);
    for _ in 0..2 {
        let error = cache.artifact(&other).await.unwrap_err();
        assert_eq!(error, ContentError::Digest(other.to_string()));
    }
    assert!(cache.artifact(&id).await.is_ok());
    let requests = hub.requests.lock().unwrap();
    let starts = requests.iter().filter(|it| it.starts_with("bytes=0-"));
    assert_eq!(starts.count(), 4, "{requests:?}");
}

#[tokio::test]
async fn dropped_fetch_keeps_its_pieces() {
    let (hub, id) = hub();
    let cache = Cache::new(None);
    let mut partial = cache.partial(id.as_str());
    partial.bytes.extend_from_slice(&hub.packed[..PIECE_BYTES]);
    drop(partial);
    let mut partial = cache.partial(id.as_str());
    let bytes = fetch::artifact(&*hub, &id, &mut partial).await.unwrap();
    assert_eq!(bytes, hub.packed);
    assert_eq!(hub.requests.lock().unwrap().len(), 2);
    drop(partial);
    assert!(cache.partial(id.as_str()).bytes.is_empty());
    assert!(cache.get(id.as_str()).await.is_none());
}

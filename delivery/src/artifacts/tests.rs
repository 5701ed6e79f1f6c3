use fairlead_bundle::folder::FileEntry;
use fairlead_store::{Clock, Place, Store};
use fairlead_testkit::wall_clock::WallClock;

use super::*;

fn packed(content: &str) -> Artifact {
    let file = FileEntry {
        path: "web.yaml".to_owned(),
        mode: 0o100_644,
        content: content.as_bytes().to_vec(),
    };
    Folder::from_files([file]).unwrap().pack().unwrap()
}

#[tokio::test]
async fn stored_content_with_another_digest_is_refused_with_both() {
    let home = tempfile::tempdir().unwrap();
    let place = Place::File(home.path().join("hub.db"));
    let clock = Clock::new(WallClock::at(time::OffsetDateTime::UNIX_EPOCH).reader());
    let store = Store::open(&place, clock).await.unwrap();
    let contents = ContentStore::of(&store);
    let (wanted, other) = (packed("a: 1\n"), packed("a: 2\n"));
    contents.put(&wanted.id, &other.packed, 0).await.unwrap();
    let artifacts = Artifacts::new(contents);
    let failure = artifacts.facts(&wanted.id).await.unwrap_err();
    let failure = Failure::from(failure);
    assert_eq!(failure.code, Code::WrongDigest);
    let (wanted, found) = (&wanted.id, &other.id);
    assert_eq!(
        failure.cause,
        format!(
            "the content has another digest than its name: the content has the digest {found}, not {wanted}"
        )
    );
    assert_eq!(failure.next_step(), Code::WrongDigest.next_step());
}

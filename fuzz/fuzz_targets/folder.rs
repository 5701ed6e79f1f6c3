//! Any bytes are refused, or are a folder within its limits that packs into an archive of the same files.
#![no_main]

use fairlead_bundle::folder::{Folder, FolderError, MAX_FILES, MAX_PATH_BYTES};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(folder) = Folder::from_archive(bytes) else {
        return;
    };
    assert!(folder.len() <= MAX_FILES);
    for (path, _) in &folder {
        assert!(path.len() <= MAX_PATH_BYTES && !path.starts_with('/'), "{path:?}");
        assert!(path.split('/').all(|name| !matches!(name, "" | "." | ".." | ".git")), "{path:?}");
    }
    let _ = folder.used_variables();
    match folder.pack() {
        Ok(artifact) => {
            let read = Folder::from_artifact(artifact.packed.as_slice(), &artifact.id);
            assert_eq!(read.expect("the same folder"), folder);
        }
        Err(error) => assert!(matches!(error, FolderError::Packed), "{error}"),
    }
});

use std::io::{Read, Write};

use flate2::{Compression, write::GzEncoder};
use proptest::prelude::*;
use tar::{Builder, EntryType, Header};

use super::*;

fn entry(path: &str, content: &str) -> FileEntry {
    FileEntry {
        path: path.to_owned(),
        mode: 0o100_755,
        content: content.as_bytes().to_vec(),
    }
}

/// Any path, as an attacker writes it.
fn header(path: &[u8], kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_gnu();
    let name = &mut header.as_old_mut().name;
    name[..path.len()].copy_from_slice(path);
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(0o4777);
    header.set_uid(1000);
    header.set_mtime(1_700_000_000);
    header.set_cksum();
    header
}

fn tar_of(entries: &[(&[u8], EntryType, &[u8])]) -> Vec<u8> {
    let mut tar = Builder::new(Vec::new());
    for (path, kind, content) in entries {
        tar.append(&header(path, *kind, content.len() as u64), *content)
            .unwrap();
    }
    tar.into_inner().unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

fn refused(archive: &[u8]) -> String {
    Folder::from_archive(archive).unwrap_err().to_string()
}

#[test]
fn archive_is_canonical() {
    use EntryType::{Directory, Regular, XGlobalHeader};
    let plain = tar_of(&[
        (b"b/c.yaml", Regular, b"c: 1\n"),
        (b"a.yaml", Regular, b"a: 1\n"),
    ]);
    let other = tar_of(&[
        (b"pax_global_header", XGlobalHeader, b"52 comment=0123\n"),
        (b"./", Directory, b""),
        (b"./.git/config", Regular, b"[core]\n"),
        (b"./a.yaml", Regular, b"a: 1\n"),
        (b"b/", Directory, b""),
        (b"b//c.yaml", Regular, b"c: 1\n"),
    ]);
    let listed = Folder::from_files([entry("b/c.yaml", "c: 1\n"), entry("a.yaml", "a: 1\n")]);
    let artifact = listed.unwrap().pack().unwrap();
    for archive in [plain.clone(), other.clone(), gzip(&plain), gzip(&other)] {
        let folder = Folder::from_archive(archive.as_slice()).unwrap();
        assert_eq!(folder.pack().unwrap(), artifact);
    }
    assert_eq!((artifact.files, artifact.unpacked_bytes), (2, 10));
    // A change of this name makes every known artifact another one.
    assert_eq!(
        artifact.id.as_str(),
        "sha256:c8d38419fce96be957d59e31e985d42f36f9118ec18746fad5f204fff104c9cf"
    );
    let read = Folder::from_artifact(artifact.packed.as_slice(), &artifact.id).unwrap();
    assert_eq!(read.get("b/c.yaml"), Some(b"c: 1\n".as_slice()));
    let wrong = ArtifactId::of_sha256(&[1; 32]);
    let error = Folder::from_artifact(artifact.packed.as_slice(), &wrong).unwrap_err();
    assert!(matches!(error, FolderError::Digest { .. }), "{error}");
}

#[test]
fn long_paths_and_an_empty_folder_are_packed() {
    let long = format!("{}/{}", "a".repeat(200), "b".repeat(200));
    for folder in [
        Folder::default(),
        Folder::from_files([entry(&long, "x"), entry("ä.yaml", "")]).unwrap(),
    ] {
        let artifact = folder.pack().unwrap();
        let read = Folder::from_artifact(artifact.packed.as_slice(), &artifact.id).unwrap();
        assert_eq!(read, folder);
    }
}

#[test]
fn entries_that_are_no_files_are_refused() {
    use EntryType::{Block, Char, Fifo, Link, Symlink};
    for (kind, word) in [
        (Symlink, "symbolic link"),
        (Link, "hard link"),
        (Char, "device"),
        (Block, "device"),
        (Fifo, "pipe"),
        (EntryType::new(b'Z'), "special file"),
    ] {
        let text = refused(&tar_of(&[(b"a", kind, b"")]));
        assert!(text.contains(word), "{kind:?}: {text}");
    }
    for (mode, word) in [
        (0o120_000, "symbolic link"),
        (0o160_000, "submodule"),
        (0o040_755, "folder"),
        (0o060_000, "special"),
    ] {
        let file = FileEntry {
            mode,
            ..entry("a", "")
        };
        let text = Folder::from_files([file]).unwrap_err().to_string();
        assert!(text.contains(word), "{mode:o}: {text}");
    }
}

#[test]
fn paths_outside_of_the_folder_are_refused() {
    for (path, word) in [
        (b"../a".as_slice(), "leaves the folder"),
        (b"a/../../b", "leaves the folder"),
        (b"a/..", "leaves the folder"),
        (b"/etc/passwd", "absolute"),
        (b"a\nb", "control characters"),
        (b"a\\b", "backslashes"),
        (b"a\xff", "UTF-8"),
        (b"", "empty"),
    ] {
        for kind in [EntryType::Regular, EntryType::Directory] {
            let text = refused(&tar_of(&[(path, kind, b"")]));
            assert!(text.contains(word), "{path:?}: {text}");
        }
    }
    let nul = Folder::from_files([entry("a\0b", "")]).unwrap_err();
    assert!(nul.to_string().contains("control"), "{nul}");
    let long = Folder::from_files([entry(&"a".repeat(MAX_PATH_BYTES + 1), "")]).unwrap_err();
    assert!(long.to_string().contains("512 bytes"), "{long}");
}

#[test]
fn conflicting_paths_are_refused() {
    for (paths, expected) in [
        (["a", "a"].as_slice(), "\"a\" is there twice"),
        (&["a/b", "a/./b"], "\"a/b\" is there twice"),
        (&["a.yaml", "b", "A.yaml"], "upper and lower case"),
        (&["dir/a", "Dir/b"], "upper and lower case"),
        (&["ä", "Ä"], "upper and lower case"),
        (&["a", "a-b", "a/b"], "\"a\" is a file and a folder"),
    ] {
        let entries = paths.iter().map(|path| entry(path, ""));
        let error = Folder::from_files(entries).unwrap_err().to_string();
        assert!(error.contains(expected), "{paths:?}: {error}");
        let tar: Vec<_> = paths
            .iter()
            .map(|path| (path.as_bytes(), EntryType::Regular, b"".as_slice()))
            .collect();
        assert_eq!(refused(&tar_of(&tar)), error);
    }
    let fine = ["a", "a-b", "b/a", "b/b/a", "c/a", "c.a"].map(|path| entry(path, ""));
    assert_eq!(Folder::from_files(fine).unwrap().len(), 6);
}

#[test]
fn a_cut_archive_is_refused_at_every_byte() {
    let tar = tar_of(&[
        (b"a", EntryType::Regular, b"aaa"),
        (b"b", EntryType::Regular, b"bbb"),
    ]);
    assert_eq!(tar.len(), 3072);
    for length in (0..tar.len()).step_by(64).chain([1, 511, 513, 3071]) {
        assert!(
            Folder::from_archive(&tar[..length]).is_err(),
            "{length} bytes are accepted"
        );
    }
    let packed = gzip(&tar);
    for length in 0..packed.len() {
        assert!(Folder::from_archive(&packed[..length]).is_err(), "{length}");
    }
    let more = [tar.as_slice(), b"x"].concat();
    assert_eq!(refused(&more), "the archive is cut off");
    assert!(matches!(
        Folder::from_archive(b"no archive".as_slice()),
        Err(FolderError::CutOff | FolderError::Archive(_))
    ));
}

/// Zeros by gzip: 1,000 times smaller than unpacked.
struct Zeros {
    left: u64,
}

impl Read for Zeros {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer.len().min(self.left.try_into().unwrap_or(usize::MAX));
        buffer[..length].fill(0);
        self.left -= length as u64;
        Ok(length)
    }
}

#[test]
fn limits_hold() {
    // The header promises more than the limit; nothing is read.
    let promise = header(b"a", EntryType::Regular, MAX_UNPACKED_BYTES + 1);
    let error = Folder::from_archive(promise.as_bytes().as_slice()).unwrap_err();
    assert!(matches!(error, FolderError::Unpacked), "{error}");

    // A bomb: zeros behind the end of the archive, without any entry.
    let mut bomb = GzEncoder::new(Vec::new(), Compression::fast());
    io::copy(&mut Zeros { left: 110 << 20 }, &mut bomb).unwrap();
    let bomb = bomb.finish().unwrap();
    assert!(bomb.len() < 2 << 20);
    let error = Folder::from_archive(bomb.as_slice()).unwrap_err();
    assert!(matches!(error, FolderError::Unpacked), "{error}");

    // An endless name.
    let mut name = GzEncoder::new(Vec::new(), Compression::fast());
    let long_name = header(b"././@LongLink", EntryType::GNULongName, 1 << 40);
    name.write_all(long_name.as_bytes()).unwrap();
    io::copy(&mut Zeros { left: 110 << 20 }, &mut name).unwrap();
    let error = Folder::from_archive(name.finish().unwrap().as_slice()).unwrap_err();
    assert!(matches!(error, FolderError::Unpacked), "{error}");

    let files = |count: usize| (0..count).map(|number| entry(&format!("f{number}"), ""));
    assert_eq!(
        Folder::from_files(files(MAX_FILES)).unwrap().len(),
        MAX_FILES
    );
    let error = Folder::from_files(files(MAX_FILES + 1)).unwrap_err();
    assert!(matches!(error, FolderError::Files), "{error}");

    // Bytes that do not pack.
    let mut state = 1_u64;
    let noise = (0..9 << 20).map(|_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 56) as u8
    });
    let noise = FileEntry {
        content: noise.collect(),
        ..entry("noise", "")
    };
    let error = Folder::from_files([noise]).unwrap().pack().unwrap_err();
    assert!(matches!(error, FolderError::Packed), "{error}");
}

#[test]
fn a_packaged_chart_loses_its_top_folder() {
    let paths = |paths: &[&str]| {
        let folder = Folder::from_files(paths.iter().map(|path| entry(path, ""))).unwrap();
        let folder = folder.without_top_folder();
        folder
            .iter()
            .map(|(path, _)| path.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        paths(&["shop/Chart.yaml", "shop/templates/a.yaml"]),
        ["Chart.yaml", "templates/a.yaml"]
    );
    assert_eq!(paths(&["shop/a", "shop-2/a"]), ["shop-2/a", "shop/a"]);
    assert_eq!(paths(&["a", "b/c"]), ["a", "b/c"]);
    assert_eq!(paths(&["a"]), ["a"]);
    assert!(paths(&[]).is_empty());
}

#[test]
fn variables_of_manifests_are_found() {
    let folder = Folder::from_files([
        entry("a.yaml", "a: ${vars.a}"),
        entry("b/b.json", "{\"b\": \"${vars.b:-1}\"}"),
        entry("README.md", "${vars.c}"),
        entry("fairlead.yaml", "patches: ['${vars.d}']"),
    ])
    .unwrap();
    let used = folder.used_variables();
    let names: Vec<_> = used.iter().map(|(name, it)| (name.as_str(), *it)).collect();
    assert_eq!(names, [("vars.a", true), ("vars.b", false)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn folders_survive_packing(files in prop::collection::btree_map("[a-z]{1,4}(/[a-z.-]{1,40}){0,3}", prop::collection::vec(any::<u8>(), 0..700), 0..12)) {
        let entries: Vec<_> = files.into_iter().map(|(path, content)| FileEntry { path, mode: 0o644, content }).collect();
        let Ok(folder) = Folder::from_files(entries.clone()) else {
            return Ok(());
        };
        let artifact = folder.pack().unwrap();
        let read = Folder::from_artifact(artifact.packed.as_slice(), &artifact.id).unwrap();
        prop_assert_eq!(&read, &folder);
        let reversed = Folder::from_files(entries.into_iter().rev()).unwrap();
        prop_assert_eq!(reversed.pack().unwrap(), artifact);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
        let _ = Folder::from_archive(bytes.as_slice());
        let _ = Folder::from_archive(gzip(&bytes).as_slice());
    }

    #[test]
    fn a_changed_archive_is_read_or_refused(at in 0..3072_usize, to in any::<u8>()) {
        let mut tar = tar_of(&[(b"a", EntryType::Regular, b"aaa"), (b"b", EntryType::Regular, b"bbb")]);
        tar[at] = to;
        if let Ok(folder) = Folder::from_archive(tar.as_slice()) {
            folder.pack().unwrap();
        }
    }
}

#[test]
fn memory_is_taken_before_a_file_is_read() {
    let archive = tar_of(&[
        (b"a", EntryType::Regular, b"12345"),
        (b"b", EntryType::Regular, b"1"),
    ]);
    let mut taken = Vec::new();
    let folder = Folder::from_archive_within(archive.as_slice(), &mut |bytes| {
        taken.push(bytes);
        true
    });
    assert_eq!(folder.unwrap().len(), 2);
    assert_eq!(taken.len(), 2);
    assert!(taken[0] > taken[1] && taken[1] > 1, "{taken:?}");
    let refused = Folder::from_archive_within(archive.as_slice(), &mut |bytes| bytes < taken[0]);
    assert!(matches!(refused, Err(FolderError::Memory)), "{refused:?}");
}

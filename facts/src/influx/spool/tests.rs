use std::fs::OpenOptions;

use tempfile::TempDir;

use super::*;

const MAX_SPOOL_BYTES: u64 = 64 * 1024;

fn open(dir: &TempDir, max: u64, from: SpoolPosition) -> (Spool, LostBatches) {
    Spool::open(dir.path(), max, from).unwrap()
}

fn batch(n: i64) -> LineBatch {
    LineBatch::pack(&[&format!("a v={n}i {n}")], n).unwrap()
}

/// Times of the remaining batches.
fn drained(spool: &mut Spool) -> Vec<i64> {
    let mut all = Vec::new();
    while let (Some(batch), _) = spool.front().unwrap() {
        all.push(batch.at);
        spool.pop().unwrap();
    }
    all
}

fn files(dir: &TempDir) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(dir.path())
        .unwrap()
        .map(|found| found.unwrap().path())
        .collect();
    files.sort();
    files
}

/// Incompressible, so that it fills a file.
fn large(n: i64) -> LineBatch {
    let mut bytes = [0; 6000];
    aws_lc_rs::rand::fill(&mut bytes).unwrap();
    LineBatch::pack(&[&fairlead_store::model::hex::encode(&bytes)], n).unwrap()
}

#[test]
fn batches_leave_in_order_and_files_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let (mut spool, lost) = open(&dir, MAX_SPOOL_BYTES, SpoolPosition::default());
    assert_eq!(lost, LostBatches::default());
    spool.append(&[batch(1), batch(2)]).unwrap();
    spool.append(&[batch(3)]).unwrap();
    assert_eq!((spool.oldest(), spool.is_empty()), (Some(1), false));
    assert_eq!(spool.bytes(), fs::metadata(&files(&dir)[0]).unwrap().len());
    assert_eq!(drained(&mut spool), [1, 2, 3]);
    assert_eq!((spool.bytes(), spool.oldest()), (0, None));
    assert!(files(&dir).is_empty());
    spool.append(&[batch(4)]).unwrap();
    assert_eq!(drained(&mut spool), [4]);
}

#[test]
fn undelivered_batches_survive_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let (mut spool, _) = open(&dir, MAX_SPOOL_BYTES, SpoolPosition::default());
    for n in 1..=4 {
        spool.append(&[batch(n)]).unwrap();
    }
    spool.pop().unwrap();
    let place = spool.place();
    spool.pop().unwrap();
    drop(spool);
    // The position was not stored: batch two is delivered again, and nothing else.
    let (mut spool, lost) = open(&dir, MAX_SPOOL_BYTES, place);
    assert_eq!(lost, LostBatches::default());
    spool.append(&[batch(5)]).unwrap();
    assert_eq!(drained(&mut spool), [2, 3, 4, 5]);
    let end = spool.place();
    drop(spool);
    assert!(open(&dir, MAX_SPOOL_BYTES, end).0.is_empty());
}

#[test]
fn a_torn_end_is_truncated() {
    let dir = tempfile::tempdir().unwrap();
    let (mut spool, _) = open(&dir, MAX_SPOOL_BYTES, SpoolPosition::default());
    spool.append(&[batch(1), batch(2)]).unwrap();
    drop(spool);
    let file = &files(&dir)[0];
    let whole = fs::read(file).unwrap();
    let second = open(&dir, MAX_SPOOL_BYTES, SpoolPosition::default())
        .0
        .waiting[1]
        .0
        .offset;
    for cut in usize::try_from(second).unwrap() + 1..whole.len() {
        fs::write(file, &whole[..cut]).unwrap();
        let (mut spool, lost) = open(&dir, MAX_SPOOL_BYTES, SpoolPosition::default());
        assert_eq!(lost.damaged, 1, "{cut}");
        assert_eq!(fs::metadata(file).unwrap().len(), second, "{cut}");
        assert_eq!(spool.front().unwrap().0, Some(batch(1)), "{cut}");
    }
    fs::write(file, &whole[..usize::try_from(second).unwrap()]).unwrap();
    assert_eq!(
        open(&dir, MAX_SPOOL_BYTES, SpoolPosition::default()).1,
        LostBatches::default()
    );
}

#[test]
fn damaged_batches_are_skipped_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let (mut spool, _) = open(&dir, MAX_SPOOL_BYTES, SpoolPosition::default());
    spool.append(&[batch(1)]).unwrap();
    spool.append(&[batch(2), batch(3)]).unwrap();
    let second = spool.waiting[1].0.offset;
    let mut file = OpenOptions::new()
        .write(true)
        .open(&files(&dir)[0])
        .unwrap();
    io::Seek::seek(&mut file, io::SeekFrom::Start(second + 20)).unwrap();
    io::Write::write_all(&mut file, b"rot").unwrap();
    assert_eq!(spool.front().unwrap().0, Some(batch(1)));
    spool.pop().unwrap();
    let (found, lost) = spool.front().unwrap();
    assert_eq!((found, lost.lines, lost.damaged), (Some(batch(3)), 1, 1));
}

#[test]
fn a_full_spool_drops_and_counts_the_oldest() {
    let dir = tempfile::tempdir().unwrap();
    let (mut spool, _) = open(&dir, MAX_SPOOL_BYTES, SpoolPosition::default());
    let mut lost = 0;
    for n in 0..30 {
        lost += spool.append(&[large(n)]).unwrap().lines;
        assert!(spool.bytes() <= MAX_SPOOL_BYTES, "{}", spool.bytes());
    }
    let on_disk: u64 = files(&dir)
        .iter()
        .map(|it| fs::metadata(it).unwrap().len())
        .sum();
    assert_eq!(on_disk, spool.bytes());
    let left = drained(&mut spool);
    assert!(lost > 0 && !left.is_empty());
    let lost = i64::try_from(lost).unwrap();
    assert_eq!(left, (lost..30).collect::<Vec<_>>());
}

#[test]
fn a_failed_write_leaves_earlier_batches_intact() {
    let dir = tempfile::tempdir().unwrap();
    let (mut spool, _) = open(&dir, MAX_SPOOL_BYTES, SpoolPosition::default());
    spool.append(&[batch(1)]).unwrap();
    // A device that is always full.
    spool.writes = Some(OpenOptions::new().write(true).open("/dev/full").unwrap());
    let error = spool.append(&[batch(2)]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    spool.append(&[batch(3)]).unwrap();
    assert_eq!(drained(&mut spool), [1, 3]);
}

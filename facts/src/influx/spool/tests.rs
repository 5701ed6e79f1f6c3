use std::fs::OpenOptions;

use tempfile::TempDir;

use super::*;

const MAX: u64 = 64 * 1024;

fn open(dir: &TempDir, max: u64, from: Place) -> (Spool, Lost) {
    Spool::open(dir.path(), max, from).unwrap()
}

fn batch(n: i64) -> Batch {
    Batch::pack(&[&format!("a v={n}i {n}")], n).unwrap()
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
fn large(n: i64) -> Batch {
    let mut bytes = [0; 6000];
    aws_lc_rs::rand::fill(&mut bytes).unwrap();
    Batch::pack(&[&fairlead_store::model::hex::encode(&bytes)], n).unwrap()
}

#[test]
fn batches_come_out_as_they_went_in_and_leave_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let (mut spool, lost) = open(&dir, MAX, Place::default());
    assert_eq!(lost, Lost::default());
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
fn what_was_not_delivered_is_there_after_a_crash_and_what_was_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let (mut spool, _) = open(&dir, MAX, Place::default());
    for n in 1..=4 {
        spool.append(&[batch(n)]).unwrap();
    }
    spool.pop().unwrap();
    let place = spool.place();
    spool.pop().unwrap();
    drop(spool);
    // The position was not stored: batch two is delivered again, and nothing else.
    let (mut spool, lost) = open(&dir, MAX, place);
    assert_eq!(lost, Lost::default());
    spool.append(&[batch(5)]).unwrap();
    assert_eq!(drained(&mut spool), [2, 3, 4, 5]);
    let end = spool.place();
    drop(spool);
    assert!(open(&dir, MAX, end).0.is_empty());
}

#[test]
fn a_torn_end_is_cut_off_and_the_rest_stays() {
    let dir = tempfile::tempdir().unwrap();
    let (mut spool, _) = open(&dir, MAX, Place::default());
    spool.append(&[batch(1), batch(2)]).unwrap();
    drop(spool);
    let file = &files(&dir)[0];
    let whole = fs::read(file).unwrap();
    let second = open(&dir, MAX, Place::default()).0.waiting[1].0.offset;
    for cut in usize::try_from(second).unwrap() + 1..whole.len() {
        fs::write(file, &whole[..cut]).unwrap();
        let (mut spool, lost) = open(&dir, MAX, Place::default());
        assert_eq!(lost.damaged, 1, "{cut}");
        assert_eq!(fs::metadata(file).unwrap().len(), second, "{cut}");
        assert_eq!(spool.front().unwrap().0, Some(batch(1)), "{cut}");
    }
    fs::write(file, &whole[..usize::try_from(second).unwrap()]).unwrap();
    assert_eq!(open(&dir, MAX, Place::default()).1, Lost::default());
}

#[test]
fn what_rots_is_left_out_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let (mut spool, _) = open(&dir, MAX, Place::default());
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
fn where_there_is_no_room_the_oldest_goes_and_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let (mut spool, _) = open(&dir, MAX, Place::default());
    let mut lost = 0;
    for n in 0..30 {
        lost += spool.append(&[large(n)]).unwrap().lines;
        assert!(spool.bytes() <= MAX, "{}", spool.bytes());
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
fn what_the_disk_does_not_take_is_not_there_and_the_rest_is() {
    let dir = tempfile::tempdir().unwrap();
    let (mut spool, _) = open(&dir, MAX, Place::default());
    spool.append(&[batch(1)]).unwrap();
    // A device that is always full.
    spool.writes = Some(OpenOptions::new().write(true).open("/dev/full").unwrap());
    let error = spool.append(&[batch(2)]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    spool.append(&[batch(3)]).unwrap();
    assert_eq!(drained(&mut spool), [1, 3]);
}

//! Progress of InfluxDB: a line in a file next to the spool, replaced atomically. If it is missing,
//! damaged, or for another InfluxDB, all facts are written again. It is durable before anything
//! continues from it.

use std::{fs, io, path::Path};

use fairlead_runtime::atomic_file;
use fairlead_store::Revision;
use flate2::Crc;

use crate::influx::spool::SpoolPosition;

const NAME: &str = "cursor";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FeedCursor {
    /// Checksum of the target InfluxDB.
    pub(super) target: u32,
    /// Changes up to here are written or spooled. `None` before the start.
    pub(super) since: Option<Revision>,
    /// Start of the spool.
    pub(super) place: SpoolPosition,
}

/// Checksum of URL and database.
pub(super) fn target(url: &str, database: &str) -> u32 {
    sum(&format!("{url} {database}"))
}

fn sum(text: &str) -> u32 {
    let mut crc = Crc::new();
    crc.update(text.as_bytes());
    crc.sum()
}

impl FeedCursor {
    /// `None` without a valid cursor.
    ///
    /// # Errors
    /// The file exists but cannot be read.
    pub(super) fn read(folder: &Path) -> io::Result<Option<FeedCursor>> {
        match fs::read(folder.join(NAME)) {
            Ok(bytes) => Ok(String::from_utf8(bytes).ok().as_deref().and_then(parse)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Replaces the cursor.
    ///
    /// # Errors
    /// The disk is full or failing. The previous cursor remains.
    pub(super) fn write(&self, folder: &Path) -> io::Result<()> {
        atomic_file::replace(&folder.join(NAME), self.line().as_bytes(), 0o644)
    }

    fn line(&self) -> String {
        let since = self
            .since
            .map_or_else(|| "-".to_owned(), |it| it.to_string());
        let SpoolPosition { file, offset } = self.place;
        let text = format!("1 {} {since} {file} {offset}", self.target);
        format!("{text} {}\n", sum(&text))
    }
}

fn parse(line: &str) -> Option<FeedCursor> {
    let (text, told) = line.trim_end().rsplit_once(' ')?;
    if told.parse() != Ok(sum(text)) {
        return None;
    }
    let mut words = text.split(' ');
    let (version, target, since) = (words.next()?, words.next()?, words.next()?);
    let (file, offset) = (words.next()?, words.next()?);
    (version == "1").then_some(())?;
    Some(FeedCursor {
        target: target.parse().ok()?,
        since: match since {
            "-" => None,
            since => Some(since.parse().ok()?),
        },
        place: SpoolPosition {
            file: file.parse().ok()?,
            offset: offset.parse().ok()?,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_back_and_half_of_it_is_none() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(FeedCursor::read(dir.path()).unwrap(), None);
        for since in [None, Some(Revision(4711))] {
            let place = SpoolPosition {
                file: 3,
                offset: 1024,
            };
            let cursor = FeedCursor {
                target: target("http://one", "facts"),
                since,
                place,
            };
            cursor.write(dir.path()).unwrap();
            assert_eq!(FeedCursor::read(dir.path()).unwrap(), Some(cursor));
        }
        let whole = fs::read(dir.path().join(NAME)).unwrap();
        for cut in 0..whole.len() - 1 {
            fs::write(dir.path().join(NAME), &whole[..cut]).unwrap();
            assert_eq!(FeedCursor::read(dir.path()).unwrap(), None, "{cut}");
        }
    }

    #[test]
    fn another_influxdb_is_another_target() {
        assert_ne!(target("http://one", "facts"), target("http://two", "facts"));
        assert_ne!(target("http://one", "facts"), target("http://one", "other"));
    }
}

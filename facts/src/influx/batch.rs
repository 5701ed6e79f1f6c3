//! Batches of lines for InfluxDB: compressed as sent, with the length of each line, so that a
//! rejected line can be isolated.

use std::io::{self, Read, Write};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};

/// Limits of a batch; a longer line forms its own batch.
pub(super) const MAX_LINES: usize = 5000;
pub(super) const MAX_BYTES: usize = 1024 * 1024;
/// Limit of a decompressed batch in bytes: one line holds a fact of 64 KiB, doubled by escaping.
const MAX_UNPACKED: u64 = 4 * 1024 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LineBatch {
    /// Time of its oldest line, in milliseconds since 1970.
    pub(super) at: i64,
    /// Length of each line in bytes, including its end.
    pub(super) lengths: Vec<u32>,
    pub(super) gzip: Vec<u8>,
}

impl LineBatch {
    /// Compresses lines.
    ///
    /// # Errors
    /// None in practice: it compresses in memory.
    pub(super) fn pack(lines: &[&str], at: i64) -> io::Result<LineBatch> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        let mut lengths = Vec::with_capacity(lines.len());
        for line in lines {
            encoder.write_all(line.as_bytes())?;
            encoder.write_all(b"\n")?;
            let length = u32::try_from(line.len() + 1).map_err(io::Error::other)?;
            lengths.push(length);
        }
        Ok(LineBatch {
            at,
            lengths,
            gzip: encoder.finish()?,
        })
    }

    pub(super) fn lines(&self) -> u64 {
        self.lengths.len() as u64
    }

    /// The lines, without their ends.
    ///
    /// # Errors
    /// The content was not written by [`LineBatch::pack`].
    pub(super) fn unpack(&self) -> io::Result<Vec<String>> {
        let mut text = Vec::new();
        let mut decoder = GzDecoder::new(self.gzip.as_slice()).take(MAX_UNPACKED);
        decoder.read_to_end(&mut text)?;
        let mut rest = text.as_slice();
        let mut lines = Vec::with_capacity(self.lengths.len());
        for length in &self.lengths {
            let length = usize::try_from(*length).map_err(io::Error::other)?;
            let (line, behind) = rest
                .split_at_checked(length)
                .ok_or(io::ErrorKind::UnexpectedEof)?;
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            lines.push(String::from_utf8(line.to_vec()).map_err(io::Error::other)?);
            rest = behind;
        }
        Ok(lines)
    }

    /// Stored form: time, number of lines, their lengths, compressed content.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(12 + 4 * self.lengths.len() + self.gzip.len());
        bytes.extend(self.at.to_le_bytes());
        // At most `MAX_LINES`.
        bytes.extend(u32::try_from(self.lengths.len()).unwrap_or(0).to_le_bytes());
        for length in &self.lengths {
            bytes.extend(length.to_le_bytes());
        }
        bytes.extend(&self.gzip);
        bytes
    }

    /// `None` if the bytes are no batch.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<LineBatch> {
        let (at, rest) = bytes.split_first_chunk()?;
        let (count, rest) = rest.split_first_chunk()?;
        let count = usize::try_from(u32::from_le_bytes(*count)).ok()?;
        if count > MAX_LINES {
            return None;
        }
        let (lengths, gzip) = rest.split_at_checked(count.checked_mul(4)?)?;
        let lengths = lengths.chunks_exact(4).filter_map(|it| it.try_into().ok());
        Some(LineBatch {
            at: i64::from_le_bytes(*at),
            lengths: lengths.map(u32::from_le_bytes).collect(),
            gzip: gzip.to_vec(),
        })
    }
}

/// Collects lines into batches.
#[derive(Default)]
pub(super) struct Packer {
    lines: Vec<String>,
    bytes: usize,
    at: Option<i64>,
    pub(super) done: Vec<LineBatch>,
}

impl Packer {
    /// Adds a line.
    ///
    /// # Errors
    /// As [`LineBatch::pack`].
    pub(super) fn add(&mut self, line: String, at: i64) -> io::Result<()> {
        if !self.lines.is_empty() && self.bytes + line.len() >= MAX_BYTES {
            self.close()?;
        }
        self.bytes += line.len() + 1;
        self.lines.push(line);
        self.at = Some(self.at.map_or(at, |before| before.min(at)));
        match self.lines.len() >= MAX_LINES {
            true => self.close(),
            false => Ok(()),
        }
    }

    /// Approximate uncompressed size in bytes.
    pub(super) fn pending_bytes(&self) -> usize {
        self.bytes + self.done.len().saturating_mul(MAX_BYTES)
    }

    /// Completes the last batch.
    ///
    /// # Errors
    /// As [`LineBatch::pack`].
    pub(super) fn close(&mut self) -> io::Result<()> {
        let Some(at) = self.at.take() else {
            return Ok(());
        };
        let lines: Vec<&str> = self.lines.iter().map(String::as_str).collect();
        self.done.push(LineBatch::pack(&lines, at)?);
        self.lines.clear();
        self.bytes = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_reads_back_and_knows_its_lines() {
        let batch = LineBatch::pack(&["a v=1i 5", "b v=\"two\nlines\" 6"], 5).unwrap();
        assert_eq!(
            batch.unpack().unwrap(),
            ["a v=1i 5", "b v=\"two\nlines\" 6"]
        );
        let bytes = batch.to_bytes();
        assert_eq!(LineBatch::from_bytes(&bytes), Some(batch));
        for cut in 0..20 {
            assert_eq!(LineBatch::from_bytes(&bytes[..cut]), None, "{cut}");
        }
        assert_eq!(LineBatch::from_bytes(&[255; 40]), None);
    }

    #[test]
    fn batches_have_an_end() {
        let mut packer = Packer::default();
        packer.close().unwrap();
        assert!(packer.done.is_empty());
        for _ in 0..=MAX_LINES {
            packer.add("x".to_owned(), 7).unwrap();
        }
        packer.add("y".repeat(MAX_BYTES), 3).unwrap();
        packer.add("z".to_owned(), 9).unwrap();
        packer.close().unwrap();
        let shape: Vec<_> = packer.done.iter().map(|it| (it.lines(), it.at)).collect();
        assert_eq!(shape, [(MAX_LINES as u64, 7), (1, 7), (1, 3), (1, 9)]);
    }
}

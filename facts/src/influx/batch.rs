//! Lines that go to InfluxDB together: packed as they are sent, with where each begins, so that one that is wrong can be told
//! from the others.

use std::io::{self, Read, Write};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};

/// Lines and bytes of one batch, at the most; a line that is longer is one of its own.
pub(super) const MAX_LINES: usize = 5000;
pub(super) const MAX_BYTES: usize = 1024 * 1024;
/// What a batch may be unpacked, whoever has written it: a line has a fact of 64 KiB in it, whose characters may each take two.
const MAX_UNPACKED: u64 = 4 * 1024 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Batch {
    /// When the oldest of it was so, in milliseconds since 1970.
    pub(super) at: i64,
    /// Bytes of each line, its end included.
    pub(super) lengths: Vec<u32>,
    pub(super) gzip: Vec<u8>,
}

impl Batch {
    /// # Errors
    /// None in fact: it is packed in memory.
    pub(super) fn pack(lines: &[&str], at: i64) -> io::Result<Batch> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        let mut lengths = Vec::with_capacity(lines.len());
        for line in lines {
            encoder.write_all(line.as_bytes())?;
            encoder.write_all(b"\n")?;
            let length = u32::try_from(line.len() + 1).map_err(io::Error::other)?;
            lengths.push(length);
        }
        Ok(Batch {
            at,
            lengths,
            gzip: encoder.finish()?,
        })
    }

    pub(super) fn lines(&self) -> u64 {
        self.lengths.len() as u64
    }

    /// Its lines, without their ends.
    ///
    /// # Errors
    /// It is not what [`Batch::pack`] has made.
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

    /// As it is kept: time, number of lines, their lengths, the rest.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(12 + 4 * self.lengths.len() + self.gzip.len());
        bytes.extend(self.at.to_le_bytes());
        // No more than `MAX_LINES`.
        bytes.extend(u32::try_from(self.lengths.len()).unwrap_or(0).to_le_bytes());
        for length in &self.lengths {
            bytes.extend(length.to_le_bytes());
        }
        bytes.extend(&self.gzip);
        bytes
    }

    /// None if that is none.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Batch> {
        let (at, rest) = bytes.split_first_chunk()?;
        let (count, rest) = rest.split_first_chunk()?;
        let count = usize::try_from(u32::from_le_bytes(*count)).ok()?;
        if count > MAX_LINES {
            return None;
        }
        let (lengths, gzip) = rest.split_at_checked(count.checked_mul(4)?)?;
        let lengths = lengths.chunks_exact(4).filter_map(|it| it.try_into().ok());
        Some(Batch {
            at: i64::from_le_bytes(*at),
            lengths: lengths.map(u32::from_le_bytes).collect(),
            gzip: gzip.to_vec(),
        })
    }
}

/// Gathers lines into batches.
#[derive(Default)]
pub(super) struct Packer {
    lines: Vec<String>,
    bytes: usize,
    at: Option<i64>,
    pub(super) done: Vec<Batch>,
}

impl Packer {
    /// # Errors
    /// As [`Batch::pack`].
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

    /// About how much was gathered, in bytes, unpacked.
    pub(super) fn gathered(&self) -> usize {
        self.bytes + self.done.len().saturating_mul(MAX_BYTES)
    }

    /// What was gathered last is a batch, too.
    ///
    /// # Errors
    /// As [`Batch::pack`].
    pub(super) fn close(&mut self) -> io::Result<()> {
        let Some(at) = self.at.take() else {
            return Ok(());
        };
        let lines: Vec<&str> = self.lines.iter().map(String::as_str).collect();
        self.done.push(Batch::pack(&lines, at)?);
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
        let batch = Batch::pack(&["a v=1i 5", "b v=\"two\nlines\" 6"], 5).unwrap();
        assert_eq!(
            batch.unpack().unwrap(),
            ["a v=1i 5", "b v=\"two\nlines\" 6"]
        );
        let bytes = batch.to_bytes();
        assert_eq!(Batch::from_bytes(&bytes), Some(batch));
        for cut in 0..20 {
            assert_eq!(Batch::from_bytes(&bytes[..cut]), None, "{cut}");
        }
        assert_eq!(Batch::from_bytes(&[255; 40]), None);
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

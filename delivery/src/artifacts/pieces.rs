//! A body in pieces, as a reader of a blocking task.

use std::io::{self, Read};

use bytes::{Buf, Bytes};
use tokio::sync::mpsc::Receiver;

/// Pieces on their way to the reader.
pub(super) const QUEUE_CAPACITY: usize = 8;

/// Reads the pieces of a channel; its end is the end of the archive.
pub(super) struct PieceReader {
    pieces: Receiver<io::Result<Bytes>>,
    current: Bytes,
}

impl PieceReader {
    pub(super) const fn new(pieces: Receiver<io::Result<Bytes>>) -> Self {
        PieceReader {
            pieces,
            current: Bytes::new(),
        }
    }
}

impl Read for PieceReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.pieces.blocking_recv() {
                None => return Ok(0),
                Some(piece) => self.current = piece?,
            }
        }
        let length = self.current.len().min(buffer.len());
        let (target, _) = buffer.split_at_mut(length);
        self.current.copy_to_slice(target);
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    fn read(pieces: Vec<io::Result<Bytes>>) -> io::Result<Vec<u8>> {
        let (sender, receiver) = mpsc::channel(QUEUE_CAPACITY);
        for piece in pieces {
            sender.try_send(piece).unwrap();
        }
        drop(sender);
        let mut all = Vec::new();
        PieceReader::new(receiver).read_to_end(&mut all)?;
        Ok(all)
    }

    #[test]
    fn pieces_are_read_in_order_and_an_error_ends_the_archive() {
        let piece = |text: &'static str| Ok(Bytes::from(text));
        let all = read(vec![piece("ab"), piece(""), piece("cde")]).unwrap();
        assert_eq!(all, b"abcde");
        assert_eq!(read(Vec::new()).unwrap(), b"");
        let broken = Err(io::Error::from(io::ErrorKind::ConnectionReset));
        assert!(read(vec![piece("ab"), broken]).is_err());
    }
}

//! Request to start a program: head, then the contents of its files, written as they arrive.

use std::{fs::File, io::Write};

use bytes::{Buf, Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use crate::{
    frame::{self, PREFIX_BYTES},
    names::FilePath,
    refusal::Refusal,
    request::{FileEntry, RunRequest},
    work::WorkFolder,
};

/// Longest head: 10,000 files with their paths.
const MAX_HEAD_BYTES: usize = 4 << 20;

/// Body of a request, read in order.
pub(crate) struct Upload {
    body: Incoming,
    unread: Bytes,
}

impl Upload {
    pub(crate) fn new(body: Incoming) -> Self {
        Upload {
            body,
            unread: Bytes::new(),
        }
    }

    /// Reads the head.
    pub(crate) async fn request(&mut self) -> Result<RunRequest, Refusal> {
        let prefix = self.exactly(PREFIX_BYTES).await?;
        let len = frame::head_len(&prefix).unwrap_or(usize::MAX);
        if len > MAX_HEAD_BYTES {
            return Err(Refusal::TooLarge);
        }
        let head = self.exactly(len).await?;
        serde_json::from_slice(&head).map_err(|error| Refusal::Invalid(error.to_string()))
    }

    /// Writes the files, whose contents are the rest of the body.
    pub(crate) async fn write_files(
        &mut self,
        files: &[FileEntry],
        folder: &WorkFolder,
    ) -> Result<(), Refusal> {
        for entry in files {
            let mut file = create(folder, &entry.path)?;
            let mut missing = entry.size;
            while missing > 0 {
                let piece = self.piece(missing).await?;
                missing -= piece.len() as u64;
                file.write_all(&piece)?;
            }
        }
        match self.next().await? {
            true => Err(Refusal::Invalid("bytes follow the last file".into())),
            false => Ok(()),
        }
    }

    /// Reads and discards the rest, so that the client sees the answer instead of a broken connection.
    pub(crate) async fn drain(&mut self) {
        self.unread = Bytes::new();
        while let Some(Ok(_)) = self.body.frame().await {}
    }

    async fn exactly(&mut self, len: usize) -> Result<Bytes, Refusal> {
        let mut read = BytesMut::new();
        while read.len() < len {
            let piece = self.piece((len - read.len()) as u64).await?;
            read.extend_from_slice(&piece);
        }
        Ok(read.freeze())
    }

    /// Up to `max` bytes, at least one.
    async fn piece(&mut self, max: u64) -> Result<Bytes, Refusal> {
        if !self.next().await? {
            return Err(Refusal::Invalid("the message is cut off".into()));
        }
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        let len = self.unread.len().min(max);
        Ok(self.unread.split_to(len))
    }

    /// Waits for unread bytes; false at the end of the body.
    async fn next(&mut self) -> Result<bool, Refusal> {
        while !self.unread.has_remaining() {
            let Some(frame) = self.body.frame().await else {
                return Ok(false);
            };
            let frame = frame.map_err(|error| Refusal::Invalid(error.to_string()))?;
            self.unread = frame.into_data().unwrap_or_default();
        }
        Ok(true)
    }
}

fn create(folder: &WorkFolder, path: &FilePath) -> Result<File, Refusal> {
    folder.create(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists | std::io::ErrorKind::NotADirectory => {
            Refusal::Invalid(format!("two files collide at {path}"))
        }
        _ => Refusal::from(error),
    })
}

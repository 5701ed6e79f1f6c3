//! Log of a run: lines with secret values masked, at most 1 MiB with its middle cut.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use fairlead_masking::{MaskStream, Masker};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

/// Kept bytes at the begin of a long log; these are uploaded while the run lasts.
const HEAD_BYTES: usize = 512 * 1024;
/// Kept bytes at the end of a long log; these are uploaded when the run has ended.
const TAIL_BYTES: usize = 512 * 1024;

/// Log of one attempt. Clones share it.
#[derive(Clone, Default)]
pub struct RunLog {
    inner: Arc<Mutex<LogState>>,
}

#[derive(Default)]
struct LogState {
    masker: Option<Masker>,
    /// Open mask of a program's output.
    stream: Option<MaskStream>,
    /// Bytes taken for the upload.
    taken: u64,
    head: VecDeque<u8>,
    tail: VecDeque<u8>,
    /// Bytes dropped between head and tail.
    cut: u64,
    is_finished: bool,
    /// Step that began last.
    step: Option<String>,
}

impl RunLog {
    /// Masks these values from now on.
    pub fn set_masker(&self, masker: Masker) {
        self.with(|state| {
            state.flush();
            state.masker = Some(masker);
        });
    }

    /// Appends a line, with its time.
    pub fn line(&self, text: &str) {
        let time = OffsetDateTime::now_utc();
        let time = time.replace_nanosecond(0).unwrap_or(time);
        let time = time.format(&Rfc3339).unwrap_or_default();
        self.with(|state| {
            state.flush();
            let line = state.mask(&format!("{time} {text}\n"));
            state.append(line.as_bytes());
        });
    }

    /// Notes the begin of a step, for people who follow the run.
    pub fn set_step(&self, step: &str) {
        self.line(step);
        self.with(|state| state.step = Some(state.mask(step)));
    }

    /// Step that began last.
    #[must_use]
    pub fn step(&self) -> Option<String> {
        self.with(|state| state.step.clone())
    }

    /// Appends a piece of a program's output. A secret value may lie across pieces.
    pub fn output(&self, piece: &[u8]) {
        self.with(|state| {
            let Some(masker) = &state.masker else {
                return state.append(piece);
            };
            let mut masked = Vec::new();
            let mut stream = state.stream.take().unwrap_or_else(|| masker.stream());
            stream.push(piece, &mut masked);
            state.stream = Some(stream);
            state.append(&masked);
        });
    }

    /// A text with secret values masked.
    #[must_use]
    pub fn mask(&self, text: &str) -> String {
        self.with(|state| state.mask(text))
    }

    /// Writes output that is held back because a secret value may begin in it.
    pub fn finish_output(&self) {
        self.with(LogState::flush);
    }

    /// Ends the log: its last part can be taken then.
    pub fn finish(&self) {
        self.with(|state| {
            state.flush();
            state.is_finished = true;
        });
    }

    /// Bytes in memory.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.with(|state| state.head.len() + state.tail.len())
    }

    /// Drops the bytes in memory; a mark stays. For logs beyond the limit of all logs.
    pub fn drop_pending(&self) {
        self.with(|state| {
            let dropped = state.head.len() + state.tail.len();
            state.cut += u64::try_from(dropped).unwrap_or(u64::MAX);
            state.head.clear();
            state.tail.clear();
        });
    }

    /// Takes the next bytes of the upload, and returns their offset. Empty if nothing can be sent now.
    #[must_use]
    pub fn take(&self, limit: usize) -> (u64, Vec<u8>) {
        self.with(|state| state.take(limit))
    }

    fn with<T>(&self, work: impl FnOnce(&mut LogState) -> T) -> T {
        work(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl LogState {
    fn mask(&self, text: &str) -> String {
        match &self.masker {
            Some(masker) => masker.mask(text),
            None => text.to_owned(),
        }
    }

    fn append(&mut self, bytes: &[u8]) {
        let used = usize::try_from(self.taken).unwrap_or(usize::MAX);
        let free = HEAD_BYTES.saturating_sub(used.saturating_add(self.head.len()));
        let is_whole = self.tail.is_empty() && self.cut == 0;
        let at = if is_whole { free.min(bytes.len()) } else { 0 };
        let (head, tail) = bytes.split_at(at);
        self.head.extend(head);
        self.tail.extend(tail);
        let surplus = self.tail.len().saturating_sub(TAIL_BYTES);
        self.tail.drain(..surplus);
        self.cut += u64::try_from(surplus).unwrap_or(u64::MAX);
    }

    fn flush(&mut self) {
        if let Some(stream) = self.stream.take() {
            let mut rest = Vec::new();
            stream.finish(&mut rest);
            self.append(&rest);
        }
    }

    fn take(&mut self, limit: usize) -> (u64, Vec<u8>) {
        if self.head.is_empty() && self.is_finished {
            if self.cut > 0 {
                let mark = format!("\n[... {} bytes cut ...]\n", self.cut);
                self.head.extend(mark.as_bytes());
                self.cut = 0;
            }
            self.head.append(&mut self.tail);
        }
        let count = limit.min(self.head.len());
        let bytes: Vec<u8> = self.head.drain(..count).collect();
        let offset = self.taken;
        self.taken += u64::try_from(count).unwrap_or(u64::MAX);
        (offset, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(log: &RunLog) -> Vec<u8> {
        let mut all = Vec::new();
        loop {
            let (offset, bytes) = log.take(64 * 1024);
            assert_eq!(offset, all.len() as u64);
            if bytes.is_empty() {
                return all;
            }
            all.extend(bytes);
        }
    }

    #[test]
    fn middle_of_a_long_log_is_cut_and_offsets_stay_contiguous() {
        let log = RunLog::default();
        log.output(&vec![b'a'; HEAD_BYTES]);
        log.output(&vec![b'b'; 3 * TAIL_BYTES]);
        log.output(&vec![b'c'; TAIL_BYTES]);
        assert_eq!(log.take(HEAD_BYTES).1, vec![b'a'; HEAD_BYTES]);
        assert!(log.take(1).1.is_empty(), "the tail waits for the end");
        log.finish();
        let (_, rest) = log.take(2 * TAIL_BYTES);
        let text = String::from_utf8(rest).unwrap();
        let mark = format!("\n[... {} bytes cut ...]\n", 3 * TAIL_BYTES);
        assert_eq!(text, mark + &"c".repeat(TAIL_BYTES));
    }

    #[test]
    fn secret_across_pieces_is_masked() {
        let log = RunLog::default();
        log.set_masker(Masker::new(["canary-value"]).unwrap());
        log.output(b"password canary-");
        log.output(b"value end\n");
        log.line("again canary-value");
        log.finish();
        let text = String::from_utf8(drain(&log)).unwrap();
        assert!(text.starts_with("password *** end\n"), "{text}");
        assert!(!text.contains("canary"), "{text}");
    }
}

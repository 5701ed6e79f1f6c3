//! Removes secret values from logs, errors and other texts, in every form in which programs print them.
//!
//! Forms: raw, each long line, base64 at any offset in a larger text (standard and URL-safe), JSON, and percent
//! encodings. Values below [`MIN_VALUE_BYTES`] stay, because they occur everywhere. Out of scope: wrapped base64, hex,
//! and compressed texts.

mod forms;
mod matcher;
mod stream;

use std::{collections::BTreeMap, sync::Arc};

pub use stream::{MASK, MaskStream};

use forms::MIN_BYTES;
use matcher::{Edges, Matcher};

/// Shorter values are not masked.
pub const MIN_VALUE_BYTES: usize = MIN_BYTES;
/// Largest size of all values of a masker. It bounds the memory of the automaton to about 20 MiB.
pub const MAX_VALUES_BYTES: usize = 64 << 10;

/// Values that cannot be masked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MaskError {
    /// The values are too large.
    #[error("secret values take {0} bytes; at most {MAX_VALUES_BYTES} can be masked")]
    TooLarge(usize),
    /// The automaton cannot be built.
    #[error("secret values cannot be masked: {0}")]
    Automaton(String),
}

/// Replaces secret values by [`MASK`]. Clones share the automaton.
#[derive(Debug, Clone)]
pub struct Masker {
    matcher: Arc<Matcher>,
}

impl Masker {
    /// Makes a masker of secret values.
    ///
    /// # Errors
    /// Values that take more than [`MAX_VALUES_BYTES`].
    pub fn new<V: AsRef<[u8]>>(values: impl IntoIterator<Item = V>) -> Result<Self, MaskError> {
        let mut patterns = BTreeMap::<Vec<u8>, Edges>::new();
        let mut size = 0;
        for value in values {
            let value = value.as_ref();
            size += value.len();
            if size > MAX_VALUES_BYTES {
                return Err(MaskError::TooLarge(size));
            }
            for (form, edges) in forms::of(value) {
                let known = patterns.entry(form).or_default();
                known.before |= edges.before;
                known.after |= edges.after;
            }
        }
        let matcher =
            Matcher::new(patterns).map_err(|error| MaskError::Automaton(error.to_string()))?;
        Ok(Self {
            matcher: Arc::new(matcher),
        })
    }

    /// Masks a text.
    #[must_use]
    pub fn mask(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.mask_bytes(text.as_bytes())).into_owned()
    }

    /// Masks bytes.
    #[must_use]
    pub fn mask_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.stream();
        let mut masked = Vec::with_capacity(bytes.len());
        stream.push(bytes, &mut masked);
        stream.finish(&mut masked);
        masked
    }

    /// Masks a text that comes in chunks.
    #[must_use]
    pub fn stream(&self) -> MaskStream {
        MaskStream::new(self.matcher.clone())
    }
}

#[cfg(test)]
mod tests;

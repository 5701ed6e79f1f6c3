//! Splits the answer to a LIST into its items as it arrives. Only one item is in memory at a time, and too long
//! items are skipped. The splitter finds only the bounds of items; it does not check that they are JSON.

use serde::Deserialize;

/// Maximum length of an item, in bytes. By default etcd accepts no longer object, and useful items are far
/// shorter.
const MAX_ITEM_BYTES: usize = 1536 * 1024;
/// Maximum length of a key in bytes; longer keys are irrelevant.
const MAX_KEY_BYTES: usize = 16;

/// The answer is not a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the answer is not a list")]
pub(super) struct NotAList;

/// Splitter of one list.
#[derive(Default)]
pub(super) struct ItemSplitter {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// Last key at the top level of the list.
    key: Vec<u8>,
    /// Whether the splitter is behind the key's colon.
    in_value: bool,
    in_items: bool,
    buffer: Vec<u8>,
    buffering: Buffering,
    metadata: Option<ListMetadata>,
    closed: bool,
    /// Number of items skipped as too long.
    left_out: usize,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Buffering {
    #[default]
    Nothing,
    Item,
    Metadata,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct ListMetadata {
    #[serde(rename = "continue", default)]
    next: Option<String>,
}

/// End of a page of a list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ListPage {
    /// Continue token of the next page; None for the last page.
    pub(super) next: Option<String>,
    pub(super) left_out: usize,
}

impl ItemSplitter {
    /// Passes each completed item to `take`.
    ///
    /// # Errors
    ///
    /// [`NotAList`].
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        take: &mut impl FnMut(&[u8]),
    ) -> Result<(), NotAList> {
        for &byte in bytes {
            // One byte over the limit marks an item as too long.
            if self.buffering != Buffering::Nothing && self.buffer.len() <= MAX_ITEM_BYTES {
                self.buffer.push(byte);
            }
            if self.in_string {
                self.in_string(byte);
                continue;
            }
            match byte {
                b'"' => {
                    self.in_string = true;
                    if self.depth == 1 && !self.in_value {
                        self.key.clear();
                    }
                }
                b':' if self.depth == 1 => self.in_value = true,
                b',' if self.depth == 1 => self.in_value = false,
                b'{' | b'[' => self.open(byte)?,
                b'}' | b']' => self.close(take)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn in_string(&mut self, byte: u8) {
        if self.escaped {
            self.escaped = false;
            return;
        }
        match byte {
            b'\\' => self.escaped = true,
            b'"' => self.in_string = false,
            byte if self.depth == 1 && !self.in_value && self.key.len() <= MAX_KEY_BYTES => {
                self.key.push(byte);
            }
            _ => {}
        }
    }

    fn open(&mut self, byte: u8) -> Result<(), NotAList> {
        if self.depth == 0 && (byte != b'{' || self.closed) {
            return Err(NotAList);
        }
        let of_list = self.depth == 1 && self.in_value;
        if of_list && byte == b'[' && self.key == b"items" {
            self.in_items = true;
        } else if of_list && byte == b'{' && self.key == b"metadata" {
            self.start_buffer(Buffering::Metadata, byte);
        } else if self.depth == 2 && self.in_items {
            self.start_buffer(Buffering::Item, byte);
        }
        self.depth += 1;
        Ok(())
    }

    fn start_buffer(&mut self, part: Buffering, first: u8) {
        self.buffer.clear();
        self.buffer.push(first);
        self.buffering = part;
    }

    fn close(&mut self, take: &mut impl FnMut(&[u8])) -> Result<(), NotAList> {
        self.depth = self.depth.checked_sub(1).ok_or(NotAList)?;
        match (self.depth, self.buffering) {
            (2, Buffering::Item) => {
                if self.buffer.len() > MAX_ITEM_BYTES {
                    self.left_out += 1;
                } else {
                    take(&self.buffer);
                }
                self.buffering = Buffering::Nothing;
            }
            (1, Buffering::Metadata) => {
                let metadata = serde_json::from_slice(&self.buffer).map_err(|_| NotAList)?;
                self.metadata = Some(metadata);
                self.buffering = Buffering::Nothing;
            }
            (1, Buffering::Nothing) => self.in_items = false,
            (0, _) => self.closed = true,
            _ => {}
        }
        Ok(())
    }

    /// Ends the page.
    ///
    /// # Errors
    ///
    /// [`NotAList`], also for an answer that broke off.
    pub(super) fn finish(self) -> Result<ListPage, NotAList> {
        let next = self.metadata.and_then(|metadata| metadata.next);
        match self.closed {
            true => Ok(ListPage {
                next: next.filter(|next| !next.is_empty()),
                left_out: self.left_out,
            }),
            false => Err(NotAList),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Items and page of a list that arrives in pieces of `size` bytes.
    fn split(list: &str, size: usize) -> Result<(Vec<String>, ListPage), NotAList> {
        let mut items = ItemSplitter::default();
        let mut found = Vec::new();
        for piece in list.as_bytes().chunks(size) {
            items.feed(piece, &mut |item| {
                found.push(String::from_utf8(item.to_vec()).unwrap());
            })?;
        }
        Ok((found, items.finish()?))
    }

    const LIST: &str = r#"{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":"abc"},
        "items":[{"metadata":{"name":"a","items":[1]},"x":"}]\"\\"}, {"items":[{}]} ]}"#;

    #[test]
    fn items_do_not_depend_on_the_pieces_of_the_list() {
        for size in 1..=LIST.len() {
            let (items, page) = split(LIST, size).unwrap();
            assert_eq!(
                items,
                [
                    r#"{"metadata":{"name":"a","items":[1]},"x":"}]\"\\"}"#,
                    r#"{"items":[{}]}"#
                ]
            );
            assert_eq!(page.next.as_deref(), Some("abc"));
        }
    }

    #[test]
    fn metadata_may_follow_the_items_and_items_may_be_null() {
        let (items, page) = split(r#"{"items":[{}],"metadata":{"continue":""}}"#, 5).unwrap();
        assert_eq!((items.len(), page.next), (1, None));
        let (items, page) = split(r#"{"items":null,"metadata":{}}"#, 5).unwrap();
        assert_eq!((items.len(), page.next), (0, None));
    }

    #[test]
    fn incomplete_list_is_an_error() {
        for bad in [
            "",
            "[]",
            "}",
            "<html>",
            r#"{"items":[{}"#,
            r#"{"items":[]}}"#,
            r#"{"metadata":{"continue":7},"items":[]}"#,
            r#"{}{}"#,
        ] {
            assert_eq!(split(bad, 3).unwrap_err(), NotAList, "{bad}");
        }
    }

    #[test]
    fn too_long_item_is_skipped_and_counted() {
        let long = "x".repeat(MAX_ITEM_BYTES);
        let list = format!(r#"{{"items":[{{"a":1}},{{"long":"{long}"}},{{"b":2}}]}}"#);
        let (items, page) = split(&list, 64 * 1024).unwrap();
        assert_eq!(items, [r#"{"a":1}"#, r#"{"b":2}"#]);
        assert_eq!(page.left_out, 1);
    }
}

//! Splits the answer to a LIST into its items as it arrives, so that no list is ever held: one item at a time, and one that
//! is too long is left out. It finds where things begin and end; whether they are JSON is for whoever reads them.

use serde::Deserialize;

/// The longest item, in bytes; etcd takes no longer one by default, and what is of use here is far shorter.
const MAX_ITEM_BYTES: usize = 1536 * 1024;
/// No key that is of use is longer.
const MAX_KEY_BYTES: usize = 16;

/// The answer is no list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the answer is no list")]
pub(super) struct NotAList;

/// A list that is arriving.
#[derive(Default)]
pub(super) struct ItemSplitter {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// The last key of the list itself.
    key: Vec<u8>,
    /// Behind the colon that follows it.
    in_value: bool,
    in_items: bool,
    held: Vec<u8>,
    holding: Holding,
    metadata: Option<Metadata>,
    closed: bool,
    /// ItemSplitter that were too long.
    left_out: usize,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Holding {
    #[default]
    Nothing,
    Item,
    Metadata,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(rename = "continue", default)]
    next: Option<String>,
}

/// How a page of a list ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ListPage {
    /// Selection to ask for the next page with; none if this was the last.
    pub(super) next: Option<String>,
    pub(super) left_out: usize,
}

impl ItemSplitter {
    /// Gives each item that is whole now to `take`.
    ///
    /// # Errors
    /// [`NotAList`].
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        take: &mut impl FnMut(&[u8]),
    ) -> Result<(), NotAList> {
        for &byte in bytes {
            // One byte more than may be says that it is too long.
            if self.holding != Holding::Nothing && self.held.len() <= MAX_ITEM_BYTES {
                self.held.push(byte);
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
            self.hold(Holding::Metadata, byte);
        } else if self.depth == 2 && self.in_items {
            self.hold(Holding::Item, byte);
        }
        self.depth += 1;
        Ok(())
    }

    fn hold(&mut self, part: Holding, first: u8) {
        self.held.clear();
        self.held.push(first);
        self.holding = part;
    }

    fn close(&mut self, take: &mut impl FnMut(&[u8])) -> Result<(), NotAList> {
        self.depth = self.depth.checked_sub(1).ok_or(NotAList)?;
        match (self.depth, self.holding) {
            (2, Holding::Item) => {
                if self.held.len() > MAX_ITEM_BYTES {
                    self.left_out += 1;
                } else {
                    take(&self.held);
                }
                self.holding = Holding::Nothing;
            }
            (1, Holding::Metadata) => {
                let metadata = serde_json::from_slice(&self.held).map_err(|_| NotAList)?;
                self.metadata = Some(metadata);
                self.holding = Holding::Nothing;
            }
            (1, Holding::Nothing) => self.in_items = false,
            (0, _) => self.closed = true,
            _ => {}
        }
        Ok(())
    }

    /// The answer has ended.
    ///
    /// # Errors
    /// [`NotAList`]; one that broke off is none.
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

    /// The items, and the page, of a list that arrives in pieces of `size` bytes.
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
    fn items_are_the_same_however_the_list_arrives() {
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
    fn metadata_may_stand_behind_the_items_and_items_may_be_null() {
        let (items, page) = split(r#"{"items":[{}],"metadata":{"continue":""}}"#, 5).unwrap();
        assert_eq!((items.len(), page.next), (1, None));
        let (items, page) = split(r#"{"items":null,"metadata":{}}"#, 5).unwrap();
        assert_eq!((items.len(), page.next), (0, None));
    }

    #[test]
    fn what_is_no_whole_list_is_an_error() {
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
    fn an_item_that_is_too_long_is_left_out_and_counted() {
        let long = "x".repeat(MAX_ITEM_BYTES);
        let list = format!(r#"{{"items":[{{"a":1}},{{"long":"{long}"}},{{"b":2}}]}}"#);
        let (items, page) = split(&list, 64 * 1024).unwrap();
        assert_eq!(items, [r#"{"a":1}"#, r#"{"b":2}"#]);
        assert_eq!(page.left_out, 1);
    }
}

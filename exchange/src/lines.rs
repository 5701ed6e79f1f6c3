//! Heads as lines: fields stay slices of the received head, without a map and without an allocation for each.
//!
//! Only heads without surprises are read so. Each other one is read by `head`, which also finds its error: with more than
//! [`MAX_LINES`] fields, a long name, `Connection`, `Upgrade` or `Trailer`, a CONNECT, or invalid input.

use std::{mem::MaybeUninit, ops::Range};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::{
    fields::{FramingFields, FramingName, field},
    framing::BodyEncoder,
    head,
};

pub(crate) mod reply;
pub(crate) mod request;
pub(crate) mod response;

/// Limit of the fields of a head in lines, at most the bits of a [`LineSet`]. Heads are moved, so a larger one costs all.
pub const MAX_LINES: usize = 28;
/// Longest name of a field in lines, in bytes.
const MAX_NAME_BYTES: usize = 64;

pub(crate) type LineSlots<'a> = [MaybeUninit<httparse::Header<'a>>; MAX_LINES];

/// Fields of a received head, in their order.
#[derive(Debug, Clone)]
pub struct Lines {
    head: Bytes,
    spans: [Span; MAX_LINES],
    count: usize,
    /// Fields with a capital in their names.
    capitals: LineSet,
    content_length: LineSet,
    transfer_encoding: LineSet,
}

/// Place of a field in its head, whose size fits 16 bits.
#[derive(Debug, Clone, Copy, Default)]
struct Span {
    name: u16,
    value_bytes: u16,
    name_bytes: u8,
    /// Bytes between name and value.
    gap: u8,
}

/// A field of a received head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// Place of the field in its head.
    pub index: LineIndex,
    /// Name as received, in any case.
    pub name: &'a str,
    /// Value without the white space around it.
    pub value: &'a [u8],
    has_capitals: bool,
}

/// Place of a field in its head, below [`MAX_LINES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineIndex(u8);

/// Some fields of a head.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LineSet(u32);

impl LineSet {
    /// Adds a field.
    pub fn insert(&mut self, index: LineIndex) {
        self.0 |= 1 << index.0;
    }

    /// True if the field was added.
    #[must_use]
    pub fn contains(self, index: LineIndex) -> bool {
        self.0 & (1 << index.0) != 0
    }

    /// True without a field.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl Line<'_> {
    /// The name in lower case. A name without capitals, as of a hub, is not copied.
    pub fn lower_name<'a>(&'a self, buffer: &'a mut NameBuffer) -> &'a str {
        let name = self.name.as_bytes();
        match buffer.0.get_mut(..name.len()) {
            Some(copy) if self.has_capitals => {
                copy.copy_from_slice(name);
                copy.make_ascii_lowercase();
                std::str::from_utf8(copy).unwrap_or_default()
            }
            // No name in lines is longer than the buffer.
            _ => self.name,
        }
    }
}

/// Memory for one name in lower case.
#[derive(Debug)]
pub struct NameBuffer([u8; MAX_NAME_BYTES]);

impl Default for NameBuffer {
    fn default() -> Self {
        NameBuffer([0; MAX_NAME_BYTES])
    }
}

impl Lines {
    /// The parsed fields of `head`, still without it, and their framing; `None` for a head that is not read in lines.
    fn of(head: &Bytes, parsed: &[httparse::Header<'_>]) -> Option<(Self, FramingFields)> {
        let mut framing = FramingFields::default();
        let mut lines = Lines {
            head: Bytes::new(),
            spans: [Span::default(); MAX_LINES],
            count: parsed.len(),
            capitals: LineSet::default(),
            content_length: LineSet::default(),
            transfer_encoding: LineSet::default(),
        };
        for (index, (span, field)) in (0..).zip(lines.spans.iter_mut().zip(parsed)) {
            let (index, framing_name) = (LineIndex(index), framing_name(field.name)?);
            framing.named(framing_name, field.value).ok()?;
            match framing_name {
                FramingName::ContentLength => lines.content_length.insert(index),
                FramingName::TransferEncoding => lines.transfer_encoding.insert(index),
                _ => {}
            }
            if has_capital(field.name.as_bytes()) {
                lines.capitals.insert(index);
            }
            *span = Span::of(head, field)?;
        }
        let is_read = parsed.len() <= MAX_LINES && !(framing.chunked && framing.length.is_some());
        is_read.then_some((lines, framing))
    }

    /// All fields, in their order.
    pub fn iter(&self) -> impl Iterator<Item = Line<'_>> {
        self.chosen(LineSet(u32::MAX))
    }

    /// Some fields, in their order.
    pub fn chosen(&self, set: LineSet) -> impl Iterator<Item = Line<'_>> {
        // Once for all names. Some values are no text.
        let text = std::str::from_utf8(&self.head).ok();
        self.spans(set).map(move |(index, span)| Line {
            index,
            name: match text {
                Some(text) => text.get(span.name_range()),
                None => std::str::from_utf8(span.name(&self.head)).ok(),
            }
            .unwrap_or_default(),
            value: span.value(&self.head),
            has_capitals: self.capitals.contains(index),
        })
    }

    /// Values of some fields, in their order.
    pub(crate) fn values(&self, set: LineSet) -> impl Iterator<Item = &[u8]> {
        self.spans(set).map(|(_, span)| span.value(&self.head))
    }

    fn spans(&self, set: LineSet) -> impl Iterator<Item = (LineIndex, &Span)> {
        let spans = self.spans.iter().take(self.count);
        let spans = (0..).map(LineIndex).zip(spans);
        spans.filter(move |(index, _)| set.contains(*index))
    }

    /// True if one of these fields has the name of `line`.
    #[must_use]
    pub fn has_name(&self, set: LineSet, line: &Line<'_>) -> bool {
        self.spans(set).any(|(_, span)| {
            usize::from(span.name_bytes) == line.name.len()
                && span
                    .name(&self.head)
                    .eq_ignore_ascii_case(line.name.as_bytes())
        })
    }

    /// The first field of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<Line<'_>> {
        let mut lines = self.iter();
        lines.find(|line| line.name.eq_ignore_ascii_case(name))
    }

    /// Bytes of the head.
    pub(crate) fn head_bytes(&self) -> usize {
        self.head.len()
    }

    /// Ends a head with some fields, and with the framing of its body. Names are in lower case, as those of a map.
    pub(crate) fn end(&self, set: LineSet, body: &BodyEncoder, out: &mut BytesMut) {
        let mut written = LineSet(set.0 & !self.transfer_encoding.0);
        if *body != BodyEncoder::Nothing {
            written.0 &= !self.content_length.0;
        }
        for (index, span) in self.spans(written) {
            let (start, name) = (out.len(), span.name(&self.head));
            field(out, name, span.value(&self.head));
            if self.capitals.contains(index) {
                let name = out.get_mut(start..start + name.len());
                name.unwrap_or_default().make_ascii_lowercase();
            }
        }
        head::end_fields(body, out);
    }

    /// The same fields as a map.
    pub(crate) fn to_map(&self) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(self.count);
        for line in self.iter() {
            let name = HeaderName::from_bytes(line.name.as_bytes());
            let value = HeaderValue::from_maybe_shared(self.head.slice_ref(line.value));
            // Never an error: httparse admits the same bytes.
            if let (Ok(name), Ok(value)) = (name, value) {
                headers.append(name, value);
            }
        }
        headers
    }
}

impl Span {
    fn of(head: &Bytes, field: &httparse::Header<'_>) -> Option<Self> {
        let (name, value) = (field.name.as_bytes(), field.value);
        let start = name.as_ptr().addr().checked_sub(head.as_ptr().addr())?;
        // An empty value has no place of its own.
        let gap = match value.is_empty() {
            true => 0,
            false => (value.as_ptr().addr())
                .checked_sub(name.as_ptr().addr())?
                .checked_sub(name.len())?,
        };
        Some(Span {
            name: start.try_into().ok()?,
            value_bytes: value.len().try_into().ok()?,
            name_bytes: name.len().try_into().ok()?,
            gap: gap.try_into().ok()?,
        })
    }

    fn name_range(&self) -> Range<usize> {
        let start = usize::from(self.name);
        start..start + usize::from(self.name_bytes)
    }

    fn name<'a>(&self, head: &'a [u8]) -> &'a [u8] {
        head.get(self.name_range()).unwrap_or_default()
    }

    fn value<'a>(&self, head: &'a [u8]) -> &'a [u8] {
        let start = self.name_range().end + usize::from(self.gap);
        let value = start..start + usize::from(self.value_bytes);
        head.get(value).unwrap_or_default()
    }
}

/// Without an early end, because most names have no capital.
fn has_capital(name: &[u8]) -> bool {
    name.iter()
        .fold(false, |found, byte| found | byte.is_ascii_uppercase())
}

/// Framing field of this name; `None` for a name that no head in lines has.
fn framing_name(name: &str) -> Option<FramingName> {
    let is = |known: &str| name.eq_ignore_ascii_case(known);
    Some(match name.len() {
        2 if is("te") => FramingName::Te,
        4 if is("host") => FramingName::Host,
        6 if is("expect") => FramingName::Expect,
        7 if is("upgrade") || is("trailer") => return None,
        10 if is("connection") => return None,
        14 if is("content-length") => FramingName::ContentLength,
        17 if is("transfer-encoding") => FramingName::TransferEncoding,
        0..=MAX_NAME_BYTES => FramingName::Other,
        _ => return None,
    })
}

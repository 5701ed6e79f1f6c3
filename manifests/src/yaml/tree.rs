//! Builds the value of one YAML document from the events of the scanner.

use std::collections::{HashMap, HashSet};

use granit_parser::{Event, Parser, ScalarStyle, ScanError, Tag};
use serde_json::{Map, Value};

use super::{
    Problem,
    scalars::{self, Scalar},
};

/// Largest memory that anchors and aliases of one document may add.
const MAX_ALIAS_BYTES: usize = 16 << 20;
/// Memory of a value without its text.
const VALUE_BYTES: usize = 64;
const MERGE_TAG: &str = "tag:yaml.org,2002:merge";

/// A problem and its line in the document, from 1.
pub(super) type Located = (usize, Problem);

/// Reads the value of a document. None for an empty document and for `null`.
pub(super) fn value(text: &str) -> Result<Option<Value>, Located> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut options = granit_parser::Options::default();
    options.set_emit_comments(false);
    let mut builder = Builder::default();
    let mut documents = 0;
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = event.map_err(|error| syntax(&error))?;
        let line = span.start.line();
        if matches!(event, Event::DocumentStart(..)) {
            documents += 1;
            if documents > 1 {
                let problem = Problem::Syntax("unexpected document after `...`".to_owned());
                return Err((line, problem));
            }
        }
        builder.event(event).map_err(|problem| (line, problem))?;
    }
    Ok(builder.root.filter(|it| !it.is_null()))
}

fn syntax(error: &ScanError) -> Located {
    (error.marker().line(), Problem::Syntax(error.info().clone()))
}

/// An open list or map.
enum Frame {
    List {
        anchor: usize,
        items: Vec<Value>,
    },
    Map {
        anchor: usize,
        map: Map<String, Value>,
        /// Keys of the document, without those of `<<`.
        own: HashSet<String>,
        key: Option<Key>,
    },
}

enum Key {
    Name(String),
    Merge,
}

#[derive(Default)]
struct Builder {
    frames: Vec<Frame>,
    anchors: HashMap<usize, Value>,
    alias_bytes: usize,
    root: Option<Value>,
}

impl Builder {
    fn event(&mut self, event: Event<'_>) -> Result<(), Problem> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.scalar(&text, style, anchor, tag.as_deref())
            }
            Event::Alias(anchor) => {
                let value = self.anchors.get(&anchor).ok_or(Problem::Cycle)?;
                let (bytes, value) = (size(value), value.clone());
                self.copied(bytes)?;
                if self.expects_key() {
                    let key = match value {
                        Value::String(text) => text,
                        Value::Bool(_) | Value::Number(_) => value.to_string(),
                        _ => return Err(Problem::Key),
                    };
                    return self.key(key);
                }
                self.add(0, value)
            }
            Event::SequenceStart(_, anchor, _) => {
                let items = Vec::new();
                self.open(Frame::List { anchor, items })
            }
            Event::MappingStart(_, anchor, _) => self.open(Frame::Map {
                anchor,
                map: Map::new(),
                own: HashSet::new(),
                key: None,
            }),
            Event::SequenceEnd | Event::MappingEnd => match self.frames.pop() {
                Some(Frame::List { anchor, items }) => self.add(anchor, Value::Array(items)),
                Some(Frame::Map { anchor, map, .. }) => self.add(anchor, Value::Object(map)),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Counts memory of a copy. Anchors inside of anchors multiply a document, too.
    fn copied(&mut self, bytes: usize) -> Result<(), Problem> {
        self.alias_bytes += bytes;
        if self.alias_bytes > MAX_ALIAS_BYTES {
            return Err(Problem::Aliases(MAX_ALIAS_BYTES));
        }
        Ok(())
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&Tag>,
    ) -> Result<(), Problem> {
        let plain = style == ScalarStyle::Plain;
        let tag = tag.map(|it| format!("{}{}", it.handle(), it.suffix()));
        let tag = tag.as_deref();
        if self.expects_key() {
            if text == "<<" && (tag == Some(MERGE_TAG) || (tag.is_none() && plain)) {
                if let Some(Frame::Map { key, .. }) = self.frames.last_mut() {
                    *key = Some(Key::Merge);
                }
                return Ok(());
            }
            let scalar = scalars::resolve(tag, text, plain)?;
            if anchor != 0 {
                let value = scalar.clone().into_value(text)?;
                self.anchors.insert(anchor, value);
            }
            return self.key(Scalar::into_key(scalar)?);
        }
        let value = scalars::resolve(tag, text, plain)?.into_value(text)?;
        self.add(anchor, value)
    }

    fn expects_key(&self) -> bool {
        matches!(self.frames.last(), Some(Frame::Map { key: None, .. }))
    }

    fn open(&mut self, frame: Frame) -> Result<(), Problem> {
        if self.expects_key() {
            return Err(Problem::Key);
        }
        self.frames.push(frame);
        Ok(())
    }

    fn key(&mut self, name: String) -> Result<(), Problem> {
        let Some(Frame::Map { own, key, .. }) = self.frames.last_mut() else {
            return Ok(());
        };
        if !own.insert(name.clone()) {
            return Err(Problem::DuplicateKey(name));
        }
        *key = Some(Key::Name(name));
        Ok(())
    }

    fn add(&mut self, anchor: usize, value: Value) -> Result<(), Problem> {
        if anchor != 0 {
            self.copied(size(&value))?;
            self.anchors.insert(anchor, value.clone());
        }
        match self.frames.last_mut() {
            None => self.root = Some(value),
            Some(Frame::List { items, .. }) => items.push(value),
            Some(Frame::Map { map, key, .. }) => match key.take() {
                Some(Key::Name(name)) => {
                    map.insert(name, value);
                }
                Some(Key::Merge) => merge(map, value)?,
                None => return Err(Problem::Key),
            },
        }
        Ok(())
    }
}

/// Adds the keys of `<<`. They replace keys before it, and keys after it replace them. The first map of a list wins.
fn merge(map: &mut Map<String, Value>, value: Value) -> Result<(), Problem> {
    match value {
        Value::Object(source) => map.extend(source),
        Value::Array(sources) => {
            for source in sources.into_iter().rev() {
                let Value::Object(source) = source else {
                    return Err(Problem::Merge);
                };
                map.extend(source);
            }
        }
        _ => return Err(Problem::Merge),
    }
    Ok(())
}

/// Memory of a value, roughly.
fn size(value: &Value) -> usize {
    VALUE_BYTES
        + match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(size).sum(),
            Value::Object(map) => map.iter().map(|(key, value)| key.len() + size(value)).sum(),
            _ => 0,
        }
}

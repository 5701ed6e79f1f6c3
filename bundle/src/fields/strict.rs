//! Refuses unknown fields of [`BundleFields`].
//!
//! The type itself accepts them, because it is flattened into `Bundle`.

use std::{cell::Cell, fmt};

use fairlead_api::delivery::BundleFields;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error, IntoDeserializer, MapAccess, Visitor},
    forward_to_deserialize_any,
};

/// Content of `fairlead.yaml`.
pub(super) struct FileFields {
    pub(super) fields: BundleFields,
    /// True if the file has the field `kind`.
    pub(super) has_kind: bool,
}

impl<'de> Deserialize<'de> for FileFields {
    fn deserialize<D: Deserializer<'de>>(inner: D) -> Result<Self, D::Error> {
        let has_kind = Cell::new(false);
        let fields = BundleFields::deserialize(Strict {
            inner,
            has_kind: &has_kind,
        })?;
        Ok(FileFields {
            fields,
            has_kind: has_kind.get(),
        })
    }
}

/// Deserializer that hands the names of the fields to [`StrictVisitor`].
struct Strict<'a, D> {
    inner: D,
    has_kind: &'a Cell<bool>,
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Strict<'_, D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_any(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let has_kind = self.has_kind;
        let visitor = StrictVisitor {
            visitor,
            fields,
            has_kind,
        };
        self.inner.deserialize_struct(name, fields, visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

struct StrictVisitor<'a, V> {
    visitor: V,
    fields: &'static [&'static str],
    has_kind: &'a Cell<bool>,
}

impl<'de, V: Visitor<'de>> Visitor<'de> for StrictVisitor<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map with the options of a bundle")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_map(StrictMap {
            map,
            fields: self.fields,
            has_kind: self.has_kind,
        })
    }
}

struct StrictMap<'a, A> {
    map: A,
    fields: &'static [&'static str],
    has_kind: &'a Cell<bool>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for StrictMap<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        let Some(key) = self.map.next_key::<String>()? else {
            return Ok(None);
        };
        if !self.fields.contains(&key.as_str()) {
            return Err(A::Error::unknown_field(&key, self.fields));
        }
        if key == "kind" {
            self.has_kind.set(true);
        }
        seed.deserialize(key.into_deserializer()).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

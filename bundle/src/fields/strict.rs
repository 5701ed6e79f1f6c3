//! Refuses unknown fields of [`BundleFields`].
//!
//! The type itself accepts them, because it is flattened into `Bundle`.

use std::{
    cell::{Cell, RefCell},
    fmt,
};

use fairlead_api::delivery::BundleFields;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error, IntoDeserializer, MapAccess, Visitor},
    forward_to_deserialize_any,
};

/// Field with the name of a bundle.
const NAME: &str = "name";

/// Content of `fairlead.yaml`.
pub(super) struct FileFields {
    pub(super) fields: BundleFields,
    /// True if the file has the field `kind`.
    pub(super) has_kind: bool,
    /// Field `name`: name of the bundle, for folders of a source.
    pub(super) name: Option<String>,
}

/// Fields of the file that are no options of the bundle.
#[derive(Default)]
struct Noted {
    has_kind: Cell<bool>,
    name: RefCell<Option<String>>,
}

impl<'de> Deserialize<'de> for FileFields {
    fn deserialize<D: Deserializer<'de>>(inner: D) -> Result<Self, D::Error> {
        let noted = Noted::default();
        let fields = BundleFields::deserialize(Strict {
            inner,
            noted: &noted,
        })?;
        Ok(FileFields {
            fields,
            has_kind: noted.has_kind.get(),
            name: noted.name.into_inner(),
        })
    }
}

/// Deserializer that hands the names of the fields to [`StrictVisitor`].
struct Strict<'a, D> {
    inner: D,
    noted: &'a Noted,
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
        let noted = self.noted;
        let visitor = StrictVisitor {
            visitor,
            fields,
            noted,
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
    noted: &'a Noted,
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
            noted: self.noted,
        })
    }
}

struct StrictMap<'a, A> {
    map: A,
    fields: &'static [&'static str],
    noted: &'a Noted,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for StrictMap<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        let key = loop {
            match self.map.next_key::<String>()? {
                Some(key) if key == NAME => {
                    let name = self.map.next_value::<String>()?;
                    self.noted.name.replace(Some(name));
                }
                Some(key) => break key,
                None => return Ok(None),
            }
        };
        if !self.fields.contains(&key.as_str()) {
            return Err(A::Error::unknown_field(&key, self.fields));
        }
        if key == "kind" {
            self.noted.has_kind.set(true);
        }
        seed.deserialize(key.into_deserializer()).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

//! Description of one route: its part of the document, and the rights that its handler checks.

use axum::routing::MethodFilter;
use serde_json::Value;
use utoipa::ToSchema;

use crate::{form::FORM, parameter::QueryParameter, right::Right, schemas::NamedSchema};

const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";

/// Group of routes in the document. A module may add one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag {
    /// Name, in lower case.
    pub name: &'static str,
    /// Title of the group.
    pub description: &'static str,
}

impl Tag {
    /// Tenants.
    pub const TENANT: Tag = Tag::new("tenant", "Management of tenants");
    /// Clusters.
    pub const CLUSTER: Tag = Tag::new("cluster", "Management of clusters");
    /// Bootstrap tokens and install manifests.
    pub const BOOTSTRAPPING: Tag = Tag::new("bootstrapping", "Cluster bootstrapping");
    /// Facts.
    pub const INVENTORY: Tag = Tag::new("inventory", "Facts and their history");
    /// API tokens.
    pub const TOKEN: Tag = Tag::new("token", "API tokens");
    /// The change log.
    pub const CHANGE: Tag = Tag::new("change", "Changes and their authors");
    /// The hub.
    pub const SYSTEM: Tag = Tag::new("system", "The hub itself");

    /// The tags above, in the order of the document.
    pub(super) const SHARED: [Tag; 7] = [
        Tag::TENANT,
        Tag::CLUSTER,
        Tag::BOOTSTRAPPING,
        Tag::INVENTORY,
        Tag::TOKEN,
        Tag::CHANGE,
        Tag::SYSTEM,
    ];

    /// A tag with this name.
    #[must_use]
    pub const fn new(name: &'static str, description: &'static str) -> Self {
        Tag { name, description }
    }
}

/// Body of a successful response.
pub(super) enum ResponseBody {
    Nothing,
    Json(NamedSchema),
    Array(NamedSchema),
    Object,
    /// With this content type.
    Text(&'static str),
}

/// Description of one method of one path.
///
/// Responses that every route can have, like 400 and 403, are added by the document.
pub struct RouteSpec {
    pub(super) filter: MethodFilter,
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    pub(super) id: &'static str,
    pub(super) tag: Tag,
    pub(super) summary: &'static str,
    /// Schemas of path parameters that are no ids.
    pub(super) path_schemas: Vec<(&'static str, Value)>,
    pub(super) query: Vec<QueryParameter>,
    /// Content type and schema.
    pub(super) body: Option<(&'static str, NamedSchema)>,
    /// Content types of a body without schema.
    pub(super) bytes: &'static [&'static str],
    pub(super) example: Option<Value>,
    pub(super) responses: Vec<(u16, ResponseBody)>,
    pub(super) failures: Vec<(u16, &'static str)>,
    pub(super) rights: &'static [Right],
    pub(super) is_open: bool,
    pub(super) honours_if_match: bool,
}

impl RouteSpec {
    /// `GET`. The id of the operation is Lieutenant's if it has one.
    #[must_use]
    pub fn get(tag: Tag, path: &'static str, id: &'static str, summary: &'static str) -> Self {
        Self::new((MethodFilter::GET, "get"), tag, path, id, summary)
    }

    /// `POST`.
    #[must_use]
    pub fn post(tag: Tag, path: &'static str, id: &'static str, summary: &'static str) -> Self {
        Self::new((MethodFilter::POST, "post"), tag, path, id, summary)
    }

    /// `PUT`.
    #[must_use]
    pub fn put(tag: Tag, path: &'static str, id: &'static str, summary: &'static str) -> Self {
        Self::new((MethodFilter::PUT, "put"), tag, path, id, summary)
    }

    /// `PATCH`.
    #[must_use]
    pub fn patch(tag: Tag, path: &'static str, id: &'static str, summary: &'static str) -> Self {
        Self::new((MethodFilter::PATCH, "patch"), tag, path, id, summary)
    }

    /// `DELETE`.
    #[must_use]
    pub fn delete(tag: Tag, path: &'static str, id: &'static str, summary: &'static str) -> Self {
        Self::new((MethodFilter::DELETE, "delete"), tag, path, id, summary)
    }

    fn new(
        (filter, method): (MethodFilter, &'static str),
        tag: Tag,
        path: &'static str,
        id: &'static str,
        summary: &'static str,
    ) -> Self {
        RouteSpec {
            filter,
            method,
            path,
            id,
            tag,
            summary,
            path_schemas: Vec::new(),
            query: Vec::new(),
            body: None,
            bytes: &[],
            example: None,
            responses: Vec::new(),
            failures: Vec::new(),
            rights: &[Right::READ],
            is_open: false,
            honours_if_match: false,
        }
    }

    /// Requires no authentication.
    #[must_use]
    pub fn open(mut self) -> Self {
        self.is_open = true;
        self
    }

    /// Rights that the handler checks, [`Right::READ`] by default. Of several, the content of a request decides which
    /// one it needs.
    #[must_use]
    pub fn needs(mut self, rights: &'static [Right]) -> Self {
        self.rights = rights;
        self
    }

    /// Changes a versioned resource and honours `If-Match`.
    #[must_use]
    pub fn honours_if_match(mut self) -> Self {
        self.honours_if_match = true;
        self
    }

    /// JSON schema of a path parameter; by default it is an id.
    #[must_use]
    pub fn path_parameter(mut self, name: &'static str, schema: Value) -> Self {
        self.path_schemas.push((name, schema));
        self
    }

    /// Query parameters, in addition to earlier ones.
    #[must_use]
    pub fn query(mut self, parameters: impl IntoIterator<Item = QueryParameter>) -> Self {
        self.query.extend(parameters);
        self
    }

    /// A JSON body.
    #[must_use]
    pub fn takes<T: ToSchema>(mut self) -> Self {
        self.body = Some((JSON, NamedSchema::of::<T>()));
        self
    }

    /// Bytes of one of these content types.
    #[must_use]
    pub fn takes_bytes(mut self, content_types: &'static [&'static str]) -> Self {
        self.bytes = content_types;
        self
    }

    /// A form, as in OAuth 2.0.
    #[must_use]
    pub fn takes_form<T: ToSchema>(mut self) -> Self {
        self.body = Some((FORM, NamedSchema::of::<T>()));
        self
    }

    /// A JSON merge patch (RFC 7396).
    #[must_use]
    pub fn merges<T: ToSchema>(mut self) -> Self {
        self.body = Some((MERGE_PATCH, NamedSchema::of::<T>()));
        self
    }

    /// A valid body.
    #[must_use]
    pub fn example(mut self, body: Value) -> Self {
        self.example = Some(body);
        self
    }

    /// A JSON response.
    #[must_use]
    pub fn gives<T: ToSchema>(self, status: u16) -> Self {
        self.responds(status, ResponseBody::Json(NamedSchema::of::<T>()))
    }

    /// A [`List`](fairlead_api::resources::List), with the name of its schema.
    #[must_use]
    pub fn gives_list<T: ToSchema>(self, status: u16, name: &'static str) -> Self {
        self.responds(status, ResponseBody::Json(NamedSchema::list_of::<T>(name)))
    }

    /// A JSON array.
    #[must_use]
    pub fn gives_array<T: ToSchema>(self, status: u16) -> Self {
        self.responds(status, ResponseBody::Array(NamedSchema::of::<T>()))
    }

    /// A JSON object without a schema.
    #[must_use]
    pub fn gives_object(self, status: u16) -> Self {
        self.responds(status, ResponseBody::Object)
    }

    /// A text of this content type.
    #[must_use]
    pub fn gives_text(self, status: u16, content_type: &'static str) -> Self {
        self.responds(status, ResponseBody::Text(content_type))
    }

    /// A response without a body.
    #[must_use]
    pub fn gives_nothing(self, status: u16) -> Self {
        self.responds(status, ResponseBody::Nothing)
    }

    /// A failure in addition to the common ones.
    #[must_use]
    pub fn fails(mut self, status: u16, description: &'static str) -> Self {
        self.failures.push((status, description));
        self
    }

    /// Method in lower case.
    #[must_use]
    pub fn method(&self) -> &'static str {
        self.method
    }

    /// Path with parameters in braces.
    #[must_use]
    pub fn path(&self) -> &'static str {
        self.path
    }

    /// True if the route requires no authentication.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// True if a request has a body with a schema.
    #[must_use]
    pub fn has_body(&self) -> bool {
        self.body.is_some()
    }

    /// The valid body, if the module gives one.
    #[must_use]
    pub fn example_body(&self) -> Option<&Value> {
        self.example.as_ref()
    }

    /// Rights that the handler checks; each request needs one of them.
    #[must_use]
    pub fn rights(&self) -> &'static [Right] {
        self.rights
    }

    /// Schemas of the body and the responses.
    pub(super) fn schemas(&self) -> impl Iterator<Item = &NamedSchema> {
        let body = self.body.iter().map(|(_, schema)| schema);
        let responses = self.responses.iter().filter_map(|(_, body)| match body {
            ResponseBody::Json(schema) | ResponseBody::Array(schema) => Some(schema),
            ResponseBody::Nothing | ResponseBody::Object | ResponseBody::Text(_) => None,
        });
        body.chain(responses)
    }

    fn responds(mut self, status: u16, body: ResponseBody) -> Self {
        self.responses.push((status, body));
        self
    }
}

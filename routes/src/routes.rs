//! Routes of a module, each with its description.

use std::{mem, sync::Arc};

use axum::{
    Router,
    extract::Request,
    handler::Handler,
    middleware::{Next, from_fn},
    routing::on,
};

use crate::reply::finish;
use crate::{described, spec::RouteSpec};

/// Routes of a module. A route and its description are added together: neither exists without the other.
pub struct ApiRoutes<S = ()> {
    pub(super) users: Router<S>,
    pub(super) open: Router<S>,
    pub(super) specs: Vec<RouteSpec>,
}

impl<S: Clone + Send + Sync + 'static> Default for ApiRoutes<S> {
    fn default() -> Self {
        ApiRoutes {
            users: Router::new(),
            open: Router::new(),
            specs: Vec::new(),
        }
    }
}

impl<S: Clone + Send + Sync + 'static> ApiRoutes<S> {
    /// No routes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a route.
    ///
    /// # Panics
    /// If the method and path have a handler already.
    #[must_use]
    pub fn route<H, T>(mut self, spec: RouteSpec, handler: H) -> Self
    where
        H: Handler<T, S>,
        T: 'static,
    {
        let mut endpoint = on(spec.filter, handler);
        if cfg!(debug_assertions) {
            let names: Arc<[&'static str]> = spec.query.iter().map(|it| it.name).collect();
            endpoint = endpoint.route_layer(from_fn(move |request: Request, next: Next| {
                described::within(Arc::clone(&names), next.run(request))
            }));
        }
        let router = if spec.is_open {
            &mut self.open
        } else {
            &mut self.users
        };
        *router = mem::take(router).route(spec.path, endpoint);
        self.specs.push(spec);
        self
    }

    /// Adds routes of another part of the module.
    #[must_use]
    pub fn merge(mut self, other: Self) -> Self {
        self.users = self.users.merge(other.users);
        self.open = self.open.merge(other.open);
        self.specs.extend(other.specs);
        self
    }

    /// Completes the routes with the state of their handlers.
    #[must_use]
    pub fn with_state(self, state: S) -> ApiRoutes {
        ApiRoutes {
            users: finish(self.users.with_state(state.clone())),
            open: finish(self.open.with_state(state)),
            specs: self.specs,
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use http::Uri;
    use tower::ServiceExt;

    use super::*;
    use crate::{page::Query, parameter::QueryParameter, spec::Tag};

    async fn read(uri: Uri) -> String {
        let query = Query::of(&uri).unwrap();
        query.one("colour").unwrap().unwrap_or_default().to_owned()
    }

    async fn call(spec: RouteSpec) -> axum::response::Response {
        let routes = ApiRoutes::new().route(spec.open(), read).with_state(());
        let request = Request::get("/paint?colour=red").body(Body::empty());
        routes.open.oneshot(request.unwrap()).await.unwrap()
    }

    fn spec() -> RouteSpec {
        RouteSpec::get(Tag::SYSTEM, "/paint", "paint", "Paint")
    }

    #[tokio::test]
    async fn handlers_read_described_parameters() {
        let described = spec().query([QueryParameter::text("colour", "Colour")]);
        assert!(call(described).await.status().is_success());
    }

    #[tokio::test]
    #[should_panic(expected = "does not describe colour")]
    async fn reading_an_undescribed_parameter_panics_in_debug_builds() {
        call(spec()).await;
    }
}

//! `GET /v1/sign-in`: the issuers through which the command line signs people in.

use axum::{Json, extract::State};
use fairlead_api::resources::SignInOptions;
use fairlead_routes::{ApiModule, ApiRoutes, RouteSpec, Tag};
use fairlead_seam::Module;

/// Module with the routes of sign-in.
pub struct SignInModule(SignInOptions);

impl SignInModule {
    /// Module with these issuers.
    #[must_use]
    pub const fn new(options: SignInOptions) -> Self {
        SignInModule(options)
    }
}

impl Module for SignInModule {
    fn name(&self) -> &'static str {
        "sign-in"
    }
}

impl ApiModule for SignInModule {
    fn api_routes(&self) -> ApiRoutes {
        let options = RouteSpec::get(
            Tag::SYSTEM,
            "/v1/sign-in",
            "getSignInOptions",
            "Issuers through which people sign in",
        );
        ApiRoutes::new()
            .route(options.open().gives::<SignInOptions>(200), show)
            .with_state(self.0.clone())
    }
}

async fn show(State(options): State<SignInOptions>) -> Json<SignInOptions> {
    Json(options)
}

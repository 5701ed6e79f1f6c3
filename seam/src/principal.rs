//! The sender of a request to a module.

use std::{any::Any, net::IpAddr, sync::Arc};

use async_trait::async_trait;

use crate::{
    body::BodyTerms,
    caller::Caller,
    error::{AuthenticateError, TooManyWrongTokens},
};

/// The sender of a request to a module, in the extensions of that request.
///
/// The token is not checked before the module calls [`Principal::caller`]: a module may check the request first, and
/// open routes never call it.
#[derive(Clone)]
pub struct Principal(Arc<dyn Identify>);

/// Authenticates the sender of a request.
#[async_trait]
pub trait Identify: Send + Sync {
    /// Authenticates the sender; see [`Principal::caller`].
    async fn caller(&self) -> Result<Caller, AuthenticateError>;
    /// Terms for the body, after a look at the credential.
    async fn body_terms(&self) -> BodyTerms;
    /// Keeps a guard until the request has ended.
    fn keep(&self, guard: Box<dyn Any + Send>);
    /// Id of the request; see [`Principal::request_id`].
    fn request_id(&self) -> &str;
    /// Address of the other end of the connection.
    fn from(&self) -> IpAddr;
    /// Counts a wrong secret of the address.
    fn count_wrong_secret(&self) -> Result<(), TooManyWrongTokens>;
}

struct KnownPrincipal(Caller, IpAddr);

#[async_trait]
impl Identify for KnownPrincipal {
    async fn caller(&self) -> Result<Caller, AuthenticateError> {
        Ok(self.0.clone())
    }

    async fn body_terms(&self) -> BodyTerms {
        BodyTerms::unlimited()
    }

    fn keep(&self, _: Box<dyn Any + Send>) {}

    fn request_id(&self) -> &str {
        ""
    }

    fn from(&self) -> IpAddr {
        self.1
    }

    fn count_wrong_secret(&self) -> Result<(), TooManyWrongTokens> {
        Ok(())
    }
}

impl Principal {
    /// A principal that authenticates itself in this way.
    pub fn new(identify: impl Identify + 'static) -> Self {
        Principal(Arc::new(identify))
    }

    /// A principal that is authenticated already.
    #[must_use]
    pub fn known(caller: Caller, from: IpAddr) -> Self {
        Principal::new(KnownPrincipal(caller, from))
    }

    /// Authenticates the sender; the request counts against the caller's limit from then on.
    ///
    /// # Errors
    /// [`AuthenticateError`]
    pub async fn caller(&self) -> Result<Caller, AuthenticateError> {
        self.0.caller().await
    }

    /// Terms for the body of the request. The credential is checked first.
    pub async fn body_terms(&self) -> BodyTerms {
        self.0.body_terms().await
    }

    /// Keeps the memory of a body until the request has ended.
    pub fn keep_memory(&self, terms: BodyTerms) {
        self.0.keep(Box::new(terms));
    }

    /// Id of the request in the audit log; empty without a gateway.
    #[must_use]
    pub fn request_id(&self) -> &str {
        self.0.request_id()
    }

    /// Address of the other end of the connection, which may be a proxy.
    #[must_use]
    pub fn from(&self) -> IpAddr {
        self.0.from()
    }

    /// Counts a wrong secret of this address.
    ///
    /// # Errors
    /// [`TooManyWrongTokens`] above the rate limit of the address.
    pub fn count_wrong_secret(&self) -> Result<(), TooManyWrongTokens> {
        self.0.count_wrong_secret()
    }
}

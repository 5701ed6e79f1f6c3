//! Sign-in of people through an OpenID Connect issuer: authorization code with PKCE on a loopback redirect (RFC 7636,
//! RFC 8252), device flow (RFC 8628), and stored sign-ins with their refresh.
//!
//! The ID token is the credential for the hub, which verifies its signature. Here its claims are only compared with the
//! request, because the token comes from the issuer over TLS (OpenID Connect Core 1.0, section 3.1.3.7).

mod browser;
mod device;
mod error;
mod provider;
mod stored;
mod token;

pub use browser::BrowserSignIn;
pub use device::DeviceSignIn;
pub use error::SignInError;
pub use provider::Provider;
pub use stored::{SignInStore, StoredSignIn};
pub use token::IssuedTokens;

#[cfg(test)]
mod tests;

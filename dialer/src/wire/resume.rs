//! How the two ends of a session prove themselves to each other on a new link: with a keyed hash over what both have said
//! there, under a secret that only the inner TLS of this session has made. A proof is good for one link, one role and
//! one count.

use aws_lc_rs::{constant_time, hmac};

use super::ws::Role;
use crate::link::{
    LinkEnd,
    frame::{Mac, Nonce, SessionId},
};

/// Keeps these proofs apart from whatever else may be made of the secret.
const CONTEXT: &[u8] = b"fairlead link resumption";

/// Never shown, never sent.
pub(crate) struct Secret([u8; 32]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Secret {
    pub(crate) fn new(bytes: [u8; 32]) -> Self {
        Secret(bytes)
    }

    #[cfg(test)]
    pub(crate) fn same(&self, other: &Secret) -> bool {
        constant_time::verify_slices_are_equal(&self.0, &other.0).is_ok()
    }
}

/// What was said on the new link before the proofs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exchange {
    pub(crate) session: SessionId,
    pub(crate) hub: Nonce,
    pub(crate) agent: Nonce,
}

impl Exchange {
    /// The proof of the end that plays `role`, which has received `count` bytes of DATA.
    pub(crate) fn prove(&self, secret: &Secret, role: Role, count: u64) -> Mac {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &secret.0);
        let mut context = hmac::Context::with_key(&key);
        context.update(CONTEXT);
        context.update(&[match role {
            Role::Agent => 1,
            Role::Hub => 2,
        }]);
        // All of a fixed length: no two exchanges read the same.
        context.update(&self.session);
        context.update(&self.hub);
        context.update(&self.agent);
        context.update(&count.to_be_bytes());
        let mut mac = Mac::default();
        for (at, byte) in mac.iter_mut().zip(context.sign().as_ref()) {
            *at = *byte;
        }
        mac
    }

    /// Whether the end that plays `role` has proved itself. Takes as long whatever is wrong.
    pub(crate) fn proved(&self, secret: &Secret, role: Role, count: u64, mac: &Mac) -> bool {
        let wanted = self.prove(secret, role, count);
        constant_time::verify_slices_are_equal(&wanted, mac).is_ok()
    }
}

pub(crate) fn nonce() -> Result<Nonce, LinkEnd> {
    let mut nonce = Nonce::default();
    getrandom::fill(&mut nonce).map_err(|error| LinkEnd::Broken(error.to_string()))?;
    Ok(nonce)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_good_for_nothing_but_what_it_was_made_for() {
        let secret = Secret::new([1; 32]);
        let exchange = Exchange {
            session: [2; 16],
            hub: [3; 32],
            agent: [4; 32],
        };
        let mac = exchange.prove(&secret, Role::Agent, 5);
        assert!(exchange.proved(&secret, Role::Agent, 5, &mac));

        let (session, hub, agent) = ([9; 16], [9; 32], [9; 32]);
        let swapped = Exchange {
            hub: exchange.agent,
            agent: exchange.hub,
            ..exchange
        };
        let others = [
            Exchange {
                session,
                ..exchange
            },
            Exchange { hub, ..exchange },
            Exchange { agent, ..exchange },
            swapped,
        ];
        assert!(
            others
                .iter()
                .all(|other| !other.proved(&secret, Role::Agent, 5, &mac))
        );
        assert!(!exchange.proved(&secret, Role::Hub, 5, &mac));
        assert!(!exchange.proved(&secret, Role::Agent, 6, &mac));
        assert!(!exchange.proved(&Secret::new([0; 32]), Role::Agent, 5, &mac));
        let mut forged = mac;
        forged[31] ^= 1;
        assert!(!exchange.proved(&secret, Role::Agent, 5, &forged));
        assert_eq!(format!("{secret:?}"), "Secret(..)");
    }
}

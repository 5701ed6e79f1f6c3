//! Proofs of the two ends of a session on a new link: an HMAC over the messages of that link, under
//! a secret exported from the inner TLS of the session. A proof is valid for one link, one role and
//! one count.

use aws_lc_rs::{constant_time, hmac};

use crate::link::{
    LinkEnd,
    frame::{Mac, Nonce, SessionId},
};
use crate::websocket::SocketRole;

/// Domain separation from other uses of the secret.
const CONTEXT: &[u8] = b"fairlead link resumption";

/// Never shown, never sent.
pub(crate) struct ResumeSecret([u8; 32]);

impl std::fmt::Debug for ResumeSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ResumeSecret(..)")
    }
}

impl ResumeSecret {
    pub(crate) fn new(bytes: [u8; 32]) -> Self {
        ResumeSecret(bytes)
    }

    #[cfg(test)]
    pub(crate) fn same(&self, other: &ResumeSecret) -> bool {
        constant_time::verify_slices_are_equal(&self.0, &other.0).is_ok()
    }
}

/// Values exchanged on the new link before the proofs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exchange {
    pub(crate) session: SessionId,
    pub(crate) hub: Nonce,
    pub(crate) agent: Nonce,
}

impl Exchange {
    /// Proof of the end with `role`, which has received `count` bytes of DATA.
    pub(crate) fn prove(&self, secret: &ResumeSecret, role: SocketRole, count: u64) -> Mac {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &secret.0);
        let mut context = hmac::Context::with_key(&key);
        context.update(CONTEXT);
        context.update(&[match role {
            SocketRole::Agent => 1,
            SocketRole::Hub => 2,
        }]);
        // All values have a fixed length, so that no two exchanges look the same.
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

    /// Verifies the proof of the end with `role`, in constant time.
    pub(crate) fn proved(
        &self,
        secret: &ResumeSecret,
        role: SocketRole,
        count: u64,
        mac: &Mac,
    ) -> bool {
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
    fn proof_is_valid_for_its_exchange_role_and_count_only() {
        let secret = ResumeSecret::new([1; 32]);
        let exchange = Exchange {
            session: [2; 16],
            hub: [3; 32],
            agent: [4; 32],
        };
        let mac = exchange.prove(&secret, SocketRole::Agent, 5);
        assert!(exchange.proved(&secret, SocketRole::Agent, 5, &mac));

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
                .all(|other| !other.proved(&secret, SocketRole::Agent, 5, &mac))
        );
        assert!(!exchange.proved(&secret, SocketRole::Hub, 5, &mac));
        assert!(!exchange.proved(&secret, SocketRole::Agent, 6, &mac));
        assert!(!exchange.proved(&ResumeSecret::new([0; 32]), SocketRole::Agent, 5, &mac));
        let mut forged = mac;
        forged[31] ^= 1;
        assert!(!exchange.proved(&secret, SocketRole::Agent, 5, &forged));
        assert_eq!(format!("{secret:?}"), "ResumeSecret(..)");
    }
}

//! Deploy keys of a cluster's agent: public halves of the SSH keys with which its GitOps tool reads the catalog.

use fairlead_api::gitops::{AgentKeys, CURRENT_KEY_NAME, NEXT_KEY_NAME};
use fairlead_routes::InvalidValue;
use fairlead_store::model::{DeployKey, GitRepo};

use crate::document::repo::check_key;

/// Keys of the agent in a repository.
#[must_use]
pub fn of(repo: Option<&GitRepo>) -> AgentKeys {
    let key = |name: &str| {
        let key = repo?.deploy_keys.get(name)?;
        Some(key.key.trim_end().to_owned())
    };
    AgentKeys {
        current: key(CURRENT_KEY_NAME),
        next: key(NEXT_KEY_NAME),
    }
}

/// Rejects keys that no Git server could use.
///
/// # Errors
/// `FL-4109`
pub fn check(keys: &AgentKeys) -> Result<(), InvalidValue> {
    let keys = [&keys.current, &keys.next].into_iter().flatten();
    keys.map(String::as_str).try_for_each(check_key)
}

/// Replaces the agent's keys. They may read only.
pub fn replace(repo: &mut GitRepo, keys: &AgentKeys) {
    for (name, key) in [
        (CURRENT_KEY_NAME, &keys.current),
        (NEXT_KEY_NAME, &keys.next),
    ] {
        match key {
            None => repo.deploy_keys.remove(name),
            Some(key) => repo.deploy_keys.insert(
                name.to_owned(),
                DeployKey {
                    key: key.clone(),
                    ..DeployKey::default()
                },
            ),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaced_keys_may_read_only_and_other_keys_stay() {
        let mut repo = GitRepo::default();
        let key = |key: &str| DeployKey {
            key: key.to_owned(),
            write_access: true,
            generate: false,
        };
        repo.deploy_keys
            .insert("ci".to_owned(), key("ssh-rsa AAAA"));
        repo.deploy_keys
            .insert("steward".to_owned(), key("ssh-rsa BBBB\n"));
        let before = of(Some(&repo));
        assert_eq!(before.current.as_deref(), Some("ssh-rsa BBBB"));
        let keys = AgentKeys {
            current: Some("ssh-ed25519 CCCC".to_owned()),
            next: Some("ssh-ed25519 DDDD".to_owned()),
        };
        replace(&mut repo, &keys);
        assert_eq!(of(Some(&repo)), keys);
        assert!(!repo.deploy_keys["steward"].write_access);
        replace(&mut repo, &AgentKeys::default());
        assert_eq!(of(Some(&repo)), AgentKeys::default());
        assert_eq!(repo.deploy_keys.len(), 1);
        assert_eq!(of(None), AgentKeys::default());
    }

    #[test]
    fn invalid_key_is_rejected() {
        let keys = |next: &str| AgentKeys {
            current: None,
            next: Some(next.to_owned()),
        };
        assert!(check(&keys("ssh-ed25519 AAAA")).is_ok());
        for bad in [
            "",
            "ssh-ed25519",
            "ssh-ed25519 AAAA comment",
            "ssh-ed25519 A\nssh-rsa AAAA",
        ] {
            assert!(check(&keys(bad)).is_err(), "{bad:?}");
        }
    }
}

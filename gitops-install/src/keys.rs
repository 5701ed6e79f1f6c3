//! Public keys for signed commits, and the tools that can use them.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::{Engine, engine::general_purpose::STANDARD};
use fairlead_api::gitops::{CommitVerification, GitOpsTool, VerifyMode};

const ARMOR_BEGIN: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----";
const ARMOR_END: &str = "-----END PGP PUBLIC KEY BLOCK-----";
/// Types of SSH keys, as `ssh-keygen` writes them.
const SSH_TYPES: [&str; 5] = [
    "ssh-ed25519",
    "ssh-rsa",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
];
/// Length of a key ID, in bytes (RFC 9580, section 5.5.4.1).
const KEY_ID_BYTES: usize = 8;
/// Tag of a primary public key (RFC 9580, section 5.5.1.1).
const PUBLIC_KEY_TAG: u8 = 6;
const MAX_KEYS: usize = 64;

/// Keys that a tool cannot use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyProblem {
    /// Nothing could be applied.
    #[error("verification needs 1 to {MAX_KEYS} keys")]
    Count,
    /// A name becomes a field of a Secret.
    #[error("{0:?} is no name of a key: 1 to 64 lower-case letters, digits, dots and dashes")]
    Name(String),
    /// Neither OpenPGP nor SSH.
    #[error("key {0} is neither an OpenPGP key in armor nor an SSH key")]
    Unknown(String),
    /// Argo CD has no verification of SSH signatures.
    #[error("key {0} is an SSH key, and Argo CD verifies OpenPGP signatures only")]
    Ssh(String),
    /// Argo CD verifies the synced revision.
    #[error("Argo CD verifies the commit of a branch only: the mode is head")]
    Mode,
    /// Argo CD names keys by their ID.
    #[error("key {0} is no OpenPGP key of version 4")]
    Version(String),
}

/// Type of a public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyForm {
    OpenPgp,
    Ssh,
}

impl KeyForm {
    /// Form of a key with this text.
    pub(crate) fn of(text: &str) -> Option<Self> {
        if text.trim().starts_with(ARMOR_BEGIN) {
            return Some(KeyForm::OpenPgp);
        }
        let mut words = text.split_whitespace();
        let is_known = words.next().is_some_and(|it| SSH_TYPES.contains(&it));
        let has_base64 = words.next().is_some_and(|it| STANDARD.decode(it).is_ok());
        let is_one_line = text.trim().lines().count() == 1;
        (is_known && has_base64 && is_one_line).then_some(KeyForm::Ssh)
    }
}

/// Refuses keys and modes that the tool would ignore.
///
/// # Errors
/// [`KeyProblem`]
pub fn check_keys(tool: GitOpsTool, verify: &CommitVerification) -> Result<(), KeyProblem> {
    if !(1..=MAX_KEYS).contains(&verify.keys.len()) {
        return Err(KeyProblem::Count);
    }
    for (name, text) in &verify.keys {
        let is_plain =
            |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || matches!(it, b'.' | b'-');
        if !(1..=64).contains(&name.len()) || !name.bytes().all(is_plain) {
            return Err(KeyProblem::Name(name.chars().take(64).collect()));
        }
        let form = KeyForm::of(text).ok_or_else(|| KeyProblem::Unknown(name.clone()))?;
        if tool != GitOpsTool::Argocd {
            continue;
        }
        if form == KeyForm::Ssh {
            return Err(KeyProblem::Ssh(name.clone()));
        }
        if key_id(text).is_none() {
            return Err(KeyProblem::Version(name.clone()));
        }
    }
    match tool == GitOpsTool::Argocd && verify.mode != VerifyMode::Head {
        true => Err(KeyProblem::Mode),
        false => Ok(()),
    }
}

/// Key ID of an OpenPGP key of version 4, as `gpg --keyid-format long` prints it.
pub(crate) fn key_id(armor: &str) -> Option<String> {
    let packets = STANDARD.decode(armored(armor)?).ok()?;
    let body = first_body(&packets)?;
    let is_fourth = body.first() == Some(&4);
    let length = u16::try_from(body.len()).ok().filter(|_| is_fourth)?;
    let [high, low] = length.to_be_bytes();
    let hashed = [&[0x99, high, low], body].concat();
    // The fingerprint of version 4 is defined with SHA-1; it only names the key.
    let fingerprint = digest(&SHA1_FOR_LEGACY_USE_ONLY, &hashed);
    let start = fingerprint.as_ref().len().checked_sub(KEY_ID_BYTES)?;
    let id = fingerprint.as_ref().get(start..)?;
    Some(id.iter().map(|byte| format!("{byte:02X}")).collect())
}

/// Base64 within the armor: without headers and without the checksum (RFC 9580, section 6.2).
fn armored(text: &str) -> Option<String> {
    let (_, rest) = text.split_once(ARMOR_BEGIN)?;
    let (inner, _) = rest.split_once(ARMOR_END)?;
    let lines = inner.lines().map(str::trim);
    let is_content = |line: &&str| !line.contains(':') && !line.starts_with('=');
    Some(lines.filter(is_content).collect())
}

/// Body of the first packet, if that is a primary key (RFC 9580, section 4.2).
fn first_body(packets: &[u8]) -> Option<&[u8]> {
    let &tag = packets.first()?;
    let (kind, header, length) = if tag & 0xc0 == 0xc0 {
        let (header, length) = new_length(packets)?;
        (tag & 0x3f, header, length)
    } else {
        let (header, length) = old_length(packets, tag & 0x03)?;
        ((tag >> 2) & 0x0f, header, length)
    };
    let is_key = tag & 0x80 != 0 && kind == PUBLIC_KEY_TAG;
    let end = header.checked_add(length).filter(|_| is_key)?;
    packets.get(header..end)
}

/// Length of the header and of the body, in the format of OpenPGP.
fn new_length(packets: &[u8]) -> Option<(usize, usize)> {
    match *packets.get(1)? {
        short @ 0..=191 => Some((2, usize::from(short))),
        high @ 192..=223 => {
            let low = *packets.get(2)?;
            Some((3, (usize::from(high) - 192) * 256 + usize::from(low) + 192))
        }
        _ => None,
    }
}

/// Length of the header and of the body, in the format of earlier versions.
fn old_length(packets: &[u8], length_type: u8) -> Option<(usize, usize)> {
    match length_type {
        0 => Some((2, usize::from(*packets.get(1)?))),
        1 => {
            let bytes = [*packets.get(1)?, *packets.get(2)?];
            Some((3, usize::from(u16::from_be_bytes(bytes))))
        }
        _ => None,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Made with `gpg --quick-gen-key 'Fairlead test <test@example.com>' ed25519`.
    pub(crate) const OPENPGP: &str = include_str!("keys/test.asc");
    const OPENPGP_ID: &str = include_str!("keys/test.id");
    pub(crate) const SSH: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIWHuXiCvrXDSyHdB4ZHbRMYTIvLqeRFJk43LqZ7c4sN author";

    pub(crate) fn verification(keys: &[(&str, &str)]) -> CommitVerification {
        let keys = keys.iter();
        CommitVerification {
            mode: VerifyMode::Head,
            keys: keys
                .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
                .collect(),
        }
    }

    #[test]
    fn key_id_is_that_of_gpg() {
        assert_eq!(key_id(OPENPGP).as_deref(), Some(OPENPGP_ID.trim()));
        for cut in [0, 40, 100, OPENPGP.len() / 2] {
            assert_eq!(key_id(&OPENPGP[..cut]), None);
        }
    }

    #[test]
    fn keys_that_a_tool_ignores_are_refused() {
        let both = verification(&[("a", OPENPGP), ("b", SSH)]);
        assert_eq!(check_keys(GitOpsTool::Flux, &both), Ok(()));
        let refused = check_keys(GitOpsTool::Argocd, &both);
        assert_eq!(refused, Err(KeyProblem::Ssh("b".to_owned())));
        let mut tags = verification(&[("a", OPENPGP)]);
        assert_eq!(check_keys(GitOpsTool::Argocd, &tags), Ok(()));
        tags.mode = VerifyMode::Tag;
        assert_eq!(check_keys(GitOpsTool::Flux, &tags), Ok(()));
        assert_eq!(check_keys(GitOpsTool::Argocd, &tags), Err(KeyProblem::Mode));
    }

    #[test]
    fn texts_without_a_key_are_refused() {
        let of_flux = |keys: &[(&str, &str)]| check_keys(GitOpsTool::Flux, &verification(keys));
        assert_eq!(of_flux(&[]), Err(KeyProblem::Count));
        let unknown = Err(KeyProblem::Unknown("a".to_owned()));
        for text in [
            "",
            "ssh-ed25519",
            "ssh-ed25519 %%%",
            "-----BEGIN RSA PRIVATE KEY-----",
        ] {
            assert_eq!(of_flux(&[("a", text)]), unknown, "{text}");
        }
        let two = format!("{SSH}\n{SSH}");
        assert_eq!(of_flux(&[("a", &two)]), unknown);
        let refused = of_flux(&[("A/b", SSH)]);
        assert_eq!(refused, Err(KeyProblem::Name("A/b".to_owned())));
    }
}

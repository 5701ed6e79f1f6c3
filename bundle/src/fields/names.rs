//! Names as Kubernetes and Helm allow them.

use super::error::{FieldError, Path, Problem};

/// Longest DNS label, as of namespaces, in bytes.
const MAX_LABEL_BYTES: usize = 63;
/// Longest DNS subdomain, as of Secrets and service accounts, in bytes.
const MAX_SUBDOMAIN_BYTES: usize = 253;
/// Longest name of a release: Helm adds up to 10 bytes for names of objects.
pub(super) const MAX_RELEASE_BYTES: usize = 53;

fn is_label(text: &str) -> bool {
    let inner = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    text.len() <= MAX_LABEL_BYTES
        && !text.is_empty()
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

fn is_subdomain(text: &str) -> bool {
    text.len() <= MAX_SUBDOMAIN_BYTES && text.split('.').all(is_label)
}

fn is_key(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let is_length = (1..=MAX_SUBDOMAIN_BYTES).contains(&text.len());
    is_length && text.bytes().all(inner) && text != "." && !text.starts_with("..")
}

fn name(path: &Path<'_>, text: &str, ok: bool, form: &'static str) -> Result<(), FieldError> {
    let shown = || text.chars().take(60).collect();
    path.require(ok, || Problem::Name(shown(), form))
}

pub(super) fn check_namespace(path: &Path<'_>, text: &str) -> Result<(), FieldError> {
    let form = "name of a namespace: up to 63 lower-case letters, digits and inner dashes";
    name(path, text, is_label(text), form)
}

pub(super) fn check_object_name(path: &Path<'_>, text: &str) -> Result<(), FieldError> {
    let form = "name of an object: lower-case letters, digits, inner dashes and dots";
    name(path, text, is_subdomain(text), form)
}

/// `NAME`, or `NAMESPACE/NAME`.
pub(super) fn check_service_account(path: &Path<'_>, text: &str) -> Result<(), FieldError> {
    let ok = match text.split_once('/') {
        Some((namespace, name)) => is_label(namespace) && is_subdomain(name),
        None => is_subdomain(text),
    };
    name(path, text, ok, "service account NAME or NAMESPACE/NAME")
}

pub(super) fn check_release(path: &Path<'_>, text: &str) -> Result<(), FieldError> {
    let ok = text.len() <= MAX_RELEASE_BYTES && is_subdomain(text);
    let form = "name of a release: up to 53 lower-case letters, digits, inner dashes and dots";
    name(path, text, ok, form)
}

pub(super) fn check_secret_key(path: &Path<'_>, text: &str) -> Result<(), FieldError> {
    let form = "key of a Secret: letters, digits, dashes, underscores and dots";
    name(path, text, is_key(text), form)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_kubernetes() {
        let path = Path::root("x");
        for (text, namespace, account, key) in [
            ("shop", true, true, true),
            ("a", true, true, true),
            ("shop-1", true, true, true),
            ("shop.example", false, true, true),
            ("ns/name", false, true, false),
            ("ns/", false, false, false),
            ("/name", false, false, false),
            ("a/b/c", false, false, false),
            ("Shop", false, false, true),
            ("-a", false, false, true),
            ("a_b", false, false, true),
            ("", false, false, false),
            (".", false, false, false),
            ("..", false, false, false),
            ("ä", false, false, false),
            ("a b", false, false, false),
        ] {
            assert_eq!(check_namespace(&path, text).is_ok(), namespace, "{text:?}");
            assert_eq!(
                check_service_account(&path, text).is_ok(),
                account,
                "{text:?}"
            );
            assert_eq!(check_secret_key(&path, text).is_ok(), key, "{text:?}");
        }
        assert!(check_namespace(&path, &"a".repeat(64)).is_err());
        assert!(check_release(&path, &"a".repeat(53)).is_ok());
        assert!(check_release(&path, &"a".repeat(54)).is_err());
    }
}

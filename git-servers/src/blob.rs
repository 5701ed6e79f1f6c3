//! Ids of Git's blobs: contents are compared without reading files from the server.

use aws_lc_rs::digest;

/// Digits of an id in a repository of SHA-1.
pub(crate) const SHA1_DIGITS: usize = 40;
/// Digits of an id in a repository of SHA-256.
const SHA256_DIGITS: usize = 64;

/// True if `id` is the id of a blob with this content, in a repository of SHA-1 or SHA-256.
pub(crate) fn is_blob(id: &str, content: &str) -> bool {
    blob_id(content, id.len()).is_some_and(|it| it.eq_ignore_ascii_case(id))
}

/// Id of a blob with this content; `None` for a length that no object format has.
pub(crate) fn blob_id(content: &str, digits: usize) -> Option<String> {
    let algorithm = match digits {
        SHA1_DIGITS => &digest::SHA1_FOR_LEGACY_USE_ONLY,
        SHA256_DIGITS => &digest::SHA256,
        _ => return None,
    };
    let mut context = digest::Context::new(algorithm);
    context.update(format!("blob {}\0", content.len()).as_bytes());
    context.update(content.as_bytes());
    let hash = context.finish();
    let digits = hash.as_ref().iter().map(|byte| format!("{byte:02x}"));
    Some(digits.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    // `printf 'hi\n' | git hash-object --stdin`, in repositories of both object formats.
    #[test]
    fn ids_are_those_of_git() {
        let (one, other) = (
            "45b983be36b73c0788dc9cbcb76cbb80fc7bb057",
            "96c18f0297e38d01f4b2dacddea4259aea6b2961eb0822bd2c0c3f6029030045",
        );
        assert!(is_blob(one, "hi\n"));
        assert!(!is_blob(one, "hi"));
        assert!(is_blob(other, "hi\n"));
        assert!(!is_blob(other, "ho\n"));
        assert!(!is_blob("", ""));
    }
}

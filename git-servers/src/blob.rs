//! Ids of Git's blobs: contents are compared without reading files from the server.

use aws_lc_rs::digest;

/// True if `id` is the id of a blob with this content, in a repository of SHA-1 or SHA-256.
pub(crate) fn is_blob(id: &str, content: &str) -> bool {
    let algorithm = match id.len() {
        40 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
        64 => &digest::SHA256,
        _ => return false,
    };
    let mut context = digest::Context::new(algorithm);
    context.update(format!("blob {}\0", content.len()).as_bytes());
    context.update(content.as_bytes());
    let hash = context.finish();
    let mut hex = String::with_capacity(id.len());
    for byte in hash.as_ref() {
        hex.push_str(&format!("{byte:02x}"));
    }
    hex.eq_ignore_ascii_case(id)
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

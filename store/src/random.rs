//! Random bytes for secrets and names.

/// The operating system provides no random bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the operating system provides no random bytes")]
pub struct RandomError;

/// Random bytes from the operating system.
///
/// # Errors
/// [`RandomError`] if it provides none.
pub fn bytes<const N: usize>() -> Result<[u8; N], RandomError> {
    let mut bytes = [0; N];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| RandomError)?;
    Ok(bytes)
}

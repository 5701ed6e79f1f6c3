//! Random bytes for secrets and names.

use fairlead_api::{Code, Failure};

/// Random bytes from the operating system.
///
/// # Errors
/// `FL-5101` if it provides none.
pub fn bytes<const N: usize>() -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| {
        Failure::because(
            Code::Internal,
            "the operating system provides no random bytes",
        )
    })?;
    Ok(bytes)
}

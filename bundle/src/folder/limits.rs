//! Limits of a folder.

/// Maximum size of a packed artifact in bytes.
pub const MAX_PACKED_BYTES: u64 = 8 << 20;
/// Maximum size of all files of a folder in bytes.
pub const MAX_UNPACKED_BYTES: u64 = 64 << 20;
/// Maximum number of files of a folder.
pub const MAX_FILES: usize = 10_000;
/// Maximum length of a path in bytes.
pub const MAX_PATH_BYTES: usize = 512;

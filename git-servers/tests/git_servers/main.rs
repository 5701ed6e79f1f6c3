//! Contract of all providers: the same assertions for each one. GitLab and GitHub are fakes,
//! checked against the public API descriptions; Gitea is a fake, and a real one (`make gitea`).

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::large_futures,
    reason = "a test may panic, and waits for one future at a time"
)]

mod cases;
mod contents;
mod described;
mod description;
mod fakes;
mod faults;
mod generated_keys;
mod host;
mod merge_requests;
mod real_gitea;
mod real_ssh;
mod store_tokens;
mod tokens;
mod variables;

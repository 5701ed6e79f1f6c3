//! Contract of all providers: the same assertions for each one. GitLab and GitHub are fakes made
//! from their public API descriptions; Gitea is a fake, and a real one (`make gitea`).

mod cases;
mod fakes;
mod faults;
mod host;
mod real_gitea;
mod real_ssh;

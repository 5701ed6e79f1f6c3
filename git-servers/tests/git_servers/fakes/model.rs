//! Repositories of a fake server.

use std::collections::{BTreeMap, BTreeSet};

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use super::Fault;

/// Login of the token's user.
pub(crate) const LOGIN: &str = "robot";

/// Default branch of new repositories, by the settings of the server.
const DEFAULT_BRANCH: &str = "mainline";

pub(crate) type Files = BTreeMap<String, String>;

#[derive(Default)]
pub(crate) struct Forge {
    pub(crate) groups: BTreeSet<String>,
    pub(crate) repos: BTreeMap<String, Repo>,
    /// New paths of renamed repositories.
    pub(crate) renamed: BTreeMap<String, String>,
    pub(crate) trees: BTreeMap<String, Files>,
    pub(crate) commits: BTreeMap<String, Commit>,
    pub(crate) fault: Option<Fault>,
    last_id: u64,
}

#[derive(Default)]
pub(crate) struct Repo {
    pub(crate) id: u64,
    pub(crate) path: String,
    pub(crate) description: String,
    pub(crate) archived: bool,
    pub(crate) branch: String,
    pub(crate) keys: Vec<Key>,
    pub(crate) variables: Vec<Variable>,
    pub(crate) tokens: Vec<AccessToken>,
    /// Last commit; `None` for an empty repository.
    pub(crate) head: Option<String>,
    files: Files,
}

pub(crate) struct Key {
    pub(crate) id: u64,
    pub(crate) title: String,
    pub(crate) key: String,
    pub(crate) write_access: bool,
}

#[derive(Clone, Default)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) protected: bool,
    /// True for a secret.
    pub(crate) masked: bool,
    pub(crate) raw: bool,
}

pub(crate) struct AccessToken {
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) scopes: serde_json::Value,
    pub(crate) level: u64,
    /// Day of the end.
    pub(crate) expires: String,
    pub(crate) created: String,
}

pub(crate) struct Commit {
    pub(crate) parents: Vec<String>,
    pub(crate) tree: String,
}

impl Repo {
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit_once('/').unwrap().1
    }

    pub(crate) fn files(&self) -> &Files {
        &self.files
    }
}

impl Forge {
    pub(crate) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Repository by path or number.
    pub(crate) fn find(&self, name: &str) -> Option<&Repo> {
        let by_id = || self.repos.values().find(|it| it.id.to_string() == name);
        self.repos.get(name).or_else(by_id)
    }

    pub(crate) fn has_group(&self, group: &str) -> bool {
        self.groups.contains(group) || group == LOGIN
    }

    pub(crate) fn add(&mut self, path: &str, description: &str) {
        let repo = Repo {
            id: self.next_id(),
            path: path.to_owned(),
            description: description.to_owned(),
            branch: DEFAULT_BRANCH.to_owned(),
            ..Repo::default()
        };
        self.repos.insert(path.to_owned(), repo);
    }

    /// `Err` if the repository has the key or the title.
    pub(crate) fn add_key(
        &mut self,
        path: &str,
        title: &str,
        key: &str,
        write_access: bool,
    ) -> Result<u64, ()> {
        let id = self.next_id();
        let repo = self.repos.get_mut(path).unwrap();
        if repo
            .keys
            .iter()
            .any(|it| it.key == key || it.title == title)
        {
            return Err(());
        }
        repo.keys.push(Key {
            id,
            title: title.to_owned(),
            key: key.to_owned(),
            write_access,
        });
        Ok(id)
    }

    pub(crate) fn rename(&mut self, path: &str, name: &str) {
        let mut repo = self.repos.remove(path).unwrap();
        let (group, _) = path.rsplit_once('/').unwrap();
        repo.path = format!("{group}/{name}");
        self.renamed.insert(path.to_owned(), repo.path.clone());
        self.repos.insert(repo.path.clone(), repo);
    }

    pub(crate) fn add_tree(&mut self, files: Files) -> String {
        let id = hash("tree", &format!("{files:?}"));
        self.trees.insert(id.clone(), files);
        id
    }

    pub(crate) fn add_commit(&mut self, tree: String, parents: Vec<String>) -> String {
        let number = self.next_id();
        let id = hash("commit", &format!("{number} {tree} {parents:?}"));
        self.commits.insert(id.clone(), Commit { parents, tree });
        id
    }

    pub(crate) fn set_head(&mut self, path: &str, commit: &str) {
        let files = self.trees[&self.commits[commit].tree].clone();
        let repo = self.repos.get_mut(path).unwrap();
        repo.head = Some(commit.to_owned());
        repo.files = files;
    }

    /// Commits these files after the last commit.
    pub(crate) fn commit(&mut self, path: &str, _message: &str, files: Files) -> String {
        let parents = self.repos[path].head.clone().into_iter().collect();
        let tree = self.add_tree(files);
        let commit = self.add_commit(tree, parents);
        self.set_head(path, &commit);
        commit
    }

    pub(crate) fn history(&self, repo: &Repo) -> Vec<String> {
        let mut all = Vec::new();
        let mut next = repo.head.clone();
        while let Some(id) = next {
            next = self.commits[&id].parents.first().cloned();
            all.push(id);
        }
        all
    }
}

/// Id of a blob as Git computes it.
pub(crate) fn blob_id(content: &str) -> String {
    hash("blob", content)
}

fn hash(kind: &str, content: &str) -> String {
    let object = format!("{kind} {}\0{content}", content.len());
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, object.as_bytes());
    hash.as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

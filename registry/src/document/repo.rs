//! Git repositories in documents: `url`, `type`, `hostKeys`, the agent's deploy key, further keys,
//! and the location on the server.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use fairlead_api::{
    gitops::{CURRENT_KEY_NAME, NEXT_KEY_NAME},
    resources::RepoDocument,
};
use fairlead_routes::{InvalidValue, invalid};
use fairlead_store::model::{AccessTokenSettings, Credentials, DeployKey, GitRepo, RepoKind};
use serde_json::{Map, Value, json};

use crate::document::{
    fields::Fields,
    policy::reference,
    repo_files::{self, TemplateFiles},
    repo_token,
    repo_variables::{self, StoredVariables},
};

/// With an id of 63 characters, the name of the credential stays below 128.
const MAX_GENERATED_NAME_BYTES: usize = 40;

/// A repository as received.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Repo {
    url: Option<String>,
    kind: Option<RepoKind>,
    host_keys: Option<String>,
    /// Field `deployKey`.
    steward: Option<DeployKey>,
    others: Option<BTreeMap<String, DeployKey>>,
    path: Option<String>,
    name: Option<String>,
    api_secret: Option<Credentials>,
    template_files: Option<TemplateFiles>,
    ci_variables: Option<StoredVariables>,
    access_token: Option<AccessTokenSettings>,
}

impl Repo {
    /// Parses a repository.
    ///
    /// # Errors
    /// `FL-4109`
    pub(super) fn read(mut given: Fields) -> Result<Self, InvalidValue> {
        let words = "\"auto\" or \"unmanaged\"";
        let repo = Repo {
            url: given.text("url")?,
            kind: given.word("type", words)?,
            host_keys: given.text("hostKeys")?,
            steward: given.text("deployKey")?.map(read_only).transpose()?,
            others: given.object("deployKeys")?.map(keys).transpose()?,
            path: given.text("path")?,
            name: given.text("repoName")?,
            api_secret: reference(&mut given, "apiSecretRef", "gitRepo.")?,
            template_files: (given.object("templateFiles")?)
                .map(repo_files::read)
                .transpose()?,
            ci_variables: (given.object("ciVariables")?)
                .map(repo_variables::read)
                .transpose()?,
            access_token: (given.value("accessToken"))
                .map(repo_token::read)
                .transpose()?,
        };
        if let (Some(url), RepoKind::Auto) = (&repo.url, repo.kind.unwrap_or_default()) {
            managed(url)?;
        }
        Ok(repo)
    }

    pub(crate) fn url(&self) -> Option<&str> {
        self.url.as_deref()
    }

    /// True if it has CI variables.
    pub(super) fn has_variables(&self) -> bool {
        self.ci_variables.as_ref().is_some_and(|it| !it.is_empty())
    }

    /// True if the repository is unmanaged.
    pub(crate) fn is_unmanaged(&self) -> bool {
        self.kind == Some(RepoKind::Unmanaged)
    }

    /// True if only the agent's key is set.
    pub(crate) fn is_only_a_key(&self) -> bool {
        let key = self.steward.clone();
        let empty = Repo {
            steward: key,
            ..Repo::default()
        };
        self.steward.is_some() && *self == empty
    }

    /// Removes the agent's key if the document has none.
    pub(crate) fn forget_key(&self, known: &mut GitRepo) {
        if self.steward.is_none() {
            known.deploy_keys.remove(CURRENT_KEY_NAME);
        }
    }

    /// PUT preserves our own fields, which a client of Lieutenant's API does not know.
    pub(super) fn over(&mut self, before: &GitRepo) {
        let files = || before.template_files.clone();
        self.template_files.get_or_insert_with(files);
        if self.access_token.is_none() {
            self.access_token.clone_from(&before.access_token);
        }
        let variables = || before.ci_variables.clone();
        let variables = self.ci_variables.get_or_insert_with(variables);
        repo_variables::keep_values(variables, &before.ci_variables);
    }

    /// The stored form. Keys of the agent are preserved if the sender omits them: the agent manages them.
    pub(crate) fn kept(self, before: Option<&GitRepo>) -> GitRepo {
        let mut deploy_keys = match self.others {
            Some(others) => others,
            None => before.map(|it| it.deploy_keys.clone()).unwrap_or_default(),
        };
        deploy_keys.remove(CURRENT_KEY_NAME);
        let known = || before.and_then(|it| it.deploy_keys.get(CURRENT_KEY_NAME).cloned());
        if let Some(key) = self.steward.or_else(known) {
            deploy_keys.insert(CURRENT_KEY_NAME.to_owned(), key);
        }
        if let Some(next) = before.and_then(|it| it.deploy_keys.get(NEXT_KEY_NAME)) {
            deploy_keys.insert(NEXT_KEY_NAME.to_owned(), next.clone());
        }
        GitRepo {
            url: self.url,
            kind: self.kind.unwrap_or_default(),
            host_keys: self.host_keys,
            deploy_keys,
            path: self.path,
            repo_name: self.name,
            api_secret_ref: self.api_secret,
            template_files: self.template_files.unwrap_or_default(),
            ci_variables: self.ci_variables.unwrap_or_default(),
            access_token: self.access_token,
        }
    }
}

/// The agent's deploy key.
pub(crate) fn deploy_key(repo: &GitRepo) -> Option<&str> {
    repo.deploy_keys
        .get(CURRENT_KEY_NAME)
        .map(|key| key.key.as_str())
}

/// True if a PATCH only repeats the agent's current key; `type` is ignored.
pub(super) fn has_key(repo: &GitRepo, values: &Map<String, Value>) -> bool {
    values.iter().all(|(name, value)| match name.as_str() {
        "type" => true,
        "deployKey" => value
            .as_str()
            .is_some_and(|key| deploy_key(repo) == Some(key)),
        _ => false,
    })
}

/// True if a PATCH only sets a valid agent's key.
pub(super) fn is_good_key(values: &Map<String, Value>) -> bool {
    values.iter().all(|(name, value)| match name.as_str() {
        "type" => true,
        "deployKey" => value.as_str().is_some_and(|key| check_key(key).is_ok()),
        _ => false,
    })
}

const REPO_FIELDS: [&str; 11] = [
    "url",
    "type",
    "hostKeys",
    "deployKey",
    "deployKeys",
    "path",
    "repoName",
    "apiSecretRef",
    "templateFiles",
    "ciVariables",
    "accessToken",
];

const KEY_FIELDS: [&str; 3] = ["key", "writeAccess", "generate"];

/// Rejects unknown fields; `more` lists additional fields of this place.
///
/// # Errors
/// `FL-4109` with the first unknown field.
pub(super) fn check_fields(
    at: &str,
    repo: Option<&Value>,
    more: &[&str],
) -> Result<(), InvalidValue> {
    let Some(Value::Object(repo)) = repo else {
        return Ok(());
    };
    let unknown =
        |name: &&String| !REPO_FIELDS.contains(&name.as_str()) && !more.contains(&name.as_str());
    let of_repo = repo.keys().find(unknown).cloned();
    let keys = repo.get("deployKeys").and_then(Value::as_object);
    let of_key = keys.into_iter().flatten().find_map(|(key, value)| {
        let mut fields = value.as_object()?.keys();
        let unknown = fields.find(|name| !KEY_FIELDS.contains(&name.as_str()))?;
        Some(format!("deployKeys.{key}.{unknown}"))
    });
    match of_repo.or(of_key) {
        None => Ok(()),
        Some(name) => {
            let name: String = name.chars().take(100).collect();
            Err(invalid(format_args!("unknown field \"{at}.{name}\"")))
        }
    }
}

/// The document from which [`Repo::read`] restores the same value, with sealed values.
pub(super) fn stored(repo: &GitRepo) -> Value {
    let mut stored = json!(document(repo));
    if let Some(fields) = stored.as_object_mut()
        && !repo.ci_variables.is_empty()
    {
        fields.insert("ciVariables".to_owned(), json!(repo.ci_variables));
    }
    stored
}

/// The document for answers.
pub(super) fn document(repo: &GitRepo) -> RepoDocument {
    RepoDocument {
        url: repo.url.clone(),
        kind: Some(repo.kind),
        host_keys: repo.host_keys.clone(),
        path: repo.path.clone(),
        repo_name: repo.repo_name.clone(),
        api_secret_ref: repo.api_secret_ref.clone(),
        deploy_key: deploy_key(repo).map(str::to_owned),
        deploy_keys: others(repo),
        template_files: repo.template_files.clone(),
        ci_variables: repo_variables::shown(&repo.ci_variables),
        access_token: repo.access_token.clone(),
        state: None,
    }
}

/// Keys except the agent's.
pub(super) fn others(repo: &GitRepo) -> BTreeMap<String, DeployKey> {
    let named = repo
        .deploy_keys
        .iter()
        .filter(|(name, _)| *name != CURRENT_KEY_NAME);
    named
        .map(|(name, key)| (name.clone(), key.clone()))
        .collect()
}

fn read_only(key: String) -> Result<DeployKey, InvalidValue> {
    check_key(&key)?;
    Ok(DeployKey {
        key,
        ..DeployKey::default()
    })
}

fn keys(mut given: Fields) -> Result<BTreeMap<String, DeployKey>, InvalidValue> {
    let names: Vec<String> = given.names().map(str::to_owned).collect();
    let mut keys = BTreeMap::new();
    for name in names {
        if name == CURRENT_KEY_NAME {
            return Err(invalid(
                "deployKeys: \"steward\" is reserved for the agent: set `deployKey`",
            ));
        }
        let Some(mut one) = given.object(&name)? else {
            continue;
        };
        let key = declared_key(&name, &mut one)?;
        keys.insert(name, key);
    }
    Ok(keys)
}

fn declared_key(name: &str, given: &mut Fields) -> Result<DeployKey, InvalidValue> {
    let generate = given.boolean("generate")?.unwrap_or_default();
    let key = match (given.text("key")?, generate) {
        (Some(key), false) => {
            check_key(&key)?;
            key
        }
        (None, true) => {
            check_generated(name)?;
            String::new()
        }
        (None, false) => {
            return Err(invalid(format_args!(
                "property \"deployKeys.{name}.key\" is missing"
            )));
        }
        (Some(_), true) => {
            return Err(invalid(format_args!(
                "deployKeys.{name}: set either key or generate, and the other one to null"
            )));
        }
    };
    Ok(DeployKey {
        key,
        write_access: given.boolean("writeAccess")?.unwrap_or_default(),
        generate,
    })
}

/// The name of a generated key becomes part of a file's and a Secret's name.
fn check_generated(name: &str) -> Result<(), InvalidValue> {
    if name == NEXT_KEY_NAME {
        return Err(invalid(format_args!(
            "deployKeys: \"{NEXT_KEY_NAME}\" is reserved for the agent; choose another name"
        )));
    }
    let is_plain = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-';
    let is_name = (1..=MAX_GENERATED_NAME_BYTES).contains(&name.len())
        && name.bytes().all(is_plain)
        && !name.starts_with('-')
        && !name.ends_with('-');
    if is_name {
        return Ok(());
    }
    Err(invalid(format_args!(
        "deployKeys: the name of a generated key has a-z, 0-9 and inner dashes, at most {MAX_GENERATED_NAME_BYTES} characters"
    )))
}

/// `<type> <base64>` with an optional newline.
pub(crate) fn check_key(key: &str) -> Result<(), InvalidValue> {
    let line = key.strip_suffix('\n').unwrap_or(key);
    let parts = line.split_once(' ');
    let good = parts.is_some_and(|(kind, data)| {
        let kind_ok = !kind.is_empty() && kind.bytes().all(|b| b.is_ascii_graphic());
        kind_ok && !data.is_empty() && STANDARD.decode(data).is_ok()
    });
    if good {
        return Ok(());
    }
    Err(invalid("Illegal deploy key format"))
}

/// The URL of a managed repository must contain group and name.
fn managed(url: &str) -> Result<(), InvalidValue> {
    let path = match url.split_once("://") {
        Some((_, rest)) => rest.split_once('/').map(|(_, path)| path),
        // scp syntax: user@host:group/name
        None => url.split_once(':').map(|(_, path)| path),
    };
    let segments = path
        .unwrap_or_default()
        .split('/')
        .filter(|it| !it.is_empty());
    if segments.count() >= 2 {
        return Ok(());
    }
    Err(invalid(
        "gitRepo.url: the URL of a managed repository has a group and a name, like ssh://git@git.example/group/name.git",
    ))
}

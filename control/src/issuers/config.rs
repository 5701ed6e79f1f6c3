//! The file: tables `[issuer.NAME]` for issuers of JSON Web Tokens, `[review.NAME]` for clusters that review tokens.

use std::{collections::BTreeMap, path::PathBuf, str::FromStr, time::Duration};

use fairlead_api::{ClusterId, Code, Failure, TenantId, resources::Role};
use fairlead_runtime::config::Span;
use jsonwebtoken::Algorithm;
use serde::Deserialize;

/// How far clocks may be apart.
const LEEWAY: Duration = Duration::from_secs(60);
const MOST_LEEWAY: Duration = Duration::from_secs(600);

pub(super) struct Config {
    pub(super) issuers: Vec<Issuer>,
    pub(super) reviews: Vec<Review>,
}

/// Who signs tokens, and what they say.
pub(super) struct Issuer {
    pub(super) name: String,
    /// Exactly as `iss` has it.
    pub(super) url: String,
    pub(super) audience: Vec<String>,
    pub(super) algorithms: Vec<Algorithm>,
    /// A JSON Web Key Set (RFC 7517), instead of the one that discovery finds.
    pub(super) keys_file: Option<PathBuf>,
    pub(super) ca_file: Option<PathBuf>,
    pub(super) leeway: Duration,
    pub(super) mapping: Mapping,
}

/// A Kubernetes cluster that knows tokens.
pub(super) struct Review {
    pub(super) name: String,
    pub(super) url: String,
    pub(super) audience: Vec<String>,
    pub(super) ca_file: Option<PathBuf>,
    /// With which this hub may create TokenReviews there; read anew for each.
    pub(super) token_file: PathBuf,
    pub(super) mapping: Mapping,
}

/// What claims mean here.
pub(super) struct Mapping {
    /// Claim that holds the name.
    pub(super) name_claim: String,
    /// Put before every name, so that two issuers' people are never one.
    pub(super) prefix: String,
    /// The first that fits counts.
    pub(super) rules: Vec<Rule>,
}

/// Who has this role.
pub(super) struct Rule {
    /// A claim's name, or those of nested ones with dots between them.
    pub(super) claim: String,
    pub(super) value: Pattern,
    pub(super) role: Role,
    pub(super) tenant: Option<TenantId>,
    /// For the role `cluster`: which one.
    pub(super) cluster: Option<Named>,
}

/// A text, or with a star at its end everything that begins so.
pub(super) enum Pattern {
    Exactly(String),
    Starts(String),
}

pub(super) enum Named {
    Cluster(ClusterId),
    /// What the star stands for.
    ByStar,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    issuer: BTreeMap<String, IssuerTable>,
    #[serde(default)]
    review: BTreeMap<String, ReviewTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct IssuerTable {
    url: String,
    audience: Vec<String>,
    #[serde(default)]
    algorithms: Vec<String>,
    keys_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
    leeway: Option<String>,
    name_claim: Option<String>,
    prefix: Option<String>,
    roles: Vec<RoleTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReviewTable {
    url: String,
    #[serde(default)]
    audience: Vec<String>,
    ca_file: Option<PathBuf>,
    token_file: PathBuf,
    prefix: Option<String>,
    roles: Vec<RoleTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RoleTable {
    claim: String,
    value: String,
    role: String,
    tenant: Option<String>,
    cluster: Option<String>,
}

fn mistake(table: &str, cause: impl std::fmt::Display) -> Failure {
    Failure::because(Code::BadConfig, format_args!("[{table}] {cause}"))
}

/// # Errors
/// `FL-4101` with the table and the field.
pub(super) fn read(text: &str) -> Result<Config, Failure> {
    let file: File =
        toml::from_str(text).map_err(|error| Failure::because(Code::BadConfig, error.message()))?;
    let issuers = file
        .issuer
        .into_iter()
        .map(issuer)
        .collect::<Result<Vec<_>, _>>()?;
    for (index, one) in issuers.iter().enumerate() {
        if let Some(other) = issuers
            .iter()
            .skip(index + 1)
            .find(|other| other.url == one.url)
        {
            let table = format!("issuer.{}", other.name);
            return Err(mistake(
                &table,
                format_args!("has the url of [issuer.{}]", one.name),
            ));
        }
    }
    let reviews = file
        .review
        .into_iter()
        .map(review)
        .collect::<Result<_, _>>()?;
    Ok(Config { issuers, reviews })
}

fn issuer((name, given): (String, IssuerTable)) -> Result<Issuer, Failure> {
    let table = format!("issuer.{name}");
    let wrong = |cause: &dyn std::fmt::Display| mistake(&table, cause);
    secure(&given.url).map_err(|cause| wrong(&cause))?;
    if given.audience.is_empty() {
        // Else a token for any other program of that issuer would be good here.
        return Err(wrong(
            &"audience is empty: say for whom its tokens are made out",
        ));
    }
    let leeway = match &given.leeway {
        None => LEEWAY,
        Some(text) => {
            Span::from_str(text)
                .map_err(|cause| wrong(&format_args!("leeway: {cause}")))?
                .0
        }
    };
    if leeway > MOST_LEEWAY {
        return Err(wrong(&"leeway: at most 10m"));
    }
    let mut algorithms = Vec::new();
    for text in &given.algorithms {
        algorithms.push(algorithm(text).ok_or_else(|| {
            wrong(&format_args!("algorithms: {text:?} is none of RS256 to RS512, PS256 to PS512, ES256, ES384, EdDSA"))
        })?);
    }
    if algorithms.is_empty() {
        algorithms = vec![Algorithm::RS256, Algorithm::ES256];
    }
    Ok(Issuer {
        mapping: Mapping {
            name_claim: given.name_claim.unwrap_or_else(|| "sub".to_owned()),
            prefix: given.prefix.unwrap_or_else(|| format!("{name}.")),
            rules: rules(&table, given.roles)?,
        },
        name,
        url: given.url,
        audience: given.audience,
        algorithms,
        keys_file: given.keys_file,
        ca_file: given.ca_file,
        leeway,
    })
}

fn review((name, given): (String, ReviewTable)) -> Result<Review, Failure> {
    let table = format!("review.{name}");
    secure(&given.url).map_err(|cause| mistake(&table, cause))?;
    Ok(Review {
        mapping: Mapping {
            name_claim: "username".to_owned(),
            prefix: given.prefix.unwrap_or_else(|| format!("{name}.")),
            rules: rules(&table, given.roles)?,
        },
        name,
        url: given.url.trim_end_matches('/').to_owned(),
        audience: given.audience,
        ca_file: given.ca_file,
        token_file: given.token_file,
    })
}

fn secure(url: &str) -> Result<(), &'static str> {
    match url.strip_prefix("https://") {
        Some(rest) if !rest.is_empty() && !rest.contains(['?', '#', '@']) => Ok(()),
        _ => Err("url: expected https://host/path, as the tokens' iss has it"),
    }
}

/// Only what a public key verifies: with a shared secret, whoever checks tokens could make them.
fn algorithm(text: &str) -> Option<Algorithm> {
    Some(match text {
        "RS256" => Algorithm::RS256,
        "RS384" => Algorithm::RS384,
        "RS512" => Algorithm::RS512,
        "PS256" => Algorithm::PS256,
        "PS384" => Algorithm::PS384,
        "PS512" => Algorithm::PS512,
        "ES256" => Algorithm::ES256,
        "ES384" => Algorithm::ES384,
        "EdDSA" => Algorithm::EdDSA,
        _ => return None,
    })
}

fn rules(table: &str, given: Vec<RoleTable>) -> Result<Vec<Rule>, Failure> {
    if given.is_empty() {
        return Err(mistake(table, "roles is empty: nobody would be let in"));
    }
    given.into_iter().map(|rule| rule_of(table, rule)).collect()
}

fn rule_of(table: &str, given: RoleTable) -> Result<Rule, Failure> {
    let wrong = |field: &str, cause: &dyn std::fmt::Display| {
        mistake(table, format_args!("roles: {field}: {cause}"))
    };
    let role: Role = given.role.parse().map_err(|error| wrong("role", &error))?;
    let tenant = given.tenant.as_deref().map(str::parse).transpose();
    let cluster = match given.cluster.as_deref() {
        None => None,
        Some("*") => Some(Named::ByStar),
        Some(id) => Some(Named::Cluster(
            id.parse().map_err(|error| wrong("cluster", &error))?,
        )),
    };
    let value = match given.value.strip_suffix('*') {
        Some(start) => Pattern::Starts(start.to_owned()),
        None => Pattern::Exactly(given.value),
    };
    let by_star = matches!(cluster, Some(Named::ByStar));
    if by_star && matches!(value, Pattern::Exactly(_)) {
        return Err(wrong(
            "cluster",
            &"\"*\" is what the star at the end of value stands for, and there is none",
        ));
    }
    if (role == Role::Cluster) != cluster.is_some() {
        return Err(wrong(
            "cluster",
            &"it belongs to the role cluster, and to no other",
        ));
    }
    if role == Role::Tenant && given.tenant.is_none() {
        return Err(wrong("tenant", &"the role tenant is on one"));
    }
    if given.claim.is_empty() {
        return Err(wrong("claim", &"it is empty"));
    }
    Ok(Rule {
        claim: given.claim,
        value,
        role,
        tenant: tenant.map_err(|error| wrong("tenant", &error))?,
        cluster,
    })
}

//! Configuration file: tables `[issuer.NAME]` for issuers of JSON Web Tokens, `[review.NAME]` for
//! clusters that review tokens.

mod fields;
mod rules;

use std::{
    ops::RangeInclusive,
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use fairlead_api::{Failure, TimeSpan};
use jsonwebtoken::{Algorithm, jwk::JwkSet};
use toml::de::DeTable;

use fields::{LocatedValue, Mistakes, TableFields};
use rules::rules;
pub(super) use rules::{ClusterMatch, Pattern, Rule};

/// Default tolerance for clock differences.
const DEFAULT_LEEWAY: Duration = Duration::from_secs(60);
const MAX_LEEWAY: Duration = Duration::from_secs(600);
/// `offline_access` yields a refresh token (OpenID Connect Core 1.0, section 11).
const DEFAULT_SCOPES: [&str; 3] = ["openid", "email", "offline_access"];
/// Some issuers permit `localhost` only, against the advice of RFC 8252, section 8.3.
const REDIRECT_HOSTS: [&str; 2] = ["127.0.0.1", "localhost"];
/// Default lifetime of an exchanged token: the CI's own token lives for minutes, its job for longer.
const DEFAULT_EXCHANGE_TTL: Duration = Duration::from_secs(3600);
const EXCHANGE_TTL_RANGE: RangeInclusive<Duration> =
    Duration::from_secs(60)..=Duration::from_secs(12 * 3600);
const MAX_PREFIX_BYTES: usize = 32;

#[derive(Default)]
pub(super) struct Config {
    pub(super) issuers: Vec<Issuer>,
    pub(super) reviews: Vec<Review>,
}

/// An issuer of signed tokens.
pub(super) struct Issuer {
    pub(super) name: String,
    /// Compared with `iss` exactly.
    pub(super) url: String,
    pub(super) audience: Vec<String>,
    pub(super) algorithms: Vec<Algorithm>,
    /// A JSON Web Key Set (RFC 7517); replaces the one that discovery finds.
    pub(super) keys_file: Option<PathBuf>,
    pub(super) ca_file: Option<PathBuf>,
    pub(super) leeway: Duration,
    /// Present if people may sign in through this issuer.
    pub(super) sign_in: Option<SignInSettings>,
    /// Lifetime of exchanged tokens; `None` if its tokens are not exchanged.
    pub(super) exchange: Option<Duration>,
    pub(super) mapping: Mapping,
}

/// Public client with which the command line signs people in.
pub(super) struct SignInSettings {
    pub(super) client_id: String,
    pub(super) scopes: Vec<String>,
    /// True if the client may use the device flow.
    pub(super) device: bool,
    /// Host of the loopback redirect.
    pub(super) redirect_host: String,
}

/// A Kubernetes cluster that reviews tokens.
pub(super) struct Review {
    pub(super) name: String,
    pub(super) url: String,
    pub(super) audience: Vec<String>,
    pub(super) ca_file: Option<PathBuf>,
    /// Credential for creating TokenReviews there; read again for each review.
    pub(super) token_file: PathBuf,
    pub(super) mapping: Mapping,
}

/// Meaning of claims on this hub.
#[derive(Debug)]
pub(super) struct Mapping {
    /// Claim that holds the name.
    pub(super) name_claim: String,
    /// Prefix of every name, so that callers of two issuers never share a name.
    pub(super) prefix: String,
    /// All matching rules count; of those with one scope the first decides.
    pub(super) rules: Vec<Rule>,
}

/// Reads the configuration and all files that it names: a mistake surfaces at start, not at the
/// first token.
///
/// # Errors
/// All mistakes, each with its line, table and field.
pub(super) fn read(text: &str) -> Result<Config, Vec<String>> {
    let mut mistakes = Mistakes::of(text);
    let file = match DeTable::parse(text) {
        Ok(file) => file,
        Err(error) => {
            let at = error.span().map_or(0, |span| span.start);
            mistakes.note(at, "", error.message());
            return mistakes.finish().map(|()| Config::default());
        }
    };
    let mut file = TableFields::of(String::new(), 0, file.into_inner());
    let mut config = Config::default();
    for table in file.tables("issuer", &mut mistakes) {
        let at = table.at();
        let Some(issuer) = issuer(table, &mut mistakes) else {
            continue;
        };
        if let Some(other) = config.issuers.iter().find(|it| it.url == issuer.url) {
            let cause = format_args!("has the url of [issuer.{}]", other.name);
            mistakes.note(at, &format!("issuer.{}", issuer.name), cause);
        }
        config.issuers.push(issuer);
    }
    for table in file.tables("review", &mut mistakes) {
        config.reviews.extend(review(table, &mut mistakes));
    }
    check_prefixes(&config, &mut mistakes);
    file.finish(&mut mistakes);
    mistakes.finish().map(|()| config)
}

/// The name without its table: `corp` of `issuer.corp`.
fn name_of(table: &TableFields<'_>) -> String {
    let name = table.name().split_once('.');
    name.map_or_else(String::new, |(_, name)| name.to_owned())
}

fn issuer(mut table: TableFields<'_>, mistakes: &mut Mistakes<'_>) -> Option<Issuer> {
    let name = name_of(&table);
    let section = table.name().to_owned();
    let url = url(&mut table, mistakes);
    let audience: Option<LocatedValue<Vec<String>>> = table.required("audience", mistakes);
    if let Some(given) = &audience
        && given.value.is_empty()
    {
        // Without an audience, a token for any other program of that issuer would be valid here.
        let cause = "audience is empty: name the program its tokens are issued for";
        mistakes.note(given.at, &section, cause);
    }
    let leeway = table.optional("leeway", mistakes);
    let leeway = leeway.map_or(DEFAULT_LEEWAY, |given| {
        leeway_of(&given, &section, mistakes)
    });
    let algorithms = table.optional("algorithms", mistakes);
    let algorithms = algorithms.map(|given| algorithms_of(&given, &section, mistakes));
    let keys_file = file(&mut table, "keys_file", mistakes, |text| {
        let set = serde_json::from_str::<JwkSet>(text).map_err(|error| error.to_string())?;
        match set.keys.is_empty() {
            true => Err("no keys in the file".to_owned()),
            false => Ok(()),
        }
    });
    let ca_file = ca_file(&mut table, mistakes);
    let sign_in = sign_in(&mut table, mistakes);
    let exchange = exchange(&mut table, mistakes);
    let name_claim = table.optional("name_claim", mistakes);
    let name_claim = name_claim.map_or_else(|| "sub".to_owned(), |it| it.value);
    let prefix = prefix(&mut table, &name, &name_claim, mistakes);
    let rules = rules(&mut table, mistakes);
    table.finish(mistakes);
    let mut audience = audience?.value;
    if let Some(client) = sign_in.as_ref().map(|it| &it.client_id)
        && !audience.contains(client)
    {
        // An ID token is issued for its client (OpenID Connect Core 1.0, section 2).
        audience.push(client.clone());
    }
    Some(Issuer {
        mapping: Mapping {
            name_claim,
            prefix,
            rules: rules?,
        },
        name,
        url: url?,
        audience,
        algorithms: (algorithms.filter(|it| !it.is_empty()))
            .unwrap_or_else(|| vec![Algorithm::RS256, Algorithm::ES256]),
        keys_file,
        ca_file,
        leeway,
        sign_in,
        exchange,
    })
}

/// Lifetime of exchanged tokens; `None` unless `exchange` is true.
fn exchange(table: &mut TableFields<'_>, mistakes: &mut Mistakes<'_>) -> Option<Duration> {
    let is_on = table.optional::<bool>("exchange", mistakes);
    let ttl = table.optional::<String>("exchange_ttl", mistakes);
    let is_on = is_on.is_some_and(|it| it.value);
    let Some(given) = ttl else {
        return is_on.then_some(DEFAULT_EXCHANGE_TTL);
    };
    if !is_on {
        let cause = "exchange_ttl: needs exchange = true";
        mistakes.note(given.at, table.name(), cause);
    }
    match TimeSpan::from_str(&given.value) {
        Ok(TimeSpan(ttl)) if EXCHANGE_TTL_RANGE.contains(&ttl) => return is_on.then_some(ttl),
        Ok(_) => mistakes.note(given.at, table.name(), "exchange_ttl: expected 1m to 12h"),
        Err(cause) => {
            mistakes.note(
                given.at,
                table.name(),
                format_args!("exchange_ttl: {cause}"),
            );
        }
    }
    None
}

/// Settings for the sign-in of people; `None` without `client_id`.
fn sign_in(table: &mut TableFields<'_>, mistakes: &mut Mistakes<'_>) -> Option<SignInSettings> {
    let client_id: Option<LocatedValue<String>> = table.optional("client_id", mistakes);
    let scopes: Option<LocatedValue<Vec<String>>> = table.optional("scopes", mistakes);
    let device: Option<LocatedValue<bool>> = table.optional("device", mistakes);
    let redirect_host: Option<LocatedValue<String>> = table.optional("redirect_host", mistakes);
    let Some(client_id) = client_id else {
        let alone = [
            scopes.map(|it| (it.at, "scopes")),
            device.map(|it| (it.at, "device")),
            redirect_host.map(|it| (it.at, "redirect_host")),
        ];
        for (at, field) in alone.into_iter().flatten() {
            mistakes.note(at, table.name(), format_args!("{field}: needs client_id"));
        }
        return None;
    };
    if client_id.value.is_empty() {
        mistakes.note(client_id.at, table.name(), "client_id: empty");
    }
    if let Some(given) = &scopes
        && !given.value.iter().any(|it| it == "openid")
    {
        // Without it the issuer returns no ID token.
        mistakes.note(given.at, table.name(), "scopes: \"openid\" is missing");
    }
    if let Some(given) = &redirect_host
        && !REDIRECT_HOSTS.contains(&given.value.as_str())
    {
        let cause = "redirect_host: expected \"127.0.0.1\" or \"localhost\"";
        mistakes.note(given.at, table.name(), cause);
    }
    let default = || DEFAULT_SCOPES.map(str::to_owned).to_vec();
    Some(SignInSettings {
        client_id: client_id.value,
        scopes: scopes.map_or_else(default, |it| it.value),
        device: device.is_some_and(|it| it.value),
        redirect_host: redirect_host.map_or_else(|| "127.0.0.1".to_owned(), |it| it.value),
    })
}

/// Prefix of the names of an issuer or reviewing cluster.
fn prefix(
    table: &mut TableFields<'_>,
    name: &str,
    name_claim: &str,
    mistakes: &mut Mistakes<'_>,
) -> String {
    let Some(given) = table.optional::<String>("prefix", mistakes) else {
        return format!("{name}.");
    };
    let allowed = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '.' | '_' | '-' | '@');
    if given.value.is_empty() && name_claim != "email" {
        // Names of the hub's tokens are without prefix, too.
        let cause = "prefix: may be empty only with name_claim = \"email\"";
        mistakes.note(given.at, table.name(), cause);
    } else if !given.value.chars().all(allowed) || given.value.len() > MAX_PREFIX_BYTES {
        let cause = format_args!(
            "prefix: expected at most {MAX_PREFIX_BYTES} of a-z, 0-9, '.', '_', '-', '@'"
        );
        mistakes.note(given.at, table.name(), cause);
    }
    given.value
}

/// Notes prefixes of which one starts with another: two people could then share a name.
fn check_prefixes(config: &Config, mistakes: &mut Mistakes<'_>) {
    let issuers = config
        .issuers
        .iter()
        .map(|it| ("issuer", &it.name, &it.mapping));
    let reviews = config
        .reviews
        .iter()
        .map(|it| ("review", &it.name, &it.mapping));
    let all: Vec<_> = issuers.chain(reviews).collect();
    for (index, (kind, name, mapping)) in all.iter().enumerate() {
        for (other_kind, other, theirs) in all.iter().take(index) {
            let (one, two) = (&mapping.prefix, &theirs.prefix);
            let both_empty = one.is_empty() && two.is_empty();
            let is_nested = !one.is_empty()
                && !two.is_empty()
                && (one.starts_with(two.as_str()) || two.starts_with(one.as_str()));
            if both_empty || is_nested {
                let cause = format_args!(
                    "prefix: {one:?} and {two:?} of [{other_kind}.{other}] allow two people with one name"
                );
                mistakes.note(0, &format!("{kind}.{name}"), cause);
            }
        }
    }
}

fn review(mut table: TableFields<'_>, mistakes: &mut Mistakes<'_>) -> Option<Review> {
    let name = name_of(&table);
    let url = url(&mut table, mistakes);
    let audience = table.optional("audience", mistakes);
    let ca_file = ca_file(&mut table, mistakes);
    let token_file: Option<LocatedValue<PathBuf>> = table.required("token_file", mistakes);
    if let Some(given) = &token_file {
        let checked = read_file(&given.value, |text| match text.trim().is_empty() {
            true => Err("the file is empty".to_owned()),
            false => Ok(()),
        });
        if let Err(cause) = checked {
            mistakes.note(given.at, table.name(), format_args!("token_file: {cause}"));
        }
    }
    let prefix = prefix(&mut table, &name, "username", mistakes);
    let rules = rules(&mut table, mistakes);
    table.finish(mistakes);
    Some(Review {
        mapping: Mapping {
            name_claim: "username".to_owned(),
            prefix,
            rules: rules?,
        },
        name,
        url: url?.trim_end_matches('/').to_owned(),
        audience: audience.map_or_else(Vec::new, |it| it.value),
        ca_file,
        token_file: token_file?.value,
    })
}

fn url(table: &mut TableFields<'_>, mistakes: &mut Mistakes<'_>) -> Option<String> {
    let given: LocatedValue<String> = table.required("url", mistakes)?;
    match given.value.strip_prefix("https://") {
        Some(rest) if !rest.is_empty() && !rest.contains(['?', '#', '@']) => Some(given.value),
        _ => {
            let cause = "url: expected https://host/path, exactly as in the tokens' iss";
            mistakes.note(given.at, table.name(), cause);
            None
        }
    }
}

fn ca_file(table: &mut TableFields<'_>, mistakes: &mut Mistakes<'_>) -> Option<PathBuf> {
    file(table, "ca_file", mistakes, |text| {
        let tls = fairlead_certs::outer_client(Some(text), None);
        tls.map(drop).map_err(|error| Failure::from(error).cause)
    })
}

/// A file named by the table; it must be readable at start.
fn file(
    table: &mut TableFields<'_>,
    key: &str,
    mistakes: &mut Mistakes<'_>,
    check: impl FnOnce(&str) -> Result<(), String>,
) -> Option<PathBuf> {
    let given: LocatedValue<PathBuf> = table.optional(key, mistakes)?;
    if let Err(cause) = read_file(&given.value, check) {
        mistakes.note(given.at, table.name(), format_args!("{key}: {cause}"));
    }
    Some(given.value)
}

fn read_file(path: &Path, check: impl FnOnce(&str) -> Result<(), String>) -> Result<(), String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string());
    let checked = text.and_then(|text| check(&text));
    checked.map_err(|cause| format!("{}: {cause}", path.display()))
}

fn leeway_of(given: &LocatedValue<String>, table: &str, mistakes: &mut Mistakes<'_>) -> Duration {
    match TimeSpan::from_str(&given.value) {
        Ok(TimeSpan(leeway)) if leeway <= MAX_LEEWAY => return leeway,
        Ok(_) => mistakes.note(given.at, table, "leeway: at most 10m"),
        Err(cause) => mistakes.note(given.at, table, format_args!("leeway: {cause}")),
    }
    DEFAULT_LEEWAY
}

fn algorithms_of(
    given: &LocatedValue<Vec<String>>,
    table: &str,
    mistakes: &mut Mistakes<'_>,
) -> Vec<Algorithm> {
    let mut algorithms = Vec::new();
    for text in &given.value {
        match algorithm(text) {
            Some(algorithm) => algorithms.push(algorithm),
            None => {
                let cause = format_args!(
                    "algorithms: {text:?} is none of RS256 to RS512, PS256 to PS512, ES256, ES384, EdDSA"
                );
                mistakes.note(given.at, table, cause);
            }
        }
    }
    algorithms
}

/// Public-key algorithms only: with a shared secret, each verifier could forge tokens.
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

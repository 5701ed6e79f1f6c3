//! Rules of an issuer: roles for matching claims, and their scopes.

use std::{fmt::Display, str::FromStr, sync::Arc};

use fairlead_api::{
    ClusterId, Selector, TenantId, impersonation, resources::Role, site::OperatorNamespace,
};

use super::fields::{LocatedValue, Mistakes, TableFields};

/// The groups of a rule's namespaces are headers of each request.
const MAX_NAMESPACES: usize = 16;

/// Grants a role to tokens with a matching claim.
#[derive(Debug)]
pub(crate) struct Rule {
    /// Name of the claim; dots separate nested names.
    pub(crate) claim: String,
    pub(crate) value: Pattern,
    pub(crate) role: Role,
    pub(crate) tenant: Option<TenantId>,
    /// Required by the role `cluster`.
    pub(crate) cluster: Option<ClusterMatch>,
    /// Namespaces of the role; empty: whole clusters.
    pub(crate) namespaces: Vec<OperatorNamespace>,
    /// Role that the caller may take in an emergency.
    pub(crate) break_glass: Option<Role>,
}

/// A literal text, or a prefix if it ends with a star.
#[derive(Debug)]
pub(crate) enum Pattern {
    Exactly(String),
    Starts(String),
}

#[derive(Debug)]
pub(crate) enum ClusterMatch {
    Cluster(ClusterId),
    /// The text matched by the pattern's star.
    ByStar,
    /// Clusters that match a label selector.
    Selected(Arc<Selector>),
}

pub(super) fn rules(table: &mut TableFields<'_>, mistakes: &mut Mistakes<'_>) -> Option<Vec<Rule>> {
    let given = table.list("roles", mistakes)?;
    if given.is_empty() {
        let cause = "roles is empty: no caller would be admitted";
        mistakes.note(table.at(), table.name(), cause);
    }
    let rules = given.into_iter().map(|rule| rule_of(rule, mistakes));
    rules.collect::<Vec<_>>().into_iter().collect()
}

fn rule_of(mut table: TableFields<'_>, mistakes: &mut Mistakes<'_>) -> Option<Rule> {
    let (claim, value) = (
        table.required::<String>("claim", mistakes),
        table.required::<String>("value", mistakes),
    );
    let role = table.required("role", mistakes);
    let tenant = table.optional("tenant", mistakes);
    let cluster = table.optional::<String>("cluster", mistakes);
    let selector = table.optional::<String>("selector", mistakes);
    let namespaces = table.optional::<Vec<String>>("namespaces", mistakes);
    let break_glass = table.optional::<String>("break_glass", mistakes);
    let (at, name) = (table.at(), table.name().to_owned());
    table.finish(mistakes);
    let mut wrong = |at: usize, cause: &dyn Display| mistakes.note(at, &name, cause);

    let value = value.map(|given| match given.value.strip_suffix('*') {
        Some(start) => Pattern::Starts(start.to_owned()),
        None => Pattern::Exactly(given.value),
    });
    let role: Option<Role> =
        role.and_then(|given: LocatedValue<String>| given.parse("role", &mut wrong));
    let has_tenant = tenant.is_some();
    let tenant: Option<Option<TenantId>> = match tenant {
        None => Some(None),
        Some(given) => LocatedValue::<String>::parse(given, "tenant", &mut wrong).map(Some),
    };
    let by_star = cluster.as_ref().is_some_and(|it| it.value == "*");
    if by_star && matches!(value, Some(Pattern::Exactly(_))) {
        let cause = "cluster: \"*\" stands for the text matched by a star at the end of value, and value has none";
        wrong(at, &cause);
    }
    if role == Some(Role::Cluster) && cluster.is_none() {
        wrong(at, &"cluster: required by the role cluster");
    }
    if cluster.is_some() && matches!(role, Some(Role::Tenant | Role::Compile)) {
        wrong(at, &"cluster: not for the roles tenant and compile");
    }
    let break_glass: Option<Option<Role>> = match break_glass {
        None => Some(None),
        Some(given) => given.parse("break_glass", &mut wrong).map(Some),
    };
    if let Some(Some(role)) = break_glass
        && role.in_clusters() != Some(role)
    {
        wrong(at, &"break_glass: expected admin, operator or viewer");
    }
    let namespaces = namespaces_of(namespaces, role, &mut wrong);
    if role == Some(Role::Tenant) && !has_tenant {
        wrong(at, &"tenant: required by the role tenant");
    }
    if selector.is_some() && cluster.is_some() {
        wrong(at, &"selector: not together with cluster");
    }
    let selected = match selector {
        None => Some(None),
        Some(given) => selector_of(given, role, &mut wrong).map(Some),
    };
    let cluster = match cluster {
        None => selected,
        Some(_) if by_star => Some(Some(ClusterMatch::ByStar)),
        Some(given) => {
            let id = given.parse("cluster", &mut wrong);
            id.map(|id| Some(ClusterMatch::Cluster(id)))
        }
    };
    if claim.as_ref().is_some_and(|it| it.value.is_empty()) {
        wrong(at, &"claim: empty");
    }
    Some(Rule {
        claim: claim?.value,
        value: value?,
        role: role?,
        tenant: tenant?,
        cluster: cluster?,
        namespaces: namespaces?,
        break_glass: break_glass?,
    })
}

fn selector_of(
    given: LocatedValue<String>,
    role: Option<Role>,
    wrong: &mut impl FnMut(usize, &dyn Display),
) -> Option<ClusterMatch> {
    if role.is_some_and(|role| role.in_clusters() != Some(role)) {
        let cause = "selector: allowed with the roles admin, operator and viewer only";
        wrong(given.at, &cause);
    }
    match given.value.parse::<Selector>() {
        Ok(selector) if selector.is_empty() => {
            wrong(given.at, &"selector: empty");
            None
        }
        Ok(selector) => Some(ClusterMatch::Selected(Arc::new(selector))),
        // The error names the field.
        Err(error) => {
            wrong(given.at, &error);
            None
        }
    }
}

fn namespaces_of(
    given: Option<LocatedValue<Vec<String>>>,
    role: Option<Role>,
    wrong: &mut impl FnMut(usize, &dyn Display),
) -> Option<Vec<OperatorNamespace>> {
    let Some(given) = given else {
        return Some(Vec::new());
    };
    if !(1..=MAX_NAMESPACES).contains(&given.value.len()) {
        let cause = format_args!("namespaces: expected 1 to {MAX_NAMESPACES} names");
        wrong(given.at, &cause);
    }
    if role.is_some_and(|role| !impersonation::NAMESPACE_ROLES.contains(&role)) {
        let cause = "namespaces: allowed with the roles operator and viewer only";
        wrong(given.at, &cause);
    }
    let mut parsed = Vec::new();
    for name in &given.value {
        let name = name.parse();
        let name = name.map_err(|error| wrong(given.at, &format_args!("namespaces: {error}")));
        parsed.push(name.ok()?);
    }
    Some(parsed)
}

impl LocatedValue<String> {
    fn parse<T: FromStr<Err: Display>>(
        self,
        field: &str,
        wrong: &mut impl FnMut(usize, &dyn Display),
    ) -> Option<T> {
        let parsed = self.value.parse();
        parsed
            .map_err(|error| wrong(self.at, &format_args!("{field}: {error}")))
            .ok()
    }
}

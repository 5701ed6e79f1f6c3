//! Names of variables.

/// Name of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variable<'a> {
    /// `cluster.id`.
    ClusterId,
    /// `cluster.name`.
    ClusterName,
    /// `cluster.tenant`.
    ClusterTenant,
    /// `cluster.facts.X`.
    Fact(&'a str),
    /// `cluster.annotations.X`.
    Annotation(&'a str),
    /// `vars.X`.
    Var(&'a str),
}

impl<'a> Variable<'a> {
    /// Parses a full name, like `cluster.facts.kubernetes.version`; `None` for any other text.
    #[must_use]
    pub fn parse(name: &'a str) -> Option<Self> {
        let suffix = |prefix: &str| {
            let rest = name.strip_prefix(prefix)?;
            is_variable_suffix(rest).then_some(rest)
        };
        match name {
            "cluster.id" => Some(Variable::ClusterId),
            "cluster.name" => Some(Variable::ClusterName),
            "cluster.tenant" => Some(Variable::ClusterTenant),
            _ => suffix("vars.")
                .map(Variable::Var)
                .or_else(|| suffix("cluster.facts.").map(Variable::Fact))
                .or_else(|| suffix("cluster.annotations.").map(Variable::Annotation)),
        }
    }
}

/// True for a valid `X` of `vars.X`, `cluster.facts.X` and `cluster.annotations.X`.
#[must_use]
pub fn is_variable_suffix(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(is_name_byte)
}

pub(super) const fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b'/')
}

//! Judgement of a request in lines, field by field: dropped, kept, or sent under another name.
//!
//! It only admits. A request that it does not admit takes the way of a map, whose rules refuse it or let it pass.

use fairlead_api::impersonation::{AS_HEADER, GROUP_HEADER, USER_HEADER};
use fairlead_apiserver::RelayedLines;
use fairlead_exchange::{Line, LineSet, Lines, MAX_LINES, NameBuffer, RequestLines};

use super::{
    admit::{ImpersonationRules, MAX_GROUPS, is_admin_group, is_namespace_group, is_user},
    headers,
};

/// Fields of a request on its way to the API server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct JudgedLines {
    kept: LineSet,
    /// The field with the impersonated user.
    user: LineSet,
    /// Fields with impersonated groups.
    groups: LineSet,
    trailers: bool,
    is_admin: bool,
}

/// A head in lines has too few fields for too many groups.
const _: () = assert!(MAX_LINES <= MAX_GROUPS);

/// Name under which a judged field is sent, and its place.
pub(crate) type RenamedLines = [(&'static str, LineSet); 2];

impl JudgedLines {
    /// Judges each field once; `None` for a request that takes the way of a map.
    pub(crate) fn of(lines: &Lines, rules: &ImpersonationRules) -> Option<Self> {
        let mut judged = JudgedLines::default();
        let mut buffer = NameBuffer::default();
        for line in lines.iter() {
            match line.lower_name(&mut buffer) {
                USER_HEADER if judged.user.is_empty() && is_user(line.value) => {
                    judged.user.insert(line.index);
                }
                USER_HEADER | AS_HEADER => return None,
                GROUP_HEADER => judged.group(lines, &line, rules)?,
                "te" => judged.trailers |= headers::takes_trailers(line.value),
                // The agent sends its own one.
                "host" => {}
                name if headers::is_dropped(name) => {}
                // A map groups the lines of a repeated name.
                _ if lines.has_name(judged.kept, &line) => return None,
                _ => judged.kept.insert(line.index),
            }
        }
        (!judged.user.is_empty()).then_some(judged)
    }

    /// Whether an admin of the hub sent the request.
    pub(crate) fn is_admin(&self) -> bool {
        self.is_admin
    }

    /// Received fields under the names of impersonation.
    pub(crate) fn renamed(&self) -> RenamedLines {
        [
            ("impersonate-user", self.user),
            ("impersonate-group", self.groups),
        ]
    }

    /// The head for the API server, besides credential and host.
    pub(crate) fn relayed<'a>(
        &self,
        request: &'a RequestLines,
        renamed: &'a RenamedLines,
    ) -> RelayedLines<'a> {
        RelayedLines {
            request,
            added: match self.trailers {
                true => &[("te", "trailers")],
                false => &[],
            },
            renamed,
            kept: self.kept,
        }
    }

    fn group(&mut self, lines: &Lines, line: &Line<'_>, rules: &ImpersonationRules) -> Option<()> {
        if !rules.allows(line.value) {
            return is_namespace_group(line.value).then_some(());
        }
        let mut others = lines.chosen(self.groups);
        if !others.any(|other| other.value == line.value) {
            self.groups.insert(line.index);
            self.is_admin |= is_admin_group(line.value);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests;

//! Printer of parsed queries. It writes a query from its parsed form, so no text of the caller reaches the database
//! unchecked. Tags are marked as tags, so that a field of the same name cannot replace one.

use std::fmt::Write;

use time::OffsetDateTime;

use super::query::{Order, Query, Selected, Tag};

/// Visible clusters of a query, by tenant.
pub type Within<'a> = Vec<(&'a str, Vec<&'a str>)>;

impl Query {
    /// Prints the query for an InfluxDB. `now` replaces `now()`. `within` restricts the query to points of these clusters
    /// with these tenants; an empty list matches nothing.
    #[must_use]
    pub fn print(&self, now: OffsetDateTime, within: Option<&Within<'_>>) -> String {
        let mut out = String::from("SELECT ");
        let columns = self.select.iter().map(|column| {
            let selected = match &column.selected {
                Selected::All => "*".to_owned(),
                Selected::Field(field) => name(field),
                Selected::Of(function, field) => {
                    format!("{}({})", function.as_str(), name(field))
                }
            };
            match &column.name {
                Some(title) => format!("{selected} AS {}", name(title)),
                None => selected,
            }
        });
        out += &columns.collect::<Vec<_>>().join(", ");
        out += " FROM ";
        let from = self.from.iter().map(|measurement| name(measurement));
        out += &from.collect::<Vec<_>>().join(", ");
        let conditions = self.conditions(now, within);
        if !conditions.is_empty() {
            out += " WHERE ";
            out += &conditions.join(" AND ");
        }
        if !self.group_by.is_empty() {
            let tags = self.group_by.iter().map(|tag| name(tag.as_str()));
            out += " GROUP BY ";
            out += &tags.collect::<Vec<_>>().join(", ");
        }
        if self.order == Order::Descending {
            out += " ORDER BY time DESC";
        }
        // Writing into a string cannot fail.
        if let Some(limit) = self.limit {
            let _ = write!(out, " LIMIT {limit}");
        }
        if self.offset > 0 {
            let _ = write!(out, " OFFSET {}", self.offset);
        }
        out
    }

    fn conditions(&self, now: OffsetDateTime, within: Option<&Within<'_>>) -> Vec<String> {
        let mut all = Vec::new();
        if let Some(within) = within {
            all.push(inside(within));
        }
        all.extend(self.conditions.iter().map(|condition| {
            let sign = if condition.equals { "=" } else { "!=" };
            compare(condition.tag, sign, &condition.text)
        }));
        // No fact is older than 1970, and a negative number would be a calculation there.
        let edges = [(">=", self.range.from), ("<=", self.range.to)];
        for (sign, moment) in edges {
            if let Some(moment) = moment {
                all.push(format!("time {sign} {}", moment.at(now).max(0)));
            }
        }
        all
    }
}

fn inside(within: &Within<'_>) -> String {
    let tenants = within.iter().filter(|(_, clusters)| !clusters.is_empty());
    let tenants = tenants.map(|(tenant, clusters)| {
        let clusters = clusters.iter();
        let clusters: Vec<_> = clusters.map(|it| compare(Tag::Cluster, "=", it)).collect();
        let tenant = compare(Tag::Tenant, "=", tenant);
        format!("({tenant} AND ({}))", clusters.join(" OR "))
    });
    let tenants: Vec<_> = tenants.collect();
    match tenants.is_empty() {
        // Every point has a cluster.
        true => compare(Tag::Cluster, "=", ""),
        false => format!("({})", tenants.join(" OR ")),
    }
}

fn compare(tag: Tag, sign: &str, text: &str) -> String {
    format!("{}::tag {sign} {}", name(tag.as_str()), quoted(text, '\''))
}

fn name(text: &str) -> String {
    quoted(&written(text), '"')
}

/// Line ends cannot stand in there; other control characters are in no name and no tag.
fn quoted(text: &str, quote: char) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\\' => out.push_str("\\\\"),
            c if c == quote => out.extend(['\\', c]),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out.push(quote);
    out
}

/// A name as it is in an InfluxDB: its line protocol knows no escape for a backslash at the end of a name, and none for a line
/// end, so slashes and spaces stand for them.
#[must_use]
pub fn written(name: &str) -> String {
    let plain = |c: char| match c {
        '\\' => '/',
        c if c.is_control() => ' ',
        c => c,
    };
    name.chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, option, prelude::*, sample::select};

    use super::*;
    use crate::influxql::{Column, Condition, Function, Moment, Range, parse};

    const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;

    fn printed(text: &str, within: Option<&Within<'_>>) -> String {
        parse(text).unwrap().print(NOW, within)
    }

    #[test]
    fn a_query_is_printed_with_all_that_it_says() {
        let text = r#"select LAST("count") AS n, first("a \"b\"") FROM nodes, "a.b" WHERE cluster = 'c-demo' AND tenant != 't-o\'x'
            and time >= '1970-01-01T00:00:01Z' AND time < now() + 5s GROUP BY tenant, cluster ORDER BY time DESC LIMIT 10 OFFSET 5;"#;
        assert_eq!(
            printed(text, None),
            r#"SELECT last("count") AS "n", first("a \"b\"") FROM "nodes", "a.b" WHERE "cluster"::tag = 'c-demo' AND "tenant"::tag != 't-o\'x' AND time >= 1000000000 AND time <= 4999999999 GROUP BY "cluster", "tenant" ORDER BY time DESC LIMIT 10 OFFSET 5"#
        );
        assert_eq!(printed("SELECT * FROM a", None), r#"SELECT * FROM "a""#);
    }

    #[test]
    fn what_may_be_seen_stands_before_what_was_asked_for() {
        let within = vec![("t-a", vec!["c-1", "c-2"]), ("t-b", vec!["c-3"])];
        assert_eq!(
            printed("SELECT x FROM a WHERE cluster = 'c-9'", Some(&within)),
            r#"SELECT "x" FROM "a" WHERE (("tenant"::tag = 't-a' AND ("cluster"::tag = 'c-1' OR "cluster"::tag = 'c-2')) OR ("tenant"::tag = 't-b' AND ("cluster"::tag = 'c-3'))) AND "cluster"::tag = 'c-9'"#
        );
        for nothing in [vec![], vec![("t-a", vec![])]] {
            assert_eq!(
                printed("SELECT x FROM a", Some(&nothing)),
                r#"SELECT "x" FROM "a" WHERE "cluster"::tag = ''"#
            );
        }
    }

    #[test]
    fn names_are_as_they_were_written() {
        assert_eq!(written("a\\b\nc\u{7}"), "a/b c ");
        assert_eq!(
            printed("SELECT \"a\\\\\" FROM \"b\\nc\"", None),
            r#"SELECT "a/" FROM "b c""#
        );
    }

    fn names() -> impl Strategy<Value = String> {
        "[a-zA-Z0-9_ .,='\"äß-]{1,12}"
    }

    fn columns() -> impl Strategy<Value = Vec<Column>> {
        let titled = |selected, name| Column { selected, name };
        let field = (names(), option::of(names()))
            .prop_map(move |(field, name)| titled(Selected::Field(field), name));
        let of = (select(Function::ALL.to_vec()), names(), option::of(names()))
            .prop_map(move |(function, field, name)| titled(Selected::Of(function, field), name));
        prop_oneof![
            Just(vec![Column {
                selected: Selected::All,
                name: None
            }]),
            vec(field, 1..4),
            vec(of, 1..4),
        ]
    }

    fn conditions() -> impl Strategy<Value = Vec<Condition>> {
        let one = (
            select(Tag::ALL.to_vec()),
            any::<bool>(),
            "[a-z'\"\\\\\n ä-]{0,12}",
        )
            .prop_map(|(tag, equals, text)| Condition { tag, equals, text });
        vec(one, 0..4)
    }

    proptest! {
        #[test]
        fn what_is_printed_is_understood_as_the_same(
            select in columns(),
            from in vec(names(), 1..4),
            conditions in conditions(),
            times in (option::of(0..i64::MAX), option::of(0..i64::MAX)),
            mut group_by in vec(select(Tag::ALL.to_vec()), 0..3),
            descending in any::<bool>(),
            limit in option::of(0_usize..1000),
            offset in 0_usize..1000,
        ) {
            group_by.sort_unstable();
            group_by.dedup();
            let query = Query {
                select,
                from,
                conditions,
                range: Range { from: times.0.map(Moment::At), to: times.1.map(Moment::At) },
                group_by,
                order: if descending { Order::Descending } else { Order::Ascending },
                limit,
                offset,
            };
            let text = query.print(NOW, None).replace("::tag", "");
            prop_assert_eq!(parse(&text), Ok(query), "{}", text);
        }
    }
}

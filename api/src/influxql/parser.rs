//! Recursive-descent parser with one function per clause.

use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use super::{
    Column, Condition, Function, Moment, Order, Query, QueryError, Range, Selected, Tag,
    lexer::{Placed, Word, words},
};

/// Limit of columns, of measurements and of conditions in a query.
const MAX_LIST_ENTRIES: usize = 64;

pub(super) fn parse(text: &str) -> Result<Query, QueryError> {
    let mut parser = Parser {
        words: words(text)?,
        next: 0,
    };
    let query = parser.query()?;
    parser.sign(";");
    match parser.peek() {
        Some(Word::End) | None => Ok(query),
        Some(_) => Err(parser.expected("nothing more is understood here")),
    }
}

struct Parser {
    words: Vec<Placed>,
    next: usize,
}

impl Parser {
    fn query(&mut self) -> Result<Query, QueryError> {
        self.keyword("select", "the one statement is SELECT")?;
        let select = self.list(Self::column)?;
        check_columns(&select).map_err(|expected| self.expected(expected))?;
        self.keyword("from", "FROM, or a comma and another field")?;
        let from = self.list(Self::measurement)?;
        let (conditions, range) = match self.is_keyword("where") {
            true => self.conditions()?,
            false => Default::default(),
        };
        let group_by = match self.is_keyword("group") {
            true => {
                self.keyword("by", "BY behind GROUP")?;
                self.grouping()?
            }
            false => Vec::new(),
        };
        let order = match self.is_keyword("order") {
            true => {
                self.keyword("by", "BY behind ORDER")?;
                self.order()?
            }
            false => Order::default(),
        };
        let limit = match self.is_keyword("limit") {
            true => Some(self.count()?),
            false => None,
        };
        let offset = match self.is_keyword("offset") {
            true => self.count()?,
            false => 0,
        };
        Ok(Query {
            select,
            from,
            conditions,
            range,
            group_by,
            order,
            limit,
            offset,
        })
    }

    fn list<T>(
        &mut self,
        mut one: impl FnMut(&mut Self) -> Result<T, QueryError>,
    ) -> Result<Vec<T>, QueryError> {
        let mut list = vec![one(self)?];
        while self.sign(",") {
            if list.len() >= MAX_LIST_ENTRIES {
                return Err(self.expected("64 of them at the most"));
            }
            list.push(one(self)?);
        }
        Ok(list)
    }

    fn column(&mut self) -> Result<Column, QueryError> {
        let selected = match self.peek().cloned() {
            Some(Word::Sign("*")) => {
                self.next += 1;
                Selected::All
            }
            Some(Word::Name(name)) if self.is_call() => {
                let function = Function::named(&name)
                    .ok_or_else(|| self.expected("FIRST, LAST or COUNT of a field"))?;
                self.next += 2;
                let field = self.name("a field")?;
                self.expect_sign(")", "a closing bracket behind one field")?;
                Selected::Of(function, field)
            }
            _ => Selected::Field(self.name("a field, *, or FIRST, LAST, COUNT of a field")?),
        };
        let name = match self.is_keyword("as") {
            true => Some(self.name("a name behind AS")?),
            false => None,
        };
        Ok(Column { selected, name })
    }

    fn measurement(&mut self) -> Result<String, QueryError> {
        self.name("a measurement, which is the name of a fact")
    }

    fn conditions(&mut self) -> Result<(Vec<Condition>, Range), QueryError> {
        let (mut conditions, mut range) = (Vec::new(), Range::default());
        loop {
            if conditions.len() >= MAX_LIST_ENTRIES {
                return Err(self.expected("64 conditions at the most"));
            }
            let before = self.next;
            let name = self.name("time or a tag: cluster, tenant, source")?;
            if name == "time" {
                self.time(&mut range)?;
            } else {
                let Some(tag) = Tag::named(&name) else {
                    self.next = before;
                    return Err(self.expected("time or a tag: cluster, tenant, source"));
                };
                conditions.push(self.condition(tag)?);
            }
            if !self.is_keyword("and") {
                return Ok((conditions, range));
            }
        }
    }

    fn condition(&mut self, tag: Tag) -> Result<Condition, QueryError> {
        let equals = match self.peek() {
            Some(Word::Sign("=")) => true,
            Some(Word::Sign("!=" | "<>")) => false,
            _ => return Err(self.expected("= or != and a text behind a tag")),
        };
        self.next += 1;
        let Some(Word::Text(text)) = self.peek().cloned() else {
            return Err(self.expected("a text in single quotes"));
        };
        self.next += 1;
        Ok(Condition { tag, equals, text })
    }

    /// The narrower one counts.
    fn time(&mut self, range: &mut Range) -> Result<(), QueryError> {
        let sign = match self.peek() {
            Some(Word::Sign(sign @ ("=" | "<" | "<=" | ">" | ">="))) => *sign,
            _ => return Err(self.expected("=, <, <=, > or >= behind time")),
        };
        self.next += 1;
        let begins = self.next;
        let moment = self.moment()?;
        let by = |nanos: i64| match moment {
            Moment::At(at) => Moment::At(at.saturating_add(nanos)),
            Moment::Now(offset) => Moment::Now(offset.saturating_add(nanos)),
        };
        let (from, to) = match sign {
            ">" => (Some(by(1)), None),
            ">=" => (Some(moment), None),
            "<" => (None, Some(by(-1))),
            "<=" => (None, Some(moment)),
            _ => (Some(moment), Some(moment)),
        };
        if from.is_some() && range.from.is_some() || to.is_some() && range.to.is_some() {
            self.next = begins;
            return Err(self.expected("one beginning and one end of time"));
        }
        range.from = range.from.or(from);
        range.to = range.to.or(to);
        Ok(())
    }

    /// `now()`, `now() - 1h`, `'2026-01-01T00:00:00Z'`, or nanoseconds since 1970; a duration alone is since then, too.
    fn moment(&mut self) -> Result<Moment, QueryError> {
        const EXPECTED: &str = "a time: 'YYYY-MM-DD', RFC 3339, now() - 1h, or nanoseconds";
        let moment = match self.peek().cloned() {
            Some(Word::Text(text)) => date(&text).map(Moment::At),
            Some(Word::Number(nanos) | Word::Duration(nanos)) => {
                i64::try_from(nanos).ok().map(Moment::At)
            }
            Some(Word::Name(name)) if name.eq_ignore_ascii_case("now") && self.is_call() => {
                self.next += 1;
                Some(Moment::Now(0))
            }
            _ => None,
        };
        let mut moment = moment.ok_or_else(|| self.expected(EXPECTED))?;
        self.next += 1;
        if moment == Moment::Now(0) {
            self.expect_sign(")", "a closing bracket")?;
            let sign = match self.peek() {
                Some(Word::Sign("-")) => -1,
                Some(Word::Sign("+")) => 1,
                _ => return Ok(moment),
            };
            self.next += 1;
            let Some(Word::Duration(nanos)) = self.peek() else {
                return Err(self.expected("a time like 30m"));
            };
            let nanos = i64::try_from(*nanos).map_err(|_| self.expected("a shorter time"))?;
            moment = Moment::Now(sign * nanos);
            self.next += 1;
        }
        Ok(moment)
    }

    fn grouping(&mut self) -> Result<Vec<Tag>, QueryError> {
        if self.sign("*") {
            return Ok(Tag::ALL.to_vec());
        }
        let mut tags = self.list(|parser| {
            let before = parser.next;
            let name = parser.name("a tag")?;
            Tag::named(&name).ok_or_else(|| {
                parser.next = before;
                parser.expected("a tag: cluster, tenant, source")
            })
        })?;
        tags.sort_unstable();
        tags.dedup();
        Ok(tags)
    }

    fn order(&mut self) -> Result<Order, QueryError> {
        self.keyword("time", "time is the one order")?;
        if self.is_keyword("desc") {
            return Ok(Order::Descending);
        }
        self.is_keyword("asc");
        Ok(Order::Ascending)
    }

    fn count(&mut self) -> Result<usize, QueryError> {
        let Some(Word::Number(number)) = self.peek() else {
            return Err(self.expected("a number"));
        };
        let number = usize::try_from(*number).map_err(|_| self.expected("a smaller number"))?;
        self.next += 1;
        Ok(number)
    }

    fn name(&mut self, expected: &'static str) -> Result<String, QueryError> {
        let name = match self.peek().cloned() {
            Some(Word::Quoted(name)) if !name.is_empty() => name,
            Some(Word::Name(name)) if !is_reserved(&name) => name,
            _ => return Err(self.expected(expected)),
        };
        self.next += 1;
        Ok(name)
    }

    /// Whether a bracket opens behind the next word.
    fn is_call(&self) -> bool {
        let behind = self.words.get(self.next + 1);
        behind.is_some_and(|behind| behind.word == Word::Sign("("))
    }

    fn is_keyword(&mut self, keyword: &str) -> bool {
        let is_it =
            matches!(self.peek(), Some(Word::Name(name)) if name.eq_ignore_ascii_case(keyword));
        self.next += usize::from(is_it);
        is_it
    }

    fn keyword(&mut self, keyword: &str, expected: &'static str) -> Result<(), QueryError> {
        match self.is_keyword(keyword) {
            true => Ok(()),
            false => Err(self.expected(expected)),
        }
    }

    fn sign(&mut self, sign: &'static str) -> bool {
        let is_it = self.peek() == Some(&Word::Sign(sign));
        self.next += usize::from(is_it);
        is_it
    }

    fn expect_sign(
        &mut self,
        sign: &'static str,
        expected: &'static str,
    ) -> Result<(), QueryError> {
        match self.sign(sign) {
            true => Ok(()),
            false => Err(self.expected(expected)),
        }
    }

    fn peek(&self) -> Option<&Word> {
        self.words.get(self.next).map(|placed| &placed.word)
    }

    fn expected(&self, expected: &'static str) -> QueryError {
        match self.words.get(self.next).or(self.words.last()) {
            Some(placed) => placed.error(expected),
            None => QueryError {
                at: 1,
                word: String::new(),
                expected,
            },
        }
    }
}

/// Words that cannot be names unless they are quoted, as in InfluxQL.
fn is_reserved(name: &str) -> bool {
    let reserved = [
        "select", "from", "where", "group", "by", "order", "limit", "offset", "and", "or", "as",
        "into", "fill", "slimit", "soffset", "tz", "asc", "desc", "not", "in",
    ];
    let mut reserved = reserved.into_iter();
    reserved.any(|word| word.eq_ignore_ascii_case(name))
}

/// Functions make one point of many, fields do not: both at once would not fit into one row.
fn check_columns(columns: &[Column]) -> Result<(), &'static str> {
    let of_function = |column: &&Column| matches!(column.selected, Selected::Of(..));
    let functions = columns.iter().filter(of_function).count();
    if functions != 0 && functions != columns.len() {
        return Err("functions and plain fields do not go together");
    }
    let all = columns
        .iter()
        .any(|column| column.selected == Selected::All);
    if all && (columns.len() > 1 || columns.iter().any(|column| column.name.is_some())) {
        return Err("* stands alone");
    }
    Ok(())
}

/// In nanoseconds since 1970: `2026-01-31`, `2026-01-31 10:00:00[.5]`, or RFC 3339; UTC where nothing else is said.
fn date(text: &str) -> Option<i64> {
    let whole = match text.len() {
        10 => format!("{text}T00:00:00Z"),
        _ if text.contains('T') => text.to_owned(),
        _ => format!("{}Z", text.replacen(' ', "T", 1)),
    };
    let parsed = OffsetDateTime::parse(&whole, &Rfc3339).ok()?;
    i64::try_from(parsed.unix_timestamp_nanos()).ok()
}

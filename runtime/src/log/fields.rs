//! Fields of a text log line, in the uncoloured format of `tracing_subscriber`: `message key=value key="text"`.
//!
//! A hub writes such a line per request, with a dozen fields. General formatting of each was a seventh of its work.

use std::fmt::{self, Debug};

use tracing::field::{Field, Visit};
use tracing_subscriber::{
    field::RecordFields,
    fmt::{FormatFields, format::Writer},
};

use super::digits::Digits;
use crate::plain_text::is_printable;

pub(super) struct Fields;

impl<'writer> FormatFields<'writer> for Fields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut visitor = Visitor {
            writer,
            first: true,
            outcome: Ok(()),
        };
        fields.record(&mut visitor);
        visitor.outcome
    }
}

struct Visitor<'writer> {
    writer: Writer<'writer>,
    first: bool,
    outcome: fmt::Result,
}

impl Visitor<'_> {
    /// Writes the key of a field; the message has none.
    fn key(&mut self, field: &Field) -> fmt::Result {
        if !std::mem::take(&mut self.first) {
            self.writer.write_char(' ')?;
        }
        match field.name() {
            "message" => Ok(()),
            name => {
                self.writer
                    .write_str(name.strip_prefix("r#").unwrap_or(name))?;
                self.writer.write_char('=')
            }
        }
    }

    fn put(&mut self, field: &Field, value: impl FnOnce(&mut Writer<'_>) -> fmt::Result) {
        // Source location in a dependency, of records from the crate `log`.
        if field.name().starts_with("log.") {
            return;
        }
        if self.outcome.is_ok() {
            self.outcome = self.key(field).and_then(|()| value(&mut self.writer));
        }
    }
}

impl Visit for Visitor<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        let message = field.name() == "message";
        self.put(field, |to| {
            if message {
                to.write_str(value)
            } else if is_printable(value) {
                to.write_char('"')?;
                to.write_str(value)?;
                to.write_char('"')
            } else {
                write!(to, "{value:?}")
            }
        });
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, |to| to.write_str(Digits::of(value).text()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field, |to| write!(to, "{value:?}"));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.put(field, |to| {
            write!(to, "{value}")?;
            let mut source = value.source();
            if source.is_some() {
                write!(to, " {}.sources=[", field.name())?;
                let mut first = true;
                while let Some(cause) = source {
                    let comma = if std::mem::take(&mut first) { "" } else { ", " };
                    write!(to, "{comma}{cause}")?;
                    source = cause.source();
                }
                to.write_char(']')?;
            }
            Ok(())
        });
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    use tracing::{info, subscriber::with_default};
    use tracing_subscriber::{fmt::layer, layer::SubscriberExt, registry};

    use super::*;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Page {
        fn write(&mut self, part: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(part);
            Ok(part.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[derive(Debug)]
    struct Outside(io::Error);

    impl fmt::Display for Outside {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("outside")
        }
    }

    impl std::error::Error for Outside {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }

    fn say() {
        let (status, nothing) = (Some(200_u16), None::<u64>);
        let error = Outside(io::Error::other("inside"));
        info!(
            target: "audit",
            request = %"00ff",
            caller = Some("ann"),
            path = ?"/a\n",
            status,
            nothing,
            millis = 7_u64,
            back = -7,
            yes = true,
            share = 0.5,
            odd = "a\"b\\c\u{1b}d\u{e9}",
            r#type = "x",
            log.file = "/registry/dependency/src/lib.rs",
            log.line = 7,
            error = &error as &dyn std::error::Error,
            "request {}",
            1
        );
        info!(empty = "", "");
    }

    #[test]
    fn line_equals_that_of_the_library() {
        let (ours, theirs) = (Page::default(), Page::default());
        let plain = |page: &Page| {
            let page = page.clone();
            layer()
                .with_writer(move || page.clone())
                .with_ansi(false)
                .without_time()
        };
        let ours_too = plain(&ours).fmt_fields(Fields);
        with_default(registry().with(plain(&theirs)), say);
        with_default(registry().with(ours_too), say);
        let text = |page: Page| String::from_utf8(page.0.lock().unwrap().clone()).unwrap();
        let (ours, theirs) = (text(ours), text(theirs));
        assert!(theirs.contains("caller=\"ann\""), "{theirs}");
        assert_eq!(ours, theirs);
    }
}

//! Commands for several resources: all of them are tried, and the failures are returned together.

use std::ops::ControlFlow;

use fairlead_api::Failure;
use fairlead_client::HubError;

use crate::output;

#[derive(Default)]
pub(crate) struct Outcome {
    done: usize,
    failed: Vec<(String, HubError)>,
}

impl Outcome {
    /// Prints a success or records a failure. Breaks if the remaining resources would fail for the same reason.
    pub(crate) fn add(
        &mut self,
        verb: &str,
        id: &str,
        done: Result<(), HubError>,
    ) -> Result<ControlFlow<()>, Failure> {
        let Err(error) = done else {
            self.done += 1;
            let (first, rest) = verb.split_at_checked(1).unwrap_or((verb, ""));
            output::print(&format!("{}{rest} {id}.\n", first.to_uppercase()))?;
            return Ok(ControlFlow::Continue(()));
        };
        let is_final = matches!(error, HubError::Unreachable(_) | HubError::NotAllowed(_));
        self.failed.push((id.to_owned(), error));
        Ok(match is_final {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
    }

    /// True after at least one success.
    pub(crate) const fn any(&self) -> bool {
        self.done > 0
    }

    /// Ends the command.
    ///
    /// # Errors
    /// The only failure, or one with all causes and with code and next step of the first one.
    pub(crate) fn end(mut self, verb: &str, count: usize) -> Result<(), Failure> {
        if count == 1 {
            return self
                .failed
                .pop()
                .map_or(Ok(()), |(_, error)| Err(error.into()));
        }
        let causes: Vec<_> = self
            .failed
            .iter()
            .map(|(id, it)| format!("{id}: {}", it.failure().cause))
            .collect();
        let Some((_, first)) = self.failed.into_iter().next() else {
            return Ok(());
        };
        let missing = count - self.done;
        Err(Failure {
            cause: format!(
                "{missing} of {count} were not {verb}: {}",
                causes.join("; ")
            ),
            ..first.into()
        })
    }
}

#[cfg(test)]
mod tests {
    use fairlead_api::Code;

    use super::*;

    #[test]
    fn failures_are_returned_together_and_the_first_names_the_code() {
        let mut outcome = Outcome::default();
        let protected = || Err(Failure::new(Code::Protected).into());
        assert!(
            outcome
                .add("deleted", "c-a", protected())
                .unwrap()
                .is_continue()
        );
        assert!(outcome.add("deleted", "c-b", Ok(())).unwrap().is_continue());
        let away = Err(Failure::new(Code::HubUnreachable).into());
        assert!(outcome.add("deleted", "c-c", away).unwrap().is_break());
        assert!(outcome.any());
        let failure = outcome.end("deleted", 4).unwrap_err();
        assert_eq!(failure.code, Code::Protected);
        assert!(
            failure.cause.starts_with("3 of 4 were not deleted: c-a: "),
            "{failure}"
        );
        assert!(failure.cause.contains("c-c: "), "{failure}");
        let mut one = Outcome::default();
        assert!(
            one.add("deleted", "c-a", protected())
                .unwrap()
                .is_continue()
        );
        assert_eq!(one.end("deleted", 1), Err(Failure::new(Code::Protected)));
    }
}

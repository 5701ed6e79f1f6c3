//! Tests of codes.

use super::*;

#[test]
fn numbers_are_unique_and_rise() {
    assert!(
        Code::ALL
            .windows(2)
            .all(|pair| pair[0].number() < pair[1].number())
    );
}

#[test]
fn a_code_reads_back_from_what_it_prints() {
    for &code in Code::ALL {
        assert_eq!(code.to_string().parse(), Ok(code));
    }
    assert_eq!("fl-1402".parse(), Ok(Code::Lost));
    assert_eq!("FL-9999".parse::<Code>(), Err(UnknownCode));
}

#[test]
fn a_failure_has_the_next_step_of_its_code_unless_it_has_its_own() {
    let failure = Failure::new(Code::Lost);
    assert_eq!(failure.next_step(), Code::Lost.next_step());
    let failure = failure.next("Start the agent.");
    assert_eq!(failure.next_step(), "Start the agent.");
    let text = serde_json::to_string(&failure).unwrap();
    assert_eq!(serde_json::from_str::<Failure>(&text).unwrap(), failure);
}

#[test]
fn every_next_step_is_a_sentence() {
    for code in Code::ALL {
        assert!(
            code.next_step().ends_with('.') && code.next_step().len() > 8,
            "{code}"
        );
        assert!(
            !code.title().ends_with('.'),
            "{code}: the title is put into sentences"
        );
    }
}

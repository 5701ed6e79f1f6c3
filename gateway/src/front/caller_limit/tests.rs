//! Tests of `caller_limit`.

use fairlead_api::Code;

use super::*;

fn caller(name: &str, tenant: Option<&str>) -> Caller {
    Caller {
        tenant: tenant.map(|tenant| tenant.parse().unwrap()),
        ..crate::front::samples::caller(name)
    }
}

#[test]
fn callers_have_separate_limits() {
    let caller_limit = CallerLimit::new(2);
    let (ann, bob) = (caller("ann", None), caller("bob", None));
    let held = [
        caller_limit.acquire(&ann).unwrap(),
        caller_limit.acquire(&ann).unwrap(),
    ];
    for _ in 0..3 {
        let refused = caller_limit.acquire(&ann).unwrap_err();
        assert_eq!(refused.code(), Code::TooManyRequests);
        assert!(
            refused.to_string().ends_with("ann has 2 of them"),
            "{refused}"
        );
    }
    caller_limit.acquire(&bob).unwrap();
    drop(held);
    caller_limit.acquire(&ann).unwrap();
}

#[test]
fn callers_of_one_tenant_leave_slots_for_other_tenants() {
    let caller_limit = CallerLimit::new(1000);
    let mut held = Vec::new();
    for n in 0..40 {
        let caller = caller(&format!("t-big:{n}"), Some("t-big"));
        held.extend((0..1000).map_while(|_| caller_limit.acquire(&caller).ok()));
    }
    assert_eq!(held.len(), MAX_REQUESTS / 2);
    let refused = caller_limit.acquire(&caller("t-big:x", Some("t-big")));
    let refused = refused.unwrap_err().to_string();
    assert!(refused.starts_with("tenant t-big has 16384"), "{refused}");
    caller_limit
        .acquire(&caller("t-small:a", Some("t-small")))
        .unwrap();
    caller_limit.acquire(&caller("root", None)).unwrap();
}

#[test]
fn idle_callers_are_forgotten() {
    let caller_limit = CallerLimit::new(1);
    let busy = caller("busy", None);
    let held = caller_limit.acquire(&busy).unwrap();
    for n in 0..2 * MAX_IDLE_CALLERS {
        drop(caller_limit.acquire(&caller(&n.to_string(), None)).unwrap());
    }
    assert!(caller_limit.running.lock().unwrap().len() <= MAX_IDLE_CALLERS + 1);
    assert!(caller_limit.acquire(&busy).is_err(), "its count was kept");
    drop(held);
}

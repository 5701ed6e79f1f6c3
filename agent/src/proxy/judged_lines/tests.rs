//! The judgement of lines compared with the rules over a map.

use std::{
    io,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use bytes::Bytes;
use fairlead_exchange::{
    MAX_LINES, Outgoing, ReceivedRequest, Reply, Transport, Upgraded, body, serve_lines,
};
use http::{HeaderMap, Response};
use proptest::prelude::*;
use tokio::io::{empty, join, sink};

use super::*;
use crate::proxy::headers::TowardsApi;

/// Names and values of fields, in their order.
type Pairs = Vec<(String, Vec<u8>)>;

/// One piece, and a clean end.
struct Piece(Option<Bytes>);

impl Transport for Piece {
    fn poll_read(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        Poll::Ready(Ok(self.0.take()))
    }

    fn poll_write(&mut self, _cx: &mut Context<'_>, out: &mut Outgoing) -> Poll<io::Result<()>> {
        out.advance(out.len());
        Poll::Ready(Ok(()))
    }

    fn poll_finish(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn into_upgraded(self, read: Bytes) -> Upgraded {
        Upgraded::new(join(empty(), sink()), read)
    }
}

/// A request with these fields, if it is read in lines.
fn lines(fields: &str) -> Option<RequestLines> {
    let head = format!("GET /api HTTP/1.1\r\nhost: c\r\n{fields}\r\n");
    let found = Arc::new(Mutex::new(None));
    let find = Arc::clone(&found);
    let handler = move |received| {
        if let ReceivedRequest::Lines(lines, _) = received {
            *find.lock().unwrap() = Some(lines);
        }
        async { (Reply::Map(Response::new(body::empty())), ()) }
    };
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build().unwrap();
    let served = runtime.block_on(serve_lines(Piece(Some(head.into())), handler));
    served.ok()?;
    found.lock().unwrap().take()
}

fn rules() -> ImpersonationRules {
    ImpersonationRules::new(
        &"t-acme".parse().unwrap(),
        &["ops".to_owned()],
        &["ann@acme.test".to_owned()],
    )
}

/// Fields that the judgement lets pass, and whether an admin sent the request.
fn judged(request: &RequestLines) -> Option<(Pairs, bool)> {
    let lines = request.lines();
    let judged = JudgedLines::of(lines, &rules())?;
    let renamed = judged.renamed();
    let relayed = judged.relayed(request, &renamed);
    let mut pairs: Pairs = Vec::new();
    for (name, value) in relayed.added {
        pairs.push(((*name).to_owned(), value.as_bytes().to_owned()));
    }
    for (name, set) in relayed.renamed {
        let values = lines.chosen(*set).map(|line| line.value.to_owned());
        pairs.extend(values.map(|value| ((*name).to_owned(), value)));
    }
    for line in lines.chosen(relayed.kept) {
        pairs.push((line.name.to_ascii_lowercase(), line.value.to_owned()));
    }
    Some((pairs, judged.is_admin()))
}

/// Fields that pass by the rules over a map; `None` for a refused request.
fn permitted(headers: &HeaderMap) -> Option<(Pairs, bool)> {
    let permitted = rules().admit(headers).ok()?;
    let is_admin = permitted.is_admin();
    let towards = TowardsApi::of(headers, headers::upgrade(headers), permitted);
    let kept = headers.iter();
    let kept = kept.filter(|(name, _)| towards.keeps(name) && *name != http::header::HOST);
    let pairs = towards.added().into_iter().chain(kept);
    let pairs = pairs.map(|(name, value)| (name.to_string(), value.as_bytes().to_owned()));
    Some((pairs.collect(), is_admin))
}

/// True for a request that takes the way of a map, although it may pass.
fn is_unusual(headers: &HeaderMap) -> bool {
    let passing = permitted(headers).map(|(pairs, _)| pairs);
    let mut names: Vec<String> = passing
        .unwrap_or_default()
        .into_iter()
        .map(|it| it.0)
        .collect();
    names.retain(|name| name != "impersonate-group");
    let count = names.len();
    names.sort();
    names.dedup();
    headers.contains_key(AS_HEADER) || names.len() < count
}

/// Both ways over the same fields; returns true if the judgement admits them.
fn compared(fields: &str) -> bool {
    let Some(request) = lines(fields) else {
        return false;
    };
    let judged = judged(&request);
    let id = headers::request_id_of_lines(request.lines()).to_owned();
    let headers = request.into_request(body::empty()).into_parts().0.headers;
    let permitted = permitted(&headers);
    assert_eq!(id, headers::request_id(&headers), "{fields:?}");
    match &judged {
        Some(_) => assert_eq!(judged, permitted, "{fields:?}"),
        None => assert!(permitted.is_none() || is_unusual(&headers), "{fields:?}"),
    }
    judged.is_some()
}

/// The fields of an answer that pass to the hub, both ways.
fn compared_towards_hub(fields: &str) {
    let Some(answer) = lines(fields) else {
        return;
    };
    let mut passing = HeaderMap::new();
    for line in answer.lines().chosen(headers::kept_for_hub(answer.lines())) {
        let name: http::HeaderName = line.name.parse().unwrap();
        passing.append(name, http::HeaderValue::from_bytes(line.value).unwrap());
    }
    let mut headers = answer.into_request(body::empty()).into_parts().0.headers;
    headers::towards_hub(&mut headers, None, None);
    assert_eq!(passing, headers, "{fields:?}");
}

fn field() -> impl Strategy<Value = String> {
    let users = [
        "fairlead:ann",
        "fairlead:bob",
        "fairlead:",
        "system:admin",
        "Fairlead:ann",
        "fairlead:a b",
    ];
    let groups = [
        "fairlead:admin",
        "fairlead:viewer",
        "fairlead:tenant:t-acme:admin",
        "fairlead:tenant:t-else:admin",
        "fairlead:namespace:shop:viewer",
        "fairlead:namespace:kube-system:viewer",
        "ops",
        "system:masters",
        "\u{e4}",
    ];
    let names = [
        "accept",
        "Accept",
        "content-type",
        "audit-id",
        "Audit-Id",
        "authorization",
        "Cookie",
        "impersonate-user",
        "Impersonate-Extra-x",
        "x-remote-user",
        "X-Remote-Group",
        "x-forwarded-for",
        "fairlead-code",
        "proxy-authorization",
        "Proxy-x",
        "keep-alive",
        "http2-settings",
        "expect",
        "user-agent",
        "traceparent",
        "upgrade-insecure-requests",
        "hosts",
        "t",
        "impersonate",
        "cookies",
    ];
    let named = |name: &'static str| move |value: &str| format!("{name}: {value}\r\n");
    prop_oneof![
        2 => proptest::sample::select(users.to_vec()).prop_map(named("fairlead-user")),
        6 => proptest::sample::select(groups.to_vec()).prop_map(named("Fairlead-Group")),
        1 => Just("fairlead-as: ann@acme.test\r\n".to_owned()),
        1 => proptest::sample::select(vec!["trailers", "gzip, Trailers", "trailers\u{e4}", "gzip", "\u{e4}, trailers"])
            .prop_map(named("TE")),
        12 => (proptest::sample::select(names.to_vec()), "[ -~]{0,8}")
            .prop_map(|(name, value)| format!("{name}: {value}\r\n")),
        1 => "[a-zA-Z-]{1,20}: [ -~]{0,4}\r\n",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn lines_are_judged_as_a_map(
        user in proptest::option::weighted(0.9, Just("fairlead-user: fairlead:ann\r\n")),
        fields in proptest::collection::vec(field(), 0..7),
    ) {
        compared(&format!("{}{}", fields.concat(), user.unwrap_or_default()));
    }

    #[test]
    fn lines_of_an_answer_pass_as_in_a_map(fields in proptest::collection::vec(field(), 0..7)) {
        compared_towards_hub(&fields.concat());
    }
}

#[test]
fn request_of_kubectl_is_judged_in_lines() {
    let fields = "user-agent: kubectl\r\naccept: application/json;as=Table\r\naccept-encoding: gzip\r\n\
        kubectl-command: kubectl get\r\ncontent-length: 0\r\naudit-id: r-1\r\n\
        fairlead-user: fairlead:ann\r\nfairlead-group: fairlead:viewer\r\n\
        fairlead-group: fairlead:namespace:shop:viewer\r\nfairlead-group: fairlead:viewer\r\n";
    assert!(compared(fields));
    let admin = lines("fairlead-group: fairlead:admin\r\nfairlead-user: fairlead:ann\r\n").unwrap();
    assert!(judged(&admin).unwrap().1);
}

#[test]
fn request_with_many_groups_is_judged_in_lines() {
    let groups = |count: usize| {
        let groups = "fairlead-group: ops\r\n".repeat(count);
        format!("fairlead-user: fairlead:ann\r\n{groups}")
    };
    // Host and user are fields, too.
    assert!(compared(&groups(MAX_LINES - 2)));
    assert!(!compared(&groups(MAX_LINES - 1)));
}

#[test]
fn refused_request_takes_the_way_of_a_map() {
    for fields in [
        "",
        "fairlead-user: fairlead:ann\r\nfairlead-user: fairlead:ann\r\n",
        "fairlead-user: system:admin\r\n",
        "fairlead-user: fairlead:ann\r\nfairlead-group: system:masters\r\n",
        "fairlead-as: ann@acme.test\r\n",
        "fairlead-as: ann@acme.test\r\nfairlead-user: fairlead:ann\r\n",
        "fairlead-user: fairlead:ann\r\naccept: a\r\naccept: b\r\n",
    ] {
        assert!(!compared(fields), "{fields}");
    }
}

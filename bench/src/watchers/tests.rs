use super::*;
use hyper::service::service_fn;

use crate::serve::{Ready, Server, ready_file};

#[tokio::test]
async fn every_watch_has_every_event() {
    let dir = tempfile::TempDir::new().unwrap();
    let answers = upstream::UpstreamAnswers::default();
    let server = Server::start("upstream", dir.path()).unwrap();
    let answered = service_fn(move |request| upstream::answer(answers.clone(), request));
    let serving = tokio::spawn(server.serve(answered.clone(), answered));
    let text = std::fs::read(ready_file("upstream", dir.path())).unwrap();
    let ready: Ready = serde_json::from_slice(&text).unwrap();
    let token_file = dir.path().join("token");
    std::fs::write(&token_file, "t").unwrap();
    let way = Way {
        url: ready.plain_url,
        ca_file: None,
        token_file,
        server_name: None,
        via: None,
    };
    let (watch, event) = (way.target("/watch").unwrap(), way.target("/event").unwrap());
    let heard = measure(watch, &event, 40, 3, &[]).await.unwrap();
    assert_eq!(heard.lines, 120);
    assert!(
        heard.half_us > 0.0 && heard.half_us <= heard.all_us,
        "{heard:?}"
    );
    serving.abort();
}

use serde_json::json;

use super::*;
use crate::{
    adopt::{SAVED, tests::flux_of_others},
    testing::{SECRET, SOURCE},
};

#[tokio::test]
async fn saved_objects_return_without_the_agent() {
    let fake = flux_of_others().await;
    assert!(AdoptedTool::find(fake.upstream()).await.unwrap().is_empty());
    let objects = Objects::new(fake.upstream());
    let layout = Layout::of(GitOpsTool::Flux).unwrap();
    adopt::take_over(&objects, &layout, None).await.unwrap();
    fake.world(|world| {
        assert!(!world.objects.contains_key(SECRET));
        let source = world.objects.get_mut(SOURCE).unwrap();
        source["spec"]["url"] = json!("ssh://git@git.example/a/b.git");
    });

    let found = AdoptedTool::find(fake.upstream()).await.unwrap();
    let [tool] = found.as_slice() else {
        panic!("{} tools", found.len());
    };
    assert_eq!(
        tool.to_string(),
        "flux: its catalog from before the adoption"
    );
    tool.restore().await.unwrap();
    fake.world(|world| {
        assert_eq!(world.objects[SECRET]["data"]["identity"], "b3duZXI=");
        let url = "ssh://git@old.example/a.git";
        assert_eq!(world.objects[SOURCE]["spec"]["url"], url);
        assert!(!world.objects.contains_key(&layout.secret_path(SAVED)));
    });
}

//! A locked file, a damaged one, and one of a newer version.

use std::{os::unix::fs::PermissionsExt, time::Duration};

use fairlead_api::{Code, Failure, resources::ClusterState};
use fairlead_store::{
    Place, Revision, Span,
    model::{Fact, FactSource},
};
use serde_json::json;
use sqlx::{Connection, SqliteConnection, migrate::Migrator, sqlite::SqliteConnectOptions};

use crate::*;

pub(crate) async fn other_program(home: &Home) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(home.path());
    SqliteConnection::connect_with(&options).await.unwrap()
}

#[tokio::test]
async fn files_are_readable_by_their_owner_only() {
    let home = home().await;
    std::fs::write(home.path(), "").unwrap();
    let open_to_all = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(home.path(), open_to_all).unwrap();
    let store = open(&home).await;
    put_tenant(&store, tenant("t-acme")).await.unwrap();
    for suffix in ["", "-wal", "-shm"] {
        let mut name = home.path().into_os_string();
        name.push(suffix);
        let mode = std::fs::metadata(&name).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", name.display());
    }
}

#[tokio::test]
async fn a_locked_file_is_reported_and_unchanged() {
    let home = home().await;
    let place = Place::File(home.path());
    let store = Store::open_with(&place, Clock::system(), Duration::from_millis(50)).await;
    let store = store.unwrap();
    let mut other = other_program(&home).await;
    sqlx::query("BEGIN EXCLUSIVE")
        .execute(&mut other)
        .await
        .unwrap();
    let refused = put_tenant(&store, tenant("t-acme")).await;
    let failure: Failure = refused.unwrap_err().into();
    assert_eq!(failure.code, Code::Store);
    assert_eq!(
        failure.cause,
        Code::Store.title(),
        "messages of SQLite are not for callers"
    );
    let failed = put_cluster(&store, cluster("c-demo", "t-default")).await;
    assert!(matches!(failed, Err(StoreError::Failed(_))));
    assert!(store.view().cluster(&cluster_id("c-demo")).is_none());
    sqlx::query("ROLLBACK").execute(&mut other).await.unwrap();
    put_tenant(&store, tenant("t-acme")).await.unwrap();
}

#[tokio::test]
async fn damaged_files_and_newer_versions_are_not_modified() {
    let home = home().await;
    let path = home.path();
    std::fs::write(
        &path,
        "this is no database, whatever its name says. ".repeat(100),
    )
    .unwrap();
    let failure = Store::open(&Place::File(path), Clock::system())
        .await
        .map(drop)
        .unwrap_err();
    assert_eq!(failure.code, Code::DataDir);
    assert!(failure.cause.contains("is damaged"), "{failure}");
    assert!(failure.next_step().contains("restore"), "{failure:?}");

    let (store, home) = store().await;
    store.close().await;
    let mut other = other_program(&home).await;
    sqlx::query("UPDATE program SET version = '9.1.0'")
        .execute(&mut other)
        .await
        .unwrap();
    sqlx::query("INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) VALUES (9999, 'newer', 1, x'00', 0)")
        .execute(&mut other)
        .await
        .unwrap();
    other.close().await.unwrap();
    let path = home.path();
    let failure = Store::open(&Place::File(path), Clock::system())
        .await
        .map(drop)
        .unwrap_err();
    assert_eq!(failure.code, Code::DataDir);
    assert!(failure.cause.contains("9999"), "{failure}");
    assert!(
        failure
            .cause
            .contains("written by the newer Fairlead 9.1.0"),
        "{failure}"
    );
    assert!(failure.next_step().contains("that wrote it"), "{failure:?}");
}

const OLD: [(&str, &str); 2] = [
    (
        "0001_start.sql",
        include_str!("../../../store/migrations/sqlite/0001_start.sql"),
    ),
    (
        "0002_uids.sql",
        include_str!("../../../store/migrations/sqlite/0002_uids.sql"),
    ),
];

/// Later migrations, up to the last version.
const LATER: [(&str, &str); 3] = [
    (
        "0003_documents.sql",
        include_str!("../../../store/migrations/sqlite/0003_documents.sql"),
    ),
    (
        "0004_keys.sql",
        include_str!("../../../store/migrations/sqlite/0004_keys.sql"),
    ),
    (
        "0005_hubs.sql",
        include_str!("../../../store/migrations/sqlite/0005_hubs.sql"),
    ),
];

/// A file as created by a hub with these migrations.
async fn file_of(home: &Home, known: &[(&str, &str)]) -> SqliteConnection {
    let scripts = tempfile::tempdir().unwrap();
    for (name, script) in known {
        std::fs::write(scripts.path().join(name), script).unwrap();
    }
    let options = SqliteConnectOptions::new().filename(home.path());
    let options = options.create_if_missing(true).foreign_keys(true);
    let mut file = SqliteConnection::connect_with(&options).await.unwrap();
    let migrations = Migrator::new(scripts.path()).await.unwrap();
    migrations.run(&mut file).await.unwrap();
    file
}

/// A file left by a hub of the first version.
async fn file_of_the_first_version(home: &Home) {
    let mut file = file_of(home, &OLD).await;
    sqlx::raw_sql(include_str!("before.sql"))
        .execute(&mut file)
        .await
        .unwrap();
    file.close().await.unwrap();
}

/// Data written by the previous version stays valid.
#[tokio::test]
async fn a_file_of_the_previous_version_is_migrated() {
    let home = home().await;
    file_of_the_first_version(&home).await;
    let store = open(&home).await;
    let view = store.view();
    assert_eq!(view.revision().0, 1);
    let acme = view.tenant(&tenant_id("t-acme")).unwrap();
    assert_eq!(
        (acme.version, &acme.value),
        (
            3,
            &Tenant {
                display_name: Some("Äcme \"Ltd\"".to_owned()),
                ..Tenant::new(tenant_id("t-acme"), NOW)
            }
        )
    );
    assert_eq!(view.tenants().count(), 2);

    let full = kept(&store, "c-full");
    assert_eq!(full.version, 7);
    let binding = &full.value.binding;
    assert_eq!(
        binding.registration,
        Registration::from_bytes([0x41, 2, 3, 4, 5, 6, 7, 0xff])
    );
    assert_eq!(binding.uid.as_ref().unwrap().as_str(), "uid-1");
    let clone = binding.clone.as_ref().unwrap();
    assert_eq!(
        (clone.seen, clone.from.to_string()),
        (NOW, "192.0.2.7".to_owned())
    );
    assert_eq!(clone.uid.as_str(), "uid-2");
    let spent_by = Some("ab".repeat(32));
    let bootstrap = Bootstrap {
        spent_by,
        ..Bootstrap::new(4, SOON, None)
    };
    assert_eq!(binding.bootstrap, bootstrap);
    let status = store
        .observed(&cluster_id("c-full"))
        .unwrap()
        .status
        .clone();
    assert_eq!((status.state, status.since), (ClusterState::Lost, SOON));
    assert_eq!(status.last_error.unwrap().code, Code::Lost);
    let catalog = store.catalog(&cluster_id("c-full")).await.unwrap();
    assert_eq!(
        (catalog.version, catalog.objects),
        (5, vec![serde_json::json!({"kind": "ConfigMap"})])
    );

    let bare = kept(&store, "c-bare");
    assert_eq!(
        (&bare.value.binding.uid, &bare.value.binding.clone),
        (&None, &None)
    );
    assert_eq!(bare.value.binding.bootstrap, Bootstrap::new(1, SOON, None));
    let status = store
        .observed(&cluster_id("c-bare"))
        .unwrap()
        .status
        .clone();
    assert_eq!(
        (status.state, status.last_error),
        (ClusterState::Never, None)
    );

    let token = &view.token("k-1").unwrap().value;
    assert_eq!((token.hash, token.role), ([0xcd; 32], Role::Admin));
    assert_eq!(
        (&token.tenant, token.expires),
        (&Some(tenant_id("t-acme")), SOON)
    );
    assert_eq!(view.token("k-2").unwrap().value.tenant, None);
    assert!(!spend(&store, claim("c-bare", 1, 1), NOW).await.unwrap());
}

#[tokio::test]
async fn a_check_finds_manipulations() {
    let (store, home) = store().await;
    put_tenant(&store, tenant("t-acme")).await.unwrap();
    put_cluster(&store, cluster("c-demo", "t-acme"))
        .await
        .unwrap();
    put_catalog(&store, "c-demo", vec![]).await.unwrap();
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
    let mut other = other_program(&home).await;
    for (damage, found) in [
        (
            "DELETE FROM changes WHERE revision = 3",
            "2 changes, expected 3",
        ),
        (
            "DELETE FROM documents WHERE id = 't-acme'",
            "c-demo belongs to t-acme",
        ),
        (
            "DELETE FROM documents WHERE id = 'c-demo'",
            "a catalog of c-demo",
        ),
        (
            "UPDATE documents SET revision = 9 WHERE id = 't-default'",
            "the last log line does not match tenant t-acme",
        ),
    ] {
        sqlx::query(damage).execute(&mut other).await.unwrap();
        let said = store.check().await.unwrap();
        assert!(
            said.iter().any(|line| line.contains(found)),
            "{found}: {said:?}"
        );
    }
    sqlx::query("UPDATE documents SET body = '{}'")
        .execute(&mut other)
        .await
        .unwrap();
    let unreadable = store.check().await;
    assert!(matches!(unreadable, Err(StoreError::Damaged(_))));
}

/// Exceeds the rows per statement for every kind of row, and then deletes all of it.
#[tokio::test]
async fn a_change_may_be_of_any_size() {
    let (store, home) = store().await;
    let ids: Vec<String> = (0..250).map(|n| format!("c-{n:03}")).collect();
    let all = ids.clone();
    let made = change(&store, move |draft| {
        for id in &all {
            let mut cluster = cluster(id, "t-default");
            let fact = |name: usize| Fact {
                value: json!({ "number": name, "text": "x".repeat(200) }),
                source: FactSource::Agent,
                received: 1,
                observed: 1,
            };
            cluster.dynamic_facts = (0..3).map(|n| (format!("fact-{n}"), fact(n))).collect();
            draft.put_cluster(cluster)?;
            draft.put_catalog(&cluster_id(id), vec![json!({ "kind": id })])?;
        }
        Ok(())
    });
    made.await.unwrap();
    let before = store.view();
    store.close().await;
    let store = open(&home).await;
    assert!(store.view().clusters().eq(before.clusters()));
    for id in &ids {
        let cluster = cluster_id(id);
        let catalog = store.catalog(&cluster).await.unwrap();
        assert_eq!(catalog.objects, [json!({ "kind": id })]);
        let history = store.fact_versions(&cluster, None, Span::default(), 10);
        assert_eq!(history.await.unwrap().len(), 3);
        store.facts_reported(&cluster, FactSource::Agent, 7);
    }
    let lines = store.changes(before.revision(), 1000).await.unwrap();
    assert!(lines.changes.is_empty());
    let lines = store.changes(Revision(1), 1000).await.unwrap();
    assert_eq!(lines.changes.len(), 500);
    store.close().await;
    let store = open(&home).await;
    for id in &ids {
        let observed = store.observed(&cluster_id(id)).unwrap();
        assert_eq!(observed.reported[&FactSource::Agent], 7);
    }
    let gone = change(&store, move |draft| {
        let mut ids = ids.iter();
        ids.try_for_each(|id| draft.delete_cluster(&cluster_id(id)))
    });
    gone.await.unwrap();
    store.close().await;
    let mut file = other_program(&home).await;
    for table in ["documents WHERE kind = 'cluster'", "catalogs", "observed"] {
        let count = sqlx::AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
        let left: i64 = sqlx::query_scalar(count)
            .fetch_one(&mut file)
            .await
            .unwrap();
        assert_eq!(left, 0, "{table}");
    }
}

/// Not supposed to happen, but nothing is overwritten or lost.
#[tokio::test]
async fn writes_of_another_program_are_applied_first() {
    let (store, home) = store().await;
    put_tenant(&store, tenant("t-acme")).await.unwrap();
    let other = open(&home).await;
    put_tenant(&other, tenant("t-other")).await.unwrap();
    put_tenant(&store, tenant("t-late")).await.unwrap();
    put_tenant(&store, tenant("t-later")).await.unwrap();
    let view = store.view();
    assert_eq!(view.revision(), Revision(5));
    for id in ["t-acme", "t-other", "t-late", "t-later"] {
        assert!(view.tenant(&tenant_id(id)).is_some(), "{id}");
    }
}

#[tokio::test]
async fn log_lines_without_audience_stay_readable() {
    let home = home().await;
    let mut file = file_of(&home, &[&OLD[..], &LATER].concat()).await;
    sqlx::raw_sql(history::LINE_WITHOUT_AUDIENCE)
        .execute(&mut file)
        .await
        .unwrap();
    file.close().await.unwrap();
    history::reads_past_a_line_without_audience(&open(&home).await).await;
}

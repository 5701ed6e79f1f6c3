//! Each migration, applied to data of the previous version.

use fairlead_store::Span;
use sqlx::{Connection, PgConnection, migrate::Migrator};

use crate::*;

macro_rules! script {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!("../../../store/migrations/postgres/", $name)),
        )
    };
}

const SCRIPTS: [(&str, &str); 6] = [
    script!("0001_start.sql"),
    script!("0002_keys.sql"),
    script!("0003_hubs.sql"),
    script!("0004_audience.sql"),
    script!("0005_actor_token.sql"),
    script!("0006_program.sql"),
];

/// Writes of hubs, besides a cluster's document.
const WRITTEN: &str = "
    UPDATE revision SET revision = 2;
    INSERT INTO commits (revision, nonce) VALUES (2, 4711);
    INSERT INTO changes (revision, part, at, actor, kind, id, tenant, operation, after)
    VALUES (2, 0, 1795262400250, 'ann', 'cluster', 'c-one', 't-default', 'created', '{}');
    INSERT INTO fact_history (cluster, name, dynamic, at, revision, source, observed, value)
    VALUES ('c-one', 'racks', TRUE, 1795262400250, 2, 'agent', 1795262400250, '12');
    INSERT INTO catalogs (cluster, version, revision, objects) VALUES ('c-one', 1, 2, '[]');
    INSERT INTO observed (cluster, body) VALUES ('c-one',
        '{\"status\":{\"state\":\"Lost\",\"since\":\"2026-11-21T12:00:00Z\",\"lastError\":null},\"reported\":{\"agent\":4711}}');
";
/// All data of hubs, except the part changed by a migration.
const LASTING: &str = "
    SELECT r::TEXT FROM revision r UNION ALL SELECT c::TEXT FROM commits c UNION ALL SELECT d::TEXT FROM documents d
    UNION ALL SELECT c::TEXT FROM changes c UNION ALL SELECT f::TEXT FROM fact_history f
    UNION ALL SELECT c::TEXT FROM catalogs c UNION ALL SELECT o.cluster || o.body FROM observed o ORDER BY 1";

async fn bring_to(home: &Home, scripts: &std::path::Path, version: usize) {
    let (name, script) = SCRIPTS[version - 1];
    std::fs::write(scripts.join(name), script).unwrap();
    let mut database = PgConnection::connect(home.url()).await.unwrap();
    let migrations = Migrator::new(scripts).await.unwrap();
    migrations.run(&mut database).await.unwrap();
}

async fn rows(home: &Home, query: &'static str) -> Vec<String> {
    let mut database = PgConnection::connect(home.url()).await.unwrap();
    let rows = sqlx::query_scalar(query).fetch_all(&mut database).await;
    rows.unwrap()
}

#[tokio::test]
async fn each_migration_keeps_data_of_the_previous_version() {
    let home = home().await;
    let scripts = tempfile::tempdir().unwrap();
    bring_to(&home, scripts.path(), 1).await;
    home.execute(WRITTEN).await;
    let body = serde_json::to_string(&cluster("c-one", "t-default")).unwrap();
    let mut database = PgConnection::connect(home.url()).await.unwrap();
    sqlx::query("INSERT INTO documents (kind, id, version, revision, body) VALUES ('cluster', 'c-one', 7, 2, $1)")
        .bind(body)
        .execute(&mut database)
        .await
        .unwrap();
    let before = rows(&home, LASTING).await;
    assert_eq!(before.len(), 8);

    bring_to(&home, scripts.path(), 2).await;
    assert_eq!(rows(&home, LASTING).await, before, "to 2");
    assert_eq!(home.count("SELECT count(*) FROM keys").await, 0);

    home.execute("INSERT INTO keys (one, sealed) VALUES (1, 'sealed')")
        .await;
    bring_to(&home, scripts.path(), 3).await;
    assert_eq!(rows(&home, LASTING).await, before, "to 3");
    assert_eq!(rows(&home, "SELECT sealed FROM keys").await, ["sealed"]);
    let seen = rows(&home, "SELECT hub || '/' || seq FROM observed").await;
    assert_eq!(seen, ["/0"]);
    let ended = "SELECT count(*) FROM hubs WHERE id = '' AND ended";
    assert_eq!(home.count(ended).await, 1);

    let lines = "SELECT (to_jsonb(c) - 'audience' - 'actor_token')::TEXT FROM changes c";
    let before = rows(&home, lines).await;
    bring_to(&home, scripts.path(), 4).await;
    assert_eq!(rows(&home, lines).await, before, "to 4");
    let nobodys = "SELECT count(*) FROM changes WHERE audience IS NULL";
    assert_eq!(home.count(nobodys).await, 1);
    bring_to(&home, scripts.path(), 5).await;
    assert_eq!(rows(&home, lines).await, before, "to 5");
    let nobodys = "SELECT count(*) FROM changes WHERE actor_token IS NULL";
    assert_eq!(home.count(nobodys).await, 1);

    let store = open(&home).await;
    assert_eq!(store.view().revision().0, 2);
    assert_eq!(kept(&store, "c-one").version, 7);
    let one = cluster_id("c-one");
    let history = store.fact_versions(&one, None, Span::default(), 10).await;
    assert_eq!(history.unwrap().len(), 1);
}

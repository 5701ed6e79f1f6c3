//! Each migration of the file, applied to data of the previous version.

use fairlead_store::Span;
use sqlx::{Connection, SqliteConnection, migrate::Migrator, sqlite::SqliteConnectOptions};

use crate::*;

macro_rules! script {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!("../../../store/migrations/sqlite/", $name)),
        )
    };
}

const SCRIPTS: [(&str, &str); 8] = [
    script!("0001_start.sql"),
    script!("0002_uids.sql"),
    script!("0003_documents.sql"),
    script!("0004_keys.sql"),
    script!("0005_hubs.sql"),
    script!("0006_audience.sql"),
    script!("0007_actor_token.sql"),
    script!("0008_program.sql"),
];

/// The first version: a cluster without a bound Kubernetes cluster.
const FIRST: &str = "
    INSERT INTO tenants (id, display_name, created, version) VALUES ('t-acme', 'Acme', 1795262400250, 3);
    INSERT INTO clusters (id, tenant, display_name, created, version, registration, state, since)
    VALUES ('c-one', 't-acme', 'One', 1795262400250, 7, x'4102030405060708', 'Lost', 1795264200000);
    INSERT INTO bootstraps (cluster, generation, expires) VALUES ('c-one', 4, 1795264200000);
    INSERT INTO catalogs (cluster, version, objects) VALUES ('c-one', 5, '[{\"kind\":\"ConfigMap\"}]');
    INSERT INTO tokens (id, hash, name, role, created, expires)
    VALUES ('k-1', x'cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd', 'ann', 'admin', 1795262400250, 1795264200000);
";
/// Data written besides documents.
const WRITTEN: &str = "
    UPDATE revision SET revision = 2;
    INSERT INTO changes (revision, part, at, actor, kind, id, tenant, operation, after)
    VALUES (2, 0, 1795262400250, 'ann', 'cluster', 'c-one', 't-acme', 'updated', '{\"displayName\":\"One\"}');
    INSERT INTO fact_history (cluster, name, dynamic, at, revision, source, observed, value)
    VALUES ('c-one', 'racks', 1, 1795262400250, 2, 'agent', 1795262400250, '12');
    UPDATE observed SET body = json_set(body, '$.reported', json('{\"agent\":4711}'));
";
/// All tables, except the part changed by a migration.
const LASTING: [&str; 5] = [
    "revision",
    "documents",
    "changes",
    "fact_history",
    "catalogs",
];

struct File {
    home: Home,
    scripts: tempfile::TempDir,
}

impl File {
    async fn new() -> Self {
        let scripts = tempfile::tempdir().unwrap();
        File {
            home: home().await,
            scripts,
        }
    }

    async fn open(&self) -> SqliteConnection {
        let options = SqliteConnectOptions::new().filename(self.home.path());
        let options = options.create_if_missing(true).foreign_keys(true);
        SqliteConnection::connect_with(&options).await.unwrap()
    }

    /// Applies the migration to this version, from 1 on.
    async fn bring_to(&self, version: usize) {
        let (name, script) = SCRIPTS[version - 1];
        std::fs::write(self.scripts.path().join(name), script).unwrap();
        let migrations = Migrator::new(self.scripts.path()).await.unwrap();
        migrations.run(&mut self.open().await).await.unwrap();
    }

    async fn write(&self, statements: &'static str) {
        let mut file = self.open().await;
        sqlx::raw_sql(statements).execute(&mut file).await.unwrap();
    }

    async fn text(&self, query: String) -> Vec<String> {
        let query = sqlx::AssertSqlSafe(query);
        let mut file = self.open().await;
        let rows = sqlx::query_scalar(query).fetch_all(&mut file).await;
        rows.unwrap()
    }

    /// Each row of a table as text, with these columns.
    async fn rows(&self, table: &str, columns: &[String]) -> Vec<String> {
        let quoted = columns.iter().map(|column| format!("quote(\"{column}\")"));
        let quoted = quoted.collect::<Vec<_>>().join(" || ',' || ");
        let query = format!("SELECT {quoted} FROM {table} ORDER BY 1");
        self.text(query).await
    }

    async fn columns(&self, table: &str) -> Vec<String> {
        let query = format!("SELECT name FROM pragma_table_info('{table}') ORDER BY cid");
        self.text(query).await
    }

    async fn all(&self, tables: &[&str]) -> Vec<Vec<String>> {
        let mut all = Vec::new();
        for table in tables {
            all.push(self.rows(table, &self.columns(table).await).await);
        }
        all
    }
}

#[tokio::test]
async fn each_migration_keeps_data_of_the_previous_version() {
    let file = File::new().await;
    file.bring_to(1).await;
    file.write(FIRST).await;

    let tables = ["tenants", "bootstraps", "catalogs", "tokens"];
    let columns = file.columns("clusters").await;
    let before = (
        file.rows("clusters", &columns).await,
        file.all(&tables).await,
    );
    file.bring_to(2).await;
    let after = (
        file.rows("clusters", &columns).await,
        file.all(&tables).await,
    );
    assert_eq!(after, before, "to 2");
    assert_eq!(file.rows("clusters", &["uid".to_owned()]).await, ["NULL"]);

    let catalog = ["cluster", "version", "objects"].map(str::to_owned);
    let before = file.rows("catalogs", &catalog).await;
    file.bring_to(3).await;
    assert_eq!(file.rows("catalogs", &catalog).await, before, "to 3");
    let documents = "SELECT kind || ' ' || id || ' ' || version FROM documents ORDER BY 1";
    assert_eq!(
        file.text(documents.to_owned()).await,
        [
            "cluster c-one 7",
            "tenant t-acme 3",
            "tenant t-default 1",
            "token k-1 1"
        ]
    );

    file.write(WRITTEN).await;
    let before = file.all(&LASTING).await;
    let seen = file.all(&["observed"]).await;
    file.bring_to(4).await;
    assert_eq!(file.all(&LASTING).await, before, "to 4");
    assert_eq!(file.all(&["observed"]).await, seen, "to 4");
    assert!(file.all(&["keys"]).await.concat().is_empty());

    file.write("INSERT INTO keys (one, sealed) VALUES (1, 'sealed');")
        .await;
    file.bring_to(5).await;
    assert_eq!(file.all(&LASTING).await, before, "to 5");
    let columns = ["cluster", "body"].map(str::to_owned);
    assert_eq!(file.rows("observed", &columns).await, seen.concat(), "to 5");
    assert_eq!(file.rows("observed", &["hub".to_owned()]).await, ["''"]);
    let sealed = file.rows("keys", &["sealed".to_owned()]).await;
    assert_eq!(sealed, ["'sealed'"]);

    let others = LASTING.into_iter().filter(|table| *table != "changes");
    let others: Vec<&str> = others.chain(["observed", "keys"]).collect();
    let columns = file.columns("changes").await;
    let before = (
        file.rows("changes", &columns).await,
        file.all(&others).await,
    );
    file.bring_to(6).await;
    let after = (
        file.rows("changes", &columns).await,
        file.all(&others).await,
    );
    assert_eq!(after, before, "to 6");
    let audience = file.rows("changes", &["audience".to_owned()]).await;
    assert_eq!(audience, ["NULL"]);
    file.bring_to(7).await;
    let lines = file.rows("changes", &columns).await;
    assert_eq!(lines, before.0, "to 7");
    let token = file.rows("changes", &["actor_token".to_owned()]).await;
    assert_eq!(token, ["NULL"]);

    let store = open(&file.home).await;
    assert_eq!(store.view().revision().0, 2);
    assert_eq!(kept(&store, "c-one").version, 7);
    let one = cluster_id("c-one");
    let history = store.fact_versions(&one, None, Span::default(), 10).await;
    assert_eq!(history.unwrap().len(), 1);
    assert_eq!(store.observed(&one).unwrap().reported.len(), 1);
    assert!(store.view().token("k-1").is_some());
}

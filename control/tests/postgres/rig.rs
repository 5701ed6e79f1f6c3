//! A database per test, in one server for all tests.

use std::sync::{
    Mutex, OnceLock,
    atomic::{AtomicU32, Ordering},
};

use fairlead_store::{Clock, Place, Store};
use fairlead_testkit::postgres::PostgresServer;
use sqlx::{Connection, PgConnection};

static SERVER: OnceLock<Mutex<PostgresServer>> = OnceLock::new();
static DATABASES: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Home(String);

impl Home {
    pub(crate) fn place(&self) -> Place {
        self.0.parse().unwrap()
    }

    pub(crate) fn url(&self) -> &str {
        &self.0
    }

    /// Executes SQL that no hub would.
    pub(crate) async fn execute(&self, statements: &'static str) {
        let mut database = PgConnection::connect(&self.0).await.unwrap();
        let done = sqlx::raw_sql(statements).execute(&mut database).await;
        done.unwrap();
    }

    pub(crate) async fn count(&self, query: &'static str) -> i64 {
        let mut database = PgConnection::connect(&self.0).await.unwrap();
        let count = sqlx::query_scalar(query).fetch_one(&mut database).await;
        count.unwrap()
    }
}

pub(crate) async fn home() -> Home {
    let server = SERVER.get_or_init(|| Mutex::new(PostgresServer::start().unwrap()));
    let folder = server.lock().unwrap().folder().to_owned();
    home_in(&folder).await
}

pub(crate) async fn home_in(folder: &std::path::Path) -> Home {
    let url = |database: &str| {
        let folder = folder.display();
        format!("postgres:///{database}?host={folder}&user=fairlead")
    };
    let name = format!("test_{}", DATABASES.fetch_add(1, Ordering::SeqCst));
    let mut admin = PgConnection::connect(&url("postgres")).await.unwrap();
    let create = sqlx::AssertSqlSafe(format!("CREATE DATABASE {name} TEMPLATE template0"));
    sqlx::query(create).execute(&mut admin).await.unwrap();
    Home(url(&name))
}

pub(crate) async fn open_at(home: &Home, clock: Clock) -> Store {
    Store::open(&home.place(), clock).await.unwrap()
}

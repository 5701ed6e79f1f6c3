//! A database of its own for each test, in one server for all of them.

use std::sync::{
    Mutex, OnceLock,
    atomic::{AtomicU32, Ordering},
};

use fairlead_control::{
    Clock,
    store::{Place, Store},
};
use sqlx::{Connection, PgConnection};

use crate::server::Server;

static SERVER: OnceLock<Mutex<Server>> = OnceLock::new();
static DATABASES: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Home(pub(crate) Place);

impl Home {
    pub(crate) fn place(&self) -> Place {
        self.0.clone()
    }
}

pub(crate) async fn home() -> Home {
    let server = SERVER.get_or_init(|| Mutex::new(Server::start()));
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
    Home(url(&name).parse().unwrap())
}

pub(crate) async fn open_at(home: &Home, clock: Clock) -> Store {
    Store::open(&home.0, clock).await.unwrap()
}

-- The hubs' keys, sealed with one that is not in here; no row where each hub has them in its own folder alone.
CREATE TABLE keys (
    one    INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    sealed TEXT    NOT NULL
);

-- Times are milliseconds since 1970, UTC. `version` rises with every change of its row.

CREATE TABLE tenants (
    id           TEXT    NOT NULL PRIMARY KEY,
    display_name TEXT    NOT NULL,
    created      INTEGER NOT NULL,
    version      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE clusters (
    id           TEXT    NOT NULL PRIMARY KEY,
    tenant       TEXT    NOT NULL REFERENCES tenants (id),
    display_name TEXT    NOT NULL,
    created      INTEGER NOT NULL,
    version      INTEGER NOT NULL,
    -- Tells it from a deleted cluster that had the same id; its certificates carry it.
    registration BLOB    NOT NULL,
    state        TEXT    NOT NULL,
    since        INTEGER NOT NULL,
    error_code   INTEGER,
    error_cause  TEXT
) STRICT, WITHOUT ROWID;

CREATE INDEX clusters_by_tenant ON clusters (tenant);

-- The token itself is not here: it is a keyed hash of cluster, generation and expiry.
CREATE TABLE bootstraps (
    cluster    TEXT    NOT NULL PRIMARY KEY REFERENCES clusters (id) ON DELETE CASCADE,
    generation INTEGER NOT NULL,
    expires    INTEGER NOT NULL,
    -- SHA-256 of the public key that spent it.
    spent_by   BLOB
) STRICT, WITHOUT ROWID;

CREATE TABLE catalogs (
    cluster TEXT    NOT NULL PRIMARY KEY REFERENCES clusters (id) ON DELETE CASCADE,
    version INTEGER NOT NULL,
    objects TEXT    NOT NULL
) STRICT;

CREATE TABLE tokens (
    id      TEXT    NOT NULL PRIMARY KEY,
    -- SHA-256 of the token.
    hash    BLOB    NOT NULL,
    name    TEXT    NOT NULL,
    role    TEXT    NOT NULL,
    tenant  TEXT    REFERENCES tenants (id) ON DELETE CASCADE,
    created INTEGER NOT NULL,
    expires INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX tokens_by_tenant ON tokens (tenant);

INSERT INTO tenants (id, display_name, created, version)
VALUES ('t-default', 'Default', CAST(unixepoch('subsec') * 1000 AS INTEGER), 1);

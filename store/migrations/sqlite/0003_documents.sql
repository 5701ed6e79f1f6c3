-- What is kept becomes documents: the hub has all of it in memory, and looks for nothing in here but by key.
--
-- Times inside of documents are RFC 3339, times in columns milliseconds since 1970, UTC.

-- One row. Changes up to `compacted` are in the log no more.
CREATE TABLE revision (
    one       INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    revision  INTEGER NOT NULL,
    compacted INTEGER NOT NULL
) STRICT;

INSERT INTO revision (one, revision, compacted) VALUES (1, 1, 1);

CREATE TABLE documents (
    kind     TEXT    NOT NULL,
    id       TEXT    NOT NULL,
    version  INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    body     TEXT    NOT NULL,
    PRIMARY KEY (kind, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX documents_by_revision ON documents (revision);

-- Every change: who, when, what before and after, without secrets.
CREATE TABLE changes (
    revision  INTEGER NOT NULL,
    part      INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    actor     TEXT    NOT NULL,
    kind      TEXT    NOT NULL,
    id        TEXT    NOT NULL,
    tenant    TEXT,
    operation TEXT    NOT NULL,
    before    TEXT,
    after     TEXT,
    PRIMARY KEY (revision, part)
) STRICT, WITHOUT ROWID;

CREATE INDEX changes_by_time ON changes (at);
CREATE INDEX changes_by_thing ON changes (kind, id, revision);

-- Every fact as it was from `at` on; without a value it was removed.
CREATE TABLE fact_history (
    cluster  TEXT    NOT NULL,
    name     TEXT    NOT NULL,
    dynamic  INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    source   TEXT    NOT NULL,
    observed INTEGER NOT NULL,
    value    TEXT,
    PRIMARY KEY (cluster, name, dynamic, at, revision)
) STRICT, WITHOUT ROWID;

CREATE INDEX fact_history_by_name ON fact_history (name, at);
CREATE INDEX fact_history_by_time ON fact_history (at);

-- What is seen of clusters, written down now and then.
CREATE TABLE observed (
    cluster TEXT NOT NULL PRIMARY KEY,
    body    TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- `json_patch` leaves out what is NULL.
INSERT INTO documents (kind, id, version, revision, body)
SELECT 'tenant', id, version, 1, json_object(
    'id', id,
    'displayName', display_name,
    'created', strftime('%Y-%m-%dT%H:%M:%fZ', created / 1000.0, 'unixepoch'))
FROM tenants;

INSERT INTO documents (kind, id, version, revision, body)
SELECT 'cluster', id, version, 1, json_patch('{}', json_object(
    'id', id,
    'tenant', tenant,
    'displayName', display_name,
    'created', strftime('%Y-%m-%dT%H:%M:%fZ', created / 1000.0, 'unixepoch'),
    'binding', json_object(
        'registration', lower(hex(registration)),
        'uid', uid,
        'clone', CASE WHEN clone_uid IS NOT NULL AND clone_from IS NOT NULL AND clone_seen IS NOT NULL THEN json_object(
            'seen', strftime('%Y-%m-%dT%H:%M:%fZ', clone_seen / 1000.0, 'unixepoch'),
            'from', clone_from,
            'uid', clone_uid) END,
        'bootstrap', json_object(
            'generation', generation,
            'expires', strftime('%Y-%m-%dT%H:%M:%fZ', expires / 1000.0, 'unixepoch'),
            'spentBy', CASE WHEN spent_by IS NOT NULL THEN lower(hex(spent_by)) END))))
FROM clusters JOIN bootstraps ON cluster = id;

INSERT INTO documents (kind, id, version, revision, body)
SELECT 'token', id, 1, 1, json_patch('{}', json_object(
    'id', id,
    'hash', lower(hex(hash)),
    'name', name,
    'role', role,
    'tenant', tenant,
    'created', strftime('%Y-%m-%dT%H:%M:%fZ', created / 1000.0, 'unixepoch'),
    'expires', strftime('%Y-%m-%dT%H:%M:%fZ', expires / 1000.0, 'unixepoch')))
FROM tokens;

INSERT INTO observed (cluster, body)
SELECT id, json_object('status', json_object(
    'state', state,
    'since', strftime('%Y-%m-%dT%H:%M:%fZ', since / 1000.0, 'unixepoch'),
    'lastError', CASE WHEN error_code IS NOT NULL AND error_cause IS NOT NULL THEN json_object(
        'code', printf('FL-%04d', error_code),
        'cause', error_cause) END))
FROM clusters;

CREATE TABLE catalogs_new (
    cluster  TEXT    NOT NULL PRIMARY KEY,
    version  INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    objects  TEXT    NOT NULL
) STRICT;

INSERT INTO catalogs_new (cluster, version, revision, objects)
SELECT cluster, version, 1, objects FROM catalogs;

DROP TABLE catalogs;
ALTER TABLE catalogs_new RENAME TO catalogs;
DROP TABLE bootstraps;
DROP TABLE tokens;
DROP TABLE clusters;
DROP TABLE tenants;

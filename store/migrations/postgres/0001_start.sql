-- The same tables as SQLite's, text compared byte by byte. Times inside of documents are RFC 3339, times in columns
-- milliseconds since 1970, UTC.

-- One row, which every change locks: several hubs write one after the other. Changes up to `compacted` are in the log no
-- more.
CREATE TABLE revision (
    one       INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    revision  BIGINT  NOT NULL,
    compacted BIGINT  NOT NULL
);

INSERT INTO revision (one, revision, compacted) VALUES (1, 1, 1);

-- Whose the last commits were: whoever lost the answer to theirs asks here.
CREATE TABLE commits (
    revision BIGINT NOT NULL PRIMARY KEY,
    nonce    BIGINT NOT NULL
);

CREATE TABLE documents (
    kind     TEXT COLLATE "C" NOT NULL,
    id       TEXT COLLATE "C" NOT NULL,
    version  BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    body     TEXT   NOT NULL,
    PRIMARY KEY (kind, id)
);

CREATE INDEX documents_by_revision ON documents (revision);

-- Every change: who, when, what before and after, without secrets.
CREATE TABLE changes (
    revision  BIGINT  NOT NULL,
    part      INTEGER NOT NULL,
    at        BIGINT  NOT NULL,
    actor     TEXT    NOT NULL,
    kind      TEXT COLLATE "C" NOT NULL,
    id        TEXT COLLATE "C" NOT NULL,
    tenant    TEXT COLLATE "C",
    operation TEXT    NOT NULL,
    before    TEXT,
    after     TEXT,
    PRIMARY KEY (revision, part)
);

CREATE INDEX changes_by_time ON changes (at);
CREATE INDEX changes_by_thing ON changes (kind, id, revision);

-- Every fact as it was from `at` on; without a value it was removed.
CREATE TABLE fact_history (
    cluster  TEXT COLLATE "C" NOT NULL,
    name     TEXT COLLATE "C" NOT NULL,
    dynamic  BOOLEAN NOT NULL,
    at       BIGINT  NOT NULL,
    revision BIGINT  NOT NULL,
    source   TEXT    NOT NULL,
    observed BIGINT  NOT NULL,
    value    TEXT,
    PRIMARY KEY (cluster, name, dynamic, at, revision)
);

CREATE INDEX fact_history_by_name ON fact_history (name, at);
CREATE INDEX fact_history_by_time ON fact_history (at);

-- What is seen of clusters, written down now and then.
CREATE TABLE observed (
    cluster TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    body    TEXT NOT NULL
);

CREATE TABLE catalogs (
    cluster  TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    version  BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    objects  TEXT   NOT NULL
);

INSERT INTO documents (kind, id, version, revision, body)
VALUES ('tenant', 't-default', 1, 1, json_build_object(
    'id', 't-default',
    'displayName', 'Default',
    'created', to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')) :: TEXT);

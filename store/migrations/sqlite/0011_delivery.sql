-- Contents of delivery, named by digest: artifacts, options of generations, lists of waves. A content is complete once it
-- has a row in `contents`. `at` is its last use, in milliseconds since 1970.
CREATE TABLE contents (
    id    TEXT    NOT NULL PRIMARY KEY,
    bytes INTEGER NOT NULL,
    at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE content_parts (
    id    TEXT    NOT NULL,
    part  INTEGER NOT NULL,
    bytes BLOB    NOT NULL,
    PRIMARY KEY (id, part)
) STRICT;

-- Last reported state of each bundle in each cluster. `seq` rises with each batch.
CREATE TABLE deployments (
    cluster TEXT    NOT NULL,
    bundle  TEXT    NOT NULL,
    seq     INTEGER NOT NULL DEFAULT 0,
    body    TEXT    NOT NULL,
    PRIMARY KEY (cluster, bundle)
) STRICT, WITHOUT ROWID;

CREATE INDEX deployments_by_seq ON deployments (seq);

CREATE TABLE deployments_until (
    one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    seq INTEGER NOT NULL
) STRICT;

INSERT INTO deployments_until (one, seq) VALUES (1, 0);

-- Executions of deployments. `version` rises with each change.
CREATE TABLE runs (
    id      TEXT    NOT NULL PRIMARY KEY,
    cluster TEXT    NOT NULL,
    bundle  TEXT    NOT NULL,
    state   TEXT    NOT NULL,
    version INTEGER NOT NULL,
    body    TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX runs_by_deployment ON runs (cluster, bundle, id);
CREATE INDEX runs_by_bundle ON runs (bundle, id);
CREATE INDEX runs_by_state ON runs (state, id);

-- Logs of runs, in pieces by their offset.
CREATE TABLE run_logs (
    run   TEXT    NOT NULL,
    at    INTEGER NOT NULL,
    bytes BLOB    NOT NULL,
    PRIMARY KEY (run, at)
) STRICT;

-- Releases of generations. `body` has the durable step; `version` rises with each step.
CREATE TABLE rollouts (
    id         TEXT    NOT NULL PRIMARY KEY,
    bundle     TEXT    NOT NULL,
    generation INTEGER NOT NULL,
    state      TEXT    NOT NULL,
    version    INTEGER NOT NULL,
    body       TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX rollouts_by_bundle ON rollouts (bundle, generation);

-- Waves of rollouts: lists of clusters that never change.
CREATE TABLE rollout_waves (
    rollout TEXT NOT NULL PRIMARY KEY,
    body    TEXT NOT NULL
) STRICT;

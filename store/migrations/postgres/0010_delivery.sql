-- Contents of delivery, named by digest: artifacts, options of generations, lists of waves. A content is complete once it
-- has a row in `contents`. `at` is its last use, in milliseconds since 1970.
CREATE TABLE contents (
    id    TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    bytes BIGINT NOT NULL,
    at    BIGINT NOT NULL
);

CREATE TABLE content_parts (
    id    TEXT COLLATE "C" NOT NULL,
    part  BIGINT NOT NULL,
    bytes BYTEA  NOT NULL,
    PRIMARY KEY (id, part)
);

-- Last reported state of each bundle in each cluster. `seq` rises with each batch, in the order in which they are
-- committed.
CREATE TABLE deployments (
    cluster TEXT COLLATE "C" NOT NULL,
    bundle  TEXT COLLATE "C" NOT NULL,
    seq     BIGINT NOT NULL DEFAULT 0,
    body    TEXT   NOT NULL,
    PRIMARY KEY (cluster, bundle)
);

CREATE INDEX deployments_by_seq ON deployments (seq);

CREATE TABLE deployments_until (
    one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    seq BIGINT  NOT NULL
);

INSERT INTO deployments_until (one, seq) VALUES (1, 0);

-- Executions of deployments. `version` rises with each change.
CREATE TABLE runs (
    id      TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    cluster TEXT COLLATE "C" NOT NULL,
    bundle  TEXT COLLATE "C" NOT NULL,
    state   TEXT COLLATE "C" NOT NULL,
    version BIGINT NOT NULL,
    body    TEXT   NOT NULL
);

CREATE INDEX runs_by_deployment ON runs (cluster, bundle, id);
CREATE INDEX runs_by_bundle ON runs (bundle, id);
CREATE INDEX runs_by_state ON runs (state, id);

-- Logs of runs, in pieces by their offset.
CREATE TABLE run_logs (
    run   TEXT COLLATE "C" NOT NULL,
    at    BIGINT NOT NULL,
    bytes BYTEA  NOT NULL,
    PRIMARY KEY (run, at)
);

-- Releases of generations. `body` has the durable step; `version` rises with each step.
CREATE TABLE rollouts (
    id         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    bundle     TEXT COLLATE "C" NOT NULL,
    generation BIGINT NOT NULL,
    state      TEXT COLLATE "C" NOT NULL,
    version    BIGINT NOT NULL,
    body       TEXT   NOT NULL
);

CREATE INDEX rollouts_by_bundle ON rollouts (bundle, generation);

-- Waves of rollouts: lists of clusters that never change.
CREATE TABLE rollout_waves (
    rollout TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    body    TEXT NOT NULL
);

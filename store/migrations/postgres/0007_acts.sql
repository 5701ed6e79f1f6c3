-- Lines of people and of the hub that were trimmed from the change log, kept for the audit by time alone.
CREATE TABLE acts (
    revision    BIGINT  NOT NULL,
    part        INTEGER NOT NULL,
    at          BIGINT  NOT NULL,
    actor       TEXT    NOT NULL,
    kind        TEXT COLLATE "C" NOT NULL,
    id          TEXT COLLATE "C" NOT NULL,
    tenant      TEXT COLLATE "C",
    operation   TEXT    NOT NULL,
    before      TEXT,
    after       TEXT,
    audience    TEXT,
    actor_token TEXT,
    PRIMARY KEY (revision, part)
);

CREATE INDEX acts_by_time ON acts (at);
CREATE INDEX acts_by_thing ON acts (kind, id, revision);

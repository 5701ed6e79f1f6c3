-- Lines of people and of the hub that were trimmed from the change log, kept for the audit by time alone.
CREATE TABLE acts (
    revision    INTEGER NOT NULL,
    part        INTEGER NOT NULL,
    at          INTEGER NOT NULL,
    actor       TEXT    NOT NULL,
    kind        TEXT    NOT NULL,
    id          TEXT    NOT NULL,
    tenant      TEXT,
    operation   TEXT    NOT NULL,
    before      TEXT,
    after       TEXT,
    audience    TEXT,
    actor_token TEXT,
    PRIMARY KEY (revision, part)
) STRICT, WITHOUT ROWID;

CREATE INDEX acts_by_time ON acts (at);
CREATE INDEX acts_by_thing ON acts (kind, id, revision);

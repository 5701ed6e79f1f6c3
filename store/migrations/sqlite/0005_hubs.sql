-- As in PostgreSQL, where several hubs see clusters; in a file it is one, which has no name.
CREATE TABLE observed_new (
    cluster TEXT NOT NULL,
    hub     TEXT NOT NULL,
    body    TEXT NOT NULL,
    PRIMARY KEY (cluster, hub)
) STRICT, WITHOUT ROWID;

INSERT INTO observed_new (cluster, hub, body) SELECT cluster, '', body FROM observed;
DROP TABLE observed;
ALTER TABLE observed_new RENAME TO observed;

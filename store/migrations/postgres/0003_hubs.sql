-- Hubs that work on this database. Each says every two seconds that it lives; `beat` is when it said so last, in
-- milliseconds since 1970 by this server's clock.
CREATE TABLE hubs (
    id    TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    url   TEXT    NOT NULL,
    beat  BIGINT  NOT NULL,
    ended BOOLEAN NOT NULL
);

-- What is seen of clusters, by each hub for itself. `seq` rises with each batch, in the order in which they are committed.
ALTER TABLE observed ADD COLUMN hub TEXT COLLATE "C" NOT NULL DEFAULT '', ADD COLUMN seq BIGINT NOT NULL DEFAULT 0;
ALTER TABLE observed DROP CONSTRAINT observed_pkey, ADD PRIMARY KEY (cluster, hub);
CREATE INDEX observed_by_seq ON observed (seq);

CREATE TABLE observed_until (
    one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    seq BIGINT  NOT NULL
);

INSERT INTO observed_until (one, seq) VALUES (1, 0);

-- What was seen by those of the version before.
INSERT INTO hubs (id, url, beat, ended)
VALUES ('', '', CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT), TRUE);

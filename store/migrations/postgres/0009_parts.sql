-- Lists of all hubs: a hub raises the number of the last call, and each hub answers with its part. Lost after a crash of
-- the server, which ends the calls, too.
CREATE UNLOGGED TABLE part_calls (
    one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    seq BIGINT  NOT NULL
);

CREATE UNLOGGED TABLE parts (
    hub  TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    seq  BIGINT NOT NULL,
    body TEXT   NOT NULL
);

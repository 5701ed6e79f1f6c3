-- Last use of each API token, in milliseconds since 1970. Written about once a minute, and not in the change log.
CREATE TABLE token_uses (
    token TEXT    NOT NULL PRIMARY KEY,
    at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

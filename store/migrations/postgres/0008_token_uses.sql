-- Last use of each API token, in milliseconds since 1970. Written about once a minute, and not in the change log.
CREATE TABLE token_uses (
    token TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    at    BIGINT NOT NULL
);

-- Version of the program that opened this store last. A program that finds a newer store names it.
CREATE TABLE program (
    one     INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    version TEXT    NOT NULL
) STRICT;

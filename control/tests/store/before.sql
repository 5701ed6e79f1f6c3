-- What a hub of the version before had in its file. 1795262400250 is 2026-11-21 12:00:00.25 UTC, 1795264200000 is 12:30.
INSERT INTO tenants (id, display_name, created, version) VALUES ('t-acme', 'Äcme "Ltd"', 1795262400250, 3);

INSERT INTO clusters (id, tenant, display_name, created, version, registration, state, since, error_code, error_cause,
                      uid, clone_uid, clone_from, clone_seen)
VALUES ('c-full', 't-acme', 'Full', 1795262400250, 7, x'41020304050607ff', 'Lost', 1795264200000, 1402,
        'the hub was restarted', 'uid-1', 'uid-2', '192.0.2.7', 1795262400250),
       ('c-bare', 't-default', 'c-bare', 1795262400250, 1, x'4102030405060708', 'Never', 1795262400250, NULL, NULL,
        NULL, NULL, NULL, NULL);

INSERT INTO bootstraps (cluster, generation, expires, spent_by)
VALUES ('c-full', 4, 1795264200000, x'abababababababababababababababababababababababababababababababab'),
       ('c-bare', 1, 1795264200000, NULL);

INSERT INTO catalogs (cluster, version, objects) VALUES ('c-full', 5, '[{"kind":"ConfigMap"}]');

INSERT INTO tokens (id, hash, name, role, tenant, created, expires)
VALUES ('k-1', x'cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd', 'alice', 'admin', 't-acme',
        1795262400250, 1795264200000),
       ('k-2', x'cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd', 'bob', 'viewer', NULL,
        1795262400250, 1795264200000);

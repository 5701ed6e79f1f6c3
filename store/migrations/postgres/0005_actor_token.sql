-- Id of the API token with which a change was made. NULL: by an agent, by the hub, by a caller that an issuer vouches for, or by
-- a hub of the version before.
ALTER TABLE changes ADD COLUMN actor_token TEXT COLLATE "C";

-- Who could see the thing before and after a change: tenants from below, each between blanks. NULL: it was written by a hub
-- of the version before.
ALTER TABLE changes ADD COLUMN audience TEXT COLLATE "C";

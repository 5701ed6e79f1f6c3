-- Address of a hub for agents. Empty: its `url`, unless another live hub has the same one. '-': none.
ALTER TABLE hubs ADD COLUMN agents TEXT NOT NULL DEFAULT '';

-- Address of a hub for the others: they forward requests there. Empty: that hub takes no forwarded requests.
ALTER TABLE hubs ADD COLUMN address TEXT NOT NULL DEFAULT '';

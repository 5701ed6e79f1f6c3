-- Which Kubernetes cluster it is: the UID of its namespace kube-system, as its first agent has told it.
ALTER TABLE clusters ADD COLUMN uid TEXT;

-- The last agent that had its identity in another one.
ALTER TABLE clusters ADD COLUMN clone_uid TEXT;
ALTER TABLE clusters ADD COLUMN clone_from TEXT;
ALTER TABLE clusters ADD COLUMN clone_seen INTEGER;

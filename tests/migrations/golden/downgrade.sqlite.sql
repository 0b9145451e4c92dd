BEGIN;

-- Running downgrade 0004 -> 0003

DROP INDEX ix_checkpoints_rests_on;

ALTER TABLE checkpoints DROP COLUMN rests_on;

UPDATE memalchemy_version SET version_num='0003' WHERE memalchemy_version.version_num = '0004';

-- Running downgrade 0003 -> 0002

DROP TRIGGER embeddings_resize;

DROP TRIGGER embeddings_delete;

DROP TRIGGER store_items_delete;

DROP TRIGGER store_items_search_insert;

DROP TRIGGER store_items_search_update;

DROP TRIGGER store_items_search_delete;

DROP TABLE store_items_search;

ALTER TABLE store_items DROP COLUMN field_terms;

ALTER TABLE store_items DROP COLUMN lifetime;

UPDATE memalchemy_version SET version_num='0002' WHERE memalchemy_version.version_num = '0003';

-- Running downgrade 0002 -> 0001

DROP TRIGGER threads_delete;

DROP TRIGGER deltas_search_update;

CREATE TRIGGER deltas_search_update_old AFTER UPDATE OF search_text ON deltas WHEN old.search_text IS NOT NULL BEGIN INSERT INTO deltas_search(deltas_search, rowid, search_text) SELECT 'delete', old.rowid, old.search_text WHERE old.search_text IS NOT NULL; END;

CREATE TRIGGER deltas_search_update_new AFTER UPDATE OF search_text ON deltas WHEN new.search_text IS NOT NULL BEGIN INSERT INTO deltas_search(rowid, search_text) SELECT new.rowid, new.search_text WHERE new.search_text IS NOT NULL; END;

DROP TRIGGER checkpoints_meta_update;

CREATE TRIGGER checkpoints_meta_update_old AFTER UPDATE OF meta ON checkpoints WHEN old.meta <> '{}' BEGIN INSERT INTO checkpoints_meta(checkpoints_meta, rowid, terms) SELECT 'delete', old.rowid, (
  SELECT group_concat(lower(hex(key || char(31) || CASE
      WHEN type = 'text' THEN 't' || substr(atom, 1, 120)
      WHEN type IN ('integer', 'real') THEN 'n' || printf('%.12g', atom)
      ELSE type END)), ' ')
  FROM json_each(old.meta)) WHERE old.meta <> '{}'; END;

CREATE TRIGGER checkpoints_meta_update_new AFTER UPDATE OF meta ON checkpoints WHEN new.meta <> '{}' BEGIN INSERT INTO checkpoints_meta(rowid, terms) SELECT new.rowid, (
  SELECT group_concat(lower(hex(key || char(31) || CASE
      WHEN type = 'text' THEN 't' || substr(atom, 1, 120)
      WHEN type IN ('integer', 'real') THEN 'n' || printf('%.12g', atom)
      ELSE type END)), ' ')
  FROM json_each(new.meta)) WHERE new.meta <> '{}'; END;

UPDATE memalchemy_version SET version_num='0001' WHERE memalchemy_version.version_num = '0002';

-- Running downgrade 0001 -> 

DROP TABLE deltas_search;

DROP TABLE checkpoints_meta;

DROP TABLE embeddings;

DROP TABLE store_items;

DROP TABLE deltas;

DROP TABLE checkpoints;

DROP TABLE threads;

DELETE FROM memalchemy_version WHERE memalchemy_version.version_num = '0001';

COMMIT;


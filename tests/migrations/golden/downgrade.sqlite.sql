BEGIN;

-- Running downgrade 0004 -> 0003

DROP INDEX ix_checkpoints_rests_on;

ALTER TABLE checkpoints DROP COLUMN rests_on;

DROP TRIGGER threads_delete;

CREATE TABLE embeddings_kept AS SELECT rowid AS place, * FROM embeddings;

DROP TABLE embeddings;

CREATE TABLE checkpoints_new (
    tenant VARCHAR(64) NOT NULL, 
    thread_id VARCHAR(510) NOT NULL, 
    namespace VARCHAR(512) NOT NULL, 
    checkpoint_id VARCHAR(255) NOT NULL, 
    parent_id VARCHAR(255), 
    seq BIGINT NOT NULL, 
    run_id VARCHAR(255), 
    meta JSON NOT NULL, 
    raw_size BIGINT NOT NULL, 
    stored_size BIGINT NOT NULL, 
    occurred_at DATETIME NOT NULL, 
    created_at DATETIME NOT NULL, 
    CONSTRAINT pk_checkpoints PRIMARY KEY (tenant, thread_id, namespace, checkpoint_id), 
    CONSTRAINT uq_checkpoints_tenant_thread_id_namespace_seq UNIQUE (tenant, thread_id, namespace, seq), 
    CONSTRAINT fk_checkpoints_threads FOREIGN KEY(tenant, thread_id, namespace) REFERENCES threads (tenant, thread_id, namespace) ON DELETE CASCADE
);

INSERT INTO checkpoints_new (rowid, "tenant", "thread_id", "namespace", "checkpoint_id", "parent_id", "seq", "run_id", "meta", "raw_size", "stored_size", "occurred_at", "created_at") SELECT rowid, "tenant", "thread_id", "namespace", "checkpoint_id", "parent_id", "seq", "run_id", "meta", "raw_size", "stored_size", "occurred_at", "created_at" FROM checkpoints ORDER BY rowid;

DROP TABLE checkpoints;

PRAGMA legacy_alter_table = ON;

ALTER TABLE checkpoints_new RENAME TO checkpoints;

PRAGMA legacy_alter_table = OFF;

CREATE TABLE deltas_new (
    tenant VARCHAR(64) NOT NULL, 
    thread_id VARCHAR(510) NOT NULL, 
    namespace VARCHAR(512) NOT NULL, 
    seq BIGINT NOT NULL, 
    kind VARCHAR(16) NOT NULL, 
    entry_key VARCHAR(128), 
    parent_seq BIGINT, 
    base_seq BIGINT, 
    depth INTEGER NOT NULL, 
    since_bytes BIGINT NOT NULL, 
    raw_size BIGINT NOT NULL, 
    codec VARCHAR(16) NOT NULL, 
    checksum BIGINT NOT NULL, 
    label VARCHAR(255), 
    sort_key VARCHAR(255), 
    status SMALLINT NOT NULL, 
    search_text TEXT, 
    occurred_at DATETIME NOT NULL, 
    stored_at DATETIME NOT NULL, 
    payload BLOB NOT NULL, 
    CONSTRAINT pk_deltas PRIMARY KEY (tenant, thread_id, namespace, seq), 
    CONSTRAINT fk_deltas_threads FOREIGN KEY(tenant, thread_id, namespace) REFERENCES threads (tenant, thread_id, namespace) ON DELETE CASCADE
);

INSERT INTO deltas_new (rowid, "tenant", "thread_id", "namespace", "seq", "kind", "entry_key", "parent_seq", "base_seq", "depth", "since_bytes", "raw_size", "codec", "checksum", "label", "sort_key", "status", "search_text", "occurred_at", "stored_at", "payload") SELECT rowid, "tenant", "thread_id", "namespace", "seq", "kind", "entry_key", "parent_seq", "base_seq", "depth", "since_bytes", "raw_size", "codec", "checksum", "label", "sort_key", "status", "search_text", "occurred_at", "stored_at", "payload" FROM deltas ORDER BY rowid;

DROP TABLE deltas;

PRAGMA legacy_alter_table = ON;

ALTER TABLE deltas_new RENAME TO deltas;

PRAGMA legacy_alter_table = OFF;

CREATE TABLE store_items_new (
    tenant VARCHAR(64) NOT NULL, 
    namespace VARCHAR(512) NOT NULL, 
    "key" VARCHAR(255) NOT NULL, 
    meta JSON NOT NULL, 
    version BIGINT NOT NULL, 
    codec VARCHAR(16) NOT NULL, 
    checksum BIGINT NOT NULL, 
    search_text TEXT, 
    field_terms TEXT, 
    created_at DATETIME NOT NULL, 
    updated_at DATETIME NOT NULL, 
    expires_at DATETIME, 
    lifetime BIGINT, 
    value BLOB NOT NULL, 
    CONSTRAINT pk_store_items PRIMARY KEY (tenant, namespace, "key")
);

INSERT INTO store_items_new (rowid, "tenant", "namespace", "key", "meta", "version", "codec", "checksum", "search_text", "field_terms", "created_at", "updated_at", "expires_at", "lifetime", "value") SELECT rowid, "tenant", "namespace", "key", "meta", "version", "codec", "checksum", "search_text", "field_terms", "created_at", "updated_at", "expires_at", "lifetime", "value" FROM store_items ORDER BY rowid;

DROP TABLE store_items;

PRAGMA legacy_alter_table = ON;

ALTER TABLE store_items_new RENAME TO store_items;

PRAGMA legacy_alter_table = OFF;

CREATE TABLE embeddings (
    tenant VARCHAR(64) NOT NULL, 
    namespace VARCHAR(512) NOT NULL, 
    "key" VARCHAR(255) NOT NULL, 
    field VARCHAR(128) NOT NULL, 
    model VARCHAR(128) NOT NULL, 
    part INTEGER NOT NULL, 
    dimensions INTEGER NOT NULL, 
    change BIGINT NOT NULL, 
    vector BLOB NOT NULL, 
    CONSTRAINT pk_embeddings PRIMARY KEY (tenant, namespace, "key", field, model, part), 
    CONSTRAINT fk_embeddings_store_items FOREIGN KEY(tenant, namespace, "key") REFERENCES store_items (tenant, namespace, "key") ON DELETE CASCADE
);

INSERT INTO embeddings (rowid, "tenant", "namespace", "key", "field", "model", "part", "dimensions", "change", "vector") SELECT place, "tenant", "namespace", "key", "field", "model", "part", "dimensions", "change", "vector" FROM embeddings_kept ORDER BY place;

DROP TABLE embeddings_kept;

CREATE INDEX ix_checkpoints_run_id ON checkpoints (tenant, run_id, thread_id) WHERE run_id IS NOT NULL;

CREATE INDEX ix_deltas_base_seq ON deltas (tenant, thread_id, namespace, base_seq) WHERE base_seq IS NOT NULL;

CREATE UNIQUE INDEX uq_deltas_entry_key ON deltas (tenant, entry_key, thread_id, namespace) WHERE entry_key IS NOT NULL;

CREATE INDEX ix_store_items_tenant_namespace_updated_at_key ON store_items (tenant, namespace, updated_at, "key");

CREATE INDEX ix_store_items_expires_at ON store_items (expires_at) WHERE expires_at IS NOT NULL;

CREATE INDEX ix_embeddings_tenant_namespace_model_dimensions ON embeddings (tenant, namespace, model, dimensions);

CREATE INDEX ix_embeddings_tenant_namespace_change ON embeddings (tenant, namespace, change);

CREATE TRIGGER deltas_search_insert AFTER INSERT ON deltas WHEN new.search_text IS NOT NULL BEGIN INSERT INTO deltas_search(rowid, search_text) SELECT new.rowid, new.search_text WHERE new.search_text IS NOT NULL; END;

CREATE TRIGGER deltas_search_delete AFTER DELETE ON deltas WHEN old.search_text IS NOT NULL BEGIN INSERT INTO deltas_search(deltas_search, rowid, search_text) SELECT 'delete', old.rowid, old.search_text WHERE old.search_text IS NOT NULL; END;

CREATE TRIGGER deltas_search_update AFTER UPDATE OF search_text ON deltas BEGIN INSERT INTO deltas_search(deltas_search, rowid, search_text) SELECT 'delete', old.rowid, old.search_text WHERE old.search_text IS NOT NULL; INSERT INTO deltas_search(rowid, search_text) SELECT new.rowid, new.search_text WHERE new.search_text IS NOT NULL; END;

CREATE TRIGGER checkpoints_meta_insert AFTER INSERT ON checkpoints WHEN new.meta <> '{}' BEGIN INSERT INTO checkpoints_meta(rowid, terms) SELECT new.rowid, (
  SELECT group_concat(lower(hex(key || char(31) || CASE
      WHEN type = 'text' THEN 't' || substr(atom, 1, 120)
      WHEN type IN ('integer', 'real') THEN 'n' || printf('%.12g', atom)
      ELSE type END)), ' ')
  FROM json_each(new.meta)) WHERE new.meta <> '{}'; END;

CREATE TRIGGER checkpoints_meta_delete AFTER DELETE ON checkpoints WHEN old.meta <> '{}' BEGIN INSERT INTO checkpoints_meta(checkpoints_meta, rowid, terms) SELECT 'delete', old.rowid, (
  SELECT group_concat(lower(hex(key || char(31) || CASE
      WHEN type = 'text' THEN 't' || substr(atom, 1, 120)
      WHEN type IN ('integer', 'real') THEN 'n' || printf('%.12g', atom)
      ELSE type END)), ' ')
  FROM json_each(old.meta)) WHERE old.meta <> '{}'; END;

CREATE TRIGGER checkpoints_meta_update AFTER UPDATE OF meta ON checkpoints BEGIN INSERT INTO checkpoints_meta(checkpoints_meta, rowid, terms) SELECT 'delete', old.rowid, (
  SELECT group_concat(lower(hex(key || char(31) || CASE
      WHEN type = 'text' THEN 't' || substr(atom, 1, 120)
      WHEN type IN ('integer', 'real') THEN 'n' || printf('%.12g', atom)
      ELSE type END)), ' ')
  FROM json_each(old.meta)) WHERE old.meta <> '{}'; INSERT INTO checkpoints_meta(rowid, terms) SELECT new.rowid, (
  SELECT group_concat(lower(hex(key || char(31) || CASE
      WHEN type = 'text' THEN 't' || substr(atom, 1, 120)
      WHEN type IN ('integer', 'real') THEN 'n' || printf('%.12g', atom)
      ELSE type END)), ' ')
  FROM json_each(new.meta)) WHERE new.meta <> '{}'; END;

CREATE TRIGGER store_items_search_insert AFTER INSERT ON store_items WHEN (new.search_text IS NOT NULL OR new.field_terms IS NOT NULL) BEGIN INSERT INTO store_items_search(rowid, scope, search_text, field_terms) SELECT new.rowid, 'x' || lower(hex(new.tenant || char(31) || new.namespace)), new.search_text, new.field_terms WHERE (new.search_text IS NOT NULL OR new.field_terms IS NOT NULL); END;

CREATE TRIGGER store_items_search_delete AFTER DELETE ON store_items WHEN (old.search_text IS NOT NULL OR old.field_terms IS NOT NULL) BEGIN INSERT INTO store_items_search(store_items_search, rowid, scope, search_text, field_terms) SELECT 'delete', old.rowid, 'x' || lower(hex(old.tenant || char(31) || old.namespace)), old.search_text, old.field_terms WHERE (old.search_text IS NOT NULL OR old.field_terms IS NOT NULL); END;

CREATE TRIGGER store_items_search_update AFTER UPDATE OF search_text, field_terms ON store_items BEGIN INSERT INTO store_items_search(store_items_search, rowid, scope, search_text, field_terms) SELECT 'delete', old.rowid, 'x' || lower(hex(old.tenant || char(31) || old.namespace)), old.search_text, old.field_terms WHERE (old.search_text IS NOT NULL OR old.field_terms IS NOT NULL); INSERT INTO store_items_search(rowid, scope, search_text, field_terms) SELECT new.rowid, 'x' || lower(hex(new.tenant || char(31) || new.namespace)), new.search_text, new.field_terms WHERE (new.search_text IS NOT NULL OR new.field_terms IS NOT NULL); END;

CREATE TRIGGER threads_delete AFTER DELETE ON threads BEGIN DELETE FROM checkpoints WHERE tenant = old.tenant AND thread_id = old.thread_id AND namespace = old.namespace; DELETE FROM deltas WHERE tenant = old.tenant AND thread_id = old.thread_id AND namespace = old.namespace; END;

CREATE TRIGGER store_items_delete AFTER DELETE ON store_items BEGIN DELETE FROM embeddings WHERE tenant = old.tenant AND namespace = old.namespace AND key = old.key; END;

CREATE TRIGGER embeddings_delete AFTER DELETE ON embeddings BEGIN UPDATE store_items SET version = version + 1, lifetime = version + 1, checksum = abs(random() % 9007199254740992) WHERE tenant = old.tenant AND namespace = '/~vectors/' AND (key = replace(old.namespace, char(26), char(26) || '1') OR key BETWEEN '#' AND '$') AND value = CAST(old.namespace AS BLOB); END;

CREATE TRIGGER embeddings_resize AFTER UPDATE OF dimensions ON embeddings WHEN old.dimensions <> new.dimensions BEGIN UPDATE store_items SET version = version + 1, lifetime = version + 1, checksum = abs(random() % 9007199254740992) WHERE tenant = old.tenant AND namespace = '/~vectors/' AND (key = replace(old.namespace, char(26), char(26) || '1') OR key BETWEEN '#' AND '$') AND value = CAST(old.namespace AS BLOB); END;

ALTER TABLE threads DROP COLUMN last_ordinal;

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


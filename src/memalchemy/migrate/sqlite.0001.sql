BEGIN;

CREATE TABLE memalchemy_version (
    version_num VARCHAR(32) NOT NULL, 
    CONSTRAINT memalchemy_version_pkc PRIMARY KEY (version_num)
);

-- Running upgrade  -> 0001

CREATE TABLE threads (
    log_id BLOB NOT NULL, 
    tenant VARCHAR(64) NOT NULL, 
    thread_id VARCHAR(510) NOT NULL, 
    namespace VARCHAR(512) NOT NULL, 
    next_seq BIGINT NOT NULL, 
    version BIGINT NOT NULL, 
    last_ordinal BIGINT NOT NULL, 
    epoch BIGINT NOT NULL, 
    head_id VARCHAR(255), 
    previous_id VARCHAR(255), 
    meta JSON NOT NULL, 
    forked_from VARCHAR(510), 
    forked_seq BIGINT, 
    created_at BIGINT NOT NULL, 
    updated_at BIGINT NOT NULL, 
    active_at BIGINT NOT NULL, 
    expires_at BIGINT, 
    deleted_at BIGINT, 
    signature BLOB, 
    CONSTRAINT pk_threads PRIMARY KEY (log_id), 
    CONSTRAINT ck_threads_counters CHECK (next_seq > 0 AND version > 0 AND last_ordinal >= 0)
)
 WITHOUT ROWID;

CREATE TABLE checkpoints (
    rowid INTEGER NOT NULL, 
    log_id BLOB NOT NULL, 
    seq BIGINT NOT NULL, 
    tenant VARCHAR(64) NOT NULL, 
    checkpoint_id VARCHAR(255) NOT NULL, 
    parent_id VARCHAR(255), 
    ordinal BIGINT NOT NULL, 
    rests_on VARCHAR(255), 
    run_id VARCHAR(255), 
    meta JSON NOT NULL, 
    raw_size INTEGER NOT NULL, 
    stored_size INTEGER NOT NULL, 
    occurred_at BIGINT NOT NULL, 
    created_at BIGINT NOT NULL, 
    signature BLOB, 
    CONSTRAINT pk_checkpoints PRIMARY KEY (rowid), 
    CONSTRAINT uq_checkpoints_log_id_seq UNIQUE (log_id, seq), 
    CONSTRAINT uq_checkpoints_log_id_checkpoint_id UNIQUE (log_id, checkpoint_id), 
    CONSTRAINT ck_checkpoints_position CHECK (seq > 0 AND ordinal >= 0), 
    CONSTRAINT ck_checkpoints_sizes CHECK (raw_size >= 0 AND stored_size >= 0), 
    CONSTRAINT fk_checkpoints_threads FOREIGN KEY(log_id) REFERENCES threads (log_id) ON DELETE CASCADE
);

CREATE TABLE deltas (
    rowid INTEGER NOT NULL, 
    log_id BLOB NOT NULL, 
    seq BIGINT NOT NULL, 
    tenant VARCHAR(64) NOT NULL, 
    kind VARCHAR(16) NOT NULL, 
    entry_key VARCHAR(128), 
    label VARCHAR(255), 
    base_seq BIGINT, 
    depth INTEGER NOT NULL, 
    radix SMALLINT, 
    overwrites SMALLINT, 
    codec VARCHAR(16) NOT NULL, 
    checksum BIGINT NOT NULL, 
    search_text TEXT, 
    occurred_at BIGINT, 
    stored_at BIGINT, 
    signature BLOB, 
    payload BLOB NOT NULL, 
    CONSTRAINT pk_deltas PRIMARY KEY (rowid), 
    CONSTRAINT uq_deltas_log_id_seq UNIQUE (log_id, seq), 
    CONSTRAINT ck_deltas_numbers CHECK (seq > 0 AND depth >= 0), 
    CONSTRAINT ck_deltas_kind CHECK ((kind = 'snapshot' AND base_seq IS NULL) OR (kind = 'delta' AND base_seq IS NOT NULL AND base_seq < seq) OR (kind = 'entry' AND occurred_at IS NOT NULL AND stored_at IS NOT NULL) OR (kind = 'write' AND label IS NOT NULL AND stored_at IS NOT NULL)), 
    CONSTRAINT fk_deltas_threads FOREIGN KEY(log_id) REFERENCES threads (log_id) ON DELETE CASCADE
);

CREATE TABLE store_items (
    rowid INTEGER NOT NULL, 
    tenant VARCHAR(64) NOT NULL, 
    namespace VARCHAR(512) NOT NULL, 
    "key" VARCHAR(255) NOT NULL, 
    meta JSON NOT NULL, 
    version BIGINT NOT NULL, 
    codec VARCHAR(16) NOT NULL, 
    checksum BIGINT NOT NULL, 
    search_text TEXT, 
    field_terms TEXT, 
    created_at BIGINT NOT NULL, 
    updated_at BIGINT NOT NULL, 
    expires_at BIGINT, 
    lifetime BIGINT, 
    signature BLOB, 
    value BLOB NOT NULL, 
    CONSTRAINT pk_store_items PRIMARY KEY (rowid), 
    CONSTRAINT uq_store_items_tenant_namespace_key UNIQUE (tenant, namespace, "key"), 
    CONSTRAINT ck_store_items_version CHECK (version > 0)
);

CREATE TABLE embeddings (
    rowid INTEGER NOT NULL, 
    tenant VARCHAR(64) NOT NULL, 
    namespace VARCHAR(512) NOT NULL, 
    "key" VARCHAR(255) NOT NULL, 
    field VARCHAR(128) NOT NULL, 
    model VARCHAR(128) NOT NULL, 
    part INTEGER NOT NULL, 
    dimensions INTEGER NOT NULL, 
    change BIGINT NOT NULL, 
    signature BLOB, 
    vector BLOB NOT NULL, 
    CONSTRAINT pk_embeddings PRIMARY KEY (rowid), 
    CONSTRAINT uq_embeddings_tenant_namespace_key_field_model_part UNIQUE (tenant, namespace, "key", field, model, part), 
    CONSTRAINT ck_embeddings_numbers CHECK (part >= 0 AND dimensions > 0 AND change >= 0), 
    CONSTRAINT fk_embeddings_store_items FOREIGN KEY(tenant, namespace, "key") REFERENCES store_items (tenant, namespace, "key") ON DELETE CASCADE
);

CREATE INDEX ix_threads_tenant_thread_id_namespace ON threads (tenant, thread_id, namespace);

CREATE INDEX ix_threads_tenant_active_at ON threads (tenant, active_at);

CREATE INDEX ix_threads_tenant_namespace_active_at ON threads (tenant, namespace, active_at);

CREATE INDEX ix_checkpoints_rests_on ON checkpoints (log_id, rests_on) WHERE rests_on IS NOT NULL;

CREATE INDEX ix_checkpoints_run_id ON checkpoints (tenant, run_id) WHERE run_id IS NOT NULL;

CREATE INDEX ix_deltas_base_seq ON deltas (log_id, base_seq) WHERE base_seq IS NOT NULL;

CREATE INDEX ix_store_items_tenant_namespace_updated_at_key ON store_items (tenant, namespace, updated_at, "key");

CREATE INDEX ix_store_items_expires_at ON store_items (tenant, expires_at) WHERE expires_at IS NOT NULL;

CREATE INDEX ix_embeddings_tenant_namespace_model_dimensions ON embeddings (tenant, namespace, model, dimensions);

CREATE UNIQUE INDEX uq_deltas_entry_key ON deltas (log_id, entry_key) WHERE entry_key IS NOT NULL;

CREATE INDEX ix_embeddings_tenant_namespace_change ON embeddings (tenant, namespace, change);

CREATE VIRTUAL TABLE deltas_search USING fts5(search_text, scope, content='', columnsize=0, detail=column, tokenize="unicode61 remove_diacritics 0 categories 'L* N* Co Mn Mc'");

CREATE TRIGGER deltas_search_insert AFTER INSERT ON deltas WHEN new.search_text IS NOT NULL BEGIN INSERT INTO deltas_search(rowid, search_text, scope) SELECT new.rowid, new.search_text, 'x' || lower(hex(new.tenant)) WHERE new.search_text IS NOT NULL; END;

CREATE TRIGGER deltas_search_delete AFTER DELETE ON deltas WHEN old.search_text IS NOT NULL BEGIN INSERT INTO deltas_search(deltas_search, rowid, search_text, scope) SELECT 'delete', old.rowid, old.search_text, 'x' || lower(hex(old.tenant)) WHERE old.search_text IS NOT NULL; END;

CREATE TRIGGER deltas_search_update AFTER UPDATE OF search_text ON deltas BEGIN INSERT INTO deltas_search(deltas_search, rowid, search_text, scope) SELECT 'delete', old.rowid, old.search_text, 'x' || lower(hex(old.tenant)) WHERE old.search_text IS NOT NULL; INSERT INTO deltas_search(rowid, search_text, scope) SELECT new.rowid, new.search_text, 'x' || lower(hex(new.tenant)) WHERE new.search_text IS NOT NULL; END;

CREATE VIRTUAL TABLE checkpoints_meta USING fts5(terms, content='', columnsize=0, detail=none, tokenize='ascii');

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

CREATE VIRTUAL TABLE store_items_search USING fts5(search_text, field_terms, scope, content='', columnsize=0, detail=column, tokenize="unicode61 remove_diacritics 0 categories 'L* N* Co Mn Mc'");

CREATE TRIGGER store_items_search_insert AFTER INSERT ON store_items WHEN (new.search_text IS NOT NULL OR new.field_terms IS NOT NULL) BEGIN INSERT INTO store_items_search(rowid, search_text, field_terms, scope) SELECT new.rowid, new.search_text, new.field_terms, 'x' || lower(hex(new.tenant || char(31) || new.namespace)) WHERE (new.search_text IS NOT NULL OR new.field_terms IS NOT NULL); END;

CREATE TRIGGER store_items_search_delete AFTER DELETE ON store_items WHEN (old.search_text IS NOT NULL OR old.field_terms IS NOT NULL) BEGIN INSERT INTO store_items_search(store_items_search, rowid, search_text, field_terms, scope) SELECT 'delete', old.rowid, old.search_text, old.field_terms, 'x' || lower(hex(old.tenant || char(31) || old.namespace)) WHERE (old.search_text IS NOT NULL OR old.field_terms IS NOT NULL); END;

CREATE TRIGGER store_items_search_update AFTER UPDATE OF search_text, field_terms ON store_items BEGIN INSERT INTO store_items_search(store_items_search, rowid, search_text, field_terms, scope) SELECT 'delete', old.rowid, old.search_text, old.field_terms, 'x' || lower(hex(old.tenant || char(31) || old.namespace)) WHERE (old.search_text IS NOT NULL OR old.field_terms IS NOT NULL); INSERT INTO store_items_search(rowid, search_text, field_terms, scope) SELECT new.rowid, new.search_text, new.field_terms, 'x' || lower(hex(new.tenant || char(31) || new.namespace)) WHERE (new.search_text IS NOT NULL OR new.field_terms IS NOT NULL); END;

CREATE TRIGGER threads_delete AFTER DELETE ON threads BEGIN DELETE FROM checkpoints WHERE log_id = old.log_id; DELETE FROM deltas WHERE log_id = old.log_id; END;

CREATE TRIGGER store_items_delete AFTER DELETE ON store_items BEGIN DELETE FROM embeddings WHERE tenant = old.tenant AND namespace = old.namespace AND key = old.key; END;

CREATE TRIGGER embeddings_delete AFTER DELETE ON embeddings BEGIN UPDATE store_items SET version = version + 1, meta = json_object('nonce', abs(random() % 9007199254740992), 'removed', version + 1) WHERE tenant = old.tenant AND namespace = '/~vectors/' AND (key = replace(old.namespace, char(26), char(26) || '1') OR key BETWEEN '#' AND '$') AND value = CAST(old.namespace AS BLOB); END;

CREATE TRIGGER embeddings_resize AFTER UPDATE OF dimensions ON embeddings WHEN old.dimensions <> new.dimensions BEGIN UPDATE store_items SET version = version + 1, meta = json_object('nonce', abs(random() % 9007199254740992), 'removed', version + 1) WHERE tenant = old.tenant AND namespace = '/~vectors/' AND (key = replace(old.namespace, char(26), char(26) || '1') OR key BETWEEN '#' AND '$') AND value = CAST(old.namespace AS BLOB); END;

INSERT INTO memalchemy_version (version_num) VALUES ('0001');

DELETE FROM store_items WHERE tenant = '~' AND namespace = '/~memalchemy/' AND key = 'schema';

INSERT INTO store_items (tenant, namespace, key, meta, version, codec, checksum, created_at, updated_at, value) VALUES ('~', '/~memalchemy/', 'schema', '{"oldest_release": "0.1.0", "revision": "0001"}', 1, 'none', 0, CAST(strftime('%s', 'now') AS INTEGER) * 1000000, CAST(strftime('%s', 'now') AS INTEGER) * 1000000, X'2D');

DELETE FROM store_items WHERE tenant = '~' AND namespace = '/~memalchemy/' AND key = 'words';

INSERT INTO store_items (tenant, namespace, key, meta, version, codec, checksum, created_at, updated_at, value) VALUES ('~', '/~memalchemy/', 'words', '{"version": 2}', 1, 'none', 0, CAST(strftime('%s', 'now') AS INTEGER) * 1000000, CAST(strftime('%s', 'now') AS INTEGER) * 1000000, X'2D');

COMMIT;


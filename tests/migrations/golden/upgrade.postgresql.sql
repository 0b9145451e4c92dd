BEGIN;

CREATE EXTENSION IF NOT EXISTS vector;

CREATE TABLE memalchemy_version (
    version_num VARCHAR(32) NOT NULL, 
    CONSTRAINT memalchemy_version_pkc PRIMARY KEY (version_num)
);

-- Running upgrade  -> 0001

CREATE TABLE threads (
    log_id UUID NOT NULL, 
    tenant VARCHAR(64) COLLATE "C" NOT NULL, 
    thread_id VARCHAR(510) COLLATE "C" NOT NULL, 
    namespace VARCHAR(512) COLLATE "C" NOT NULL, 
    next_seq BIGINT NOT NULL, 
    version BIGINT NOT NULL, 
    last_ordinal BIGINT NOT NULL, 
    epoch BIGINT NOT NULL, 
    head_id VARCHAR(255) COLLATE "C", 
    previous_id VARCHAR(255) COLLATE "C", 
    meta JSONB NOT NULL, 
    forked_from VARCHAR(510) COLLATE "C", 
    forked_seq BIGINT, 
    created_at TIMESTAMP WITH TIME ZONE NOT NULL, 
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL, 
    active_at TIMESTAMP WITH TIME ZONE NOT NULL, 
    expires_at TIMESTAMP WITH TIME ZONE, 
    deleted_at TIMESTAMP WITH TIME ZONE, 
    signature BYTEA, 
    CONSTRAINT pk_threads PRIMARY KEY (log_id), 
    CONSTRAINT ck_threads_counters CHECK (next_seq > 0 AND version > 0 AND last_ordinal >= 0)
);

CREATE TABLE checkpoints (
    log_id UUID NOT NULL, 
    seq BIGINT NOT NULL, 
    tenant VARCHAR(64) COLLATE "C" NOT NULL, 
    checkpoint_id VARCHAR(255) COLLATE "C" NOT NULL, 
    parent_id VARCHAR(255) COLLATE "C", 
    ordinal BIGINT NOT NULL, 
    rests_on VARCHAR(255) COLLATE "C", 
    run_id VARCHAR(255) COLLATE "C", 
    meta JSONB NOT NULL, 
    raw_size INTEGER NOT NULL, 
    stored_size INTEGER NOT NULL, 
    occurred_at TIMESTAMP WITH TIME ZONE NOT NULL, 
    created_at TIMESTAMP WITH TIME ZONE NOT NULL, 
    signature BYTEA, 
    CONSTRAINT pk_checkpoints PRIMARY KEY (log_id, seq), 
    CONSTRAINT uq_checkpoints_log_id_checkpoint_id UNIQUE (log_id, checkpoint_id), 
    CONSTRAINT ck_checkpoints_position CHECK (seq > 0 AND ordinal >= 0), 
    CONSTRAINT ck_checkpoints_sizes CHECK (raw_size >= 0 AND stored_size >= 0), 
    CONSTRAINT fk_checkpoints_threads FOREIGN KEY(log_id) REFERENCES threads (log_id) ON DELETE CASCADE
);

CREATE TABLE deltas (
    log_id UUID NOT NULL, 
    seq BIGINT NOT NULL, 
    tenant VARCHAR(64) COLLATE "C" NOT NULL, 
    kind VARCHAR(16) NOT NULL, 
    entry_key VARCHAR(128) COLLATE "C", 
    label VARCHAR(255) COLLATE "C", 
    base_seq BIGINT, 
    depth INTEGER NOT NULL, 
    radix SMALLINT, 
    overwrites SMALLINT, 
    codec VARCHAR(16) NOT NULL, 
    checksum BIGINT NOT NULL, 
    search_text TEXT, 
    occurred_at TIMESTAMP WITH TIME ZONE, 
    stored_at TIMESTAMP WITH TIME ZONE, 
    signature BYTEA, 
    payload BYTEA NOT NULL, 
    CONSTRAINT pk_deltas PRIMARY KEY (log_id, seq), 
    CONSTRAINT ck_deltas_numbers CHECK (seq > 0 AND depth >= 0), 
    CONSTRAINT ck_deltas_kind CHECK ((kind = 'snapshot' AND base_seq IS NULL) OR (kind = 'delta' AND base_seq IS NOT NULL AND base_seq < seq) OR (kind = 'entry' AND occurred_at IS NOT NULL AND stored_at IS NOT NULL) OR (kind = 'write' AND label IS NOT NULL AND stored_at IS NOT NULL)), 
    CONSTRAINT fk_deltas_threads FOREIGN KEY(log_id) REFERENCES threads (log_id) ON DELETE CASCADE
);

CREATE TABLE store_items (
    tenant VARCHAR(64) COLLATE "C" NOT NULL, 
    namespace VARCHAR(512) COLLATE "C" NOT NULL, 
    key VARCHAR(255) COLLATE "C" NOT NULL, 
    meta JSONB NOT NULL, 
    version BIGINT NOT NULL, 
    codec VARCHAR(16) NOT NULL, 
    checksum BIGINT NOT NULL, 
    search_text TEXT, 
    field_terms TEXT, 
    created_at TIMESTAMP WITH TIME ZONE NOT NULL, 
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL, 
    expires_at TIMESTAMP WITH TIME ZONE, 
    lifetime BIGINT, 
    signature BYTEA, 
    value BYTEA NOT NULL, 
    CONSTRAINT pk_store_items PRIMARY KEY (tenant, namespace, key), 
    CONSTRAINT ck_store_items_version CHECK (version > 0)
);

CREATE TABLE embeddings (
    tenant VARCHAR(64) COLLATE "C" NOT NULL, 
    namespace VARCHAR(512) COLLATE "C" NOT NULL, 
    key VARCHAR(255) COLLATE "C" NOT NULL, 
    field VARCHAR(128) COLLATE "C" NOT NULL, 
    model VARCHAR(128) COLLATE "C" NOT NULL, 
    part INTEGER NOT NULL, 
    dimensions INTEGER NOT NULL, 
    change BIGINT NOT NULL, 
    signature BYTEA, 
    vector VECTOR NOT NULL, 
    CONSTRAINT pk_embeddings PRIMARY KEY (tenant, namespace, key, field, model, part), 
    CONSTRAINT ck_embeddings_numbers CHECK (part >= 0 AND dimensions > 0 AND change >= 0), 
    CONSTRAINT fk_embeddings_store_items FOREIGN KEY(tenant, namespace, key) REFERENCES store_items (tenant, namespace, key) ON DELETE CASCADE
);

CREATE INDEX ix_threads_tenant_thread_id_namespace ON threads (tenant, thread_id, namespace);

CREATE INDEX ix_threads_tenant_active_at ON threads (tenant, active_at);

CREATE INDEX ix_threads_tenant_namespace_active_at ON threads (tenant, namespace, active_at);

CREATE INDEX ix_checkpoints_rests_on ON checkpoints (log_id, rests_on) WHERE rests_on IS NOT NULL;

CREATE INDEX ix_checkpoints_run_id ON checkpoints (tenant, run_id) WHERE run_id IS NOT NULL;

CREATE INDEX ix_deltas_base_seq ON deltas (log_id, base_seq) WHERE base_seq IS NOT NULL;

CREATE INDEX ix_store_items_tenant_namespace_updated_at_key ON store_items (tenant, namespace, updated_at, key);

CREATE INDEX ix_store_items_expires_at ON store_items (tenant, expires_at) WHERE expires_at IS NOT NULL;

CREATE INDEX ix_embeddings_tenant_namespace_model_dimensions ON embeddings (tenant, namespace, model, dimensions);

CREATE UNIQUE INDEX uq_deltas_entry_key ON deltas (log_id, entry_key) WHERE entry_key IS NOT NULL;

ALTER TABLE deltas ALTER COLUMN payload SET STORAGE EXTERNAL;

ALTER TABLE store_items ALTER COLUMN value SET STORAGE EXTERNAL;

ALTER TABLE embeddings ALTER COLUMN vector SET STORAGE MAIN;

CREATE INDEX ix_deltas_search_text ON deltas USING gin (to_tsvector('simple', search_text)) WITH (gin_pending_list_limit = 128) WHERE search_text IS NOT NULL;

CREATE INDEX ix_store_items_search ON store_items USING gin ((to_tsvector('simple', CASE WHEN search_text IS NULL THEN '' ELSE search_text END) || to_tsvector('simple', CASE WHEN field_terms IS NULL THEN '' ELSE field_terms END) || array_to_tsvector(ARRAY[chr(31) || tenant || chr(31) || namespace]))) WITH (gin_pending_list_limit = 384);

CREATE INDEX ix_checkpoints_meta ON checkpoints USING gin (meta jsonb_path_ops) WHERE meta <> '{}'::jsonb;

ALTER TABLE threads SET (fillfactor = 70);

INSERT INTO memalchemy_version (version_num) VALUES ('0001');

DELETE FROM store_items WHERE tenant = '~' AND namespace = '/~memalchemy/' AND key = 'schema';

INSERT INTO store_items (tenant, namespace, key, meta, version, codec, checksum, created_at, updated_at, value) VALUES ('~', '/~memalchemy/', 'schema', '{"oldest_release": "0.1.0", "revision": "0001"}', 1, 'none', 0, CURRENT_TIMESTAMP, CURRENT_TIMESTAMP, '\x2d');

DELETE FROM store_items WHERE tenant = '~' AND namespace = '/~memalchemy/' AND key = 'words';

INSERT INTO store_items (tenant, namespace, key, meta, version, codec, checksum, created_at, updated_at, value) VALUES ('~', '/~memalchemy/', 'words', '{"version": 2}', 1, 'none', 0, CURRENT_TIMESTAMP, CURRENT_TIMESTAMP, '\x2d');

COMMIT;


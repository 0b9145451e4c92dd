BEGIN;

CREATE EXTENSION IF NOT EXISTS vector;

CREATE TABLE memalchemy_version (
    version_num VARCHAR(32) NOT NULL, 
    CONSTRAINT memalchemy_version_pkc PRIMARY KEY (version_num)
);

-- Running upgrade  -> 0001

CREATE TABLE threads (
    tenant VARCHAR(64) COLLATE "C" NOT NULL, 
    thread_id VARCHAR(510) COLLATE "C" NOT NULL, 
    namespace VARCHAR(512) COLLATE "C" NOT NULL, 
    next_seq BIGINT NOT NULL, 
    version BIGINT NOT NULL, 
    epoch BIGINT NOT NULL, 
    head_id VARCHAR(255) COLLATE "C", 
    previous_id VARCHAR(255) COLLATE "C", 
    meta JSONB NOT NULL, 
    forked_thread VARCHAR(510) COLLATE "C", 
    forked_seq BIGINT, 
    created_at TIMESTAMP WITH TIME ZONE NOT NULL, 
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL, 
    expires_at TIMESTAMP WITH TIME ZONE, 
    deleted_at TIMESTAMP WITH TIME ZONE, 
    CONSTRAINT pk_threads PRIMARY KEY (tenant, thread_id, namespace)
);

CREATE TABLE checkpoints (
    tenant VARCHAR(64) COLLATE "C" NOT NULL, 
    thread_id VARCHAR(510) COLLATE "C" NOT NULL, 
    namespace VARCHAR(512) COLLATE "C" NOT NULL, 
    checkpoint_id VARCHAR(255) COLLATE "C" NOT NULL, 
    parent_id VARCHAR(255) COLLATE "C", 
    seq BIGINT NOT NULL, 
    run_id VARCHAR(255) COLLATE "C", 
    meta JSONB NOT NULL, 
    raw_size BIGINT NOT NULL, 
    stored_size BIGINT NOT NULL, 
    occurred_at TIMESTAMP WITH TIME ZONE NOT NULL, 
    created_at TIMESTAMP WITH TIME ZONE NOT NULL, 
    CONSTRAINT pk_checkpoints PRIMARY KEY (tenant, thread_id, namespace, checkpoint_id), 
    CONSTRAINT uq_checkpoints_tenant_thread_id_namespace_seq UNIQUE (tenant, thread_id, namespace, seq), 
    CONSTRAINT fk_checkpoints_threads FOREIGN KEY(tenant, thread_id, namespace) REFERENCES threads (tenant, thread_id, namespace) ON DELETE CASCADE
);

CREATE TABLE deltas (
    tenant VARCHAR(64) COLLATE "C" NOT NULL, 
    thread_id VARCHAR(510) COLLATE "C" NOT NULL, 
    namespace VARCHAR(512) COLLATE "C" NOT NULL, 
    seq BIGINT NOT NULL, 
    kind VARCHAR(16) NOT NULL, 
    entry_key VARCHAR(128) COLLATE "C", 
    parent_seq BIGINT, 
    base_seq BIGINT, 
    depth INTEGER NOT NULL, 
    since_bytes BIGINT NOT NULL, 
    raw_size BIGINT NOT NULL, 
    codec VARCHAR(16) NOT NULL, 
    checksum BIGINT NOT NULL, 
    label VARCHAR(255) COLLATE "C", 
    sort_key VARCHAR(255) COLLATE "C", 
    status SMALLINT NOT NULL, 
    search_text TEXT, 
    occurred_at TIMESTAMP WITH TIME ZONE NOT NULL, 
    stored_at TIMESTAMP WITH TIME ZONE NOT NULL, 
    payload BYTEA NOT NULL, 
    CONSTRAINT pk_deltas PRIMARY KEY (tenant, thread_id, namespace, seq), 
    CONSTRAINT fk_deltas_threads FOREIGN KEY(tenant, thread_id, namespace) REFERENCES threads (tenant, thread_id, namespace) ON DELETE CASCADE
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
    created_at TIMESTAMP WITH TIME ZONE NOT NULL, 
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL, 
    expires_at TIMESTAMP WITH TIME ZONE, 
    value BYTEA NOT NULL, 
    CONSTRAINT pk_store_items PRIMARY KEY (tenant, namespace, key)
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
    vector VECTOR NOT NULL, 
    CONSTRAINT pk_embeddings PRIMARY KEY (tenant, namespace, key, field, model, part), 
    CONSTRAINT fk_embeddings_store_items FOREIGN KEY(tenant, namespace, key) REFERENCES store_items (tenant, namespace, key) ON DELETE CASCADE
);

CREATE INDEX ix_threads_tenant_namespace_thread_id ON threads (tenant, namespace, thread_id);

CREATE INDEX ix_threads_expires_at ON threads (expires_at) WHERE expires_at IS NOT NULL;

CREATE INDEX ix_checkpoints_run_id ON checkpoints (tenant, run_id, thread_id) WHERE run_id IS NOT NULL;

CREATE INDEX ix_deltas_base_seq ON deltas (tenant, thread_id, namespace, base_seq) WHERE base_seq IS NOT NULL;

CREATE INDEX ix_store_items_tenant_namespace_updated_at_key ON store_items (tenant, namespace, updated_at, key);

CREATE INDEX ix_store_items_expires_at ON store_items (expires_at) WHERE expires_at IS NOT NULL;

CREATE INDEX ix_embeddings_tenant_namespace_model_dimensions ON embeddings (tenant, namespace, model, dimensions);

CREATE UNIQUE INDEX uq_deltas_entry_key ON deltas (tenant, entry_key, thread_id, namespace) WHERE entry_key IS NOT NULL;

ALTER TABLE deltas ALTER COLUMN payload SET STORAGE EXTERNAL;

CREATE INDEX ix_deltas_search_text ON deltas USING gin (to_tsvector('simple', search_text)) WHERE search_text IS NOT NULL;

CREATE INDEX ix_checkpoints_meta ON checkpoints USING gin (meta jsonb_path_ops);

ALTER TABLE threads SET (fillfactor = 70);

INSERT INTO memalchemy_version (version_num) VALUES ('0001');

-- Running upgrade 0001 -> 0002

UPDATE memalchemy_version SET version_num='0002' WHERE memalchemy_version.version_num = '0001';

-- Running upgrade 0002 -> 0003

ALTER TABLE store_items ADD COLUMN lifetime BIGINT;

ALTER TABLE store_items ADD COLUMN field_terms TEXT;

CREATE INDEX ix_store_items_search ON store_items USING gin ((to_tsvector('simple', coalesce(search_text, '')) || to_tsvector('simple', coalesce(field_terms, '')) || array_to_tsvector(ARRAY[chr(31) || tenant || chr(31) || namespace])));

ALTER TABLE store_items ALTER COLUMN value SET STORAGE EXTERNAL;

ALTER TABLE embeddings ALTER COLUMN vector SET STORAGE MAIN;

UPDATE memalchemy_version SET version_num='0003' WHERE memalchemy_version.version_num = '0002';

-- Running upgrade 0003 -> 0004

ALTER TABLE threads ADD COLUMN last_ordinal BIGINT DEFAULT '0' NOT NULL;

ALTER TABLE checkpoints ADD COLUMN ordinal BIGINT DEFAULT '0' NOT NULL;

UPDATE checkpoints AS named SET ordinal = numbered.number FROM (SELECT tenant, thread_id, namespace, checkpoint_id, row_number() OVER (PARTITION BY tenant, thread_id, namespace ORDER BY seq) AS number FROM checkpoints) AS numbered WHERE named.tenant = numbered.tenant AND named.thread_id = numbered.thread_id AND named.namespace = numbered.namespace AND named.checkpoint_id = numbered.checkpoint_id;

UPDATE threads AS head SET meta = '{}', last_ordinal = (SELECT count(*) FROM checkpoints named WHERE named.tenant = head.tenant AND named.thread_id = head.thread_id AND named.namespace = head.namespace);

ALTER TABLE checkpoints ADD COLUMN rests_on VARCHAR(255) COLLATE "C";

CREATE INDEX ix_checkpoints_rests_on ON checkpoints (tenant, thread_id, namespace, rests_on) WHERE rests_on IS NOT NULL;

UPDATE memalchemy_version SET version_num='0004' WHERE memalchemy_version.version_num = '0003';

DELETE FROM store_items WHERE tenant = '~' AND namespace = '/~memalchemy/' AND key = 'schema';

INSERT INTO store_items (tenant, namespace, key, meta, version, codec, checksum, created_at, updated_at, value) VALUES ('~', '/~memalchemy/', 'schema', '{"oldest_release": "0.1.0", "revision": "0004"}', 1, 'none', 0, CURRENT_TIMESTAMP, CURRENT_TIMESTAMP, '\x2d');

COMMIT;


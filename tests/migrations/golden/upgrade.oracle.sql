CREATE TABLE memalchemy_version (
    version_num VARCHAR2(32 CHAR) NOT NULL, 
    CONSTRAINT memalchemy_version_pkc PRIMARY KEY (version_num)
)

/

-- Running upgrade  -> 0001

CREATE TABLE threads (
    tenant VARCHAR2(64 CHAR) NOT NULL, 
    thread_id VARCHAR2(510 CHAR) NOT NULL, 
    namespace VARCHAR2(512 CHAR) NOT NULL, 
    next_seq NUMBER(19) NOT NULL, 
    version NUMBER(19) NOT NULL, 
    epoch NUMBER(19) NOT NULL, 
    head_id VARCHAR2(255 CHAR), 
    previous_id VARCHAR2(255 CHAR), 
    meta JSON NOT NULL, 
    forked_thread VARCHAR2(510 CHAR), 
    forked_seq NUMBER(19), 
    created_at TIMESTAMP NOT NULL, 
    updated_at TIMESTAMP NOT NULL, 
    expires_at TIMESTAMP, 
    deleted_at TIMESTAMP, 
    CONSTRAINT pk_threads PRIMARY KEY (tenant, thread_id, namespace)
)

/

CREATE TABLE checkpoints (
    tenant VARCHAR2(64 CHAR) NOT NULL, 
    thread_id VARCHAR2(510 CHAR) NOT NULL, 
    namespace VARCHAR2(512 CHAR) NOT NULL, 
    checkpoint_id VARCHAR2(255 CHAR) NOT NULL, 
    parent_id VARCHAR2(255 CHAR), 
    seq NUMBER(19) NOT NULL, 
    run_id VARCHAR2(255 CHAR), 
    meta JSON NOT NULL, 
    raw_size NUMBER(19) NOT NULL, 
    stored_size NUMBER(19) NOT NULL, 
    occurred_at TIMESTAMP NOT NULL, 
    created_at TIMESTAMP NOT NULL, 
    CONSTRAINT pk_checkpoints PRIMARY KEY (tenant, thread_id, namespace, checkpoint_id), 
    CONSTRAINT uq_checkpoints_tenant_thread_id_namespace_seq UNIQUE (tenant, thread_id, namespace, seq), 
    CONSTRAINT fk_checkpoints_threads FOREIGN KEY(tenant, thread_id, namespace) REFERENCES threads (tenant, thread_id, namespace) ON DELETE CASCADE
)

/

CREATE TABLE deltas (
    tenant VARCHAR2(64 CHAR) NOT NULL, 
    thread_id VARCHAR2(510 CHAR) NOT NULL, 
    namespace VARCHAR2(512 CHAR) NOT NULL, 
    seq NUMBER(19) NOT NULL, 
    kind VARCHAR2(16 CHAR) NOT NULL, 
    entry_key VARCHAR2(128 CHAR), 
    parent_seq NUMBER(19), 
    base_seq NUMBER(19), 
    depth INTEGER NOT NULL, 
    since_bytes NUMBER(19) NOT NULL, 
    raw_size NUMBER(19) NOT NULL, 
    codec VARCHAR2(16 CHAR) NOT NULL, 
    checksum NUMBER(19) NOT NULL, 
    label VARCHAR2(255 CHAR), 
    sort_key VARCHAR2(255 CHAR), 
    status SMALLINT NOT NULL, 
    search_text CLOB, 
    occurred_at TIMESTAMP NOT NULL, 
    stored_at TIMESTAMP NOT NULL, 
    payload BLOB NOT NULL, 
    CONSTRAINT pk_deltas PRIMARY KEY (tenant, thread_id, namespace, seq), 
    CONSTRAINT fk_deltas_threads FOREIGN KEY(tenant, thread_id, namespace) REFERENCES threads (tenant, thread_id, namespace) ON DELETE CASCADE
)

/

CREATE TABLE store_items (
    tenant VARCHAR2(64 CHAR) NOT NULL, 
    namespace VARCHAR2(512 CHAR) NOT NULL, 
    key VARCHAR2(255 CHAR) NOT NULL, 
    meta JSON NOT NULL, 
    version NUMBER(19) NOT NULL, 
    codec VARCHAR2(16 CHAR) NOT NULL, 
    checksum NUMBER(19) NOT NULL, 
    search_text CLOB, 
    created_at TIMESTAMP NOT NULL, 
    updated_at TIMESTAMP NOT NULL, 
    expires_at TIMESTAMP, 
    value BLOB NOT NULL, 
    CONSTRAINT pk_store_items PRIMARY KEY (tenant, namespace, key)
)

/

CREATE TABLE embeddings (
    tenant VARCHAR2(64 CHAR) NOT NULL, 
    namespace VARCHAR2(512 CHAR) NOT NULL, 
    key VARCHAR2(255 CHAR) NOT NULL, 
    field VARCHAR2(128 CHAR) NOT NULL, 
    model VARCHAR2(128 CHAR) NOT NULL, 
    part INTEGER NOT NULL, 
    dimensions INTEGER NOT NULL, 
    change NUMBER(19) NOT NULL, 
    vector VECTOR(*, FLOAT32) NOT NULL, 
    CONSTRAINT pk_embeddings PRIMARY KEY (tenant, namespace, key, field, model, part), 
    CONSTRAINT fk_embeddings_store_items FOREIGN KEY(tenant, namespace, key) REFERENCES store_items (tenant, namespace, key) ON DELETE CASCADE
)

/

CREATE INDEX ix_threads_tenant_namespace_thread_id ON threads (tenant, namespace, thread_id)

/

CREATE INDEX ix_threads_expires_at ON threads (expires_at)

/

CREATE INDEX ix_checkpoints_run_id ON checkpoints (tenant, run_id, thread_id)

/

CREATE INDEX ix_deltas_base_seq ON deltas (tenant, thread_id, namespace, base_seq)

/

CREATE INDEX ix_store_items_tenant_namespace_updated_at_key ON store_items (tenant, namespace, updated_at, key)

/

CREATE INDEX ix_store_items_expires_at ON store_items (expires_at)

/

CREATE INDEX ix_embeddings_tenant_namespace_model_dimensions ON embeddings (tenant, namespace, model, dimensions)

/

CREATE UNIQUE INDEX uq_deltas_entry_key_oracle ON deltas (CASE WHEN entry_key IS NOT NULL THEN tenant END, CASE WHEN entry_key IS NOT NULL THEN entry_key END, CASE WHEN entry_key IS NOT NULL THEN thread_id END, CASE WHEN entry_key IS NOT NULL THEN namespace END)

/

CREATE INDEX ix_deltas_search_text ON deltas (search_text) INDEXTYPE IS CTXSYS.CONTEXT PARAMETERS ('STOPLIST CTXSYS.EMPTY_STOPLIST SYNC (ON COMMIT)')

/

INSERT INTO memalchemy_version (version_num) VALUES ('0001')

/

-- Running upgrade 0001 -> 0002

UPDATE memalchemy_version SET version_num='0002' WHERE memalchemy_version.version_num = '0001'

/

-- Running upgrade 0002 -> 0003

ALTER TABLE store_items ADD lifetime NUMBER(19)

/

ALTER TABLE store_items ADD field_terms CLOB

/

CREATE INDEX ix_store_items_search ON store_items (search_text) INDEXTYPE IS CTXSYS.CONTEXT PARAMETERS ('STOPLIST CTXSYS.EMPTY_STOPLIST SYNC (ON COMMIT)')

/

UPDATE memalchemy_version SET version_num='0003' WHERE memalchemy_version.version_num = '0002'

/

-- Running upgrade 0003 -> 0004

ALTER TABLE threads ADD last_ordinal NUMBER(19) DEFAULT '0' NOT NULL

/

ALTER TABLE checkpoints ADD ordinal NUMBER(19) DEFAULT '0' NOT NULL

/

UPDATE checkpoints named SET ordinal = (SELECT count(*) FROM checkpoints earlier WHERE earlier.tenant = named.tenant AND earlier.thread_id = named.thread_id AND earlier.namespace = named.namespace AND earlier.seq <= named.seq)

/

UPDATE threads head SET meta = '{}', last_ordinal = (SELECT count(*) FROM checkpoints named WHERE named.tenant = head.tenant AND named.thread_id = head.thread_id AND named.namespace = head.namespace)

/

ALTER TABLE checkpoints ADD rests_on VARCHAR2(255 CHAR)

/

CREATE INDEX ix_checkpoints_rests_on ON checkpoints (tenant, thread_id, namespace, rests_on)

/

UPDATE memalchemy_version SET version_num='0004' WHERE memalchemy_version.version_num = '0003'

/

DELETE FROM store_items WHERE tenant = '~' AND namespace = '/~memalchemy/' AND key = 'schema'

/

INSERT INTO store_items (tenant, namespace, key, meta, version, codec, checksum, created_at, updated_at, value) VALUES ('~', '/~memalchemy/', 'schema', '{"oldest_release": "0.1.0", "revision": "0004"}', 1, 'none', 0, SYS_EXTRACT_UTC(SYSTIMESTAMP), SYS_EXTRACT_UTC(SYSTIMESTAMP), HEXTORAW('2D'))

/

COMMIT

/


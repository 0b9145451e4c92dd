CREATE TABLE memalchemy_version (
    version_num VARCHAR2(32 CHAR) NOT NULL, 
    CONSTRAINT memalchemy_version_pkc PRIMARY KEY (version_num)
)

/

-- Running upgrade  -> 0001

CREATE TABLE threads (
    log_id RAW(16) NOT NULL, 
    tenant VARCHAR2(64 CHAR) NOT NULL, 
    thread_id VARCHAR2(510 CHAR) NOT NULL, 
    namespace VARCHAR2(512 CHAR) NOT NULL, 
    next_seq NUMBER(19) NOT NULL, 
    version NUMBER(19) NOT NULL, 
    last_ordinal NUMBER(19) NOT NULL, 
    epoch NUMBER(19) NOT NULL, 
    head_id VARCHAR2(255 CHAR), 
    previous_id VARCHAR2(255 CHAR), 
    meta JSON NOT NULL, 
    forked_from VARCHAR2(510 CHAR), 
    forked_seq NUMBER(19), 
    created_at TIMESTAMP NOT NULL, 
    updated_at TIMESTAMP NOT NULL, 
    active_at TIMESTAMP NOT NULL, 
    expires_at TIMESTAMP, 
    deleted_at TIMESTAMP, 
    signature RAW(80), 
    CONSTRAINT pk_threads PRIMARY KEY (log_id), 
    CONSTRAINT ck_threads_counters CHECK (next_seq > 0 AND version > 0 AND last_ordinal >= 0)
)

/

CREATE TABLE checkpoints (
    log_id RAW(16) NOT NULL, 
    seq NUMBER(19) NOT NULL, 
    tenant VARCHAR2(64 CHAR) NOT NULL, 
    checkpoint_id VARCHAR2(255 CHAR) NOT NULL, 
    parent_id VARCHAR2(255 CHAR), 
    ordinal NUMBER(19) NOT NULL, 
    rests_on VARCHAR2(255 CHAR), 
    run_id VARCHAR2(255 CHAR), 
    meta JSON NOT NULL, 
    raw_size INTEGER NOT NULL, 
    stored_size INTEGER NOT NULL, 
    occurred_at TIMESTAMP NOT NULL, 
    created_at TIMESTAMP NOT NULL, 
    signature RAW(80), 
    CONSTRAINT pk_checkpoints PRIMARY KEY (log_id, seq), 
    CONSTRAINT uq_checkpoints_log_id_checkpoint_id UNIQUE (log_id, checkpoint_id), 
    CONSTRAINT ck_checkpoints_position CHECK (seq > 0 AND ordinal >= 0), 
    CONSTRAINT ck_checkpoints_sizes CHECK (raw_size >= 0 AND stored_size >= 0), 
    CONSTRAINT fk_checkpoints_threads FOREIGN KEY(log_id) REFERENCES threads (log_id) ON DELETE CASCADE
)

/

CREATE TABLE deltas (
    log_id RAW(16) NOT NULL, 
    seq NUMBER(19) NOT NULL, 
    tenant VARCHAR2(64 CHAR) NOT NULL, 
    kind VARCHAR2(16 CHAR) NOT NULL, 
    entry_key VARCHAR2(128 CHAR), 
    label VARCHAR2(255 CHAR), 
    base_seq NUMBER(19), 
    depth INTEGER NOT NULL, 
    radix SMALLINT, 
    overwrites SMALLINT, 
    codec VARCHAR2(16 CHAR) NOT NULL, 
    checksum NUMBER(19) NOT NULL, 
    search_text CLOB, 
    occurred_at TIMESTAMP, 
    stored_at TIMESTAMP, 
    signature RAW(80), 
    payload BLOB NOT NULL, 
    CONSTRAINT pk_deltas PRIMARY KEY (log_id, seq), 
    CONSTRAINT ck_deltas_numbers CHECK (seq > 0 AND depth >= 0), 
    CONSTRAINT ck_deltas_kind CHECK ((kind = 'snapshot' AND base_seq IS NULL) OR (kind = 'delta' AND base_seq IS NOT NULL AND base_seq < seq) OR (kind = 'entry' AND occurred_at IS NOT NULL AND stored_at IS NOT NULL) OR (kind = 'write' AND label IS NOT NULL AND stored_at IS NOT NULL)), 
    CONSTRAINT fk_deltas_threads FOREIGN KEY(log_id) REFERENCES threads (log_id) ON DELETE CASCADE
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
    field_terms CLOB, 
    created_at TIMESTAMP NOT NULL, 
    updated_at TIMESTAMP NOT NULL, 
    expires_at TIMESTAMP, 
    lifetime NUMBER(19), 
    signature RAW(80), 
    value BLOB NOT NULL, 
    CONSTRAINT pk_store_items PRIMARY KEY (tenant, namespace, key), 
    CONSTRAINT ck_store_items_version CHECK (version > 0)
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
    signature RAW(80), 
    vector VECTOR(*, FLOAT32) NOT NULL, 
    CONSTRAINT pk_embeddings PRIMARY KEY (tenant, namespace, key, field, model, part), 
    CONSTRAINT ck_embeddings_numbers CHECK (part >= 0 AND dimensions > 0 AND change >= 0), 
    CONSTRAINT fk_embeddings_store_items FOREIGN KEY(tenant, namespace, key) REFERENCES store_items (tenant, namespace, key) ON DELETE CASCADE
)

/

CREATE INDEX ix_threads_tenant_thread_id_namespace ON threads (tenant, thread_id, namespace)

/

CREATE INDEX ix_threads_tenant_active_at ON threads (tenant, active_at)

/

CREATE INDEX ix_threads_tenant_namespace_active_at ON threads (tenant, namespace, active_at)

/

CREATE INDEX ix_checkpoints_rests_on ON checkpoints (log_id, rests_on)

/

CREATE INDEX ix_checkpoints_run_id ON checkpoints (tenant, run_id)

/

CREATE INDEX ix_deltas_base_seq ON deltas (log_id, base_seq)

/

CREATE INDEX ix_store_items_tenant_namespace_updated_at_key ON store_items (tenant, namespace, updated_at, key)

/

CREATE INDEX ix_store_items_expires_at ON store_items (tenant, expires_at)

/

CREATE INDEX ix_embeddings_tenant_namespace_model_dimensions ON embeddings (tenant, namespace, model, dimensions)

/

CREATE UNIQUE INDEX uq_deltas_entry_key_oracle ON deltas (CASE WHEN entry_key IS NOT NULL THEN log_id END, CASE WHEN entry_key IS NOT NULL THEN entry_key END)

/

CREATE INDEX ix_deltas_search_text ON deltas (search_text) INDEXTYPE IS CTXSYS.CONTEXT PARAMETERS ('STOPLIST CTXSYS.EMPTY_STOPLIST SYNC (ON COMMIT)')

/

CREATE INDEX ix_store_items_search ON store_items (search_text) INDEXTYPE IS CTXSYS.CONTEXT PARAMETERS ('STOPLIST CTXSYS.EMPTY_STOPLIST SYNC (ON COMMIT)')

/

INSERT INTO memalchemy_version (version_num) VALUES ('0001')

/

DELETE FROM store_items WHERE tenant = '~' AND namespace = '/~memalchemy/' AND key = 'schema'

/

INSERT INTO store_items (tenant, namespace, key, meta, version, codec, checksum, created_at, updated_at, value) VALUES ('~', '/~memalchemy/', 'schema', '{"oldest_release": "0.1.0", "revision": "0001"}', 1, 'none', 0, SYS_EXTRACT_UTC(SYSTIMESTAMP), SYS_EXTRACT_UTC(SYSTIMESTAMP), HEXTORAW('2D'))

/

DELETE FROM store_items WHERE tenant = '~' AND namespace = '/~memalchemy/' AND key = 'words'

/

INSERT INTO store_items (tenant, namespace, key, meta, version, codec, checksum, created_at, updated_at, value) VALUES ('~', '/~memalchemy/', 'words', '{"version": 2}', 1, 'none', 0, SYS_EXTRACT_UTC(SYSTIMESTAMP), SYS_EXTRACT_UTC(SYSTIMESTAMP), HEXTORAW('2D'))

/

COMMIT

/


-- analysis._statements.list_marked_heads(order=newest, scope=tenant, which=all, since=False, after=False)
SELECT threads.log_id, threads.thread_id, threads.namespace, threads.head_id, threads.created_at,
  threads.updated_at, threads.forked_from, threads.meta, threads.epoch, threads.version,
  threads.next_seq, CASE
WHEN (EXISTS (
    SELECT 1
    FROM deltas
    WHERE deltas.log_id = threads.log_id
    AND deltas.kind IN ('entry'))) THEN 1
ELSE 0 END AS has_entries
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND (threads.head_id IS NOT NULL
  OR (EXISTS (
      SELECT 1
      FROM deltas
      WHERE deltas.log_id = threads.log_id
      AND deltas.kind IN ('entry'))))
ORDER BY threads.active_at DESC, threads.updated_at DESC, threads.thread_id, threads.namespace
FETCH FIRST :p_limit ROWS ONLY

-- checkpoints.forget.clear_fork_origin()
UPDATE threads
SET forked_from=NULL, forked_seq=NULL
WHERE threads.tenant = :k_tenant
AND threads.forked_from = :k_thread_id

-- checkpoints.forget.delete_internal_items()
DELETE FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace >= :p_internal
AND store_items.namespace < :p_internal_end

-- checkpoints.forget.delete_rows_of_tenant(table=embeddings)
DELETE FROM embeddings
WHERE embeddings.tenant = :k_tenant

-- checkpoints.forget.forget_item(why=rows)
DELETE FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND store_items.key = :k_key
AND store_items.version = :p_version

-- checkpoints.forget.list_all_logs_below()
SELECT threads.thread_id, threads.namespace
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.namespace >= :k_namespace
AND threads.namespace < :k_beyond
ORDER BY threads.thread_id, threads.namespace

-- checkpoints.forget.list_items_with_metadata(narrowed=False, after=False)
SELECT store_items.namespace, store_items.key, store_items.version, store_items.meta
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace >= :k_namespace
AND store_items.namespace < :k_beyond
AND NOT (store_items.namespace >= :k_internal
  AND store_items.namespace < :k_internal_end)
ORDER BY store_items.namespace, store_items.key
FETCH FIRST :p_limit ROWS ONLY

-- checkpoints.listing.list_by_id(scope=log, until=True, after=True)
SELECT threads.thread_id, threads.namespace, checkpoints.checkpoint_id, checkpoints.parent_id,
  checkpoints.seq, checkpoints.meta, checkpoints.created_at, checkpoints.raw_size,
  checkpoints.stored_size, checkpoints.occurred_at, checkpoints.ordinal, checkpoints.rests_on,
  checkpoints.run_id, checkpoints.signature
FROM checkpoints
JOIN threads ON threads.log_id = checkpoints.log_id
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
WHERE checkpoints.log_id = :k_log_id
AND checkpoints.checkpoint_id < :p_until
AND (checkpoints.checkpoint_id < :p_checkpoint_id
  OR checkpoints.checkpoint_id = :p_checkpoint_id
  AND threads.thread_id >= :p_thread_id
  AND (threads.thread_id > :p_thread_id
    OR threads.thread_id = :p_thread_id
    AND threads.namespace > :p_namespace))
ORDER BY checkpoints.checkpoint_id DESC, threads.thread_id, threads.namespace
FETCH FIRST :p_limit ROWS ONLY

-- checkpoints.listing.list_by_metadata(kind=text, exact=False)
WITH newest AS (
  SELECT checkpoints.log_id AS log_id, checkpoints.seq AS seq
  FROM checkpoints
  WHERE checkpoints.tenant = :k_tenant
  AND json_equal(checkpoints.meta, json_mergepatch(checkpoints.meta, :match_pair RETURNING JSON))
  AND (EXISTS (
      SELECT 1
      FROM threads
      WHERE threads.log_id = checkpoints.log_id
      AND threads.tenant = :k_tenant
      AND threads.namespace = :k_namespace
      AND threads.deleted_at IS NULL
      AND (threads.expires_at IS NULL
        OR threads.expires_at > :p_now)))
  ORDER BY checkpoints.created_at DESC, checkpoints.seq DESC, checkpoints.log_id
  FETCH FIRST :p_limit ROWS ONLY)
SELECT threads.thread_id, threads.namespace, checkpoints.checkpoint_id, checkpoints.parent_id,
  checkpoints.seq, checkpoints.meta, checkpoints.created_at, checkpoints.raw_size,
  checkpoints.stored_size, checkpoints.occurred_at, checkpoints.ordinal, checkpoints.rests_on,
  checkpoints.run_id, checkpoints.signature, CASE
WHEN json_equal(checkpoints.meta, json_mergepatch(checkpoints.meta,
      :match_pair RETURNING JSON)) THEN 1
ELSE 0 END AS is_equal
FROM newest
JOIN checkpoints ON checkpoints.log_id = newest.log_id
AND checkpoints.seq = newest.seq
JOIN threads ON threads.log_id = checkpoints.log_id
ORDER BY checkpoints.created_at DESC, checkpoints.seq DESC, checkpoints.log_id

-- checkpoints.listing.list_checkpoints(before=True)
SELECT threads.thread_id, threads.namespace, checkpoints.checkpoint_id, checkpoints.parent_id,
  checkpoints.seq, checkpoints.meta, checkpoints.created_at, checkpoints.raw_size,
  checkpoints.stored_size, checkpoints.occurred_at, checkpoints.ordinal, checkpoints.rests_on,
  checkpoints.run_id, checkpoints.signature
FROM checkpoints
JOIN threads ON threads.log_id = checkpoints.log_id
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
WHERE checkpoints.log_id = :k_log_id
AND checkpoints.seq < :p_before
ORDER BY checkpoints.seq DESC
FETCH FIRST :p_limit ROWS ONLY

-- checkpoints.listing.list_checkpoints_of_runs()
WITH made AS (
  SELECT checkpoints.log_id AS log_id, checkpoints.seq AS seq,
    checkpoints.checkpoint_id AS checkpoint_id
  FROM checkpoints
  WHERE checkpoints.tenant = :k_tenant
  AND checkpoints.run_id IN (
    SELECT listed.run_id
    FROM (
      SELECT each_.run_id
      FROM JSON_TABLE(:p_keys, '$[*]' COLUMNS (run_id VARCHAR2(4000) PATH '$[0]')) each_) listed))
SELECT threads.thread_id, threads.namespace, made.seq, made.checkpoint_id
FROM made
JOIN threads ON threads.log_id = made.log_id
WHERE threads.tenant = :k_tenant
AND threads.namespace >= :k_namespace
AND threads.namespace < :k_beyond
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
ORDER BY threads.thread_id, threads.namespace

-- checkpoints.listing.list_newest()
SELECT heads.thread_id, heads.namespace, checkpoints.checkpoint_id, checkpoints.parent_id,
  checkpoints.seq, checkpoints.meta, checkpoints.created_at, checkpoints.raw_size,
  checkpoints.stored_size, checkpoints.occurred_at, checkpoints.ordinal, checkpoints.rests_on,
  checkpoints.run_id, checkpoints.signature
FROM checkpoints
JOIN (
  SELECT threads.log_id AS log_id, threads.thread_id AS thread_id, threads.namespace AS namespace
  FROM threads
  JOIN checkpoints newest ON newest.log_id = threads.log_id
  AND newest.checkpoint_id = threads.head_id
  WHERE threads.tenant = :k_tenant
  AND threads.namespace = :k_namespace
  AND threads.deleted_at IS NULL
  AND (threads.expires_at IS NULL
    OR threads.expires_at > :p_now)
  ORDER BY newest.created_at DESC, newest.seq DESC, newest.log_id
  FETCH FIRST :p_limit ROWS ONLY) heads ON checkpoints.log_id = heads.log_id
ORDER BY checkpoints.created_at DESC, checkpoints.seq DESC, checkpoints.log_id
FETCH FIRST :p_limit ROWS ONLY

-- checkpoints.listing.list_of_logs()
SELECT threads.thread_id, threads.namespace, checkpoints.checkpoint_id, checkpoints.parent_id,
  checkpoints.seq, checkpoints.meta, checkpoints.created_at, checkpoints.raw_size,
  checkpoints.stored_size, checkpoints.occurred_at, checkpoints.ordinal, checkpoints.rests_on,
  checkpoints.run_id, checkpoints.signature
FROM (
  SELECT HEXTORAW(REPLACE(each_.log_id, '-')) AS log_id
  FROM JSON_TABLE(:p_logs, '$[*]' COLUMNS (log_id VARCHAR2(4000) PATH '$[0]')) each_) listed
JOIN threads ON threads.log_id = listed.log_id
JOIN checkpoints ON checkpoints.log_id = threads.log_id
WHERE threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
ORDER BY threads.thread_id, threads.namespace, checkpoints.seq

-- checkpoints.listing.list_oldest()
SELECT threads.thread_id, threads.namespace, checkpoints.checkpoint_id, checkpoints.parent_id,
  checkpoints.seq, checkpoints.meta, checkpoints.created_at, checkpoints.raw_size,
  checkpoints.stored_size, checkpoints.occurred_at, checkpoints.ordinal, checkpoints.rests_on,
  checkpoints.run_id, checkpoints.signature
FROM checkpoints
JOIN threads ON threads.log_id = checkpoints.log_id
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
WHERE checkpoints.log_id = :k_log_id
AND checkpoints.seq > :p_after
ORDER BY checkpoints.seq
FETCH FIRST :p_limit ROWS ONLY

-- checkpoints.listing.list_threads_by_metadata(kind=text)
SELECT threads.thread_id
FROM checkpoints
JOIN threads ON threads.log_id = checkpoints.log_id
WHERE checkpoints.tenant = :k_tenant
AND json_equal(checkpoints.meta, json_mergepatch(checkpoints.meta, :match_pair RETURNING JSON))
UNION
SELECT threads.thread_id
FROM threads
WHERE threads.tenant = :k_tenant
AND CASE
WHEN (1 = 1) THEN CASE
WHEN json_equal(threads.meta, json_mergepatch(threads.meta, :match_pair RETURNING JSON)) THEN 1
ELSE 0 END
ELSE 0 END = 1

-- checkpoints.listing.list_threads_without_metadata()
SELECT threads.thread_id, threads.namespace
FROM threads
WHERE threads.tenant = :k_tenant
AND 1 = 0

-- checkpoints.listing.list_until()
SELECT threads.thread_id, threads.namespace, checkpoints.checkpoint_id, checkpoints.parent_id,
  checkpoints.seq, checkpoints.meta, checkpoints.created_at, checkpoints.raw_size,
  checkpoints.stored_size, checkpoints.occurred_at, checkpoints.ordinal, checkpoints.rests_on,
  checkpoints.run_id, checkpoints.signature
FROM checkpoints
JOIN threads ON threads.log_id = checkpoints.log_id
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
WHERE checkpoints.log_id = :k_log_id
AND checkpoints.occurred_at <= :p_moment
ORDER BY checkpoints.occurred_at DESC, checkpoints.seq DESC
FETCH FIRST :p_limit ROWS ONLY

-- checkpoints.listing.measure_log()
SELECT count(*) AS count_1, coalesce(sum(checkpoints.raw_size), :coalesce_2) AS coalesce_1,
  coalesce(sum(checkpoints.stored_size), :coalesce_4) AS coalesce_3, CASE
WHEN (count(*) = 0) THEN 0
WHEN (count(*) = (
    SELECT threads.next_seq
    FROM threads
    WHERE threads.log_id = :k_log_id) - 1) THEN count(*) - (
  SELECT count(*) AS count_2
  FROM deltas
  WHERE deltas.log_id = :k_log_id
  AND deltas.base_seq IS NOT NULL)
WHEN (count(*) = (
    SELECT count(*) AS count_3
    FROM deltas
    WHERE deltas.log_id = :k_log_id) - (
    SELECT count(*) AS count_4
    FROM deltas
    WHERE deltas.log_id = :k_log_id
    AND deltas.entry_key IS NOT NULL)) THEN count(*) - (
  SELECT count(*) AS count_2
  FROM deltas
  WHERE deltas.log_id = :k_log_id
  AND deltas.base_seq IS NOT NULL)
ELSE (
  SELECT count(*) AS count_5
  FROM deltas
  JOIN checkpoints ON deltas.log_id = checkpoints.log_id
  AND deltas.seq = checkpoints.seq
  WHERE deltas.log_id = :k_log_id
  AND deltas.kind IN ('snapshot')) END AS anon_1
FROM checkpoints
WHERE checkpoints.log_id = :k_log_id
AND (EXISTS (
    SELECT 1
    FROM threads
    WHERE threads.log_id = :k_log_id
    AND threads.deleted_at IS NULL
    AND (threads.expires_at IS NULL
      OR threads.expires_at > :p_now)))

-- checkpoints.listing.read_checkpoint()
SELECT threads.thread_id, threads.namespace, checkpoints.checkpoint_id, checkpoints.parent_id,
  checkpoints.seq, checkpoints.meta, checkpoints.created_at, checkpoints.raw_size,
  checkpoints.stored_size, checkpoints.occurred_at, checkpoints.ordinal, checkpoints.rests_on,
  checkpoints.run_id, checkpoints.signature
FROM checkpoints
JOIN threads ON threads.log_id = checkpoints.log_id
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
WHERE checkpoints.log_id = :k_log_id
AND checkpoints.checkpoint_id = :p_checkpoint_id

-- checkpoints.load.read_chain(which=newest, signed=False)
WITH chain(checkpoint_id, raw_size, epoch, seq, base_seq, depth, codec, checksum, payload) AS (
  SELECT checkpoints.checkpoint_id AS checkpoint_id, checkpoints.raw_size AS raw_size,
    threads.epoch AS epoch, deltas.seq AS seq, deltas.base_seq AS base_seq, deltas.depth AS depth,
    deltas.codec AS codec, deltas.checksum AS checksum, CASE
  WHEN (checkpoints.checkpoint_id = :held_checkpoint_id
    AND threads.epoch = :held_epoch
    AND deltas.seq = :held_seq
    AND deltas.checksum = :held_checksum) THEN NULL
  ELSE deltas.payload END AS payload
  FROM threads
  JOIN deltas ON deltas.log_id = threads.log_id
  JOIN checkpoints ON checkpoints.log_id = deltas.log_id
  AND checkpoints.seq = deltas.seq
  WHERE checkpoints.log_id = :k_log_id
  AND checkpoints.seq = (
    SELECT max(wanted.seq) AS max_1
    FROM checkpoints wanted
    WHERE wanted.log_id = :k_log_id)
  AND threads.deleted_at IS NULL
  AND (threads.expires_at IS NULL
    OR threads.expires_at > :p_now)
  UNION ALL
  SELECT chain.checkpoint_id AS checkpoint_id, chain.raw_size AS raw_size, chain.epoch AS epoch,
    base.seq AS seq, base.base_seq AS base_seq, base.depth AS depth, base.codec AS codec,
    base.checksum AS checksum, base.payload AS payload
  FROM chain
  JOIN deltas base ON base.seq = chain.base_seq
  AND base.seq < chain.seq
  WHERE base.log_id = :k_log_id
  AND chain.payload IS NOT NULL)
SELECT chain.checkpoint_id, chain.raw_size, chain.epoch, chain.seq, chain.base_seq, chain.depth,
  chain.codec, chain.checksum, chain.payload
FROM chain

-- checkpoints.load.read_snapshot(which=newest, signed=False)
WITH chain(parent_id, checkpoint_id, raw_size, epoch, seq, base_seq, depth, codec, checksum,
    payload) AS (
  SELECT (
    SELECT parent.checkpoint_id
    FROM checkpoints parent
    WHERE parent.log_id = checkpoints.log_id
    AND parent.checkpoint_id = checkpoints.parent_id) AS parent_id,
    checkpoints.checkpoint_id AS checkpoint_id, checkpoints.raw_size AS raw_size,
    threads.epoch AS epoch, deltas.seq AS seq, deltas.base_seq AS base_seq, deltas.depth AS depth,
    deltas.codec AS codec, deltas.checksum AS checksum, CASE
  WHEN (checkpoints.checkpoint_id = :held_checkpoint_id
    AND threads.epoch = :held_epoch
    AND deltas.seq = :held_seq
    AND deltas.checksum = :held_checksum) THEN NULL
  ELSE deltas.payload END AS payload
  FROM threads
  JOIN deltas ON deltas.log_id = threads.log_id
  JOIN checkpoints ON checkpoints.log_id = deltas.log_id
  AND checkpoints.seq = deltas.seq
  WHERE checkpoints.log_id = :k_log_id
  AND checkpoints.seq = (
    SELECT max(wanted.seq) AS max_1
    FROM checkpoints wanted
    WHERE wanted.log_id = :k_log_id)
  AND threads.deleted_at IS NULL
  AND (threads.expires_at IS NULL
    OR threads.expires_at > :p_now)
  UNION ALL
  SELECT chain.parent_id AS parent_id, chain.checkpoint_id AS checkpoint_id,
    chain.raw_size AS raw_size, chain.epoch AS epoch, base.seq AS seq, base.base_seq AS base_seq,
    base.depth AS depth, base.codec AS codec, base.checksum AS checksum, base.payload AS payload
  FROM chain
  JOIN deltas base ON base.seq = chain.base_seq
  AND base.seq < chain.seq
  WHERE base.log_id = :k_log_id
  AND chain.payload IS NOT NULL)
SELECT chain.parent_id, chain.checkpoint_id, chain.raw_size, chain.epoch, chain.seq,
  chain.base_seq, chain.depth, chain.codec, chain.checksum, chain.payload, 2 AS overwrites
FROM chain
UNION ALL
SELECT deltas.label AS parent_id, deltas.label AS checkpoint_id, deltas.seq AS raw_size,
  deltas.seq AS epoch, deltas.seq, deltas.base_seq, deltas.depth, deltas.codec, deltas.checksum,
  deltas.payload, deltas.overwrites
FROM deltas
WHERE deltas.log_id = :k_log_id
AND deltas.kind IN ('write')
AND deltas.entry_key >= ('w/' || (
    SELECT name.checkpoint_id
    FROM checkpoints name
    WHERE name.log_id = :k_log_id
    AND name.seq = (
      SELECT max(wanted.seq) AS max_2
      FROM checkpoints wanted
      WHERE wanted.log_id = :k_log_id)) || '/')
AND deltas.entry_key < ('w/' || (
    SELECT name.checkpoint_id
    FROM checkpoints name
    WHERE name.log_id = :k_log_id
    AND name.seq = (
      SELECT max(wanted.seq) AS max_2
      FROM checkpoints wanted
      WHERE wanted.log_id = :k_log_id)) || '0')
AND deltas.label = (
  SELECT name.checkpoint_id
  FROM checkpoints name
  WHERE name.log_id = :k_log_id
  AND name.seq = (
    SELECT max(wanted.seq) AS max_2
    FROM checkpoints wanted
    WHERE wanted.log_id = :k_log_id))

-- checkpoints.rewrite.list_in_order()
SELECT checkpoints.checkpoint_id, checkpoints.seq
FROM checkpoints
WHERE checkpoints.log_id = :k_log_id
ORDER BY checkpoints.seq

-- checkpoints.rewrite.rewrite_delta()
UPDATE deltas
SET kind=:p_kind, base_seq=:p_base_seq, depth=:p_depth, radix=:p_radix, codec=:p_codec,
  checksum=:p_checksum, payload=:p_payload
WHERE deltas.log_id = :k_log_id
AND deltas.seq = :p_seq

-- checkpoints.rewrite.rewrite_size()
UPDATE checkpoints
SET stored_size=:p_stored_size
WHERE checkpoints.log_id = :k_log_id
AND checkpoints.seq = :p_seq

-- checkpoints.roads.read_state_row()
SELECT deltas.seq, deltas.checksum
FROM checkpoints
JOIN deltas ON deltas.log_id = checkpoints.log_id
AND deltas.seq = checkpoints.seq
WHERE checkpoints.log_id = :k_log_id
AND checkpoints.checkpoint_id = :p_checkpoint_id

-- checkpoints.save.find_saved()
SELECT checkpoints.seq, threads.version, threads.epoch, threads.previous_id, deltas.checksum
FROM checkpoints
JOIN threads ON threads.log_id = checkpoints.log_id
JOIN deltas ON deltas.log_id = checkpoints.log_id
AND deltas.seq = checkpoints.seq
WHERE checkpoints.log_id = :k_log_id
AND checkpoints.checkpoint_id = :p_checkpoint_id
AND checkpoints.created_at = :p_created_at

-- checkpoints.snapshots.read_states(alive=True, signed=False)
WITH needed(log_id, seq, base_seq) AS (
  SELECT deltas.log_id AS log_id, deltas.seq AS seq, deltas.base_seq AS base_seq
  FROM (
    SELECT HEXTORAW(REPLACE(each_.log_id, '-')) AS log_id, each_.checkpoint_id
    FROM JSON_TABLE(:p_keys, '$[*]' COLUMNS (log_id VARCHAR2(4000) PATH '$[0]',
          checkpoint_id VARCHAR2(4000) PATH '$[1]')) each_) listed
  JOIN threads ON threads.log_id = listed.log_id
  AND threads.deleted_at IS NULL
  AND (threads.expires_at IS NULL
    OR threads.expires_at > :p_now)
  JOIN checkpoints ON checkpoints.log_id = listed.log_id
  AND checkpoints.checkpoint_id = listed.checkpoint_id
  JOIN deltas ON deltas.log_id = checkpoints.log_id
  AND deltas.seq = checkpoints.seq
  UNION ALL
  SELECT base.log_id AS log_id, base.seq AS seq, base.base_seq AS base_seq
  FROM needed
  JOIN deltas base ON base.log_id = needed.log_id
  AND base.seq = needed.base_seq
  AND base.seq < needed.seq)
SELECT deltas.log_id, name.checkpoint_id, parent.checkpoint_id AS parent_id, deltas.seq,
  deltas.base_seq, deltas.depth, deltas.codec, deltas.checksum, deltas.payload
FROM (
  SELECT DISTINCT needed.log_id AS log_id, needed.seq AS seq
  FROM needed) places
JOIN deltas ON deltas.log_id = places.log_id
AND deltas.seq = places.seq LEFT OUTER
JOIN checkpoints name ON name.log_id = deltas.log_id
AND name.seq = deltas.seq LEFT OUTER
JOIN checkpoints parent ON parent.log_id = name.log_id
AND parent.checkpoint_id = name.parent_id
WHERE deltas.kind IN ('snapshot', 'delta')
ORDER BY deltas.seq

-- database.clock.read_clock()
SELECT SYS_EXTRACT_UTC(SYSTIMESTAMP) AS now
FROM DUAL

-- database.clock.read_takes_writes()
SELECT CASE
WHEN sys_context('USERENV', 'DATABASE_ROLE') = 'PRIMARY' THEN 1
ELSE 0 END AS writes
FROM DUAL

-- inspection._statements.changed_items(below=False, internal=8)
SELECT store_items.namespace, store_items.key, store_items.updated_at
FROM store_items
WHERE store_items.updated_at >= :p_after
AND store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now)
AND store_items.namespace NOT LIKE :p_internal_0 ESCAPE '\'
AND store_items.namespace NOT LIKE :p_internal_1 ESCAPE '\'
AND store_items.namespace NOT LIKE :p_internal_2 ESCAPE '\'
AND store_items.namespace NOT LIKE :p_internal_3 ESCAPE '\'
AND store_items.namespace NOT LIKE :p_internal_4 ESCAPE '\'
AND store_items.namespace NOT LIKE :p_internal_5 ESCAPE '\'
AND store_items.namespace NOT LIKE :p_internal_6 ESCAPE '\'
AND store_items.namespace NOT LIKE :p_internal_7 ESCAPE '\'
ORDER BY store_items.updated_at DESC
FETCH FIRST :p_limit ROWS ONLY

-- inspection._statements.changed_logs()
SELECT threads.log_id, threads.thread_id, threads.namespace, threads.updated_at, threads.version,
  threads.next_seq
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.active_at >= :p_active_at
ORDER BY threads.active_at DESC
FETCH FIRST :p_limit ROWS ONLY

-- inspection._statements.count_logs_of_namespaces(scope=below, exact=False)
SELECT count(*) AS logs
FROM (
  SELECT 1 AS one
  FROM threads
  WHERE threads.tenant = :k_tenant
  AND threads.namespace >= :k_namespace
  AND threads.namespace < :k_beyond
  FETCH FIRST :p_limit ROWS ONLY) some_logs

-- inspection._statements.count_some_items(below=False, internal=8)
SELECT count(*) AS items
FROM (
  SELECT 1 AS one
  FROM store_items
  WHERE store_items.tenant = :k_tenant
  AND store_items.namespace = :k_namespace
  AND (store_items.expires_at IS NULL
    OR store_items.expires_at > :p_now)
  AND store_items.namespace NOT LIKE :p_internal_0 ESCAPE '\'
  AND store_items.namespace NOT LIKE :p_internal_1 ESCAPE '\'
  AND store_items.namespace NOT LIKE :p_internal_2 ESCAPE '\'
  AND store_items.namespace NOT LIKE :p_internal_3 ESCAPE '\'
  AND store_items.namespace NOT LIKE :p_internal_4 ESCAPE '\'
  AND store_items.namespace NOT LIKE :p_internal_5 ESCAPE '\'
  AND store_items.namespace NOT LIKE :p_internal_6 ESCAPE '\'
  AND store_items.namespace NOT LIKE :p_internal_7 ESCAPE '\'
  FETCH FIRST :p_limit ROWS ONLY) some_items

-- inspection._statements.find_listed_checkpoints()
SELECT checkpoints.checkpoint_id, checkpoints.seq
FROM checkpoints
WHERE checkpoints.log_id = :k_log_id
AND checkpoints.checkpoint_id IN (
  SELECT listed.checkpoint_id
  FROM (
    SELECT each_.checkpoint_id
    FROM JSON_TABLE(:p_keys, '$[*]' COLUMNS (checkpoint_id VARCHAR2(4000) PATH '$[0]')) each_) listed)

-- inspection._statements.list_item_rows(order=newest, below=False, after=False, internal=8)
SELECT store_items.namespace, store_items.key, store_items.meta, store_items.version,
  store_items.codec, store_items.checksum, store_items.created_at, store_items.updated_at,
  store_items.expires_at, store_items.lifetime, store_items.signature,
  length(store_items.value) AS bytes, CASE
WHEN (length(store_items.value) <= :p_most) THEN store_items.value END AS value, (
  SELECT count(*) AS count_1
  FROM embeddings
  WHERE embeddings.tenant = store_items.tenant
  AND embeddings.namespace = store_items.namespace
  AND embeddings.key = store_items.key) AS vectors
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now)
AND store_items.namespace NOT LIKE :p_internal_0 ESCAPE '\'
AND store_items.namespace NOT LIKE :p_internal_1 ESCAPE '\'
AND store_items.namespace NOT LIKE :p_internal_2 ESCAPE '\'
AND store_items.namespace NOT LIKE :p_internal_3 ESCAPE '\'
AND store_items.namespace NOT LIKE :p_internal_4 ESCAPE '\'
AND store_items.namespace NOT LIKE :p_internal_5 ESCAPE '\'
AND store_items.namespace NOT LIKE :p_internal_6 ESCAPE '\'
AND store_items.namespace NOT LIKE :p_internal_7 ESCAPE '\'
ORDER BY store_items.updated_at DESC, store_items.namespace DESC, store_items.key DESC
FETCH FIRST :p_limit ROWS ONLY

-- inspection._statements.list_recent(scope=tenant, like=False, after=False)
SELECT threads.log_id, threads.thread_id, threads.namespace, threads.head_id, threads.created_at,
  threads.updated_at, threads.forked_from, threads.meta
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND (threads.head_id IS NOT NULL
  OR (EXISTS (
      SELECT 1
      FROM deltas
      WHERE deltas.log_id = threads.log_id
      AND deltas.kind IN ('entry'))))
ORDER BY threads.active_at DESC, threads.updated_at DESC, threads.thread_id, threads.namespace
FETCH FIRST :p_limit ROWS ONLY

-- inspection._statements.list_vectors()
SELECT embeddings.field, embeddings.model, embeddings.part, embeddings.dimensions
FROM embeddings
WHERE embeddings.tenant = :k_tenant
AND embeddings.namespace = :k_namespace
AND embeddings.key = :k_key
ORDER BY embeddings.field, embeddings.model, embeddings.part
FETCH FIRST :p_limit ROWS ONLY

-- inspection._statements.match_ids(scope=tenant)
SELECT threads.thread_id, threads.namespace
FROM threads
WHERE threads.tenant = :k_tenant
AND lower(threads.thread_id) LIKE :p_like ESCAPE '\'
AND threads.thread_id >= :p_low
AND threads.thread_id < :p_high
ORDER BY threads.thread_id
FETCH FIRST :p_limit ROWS ONLY

-- inspection._statements.match_ids_of_few(scope=below)
SELECT threads.thread_id, threads.namespace
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.namespace >= :k_namespace
AND threads.namespace < :k_beyond
AND lower(threads.thread_id) LIKE :p_like ESCAPE '\'
FETCH FIRST :p_limit ROWS ONLY

-- inspection._statements.measure_item()
SELECT length(store_items.value) AS bytes
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND store_items.key = :k_key
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now)

-- inspection._statements.next_namespace()
SELECT min(threads.namespace) AS place
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.namespace >= :p_low

-- inspection._statements.read_activity(end=first)
SELECT deltas.seq, deltas.kind, deltas.entry_key, deltas.overwrites, deltas.codec, deltas.checksum,
  deltas.stored_at, deltas.signature, coalesce(deltas.occurred_at,
    checkpoints.occurred_at) AS occurred_at, deltas.label, CASE
WHEN (deltas.kind IN ('entry', 'write')) THEN deltas.payload END AS payload,
  checkpoints.checkpoint_id, checkpoints.parent_id, checkpoints.meta, checkpoints.raw_size,
  checkpoints.stored_size, checkpoints.created_at
FROM deltas LEFT OUTER
JOIN checkpoints ON checkpoints.log_id = deltas.log_id
AND checkpoints.seq = deltas.seq
WHERE deltas.log_id = :k_log_id
AND deltas.seq > :p_after
AND (deltas.kind IN ('entry', 'write')
  OR checkpoints.checkpoint_id IS NOT NULL)
ORDER BY deltas.seq
FETCH FIRST :p_limit ROWS ONLY

-- inspection._statements.read_heads()
SELECT threads.log_id, threads.thread_id, threads.namespace, threads.head_id, threads.created_at,
  threads.updated_at, threads.forked_from, threads.meta
FROM threads
JOIN (
  SELECT HEXTORAW(REPLACE(each_.log_id, '-')) AS log_id
  FROM JSON_TABLE(:p_logs,
      '$[*]' COLUMNS (log_id VARCHAR2(4000) PATH '$[0]')) each_) listed ON threads.log_id = listed.log_id
WHERE threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND (threads.head_id IS NOT NULL
  OR (EXISTS (
      SELECT 1
      FROM deltas
      WHERE deltas.log_id = threads.log_id
      AND deltas.kind IN ('entry'))))

-- inspection._statements.read_last_entry_times()
SELECT listed.log_id, (
  SELECT deltas.occurred_at
  FROM deltas
  WHERE deltas.log_id = listed.log_id
  AND deltas.kind IN ('entry')
  ORDER BY deltas.seq DESC
  FETCH FIRST 1 ROWS ONLY) AS occurred_at
FROM (
  SELECT HEXTORAW(REPLACE(each_.log_id, '-')) AS log_id
  FROM JSON_TABLE(:p_logs, '$[*]' COLUMNS (log_id VARCHAR2(4000) PATH '$[0]')) each_) listed

-- inspection._statements.read_newest_checkpoints()
SELECT threads.thread_id, threads.namespace, checkpoints.checkpoint_id, checkpoints.parent_id,
  checkpoints.seq, checkpoints.meta, checkpoints.created_at, checkpoints.raw_size,
  checkpoints.stored_size, checkpoints.occurred_at, checkpoints.ordinal, checkpoints.rests_on,
  checkpoints.run_id, checkpoints.signature
FROM (
  SELECT HEXTORAW(REPLACE(each_.log_id, '-')) AS log_id
  FROM JSON_TABLE(:p_logs, '$[*]' COLUMNS (log_id VARCHAR2(4000) PATH '$[0]')) each_) listed
JOIN threads ON threads.log_id = listed.log_id
JOIN checkpoints ON checkpoints.log_id = threads.log_id
AND checkpoints.checkpoint_id = threads.head_id

-- inspection._statements.read_next_positions(one=False)
SELECT threads.namespace, threads.next_seq, threads.created_at, threads.updated_at
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
ORDER BY threads.updated_at DESC, threads.namespace
FETCH FIRST :p_limit ROWS ONLY

-- inspection._statements.read_small_writes()
SELECT deltas.label, deltas.seq, deltas.overwrites, deltas.codec, deltas.checksum,
  deltas.entry_key, deltas.stored_at, deltas.signature, CASE
WHEN (length(deltas.payload) <= :p_most) THEN deltas.payload END AS payload
FROM deltas
JOIN (
  SELECT each_.label, each_.low, each_.high
  FROM JSON_TABLE(:p_keys, '$[*]' COLUMNS (label VARCHAR2(4000) PATH '$[0]',
        low VARCHAR2(4000) PATH '$[1]',
        high VARCHAR2(4000) PATH '$[2]')) each_) listed ON deltas.entry_key >= listed.low
AND deltas.entry_key < listed.high
AND deltas.label = listed.label
WHERE deltas.log_id = :k_log_id
AND deltas.kind IN ('write')
ORDER BY deltas.seq

-- inspection._statements.skip_ids()
SELECT threads.thread_id
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.thread_id >= :p_low
ORDER BY threads.thread_id
OFFSET :p_offset ROWS
FETCH FIRST 1 ROWS ONLY

-- inspection._statements.sum_sampled_logs()
WITH first AS (
  SELECT threads.log_id AS log_id, threads.tenant AS tenant, threads.namespace AS namespace,
    threads.deleted_at AS deleted_at, threads.expires_at AS expires_at
  FROM threads
  ORDER BY threads.log_id
  FETCH FIRST :p_limit ROWS ONLY)
SELECT first.namespace, count(DISTINCT first.log_id) AS logs,
  count(checkpoints.seq) AS checkpoints, coalesce(sum(CASE
    WHEN (deltas.kind IN ('entry')) THEN :param_1
    ELSE :param_2 END), :coalesce_1) AS entries, coalesce(sum(coalesce(checkpoints.raw_size,
        length(deltas.payload))), :coalesce_2) AS raw_size,
  coalesce(sum(coalesce(checkpoints.stored_size, length(deltas.payload))),
    :coalesce_3) AS stored_size
FROM first
JOIN deltas ON deltas.log_id = first.log_id LEFT OUTER
JOIN checkpoints ON checkpoints.log_id = deltas.log_id
AND checkpoints.seq = deltas.seq
WHERE first.tenant = :k_tenant
AND first.deleted_at IS NULL
AND (first.expires_at IS NULL
  OR first.expires_at > :p_now)
GROUP BY first.namespace

-- log.append.delete_beyond_retention()
DELETE FROM checkpoints
WHERE checkpoints.log_id = :k_log_id
AND checkpoints.checkpoint_id != :p_checkpoint_id
AND checkpoints.seq <= (
  SELECT newest.seq
  FROM checkpoints newest
  WHERE newest.log_id = :k_log_id
  AND newest.checkpoint_id != :p_checkpoint_id
  ORDER BY newest.seq DESC
  OFFSET :p_keep ROWS
  FETCH FIRST 1 ROWS ONLY)
AND mod(checkpoints.ordinal, :p_every) != 0
AND checkpoints.occurred_at < :p_cutoff
AND (checkpoints.checkpoint_id NOT IN (
    WITH needed(log_id, checkpoint_id) AS (
      SELECT rested_on.log_id AS log_id, rested_on.checkpoint_id AS checkpoint_id
      FROM (
        SELECT kept.log_id AS log_id, kept.rests_on AS checkpoint_id
        FROM checkpoints kept
        WHERE kept.log_id = :k_log_id
        AND kept.rests_on IS NOT NULL
        AND NOT (kept.checkpoint_id != :p_checkpoint_id
          AND kept.seq <= (
            SELECT newest.seq
            FROM checkpoints newest
            WHERE newest.log_id = :k_log_id
            AND newest.checkpoint_id != :p_checkpoint_id
            ORDER BY newest.seq DESC
            OFFSET :p_keep ROWS
            FETCH FIRST 1 ROWS ONLY)
          AND mod(kept.ordinal, :p_every) != 0
          AND kept.occurred_at < :p_cutoff)
        UNION ALL
        SELECT below.log_id AS log_id, below.checkpoint_id AS checkpoint_id
        FROM checkpoints below
        WHERE below.log_id = :k_log_id
        AND below.checkpoint_id = :p_rests_on) rested_on
      UNION ALL
      SELECT checkpoints.log_id AS log_id, checkpoints.rests_on AS rests_on
      FROM needed
      JOIN checkpoints ON checkpoints.log_id = needed.log_id
      AND checkpoints.checkpoint_id = needed.checkpoint_id
      WHERE checkpoints.rests_on IS NOT NULL) CYCLE log_id, checkpoint_id
    SET goes_round TO '1' DEFAULT '0'
    SELECT needed.checkpoint_id
    FROM needed))

-- log.append.find_entry_keys()
SELECT deltas.entry_key, deltas.seq
FROM deltas
WHERE deltas.log_id = :k_log_id
AND deltas.entry_key IN (
  SELECT listed.entry_key
  FROM (
    SELECT each_.entry_key
    FROM JSON_TABLE(:p_keys, '$[*]' COLUMNS (entry_key VARCHAR2(4000) PATH '$[0]')) each_) listed)

-- log.append.insert_row(of=state)
INSERT INTO deltas (log_id, seq, tenant, kind, base_seq, depth, radix, codec, checksum,
    search_text, signature, payload)
VALUES (:k_log_id, :p_seq, :k_tenant, :p_kind, :p_base_seq, :p_depth, :p_radix, :p_codec,
    :p_checksum, :p_search_text, :p_signature, :p_payload)

-- log.bulk_delete.count_logs_to_delete(which=live, scope=namespace)
SELECT count(*) AS count_1
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.namespace = :k_namespace
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)

-- log.bulk_delete.delete_pruned_checkpoints(named=True)
DELETE FROM checkpoints
WHERE (checkpoints.log_id, checkpoints.seq) IN (
  WITH kept AS (
    SELECT listed.log_id AS log_id, (
      SELECT newest.seq
      FROM checkpoints newest
      WHERE newest.log_id = listed.log_id
      ORDER BY newest.seq DESC
      OFFSET :p_keep ROWS
      FETCH FIRST 1 ROWS ONLY) AS first_kept
    FROM (
      SELECT HEXTORAW(REPLACE(each_.log_id, '-')) AS log_id
      FROM JSON_TABLE(:p_logs, '$[*]' COLUMNS (log_id VARCHAR2(4000) PATH '$[0]')) each_) listed),
  ranked AS (
    SELECT checkpoints.log_id AS log_id, checkpoints.seq AS seq,
      checkpoints.checkpoint_id AS checkpoint_id, checkpoints.rests_on AS rests_on, CASE
    WHEN (checkpoints.seq < kept.first_kept
      AND mod(checkpoints.ordinal, :p_every) != 0
      AND checkpoints.occurred_at < :p_cutoff) THEN 1
    ELSE 0 END AS goes
    FROM checkpoints
    JOIN kept ON checkpoints.log_id = kept.log_id
    WHERE checkpoints.seq >= :p_low
    AND checkpoints.seq < :p_high),
  needed(log_id, checkpoint_id) AS (
    SELECT rested_on.log_id AS log_id, rested_on.checkpoint_id AS checkpoint_id
    FROM (
      SELECT ranked.log_id AS log_id, ranked.rests_on AS checkpoint_id
      FROM ranked
      WHERE ranked.goes = 0
      AND ranked.rests_on IS NOT NULL
      UNION ALL
      SELECT ranked.log_id AS log_id, ranked.checkpoint_id AS checkpoint_id
      FROM ranked
      JOIN checkpoints resting ON resting.log_id = ranked.log_id
      AND resting.rests_on = ranked.checkpoint_id
      WHERE NOT (resting.seq >= :p_low
        AND resting.seq < :p_high)) rested_on
    UNION ALL
    SELECT checkpoints.log_id AS log_id, checkpoints.rests_on AS rests_on
    FROM needed
    JOIN checkpoints ON checkpoints.log_id = needed.log_id
    AND checkpoints.checkpoint_id = needed.checkpoint_id
    WHERE checkpoints.rests_on IS NOT NULL
    AND checkpoints.seq >= :p_low
    AND checkpoints.seq < :p_high) CYCLE log_id, checkpoint_id
  SET goes_round TO '1' DEFAULT '0'
  SELECT found.log_id, found.seq
  FROM (
    SELECT ranked.log_id AS log_id, ranked.seq AS seq
    FROM ranked
    WHERE ranked.goes != 0
    AND CASE
    WHEN ((ranked.log_id, ranked.checkpoint_id) IN (
        SELECT needed.log_id, needed.checkpoint_id
        FROM needed)) THEN 0
    ELSE 1 END != 0) found)
RETURNING checkpoints.log_id, checkpoints.checkpoint_id
INTO :ret_0, :ret_1

-- log.bulk_delete.delete_pruned_writes()
DELETE FROM deltas
WHERE (deltas.log_id, deltas.seq) IN (
  SELECT found.log_id, found.seq
  FROM (
    SELECT deltas.log_id AS log_id, deltas.seq AS seq
    FROM deltas
    JOIN (
      SELECT HEXTORAW(REPLACE(each_.log_id, '-')) AS log_id, each_.label, each_.low, each_.high
      FROM JSON_TABLE(:p_keys, '$[*]' COLUMNS (log_id VARCHAR2(4000) PATH '$[0]',
            label VARCHAR2(4000) PATH '$[1]', low VARCHAR2(4000) PATH '$[2]',
            high VARCHAR2(4000) PATH '$[3]')) each_) listed ON deltas.log_id = listed.log_id
    AND deltas.entry_key >= listed.low
    AND deltas.entry_key < listed.high
    AND deltas.label = listed.label
    WHERE deltas.kind IN ('write')) found)

-- log.bulk_delete.delete_unneeded_states()
DELETE FROM deltas
WHERE deltas.log_id IN (
  SELECT listed.log_id
  FROM (
    SELECT HEXTORAW(REPLACE(each_.log_id, '-')) AS log_id
    FROM JSON_TABLE(:p_logs, '$[*]' COLUMNS (log_id VARCHAR2(4000) PATH '$[0]')) each_) listed)
AND deltas.kind IN ('snapshot', 'delta')
AND deltas.seq >= :p_low
AND deltas.seq < :p_high
AND CASE
WHEN ((deltas.log_id, deltas.seq) IN (
    WITH needed(log_id, seq) AS (
      SELECT roots.log_id AS log_id, roots.seq AS seq
      FROM (
        SELECT checkpoints.log_id AS log_id, checkpoints.seq AS seq
        FROM checkpoints
        JOIN (
          SELECT HEXTORAW(REPLACE(each_.log_id, '-')) AS log_id
          FROM JSON_TABLE(:p_logs,
              '$[*]' COLUMNS (log_id VARCHAR2(4000) PATH '$[0]')) each_) listed ON checkpoints.log_id = listed.log_id
        WHERE checkpoints.seq >= :p_low
        AND checkpoints.seq < :p_high
        UNION ALL
        SELECT deltas.log_id AS log_id, deltas.base_seq AS seq
        FROM deltas
        JOIN (
          SELECT HEXTORAW(REPLACE(each_.log_id, '-')) AS log_id
          FROM JSON_TABLE(:p_logs,
              '$[*]' COLUMNS (log_id VARCHAR2(4000) PATH '$[0]')) each_) listed ON deltas.log_id = listed.log_id
        WHERE deltas.seq >= :p_high
        AND deltas.base_seq >= :p_low
        AND deltas.base_seq < :p_high) roots
      UNION ALL
      SELECT deltas.log_id AS log_id, deltas.base_seq AS base_seq
      FROM needed
      JOIN deltas ON deltas.log_id = needed.log_id
      AND deltas.seq = needed.seq
      WHERE deltas.base_seq >= :p_low) CYCLE log_id, seq
    SET goes_round TO '1' DEFAULT '0'
    SELECT needed.log_id, needed.seq
    FROM needed)) THEN 0
ELSE 1 END != 0

-- log.bulk_delete.find_inverted()
SELECT checkpoints.seq
FROM checkpoints
JOIN checkpoints below ON below.log_id = checkpoints.log_id
AND below.checkpoint_id = checkpoints.rests_on
WHERE checkpoints.log_id = :k_log_id
AND checkpoints.rests_on IS NOT NULL
AND checkpoints.seq < below.seq
FETCH FIRST 1 ROWS ONLY

-- log.bulk_delete.find_window()
SELECT deltas.seq
FROM deltas
WHERE deltas.log_id = :k_log_id
AND deltas.seq < :p_high
ORDER BY deltas.seq DESC
OFFSET :p_window ROWS
FETCH FIRST 1 ROWS ONLY

-- log.bulk_delete.find_write()
SELECT deltas.seq
FROM deltas
JOIN (
  SELECT HEXTORAW(REPLACE(each_.log_id, '-')) AS log_id
  FROM JSON_TABLE(:p_logs,
      '$[*]' COLUMNS (log_id VARCHAR2(4000) PATH '$[0]')) each_) listed ON deltas.log_id = listed.log_id
WHERE deltas.entry_key >= :p_first_key
AND deltas.entry_key < :p_last_key
FETCH FIRST 1 ROWS ONLY

-- log.bulk_delete.list_prunable(scope=namespace, after=True)
WITH page AS (
  SELECT threads.log_id AS log_id, threads.thread_id AS thread_id, threads.namespace AS namespace
  FROM threads
  WHERE threads.tenant = :k_tenant
  AND threads.namespace = :k_namespace
  AND threads.thread_id >= :p_thread_id
  AND (threads.thread_id > :p_thread_id
    OR threads.namespace > :p_namespace)
  AND threads.deleted_at IS NULL
  AND (threads.expires_at IS NULL
    OR threads.expires_at > :p_now)
  AND threads.head_id IS NOT NULL
  ORDER BY threads.thread_id, threads.namespace
  FETCH FIRST :p_limit ROWS ONLY),
kept AS (
  SELECT page.log_id AS log_id, (
    SELECT newest.seq
    FROM checkpoints newest
    WHERE newest.log_id = page.log_id
    ORDER BY newest.seq DESC
    OFFSET :p_keep ROWS
    FETCH FIRST 1 ROWS ONLY) AS first_kept
  FROM page),
ranked AS (
  SELECT checkpoints.log_id AS log_id, checkpoints.seq AS seq,
    checkpoints.checkpoint_id AS checkpoint_id, checkpoints.rests_on AS rests_on, CASE
  WHEN (checkpoints.seq < kept.first_kept
    AND mod(checkpoints.ordinal, :p_every) != 0
    AND checkpoints.occurred_at < :p_cutoff) THEN 1
  ELSE 0 END AS goes
  FROM checkpoints
  JOIN kept ON checkpoints.log_id = kept.log_id),
needed(log_id, checkpoint_id) AS (
  SELECT ranked.log_id AS log_id, ranked.rests_on AS checkpoint_id
  FROM ranked
  WHERE ranked.goes = 0
  AND ranked.rests_on IS NOT NULL
  UNION ALL
  SELECT checkpoints.log_id AS log_id, checkpoints.rests_on AS rests_on
  FROM needed
  JOIN checkpoints ON checkpoints.log_id = needed.log_id
  AND checkpoints.checkpoint_id = needed.checkpoint_id
  WHERE checkpoints.rests_on IS NOT NULL) CYCLE log_id, checkpoint_id
SET goes_round TO '1' DEFAULT '0'
SELECT page.thread_id, page.namespace, sum(positions.named) AS names,
  sum(positions.going) AS going, sum(CASE
  WHEN (positions.state != 0
    AND positions.named = 0
    AND positions.built_on = 0) THEN 1
  ELSE 0 END) AS needless
FROM page
JOIN (
  SELECT each_position.log_id AS log_id, each_position.seq AS seq, max(each_position.named) AS named,
    max(each_position.going) AS going, max(each_position.state) AS state,
    max(each_position.built_on) AS built_on
  FROM (
    SELECT ranked.log_id AS log_id, ranked.seq AS seq, 1 AS named, CASE
    WHEN (ranked.goes != 0
      AND CASE
      WHEN ((ranked.log_id, ranked.checkpoint_id) IN (
          SELECT needed.log_id, needed.checkpoint_id
          FROM needed)) THEN 0
      ELSE 1 END != 0) THEN 1
    ELSE 0 END AS going, 0 AS state, 0 AS built_on
    FROM ranked
    UNION ALL
    SELECT deltas.log_id AS log_id, deltas.seq AS seq, 0 AS named, 0 AS going, 1 AS state, 0 AS built_on
    FROM deltas
    JOIN page ON deltas.log_id = page.log_id
    WHERE deltas.kind IN ('snapshot', 'delta')
    UNION ALL
    SELECT deltas.log_id AS log_id, deltas.base_seq AS seq, 0 AS named, 0 AS going, 0 AS state,
      1 AS built_on
    FROM deltas
    JOIN page ON deltas.log_id = page.log_id
    WHERE deltas.base_seq IS NOT NULL) each_position
  GROUP BY each_position.log_id, each_position.seq) positions ON positions.log_id = page.log_id
GROUP BY page.log_id, page.thread_id, page.namespace
ORDER BY page.thread_id, page.namespace

-- log.bulk_delete.list_ranked()
WITH kept AS (
  SELECT listed.log_id AS log_id, (
    SELECT newest.seq
    FROM checkpoints newest
    WHERE newest.log_id = listed.log_id
    ORDER BY newest.seq DESC
    OFFSET :p_keep ROWS
    FETCH FIRST 1 ROWS ONLY) AS first_kept
  FROM (
    SELECT HEXTORAW(REPLACE(each_.log_id, '-')) AS log_id
    FROM JSON_TABLE(:p_logs, '$[*]' COLUMNS (log_id VARCHAR2(4000) PATH '$[0]')) each_) listed),
ranked AS (
  SELECT checkpoints.log_id AS log_id, checkpoints.seq AS seq,
    checkpoints.checkpoint_id AS checkpoint_id, checkpoints.rests_on AS rests_on, CASE
  WHEN (checkpoints.seq < kept.first_kept
    AND mod(checkpoints.ordinal, :p_every) != 0
    AND checkpoints.occurred_at < :p_cutoff) THEN 1
  ELSE 0 END AS goes
  FROM checkpoints
  JOIN kept ON checkpoints.log_id = kept.log_id
  WHERE checkpoints.seq >= :p_low
  AND checkpoints.seq < :p_high),
needed(log_id, checkpoint_id) AS (
  SELECT rested_on.log_id AS log_id, rested_on.checkpoint_id AS checkpoint_id
  FROM (
    SELECT ranked.log_id AS log_id, ranked.rests_on AS checkpoint_id
    FROM ranked
    WHERE ranked.goes = 0
    AND ranked.rests_on IS NOT NULL
    UNION ALL
    SELECT ranked.log_id AS log_id, ranked.checkpoint_id AS checkpoint_id
    FROM ranked
    JOIN checkpoints resting ON resting.log_id = ranked.log_id
    AND resting.rests_on = ranked.checkpoint_id
    WHERE NOT (resting.seq >= :p_low
      AND resting.seq < :p_high)) rested_on
  UNION ALL
  SELECT checkpoints.log_id AS log_id, checkpoints.rests_on AS rests_on
  FROM needed
  JOIN checkpoints ON checkpoints.log_id = needed.log_id
  AND checkpoints.checkpoint_id = needed.checkpoint_id
  WHERE checkpoints.rests_on IS NOT NULL
  AND checkpoints.seq >= :p_low
  AND checkpoints.seq < :p_high) CYCLE log_id, checkpoint_id
SET goes_round TO '1' DEFAULT '0'
SELECT ranked.log_id, ranked.seq, ranked.checkpoint_id, checkpoints.parent_id, CASE
WHEN (ranked.goes != 0
  AND CASE
  WHEN ((ranked.log_id, ranked.checkpoint_id) IN (
      SELECT needed.log_id, needed.checkpoint_id
      FROM needed)) THEN 0
  ELSE 1 END != 0) THEN 1
ELSE 0 END AS goes, CASE
WHEN (deltas.search_text IS NOT NULL) THEN 1
ELSE 0 END AS has_words
FROM ranked
JOIN checkpoints ON checkpoints.log_id = ranked.log_id
AND checkpoints.seq = ranked.seq
JOIN deltas ON deltas.log_id = ranked.log_id
AND deltas.seq = ranked.seq
ORDER BY ranked.log_id, ranked.seq DESC

-- log.bulk_delete.list_stale(scope=namespace, after=True)
SELECT threads.thread_id, threads.namespace, threads.next_seq, (
  SELECT count(*) AS count_1
  FROM checkpoints
  WHERE checkpoints.log_id = threads.log_id) + (
  SELECT count(*) AS count_2
  FROM deltas
  WHERE deltas.log_id = threads.log_id
  AND deltas.kind IN ('entry')) AS going
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.namespace = :k_namespace
AND threads.thread_id >= :p_thread_id
AND (threads.thread_id > :p_thread_id
  OR threads.namespace > :p_namespace)
AND (threads.deleted_at IS NULL
  AND threads.updated_at < :p_cutoff
  AND NOT (EXISTS (
      SELECT 1
      FROM threads above
      WHERE above.tenant = threads.tenant
      AND above.thread_id = threads.thread_id
      AND above.namespace != threads.namespace
      AND above.namespace != '/'
      AND above.namespace = substr(threads.namespace, :substr_1, length(above.namespace))
      AND above.deleted_at IS NULL
      AND above.updated_at >= :p_cutoff))
  OR threads.expires_at <= :p_now
  OR threads.deleted_at < :p_tombstone_cutoff)
ORDER BY threads.thread_id, threads.namespace
FETCH FIRST :p_limit ROWS ONLY

-- log.bulk_delete.lock_batch(wait=True)
SELECT threads.log_id, threads.tenant, threads.thread_id, threads.namespace, threads.updated_at,
  threads.expires_at, threads.deleted_at
FROM threads
WHERE threads.log_id IN (
  SELECT listed.log_id
  FROM (
    SELECT HEXTORAW(REPLACE(each_.log_id, '-')) AS log_id
    FROM JSON_TABLE(:p_logs, '$[*]' COLUMNS (log_id VARCHAR2(4000) PATH '$[0]')) each_) listed)
FOR UPDATE

-- log.bulk_delete.move_epochs()
UPDATE threads
SET version=(threads.version + :version_1), epoch=(threads.epoch + :epoch_1)
WHERE threads.log_id IN (
  SELECT listed.log_id
  FROM (
    SELECT HEXTORAW(REPLACE(each_.log_id, '-')) AS log_id
    FROM JSON_TABLE(:p_logs, '$[*]' COLUMNS (log_id VARCHAR2(4000) PATH '$[0]')) each_) listed)

-- log.bulk_delete.read_batch()
SELECT threads.thread_id, threads.namespace, threads.updated_at, threads.expires_at,
  threads.deleted_at
FROM threads
WHERE threads.log_id IN (
  SELECT listed.log_id
  FROM (
    SELECT HEXTORAW(REPLACE(each_.log_id, '-')) AS log_id
    FROM JSON_TABLE(:p_logs, '$[*]' COLUMNS (log_id VARCHAR2(4000) PATH '$[0]')) each_) listed)

-- log.copy.copy_head()
INSERT INTO threads (log_id, tenant, thread_id, namespace, next_seq, version, last_ordinal, epoch,
    head_id, previous_id, meta, forked_from, forked_seq, created_at, updated_at, active_at,
    expires_at, deleted_at, signature)
SELECT :p_log_id AS log_id, threads.tenant AS tenant, :p_thread_id AS thread_id,
  :p_namespace AS namespace, :p_next_seq AS next_seq, :param_1 AS version, (
  SELECT coalesce(max(checkpoints.ordinal), 0) AS coalesce_1
  FROM checkpoints
  WHERE checkpoints.log_id = :k_log_id
  AND checkpoints.seq <= :p_until) AS last_ordinal, :p_epoch AS epoch, :p_head_id AS head_id,
  NULL AS previous_id, threads.meta AS meta, threads.thread_id AS forked_from,
  :p_until AS forked_seq, :p_now AS created_at, :p_now AS updated_at, :p_active_at AS active_at,
  threads.expires_at AS expires_at, NULL AS deleted_at, NULL AS signature
FROM threads
WHERE threads.log_id = :k_log_id

-- log.copy.copy_rows(table=checkpoints)
INSERT INTO checkpoints (log_id, seq, tenant, checkpoint_id, parent_id, ordinal, rests_on, run_id,
    meta, raw_size, stored_size, occurred_at, created_at, signature)
SELECT :p_log_id AS log_id, checkpoints.seq AS seq, checkpoints.tenant AS tenant,
  checkpoints.checkpoint_id AS checkpoint_id, checkpoints.parent_id AS parent_id,
  checkpoints.ordinal AS ordinal, checkpoints.rests_on AS rests_on, checkpoints.run_id AS run_id,
  checkpoints.meta AS meta, checkpoints.raw_size AS raw_size,
  checkpoints.stored_size AS stored_size, checkpoints.occurred_at AS occurred_at,
  checkpoints.created_at AS created_at, checkpoints.signature AS signature
FROM checkpoints
WHERE checkpoints.log_id = :k_log_id
AND checkpoints.seq <= :p_until

-- log.copy.find_content()
SELECT deltas.seq
FROM deltas
WHERE deltas.log_id = :k_log_id
AND ((deltas.kind NOT IN ('snapshot', 'delta'))
  OR (EXISTS (
      SELECT checkpoints.seq
      FROM checkpoints
      WHERE checkpoints.log_id = :k_log_id
      AND checkpoints.seq = deltas.seq)))
FETCH FIRST 1 ROWS ONLY

-- log.copy.find_last_write()
SELECT max(deltas.seq) AS seq
FROM deltas
WHERE deltas.log_id = :k_log_id
AND deltas.kind IN ('write')
AND deltas.label IN (
  SELECT checkpoints.checkpoint_id
  FROM checkpoints
  WHERE checkpoints.log_id = :k_log_id
  AND checkpoints.seq <= :p_until)

-- log.copy.find_newest_until()
SELECT checkpoints.checkpoint_id
FROM checkpoints
WHERE checkpoints.log_id = :k_log_id
AND checkpoints.seq <= :p_until
ORDER BY checkpoints.seq DESC
FETCH FIRST 1 ROWS ONLY

-- log.copy.has_entry()
SELECT deltas.seq
FROM deltas
WHERE deltas.log_id = :k_log_id
AND deltas.seq = :p_seq
AND deltas.kind IN ('entry')

-- log.copy.read_position()
SELECT checkpoints.seq
FROM checkpoints
WHERE checkpoints.log_id = :k_log_id
AND checkpoints.checkpoint_id = :p_checkpoint_id

-- log.copy.read_sealed()
SELECT deltas.seq, deltas.kind, deltas.label, deltas.codec, deltas.checksum, deltas.payload
FROM deltas
WHERE deltas.log_id = :k_log_id
AND deltas.seq > :p_after
ORDER BY deltas.seq
FETCH FIRST :p_limit ROWS ONLY

-- log.copy.replace_payload()
UPDATE deltas
SET codec=:p_codec, checksum=:p_checksum, payload=:p_payload
WHERE deltas.log_id = :k_log_id
AND deltas.seq = :p_seq

-- log.delete.delete_checkpoint_row()
DELETE FROM checkpoints
WHERE checkpoints.log_id = :k_log_id
AND checkpoints.checkpoint_id = :p_checkpoint_id
AND NOT (EXISTS (
    SELECT resting.seq
    FROM checkpoints resting
    WHERE resting.log_id = checkpoints.log_id
    AND resting.rests_on = checkpoints.checkpoint_id))
RETURNING checkpoints.seq
INTO :ret_0

-- log.delete.delete_checkpoint_rows()
DELETE FROM checkpoints
WHERE checkpoints.log_id = :k_log_id
AND checkpoints.checkpoint_id IN (
  SELECT listed.checkpoint_id
  FROM (
    SELECT each_.checkpoint_id
    FROM JSON_TABLE(:p_keys, '$[*]' COLUMNS (checkpoint_id VARCHAR2(4000) PATH '$[0]')) each_) listed)

-- log.delete.delete_rows(table=checkpoints, why=order)
DELETE FROM checkpoints
WHERE checkpoints.log_id IN (
  SELECT listed.log_id
  FROM (
    SELECT HEXTORAW(REPLACE(each_.log_id, '-')) AS log_id
    FROM JSON_TABLE(:p_logs, '$[*]' COLUMNS (log_id VARCHAR2(4000) PATH '$[0]')) each_) listed)

-- log.delete.delete_unneeded_state()
DELETE FROM deltas
WHERE deltas.log_id = :k_log_id
AND deltas.seq = :p_seq
AND deltas.kind IN ('snapshot', 'delta')
AND NOT (EXISTS (
    SELECT checkpoints.seq
    FROM checkpoints
    WHERE checkpoints.log_id = :k_log_id
    AND checkpoints.seq = :p_seq))
AND NOT (EXISTS (
    SELECT child.seq
    FROM deltas child
    WHERE child.log_id = :k_log_id
    AND child.base_seq = :p_seq))
RETURNING deltas.base_seq
INTO :ret_0

-- log.delete.delete_writes()
DELETE FROM deltas
WHERE deltas.log_id = :k_log_id
AND deltas.kind IN ('write')
AND deltas.entry_key >= :p_low
AND deltas.entry_key < :p_high
AND deltas.label = :p_checkpoint_id

-- log.delete.delete_writes_of_checkpoints()
DELETE FROM deltas
WHERE deltas.log_id = :k_log_id
AND deltas.kind IN ('write')
AND deltas.label IN (
  SELECT listed.label
  FROM (
    SELECT each_.label
    FROM JSON_TABLE(:p_keys, '$[*]' COLUMNS (label VARCHAR2(4000) PATH '$[0]')) each_) listed)

-- log.delete.leave_tombstones()
UPDATE threads
SET version=(threads.version + :version_1), last_ordinal=0, epoch=(threads.epoch + :epoch_1),
  head_id=NULL, previous_id=NULL, meta=:p_meta, forked_from=NULL, forked_seq=NULL, expires_at=NULL,
  deleted_at=:p_now
WHERE threads.log_id IN (
  SELECT listed.log_id
  FROM (
    SELECT HEXTORAW(REPLACE(each_.log_id, '-')) AS log_id
    FROM JSON_TABLE(:p_logs, '$[*]' COLUMNS (log_id VARCHAR2(4000) PATH '$[0]')) each_) listed)
AND threads.deleted_at IS NULL

-- log.delete.move_epoch()
UPDATE threads
SET version=(threads.version + :version_1), epoch=(threads.epoch + :epoch_1), head_id=(
  SELECT checkpoints.checkpoint_id
  FROM checkpoints
  WHERE checkpoints.log_id = :k_log_id
  ORDER BY checkpoints.seq DESC
  FETCH FIRST 1 ROWS ONLY)
WHERE threads.log_id = :k_log_id

-- log.delete.read_search_text()
SELECT deltas.seq, deltas.search_text
FROM deltas
WHERE deltas.log_id = :k_log_id
AND (deltas.seq = :p_seq
  OR deltas.seq = (
    SELECT min(checkpoints.seq) AS min_1
    FROM checkpoints
    WHERE checkpoints.log_id = :k_log_id
    AND checkpoints.seq > :p_seq))
ORDER BY deltas.seq

-- log.delete.read_search_texts()
SELECT deltas.seq, deltas.search_text
FROM deltas
WHERE deltas.log_id = :k_log_id
AND deltas.seq IN (
  SELECT CAST(listed.seq AS NUMBER(19)) AS seq
  FROM (
    SELECT each_.seq
    FROM JSON_TABLE(:p_keys, '$[*]' COLUMNS (seq VARCHAR2(4000) PATH '$[0]')) each_) listed)
ORDER BY deltas.seq DESC

-- log.delete.replace_search_text()
UPDATE deltas
SET search_text=:p_search_text
WHERE deltas.log_id = :k_log_id
AND deltas.seq = :p_seq

-- log.delete.sweep_states()
DELETE FROM deltas
WHERE deltas.log_id = :k_log_id
AND deltas.kind IN ('snapshot', 'delta')
AND (deltas.seq NOT IN (
    WITH alive(seq, base_seq) AS (
      SELECT deltas.seq AS seq, deltas.base_seq AS base_seq
      FROM deltas
      JOIN checkpoints ON deltas.log_id = checkpoints.log_id
      AND deltas.seq = checkpoints.seq
      WHERE checkpoints.log_id = :k_log_id
      UNION ALL
      SELECT base.seq AS seq, base.base_seq AS base_seq
      FROM deltas base
      JOIN alive ON base.seq = alive.base_seq
      WHERE base.log_id = :k_log_id)
    SELECT alive.seq
    FROM alive))

-- log.delete.sweep_writes()
DELETE FROM deltas
WHERE deltas.log_id = :k_log_id
AND deltas.kind IN ('write')
AND deltas.stored_at < :p_orphan_cutoff
AND (deltas.label NOT IN (
    SELECT checkpoints.checkpoint_id
    FROM checkpoints
    WHERE checkpoints.log_id = :k_log_id))

-- log.dependencies.find_dependent()
SELECT checkpoints.checkpoint_id
FROM checkpoints
WHERE checkpoints.log_id = :k_log_id
AND checkpoints.rests_on = :p_checkpoint_id
ORDER BY checkpoints.seq DESC
FETCH FIRST :p_limit ROWS ONLY

-- log.dependencies.list_dependencies()
SELECT checkpoints.checkpoint_id, checkpoints.rests_on
FROM checkpoints
WHERE checkpoints.log_id = :k_log_id
AND checkpoints.rests_on IS NOT NULL

-- log.entries.count_entries()
SELECT count(*) AS count_1
FROM deltas
WHERE deltas.log_id = :k_log_id
AND deltas.kind IN ('entry')
AND (EXISTS (
    SELECT 1
    FROM threads
    WHERE threads.log_id = deltas.log_id
    AND threads.deleted_at IS NULL
    AND (threads.expires_at IS NULL
      OR threads.expires_at > :p_now)))

-- log.entries.delete_entries(which=all)
DELETE FROM deltas
WHERE deltas.log_id = :k_log_id
AND deltas.kind IN ('entry')

-- log.entries.find_entries_of_key(scope=log)
SELECT threads.thread_id, deltas.seq, deltas.codec, deltas.checksum, deltas.payload,
  deltas.entry_key, deltas.occurred_at, deltas.stored_at, deltas.signature
FROM threads
JOIN deltas ON deltas.log_id = threads.log_id
WHERE deltas.log_id = :k_log_id
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND deltas.kind IN ('entry')
AND deltas.entry_key = :p_key
ORDER BY threads.thread_id

-- log.entries.mark_entries_changed()
UPDATE threads
SET version=(threads.version + :version_1), epoch=(threads.epoch + :epoch_1), updated_at=:p_now,
  active_at=:p_active_at
WHERE threads.log_id = :k_log_id

-- log.entries.read_changes(whole=True)
SELECT threads.version, threads.epoch, deltas.seq, deltas.codec, deltas.checksum, deltas.payload,
  deltas.entry_key, deltas.occurred_at, deltas.stored_at, deltas.signature
FROM threads LEFT OUTER
JOIN deltas ON deltas.log_id = threads.log_id
AND deltas.kind IN ('entry')
AND deltas.seq >= CASE
WHEN (threads.epoch = :p_epoch) THEN :p_after
ELSE -1 END
WHERE threads.log_id = :k_log_id
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
ORDER BY deltas.seq

-- log.entries.read_entries(end=first, timed=True)
SELECT deltas.seq, deltas.codec, deltas.checksum, deltas.payload, deltas.entry_key,
  deltas.occurred_at, deltas.stored_at, deltas.signature
FROM deltas
WHERE deltas.log_id = :k_log_id
AND deltas.kind IN ('entry')
AND deltas.seq > :p_after
AND deltas.seq < :p_before
AND (EXISTS (
    SELECT 1
    FROM threads
    WHERE threads.log_id = deltas.log_id
    AND threads.deleted_at IS NULL
    AND (threads.expires_at IS NULL
      OR threads.expires_at > :p_now)))
AND deltas.occurred_at >= :p_since
AND deltas.occurred_at < :p_until
ORDER BY deltas.seq
FETCH FIRST :p_limit ROWS ONLY

-- log.entries.read_entries_of_logs()
SELECT threads.thread_id, threads.namespace, deltas.seq, deltas.codec, deltas.checksum,
  deltas.payload, deltas.entry_key, deltas.occurred_at, deltas.stored_at, deltas.signature
FROM (
  SELECT HEXTORAW(REPLACE(each_.log_id, '-')) AS log_id
  FROM JSON_TABLE(:p_logs, '$[*]' COLUMNS (log_id VARCHAR2(4000) PATH '$[0]')) each_) listed
JOIN threads ON threads.log_id = listed.log_id
JOIN deltas ON deltas.log_id = threads.log_id
AND deltas.kind IN ('entry')
WHERE threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
ORDER BY threads.thread_id, threads.namespace, deltas.seq

-- log.entries.read_entries_of_threads(newest=False)
SELECT threads.thread_id, deltas.seq, deltas.codec, deltas.checksum, deltas.payload,
  deltas.entry_key, deltas.occurred_at, deltas.stored_at, deltas.signature
FROM threads
JOIN deltas ON deltas.log_id = threads.log_id
AND deltas.kind IN ('entry')
WHERE threads.tenant = :k_tenant
AND threads.namespace = :k_namespace
AND threads.thread_id IN (
  SELECT listed.thread_id
  FROM (
    SELECT each_.thread_id
    FROM JSON_TABLE(:p_thread_ids, '$[*]' COLUMNS (thread_id VARCHAR2(4000) PATH '$[0]')) each_) listed)
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
ORDER BY threads.thread_id, deltas.seq

-- log.entries.read_version()
SELECT threads.version
FROM threads
WHERE threads.log_id = :k_log_id
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)

-- log.entries.update_entry()
UPDATE deltas
SET codec=:p_codec, checksum=:p_checksum, search_text=:p_search_text, payload=:p_payload
WHERE deltas.log_id = :k_log_id
AND deltas.kind IN ('entry')
AND deltas.seq = :p_seq

-- log.heads.allot(purpose=checkpoint, condition=any, based=True, parent=True)
UPDATE threads
SET next_seq=(threads.next_seq + :p_count), version=(threads.version + :p_count),
  last_ordinal=(threads.last_ordinal + CASE
  WHEN (EXISTS (
      SELECT 1
      FROM checkpoints known
      WHERE known.log_id = :k_log_id
      AND known.checkpoint_id = :p_checkpoint_id)) THEN 0
  ELSE 1 END), head_id=:p_checkpoint_id, previous_id=threads.head_id, updated_at=:p_now,
  active_at=:p_active_at, expires_at=:p_expires_at
WHERE threads.log_id = :k_log_id
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND threads.epoch = :p_epoch
AND (EXISTS (
    SELECT 1
    FROM deltas
    WHERE deltas.log_id = threads.log_id
    AND deltas.seq = :p_base_seq
    AND deltas.checksum = :p_base_checksum))
AND (EXISTS (
    SELECT 1
    FROM checkpoints
    WHERE checkpoints.log_id = threads.log_id
    AND checkpoints.checkpoint_id = :p_parent_id))
RETURNING threads.next_seq, threads.version, threads.epoch, threads.previous_id,
  threads.last_ordinal
INTO :ret_0, :ret_1, :ret_2, :ret_3, :ret_4

-- log.heads.allot_locked()
UPDATE threads
SET next_seq=(threads.next_seq + :p_count), version=(threads.version + :version_1),
  epoch=(threads.epoch + :p_epoch_step), updated_at=:p_now, active_at=:p_active_at,
  expires_at=:p_expires_at
WHERE threads.log_id = :k_log_id
RETURNING threads.next_seq, threads.version, threads.epoch, threads.previous_id,
  threads.last_ordinal
INTO :ret_0, :ret_1, :ret_2, :ret_3, :ret_4

-- log.heads.lock_log()
SELECT threads.namespace, threads.next_seq, threads.epoch, threads.head_id, threads.expires_at,
  threads.deleted_at, threads.version, threads.tenant, threads.thread_id
FROM threads
WHERE threads.log_id = :k_log_id
FOR UPDATE

-- log.heads.lock_thread()
SELECT threads.namespace, threads.next_seq, threads.epoch, threads.head_id, threads.expires_at,
  threads.deleted_at, threads.version, threads.tenant, threads.thread_id
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
FOR UPDATE

-- log.heads.read_head()
SELECT threads.namespace, threads.next_seq, threads.epoch, threads.head_id, threads.expires_at,
  threads.deleted_at, threads.version, threads.tenant, threads.thread_id
FROM threads
WHERE threads.log_id = :k_log_id

-- log.heads.set_metadata()
UPDATE threads
SET meta=:p_meta
WHERE threads.log_id = :k_log_id
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)

-- log.heads.set_times()
UPDATE threads
SET created_at=CASE
WHEN (threads.created_at > :p_created_at) THEN :p_created_at
ELSE threads.created_at END, updated_at=:p_updated_at, active_at=:p_active_at
WHERE threads.log_id = :k_log_id
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)

-- log.listing.list_all_threads()
SELECT DISTINCT threads.thread_id
FROM threads
WHERE threads.tenant = :k_tenant
ORDER BY threads.thread_id

-- log.listing.list_entry_logs(scope=tenant)
SELECT threads.thread_id, threads.namespace, threads.created_at, threads.updated_at, (
  SELECT count(*) AS count_1
  FROM deltas
  WHERE deltas.log_id = threads.log_id
  AND deltas.kind IN ('entry')) AS entries
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND (EXISTS (
    SELECT 1
    FROM deltas
    WHERE deltas.log_id = threads.log_id
    AND deltas.kind IN ('entry')))
ORDER BY threads.active_at DESC, threads.updated_at DESC, threads.thread_id, threads.namespace
FETCH FIRST :p_limit ROWS ONLY

-- log.listing.list_heads(of=checkpoints, after=True, prefix=True)
SELECT threads.thread_id, threads.updated_at, threads.head_id
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.namespace = :k_namespace
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND threads.head_id IS NOT NULL
AND threads.thread_id >= :p_low
AND threads.thread_id < :p_high
AND threads.active_at <= :p_active_at
AND (threads.updated_at < :p_updated_at
  OR threads.updated_at = :p_updated_at
  AND threads.thread_id >= :p_thread_id
  AND threads.thread_id > :p_thread_id)
ORDER BY threads.active_at DESC, threads.updated_at DESC, threads.thread_id
FETCH FIRST :p_limit ROWS ONLY

-- log.listing.list_ids_in_range()
SELECT DISTINCT threads.thread_id
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.thread_id >= :p_low
AND threads.thread_id < :p_high
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND (threads.head_id IS NOT NULL
  OR (EXISTS (
      SELECT 1
      FROM deltas
      WHERE deltas.log_id = threads.log_id
      AND deltas.kind IN ('entry'))))
ORDER BY threads.thread_id
FETCH FIRST :p_limit ROWS ONLY

-- log.listing.list_last_writes()
SELECT threads.thread_id, threads.updated_at
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.namespace = :k_namespace
AND threads.thread_id IN (
  SELECT listed.thread_id
  FROM (
    SELECT each_.thread_id
    FROM JSON_TABLE(:p_thread_ids, '$[*]' COLUMNS (thread_id VARCHAR2(4000) PATH '$[0]')) each_) listed)
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND (EXISTS (
    SELECT 1
    FROM deltas
    WHERE deltas.log_id = threads.log_id
    AND deltas.kind IN ('entry')))

-- log.listing.list_logs(which=all, scope=namespace, after=False)
SELECT threads.log_id, threads.thread_id, threads.namespace, threads.head_id, threads.created_at,
  threads.updated_at, threads.forked_from, threads.meta
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.namespace = :k_namespace
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND (threads.head_id IS NOT NULL
  OR (EXISTS (
      SELECT 1
      FROM deltas
      WHERE deltas.log_id = threads.log_id
      AND deltas.kind IN ('entry'))))
ORDER BY threads.active_at DESC, threads.updated_at DESC, threads.thread_id, threads.namespace
FETCH FIRST :p_limit ROWS ONLY

-- log.listing.list_logs_below()
SELECT threads.namespace, threads.head_id, threads.deleted_at
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.namespace >= :k_namespace
AND threads.namespace < :k_beyond
AND threads.thread_id = :k_thread_id
ORDER BY threads.namespace

-- log.listing.list_logs_of_thread()
SELECT threads.namespace, threads.deleted_at
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
ORDER BY threads.namespace

-- log.listing.list_logs_of_threads()
SELECT threads.thread_id, threads.namespace
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.thread_id IN (
  SELECT listed.thread_id
  FROM (
    SELECT each_.thread_id
    FROM JSON_TABLE(:p_thread_ids, '$[*]' COLUMNS (thread_id VARCHAR2(4000) PATH '$[0]')) each_) listed)
ORDER BY threads.thread_id, threads.namespace

-- log.listing.list_namespaces(of=checkpoints)
SELECT DISTINCT threads.namespace
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND threads.head_id IS NOT NULL
ORDER BY threads.namespace

-- log.listing.list_namespaces_of_thread(after=False)
SELECT threads.namespace
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.namespace >= :k_namespace
AND threads.namespace < :k_beyond
AND threads.thread_id = :k_thread_id
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND threads.head_id IS NOT NULL
ORDER BY threads.namespace
FETCH FIRST :p_limit ROWS ONLY

-- log.listing.list_threads_older(after=True)
SELECT threads.thread_id
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.namespace = :k_namespace
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND (EXISTS (
    SELECT 1
    FROM deltas
    WHERE deltas.log_id = threads.log_id
    AND deltas.kind IN ('entry')
    AND deltas.occurred_at < :p_cutoff))
AND threads.thread_id > :p_thread_id
ORDER BY threads.thread_id
FETCH FIRST :p_limit ROWS ONLY

-- log.listing.measure_logs()
SELECT listed.log_id, (
  SELECT count(*) AS count_1
  FROM checkpoints
  WHERE checkpoints.log_id = listed.log_id) AS checkpoints, (
  SELECT coalesce(sum(checkpoints.raw_size), :coalesce_2) AS coalesce_1
  FROM checkpoints
  WHERE checkpoints.log_id = listed.log_id) AS raw_size, (
  SELECT coalesce(sum(checkpoints.stored_size), :coalesce_4) AS coalesce_3
  FROM checkpoints
  WHERE checkpoints.log_id = listed.log_id) AS stored_size, (
  SELECT coalesce(sum(length(deltas.payload)), :coalesce_6) AS coalesce_5
  FROM deltas
  WHERE deltas.log_id = listed.log_id
  AND deltas.kind IN ('entry', 'write')) AS other_size, (
  SELECT count(*) AS count_2
  FROM deltas
  WHERE deltas.log_id = listed.log_id
  AND deltas.kind IN ('entry')) AS entries
FROM (
  SELECT HEXTORAW(REPLACE(each_.log_id, '-')) AS log_id
  FROM JSON_TABLE(:p_logs, '$[*]' COLUMNS (log_id VARCHAR2(4000) PATH '$[0]')) each_) listed

-- log.listing.read_lengths()
SELECT threads.log_id, threads.next_seq
FROM (
  SELECT HEXTORAW(REPLACE(each_.log_id, '-')) AS log_id
  FROM JSON_TABLE(:p_logs, '$[*]' COLUMNS (log_id VARCHAR2(4000) PATH '$[0]')) each_) listed
JOIN threads ON threads.log_id = listed.log_id

-- log.no_upsert.allot_existing(purpose=checkpoint, condition=any)
UPDATE threads
SET next_seq=(threads.next_seq + :p_count), version=(threads.version + :p_count),
  last_ordinal=(threads.last_ordinal + CASE
  WHEN (EXISTS (
      SELECT 1
      FROM checkpoints known
      WHERE known.log_id = :k_log_id
      AND known.checkpoint_id = :p_checkpoint_id)) THEN 0
  ELSE 1 END), epoch=CASE
WHEN (threads.deleted_at IS NOT NULL) THEN threads.epoch + :epoch_1
ELSE threads.epoch END, head_id=:p_checkpoint_id, previous_id=threads.head_id, created_at=CASE
WHEN (threads.deleted_at IS NOT NULL) THEN :p_now
ELSE threads.created_at END, updated_at=:p_now, active_at=:p_active_at, expires_at=:p_expires_at,
  deleted_at=NULL
WHERE threads.log_id = :k_log_id
AND threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
AND threads.namespace = :k_namespace
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
RETURNING threads.next_seq, threads.version, threads.epoch, threads.previous_id,
  threads.last_ordinal
INTO :ret_0, :ret_1, :ret_2, :ret_3, :ret_4

-- log.no_upsert.create_head(purpose=checkpoint)
INSERT INTO threads (log_id, tenant, thread_id, namespace, next_seq, version, last_ordinal, epoch,
    head_id, meta, created_at, updated_at, active_at, expires_at)
VALUES (:k_log_id, :k_tenant, :k_thread_id, :k_namespace, (:p_count + 1), :p_count, CASE
  WHEN (EXISTS (
      SELECT 1
      FROM checkpoints known
      WHERE known.log_id = :k_log_id
      AND known.checkpoint_id = :p_checkpoint_id)) THEN 0
  ELSE 1 END, :p_epoch, :p_checkpoint_id, :meta, :p_now, :p_now, :p_active_at, :p_expires_at)
RETURNING threads.next_seq, threads.version, threads.epoch, threads.previous_id,
  threads.last_ordinal
INTO :ret_0, :ret_1, :ret_2, :ret_3, :ret_4

-- log.no_upsert.insert_checkpoint()
INSERT INTO checkpoints (log_id, seq, tenant, checkpoint_id, parent_id, ordinal, rests_on, run_id,
    meta, raw_size, stored_size, occurred_at, created_at, signature)
VALUES (:k_log_id, :p_seq, :k_tenant, :p_checkpoint_id, nullif(coalesce(:p_parent_id,
        :p_previous_id), :p_checkpoint_id), :p_ordinal, :p_rests_on, :p_run_id, :p_meta, :p_raw_size,
    :p_stored_size, :p_occurred_at, :p_created_at, :p_signature)

-- log.no_upsert.update_checkpoint()
UPDATE checkpoints
SET seq=:p_seq, parent_id=nullif(coalesce(:p_parent_id, checkpoints.parent_id), :p_checkpoint_id),
  rests_on=:p_rests_on, run_id=:p_run_id, meta=:p_meta, raw_size=:p_raw_size,
  stored_size=:p_stored_size, occurred_at=:p_occurred_at, created_at=:p_created_at,
  signature=:p_signature
WHERE checkpoints.log_id = :k_log_id
AND checkpoints.checkpoint_id = :p_checkpoint_id

-- log.pending_writes.read_writes_of_checkpoints()
SELECT deltas.log_id, deltas.label, deltas.seq, deltas.overwrites, deltas.codec, deltas.checksum,
  deltas.payload, deltas.entry_key, deltas.stored_at, deltas.signature
FROM (
  SELECT HEXTORAW(REPLACE(each_.log_id, '-')) AS log_id, each_.label, each_.low, each_.high
  FROM JSON_TABLE(:p_keys, '$[*]' COLUMNS (log_id VARCHAR2(4000) PATH '$[0]',
        label VARCHAR2(4000) PATH '$[1]', low VARCHAR2(4000) PATH '$[2]',
        high VARCHAR2(4000) PATH '$[3]')) each_) listed
JOIN threads ON threads.log_id = listed.log_id
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
JOIN deltas ON deltas.log_id = listed.log_id
AND deltas.entry_key >= listed.low
AND deltas.entry_key < listed.high
AND deltas.label = listed.label
WHERE deltas.kind IN ('write')
ORDER BY deltas.seq

-- log.reencoding.move_epoch_of_reencoded()
UPDATE threads
SET epoch=(threads.epoch + 2147483648)
WHERE threads.log_id = :k_log_id

-- maintenance.anchor_reading.list_signed_heads(which=all, after=True)
SELECT threads.log_id, threads.tenant, threads.thread_id, threads.namespace, threads.next_seq,
  threads.version, threads.last_ordinal, threads.head_id, threads.previous_id, threads.created_at,
  threads.updated_at, threads.expires_at, threads.deleted_at, threads.meta, threads.signature
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.thread_id >= :p_thread_id
AND (threads.thread_id > :p_thread_id
  OR threads.thread_id = :p_thread_id
  AND threads.namespace > :p_namespace)
ORDER BY threads.thread_id, threads.namespace
FETCH FIRST :p_limit ROWS ONLY

-- maintenance.anchor_reading.list_sizes_of_items(changed=True, after=True)
SELECT store_items.namespace, store_items.updated_at, store_items.key,
  length(store_items.value) AS stored
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace >= :k_namespace
AND store_items.namespace < :k_beyond
AND NOT (store_items.namespace >= :k_internal
  AND store_items.namespace < :k_internal_end)
AND store_items.updated_at >= :p_since
AND store_items.namespace >= :p_namespace
AND (store_items.namespace > :p_namespace
  OR store_items.namespace = :p_namespace
  AND (store_items.updated_at > :p_updated_at
    OR store_items.updated_at = :p_updated_at
    AND store_items.key > :p_key))
ORDER BY store_items.namespace, store_items.updated_at, store_items.key
FETCH FIRST :p_limit ROWS ONLY

-- maintenance.copying.database_copy.count_rows_to_copy(table=threads, scope=tenant)
SELECT count(*) AS count_1
FROM threads
WHERE threads.tenant = :k_tenant

-- maintenance.copying.database_copy.list_heads_to_copy(scope=tenant, after=True)
SELECT threads.log_id, threads.tenant, threads.thread_id, threads.namespace, threads.next_seq,
  threads.version, threads.last_ordinal, threads.epoch, threads.head_id, threads.previous_id,
  threads.meta, threads.forked_from, threads.forked_seq, threads.created_at, threads.updated_at,
  threads.active_at, threads.expires_at, threads.deleted_at, threads.signature
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.thread_id >= :p_thread_id
AND (threads.thread_id > :p_thread_id
  OR threads.thread_id = :p_thread_id
  AND (threads.namespace > :p_namespace
    OR threads.namespace = :p_namespace
    AND threads.log_id > :p_log_id))
ORDER BY threads.tenant, threads.thread_id, threads.namespace, threads.log_id
FETCH FIRST :p_limit ROWS ONLY

-- maintenance.copying.database_copy.list_items_to_copy(scope=tenant, after=True)
SELECT store_items.tenant, store_items.namespace, store_items.key, store_items.version,
  store_items.codec, store_items.checksum, store_items.created_at, store_items.updated_at,
  store_items.expires_at, store_items.lifetime, store_items.signature,
  length(store_items.search_text) AS search_text_bytes,
  length(store_items.field_terms) AS field_terms_bytes, substr(store_items.search_text, 1,
    1) AS search_text_begins
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace != '/~vectors/'
AND store_items.namespace != '/~keys/'
AND store_items.namespace != '/~signing/'
AND store_items.namespace != '/~signing/anchors/'
AND store_items.namespace != '/~signing/removals/'
AND store_items.namespace >= :p_namespace
AND (store_items.namespace > :p_namespace
  OR store_items.namespace = :p_namespace
  AND store_items.key > :p_key)
ORDER BY store_items.tenant, store_items.namespace, store_items.key
FETCH FIRST :p_limit ROWS ONLY

-- maintenance.copying.grown_logs.count_names()
SELECT count(*) AS count_1
FROM checkpoints
WHERE checkpoints.log_id = :k_log_id
AND checkpoints.seq <= :p_until

-- maintenance.copying.grown_logs.find_names()
SELECT checkpoints.checkpoint_id
FROM checkpoints
WHERE checkpoints.log_id = :k_log_id
AND checkpoints.seq <= :p_until
AND checkpoints.checkpoint_id IN (
  SELECT listed.checkpoint_id
  FROM (
    SELECT each_.checkpoint_id
    FROM JSON_TABLE(:p_keys, '$[*]' COLUMNS (checkpoint_id VARCHAR2(4000) PATH '$[0]')) each_) listed)

-- maintenance.copying.grown_logs.list_names()
SELECT checkpoints.seq, checkpoints.checkpoint_id
FROM checkpoints
WHERE checkpoints.log_id = :k_log_id
AND checkpoints.seq <= :p_until
AND checkpoints.seq > :p_after
ORDER BY checkpoints.seq
FETCH FIRST :p_limit ROWS ONLY

-- maintenance.copying.grown_logs.read_newest_row(table=checkpoints)
SELECT checkpoints.log_id, checkpoints.seq, checkpoints.tenant, checkpoints.checkpoint_id,
  checkpoints.parent_id, checkpoints.ordinal, checkpoints.rests_on, checkpoints.run_id,
  checkpoints.meta, checkpoints.raw_size, checkpoints.stored_size, checkpoints.occurred_at,
  checkpoints.created_at, checkpoints.signature
FROM checkpoints
WHERE checkpoints.log_id = :k_log_id
AND checkpoints.seq <= :p_until
ORDER BY checkpoints.seq DESC
FETCH FIRST 1 ROWS ONLY

-- maintenance.copying.items.insert_embedding(native=True)
INSERT INTO embeddings (tenant, namespace, key, field, model, part, dimensions, change, signature,
    vector)
VALUES (:p_tenant, :p_namespace, :p_key, :p_field, :p_model, :p_part, :p_dimensions, :p_change,
    :p_signature, :p_vector)

-- maintenance.copying.items.list_names_of_vectors()
SELECT embeddings.tenant, embeddings.namespace, embeddings.key, embeddings.field, embeddings.model,
  embeddings.part, embeddings.dimensions, embeddings.signature
FROM embeddings
WHERE embeddings.tenant = :k_tenant
AND (embeddings.namespace, embeddings.key) IN (
  SELECT listed.namespace, listed.key
  FROM (
    SELECT each_.namespace, each_.key
    FROM JSON_TABLE(:p_keys, '$[*]' COLUMNS (namespace VARCHAR2(4000) PATH '$[0]',
          key VARCHAR2(4000) PATH '$[1]')) each_) listed)
ORDER BY embeddings.tenant, embeddings.namespace, embeddings.key, embeddings.field,
  embeddings.model, embeddings.part

-- maintenance.copying.items.read_embeddings(native=True)
SELECT embeddings.tenant, embeddings.namespace, embeddings.key, embeddings.field, embeddings.model,
  embeddings.part, embeddings.dimensions, embeddings.change, embeddings.signature,
  embeddings.vector AS vector
FROM embeddings
WHERE embeddings.tenant = :k_tenant
AND (embeddings.namespace, embeddings.key) IN (
  SELECT listed.namespace, listed.key
  FROM (
    SELECT each_.namespace, each_.key
    FROM JSON_TABLE(:p_keys, '$[*]' COLUMNS (namespace VARCHAR2(4000) PATH '$[0]',
          key VARCHAR2(4000) PATH '$[1]')) each_) listed)
ORDER BY embeddings.tenant, embeddings.namespace, embeddings.key, embeddings.field,
  embeddings.model, embeddings.part

-- maintenance.copying.items.read_summaries()
SELECT store_items.tenant, store_items.namespace, store_items.key, store_items.version,
  store_items.codec, store_items.checksum, store_items.created_at, store_items.updated_at,
  store_items.expires_at, store_items.lifetime, store_items.signature,
  length(store_items.search_text) AS search_text_bytes,
  length(store_items.field_terms) AS field_terms_bytes, substr(store_items.search_text, 1,
    1) AS search_text_begins
FROM store_items
WHERE store_items.tenant = :k_tenant
AND (store_items.namespace, store_items.key) IN (
  SELECT listed.namespace, listed.key
  FROM (
    SELECT each_.namespace, each_.key
    FROM JSON_TABLE(:p_keys, '$[*]' COLUMNS (namespace VARCHAR2(4000) PATH '$[0]',
          key VARCHAR2(4000) PATH '$[1]')) each_) listed)

-- maintenance.copying.items.read_whole_item()
SELECT store_items.tenant, store_items.namespace, store_items.key, store_items.meta,
  store_items.version, store_items.codec, store_items.checksum, store_items.search_text,
  store_items.field_terms, store_items.created_at, store_items.updated_at, store_items.expires_at,
  store_items.lifetime, store_items.signature, store_items.value
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND store_items.key = :k_key

-- maintenance.copying.logs.read_heads_on_target()
SELECT threads.log_id, threads.tenant, threads.thread_id, threads.namespace, threads.next_seq,
  threads.version, threads.last_ordinal, threads.epoch, threads.head_id, threads.previous_id,
  threads.meta, threads.forked_from, threads.forked_seq, threads.created_at, threads.updated_at,
  threads.active_at, threads.expires_at, threads.deleted_at, threads.signature
FROM threads
WHERE threads.log_id IN (
  SELECT listed.log_id
  FROM (
    SELECT HEXTORAW(REPLACE(each_.log_id, '-')) AS log_id
    FROM JSON_TABLE(:p_logs, '$[*]' COLUMNS (log_id VARCHAR2(4000) PATH '$[0]')) each_) listed)

-- maintenance.copying.logs.read_rows_to_copy(table=checkpoints)
SELECT checkpoints.log_id, checkpoints.seq, checkpoints.tenant, checkpoints.checkpoint_id,
  checkpoints.parent_id, checkpoints.ordinal, checkpoints.rests_on, checkpoints.run_id,
  checkpoints.meta, checkpoints.raw_size, checkpoints.stored_size, checkpoints.occurred_at,
  checkpoints.created_at, checkpoints.signature
FROM checkpoints
WHERE checkpoints.log_id = :k_log_id
AND checkpoints.seq > :p_after
AND checkpoints.seq <= :p_until
ORDER BY checkpoints.seq

-- maintenance.copying.logs.read_whole_head()
SELECT threads.log_id, threads.tenant, threads.thread_id, threads.namespace, threads.next_seq,
  threads.version, threads.last_ordinal, threads.epoch, threads.head_id, threads.previous_id,
  threads.meta, threads.forked_from, threads.forked_seq, threads.created_at, threads.updated_at,
  threads.active_at, threads.expires_at, threads.deleted_at, threads.signature
FROM threads
WHERE threads.log_id = :k_log_id

-- maintenance.copying.logs.replace_copied_head()
UPDATE threads
SET tenant=:p_tenant, thread_id=:p_thread_id, namespace=:p_namespace, next_seq=:p_next_seq,
  version=:p_version, last_ordinal=:p_last_ordinal, epoch=:p_epoch, head_id=:p_head_id,
  previous_id=:p_previous_id, meta=:p_meta, forked_from=:p_forked_from, forked_seq=:p_forked_seq,
  created_at=:p_created_at, updated_at=:p_updated_at, active_at=:p_active_at,
  expires_at=:p_expires_at, deleted_at=:p_deleted_at, signature=:p_signature
WHERE threads.log_id = :p_log_id

-- maintenance.copying.target.insert_copied_row(table=checkpoints)
INSERT INTO checkpoints (log_id, seq, tenant, checkpoint_id, parent_id, ordinal, rests_on, run_id,
    meta, raw_size, stored_size, occurred_at, created_at, signature)
VALUES (:p_log_id, :p_seq, :p_tenant, :p_checkpoint_id, :p_parent_id, :p_ordinal, :p_rests_on,
    :p_run_id, :p_meta, :p_raw_size, :p_stored_size, :p_occurred_at, :p_created_at, :p_signature)

-- maintenance.log_positions.list_positions(table=checkpoints)
SELECT checkpoints.seq, 0 AS stored
FROM checkpoints
WHERE checkpoints.log_id = :k_log_id
AND checkpoints.seq > :p_after
ORDER BY checkpoints.seq
FETCH FIRST :p_limit ROWS ONLY

-- maintenance.own_words.read_worded_row()
SELECT deltas.seq, deltas.kind, deltas.codec, deltas.checksum, deltas.search_text, deltas.payload,
  checkpoints.checkpoint_id, checkpoints.parent_id
FROM deltas LEFT OUTER
JOIN checkpoints ON checkpoints.log_id = deltas.log_id
AND checkpoints.seq = deltas.seq
WHERE deltas.log_id = :k_log_id
AND deltas.seq = :p_seq

-- maintenance.person.list_namespaces_of_logs()
SELECT DISTINCT threads.namespace
FROM threads
WHERE threads.tenant = :k_tenant
ORDER BY threads.namespace

-- maintenance.rotation.statements.count_all_vectors(scope=tenant)
SELECT count(*) AS count_1
FROM embeddings
WHERE embeddings.tenant = :k_tenant

-- maintenance.rotation.statements.count_rows_by_encryption(table=deltas, scope=tenant)
SELECT stored.codec, stored.begins, stored.has_words, stored.has_fields, count(*) AS "number"
FROM (
  SELECT deltas.codec AS codec, CASE
  WHEN (deltas.codec LIKE '%+gcm2') THEN dbms_lob.substr(deltas.payload, 9, 1) END AS begins, CASE
  WHEN (deltas.search_text IS NOT NULL) THEN 1
  ELSE 0 END AS has_words, 0 AS has_fields
  FROM deltas
  WHERE deltas.tenant = :k_tenant) stored
GROUP BY stored.codec, stored.begins, stored.has_words, stored.has_fields

-- maintenance.rotation.statements.grow_size()
UPDATE checkpoints
SET stored_size=(checkpoints.stored_size + 45)
WHERE checkpoints.log_id = :k_log_id
AND checkpoints.seq = :p_seq

-- maintenance.rotation.statements.list_items_with_vectors(scope=tenant)
SELECT DISTINCT embeddings.tenant, embeddings.namespace, embeddings.key
FROM embeddings
WHERE embeddings.tenant = :k_tenant
ORDER BY embeddings.tenant, embeddings.namespace, embeddings.key
FETCH FIRST :p_limit ROWS ONLY

-- maintenance.rotation.statements.list_rows(table=deltas, scope=tenant, after=True)
SELECT deltas.log_id, deltas.seq, deltas.tenant, threads.thread_id, threads.namespace,
  deltas.codec AS codec, CASE
WHEN (deltas.codec LIKE '%+gcm2') THEN dbms_lob.substr(deltas.payload, 9, 1) END AS begins, CASE
WHEN (deltas.search_text IS NOT NULL) THEN 1
ELSE 0 END AS has_words, 0 AS has_fields, length(deltas.payload) AS stored
FROM deltas LEFT OUTER
JOIN threads ON threads.log_id = deltas.log_id
WHERE deltas.tenant = :k_tenant
AND deltas.log_id >= :p_log_id
AND (deltas.log_id > :p_log_id
  OR deltas.log_id = :p_log_id
  AND deltas.seq > :p_seq)
ORDER BY deltas.log_id, deltas.seq
FETCH FIRST :p_limit ROWS ONLY

-- maintenance.rotation.statements.list_strays()
SELECT deltas.log_id, deltas.seq, threads.tenant, threads.thread_id, threads.namespace
FROM deltas
JOIN threads ON threads.log_id = deltas.log_id
WHERE threads.tenant = :k_tenant
AND deltas.tenant != threads.tenant
ORDER BY deltas.log_id, deltas.seq
FETCH FIRST 1000 ROWS ONLY

-- maintenance.rotation.statements.read_payloads()
SELECT deltas.seq, deltas.kind, deltas.label, deltas.codec, deltas.checksum, deltas.payload
FROM deltas
WHERE deltas.log_id = :k_log_id
AND deltas.seq >= :p_low
AND deltas.seq <= :p_high
ORDER BY deltas.seq

-- maintenance.rotation.statements.read_values()
SELECT store_items.tenant, store_items.namespace, store_items.key, store_items.version,
  store_items.codec, store_items.checksum, store_items.value
FROM store_items
WHERE store_items.tenant = :k_tenant
AND (store_items.namespace, store_items.key) IN (
  SELECT listed.namespace, listed.key
  FROM (
    SELECT each_.namespace, each_.key
    FROM JSON_TABLE(:p_keys, '$[*]' COLUMNS (namespace VARCHAR2(4000) PATH '$[0]',
          key VARCHAR2(4000) PATH '$[1]')) each_) listed)

-- maintenance.rotation.statements.reseal_delta(words=kept)
UPDATE deltas
SET codec=:p_codec, checksum=:p_checksum, payload=:p_payload
WHERE deltas.log_id = :k_log_id
AND deltas.seq = :p_seq
AND deltas.codec = :p_was_codec
AND deltas.checksum = :p_was_checksum

-- maintenance.rotation.statements.reseal_item(words=kept, fields=kept)
UPDATE store_items
SET codec=:p_codec, checksum=:p_checksum, value=:p_value
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND store_items.key = :k_key
AND store_items.version = :p_version
AND store_items.codec = :p_was_codec
AND store_items.checksum = :p_was_checksum

-- maintenance.sign.list_items_to_sign(after=True)
SELECT store_items.namespace, store_items.key
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace != '/~vectors/'
AND store_items.namespace != '/~keys/'
AND store_items.namespace != '/~signing/'
AND store_items.namespace != '/~signing/anchors/'
AND store_items.namespace != '/~signing/removals/'
AND store_items.namespace >= :p_namespace
AND (store_items.namespace > :p_namespace
  OR store_items.namespace = :p_namespace
  AND store_items.key > :p_key)
ORDER BY store_items.namespace, store_items.key
FETCH FIRST :p_limit ROWS ONLY

-- maintenance.sign.list_log_keys(scope=tenant, after=True)
SELECT threads.log_id, threads.thread_id, threads.namespace
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.thread_id >= :p_thread_id
AND (threads.thread_id > :p_thread_id
  OR threads.thread_id = :p_thread_id
  AND threads.namespace > :p_namespace)
ORDER BY threads.thread_id, threads.namespace
FETCH FIRST :p_limit ROWS ONLY

-- maintenance.sign.read_items_to_sign()
SELECT store_items.namespace, store_items.key, store_items.version, store_items.meta,
  store_items.codec, store_items.value, store_items.created_at, store_items.updated_at,
  store_items.expires_at, store_items.lifetime, store_items.search_text, store_items.field_terms,
  store_items.signature
FROM store_items
WHERE store_items.tenant = :k_tenant
AND (store_items.namespace, store_items.key) IN (
  SELECT listed.namespace, listed.key
  FROM (
    SELECT each_.namespace, each_.key
    FROM JSON_TABLE(:p_keys, '$[*]' COLUMNS (namespace VARCHAR2(4000) PATH '$[0]',
          key VARCHAR2(4000) PATH '$[1]')) each_) listed)

-- maintenance.space.count_expired()
SELECT count(*) AS expired
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.expires_at <= :p_now

-- maintenance.space.count_live_threads()
SELECT count(DISTINCT threads.thread_id) AS count_1
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND (threads.head_id IS NOT NULL
  OR (EXISTS (
      SELECT 1
      FROM deltas
      WHERE deltas.log_id = threads.log_id
      AND deltas.kind IN ('entry'))))

-- maintenance.space.measure_checkpoints()
SELECT count(*) AS checkpoints, coalesce(sum(CASE
    WHEN (deltas.kind IN ('snapshot')) THEN :param_1
    ELSE :param_2 END), :coalesce_1) AS whole
FROM checkpoints
JOIN deltas ON checkpoints.log_id = deltas.log_id
AND checkpoints.seq = deltas.seq
JOIN threads ON threads.log_id = checkpoints.log_id
WHERE checkpoints.tenant = :k_tenant
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)

-- maintenance.space.measure_growth()
SELECT coalesce(sum(CASE
    WHEN (coalesce(deltas.stored_at, checkpoints.created_at) >= :p_since_1) THEN :param_1
    ELSE :param_2 END), :coalesce_1) AS rows_1, coalesce(sum(CASE
    WHEN (coalesce(deltas.stored_at, checkpoints.created_at) >= :p_since_1) THEN length(deltas.payload)
    ELSE :param_3 END), :coalesce_2) AS bytes_1, coalesce(sum(CASE
    WHEN (coalesce(deltas.stored_at, checkpoints.created_at) >= :p_since_7) THEN :param_4
    ELSE :param_5 END), :coalesce_3) AS rows_7, coalesce(sum(CASE
    WHEN (coalesce(deltas.stored_at, checkpoints.created_at) >= :p_since_7) THEN length(deltas.payload)
    ELSE :param_6 END), :coalesce_4) AS bytes_7, coalesce(sum(CASE
    WHEN (coalesce(deltas.stored_at, checkpoints.created_at) >= :p_since_30) THEN :param_7
    ELSE :param_8 END), :coalesce_5) AS rows_30, coalesce(sum(CASE
    WHEN (coalesce(deltas.stored_at, checkpoints.created_at) >= :p_since_30) THEN length(deltas.payload)
    ELSE :param_9 END), :coalesce_6) AS bytes_30
FROM deltas LEFT OUTER
JOIN checkpoints ON checkpoints.log_id = deltas.log_id
AND checkpoints.seq = deltas.seq
WHERE deltas.tenant = :k_tenant

-- maintenance.space.measure_items()
SELECT count(*) AS entries, coalesce(sum(CASE
    WHEN (store_items.expires_at IS NULL
      OR store_items.expires_at > :p_now) THEN :param_1
    ELSE :param_2 END), :coalesce_1) AS live, coalesce(sum(length(store_items.value)),
    :coalesce_2) AS value_bytes, coalesce(sum(CASE
    WHEN (store_items.search_text IS NOT NULL
      OR store_items.field_terms IS NOT NULL) THEN :param_3
    ELSE :param_4 END), :coalesce_3) AS texts, coalesce(sum(length(store_items.search_text)),
    :coalesce_4) + coalesce(sum(length(store_items.field_terms)), :coalesce_5) AS text_bytes
FROM store_items
WHERE store_items.tenant = :k_tenant
AND NOT (store_items.namespace >= :p_internal
  AND store_items.namespace < :p_internal_end)

-- maintenance.space.measure_kinds()
SELECT deltas.kind, count(*) AS entries, sum(length(deltas.payload)) AS payload_bytes,
  count(deltas.search_text) AS texts, coalesce(sum(length(deltas.search_text)),
    :coalesce_1) AS text_bytes
FROM deltas
WHERE deltas.tenant = :k_tenant
GROUP BY deltas.kind
ORDER BY deltas.kind

-- maintenance.space.measure_largest_logs()
SELECT threads.thread_id, threads.namespace, held.entries, held.held, count(*) OVER () AS logs
FROM (
  SELECT deltas.log_id AS log_id, count(*) AS entries,
    sum(length(deltas.payload)) + coalesce(sum(length(deltas.search_text)), :coalesce_1) AS held
  FROM deltas
  WHERE deltas.tenant = :k_tenant
  GROUP BY deltas.log_id) held
JOIN threads ON threads.log_id = held.log_id
ORDER BY held.held DESC, threads.thread_id, threads.namespace
FETCH FIRST :p_limit ROWS ONLY

-- maintenance.space.measure_namespaces()
SELECT threads.namespace, count(DISTINCT threads.log_id) AS logs,
  count(checkpoints.seq) AS checkpoints, coalesce(sum(CASE
    WHEN (deltas.kind IN ('entry')) THEN :param_1
    ELSE :param_2 END), :coalesce_1) AS entries, coalesce(sum(coalesce(checkpoints.raw_size,
        length(deltas.payload))), :coalesce_2) AS raw_size,
  coalesce(sum(coalesce(checkpoints.stored_size, length(deltas.payload))),
    :coalesce_3) AS stored_size
FROM threads
JOIN deltas ON deltas.log_id = threads.log_id LEFT OUTER
JOIN checkpoints ON checkpoints.log_id = deltas.log_id
AND checkpoints.seq = deltas.seq
WHERE threads.tenant = :k_tenant
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND (threads.head_id IS NOT NULL
  OR (EXISTS (
      SELECT 1
      FROM deltas
      WHERE deltas.log_id = threads.log_id
      AND deltas.kind IN ('entry'))))
GROUP BY threads.namespace

-- maintenance.space.measure_vectors()
SELECT count(*) AS entries, coalesce(sum(embeddings.dimensions), :coalesce_1) AS numbers
FROM embeddings
WHERE embeddings.tenant = :k_tenant

-- maintenance.space.sizes(exact=True)
SELECT lower(s.segment_name) AS name, lower(coalesce(i.table_name, l.table_name,
      s.segment_name)) AS owner, CASE
WHEN i.table_name IS NULL THEN 'table'
ELSE 'index' END AS kind, sum(s.bytes) AS bytes
FROM user_segments s LEFT
JOIN user_indexes i ON i.index_name = s.segment_name LEFT
JOIN user_lobs l ON l.segment_name = s.segment_name
WHERE lower(coalesce(i.table_name, l.table_name, s.segment_name)) IN ('threads', 'checkpoints',
    'deltas', 'store_items', 'embeddings')
GROUP BY s.segment_name, i.table_name, l.table_name

-- maintenance.stored_tenants.next_tenant_of_items(after=True)
SELECT min(store_items.tenant) AS tenant
FROM store_items
WHERE store_items.tenant != '~'
AND store_items.tenant > :k_tenant

-- maintenance.stored_tenants.next_tenant_of_logs(after=True)
SELECT min(threads.tenant) AS tenant
FROM threads
WHERE threads.tenant > :k_tenant

-- maintenance.verify.database.count_positions(scope=tenant)
SELECT coalesce(sum(threads.next_seq - :next_seq_1), :coalesce_1) AS positions
FROM threads
WHERE threads.tenant = :k_tenant

-- maintenance.verify.database.list_logs_to_verify(scope=tenant, after=True)
SELECT threads.thread_id, threads.namespace, threads.log_id, threads.next_seq
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.thread_id >= :p_thread_id
AND (threads.thread_id > :p_thread_id
  OR threads.thread_id = :p_thread_id
  AND (threads.namespace > :p_namespace
    OR threads.namespace = :p_namespace
    AND threads.log_id > :p_log_id))
ORDER BY threads.thread_id, threads.namespace, threads.log_id
FETCH FIRST :p_limit ROWS ONLY

-- maintenance.verify.database.list_orphaned_rows(table=checkpoints)
SELECT checkpoints.log_id, count(*) AS orphans, count(threads.log_id) AS strays
FROM checkpoints LEFT OUTER
JOIN threads ON threads.log_id = checkpoints.log_id
WHERE checkpoints.tenant = :k_tenant
AND (threads.log_id IS NULL
  OR threads.tenant != checkpoints.tenant)
GROUP BY checkpoints.log_id
ORDER BY checkpoints.log_id
FETCH FIRST :p_limit ROWS ONLY

-- maintenance.verify.items.count_stored_items()
SELECT count(*) AS items
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace >= :k_namespace
AND store_items.namespace < :k_beyond
AND NOT (store_items.namespace >= :k_internal
  AND store_items.namespace < :k_internal_end)

-- maintenance.verify.items.list_orphaned_vectors()
SELECT embeddings.namespace, embeddings.key, count(*) AS orphans
FROM embeddings
WHERE embeddings.tenant = :k_tenant
AND NOT (EXISTS (
    SELECT 1
    FROM store_items
    WHERE store_items.tenant = embeddings.tenant
    AND store_items.namespace = embeddings.namespace
    AND store_items.key = embeddings.key))
GROUP BY embeddings.namespace, embeddings.key
ORDER BY embeddings.namespace, embeddings.key
FETCH FIRST :p_limit ROWS ONLY

-- maintenance.verify.items.list_stored_items(after=True)
SELECT store_items.namespace, store_items.key, length(store_items.value) AS stored, (
  SELECT coalesce(sum(embeddings.dimensions), :coalesce_2) AS coalesce_1
  FROM embeddings
  WHERE embeddings.tenant = store_items.tenant
  AND embeddings.namespace = store_items.namespace
  AND embeddings.key = store_items.key) AS numbers
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace >= :k_namespace
AND store_items.namespace < :k_beyond
AND NOT (store_items.namespace >= :k_internal
  AND store_items.namespace < :k_internal_end)
AND store_items.namespace >= :p_namespace
AND (store_items.namespace > :p_namespace
  OR store_items.namespace = :p_namespace
  AND store_items.key > :p_key)
ORDER BY store_items.namespace, store_items.key
FETCH FIRST :p_limit ROWS ONLY

-- maintenance.verify.items.read_stored_items()
SELECT store_items.namespace, store_items.key, store_items.version, store_items.codec,
  store_items.checksum, store_items.search_text, store_items.field_terms, store_items.signature,
  store_items.value, store_items.created_at, store_items.updated_at, store_items.expires_at,
  store_items.lifetime, CASE
WHEN (1 = 1) THEN store_items.meta END AS meta
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND store_items.key >= :p_low
AND store_items.key <= :p_high
ORDER BY store_items.key

-- maintenance.verify.items.read_stored_vectors(native=True)
SELECT embeddings.key, embeddings.field, embeddings.model, embeddings.part, embeddings.dimensions,
  embeddings.namespace, embeddings.signature AS vector_signature, store_items.version,
  embeddings.vector AS vector
FROM embeddings LEFT OUTER
JOIN store_items ON store_items.tenant = embeddings.tenant
AND store_items.namespace = embeddings.namespace
AND store_items.key = embeddings.key
WHERE embeddings.tenant = :k_tenant
AND embeddings.namespace = :k_namespace
AND embeddings.key >= :p_low
AND embeddings.key <= :p_high
ORDER BY embeddings.key, embeddings.field, embeddings.model, embeddings.part

-- maintenance.verify.items.read_vector_sets()
SELECT store_items.key, store_items.signature, embeddings.signature AS vector_signature
FROM store_items LEFT OUTER
JOIN embeddings ON store_items.tenant = embeddings.tenant
AND store_items.namespace = embeddings.namespace
AND store_items.key = embeddings.key
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND store_items.key >= :p_low
AND store_items.key <= :p_high
ORDER BY store_items.key

-- maintenance.verify.logs.list_names_without_state()
SELECT checkpoints.checkpoint_id, checkpoints.seq
FROM checkpoints
WHERE checkpoints.log_id = :k_log_id
AND checkpoints.seq >= :p_low
AND checkpoints.seq <= :p_high
AND NOT (EXISTS (
    SELECT 1
    FROM deltas
    WHERE deltas.log_id = checkpoints.log_id
    AND deltas.seq = checkpoints.seq
    AND deltas.kind IN ('snapshot', 'delta')))
ORDER BY checkpoints.seq
FETCH FIRST :p_limit ROWS ONLY

-- maintenance.verify.logs.read_head_and_last_rows()
SELECT threads.next_seq, threads.head_id, threads.deleted_at, threads.version, threads.epoch,
  threads.created_at, threads.updated_at, threads.active_at, threads.expires_at,
  threads.forked_from, threads.forked_seq, threads.tenant, threads.thread_id, threads.namespace,
  1 AS meta_readable, (
  SELECT max(deltas.seq) AS max_1
  FROM deltas
  WHERE deltas.log_id = threads.log_id) AS last_row, (
  SELECT max(deltas.seq) AS max_2
  FROM deltas
  WHERE deltas.log_id = threads.log_id
  AND (deltas.kind NOT IN ('write'))) AS last_but_writes, (
  SELECT max(checkpoints.seq) AS max_3
  FROM checkpoints
  WHERE checkpoints.log_id = threads.log_id) AS last_name, (
  SELECT checkpoints.checkpoint_id
  FROM checkpoints
  WHERE checkpoints.log_id = threads.log_id
  AND checkpoints.seq = (
    SELECT max(later.seq) AS max_4
    FROM checkpoints later
    WHERE later.log_id = checkpoints.log_id)) AS newest_id
FROM threads
WHERE threads.log_id = :k_log_id

-- maintenance.verify.logs.read_lineage()
SELECT checkpoints.seq, parent.seq AS parent_at
FROM checkpoints LEFT OUTER
JOIN checkpoints parent ON parent.log_id = checkpoints.log_id
AND parent.checkpoint_id = checkpoints.parent_id
WHERE checkpoints.log_id = :k_log_id
ORDER BY checkpoints.seq

-- maintenance.verify.logs.read_name()
SELECT checkpoints.checkpoint_id
FROM checkpoints
WHERE checkpoints.log_id = :k_log_id
AND checkpoints.seq = :p_seq

-- maintenance.verify.logs.read_rows_of_state()
WITH chain(seq, kind, base_seq, depth, codec, checksum, payload) AS (
  SELECT deltas.seq AS seq, deltas.kind AS kind, deltas.base_seq AS base_seq, deltas.depth AS depth,
    deltas.codec AS codec, deltas.checksum AS checksum, deltas.payload AS payload
  FROM deltas
  WHERE deltas.log_id = :k_log_id
  AND deltas.seq = :p_seq
  UNION ALL
  SELECT base.seq AS seq, base.kind AS kind, base.base_seq AS base_seq, base.depth AS depth,
    base.codec AS codec, base.checksum AS checksum, base.payload AS payload
  FROM chain
  JOIN deltas base ON base.seq = chain.base_seq
  AND base.seq < chain.seq
  WHERE base.log_id = :k_log_id)
SELECT chain.seq, chain.kind, chain.base_seq, chain.depth, chain.codec, chain.checksum,
  chain.payload
FROM chain
ORDER BY chain.seq

-- maintenance.verify.logs.read_rows_to_verify()
SELECT deltas.seq, deltas.kind, deltas.base_seq, deltas.depth, deltas.radix, deltas.codec,
  deltas.checksum, deltas.overwrites, deltas.entry_key, deltas.label, deltas.occurred_at,
  deltas.stored_at, deltas.tenant, checkpoints.tenant AS named_tenant, checkpoints.checkpoint_id,
  checkpoints.rests_on, under.seq AS rests_at, checkpoints.raw_size, checkpoints.stored_size,
  checkpoints.run_id, checkpoints.occurred_at AS named_occurred_at,
  checkpoints.created_at AS named_created_at, 1 AS meta_readable, base.kind AS base_kind,
  base.depth AS base_depth, parent.seq AS parent_at, (
  SELECT max(child.seq) AS max_1
  FROM deltas child
  WHERE child.log_id = deltas.log_id
  AND child.base_seq = deltas.seq) AS last_use, deltas.payload
FROM deltas LEFT OUTER
JOIN checkpoints ON checkpoints.log_id = deltas.log_id
AND checkpoints.seq = deltas.seq LEFT OUTER
JOIN deltas base ON base.log_id = deltas.log_id
AND base.seq = deltas.base_seq LEFT OUTER
JOIN checkpoints parent ON parent.log_id = checkpoints.log_id
AND parent.checkpoint_id = checkpoints.parent_id LEFT OUTER
JOIN checkpoints under ON under.log_id = checkpoints.log_id
AND under.checkpoint_id = checkpoints.rests_on
WHERE deltas.log_id = :k_log_id
AND deltas.seq >= :p_low
AND deltas.seq <= :p_high
ORDER BY deltas.seq

-- maintenance.words.statements.count_wordless(table=deltas, scope=tenant)
SELECT count(*) AS count_1
FROM deltas
JOIN threads ON threads.log_id = deltas.log_id
WHERE threads.tenant = :k_tenant
AND (deltas.search_text IS NULL
  OR substr(deltas.search_text, 1, 1) != '#')
AND (deltas.kind NOT IN ('write'))

-- maintenance.words.statements.find_words(kind=logs)
SELECT threads.namespace
FROM deltas
JOIN threads ON threads.log_id = deltas.log_id
WHERE threads.tenant = :k_tenant
AND deltas.search_text IS NOT NULL
FETCH FIRST :p_limit ROWS ONLY

-- maintenance.words.statements.give_delta_words()
UPDATE deltas
SET search_text=:p_search_text
WHERE deltas.log_id = :k_log_id
AND deltas.seq = :p_seq
AND (deltas.search_text IS NULL
  OR substr(deltas.search_text, 1, 1) != '#')
AND coalesce(length(deltas.search_text), 0) = :p_was_length
AND deltas.codec = :p_was_codec
AND deltas.checksum = :p_was_checksum

-- maintenance.words.statements.give_item_words()
UPDATE store_items
SET search_text=:p_search_text, field_terms=:p_field_terms
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND store_items.key = :k_key
AND store_items.version = :p_version
AND store_items.codec = :p_was_codec
AND store_items.checksum = :p_was_checksum

-- maintenance.words.statements.list_wordless(table=deltas, scope=tenant, after=True)
SELECT deltas.log_id, deltas.seq, deltas.kind, deltas.codec, deltas.checksum, threads.thread_id,
  threads.namespace, checkpoints.checkpoint_id, checkpoints.parent_id, deltas.search_text,
  length(deltas.payload) AS stored
FROM deltas
JOIN threads ON threads.log_id = deltas.log_id LEFT OUTER
JOIN checkpoints ON checkpoints.log_id = deltas.log_id
AND checkpoints.seq = deltas.seq
WHERE threads.tenant = :k_tenant
AND (deltas.search_text IS NULL
  OR substr(deltas.search_text, 1, 1) != '#')
AND (deltas.kind NOT IN ('write'))
AND deltas.log_id >= :p_log_id
AND (deltas.log_id > :p_log_id
  OR deltas.log_id = :p_log_id
  AND deltas.seq > :p_seq)
ORDER BY deltas.log_id, deltas.seq
FETCH FIRST :p_limit ROWS ONLY

-- maintenance.words.statements.read_entries_of_range()
SELECT deltas.seq, deltas.codec, deltas.checksum, deltas.payload
FROM deltas
WHERE deltas.log_id = :k_log_id
AND deltas.kind IN ('entry')
AND deltas.seq >= :p_low
AND deltas.seq <= :p_high
ORDER BY deltas.seq

-- maintenance.words.statements.read_wordless_items()
SELECT store_items.namespace, store_items.key, store_items.meta, store_items.version,
  store_items.codec, store_items.checksum, store_items.search_text, store_items.field_terms,
  store_items.value
FROM store_items
WHERE store_items.tenant = :k_tenant
AND (store_items.namespace, store_items.key) IN (
  SELECT listed.namespace, listed.key
  FROM (
    SELECT each_.namespace, each_.key
    FROM JSON_TABLE(:p_keys, '$[*]' COLUMNS (namespace VARCHAR2(4000) PATH '$[0]',
          key VARCHAR2(4000) PATH '$[1]')) each_) listed)

-- protection.key_registry.delete_key()
DELETE FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND store_items.key = :k_key

-- protection.key_registry.find_encrypted(table=deltas)
SELECT dbms_lob.substr(some.payload, 9, 1) AS begins
FROM (
  SELECT deltas.codec AS codec, deltas.payload AS payload
  FROM (
    SELECT threads.log_id AS log_id, threads.next_seq AS next_seq
    FROM threads
    WHERE threads.tenant = :k_tenant
    ORDER BY threads.active_at DESC
    FETCH FIRST :p_limit ROWS ONLY) newest
  JOIN deltas ON deltas.log_id = newest.log_id
  AND deltas.seq >= newest.next_seq - 3) some
WHERE some.codec LIKE '%+gcm2'
FETCH FIRST 1 ROWS ONLY

-- protection.key_registry.find_signed(table=threads)
SELECT some.signature, some.namespace, some.name
FROM (
  SELECT threads.signature AS signature, threads.namespace AS namespace, threads.thread_id AS name
  FROM threads
  WHERE threads.tenant = :k_tenant
  ORDER BY threads.active_at DESC
  FETCH FIRST :p_limit ROWS ONLY) some
WHERE some.signature IS NOT NULL

-- protection.key_registry.insert_key()
INSERT INTO store_items (tenant, namespace, key, meta, version, codec, checksum, created_at,
    updated_at, value)
VALUES (:k_tenant, :k_namespace, :k_key, :meta, :version, :codec, :checksum, :p_now, :p_now,
    :p_content)

-- protection.key_registry.read_registered_keys(scope=tenant)
SELECT store_items.tenant, store_items.namespace, store_items.key, store_items.value
FROM store_items
WHERE store_items.tenant = :k_tenant
AND (store_items.namespace = :namespace_1
  OR store_items.namespace = :namespace_2)

-- protection.no_upsert.insert_note()
INSERT INTO store_items (tenant, namespace, key, meta, version, codec, checksum, created_at,
    updated_at, signature, value)
VALUES (:k_tenant, :k_namespace, :k_key, :meta, :p_version, :codec, :checksum, :p_created_at,
    :p_updated_at, :p_signature, :p_content)

-- protection.no_upsert.update_note()
UPDATE store_items
SET version=:p_version, created_at=:p_created_at, updated_at=:p_updated_at, signature=:p_signature,
  value=:p_content
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND store_items.key = :k_key

-- protection.removals.delete_old_removals()
DELETE FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = '/~signing/removals/'
AND store_items.updated_at < :p_before

-- protection.removals.delete_removals()
DELETE FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = '/~signing/removals/'
AND store_items.key IN (
  SELECT listed.key
  FROM (
    SELECT each_.key
    FROM JSON_TABLE(:p_keys, '$[*]' COLUMNS (key VARCHAR2(4000) PATH '$[0]')) each_) listed)

-- protection.removals.find_anchoring()
SELECT store_items.value, store_items.updated_at
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = '/~signing/anchors/'

-- protection.removals.find_removals()
SELECT store_items.key, store_items.created_at, store_items.version, store_items.updated_at,
  store_items.signature
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = '/~signing/removals/'
AND store_items.key IN (
  SELECT listed.key
  FROM (
    SELECT each_.key
    FROM JSON_TABLE(:p_keys, '$[*]' COLUMNS (key VARCHAR2(4000) PATH '$[0]')) each_) listed)

-- protection.removals.list_removals(after=True)
SELECT store_items.key, store_items.created_at, store_items.version, store_items.updated_at,
  store_items.signature
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = '/~signing/removals/'
AND store_items.key > :p_key
ORDER BY store_items.key
FETCH FIRST :p_limit ROWS ONLY

-- protection.removals.read_lives()
SELECT store_items.tenant, store_items.namespace, store_items.key, store_items.version,
  store_items.meta, store_items.codec, store_items.value, store_items.created_at,
  store_items.updated_at, store_items.expires_at, store_items.lifetime, store_items.signature
FROM store_items
WHERE store_items.tenant = :k_tenant
AND (store_items.namespace, store_items.key) IN (
  SELECT listed.namespace, listed.key
  FROM (
    SELECT each_.namespace, each_.key
    FROM JSON_TABLE(:p_keys, '$[*]' COLUMNS (namespace VARCHAR2(4000) PATH '$[0]',
          key VARCHAR2(4000) PATH '$[1]')) each_) listed)

-- protection.signed_items.lock_signed_item()
SELECT store_items.tenant, store_items.namespace, store_items.key, store_items.version,
  store_items.meta, store_items.codec, store_items.value, store_items.created_at,
  store_items.updated_at, store_items.expires_at, store_items.lifetime, store_items.search_text,
  store_items.field_terms, store_items.signature
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND store_items.key = :k_key
FOR UPDATE

-- protection.signed_items.read_signed_item()
SELECT store_items.tenant, store_items.namespace, store_items.key, store_items.version,
  store_items.meta, store_items.codec, store_items.value, store_items.created_at,
  store_items.updated_at, store_items.expires_at, store_items.lifetime, store_items.signature
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND store_items.key = :k_key

-- protection.signed_items.read_signed_items()
SELECT store_items.tenant, store_items.namespace, store_items.key, store_items.version,
  store_items.meta, store_items.codec, store_items.value, store_items.created_at,
  store_items.updated_at, store_items.expires_at, store_items.lifetime, store_items.signature
FROM store_items
WHERE store_items.tenant = :k_tenant
AND (store_items.namespace, store_items.key) IN (
  SELECT listed.namespace, listed.key
  FROM (
    SELECT each_.namespace, each_.key
    FROM JSON_TABLE(:p_keys, '$[*]' COLUMNS (namespace VARCHAR2(4000) PATH '$[0]',
          key VARCHAR2(4000) PATH '$[1]')) each_) listed)

-- protection.signed_items.read_signed_vectors()
SELECT embeddings.namespace, embeddings.key, embeddings.field, embeddings.model, embeddings.part,
  embeddings.dimensions, embeddings.signature, embeddings.vector AS vector
FROM embeddings
WHERE embeddings.tenant = :k_tenant
AND (embeddings.namespace, embeddings.key) IN (
  SELECT listed.namespace, listed.key
  FROM (
    SELECT each_.namespace, each_.key
    FROM JSON_TABLE(:p_keys, '$[*]' COLUMNS (namespace VARCHAR2(4000) PATH '$[0]',
          key VARCHAR2(4000) PATH '$[1]')) each_) listed)

-- protection.signed_items.read_signed_words()
SELECT store_items.namespace, store_items.key, store_items.version, store_items.search_text,
  store_items.field_terms, store_items.signature
FROM store_items
WHERE store_items.tenant = :k_tenant
AND (store_items.namespace, store_items.key) IN (
  SELECT listed.namespace, listed.key
  FROM (
    SELECT each_.namespace, each_.key
    FROM JSON_TABLE(:p_keys, '$[*]' COLUMNS (namespace VARCHAR2(4000) PATH '$[0]',
          key VARCHAR2(4000) PATH '$[1]')) each_) listed)

-- protection.signed_items.read_vector_signatures()
SELECT embeddings.namespace, embeddings.key, embeddings.signature
FROM embeddings
WHERE embeddings.tenant = :k_tenant
AND (embeddings.namespace, embeddings.key) IN (
  SELECT listed.namespace, listed.key
  FROM (
    SELECT each_.namespace, each_.key
    FROM JSON_TABLE(:p_keys, '$[*]' COLUMNS (namespace VARCHAR2(4000) PATH '$[0]',
          key VARCHAR2(4000) PATH '$[1]')) each_) listed)

-- protection.signed_items.sign_item()
UPDATE store_items
SET signature=:p_signature
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND store_items.key = :k_key

-- protection.signed_items.sign_vector()
UPDATE embeddings
SET signature=:p_signature
WHERE embeddings.tenant = :k_tenant
AND embeddings.namespace = :k_namespace
AND embeddings.key = :k_key
AND embeddings.field = :p_field
AND embeddings.model = :p_model
AND embeddings.part = :p_part

-- protection.signed_logs.list_signatures()
SELECT checkpoints.seq, checkpoints.signature, 0 AS kind
FROM checkpoints
WHERE checkpoints.log_id = :k_log_id
UNION ALL
SELECT deltas.seq, deltas.signature, 1 AS kind
FROM deltas
WHERE deltas.log_id = :k_log_id
AND deltas.kind = 'entry'
UNION ALL
SELECT deltas.seq, deltas.signature, 2 AS kind
FROM deltas
WHERE deltas.log_id = :k_log_id
AND deltas.kind = 'write'

-- protection.signed_logs.list_signatures_of_logs()
SELECT checkpoints.log_id, checkpoints.seq, checkpoints.signature, 0 AS kind
FROM checkpoints
WHERE checkpoints.log_id IN (
  SELECT listed.log_id
  FROM (
    SELECT HEXTORAW(REPLACE(each_.log_id, '-')) AS log_id
    FROM JSON_TABLE(:p_logs, '$[*]' COLUMNS (log_id VARCHAR2(4000) PATH '$[0]')) each_) listed)
UNION ALL
SELECT deltas.log_id, deltas.seq, deltas.signature, 1 AS kind
FROM deltas
WHERE deltas.log_id IN (
  SELECT listed.log_id
  FROM (
    SELECT HEXTORAW(REPLACE(each_.log_id, '-')) AS log_id
    FROM JSON_TABLE(:p_logs, '$[*]' COLUMNS (log_id VARCHAR2(4000) PATH '$[0]')) each_) listed)
AND deltas.kind = 'entry'
UNION ALL
SELECT deltas.log_id, deltas.seq, deltas.signature, 2 AS kind
FROM deltas
WHERE deltas.log_id IN (
  SELECT listed.log_id
  FROM (
    SELECT HEXTORAW(REPLACE(each_.log_id, '-')) AS log_id
    FROM JSON_TABLE(:p_logs, '$[*]' COLUMNS (log_id VARCHAR2(4000) PATH '$[0]')) each_) listed)
AND deltas.kind = 'write'

-- protection.signed_logs.read_signed_checkpoint()
SELECT checkpoints.log_id, checkpoints.seq, checkpoints.tenant, checkpoints.checkpoint_id,
  checkpoints.parent_id, checkpoints.ordinal, checkpoints.rests_on, checkpoints.run_id,
  checkpoints.meta, checkpoints.occurred_at, checkpoints.created_at, checkpoints.signature
FROM checkpoints
WHERE checkpoints.log_id = :k_log_id
AND checkpoints.checkpoint_id = :p_checkpoint_id

-- protection.signed_logs.read_signed_head(locks=True)
SELECT threads.log_id, threads.tenant, threads.thread_id, threads.namespace, threads.next_seq,
  threads.version, threads.last_ordinal, threads.head_id, threads.previous_id, threads.created_at,
  threads.updated_at, threads.expires_at, threads.deleted_at, threads.meta, threads.signature
FROM threads
WHERE threads.log_id = :k_log_id
FOR UPDATE

-- protection.signed_logs.read_signed_heads()
SELECT threads.log_id, threads.tenant, threads.thread_id, threads.namespace, threads.next_seq,
  threads.version, threads.last_ordinal, threads.head_id, threads.previous_id, threads.created_at,
  threads.updated_at, threads.expires_at, threads.deleted_at, threads.meta, threads.signature
FROM threads
WHERE threads.log_id IN (
  SELECT listed.log_id
  FROM (
    SELECT HEXTORAW(REPLACE(each_.log_id, '-')) AS log_id
    FROM JSON_TABLE(:p_logs, '$[*]' COLUMNS (log_id VARCHAR2(4000) PATH '$[0]')) each_) listed)

-- protection.signed_logs.read_signed_row(table=checkpoints)
SELECT checkpoints.log_id, checkpoints.seq, checkpoints.tenant, checkpoints.checkpoint_id,
  checkpoints.parent_id, checkpoints.ordinal, checkpoints.rests_on, checkpoints.run_id,
  checkpoints.meta, checkpoints.occurred_at, checkpoints.created_at, checkpoints.signature
FROM checkpoints
WHERE checkpoints.log_id = :k_log_id
AND checkpoints.seq = :p_seq

-- protection.signed_logs.read_signed_rows(table=checkpoints)
SELECT checkpoints.log_id, checkpoints.seq, checkpoints.tenant, checkpoints.checkpoint_id,
  checkpoints.parent_id, checkpoints.ordinal, checkpoints.rests_on, checkpoints.run_id,
  checkpoints.meta, checkpoints.occurred_at, checkpoints.created_at, checkpoints.signature
FROM checkpoints
WHERE checkpoints.log_id = :k_log_id
AND checkpoints.seq > :p_after
ORDER BY checkpoints.seq
FETCH FIRST :p_limit ROWS ONLY

-- protection.signed_logs.sign_head()
UPDATE threads
SET signature=:p_signature
WHERE threads.log_id = :k_log_id

-- protection.signed_logs.sign_row(table=checkpoints)
UPDATE checkpoints
SET signature=:p_signature
WHERE checkpoints.log_id = :k_log_id
AND checkpoints.seq = :p_seq

-- search._vector_statements.count_vectors(below=False)
SELECT count(*) AS count_1
FROM (
  SELECT 1 AS one
  FROM embeddings
  WHERE embeddings.tenant = :k_tenant
  AND embeddings.namespace = :k_namespace
  AND embeddings.model = :p_model
  AND embeddings.dimensions = :p_dimensions
  FETCH FIRST :p_limit ROWS ONLY) some_vectors

-- search._vector_statements.rank_all(metric=cosine, below=False, among=False, signed=False)
WITH near AS (
  SELECT embeddings.namespace AS namespace, embeddings.key AS key, embeddings.field AS field,
    embeddings.part AS part, vector_distance(embeddings.vector, :p_vector, COSINE) AS distance
  FROM embeddings
  WHERE embeddings.tenant = :k_tenant
  AND embeddings.namespace = :k_namespace
  AND embeddings.model = :p_model
  AND embeddings.dimensions = :p_dimensions
  ORDER BY vector_distance(embeddings.vector, :p_vector, COSINE), embeddings.namespace,
    embeddings.key, embeddings.field, embeddings.part
  FETCH FIRST :p_limit ROWS ONLY)
SELECT near.namespace, near.key, near.field, near.part, near.distance, CASE
WHEN (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now) THEN 1
ELSE 0 END AS alive, store_items.meta, store_items.version, store_items.codec,
  store_items.checksum, store_items.created_at, store_items.updated_at, store_items.expires_at,
  store_items.lifetime, store_items.signature, CASE
WHEN (length(store_items.value) <= :p_longest) THEN store_items.value END AS value
FROM near
JOIN store_items ON store_items.tenant = :k_tenant
AND store_items.namespace = near.namespace
AND store_items.key = near.key

-- search._vector_statements.vectors_of_items(as_stored=False, alive=False, signed=False)
SELECT embeddings.namespace, embeddings.key, embeddings.field, embeddings.model, embeddings.part,
  embeddings.vector
FROM embeddings
WHERE embeddings.tenant = :k_tenant
AND (embeddings.namespace, embeddings.key) IN (
  SELECT listed.namespace, listed.key
  FROM (
    SELECT each_.namespace, each_.key
    FROM JSON_TABLE(:p_keys, '$[*]' COLUMNS (namespace VARCHAR2(4000) PATH '$[0]',
          key VARCHAR2(4000) PATH '$[1]')) each_) listed)

-- search.kept_http_answers.delete_kept_answers()
DELETE FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace

-- search.missing_items.read_any_item()
SELECT store_items.namespace, store_items.key, store_items.meta, store_items.version,
  store_items.codec, store_items.checksum, store_items.created_at, store_items.updated_at,
  store_items.expires_at, store_items.lifetime, store_items.signature, store_items.value
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND store_items.key = :k_key

-- search.text.count_item_terms(below=False)
WITH hits AS (
  SELECT terms.term AS term, store_items.key AS key
  FROM (
    SELECT listed.term
    FROM JSON_TABLE(:terms, '$[*]' COLUMNS (term VARCHAR2(4000) PATH '$')) listed) terms
  JOIN store_items ON contains(store_items.search_text, terms.term) > :contains_1
  WHERE store_items.tenant = :scope_tenant
  AND store_items.namespace = :scope_path)
SELECT hits.term, count(*) AS occurrences
FROM hits
GROUP BY hits.term

-- search.text.count_log_terms(below=False)
WITH hits AS (
  SELECT terms.term AS term, deltas.log_id AS log_id, deltas.seq AS seq
  FROM (
    SELECT listed.term
    FROM JSON_TABLE(:terms, '$[*]' COLUMNS (term VARCHAR2(4000) PATH '$')) listed) terms
  JOIN deltas ON contains(deltas.search_text, terms.term) > :contains_1
  JOIN threads ON threads.log_id = deltas.log_id
  WHERE threads.tenant = :k_tenant
  AND threads.namespace = :k_namespace)
SELECT hits.term, count(*) AS occurrences
FROM hits
GROUP BY hits.term

-- search.text.narrowed_items(below=False)
WITH within AS (
  SELECT store_items.namespace AS namespace, store_items.key AS key,
    store_items.updated_at AS updated_at
  FROM store_items
  WHERE store_items.tenant = :scope_tenant
  AND store_items.namespace = :scope_path)
SELECT within.namespace, within.key, within.updated_at
FROM within
FETCH FIRST :p_limit ROWS ONLY

-- search.text.newest_narrowed(below=False, words=False)
WITH within AS (
  SELECT store_items.namespace AS namespace, store_items.key AS key,
    store_items.updated_at AS updated_at
  FROM store_items
  WHERE store_items.tenant = :scope_tenant
  AND store_items.namespace = :scope_path),
found AS (
  SELECT within.updated_at AS updated_at, within.namespace AS namespace, within.key AS key
  FROM within
  FETCH FIRST :p_beyond ROWS ONLY),
few AS (
  SELECT count(*) AS "number"
  FROM found),
page AS (
  SELECT found.updated_at AS updated_at, found.namespace AS namespace, found.key AS key
  FROM found
  ORDER BY found.updated_at DESC, found.namespace DESC, found.key DESC
  FETCH FIRST :p_limit ROWS ONLY)
SELECT few."number", store_items.namespace, store_items.key, store_items.meta, store_items.version,
  store_items.codec, store_items.checksum, store_items.created_at, store_items.updated_at,
  store_items.expires_at, store_items.lifetime, store_items.signature, store_items.value
FROM few LEFT OUTER
JOIN page ON few."number" <= :p_most LEFT OUTER
JOIN store_items ON store_items.tenant = :k_tenant
AND store_items.namespace = page.namespace
AND store_items.key = page.key
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now)
ORDER BY page.updated_at DESC, page.namespace DESC, page.key DESC

-- search.text.read_found_checkpoints()
SELECT threads.thread_id, threads.namespace, checkpoints.checkpoint_id, checkpoints.parent_id,
  checkpoints.seq, checkpoints.meta, checkpoints.created_at, checkpoints.raw_size,
  checkpoints.stored_size, checkpoints.occurred_at, checkpoints.ordinal, checkpoints.rests_on,
  checkpoints.run_id, checkpoints.signature, checkpoints.log_id,
  deltas.signature AS state_signature, deltas.radix, deltas.search_text
FROM checkpoints
JOIN deltas ON deltas.log_id = checkpoints.log_id
AND deltas.seq = checkpoints.seq
JOIN threads ON threads.log_id = checkpoints.log_id
WHERE (checkpoints.log_id, checkpoints.seq) IN (
  SELECT listed.log_id, CAST(listed.seq AS NUMBER(19)) AS seq
  FROM (
    SELECT HEXTORAW(REPLACE(each_.log_id, '-')) AS log_id, each_.seq
    FROM JSON_TABLE(:p_keys, '$[*]' COLUMNS (log_id VARCHAR2(4000) PATH '$[0]',
          seq VARCHAR2(4000) PATH '$[1]')) each_) listed)

-- search.text.read_found_entries()
SELECT deltas.log_id, deltas.seq, deltas.entry_key, deltas.occurred_at, deltas.stored_at,
  deltas.codec, deltas.checksum, deltas.search_text, deltas.payload, deltas.signature,
  threads.thread_id, threads.namespace
FROM deltas
JOIN threads ON threads.log_id = deltas.log_id
WHERE (deltas.log_id, deltas.seq) IN (
  SELECT listed.log_id, CAST(listed.seq AS NUMBER(19)) AS seq
  FROM (
    SELECT HEXTORAW(REPLACE(each_.log_id, '-')) AS log_id, each_.seq
    FROM JSON_TABLE(:p_keys, '$[*]' COLUMNS (log_id VARCHAR2(4000) PATH '$[0]',
          seq VARCHAR2(4000) PATH '$[1]')) each_) listed)
AND deltas.kind IN ('entry')

-- search.text.search_checkpoints(scope=namespace, weighed=False, one=False, rare=False, last_stored=False)
WITH hits AS (
  SELECT terms.term AS term, deltas.log_id AS log_id, deltas.seq AS seq
  FROM (
    SELECT listed.term
    FROM JSON_TABLE(:terms, '$[*]' COLUMNS (term VARCHAR2(4000) PATH '$')) listed) terms
  JOIN deltas ON contains(deltas.search_text, terms.term) > :contains_1
  JOIN threads ON threads.log_id = deltas.log_id
  WHERE threads.tenant = :k_tenant
  AND threads.namespace = :k_namespace),
found AS (
  SELECT hits.term AS term, count(*) AS occurrences
  FROM hits
  GROUP BY hits.term),
common AS (
  SELECT found.term AS term, CASE
  WHEN (found.occurrences < 2) THEN 0
  WHEN (found.occurrences < 4) THEN 1
  WHEN (found.occurrences < 8) THEN 2
  WHEN (found.occurrences < 16) THEN 3
  WHEN (found.occurrences < 32) THEN 4
  WHEN (found.occurrences < 64) THEN 5
  WHEN (found.occurrences < 128) THEN 6
  WHEN (found.occurrences < 256) THEN 7
  WHEN (found.occurrences < 512) THEN 8
  WHEN (found.occurrences < 1024) THEN 9
  WHEN (found.occurrences < 2048) THEN 10
  WHEN (found.occurrences < 4096) THEN 11
  WHEN (found.occurrences < 8192) THEN 12
  WHEN (found.occurrences < 16384) THEN 13
  WHEN (found.occurrences < 32768) THEN 14
  WHEN (found.occurrences < 65536) THEN 15
  WHEN (found.occurrences < 131072) THEN 16
  WHEN (found.occurrences < 262144) THEN 17
  WHEN (found.occurrences < 524288) THEN 18
  WHEN (found.occurrences < 1048576) THEN 19
  ELSE 20 END AS bits
  FROM found),
scale AS (
  SELECT max(common.bits) AS most, min(common.bits) AS least
  FROM common),
worth AS (
  SELECT common.term AS term,
    ((scale.most - common.bits) + 1) * ((scale.most - common.bits) + 1) * :p_terms + ((scale.most - scale.least) + 1) * ((scale.most - scale.least) + 1) AS weight, (scale.most + 2) * (scale.most + 2) * :p_terms + ((scale.most - scale.least) + 1) * ((scale.most - scale.least) + 1) AS missing
  FROM common
  JOIN scale ON scale.most > -1),
ranked AS (
  SELECT hits.log_id AS log_id, hits.seq AS seq, sum(worth.weight) AS weight
  FROM hits
  JOIN worth ON worth.term = hits.term
  GROUP BY hits.log_id, hits.seq HAVING count(*) >= :p_least),
best AS (
  SELECT checkpoints.log_id AS log_id, checkpoints.seq AS seq, checkpoints.created_at AS created_at,
    threads.thread_id AS thread_id, threads.namespace AS namespace, ranked.weight AS weight
  FROM ranked
  JOIN checkpoints ON checkpoints.log_id = ranked.log_id
  AND checkpoints.seq = ranked.seq
  JOIN threads ON threads.log_id = ranked.log_id
  WHERE threads.deleted_at IS NULL
  AND (threads.expires_at IS NULL
    OR threads.expires_at > :p_now)
  ORDER BY ranked.weight DESC, checkpoints.created_at DESC, threads.thread_id DESC,
    threads.namespace DESC, checkpoints.seq DESC
  OFFSET :p_offset ROWS
  FETCH FIRST :p_limit ROWS ONLY)
SELECT best.log_id, best.seq, CAST(best.weight AS FLOAT) / CAST((
    SELECT coalesce(sum(worth.weight) + max(worth.missing) * (:p_terms - count(*)), 1) AS coalesce_1
    FROM worth) AS FLOAT) AS score
FROM best
ORDER BY best.weight DESC, best.created_at DESC, best.thread_id DESC, best.namespace DESC,
  best.seq DESC

-- search.text.search_entries(scope=namespace, weighed=False, one=False, rare=False)
WITH hits AS (
  SELECT terms.term AS term, deltas.log_id AS log_id, deltas.seq AS seq
  FROM (
    SELECT listed.term
    FROM JSON_TABLE(:terms, '$[*]' COLUMNS (term VARCHAR2(4000) PATH '$')) listed) terms
  JOIN deltas ON contains(deltas.search_text, terms.term) > :contains_1
  JOIN threads ON threads.log_id = deltas.log_id
  WHERE threads.tenant = :k_tenant
  AND threads.namespace = :k_namespace),
found AS (
  SELECT hits.term AS term, count(*) AS occurrences
  FROM hits
  GROUP BY hits.term),
common AS (
  SELECT found.term AS term, CASE
  WHEN (found.occurrences < 2) THEN 0
  WHEN (found.occurrences < 4) THEN 1
  WHEN (found.occurrences < 8) THEN 2
  WHEN (found.occurrences < 16) THEN 3
  WHEN (found.occurrences < 32) THEN 4
  WHEN (found.occurrences < 64) THEN 5
  WHEN (found.occurrences < 128) THEN 6
  WHEN (found.occurrences < 256) THEN 7
  WHEN (found.occurrences < 512) THEN 8
  WHEN (found.occurrences < 1024) THEN 9
  WHEN (found.occurrences < 2048) THEN 10
  WHEN (found.occurrences < 4096) THEN 11
  WHEN (found.occurrences < 8192) THEN 12
  WHEN (found.occurrences < 16384) THEN 13
  WHEN (found.occurrences < 32768) THEN 14
  WHEN (found.occurrences < 65536) THEN 15
  WHEN (found.occurrences < 131072) THEN 16
  WHEN (found.occurrences < 262144) THEN 17
  WHEN (found.occurrences < 524288) THEN 18
  WHEN (found.occurrences < 1048576) THEN 19
  ELSE 20 END AS bits
  FROM found),
scale AS (
  SELECT max(common.bits) AS most, min(common.bits) AS least
  FROM common),
worth AS (
  SELECT common.term AS term,
    ((scale.most - common.bits) + 1) * ((scale.most - common.bits) + 1) * :p_terms + ((scale.most - scale.least) + 1) * ((scale.most - scale.least) + 1) AS weight, (scale.most + 2) * (scale.most + 2) * :p_terms + ((scale.most - scale.least) + 1) * ((scale.most - scale.least) + 1) AS missing
  FROM common
  JOIN scale ON scale.most > -1),
ranked AS (
  SELECT hits.log_id AS log_id, hits.seq AS seq, sum(worth.weight) AS weight
  FROM hits
  JOIN worth ON worth.term = hits.term
  GROUP BY hits.log_id, hits.seq HAVING count(*) >= :p_least),
best AS (
  SELECT deltas.log_id AS log_id, deltas.seq AS seq, deltas.stored_at AS stored_at,
    threads.thread_id AS thread_id, threads.namespace AS namespace, ranked.weight AS weight
  FROM ranked
  JOIN deltas ON deltas.log_id = ranked.log_id
  AND deltas.seq = ranked.seq
  JOIN threads ON threads.log_id = ranked.log_id
  WHERE threads.deleted_at IS NULL
  AND (threads.expires_at IS NULL
    OR threads.expires_at > :p_now)
  AND deltas.kind IN ('entry')
  ORDER BY ranked.weight DESC, deltas.stored_at DESC, deltas.seq DESC, threads.thread_id DESC
  OFFSET :p_offset ROWS
  FETCH FIRST :p_limit ROWS ONLY)
SELECT best.log_id, best.seq, best.thread_id, best.namespace, CAST(best.weight AS FLOAT) / CAST((
    SELECT coalesce(sum(worth.weight) + max(worth.missing) * (:p_terms - count(*)), 1) AS coalesce_1
    FROM worth) AS FLOAT) AS score
FROM best
ORDER BY best.weight DESC, best.stored_at DESC, best.seq DESC, best.thread_id DESC

-- search.text.search_items(below=False, weighed=False, one=False, rare=False, words=False)
WITH hits AS (
  SELECT terms.term AS term, store_items.namespace AS namespace, store_items.key AS key,
    store_items.updated_at AS updated_at, store_items.expires_at AS expires_at,
    length(store_items.search_text) AS text_size
  FROM (
    SELECT listed.term
    FROM JSON_TABLE(:terms, '$[*]' COLUMNS (term VARCHAR2(4000) PATH '$')) listed) terms
  JOIN store_items ON contains(store_items.search_text, terms.term) > :contains_1
  WHERE store_items.tenant = :scope_tenant
  AND store_items.namespace = :scope_path),
found AS (
  SELECT hits.term AS term, count(*) AS occurrences
  FROM hits
  GROUP BY hits.term),
common AS (
  SELECT found.term AS term, CASE
  WHEN (found.occurrences < 2) THEN 0
  WHEN (found.occurrences < 4) THEN 1
  WHEN (found.occurrences < 8) THEN 2
  WHEN (found.occurrences < 16) THEN 3
  WHEN (found.occurrences < 32) THEN 4
  WHEN (found.occurrences < 64) THEN 5
  WHEN (found.occurrences < 128) THEN 6
  WHEN (found.occurrences < 256) THEN 7
  WHEN (found.occurrences < 512) THEN 8
  WHEN (found.occurrences < 1024) THEN 9
  WHEN (found.occurrences < 2048) THEN 10
  WHEN (found.occurrences < 4096) THEN 11
  WHEN (found.occurrences < 8192) THEN 12
  WHEN (found.occurrences < 16384) THEN 13
  WHEN (found.occurrences < 32768) THEN 14
  WHEN (found.occurrences < 65536) THEN 15
  WHEN (found.occurrences < 131072) THEN 16
  WHEN (found.occurrences < 262144) THEN 17
  WHEN (found.occurrences < 524288) THEN 18
  WHEN (found.occurrences < 1048576) THEN 19
  ELSE 20 END AS bits
  FROM found),
scale AS (
  SELECT max(common.bits) AS most, min(common.bits) AS least
  FROM common),
worth AS (
  SELECT common.term AS term,
    ((scale.most - common.bits) + 1) * ((scale.most - common.bits) + 1) * :p_terms + ((scale.most - scale.least) + 1) * ((scale.most - scale.least) + 1) AS weight, (scale.most + 2) * (scale.most + 2) * :p_terms + ((scale.most - scale.least) + 1) * ((scale.most - scale.least) + 1) AS missing
  FROM common
  JOIN scale ON scale.most > -1),
ranked AS (
  SELECT hits.namespace AS namespace, hits.key AS key, hits.updated_at AS updated_at,
    hits.expires_at AS expires_at, hits.text_size AS text_size, sum(worth.weight) AS weight
  FROM hits
  JOIN worth ON worth.term = hits.term
  GROUP BY hits.namespace, hits.key, hits.updated_at, hits.expires_at,
    hits.text_size HAVING count(*) >= :p_least),
best AS (
  SELECT ranked.namespace AS namespace, ranked.key AS key, ranked.updated_at AS updated_at,
    ranked.expires_at AS expires_at, ranked.text_size AS text_size, ranked.weight AS weight
  FROM ranked
  WHERE ranked.expires_at IS NULL
  OR ranked.expires_at > :p_now
  ORDER BY ranked.weight DESC, FLOOR(ranked.text_size / 8), ranked.updated_at DESC, ranked.namespace,
    ranked.key
  OFFSET :p_offset ROWS
  FETCH FIRST :p_limit ROWS ONLY)
SELECT best.namespace, best.key, CAST(best.weight AS FLOAT) / CAST((
    SELECT coalesce(sum(worth.weight) + max(worth.missing) * (:p_terms - count(*)), 1) AS coalesce_1
    FROM worth) AS FLOAT) AS score
FROM best
ORDER BY best.weight DESC, FLOOR(best.text_size / 8), best.updated_at DESC, best.namespace, best.key

-- store.no_upsert.insert_item()
INSERT INTO store_items (tenant, namespace, key, meta, version, codec, checksum, search_text,
    field_terms, created_at, updated_at, expires_at, lifetime, signature, value)
VALUES (:k_tenant, :k_namespace, :k_key, :p_meta, 1, :p_codec, :p_checksum, :p_search_text,
    :p_field_terms, :p_updated_at, :p_updated_at, :p_expires_at, :p_lifetime, :p_signature, :p_value)

-- store.no_upsert.update_item(expected=any)
UPDATE store_items
SET meta=:p_meta, version=CASE
WHEN (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now) THEN store_items.version + :version_1
ELSE 1 END, codec=:p_codec, checksum=:p_checksum, search_text=:p_search_text,
  field_terms=:p_field_terms, created_at=CASE
WHEN (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now) THEN store_items.created_at
ELSE :p_updated_at END, updated_at=:p_updated_at, expires_at=:p_expires_at, lifetime=:p_lifetime,
  signature=:p_signature, value=:p_value
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND store_items.key = :k_key
RETURNING store_items.version
INTO :ret_0

-- store.read.count_items(below=False)
SELECT count(*) AS count_1
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now)

-- store.read.delete_expired()
DELETE FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.expires_at <= :p_now
AND (store_items.namespace, store_items.key) IN (
  SELECT listed.namespace, listed.key
  FROM (
    SELECT each_.namespace, each_.key
    FROM JSON_TABLE(:p_keys, '$[*]' COLUMNS (namespace VARCHAR2(4000) PATH '$[0]',
          key VARCHAR2(4000) PATH '$[1]')) each_) listed)

-- store.read.find_dimensions(below=False, given=False)
SELECT embeddings.dimensions
FROM embeddings
WHERE embeddings.tenant = :k_tenant
AND embeddings.namespace = :k_namespace
AND embeddings.model = :p_model
ORDER BY embeddings.dimensions
FETCH FIRST 1 ROWS ONLY

-- store.read.has_item()
SELECT store_items.version
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND store_items.key = :k_key
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now)

-- store.read.list_expired(after=True)
SELECT store_items.expires_at, store_items.namespace, store_items.key
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.expires_at <= :p_now
AND store_items.expires_at >= :p_expires_at
AND (store_items.expires_at > :p_expires_at
  OR store_items.expires_at = :p_expires_at
  AND (store_items.namespace > :p_namespace
    OR store_items.namespace = :p_namespace
    AND store_items.key > :p_key))
ORDER BY store_items.expires_at, store_items.namespace, store_items.key
FETCH FIRST :p_limit ROWS ONLY

-- store.read.list_items(order=newest, below=False, after=False)
SELECT store_items.namespace, store_items.key, store_items.meta, store_items.version,
  store_items.codec, store_items.checksum, store_items.created_at, store_items.updated_at,
  store_items.expires_at, store_items.lifetime, store_items.signature, store_items.value
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now)
ORDER BY store_items.updated_at DESC, store_items.namespace DESC, store_items.key DESC
FETCH FIRST :p_limit ROWS ONLY

-- store.read.list_keys(after=False)
SELECT store_items.key
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now)
ORDER BY store_items.key
FETCH FIRST :p_limit ROWS ONLY

-- store.read.list_lifetimes()
SELECT store_items.namespace, store_items.key, store_items.version, store_items.lifetime
FROM store_items
WHERE store_items.tenant = :k_tenant
AND (store_items.namespace, store_items.key) IN (
  SELECT listed.namespace, listed.key
  FROM (
    SELECT each_.namespace, each_.key
    FROM JSON_TABLE(:p_keys, '$[*]' COLUMNS (namespace VARCHAR2(4000) PATH '$[0]',
          key VARCHAR2(4000) PATH '$[1]')) each_) listed)
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now)
AND store_items.lifetime IS NOT NULL

-- store.read.list_paths()
WITH paths(place) AS (
  SELECT (
    SELECT min(later.namespace) AS min_1
    FROM store_items later
    WHERE later.tenant = :k_tenant
    AND later.namespace >= :p_low
    AND later.namespace < :p_high
    AND NOT (later.namespace >= :p_internal
      AND later.namespace < :p_internal_end)
    AND (later.expires_at IS NULL
      OR later.expires_at > :p_now)) AS place
  FROM DUAL
  UNION ALL
  SELECT (
    SELECT min(later.namespace) AS min_2
    FROM store_items later
    WHERE later.tenant = :k_tenant
    AND later.namespace > paths.place
    AND later.namespace < :p_high
    AND NOT (later.namespace >= :p_internal
      AND later.namespace < :p_internal_end)
    AND (later.expires_at IS NULL
      OR later.expires_at > :p_now)) AS anon_1
  FROM paths
  WHERE paths.place IS NOT NULL)
SELECT paths.place
FROM paths
WHERE paths.place IS NOT NULL
FETCH FIRST :p_limit ROWS ONLY

-- store.read.read_item()
SELECT store_items.namespace, store_items.key, store_items.meta, store_items.version,
  store_items.codec, store_items.checksum, store_items.created_at, store_items.updated_at,
  store_items.expires_at, store_items.lifetime, store_items.signature, store_items.value
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND store_items.key = :k_key
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now)

-- store.read.read_items(words=False)
SELECT store_items.namespace, store_items.key, store_items.meta, store_items.version,
  store_items.codec, store_items.checksum, store_items.created_at, store_items.updated_at,
  store_items.expires_at, store_items.lifetime, store_items.signature, store_items.value
FROM store_items
WHERE store_items.tenant = :k_tenant
AND (store_items.namespace, store_items.key) IN (
  SELECT listed.namespace, listed.key
  FROM (
    SELECT each_.namespace, each_.key
    FROM JSON_TABLE(:p_keys, '$[*]' COLUMNS (namespace VARCHAR2(4000) PATH '$[0]',
          key VARCHAR2(4000) PATH '$[1]')) each_) listed)
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now)

-- store.read.read_vector()
SELECT embeddings.namespace, embeddings.key, embeddings.field, embeddings.model, embeddings.part,
  embeddings.dimensions, embeddings.vector, embeddings.signature AS vector_signature,
  store_items.version
FROM embeddings
JOIN store_items ON store_items.tenant = embeddings.tenant
AND store_items.namespace = embeddings.namespace
AND store_items.key = embeddings.key
WHERE embeddings.tenant = :k_tenant
AND embeddings.namespace = :k_namespace
AND embeddings.key = :k_key
AND embeddings.field = :p_field
AND embeddings.model = :p_model
AND embeddings.part = :p_part
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now)

-- store.reembedding.count_items_without_vectors(below=False)
SELECT count(*) AS count_1
FROM (
  SELECT store_items.namespace AS namespace, store_items.key AS key
  FROM store_items
  WHERE store_items.tenant = :k_tenant
  AND store_items.namespace = :k_namespace
  AND (store_items.expires_at IS NULL
    OR store_items.expires_at > :p_now) MINUS
  SELECT embeddings.namespace AS namespace, embeddings.key AS key
  FROM embeddings
  WHERE embeddings.tenant = :k_tenant
  AND embeddings.namespace = :k_namespace
  AND embeddings.model = :p_model
  AND embeddings.dimensions = :p_dimensions) lacking

-- store.reembedding.list_places(below=False, after=False)
SELECT store_items.namespace, store_items.key, length(store_items.value) AS stored
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now)
ORDER BY store_items.namespace, store_items.key
FETCH FIRST :p_limit ROWS ONLY

-- store.reembedding.read_items_to_embed()
SELECT store_items.namespace, store_items.key, store_items.meta, store_items.version,
  store_items.codec, store_items.checksum, store_items.created_at, store_items.updated_at,
  store_items.expires_at, store_items.lifetime, store_items.signature, store_items.value
FROM store_items
WHERE store_items.tenant = :k_tenant
AND (store_items.namespace, store_items.key) IN (
  SELECT listed.namespace, listed.key
  FROM (
    SELECT each_.namespace, each_.key
    FROM JSON_TABLE(:p_keys, '$[*]' COLUMNS (namespace VARCHAR2(4000) PATH '$[0]',
          key VARCHAR2(4000) PATH '$[1]')) each_) listed)
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now)

-- store.write.clear_items(below=False)
DELETE FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace

-- store.write.delete_item(expected=any)
DELETE FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND store_items.key = :k_key
RETURNING store_items.expires_at
INTO :ret_0

-- store.write.delete_items()
DELETE FROM store_items
WHERE store_items.tenant = :k_tenant
AND (store_items.namespace, store_items.key) IN (
  SELECT listed.namespace, listed.key
  FROM (
    SELECT each_.namespace, each_.key
    FROM JSON_TABLE(:p_keys, '$[*]' COLUMNS (namespace VARCHAR2(4000) PATH '$[0]',
          key VARCHAR2(4000) PATH '$[1]')) each_) listed)
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now)

-- store.write.delete_vectors()
DELETE FROM embeddings
WHERE embeddings.tenant = :k_tenant
AND embeddings.namespace = :k_namespace
AND embeddings.key = :k_key

-- store.write.delete_vectors_of_items()
DELETE FROM embeddings
WHERE embeddings.tenant = :k_tenant
AND (embeddings.namespace, embeddings.key) IN (
  SELECT listed.namespace, listed.key
  FROM (
    SELECT each_.namespace, each_.key
    FROM JSON_TABLE(:p_keys, '$[*]' COLUMNS (namespace VARCHAR2(4000) PATH '$[0]',
          key VARCHAR2(4000) PATH '$[1]')) each_) listed)

-- store.write.delete_vectors_of_model(of_field=False)
DELETE FROM embeddings
WHERE embeddings.tenant = :k_tenant
AND embeddings.namespace = :k_namespace
AND embeddings.key = :k_key
AND embeddings.model = :p_model

-- store.write.extend_lifetime()
UPDATE store_items
SET expires_at=:p_expires_at
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND store_items.key = :k_key
AND store_items.version = :p_version
AND store_items.lifetime = :p_lifetime
AND store_items.expires_at < :p_expires_at
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now)

-- store.write.list_vector_names()
SELECT embeddings.namespace, embeddings.key, embeddings.field, embeddings.model, embeddings.part,
  embeddings.dimensions
FROM embeddings
WHERE embeddings.tenant = :k_tenant
AND (embeddings.namespace, embeddings.key) IN (
  SELECT listed.namespace, listed.key
  FROM (
    SELECT each_.namespace, each_.key
    FROM JSON_TABLE(:p_keys, '$[*]' COLUMNS (namespace VARCHAR2(4000) PATH '$[0]',
          key VARCHAR2(4000) PATH '$[1]')) each_) listed)

-- store.write.lock_item()
SELECT store_items.version, store_items.created_at
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND store_items.key = :k_key
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now)
FOR UPDATE

-- store.write.lock_items()
SELECT store_items.namespace, store_items.key, store_items.version, store_items.created_at
FROM store_items
WHERE store_items.tenant = :k_tenant
AND (store_items.namespace, store_items.key) IN (
  SELECT listed.namespace, listed.key
  FROM (
    SELECT each_.namespace, each_.key
    FROM JSON_TABLE(:p_keys, '$[*]' COLUMNS (namespace VARCHAR2(4000) PATH '$[0]',
          key VARCHAR2(4000) PATH '$[1]')) each_) listed)
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now)
ORDER BY store_items.namespace, store_items.key
FOR UPDATE

-- store.write.put_item(expected=version)
UPDATE store_items
SET meta=:p_meta, version=CASE
WHEN (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now) THEN store_items.version + :version_1
ELSE 1 END, codec=:p_codec, checksum=:p_checksum, search_text=:p_search_text,
  field_terms=:p_field_terms, created_at=CASE
WHEN (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now) THEN store_items.created_at
ELSE :p_updated_at END, updated_at=:p_updated_at, expires_at=:p_expires_at, lifetime=:p_lifetime,
  signature=:p_signature, value=:p_value
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND store_items.key = :k_key
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now)
AND store_items.version = :p_expected
RETURNING store_items.version
INTO :ret_0

-- store.write.put_vector(native=True)
INSERT INTO embeddings (tenant, namespace, key, field, model, part, dimensions, change, signature,
    vector)
VALUES (:k_tenant, :k_namespace, :k_key, :p_field, :p_model, :p_part, :p_dimensions, :p_change,
    :p_signature, :p_vector)

-- store.write.set_item_times()
UPDATE store_items
SET created_at=coalesce(:p_created_at, store_items.created_at), updated_at=coalesce(:p_updated_at,
    store_items.updated_at), expires_at=coalesce(:p_expires_at, store_items.expires_at)
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND store_items.key = :k_key
AND store_items.updated_at = :p_written_at

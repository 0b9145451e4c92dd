-- checkpoints.queries.find_saved()
SELECT checkpoints.seq, threads.version, threads.epoch, threads.previous_id
FROM checkpoints
JOIN threads ON threads.tenant = checkpoints.tenant
AND threads.thread_id = checkpoints.thread_id
AND threads.namespace = checkpoints.namespace
WHERE checkpoints.tenant = :k_tenant
AND checkpoints.thread_id = :k_thread_id
AND checkpoints.namespace = :k_namespace
AND checkpoints.checkpoint_id = :p_checkpoint_id
AND checkpoints.created_at = :p_created_at

-- checkpoints.queries.list_by_metadata(kind=text)
SELECT checkpoints.thread_id, checkpoints.checkpoint_id, checkpoints.parent_id, checkpoints.seq,
  checkpoints.meta, checkpoints.created_at, checkpoints.raw_size, checkpoints.stored_size,
  checkpoints.occurred_at
FROM checkpoints
WHERE checkpoints.tenant = :k_tenant
AND checkpoints.namespace = :k_namespace
AND json_equal(checkpoints.meta, json_mergepatch(checkpoints.meta, :match_pair RETURNING JSON))
AND (EXISTS (
    SELECT 1
    FROM threads
    WHERE threads.tenant = checkpoints.tenant
    AND threads.thread_id = checkpoints.thread_id
    AND threads.namespace = checkpoints.namespace
    AND threads.deleted_at IS NULL
    AND (threads.expires_at IS NULL
      OR threads.expires_at > :p_now)))
ORDER BY checkpoints.created_at DESC, checkpoints.seq DESC
FETCH FIRST :p_limit ROWS ONLY

-- checkpoints.queries.list_by_metadata(kind=number)
SELECT checkpoints.thread_id, checkpoints.checkpoint_id, checkpoints.parent_id, checkpoints.seq,
  checkpoints.meta, checkpoints.created_at, checkpoints.raw_size, checkpoints.stored_size,
  checkpoints.occurred_at
FROM checkpoints
WHERE checkpoints.tenant = :k_tenant
AND checkpoints.namespace = :k_namespace
AND json_equal(checkpoints.meta, json_mergepatch(checkpoints.meta, :match_pair RETURNING JSON))
AND (EXISTS (
    SELECT 1
    FROM threads
    WHERE threads.tenant = checkpoints.tenant
    AND threads.thread_id = checkpoints.thread_id
    AND threads.namespace = checkpoints.namespace
    AND threads.deleted_at IS NULL
    AND (threads.expires_at IS NULL
      OR threads.expires_at > :p_now)))
ORDER BY checkpoints.created_at DESC, checkpoints.seq DESC
FETCH FIRST :p_limit ROWS ONLY

-- checkpoints.queries.list_by_metadata(kind=true)
SELECT checkpoints.thread_id, checkpoints.checkpoint_id, checkpoints.parent_id, checkpoints.seq,
  checkpoints.meta, checkpoints.created_at, checkpoints.raw_size, checkpoints.stored_size,
  checkpoints.occurred_at
FROM checkpoints
WHERE checkpoints.tenant = :k_tenant
AND checkpoints.namespace = :k_namespace
AND json_equal(checkpoints.meta, json_mergepatch(checkpoints.meta, :match_pair RETURNING JSON))
AND (EXISTS (
    SELECT 1
    FROM threads
    WHERE threads.tenant = checkpoints.tenant
    AND threads.thread_id = checkpoints.thread_id
    AND threads.namespace = checkpoints.namespace
    AND threads.deleted_at IS NULL
    AND (threads.expires_at IS NULL
      OR threads.expires_at > :p_now)))
ORDER BY checkpoints.created_at DESC, checkpoints.seq DESC
FETCH FIRST :p_limit ROWS ONLY

-- checkpoints.queries.list_by_metadata(kind=false)
SELECT checkpoints.thread_id, checkpoints.checkpoint_id, checkpoints.parent_id, checkpoints.seq,
  checkpoints.meta, checkpoints.created_at, checkpoints.raw_size, checkpoints.stored_size,
  checkpoints.occurred_at
FROM checkpoints
WHERE checkpoints.tenant = :k_tenant
AND checkpoints.namespace = :k_namespace
AND json_equal(checkpoints.meta, json_mergepatch(checkpoints.meta, :match_pair RETURNING JSON))
AND (EXISTS (
    SELECT 1
    FROM threads
    WHERE threads.tenant = checkpoints.tenant
    AND threads.thread_id = checkpoints.thread_id
    AND threads.namespace = checkpoints.namespace
    AND threads.deleted_at IS NULL
    AND (threads.expires_at IS NULL
      OR threads.expires_at > :p_now)))
ORDER BY checkpoints.created_at DESC, checkpoints.seq DESC
FETCH FIRST :p_limit ROWS ONLY

-- checkpoints.queries.list_by_metadata(kind=null)
SELECT checkpoints.thread_id, checkpoints.checkpoint_id, checkpoints.parent_id, checkpoints.seq,
  checkpoints.meta, checkpoints.created_at, checkpoints.raw_size, checkpoints.stored_size,
  checkpoints.occurred_at
FROM checkpoints
WHERE checkpoints.tenant = :k_tenant
AND checkpoints.namespace = :k_namespace
AND NOT json_equal(checkpoints.meta, json_mergepatch(checkpoints.meta, :match_key RETURNING JSON))
AND json_equal(json_mergepatch('{}', checkpoints.meta RETURNING JSON),
    json_mergepatch(json_mergepatch('{}', checkpoints.meta RETURNING JSON),
      :match_key RETURNING JSON))
AND (EXISTS (
    SELECT 1
    FROM threads
    WHERE threads.tenant = checkpoints.tenant
    AND threads.thread_id = checkpoints.thread_id
    AND threads.namespace = checkpoints.namespace
    AND threads.deleted_at IS NULL
    AND (threads.expires_at IS NULL
      OR threads.expires_at > :p_now)))
ORDER BY checkpoints.created_at DESC, checkpoints.seq DESC
FETCH FIRST :p_limit ROWS ONLY

-- checkpoints.queries.list_by_metadata(kind=container)
SELECT checkpoints.thread_id, checkpoints.checkpoint_id, checkpoints.parent_id, checkpoints.seq,
  checkpoints.meta, checkpoints.created_at, checkpoints.raw_size, checkpoints.stored_size,
  checkpoints.occurred_at
FROM checkpoints
WHERE checkpoints.tenant = :k_tenant
AND checkpoints.namespace = :k_namespace
AND json_equal(checkpoints.meta, json_mergepatch(json_mergepatch(checkpoints.meta,
        :match_key RETURNING JSON), :match_pair RETURNING JSON))
AND (EXISTS (
    SELECT 1
    FROM threads
    WHERE threads.tenant = checkpoints.tenant
    AND threads.thread_id = checkpoints.thread_id
    AND threads.namespace = checkpoints.namespace
    AND threads.deleted_at IS NULL
    AND (threads.expires_at IS NULL
      OR threads.expires_at > :p_now)))
ORDER BY checkpoints.created_at DESC, checkpoints.seq DESC
FETCH FIRST :p_limit ROWS ONLY

-- checkpoints.queries.list_names(before=True)
SELECT checkpoints.thread_id, checkpoints.checkpoint_id, checkpoints.parent_id, checkpoints.seq,
  checkpoints.meta, checkpoints.created_at, checkpoints.raw_size, checkpoints.stored_size,
  checkpoints.occurred_at
FROM checkpoints
WHERE checkpoints.tenant = :k_tenant
AND checkpoints.thread_id = :k_thread_id
AND checkpoints.namespace = :k_namespace
AND (EXISTS (
    SELECT 1
    FROM threads
    WHERE threads.tenant = checkpoints.tenant
    AND threads.thread_id = checkpoints.thread_id
    AND threads.namespace = checkpoints.namespace
    AND threads.deleted_at IS NULL
    AND (threads.expires_at IS NULL
      OR threads.expires_at > :p_now)))
AND checkpoints.seq < :p_before
ORDER BY checkpoints.seq DESC
FETCH FIRST :p_limit ROWS ONLY

-- checkpoints.queries.list_names(before=False)
SELECT checkpoints.thread_id, checkpoints.checkpoint_id, checkpoints.parent_id, checkpoints.seq,
  checkpoints.meta, checkpoints.created_at, checkpoints.raw_size, checkpoints.stored_size,
  checkpoints.occurred_at
FROM checkpoints
WHERE checkpoints.tenant = :k_tenant
AND checkpoints.thread_id = :k_thread_id
AND checkpoints.namespace = :k_namespace
AND (EXISTS (
    SELECT 1
    FROM threads
    WHERE threads.tenant = checkpoints.tenant
    AND threads.thread_id = checkpoints.thread_id
    AND threads.namespace = checkpoints.namespace
    AND threads.deleted_at IS NULL
    AND (threads.expires_at IS NULL
      OR threads.expires_at > :p_now)))
ORDER BY checkpoints.seq DESC
FETCH FIRST :p_limit ROWS ONLY

-- checkpoints.queries.list_newest()
SELECT checkpoints.thread_id, checkpoints.checkpoint_id, checkpoints.parent_id, checkpoints.seq,
  checkpoints.meta, checkpoints.created_at, checkpoints.raw_size, checkpoints.stored_size,
  checkpoints.occurred_at
FROM checkpoints
JOIN (
  SELECT threads.tenant AS tenant, threads.thread_id AS thread_id, threads.namespace AS namespace
  FROM threads
  JOIN checkpoints newest ON newest.tenant = threads.tenant
  AND newest.thread_id = threads.thread_id
  AND newest.namespace = threads.namespace
  AND newest.checkpoint_id = threads.head_id
  WHERE threads.tenant = :k_tenant
  AND threads.namespace = :k_namespace
  AND threads.deleted_at IS NULL
  AND (threads.expires_at IS NULL
    OR threads.expires_at > :p_now)
  ORDER BY newest.created_at DESC
  FETCH FIRST :p_limit ROWS ONLY) heads ON checkpoints.tenant = heads.tenant
AND checkpoints.thread_id = heads.thread_id
AND checkpoints.namespace = heads.namespace
ORDER BY checkpoints.created_at DESC, checkpoints.seq DESC
FETCH FIRST :p_limit ROWS ONLY

-- checkpoints.queries.measure()
SELECT count(*) AS count_1, coalesce(sum(checkpoints.raw_size), :coalesce_2) AS coalesce_1,
  coalesce(sum(checkpoints.stored_size), :coalesce_4) AS coalesce_3, coalesce(sum(CASE
    WHEN (deltas.kind IN ('snapshot')) THEN :param_1
    ELSE :param_2 END), :coalesce_6) AS coalesce_5
FROM checkpoints
JOIN deltas ON deltas.tenant = checkpoints.tenant
AND deltas.thread_id = checkpoints.thread_id
AND deltas.namespace = checkpoints.namespace
AND deltas.seq = checkpoints.seq
WHERE checkpoints.tenant = :k_tenant
AND checkpoints.thread_id = :k_thread_id
AND checkpoints.namespace = :k_namespace
AND (EXISTS (
    SELECT 1
    FROM threads
    WHERE threads.tenant = checkpoints.tenant
    AND threads.thread_id = checkpoints.thread_id
    AND threads.namespace = checkpoints.namespace
    AND threads.deleted_at IS NULL
    AND (threads.expires_at IS NULL
      OR threads.expires_at > :p_now)))

-- checkpoints.queries.read_chain(which=latest)
WITH chain(checkpoint_id, epoch, seq, base_seq, depth, since_bytes, raw_size, codec, checksum,
    payload) AS (
  SELECT checkpoints.checkpoint_id AS checkpoint_id, threads.epoch AS epoch, deltas.seq AS seq,
    deltas.base_seq AS base_seq, deltas.depth AS depth, deltas.since_bytes AS since_bytes,
    deltas.raw_size AS raw_size, deltas.codec AS codec, deltas.checksum AS checksum,
    deltas.payload AS payload
  FROM checkpoints
  JOIN deltas ON deltas.tenant = checkpoints.tenant
  AND deltas.thread_id = checkpoints.thread_id
  AND deltas.namespace = checkpoints.namespace
  AND deltas.seq = checkpoints.seq
  JOIN threads ON threads.tenant = checkpoints.tenant
  AND threads.thread_id = checkpoints.thread_id
  AND threads.namespace = checkpoints.namespace
  WHERE checkpoints.tenant = :k_tenant
  AND checkpoints.thread_id = :k_thread_id
  AND checkpoints.namespace = :k_namespace
  AND checkpoints.seq = (
    SELECT max(wanted.seq) AS max_1
    FROM checkpoints wanted
    WHERE wanted.tenant = :k_tenant
    AND wanted.thread_id = :k_thread_id
    AND wanted.namespace = :k_namespace)
  AND threads.deleted_at IS NULL
  AND (threads.expires_at IS NULL
    OR threads.expires_at > :p_now)
  UNION ALL
  SELECT chain.checkpoint_id AS checkpoint_id, chain.epoch AS epoch, base.seq AS seq,
    base.base_seq AS base_seq, base.depth AS depth, base.since_bytes AS since_bytes,
    base.raw_size AS raw_size, base.codec AS codec, base.checksum AS checksum, base.payload AS payload
  FROM chain
  JOIN deltas base ON base.seq = chain.base_seq
  AND base.seq < chain.seq
  WHERE base.tenant = :k_tenant
  AND base.thread_id = :k_thread_id
  AND base.namespace = :k_namespace)
SELECT chain.checkpoint_id, chain.epoch, chain.seq, chain.base_seq, chain.depth, chain.since_bytes,
  chain.raw_size, chain.codec, chain.checksum, chain.payload
FROM chain
ORDER BY chain.seq

-- checkpoints.queries.read_chain(which=named)
WITH chain(checkpoint_id, epoch, seq, base_seq, depth, since_bytes, raw_size, codec, checksum,
    payload) AS (
  SELECT checkpoints.checkpoint_id AS checkpoint_id, threads.epoch AS epoch, deltas.seq AS seq,
    deltas.base_seq AS base_seq, deltas.depth AS depth, deltas.since_bytes AS since_bytes,
    deltas.raw_size AS raw_size, deltas.codec AS codec, deltas.checksum AS checksum,
    deltas.payload AS payload
  FROM checkpoints
  JOIN deltas ON deltas.tenant = checkpoints.tenant
  AND deltas.thread_id = checkpoints.thread_id
  AND deltas.namespace = checkpoints.namespace
  AND deltas.seq = checkpoints.seq
  JOIN threads ON threads.tenant = checkpoints.tenant
  AND threads.thread_id = checkpoints.thread_id
  AND threads.namespace = checkpoints.namespace
  WHERE checkpoints.tenant = :k_tenant
  AND checkpoints.thread_id = :k_thread_id
  AND checkpoints.namespace = :k_namespace
  AND checkpoints.seq = (
    SELECT wanted.seq
    FROM checkpoints wanted
    WHERE wanted.tenant = :k_tenant
    AND wanted.thread_id = :k_thread_id
    AND wanted.namespace = :k_namespace
    AND wanted.checkpoint_id = :p_checkpoint_id)
  AND threads.deleted_at IS NULL
  AND (threads.expires_at IS NULL
    OR threads.expires_at > :p_now)
  UNION ALL
  SELECT chain.checkpoint_id AS checkpoint_id, chain.epoch AS epoch, base.seq AS seq,
    base.base_seq AS base_seq, base.depth AS depth, base.since_bytes AS since_bytes,
    base.raw_size AS raw_size, base.codec AS codec, base.checksum AS checksum, base.payload AS payload
  FROM chain
  JOIN deltas base ON base.seq = chain.base_seq
  AND base.seq < chain.seq
  WHERE base.tenant = :k_tenant
  AND base.thread_id = :k_thread_id
  AND base.namespace = :k_namespace)
SELECT chain.checkpoint_id, chain.epoch, chain.seq, chain.base_seq, chain.depth, chain.since_bytes,
  chain.raw_size, chain.codec, chain.checksum, chain.payload
FROM chain
ORDER BY chain.seq

-- checkpoints.queries.read_name()
SELECT checkpoints.thread_id, checkpoints.checkpoint_id, checkpoints.parent_id, checkpoints.seq,
  checkpoints.meta, checkpoints.created_at, checkpoints.raw_size, checkpoints.stored_size,
  checkpoints.occurred_at
FROM checkpoints
WHERE checkpoints.tenant = :k_tenant
AND checkpoints.thread_id = :k_thread_id
AND checkpoints.namespace = :k_namespace
AND checkpoints.checkpoint_id = :p_checkpoint_id
AND (EXISTS (
    SELECT 1
    FROM threads
    WHERE threads.tenant = checkpoints.tenant
    AND threads.thread_id = checkpoints.thread_id
    AND threads.namespace = checkpoints.namespace
    AND threads.deleted_at IS NULL
    AND (threads.expires_at IS NULL
      OR threads.expires_at > :p_now)))

-- checkpoints.queries.threads_by_metadata(kind=text)
SELECT DISTINCT checkpoints.thread_id
FROM checkpoints
WHERE checkpoints.tenant = :k_tenant
AND json_equal(checkpoints.meta, json_mergepatch(checkpoints.meta, :match_pair RETURNING JSON))

-- checkpoints.queries.threads_by_metadata(kind=number)
SELECT DISTINCT checkpoints.thread_id
FROM checkpoints
WHERE checkpoints.tenant = :k_tenant
AND json_equal(checkpoints.meta, json_mergepatch(checkpoints.meta, :match_pair RETURNING JSON))

-- checkpoints.queries.threads_by_metadata(kind=true)
SELECT DISTINCT checkpoints.thread_id
FROM checkpoints
WHERE checkpoints.tenant = :k_tenant
AND json_equal(checkpoints.meta, json_mergepatch(checkpoints.meta, :match_pair RETURNING JSON))

-- checkpoints.queries.threads_by_metadata(kind=false)
SELECT DISTINCT checkpoints.thread_id
FROM checkpoints
WHERE checkpoints.tenant = :k_tenant
AND json_equal(checkpoints.meta, json_mergepatch(checkpoints.meta, :match_pair RETURNING JSON))

-- checkpoints.queries.threads_by_metadata(kind=null)
SELECT DISTINCT checkpoints.thread_id
FROM checkpoints
WHERE checkpoints.tenant = :k_tenant
AND NOT json_equal(checkpoints.meta, json_mergepatch(checkpoints.meta, :match_key RETURNING JSON))
AND json_equal(json_mergepatch('{}', checkpoints.meta RETURNING JSON),
    json_mergepatch(json_mergepatch('{}', checkpoints.meta RETURNING JSON),
      :match_key RETURNING JSON))

-- checkpoints.queries.threads_by_metadata(kind=container)
SELECT DISTINCT checkpoints.thread_id
FROM checkpoints
WHERE checkpoints.tenant = :k_tenant
AND json_equal(checkpoints.meta, json_mergepatch(json_mergepatch(checkpoints.meta,
        :match_key RETURNING JSON), :match_pair RETURNING JSON))

-- checkpoints.snapshots.list_by_id(scope=log, until=True, after=True)
SELECT checkpoints.thread_id, checkpoints.checkpoint_id, checkpoints.parent_id, checkpoints.seq,
  checkpoints.meta, checkpoints.created_at, checkpoints.raw_size, checkpoints.stored_size,
  checkpoints.occurred_at, checkpoints.namespace
FROM checkpoints
WHERE checkpoints.tenant = :k_tenant
AND checkpoints.thread_id = :k_thread_id
AND checkpoints.namespace = :k_namespace
AND checkpoints.checkpoint_id < :p_until
AND (checkpoints.checkpoint_id < :p_checkpoint_id
  OR checkpoints.checkpoint_id = :p_checkpoint_id
  AND checkpoints.thread_id >= :p_thread_id
  AND (checkpoints.thread_id > :p_thread_id
    OR checkpoints.thread_id = :p_thread_id
    AND checkpoints.namespace > :p_namespace))
AND (EXISTS (
    SELECT 1
    FROM threads
    WHERE threads.tenant = checkpoints.tenant
    AND threads.thread_id = checkpoints.thread_id
    AND threads.namespace = checkpoints.namespace
    AND threads.deleted_at IS NULL
    AND (threads.expires_at IS NULL
      OR threads.expires_at > :p_now)))
ORDER BY checkpoints.checkpoint_id DESC, checkpoints.thread_id, checkpoints.namespace
FETCH FIRST :p_limit ROWS ONLY

-- checkpoints.snapshots.list_by_id(scope=log, until=True, after=False)
SELECT checkpoints.thread_id, checkpoints.checkpoint_id, checkpoints.parent_id, checkpoints.seq,
  checkpoints.meta, checkpoints.created_at, checkpoints.raw_size, checkpoints.stored_size,
  checkpoints.occurred_at, checkpoints.namespace
FROM checkpoints
WHERE checkpoints.tenant = :k_tenant
AND checkpoints.thread_id = :k_thread_id
AND checkpoints.namespace = :k_namespace
AND checkpoints.checkpoint_id < :p_until
AND (EXISTS (
    SELECT 1
    FROM threads
    WHERE threads.tenant = checkpoints.tenant
    AND threads.thread_id = checkpoints.thread_id
    AND threads.namespace = checkpoints.namespace
    AND threads.deleted_at IS NULL
    AND (threads.expires_at IS NULL
      OR threads.expires_at > :p_now)))
ORDER BY checkpoints.checkpoint_id DESC, checkpoints.thread_id, checkpoints.namespace
FETCH FIRST :p_limit ROWS ONLY

-- checkpoints.snapshots.list_by_id(scope=log, until=False, after=True)
SELECT checkpoints.thread_id, checkpoints.checkpoint_id, checkpoints.parent_id, checkpoints.seq,
  checkpoints.meta, checkpoints.created_at, checkpoints.raw_size, checkpoints.stored_size,
  checkpoints.occurred_at, checkpoints.namespace
FROM checkpoints
WHERE checkpoints.tenant = :k_tenant
AND checkpoints.thread_id = :k_thread_id
AND checkpoints.namespace = :k_namespace
AND (checkpoints.checkpoint_id < :p_checkpoint_id
  OR checkpoints.checkpoint_id = :p_checkpoint_id
  AND checkpoints.thread_id >= :p_thread_id
  AND (checkpoints.thread_id > :p_thread_id
    OR checkpoints.thread_id = :p_thread_id
    AND checkpoints.namespace > :p_namespace))
AND (EXISTS (
    SELECT 1
    FROM threads
    WHERE threads.tenant = checkpoints.tenant
    AND threads.thread_id = checkpoints.thread_id
    AND threads.namespace = checkpoints.namespace
    AND threads.deleted_at IS NULL
    AND (threads.expires_at IS NULL
      OR threads.expires_at > :p_now)))
ORDER BY checkpoints.checkpoint_id DESC, checkpoints.thread_id, checkpoints.namespace
FETCH FIRST :p_limit ROWS ONLY

-- checkpoints.snapshots.list_by_id(scope=log, until=False, after=False)
SELECT checkpoints.thread_id, checkpoints.checkpoint_id, checkpoints.parent_id, checkpoints.seq,
  checkpoints.meta, checkpoints.created_at, checkpoints.raw_size, checkpoints.stored_size,
  checkpoints.occurred_at, checkpoints.namespace
FROM checkpoints
WHERE checkpoints.tenant = :k_tenant
AND checkpoints.thread_id = :k_thread_id
AND checkpoints.namespace = :k_namespace
AND (EXISTS (
    SELECT 1
    FROM threads
    WHERE threads.tenant = checkpoints.tenant
    AND threads.thread_id = checkpoints.thread_id
    AND threads.namespace = checkpoints.namespace
    AND threads.deleted_at IS NULL
    AND (threads.expires_at IS NULL
      OR threads.expires_at > :p_now)))
ORDER BY checkpoints.checkpoint_id DESC, checkpoints.thread_id, checkpoints.namespace
FETCH FIRST :p_limit ROWS ONLY

-- checkpoints.snapshots.list_by_id(scope=thread, until=True, after=True)
SELECT checkpoints.thread_id, checkpoints.checkpoint_id, checkpoints.parent_id, checkpoints.seq,
  checkpoints.meta, checkpoints.created_at, checkpoints.raw_size, checkpoints.stored_size,
  checkpoints.occurred_at, checkpoints.namespace
FROM checkpoints
WHERE checkpoints.tenant = :k_tenant
AND checkpoints.namespace >= :k_namespace
AND checkpoints.namespace < :k_beyond
AND checkpoints.thread_id = :k_thread_id
AND checkpoints.checkpoint_id < :p_until
AND (checkpoints.checkpoint_id < :p_checkpoint_id
  OR checkpoints.checkpoint_id = :p_checkpoint_id
  AND checkpoints.thread_id >= :p_thread_id
  AND (checkpoints.thread_id > :p_thread_id
    OR checkpoints.thread_id = :p_thread_id
    AND checkpoints.namespace > :p_namespace))
AND (EXISTS (
    SELECT 1
    FROM threads
    WHERE threads.tenant = checkpoints.tenant
    AND threads.thread_id = checkpoints.thread_id
    AND threads.namespace = checkpoints.namespace
    AND threads.deleted_at IS NULL
    AND (threads.expires_at IS NULL
      OR threads.expires_at > :p_now)))
ORDER BY checkpoints.checkpoint_id DESC, checkpoints.thread_id, checkpoints.namespace
FETCH FIRST :p_limit ROWS ONLY

-- checkpoints.snapshots.list_by_id(scope=thread, until=True, after=False)
SELECT checkpoints.thread_id, checkpoints.checkpoint_id, checkpoints.parent_id, checkpoints.seq,
  checkpoints.meta, checkpoints.created_at, checkpoints.raw_size, checkpoints.stored_size,
  checkpoints.occurred_at, checkpoints.namespace
FROM checkpoints
WHERE checkpoints.tenant = :k_tenant
AND checkpoints.namespace >= :k_namespace
AND checkpoints.namespace < :k_beyond
AND checkpoints.thread_id = :k_thread_id
AND checkpoints.checkpoint_id < :p_until
AND (EXISTS (
    SELECT 1
    FROM threads
    WHERE threads.tenant = checkpoints.tenant
    AND threads.thread_id = checkpoints.thread_id
    AND threads.namespace = checkpoints.namespace
    AND threads.deleted_at IS NULL
    AND (threads.expires_at IS NULL
      OR threads.expires_at > :p_now)))
ORDER BY checkpoints.checkpoint_id DESC, checkpoints.thread_id, checkpoints.namespace
FETCH FIRST :p_limit ROWS ONLY

-- checkpoints.snapshots.list_by_id(scope=thread, until=False, after=True)
SELECT checkpoints.thread_id, checkpoints.checkpoint_id, checkpoints.parent_id, checkpoints.seq,
  checkpoints.meta, checkpoints.created_at, checkpoints.raw_size, checkpoints.stored_size,
  checkpoints.occurred_at, checkpoints.namespace
FROM checkpoints
WHERE checkpoints.tenant = :k_tenant
AND checkpoints.namespace >= :k_namespace
AND checkpoints.namespace < :k_beyond
AND checkpoints.thread_id = :k_thread_id
AND (checkpoints.checkpoint_id < :p_checkpoint_id
  OR checkpoints.checkpoint_id = :p_checkpoint_id
  AND checkpoints.thread_id >= :p_thread_id
  AND (checkpoints.thread_id > :p_thread_id
    OR checkpoints.thread_id = :p_thread_id
    AND checkpoints.namespace > :p_namespace))
AND (EXISTS (
    SELECT 1
    FROM threads
    WHERE threads.tenant = checkpoints.tenant
    AND threads.thread_id = checkpoints.thread_id
    AND threads.namespace = checkpoints.namespace
    AND threads.deleted_at IS NULL
    AND (threads.expires_at IS NULL
      OR threads.expires_at > :p_now)))
ORDER BY checkpoints.checkpoint_id DESC, checkpoints.thread_id, checkpoints.namespace
FETCH FIRST :p_limit ROWS ONLY

-- checkpoints.snapshots.list_by_id(scope=thread, until=False, after=False)
SELECT checkpoints.thread_id, checkpoints.checkpoint_id, checkpoints.parent_id, checkpoints.seq,
  checkpoints.meta, checkpoints.created_at, checkpoints.raw_size, checkpoints.stored_size,
  checkpoints.occurred_at, checkpoints.namespace
FROM checkpoints
WHERE checkpoints.tenant = :k_tenant
AND checkpoints.namespace >= :k_namespace
AND checkpoints.namespace < :k_beyond
AND checkpoints.thread_id = :k_thread_id
AND (EXISTS (
    SELECT 1
    FROM threads
    WHERE threads.tenant = checkpoints.tenant
    AND threads.thread_id = checkpoints.thread_id
    AND threads.namespace = checkpoints.namespace
    AND threads.deleted_at IS NULL
    AND (threads.expires_at IS NULL
      OR threads.expires_at > :p_now)))
ORDER BY checkpoints.checkpoint_id DESC, checkpoints.thread_id, checkpoints.namespace
FETCH FIRST :p_limit ROWS ONLY

-- checkpoints.snapshots.list_by_id(scope=tenant, until=True, after=True)
SELECT checkpoints.thread_id, checkpoints.checkpoint_id, checkpoints.parent_id, checkpoints.seq,
  checkpoints.meta, checkpoints.created_at, checkpoints.raw_size, checkpoints.stored_size,
  checkpoints.occurred_at, checkpoints.namespace
FROM checkpoints
WHERE checkpoints.tenant = :k_tenant
AND checkpoints.namespace >= :k_namespace
AND checkpoints.namespace < :k_beyond
AND checkpoints.checkpoint_id < :p_until
AND (checkpoints.checkpoint_id < :p_checkpoint_id
  OR checkpoints.checkpoint_id = :p_checkpoint_id
  AND checkpoints.thread_id >= :p_thread_id
  AND (checkpoints.thread_id > :p_thread_id
    OR checkpoints.thread_id = :p_thread_id
    AND checkpoints.namespace > :p_namespace))
AND (EXISTS (
    SELECT 1
    FROM threads
    WHERE threads.tenant = checkpoints.tenant
    AND threads.thread_id = checkpoints.thread_id
    AND threads.namespace = checkpoints.namespace
    AND threads.deleted_at IS NULL
    AND (threads.expires_at IS NULL
      OR threads.expires_at > :p_now)))
ORDER BY checkpoints.checkpoint_id DESC, checkpoints.thread_id, checkpoints.namespace
FETCH FIRST :p_limit ROWS ONLY

-- checkpoints.snapshots.list_by_id(scope=tenant, until=True, after=False)
SELECT checkpoints.thread_id, checkpoints.checkpoint_id, checkpoints.parent_id, checkpoints.seq,
  checkpoints.meta, checkpoints.created_at, checkpoints.raw_size, checkpoints.stored_size,
  checkpoints.occurred_at, checkpoints.namespace
FROM checkpoints
WHERE checkpoints.tenant = :k_tenant
AND checkpoints.namespace >= :k_namespace
AND checkpoints.namespace < :k_beyond
AND checkpoints.checkpoint_id < :p_until
AND (EXISTS (
    SELECT 1
    FROM threads
    WHERE threads.tenant = checkpoints.tenant
    AND threads.thread_id = checkpoints.thread_id
    AND threads.namespace = checkpoints.namespace
    AND threads.deleted_at IS NULL
    AND (threads.expires_at IS NULL
      OR threads.expires_at > :p_now)))
ORDER BY checkpoints.checkpoint_id DESC, checkpoints.thread_id, checkpoints.namespace
FETCH FIRST :p_limit ROWS ONLY

-- checkpoints.snapshots.list_by_id(scope=tenant, until=False, after=True)
SELECT checkpoints.thread_id, checkpoints.checkpoint_id, checkpoints.parent_id, checkpoints.seq,
  checkpoints.meta, checkpoints.created_at, checkpoints.raw_size, checkpoints.stored_size,
  checkpoints.occurred_at, checkpoints.namespace
FROM checkpoints
WHERE checkpoints.tenant = :k_tenant
AND checkpoints.namespace >= :k_namespace
AND checkpoints.namespace < :k_beyond
AND (checkpoints.checkpoint_id < :p_checkpoint_id
  OR checkpoints.checkpoint_id = :p_checkpoint_id
  AND checkpoints.thread_id >= :p_thread_id
  AND (checkpoints.thread_id > :p_thread_id
    OR checkpoints.thread_id = :p_thread_id
    AND checkpoints.namespace > :p_namespace))
AND (EXISTS (
    SELECT 1
    FROM threads
    WHERE threads.tenant = checkpoints.tenant
    AND threads.thread_id = checkpoints.thread_id
    AND threads.namespace = checkpoints.namespace
    AND threads.deleted_at IS NULL
    AND (threads.expires_at IS NULL
      OR threads.expires_at > :p_now)))
ORDER BY checkpoints.checkpoint_id DESC, checkpoints.thread_id, checkpoints.namespace
FETCH FIRST :p_limit ROWS ONLY

-- checkpoints.snapshots.list_by_id(scope=tenant, until=False, after=False)
SELECT checkpoints.thread_id, checkpoints.checkpoint_id, checkpoints.parent_id, checkpoints.seq,
  checkpoints.meta, checkpoints.created_at, checkpoints.raw_size, checkpoints.stored_size,
  checkpoints.occurred_at, checkpoints.namespace
FROM checkpoints
WHERE checkpoints.tenant = :k_tenant
AND checkpoints.namespace >= :k_namespace
AND checkpoints.namespace < :k_beyond
AND (EXISTS (
    SELECT 1
    FROM threads
    WHERE threads.tenant = checkpoints.tenant
    AND threads.thread_id = checkpoints.thread_id
    AND threads.namespace = checkpoints.namespace
    AND threads.deleted_at IS NULL
    AND (threads.expires_at IS NULL
      OR threads.expires_at > :p_now)))
ORDER BY checkpoints.checkpoint_id DESC, checkpoints.thread_id, checkpoints.namespace
FETCH FIRST :p_limit ROWS ONLY

-- checkpoints.snapshots.read_snapshot(which=latest)
WITH chain(parent_id, checkpoint_id, epoch, seq, base_seq, depth, since_bytes, raw_size, codec,
    checksum, payload) AS (
  SELECT (
    SELECT parent.checkpoint_id
    FROM checkpoints parent
    WHERE parent.tenant = checkpoints.tenant
    AND parent.thread_id = checkpoints.thread_id
    AND parent.namespace = checkpoints.namespace
    AND parent.checkpoint_id = checkpoints.parent_id) AS parent_id,
    checkpoints.checkpoint_id AS checkpoint_id, threads.epoch AS epoch, deltas.seq AS seq,
    deltas.base_seq AS base_seq, deltas.depth AS depth, deltas.since_bytes AS since_bytes,
    deltas.raw_size AS raw_size, deltas.codec AS codec, deltas.checksum AS checksum,
    deltas.payload AS payload
  FROM checkpoints
  JOIN deltas ON deltas.tenant = checkpoints.tenant
  AND deltas.thread_id = checkpoints.thread_id
  AND deltas.namespace = checkpoints.namespace
  AND deltas.seq = checkpoints.seq
  JOIN threads ON threads.tenant = checkpoints.tenant
  AND threads.thread_id = checkpoints.thread_id
  AND threads.namespace = checkpoints.namespace
  WHERE checkpoints.tenant = :k_tenant
  AND checkpoints.thread_id = :k_thread_id
  AND checkpoints.namespace = :k_namespace
  AND checkpoints.seq = (
    SELECT max(wanted.seq) AS max_1
    FROM checkpoints wanted
    WHERE wanted.tenant = :k_tenant
    AND wanted.thread_id = :k_thread_id
    AND wanted.namespace = :k_namespace)
  AND threads.deleted_at IS NULL
  AND (threads.expires_at IS NULL
    OR threads.expires_at > :p_now)
  UNION ALL
  SELECT chain.parent_id AS parent_id, chain.checkpoint_id AS checkpoint_id, chain.epoch AS epoch,
    base.seq AS seq, base.base_seq AS base_seq, base.depth AS depth, base.since_bytes AS since_bytes,
    base.raw_size AS raw_size, base.codec AS codec, base.checksum AS checksum, base.payload AS payload
  FROM chain
  JOIN deltas base ON base.seq = chain.base_seq
  AND base.seq < chain.seq
  WHERE base.tenant = :k_tenant
  AND base.thread_id = :k_thread_id
  AND base.namespace = :k_namespace)
SELECT chain.parent_id, chain.checkpoint_id, chain.epoch, chain.seq, chain.base_seq, chain.depth,
  chain.since_bytes, chain.raw_size, chain.codec, chain.checksum, chain.payload, 2 AS status
FROM chain
UNION ALL
SELECT deltas.label AS parent_id, deltas.label AS checkpoint_id, deltas.seq AS epoch, deltas.seq,
  deltas.base_seq, deltas.depth, deltas.since_bytes, deltas.raw_size, deltas.codec,
  deltas.checksum, deltas.payload, deltas.status
FROM deltas
WHERE deltas.tenant = :k_tenant
AND deltas.thread_id = :k_thread_id
AND deltas.namespace = :k_namespace
AND deltas.kind IN ('write')
AND deltas.entry_key >= ('w/' || (
    SELECT name.checkpoint_id
    FROM checkpoints name
    WHERE name.tenant = :k_tenant
    AND name.thread_id = :k_thread_id
    AND name.namespace = :k_namespace
    AND name.seq = (
      SELECT max(wanted.seq) AS max_2
      FROM checkpoints wanted
      WHERE wanted.tenant = :k_tenant
      AND wanted.thread_id = :k_thread_id
      AND wanted.namespace = :k_namespace)) || '/')
AND deltas.entry_key < ('w/' || (
    SELECT name.checkpoint_id
    FROM checkpoints name
    WHERE name.tenant = :k_tenant
    AND name.thread_id = :k_thread_id
    AND name.namespace = :k_namespace
    AND name.seq = (
      SELECT max(wanted.seq) AS max_2
      FROM checkpoints wanted
      WHERE wanted.tenant = :k_tenant
      AND wanted.thread_id = :k_thread_id
      AND wanted.namespace = :k_namespace)) || '0')
AND deltas.label = (
  SELECT name.checkpoint_id
  FROM checkpoints name
  WHERE name.tenant = :k_tenant
  AND name.thread_id = :k_thread_id
  AND name.namespace = :k_namespace
  AND name.seq = (
    SELECT max(wanted.seq) AS max_2
    FROM checkpoints wanted
    WHERE wanted.tenant = :k_tenant
    AND wanted.thread_id = :k_thread_id
    AND wanted.namespace = :k_namespace))

-- checkpoints.snapshots.read_snapshot(which=named)
WITH chain(parent_id, checkpoint_id, epoch, seq, base_seq, depth, since_bytes, raw_size, codec,
    checksum, payload) AS (
  SELECT (
    SELECT parent.checkpoint_id
    FROM checkpoints parent
    WHERE parent.tenant = checkpoints.tenant
    AND parent.thread_id = checkpoints.thread_id
    AND parent.namespace = checkpoints.namespace
    AND parent.checkpoint_id = checkpoints.parent_id) AS parent_id,
    checkpoints.checkpoint_id AS checkpoint_id, threads.epoch AS epoch, deltas.seq AS seq,
    deltas.base_seq AS base_seq, deltas.depth AS depth, deltas.since_bytes AS since_bytes,
    deltas.raw_size AS raw_size, deltas.codec AS codec, deltas.checksum AS checksum,
    deltas.payload AS payload
  FROM checkpoints
  JOIN deltas ON deltas.tenant = checkpoints.tenant
  AND deltas.thread_id = checkpoints.thread_id
  AND deltas.namespace = checkpoints.namespace
  AND deltas.seq = checkpoints.seq
  JOIN threads ON threads.tenant = checkpoints.tenant
  AND threads.thread_id = checkpoints.thread_id
  AND threads.namespace = checkpoints.namespace
  WHERE checkpoints.tenant = :k_tenant
  AND checkpoints.thread_id = :k_thread_id
  AND checkpoints.namespace = :k_namespace
  AND checkpoints.seq = (
    SELECT wanted.seq
    FROM checkpoints wanted
    WHERE wanted.tenant = :k_tenant
    AND wanted.thread_id = :k_thread_id
    AND wanted.namespace = :k_namespace
    AND wanted.checkpoint_id = :p_checkpoint_id)
  AND threads.deleted_at IS NULL
  AND (threads.expires_at IS NULL
    OR threads.expires_at > :p_now)
  UNION ALL
  SELECT chain.parent_id AS parent_id, chain.checkpoint_id AS checkpoint_id, chain.epoch AS epoch,
    base.seq AS seq, base.base_seq AS base_seq, base.depth AS depth, base.since_bytes AS since_bytes,
    base.raw_size AS raw_size, base.codec AS codec, base.checksum AS checksum, base.payload AS payload
  FROM chain
  JOIN deltas base ON base.seq = chain.base_seq
  AND base.seq < chain.seq
  WHERE base.tenant = :k_tenant
  AND base.thread_id = :k_thread_id
  AND base.namespace = :k_namespace)
SELECT chain.parent_id, chain.checkpoint_id, chain.epoch, chain.seq, chain.base_seq, chain.depth,
  chain.since_bytes, chain.raw_size, chain.codec, chain.checksum, chain.payload, 2 AS status
FROM chain
UNION ALL
SELECT deltas.label AS parent_id, deltas.label AS checkpoint_id, deltas.seq AS epoch, deltas.seq,
  deltas.base_seq, deltas.depth, deltas.since_bytes, deltas.raw_size, deltas.codec,
  deltas.checksum, deltas.payload, deltas.status
FROM deltas
WHERE deltas.tenant = :k_tenant
AND deltas.thread_id = :k_thread_id
AND deltas.namespace = :k_namespace
AND deltas.kind IN ('write')
AND deltas.entry_key >= :p_low
AND deltas.entry_key < :p_high
AND deltas.label = :p_checkpoint_id

-- checkpoints.snapshots.read_snapshot(which=highest)
WITH chain(parent_id, checkpoint_id, epoch, seq, base_seq, depth, since_bytes, raw_size, codec,
    checksum, payload) AS (
  SELECT (
    SELECT parent.checkpoint_id
    FROM checkpoints parent
    WHERE parent.tenant = checkpoints.tenant
    AND parent.thread_id = checkpoints.thread_id
    AND parent.namespace = checkpoints.namespace
    AND parent.checkpoint_id = checkpoints.parent_id) AS parent_id,
    checkpoints.checkpoint_id AS checkpoint_id, threads.epoch AS epoch, deltas.seq AS seq,
    deltas.base_seq AS base_seq, deltas.depth AS depth, deltas.since_bytes AS since_bytes,
    deltas.raw_size AS raw_size, deltas.codec AS codec, deltas.checksum AS checksum,
    deltas.payload AS payload
  FROM checkpoints
  JOIN deltas ON deltas.tenant = checkpoints.tenant
  AND deltas.thread_id = checkpoints.thread_id
  AND deltas.namespace = checkpoints.namespace
  AND deltas.seq = checkpoints.seq
  JOIN threads ON threads.tenant = checkpoints.tenant
  AND threads.thread_id = checkpoints.thread_id
  AND threads.namespace = checkpoints.namespace
  WHERE checkpoints.tenant = :k_tenant
  AND checkpoints.thread_id = :k_thread_id
  AND checkpoints.namespace = :k_namespace
  AND checkpoints.seq = (
    SELECT wanted.seq
    FROM checkpoints wanted
    WHERE wanted.tenant = :k_tenant
    AND wanted.thread_id = :k_thread_id
    AND wanted.namespace = :k_namespace
    ORDER BY wanted.checkpoint_id DESC
    FETCH FIRST 1 ROWS ONLY)
  AND threads.deleted_at IS NULL
  AND (threads.expires_at IS NULL
    OR threads.expires_at > :p_now)
  UNION ALL
  SELECT chain.parent_id AS parent_id, chain.checkpoint_id AS checkpoint_id, chain.epoch AS epoch,
    base.seq AS seq, base.base_seq AS base_seq, base.depth AS depth, base.since_bytes AS since_bytes,
    base.raw_size AS raw_size, base.codec AS codec, base.checksum AS checksum, base.payload AS payload
  FROM chain
  JOIN deltas base ON base.seq = chain.base_seq
  AND base.seq < chain.seq
  WHERE base.tenant = :k_tenant
  AND base.thread_id = :k_thread_id
  AND base.namespace = :k_namespace)
SELECT chain.parent_id, chain.checkpoint_id, chain.epoch, chain.seq, chain.base_seq, chain.depth,
  chain.since_bytes, chain.raw_size, chain.codec, chain.checksum, chain.payload, 2 AS status
FROM chain
UNION ALL
SELECT deltas.label AS parent_id, deltas.label AS checkpoint_id, deltas.seq AS epoch, deltas.seq,
  deltas.base_seq, deltas.depth, deltas.since_bytes, deltas.raw_size, deltas.codec,
  deltas.checksum, deltas.payload, deltas.status
FROM deltas
WHERE deltas.tenant = :k_tenant
AND deltas.thread_id = :k_thread_id
AND deltas.namespace = :k_namespace
AND deltas.kind IN ('write')
AND deltas.entry_key >= ('w/' || (
    SELECT name.checkpoint_id
    FROM checkpoints name
    WHERE name.tenant = :k_tenant
    AND name.thread_id = :k_thread_id
    AND name.namespace = :k_namespace
    AND name.seq = (
      SELECT wanted.seq
      FROM checkpoints wanted
      WHERE wanted.tenant = :k_tenant
      AND wanted.thread_id = :k_thread_id
      AND wanted.namespace = :k_namespace
      ORDER BY wanted.checkpoint_id DESC
      FETCH FIRST 1 ROWS ONLY)) || '/')
AND deltas.entry_key < ('w/' || (
    SELECT name.checkpoint_id
    FROM checkpoints name
    WHERE name.tenant = :k_tenant
    AND name.thread_id = :k_thread_id
    AND name.namespace = :k_namespace
    AND name.seq = (
      SELECT wanted.seq
      FROM checkpoints wanted
      WHERE wanted.tenant = :k_tenant
      AND wanted.thread_id = :k_thread_id
      AND wanted.namespace = :k_namespace
      ORDER BY wanted.checkpoint_id DESC
      FETCH FIRST 1 ROWS ONLY)) || '0')
AND deltas.label = (
  SELECT name.checkpoint_id
  FROM checkpoints name
  WHERE name.tenant = :k_tenant
  AND name.thread_id = :k_thread_id
  AND name.namespace = :k_namespace
  AND name.seq = (
    SELECT wanted.seq
    FROM checkpoints wanted
    WHERE wanted.tenant = :k_tenant
    AND wanted.thread_id = :k_thread_id
    AND wanted.namespace = :k_namespace
    ORDER BY wanted.checkpoint_id DESC
    FETCH FIRST 1 ROWS ONLY))

-- checkpoints.snapshots.read_states()
WITH needed(seq, base_seq) AS (
  SELECT deltas.seq AS seq, deltas.base_seq AS base_seq
  FROM checkpoints
  JOIN deltas ON deltas.tenant = checkpoints.tenant
  AND deltas.thread_id = checkpoints.thread_id
  AND deltas.namespace = checkpoints.namespace
  AND deltas.seq = checkpoints.seq
  WHERE checkpoints.tenant = :k_tenant
  AND checkpoints.thread_id = :k_thread_id
  AND checkpoints.namespace = :k_namespace
  AND checkpoints.checkpoint_id IN (
    SELECT listed.checkpoint_id
    FROM (
      SELECT each_.checkpoint_id
      FROM JSON_TABLE(:p_keys, '$[*]' COLUMNS (checkpoint_id VARCHAR2(4000) PATH '$[0]')) each_) listed)
  UNION ALL
  SELECT base.seq AS seq, base.base_seq AS base_seq
  FROM needed
  JOIN deltas base ON base.seq = needed.base_seq
  AND base.seq < needed.seq
  WHERE base.tenant = :k_tenant
  AND base.thread_id = :k_thread_id
  AND base.namespace = :k_namespace)
SELECT name.checkpoint_id, parent.checkpoint_id AS parent_id, deltas.seq, deltas.base_seq,
  deltas.depth, deltas.since_bytes, deltas.raw_size, deltas.codec, deltas.checksum, deltas.payload
FROM deltas LEFT OUTER
JOIN checkpoints name ON name.tenant = deltas.tenant
AND name.thread_id = deltas.thread_id
AND name.namespace = deltas.namespace
AND name.seq = deltas.seq LEFT OUTER
JOIN checkpoints parent ON parent.tenant = name.tenant
AND parent.thread_id = name.thread_id
AND parent.namespace = name.namespace
AND parent.checkpoint_id = name.parent_id
WHERE deltas.tenant = :k_tenant
AND deltas.thread_id = :k_thread_id
AND deltas.namespace = :k_namespace
AND deltas.kind IN ('snapshot', 'delta')
AND deltas.seq IN (
  SELECT needed.seq
  FROM needed)
ORDER BY deltas.seq

-- checkpoints.upkeep.erase_item()
DELETE FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND store_items.key = :k_key
AND store_items.version = :p_version

-- checkpoints.upkeep.erase_origin()
UPDATE threads
SET forked_thread=NULL, forked_seq=NULL
WHERE threads.tenant = :k_tenant
AND threads.forked_thread = :k_thread_id

-- checkpoints.upkeep.erase_own()
DELETE FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace >= :p_house
AND store_items.namespace < :p_house_end

-- checkpoints.upkeep.erase_tenant(table=embeddings)
DELETE FROM embeddings
WHERE embeddings.tenant = :k_tenant

-- checkpoints.upkeep.erase_tenant(table=store_items)
DELETE FROM store_items
WHERE store_items.tenant = :k_tenant

-- checkpoints.upkeep.erase_tenant(table=entries)
DELETE FROM deltas
WHERE deltas.tenant = :k_tenant
AND deltas.kind IN ('entry')

-- checkpoints.upkeep.erase_tenant(table=deltas)
DELETE FROM deltas
WHERE deltas.tenant = :k_tenant

-- checkpoints.upkeep.erase_tenant(table=checkpoints)
DELETE FROM checkpoints
WHERE checkpoints.tenant = :k_tenant

-- checkpoints.upkeep.erase_tenant(table=threads)
DELETE FROM threads
WHERE threads.tenant = :k_tenant

-- checkpoints.upkeep.list_in_order()
SELECT checkpoints.checkpoint_id, checkpoints.seq
FROM checkpoints
WHERE checkpoints.tenant = :k_tenant
AND checkpoints.thread_id = :k_thread_id
AND checkpoints.namespace = :k_namespace
ORDER BY checkpoints.seq

-- checkpoints.upkeep.list_items(narrowed=False, after=False)
SELECT store_items.namespace, store_items.key, store_items.version, store_items.meta
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace >= :k_namespace
AND store_items.namespace < :k_beyond
AND NOT (store_items.namespace >= :k_house
  AND store_items.namespace < :k_house_end)
ORDER BY store_items.namespace, store_items.key
FETCH FIRST :p_limit ROWS ONLY

-- checkpoints.upkeep.list_items(narrowed=False, after=True)
SELECT store_items.namespace, store_items.key, store_items.version, store_items.meta
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace >= :k_namespace
AND store_items.namespace < :k_beyond
AND NOT (store_items.namespace >= :k_house
  AND store_items.namespace < :k_house_end)
AND store_items.namespace >= :p_namespace
AND (store_items.namespace > :p_namespace
  OR store_items.namespace = :p_namespace
  AND store_items.key > :p_key)
ORDER BY store_items.namespace, store_items.key
FETCH FIRST :p_limit ROWS ONLY

-- checkpoints.upkeep.list_namespaces()
SELECT threads.namespace, threads.deleted_at
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
ORDER BY threads.namespace

-- checkpoints.upkeep.list_threads()
SELECT DISTINCT threads.thread_id
FROM threads
WHERE threads.tenant = :k_tenant
ORDER BY threads.thread_id

-- checkpoints.upkeep.rewrite_delta()
UPDATE deltas
SET kind=:p_kind, base_seq=:p_base_seq, depth=:p_depth, since_bytes=:p_since_bytes, codec=:p_codec,
  checksum=:p_checksum, status=:p_status, payload=:p_payload
WHERE deltas.tenant = :k_tenant
AND deltas.thread_id = :k_thread_id
AND deltas.namespace = :k_namespace
AND deltas.seq = :p_seq

-- checkpoints.upkeep.rewrite_size()
UPDATE checkpoints
SET stored_size=:p_stored_size
WHERE checkpoints.tenant = :k_tenant
AND checkpoints.thread_id = :k_thread_id
AND checkpoints.namespace = :k_namespace
AND checkpoints.seq = :p_seq

-- database.keymarks.mark_key()
INSERT INTO store_items (tenant, namespace, key, meta, version, codec, checksum, created_at,
    updated_at, value)
VALUES (:k_tenant, :namespace, :k_key, :meta, :version, :codec, :checksum, :p_now, :p_now, :value)

-- database.keymarks.read_marks(scope=tenant)
SELECT store_items.tenant, store_items.key
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :namespace_1

-- database.keymarks.read_marks(scope=all)
SELECT store_items.tenant, store_items.key
FROM store_items
WHERE store_items.namespace = :namespace_1

-- database.keymarks.unmark_key()
DELETE FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :namespace_1
AND store_items.key = :k_key

-- log.appending.advance(based=True, expected=any, parent=True)
UPDATE threads
SET next_seq=(threads.next_seq + :next_seq_1), version=(threads.version + :version_1),
  last_ordinal=(threads.last_ordinal + CASE
  WHEN (EXISTS (
      SELECT 1
      FROM checkpoints known
      WHERE known.tenant = :k_tenant
      AND known.thread_id = :k_thread_id
      AND known.namespace = :k_namespace
      AND known.checkpoint_id = :p_checkpoint_id)) THEN 0
  ELSE 1 END), head_id=:p_checkpoint_id, previous_id=threads.head_id, updated_at=:p_now,
  expires_at=:p_expires_at
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
AND threads.namespace = :k_namespace
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND threads.epoch = :p_epoch
AND (EXISTS (
    SELECT 1
    FROM deltas
    WHERE deltas.tenant = threads.tenant
    AND deltas.thread_id = threads.thread_id
    AND deltas.namespace = threads.namespace
    AND deltas.seq = :p_base_seq
    AND deltas.checksum = :p_base_checksum))
AND (EXISTS (
    SELECT 1
    FROM checkpoints
    WHERE checkpoints.tenant = threads.tenant
    AND checkpoints.thread_id = threads.thread_id
    AND checkpoints.namespace = threads.namespace
    AND checkpoints.checkpoint_id = :p_parent_id))
RETURNING threads.next_seq - 1, threads.version, threads.epoch, threads.previous_id,
  threads.last_ordinal
INTO :ret_0, :ret_1, :ret_2, :ret_3, :ret_4

-- log.appending.advance(based=True, expected=any, parent=False)
UPDATE threads
SET next_seq=(threads.next_seq + :next_seq_1), version=(threads.version + :version_1),
  last_ordinal=(threads.last_ordinal + CASE
  WHEN (EXISTS (
      SELECT 1
      FROM checkpoints known
      WHERE known.tenant = :k_tenant
      AND known.thread_id = :k_thread_id
      AND known.namespace = :k_namespace
      AND known.checkpoint_id = :p_checkpoint_id)) THEN 0
  ELSE 1 END), head_id=:p_checkpoint_id, previous_id=threads.head_id, updated_at=:p_now,
  expires_at=:p_expires_at
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
AND threads.namespace = :k_namespace
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND threads.epoch = :p_epoch
AND (EXISTS (
    SELECT 1
    FROM deltas
    WHERE deltas.tenant = threads.tenant
    AND deltas.thread_id = threads.thread_id
    AND deltas.namespace = threads.namespace
    AND deltas.seq = :p_base_seq
    AND deltas.checksum = :p_base_checksum))
RETURNING threads.next_seq - 1, threads.version, threads.epoch, threads.previous_id,
  threads.last_ordinal
INTO :ret_0, :ret_1, :ret_2, :ret_3, :ret_4

-- log.appending.advance(based=True, expected=head, parent=True)
UPDATE threads
SET next_seq=(threads.next_seq + :next_seq_1), version=(threads.version + :version_1),
  last_ordinal=(threads.last_ordinal + CASE
  WHEN (EXISTS (
      SELECT 1
      FROM checkpoints known
      WHERE known.tenant = :k_tenant
      AND known.thread_id = :k_thread_id
      AND known.namespace = :k_namespace
      AND known.checkpoint_id = :p_checkpoint_id)) THEN 0
  ELSE 1 END), head_id=:p_checkpoint_id, previous_id=threads.head_id, updated_at=:p_now,
  expires_at=:p_expires_at
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
AND threads.namespace = :k_namespace
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND threads.head_id = :p_expected
AND threads.epoch = :p_epoch
AND (EXISTS (
    SELECT 1
    FROM deltas
    WHERE deltas.tenant = threads.tenant
    AND deltas.thread_id = threads.thread_id
    AND deltas.namespace = threads.namespace
    AND deltas.seq = :p_base_seq
    AND deltas.checksum = :p_base_checksum))
AND (EXISTS (
    SELECT 1
    FROM checkpoints
    WHERE checkpoints.tenant = threads.tenant
    AND checkpoints.thread_id = threads.thread_id
    AND checkpoints.namespace = threads.namespace
    AND checkpoints.checkpoint_id = :p_parent_id))
RETURNING threads.next_seq - 1, threads.version, threads.epoch, threads.previous_id,
  threads.last_ordinal
INTO :ret_0, :ret_1, :ret_2, :ret_3, :ret_4

-- log.appending.advance(based=True, expected=head, parent=False)
UPDATE threads
SET next_seq=(threads.next_seq + :next_seq_1), version=(threads.version + :version_1),
  last_ordinal=(threads.last_ordinal + CASE
  WHEN (EXISTS (
      SELECT 1
      FROM checkpoints known
      WHERE known.tenant = :k_tenant
      AND known.thread_id = :k_thread_id
      AND known.namespace = :k_namespace
      AND known.checkpoint_id = :p_checkpoint_id)) THEN 0
  ELSE 1 END), head_id=:p_checkpoint_id, previous_id=threads.head_id, updated_at=:p_now,
  expires_at=:p_expires_at
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
AND threads.namespace = :k_namespace
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND threads.head_id = :p_expected
AND threads.epoch = :p_epoch
AND (EXISTS (
    SELECT 1
    FROM deltas
    WHERE deltas.tenant = threads.tenant
    AND deltas.thread_id = threads.thread_id
    AND deltas.namespace = threads.namespace
    AND deltas.seq = :p_base_seq
    AND deltas.checksum = :p_base_checksum))
RETURNING threads.next_seq - 1, threads.version, threads.epoch, threads.previous_id,
  threads.last_ordinal
INTO :ret_0, :ret_1, :ret_2, :ret_3, :ret_4

-- log.appending.advance(based=True, expected=none, parent=True)
UPDATE threads
SET next_seq=(threads.next_seq + :next_seq_1), version=(threads.version + :version_1),
  last_ordinal=(threads.last_ordinal + CASE
  WHEN (EXISTS (
      SELECT 1
      FROM checkpoints known
      WHERE known.tenant = :k_tenant
      AND known.thread_id = :k_thread_id
      AND known.namespace = :k_namespace
      AND known.checkpoint_id = :p_checkpoint_id)) THEN 0
  ELSE 1 END), head_id=:p_checkpoint_id, previous_id=threads.head_id, updated_at=:p_now,
  expires_at=:p_expires_at
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
AND threads.namespace = :k_namespace
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND threads.head_id IS NULL
AND threads.epoch = :p_epoch
AND (EXISTS (
    SELECT 1
    FROM deltas
    WHERE deltas.tenant = threads.tenant
    AND deltas.thread_id = threads.thread_id
    AND deltas.namespace = threads.namespace
    AND deltas.seq = :p_base_seq
    AND deltas.checksum = :p_base_checksum))
AND (EXISTS (
    SELECT 1
    FROM checkpoints
    WHERE checkpoints.tenant = threads.tenant
    AND checkpoints.thread_id = threads.thread_id
    AND checkpoints.namespace = threads.namespace
    AND checkpoints.checkpoint_id = :p_parent_id))
RETURNING threads.next_seq - 1, threads.version, threads.epoch, threads.previous_id,
  threads.last_ordinal
INTO :ret_0, :ret_1, :ret_2, :ret_3, :ret_4

-- log.appending.advance(based=True, expected=none, parent=False)
UPDATE threads
SET next_seq=(threads.next_seq + :next_seq_1), version=(threads.version + :version_1),
  last_ordinal=(threads.last_ordinal + CASE
  WHEN (EXISTS (
      SELECT 1
      FROM checkpoints known
      WHERE known.tenant = :k_tenant
      AND known.thread_id = :k_thread_id
      AND known.namespace = :k_namespace
      AND known.checkpoint_id = :p_checkpoint_id)) THEN 0
  ELSE 1 END), head_id=:p_checkpoint_id, previous_id=threads.head_id, updated_at=:p_now,
  expires_at=:p_expires_at
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
AND threads.namespace = :k_namespace
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND threads.head_id IS NULL
AND threads.epoch = :p_epoch
AND (EXISTS (
    SELECT 1
    FROM deltas
    WHERE deltas.tenant = threads.tenant
    AND deltas.thread_id = threads.thread_id
    AND deltas.namespace = threads.namespace
    AND deltas.seq = :p_base_seq
    AND deltas.checksum = :p_base_checksum))
RETURNING threads.next_seq - 1, threads.version, threads.epoch, threads.previous_id,
  threads.last_ordinal
INTO :ret_0, :ret_1, :ret_2, :ret_3, :ret_4

-- log.appending.advance(based=False, expected=any, parent=True)
UPDATE threads
SET next_seq=(threads.next_seq + :next_seq_1), version=(threads.version + :version_1),
  last_ordinal=(threads.last_ordinal + CASE
  WHEN (EXISTS (
      SELECT 1
      FROM checkpoints known
      WHERE known.tenant = :k_tenant
      AND known.thread_id = :k_thread_id
      AND known.namespace = :k_namespace
      AND known.checkpoint_id = :p_checkpoint_id)) THEN 0
  ELSE 1 END), head_id=:p_checkpoint_id, previous_id=threads.head_id, updated_at=:p_now,
  expires_at=:p_expires_at
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
AND threads.namespace = :k_namespace
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND (EXISTS (
    SELECT 1
    FROM checkpoints
    WHERE checkpoints.tenant = threads.tenant
    AND checkpoints.thread_id = threads.thread_id
    AND checkpoints.namespace = threads.namespace
    AND checkpoints.checkpoint_id = :p_parent_id))
RETURNING threads.next_seq - 1, threads.version, threads.epoch, threads.previous_id,
  threads.last_ordinal
INTO :ret_0, :ret_1, :ret_2, :ret_3, :ret_4

-- log.appending.advance(based=False, expected=any, parent=False)
UPDATE threads
SET next_seq=(threads.next_seq + :next_seq_1), version=(threads.version + :version_1),
  last_ordinal=(threads.last_ordinal + CASE
  WHEN (EXISTS (
      SELECT 1
      FROM checkpoints known
      WHERE known.tenant = :k_tenant
      AND known.thread_id = :k_thread_id
      AND known.namespace = :k_namespace
      AND known.checkpoint_id = :p_checkpoint_id)) THEN 0
  ELSE 1 END), head_id=:p_checkpoint_id, previous_id=threads.head_id, updated_at=:p_now,
  expires_at=:p_expires_at
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
AND threads.namespace = :k_namespace
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
RETURNING threads.next_seq - 1, threads.version, threads.epoch, threads.previous_id,
  threads.last_ordinal
INTO :ret_0, :ret_1, :ret_2, :ret_3, :ret_4

-- log.appending.advance(based=False, expected=head, parent=True)
UPDATE threads
SET next_seq=(threads.next_seq + :next_seq_1), version=(threads.version + :version_1),
  last_ordinal=(threads.last_ordinal + CASE
  WHEN (EXISTS (
      SELECT 1
      FROM checkpoints known
      WHERE known.tenant = :k_tenant
      AND known.thread_id = :k_thread_id
      AND known.namespace = :k_namespace
      AND known.checkpoint_id = :p_checkpoint_id)) THEN 0
  ELSE 1 END), head_id=:p_checkpoint_id, previous_id=threads.head_id, updated_at=:p_now,
  expires_at=:p_expires_at
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
AND threads.namespace = :k_namespace
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND threads.head_id = :p_expected
AND (EXISTS (
    SELECT 1
    FROM checkpoints
    WHERE checkpoints.tenant = threads.tenant
    AND checkpoints.thread_id = threads.thread_id
    AND checkpoints.namespace = threads.namespace
    AND checkpoints.checkpoint_id = :p_parent_id))
RETURNING threads.next_seq - 1, threads.version, threads.epoch, threads.previous_id,
  threads.last_ordinal
INTO :ret_0, :ret_1, :ret_2, :ret_3, :ret_4

-- log.appending.advance(based=False, expected=head, parent=False)
UPDATE threads
SET next_seq=(threads.next_seq + :next_seq_1), version=(threads.version + :version_1),
  last_ordinal=(threads.last_ordinal + CASE
  WHEN (EXISTS (
      SELECT 1
      FROM checkpoints known
      WHERE known.tenant = :k_tenant
      AND known.thread_id = :k_thread_id
      AND known.namespace = :k_namespace
      AND known.checkpoint_id = :p_checkpoint_id)) THEN 0
  ELSE 1 END), head_id=:p_checkpoint_id, previous_id=threads.head_id, updated_at=:p_now,
  expires_at=:p_expires_at
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
AND threads.namespace = :k_namespace
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND threads.head_id = :p_expected
RETURNING threads.next_seq - 1, threads.version, threads.epoch, threads.previous_id,
  threads.last_ordinal
INTO :ret_0, :ret_1, :ret_2, :ret_3, :ret_4

-- log.appending.advance(based=False, expected=none, parent=True)
UPDATE threads
SET next_seq=(threads.next_seq + :next_seq_1), version=(threads.version + :version_1),
  last_ordinal=(threads.last_ordinal + CASE
  WHEN (EXISTS (
      SELECT 1
      FROM checkpoints known
      WHERE known.tenant = :k_tenant
      AND known.thread_id = :k_thread_id
      AND known.namespace = :k_namespace
      AND known.checkpoint_id = :p_checkpoint_id)) THEN 0
  ELSE 1 END), head_id=:p_checkpoint_id, previous_id=threads.head_id, updated_at=:p_now,
  expires_at=:p_expires_at
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
AND threads.namespace = :k_namespace
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND threads.head_id IS NULL
AND (EXISTS (
    SELECT 1
    FROM checkpoints
    WHERE checkpoints.tenant = threads.tenant
    AND checkpoints.thread_id = threads.thread_id
    AND checkpoints.namespace = threads.namespace
    AND checkpoints.checkpoint_id = :p_parent_id))
RETURNING threads.next_seq - 1, threads.version, threads.epoch, threads.previous_id,
  threads.last_ordinal
INTO :ret_0, :ret_1, :ret_2, :ret_3, :ret_4

-- log.appending.advance(based=False, expected=none, parent=False)
UPDATE threads
SET next_seq=(threads.next_seq + :next_seq_1), version=(threads.version + :version_1),
  last_ordinal=(threads.last_ordinal + CASE
  WHEN (EXISTS (
      SELECT 1
      FROM checkpoints known
      WHERE known.tenant = :k_tenant
      AND known.thread_id = :k_thread_id
      AND known.namespace = :k_namespace
      AND known.checkpoint_id = :p_checkpoint_id)) THEN 0
  ELSE 1 END), head_id=:p_checkpoint_id, previous_id=threads.head_id, updated_at=:p_now,
  expires_at=:p_expires_at
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
AND threads.namespace = :k_namespace
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND threads.head_id IS NULL
RETURNING threads.next_seq - 1, threads.version, threads.epoch, threads.previous_id,
  threads.last_ordinal
INTO :ret_0, :ret_1, :ret_2, :ret_3, :ret_4

-- log.appending.begin_again(expected=any)
UPDATE threads
SET next_seq=(threads.next_seq + :next_seq_1), version=(threads.version + :version_1),
  last_ordinal=(threads.last_ordinal + CASE
  WHEN (EXISTS (
      SELECT 1
      FROM checkpoints known
      WHERE known.tenant = :k_tenant
      AND known.thread_id = :k_thread_id
      AND known.namespace = :k_namespace
      AND known.checkpoint_id = :p_checkpoint_id)) THEN 0
  ELSE 1 END), epoch=CASE
WHEN (threads.deleted_at IS NOT NULL) THEN threads.epoch + :epoch_1
ELSE threads.epoch END, head_id=:p_checkpoint_id, previous_id=threads.head_id, created_at=CASE
WHEN (threads.deleted_at IS NOT NULL) THEN :p_now
ELSE threads.created_at END, updated_at=:p_now, expires_at=:p_expires_at, deleted_at=NULL
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
AND threads.namespace = :k_namespace
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
RETURNING threads.next_seq - 1, threads.version, threads.epoch, threads.previous_id,
  threads.last_ordinal
INTO :ret_0, :ret_1, :ret_2, :ret_3, :ret_4

-- log.appending.begin_again(expected=none)
UPDATE threads
SET next_seq=(threads.next_seq + :next_seq_1), version=(threads.version + :version_1),
  last_ordinal=(threads.last_ordinal + CASE
  WHEN (EXISTS (
      SELECT 1
      FROM checkpoints known
      WHERE known.tenant = :k_tenant
      AND known.thread_id = :k_thread_id
      AND known.namespace = :k_namespace
      AND known.checkpoint_id = :p_checkpoint_id)) THEN 0
  ELSE 1 END), epoch=CASE
WHEN (threads.deleted_at IS NOT NULL) THEN threads.epoch + :epoch_1
ELSE threads.epoch END, head_id=:p_checkpoint_id, previous_id=threads.head_id, created_at=CASE
WHEN (threads.deleted_at IS NOT NULL) THEN :p_now
ELSE threads.created_at END, updated_at=:p_now, expires_at=:p_expires_at, deleted_at=NULL
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
AND threads.namespace = :k_namespace
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND threads.head_id IS NULL
RETURNING threads.next_seq - 1, threads.version, threads.epoch, threads.previous_id,
  threads.last_ordinal
INTO :ret_0, :ret_1, :ret_2, :ret_3, :ret_4

-- log.appending.begin_again(expected=alive)
UPDATE threads
SET next_seq=(threads.next_seq + :next_seq_1), version=(threads.version + :version_1),
  last_ordinal=(threads.last_ordinal + CASE
  WHEN (EXISTS (
      SELECT 1
      FROM checkpoints known
      WHERE known.tenant = :k_tenant
      AND known.thread_id = :k_thread_id
      AND known.namespace = :k_namespace
      AND known.checkpoint_id = :p_checkpoint_id)) THEN 0
  ELSE 1 END), epoch=CASE
WHEN (threads.deleted_at IS NOT NULL) THEN threads.epoch + :epoch_1
ELSE threads.epoch END, head_id=:p_checkpoint_id, previous_id=threads.head_id, created_at=CASE
WHEN (threads.deleted_at IS NOT NULL) THEN :p_now
ELSE threads.created_at END, updated_at=:p_now, expires_at=:p_expires_at, deleted_at=NULL
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
AND threads.namespace = :k_namespace
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND threads.deleted_at IS NULL
RETURNING threads.next_seq - 1, threads.version, threads.epoch, threads.previous_id,
  threads.last_ordinal
INTO :ret_0, :ret_1, :ret_2, :ret_3, :ret_4

-- log.appending.begin_new()
INSERT INTO threads (tenant, thread_id, namespace, next_seq, version, last_ordinal, epoch, head_id,
    meta, created_at, updated_at, expires_at)
VALUES (:k_tenant, :k_thread_id, :k_namespace, :next_seq, :version, :last_ordinal, :p_epoch,
    :p_checkpoint_id, :meta, :p_now, :p_now, :p_expires_at)
RETURNING threads.next_seq - 1, threads.version, threads.epoch, threads.previous_id,
  threads.last_ordinal
INTO :ret_0, :ret_1, :ret_2, :ret_3, :ret_4

-- log.appending.forget_names()
DELETE FROM checkpoints
WHERE checkpoints.tenant = :k_tenant
AND checkpoints.thread_id = :k_thread_id
AND checkpoints.namespace = :k_namespace
AND checkpoints.checkpoint_id != :p_checkpoint_id
AND checkpoints.seq <= (
  SELECT newest.seq
  FROM checkpoints newest
  WHERE newest.tenant = :k_tenant
  AND newest.thread_id = :k_thread_id
  AND newest.namespace = :k_namespace
  AND newest.checkpoint_id != :p_checkpoint_id
  ORDER BY newest.seq DESC
  OFFSET :p_keep ROWS
  FETCH FIRST 1 ROWS ONLY)
AND mod(checkpoints.ordinal, :p_every) != :param_2
AND checkpoints.occurred_at < :p_cutoff
AND (checkpoints.checkpoint_id NOT IN (
    WITH held(tenant, thread_id, namespace, checkpoint_id) AS (
      SELECT rested_on.tenant AS tenant, rested_on.thread_id AS thread_id,
        rested_on.namespace AS namespace, rested_on.checkpoint_id AS checkpoint_id
      FROM (
        SELECT kept.tenant AS tenant, kept.thread_id AS thread_id, kept.namespace AS namespace,
          kept.rests_on AS checkpoint_id
        FROM checkpoints kept
        WHERE kept.tenant = :k_tenant
        AND kept.thread_id = :k_thread_id
        AND kept.namespace = :k_namespace
        AND kept.rests_on IS NOT NULL
        AND NOT (kept.checkpoint_id != :p_checkpoint_id
          AND kept.seq <= (
            SELECT newest.seq
            FROM checkpoints newest
            WHERE newest.tenant = :k_tenant
            AND newest.thread_id = :k_thread_id
            AND newest.namespace = :k_namespace
            AND newest.checkpoint_id != :p_checkpoint_id
            ORDER BY newest.seq DESC
            OFFSET :p_keep ROWS
            FETCH FIRST 1 ROWS ONLY)
          AND mod(kept.ordinal, :p_every) != :param_4
          AND kept.occurred_at < :p_cutoff)
        UNION ALL
        SELECT below.tenant AS tenant, below.thread_id AS thread_id, below.namespace AS namespace,
          below.checkpoint_id AS checkpoint_id
        FROM checkpoints below
        WHERE below.tenant = :k_tenant
        AND below.thread_id = :k_thread_id
        AND below.namespace = :k_namespace
        AND below.checkpoint_id = :p_rests_on) rested_on
      UNION ALL
      SELECT checkpoints.tenant AS tenant, checkpoints.thread_id AS thread_id,
        checkpoints.namespace AS namespace, checkpoints.rests_on AS rests_on
      FROM held
      JOIN checkpoints ON checkpoints.tenant = held.tenant
      AND checkpoints.thread_id = held.thread_id
      AND checkpoints.namespace = held.namespace
      AND checkpoints.checkpoint_id = held.checkpoint_id
      WHERE checkpoints.rests_on IS NOT NULL) CYCLE tenant, thread_id, namespace, checkpoint_id
    SET goes_round TO '1' DEFAULT '0'
    SELECT held.checkpoint_id
    FROM held))

-- log.appending.move_checkpoint()
UPDATE checkpoints
SET parent_id=nullif(coalesce(:p_parent_id, checkpoints.parent_id), :p_checkpoint_id), seq=:p_seq,
  run_id=:p_run_id, meta=:p_meta, raw_size=:p_raw_size, stored_size=:p_stored_size,
  occurred_at=:p_occurred_at, created_at=:p_created_at, rests_on=:p_rests_on
WHERE checkpoints.tenant = :k_tenant
AND checkpoints.thread_id = :k_thread_id
AND checkpoints.namespace = :k_namespace
AND checkpoints.checkpoint_id = :p_checkpoint_id

-- log.appending.new_checkpoint()
INSERT INTO checkpoints (tenant, thread_id, namespace, checkpoint_id, parent_id, seq, run_id, meta,
    raw_size, stored_size, occurred_at, created_at, ordinal, rests_on)
VALUES (:k_tenant, :k_thread_id, :k_namespace, :p_checkpoint_id, nullif(coalesce(:p_parent_id,
        :p_previous_id), :p_checkpoint_id), :p_seq, :p_run_id, :p_meta, :p_raw_size, :p_stored_size,
    :p_occurred_at, :p_created_at, :p_ordinal, :p_rests_on)

-- log.appending.put_delta()
INSERT INTO deltas (tenant, thread_id, namespace, seq, kind, entry_key, parent_seq, base_seq,
    depth, since_bytes, raw_size, codec, checksum, label, sort_key, status, search_text, occurred_at,
    stored_at, payload)
VALUES (:k_tenant, :k_thread_id, :k_namespace, :p_seq, :p_kind, :p_entry_key, :p_parent_seq,
    :p_base_seq, :p_depth, :p_since_bytes, :p_raw_size, :p_codec, :p_checksum, :p_label, :p_sort_key,
    :p_status, :p_search_text, :p_occurred_at, :p_stored_at, :p_payload)

-- log.copying.copy_head()
INSERT INTO threads (tenant, thread_id, namespace, next_seq, version, last_ordinal, epoch, head_id,
    previous_id, meta, forked_thread, forked_seq, created_at, updated_at, expires_at, deleted_at)
SELECT threads.tenant AS tenant, :p_thread_id AS thread_id, :p_namespace AS namespace,
  :p_next_seq AS next_seq, :param_1 AS version, (
  SELECT coalesce(max(checkpoints.ordinal), 0) AS coalesce_1
  FROM checkpoints
  WHERE checkpoints.tenant = :k_tenant
  AND checkpoints.thread_id = :k_thread_id
  AND checkpoints.namespace = :k_namespace
  AND checkpoints.seq <= :p_until) AS last_ordinal, :p_epoch AS epoch, :p_head_id AS head_id,
  NULL AS previous_id, threads.meta AS meta, threads.thread_id AS forked_thread,
  :p_until AS forked_seq, :p_now AS created_at, :p_now AS updated_at,
  threads.expires_at AS expires_at, NULL AS deleted_at
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
AND threads.namespace = :k_namespace

-- log.copying.copy_rows(table=checkpoints)
INSERT INTO checkpoints (tenant, thread_id, namespace, checkpoint_id, parent_id, seq, run_id, meta,
    raw_size, stored_size, occurred_at, created_at, ordinal, rests_on)
SELECT checkpoints.tenant AS tenant, :p_thread_id AS thread_id, :p_namespace AS namespace,
  checkpoints.checkpoint_id AS checkpoint_id, checkpoints.parent_id AS parent_id,
  checkpoints.seq AS seq, checkpoints.run_id AS run_id, checkpoints.meta AS meta,
  checkpoints.raw_size AS raw_size, checkpoints.stored_size AS stored_size,
  checkpoints.occurred_at AS occurred_at, checkpoints.created_at AS created_at,
  checkpoints.ordinal AS ordinal, checkpoints.rests_on AS rests_on
FROM checkpoints
WHERE checkpoints.tenant = :k_tenant
AND checkpoints.thread_id = :k_thread_id
AND checkpoints.namespace = :k_namespace
AND checkpoints.seq <= :p_until

-- log.copying.copy_rows(table=deltas)
INSERT INTO deltas (tenant, thread_id, namespace, seq, kind, entry_key, parent_seq, base_seq,
    depth, since_bytes, raw_size, codec, checksum, label, sort_key, status, search_text, occurred_at,
    stored_at, payload)
SELECT deltas.tenant AS tenant, :p_thread_id AS thread_id, :p_namespace AS namespace,
  deltas.seq AS seq, deltas.kind AS kind, deltas.entry_key AS entry_key,
  deltas.parent_seq AS parent_seq, deltas.base_seq AS base_seq, deltas.depth AS depth,
  deltas.since_bytes AS since_bytes, deltas.raw_size AS raw_size, deltas.codec AS codec,
  deltas.checksum AS checksum, deltas.label AS label, deltas.sort_key AS sort_key,
  deltas.status AS status, deltas.search_text AS search_text, deltas.occurred_at AS occurred_at,
  deltas.stored_at AS stored_at, deltas.payload AS payload
FROM deltas
WHERE deltas.tenant = :k_tenant
AND deltas.thread_id = :k_thread_id
AND deltas.namespace = :k_namespace
AND deltas.seq <= :p_until

-- log.copying.copy_rows(table=others)
INSERT INTO deltas (tenant, thread_id, namespace, seq, kind, entry_key, parent_seq, base_seq,
    depth, since_bytes, raw_size, codec, checksum, label, sort_key, status, search_text, occurred_at,
    stored_at, payload)
SELECT deltas.tenant AS tenant, :p_thread_id AS thread_id, :p_namespace AS namespace,
  deltas.seq AS seq, deltas.kind AS kind, deltas.entry_key AS entry_key,
  deltas.parent_seq AS parent_seq, deltas.base_seq AS base_seq, deltas.depth AS depth,
  deltas.since_bytes AS since_bytes, deltas.raw_size AS raw_size, deltas.codec AS codec,
  deltas.checksum AS checksum, deltas.label AS label, deltas.sort_key AS sort_key,
  deltas.status AS status, deltas.search_text AS search_text, deltas.occurred_at AS occurred_at,
  deltas.stored_at AS stored_at, deltas.payload AS payload
FROM deltas
WHERE deltas.tenant = :k_tenant
AND deltas.thread_id = :k_thread_id
AND deltas.namespace = :k_namespace
AND deltas.seq <= :p_until
AND (deltas.kind NOT IN ('write'))

-- log.copying.copy_rows(table=writes)
INSERT INTO deltas (tenant, thread_id, namespace, seq, kind, entry_key, parent_seq, base_seq,
    depth, since_bytes, raw_size, codec, checksum, label, sort_key, status, search_text, occurred_at,
    stored_at, payload)
SELECT deltas.tenant AS tenant, :p_thread_id AS thread_id, :p_namespace AS namespace,
  deltas.seq AS seq, deltas.kind AS kind, deltas.entry_key AS entry_key,
  deltas.parent_seq AS parent_seq, deltas.base_seq AS base_seq, deltas.depth AS depth,
  deltas.since_bytes AS since_bytes, deltas.raw_size AS raw_size, deltas.codec AS codec,
  deltas.checksum AS checksum, deltas.label AS label, deltas.sort_key AS sort_key,
  deltas.status AS status, deltas.search_text AS search_text, deltas.occurred_at AS occurred_at,
  deltas.stored_at AS stored_at, deltas.payload AS payload
FROM deltas
WHERE deltas.tenant = :k_tenant
AND deltas.thread_id = :k_thread_id
AND deltas.namespace = :k_namespace
AND deltas.kind IN ('write')
AND deltas.label IN (
  SELECT checkpoints.checkpoint_id
  FROM checkpoints
  WHERE checkpoints.tenant = :k_tenant
  AND checkpoints.thread_id = :k_thread_id
  AND checkpoints.namespace = :k_namespace
  AND checkpoints.seq <= :p_until)

-- log.copying.has_entry()
SELECT deltas.seq
FROM deltas
WHERE deltas.tenant = :k_tenant
AND deltas.thread_id = :k_thread_id
AND deltas.namespace = :k_namespace
AND deltas.seq = :p_seq
AND deltas.kind IN ('entry')

-- log.copying.holds_anything()
SELECT deltas.seq
FROM deltas
WHERE deltas.tenant = :k_tenant
AND deltas.thread_id = :k_thread_id
AND deltas.namespace = :k_namespace
AND ((deltas.kind NOT IN ('snapshot', 'delta'))
  OR (EXISTS (
      SELECT checkpoints.seq
      FROM checkpoints
      WHERE checkpoints.tenant = :k_tenant
      AND checkpoints.thread_id = :k_thread_id
      AND checkpoints.namespace = :k_namespace
      AND checkpoints.seq = deltas.seq)))
FETCH FIRST 1 ROWS ONLY

-- log.copying.last_write()
SELECT max(deltas.seq) AS seq
FROM deltas
WHERE deltas.tenant = :k_tenant
AND deltas.thread_id = :k_thread_id
AND deltas.namespace = :k_namespace
AND deltas.kind IN ('write')
AND deltas.label IN (
  SELECT checkpoints.checkpoint_id
  FROM checkpoints
  WHERE checkpoints.tenant = :k_tenant
  AND checkpoints.thread_id = :k_thread_id
  AND checkpoints.namespace = :k_namespace
  AND checkpoints.seq <= :p_until)

-- log.copying.newest_until()
SELECT checkpoints.checkpoint_id
FROM checkpoints
WHERE checkpoints.tenant = :k_tenant
AND checkpoints.thread_id = :k_thread_id
AND checkpoints.namespace = :k_namespace
AND checkpoints.seq <= :p_until
ORDER BY checkpoints.seq DESC
FETCH FIRST 1 ROWS ONLY

-- log.copying.read_position()
SELECT checkpoints.seq
FROM checkpoints
WHERE checkpoints.tenant = :k_tenant
AND checkpoints.thread_id = :k_thread_id
AND checkpoints.namespace = :k_namespace
AND checkpoints.checkpoint_id = :p_checkpoint_id

-- log.entering.allot()
UPDATE threads
SET next_seq=(threads.next_seq + :p_count), version=(threads.version + :version_1),
  epoch=(threads.epoch + :p_moved), updated_at=:p_updated_at, expires_at=:p_expires_at
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
AND threads.namespace = :k_namespace
RETURNING threads.next_seq, threads.version, threads.epoch
INTO :ret_0, :ret_1, :ret_2

-- log.entering.begin_log_again(expected=any)
UPDATE threads
SET next_seq=(threads.next_seq + :p_count), version=(threads.version + :version_1), epoch=CASE
WHEN (threads.deleted_at IS NOT NULL) THEN threads.epoch + :epoch_1
ELSE threads.epoch END, created_at=CASE
WHEN (threads.deleted_at IS NOT NULL) THEN :p_updated_at
ELSE threads.created_at END, updated_at=:p_updated_at, expires_at=:p_expires_at, deleted_at=NULL
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
AND threads.namespace = :k_namespace
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
RETURNING threads.next_seq, threads.version, threads.epoch
INTO :ret_0, :ret_1, :ret_2

-- log.entering.begin_log_again(expected=none)
UPDATE threads
SET next_seq=(threads.next_seq + :p_count), version=(threads.version + :version_1), epoch=CASE
WHEN (threads.deleted_at IS NOT NULL) THEN threads.epoch + :epoch_1
ELSE threads.epoch END, created_at=CASE
WHEN (threads.deleted_at IS NOT NULL) THEN :p_updated_at
ELSE threads.created_at END, updated_at=:p_updated_at, expires_at=:p_expires_at, deleted_at=NULL
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
AND threads.namespace = :k_namespace
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND threads.deleted_at IS NOT NULL
RETURNING threads.next_seq, threads.version, threads.epoch
INTO :ret_0, :ret_1, :ret_2

-- log.entering.begin_log_new()
INSERT INTO threads (tenant, thread_id, namespace, next_seq, version, epoch, meta, created_at,
    updated_at, expires_at)
VALUES (:k_tenant, :k_thread_id, :k_namespace, :p_next_seq, :version, :p_epoch, :p_meta,
    :p_updated_at, :p_updated_at, :p_expires_at)
RETURNING threads.next_seq, threads.version, threads.epoch
INTO :ret_0, :ret_1, :ret_2

-- log.entering.find_keys()
SELECT deltas.entry_key, deltas.seq
FROM deltas
WHERE deltas.tenant = :k_tenant
AND deltas.thread_id = :k_thread_id
AND deltas.namespace = :k_namespace
AND deltas.entry_key IN (
  SELECT listed.entry_key
  FROM (
    SELECT each_.entry_key
    FROM JSON_TABLE(:p_keys, '$[*]' COLUMNS (entry_key VARCHAR2(4000) PATH '$[0]')) each_) listed)

-- log.entries.count_entries()
SELECT count(*) AS count_1
FROM deltas
WHERE deltas.tenant = :k_tenant
AND deltas.thread_id = :k_thread_id
AND deltas.namespace = :k_namespace
AND deltas.kind IN ('entry')
AND (EXISTS (
    SELECT 1
    FROM threads
    WHERE threads.tenant = deltas.tenant
    AND threads.thread_id = deltas.thread_id
    AND threads.namespace = deltas.namespace
    AND threads.deleted_at IS NULL
    AND (threads.expires_at IS NULL
      OR threads.expires_at > :p_now)))

-- log.entries.edit_entry()
UPDATE deltas
SET raw_size=:p_raw_size, codec=:p_codec, checksum=:p_checksum, search_text=:p_search_text,
  payload=:p_payload
WHERE deltas.tenant = :k_tenant
AND deltas.thread_id = :k_thread_id
AND deltas.namespace = :k_namespace
AND deltas.kind IN ('entry')
AND deltas.seq = :p_seq

-- log.entries.entries_changed()
UPDATE threads
SET version=(threads.version + :version_1), epoch=(threads.epoch + :epoch_1),
  updated_at=:p_updated_at
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
AND threads.namespace = :k_namespace

-- log.entries.read_entries(end=first, timed=True)
SELECT deltas.seq, deltas.codec, deltas.checksum, deltas.payload, deltas.entry_key,
  deltas.occurred_at, deltas.stored_at
FROM deltas
WHERE deltas.tenant = :k_tenant
AND deltas.thread_id = :k_thread_id
AND deltas.namespace = :k_namespace
AND deltas.kind IN ('entry')
AND deltas.seq > :p_after
AND deltas.seq < :p_before
AND (EXISTS (
    SELECT 1
    FROM threads
    WHERE threads.tenant = deltas.tenant
    AND threads.thread_id = deltas.thread_id
    AND threads.namespace = deltas.namespace
    AND threads.deleted_at IS NULL
    AND (threads.expires_at IS NULL
      OR threads.expires_at > :p_now)))
AND deltas.occurred_at >= :p_since
AND deltas.occurred_at < :p_until
ORDER BY deltas.seq
FETCH FIRST :p_limit ROWS ONLY

-- log.entries.read_entries(end=first, timed=False)
SELECT deltas.seq, deltas.codec, deltas.checksum, deltas.payload, deltas.entry_key,
  deltas.occurred_at, deltas.stored_at
FROM deltas
WHERE deltas.tenant = :k_tenant
AND deltas.thread_id = :k_thread_id
AND deltas.namespace = :k_namespace
AND deltas.kind IN ('entry')
AND deltas.seq > :p_after
AND deltas.seq < :p_before
AND (EXISTS (
    SELECT 1
    FROM threads
    WHERE threads.tenant = deltas.tenant
    AND threads.thread_id = deltas.thread_id
    AND threads.namespace = deltas.namespace
    AND threads.deleted_at IS NULL
    AND (threads.expires_at IS NULL
      OR threads.expires_at > :p_now)))
ORDER BY deltas.seq
FETCH FIRST :p_limit ROWS ONLY

-- log.entries.read_entries(end=last, timed=True)
SELECT deltas.seq, deltas.codec, deltas.checksum, deltas.payload, deltas.entry_key,
  deltas.occurred_at, deltas.stored_at
FROM deltas
WHERE deltas.tenant = :k_tenant
AND deltas.thread_id = :k_thread_id
AND deltas.namespace = :k_namespace
AND deltas.kind IN ('entry')
AND deltas.seq > :p_after
AND deltas.seq < :p_before
AND (EXISTS (
    SELECT 1
    FROM threads
    WHERE threads.tenant = deltas.tenant
    AND threads.thread_id = deltas.thread_id
    AND threads.namespace = deltas.namespace
    AND threads.deleted_at IS NULL
    AND (threads.expires_at IS NULL
      OR threads.expires_at > :p_now)))
AND deltas.occurred_at >= :p_since
AND deltas.occurred_at < :p_until
ORDER BY deltas.seq DESC
FETCH FIRST :p_limit ROWS ONLY

-- log.entries.read_entries(end=last, timed=False)
SELECT deltas.seq, deltas.codec, deltas.checksum, deltas.payload, deltas.entry_key,
  deltas.occurred_at, deltas.stored_at
FROM deltas
WHERE deltas.tenant = :k_tenant
AND deltas.thread_id = :k_thread_id
AND deltas.namespace = :k_namespace
AND deltas.kind IN ('entry')
AND deltas.seq > :p_after
AND deltas.seq < :p_before
AND (EXISTS (
    SELECT 1
    FROM threads
    WHERE threads.tenant = deltas.tenant
    AND threads.thread_id = deltas.thread_id
    AND threads.namespace = deltas.namespace
    AND threads.deleted_at IS NULL
    AND (threads.expires_at IS NULL
      OR threads.expires_at > :p_now)))
ORDER BY deltas.seq DESC
FETCH FIRST :p_limit ROWS ONLY

-- log.entries.read_news(whole=True)
SELECT threads.version, threads.epoch, deltas.seq, deltas.codec, deltas.checksum, deltas.payload,
  deltas.entry_key, deltas.occurred_at, deltas.stored_at
FROM threads LEFT OUTER
JOIN deltas ON deltas.tenant = threads.tenant
AND deltas.thread_id = threads.thread_id
AND deltas.namespace = threads.namespace
AND deltas.kind IN ('entry')
AND deltas.seq >= CASE
WHEN (threads.epoch = :p_epoch) THEN :p_after
ELSE -1 END
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
AND threads.namespace = :k_namespace
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
ORDER BY deltas.seq

-- log.entries.read_news(whole=False)
SELECT threads.version, threads.epoch, deltas.seq, deltas.codec, deltas.checksum, deltas.payload
FROM threads LEFT OUTER
JOIN deltas ON deltas.tenant = threads.tenant
AND deltas.thread_id = threads.thread_id
AND deltas.namespace = threads.namespace
AND deltas.kind IN ('entry')
AND deltas.seq >= CASE
WHEN (threads.epoch = :p_epoch) THEN :p_after
ELSE -1 END
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
AND threads.namespace = :k_namespace
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
ORDER BY deltas.seq

-- log.entries.read_version()
SELECT threads.version
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
AND threads.namespace = :k_namespace
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)

-- log.entries.remove_entries(which=all)
DELETE FROM deltas
WHERE deltas.tenant = :k_tenant
AND deltas.thread_id = :k_thread_id
AND deltas.namespace = :k_namespace
AND deltas.kind IN ('entry')

-- log.entries.remove_entries(which=beyond)
DELETE FROM deltas
WHERE deltas.tenant = :k_tenant
AND deltas.thread_id = :k_thread_id
AND deltas.namespace = :k_namespace
AND deltas.kind IN ('entry')
AND deltas.seq > :p_after

-- log.entries.remove_entries(which=between)
DELETE FROM deltas
WHERE deltas.tenant = :k_tenant
AND deltas.thread_id = :k_thread_id
AND deltas.namespace = :k_namespace
AND deltas.kind IN ('entry')
AND deltas.seq >= :p_low
AND deltas.seq <= :p_high

-- log.listing.list_entry_logs(scope=tenant)
SELECT threads.thread_id, threads.namespace, threads.created_at, threads.updated_at, (
  SELECT count(*) AS count_1
  FROM deltas
  WHERE deltas.tenant = threads.tenant
  AND deltas.thread_id = threads.thread_id
  AND deltas.namespace = threads.namespace
  AND deltas.kind IN ('entry')) AS entries
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND (EXISTS (
    SELECT 1
    FROM deltas
    WHERE deltas.tenant = threads.tenant
    AND deltas.thread_id = threads.thread_id
    AND deltas.namespace = threads.namespace
    AND deltas.kind IN ('entry')))
ORDER BY threads.updated_at DESC, threads.thread_id, threads.namespace
FETCH FIRST :p_limit ROWS ONLY

-- log.listing.list_entry_logs(scope=thread)
SELECT threads.thread_id, threads.namespace, threads.created_at, threads.updated_at, (
  SELECT count(*) AS count_1
  FROM deltas
  WHERE deltas.tenant = threads.tenant
  AND deltas.thread_id = threads.thread_id
  AND deltas.namespace = threads.namespace
  AND deltas.kind IN ('entry')) AS entries
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND (EXISTS (
    SELECT 1
    FROM deltas
    WHERE deltas.tenant = threads.tenant
    AND deltas.thread_id = threads.thread_id
    AND deltas.namespace = threads.namespace
    AND deltas.kind IN ('entry')))
AND threads.thread_id = :k_thread_id
ORDER BY threads.updated_at DESC, threads.thread_id, threads.namespace
FETCH FIRST :p_limit ROWS ONLY

-- log.listing.list_heads(of=checkpoints, after=True, prefix=True)
SELECT threads.thread_id, threads.updated_at
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.namespace = :k_namespace
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND threads.head_id IS NOT NULL
AND threads.thread_id >= :p_low
AND threads.thread_id < :p_high
AND (threads.updated_at < :p_updated_at
  OR threads.updated_at = :p_updated_at
  AND threads.thread_id > :p_thread_id)
ORDER BY threads.updated_at DESC, threads.thread_id
FETCH FIRST :p_limit ROWS ONLY

-- log.listing.list_heads(of=checkpoints, after=True, prefix=False)
SELECT threads.thread_id, threads.updated_at
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.namespace = :k_namespace
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND threads.head_id IS NOT NULL
AND (threads.updated_at < :p_updated_at
  OR threads.updated_at = :p_updated_at
  AND threads.thread_id > :p_thread_id)
ORDER BY threads.updated_at DESC, threads.thread_id
FETCH FIRST :p_limit ROWS ONLY

-- log.listing.list_heads(of=checkpoints, after=False, prefix=True)
SELECT threads.thread_id, threads.updated_at
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.namespace = :k_namespace
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND threads.head_id IS NOT NULL
AND threads.thread_id >= :p_low
AND threads.thread_id < :p_high
ORDER BY threads.updated_at DESC, threads.thread_id
FETCH FIRST :p_limit ROWS ONLY

-- log.listing.list_heads(of=checkpoints, after=False, prefix=False)
SELECT threads.thread_id, threads.updated_at
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.namespace = :k_namespace
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND threads.head_id IS NOT NULL
ORDER BY threads.updated_at DESC, threads.thread_id
FETCH FIRST :p_limit ROWS ONLY

-- log.listing.list_heads(of=entries, after=True, prefix=True)
SELECT threads.thread_id, threads.updated_at
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.namespace = :k_namespace
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND (EXISTS (
    SELECT 1
    FROM deltas
    WHERE deltas.tenant = threads.tenant
    AND deltas.thread_id = threads.thread_id
    AND deltas.namespace = threads.namespace
    AND deltas.kind IN ('entry')))
AND threads.thread_id >= :p_low
AND threads.thread_id < :p_high
AND (threads.updated_at < :p_updated_at
  OR threads.updated_at = :p_updated_at
  AND threads.thread_id > :p_thread_id)
ORDER BY threads.updated_at DESC, threads.thread_id
FETCH FIRST :p_limit ROWS ONLY

-- log.listing.list_heads(of=entries, after=True, prefix=False)
SELECT threads.thread_id, threads.updated_at
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.namespace = :k_namespace
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND (EXISTS (
    SELECT 1
    FROM deltas
    WHERE deltas.tenant = threads.tenant
    AND deltas.thread_id = threads.thread_id
    AND deltas.namespace = threads.namespace
    AND deltas.kind IN ('entry')))
AND (threads.updated_at < :p_updated_at
  OR threads.updated_at = :p_updated_at
  AND threads.thread_id > :p_thread_id)
ORDER BY threads.updated_at DESC, threads.thread_id
FETCH FIRST :p_limit ROWS ONLY

-- log.listing.list_heads(of=entries, after=False, prefix=True)
SELECT threads.thread_id, threads.updated_at
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.namespace = :k_namespace
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND (EXISTS (
    SELECT 1
    FROM deltas
    WHERE deltas.tenant = threads.tenant
    AND deltas.thread_id = threads.thread_id
    AND deltas.namespace = threads.namespace
    AND deltas.kind IN ('entry')))
AND threads.thread_id >= :p_low
AND threads.thread_id < :p_high
ORDER BY threads.updated_at DESC, threads.thread_id
FETCH FIRST :p_limit ROWS ONLY

-- log.listing.list_heads(of=entries, after=False, prefix=False)
SELECT threads.thread_id, threads.updated_at
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.namespace = :k_namespace
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND (EXISTS (
    SELECT 1
    FROM deltas
    WHERE deltas.tenant = threads.tenant
    AND deltas.thread_id = threads.thread_id
    AND deltas.namespace = threads.namespace
    AND deltas.kind IN ('entry')))
ORDER BY threads.updated_at DESC, threads.thread_id
FETCH FIRST :p_limit ROWS ONLY

-- log.listing.list_named()
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
    WHERE deltas.tenant = threads.tenant
    AND deltas.thread_id = threads.thread_id
    AND deltas.namespace = threads.namespace
    AND deltas.kind IN ('entry')))

-- log.listing.list_namespaces(of=checkpoints, scope=tenant)
SELECT DISTINCT threads.namespace
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND threads.head_id IS NOT NULL
ORDER BY threads.namespace

-- log.listing.list_namespaces(of=checkpoints, scope=thread)
SELECT DISTINCT threads.namespace
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND threads.head_id IS NOT NULL
AND threads.thread_id = :k_thread_id
ORDER BY threads.namespace

-- log.listing.list_namespaces(of=entries, scope=tenant)
SELECT DISTINCT threads.namespace
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND (EXISTS (
    SELECT 1
    FROM deltas
    WHERE deltas.tenant = threads.tenant
    AND deltas.thread_id = threads.thread_id
    AND deltas.namespace = threads.namespace
    AND deltas.kind IN ('entry')))
ORDER BY threads.namespace

-- log.listing.list_namespaces(of=entries, scope=thread)
SELECT DISTINCT threads.namespace
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND (EXISTS (
    SELECT 1
    FROM deltas
    WHERE deltas.tenant = threads.tenant
    AND deltas.thread_id = threads.thread_id
    AND deltas.namespace = threads.namespace
    AND deltas.kind IN ('entry')))
AND threads.thread_id = :k_thread_id
ORDER BY threads.namespace

-- log.listing.list_old(after=True)
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
    WHERE deltas.tenant = threads.tenant
    AND deltas.thread_id = threads.thread_id
    AND deltas.namespace = threads.namespace
    AND deltas.kind IN ('entry')
    AND deltas.occurred_at < :p_cutoff))
AND threads.thread_id > :p_thread_id
ORDER BY threads.thread_id
FETCH FIRST :p_limit ROWS ONLY

-- log.listing.list_old(after=False)
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
    WHERE deltas.tenant = threads.tenant
    AND deltas.thread_id = threads.thread_id
    AND deltas.namespace = threads.namespace
    AND deltas.kind IN ('entry')
    AND deltas.occurred_at < :p_cutoff))
ORDER BY threads.thread_id
FETCH FIRST :p_limit ROWS ONLY

-- log.many.count_logs(which=live, scope=namespace)
SELECT count(*) AS count_1
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.namespace = :k_namespace
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)

-- log.many.count_logs(which=live, scope=tenant)
SELECT count(*) AS count_1
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)

-- log.many.count_logs(which=live, scope=log)
SELECT count(*) AS count_1
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
AND threads.namespace = :k_namespace
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)

-- log.many.count_logs(which=live, scope=thread)
SELECT count(*) AS count_1
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)

-- log.many.count_logs(which=stale, scope=namespace)
SELECT count(*) AS count_1
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.namespace = :k_namespace
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
  OR threads.deleted_at < :p_buried)

-- log.many.count_logs(which=stale, scope=tenant)
SELECT count(*) AS count_1
FROM threads
WHERE threads.tenant = :k_tenant
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
  OR threads.deleted_at < :p_buried)

-- log.many.count_logs(which=stale, scope=log)
SELECT count(*) AS count_1
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
AND threads.namespace = :k_namespace
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
  OR threads.deleted_at < :p_buried)

-- log.many.count_logs(which=stale, scope=thread)
SELECT count(*) AS count_1
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
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
  OR threads.deleted_at < :p_buried)

-- log.many.empty_listed(table=checkpoints)
DELETE FROM checkpoints
WHERE (checkpoints.tenant, checkpoints.thread_id, checkpoints.namespace) IN (
  SELECT listed.tenant, listed.thread_id, listed.namespace
  FROM (
    SELECT each_.tenant, each_.thread_id, each_.namespace
    FROM JSON_TABLE(:p_logs, '$[*]' COLUMNS (tenant VARCHAR2(4000) PATH '$[0]',
          thread_id VARCHAR2(4000) PATH '$[1]', namespace VARCHAR2(4000) PATH '$[2]')) each_) listed)

-- log.many.empty_listed(table=entries)
DELETE FROM deltas
WHERE (deltas.tenant, deltas.thread_id, deltas.namespace) IN (
  SELECT listed.tenant, listed.thread_id, listed.namespace
  FROM (
    SELECT each_.tenant, each_.thread_id, each_.namespace
    FROM JSON_TABLE(:p_logs, '$[*]' COLUMNS (tenant VARCHAR2(4000) PATH '$[0]',
          thread_id VARCHAR2(4000) PATH '$[1]', namespace VARCHAR2(4000) PATH '$[2]')) each_) listed)
AND deltas.kind IN ('entry')

-- log.many.empty_listed(table=deltas)
DELETE FROM deltas
WHERE (deltas.tenant, deltas.thread_id, deltas.namespace) IN (
  SELECT listed.tenant, listed.thread_id, listed.namespace
  FROM (
    SELECT each_.tenant, each_.thread_id, each_.namespace
    FROM JSON_TABLE(:p_logs, '$[*]' COLUMNS (tenant VARCHAR2(4000) PATH '$[0]',
          thread_id VARCHAR2(4000) PATH '$[1]', namespace VARCHAR2(4000) PATH '$[2]')) each_) listed)

-- log.many.empty_listed(table=threads)
DELETE FROM threads
WHERE (threads.tenant, threads.thread_id, threads.namespace) IN (
  SELECT listed.tenant, listed.thread_id, listed.namespace
  FROM (
    SELECT each_.tenant, each_.thread_id, each_.namespace
    FROM JSON_TABLE(:p_logs, '$[*]' COLUMNS (tenant VARCHAR2(4000) PATH '$[0]',
          thread_id VARCHAR2(4000) PATH '$[1]', namespace VARCHAR2(4000) PATH '$[2]')) each_) listed)

-- log.many.find_listed()
SELECT threads.thread_id, threads.namespace, threads.updated_at, threads.expires_at,
  threads.deleted_at
FROM threads
WHERE (threads.tenant, threads.thread_id, threads.namespace) IN (
  SELECT listed.tenant, listed.thread_id, listed.namespace
  FROM (
    SELECT each_.tenant, each_.thread_id, each_.namespace
    FROM JSON_TABLE(:p_logs, '$[*]' COLUMNS (tenant VARCHAR2(4000) PATH '$[0]',
          thread_id VARCHAR2(4000) PATH '$[1]', namespace VARCHAR2(4000) PATH '$[2]')) each_) listed)

-- log.many.forget_listed()
DELETE FROM checkpoints
WHERE (checkpoints.tenant, checkpoints.thread_id, checkpoints.namespace, checkpoints.seq) IN (
  WITH ranked AS (
    SELECT numbered.tenant AS tenant, numbered.thread_id AS thread_id, numbered.namespace AS namespace,
      numbered.seq AS seq, numbered.checkpoint_id AS checkpoint_id, numbered.rests_on AS rests_on, CASE
    WHEN (numbered.newer > :p_keep
      AND mod(numbered.ordinal, :p_every) != 0
      AND numbered.occurred_at < :p_cutoff) THEN 1
    ELSE 0 END AS goes
    FROM (
      SELECT checkpoints.tenant AS tenant, checkpoints.thread_id AS thread_id,
        checkpoints.namespace AS namespace, checkpoints.seq AS seq,
        checkpoints.checkpoint_id AS checkpoint_id, checkpoints.rests_on AS rests_on,
        checkpoints.ordinal AS ordinal, checkpoints.occurred_at AS occurred_at,
        row_number() OVER (PARTITION BY checkpoints.tenant, checkpoints.thread_id, checkpoints.namespace
        ORDER BY checkpoints.seq DESC) - 1 AS newer
      FROM checkpoints
      JOIN (
        SELECT each_.tenant, each_.thread_id, each_.namespace
        FROM JSON_TABLE(:p_logs, '$[*]' COLUMNS (tenant VARCHAR2(4000) PATH '$[0]',
              thread_id VARCHAR2(4000) PATH '$[1]',
              namespace VARCHAR2(4000) PATH '$[2]')) each_) listed ON checkpoints.tenant = listed.tenant
      AND checkpoints.thread_id = listed.thread_id
      AND checkpoints.namespace = listed.namespace) numbered),
  held(tenant, thread_id, namespace, checkpoint_id) AS (
    SELECT ranked.tenant AS tenant, ranked.thread_id AS thread_id, ranked.namespace AS namespace,
      ranked.rests_on AS checkpoint_id
    FROM ranked
    WHERE ranked.goes = 0
    AND ranked.rests_on IS NOT NULL
    UNION ALL
    SELECT checkpoints.tenant AS tenant, checkpoints.thread_id AS thread_id,
      checkpoints.namespace AS namespace, checkpoints.rests_on AS rests_on
    FROM held
    JOIN checkpoints ON checkpoints.tenant = held.tenant
    AND checkpoints.thread_id = held.thread_id
    AND checkpoints.namespace = held.namespace
    AND checkpoints.checkpoint_id = held.checkpoint_id
    WHERE checkpoints.rests_on IS NOT NULL) CYCLE tenant, thread_id, namespace, checkpoint_id
  SET goes_round TO '1' DEFAULT '0' , found AS (
    SELECT ranked.tenant AS tenant, ranked.thread_id AS thread_id, ranked.namespace AS namespace,
      ranked.seq AS seq
    FROM ranked
    WHERE ranked.goes != 0
    AND ((ranked.tenant, ranked.thread_id, ranked.namespace, ranked.checkpoint_id) NOT IN (
        SELECT held.tenant, held.thread_id, held.namespace, held.checkpoint_id
        FROM held))
    ORDER BY ranked.tenant, ranked.thread_id, ranked.namespace, ranked.seq DESC
    FETCH FIRST :p_limit ROWS ONLY)
  SELECT found.tenant, found.thread_id, found.namespace, found.seq
  FROM found)

-- log.many.forget_listed_writes()
DELETE FROM deltas
WHERE deltas.kind IN ('write')
AND (deltas.tenant, deltas.thread_id, deltas.namespace, deltas.label) IN (
  WITH ranked AS (
    SELECT numbered.tenant AS tenant, numbered.thread_id AS thread_id, numbered.namespace AS namespace,
      numbered.seq AS seq, numbered.checkpoint_id AS checkpoint_id, numbered.rests_on AS rests_on, CASE
    WHEN (numbered.newer > :p_keep
      AND mod(numbered.ordinal, :p_every) != 0
      AND numbered.occurred_at < :p_cutoff) THEN 1
    ELSE 0 END AS goes
    FROM (
      SELECT checkpoints.tenant AS tenant, checkpoints.thread_id AS thread_id,
        checkpoints.namespace AS namespace, checkpoints.seq AS seq,
        checkpoints.checkpoint_id AS checkpoint_id, checkpoints.rests_on AS rests_on,
        checkpoints.ordinal AS ordinal, checkpoints.occurred_at AS occurred_at,
        row_number() OVER (PARTITION BY checkpoints.tenant, checkpoints.thread_id, checkpoints.namespace
        ORDER BY checkpoints.seq DESC) - 1 AS newer
      FROM checkpoints
      JOIN (
        SELECT each_.tenant, each_.thread_id, each_.namespace
        FROM JSON_TABLE(:p_logs, '$[*]' COLUMNS (tenant VARCHAR2(4000) PATH '$[0]',
              thread_id VARCHAR2(4000) PATH '$[1]',
              namespace VARCHAR2(4000) PATH '$[2]')) each_) listed ON checkpoints.tenant = listed.tenant
      AND checkpoints.thread_id = listed.thread_id
      AND checkpoints.namespace = listed.namespace) numbered),
  held(tenant, thread_id, namespace, checkpoint_id) AS (
    SELECT ranked.tenant AS tenant, ranked.thread_id AS thread_id, ranked.namespace AS namespace,
      ranked.rests_on AS checkpoint_id
    FROM ranked
    WHERE ranked.goes = 0
    AND ranked.rests_on IS NOT NULL
    UNION ALL
    SELECT checkpoints.tenant AS tenant, checkpoints.thread_id AS thread_id,
      checkpoints.namespace AS namespace, checkpoints.rests_on AS rests_on
    FROM held
    JOIN checkpoints ON checkpoints.tenant = held.tenant
    AND checkpoints.thread_id = held.thread_id
    AND checkpoints.namespace = held.namespace
    AND checkpoints.checkpoint_id = held.checkpoint_id
    WHERE checkpoints.rests_on IS NOT NULL) CYCLE tenant, thread_id, namespace, checkpoint_id
  SET goes_round TO '1' DEFAULT '0' , going AS (
    SELECT ranked.tenant AS tenant, ranked.thread_id AS thread_id, ranked.namespace AS namespace,
      ranked.checkpoint_id AS checkpoint_id
    FROM ranked
    WHERE ranked.goes != 0
    AND ((ranked.tenant, ranked.thread_id, ranked.namespace, ranked.checkpoint_id) NOT IN (
        SELECT held.tenant, held.thread_id, held.namespace, held.checkpoint_id
        FROM held))
    ORDER BY ranked.tenant, ranked.thread_id, ranked.namespace, ranked.seq DESC
    FETCH FIRST :p_limit ROWS ONLY)
  SELECT going.tenant, going.thread_id, going.namespace, going.checkpoint_id
  FROM going)

-- log.many.list_prunable(scope=namespace, after=True)
WITH page AS (
  SELECT threads.tenant AS tenant, threads.thread_id AS thread_id, threads.namespace AS namespace
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
ranked AS (
  SELECT numbered.tenant AS tenant, numbered.thread_id AS thread_id, numbered.namespace AS namespace,
    numbered.seq AS seq, numbered.checkpoint_id AS checkpoint_id, numbered.rests_on AS rests_on, CASE
  WHEN (numbered.newer > :p_keep
    AND mod(numbered.ordinal, :p_every) != 0
    AND numbered.occurred_at < :p_cutoff) THEN 1
  ELSE 0 END AS goes
  FROM (
    SELECT checkpoints.tenant AS tenant, checkpoints.thread_id AS thread_id,
      checkpoints.namespace AS namespace, checkpoints.seq AS seq,
      checkpoints.checkpoint_id AS checkpoint_id, checkpoints.rests_on AS rests_on,
      checkpoints.ordinal AS ordinal, checkpoints.occurred_at AS occurred_at,
      row_number() OVER (PARTITION BY checkpoints.tenant, checkpoints.thread_id, checkpoints.namespace
      ORDER BY checkpoints.seq DESC) - 1 AS newer
    FROM checkpoints
    JOIN page ON checkpoints.tenant = page.tenant
    AND checkpoints.thread_id = page.thread_id
    AND checkpoints.namespace = page.namespace) numbered),
held(tenant, thread_id, namespace, checkpoint_id) AS (
  SELECT ranked.tenant AS tenant, ranked.thread_id AS thread_id, ranked.namespace AS namespace,
    ranked.rests_on AS checkpoint_id
  FROM ranked
  WHERE ranked.goes = 0
  AND ranked.rests_on IS NOT NULL
  UNION ALL
  SELECT checkpoints.tenant AS tenant, checkpoints.thread_id AS thread_id,
    checkpoints.namespace AS namespace, checkpoints.rests_on AS rests_on
  FROM held
  JOIN checkpoints ON checkpoints.tenant = held.tenant
  AND checkpoints.thread_id = held.thread_id
  AND checkpoints.namespace = held.namespace
  AND checkpoints.checkpoint_id = held.checkpoint_id
  WHERE checkpoints.rests_on IS NOT NULL) CYCLE tenant, thread_id, namespace, checkpoint_id
SET goes_round TO '1' DEFAULT '0'
SELECT positions.thread_id, positions.namespace, sum(positions.named) AS names,
  sum(positions.going) AS going, sum(CASE
  WHEN (positions.state != 0
    AND positions.named = 0
    AND positions.built_on = 0) THEN 1
  ELSE 0 END) AS needless
FROM (
  SELECT each_position.tenant AS tenant, each_position.thread_id AS thread_id,
    each_position.namespace AS namespace, each_position.seq AS seq,
    max(each_position.named) AS named, max(each_position.going) AS going,
    max(each_position.state) AS state, max(each_position.built_on) AS built_on
  FROM (
    SELECT ranked.tenant AS tenant, ranked.thread_id AS thread_id, ranked.namespace AS namespace,
      ranked.seq AS seq, 1 AS named, CASE
    WHEN (ranked.goes != 0
      AND ((ranked.tenant, ranked.thread_id, ranked.namespace, ranked.checkpoint_id) NOT IN (
          SELECT held.tenant, held.thread_id, held.namespace, held.checkpoint_id
          FROM held))) THEN 1
    ELSE 0 END AS going, 0 AS state, 0 AS built_on
    FROM ranked
    UNION ALL
    SELECT deltas.tenant AS tenant, deltas.thread_id AS thread_id, deltas.namespace AS namespace,
      deltas.seq AS seq, 0 AS named, 0 AS going, 1 AS state, 0 AS built_on
    FROM deltas
    JOIN page ON deltas.tenant = page.tenant
    AND deltas.thread_id = page.thread_id
    AND deltas.namespace = page.namespace
    WHERE deltas.kind IN ('snapshot', 'delta')
    UNION ALL
    SELECT deltas.tenant AS tenant, deltas.thread_id AS thread_id, deltas.namespace AS namespace,
      deltas.base_seq AS seq, 0 AS named, 0 AS going, 0 AS state, 1 AS built_on
    FROM deltas
    JOIN page ON deltas.tenant = page.tenant
    AND deltas.thread_id = page.thread_id
    AND deltas.namespace = page.namespace
    WHERE deltas.base_seq IS NOT NULL) each_position
  GROUP BY each_position.tenant, each_position.thread_id, each_position.namespace,
    each_position.seq) positions
GROUP BY positions.tenant, positions.thread_id, positions.namespace
ORDER BY positions.thread_id, positions.namespace

-- log.many.list_prunable(scope=namespace, after=False)
WITH page AS (
  SELECT threads.tenant AS tenant, threads.thread_id AS thread_id, threads.namespace AS namespace
  FROM threads
  WHERE threads.tenant = :k_tenant
  AND threads.namespace = :k_namespace
  AND threads.deleted_at IS NULL
  AND (threads.expires_at IS NULL
    OR threads.expires_at > :p_now)
  AND threads.head_id IS NOT NULL
  ORDER BY threads.thread_id, threads.namespace
  FETCH FIRST :p_limit ROWS ONLY),
ranked AS (
  SELECT numbered.tenant AS tenant, numbered.thread_id AS thread_id, numbered.namespace AS namespace,
    numbered.seq AS seq, numbered.checkpoint_id AS checkpoint_id, numbered.rests_on AS rests_on, CASE
  WHEN (numbered.newer > :p_keep
    AND mod(numbered.ordinal, :p_every) != 0
    AND numbered.occurred_at < :p_cutoff) THEN 1
  ELSE 0 END AS goes
  FROM (
    SELECT checkpoints.tenant AS tenant, checkpoints.thread_id AS thread_id,
      checkpoints.namespace AS namespace, checkpoints.seq AS seq,
      checkpoints.checkpoint_id AS checkpoint_id, checkpoints.rests_on AS rests_on,
      checkpoints.ordinal AS ordinal, checkpoints.occurred_at AS occurred_at,
      row_number() OVER (PARTITION BY checkpoints.tenant, checkpoints.thread_id, checkpoints.namespace
      ORDER BY checkpoints.seq DESC) - 1 AS newer
    FROM checkpoints
    JOIN page ON checkpoints.tenant = page.tenant
    AND checkpoints.thread_id = page.thread_id
    AND checkpoints.namespace = page.namespace) numbered),
held(tenant, thread_id, namespace, checkpoint_id) AS (
  SELECT ranked.tenant AS tenant, ranked.thread_id AS thread_id, ranked.namespace AS namespace,
    ranked.rests_on AS checkpoint_id
  FROM ranked
  WHERE ranked.goes = 0
  AND ranked.rests_on IS NOT NULL
  UNION ALL
  SELECT checkpoints.tenant AS tenant, checkpoints.thread_id AS thread_id,
    checkpoints.namespace AS namespace, checkpoints.rests_on AS rests_on
  FROM held
  JOIN checkpoints ON checkpoints.tenant = held.tenant
  AND checkpoints.thread_id = held.thread_id
  AND checkpoints.namespace = held.namespace
  AND checkpoints.checkpoint_id = held.checkpoint_id
  WHERE checkpoints.rests_on IS NOT NULL) CYCLE tenant, thread_id, namespace, checkpoint_id
SET goes_round TO '1' DEFAULT '0'
SELECT positions.thread_id, positions.namespace, sum(positions.named) AS names,
  sum(positions.going) AS going, sum(CASE
  WHEN (positions.state != 0
    AND positions.named = 0
    AND positions.built_on = 0) THEN 1
  ELSE 0 END) AS needless
FROM (
  SELECT each_position.tenant AS tenant, each_position.thread_id AS thread_id,
    each_position.namespace AS namespace, each_position.seq AS seq,
    max(each_position.named) AS named, max(each_position.going) AS going,
    max(each_position.state) AS state, max(each_position.built_on) AS built_on
  FROM (
    SELECT ranked.tenant AS tenant, ranked.thread_id AS thread_id, ranked.namespace AS namespace,
      ranked.seq AS seq, 1 AS named, CASE
    WHEN (ranked.goes != 0
      AND ((ranked.tenant, ranked.thread_id, ranked.namespace, ranked.checkpoint_id) NOT IN (
          SELECT held.tenant, held.thread_id, held.namespace, held.checkpoint_id
          FROM held))) THEN 1
    ELSE 0 END AS going, 0 AS state, 0 AS built_on
    FROM ranked
    UNION ALL
    SELECT deltas.tenant AS tenant, deltas.thread_id AS thread_id, deltas.namespace AS namespace,
      deltas.seq AS seq, 0 AS named, 0 AS going, 1 AS state, 0 AS built_on
    FROM deltas
    JOIN page ON deltas.tenant = page.tenant
    AND deltas.thread_id = page.thread_id
    AND deltas.namespace = page.namespace
    WHERE deltas.kind IN ('snapshot', 'delta')
    UNION ALL
    SELECT deltas.tenant AS tenant, deltas.thread_id AS thread_id, deltas.namespace AS namespace,
      deltas.base_seq AS seq, 0 AS named, 0 AS going, 0 AS state, 1 AS built_on
    FROM deltas
    JOIN page ON deltas.tenant = page.tenant
    AND deltas.thread_id = page.thread_id
    AND deltas.namespace = page.namespace
    WHERE deltas.base_seq IS NOT NULL) each_position
  GROUP BY each_position.tenant, each_position.thread_id, each_position.namespace,
    each_position.seq) positions
GROUP BY positions.tenant, positions.thread_id, positions.namespace
ORDER BY positions.thread_id, positions.namespace

-- log.many.list_prunable(scope=tenant, after=True)
WITH page AS (
  SELECT threads.tenant AS tenant, threads.thread_id AS thread_id, threads.namespace AS namespace
  FROM threads
  WHERE threads.tenant = :k_tenant
  AND threads.thread_id >= :p_thread_id
  AND (threads.thread_id > :p_thread_id
    OR threads.namespace > :p_namespace)
  AND threads.deleted_at IS NULL
  AND (threads.expires_at IS NULL
    OR threads.expires_at > :p_now)
  AND threads.head_id IS NOT NULL
  ORDER BY threads.thread_id, threads.namespace
  FETCH FIRST :p_limit ROWS ONLY),
ranked AS (
  SELECT numbered.tenant AS tenant, numbered.thread_id AS thread_id, numbered.namespace AS namespace,
    numbered.seq AS seq, numbered.checkpoint_id AS checkpoint_id, numbered.rests_on AS rests_on, CASE
  WHEN (numbered.newer > :p_keep
    AND mod(numbered.ordinal, :p_every) != 0
    AND numbered.occurred_at < :p_cutoff) THEN 1
  ELSE 0 END AS goes
  FROM (
    SELECT checkpoints.tenant AS tenant, checkpoints.thread_id AS thread_id,
      checkpoints.namespace AS namespace, checkpoints.seq AS seq,
      checkpoints.checkpoint_id AS checkpoint_id, checkpoints.rests_on AS rests_on,
      checkpoints.ordinal AS ordinal, checkpoints.occurred_at AS occurred_at,
      row_number() OVER (PARTITION BY checkpoints.tenant, checkpoints.thread_id, checkpoints.namespace
      ORDER BY checkpoints.seq DESC) - 1 AS newer
    FROM checkpoints
    JOIN page ON checkpoints.tenant = page.tenant
    AND checkpoints.thread_id = page.thread_id
    AND checkpoints.namespace = page.namespace) numbered),
held(tenant, thread_id, namespace, checkpoint_id) AS (
  SELECT ranked.tenant AS tenant, ranked.thread_id AS thread_id, ranked.namespace AS namespace,
    ranked.rests_on AS checkpoint_id
  FROM ranked
  WHERE ranked.goes = 0
  AND ranked.rests_on IS NOT NULL
  UNION ALL
  SELECT checkpoints.tenant AS tenant, checkpoints.thread_id AS thread_id,
    checkpoints.namespace AS namespace, checkpoints.rests_on AS rests_on
  FROM held
  JOIN checkpoints ON checkpoints.tenant = held.tenant
  AND checkpoints.thread_id = held.thread_id
  AND checkpoints.namespace = held.namespace
  AND checkpoints.checkpoint_id = held.checkpoint_id
  WHERE checkpoints.rests_on IS NOT NULL) CYCLE tenant, thread_id, namespace, checkpoint_id
SET goes_round TO '1' DEFAULT '0'
SELECT positions.thread_id, positions.namespace, sum(positions.named) AS names,
  sum(positions.going) AS going, sum(CASE
  WHEN (positions.state != 0
    AND positions.named = 0
    AND positions.built_on = 0) THEN 1
  ELSE 0 END) AS needless
FROM (
  SELECT each_position.tenant AS tenant, each_position.thread_id AS thread_id,
    each_position.namespace AS namespace, each_position.seq AS seq,
    max(each_position.named) AS named, max(each_position.going) AS going,
    max(each_position.state) AS state, max(each_position.built_on) AS built_on
  FROM (
    SELECT ranked.tenant AS tenant, ranked.thread_id AS thread_id, ranked.namespace AS namespace,
      ranked.seq AS seq, 1 AS named, CASE
    WHEN (ranked.goes != 0
      AND ((ranked.tenant, ranked.thread_id, ranked.namespace, ranked.checkpoint_id) NOT IN (
          SELECT held.tenant, held.thread_id, held.namespace, held.checkpoint_id
          FROM held))) THEN 1
    ELSE 0 END AS going, 0 AS state, 0 AS built_on
    FROM ranked
    UNION ALL
    SELECT deltas.tenant AS tenant, deltas.thread_id AS thread_id, deltas.namespace AS namespace,
      deltas.seq AS seq, 0 AS named, 0 AS going, 1 AS state, 0 AS built_on
    FROM deltas
    JOIN page ON deltas.tenant = page.tenant
    AND deltas.thread_id = page.thread_id
    AND deltas.namespace = page.namespace
    WHERE deltas.kind IN ('snapshot', 'delta')
    UNION ALL
    SELECT deltas.tenant AS tenant, deltas.thread_id AS thread_id, deltas.namespace AS namespace,
      deltas.base_seq AS seq, 0 AS named, 0 AS going, 0 AS state, 1 AS built_on
    FROM deltas
    JOIN page ON deltas.tenant = page.tenant
    AND deltas.thread_id = page.thread_id
    AND deltas.namespace = page.namespace
    WHERE deltas.base_seq IS NOT NULL) each_position
  GROUP BY each_position.tenant, each_position.thread_id, each_position.namespace,
    each_position.seq) positions
GROUP BY positions.tenant, positions.thread_id, positions.namespace
ORDER BY positions.thread_id, positions.namespace

-- log.many.list_prunable(scope=tenant, after=False)
WITH page AS (
  SELECT threads.tenant AS tenant, threads.thread_id AS thread_id, threads.namespace AS namespace
  FROM threads
  WHERE threads.tenant = :k_tenant
  AND threads.deleted_at IS NULL
  AND (threads.expires_at IS NULL
    OR threads.expires_at > :p_now)
  AND threads.head_id IS NOT NULL
  ORDER BY threads.thread_id, threads.namespace
  FETCH FIRST :p_limit ROWS ONLY),
ranked AS (
  SELECT numbered.tenant AS tenant, numbered.thread_id AS thread_id, numbered.namespace AS namespace,
    numbered.seq AS seq, numbered.checkpoint_id AS checkpoint_id, numbered.rests_on AS rests_on, CASE
  WHEN (numbered.newer > :p_keep
    AND mod(numbered.ordinal, :p_every) != 0
    AND numbered.occurred_at < :p_cutoff) THEN 1
  ELSE 0 END AS goes
  FROM (
    SELECT checkpoints.tenant AS tenant, checkpoints.thread_id AS thread_id,
      checkpoints.namespace AS namespace, checkpoints.seq AS seq,
      checkpoints.checkpoint_id AS checkpoint_id, checkpoints.rests_on AS rests_on,
      checkpoints.ordinal AS ordinal, checkpoints.occurred_at AS occurred_at,
      row_number() OVER (PARTITION BY checkpoints.tenant, checkpoints.thread_id, checkpoints.namespace
      ORDER BY checkpoints.seq DESC) - 1 AS newer
    FROM checkpoints
    JOIN page ON checkpoints.tenant = page.tenant
    AND checkpoints.thread_id = page.thread_id
    AND checkpoints.namespace = page.namespace) numbered),
held(tenant, thread_id, namespace, checkpoint_id) AS (
  SELECT ranked.tenant AS tenant, ranked.thread_id AS thread_id, ranked.namespace AS namespace,
    ranked.rests_on AS checkpoint_id
  FROM ranked
  WHERE ranked.goes = 0
  AND ranked.rests_on IS NOT NULL
  UNION ALL
  SELECT checkpoints.tenant AS tenant, checkpoints.thread_id AS thread_id,
    checkpoints.namespace AS namespace, checkpoints.rests_on AS rests_on
  FROM held
  JOIN checkpoints ON checkpoints.tenant = held.tenant
  AND checkpoints.thread_id = held.thread_id
  AND checkpoints.namespace = held.namespace
  AND checkpoints.checkpoint_id = held.checkpoint_id
  WHERE checkpoints.rests_on IS NOT NULL) CYCLE tenant, thread_id, namespace, checkpoint_id
SET goes_round TO '1' DEFAULT '0'
SELECT positions.thread_id, positions.namespace, sum(positions.named) AS names,
  sum(positions.going) AS going, sum(CASE
  WHEN (positions.state != 0
    AND positions.named = 0
    AND positions.built_on = 0) THEN 1
  ELSE 0 END) AS needless
FROM (
  SELECT each_position.tenant AS tenant, each_position.thread_id AS thread_id,
    each_position.namespace AS namespace, each_position.seq AS seq,
    max(each_position.named) AS named, max(each_position.going) AS going,
    max(each_position.state) AS state, max(each_position.built_on) AS built_on
  FROM (
    SELECT ranked.tenant AS tenant, ranked.thread_id AS thread_id, ranked.namespace AS namespace,
      ranked.seq AS seq, 1 AS named, CASE
    WHEN (ranked.goes != 0
      AND ((ranked.tenant, ranked.thread_id, ranked.namespace, ranked.checkpoint_id) NOT IN (
          SELECT held.tenant, held.thread_id, held.namespace, held.checkpoint_id
          FROM held))) THEN 1
    ELSE 0 END AS going, 0 AS state, 0 AS built_on
    FROM ranked
    UNION ALL
    SELECT deltas.tenant AS tenant, deltas.thread_id AS thread_id, deltas.namespace AS namespace,
      deltas.seq AS seq, 0 AS named, 0 AS going, 1 AS state, 0 AS built_on
    FROM deltas
    JOIN page ON deltas.tenant = page.tenant
    AND deltas.thread_id = page.thread_id
    AND deltas.namespace = page.namespace
    WHERE deltas.kind IN ('snapshot', 'delta')
    UNION ALL
    SELECT deltas.tenant AS tenant, deltas.thread_id AS thread_id, deltas.namespace AS namespace,
      deltas.base_seq AS seq, 0 AS named, 0 AS going, 0 AS state, 1 AS built_on
    FROM deltas
    JOIN page ON deltas.tenant = page.tenant
    AND deltas.thread_id = page.thread_id
    AND deltas.namespace = page.namespace
    WHERE deltas.base_seq IS NOT NULL) each_position
  GROUP BY each_position.tenant, each_position.thread_id, each_position.namespace,
    each_position.seq) positions
GROUP BY positions.tenant, positions.thread_id, positions.namespace
ORDER BY positions.thread_id, positions.namespace

-- log.many.list_prunable(scope=log, after=True)
WITH page AS (
  SELECT threads.tenant AS tenant, threads.thread_id AS thread_id, threads.namespace AS namespace
  FROM threads
  WHERE threads.tenant = :k_tenant
  AND threads.thread_id = :k_thread_id
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
ranked AS (
  SELECT numbered.tenant AS tenant, numbered.thread_id AS thread_id, numbered.namespace AS namespace,
    numbered.seq AS seq, numbered.checkpoint_id AS checkpoint_id, numbered.rests_on AS rests_on, CASE
  WHEN (numbered.newer > :p_keep
    AND mod(numbered.ordinal, :p_every) != 0
    AND numbered.occurred_at < :p_cutoff) THEN 1
  ELSE 0 END AS goes
  FROM (
    SELECT checkpoints.tenant AS tenant, checkpoints.thread_id AS thread_id,
      checkpoints.namespace AS namespace, checkpoints.seq AS seq,
      checkpoints.checkpoint_id AS checkpoint_id, checkpoints.rests_on AS rests_on,
      checkpoints.ordinal AS ordinal, checkpoints.occurred_at AS occurred_at,
      row_number() OVER (PARTITION BY checkpoints.tenant, checkpoints.thread_id, checkpoints.namespace
      ORDER BY checkpoints.seq DESC) - 1 AS newer
    FROM checkpoints
    JOIN page ON checkpoints.tenant = page.tenant
    AND checkpoints.thread_id = page.thread_id
    AND checkpoints.namespace = page.namespace) numbered),
held(tenant, thread_id, namespace, checkpoint_id) AS (
  SELECT ranked.tenant AS tenant, ranked.thread_id AS thread_id, ranked.namespace AS namespace,
    ranked.rests_on AS checkpoint_id
  FROM ranked
  WHERE ranked.goes = 0
  AND ranked.rests_on IS NOT NULL
  UNION ALL
  SELECT checkpoints.tenant AS tenant, checkpoints.thread_id AS thread_id,
    checkpoints.namespace AS namespace, checkpoints.rests_on AS rests_on
  FROM held
  JOIN checkpoints ON checkpoints.tenant = held.tenant
  AND checkpoints.thread_id = held.thread_id
  AND checkpoints.namespace = held.namespace
  AND checkpoints.checkpoint_id = held.checkpoint_id
  WHERE checkpoints.rests_on IS NOT NULL) CYCLE tenant, thread_id, namespace, checkpoint_id
SET goes_round TO '1' DEFAULT '0'
SELECT positions.thread_id, positions.namespace, sum(positions.named) AS names,
  sum(positions.going) AS going, sum(CASE
  WHEN (positions.state != 0
    AND positions.named = 0
    AND positions.built_on = 0) THEN 1
  ELSE 0 END) AS needless
FROM (
  SELECT each_position.tenant AS tenant, each_position.thread_id AS thread_id,
    each_position.namespace AS namespace, each_position.seq AS seq,
    max(each_position.named) AS named, max(each_position.going) AS going,
    max(each_position.state) AS state, max(each_position.built_on) AS built_on
  FROM (
    SELECT ranked.tenant AS tenant, ranked.thread_id AS thread_id, ranked.namespace AS namespace,
      ranked.seq AS seq, 1 AS named, CASE
    WHEN (ranked.goes != 0
      AND ((ranked.tenant, ranked.thread_id, ranked.namespace, ranked.checkpoint_id) NOT IN (
          SELECT held.tenant, held.thread_id, held.namespace, held.checkpoint_id
          FROM held))) THEN 1
    ELSE 0 END AS going, 0 AS state, 0 AS built_on
    FROM ranked
    UNION ALL
    SELECT deltas.tenant AS tenant, deltas.thread_id AS thread_id, deltas.namespace AS namespace,
      deltas.seq AS seq, 0 AS named, 0 AS going, 1 AS state, 0 AS built_on
    FROM deltas
    JOIN page ON deltas.tenant = page.tenant
    AND deltas.thread_id = page.thread_id
    AND deltas.namespace = page.namespace
    WHERE deltas.kind IN ('snapshot', 'delta')
    UNION ALL
    SELECT deltas.tenant AS tenant, deltas.thread_id AS thread_id, deltas.namespace AS namespace,
      deltas.base_seq AS seq, 0 AS named, 0 AS going, 0 AS state, 1 AS built_on
    FROM deltas
    JOIN page ON deltas.tenant = page.tenant
    AND deltas.thread_id = page.thread_id
    AND deltas.namespace = page.namespace
    WHERE deltas.base_seq IS NOT NULL) each_position
  GROUP BY each_position.tenant, each_position.thread_id, each_position.namespace,
    each_position.seq) positions
GROUP BY positions.tenant, positions.thread_id, positions.namespace
ORDER BY positions.thread_id, positions.namespace

-- log.many.list_prunable(scope=log, after=False)
WITH page AS (
  SELECT threads.tenant AS tenant, threads.thread_id AS thread_id, threads.namespace AS namespace
  FROM threads
  WHERE threads.tenant = :k_tenant
  AND threads.thread_id = :k_thread_id
  AND threads.namespace = :k_namespace
  AND threads.deleted_at IS NULL
  AND (threads.expires_at IS NULL
    OR threads.expires_at > :p_now)
  AND threads.head_id IS NOT NULL
  ORDER BY threads.thread_id, threads.namespace
  FETCH FIRST :p_limit ROWS ONLY),
ranked AS (
  SELECT numbered.tenant AS tenant, numbered.thread_id AS thread_id, numbered.namespace AS namespace,
    numbered.seq AS seq, numbered.checkpoint_id AS checkpoint_id, numbered.rests_on AS rests_on, CASE
  WHEN (numbered.newer > :p_keep
    AND mod(numbered.ordinal, :p_every) != 0
    AND numbered.occurred_at < :p_cutoff) THEN 1
  ELSE 0 END AS goes
  FROM (
    SELECT checkpoints.tenant AS tenant, checkpoints.thread_id AS thread_id,
      checkpoints.namespace AS namespace, checkpoints.seq AS seq,
      checkpoints.checkpoint_id AS checkpoint_id, checkpoints.rests_on AS rests_on,
      checkpoints.ordinal AS ordinal, checkpoints.occurred_at AS occurred_at,
      row_number() OVER (PARTITION BY checkpoints.tenant, checkpoints.thread_id, checkpoints.namespace
      ORDER BY checkpoints.seq DESC) - 1 AS newer
    FROM checkpoints
    JOIN page ON checkpoints.tenant = page.tenant
    AND checkpoints.thread_id = page.thread_id
    AND checkpoints.namespace = page.namespace) numbered),
held(tenant, thread_id, namespace, checkpoint_id) AS (
  SELECT ranked.tenant AS tenant, ranked.thread_id AS thread_id, ranked.namespace AS namespace,
    ranked.rests_on AS checkpoint_id
  FROM ranked
  WHERE ranked.goes = 0
  AND ranked.rests_on IS NOT NULL
  UNION ALL
  SELECT checkpoints.tenant AS tenant, checkpoints.thread_id AS thread_id,
    checkpoints.namespace AS namespace, checkpoints.rests_on AS rests_on
  FROM held
  JOIN checkpoints ON checkpoints.tenant = held.tenant
  AND checkpoints.thread_id = held.thread_id
  AND checkpoints.namespace = held.namespace
  AND checkpoints.checkpoint_id = held.checkpoint_id
  WHERE checkpoints.rests_on IS NOT NULL) CYCLE tenant, thread_id, namespace, checkpoint_id
SET goes_round TO '1' DEFAULT '0'
SELECT positions.thread_id, positions.namespace, sum(positions.named) AS names,
  sum(positions.going) AS going, sum(CASE
  WHEN (positions.state != 0
    AND positions.named = 0
    AND positions.built_on = 0) THEN 1
  ELSE 0 END) AS needless
FROM (
  SELECT each_position.tenant AS tenant, each_position.thread_id AS thread_id,
    each_position.namespace AS namespace, each_position.seq AS seq,
    max(each_position.named) AS named, max(each_position.going) AS going,
    max(each_position.state) AS state, max(each_position.built_on) AS built_on
  FROM (
    SELECT ranked.tenant AS tenant, ranked.thread_id AS thread_id, ranked.namespace AS namespace,
      ranked.seq AS seq, 1 AS named, CASE
    WHEN (ranked.goes != 0
      AND ((ranked.tenant, ranked.thread_id, ranked.namespace, ranked.checkpoint_id) NOT IN (
          SELECT held.tenant, held.thread_id, held.namespace, held.checkpoint_id
          FROM held))) THEN 1
    ELSE 0 END AS going, 0 AS state, 0 AS built_on
    FROM ranked
    UNION ALL
    SELECT deltas.tenant AS tenant, deltas.thread_id AS thread_id, deltas.namespace AS namespace,
      deltas.seq AS seq, 0 AS named, 0 AS going, 1 AS state, 0 AS built_on
    FROM deltas
    JOIN page ON deltas.tenant = page.tenant
    AND deltas.thread_id = page.thread_id
    AND deltas.namespace = page.namespace
    WHERE deltas.kind IN ('snapshot', 'delta')
    UNION ALL
    SELECT deltas.tenant AS tenant, deltas.thread_id AS thread_id, deltas.namespace AS namespace,
      deltas.base_seq AS seq, 0 AS named, 0 AS going, 0 AS state, 1 AS built_on
    FROM deltas
    JOIN page ON deltas.tenant = page.tenant
    AND deltas.thread_id = page.thread_id
    AND deltas.namespace = page.namespace
    WHERE deltas.base_seq IS NOT NULL) each_position
  GROUP BY each_position.tenant, each_position.thread_id, each_position.namespace,
    each_position.seq) positions
GROUP BY positions.tenant, positions.thread_id, positions.namespace
ORDER BY positions.thread_id, positions.namespace

-- log.many.list_prunable(scope=thread, after=True)
WITH page AS (
  SELECT threads.tenant AS tenant, threads.thread_id AS thread_id, threads.namespace AS namespace
  FROM threads
  WHERE threads.tenant = :k_tenant
  AND threads.thread_id = :k_thread_id
  AND threads.thread_id >= :p_thread_id
  AND (threads.thread_id > :p_thread_id
    OR threads.namespace > :p_namespace)
  AND threads.deleted_at IS NULL
  AND (threads.expires_at IS NULL
    OR threads.expires_at > :p_now)
  AND threads.head_id IS NOT NULL
  ORDER BY threads.thread_id, threads.namespace
  FETCH FIRST :p_limit ROWS ONLY),
ranked AS (
  SELECT numbered.tenant AS tenant, numbered.thread_id AS thread_id, numbered.namespace AS namespace,
    numbered.seq AS seq, numbered.checkpoint_id AS checkpoint_id, numbered.rests_on AS rests_on, CASE
  WHEN (numbered.newer > :p_keep
    AND mod(numbered.ordinal, :p_every) != 0
    AND numbered.occurred_at < :p_cutoff) THEN 1
  ELSE 0 END AS goes
  FROM (
    SELECT checkpoints.tenant AS tenant, checkpoints.thread_id AS thread_id,
      checkpoints.namespace AS namespace, checkpoints.seq AS seq,
      checkpoints.checkpoint_id AS checkpoint_id, checkpoints.rests_on AS rests_on,
      checkpoints.ordinal AS ordinal, checkpoints.occurred_at AS occurred_at,
      row_number() OVER (PARTITION BY checkpoints.tenant, checkpoints.thread_id, checkpoints.namespace
      ORDER BY checkpoints.seq DESC) - 1 AS newer
    FROM checkpoints
    JOIN page ON checkpoints.tenant = page.tenant
    AND checkpoints.thread_id = page.thread_id
    AND checkpoints.namespace = page.namespace) numbered),
held(tenant, thread_id, namespace, checkpoint_id) AS (
  SELECT ranked.tenant AS tenant, ranked.thread_id AS thread_id, ranked.namespace AS namespace,
    ranked.rests_on AS checkpoint_id
  FROM ranked
  WHERE ranked.goes = 0
  AND ranked.rests_on IS NOT NULL
  UNION ALL
  SELECT checkpoints.tenant AS tenant, checkpoints.thread_id AS thread_id,
    checkpoints.namespace AS namespace, checkpoints.rests_on AS rests_on
  FROM held
  JOIN checkpoints ON checkpoints.tenant = held.tenant
  AND checkpoints.thread_id = held.thread_id
  AND checkpoints.namespace = held.namespace
  AND checkpoints.checkpoint_id = held.checkpoint_id
  WHERE checkpoints.rests_on IS NOT NULL) CYCLE tenant, thread_id, namespace, checkpoint_id
SET goes_round TO '1' DEFAULT '0'
SELECT positions.thread_id, positions.namespace, sum(positions.named) AS names,
  sum(positions.going) AS going, sum(CASE
  WHEN (positions.state != 0
    AND positions.named = 0
    AND positions.built_on = 0) THEN 1
  ELSE 0 END) AS needless
FROM (
  SELECT each_position.tenant AS tenant, each_position.thread_id AS thread_id,
    each_position.namespace AS namespace, each_position.seq AS seq,
    max(each_position.named) AS named, max(each_position.going) AS going,
    max(each_position.state) AS state, max(each_position.built_on) AS built_on
  FROM (
    SELECT ranked.tenant AS tenant, ranked.thread_id AS thread_id, ranked.namespace AS namespace,
      ranked.seq AS seq, 1 AS named, CASE
    WHEN (ranked.goes != 0
      AND ((ranked.tenant, ranked.thread_id, ranked.namespace, ranked.checkpoint_id) NOT IN (
          SELECT held.tenant, held.thread_id, held.namespace, held.checkpoint_id
          FROM held))) THEN 1
    ELSE 0 END AS going, 0 AS state, 0 AS built_on
    FROM ranked
    UNION ALL
    SELECT deltas.tenant AS tenant, deltas.thread_id AS thread_id, deltas.namespace AS namespace,
      deltas.seq AS seq, 0 AS named, 0 AS going, 1 AS state, 0 AS built_on
    FROM deltas
    JOIN page ON deltas.tenant = page.tenant
    AND deltas.thread_id = page.thread_id
    AND deltas.namespace = page.namespace
    WHERE deltas.kind IN ('snapshot', 'delta')
    UNION ALL
    SELECT deltas.tenant AS tenant, deltas.thread_id AS thread_id, deltas.namespace AS namespace,
      deltas.base_seq AS seq, 0 AS named, 0 AS going, 0 AS state, 1 AS built_on
    FROM deltas
    JOIN page ON deltas.tenant = page.tenant
    AND deltas.thread_id = page.thread_id
    AND deltas.namespace = page.namespace
    WHERE deltas.base_seq IS NOT NULL) each_position
  GROUP BY each_position.tenant, each_position.thread_id, each_position.namespace,
    each_position.seq) positions
GROUP BY positions.tenant, positions.thread_id, positions.namespace
ORDER BY positions.thread_id, positions.namespace

-- log.many.list_prunable(scope=thread, after=False)
WITH page AS (
  SELECT threads.tenant AS tenant, threads.thread_id AS thread_id, threads.namespace AS namespace
  FROM threads
  WHERE threads.tenant = :k_tenant
  AND threads.thread_id = :k_thread_id
  AND threads.deleted_at IS NULL
  AND (threads.expires_at IS NULL
    OR threads.expires_at > :p_now)
  AND threads.head_id IS NOT NULL
  ORDER BY threads.thread_id, threads.namespace
  FETCH FIRST :p_limit ROWS ONLY),
ranked AS (
  SELECT numbered.tenant AS tenant, numbered.thread_id AS thread_id, numbered.namespace AS namespace,
    numbered.seq AS seq, numbered.checkpoint_id AS checkpoint_id, numbered.rests_on AS rests_on, CASE
  WHEN (numbered.newer > :p_keep
    AND mod(numbered.ordinal, :p_every) != 0
    AND numbered.occurred_at < :p_cutoff) THEN 1
  ELSE 0 END AS goes
  FROM (
    SELECT checkpoints.tenant AS tenant, checkpoints.thread_id AS thread_id,
      checkpoints.namespace AS namespace, checkpoints.seq AS seq,
      checkpoints.checkpoint_id AS checkpoint_id, checkpoints.rests_on AS rests_on,
      checkpoints.ordinal AS ordinal, checkpoints.occurred_at AS occurred_at,
      row_number() OVER (PARTITION BY checkpoints.tenant, checkpoints.thread_id, checkpoints.namespace
      ORDER BY checkpoints.seq DESC) - 1 AS newer
    FROM checkpoints
    JOIN page ON checkpoints.tenant = page.tenant
    AND checkpoints.thread_id = page.thread_id
    AND checkpoints.namespace = page.namespace) numbered),
held(tenant, thread_id, namespace, checkpoint_id) AS (
  SELECT ranked.tenant AS tenant, ranked.thread_id AS thread_id, ranked.namespace AS namespace,
    ranked.rests_on AS checkpoint_id
  FROM ranked
  WHERE ranked.goes = 0
  AND ranked.rests_on IS NOT NULL
  UNION ALL
  SELECT checkpoints.tenant AS tenant, checkpoints.thread_id AS thread_id,
    checkpoints.namespace AS namespace, checkpoints.rests_on AS rests_on
  FROM held
  JOIN checkpoints ON checkpoints.tenant = held.tenant
  AND checkpoints.thread_id = held.thread_id
  AND checkpoints.namespace = held.namespace
  AND checkpoints.checkpoint_id = held.checkpoint_id
  WHERE checkpoints.rests_on IS NOT NULL) CYCLE tenant, thread_id, namespace, checkpoint_id
SET goes_round TO '1' DEFAULT '0'
SELECT positions.thread_id, positions.namespace, sum(positions.named) AS names,
  sum(positions.going) AS going, sum(CASE
  WHEN (positions.state != 0
    AND positions.named = 0
    AND positions.built_on = 0) THEN 1
  ELSE 0 END) AS needless
FROM (
  SELECT each_position.tenant AS tenant, each_position.thread_id AS thread_id,
    each_position.namespace AS namespace, each_position.seq AS seq,
    max(each_position.named) AS named, max(each_position.going) AS going,
    max(each_position.state) AS state, max(each_position.built_on) AS built_on
  FROM (
    SELECT ranked.tenant AS tenant, ranked.thread_id AS thread_id, ranked.namespace AS namespace,
      ranked.seq AS seq, 1 AS named, CASE
    WHEN (ranked.goes != 0
      AND ((ranked.tenant, ranked.thread_id, ranked.namespace, ranked.checkpoint_id) NOT IN (
          SELECT held.tenant, held.thread_id, held.namespace, held.checkpoint_id
          FROM held))) THEN 1
    ELSE 0 END AS going, 0 AS state, 0 AS built_on
    FROM ranked
    UNION ALL
    SELECT deltas.tenant AS tenant, deltas.thread_id AS thread_id, deltas.namespace AS namespace,
      deltas.seq AS seq, 0 AS named, 0 AS going, 1 AS state, 0 AS built_on
    FROM deltas
    JOIN page ON deltas.tenant = page.tenant
    AND deltas.thread_id = page.thread_id
    AND deltas.namespace = page.namespace
    WHERE deltas.kind IN ('snapshot', 'delta')
    UNION ALL
    SELECT deltas.tenant AS tenant, deltas.thread_id AS thread_id, deltas.namespace AS namespace,
      deltas.base_seq AS seq, 0 AS named, 0 AS going, 0 AS state, 1 AS built_on
    FROM deltas
    JOIN page ON deltas.tenant = page.tenant
    AND deltas.thread_id = page.thread_id
    AND deltas.namespace = page.namespace
    WHERE deltas.base_seq IS NOT NULL) each_position
  GROUP BY each_position.tenant, each_position.thread_id, each_position.namespace,
    each_position.seq) positions
GROUP BY positions.tenant, positions.thread_id, positions.namespace
ORDER BY positions.thread_id, positions.namespace

-- log.many.list_stale(scope=namespace, after=True)
SELECT threads.thread_id, threads.namespace, threads.next_seq, (
  SELECT count(*) AS count_1
  FROM checkpoints
  WHERE checkpoints.tenant = threads.tenant
  AND checkpoints.thread_id = threads.thread_id
  AND checkpoints.namespace = threads.namespace) + (
  SELECT count(*) AS count_2
  FROM deltas
  WHERE deltas.tenant = threads.tenant
  AND deltas.thread_id = threads.thread_id
  AND deltas.namespace = threads.namespace
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
  OR threads.deleted_at < :p_buried)
ORDER BY threads.thread_id, threads.namespace
FETCH FIRST :p_limit ROWS ONLY

-- log.many.list_stale(scope=namespace, after=False)
SELECT threads.thread_id, threads.namespace, threads.next_seq, (
  SELECT count(*) AS count_1
  FROM checkpoints
  WHERE checkpoints.tenant = threads.tenant
  AND checkpoints.thread_id = threads.thread_id
  AND checkpoints.namespace = threads.namespace) + (
  SELECT count(*) AS count_2
  FROM deltas
  WHERE deltas.tenant = threads.tenant
  AND deltas.thread_id = threads.thread_id
  AND deltas.namespace = threads.namespace
  AND deltas.kind IN ('entry')) AS going
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.namespace = :k_namespace
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
  OR threads.deleted_at < :p_buried)
ORDER BY threads.thread_id, threads.namespace
FETCH FIRST :p_limit ROWS ONLY

-- log.many.list_stale(scope=tenant, after=True)
SELECT threads.thread_id, threads.namespace, threads.next_seq, (
  SELECT count(*) AS count_1
  FROM checkpoints
  WHERE checkpoints.tenant = threads.tenant
  AND checkpoints.thread_id = threads.thread_id
  AND checkpoints.namespace = threads.namespace) + (
  SELECT count(*) AS count_2
  FROM deltas
  WHERE deltas.tenant = threads.tenant
  AND deltas.thread_id = threads.thread_id
  AND deltas.namespace = threads.namespace
  AND deltas.kind IN ('entry')) AS going
FROM threads
WHERE threads.tenant = :k_tenant
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
  OR threads.deleted_at < :p_buried)
ORDER BY threads.thread_id, threads.namespace
FETCH FIRST :p_limit ROWS ONLY

-- log.many.list_stale(scope=tenant, after=False)
SELECT threads.thread_id, threads.namespace, threads.next_seq, (
  SELECT count(*) AS count_1
  FROM checkpoints
  WHERE checkpoints.tenant = threads.tenant
  AND checkpoints.thread_id = threads.thread_id
  AND checkpoints.namespace = threads.namespace) + (
  SELECT count(*) AS count_2
  FROM deltas
  WHERE deltas.tenant = threads.tenant
  AND deltas.thread_id = threads.thread_id
  AND deltas.namespace = threads.namespace
  AND deltas.kind IN ('entry')) AS going
FROM threads
WHERE threads.tenant = :k_tenant
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
  OR threads.deleted_at < :p_buried)
ORDER BY threads.thread_id, threads.namespace
FETCH FIRST :p_limit ROWS ONLY

-- log.many.list_stale(scope=log, after=True)
SELECT threads.thread_id, threads.namespace, threads.next_seq, (
  SELECT count(*) AS count_1
  FROM checkpoints
  WHERE checkpoints.tenant = threads.tenant
  AND checkpoints.thread_id = threads.thread_id
  AND checkpoints.namespace = threads.namespace) + (
  SELECT count(*) AS count_2
  FROM deltas
  WHERE deltas.tenant = threads.tenant
  AND deltas.thread_id = threads.thread_id
  AND deltas.namespace = threads.namespace
  AND deltas.kind IN ('entry')) AS going
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
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
  OR threads.deleted_at < :p_buried)
ORDER BY threads.thread_id, threads.namespace
FETCH FIRST :p_limit ROWS ONLY

-- log.many.list_stale(scope=log, after=False)
SELECT threads.thread_id, threads.namespace, threads.next_seq, (
  SELECT count(*) AS count_1
  FROM checkpoints
  WHERE checkpoints.tenant = threads.tenant
  AND checkpoints.thread_id = threads.thread_id
  AND checkpoints.namespace = threads.namespace) + (
  SELECT count(*) AS count_2
  FROM deltas
  WHERE deltas.tenant = threads.tenant
  AND deltas.thread_id = threads.thread_id
  AND deltas.namespace = threads.namespace
  AND deltas.kind IN ('entry')) AS going
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
AND threads.namespace = :k_namespace
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
  OR threads.deleted_at < :p_buried)
ORDER BY threads.thread_id, threads.namespace
FETCH FIRST :p_limit ROWS ONLY

-- log.many.list_stale(scope=thread, after=True)
SELECT threads.thread_id, threads.namespace, threads.next_seq, (
  SELECT count(*) AS count_1
  FROM checkpoints
  WHERE checkpoints.tenant = threads.tenant
  AND checkpoints.thread_id = threads.thread_id
  AND checkpoints.namespace = threads.namespace) + (
  SELECT count(*) AS count_2
  FROM deltas
  WHERE deltas.tenant = threads.tenant
  AND deltas.thread_id = threads.thread_id
  AND deltas.namespace = threads.namespace
  AND deltas.kind IN ('entry')) AS going
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
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
  OR threads.deleted_at < :p_buried)
ORDER BY threads.thread_id, threads.namespace
FETCH FIRST :p_limit ROWS ONLY

-- log.many.list_stale(scope=thread, after=False)
SELECT threads.thread_id, threads.namespace, threads.next_seq, (
  SELECT count(*) AS count_1
  FROM checkpoints
  WHERE checkpoints.tenant = threads.tenant
  AND checkpoints.thread_id = threads.thread_id
  AND checkpoints.namespace = threads.namespace) + (
  SELECT count(*) AS count_2
  FROM deltas
  WHERE deltas.tenant = threads.tenant
  AND deltas.thread_id = threads.thread_id
  AND deltas.namespace = threads.namespace
  AND deltas.kind IN ('entry')) AS going
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
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
  OR threads.deleted_at < :p_buried)
ORDER BY threads.thread_id, threads.namespace
FETCH FIRST :p_limit ROWS ONLY

-- log.many.lock_listed(wait=True)
SELECT threads.thread_id, threads.namespace, threads.updated_at, threads.expires_at,
  threads.deleted_at
FROM threads
WHERE (threads.tenant, threads.thread_id, threads.namespace) IN (
  SELECT listed.tenant, listed.thread_id, listed.namespace
  FROM (
    SELECT each_.tenant, each_.thread_id, each_.namespace
    FROM JSON_TABLE(:p_logs, '$[*]' COLUMNS (tenant VARCHAR2(4000) PATH '$[0]',
          thread_id VARCHAR2(4000) PATH '$[1]', namespace VARCHAR2(4000) PATH '$[2]')) each_) listed)
FOR UPDATE

-- log.many.lock_listed(wait=False)
SELECT threads.thread_id, threads.namespace, threads.updated_at, threads.expires_at,
  threads.deleted_at
FROM threads
WHERE (threads.tenant, threads.thread_id, threads.namespace) IN (
  SELECT listed.tenant, listed.thread_id, listed.namespace
  FROM (
    SELECT each_.tenant, each_.thread_id, each_.namespace
    FROM JSON_TABLE(:p_logs, '$[*]' COLUMNS (tenant VARCHAR2(4000) PATH '$[0]',
          thread_id VARCHAR2(4000) PATH '$[1]', namespace VARCHAR2(4000) PATH '$[2]')) each_) listed)
FOR UPDATE SKIP LOCKED

-- log.many.move_listed()
UPDATE threads
SET version=(threads.version + :version_1), epoch=(threads.epoch + :p_moved)
WHERE (threads.tenant, threads.thread_id, threads.namespace) IN (
  SELECT listed.tenant, listed.thread_id, listed.namespace
  FROM (
    SELECT each_.tenant, each_.thread_id, each_.namespace
    FROM JSON_TABLE(:p_logs, '$[*]' COLUMNS (tenant VARCHAR2(4000) PATH '$[0]',
          thread_id VARCHAR2(4000) PATH '$[1]', namespace VARCHAR2(4000) PATH '$[2]')) each_) listed)

-- log.many.sweep_listed()
DELETE FROM deltas
WHERE (deltas.tenant, deltas.thread_id, deltas.namespace, deltas.seq) IN (
  WITH found AS (
    SELECT positions.tenant AS tenant, positions.thread_id AS thread_id,
      positions.namespace AS namespace, positions.seq AS seq
    FROM (
      SELECT each_position.tenant AS tenant, each_position.thread_id AS thread_id,
        each_position.namespace AS namespace, each_position.seq AS seq,
        max(each_position.named) AS named, max(each_position.going) AS going,
        max(each_position.state) AS state, max(each_position.built_on) AS built_on
      FROM (
        SELECT checkpoints.tenant AS tenant, checkpoints.thread_id AS thread_id,
          checkpoints.namespace AS namespace, checkpoints.seq AS seq, 1 AS named, 0 AS going, 0 AS state,
          0 AS built_on
        FROM checkpoints
        JOIN (
          SELECT each_.tenant, each_.thread_id, each_.namespace
          FROM JSON_TABLE(:p_logs, '$[*]' COLUMNS (tenant VARCHAR2(4000) PATH '$[0]',
                thread_id VARCHAR2(4000) PATH '$[1]',
                namespace VARCHAR2(4000) PATH '$[2]')) each_) listed ON checkpoints.tenant = listed.tenant
        AND checkpoints.thread_id = listed.thread_id
        AND checkpoints.namespace = listed.namespace
        UNION ALL
        SELECT deltas.tenant AS tenant, deltas.thread_id AS thread_id, deltas.namespace AS namespace,
          deltas.seq AS seq, 0 AS named, 0 AS going, 1 AS state, 0 AS built_on
        FROM deltas
        JOIN (
          SELECT each_.tenant, each_.thread_id, each_.namespace
          FROM JSON_TABLE(:p_logs, '$[*]' COLUMNS (tenant VARCHAR2(4000) PATH '$[0]',
                thread_id VARCHAR2(4000) PATH '$[1]',
                namespace VARCHAR2(4000) PATH '$[2]')) each_) listed ON deltas.tenant = listed.tenant
        AND deltas.thread_id = listed.thread_id
        AND deltas.namespace = listed.namespace
        WHERE deltas.kind IN ('snapshot', 'delta')
        UNION ALL
        SELECT deltas.tenant AS tenant, deltas.thread_id AS thread_id, deltas.namespace AS namespace,
          deltas.base_seq AS seq, 0 AS named, 0 AS going, 0 AS state, 1 AS built_on
        FROM deltas
        JOIN (
          SELECT each_.tenant, each_.thread_id, each_.namespace
          FROM JSON_TABLE(:p_logs, '$[*]' COLUMNS (tenant VARCHAR2(4000) PATH '$[0]',
                thread_id VARCHAR2(4000) PATH '$[1]',
                namespace VARCHAR2(4000) PATH '$[2]')) each_) listed ON deltas.tenant = listed.tenant
        AND deltas.thread_id = listed.thread_id
        AND deltas.namespace = listed.namespace
        WHERE deltas.base_seq IS NOT NULL) each_position
      GROUP BY each_position.tenant, each_position.thread_id, each_position.namespace,
        each_position.seq) positions
    WHERE positions.state != 0
    AND positions.named = 0
    AND positions.built_on = 0
    FETCH FIRST :p_limit ROWS ONLY)
  SELECT found.tenant, found.thread_id, found.namespace, found.seq
  FROM found)

-- log.overview.list_logs(which=all, below=False, after=False)
SELECT threads.thread_id, threads.namespace, threads.head_id, threads.created_at, threads.updated_at
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
      WHERE deltas.tenant = threads.tenant
      AND deltas.thread_id = threads.thread_id
      AND deltas.namespace = threads.namespace
      AND deltas.kind IN ('entry'))))
ORDER BY threads.updated_at DESC, threads.thread_id, threads.namespace
FETCH FIRST :p_limit ROWS ONLY

-- log.overview.list_logs(which=all, below=False, after=True)
SELECT threads.thread_id, threads.namespace, threads.head_id, threads.created_at, threads.updated_at
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
      WHERE deltas.tenant = threads.tenant
      AND deltas.thread_id = threads.thread_id
      AND deltas.namespace = threads.namespace
      AND deltas.kind IN ('entry'))))
AND (threads.updated_at < :p_updated_at
  OR threads.updated_at = :p_updated_at
  AND threads.thread_id >= :p_thread_id
  AND (threads.thread_id > :p_thread_id
    OR threads.thread_id = :p_thread_id
    AND threads.namespace > :p_namespace))
ORDER BY threads.updated_at DESC, threads.thread_id, threads.namespace
FETCH FIRST :p_limit ROWS ONLY

-- log.overview.list_logs(which=all, below=True, after=False)
SELECT threads.thread_id, threads.namespace, threads.head_id, threads.created_at, threads.updated_at
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.namespace >= :k_namespace
AND threads.namespace < :k_beyond
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND (threads.head_id IS NOT NULL
  OR (EXISTS (
      SELECT 1
      FROM deltas
      WHERE deltas.tenant = threads.tenant
      AND deltas.thread_id = threads.thread_id
      AND deltas.namespace = threads.namespace
      AND deltas.kind IN ('entry'))))
ORDER BY threads.updated_at DESC, threads.thread_id, threads.namespace
FETCH FIRST :p_limit ROWS ONLY

-- log.overview.list_logs(which=all, below=True, after=True)
SELECT threads.thread_id, threads.namespace, threads.head_id, threads.created_at, threads.updated_at
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.namespace >= :k_namespace
AND threads.namespace < :k_beyond
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND (threads.head_id IS NOT NULL
  OR (EXISTS (
      SELECT 1
      FROM deltas
      WHERE deltas.tenant = threads.tenant
      AND deltas.thread_id = threads.thread_id
      AND deltas.namespace = threads.namespace
      AND deltas.kind IN ('entry'))))
AND (threads.updated_at < :p_updated_at
  OR threads.updated_at = :p_updated_at
  AND threads.thread_id >= :p_thread_id
  AND (threads.thread_id > :p_thread_id
    OR threads.thread_id = :p_thread_id
    AND threads.namespace > :p_namespace))
ORDER BY threads.updated_at DESC, threads.thread_id, threads.namespace
FETCH FIRST :p_limit ROWS ONLY

-- log.overview.list_logs(which=prefix, below=False, after=False)
SELECT threads.thread_id, threads.namespace, threads.head_id, threads.created_at, threads.updated_at
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
      WHERE deltas.tenant = threads.tenant
      AND deltas.thread_id = threads.thread_id
      AND deltas.namespace = threads.namespace
      AND deltas.kind IN ('entry'))))
AND threads.thread_id >= :p_low
AND threads.thread_id < :p_high
ORDER BY threads.updated_at DESC, threads.thread_id, threads.namespace
FETCH FIRST :p_limit ROWS ONLY

-- log.overview.list_logs(which=prefix, below=False, after=True)
SELECT threads.thread_id, threads.namespace, threads.head_id, threads.created_at, threads.updated_at
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
      WHERE deltas.tenant = threads.tenant
      AND deltas.thread_id = threads.thread_id
      AND deltas.namespace = threads.namespace
      AND deltas.kind IN ('entry'))))
AND threads.thread_id >= :p_low
AND threads.thread_id < :p_high
AND (threads.updated_at < :p_updated_at
  OR threads.updated_at = :p_updated_at
  AND threads.thread_id >= :p_thread_id
  AND (threads.thread_id > :p_thread_id
    OR threads.thread_id = :p_thread_id
    AND threads.namespace > :p_namespace))
ORDER BY threads.updated_at DESC, threads.thread_id, threads.namespace
FETCH FIRST :p_limit ROWS ONLY

-- log.overview.list_logs(which=prefix, below=True, after=False)
SELECT threads.thread_id, threads.namespace, threads.head_id, threads.created_at, threads.updated_at
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.namespace >= :k_namespace
AND threads.namespace < :k_beyond
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND (threads.head_id IS NOT NULL
  OR (EXISTS (
      SELECT 1
      FROM deltas
      WHERE deltas.tenant = threads.tenant
      AND deltas.thread_id = threads.thread_id
      AND deltas.namespace = threads.namespace
      AND deltas.kind IN ('entry'))))
AND threads.thread_id >= :p_low
AND threads.thread_id < :p_high
ORDER BY threads.updated_at DESC, threads.thread_id, threads.namespace
FETCH FIRST :p_limit ROWS ONLY

-- log.overview.list_logs(which=prefix, below=True, after=True)
SELECT threads.thread_id, threads.namespace, threads.head_id, threads.created_at, threads.updated_at
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.namespace >= :k_namespace
AND threads.namespace < :k_beyond
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND (threads.head_id IS NOT NULL
  OR (EXISTS (
      SELECT 1
      FROM deltas
      WHERE deltas.tenant = threads.tenant
      AND deltas.thread_id = threads.thread_id
      AND deltas.namespace = threads.namespace
      AND deltas.kind IN ('entry'))))
AND threads.thread_id >= :p_low
AND threads.thread_id < :p_high
AND (threads.updated_at < :p_updated_at
  OR threads.updated_at = :p_updated_at
  AND threads.thread_id >= :p_thread_id
  AND (threads.thread_id > :p_thread_id
    OR threads.thread_id = :p_thread_id
    AND threads.namespace > :p_namespace))
ORDER BY threads.updated_at DESC, threads.thread_id, threads.namespace
FETCH FIRST :p_limit ROWS ONLY

-- log.overview.list_logs(which=thread, below=False, after=False)
SELECT threads.thread_id, threads.namespace, threads.head_id, threads.created_at, threads.updated_at
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
      WHERE deltas.tenant = threads.tenant
      AND deltas.thread_id = threads.thread_id
      AND deltas.namespace = threads.namespace
      AND deltas.kind IN ('entry'))))
AND threads.thread_id = :k_thread_id
ORDER BY threads.updated_at DESC, threads.thread_id, threads.namespace
FETCH FIRST :p_limit ROWS ONLY

-- log.overview.list_logs(which=thread, below=False, after=True)
SELECT threads.thread_id, threads.namespace, threads.head_id, threads.created_at, threads.updated_at
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
      WHERE deltas.tenant = threads.tenant
      AND deltas.thread_id = threads.thread_id
      AND deltas.namespace = threads.namespace
      AND deltas.kind IN ('entry'))))
AND threads.thread_id = :k_thread_id
AND (threads.updated_at < :p_updated_at
  OR threads.updated_at = :p_updated_at
  AND threads.thread_id >= :p_thread_id
  AND (threads.thread_id > :p_thread_id
    OR threads.thread_id = :p_thread_id
    AND threads.namespace > :p_namespace))
ORDER BY threads.updated_at DESC, threads.thread_id, threads.namespace
FETCH FIRST :p_limit ROWS ONLY

-- log.overview.list_logs(which=thread, below=True, after=False)
SELECT threads.thread_id, threads.namespace, threads.head_id, threads.created_at, threads.updated_at
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.namespace >= :k_namespace
AND threads.namespace < :k_beyond
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND (threads.head_id IS NOT NULL
  OR (EXISTS (
      SELECT 1
      FROM deltas
      WHERE deltas.tenant = threads.tenant
      AND deltas.thread_id = threads.thread_id
      AND deltas.namespace = threads.namespace
      AND deltas.kind IN ('entry'))))
AND threads.thread_id = :k_thread_id
ORDER BY threads.updated_at DESC, threads.thread_id, threads.namespace
FETCH FIRST :p_limit ROWS ONLY

-- log.overview.list_logs(which=thread, below=True, after=True)
SELECT threads.thread_id, threads.namespace, threads.head_id, threads.created_at, threads.updated_at
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.namespace >= :k_namespace
AND threads.namespace < :k_beyond
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND (threads.head_id IS NOT NULL
  OR (EXISTS (
      SELECT 1
      FROM deltas
      WHERE deltas.tenant = threads.tenant
      AND deltas.thread_id = threads.thread_id
      AND deltas.namespace = threads.namespace
      AND deltas.kind IN ('entry'))))
AND threads.thread_id = :k_thread_id
AND (threads.updated_at < :p_updated_at
  OR threads.updated_at = :p_updated_at
  AND threads.thread_id >= :p_thread_id
  AND (threads.thread_id > :p_thread_id
    OR threads.thread_id = :p_thread_id
    AND threads.namespace > :p_namespace))
ORDER BY threads.updated_at DESC, threads.thread_id, threads.namespace
FETCH FIRST :p_limit ROWS ONLY

-- log.overview.measure_logs()
SELECT listed.thread_id, listed.namespace, (
  SELECT count(*) AS count_1
  FROM checkpoints
  WHERE checkpoints.tenant = :k_tenant
  AND checkpoints.thread_id = listed.thread_id
  AND checkpoints.namespace = listed.namespace) AS checkpoints, (
  SELECT coalesce(sum(checkpoints.raw_size), :coalesce_2) AS coalesce_1
  FROM checkpoints
  WHERE checkpoints.tenant = :k_tenant
  AND checkpoints.thread_id = listed.thread_id
  AND checkpoints.namespace = listed.namespace) AS raw_size, (
  SELECT coalesce(sum(checkpoints.stored_size), :coalesce_4) AS coalesce_3
  FROM checkpoints
  WHERE checkpoints.tenant = :k_tenant
  AND checkpoints.thread_id = listed.thread_id
  AND checkpoints.namespace = listed.namespace) AS stored_size, (
  SELECT count(*) AS count_2
  FROM deltas
  WHERE deltas.tenant = :k_tenant
  AND deltas.thread_id = listed.thread_id
  AND deltas.namespace = listed.namespace
  AND deltas.kind IN ('entry')) AS entries
FROM (
  SELECT each_.thread_id, each_.namespace
  FROM JSON_TABLE(:p_logs, '$[*]' COLUMNS (thread_id VARCHAR2(4000) PATH '$[0]',
        namespace VARCHAR2(4000) PATH '$[1]')) each_) listed

-- log.removing.bury(scope=log)
UPDATE threads
SET version=(threads.version + :version_1), last_ordinal=0, epoch=(threads.epoch + :epoch_1),
  head_id=NULL, previous_id=NULL, meta=:p_meta, forked_thread=NULL, forked_seq=NULL,
  expires_at=NULL, deleted_at=:p_now
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
AND threads.namespace = :k_namespace
AND threads.deleted_at IS NULL

-- log.removing.bury(scope=thread)
UPDATE threads
SET version=(threads.version + :version_1), last_ordinal=0, epoch=(threads.epoch + :epoch_1),
  head_id=NULL, previous_id=NULL, meta=:p_meta, forked_thread=NULL, forked_seq=NULL,
  expires_at=NULL, deleted_at=:p_now
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
AND threads.deleted_at IS NULL

-- log.removing.empty(table=checkpoints, scope=log)
DELETE FROM checkpoints
WHERE checkpoints.tenant = :k_tenant
AND checkpoints.thread_id = :k_thread_id
AND checkpoints.namespace = :k_namespace

-- log.removing.empty(table=checkpoints, scope=thread)
DELETE FROM checkpoints
WHERE checkpoints.tenant = :k_tenant
AND checkpoints.thread_id = :k_thread_id

-- log.removing.empty(table=deltas, scope=log)
DELETE FROM deltas
WHERE deltas.tenant = :k_tenant
AND deltas.thread_id = :k_thread_id
AND deltas.namespace = :k_namespace

-- log.removing.empty(table=deltas, scope=thread)
DELETE FROM deltas
WHERE deltas.tenant = :k_tenant
AND deltas.thread_id = :k_thread_id

-- log.removing.empty(table=entries, scope=log)
DELETE FROM deltas
WHERE deltas.tenant = :k_tenant
AND deltas.thread_id = :k_thread_id
AND deltas.namespace = :k_namespace
AND deltas.kind IN ('entry')

-- log.removing.empty(table=entries, scope=thread)
DELETE FROM deltas
WHERE deltas.tenant = :k_tenant
AND deltas.thread_id = :k_thread_id
AND deltas.kind IN ('entry')

-- log.removing.lock_log()
SELECT threads.namespace, threads.next_seq, threads.epoch, threads.head_id, threads.expires_at,
  threads.deleted_at, threads.version
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
AND threads.namespace = :k_namespace
FOR UPDATE

-- log.removing.lock_thread()
SELECT threads.namespace, threads.next_seq, threads.epoch, threads.head_id, threads.expires_at,
  threads.deleted_at, threads.version
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
FOR UPDATE

-- log.removing.move_epoch()
UPDATE threads
SET version=(threads.version + :version_1), epoch=(threads.epoch + :p_moved), head_id=(
  SELECT checkpoints.checkpoint_id
  FROM checkpoints
  WHERE checkpoints.tenant = :k_tenant
  AND checkpoints.thread_id = :k_thread_id
  AND checkpoints.namespace = :k_namespace
  ORDER BY checkpoints.seq DESC
  FETCH FIRST 1 ROWS ONLY)
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
AND threads.namespace = :k_namespace

-- log.removing.read_head()
SELECT threads.namespace, threads.next_seq, threads.epoch, threads.head_id, threads.expires_at,
  threads.deleted_at, threads.version
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
AND threads.namespace = :k_namespace

-- log.removing.read_words()
SELECT deltas.seq, deltas.search_text
FROM deltas
WHERE deltas.tenant = :k_tenant
AND deltas.thread_id = :k_thread_id
AND deltas.namespace = :k_namespace
AND (deltas.seq = :p_seq
  OR deltas.seq = (
    SELECT min(checkpoints.seq) AS min_1
    FROM checkpoints
    WHERE checkpoints.tenant = :k_tenant
    AND checkpoints.thread_id = :k_thread_id
    AND checkpoints.namespace = :k_namespace
    AND checkpoints.seq > :p_seq))
ORDER BY deltas.seq

-- log.removing.remove_head()
DELETE FROM threads
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
AND threads.namespace = :k_namespace

-- log.removing.remove_name()
DELETE FROM checkpoints
WHERE checkpoints.tenant = :k_tenant
AND checkpoints.thread_id = :k_thread_id
AND checkpoints.namespace = :k_namespace
AND checkpoints.checkpoint_id = :p_checkpoint_id
AND NOT (EXISTS (
    SELECT resting.seq
    FROM checkpoints resting
    WHERE resting.tenant = checkpoints.tenant
    AND resting.thread_id = checkpoints.thread_id
    AND resting.namespace = checkpoints.namespace
    AND resting.rests_on = checkpoints.checkpoint_id))
RETURNING checkpoints.seq
INTO :ret_0

-- log.removing.remove_unneeded()
DELETE FROM deltas
WHERE deltas.tenant = :k_tenant
AND deltas.thread_id = :k_thread_id
AND deltas.namespace = :k_namespace
AND deltas.seq = :p_seq
AND deltas.kind IN ('snapshot', 'delta')
AND NOT (EXISTS (
    SELECT checkpoints.seq
    FROM checkpoints
    WHERE checkpoints.tenant = :k_tenant
    AND checkpoints.thread_id = :k_thread_id
    AND checkpoints.namespace = :k_namespace
    AND checkpoints.seq = :p_seq))
AND NOT (EXISTS (
    SELECT child.seq
    FROM deltas child
    WHERE child.tenant = :k_tenant
    AND child.thread_id = :k_thread_id
    AND child.namespace = :k_namespace
    AND child.base_seq = :p_seq))
RETURNING deltas.base_seq, deltas.depth, deltas.status
INTO :ret_0, :ret_1, :ret_2

-- log.removing.remove_writes()
DELETE FROM deltas
WHERE deltas.tenant = :k_tenant
AND deltas.thread_id = :k_thread_id
AND deltas.namespace = :k_namespace
AND deltas.kind IN ('write')
AND deltas.entry_key >= :p_low
AND deltas.entry_key < :p_high
AND deltas.label = :p_checkpoint_id

-- log.removing.replace_words()
UPDATE deltas
SET search_text=:p_search_text
WHERE deltas.tenant = :k_tenant
AND deltas.thread_id = :k_thread_id
AND deltas.namespace = :k_namespace
AND deltas.seq = :p_seq

-- log.removing.sweep_dead()
DELETE FROM deltas
WHERE deltas.tenant = :k_tenant
AND deltas.thread_id = :k_thread_id
AND deltas.namespace = :k_namespace
AND deltas.kind IN ('snapshot', 'delta')
AND (deltas.seq NOT IN (
    WITH alive(seq, base_seq) AS (
      SELECT deltas.seq AS seq, deltas.base_seq AS base_seq
      FROM deltas
      JOIN checkpoints ON deltas.tenant = checkpoints.tenant
      AND deltas.thread_id = checkpoints.thread_id
      AND deltas.namespace = checkpoints.namespace
      AND deltas.seq = checkpoints.seq
      WHERE checkpoints.tenant = :k_tenant
      AND checkpoints.thread_id = :k_thread_id
      AND checkpoints.namespace = :k_namespace
      UNION ALL
      SELECT base.seq AS seq, base.base_seq AS base_seq
      FROM deltas base
      JOIN alive ON base.seq = alive.base_seq
      WHERE base.tenant = :k_tenant
      AND base.thread_id = :k_thread_id
      AND base.namespace = :k_namespace)
    SELECT alive.seq
    FROM alive))

-- log.removing.sweep_writes()
DELETE FROM deltas
WHERE deltas.tenant = :k_tenant
AND deltas.thread_id = :k_thread_id
AND deltas.namespace = :k_namespace
AND deltas.kind IN ('write')
AND deltas.stored_at < :p_waiting
AND (deltas.label NOT IN (
    SELECT checkpoints.checkpoint_id
    FROM checkpoints
    WHERE checkpoints.tenant = :k_tenant
    AND checkpoints.thread_id = :k_thread_id
    AND checkpoints.namespace = :k_namespace))

-- log.resting.find_resting()
SELECT checkpoints.checkpoint_id
FROM checkpoints
WHERE checkpoints.tenant = :k_tenant
AND checkpoints.thread_id = :k_thread_id
AND checkpoints.namespace = :k_namespace
AND checkpoints.rests_on = :p_checkpoint_id
ORDER BY checkpoints.seq DESC
FETCH FIRST :p_limit ROWS ONLY

-- log.resting.list_resting()
SELECT checkpoints.checkpoint_id, checkpoints.rests_on
FROM checkpoints
WHERE checkpoints.tenant = :k_tenant
AND checkpoints.thread_id = :k_thread_id
AND checkpoints.namespace = :k_namespace
AND checkpoints.rests_on IS NOT NULL

-- log.writes.list_below()
SELECT threads.namespace, threads.head_id, threads.deleted_at
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.namespace >= :k_namespace
AND threads.namespace < :k_beyond
AND threads.thread_id = :k_thread_id
ORDER BY threads.namespace

-- log.writes.list_runs()
SELECT checkpoints.thread_id, checkpoints.namespace, checkpoints.checkpoint_id
FROM checkpoints
WHERE checkpoints.tenant = :k_tenant
AND checkpoints.namespace >= :k_namespace
AND checkpoints.namespace < :k_beyond
AND checkpoints.run_id IN (
  SELECT listed.run_id
  FROM (
    SELECT each_.run_id
    FROM JSON_TABLE(:p_keys, '$[*]' COLUMNS (run_id VARCHAR2(4000) PATH '$[0]')) each_) listed)
ORDER BY checkpoints.thread_id, checkpoints.namespace

-- log.writes.reach_again()
UPDATE threads
SET next_seq=(threads.next_seq + :next_seq_1), updated_at=:p_updated_at
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
AND threads.namespace = :k_namespace
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)
AND (threads.deleted_at IS NULL
  OR threads.deleted_at < :p_made_at)
RETURNING threads.next_seq - :next_seq_2
INTO :ret_0

-- log.writes.reach_new()
INSERT INTO threads (tenant, thread_id, namespace, next_seq, version, epoch, meta, created_at,
    updated_at, expires_at)
VALUES (:k_tenant, :k_thread_id, :k_namespace, :next_seq, :version, :p_epoch, :p_meta,
    :p_updated_at, :p_updated_at, :p_expires_at)
RETURNING threads.next_seq - :next_seq_1
INTO :ret_0

-- log.writes.read_writes()
SELECT deltas.seq, deltas.status, deltas.codec, deltas.checksum, deltas.payload
FROM deltas
WHERE deltas.tenant = :k_tenant
AND deltas.thread_id = :k_thread_id
AND deltas.namespace = :k_namespace
AND deltas.kind IN ('write')
AND deltas.entry_key >= :p_low
AND deltas.entry_key < :p_high
AND deltas.label = :p_checkpoint_id
ORDER BY deltas.seq

-- log.writes.read_writes_listed()
SELECT deltas.label, deltas.seq, deltas.status, deltas.codec, deltas.checksum, deltas.payload
FROM deltas
JOIN (
  SELECT each_.label, each_.low, each_.high
  FROM JSON_TABLE(:p_keys, '$[*]' COLUMNS (label VARCHAR2(4000) PATH '$[0]',
        low VARCHAR2(4000) PATH '$[1]',
        high VARCHAR2(4000) PATH '$[2]')) each_) listed ON deltas.entry_key >= listed.low
AND deltas.entry_key < listed.high
AND deltas.label = listed.label
WHERE deltas.tenant = :k_tenant
AND deltas.thread_id = :k_thread_id
AND deltas.namespace = :k_namespace
AND deltas.kind IN ('write')
ORDER BY deltas.seq

-- log.writes.remove_names_listed()
DELETE FROM checkpoints
WHERE checkpoints.tenant = :k_tenant
AND checkpoints.thread_id = :k_thread_id
AND checkpoints.namespace = :k_namespace
AND checkpoints.checkpoint_id IN (
  SELECT listed.checkpoint_id
  FROM (
    SELECT each_.checkpoint_id
    FROM JSON_TABLE(:p_keys, '$[*]' COLUMNS (checkpoint_id VARCHAR2(4000) PATH '$[0]')) each_) listed)

-- log.writes.remove_writes_listed()
DELETE FROM deltas
WHERE deltas.tenant = :k_tenant
AND deltas.thread_id = :k_thread_id
AND deltas.namespace = :k_namespace
AND deltas.kind IN ('write')
AND deltas.label IN (
  SELECT listed.label
  FROM (
    SELECT each_.label
    FROM JSON_TABLE(:p_keys, '$[*]' COLUMNS (label VARCHAR2(4000) PATH '$[0]')) each_) listed)

-- rotation.statements.count_rows(table=deltas, scope=tenant)
SELECT stored.codec, stored.begins, stored.has_words, stored.has_fields, count(*) AS "number"
FROM (
  SELECT deltas.codec AS codec, CASE
  WHEN (deltas.codec LIKE '%+gcm1') THEN dbms_lob.substr(deltas.payload, 9, 1) END AS begins, CASE
  WHEN (deltas.search_text IS NOT NULL) THEN 1
  ELSE 0 END AS has_words, 0 AS has_fields
  FROM deltas
  WHERE deltas.tenant = :k_tenant) stored
GROUP BY stored.codec, stored.begins, stored.has_words, stored.has_fields

-- rotation.statements.count_rows(table=deltas, scope=all)
SELECT stored.codec, stored.begins, stored.has_words, stored.has_fields, count(*) AS "number"
FROM (
  SELECT deltas.codec AS codec, CASE
  WHEN (deltas.codec LIKE '%+gcm1') THEN dbms_lob.substr(deltas.payload, 9, 1) END AS begins, CASE
  WHEN (deltas.search_text IS NOT NULL) THEN 1
  ELSE 0 END AS has_words, 0 AS has_fields
  FROM deltas
  WHERE deltas.tenant != '~') stored
GROUP BY stored.codec, stored.begins, stored.has_words, stored.has_fields

-- rotation.statements.count_rows(table=store_items, scope=tenant)
SELECT stored.codec, stored.begins, stored.has_words, stored.has_fields, count(*) AS "number"
FROM (
  SELECT store_items.codec AS codec, CASE
  WHEN (store_items.codec LIKE '%+gcm1') THEN dbms_lob.substr(store_items.value, 9, 1) END AS begins,
    CASE
  WHEN (store_items.search_text IS NOT NULL) THEN 1
  ELSE 0 END AS has_words, CASE
  WHEN (store_items.field_terms IS NOT NULL
    AND length(store_items.field_terms) > 7) THEN 1
  ELSE 0 END AS has_fields
  FROM store_items
  WHERE store_items.tenant = :k_tenant
  AND NOT (store_items.namespace >= :k_house
    AND store_items.namespace < :k_house_end)) stored
GROUP BY stored.codec, stored.begins, stored.has_words, stored.has_fields

-- rotation.statements.count_rows(table=store_items, scope=all)
SELECT stored.codec, stored.begins, stored.has_words, stored.has_fields, count(*) AS "number"
FROM (
  SELECT store_items.codec AS codec, CASE
  WHEN (store_items.codec LIKE '%+gcm1') THEN dbms_lob.substr(store_items.value, 9, 1) END AS begins,
    CASE
  WHEN (store_items.search_text IS NOT NULL) THEN 1
  ELSE 0 END AS has_words, CASE
  WHEN (store_items.field_terms IS NOT NULL
    AND length(store_items.field_terms) > 7) THEN 1
  ELSE 0 END AS has_fields
  FROM store_items
  WHERE store_items.tenant != '~'
  AND NOT (store_items.namespace >= :k_house
    AND store_items.namespace < :k_house_end)) stored
GROUP BY stored.codec, stored.begins, stored.has_words, stored.has_fields

-- rotation.statements.count_vectors(scope=tenant)
SELECT count(*) AS count_1
FROM embeddings
WHERE embeddings.tenant = :k_tenant

-- rotation.statements.count_vectors(scope=all)
SELECT count(*) AS count_1
FROM embeddings
WHERE embeddings.tenant != '~'

-- rotation.statements.drop_vectors(scope=tenant)
DELETE FROM embeddings
WHERE embeddings.tenant = :k_tenant

-- rotation.statements.drop_vectors(scope=all)
DELETE FROM embeddings
WHERE embeddings.tenant != '~'

-- rotation.statements.grow_size()
UPDATE checkpoints
SET stored_size=(checkpoints.stored_size + 45)
WHERE checkpoints.tenant = :k_tenant
AND checkpoints.thread_id = :k_thread_id
AND checkpoints.namespace = :k_namespace
AND checkpoints.seq = :p_seq

-- rotation.statements.list_rows(table=deltas, scope=tenant, after=True)
SELECT deltas.tenant, deltas.thread_id, deltas.namespace, deltas.seq, deltas.codec AS codec, CASE
WHEN (deltas.codec LIKE '%+gcm1') THEN dbms_lob.substr(deltas.payload, 9, 1) END AS begins, CASE
WHEN (deltas.search_text IS NOT NULL) THEN 1
ELSE 0 END AS has_words, 0 AS has_fields, length(deltas.payload) AS stored
FROM deltas
WHERE deltas.tenant = :k_tenant
AND deltas.thread_id >= :p_thread_id
AND (deltas.thread_id > :p_thread_id
  OR deltas.thread_id = :p_thread_id
  AND (deltas.namespace > :p_namespace
    OR deltas.namespace = :p_namespace
    AND deltas.seq > :p_seq))
ORDER BY deltas.tenant, deltas.thread_id, deltas.namespace, deltas.seq
FETCH FIRST :p_limit ROWS ONLY

-- rotation.statements.list_rows(table=deltas, scope=tenant, after=False)
SELECT deltas.tenant, deltas.thread_id, deltas.namespace, deltas.seq, deltas.codec AS codec, CASE
WHEN (deltas.codec LIKE '%+gcm1') THEN dbms_lob.substr(deltas.payload, 9, 1) END AS begins, CASE
WHEN (deltas.search_text IS NOT NULL) THEN 1
ELSE 0 END AS has_words, 0 AS has_fields, length(deltas.payload) AS stored
FROM deltas
WHERE deltas.tenant = :k_tenant
ORDER BY deltas.tenant, deltas.thread_id, deltas.namespace, deltas.seq
FETCH FIRST :p_limit ROWS ONLY

-- rotation.statements.list_rows(table=deltas, scope=all, after=True)
SELECT deltas.tenant, deltas.thread_id, deltas.namespace, deltas.seq, deltas.codec AS codec, CASE
WHEN (deltas.codec LIKE '%+gcm1') THEN dbms_lob.substr(deltas.payload, 9, 1) END AS begins, CASE
WHEN (deltas.search_text IS NOT NULL) THEN 1
ELSE 0 END AS has_words, 0 AS has_fields, length(deltas.payload) AS stored
FROM deltas
WHERE deltas.tenant != '~'
AND deltas.tenant >= :p_tenant
AND (deltas.tenant > :p_tenant
  OR deltas.tenant = :p_tenant
  AND (deltas.thread_id > :p_thread_id
    OR deltas.thread_id = :p_thread_id
    AND (deltas.namespace > :p_namespace
      OR deltas.namespace = :p_namespace
      AND deltas.seq > :p_seq)))
ORDER BY deltas.tenant, deltas.thread_id, deltas.namespace, deltas.seq
FETCH FIRST :p_limit ROWS ONLY

-- rotation.statements.list_rows(table=deltas, scope=all, after=False)
SELECT deltas.tenant, deltas.thread_id, deltas.namespace, deltas.seq, deltas.codec AS codec, CASE
WHEN (deltas.codec LIKE '%+gcm1') THEN dbms_lob.substr(deltas.payload, 9, 1) END AS begins, CASE
WHEN (deltas.search_text IS NOT NULL) THEN 1
ELSE 0 END AS has_words, 0 AS has_fields, length(deltas.payload) AS stored
FROM deltas
WHERE deltas.tenant != '~'
ORDER BY deltas.tenant, deltas.thread_id, deltas.namespace, deltas.seq
FETCH FIRST :p_limit ROWS ONLY

-- rotation.statements.list_rows(table=store_items, scope=tenant, after=True)
SELECT store_items.tenant, store_items.namespace, store_items.key, store_items.codec AS codec, CASE
WHEN (store_items.codec LIKE '%+gcm1') THEN dbms_lob.substr(store_items.value, 9, 1) END AS begins,
  CASE
WHEN (store_items.search_text IS NOT NULL) THEN 1
ELSE 0 END AS has_words, CASE
WHEN (store_items.field_terms IS NOT NULL
  AND length(store_items.field_terms) > 7) THEN 1
ELSE 0 END AS has_fields, length(store_items.value) AS stored
FROM store_items
WHERE store_items.tenant = :k_tenant
AND NOT (store_items.namespace >= :k_house
  AND store_items.namespace < :k_house_end)
AND store_items.namespace >= :p_namespace
AND (store_items.namespace > :p_namespace
  OR store_items.namespace = :p_namespace
  AND store_items.key > :p_key)
ORDER BY store_items.tenant, store_items.namespace, store_items.key
FETCH FIRST :p_limit ROWS ONLY

-- rotation.statements.list_rows(table=store_items, scope=tenant, after=False)
SELECT store_items.tenant, store_items.namespace, store_items.key, store_items.codec AS codec, CASE
WHEN (store_items.codec LIKE '%+gcm1') THEN dbms_lob.substr(store_items.value, 9, 1) END AS begins,
  CASE
WHEN (store_items.search_text IS NOT NULL) THEN 1
ELSE 0 END AS has_words, CASE
WHEN (store_items.field_terms IS NOT NULL
  AND length(store_items.field_terms) > 7) THEN 1
ELSE 0 END AS has_fields, length(store_items.value) AS stored
FROM store_items
WHERE store_items.tenant = :k_tenant
AND NOT (store_items.namespace >= :k_house
  AND store_items.namespace < :k_house_end)
ORDER BY store_items.tenant, store_items.namespace, store_items.key
FETCH FIRST :p_limit ROWS ONLY

-- rotation.statements.list_rows(table=store_items, scope=all, after=True)
SELECT store_items.tenant, store_items.namespace, store_items.key, store_items.codec AS codec, CASE
WHEN (store_items.codec LIKE '%+gcm1') THEN dbms_lob.substr(store_items.value, 9, 1) END AS begins,
  CASE
WHEN (store_items.search_text IS NOT NULL) THEN 1
ELSE 0 END AS has_words, CASE
WHEN (store_items.field_terms IS NOT NULL
  AND length(store_items.field_terms) > 7) THEN 1
ELSE 0 END AS has_fields, length(store_items.value) AS stored
FROM store_items
WHERE store_items.tenant != '~'
AND NOT (store_items.namespace >= :k_house
  AND store_items.namespace < :k_house_end)
AND store_items.tenant >= :p_tenant
AND (store_items.tenant > :p_tenant
  OR store_items.tenant = :p_tenant
  AND (store_items.namespace > :p_namespace
    OR store_items.namespace = :p_namespace
    AND store_items.key > :p_key))
ORDER BY store_items.tenant, store_items.namespace, store_items.key
FETCH FIRST :p_limit ROWS ONLY

-- rotation.statements.list_rows(table=store_items, scope=all, after=False)
SELECT store_items.tenant, store_items.namespace, store_items.key, store_items.codec AS codec, CASE
WHEN (store_items.codec LIKE '%+gcm1') THEN dbms_lob.substr(store_items.value, 9, 1) END AS begins,
  CASE
WHEN (store_items.search_text IS NOT NULL) THEN 1
ELSE 0 END AS has_words, CASE
WHEN (store_items.field_terms IS NOT NULL
  AND length(store_items.field_terms) > 7) THEN 1
ELSE 0 END AS has_fields, length(store_items.value) AS stored
FROM store_items
WHERE store_items.tenant != '~'
AND NOT (store_items.namespace >= :k_house
  AND store_items.namespace < :k_house_end)
ORDER BY store_items.tenant, store_items.namespace, store_items.key
FETCH FIRST :p_limit ROWS ONLY

-- rotation.statements.read_payloads()
SELECT deltas.seq, deltas.codec, deltas.checksum, deltas.payload
FROM deltas
WHERE deltas.tenant = :k_tenant
AND deltas.thread_id = :k_thread_id
AND deltas.namespace = :k_namespace
AND deltas.seq >= :p_low
AND deltas.seq <= :p_high
ORDER BY deltas.seq

-- rotation.statements.read_values()
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

-- rotation.statements.reseal_delta(words=kept)
UPDATE deltas
SET codec=:p_codec, checksum=:p_checksum, payload=:p_payload
WHERE deltas.tenant = :k_tenant
AND deltas.thread_id = :k_thread_id
AND deltas.namespace = :k_namespace
AND deltas.seq = :p_seq
AND deltas.codec = :p_was_codec
AND deltas.checksum = :p_was_checksum

-- rotation.statements.reseal_delta(words=dropped)
UPDATE deltas
SET codec=:p_codec, checksum=:p_checksum, search_text=NULL, payload=:p_payload
WHERE deltas.tenant = :k_tenant
AND deltas.thread_id = :k_thread_id
AND deltas.namespace = :k_namespace
AND deltas.seq = :p_seq
AND deltas.codec = :p_was_codec
AND deltas.checksum = :p_was_checksum

-- rotation.statements.reseal_item(words=kept, fields=kept)
UPDATE store_items
SET codec=:p_codec, checksum=:p_checksum, value=:p_value
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND store_items.key = :k_key
AND store_items.version = :p_version
AND store_items.codec = :p_was_codec
AND store_items.checksum = :p_was_checksum

-- rotation.statements.reseal_item(words=kept, fields=dropped)
UPDATE store_items
SET codec=:p_codec, checksum=:p_checksum, field_terms=:p_field_terms, value=:p_value
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND store_items.key = :k_key
AND store_items.version = :p_version
AND store_items.codec = :p_was_codec
AND store_items.checksum = :p_was_checksum

-- rotation.statements.reseal_item(words=dropped, fields=kept)
UPDATE store_items
SET codec=:p_codec, checksum=:p_checksum, search_text=NULL, value=:p_value
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND store_items.key = :k_key
AND store_items.version = :p_version
AND store_items.codec = :p_was_codec
AND store_items.checksum = :p_was_checksum

-- rotation.statements.reseal_item(words=dropped, fields=dropped)
UPDATE store_items
SET codec=:p_codec, checksum=:p_checksum, search_text=NULL, field_terms=:p_field_terms,
  value=:p_value
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND store_items.key = :k_key
AND store_items.version = :p_version
AND store_items.codec = :p_was_codec
AND store_items.checksum = :p_was_checksum

-- search.checkpoints.read_found_checkpoints()
SELECT checkpoints.thread_id, checkpoints.checkpoint_id, checkpoints.parent_id, checkpoints.seq,
  checkpoints.meta, checkpoints.created_at, checkpoints.raw_size, checkpoints.stored_size,
  checkpoints.occurred_at, checkpoints.namespace, deltas.search_text
FROM checkpoints
JOIN deltas ON deltas.tenant = checkpoints.tenant
AND deltas.thread_id = checkpoints.thread_id
AND deltas.namespace = checkpoints.namespace
AND deltas.seq = checkpoints.seq
WHERE checkpoints.tenant = :k_tenant
AND (checkpoints.thread_id, checkpoints.namespace, checkpoints.seq) IN (
  SELECT listed.thread_id, listed.namespace, CAST(listed.seq AS NUMBER(19)) AS seq
  FROM (
    SELECT each_.thread_id, each_.namespace, each_.seq
    FROM JSON_TABLE(:p_keys, '$[*]' COLUMNS (thread_id VARCHAR2(4000) PATH '$[0]',
          namespace VARCHAR2(4000) PATH '$[1]', seq VARCHAR2(4000) PATH '$[2]')) each_) listed)

-- search.checkpoints.search_checkpoints(below=False, weighed=False)
WITH hits AS (
  SELECT terms.term AS term, deltas.tenant AS tenant, deltas.thread_id AS thread_id,
    deltas.namespace AS namespace, deltas.seq AS seq
  FROM (
    SELECT listed.term
    FROM JSON_TABLE(:terms, '$[*]' COLUMNS (term VARCHAR2(4000) PATH '$')) listed) terms
  JOIN deltas ON contains(deltas.search_text, terms.term) > :contains_1
  WHERE deltas.tenant = :k_tenant
  AND deltas.namespace = :k_namespace),
found AS (
  SELECT hits.term AS term, count(*) AS occurrences
  FROM hits
  GROUP BY hits.term),
worth AS (
  SELECT found.term AS term, CASE
  WHEN (found.occurrences < 2) THEN 20
  WHEN (found.occurrences < 4) THEN 19
  WHEN (found.occurrences < 8) THEN 18
  WHEN (found.occurrences < 16) THEN 17
  WHEN (found.occurrences < 32) THEN 16
  WHEN (found.occurrences < 64) THEN 15
  WHEN (found.occurrences < 128) THEN 14
  WHEN (found.occurrences < 256) THEN 13
  WHEN (found.occurrences < 512) THEN 12
  WHEN (found.occurrences < 1024) THEN 11
  WHEN (found.occurrences < 2048) THEN 10
  WHEN (found.occurrences < 4096) THEN 9
  WHEN (found.occurrences < 8192) THEN 8
  WHEN (found.occurrences < 16384) THEN 7
  WHEN (found.occurrences < 32768) THEN 6
  WHEN (found.occurrences < 65536) THEN 5
  WHEN (found.occurrences < 131072) THEN 4
  WHEN (found.occurrences < 262144) THEN 3
  WHEN (found.occurrences < 524288) THEN 2
  WHEN (found.occurrences < 1048576) THEN 1
  ELSE 1 END AS bits
  FROM found),
ranked AS (
  SELECT hits.tenant AS tenant, hits.thread_id AS thread_id, hits.namespace AS namespace,
    hits.seq AS seq, sum(worth.bits) AS bits
  FROM hits
  JOIN worth ON worth.term = hits.term
  GROUP BY hits.tenant, hits.thread_id, hits.namespace, hits.seq),
best AS (
  SELECT checkpoints.tenant AS tenant, checkpoints.thread_id AS thread_id,
    checkpoints.namespace AS namespace, checkpoints.seq AS seq, checkpoints.created_at AS created_at,
    ranked.bits AS bits
  FROM ranked
  JOIN checkpoints ON checkpoints.tenant = ranked.tenant
  AND checkpoints.thread_id = ranked.thread_id
  AND checkpoints.namespace = ranked.namespace
  AND checkpoints.seq = ranked.seq
  JOIN threads ON threads.tenant = ranked.tenant
  AND threads.thread_id = ranked.thread_id
  AND threads.namespace = ranked.namespace
  WHERE threads.deleted_at IS NULL
  AND (threads.expires_at IS NULL
    OR threads.expires_at > :p_now)
  ORDER BY ranked.bits DESC, checkpoints.created_at DESC, checkpoints.thread_id DESC,
    checkpoints.namespace DESC, checkpoints.seq DESC
  OFFSET :p_offset ROWS
  FETCH FIRST :p_limit ROWS ONLY)
SELECT best.thread_id, best.namespace, best.seq, CAST(best.bits AS FLOAT) / CAST((
    SELECT coalesce(sum(worth.bits), 0) + 20 * (:p_terms - count(*)) AS anon_1
    FROM worth) AS FLOAT) AS score
FROM best
ORDER BY best.bits DESC, best.created_at DESC, best.thread_id DESC, best.namespace DESC,
  best.seq DESC

-- search.checkpoints.search_checkpoints(below=False, weighed=True)
WITH hits AS (
  SELECT terms.term AS term, deltas.tenant AS tenant, deltas.thread_id AS thread_id,
    deltas.namespace AS namespace, deltas.seq AS seq
  FROM (
    SELECT listed.term
    FROM JSON_TABLE(:terms, '$[*]' COLUMNS (term VARCHAR2(4000) PATH '$')) listed) terms
  JOIN deltas ON contains(deltas.search_text, terms.term) > :contains_1
  WHERE deltas.tenant = :k_tenant
  AND deltas.namespace = :k_namespace),
found AS (
  SELECT hits.term AS term, count(*) AS occurrences
  FROM hits
  GROUP BY hits.term),
worth AS (
  SELECT found.term AS term, CASE
  WHEN (found.occurrences < 2) THEN 20
  WHEN (found.occurrences < 4) THEN 19
  WHEN (found.occurrences < 8) THEN 18
  WHEN (found.occurrences < 16) THEN 17
  WHEN (found.occurrences < 32) THEN 16
  WHEN (found.occurrences < 64) THEN 15
  WHEN (found.occurrences < 128) THEN 14
  WHEN (found.occurrences < 256) THEN 13
  WHEN (found.occurrences < 512) THEN 12
  WHEN (found.occurrences < 1024) THEN 11
  WHEN (found.occurrences < 2048) THEN 10
  WHEN (found.occurrences < 4096) THEN 9
  WHEN (found.occurrences < 8192) THEN 8
  WHEN (found.occurrences < 16384) THEN 7
  WHEN (found.occurrences < 32768) THEN 6
  WHEN (found.occurrences < 65536) THEN 5
  WHEN (found.occurrences < 131072) THEN 4
  WHEN (found.occurrences < 262144) THEN 3
  WHEN (found.occurrences < 524288) THEN 2
  WHEN (found.occurrences < 1048576) THEN 1
  ELSE 1 END AS bits
  FROM found),
ranked AS (
  SELECT hits.tenant AS tenant, hits.thread_id AS thread_id, hits.namespace AS namespace,
    hits.seq AS seq, sum(worth.bits) AS bits
  FROM hits
  JOIN worth ON worth.term = hits.term
  GROUP BY hits.tenant, hits.thread_id, hits.namespace, hits.seq),
best AS (
  SELECT checkpoints.tenant AS tenant, checkpoints.thread_id AS thread_id,
    checkpoints.namespace AS namespace, checkpoints.seq AS seq, checkpoints.created_at AS created_at,
    ranked.bits AS bits
  FROM ranked
  JOIN checkpoints ON checkpoints.tenant = ranked.tenant
  AND checkpoints.thread_id = ranked.thread_id
  AND checkpoints.namespace = ranked.namespace
  AND checkpoints.seq = ranked.seq
  JOIN threads ON threads.tenant = ranked.tenant
  AND threads.thread_id = ranked.thread_id
  AND threads.namespace = ranked.namespace
  WHERE threads.deleted_at IS NULL
  AND (threads.expires_at IS NULL
    OR threads.expires_at > :p_now)
  ORDER BY ranked.bits DESC, checkpoints.created_at DESC, checkpoints.thread_id DESC,
    checkpoints.namespace DESC, checkpoints.seq DESC
  OFFSET :p_offset ROWS
  FETCH FIRST :p_limit ROWS ONLY)
SELECT best.thread_id, checkpoints.checkpoint_id, checkpoints.parent_id, best.seq,
  checkpoints.meta, checkpoints.created_at, checkpoints.raw_size, checkpoints.stored_size,
  checkpoints.occurred_at, best.namespace, CAST(best.bits AS FLOAT) / CAST((
    SELECT coalesce(sum(worth.bits), 0) + 20 * (:p_terms - count(*)) AS anon_1
    FROM worth) AS FLOAT) AS score, substr(words.search_text, 1, 8000) AS opening, deltas.search_text
FROM best
JOIN deltas words ON words.tenant = best.tenant
AND words.thread_id = best.thread_id
AND words.namespace = best.namespace
AND words.seq = best.seq LEFT OUTER
JOIN checkpoints ON checkpoints.tenant = best.tenant
AND checkpoints.thread_id = best.thread_id
AND checkpoints.namespace = best.namespace
AND checkpoints.seq = best.seq
AND (
  SELECT count(*) AS count_1
  FROM best) <= 50 LEFT OUTER
JOIN deltas ON deltas.tenant = best.tenant
AND deltas.thread_id = best.thread_id
AND deltas.namespace = best.namespace
AND deltas.seq = best.seq
AND (
  SELECT count(*) AS count_2
  FROM best) <= 50
ORDER BY best.bits DESC, best.created_at DESC, best.thread_id DESC, best.namespace DESC,
  best.seq DESC

-- search.checkpoints.search_checkpoints(below=True, weighed=False)
WITH hits AS (
  SELECT terms.term AS term, deltas.tenant AS tenant, deltas.thread_id AS thread_id,
    deltas.namespace AS namespace, deltas.seq AS seq
  FROM (
    SELECT listed.term
    FROM JSON_TABLE(:terms, '$[*]' COLUMNS (term VARCHAR2(4000) PATH '$')) listed) terms
  JOIN deltas ON contains(deltas.search_text, terms.term) > :contains_1
  WHERE deltas.tenant = :k_tenant
  AND deltas.namespace >= :k_namespace
  AND deltas.namespace < :k_beyond),
found AS (
  SELECT hits.term AS term, count(*) AS occurrences
  FROM hits
  GROUP BY hits.term),
worth AS (
  SELECT found.term AS term, CASE
  WHEN (found.occurrences < 2) THEN 20
  WHEN (found.occurrences < 4) THEN 19
  WHEN (found.occurrences < 8) THEN 18
  WHEN (found.occurrences < 16) THEN 17
  WHEN (found.occurrences < 32) THEN 16
  WHEN (found.occurrences < 64) THEN 15
  WHEN (found.occurrences < 128) THEN 14
  WHEN (found.occurrences < 256) THEN 13
  WHEN (found.occurrences < 512) THEN 12
  WHEN (found.occurrences < 1024) THEN 11
  WHEN (found.occurrences < 2048) THEN 10
  WHEN (found.occurrences < 4096) THEN 9
  WHEN (found.occurrences < 8192) THEN 8
  WHEN (found.occurrences < 16384) THEN 7
  WHEN (found.occurrences < 32768) THEN 6
  WHEN (found.occurrences < 65536) THEN 5
  WHEN (found.occurrences < 131072) THEN 4
  WHEN (found.occurrences < 262144) THEN 3
  WHEN (found.occurrences < 524288) THEN 2
  WHEN (found.occurrences < 1048576) THEN 1
  ELSE 1 END AS bits
  FROM found),
ranked AS (
  SELECT hits.tenant AS tenant, hits.thread_id AS thread_id, hits.namespace AS namespace,
    hits.seq AS seq, sum(worth.bits) AS bits
  FROM hits
  JOIN worth ON worth.term = hits.term
  GROUP BY hits.tenant, hits.thread_id, hits.namespace, hits.seq),
best AS (
  SELECT checkpoints.tenant AS tenant, checkpoints.thread_id AS thread_id,
    checkpoints.namespace AS namespace, checkpoints.seq AS seq, checkpoints.created_at AS created_at,
    ranked.bits AS bits
  FROM ranked
  JOIN checkpoints ON checkpoints.tenant = ranked.tenant
  AND checkpoints.thread_id = ranked.thread_id
  AND checkpoints.namespace = ranked.namespace
  AND checkpoints.seq = ranked.seq
  JOIN threads ON threads.tenant = ranked.tenant
  AND threads.thread_id = ranked.thread_id
  AND threads.namespace = ranked.namespace
  WHERE threads.deleted_at IS NULL
  AND (threads.expires_at IS NULL
    OR threads.expires_at > :p_now)
  ORDER BY ranked.bits DESC, checkpoints.created_at DESC, checkpoints.thread_id DESC,
    checkpoints.namespace DESC, checkpoints.seq DESC
  OFFSET :p_offset ROWS
  FETCH FIRST :p_limit ROWS ONLY)
SELECT best.thread_id, best.namespace, best.seq, CAST(best.bits AS FLOAT) / CAST((
    SELECT coalesce(sum(worth.bits), 0) + 20 * (:p_terms - count(*)) AS anon_1
    FROM worth) AS FLOAT) AS score
FROM best
ORDER BY best.bits DESC, best.created_at DESC, best.thread_id DESC, best.namespace DESC,
  best.seq DESC

-- search.checkpoints.search_checkpoints(below=True, weighed=True)
WITH hits AS (
  SELECT terms.term AS term, deltas.tenant AS tenant, deltas.thread_id AS thread_id,
    deltas.namespace AS namespace, deltas.seq AS seq
  FROM (
    SELECT listed.term
    FROM JSON_TABLE(:terms, '$[*]' COLUMNS (term VARCHAR2(4000) PATH '$')) listed) terms
  JOIN deltas ON contains(deltas.search_text, terms.term) > :contains_1
  WHERE deltas.tenant = :k_tenant
  AND deltas.namespace >= :k_namespace
  AND deltas.namespace < :k_beyond),
found AS (
  SELECT hits.term AS term, count(*) AS occurrences
  FROM hits
  GROUP BY hits.term),
worth AS (
  SELECT found.term AS term, CASE
  WHEN (found.occurrences < 2) THEN 20
  WHEN (found.occurrences < 4) THEN 19
  WHEN (found.occurrences < 8) THEN 18
  WHEN (found.occurrences < 16) THEN 17
  WHEN (found.occurrences < 32) THEN 16
  WHEN (found.occurrences < 64) THEN 15
  WHEN (found.occurrences < 128) THEN 14
  WHEN (found.occurrences < 256) THEN 13
  WHEN (found.occurrences < 512) THEN 12
  WHEN (found.occurrences < 1024) THEN 11
  WHEN (found.occurrences < 2048) THEN 10
  WHEN (found.occurrences < 4096) THEN 9
  WHEN (found.occurrences < 8192) THEN 8
  WHEN (found.occurrences < 16384) THEN 7
  WHEN (found.occurrences < 32768) THEN 6
  WHEN (found.occurrences < 65536) THEN 5
  WHEN (found.occurrences < 131072) THEN 4
  WHEN (found.occurrences < 262144) THEN 3
  WHEN (found.occurrences < 524288) THEN 2
  WHEN (found.occurrences < 1048576) THEN 1
  ELSE 1 END AS bits
  FROM found),
ranked AS (
  SELECT hits.tenant AS tenant, hits.thread_id AS thread_id, hits.namespace AS namespace,
    hits.seq AS seq, sum(worth.bits) AS bits
  FROM hits
  JOIN worth ON worth.term = hits.term
  GROUP BY hits.tenant, hits.thread_id, hits.namespace, hits.seq),
best AS (
  SELECT checkpoints.tenant AS tenant, checkpoints.thread_id AS thread_id,
    checkpoints.namespace AS namespace, checkpoints.seq AS seq, checkpoints.created_at AS created_at,
    ranked.bits AS bits
  FROM ranked
  JOIN checkpoints ON checkpoints.tenant = ranked.tenant
  AND checkpoints.thread_id = ranked.thread_id
  AND checkpoints.namespace = ranked.namespace
  AND checkpoints.seq = ranked.seq
  JOIN threads ON threads.tenant = ranked.tenant
  AND threads.thread_id = ranked.thread_id
  AND threads.namespace = ranked.namespace
  WHERE threads.deleted_at IS NULL
  AND (threads.expires_at IS NULL
    OR threads.expires_at > :p_now)
  ORDER BY ranked.bits DESC, checkpoints.created_at DESC, checkpoints.thread_id DESC,
    checkpoints.namespace DESC, checkpoints.seq DESC
  OFFSET :p_offset ROWS
  FETCH FIRST :p_limit ROWS ONLY)
SELECT best.thread_id, checkpoints.checkpoint_id, checkpoints.parent_id, best.seq,
  checkpoints.meta, checkpoints.created_at, checkpoints.raw_size, checkpoints.stored_size,
  checkpoints.occurred_at, best.namespace, CAST(best.bits AS FLOAT) / CAST((
    SELECT coalesce(sum(worth.bits), 0) + 20 * (:p_terms - count(*)) AS anon_1
    FROM worth) AS FLOAT) AS score, substr(words.search_text, 1, 8000) AS opening, deltas.search_text
FROM best
JOIN deltas words ON words.tenant = best.tenant
AND words.thread_id = best.thread_id
AND words.namespace = best.namespace
AND words.seq = best.seq LEFT OUTER
JOIN checkpoints ON checkpoints.tenant = best.tenant
AND checkpoints.thread_id = best.thread_id
AND checkpoints.namespace = best.namespace
AND checkpoints.seq = best.seq
AND (
  SELECT count(*) AS count_1
  FROM best) <= 50 LEFT OUTER
JOIN deltas ON deltas.tenant = best.tenant
AND deltas.thread_id = best.thread_id
AND deltas.namespace = best.namespace
AND deltas.seq = best.seq
AND (
  SELECT count(*) AS count_2
  FROM best) <= 50
ORDER BY best.bits DESC, best.created_at DESC, best.thread_id DESC, best.namespace DESC,
  best.seq DESC

-- search.embeddings.count_vectors(below=False)
SELECT count(*) AS count_1
FROM (
  SELECT 1 AS one
  FROM embeddings
  WHERE embeddings.tenant = :k_tenant
  AND embeddings.namespace = :k_namespace
  AND embeddings.model = :p_model
  AND embeddings.dimensions = :p_dimensions
  FETCH FIRST :p_limit ROWS ONLY) some_vectors

-- search.embeddings.count_vectors(below=True)
SELECT count(*) AS count_1
FROM (
  SELECT 1 AS one
  FROM embeddings
  WHERE embeddings.tenant = :k_tenant
  AND embeddings.namespace >= :k_namespace
  AND embeddings.namespace < :k_beyond
  AND NOT (embeddings.namespace >= :k_house
    AND embeddings.namespace < :k_house_end)
  AND embeddings.model = :p_model
  AND embeddings.dimensions = :p_dimensions
  FETCH FIRST :p_limit ROWS ONLY) some_vectors

-- search.embeddings.rank_all(metric=cosine, below=False, among=False)
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
  store_items.lifetime, CASE
WHEN (length(store_items.value) <= :p_longest) THEN store_items.value END AS value
FROM near
JOIN store_items ON store_items.tenant = :k_tenant
AND store_items.namespace = near.namespace
AND store_items.key = near.key

-- search.embeddings.rank_all(metric=cosine, below=True, among=False)
WITH near AS (
  SELECT embeddings.namespace AS namespace, embeddings.key AS key, embeddings.field AS field,
    embeddings.part AS part, vector_distance(embeddings.vector, :p_vector, COSINE) AS distance
  FROM embeddings
  WHERE embeddings.tenant = :k_tenant
  AND embeddings.namespace >= :k_namespace
  AND embeddings.namespace < :k_beyond
  AND NOT (embeddings.namespace >= :k_house
    AND embeddings.namespace < :k_house_end)
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
  store_items.lifetime, CASE
WHEN (length(store_items.value) <= :p_longest) THEN store_items.value END AS value
FROM near
JOIN store_items ON store_items.tenant = :k_tenant
AND store_items.namespace = near.namespace
AND store_items.key = near.key

-- search.embeddings.rank_all(metric=dot, below=False, among=False)
WITH near AS (
  SELECT embeddings.namespace AS namespace, embeddings.key AS key, embeddings.field AS field,
    embeddings.part AS part, vector_distance(embeddings.vector, :p_vector, DOT) AS distance
  FROM embeddings
  WHERE embeddings.tenant = :k_tenant
  AND embeddings.namespace = :k_namespace
  AND embeddings.model = :p_model
  AND embeddings.dimensions = :p_dimensions
  ORDER BY vector_distance(embeddings.vector, :p_vector, DOT), embeddings.namespace, embeddings.key,
    embeddings.field, embeddings.part
  FETCH FIRST :p_limit ROWS ONLY)
SELECT near.namespace, near.key, near.field, near.part, near.distance, CASE
WHEN (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now) THEN 1
ELSE 0 END AS alive, store_items.meta, store_items.version, store_items.codec,
  store_items.checksum, store_items.created_at, store_items.updated_at, store_items.expires_at,
  store_items.lifetime, CASE
WHEN (length(store_items.value) <= :p_longest) THEN store_items.value END AS value
FROM near
JOIN store_items ON store_items.tenant = :k_tenant
AND store_items.namespace = near.namespace
AND store_items.key = near.key

-- search.embeddings.rank_all(metric=dot, below=True, among=False)
WITH near AS (
  SELECT embeddings.namespace AS namespace, embeddings.key AS key, embeddings.field AS field,
    embeddings.part AS part, vector_distance(embeddings.vector, :p_vector, DOT) AS distance
  FROM embeddings
  WHERE embeddings.tenant = :k_tenant
  AND embeddings.namespace >= :k_namespace
  AND embeddings.namespace < :k_beyond
  AND NOT (embeddings.namespace >= :k_house
    AND embeddings.namespace < :k_house_end)
  AND embeddings.model = :p_model
  AND embeddings.dimensions = :p_dimensions
  ORDER BY vector_distance(embeddings.vector, :p_vector, DOT), embeddings.namespace, embeddings.key,
    embeddings.field, embeddings.part
  FETCH FIRST :p_limit ROWS ONLY)
SELECT near.namespace, near.key, near.field, near.part, near.distance, CASE
WHEN (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now) THEN 1
ELSE 0 END AS alive, store_items.meta, store_items.version, store_items.codec,
  store_items.checksum, store_items.created_at, store_items.updated_at, store_items.expires_at,
  store_items.lifetime, CASE
WHEN (length(store_items.value) <= :p_longest) THEN store_items.value END AS value
FROM near
JOIN store_items ON store_items.tenant = :k_tenant
AND store_items.namespace = near.namespace
AND store_items.key = near.key

-- search.embeddings.rank_all(metric=l2, below=False, among=False)
WITH near AS (
  SELECT embeddings.namespace AS namespace, embeddings.key AS key, embeddings.field AS field,
    embeddings.part AS part, vector_distance(embeddings.vector, :p_vector, EUCLIDEAN) AS distance
  FROM embeddings
  WHERE embeddings.tenant = :k_tenant
  AND embeddings.namespace = :k_namespace
  AND embeddings.model = :p_model
  AND embeddings.dimensions = :p_dimensions
  ORDER BY vector_distance(embeddings.vector, :p_vector, EUCLIDEAN), embeddings.namespace,
    embeddings.key, embeddings.field, embeddings.part
  FETCH FIRST :p_limit ROWS ONLY)
SELECT near.namespace, near.key, near.field, near.part, near.distance, CASE
WHEN (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now) THEN 1
ELSE 0 END AS alive, store_items.meta, store_items.version, store_items.codec,
  store_items.checksum, store_items.created_at, store_items.updated_at, store_items.expires_at,
  store_items.lifetime, CASE
WHEN (length(store_items.value) <= :p_longest) THEN store_items.value END AS value
FROM near
JOIN store_items ON store_items.tenant = :k_tenant
AND store_items.namespace = near.namespace
AND store_items.key = near.key

-- search.embeddings.rank_all(metric=l2, below=True, among=False)
WITH near AS (
  SELECT embeddings.namespace AS namespace, embeddings.key AS key, embeddings.field AS field,
    embeddings.part AS part, vector_distance(embeddings.vector, :p_vector, EUCLIDEAN) AS distance
  FROM embeddings
  WHERE embeddings.tenant = :k_tenant
  AND embeddings.namespace >= :k_namespace
  AND embeddings.namespace < :k_beyond
  AND NOT (embeddings.namespace >= :k_house
    AND embeddings.namespace < :k_house_end)
  AND embeddings.model = :p_model
  AND embeddings.dimensions = :p_dimensions
  ORDER BY vector_distance(embeddings.vector, :p_vector, EUCLIDEAN), embeddings.namespace,
    embeddings.key, embeddings.field, embeddings.part
  FETCH FIRST :p_limit ROWS ONLY)
SELECT near.namespace, near.key, near.field, near.part, near.distance, CASE
WHEN (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now) THEN 1
ELSE 0 END AS alive, store_items.meta, store_items.version, store_items.codec,
  store_items.checksum, store_items.created_at, store_items.updated_at, store_items.expires_at,
  store_items.lifetime, CASE
WHEN (length(store_items.value) <= :p_longest) THEN store_items.value END AS value
FROM near
JOIN store_items ON store_items.tenant = :k_tenant
AND store_items.namespace = near.namespace
AND store_items.key = near.key

-- search.entries.read_found_entries()
SELECT deltas.thread_id, deltas.namespace, deltas.seq, deltas.entry_key, deltas.occurred_at,
  deltas.stored_at, deltas.codec, deltas.checksum, deltas.search_text, deltas.payload
FROM deltas
WHERE deltas.tenant = :k_tenant
AND (deltas.thread_id, deltas.namespace, deltas.seq) IN (
  SELECT listed.thread_id, listed.namespace, CAST(listed.seq AS NUMBER(19)) AS seq
  FROM (
    SELECT each_.thread_id, each_.namespace, each_.seq
    FROM JSON_TABLE(:p_keys, '$[*]' COLUMNS (thread_id VARCHAR2(4000) PATH '$[0]',
          namespace VARCHAR2(4000) PATH '$[1]', seq VARCHAR2(4000) PATH '$[2]')) each_) listed)
AND deltas.kind IN ('entry')

-- search.entries.search_entries(scope=namespace, weighed=False)
WITH hits AS (
  SELECT terms.term AS term, deltas.tenant AS tenant, deltas.thread_id AS thread_id,
    deltas.namespace AS namespace, deltas.seq AS seq
  FROM (
    SELECT listed.term
    FROM JSON_TABLE(:terms, '$[*]' COLUMNS (term VARCHAR2(4000) PATH '$')) listed) terms
  JOIN deltas ON contains(deltas.search_text, terms.term) > :contains_1
  WHERE deltas.tenant = :k_tenant
  AND deltas.namespace = :k_namespace),
found AS (
  SELECT hits.term AS term, count(*) AS occurrences
  FROM hits
  GROUP BY hits.term),
worth AS (
  SELECT found.term AS term, CASE
  WHEN (found.occurrences < 2) THEN 20
  WHEN (found.occurrences < 4) THEN 19
  WHEN (found.occurrences < 8) THEN 18
  WHEN (found.occurrences < 16) THEN 17
  WHEN (found.occurrences < 32) THEN 16
  WHEN (found.occurrences < 64) THEN 15
  WHEN (found.occurrences < 128) THEN 14
  WHEN (found.occurrences < 256) THEN 13
  WHEN (found.occurrences < 512) THEN 12
  WHEN (found.occurrences < 1024) THEN 11
  WHEN (found.occurrences < 2048) THEN 10
  WHEN (found.occurrences < 4096) THEN 9
  WHEN (found.occurrences < 8192) THEN 8
  WHEN (found.occurrences < 16384) THEN 7
  WHEN (found.occurrences < 32768) THEN 6
  WHEN (found.occurrences < 65536) THEN 5
  WHEN (found.occurrences < 131072) THEN 4
  WHEN (found.occurrences < 262144) THEN 3
  WHEN (found.occurrences < 524288) THEN 2
  WHEN (found.occurrences < 1048576) THEN 1
  ELSE 1 END AS bits
  FROM found),
ranked AS (
  SELECT hits.tenant AS tenant, hits.thread_id AS thread_id, hits.namespace AS namespace,
    hits.seq AS seq, sum(worth.bits) AS bits
  FROM hits
  JOIN worth ON worth.term = hits.term
  GROUP BY hits.tenant, hits.thread_id, hits.namespace, hits.seq),
best AS (
  SELECT deltas.tenant AS tenant, deltas.thread_id AS thread_id, deltas.namespace AS namespace,
    deltas.seq AS seq, deltas.stored_at AS stored_at, ranked.bits AS bits
  FROM ranked
  JOIN deltas ON deltas.tenant = ranked.tenant
  AND deltas.thread_id = ranked.thread_id
  AND deltas.namespace = ranked.namespace
  AND deltas.seq = ranked.seq
  JOIN threads ON threads.tenant = ranked.tenant
  AND threads.thread_id = ranked.thread_id
  AND threads.namespace = ranked.namespace
  WHERE threads.deleted_at IS NULL
  AND (threads.expires_at IS NULL
    OR threads.expires_at > :p_now)
  AND deltas.kind IN ('entry')
  ORDER BY ranked.bits DESC, deltas.stored_at DESC, deltas.seq DESC, deltas.thread_id DESC
  OFFSET :p_offset ROWS
  FETCH FIRST :p_limit ROWS ONLY)
SELECT best.thread_id, best.namespace, best.seq, CAST(best.bits AS FLOAT) / CAST((
    SELECT coalesce(sum(worth.bits), 0) + 20 * (:p_terms - count(*)) AS anon_1
    FROM worth) AS FLOAT) AS score
FROM best
ORDER BY best.bits DESC, best.stored_at DESC, best.seq DESC, best.thread_id DESC

-- search.entries.search_entries(scope=namespace, weighed=True)
WITH hits AS (
  SELECT terms.term AS term, deltas.tenant AS tenant, deltas.thread_id AS thread_id,
    deltas.namespace AS namespace, deltas.seq AS seq
  FROM (
    SELECT listed.term
    FROM JSON_TABLE(:terms, '$[*]' COLUMNS (term VARCHAR2(4000) PATH '$')) listed) terms
  JOIN deltas ON contains(deltas.search_text, terms.term) > :contains_1
  WHERE deltas.tenant = :k_tenant
  AND deltas.namespace = :k_namespace),
found AS (
  SELECT hits.term AS term, count(*) AS occurrences
  FROM hits
  GROUP BY hits.term),
worth AS (
  SELECT found.term AS term, CASE
  WHEN (found.occurrences < 2) THEN 20
  WHEN (found.occurrences < 4) THEN 19
  WHEN (found.occurrences < 8) THEN 18
  WHEN (found.occurrences < 16) THEN 17
  WHEN (found.occurrences < 32) THEN 16
  WHEN (found.occurrences < 64) THEN 15
  WHEN (found.occurrences < 128) THEN 14
  WHEN (found.occurrences < 256) THEN 13
  WHEN (found.occurrences < 512) THEN 12
  WHEN (found.occurrences < 1024) THEN 11
  WHEN (found.occurrences < 2048) THEN 10
  WHEN (found.occurrences < 4096) THEN 9
  WHEN (found.occurrences < 8192) THEN 8
  WHEN (found.occurrences < 16384) THEN 7
  WHEN (found.occurrences < 32768) THEN 6
  WHEN (found.occurrences < 65536) THEN 5
  WHEN (found.occurrences < 131072) THEN 4
  WHEN (found.occurrences < 262144) THEN 3
  WHEN (found.occurrences < 524288) THEN 2
  WHEN (found.occurrences < 1048576) THEN 1
  ELSE 1 END AS bits
  FROM found),
ranked AS (
  SELECT hits.tenant AS tenant, hits.thread_id AS thread_id, hits.namespace AS namespace,
    hits.seq AS seq, sum(worth.bits) AS bits
  FROM hits
  JOIN worth ON worth.term = hits.term
  GROUP BY hits.tenant, hits.thread_id, hits.namespace, hits.seq),
best AS (
  SELECT deltas.tenant AS tenant, deltas.thread_id AS thread_id, deltas.namespace AS namespace,
    deltas.seq AS seq, deltas.stored_at AS stored_at, ranked.bits AS bits
  FROM ranked
  JOIN deltas ON deltas.tenant = ranked.tenant
  AND deltas.thread_id = ranked.thread_id
  AND deltas.namespace = ranked.namespace
  AND deltas.seq = ranked.seq
  JOIN threads ON threads.tenant = ranked.tenant
  AND threads.thread_id = ranked.thread_id
  AND threads.namespace = ranked.namespace
  WHERE threads.deleted_at IS NULL
  AND (threads.expires_at IS NULL
    OR threads.expires_at > :p_now)
  AND deltas.kind IN ('entry')
  ORDER BY ranked.bits DESC, deltas.stored_at DESC, deltas.seq DESC, deltas.thread_id DESC
  OFFSET :p_offset ROWS
  FETCH FIRST :p_limit ROWS ONLY)
SELECT best.thread_id, best.namespace, best.seq, CAST(best.bits AS FLOAT) / CAST((
    SELECT coalesce(sum(worth.bits), 0) + 20 * (:p_terms - count(*)) AS anon_1
    FROM worth) AS FLOAT) AS score, substr(deltas.search_text, 1, 8000) AS opening, whole.entry_key,
  whole.occurred_at, whole.stored_at, whole.codec, whole.checksum, whole.search_text, whole.payload
FROM best
JOIN deltas ON deltas.tenant = best.tenant
AND deltas.thread_id = best.thread_id
AND deltas.namespace = best.namespace
AND deltas.seq = best.seq LEFT OUTER
JOIN deltas whole ON whole.tenant = best.tenant
AND whole.thread_id = best.thread_id
AND whole.namespace = best.namespace
AND whole.seq = best.seq
AND (
  SELECT count(*) AS count_1
  FROM best) <= 50
ORDER BY best.bits DESC, best.stored_at DESC, best.seq DESC, best.thread_id DESC

-- search.entries.search_entries(scope=log, weighed=False)
WITH hits AS (
  SELECT terms.term AS term, deltas.tenant AS tenant, deltas.thread_id AS thread_id,
    deltas.namespace AS namespace, deltas.seq AS seq
  FROM (
    SELECT listed.term
    FROM JSON_TABLE(:terms, '$[*]' COLUMNS (term VARCHAR2(4000) PATH '$')) listed) terms
  JOIN deltas ON contains(deltas.search_text, terms.term) > :contains_1
  WHERE deltas.tenant = :k_tenant
  AND deltas.namespace = :k_namespace),
found AS (
  SELECT hits.term AS term, count(*) AS occurrences
  FROM hits
  GROUP BY hits.term),
worth AS (
  SELECT found.term AS term, CASE
  WHEN (found.occurrences < 2) THEN 20
  WHEN (found.occurrences < 4) THEN 19
  WHEN (found.occurrences < 8) THEN 18
  WHEN (found.occurrences < 16) THEN 17
  WHEN (found.occurrences < 32) THEN 16
  WHEN (found.occurrences < 64) THEN 15
  WHEN (found.occurrences < 128) THEN 14
  WHEN (found.occurrences < 256) THEN 13
  WHEN (found.occurrences < 512) THEN 12
  WHEN (found.occurrences < 1024) THEN 11
  WHEN (found.occurrences < 2048) THEN 10
  WHEN (found.occurrences < 4096) THEN 9
  WHEN (found.occurrences < 8192) THEN 8
  WHEN (found.occurrences < 16384) THEN 7
  WHEN (found.occurrences < 32768) THEN 6
  WHEN (found.occurrences < 65536) THEN 5
  WHEN (found.occurrences < 131072) THEN 4
  WHEN (found.occurrences < 262144) THEN 3
  WHEN (found.occurrences < 524288) THEN 2
  WHEN (found.occurrences < 1048576) THEN 1
  ELSE 1 END AS bits
  FROM found),
ranked AS (
  SELECT hits.tenant AS tenant, hits.thread_id AS thread_id, hits.namespace AS namespace,
    hits.seq AS seq, sum(worth.bits) AS bits
  FROM hits
  JOIN worth ON worth.term = hits.term
  GROUP BY hits.tenant, hits.thread_id, hits.namespace, hits.seq),
best AS (
  SELECT deltas.tenant AS tenant, deltas.thread_id AS thread_id, deltas.namespace AS namespace,
    deltas.seq AS seq, deltas.stored_at AS stored_at, ranked.bits AS bits
  FROM ranked
  JOIN deltas ON deltas.tenant = ranked.tenant
  AND deltas.thread_id = ranked.thread_id
  AND deltas.namespace = ranked.namespace
  AND deltas.seq = ranked.seq
  JOIN threads ON threads.tenant = ranked.tenant
  AND threads.thread_id = ranked.thread_id
  AND threads.namespace = ranked.namespace
  WHERE threads.deleted_at IS NULL
  AND (threads.expires_at IS NULL
    OR threads.expires_at > :p_now)
  AND deltas.kind IN ('entry')
  AND threads.thread_id = :k_thread_id
  ORDER BY ranked.bits DESC, deltas.stored_at DESC, deltas.seq DESC, deltas.thread_id DESC
  OFFSET :p_offset ROWS
  FETCH FIRST :p_limit ROWS ONLY)
SELECT best.thread_id, best.namespace, best.seq, CAST(best.bits AS FLOAT) / CAST((
    SELECT coalesce(sum(worth.bits), 0) + 20 * (:p_terms - count(*)) AS anon_1
    FROM worth) AS FLOAT) AS score
FROM best
ORDER BY best.bits DESC, best.stored_at DESC, best.seq DESC, best.thread_id DESC

-- search.entries.search_entries(scope=log, weighed=True)
WITH hits AS (
  SELECT terms.term AS term, deltas.tenant AS tenant, deltas.thread_id AS thread_id,
    deltas.namespace AS namespace, deltas.seq AS seq
  FROM (
    SELECT listed.term
    FROM JSON_TABLE(:terms, '$[*]' COLUMNS (term VARCHAR2(4000) PATH '$')) listed) terms
  JOIN deltas ON contains(deltas.search_text, terms.term) > :contains_1
  WHERE deltas.tenant = :k_tenant
  AND deltas.namespace = :k_namespace),
found AS (
  SELECT hits.term AS term, count(*) AS occurrences
  FROM hits
  GROUP BY hits.term),
worth AS (
  SELECT found.term AS term, CASE
  WHEN (found.occurrences < 2) THEN 20
  WHEN (found.occurrences < 4) THEN 19
  WHEN (found.occurrences < 8) THEN 18
  WHEN (found.occurrences < 16) THEN 17
  WHEN (found.occurrences < 32) THEN 16
  WHEN (found.occurrences < 64) THEN 15
  WHEN (found.occurrences < 128) THEN 14
  WHEN (found.occurrences < 256) THEN 13
  WHEN (found.occurrences < 512) THEN 12
  WHEN (found.occurrences < 1024) THEN 11
  WHEN (found.occurrences < 2048) THEN 10
  WHEN (found.occurrences < 4096) THEN 9
  WHEN (found.occurrences < 8192) THEN 8
  WHEN (found.occurrences < 16384) THEN 7
  WHEN (found.occurrences < 32768) THEN 6
  WHEN (found.occurrences < 65536) THEN 5
  WHEN (found.occurrences < 131072) THEN 4
  WHEN (found.occurrences < 262144) THEN 3
  WHEN (found.occurrences < 524288) THEN 2
  WHEN (found.occurrences < 1048576) THEN 1
  ELSE 1 END AS bits
  FROM found),
ranked AS (
  SELECT hits.tenant AS tenant, hits.thread_id AS thread_id, hits.namespace AS namespace,
    hits.seq AS seq, sum(worth.bits) AS bits
  FROM hits
  JOIN worth ON worth.term = hits.term
  GROUP BY hits.tenant, hits.thread_id, hits.namespace, hits.seq),
best AS (
  SELECT deltas.tenant AS tenant, deltas.thread_id AS thread_id, deltas.namespace AS namespace,
    deltas.seq AS seq, deltas.stored_at AS stored_at, ranked.bits AS bits
  FROM ranked
  JOIN deltas ON deltas.tenant = ranked.tenant
  AND deltas.thread_id = ranked.thread_id
  AND deltas.namespace = ranked.namespace
  AND deltas.seq = ranked.seq
  JOIN threads ON threads.tenant = ranked.tenant
  AND threads.thread_id = ranked.thread_id
  AND threads.namespace = ranked.namespace
  WHERE threads.deleted_at IS NULL
  AND (threads.expires_at IS NULL
    OR threads.expires_at > :p_now)
  AND deltas.kind IN ('entry')
  AND threads.thread_id = :k_thread_id
  ORDER BY ranked.bits DESC, deltas.stored_at DESC, deltas.seq DESC, deltas.thread_id DESC
  OFFSET :p_offset ROWS
  FETCH FIRST :p_limit ROWS ONLY)
SELECT best.thread_id, best.namespace, best.seq, CAST(best.bits AS FLOAT) / CAST((
    SELECT coalesce(sum(worth.bits), 0) + 20 * (:p_terms - count(*)) AS anon_1
    FROM worth) AS FLOAT) AS score, substr(deltas.search_text, 1, 8000) AS opening, whole.entry_key,
  whole.occurred_at, whole.stored_at, whole.codec, whole.checksum, whole.search_text, whole.payload
FROM best
JOIN deltas ON deltas.tenant = best.tenant
AND deltas.thread_id = best.thread_id
AND deltas.namespace = best.namespace
AND deltas.seq = best.seq LEFT OUTER
JOIN deltas whole ON whole.tenant = best.tenant
AND whole.thread_id = best.thread_id
AND whole.namespace = best.namespace
AND whole.seq = best.seq
AND (
  SELECT count(*) AS count_1
  FROM best) <= 50
ORDER BY best.bits DESC, best.stored_at DESC, best.seq DESC, best.thread_id DESC

-- search.items.narrowed_items(below=False)
WITH within AS (
  SELECT store_items.namespace AS namespace, store_items.key AS key
  FROM store_items
  WHERE store_items.tenant = :scope_tenant
  AND store_items.namespace = :scope_path)
SELECT within.namespace, within.key
FROM within
FETCH FIRST :p_limit ROWS ONLY

-- search.items.narrowed_items(below=True)
WITH within AS (
  SELECT store_items.namespace AS namespace, store_items.key AS key
  FROM store_items
  WHERE store_items.tenant = :scope_tenant
  AND store_items.namespace >= :scope_path
  AND store_items.namespace < :scope_end)
SELECT within.namespace, within.key
FROM within
FETCH FIRST :p_limit ROWS ONLY

-- search.items.search_items(below=False, weighed=False)
WITH hits AS (
  SELECT terms.term AS term, store_items.namespace AS namespace, store_items.key AS key,
    store_items.updated_at AS updated_at, store_items.expires_at AS expires_at
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
worth AS (
  SELECT found.term AS term, CASE
  WHEN (found.occurrences < 2) THEN 20
  WHEN (found.occurrences < 4) THEN 19
  WHEN (found.occurrences < 8) THEN 18
  WHEN (found.occurrences < 16) THEN 17
  WHEN (found.occurrences < 32) THEN 16
  WHEN (found.occurrences < 64) THEN 15
  WHEN (found.occurrences < 128) THEN 14
  WHEN (found.occurrences < 256) THEN 13
  WHEN (found.occurrences < 512) THEN 12
  WHEN (found.occurrences < 1024) THEN 11
  WHEN (found.occurrences < 2048) THEN 10
  WHEN (found.occurrences < 4096) THEN 9
  WHEN (found.occurrences < 8192) THEN 8
  WHEN (found.occurrences < 16384) THEN 7
  WHEN (found.occurrences < 32768) THEN 6
  WHEN (found.occurrences < 65536) THEN 5
  WHEN (found.occurrences < 131072) THEN 4
  WHEN (found.occurrences < 262144) THEN 3
  WHEN (found.occurrences < 524288) THEN 2
  WHEN (found.occurrences < 1048576) THEN 1
  ELSE 1 END AS bits
  FROM found),
ranked AS (
  SELECT hits.namespace AS namespace, hits.key AS key, hits.updated_at AS updated_at,
    hits.expires_at AS expires_at, sum(worth.bits) AS bits
  FROM hits
  JOIN worth ON worth.term = hits.term
  GROUP BY hits.namespace, hits.key, hits.updated_at, hits.expires_at),
best AS (
  SELECT ranked.namespace AS namespace, ranked.key AS key, ranked.updated_at AS updated_at,
    ranked.bits AS bits
  FROM ranked
  WHERE ranked.expires_at IS NULL
  OR ranked.expires_at > :p_now
  ORDER BY ranked.bits DESC, ranked.updated_at DESC, ranked.namespace, ranked.key
  OFFSET :p_offset ROWS
  FETCH FIRST :p_limit ROWS ONLY)
SELECT best.namespace, best.key, CAST(best.bits AS FLOAT) / CAST((
    SELECT coalesce(sum(worth.bits), 0) + 20 * (:p_terms - count(*)) AS anon_1
    FROM worth) AS FLOAT) AS score
FROM best
ORDER BY best.bits DESC, best.updated_at DESC, best.namespace, best.key

-- search.items.search_items(below=False, weighed=True)
WITH hits AS (
  SELECT terms.term AS term, store_items.namespace AS namespace, store_items.key AS key,
    store_items.updated_at AS updated_at, store_items.expires_at AS expires_at
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
worth AS (
  SELECT found.term AS term, CASE
  WHEN (found.occurrences < 2) THEN 20
  WHEN (found.occurrences < 4) THEN 19
  WHEN (found.occurrences < 8) THEN 18
  WHEN (found.occurrences < 16) THEN 17
  WHEN (found.occurrences < 32) THEN 16
  WHEN (found.occurrences < 64) THEN 15
  WHEN (found.occurrences < 128) THEN 14
  WHEN (found.occurrences < 256) THEN 13
  WHEN (found.occurrences < 512) THEN 12
  WHEN (found.occurrences < 1024) THEN 11
  WHEN (found.occurrences < 2048) THEN 10
  WHEN (found.occurrences < 4096) THEN 9
  WHEN (found.occurrences < 8192) THEN 8
  WHEN (found.occurrences < 16384) THEN 7
  WHEN (found.occurrences < 32768) THEN 6
  WHEN (found.occurrences < 65536) THEN 5
  WHEN (found.occurrences < 131072) THEN 4
  WHEN (found.occurrences < 262144) THEN 3
  WHEN (found.occurrences < 524288) THEN 2
  WHEN (found.occurrences < 1048576) THEN 1
  ELSE 1 END AS bits
  FROM found),
ranked AS (
  SELECT hits.namespace AS namespace, hits.key AS key, hits.updated_at AS updated_at,
    hits.expires_at AS expires_at, sum(worth.bits) AS bits
  FROM hits
  JOIN worth ON worth.term = hits.term
  GROUP BY hits.namespace, hits.key, hits.updated_at, hits.expires_at),
best AS (
  SELECT ranked.namespace AS namespace, ranked.key AS key, ranked.updated_at AS updated_at,
    ranked.bits AS bits
  FROM ranked
  WHERE ranked.expires_at IS NULL
  OR ranked.expires_at > :p_now
  ORDER BY ranked.bits DESC, ranked.updated_at DESC, ranked.namespace, ranked.key
  OFFSET :p_offset ROWS
  FETCH FIRST :p_limit ROWS ONLY)
SELECT best.namespace, best.key, CAST(best.bits AS FLOAT) / CAST((
    SELECT coalesce(sum(worth.bits), 0) + 20 * (:p_terms - count(*)) AS anon_1
    FROM worth) AS FLOAT) AS score, substr(store_items.search_text, 1, 8000) AS opening, whole.meta,
  whole.version, whole.codec, whole.checksum, whole.created_at, whole.updated_at, whole.expires_at,
  whole.lifetime, whole.value
FROM best
JOIN store_items ON store_items.tenant = :k_tenant
AND store_items.namespace = best.namespace
AND store_items.key = best.key LEFT OUTER
JOIN store_items whole ON whole.tenant = store_items.tenant
AND whole.namespace = store_items.namespace
AND whole.key = store_items.key
AND (
  SELECT count(*) AS count_1
  FROM best) <= 50
ORDER BY best.bits DESC, best.updated_at DESC, best.namespace, best.key

-- search.items.search_items(below=True, weighed=False)
WITH hits AS (
  SELECT terms.term AS term, store_items.namespace AS namespace, store_items.key AS key,
    store_items.updated_at AS updated_at, store_items.expires_at AS expires_at
  FROM (
    SELECT listed.term
    FROM JSON_TABLE(:terms, '$[*]' COLUMNS (term VARCHAR2(4000) PATH '$')) listed) terms
  JOIN store_items ON contains(store_items.search_text, terms.term) > :contains_1
  WHERE store_items.tenant = :scope_tenant
  AND store_items.namespace >= :scope_path
  AND store_items.namespace < :scope_end),
found AS (
  SELECT hits.term AS term, count(*) AS occurrences
  FROM hits
  GROUP BY hits.term),
worth AS (
  SELECT found.term AS term, CASE
  WHEN (found.occurrences < 2) THEN 20
  WHEN (found.occurrences < 4) THEN 19
  WHEN (found.occurrences < 8) THEN 18
  WHEN (found.occurrences < 16) THEN 17
  WHEN (found.occurrences < 32) THEN 16
  WHEN (found.occurrences < 64) THEN 15
  WHEN (found.occurrences < 128) THEN 14
  WHEN (found.occurrences < 256) THEN 13
  WHEN (found.occurrences < 512) THEN 12
  WHEN (found.occurrences < 1024) THEN 11
  WHEN (found.occurrences < 2048) THEN 10
  WHEN (found.occurrences < 4096) THEN 9
  WHEN (found.occurrences < 8192) THEN 8
  WHEN (found.occurrences < 16384) THEN 7
  WHEN (found.occurrences < 32768) THEN 6
  WHEN (found.occurrences < 65536) THEN 5
  WHEN (found.occurrences < 131072) THEN 4
  WHEN (found.occurrences < 262144) THEN 3
  WHEN (found.occurrences < 524288) THEN 2
  WHEN (found.occurrences < 1048576) THEN 1
  ELSE 1 END AS bits
  FROM found),
ranked AS (
  SELECT hits.namespace AS namespace, hits.key AS key, hits.updated_at AS updated_at,
    hits.expires_at AS expires_at, sum(worth.bits) AS bits
  FROM hits
  JOIN worth ON worth.term = hits.term
  GROUP BY hits.namespace, hits.key, hits.updated_at, hits.expires_at),
best AS (
  SELECT ranked.namespace AS namespace, ranked.key AS key, ranked.updated_at AS updated_at,
    ranked.bits AS bits
  FROM ranked
  WHERE (ranked.expires_at IS NULL
    OR ranked.expires_at > :p_now)
  AND NOT (ranked.namespace >= :k_house
    AND ranked.namespace < :k_house_end)
  ORDER BY ranked.bits DESC, ranked.updated_at DESC, ranked.namespace, ranked.key
  OFFSET :p_offset ROWS
  FETCH FIRST :p_limit ROWS ONLY)
SELECT best.namespace, best.key, CAST(best.bits AS FLOAT) / CAST((
    SELECT coalesce(sum(worth.bits), 0) + 20 * (:p_terms - count(*)) AS anon_1
    FROM worth) AS FLOAT) AS score
FROM best
ORDER BY best.bits DESC, best.updated_at DESC, best.namespace, best.key

-- search.items.search_items(below=True, weighed=True)
WITH hits AS (
  SELECT terms.term AS term, store_items.namespace AS namespace, store_items.key AS key,
    store_items.updated_at AS updated_at, store_items.expires_at AS expires_at
  FROM (
    SELECT listed.term
    FROM JSON_TABLE(:terms, '$[*]' COLUMNS (term VARCHAR2(4000) PATH '$')) listed) terms
  JOIN store_items ON contains(store_items.search_text, terms.term) > :contains_1
  WHERE store_items.tenant = :scope_tenant
  AND store_items.namespace >= :scope_path
  AND store_items.namespace < :scope_end),
found AS (
  SELECT hits.term AS term, count(*) AS occurrences
  FROM hits
  GROUP BY hits.term),
worth AS (
  SELECT found.term AS term, CASE
  WHEN (found.occurrences < 2) THEN 20
  WHEN (found.occurrences < 4) THEN 19
  WHEN (found.occurrences < 8) THEN 18
  WHEN (found.occurrences < 16) THEN 17
  WHEN (found.occurrences < 32) THEN 16
  WHEN (found.occurrences < 64) THEN 15
  WHEN (found.occurrences < 128) THEN 14
  WHEN (found.occurrences < 256) THEN 13
  WHEN (found.occurrences < 512) THEN 12
  WHEN (found.occurrences < 1024) THEN 11
  WHEN (found.occurrences < 2048) THEN 10
  WHEN (found.occurrences < 4096) THEN 9
  WHEN (found.occurrences < 8192) THEN 8
  WHEN (found.occurrences < 16384) THEN 7
  WHEN (found.occurrences < 32768) THEN 6
  WHEN (found.occurrences < 65536) THEN 5
  WHEN (found.occurrences < 131072) THEN 4
  WHEN (found.occurrences < 262144) THEN 3
  WHEN (found.occurrences < 524288) THEN 2
  WHEN (found.occurrences < 1048576) THEN 1
  ELSE 1 END AS bits
  FROM found),
ranked AS (
  SELECT hits.namespace AS namespace, hits.key AS key, hits.updated_at AS updated_at,
    hits.expires_at AS expires_at, sum(worth.bits) AS bits
  FROM hits
  JOIN worth ON worth.term = hits.term
  GROUP BY hits.namespace, hits.key, hits.updated_at, hits.expires_at),
best AS (
  SELECT ranked.namespace AS namespace, ranked.key AS key, ranked.updated_at AS updated_at,
    ranked.bits AS bits
  FROM ranked
  WHERE (ranked.expires_at IS NULL
    OR ranked.expires_at > :p_now)
  AND NOT (ranked.namespace >= :k_house
    AND ranked.namespace < :k_house_end)
  ORDER BY ranked.bits DESC, ranked.updated_at DESC, ranked.namespace, ranked.key
  OFFSET :p_offset ROWS
  FETCH FIRST :p_limit ROWS ONLY)
SELECT best.namespace, best.key, CAST(best.bits AS FLOAT) / CAST((
    SELECT coalesce(sum(worth.bits), 0) + 20 * (:p_terms - count(*)) AS anon_1
    FROM worth) AS FLOAT) AS score, substr(store_items.search_text, 1, 8000) AS opening, whole.meta,
  whole.version, whole.codec, whole.checksum, whole.created_at, whole.updated_at, whole.expires_at,
  whole.lifetime, whole.value
FROM best
JOIN store_items ON store_items.tenant = :k_tenant
AND store_items.namespace = best.namespace
AND store_items.key = best.key LEFT OUTER
JOIN store_items whole ON whole.tenant = store_items.tenant
AND whole.namespace = store_items.namespace
AND whole.key = store_items.key
AND (
  SELECT count(*) AS count_1
  FROM best) <= 50
ORDER BY best.bits DESC, best.updated_at DESC, best.namespace, best.key

-- space.measuring.count_threads()
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
      WHERE deltas.tenant = threads.tenant
      AND deltas.thread_id = threads.thread_id
      AND deltas.namespace = threads.namespace
      AND deltas.kind IN ('entry'))))

-- space.measuring.measure_items()
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
AND NOT (store_items.namespace >= :p_house
  AND store_items.namespace < :p_house_end)

-- space.measuring.measure_kinds()
SELECT deltas.kind, count(*) AS entries, sum(length(deltas.payload)) AS payload_bytes,
  count(deltas.search_text) AS texts, coalesce(sum(length(deltas.search_text)),
    :coalesce_1) AS text_bytes
FROM deltas
WHERE deltas.tenant = :k_tenant
GROUP BY deltas.kind
ORDER BY deltas.kind

-- space.measuring.measure_logs()
SELECT held.thread_id, held.namespace, held.entries, held.held, count(*) OVER () AS logs
FROM (
  SELECT deltas.thread_id AS thread_id, deltas.namespace AS namespace, count(*) AS entries,
    sum(length(deltas.payload)) + coalesce(sum(length(deltas.search_text)), :coalesce_1) AS held
  FROM deltas
  WHERE deltas.tenant = :k_tenant
  GROUP BY deltas.thread_id, deltas.namespace) held
ORDER BY held.held DESC, held.thread_id, held.namespace
FETCH FIRST :p_limit ROWS ONLY

-- space.measuring.measure_names()
SELECT count(*) AS checkpoints, coalesce(sum(CASE
    WHEN (deltas.kind IN ('snapshot')) THEN :param_1
    ELSE :param_2 END), :coalesce_1) AS whole, coalesce(sum(checkpoints.raw_size),
    :coalesce_2) AS raw_bytes, coalesce(sum(checkpoints.stored_size), :coalesce_3) AS stored_bytes
FROM checkpoints
JOIN deltas ON deltas.tenant = checkpoints.tenant
AND deltas.thread_id = checkpoints.thread_id
AND deltas.namespace = checkpoints.namespace
AND deltas.seq = checkpoints.seq
JOIN threads ON threads.tenant = checkpoints.tenant
AND threads.thread_id = checkpoints.thread_id
AND threads.namespace = checkpoints.namespace
WHERE checkpoints.tenant = :k_tenant
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > :p_now)

-- space.measuring.measure_vectors()
SELECT count(*) AS entries, coalesce(sum(embeddings.dimensions), :coalesce_1) AS numbers
FROM embeddings
WHERE embeddings.tenant = :k_tenant

-- space.measuring.sizes(exact=True)
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

-- store.queries.count_items(below=False)
SELECT count(*) AS count_1
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now)

-- store.queries.count_items(below=True)
SELECT count(*) AS count_1
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace >= :k_namespace
AND store_items.namespace < :k_beyond
AND NOT (store_items.namespace >= :k_house
  AND store_items.namespace < :k_house_end)
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now)

-- store.queries.drop_expired()
DELETE FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.expires_at <= :p_now
AND (store_items.namespace, store_items.key) IN (
  SELECT listed.namespace, listed.key
  FROM (
    SELECT each_.namespace, each_.key
    FROM JSON_TABLE(:p_keys, '$[*]' COLUMNS (namespace VARCHAR2(4000) PATH '$[0]',
          key VARCHAR2(4000) PATH '$[1]')) each_) listed)

-- store.queries.has_item()
SELECT store_items.version
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND store_items.key = :k_key
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now)

-- store.queries.lifetimes_of_items()
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

-- store.queries.list_expired()
SELECT store_items.namespace, store_items.key
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.expires_at <= :p_now
FETCH FIRST :p_limit ROWS ONLY

-- store.queries.list_items(order=newest, below=False, after=False)
SELECT store_items.namespace, store_items.key, store_items.meta, store_items.version,
  store_items.codec, store_items.checksum, store_items.created_at, store_items.updated_at,
  store_items.expires_at, store_items.lifetime, store_items.value
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now)
ORDER BY store_items.updated_at DESC, store_items.namespace DESC, store_items.key DESC
FETCH FIRST :p_limit ROWS ONLY

-- store.queries.list_items(order=newest, below=False, after=True)
SELECT store_items.namespace, store_items.key, store_items.meta, store_items.version,
  store_items.codec, store_items.checksum, store_items.created_at, store_items.updated_at,
  store_items.expires_at, store_items.lifetime, store_items.value
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now)
AND (store_items.updated_at < :p_after_updated_at
  OR store_items.updated_at = :p_after_updated_at
  AND (store_items.namespace < :p_after_namespace
    OR store_items.namespace = :p_after_namespace
    AND store_items.key < :p_after_key))
ORDER BY store_items.updated_at DESC, store_items.namespace DESC, store_items.key DESC
FETCH FIRST :p_limit ROWS ONLY

-- store.queries.list_items(order=newest, below=True, after=False)
SELECT store_items.namespace, store_items.key, store_items.meta, store_items.version,
  store_items.codec, store_items.checksum, store_items.created_at, store_items.updated_at,
  store_items.expires_at, store_items.lifetime, store_items.value
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace >= :k_namespace
AND store_items.namespace < :k_beyond
AND NOT (store_items.namespace >= :k_house
  AND store_items.namespace < :k_house_end)
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now)
ORDER BY store_items.updated_at DESC, store_items.namespace DESC, store_items.key DESC
FETCH FIRST :p_limit ROWS ONLY

-- store.queries.list_items(order=newest, below=True, after=True)
SELECT store_items.namespace, store_items.key, store_items.meta, store_items.version,
  store_items.codec, store_items.checksum, store_items.created_at, store_items.updated_at,
  store_items.expires_at, store_items.lifetime, store_items.value
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace >= :k_namespace
AND store_items.namespace < :k_beyond
AND NOT (store_items.namespace >= :k_house
  AND store_items.namespace < :k_house_end)
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now)
AND (store_items.updated_at < :p_after_updated_at
  OR store_items.updated_at = :p_after_updated_at
  AND (store_items.namespace < :p_after_namespace
    OR store_items.namespace = :p_after_namespace
    AND store_items.key < :p_after_key))
ORDER BY store_items.updated_at DESC, store_items.namespace DESC, store_items.key DESC
FETCH FIRST :p_limit ROWS ONLY

-- store.queries.list_items(order=key, below=False, after=False)
SELECT store_items.namespace, store_items.key, store_items.meta, store_items.version,
  store_items.codec, store_items.checksum, store_items.created_at, store_items.updated_at,
  store_items.expires_at, store_items.lifetime, store_items.value
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now)
ORDER BY store_items.namespace, store_items.key
FETCH FIRST :p_limit ROWS ONLY

-- store.queries.list_items(order=key, below=False, after=True)
SELECT store_items.namespace, store_items.key, store_items.meta, store_items.version,
  store_items.codec, store_items.checksum, store_items.created_at, store_items.updated_at,
  store_items.expires_at, store_items.lifetime, store_items.value
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now)
AND (store_items.namespace > :p_after_namespace
  OR store_items.namespace = :p_after_namespace
  AND store_items.key > :p_after_key)
ORDER BY store_items.namespace, store_items.key
FETCH FIRST :p_limit ROWS ONLY

-- store.queries.list_items(order=key, below=True, after=False)
SELECT store_items.namespace, store_items.key, store_items.meta, store_items.version,
  store_items.codec, store_items.checksum, store_items.created_at, store_items.updated_at,
  store_items.expires_at, store_items.lifetime, store_items.value
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace >= :k_namespace
AND store_items.namespace < :k_beyond
AND NOT (store_items.namespace >= :k_house
  AND store_items.namespace < :k_house_end)
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now)
ORDER BY store_items.namespace, store_items.key
FETCH FIRST :p_limit ROWS ONLY

-- store.queries.list_items(order=key, below=True, after=True)
SELECT store_items.namespace, store_items.key, store_items.meta, store_items.version,
  store_items.codec, store_items.checksum, store_items.created_at, store_items.updated_at,
  store_items.expires_at, store_items.lifetime, store_items.value
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace >= :k_namespace
AND store_items.namespace < :k_beyond
AND NOT (store_items.namespace >= :k_house
  AND store_items.namespace < :k_house_end)
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now)
AND (store_items.namespace > :p_after_namespace
  OR store_items.namespace = :p_after_namespace
  AND store_items.key > :p_after_key)
ORDER BY store_items.namespace, store_items.key
FETCH FIRST :p_limit ROWS ONLY

-- store.queries.list_keys(after=False)
SELECT store_items.key
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now)
ORDER BY store_items.key
FETCH FIRST :p_limit ROWS ONLY

-- store.queries.list_keys(after=True)
SELECT store_items.key
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now)
AND store_items.key > :p_after_key
ORDER BY store_items.key
FETCH FIRST :p_limit ROWS ONLY

-- store.queries.list_paths()
WITH paths(place) AS (
  SELECT (
    SELECT min(later.namespace) AS min_1
    FROM store_items later
    WHERE later.tenant = :k_tenant
    AND later.namespace >= :p_low
    AND later.namespace < :p_high
    AND NOT (later.namespace >= :p_house
      AND later.namespace < :p_house_end)
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
    AND NOT (later.namespace >= :p_house
      AND later.namespace < :p_house_end)
    AND (later.expires_at IS NULL
      OR later.expires_at > :p_now)) AS anon_1
  FROM paths
  WHERE paths.place IS NOT NULL)
SELECT paths.place
FROM paths
WHERE paths.place IS NOT NULL
FETCH FIRST :p_limit ROWS ONLY

-- store.queries.other_size(below=False)
SELECT embeddings.dimensions
FROM embeddings
WHERE embeddings.tenant = :k_tenant
AND embeddings.namespace = :k_namespace
AND embeddings.model = :p_model
FETCH FIRST 1 ROWS ONLY

-- store.queries.other_size(below=True)
SELECT embeddings.dimensions
FROM embeddings
WHERE embeddings.tenant = :k_tenant
AND embeddings.namespace >= :k_namespace
AND embeddings.namespace < :k_beyond
AND NOT (embeddings.namespace >= :k_house
  AND embeddings.namespace < :k_house_end)
AND embeddings.model = :p_model
FETCH FIRST 1 ROWS ONLY

-- store.queries.read_item()
SELECT store_items.namespace, store_items.key, store_items.meta, store_items.version,
  store_items.codec, store_items.checksum, store_items.created_at, store_items.updated_at,
  store_items.expires_at, store_items.lifetime, store_items.value
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND store_items.key = :k_key
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now)

-- store.queries.read_items()
SELECT store_items.namespace, store_items.key, store_items.meta, store_items.version,
  store_items.codec, store_items.checksum, store_items.created_at, store_items.updated_at,
  store_items.expires_at, store_items.lifetime, store_items.value
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

-- store.queries.read_vector()
SELECT embeddings.vector
FROM embeddings
WHERE embeddings.tenant = :k_tenant
AND embeddings.namespace = :k_namespace
AND embeddings.key = :k_key
AND embeddings.field = :p_field
AND embeddings.model = :p_model
AND embeddings.part = :p_part
AND (EXISTS (
    SELECT 1
    FROM store_items
    WHERE store_items.tenant = :k_tenant
    AND store_items.namespace = :k_namespace
    AND store_items.key = :k_key
    AND (store_items.expires_at IS NULL
      OR store_items.expires_at > :p_now)))

-- store.queries.vectors_of_items()
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

-- store.writing.change_item(expected=any)
UPDATE store_items
SET meta=:p_meta, version=CASE
WHEN (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now) THEN store_items.version + :version_1
ELSE 1 END, codec=:p_codec, checksum=:p_checksum, search_text=:p_search_text,
  field_terms=:p_field_terms, created_at=CASE
WHEN (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now) THEN store_items.created_at
ELSE :p_updated_at END, updated_at=:p_updated_at, expires_at=:p_expires_at, lifetime=:p_lifetime,
  value=:p_value
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND store_items.key = :k_key
RETURNING store_items.version
INTO :ret_0

-- store.writing.change_item(expected=none)
UPDATE store_items
SET meta=:p_meta, version=CASE
WHEN (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now) THEN store_items.version + :version_1
ELSE 1 END, codec=:p_codec, checksum=:p_checksum, search_text=:p_search_text,
  field_terms=:p_field_terms, created_at=CASE
WHEN (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now) THEN store_items.created_at
ELSE :p_updated_at END, updated_at=:p_updated_at, expires_at=:p_expires_at, lifetime=:p_lifetime,
  value=:p_value
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND store_items.key = :k_key
AND NOT (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now)
RETURNING store_items.version
INTO :ret_0

-- store.writing.clear_items(below=False)
DELETE FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace

-- store.writing.clear_items(below=True)
DELETE FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace >= :k_namespace
AND store_items.namespace < :k_beyond
AND NOT (store_items.namespace >= :k_house
  AND store_items.namespace < :k_house_end)

-- store.writing.date_item()
UPDATE store_items
SET created_at=coalesce(:p_created_at, store_items.created_at), updated_at=coalesce(:p_updated_at,
    store_items.updated_at), expires_at=coalesce(:p_expires_at, store_items.expires_at)
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND store_items.key = :k_key

-- store.writing.drop_vectors()
DELETE FROM embeddings
WHERE embeddings.tenant = :k_tenant
AND embeddings.namespace = :k_namespace
AND embeddings.key = :k_key

-- store.writing.drop_vectors_of()
DELETE FROM embeddings
WHERE embeddings.tenant = :k_tenant
AND (embeddings.namespace, embeddings.key) IN (
  SELECT listed.namespace, listed.key
  FROM (
    SELECT each_.namespace, each_.key
    FROM JSON_TABLE(:p_keys, '$[*]' COLUMNS (namespace VARCHAR2(4000) PATH '$[0]',
          key VARCHAR2(4000) PATH '$[1]')) each_) listed)

-- store.writing.drop_vectors_of_model()
DELETE FROM embeddings
WHERE embeddings.tenant = :k_tenant
AND embeddings.namespace = :k_namespace
AND embeddings.key = :k_key
AND embeddings.model = :p_model

-- store.writing.lock_item()
SELECT store_items.version
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND store_items.key = :k_key
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now)
FOR UPDATE

-- store.writing.new_item()
INSERT INTO store_items (tenant, namespace, key, meta, version, codec, checksum, search_text,
    field_terms, created_at, updated_at, expires_at, lifetime, value)
VALUES (:k_tenant, :k_namespace, :k_key, :p_meta, 1, :p_codec, :p_checksum, :p_search_text,
    :p_field_terms, :p_updated_at, :p_updated_at, :p_expires_at, :p_lifetime, :p_value)

-- store.writing.prolong_item()
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

-- store.writing.put_item(expected=version)
UPDATE store_items
SET meta=:p_meta, version=CASE
WHEN (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now) THEN store_items.version + :version_1
ELSE 1 END, codec=:p_codec, checksum=:p_checksum, search_text=:p_search_text,
  field_terms=:p_field_terms, created_at=CASE
WHEN (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now) THEN store_items.created_at
ELSE :p_updated_at END, updated_at=:p_updated_at, expires_at=:p_expires_at, lifetime=:p_lifetime,
  value=:p_value
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND store_items.key = :k_key
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now)
AND store_items.version = :p_expected
RETURNING store_items.version
INTO :ret_0

-- store.writing.put_item(expected=item)
UPDATE store_items
SET meta=:p_meta, version=CASE
WHEN (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now) THEN store_items.version + :version_1
ELSE 1 END, codec=:p_codec, checksum=:p_checksum, search_text=:p_search_text,
  field_terms=:p_field_terms, created_at=CASE
WHEN (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now) THEN store_items.created_at
ELSE :p_updated_at END, updated_at=:p_updated_at, expires_at=:p_expires_at, lifetime=:p_lifetime,
  value=:p_value
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND store_items.key = :k_key
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now)
AND store_items.version = :p_expected
AND store_items.created_at = :p_born
RETURNING store_items.version
INTO :ret_0

-- store.writing.put_vector(native=True)
INSERT INTO embeddings (tenant, namespace, key, field, model, part, dimensions, change, vector)
VALUES (:k_tenant, :k_namespace, :k_key, :p_field, :p_model, :p_part, :p_dimensions, :p_change,
    :p_vector)

-- store.writing.remove_item(expected=any)
DELETE FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND store_items.key = :k_key
RETURNING store_items.expires_at
INTO :ret_0

-- store.writing.remove_item(expected=version)
DELETE FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND store_items.key = :k_key
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now)
AND store_items.version = :p_expected
RETURNING store_items.expires_at
INTO :ret_0

-- store.writing.remove_item(expected=item)
DELETE FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND store_items.key = :k_key
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > :p_now)
AND store_items.version = :p_expected
AND store_items.created_at = :p_born
RETURNING store_items.expires_at
INTO :ret_0

-- store.writing.remove_items()
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

-- transfer.statements.count_rows(table=threads, scope=tenant)
SELECT count(*) AS count_1
FROM threads
WHERE threads.tenant = :k_tenant

-- transfer.statements.count_rows(table=threads, scope=all)
SELECT count(*) AS count_1
FROM threads
WHERE threads.tenant != '~'

-- transfer.statements.count_rows(table=store_items, scope=tenant)
SELECT count(*) AS count_1
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace != '/~vectors/'
AND store_items.namespace != '/~keys/'

-- transfer.statements.count_rows(table=store_items, scope=all)
SELECT count(*) AS count_1
FROM store_items
WHERE store_items.tenant != '~'
AND store_items.namespace != '/~vectors/'
AND store_items.namespace != '/~keys/'

-- transfer.statements.insert_embedding(native=True)
INSERT INTO embeddings (tenant, namespace, key, field, model, part, dimensions, change, vector)
VALUES (:p_tenant, :p_namespace, :p_key, :p_field, :p_model, :p_part, :p_dimensions, :p_change,
    :p_vector)

-- transfer.statements.insert_row(table=checkpoints)
INSERT INTO checkpoints (tenant, thread_id, namespace, checkpoint_id, parent_id, seq, run_id, meta,
    raw_size, stored_size, occurred_at, created_at, ordinal, rests_on)
VALUES (:p_tenant, :p_thread_id, :p_namespace, :p_checkpoint_id, :p_parent_id, :p_seq, :p_run_id,
    :p_meta, :p_raw_size, :p_stored_size, :p_occurred_at, :p_created_at, :p_ordinal, :p_rests_on)

-- transfer.statements.insert_row(table=deltas)
INSERT INTO deltas (tenant, thread_id, namespace, seq, kind, entry_key, parent_seq, base_seq,
    depth, since_bytes, raw_size, codec, checksum, label, sort_key, status, search_text, occurred_at,
    stored_at, payload)
VALUES (:p_tenant, :p_thread_id, :p_namespace, :p_seq, :p_kind, :p_entry_key, :p_parent_seq,
    :p_base_seq, :p_depth, :p_since_bytes, :p_raw_size, :p_codec, :p_checksum, :p_label, :p_sort_key,
    :p_status, :p_search_text, :p_occurred_at, :p_stored_at, :p_payload)

-- transfer.statements.insert_row(table=threads)
INSERT INTO threads (tenant, thread_id, namespace, next_seq, version, last_ordinal, epoch, head_id,
    previous_id, meta, forked_thread, forked_seq, created_at, updated_at, expires_at, deleted_at)
VALUES (:p_tenant, :p_thread_id, :p_namespace, :p_next_seq, :p_version, :p_last_ordinal, :p_epoch,
    :p_head_id, :p_previous_id, :p_meta, :p_forked_thread, :p_forked_seq, :p_created_at,
    :p_updated_at, :p_expires_at, :p_deleted_at)

-- transfer.statements.insert_row(table=store_items)
INSERT INTO store_items (tenant, namespace, key, meta, version, codec, checksum, search_text,
    field_terms, created_at, updated_at, expires_at, lifetime, value)
VALUES (:p_tenant, :p_namespace, :p_key, :p_meta, :p_version, :p_codec, :p_checksum,
    :p_search_text, :p_field_terms, :p_created_at, :p_updated_at, :p_expires_at, :p_lifetime,
    :p_value)

-- transfer.statements.list_heads(scope=tenant, after=True)
SELECT threads.tenant, threads.thread_id, threads.namespace, threads.next_seq, threads.version,
  threads.last_ordinal, threads.epoch, threads.head_id, threads.previous_id, threads.meta,
  threads.forked_thread, threads.forked_seq, threads.created_at, threads.updated_at,
  threads.expires_at, threads.deleted_at
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.thread_id >= :p_thread_id
AND (threads.thread_id > :p_thread_id
  OR threads.thread_id = :p_thread_id
  AND threads.namespace > :p_namespace)
ORDER BY threads.tenant, threads.thread_id, threads.namespace
FETCH FIRST :p_limit ROWS ONLY

-- transfer.statements.list_heads(scope=tenant, after=False)
SELECT threads.tenant, threads.thread_id, threads.namespace, threads.next_seq, threads.version,
  threads.last_ordinal, threads.epoch, threads.head_id, threads.previous_id, threads.meta,
  threads.forked_thread, threads.forked_seq, threads.created_at, threads.updated_at,
  threads.expires_at, threads.deleted_at
FROM threads
WHERE threads.tenant = :k_tenant
ORDER BY threads.tenant, threads.thread_id, threads.namespace
FETCH FIRST :p_limit ROWS ONLY

-- transfer.statements.list_heads(scope=all, after=True)
SELECT threads.tenant, threads.thread_id, threads.namespace, threads.next_seq, threads.version,
  threads.last_ordinal, threads.epoch, threads.head_id, threads.previous_id, threads.meta,
  threads.forked_thread, threads.forked_seq, threads.created_at, threads.updated_at,
  threads.expires_at, threads.deleted_at
FROM threads
WHERE threads.tenant != '~'
AND threads.tenant >= :p_tenant
AND (threads.tenant > :p_tenant
  OR threads.tenant = :p_tenant
  AND (threads.thread_id > :p_thread_id
    OR threads.thread_id = :p_thread_id
    AND threads.namespace > :p_namespace))
ORDER BY threads.tenant, threads.thread_id, threads.namespace
FETCH FIRST :p_limit ROWS ONLY

-- transfer.statements.list_heads(scope=all, after=False)
SELECT threads.tenant, threads.thread_id, threads.namespace, threads.next_seq, threads.version,
  threads.last_ordinal, threads.epoch, threads.head_id, threads.previous_id, threads.meta,
  threads.forked_thread, threads.forked_seq, threads.created_at, threads.updated_at,
  threads.expires_at, threads.deleted_at
FROM threads
WHERE threads.tenant != '~'
ORDER BY threads.tenant, threads.thread_id, threads.namespace
FETCH FIRST :p_limit ROWS ONLY

-- transfer.statements.list_items(scope=tenant, after=True)
SELECT store_items.tenant, store_items.namespace, store_items.key
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace != '/~vectors/'
AND store_items.namespace != '/~keys/'
AND store_items.namespace >= :p_namespace
AND (store_items.namespace > :p_namespace
  OR store_items.namespace = :p_namespace
  AND store_items.key > :p_key)
ORDER BY store_items.tenant, store_items.namespace, store_items.key
FETCH FIRST :p_limit ROWS ONLY

-- transfer.statements.list_items(scope=tenant, after=False)
SELECT store_items.tenant, store_items.namespace, store_items.key
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace != '/~vectors/'
AND store_items.namespace != '/~keys/'
ORDER BY store_items.tenant, store_items.namespace, store_items.key
FETCH FIRST :p_limit ROWS ONLY

-- transfer.statements.list_items(scope=all, after=True)
SELECT store_items.tenant, store_items.namespace, store_items.key
FROM store_items
WHERE store_items.tenant != '~'
AND store_items.namespace != '/~vectors/'
AND store_items.namespace != '/~keys/'
AND store_items.tenant >= :p_tenant
AND (store_items.tenant > :p_tenant
  OR store_items.tenant = :p_tenant
  AND (store_items.namespace > :p_namespace
    OR store_items.namespace = :p_namespace
    AND store_items.key > :p_key))
ORDER BY store_items.tenant, store_items.namespace, store_items.key
FETCH FIRST :p_limit ROWS ONLY

-- transfer.statements.list_items(scope=all, after=False)
SELECT store_items.tenant, store_items.namespace, store_items.key
FROM store_items
WHERE store_items.tenant != '~'
AND store_items.namespace != '/~vectors/'
AND store_items.namespace != '/~keys/'
ORDER BY store_items.tenant, store_items.namespace, store_items.key
FETCH FIRST :p_limit ROWS ONLY

-- transfer.statements.list_positions(table=checkpoints)
SELECT checkpoints.seq, 0 AS stored
FROM checkpoints
WHERE checkpoints.tenant = :k_tenant
AND checkpoints.thread_id = :k_thread_id
AND checkpoints.namespace = :k_namespace
AND checkpoints.seq > :p_after
ORDER BY checkpoints.seq
FETCH FIRST :p_limit ROWS ONLY

-- transfer.statements.list_positions(table=deltas)
SELECT deltas.seq, length(deltas.payload) AS stored
FROM deltas
WHERE deltas.tenant = :k_tenant
AND deltas.thread_id = :k_thread_id
AND deltas.namespace = :k_namespace
AND deltas.seq > :p_after
ORDER BY deltas.seq
FETCH FIRST :p_limit ROWS ONLY

-- transfer.statements.read_embeddings(native=True)
SELECT embeddings.tenant, embeddings.namespace, embeddings.key, embeddings.field, embeddings.model,
  embeddings.part, embeddings.dimensions, embeddings.change, embeddings.vector AS vector
FROM embeddings
WHERE embeddings.tenant = :k_tenant
AND embeddings.namespace = :k_namespace
AND embeddings.key = :k_key
ORDER BY embeddings.field, embeddings.model, embeddings.part

-- transfer.statements.read_item()
SELECT store_items.tenant, store_items.namespace, store_items.key, store_items.meta,
  store_items.version, store_items.codec, store_items.checksum, store_items.search_text,
  store_items.field_terms, store_items.created_at, store_items.updated_at, store_items.expires_at,
  store_items.lifetime, store_items.value
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND store_items.key = :k_key

-- transfer.statements.read_log_head()
SELECT threads.tenant, threads.thread_id, threads.namespace, threads.next_seq, threads.version,
  threads.last_ordinal, threads.epoch, threads.head_id, threads.previous_id, threads.meta,
  threads.forked_thread, threads.forked_seq, threads.created_at, threads.updated_at,
  threads.expires_at, threads.deleted_at
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
AND threads.namespace = :k_namespace

-- transfer.statements.read_rows(table=checkpoints)
SELECT checkpoints.tenant, checkpoints.thread_id, checkpoints.namespace, checkpoints.checkpoint_id,
  checkpoints.parent_id, checkpoints.seq, checkpoints.run_id, checkpoints.meta,
  checkpoints.raw_size, checkpoints.stored_size, checkpoints.occurred_at, checkpoints.created_at,
  checkpoints.ordinal, checkpoints.rests_on
FROM checkpoints
WHERE checkpoints.tenant = :k_tenant
AND checkpoints.thread_id = :k_thread_id
AND checkpoints.namespace = :k_namespace
AND checkpoints.seq > :p_after
AND checkpoints.seq <= :p_until
ORDER BY checkpoints.seq

-- transfer.statements.read_rows(table=deltas)
SELECT deltas.tenant, deltas.thread_id, deltas.namespace, deltas.seq, deltas.kind,
  deltas.entry_key, deltas.parent_seq, deltas.base_seq, deltas.depth, deltas.since_bytes,
  deltas.raw_size, deltas.codec, deltas.checksum, deltas.label, deltas.sort_key, deltas.status,
  deltas.search_text, deltas.occurred_at, deltas.stored_at, deltas.payload
FROM deltas
WHERE deltas.tenant = :k_tenant
AND deltas.thread_id = :k_thread_id
AND deltas.namespace = :k_namespace
AND deltas.seq > :p_after
AND deltas.seq <= :p_until
ORDER BY deltas.seq

-- transfer.statements.remove_embeddings()
DELETE FROM embeddings
WHERE embeddings.tenant = :k_tenant
AND embeddings.namespace = :k_namespace
AND embeddings.key = :k_key

-- transfer.statements.remove_item()
DELETE FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND store_items.key = :k_key
AND store_items.version = :p_version

-- verify.item_queries.count_items()
SELECT count(*) AS items
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace >= :k_namespace
AND store_items.namespace < :k_beyond
AND NOT (store_items.namespace >= :k_house
  AND store_items.namespace < :k_house_end)

-- verify.item_queries.first_tenant(after=True)
SELECT min(store_items.tenant) AS tenant
FROM store_items
WHERE store_items.tenant != '~'
AND store_items.tenant > :k_tenant

-- verify.item_queries.first_tenant(after=False)
SELECT min(store_items.tenant) AS tenant
FROM store_items
WHERE store_items.tenant != '~'

-- verify.item_queries.list_items(after=True)
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
AND NOT (store_items.namespace >= :k_house
  AND store_items.namespace < :k_house_end)
AND store_items.namespace >= :p_namespace
AND (store_items.namespace > :p_namespace
  OR store_items.namespace = :p_namespace
  AND store_items.key > :p_key)
ORDER BY store_items.namespace, store_items.key
FETCH FIRST :p_limit ROWS ONLY

-- verify.item_queries.list_items(after=False)
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
AND NOT (store_items.namespace >= :k_house
  AND store_items.namespace < :k_house_end)
ORDER BY store_items.namespace, store_items.key
FETCH FIRST :p_limit ROWS ONLY

-- verify.item_queries.list_orphans()
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

-- verify.item_queries.read_items()
SELECT store_items.key, store_items.version, store_items.codec, store_items.checksum,
  store_items.search_text, store_items.field_terms, store_items.value, store_items.created_at,
  store_items.updated_at, store_items.expires_at, store_items.lifetime, CASE
WHEN (1 = 1) THEN store_items.meta END AS meta
FROM store_items
WHERE store_items.tenant = :k_tenant
AND store_items.namespace = :k_namespace
AND store_items.key >= :p_low
AND store_items.key <= :p_high
ORDER BY store_items.key

-- verify.item_queries.read_vectors(native=True)
SELECT embeddings.key, embeddings.field, embeddings.model, embeddings.part, embeddings.dimensions,
  embeddings.vector AS vector
FROM embeddings
WHERE embeddings.tenant = :k_tenant
AND embeddings.namespace = :k_namespace
AND embeddings.key >= :p_low
AND embeddings.key <= :p_high
ORDER BY embeddings.key, embeddings.field, embeddings.model, embeddings.part

-- verify.queries.count_positions(scope=tenant)
SELECT coalesce(sum(threads.next_seq - :next_seq_1), :coalesce_1) AS positions
FROM threads
WHERE threads.tenant = :k_tenant

-- verify.queries.count_positions(scope=thread)
SELECT coalesce(sum(threads.next_seq - :next_seq_1), :coalesce_1) AS positions
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id

-- verify.queries.list_dangling()
SELECT checkpoints.checkpoint_id, checkpoints.seq
FROM checkpoints
WHERE checkpoints.tenant = :k_tenant
AND checkpoints.thread_id = :k_thread_id
AND checkpoints.namespace = :k_namespace
AND checkpoints.seq >= :p_low
AND checkpoints.seq <= :p_high
AND NOT (EXISTS (
    SELECT 1
    FROM deltas
    WHERE deltas.tenant = checkpoints.tenant
    AND deltas.thread_id = checkpoints.thread_id
    AND deltas.namespace = checkpoints.namespace
    AND deltas.seq = checkpoints.seq
    AND deltas.kind IN ('snapshot', 'delta')))
ORDER BY checkpoints.seq
FETCH FIRST :p_limit ROWS ONLY

-- verify.queries.list_logs(scope=tenant, after=True)
SELECT threads.thread_id, threads.namespace, threads.next_seq
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.thread_id >= :p_thread_id
AND (threads.thread_id > :p_thread_id
  OR threads.thread_id = :p_thread_id
  AND threads.namespace > :p_namespace)
ORDER BY threads.thread_id, threads.namespace
FETCH FIRST :p_limit ROWS ONLY

-- verify.queries.list_logs(scope=tenant, after=False)
SELECT threads.thread_id, threads.namespace, threads.next_seq
FROM threads
WHERE threads.tenant = :k_tenant
ORDER BY threads.thread_id, threads.namespace
FETCH FIRST :p_limit ROWS ONLY

-- verify.queries.list_logs(scope=thread, after=True)
SELECT threads.thread_id, threads.namespace, threads.next_seq
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
AND threads.thread_id >= :p_thread_id
AND (threads.thread_id > :p_thread_id
  OR threads.thread_id = :p_thread_id
  AND threads.namespace > :p_namespace)
ORDER BY threads.thread_id, threads.namespace
FETCH FIRST :p_limit ROWS ONLY

-- verify.queries.list_logs(scope=thread, after=False)
SELECT threads.thread_id, threads.namespace, threads.next_seq
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
ORDER BY threads.thread_id, threads.namespace
FETCH FIRST :p_limit ROWS ONLY

-- verify.queries.list_orphans(table=checkpoints)
SELECT checkpoints.thread_id, checkpoints.namespace, count(*) AS orphans
FROM checkpoints
WHERE checkpoints.tenant = :k_tenant
AND NOT (EXISTS (
    SELECT 1
    FROM threads
    WHERE threads.tenant = checkpoints.tenant
    AND threads.thread_id = checkpoints.thread_id
    AND threads.namespace = checkpoints.namespace))
GROUP BY checkpoints.thread_id, checkpoints.namespace
ORDER BY checkpoints.thread_id, checkpoints.namespace
FETCH FIRST :p_limit ROWS ONLY

-- verify.queries.list_orphans(table=deltas)
SELECT deltas.thread_id, deltas.namespace, count(*) AS orphans
FROM deltas
WHERE deltas.tenant = :k_tenant
AND NOT (EXISTS (
    SELECT 1
    FROM threads
    WHERE threads.tenant = deltas.tenant
    AND threads.thread_id = deltas.thread_id
    AND threads.namespace = deltas.namespace))
GROUP BY deltas.thread_id, deltas.namespace
ORDER BY deltas.thread_id, deltas.namespace
FETCH FIRST :p_limit ROWS ONLY

-- verify.queries.list_positions()
SELECT deltas.seq, deltas.raw_size, checkpoints.stored_size
FROM deltas LEFT OUTER
JOIN checkpoints ON checkpoints.tenant = deltas.tenant
AND checkpoints.thread_id = deltas.thread_id
AND checkpoints.namespace = deltas.namespace
AND checkpoints.seq = deltas.seq
WHERE deltas.tenant = :k_tenant
AND deltas.thread_id = :k_thread_id
AND deltas.namespace = :k_namespace
AND deltas.seq > :p_after
ORDER BY deltas.seq
FETCH FIRST :p_limit ROWS ONLY

-- verify.queries.list_tenants(after=True)
SELECT min(threads.tenant) AS tenant
FROM threads
WHERE threads.tenant > :k_tenant

-- verify.queries.list_tenants(after=False)
SELECT min(threads.tenant) AS tenant
FROM threads

-- verify.queries.read_chain_at()
WITH chain(seq, kind, base_seq, depth, codec, checksum, payload) AS (
  SELECT deltas.seq AS seq, deltas.kind AS kind, deltas.base_seq AS base_seq, deltas.depth AS depth,
    deltas.codec AS codec, deltas.checksum AS checksum, deltas.payload AS payload
  FROM deltas
  WHERE deltas.tenant = :k_tenant
  AND deltas.thread_id = :k_thread_id
  AND deltas.namespace = :k_namespace
  AND deltas.seq = :p_seq
  UNION ALL
  SELECT base.seq AS seq, base.kind AS kind, base.base_seq AS base_seq, base.depth AS depth,
    base.codec AS codec, base.checksum AS checksum, base.payload AS payload
  FROM chain
  JOIN deltas base ON base.seq = chain.base_seq
  AND base.seq < chain.seq
  WHERE base.tenant = :k_tenant
  AND base.thread_id = :k_thread_id
  AND base.namespace = :k_namespace)
SELECT chain.seq, chain.kind, chain.base_seq, chain.depth, chain.codec, chain.checksum,
  chain.payload
FROM chain
ORDER BY chain.seq

-- verify.queries.read_lineage()
SELECT checkpoints.seq, parent.seq AS parent_at
FROM checkpoints LEFT OUTER
JOIN checkpoints parent ON parent.tenant = checkpoints.tenant
AND parent.thread_id = checkpoints.thread_id
AND parent.namespace = checkpoints.namespace
AND parent.checkpoint_id = checkpoints.parent_id
WHERE checkpoints.tenant = :k_tenant
AND checkpoints.thread_id = :k_thread_id
AND checkpoints.namespace = :k_namespace
ORDER BY checkpoints.seq

-- verify.queries.read_log()
SELECT threads.next_seq, threads.head_id, threads.deleted_at, threads.version, threads.epoch,
  threads.created_at, threads.updated_at, threads.expires_at, threads.forked_thread,
  threads.forked_seq, 1 AS meta_readable, (
  SELECT max(deltas.seq) AS max_1
  FROM deltas
  WHERE deltas.tenant = threads.tenant
  AND deltas.thread_id = threads.thread_id
  AND deltas.namespace = threads.namespace) AS last_row, (
  SELECT max(deltas.seq) AS max_2
  FROM deltas
  WHERE deltas.tenant = threads.tenant
  AND deltas.thread_id = threads.thread_id
  AND deltas.namespace = threads.namespace
  AND (deltas.kind NOT IN ('write'))) AS last_but_writes, (
  SELECT max(checkpoints.seq) AS max_3
  FROM checkpoints
  WHERE checkpoints.tenant = threads.tenant
  AND checkpoints.thread_id = threads.thread_id
  AND checkpoints.namespace = threads.namespace) AS last_name, (
  SELECT checkpoints.checkpoint_id
  FROM checkpoints
  WHERE checkpoints.tenant = threads.tenant
  AND checkpoints.thread_id = threads.thread_id
  AND checkpoints.namespace = threads.namespace
  AND checkpoints.seq = (
    SELECT max(later.seq) AS max_4
    FROM checkpoints later
    WHERE later.tenant = checkpoints.tenant
    AND later.thread_id = checkpoints.thread_id
    AND later.namespace = checkpoints.namespace)) AS newest_id
FROM threads
WHERE threads.tenant = :k_tenant
AND threads.thread_id = :k_thread_id
AND threads.namespace = :k_namespace

-- verify.queries.read_name_at()
SELECT checkpoints.checkpoint_id
FROM checkpoints
WHERE checkpoints.tenant = :k_tenant
AND checkpoints.thread_id = :k_thread_id
AND checkpoints.namespace = :k_namespace
AND checkpoints.seq = :p_seq

-- verify.queries.read_rows()
SELECT deltas.seq, deltas.kind, deltas.base_seq, deltas.depth, deltas.since_bytes, deltas.raw_size,
  deltas.codec, deltas.checksum, deltas.status, deltas.entry_key, deltas.parent_seq, deltas.label,
  deltas.sort_key, deltas.occurred_at, deltas.stored_at, checkpoints.checkpoint_id,
  checkpoints.rests_on, under.seq AS rests_at, checkpoints.raw_size AS named_raw_size,
  checkpoints.stored_size AS named_stored_size, checkpoints.run_id,
  checkpoints.occurred_at AS named_occurred_at, checkpoints.created_at AS named_created_at,
  1 AS meta_readable, base.kind AS base_kind, base.depth AS base_depth,
  base.since_bytes AS base_since_bytes, parent.seq AS parent_at, (
  SELECT max(child.seq) AS max_1
  FROM deltas child
  WHERE child.tenant = deltas.tenant
  AND child.thread_id = deltas.thread_id
  AND child.namespace = deltas.namespace
  AND child.base_seq = deltas.seq) AS last_use, deltas.payload
FROM deltas LEFT OUTER
JOIN checkpoints ON checkpoints.tenant = deltas.tenant
AND checkpoints.thread_id = deltas.thread_id
AND checkpoints.namespace = deltas.namespace
AND checkpoints.seq = deltas.seq LEFT OUTER
JOIN deltas base ON base.tenant = deltas.tenant
AND base.thread_id = deltas.thread_id
AND base.namespace = deltas.namespace
AND base.seq = deltas.base_seq LEFT OUTER
JOIN checkpoints parent ON parent.tenant = checkpoints.tenant
AND parent.thread_id = checkpoints.thread_id
AND parent.namespace = checkpoints.namespace
AND parent.checkpoint_id = checkpoints.parent_id LEFT OUTER
JOIN checkpoints under ON under.tenant = checkpoints.tenant
AND under.thread_id = checkpoints.thread_id
AND under.namespace = checkpoints.namespace
AND under.checkpoint_id = checkpoints.rests_on
WHERE deltas.tenant = :k_tenant
AND deltas.thread_id = :k_thread_id
AND deltas.namespace = :k_namespace
AND deltas.seq >= :p_low
AND deltas.seq <= :p_high
ORDER BY deltas.seq

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
WHERE threads.tenant = $1::VARCHAR
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > $2::TIMESTAMP WITH TIME ZONE)
AND (threads.head_id IS NOT NULL
  OR (EXISTS (
      SELECT 1
      FROM deltas
      WHERE deltas.log_id = threads.log_id
      AND deltas.kind IN ('entry'))))
ORDER BY threads.active_at DESC, threads.updated_at DESC, threads.thread_id, threads.namespace
LIMIT $3

-- checkpoints.forget.clear_fork_origin()
UPDATE threads
SET forked_from=NULL, forked_seq=NULL
WHERE threads.tenant = $1::VARCHAR
AND threads.forked_from = $2::VARCHAR

-- checkpoints.forget.delete_internal_items()
DELETE FROM store_items
WHERE store_items.tenant = $1::VARCHAR
AND store_items.namespace >= $2::VARCHAR
AND store_items.namespace < $3::VARCHAR

-- checkpoints.forget.delete_rows_of_tenant(table=embeddings)
DELETE FROM embeddings
WHERE embeddings.tenant = $1::VARCHAR

-- checkpoints.forget.forget_item(why=rows)
DELETE FROM store_items
WHERE store_items.tenant = $1::VARCHAR
AND store_items.namespace = $2::VARCHAR
AND store_items.key = $3::VARCHAR
AND store_items.version = $4::BIGINT

-- checkpoints.forget.list_all_logs_below()
SELECT threads.thread_id, threads.namespace
FROM threads
WHERE threads.tenant = $1::VARCHAR
AND threads.namespace >= $2::VARCHAR
AND threads.namespace < $3::VARCHAR
ORDER BY threads.thread_id, threads.namespace

-- checkpoints.forget.list_items_with_metadata(narrowed=False, after=False)
SELECT store_items.namespace, store_items.key, store_items.version, store_items.meta
FROM store_items
WHERE store_items.tenant = $1::VARCHAR
AND store_items.namespace >= $2::VARCHAR
AND store_items.namespace < $3::VARCHAR
AND NOT (store_items.namespace >= $4::VARCHAR
  AND store_items.namespace < $5::VARCHAR)
ORDER BY store_items.namespace, store_items.key
LIMIT $6

-- checkpoints.listing.list_by_id(scope=log, until=True, after=True)
SELECT threads.thread_id, threads.namespace, checkpoints.checkpoint_id, checkpoints.parent_id,
  checkpoints.seq, checkpoints.meta, checkpoints.created_at, checkpoints.raw_size,
  checkpoints.stored_size, checkpoints.occurred_at, checkpoints.ordinal, checkpoints.rests_on,
  checkpoints.run_id, checkpoints.signature
FROM checkpoints
JOIN threads ON threads.log_id = checkpoints.log_id
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > $1::TIMESTAMP WITH TIME ZONE)
WHERE checkpoints.log_id = $2::UUID
AND checkpoints.checkpoint_id < $3::VARCHAR
AND (checkpoints.checkpoint_id < $4::VARCHAR
  OR checkpoints.checkpoint_id = $4::VARCHAR
  AND (threads.thread_id, threads.namespace) > ($5::VARCHAR, $6::VARCHAR))
ORDER BY checkpoints.checkpoint_id DESC, threads.thread_id, threads.namespace
LIMIT $7

-- checkpoints.listing.list_by_metadata(kind=text, exact=False)
WITH newest AS MATERIALIZED (
  SELECT checkpoints.log_id AS log_id, checkpoints.seq AS seq
  FROM checkpoints
  WHERE checkpoints.tenant = $3::VARCHAR
  AND checkpoints.meta != '{}'::jsonb
  AND (checkpoints.meta @> jsonb_build_object((
        SELECT CAST($1::VARCHAR AS TEXT) AS anon_3), (
        SELECT CAST($2::VARCHAR AS JSONB) AS anon_4)))
  AND jsonb_extract_path(checkpoints.meta, (
      SELECT CAST($1::VARCHAR AS TEXT) AS anon_3)) = (
    SELECT CAST($2::VARCHAR AS JSONB) AS anon_4)
  AND (EXISTS (
      SELECT 1
      FROM threads
      WHERE threads.log_id = checkpoints.log_id
      AND threads.tenant = $3::VARCHAR
      AND threads.namespace = $4::VARCHAR
      AND threads.deleted_at IS NULL
      AND (threads.expires_at IS NULL
        OR threads.expires_at > $5::TIMESTAMP WITH TIME ZONE)))
  ORDER BY checkpoints.created_at DESC, checkpoints.seq DESC, checkpoints.log_id
  LIMIT (
    SELECT $6::INTEGER AS anon_5))
SELECT threads.thread_id, threads.namespace, checkpoints.checkpoint_id, checkpoints.parent_id,
  checkpoints.seq, checkpoints.meta, checkpoints.created_at, checkpoints.raw_size,
  checkpoints.stored_size, checkpoints.occurred_at, checkpoints.ordinal, checkpoints.rests_on,
  checkpoints.run_id, checkpoints.signature, CASE
WHEN (checkpoints.meta != '{}'::jsonb
  AND (checkpoints.meta @> jsonb_build_object((
        SELECT CAST($1::VARCHAR AS TEXT) AS anon_1), (
        SELECT CAST($2::VARCHAR AS JSONB) AS anon_2)))
  AND jsonb_extract_path(checkpoints.meta, (
      SELECT CAST($1::VARCHAR AS TEXT) AS anon_1)) = (
    SELECT CAST($2::VARCHAR AS JSONB) AS anon_2)) THEN 1
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
  OR threads.expires_at > $1::TIMESTAMP WITH TIME ZONE)
WHERE checkpoints.log_id = $2::UUID
AND checkpoints.seq < $3::BIGINT
ORDER BY checkpoints.seq DESC
LIMIT $4

-- checkpoints.listing.list_checkpoints_of_runs()
WITH made AS MATERIALIZED (
  SELECT checkpoints.log_id AS log_id, checkpoints.seq AS seq,
    checkpoints.checkpoint_id AS checkpoint_id
  FROM checkpoints
  WHERE checkpoints.tenant = $1::VARCHAR
  AND checkpoints.run_id IN (
    SELECT listed.run_id
    FROM (
      SELECT (each.value ->> 0) COLLATE "C" AS run_id
      FROM json_array_elements(CAST($2::VARCHAR AS json)) AS each(value)) AS listed))
SELECT threads.thread_id, threads.namespace, made.seq, made.checkpoint_id
FROM made
JOIN threads ON threads.log_id = made.log_id
WHERE threads.tenant = $1::VARCHAR
AND threads.namespace >= $3::VARCHAR
AND threads.namespace < $4::VARCHAR
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > $5::TIMESTAMP WITH TIME ZONE)
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
  JOIN checkpoints AS newest ON newest.log_id = threads.log_id
  AND newest.checkpoint_id = threads.head_id
  WHERE threads.tenant = $1::VARCHAR
  AND threads.namespace = $2::VARCHAR
  AND threads.deleted_at IS NULL
  AND (threads.expires_at IS NULL
    OR threads.expires_at > $3::TIMESTAMP WITH TIME ZONE)
  ORDER BY newest.created_at DESC, newest.seq DESC, newest.log_id
  LIMIT $4) AS heads ON checkpoints.log_id = heads.log_id
ORDER BY checkpoints.created_at DESC, checkpoints.seq DESC, checkpoints.log_id
LIMIT $4

-- checkpoints.listing.list_of_logs()
SELECT threads.thread_id, threads.namespace, checkpoints.checkpoint_id, checkpoints.parent_id,
  checkpoints.seq, checkpoints.meta, checkpoints.created_at, checkpoints.raw_size,
  checkpoints.stored_size, checkpoints.occurred_at, checkpoints.ordinal, checkpoints.rests_on,
  checkpoints.run_id, checkpoints.signature
FROM (
  SELECT CAST(each.value ->> 0 AS uuid) AS log_id
  FROM json_array_elements(CAST($1::VARCHAR AS json)) AS each(value)) AS listed
JOIN threads ON threads.log_id = listed.log_id
JOIN checkpoints ON checkpoints.log_id = threads.log_id
WHERE threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > $2::TIMESTAMP WITH TIME ZONE)
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
  OR threads.expires_at > $1::TIMESTAMP WITH TIME ZONE)
WHERE checkpoints.log_id = $2::UUID
AND checkpoints.seq > $3::BIGINT
ORDER BY checkpoints.seq
LIMIT $4

-- checkpoints.listing.list_threads_by_metadata(kind=text)
SELECT threads.thread_id
FROM checkpoints
JOIN threads ON threads.log_id = checkpoints.log_id
WHERE checkpoints.tenant = $1::VARCHAR
AND checkpoints.meta != '{}'::jsonb
AND (checkpoints.meta @> jsonb_build_object((
      SELECT CAST($2::VARCHAR AS TEXT) AS anon_1), (
      SELECT CAST($3::VARCHAR AS JSONB) AS anon_2)))
AND jsonb_extract_path(checkpoints.meta, (
    SELECT CAST($2::VARCHAR AS TEXT) AS anon_1)) = (
  SELECT CAST($3::VARCHAR AS JSONB) AS anon_2)
UNION
SELECT threads.thread_id
FROM threads
WHERE threads.tenant = $1::VARCHAR
AND CASE
WHEN (CASE
  WHEN (jsonb_typeof(threads.meta) = 'object') THEN 1
  ELSE 0 END = 1) THEN CASE
WHEN (threads.meta != '{}'::jsonb
  AND (threads.meta @> jsonb_build_object((
        SELECT CAST($2::VARCHAR AS TEXT) AS anon_3), (
        SELECT CAST($3::VARCHAR AS JSONB) AS anon_4)))
  AND jsonb_extract_path(threads.meta, (
      SELECT CAST($2::VARCHAR AS TEXT) AS anon_3)) = (
    SELECT CAST($3::VARCHAR AS JSONB) AS anon_4)) THEN 1
ELSE 0 END
ELSE 0 END = 1

-- checkpoints.listing.list_threads_without_metadata()
SELECT threads.thread_id, threads.namespace
FROM threads
WHERE threads.tenant = $1::VARCHAR
AND CASE
WHEN (jsonb_typeof(threads.meta) = 'object') THEN 1
ELSE 0 END = 0

-- checkpoints.listing.list_until()
SELECT threads.thread_id, threads.namespace, checkpoints.checkpoint_id, checkpoints.parent_id,
  checkpoints.seq, checkpoints.meta, checkpoints.created_at, checkpoints.raw_size,
  checkpoints.stored_size, checkpoints.occurred_at, checkpoints.ordinal, checkpoints.rests_on,
  checkpoints.run_id, checkpoints.signature
FROM checkpoints
JOIN threads ON threads.log_id = checkpoints.log_id
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > $1::TIMESTAMP WITH TIME ZONE)
WHERE checkpoints.log_id = $2::UUID
AND checkpoints.occurred_at <= $3::TIMESTAMP WITH TIME ZONE
ORDER BY checkpoints.occurred_at DESC, checkpoints.seq DESC
LIMIT $4

-- checkpoints.listing.measure_log()
SELECT count(*) AS count_1, coalesce(sum(checkpoints.raw_size), $1::INTEGER) AS coalesce_1,
  coalesce(sum(checkpoints.stored_size), $2::INTEGER) AS coalesce_3, CASE
WHEN (count(*) = 0) THEN 0
WHEN (count(*) = (
    SELECT threads.next_seq
    FROM threads
    WHERE threads.log_id = $3::UUID) - 1) THEN count(*) - (
  SELECT count(*) AS count_2
  FROM deltas
  WHERE deltas.log_id = $3::UUID
  AND deltas.base_seq IS NOT NULL)
WHEN (count(*) = (
    SELECT count(*) AS count_3
    FROM deltas
    WHERE deltas.log_id = $3::UUID) - (
    SELECT count(*) AS count_4
    FROM deltas
    WHERE deltas.log_id = $3::UUID
    AND deltas.entry_key IS NOT NULL)) THEN count(*) - (
  SELECT count(*) AS count_2
  FROM deltas
  WHERE deltas.log_id = $3::UUID
  AND deltas.base_seq IS NOT NULL)
ELSE (
  SELECT count(*) AS count_5
  FROM deltas
  JOIN checkpoints ON deltas.log_id = checkpoints.log_id
  AND deltas.seq = checkpoints.seq
  WHERE deltas.log_id = $3::UUID
  AND deltas.kind IN ('snapshot')) END AS anon_1
FROM checkpoints
WHERE checkpoints.log_id = $3::UUID
AND (EXISTS (
    SELECT 1
    FROM threads
    WHERE threads.log_id = $3::UUID
    AND threads.deleted_at IS NULL
    AND (threads.expires_at IS NULL
      OR threads.expires_at > $4::TIMESTAMP WITH TIME ZONE)))

-- checkpoints.listing.read_checkpoint()
SELECT threads.thread_id, threads.namespace, checkpoints.checkpoint_id, checkpoints.parent_id,
  checkpoints.seq, checkpoints.meta, checkpoints.created_at, checkpoints.raw_size,
  checkpoints.stored_size, checkpoints.occurred_at, checkpoints.ordinal, checkpoints.rests_on,
  checkpoints.run_id, checkpoints.signature
FROM checkpoints
JOIN threads ON threads.log_id = checkpoints.log_id
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > $1::TIMESTAMP WITH TIME ZONE)
WHERE checkpoints.log_id = $2::UUID
AND checkpoints.checkpoint_id = $3::VARCHAR

-- checkpoints.load.read_chain(which=newest, signed=False)
WITH RECURSIVE chain(checkpoint_id, raw_size, epoch, seq, base_seq, depth, codec, checksum,
    payload) AS (
  SELECT checkpoints.checkpoint_id AS checkpoint_id, checkpoints.raw_size AS raw_size,
    threads.epoch AS epoch, deltas.seq AS seq, deltas.base_seq AS base_seq, deltas.depth AS depth,
    deltas.codec AS codec, deltas.checksum AS checksum, CASE
  WHEN (checkpoints.checkpoint_id = $1::VARCHAR
    AND threads.epoch = $2::BIGINT
    AND deltas.seq = $3::BIGINT
    AND deltas.checksum = $4::BIGINT) THEN NULL
  ELSE deltas.payload END AS payload
  FROM threads
  JOIN deltas ON deltas.log_id = threads.log_id
  JOIN checkpoints ON checkpoints.log_id = deltas.log_id
  AND checkpoints.seq = deltas.seq
  WHERE checkpoints.log_id = $5::UUID
  AND checkpoints.seq = (
    SELECT max(wanted.seq) AS max_1
    FROM checkpoints AS wanted
    WHERE wanted.log_id = $5::UUID)
  AND threads.deleted_at IS NULL
  AND (threads.expires_at IS NULL
    OR threads.expires_at > $6::TIMESTAMP WITH TIME ZONE)
  UNION ALL
  SELECT chain.checkpoint_id AS checkpoint_id, chain.raw_size AS raw_size, chain.epoch AS epoch,
    base.seq AS seq, base.base_seq AS base_seq, base.depth AS depth, base.codec AS codec,
    base.checksum AS checksum, base.payload AS payload
  FROM chain
  JOIN deltas AS base ON base.seq = chain.base_seq
  AND base.seq < chain.seq
  WHERE base.log_id = $5::UUID
  AND chain.payload IS NOT NULL)
SELECT chain.checkpoint_id, chain.raw_size, chain.epoch, chain.seq, chain.base_seq, chain.depth,
  chain.codec, chain.checksum, chain.payload
FROM chain

-- checkpoints.load.read_snapshot(which=newest, signed=False)
WITH RECURSIVE chain(parent_id, checkpoint_id, raw_size, epoch, seq, base_seq, depth, codec,
    checksum, payload) AS (
  SELECT (
    SELECT parent.checkpoint_id
    FROM checkpoints AS parent
    WHERE parent.log_id = checkpoints.log_id
    AND parent.checkpoint_id = checkpoints.parent_id) AS parent_id,
    checkpoints.checkpoint_id AS checkpoint_id, checkpoints.raw_size AS raw_size,
    threads.epoch AS epoch, deltas.seq AS seq, deltas.base_seq AS base_seq, deltas.depth AS depth,
    deltas.codec AS codec, deltas.checksum AS checksum, CASE
  WHEN (checkpoints.checkpoint_id = $1::VARCHAR
    AND threads.epoch = $2::BIGINT
    AND deltas.seq = $3::BIGINT
    AND deltas.checksum = $4::BIGINT) THEN NULL
  ELSE deltas.payload END AS payload
  FROM threads
  JOIN deltas ON deltas.log_id = threads.log_id
  JOIN checkpoints ON checkpoints.log_id = deltas.log_id
  AND checkpoints.seq = deltas.seq
  WHERE checkpoints.log_id = $5::UUID
  AND checkpoints.seq = (
    SELECT max(wanted.seq) AS max_1
    FROM checkpoints AS wanted
    WHERE wanted.log_id = $5::UUID)
  AND threads.deleted_at IS NULL
  AND (threads.expires_at IS NULL
    OR threads.expires_at > $6::TIMESTAMP WITH TIME ZONE)
  UNION ALL
  SELECT chain.parent_id AS parent_id, chain.checkpoint_id AS checkpoint_id,
    chain.raw_size AS raw_size, chain.epoch AS epoch, base.seq AS seq, base.base_seq AS base_seq,
    base.depth AS depth, base.codec AS codec, base.checksum AS checksum, base.payload AS payload
  FROM chain
  JOIN deltas AS base ON base.seq = chain.base_seq
  AND base.seq < chain.seq
  WHERE base.log_id = $5::UUID
  AND chain.payload IS NOT NULL)
SELECT chain.parent_id, chain.checkpoint_id, chain.raw_size, chain.epoch, chain.seq,
  chain.base_seq, chain.depth, chain.codec, chain.checksum, chain.payload, 2 AS overwrites
FROM chain
UNION ALL
SELECT deltas.label AS parent_id, deltas.label AS checkpoint_id, deltas.seq AS raw_size,
  deltas.seq AS epoch, deltas.seq, deltas.base_seq, deltas.depth, deltas.codec, deltas.checksum,
  deltas.payload, deltas.overwrites
FROM deltas
WHERE deltas.log_id = $5::UUID
AND deltas.kind IN ('write')
AND deltas.entry_key >= ('w/' || (
    SELECT name.checkpoint_id
    FROM checkpoints AS name
    WHERE name.log_id = $5::UUID
    AND name.seq = (
      SELECT max(wanted.seq) AS max_2
      FROM checkpoints AS wanted
      WHERE wanted.log_id = $5::UUID)) || '/')
AND deltas.entry_key < ('w/' || (
    SELECT name.checkpoint_id
    FROM checkpoints AS name
    WHERE name.log_id = $5::UUID
    AND name.seq = (
      SELECT max(wanted.seq) AS max_2
      FROM checkpoints AS wanted
      WHERE wanted.log_id = $5::UUID)) || '0')
AND deltas.label = (
  SELECT name.checkpoint_id
  FROM checkpoints AS name
  WHERE name.log_id = $5::UUID
  AND name.seq = (
    SELECT max(wanted.seq) AS max_2
    FROM checkpoints AS wanted
    WHERE wanted.log_id = $5::UUID))

-- checkpoints.rewrite.list_in_order()
SELECT checkpoints.checkpoint_id, checkpoints.seq
FROM checkpoints
WHERE checkpoints.log_id = $1::UUID
ORDER BY checkpoints.seq

-- checkpoints.rewrite.rewrite_delta()
UPDATE deltas
SET kind=$1::VARCHAR, base_seq=$2::BIGINT, depth=$3::INTEGER, radix=$4::SMALLINT,
  codec=$5::VARCHAR, checksum=$6::BIGINT, payload=$7::BYTEA
WHERE deltas.log_id = $8::UUID
AND deltas.seq = $9::BIGINT

-- checkpoints.rewrite.rewrite_size()
UPDATE checkpoints
SET stored_size=$1::INTEGER
WHERE checkpoints.log_id = $2::UUID
AND checkpoints.seq = $3::BIGINT

-- checkpoints.roads.read_state_row()
SELECT deltas.seq, deltas.checksum
FROM checkpoints
JOIN deltas ON deltas.log_id = checkpoints.log_id
AND deltas.seq = checkpoints.seq
WHERE checkpoints.log_id = $1::UUID
AND checkpoints.checkpoint_id = $2::VARCHAR

-- checkpoints.save.find_saved()
SELECT checkpoints.seq, threads.version, threads.epoch, threads.previous_id, deltas.checksum
FROM checkpoints
JOIN threads ON threads.log_id = checkpoints.log_id
JOIN deltas ON deltas.log_id = checkpoints.log_id
AND deltas.seq = checkpoints.seq
WHERE checkpoints.log_id = $1::UUID
AND checkpoints.checkpoint_id = $2::VARCHAR
AND checkpoints.created_at = $3::TIMESTAMP WITH TIME ZONE

-- checkpoints.snapshots.read_states(alive=True, signed=False)
WITH RECURSIVE needed(log_id, seq, base_seq) AS (
  SELECT deltas_looked_up.log_id AS log_id, deltas_looked_up.seq AS seq,
    deltas_looked_up.base_seq AS base_seq
  FROM (
    SELECT CAST(each.value ->> 0 AS uuid) AS log_id, (each.value ->> 1) COLLATE "C" AS checkpoint_id
    FROM json_array_elements(CAST($1::VARCHAR AS json)) AS each(value)) AS listed
  JOIN LATERAL (
    SELECT threads.log_id AS log_id, threads.tenant AS tenant, threads.thread_id AS thread_id,
      threads.namespace AS namespace, threads.next_seq AS next_seq, threads.version AS version,
      threads.last_ordinal AS last_ordinal, threads.epoch AS epoch, threads.head_id AS head_id,
      threads.previous_id AS previous_id, threads.meta AS meta, threads.forked_from AS forked_from,
      threads.forked_seq AS forked_seq, threads.created_at AS created_at,
      threads.updated_at AS updated_at, threads.active_at AS active_at,
      threads.expires_at AS expires_at, threads.deleted_at AS deleted_at, threads.signature AS signature
    FROM threads
    WHERE threads.log_id = listed.log_id
    AND threads.deleted_at IS NULL
    AND (threads.expires_at IS NULL
      OR threads.expires_at > $2::TIMESTAMP WITH TIME ZONE)
    LIMIT 1) AS threads_looked_up ON true
  JOIN LATERAL (
    SELECT checkpoints.log_id AS log_id, checkpoints.seq AS seq, checkpoints.tenant AS tenant,
      checkpoints.checkpoint_id AS checkpoint_id, checkpoints.parent_id AS parent_id,
      checkpoints.ordinal AS ordinal, checkpoints.rests_on AS rests_on, checkpoints.run_id AS run_id,
      checkpoints.meta AS meta, checkpoints.raw_size AS raw_size,
      checkpoints.stored_size AS stored_size, checkpoints.occurred_at AS occurred_at,
      checkpoints.created_at AS created_at, checkpoints.signature AS signature
    FROM checkpoints
    WHERE checkpoints.log_id = listed.log_id
    AND checkpoints.checkpoint_id = listed.checkpoint_id
    LIMIT 1) AS checkpoints_looked_up ON true
  JOIN LATERAL (
    SELECT deltas.log_id AS log_id, deltas.seq AS seq, deltas.tenant AS tenant, deltas.kind AS kind,
      deltas.entry_key AS entry_key, deltas.label AS label, deltas.base_seq AS base_seq,
      deltas.depth AS depth, deltas.radix AS radix, deltas.overwrites AS overwrites,
      deltas.codec AS codec, deltas.checksum AS checksum, deltas.search_text AS search_text,
      deltas.occurred_at AS occurred_at, deltas.stored_at AS stored_at, deltas.signature AS signature,
      deltas.payload AS payload
    FROM deltas
    WHERE deltas.log_id = checkpoints_looked_up.log_id
    AND deltas.seq = checkpoints_looked_up.seq
    LIMIT 1) AS deltas_looked_up ON true
  UNION ALL
  SELECT base_looked_up.log_id AS log_id, base_looked_up.seq AS seq,
    base_looked_up.base_seq AS base_seq
  FROM needed
  JOIN LATERAL (
    SELECT base.log_id AS log_id, base.seq AS seq, base.tenant AS tenant, base.kind AS kind,
      base.entry_key AS entry_key, base.label AS label, base.base_seq AS base_seq, base.depth AS depth,
      base.radix AS radix, base.overwrites AS overwrites, base.codec AS codec,
      base.checksum AS checksum, base.search_text AS search_text, base.occurred_at AS occurred_at,
      base.stored_at AS stored_at, base.signature AS signature, base.payload AS payload
    FROM deltas AS base
    WHERE base.log_id = needed.log_id
    AND base.seq = needed.base_seq
    AND base.seq < needed.seq
    LIMIT 1) AS base_looked_up ON true)
SELECT deltas_looked_up.log_id, name.checkpoint_id, parent.checkpoint_id AS parent_id,
  deltas_looked_up.seq, deltas_looked_up.base_seq, deltas_looked_up.depth, deltas_looked_up.codec,
  deltas_looked_up.checksum, deltas_looked_up.payload
FROM (
  SELECT DISTINCT needed.log_id AS log_id, needed.seq AS seq
  FROM needed) AS places
JOIN LATERAL (
  SELECT deltas.log_id AS log_id, deltas.seq AS seq, deltas.tenant AS tenant, deltas.kind AS kind,
    deltas.entry_key AS entry_key, deltas.label AS label, deltas.base_seq AS base_seq,
    deltas.depth AS depth, deltas.radix AS radix, deltas.overwrites AS overwrites,
    deltas.codec AS codec, deltas.checksum AS checksum, deltas.search_text AS search_text,
    deltas.occurred_at AS occurred_at, deltas.stored_at AS stored_at, deltas.signature AS signature,
    deltas.payload AS payload
  FROM deltas
  WHERE deltas.log_id = places.log_id
  AND deltas.seq = places.seq
  LIMIT 1) AS deltas_looked_up ON true LEFT OUTER
JOIN checkpoints AS name ON name.log_id = deltas_looked_up.log_id
AND name.seq = deltas_looked_up.seq LEFT OUTER
JOIN checkpoints AS parent ON parent.log_id = name.log_id
AND parent.checkpoint_id = name.parent_id
WHERE deltas_looked_up.kind IN ('snapshot', 'delta')
ORDER BY deltas_looked_up.seq

-- database.clock.read_clock()
SELECT CURRENT_TIMESTAMP AS now

-- database.clock.read_takes_writes()
SELECT CASE
WHEN current_setting('transaction_read_only') = 'off' THEN 1
ELSE 0 END AS writes

-- database.tenant_wall.read_wall()
WITH found AS (
  SELECT pg_class.oid, relrowsecurity AS secured, relrowsecurity
  AND relforcerowsecurity AS forced
  FROM pg_class
  JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace
  WHERE pg_namespace.nspname = coalesce(CAST($1::VARCHAR AS text), current_schema())
  AND pg_class.relkind IN ('r', 'p')
  AND pg_class.relname IN ('store_items', 'threads', 'checkpoints', 'deltas', 'embeddings')),
made AS (
  SELECT oid, secured, forced, forced
  AND EXISTS (
    SELECT 1
    FROM pg_policy
    WHERE polrelid = found.oid
    AND polname = 'memalchemy_tenant') AS enforced
  FROM found)
SELECT CAST(current_user AS text) AS role, CAST(count(*) FILTER (WHERE true) AS integer) AS tables,
  CAST(count(*) FILTER (WHERE made.enforced) AS integer) AS enforced,
  CAST(count(*) FILTER (WHERE made.enforced
    AND row_security_active(made.oid)) AS integer) AS active, CAST(count(*) FILTER (WHERE EXISTS (
      SELECT 1
      FROM pg_policy
      WHERE polrelid = made.oid
      AND polname = 'memalchemy_admin'
      AND EXISTS (
        SELECT 1
        FROM unnest(polroles) AS given(role)
        WHERE given.role = 0
        OR pg_has_role(given.role, 'USAGE')))) AS integer) AS administered,
  CAST(count(*) FILTER (WHERE made.secured
    AND NOT EXISTS (
      SELECT 1
      FROM pg_policy
      WHERE polrelid = made.oid
      AND polname <> 'memalchemy_admin')
    AND (made.forced
      OR row_security_active(made.oid)
      OR EXISTS (
        SELECT 1
        FROM pg_policy
        WHERE polrelid = made.oid
        AND polname = 'memalchemy_admin'))) AS integer) AS closed, CAST(count(*) FILTER (WHERE made.secured
    AND NOT EXISTS (
      SELECT 1
      FROM pg_policy
      WHERE polrelid = made.oid
      AND polname <> 'memalchemy_admin')
    AND (made.forced
      OR row_security_active(made.oid)
      OR EXISTS (
        SELECT 1
        FROM pg_policy
        WHERE polrelid = made.oid
        AND polname = 'memalchemy_admin'))
    AND row_security_active(made.oid)
    AND NOT EXISTS (
      SELECT 1
      FROM pg_policy
      WHERE polrelid = made.oid
      AND polname = 'memalchemy_admin'
      AND EXISTS (
        SELECT 1
        FROM unnest(polroles) AS given(role)
        WHERE given.role = 0
        OR pg_has_role(given.role, 'USAGE')))) AS integer) AS shut, CAST(count(*) FILTER (WHERE EXISTS (
      SELECT 1
      FROM pg_policy
      WHERE polrelid = made.oid
      AND polname NOT IN ('memalchemy_tenant', 'memalchemy_admin'))) AS integer) AS others, (
  SELECT CAST(count(*) AS integer)
  FROM pg_proc
  WHERE NOT proleakproof
  AND oid = ANY (CAST(ARRAY['pg_catalog.ts_match_vq(tsvector, tsquery)',
        'pg_catalog.to_tsvector(regconfig, text)', 'pg_catalog.tsvector_concat(tsvector, tsvector)',
        'pg_catalog.array_to_tsvector(text[])', 'pg_catalog.textcat(text, text)',
        'pg_catalog.jsonb_contains(jsonb, jsonb)', 'pg_catalog.jsonb_ne(jsonb,
          jsonb)'] AS regprocedure[]))) AS leaky, (
  SELECT CAST(rolsuper AS integer)
  FROM pg_roles
  WHERE rolname = current_user) AS superuser
FROM made

-- database.tenant_wall.set_tenant(scope=transaction)
SELECT set_config('memalchemy.tenant', $1::VARCHAR, true) AS tenant

-- inspection._statements.changed_items(below=False, internal=8)
SELECT store_items.namespace, store_items.key, store_items.updated_at
FROM store_items
WHERE store_items.updated_at >= $1::TIMESTAMP WITH TIME ZONE
AND store_items.tenant = $2::VARCHAR
AND store_items.namespace = $3::VARCHAR
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > $4::TIMESTAMP WITH TIME ZONE)
AND store_items.namespace NOT LIKE $5::VARCHAR ESCAPE '\'
AND store_items.namespace NOT LIKE $6::VARCHAR ESCAPE '\'
AND store_items.namespace NOT LIKE $7::VARCHAR ESCAPE '\'
AND store_items.namespace NOT LIKE $8::VARCHAR ESCAPE '\'
AND store_items.namespace NOT LIKE $9::VARCHAR ESCAPE '\'
AND store_items.namespace NOT LIKE $10::VARCHAR ESCAPE '\'
AND store_items.namespace NOT LIKE $11::VARCHAR ESCAPE '\'
AND store_items.namespace NOT LIKE $12::VARCHAR ESCAPE '\'
ORDER BY store_items.updated_at DESC
LIMIT $13

-- inspection._statements.changed_logs()
SELECT threads.log_id, threads.thread_id, threads.namespace, threads.updated_at, threads.version,
  threads.next_seq
FROM threads
WHERE threads.tenant = $1::VARCHAR
AND threads.active_at >= $2::TIMESTAMP WITH TIME ZONE
ORDER BY threads.active_at DESC
LIMIT $3

-- inspection._statements.count_logs_of_namespaces(scope=below, exact=False)
SELECT count(*) AS logs
FROM (
  SELECT 1 AS one
  FROM threads
  WHERE threads.tenant = $1::VARCHAR
  AND threads.namespace >= $2::VARCHAR
  AND threads.namespace < $3::VARCHAR
  LIMIT $4) AS some_logs

-- inspection._statements.count_some_items(below=False, internal=8)
SELECT count(*) AS items
FROM (
  SELECT 1 AS one
  FROM store_items
  WHERE store_items.tenant = $1::VARCHAR
  AND store_items.namespace = $2::VARCHAR
  AND (store_items.expires_at IS NULL
    OR store_items.expires_at > $3::TIMESTAMP WITH TIME ZONE)
  AND store_items.namespace NOT LIKE $4::VARCHAR ESCAPE '\'
  AND store_items.namespace NOT LIKE $5::VARCHAR ESCAPE '\'
  AND store_items.namespace NOT LIKE $6::VARCHAR ESCAPE '\'
  AND store_items.namespace NOT LIKE $7::VARCHAR ESCAPE '\'
  AND store_items.namespace NOT LIKE $8::VARCHAR ESCAPE '\'
  AND store_items.namespace NOT LIKE $9::VARCHAR ESCAPE '\'
  AND store_items.namespace NOT LIKE $10::VARCHAR ESCAPE '\'
  AND store_items.namespace NOT LIKE $11::VARCHAR ESCAPE '\'
  LIMIT $12) AS some_items

-- inspection._statements.find_listed_checkpoints()
SELECT checkpoints.checkpoint_id, checkpoints.seq
FROM checkpoints
WHERE checkpoints.log_id = $1::UUID
AND checkpoints.checkpoint_id IN (
  SELECT listed.checkpoint_id
  FROM (
    SELECT (each.value ->> 0) COLLATE "C" AS checkpoint_id
    FROM json_array_elements(CAST($2::VARCHAR AS json)) AS each(value)) AS listed)

-- inspection._statements.list_item_rows(order=newest, below=False, after=False, internal=8)
SELECT store_items.namespace, store_items.key, store_items.meta, store_items.version,
  store_items.codec, store_items.checksum, store_items.created_at, store_items.updated_at,
  store_items.expires_at, store_items.lifetime, store_items.signature,
  octet_length(store_items.value) AS bytes, CASE
WHEN (octet_length(store_items.value) <= $1::INTEGER) THEN store_items.value END AS value, (
  SELECT count(*) AS count_1
  FROM embeddings
  WHERE embeddings.tenant = store_items.tenant
  AND embeddings.namespace = store_items.namespace
  AND embeddings.key = store_items.key) AS vectors
FROM store_items
WHERE store_items.tenant = $2::VARCHAR
AND store_items.namespace = $3::VARCHAR
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > $4::TIMESTAMP WITH TIME ZONE)
AND store_items.namespace NOT LIKE $5::VARCHAR ESCAPE '\'
AND store_items.namespace NOT LIKE $6::VARCHAR ESCAPE '\'
AND store_items.namespace NOT LIKE $7::VARCHAR ESCAPE '\'
AND store_items.namespace NOT LIKE $8::VARCHAR ESCAPE '\'
AND store_items.namespace NOT LIKE $9::VARCHAR ESCAPE '\'
AND store_items.namespace NOT LIKE $10::VARCHAR ESCAPE '\'
AND store_items.namespace NOT LIKE $11::VARCHAR ESCAPE '\'
AND store_items.namespace NOT LIKE $12::VARCHAR ESCAPE '\'
ORDER BY store_items.updated_at DESC, store_items.namespace DESC, store_items.key DESC
LIMIT $13

-- inspection._statements.list_recent(scope=tenant, like=False, after=False)
SELECT threads.log_id, threads.thread_id, threads.namespace, threads.head_id, threads.created_at,
  threads.updated_at, threads.forked_from, threads.meta
FROM threads
WHERE threads.tenant = $1::VARCHAR
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > $2::TIMESTAMP WITH TIME ZONE)
AND (threads.head_id IS NOT NULL
  OR (EXISTS (
      SELECT 1
      FROM deltas
      WHERE deltas.log_id = threads.log_id
      AND deltas.kind IN ('entry'))))
ORDER BY threads.active_at DESC, threads.updated_at DESC, threads.thread_id, threads.namespace
LIMIT $3

-- inspection._statements.list_vectors()
SELECT embeddings.field, embeddings.model, embeddings.part, embeddings.dimensions
FROM embeddings
WHERE embeddings.tenant = $1::VARCHAR
AND embeddings.namespace = $2::VARCHAR
AND embeddings.key = $3::VARCHAR
ORDER BY embeddings.field, embeddings.model, embeddings.part
LIMIT $4

-- inspection._statements.match_ids(scope=tenant)
SELECT threads.thread_id, threads.namespace
FROM threads
WHERE threads.tenant = $1::VARCHAR
AND lower(threads.thread_id) LIKE $2::VARCHAR ESCAPE '\'
AND threads.thread_id >= $3::VARCHAR
AND threads.thread_id < $4::VARCHAR
ORDER BY threads.thread_id
LIMIT $5

-- inspection._statements.match_ids_of_few(scope=below)
SELECT threads.thread_id, threads.namespace
FROM threads
WHERE threads.tenant = $1::VARCHAR
AND threads.namespace >= $2::VARCHAR
AND threads.namespace < $3::VARCHAR
AND lower(threads.thread_id) LIKE $4::VARCHAR ESCAPE '\'
LIMIT $5

-- inspection._statements.measure_item()
SELECT octet_length(store_items.value) AS bytes
FROM store_items
WHERE store_items.tenant = $1::VARCHAR
AND store_items.namespace = $2::VARCHAR
AND store_items.key = $3::VARCHAR
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > $4::TIMESTAMP WITH TIME ZONE)

-- inspection._statements.next_namespace()
SELECT min(threads.namespace) AS place
FROM threads
WHERE threads.tenant = $1::VARCHAR
AND threads.namespace >= $2::VARCHAR

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
WHERE deltas.log_id = $1::UUID
AND deltas.seq > $2::BIGINT
AND (deltas.kind IN ('entry', 'write')
  OR checkpoints.checkpoint_id IS NOT NULL)
ORDER BY deltas.seq
LIMIT $3

-- inspection._statements.read_heads()
SELECT threads.log_id, threads.thread_id, threads.namespace, threads.head_id, threads.created_at,
  threads.updated_at, threads.forked_from, threads.meta
FROM threads
JOIN (
  SELECT CAST(each.value ->> 0 AS uuid) AS log_id
  FROM json_array_elements(CAST($1::VARCHAR AS json)) AS each(value)) AS listed ON threads.log_id = listed.log_id
WHERE threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > $2::TIMESTAMP WITH TIME ZONE)
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
  LIMIT $1::INTEGER) AS occurred_at
FROM (
  SELECT CAST(each.value ->> 0 AS uuid) AS log_id
  FROM json_array_elements(CAST($2::VARCHAR AS json)) AS each(value)) AS listed

-- inspection._statements.read_newest_checkpoints()
SELECT threads.thread_id, threads.namespace, checkpoints.checkpoint_id, checkpoints.parent_id,
  checkpoints.seq, checkpoints.meta, checkpoints.created_at, checkpoints.raw_size,
  checkpoints.stored_size, checkpoints.occurred_at, checkpoints.ordinal, checkpoints.rests_on,
  checkpoints.run_id, checkpoints.signature
FROM (
  SELECT CAST(each.value ->> 0 AS uuid) AS log_id
  FROM json_array_elements(CAST($1::VARCHAR AS json)) AS each(value)) AS listed
JOIN threads ON threads.log_id = listed.log_id
JOIN checkpoints ON checkpoints.log_id = threads.log_id
AND checkpoints.checkpoint_id = threads.head_id

-- inspection._statements.read_next_positions(one=False)
SELECT threads.namespace, threads.next_seq, threads.created_at, threads.updated_at
FROM threads
WHERE threads.tenant = $1::VARCHAR
AND threads.thread_id = $2::VARCHAR
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > $3::TIMESTAMP WITH TIME ZONE)
ORDER BY threads.updated_at DESC, threads.namespace
LIMIT $4

-- inspection._statements.read_small_writes()
SELECT deltas.label, deltas.seq, deltas.overwrites, deltas.codec, deltas.checksum,
  deltas.entry_key, deltas.stored_at, deltas.signature, CASE
WHEN (octet_length(deltas.payload) <= $1::INTEGER) THEN deltas.payload END AS payload
FROM deltas
JOIN (
  SELECT (each.value ->> 0) COLLATE "C" AS label, (each.value ->> 1) COLLATE "C" AS low,
    (each.value ->> 2) COLLATE "C" AS high
  FROM json_array_elements(CAST($2::VARCHAR AS json)) AS each(value)) AS listed ON deltas.entry_key >= listed.low
AND deltas.entry_key < listed.high
AND deltas.label = listed.label
WHERE deltas.log_id = $3::UUID
AND deltas.kind IN ('write')
ORDER BY deltas.seq

-- inspection._statements.skip_ids()
SELECT threads.thread_id
FROM threads
WHERE threads.tenant = $1::VARCHAR
AND threads.thread_id >= $2::VARCHAR
ORDER BY threads.thread_id
LIMIT $3::INTEGER
OFFSET $4::INTEGER

-- inspection._statements.sum_sampled_logs()
WITH first AS MATERIALIZED (
  SELECT threads.log_id AS log_id, threads.tenant AS tenant, threads.namespace AS namespace,
    threads.deleted_at AS deleted_at, threads.expires_at AS expires_at
  FROM threads
  ORDER BY threads.log_id
  LIMIT $6)
SELECT first.namespace, count(DISTINCT first.log_id) AS logs,
  count(checkpoints.seq) AS checkpoints, coalesce(sum(CASE
    WHEN (deltas.kind IN ('entry')) THEN $1::INTEGER
    ELSE $2::INTEGER END), $3::INTEGER) AS entries, coalesce(sum(coalesce(checkpoints.raw_size,
        octet_length(deltas.payload))), $4::INTEGER) AS raw_size,
  coalesce(sum(coalesce(checkpoints.stored_size, octet_length(deltas.payload))),
    $5::INTEGER) AS stored_size
FROM first
JOIN deltas ON deltas.log_id = first.log_id LEFT OUTER
JOIN checkpoints ON checkpoints.log_id = deltas.log_id
AND checkpoints.seq = deltas.seq
WHERE first.tenant = $7::VARCHAR
AND first.deleted_at IS NULL
AND (first.expires_at IS NULL
  OR first.expires_at > $8::TIMESTAMP WITH TIME ZONE)
GROUP BY first.namespace

-- log.append.delete_beyond_retention()
DELETE FROM checkpoints
WHERE checkpoints.log_id = $1::UUID
AND checkpoints.checkpoint_id != $2::VARCHAR
AND checkpoints.seq <= (
  SELECT newest.seq
  FROM checkpoints AS newest
  WHERE newest.log_id = $1::UUID
  AND newest.checkpoint_id != $2::VARCHAR
  ORDER BY newest.seq DESC
  LIMIT $3::INTEGER
  OFFSET $4)
AND checkpoints.ordinal % $5::BIGINT != 0
AND checkpoints.occurred_at < $6::TIMESTAMP WITH TIME ZONE
AND (checkpoints.checkpoint_id NOT IN (
    WITH RECURSIVE needed(log_id, checkpoint_id) AS (
      SELECT rested_on.log_id AS log_id, rested_on.checkpoint_id AS checkpoint_id
      FROM (
        SELECT kept.log_id AS log_id, kept.rests_on AS checkpoint_id
        FROM checkpoints AS kept
        WHERE kept.log_id = $1::UUID
        AND kept.rests_on IS NOT NULL
        AND NOT (kept.checkpoint_id != $2::VARCHAR
          AND kept.seq <= (
            SELECT newest.seq
            FROM checkpoints AS newest
            WHERE newest.log_id = $1::UUID
            AND newest.checkpoint_id != $2::VARCHAR
            ORDER BY newest.seq DESC
            LIMIT $7::INTEGER
            OFFSET $4)
          AND kept.ordinal % $5::BIGINT != 0
          AND kept.occurred_at < $6::TIMESTAMP WITH TIME ZONE)
        UNION ALL
        SELECT below.log_id AS log_id, below.checkpoint_id AS checkpoint_id
        FROM checkpoints AS below
        WHERE below.log_id = $1::UUID
        AND below.checkpoint_id = $8::VARCHAR) AS rested_on
      UNION
      SELECT checkpoints.log_id AS log_id, checkpoints.rests_on AS rests_on
      FROM needed
      JOIN checkpoints ON checkpoints.log_id = needed.log_id
      AND checkpoints.checkpoint_id = needed.checkpoint_id
      WHERE checkpoints.rests_on IS NOT NULL)
    SELECT needed.checkpoint_id
    FROM needed))

-- log.append.find_entry_keys()
SELECT deltas.entry_key, deltas.seq
FROM deltas
WHERE deltas.log_id = $1::UUID
AND deltas.entry_key IN (
  SELECT listed.entry_key
  FROM (
    SELECT (each.value ->> 0) COLLATE "C" AS entry_key
    FROM json_array_elements(CAST($2::VARCHAR AS json)) AS each(value)) AS listed)

-- log.append.insert_row(of=state)
INSERT INTO deltas (log_id, seq, tenant, kind, base_seq, depth, radix, codec, checksum,
    search_text, signature, payload)
VALUES ($1::UUID, $2::BIGINT, $3::VARCHAR, $4::VARCHAR, $5::BIGINT, $6::INTEGER, $7::SMALLINT,
    $8::VARCHAR, $9::BIGINT, $10::VARCHAR, $11::BYTEA, $12::BYTEA)

-- log.append.upsert_checkpoint()
INSERT INTO checkpoints (log_id, seq, tenant, checkpoint_id, parent_id, ordinal, rests_on, run_id,
    meta, raw_size, stored_size, occurred_at, created_at, signature)
VALUES ($1::UUID, $2::BIGINT, $3::VARCHAR, $4::VARCHAR, nullif(coalesce($5::VARCHAR, $6::VARCHAR),
      $4::VARCHAR), $7::BIGINT, $8::VARCHAR, $9::VARCHAR, $10::JSONB, $11::INTEGER, $12::INTEGER,
    $13::TIMESTAMP WITH TIME ZONE, $14::TIMESTAMP WITH TIME ZONE, $15::BYTEA)
ON CONFLICT (log_id, checkpoint_id)
DO UPDATE SET seq = excluded.seq, parent_id = nullif(coalesce($5::VARCHAR, checkpoints.parent_id),
    $4::VARCHAR), rests_on = excluded.rests_on, run_id = excluded.run_id, meta = excluded.meta,
  raw_size = excluded.raw_size, stored_size = excluded.stored_size,
  occurred_at = excluded.occurred_at, created_at = excluded.created_at,
  signature = excluded.signature

-- log.bulk_delete.count_logs_to_delete(which=live, scope=namespace)
SELECT count(*) AS count_1
FROM threads
WHERE threads.tenant = $1::VARCHAR
AND threads.namespace = $2::VARCHAR
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > $3::TIMESTAMP WITH TIME ZONE)

-- log.bulk_delete.delete_pruned_checkpoints(named=True)
DELETE FROM checkpoints
WHERE (checkpoints.log_id, checkpoints.seq) IN (
  WITH RECURSIVE kept AS MATERIALIZED (
    SELECT listed.log_id AS log_id, (
      SELECT newest.seq
      FROM checkpoints AS newest
      WHERE newest.log_id = listed.log_id
      ORDER BY newest.seq DESC
      LIMIT $1::INTEGER
      OFFSET $2) AS first_kept
    FROM (
      SELECT CAST(each.value ->> 0 AS uuid) AS log_id
      FROM json_array_elements(CAST($3::VARCHAR AS json)) AS each(value)) AS listed),
    ranked AS MATERIALIZED (
    SELECT checkpoints.log_id AS log_id, checkpoints.seq AS seq,
      checkpoints.checkpoint_id AS checkpoint_id, checkpoints.rests_on AS rests_on, CASE
    WHEN (checkpoints.seq < kept.first_kept
      AND checkpoints.ordinal % $4::BIGINT != 0
      AND checkpoints.occurred_at < $5::TIMESTAMP WITH TIME ZONE) THEN 1
    ELSE 0 END AS goes
    FROM checkpoints
    JOIN kept ON checkpoints.log_id = kept.log_id
    WHERE checkpoints.seq >= $6::BIGINT
    AND checkpoints.seq < $7::BIGINT),
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
      JOIN checkpoints AS resting ON resting.log_id = ranked.log_id
      AND resting.rests_on = ranked.checkpoint_id
      WHERE NOT (resting.seq >= $6::BIGINT
        AND resting.seq < $7::BIGINT)) AS rested_on
    UNION
    SELECT checkpoints.log_id AS log_id, checkpoints.rests_on AS rests_on
    FROM needed
    JOIN checkpoints ON checkpoints.log_id = needed.log_id
    AND checkpoints.checkpoint_id = needed.checkpoint_id
    WHERE checkpoints.rests_on IS NOT NULL
    AND checkpoints.seq >= $6::BIGINT
    AND checkpoints.seq < $7::BIGINT), found AS MATERIALIZED (
    SELECT ranked.log_id AS log_id, ranked.seq AS seq
    FROM ranked
    WHERE ranked.goes != 0
    AND CASE
    WHEN ((ranked.log_id, ranked.checkpoint_id) IN (
        SELECT needed.log_id, needed.checkpoint_id
        FROM needed)) THEN 0
    ELSE 1 END != 0)
  SELECT found.log_id, found.seq
  FROM found)
RETURNING checkpoints.log_id, checkpoints.checkpoint_id

-- log.bulk_delete.delete_pruned_writes()
DELETE FROM deltas
WHERE (deltas.log_id, deltas.seq) IN (
  WITH found AS MATERIALIZED (
    SELECT deltas.log_id AS log_id, deltas.seq AS seq
    FROM deltas
    JOIN (
      SELECT CAST(each.value ->> 0 AS uuid) AS log_id, (each.value ->> 1) COLLATE "C" AS label,
        (each.value ->> 2) COLLATE "C" AS low, (each.value ->> 3) COLLATE "C" AS high
      FROM json_array_elements(CAST($1::VARCHAR AS json)) AS each(value)) AS listed ON deltas.log_id = listed.log_id
    AND deltas.entry_key >= listed.low
    AND deltas.entry_key < listed.high
    AND deltas.label = listed.label
    WHERE deltas.kind IN ('write'))
  SELECT found.log_id, found.seq
  FROM found)

-- log.bulk_delete.delete_unneeded_states()
DELETE FROM deltas
WHERE deltas.log_id IN (
  SELECT listed.log_id
  FROM (
    SELECT CAST(each.value ->> 0 AS uuid) AS log_id
    FROM json_array_elements(CAST($1::VARCHAR AS json)) AS each(value)) AS listed)
AND deltas.kind IN ('snapshot', 'delta')
AND deltas.seq >= $2::BIGINT
AND deltas.seq < $3::BIGINT
AND CASE
WHEN ((deltas.log_id, deltas.seq) IN (
    WITH RECURSIVE needed(log_id, seq) AS (
      SELECT roots.log_id AS log_id, roots.seq AS seq
      FROM (
        SELECT checkpoints.log_id AS log_id, checkpoints.seq AS seq
        FROM checkpoints
        JOIN (
          SELECT CAST(each.value ->> 0 AS uuid) AS log_id
          FROM json_array_elements(CAST($1::VARCHAR AS json)) AS each(value)) AS listed ON checkpoints.log_id = listed.log_id
        WHERE checkpoints.seq >= $2::BIGINT
        AND checkpoints.seq < $3::BIGINT
        UNION ALL
        SELECT deltas.log_id AS log_id, deltas.base_seq AS seq
        FROM deltas
        JOIN (
          SELECT CAST(each.value ->> 0 AS uuid) AS log_id
          FROM json_array_elements(CAST($1::VARCHAR AS json)) AS each(value)) AS listed ON deltas.log_id = listed.log_id
        WHERE deltas.seq >= $3::BIGINT
        AND deltas.base_seq >= $2::BIGINT
        AND deltas.base_seq < $3::BIGINT) AS roots
      UNION
      SELECT deltas.log_id AS log_id, deltas.base_seq AS base_seq
      FROM needed
      JOIN deltas ON deltas.log_id = needed.log_id
      AND deltas.seq = needed.seq
      WHERE deltas.base_seq >= $2::BIGINT)
    SELECT needed.log_id, needed.seq
    FROM needed)) THEN 0
ELSE 1 END != 0

-- log.bulk_delete.find_inverted()
SELECT checkpoints.seq
FROM checkpoints
JOIN checkpoints AS below ON below.log_id = checkpoints.log_id
AND below.checkpoint_id = checkpoints.rests_on
WHERE checkpoints.log_id = $1::UUID
AND checkpoints.rests_on IS NOT NULL
AND checkpoints.seq < below.seq
LIMIT $2::INTEGER

-- log.bulk_delete.find_window()
SELECT deltas.seq
FROM deltas
WHERE deltas.log_id = $1::UUID
AND deltas.seq < $2::BIGINT
ORDER BY deltas.seq DESC
LIMIT $3::INTEGER
OFFSET $4::BIGINT

-- log.bulk_delete.find_write()
SELECT deltas.seq
FROM deltas
JOIN (
  SELECT CAST(each.value ->> 0 AS uuid) AS log_id
  FROM json_array_elements(CAST($1::VARCHAR AS json)) AS each(value)) AS listed ON deltas.log_id = listed.log_id
WHERE deltas.entry_key >= $2::VARCHAR
AND deltas.entry_key < $3::VARCHAR
LIMIT $4::INTEGER

-- log.bulk_delete.list_prunable(scope=namespace, after=True)
WITH RECURSIVE page AS (
  SELECT threads.log_id AS log_id, threads.thread_id AS thread_id, threads.namespace AS namespace
  FROM threads
  WHERE threads.tenant = $1::VARCHAR
  AND threads.namespace = $2::VARCHAR
  AND threads.thread_id >= $3::VARCHAR
  AND (threads.thread_id > $3::VARCHAR
    OR threads.namespace > $4::VARCHAR)
  AND threads.deleted_at IS NULL
  AND (threads.expires_at IS NULL
    OR threads.expires_at > $5::TIMESTAMP WITH TIME ZONE)
  AND threads.head_id IS NOT NULL
  ORDER BY threads.thread_id, threads.namespace
  LIMIT $6), kept AS MATERIALIZED (
  SELECT page.log_id AS log_id, (
    SELECT newest.seq
    FROM checkpoints AS newest
    WHERE newest.log_id = page.log_id
    ORDER BY newest.seq DESC
    LIMIT $7::INTEGER
    OFFSET $8) AS first_kept
  FROM page), ranked AS MATERIALIZED (
  SELECT checkpoints.log_id AS log_id, checkpoints.seq AS seq,
    checkpoints.checkpoint_id AS checkpoint_id, checkpoints.rests_on AS rests_on, CASE
  WHEN (checkpoints.seq < kept.first_kept
    AND checkpoints.ordinal % $9::BIGINT != 0
    AND checkpoints.occurred_at < $10::TIMESTAMP WITH TIME ZONE) THEN 1
  ELSE 0 END AS goes
  FROM checkpoints
  JOIN kept ON checkpoints.log_id = kept.log_id),
needed(log_id, checkpoint_id) AS (
  SELECT ranked.log_id AS log_id, ranked.rests_on AS checkpoint_id
  FROM ranked
  WHERE ranked.goes = 0
  AND ranked.rests_on IS NOT NULL
  UNION
  SELECT checkpoints.log_id AS log_id, checkpoints.rests_on AS rests_on
  FROM needed
  JOIN checkpoints ON checkpoints.log_id = needed.log_id
  AND checkpoints.checkpoint_id = needed.checkpoint_id
  WHERE checkpoints.rests_on IS NOT NULL)
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
    WHERE deltas.base_seq IS NOT NULL) AS each_position
  GROUP BY each_position.log_id, each_position.seq) AS positions ON positions.log_id = page.log_id
GROUP BY page.log_id, page.thread_id, page.namespace
ORDER BY page.thread_id, page.namespace

-- log.bulk_delete.list_ranked()
WITH RECURSIVE kept AS MATERIALIZED (
  SELECT listed.log_id AS log_id, (
    SELECT newest.seq
    FROM checkpoints AS newest
    WHERE newest.log_id = listed.log_id
    ORDER BY newest.seq DESC
    LIMIT $1::INTEGER
    OFFSET $2) AS first_kept
  FROM (
    SELECT CAST(each.value ->> 0 AS uuid) AS log_id
    FROM json_array_elements(CAST($3::VARCHAR AS json)) AS each(value)) AS listed),
  ranked AS MATERIALIZED (
  SELECT checkpoints.log_id AS log_id, checkpoints.seq AS seq,
    checkpoints.checkpoint_id AS checkpoint_id, checkpoints.rests_on AS rests_on, CASE
  WHEN (checkpoints.seq < kept.first_kept
    AND checkpoints.ordinal % $4::BIGINT != 0
    AND checkpoints.occurred_at < $5::TIMESTAMP WITH TIME ZONE) THEN 1
  ELSE 0 END AS goes
  FROM checkpoints
  JOIN kept ON checkpoints.log_id = kept.log_id
  WHERE checkpoints.seq >= $6::BIGINT
  AND checkpoints.seq < $7::BIGINT),
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
    JOIN checkpoints AS resting ON resting.log_id = ranked.log_id
    AND resting.rests_on = ranked.checkpoint_id
    WHERE NOT (resting.seq >= $6::BIGINT
      AND resting.seq < $7::BIGINT)) AS rested_on
  UNION
  SELECT checkpoints.log_id AS log_id, checkpoints.rests_on AS rests_on
  FROM needed
  JOIN checkpoints ON checkpoints.log_id = needed.log_id
  AND checkpoints.checkpoint_id = needed.checkpoint_id
  WHERE checkpoints.rests_on IS NOT NULL
  AND checkpoints.seq >= $6::BIGINT
  AND checkpoints.seq < $7::BIGINT)
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
WHERE threads.tenant = $1::VARCHAR
AND threads.namespace = $2::VARCHAR
AND threads.thread_id >= $3::VARCHAR
AND (threads.thread_id > $3::VARCHAR
  OR threads.namespace > $4::VARCHAR)
AND (threads.deleted_at IS NULL
  AND threads.updated_at < $5::TIMESTAMP WITH TIME ZONE
  AND NOT (EXISTS (
      SELECT 1
      FROM threads AS above
      WHERE above.tenant = threads.tenant
      AND above.thread_id = threads.thread_id
      AND above.namespace != threads.namespace
      AND above.namespace != '/'
      AND above.namespace = substr(threads.namespace, $6::INTEGER, length(above.namespace))
      AND above.deleted_at IS NULL
      AND above.updated_at >= $5::TIMESTAMP WITH TIME ZONE))
  OR threads.expires_at <= $7::TIMESTAMP WITH TIME ZONE
  OR threads.deleted_at < $8::TIMESTAMP WITH TIME ZONE)
ORDER BY threads.thread_id, threads.namespace
LIMIT $9

-- log.bulk_delete.lock_batch(wait=True)
SELECT threads.log_id, threads.tenant, threads.thread_id, threads.namespace, threads.updated_at,
  threads.expires_at, threads.deleted_at
FROM threads
WHERE threads.log_id IN (
  SELECT listed.log_id
  FROM (
    SELECT CAST(each.value ->> 0 AS uuid) AS log_id
    FROM json_array_elements(CAST($1::VARCHAR AS json)) AS each(value)) AS listed)
FOR UPDATE OF threads

-- log.bulk_delete.move_epochs()
UPDATE threads
SET version=(threads.version + $1::BIGINT), epoch=(threads.epoch + $2::BIGINT)
WHERE threads.log_id IN (
  SELECT listed.log_id
  FROM (
    SELECT CAST(each.value ->> 0 AS uuid) AS log_id
    FROM json_array_elements(CAST($3::VARCHAR AS json)) AS each(value)) AS listed)

-- log.bulk_delete.read_batch()
SELECT threads.thread_id, threads.namespace, threads.updated_at, threads.expires_at,
  threads.deleted_at
FROM threads
WHERE threads.log_id IN (
  SELECT listed.log_id
  FROM (
    SELECT CAST(each.value ->> 0 AS uuid) AS log_id
    FROM json_array_elements(CAST($1::VARCHAR AS json)) AS each(value)) AS listed)

-- log.copy.copy_head()
INSERT INTO threads (log_id, tenant, thread_id, namespace, next_seq, version, last_ordinal, epoch,
    head_id, previous_id, meta, forked_from, forked_seq, created_at, updated_at, active_at,
    expires_at, deleted_at, signature)
SELECT $1::UUID AS log_id, threads.tenant AS tenant, $2::VARCHAR AS thread_id,
  $3::VARCHAR AS namespace, $4::BIGINT AS next_seq, $5::BIGINT AS version, (
  SELECT coalesce(max(checkpoints.ordinal), 0) AS coalesce_1
  FROM checkpoints
  WHERE checkpoints.log_id = $6::UUID
  AND checkpoints.seq <= $7::BIGINT) AS last_ordinal, $8::BIGINT AS epoch, $9::VARCHAR AS head_id,
  NULL AS previous_id, threads.meta AS meta, threads.thread_id AS forked_from,
  $7::BIGINT AS forked_seq, $10::TIMESTAMP WITH TIME ZONE AS created_at,
  $10::TIMESTAMP WITH TIME ZONE AS updated_at, $11::TIMESTAMP WITH TIME ZONE AS active_at,
  threads.expires_at AS expires_at, NULL AS deleted_at, NULL AS signature
FROM threads
WHERE threads.log_id = $6::UUID

-- log.copy.copy_rows(table=checkpoints)
INSERT INTO checkpoints (log_id, seq, tenant, checkpoint_id, parent_id, ordinal, rests_on, run_id,
    meta, raw_size, stored_size, occurred_at, created_at, signature)
SELECT $1::UUID AS log_id, checkpoints.seq AS seq, checkpoints.tenant AS tenant,
  checkpoints.checkpoint_id AS checkpoint_id, checkpoints.parent_id AS parent_id,
  checkpoints.ordinal AS ordinal, checkpoints.rests_on AS rests_on, checkpoints.run_id AS run_id,
  checkpoints.meta AS meta, checkpoints.raw_size AS raw_size,
  checkpoints.stored_size AS stored_size, checkpoints.occurred_at AS occurred_at,
  checkpoints.created_at AS created_at, checkpoints.signature AS signature
FROM checkpoints
WHERE checkpoints.log_id = $2::UUID
AND checkpoints.seq <= $3::BIGINT

-- log.copy.find_content()
SELECT deltas.seq
FROM deltas
WHERE deltas.log_id = $1::UUID
AND ((deltas.kind NOT IN ('snapshot', 'delta'))
  OR (EXISTS (
      SELECT checkpoints.seq
      FROM checkpoints
      WHERE checkpoints.log_id = $1::UUID
      AND checkpoints.seq = deltas.seq)))
LIMIT $2::INTEGER

-- log.copy.find_last_write()
SELECT max(deltas.seq) AS seq
FROM deltas
WHERE deltas.log_id = $1::UUID
AND deltas.kind IN ('write')
AND deltas.label IN (
  SELECT checkpoints.checkpoint_id
  FROM checkpoints
  WHERE checkpoints.log_id = $1::UUID
  AND checkpoints.seq <= $2::BIGINT)

-- log.copy.find_newest_until()
SELECT checkpoints.checkpoint_id
FROM checkpoints
WHERE checkpoints.log_id = $1::UUID
AND checkpoints.seq <= $2::BIGINT
ORDER BY checkpoints.seq DESC
LIMIT $3::INTEGER

-- log.copy.has_entry()
SELECT deltas.seq
FROM deltas
WHERE deltas.log_id = $1::UUID
AND deltas.seq = $2::BIGINT
AND deltas.kind IN ('entry')

-- log.copy.read_position()
SELECT checkpoints.seq
FROM checkpoints
WHERE checkpoints.log_id = $1::UUID
AND checkpoints.checkpoint_id = $2::VARCHAR

-- log.copy.read_sealed()
SELECT deltas.seq, deltas.kind, deltas.label, deltas.codec, deltas.checksum, deltas.payload
FROM deltas
WHERE deltas.log_id = $1::UUID
AND deltas.seq > $2::BIGINT
ORDER BY deltas.seq
LIMIT $3

-- log.copy.replace_payload()
UPDATE deltas
SET codec=$1::VARCHAR, checksum=$2::BIGINT, payload=$3::BYTEA
WHERE deltas.log_id = $4::UUID
AND deltas.seq = $5::BIGINT

-- log.delete.delete_checkpoint_row()
DELETE FROM checkpoints
WHERE checkpoints.log_id = $1::UUID
AND checkpoints.checkpoint_id = $2::VARCHAR
AND NOT (EXISTS (
    SELECT resting.seq
    FROM checkpoints AS resting
    WHERE resting.log_id = checkpoints.log_id
    AND resting.rests_on = checkpoints.checkpoint_id))
RETURNING checkpoints.seq

-- log.delete.delete_checkpoint_rows()
DELETE FROM checkpoints
WHERE checkpoints.log_id = $1::UUID
AND checkpoints.checkpoint_id IN (
  SELECT listed.checkpoint_id
  FROM (
    SELECT (each.value ->> 0) COLLATE "C" AS checkpoint_id
    FROM json_array_elements(CAST($2::VARCHAR AS json)) AS each(value)) AS listed)

-- log.delete.delete_rows(table=checkpoints, why=order)
DELETE FROM checkpoints
WHERE checkpoints.log_id IN (
  SELECT listed.log_id
  FROM (
    SELECT CAST(each.value ->> 0 AS uuid) AS log_id
    FROM json_array_elements(CAST($1::VARCHAR AS json)) AS each(value)) AS listed)

-- log.delete.delete_unneeded_state()
DELETE FROM deltas
WHERE deltas.log_id = $1::UUID
AND deltas.seq = $2::BIGINT
AND deltas.kind IN ('snapshot', 'delta')
AND NOT (EXISTS (
    SELECT checkpoints.seq
    FROM checkpoints
    WHERE checkpoints.log_id = $1::UUID
    AND checkpoints.seq = $2::BIGINT))
AND NOT (EXISTS (
    SELECT child.seq
    FROM deltas AS child
    WHERE child.log_id = $1::UUID
    AND child.base_seq = $2::BIGINT))
RETURNING deltas.base_seq

-- log.delete.delete_writes()
DELETE FROM deltas
WHERE deltas.log_id = $1::UUID
AND deltas.kind IN ('write')
AND deltas.entry_key >= $2::VARCHAR
AND deltas.entry_key < $3::VARCHAR
AND deltas.label = $4::VARCHAR

-- log.delete.delete_writes_of_checkpoints()
DELETE FROM deltas
WHERE deltas.log_id = $1::UUID
AND deltas.kind IN ('write')
AND deltas.label IN (
  SELECT listed.label
  FROM (
    SELECT (each.value ->> 0) COLLATE "C" AS label
    FROM json_array_elements(CAST($2::VARCHAR AS json)) AS each(value)) AS listed)

-- log.delete.leave_tombstones()
UPDATE threads
SET version=(threads.version + $1::BIGINT), last_ordinal=0, epoch=(threads.epoch + $2::BIGINT),
  head_id=NULL, previous_id=NULL, meta=$3::JSONB, forked_from=NULL, forked_seq=NULL,
  expires_at=NULL, deleted_at=$4::TIMESTAMP WITH TIME ZONE
WHERE threads.log_id IN (
  SELECT listed.log_id
  FROM (
    SELECT CAST(each.value ->> 0 AS uuid) AS log_id
    FROM json_array_elements(CAST($5::VARCHAR AS json)) AS each(value)) AS listed)
AND threads.deleted_at IS NULL

-- log.delete.move_epoch()
UPDATE threads
SET version=(threads.version + $1::BIGINT), epoch=(threads.epoch + $2::BIGINT), head_id=(
  SELECT checkpoints.checkpoint_id
  FROM checkpoints
  WHERE checkpoints.log_id = $3::UUID
  ORDER BY checkpoints.seq DESC
  LIMIT $4::INTEGER)
WHERE threads.log_id = $3::UUID

-- log.delete.read_search_text()
SELECT deltas.seq, deltas.search_text
FROM deltas
WHERE deltas.log_id = $1::UUID
AND (deltas.seq = $2::BIGINT
  OR deltas.seq = (
    SELECT min(checkpoints.seq) AS min_1
    FROM checkpoints
    WHERE checkpoints.log_id = $1::UUID
    AND checkpoints.seq > $2::BIGINT))
ORDER BY deltas.seq

-- log.delete.read_search_texts()
SELECT deltas.seq, deltas.search_text
FROM deltas
WHERE deltas.log_id = $1::UUID
AND deltas.seq IN (
  SELECT CAST(listed.seq AS BIGINT) AS seq
  FROM (
    SELECT (each.value ->> 0) COLLATE "C" AS seq
    FROM json_array_elements(CAST($2::VARCHAR AS json)) AS each(value)) AS listed)
ORDER BY deltas.seq DESC

-- log.delete.replace_search_text()
UPDATE deltas
SET search_text=$1::VARCHAR
WHERE deltas.log_id = $2::UUID
AND deltas.seq = $3::BIGINT

-- log.delete.sweep_states()
DELETE FROM deltas
WHERE deltas.log_id = $1::UUID
AND deltas.kind IN ('snapshot', 'delta')
AND (deltas.seq NOT IN (
    WITH RECURSIVE alive(seq, base_seq) AS (
      SELECT deltas.seq AS seq, deltas.base_seq AS base_seq
      FROM deltas
      JOIN checkpoints ON deltas.log_id = checkpoints.log_id
      AND deltas.seq = checkpoints.seq
      WHERE checkpoints.log_id = $1::UUID
      UNION ALL
      SELECT base.seq AS seq, base.base_seq AS base_seq
      FROM deltas AS base
      JOIN alive ON base.seq = alive.base_seq
      WHERE base.log_id = $1::UUID)
    SELECT alive.seq
    FROM alive))

-- log.delete.sweep_writes()
DELETE FROM deltas
WHERE deltas.log_id = $1::UUID
AND deltas.kind IN ('write')
AND deltas.stored_at < $2::TIMESTAMP WITH TIME ZONE
AND (deltas.label NOT IN (
    SELECT checkpoints.checkpoint_id
    FROM checkpoints
    WHERE checkpoints.log_id = $1::UUID))

-- log.dependencies.find_dependent()
SELECT checkpoints.checkpoint_id
FROM checkpoints
WHERE checkpoints.log_id = $1::UUID
AND checkpoints.rests_on = $2::VARCHAR
ORDER BY checkpoints.seq DESC
LIMIT $3

-- log.dependencies.list_dependencies()
SELECT checkpoints.checkpoint_id, checkpoints.rests_on
FROM checkpoints
WHERE checkpoints.log_id = $1::UUID
AND checkpoints.rests_on IS NOT NULL

-- log.entries.count_entries()
SELECT count(*) AS count_1
FROM deltas
WHERE deltas.log_id = $1::UUID
AND deltas.kind IN ('entry')
AND (EXISTS (
    SELECT 1
    FROM threads
    WHERE threads.log_id = deltas.log_id
    AND threads.deleted_at IS NULL
    AND (threads.expires_at IS NULL
      OR threads.expires_at > $2::TIMESTAMP WITH TIME ZONE)))

-- log.entries.delete_entries(which=all)
DELETE FROM deltas
WHERE deltas.log_id = $1::UUID
AND deltas.kind IN ('entry')

-- log.entries.find_entries_of_key(scope=log)
SELECT threads.thread_id, deltas.seq, deltas.codec, deltas.checksum, deltas.payload,
  deltas.entry_key, deltas.occurred_at, deltas.stored_at, deltas.signature
FROM threads
JOIN deltas ON deltas.log_id = threads.log_id
WHERE deltas.log_id = $1::UUID
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > $2::TIMESTAMP WITH TIME ZONE)
AND deltas.kind IN ('entry')
AND deltas.entry_key = $3::VARCHAR
ORDER BY threads.thread_id

-- log.entries.mark_entries_changed()
UPDATE threads
SET version=(threads.version + $1::BIGINT), epoch=(threads.epoch + $2::BIGINT),
  updated_at=$3::TIMESTAMP WITH TIME ZONE, active_at=$4::TIMESTAMP WITH TIME ZONE
WHERE threads.log_id = $5::UUID

-- log.entries.read_changes(whole=True)
SELECT threads.version, threads.epoch, deltas.seq, deltas.codec, deltas.checksum, deltas.payload,
  deltas.entry_key, deltas.occurred_at, deltas.stored_at, deltas.signature
FROM threads LEFT OUTER
JOIN deltas ON deltas.log_id = threads.log_id
AND deltas.kind IN ('entry')
AND deltas.seq >= CASE
WHEN (threads.epoch = $1::BIGINT) THEN $2::BIGINT
ELSE -1 END
WHERE threads.log_id = $3::UUID
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > $4::TIMESTAMP WITH TIME ZONE)
ORDER BY deltas.seq

-- log.entries.read_entries(end=first, timed=True)
SELECT deltas.seq, deltas.codec, deltas.checksum, deltas.payload, deltas.entry_key,
  deltas.occurred_at, deltas.stored_at, deltas.signature
FROM deltas
WHERE deltas.log_id = $1::UUID
AND deltas.kind IN ('entry')
AND deltas.seq > $2::BIGINT
AND deltas.seq < $3::BIGINT
AND (EXISTS (
    SELECT 1
    FROM threads
    WHERE threads.log_id = deltas.log_id
    AND threads.deleted_at IS NULL
    AND (threads.expires_at IS NULL
      OR threads.expires_at > $4::TIMESTAMP WITH TIME ZONE)))
AND deltas.occurred_at >= $5::TIMESTAMP WITH TIME ZONE
AND deltas.occurred_at < $6::TIMESTAMP WITH TIME ZONE
ORDER BY deltas.seq
LIMIT $7

-- log.entries.read_entries_of_logs()
SELECT threads.thread_id, threads.namespace, deltas.seq, deltas.codec, deltas.checksum,
  deltas.payload, deltas.entry_key, deltas.occurred_at, deltas.stored_at, deltas.signature
FROM (
  SELECT CAST(each.value ->> 0 AS uuid) AS log_id
  FROM json_array_elements(CAST($1::VARCHAR AS json)) AS each(value)) AS listed
JOIN threads ON threads.log_id = listed.log_id
JOIN deltas ON deltas.log_id = threads.log_id
AND deltas.kind IN ('entry')
WHERE threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > $2::TIMESTAMP WITH TIME ZONE)
ORDER BY threads.thread_id, threads.namespace, deltas.seq

-- log.entries.read_entries_of_threads(newest=False)
SELECT threads.thread_id, deltas.seq, deltas.codec, deltas.checksum, deltas.payload,
  deltas.entry_key, deltas.occurred_at, deltas.stored_at, deltas.signature
FROM threads
JOIN deltas ON deltas.log_id = threads.log_id
AND deltas.kind IN ('entry')
WHERE threads.tenant = $1::VARCHAR
AND threads.namespace = $2::VARCHAR
AND threads.thread_id IN (
  SELECT listed.thread_id
  FROM (
    SELECT (each.value ->> 0) COLLATE "C" AS thread_id
    FROM json_array_elements(CAST($3::VARCHAR AS json)) AS each(value)) AS listed)
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > $4::TIMESTAMP WITH TIME ZONE)
ORDER BY threads.thread_id, deltas.seq

-- log.entries.read_version()
SELECT threads.version
FROM threads
WHERE threads.log_id = $1::UUID
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > $2::TIMESTAMP WITH TIME ZONE)

-- log.entries.update_entry()
UPDATE deltas
SET codec=$1::VARCHAR, checksum=$2::BIGINT, search_text=$3::VARCHAR, payload=$4::BYTEA
WHERE deltas.log_id = $5::UUID
AND deltas.kind IN ('entry')
AND deltas.seq = $6::BIGINT

-- log.heads.allot(purpose=checkpoint, condition=any, based=True, parent=True)
UPDATE threads
SET next_seq=(threads.next_seq + $1::BIGINT), version=(threads.version + $1::BIGINT),
  last_ordinal=(threads.last_ordinal + CASE
  WHEN (EXISTS (
      SELECT 1
      FROM checkpoints AS known
      WHERE known.log_id = $2::UUID
      AND known.checkpoint_id = $3::VARCHAR)) THEN 0
  ELSE 1 END), head_id=$3::VARCHAR, previous_id=threads.head_id,
  updated_at=$4::TIMESTAMP WITH TIME ZONE, active_at=$5::TIMESTAMP WITH TIME ZONE,
  expires_at=$6::TIMESTAMP WITH TIME ZONE
WHERE threads.log_id = $2::UUID
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > $4::TIMESTAMP WITH TIME ZONE)
AND threads.epoch = $7::BIGINT
AND (EXISTS (
    SELECT 1
    FROM deltas
    WHERE deltas.log_id = threads.log_id
    AND deltas.seq = $8::BIGINT
    AND deltas.checksum = $9::BIGINT))
AND (EXISTS (
    SELECT 1
    FROM checkpoints
    WHERE checkpoints.log_id = threads.log_id
    AND checkpoints.checkpoint_id = $10::VARCHAR))
RETURNING threads.next_seq, threads.version, threads.epoch, threads.previous_id,
  threads.last_ordinal

-- log.heads.allot_locked()
UPDATE threads
SET next_seq=(threads.next_seq + $1::BIGINT), version=(threads.version + $2::BIGINT),
  epoch=(threads.epoch + $3::BIGINT), updated_at=$4::TIMESTAMP WITH TIME ZONE,
  active_at=$5::TIMESTAMP WITH TIME ZONE, expires_at=$6::TIMESTAMP WITH TIME ZONE
WHERE threads.log_id = $7::UUID
RETURNING threads.next_seq, threads.version, threads.epoch, threads.previous_id,
  threads.last_ordinal

-- log.heads.allot_or_create(purpose=checkpoint, condition=any)
INSERT INTO threads (log_id, tenant, thread_id, namespace, next_seq, version, last_ordinal, epoch,
    head_id, meta, created_at, updated_at, active_at, expires_at)
VALUES ($1::UUID, $2::VARCHAR, $3::VARCHAR, $4::VARCHAR, ($5::BIGINT + 1), $5::BIGINT, CASE
  WHEN (EXISTS (
      SELECT 1
      FROM checkpoints AS known
      WHERE known.log_id = $1::UUID
      AND known.checkpoint_id = $6::VARCHAR)) THEN 0
  ELSE 1 END, $7::BIGINT, $6::VARCHAR, $8::JSONB, $9::TIMESTAMP WITH TIME ZONE,
    $9::TIMESTAMP WITH TIME ZONE, $10::TIMESTAMP WITH TIME ZONE, $11::TIMESTAMP WITH TIME ZONE)
ON CONFLICT (log_id)
DO UPDATE SET next_seq = (threads.next_seq + $5::BIGINT), version = (threads.version + $5::BIGINT),
  last_ordinal = (threads.last_ordinal + excluded.last_ordinal), epoch = CASE
WHEN (threads.deleted_at IS NOT NULL) THEN threads.epoch + $12::BIGINT
ELSE threads.epoch END, head_id = $6::VARCHAR, previous_id = threads.head_id, created_at = CASE
WHEN (threads.deleted_at IS NOT NULL) THEN $9::TIMESTAMP WITH TIME ZONE
ELSE threads.created_at END, updated_at = $9::TIMESTAMP WITH TIME ZONE,
  active_at = $10::TIMESTAMP WITH TIME ZONE, expires_at = $11::TIMESTAMP WITH TIME ZONE,
  deleted_at = NULL
WHERE (threads.expires_at IS NULL
  OR threads.expires_at > $9::TIMESTAMP WITH TIME ZONE)
AND threads.tenant = excluded.tenant
AND threads.thread_id = excluded.thread_id
AND threads.namespace = excluded.namespace
RETURNING threads.next_seq, threads.version, threads.epoch, threads.previous_id,
  threads.last_ordinal

-- log.heads.lock_log()
SELECT threads.namespace, threads.next_seq, threads.epoch, threads.head_id, threads.expires_at,
  threads.deleted_at, threads.version, threads.tenant, threads.thread_id
FROM threads
WHERE threads.log_id = $1::UUID
FOR UPDATE OF threads

-- log.heads.lock_thread()
SELECT threads.namespace, threads.next_seq, threads.epoch, threads.head_id, threads.expires_at,
  threads.deleted_at, threads.version, threads.tenant, threads.thread_id
FROM threads
WHERE threads.tenant = $1::VARCHAR
AND threads.thread_id = $2::VARCHAR
FOR UPDATE OF threads

-- log.heads.read_head()
SELECT threads.namespace, threads.next_seq, threads.epoch, threads.head_id, threads.expires_at,
  threads.deleted_at, threads.version, threads.tenant, threads.thread_id
FROM threads
WHERE threads.log_id = $1::UUID

-- log.heads.set_metadata()
UPDATE threads
SET meta=$1::JSONB
WHERE threads.log_id = $2::UUID
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > $3::TIMESTAMP WITH TIME ZONE)

-- log.heads.set_times()
UPDATE threads
SET created_at=CASE
WHEN (threads.created_at > $1::TIMESTAMP WITH TIME ZONE) THEN $1::TIMESTAMP WITH TIME ZONE
ELSE threads.created_at END, updated_at=$2::TIMESTAMP WITH TIME ZONE,
  active_at=$3::TIMESTAMP WITH TIME ZONE
WHERE threads.log_id = $4::UUID
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > $5::TIMESTAMP WITH TIME ZONE)

-- log.listing.list_all_threads()
SELECT DISTINCT threads.thread_id
FROM threads
WHERE threads.tenant = $1::VARCHAR
ORDER BY threads.thread_id

-- log.listing.list_entry_logs(scope=tenant)
SELECT threads.thread_id, threads.namespace, threads.created_at, threads.updated_at, (
  SELECT count(*) AS count_1
  FROM deltas
  WHERE deltas.log_id = threads.log_id
  AND deltas.kind IN ('entry')) AS entries
FROM threads
WHERE threads.tenant = $1::VARCHAR
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > $2::TIMESTAMP WITH TIME ZONE)
AND (EXISTS (
    SELECT 1
    FROM deltas
    WHERE deltas.log_id = threads.log_id
    AND deltas.kind IN ('entry')))
ORDER BY threads.active_at DESC, threads.updated_at DESC, threads.thread_id, threads.namespace
LIMIT $3

-- log.listing.list_heads(of=checkpoints, after=True, prefix=True)
SELECT threads.thread_id, threads.updated_at, threads.head_id
FROM threads
WHERE threads.tenant = $1::VARCHAR
AND threads.namespace = $2::VARCHAR
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > $3::TIMESTAMP WITH TIME ZONE)
AND threads.head_id IS NOT NULL
AND threads.thread_id >= $4::VARCHAR
AND threads.thread_id < $5::VARCHAR
AND threads.active_at <= $6::TIMESTAMP WITH TIME ZONE
AND (threads.updated_at < $7::TIMESTAMP WITH TIME ZONE
  OR threads.updated_at = $7::TIMESTAMP WITH TIME ZONE
  AND (threads.thread_id) > ($8::VARCHAR))
ORDER BY threads.active_at DESC, threads.updated_at DESC, threads.thread_id
LIMIT $9

-- log.listing.list_ids_in_range()
SELECT DISTINCT threads.thread_id
FROM threads
WHERE threads.tenant = $1::VARCHAR
AND threads.thread_id >= $2::VARCHAR
AND threads.thread_id < $3::VARCHAR
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > $4::TIMESTAMP WITH TIME ZONE)
AND (threads.head_id IS NOT NULL
  OR (EXISTS (
      SELECT 1
      FROM deltas
      WHERE deltas.log_id = threads.log_id
      AND deltas.kind IN ('entry'))))
ORDER BY threads.thread_id
LIMIT $5

-- log.listing.list_last_writes()
SELECT threads.thread_id, threads.updated_at
FROM threads
WHERE threads.tenant = $1::VARCHAR
AND threads.namespace = $2::VARCHAR
AND threads.thread_id IN (
  SELECT listed.thread_id
  FROM (
    SELECT (each.value ->> 0) COLLATE "C" AS thread_id
    FROM json_array_elements(CAST($3::VARCHAR AS json)) AS each(value)) AS listed)
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > $4::TIMESTAMP WITH TIME ZONE)
AND (EXISTS (
    SELECT 1
    FROM deltas
    WHERE deltas.log_id = threads.log_id
    AND deltas.kind IN ('entry')))

-- log.listing.list_logs(which=all, scope=namespace, after=False)
SELECT threads.log_id, threads.thread_id, threads.namespace, threads.head_id, threads.created_at,
  threads.updated_at, threads.forked_from, threads.meta
FROM threads
WHERE threads.tenant = $1::VARCHAR
AND threads.namespace = $2::VARCHAR
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > $3::TIMESTAMP WITH TIME ZONE)
AND (threads.head_id IS NOT NULL
  OR (EXISTS (
      SELECT 1
      FROM deltas
      WHERE deltas.log_id = threads.log_id
      AND deltas.kind IN ('entry'))))
ORDER BY threads.active_at DESC, threads.updated_at DESC, threads.thread_id, threads.namespace
LIMIT $4

-- log.listing.list_logs_below()
SELECT threads.namespace, threads.head_id, threads.deleted_at
FROM threads
WHERE threads.tenant = $1::VARCHAR
AND threads.namespace >= $2::VARCHAR
AND threads.namespace < $3::VARCHAR
AND threads.thread_id = $4::VARCHAR
ORDER BY threads.namespace

-- log.listing.list_logs_of_thread()
SELECT threads.namespace, threads.deleted_at
FROM threads
WHERE threads.tenant = $1::VARCHAR
AND threads.thread_id = $2::VARCHAR
ORDER BY threads.namespace

-- log.listing.list_logs_of_threads()
SELECT threads.thread_id, threads.namespace
FROM threads
WHERE threads.tenant = $1::VARCHAR
AND threads.thread_id IN (
  SELECT listed.thread_id
  FROM (
    SELECT (each.value ->> 0) COLLATE "C" AS thread_id
    FROM json_array_elements(CAST($2::VARCHAR AS json)) AS each(value)) AS listed)
ORDER BY threads.thread_id, threads.namespace

-- log.listing.list_namespaces(of=checkpoints)
SELECT DISTINCT threads.namespace
FROM threads
WHERE threads.tenant = $1::VARCHAR
AND threads.thread_id = $2::VARCHAR
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > $3::TIMESTAMP WITH TIME ZONE)
AND threads.head_id IS NOT NULL
ORDER BY threads.namespace

-- log.listing.list_namespaces_of_thread(after=False)
SELECT threads.namespace
FROM threads
WHERE threads.tenant = $1::VARCHAR
AND threads.namespace >= $2::VARCHAR
AND threads.namespace < $3::VARCHAR
AND threads.thread_id = $4::VARCHAR
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > $5::TIMESTAMP WITH TIME ZONE)
AND threads.head_id IS NOT NULL
ORDER BY threads.namespace
LIMIT $6

-- log.listing.list_threads_older(after=True)
SELECT threads.thread_id
FROM threads
WHERE threads.tenant = $1::VARCHAR
AND threads.namespace = $2::VARCHAR
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > $3::TIMESTAMP WITH TIME ZONE)
AND (EXISTS (
    SELECT 1
    FROM deltas
    WHERE deltas.log_id = threads.log_id
    AND deltas.kind IN ('entry')
    AND deltas.occurred_at < $4::TIMESTAMP WITH TIME ZONE))
AND threads.thread_id > $5::VARCHAR
ORDER BY threads.thread_id
LIMIT $6

-- log.listing.measure_logs()
SELECT listed.log_id, (
  SELECT count(*) AS count_1
  FROM checkpoints
  WHERE checkpoints.log_id = listed.log_id) AS checkpoints, (
  SELECT coalesce(sum(checkpoints.raw_size), $1::INTEGER) AS coalesce_1
  FROM checkpoints
  WHERE checkpoints.log_id = listed.log_id) AS raw_size, (
  SELECT coalesce(sum(checkpoints.stored_size), $2::INTEGER) AS coalesce_3
  FROM checkpoints
  WHERE checkpoints.log_id = listed.log_id) AS stored_size, (
  SELECT coalesce(sum(octet_length(deltas.payload)), $3::INTEGER) AS coalesce_5
  FROM deltas
  WHERE deltas.log_id = listed.log_id
  AND deltas.kind IN ('entry', 'write')) AS other_size, (
  SELECT count(*) AS count_2
  FROM deltas
  WHERE deltas.log_id = listed.log_id
  AND deltas.kind IN ('entry')) AS entries
FROM (
  SELECT CAST(each.value ->> 0 AS uuid) AS log_id
  FROM json_array_elements(CAST($4::VARCHAR AS json)) AS each(value)) AS listed

-- log.listing.read_lengths()
SELECT threads.log_id, threads.next_seq
FROM (
  SELECT CAST(each.value ->> 0 AS uuid) AS log_id
  FROM json_array_elements(CAST($1::VARCHAR AS json)) AS each(value)) AS listed
JOIN threads ON threads.log_id = listed.log_id

-- log.one_statement.allot_and_insert_entries(condition=any)
WITH e_rows AS (
  SELECT e_given.back AS back, e_given.entry_key AS entry_key, e_given.codec AS codec,
    e_given.checksum AS checksum, e_given.search_text AS search_text,
    e_given.occurred_at AS occurred_at, e_given.payload AS payload
  FROM unnest($4::BIGINT[], $5::TEXT[], $6::TEXT[], $7::BIGINT[], $8::TEXT[],
      $9::TIMESTAMP WITH TIME ZONE[], $10::BYTEA[]) AS e_given(back, entry_key, codec, checksum,
      search_text, occurred_at, payload)),
head AS (INSERT INTO threads (log_id, tenant, thread_id, namespace, next_seq, version,
      last_ordinal, epoch, head_id, meta, created_at, updated_at, active_at, expires_at)
  VALUES ($1::UUID, $2::VARCHAR, $11::VARCHAR, $12::VARCHAR, ($13::BIGINT + 1), $14::BIGINT,
      $15::BIGINT, $16::BIGINT, NULL, $17::JSONB, $18::TIMESTAMP WITH TIME ZONE,
      $18::TIMESTAMP WITH TIME ZONE, $19::TIMESTAMP WITH TIME ZONE, $20::TIMESTAMP WITH TIME ZONE)
  ON CONFLICT (log_id)
  DO UPDATE SET next_seq = (threads.next_seq + $13::BIGINT),
    version = (threads.version + $21::BIGINT), epoch = CASE
  WHEN (threads.deleted_at IS NOT NULL) THEN threads.epoch + $22::BIGINT
  ELSE threads.epoch END, created_at = CASE
  WHEN (threads.deleted_at IS NOT NULL) THEN $18::TIMESTAMP WITH TIME ZONE
  ELSE threads.created_at END, updated_at = $18::TIMESTAMP WITH TIME ZONE,
    active_at = $19::TIMESTAMP WITH TIME ZONE, expires_at = $20::TIMESTAMP WITH TIME ZONE,
    deleted_at = NULL
  WHERE (threads.expires_at IS NULL
    OR threads.expires_at > $18::TIMESTAMP WITH TIME ZONE)
  AND threads.tenant = excluded.tenant
  AND threads.thread_id = excluded.thread_id
  AND threads.namespace = excluded.namespace
  RETURNING threads.next_seq, threads.version, threads.epoch, threads.previous_id,
    threads.last_ordinal),
put AS (INSERT INTO deltas (log_id, tenant, kind, depth, stored_at, entry_key, codec, checksum,
      search_text, occurred_at, payload, seq)
  SELECT $1::UUID AS log_id, $2::VARCHAR AS tenant, 'entry' AS kind, 0 AS depth,
    $3::TIMESTAMP WITH TIME ZONE AS stored_at, e_rows.entry_key AS entry_key, e_rows.codec AS codec,
    e_rows.checksum AS checksum, e_rows.search_text AS search_text,
    e_rows.occurred_at AS occurred_at, e_rows.payload AS payload, head.next_seq - e_rows.back AS seq
  FROM e_rows
  JOIN head ON true)
SELECT head.next_seq, head.version, head.epoch, head.previous_id, head.last_ordinal
FROM head

-- log.one_statement.allot_and_insert_write()
WITH head AS (INSERT INTO threads (log_id, tenant, thread_id, namespace, next_seq, version,
      last_ordinal, epoch, head_id, meta, created_at, updated_at, active_at, expires_at)
  VALUES ($1::UUID, $2::VARCHAR, $10::VARCHAR, $11::VARCHAR, ($12::BIGINT + 1), $13::BIGINT,
      $14::BIGINT, $15::BIGINT, NULL, $16::JSONB, $17::TIMESTAMP WITH TIME ZONE,
      $17::TIMESTAMP WITH TIME ZONE, $18::TIMESTAMP WITH TIME ZONE, $19::TIMESTAMP WITH TIME ZONE)
  ON CONFLICT (log_id)
  DO UPDATE SET next_seq = (threads.next_seq + $12::BIGINT),
    updated_at = $17::TIMESTAMP WITH TIME ZONE, active_at = $18::TIMESTAMP WITH TIME ZONE
  WHERE (threads.expires_at IS NULL
    OR threads.expires_at > $17::TIMESTAMP WITH TIME ZONE)
  AND (threads.deleted_at IS NULL
    OR threads.deleted_at < $20::TIMESTAMP WITH TIME ZONE)
  AND threads.tenant = excluded.tenant
  AND threads.thread_id = excluded.thread_id
  AND threads.namespace = excluded.namespace
  RETURNING threads.next_seq, threads.version, threads.epoch, threads.previous_id,
    threads.last_ordinal),
put AS (INSERT INTO deltas (log_id, tenant, entry_key, label, overwrites, codec, checksum,
      stored_at, payload, kind, depth, seq)
  SELECT $1::UUID AS log_id, $2::VARCHAR AS tenant, $3::VARCHAR AS entry_key, $4::VARCHAR AS label,
    $5::SMALLINT AS overwrites, $6::VARCHAR AS codec, $7::BIGINT AS checksum,
    $8::TIMESTAMP WITH TIME ZONE AS stored_at, $9::BYTEA AS payload, 'write' AS kind, 0 AS depth,
    head.next_seq - 1 AS seq
  FROM head)
SELECT head.next_seq - 1 AS seq
FROM head

-- log.one_statement.append_entries_to_known_head()
WITH e_rows AS (
  SELECT e_given.back AS back, e_given.entry_key AS entry_key, e_given.codec AS codec,
    e_given.checksum AS checksum, e_given.search_text AS search_text,
    e_given.occurred_at AS occurred_at, e_given.payload AS payload, e_given.signature AS signature
  FROM unnest($4::BIGINT[], $5::TEXT[], $6::TEXT[], $7::BIGINT[], $8::TEXT[],
      $9::TIMESTAMP WITH TIME ZONE[], $10::BYTEA[], $11::BYTEA[]) AS e_given(back, entry_key, codec,
      checksum, search_text, occurred_at, payload, signature)),
head AS (UPDATE threads
  SET next_seq=(threads.next_seq + $12::BIGINT), version=(threads.version + $13::BIGINT),
    updated_at=$14::TIMESTAMP WITH TIME ZONE, active_at=$15::TIMESTAMP WITH TIME ZONE,
    expires_at=$16::TIMESTAMP WITH TIME ZONE, signature=$17::BYTEA
  WHERE threads.tenant = $18::VARCHAR
  AND threads.thread_id = $19::VARCHAR
  AND threads.namespace = $20::VARCHAR
  AND threads.next_seq = $21::BIGINT
  AND threads.version = $22::BIGINT
  AND threads.last_ordinal = $23::BIGINT
  AND threads.head_id IS NOT DISTINCT
  FROM $24::VARCHAR
  AND threads.previous_id IS NOT DISTINCT
  FROM $25::VARCHAR
  AND threads.created_at = $26::TIMESTAMP WITH TIME ZONE
  AND threads.updated_at = $27::TIMESTAMP WITH TIME ZONE
  AND threads.expires_at IS NOT DISTINCT
  FROM $28::TIMESTAMP WITH TIME ZONE
  AND threads.meta = $29::JSONB
  AND threads.signature IS NOT DISTINCT
  FROM $30::BYTEA
  AND threads.log_id = $1::UUID
  AND threads.deleted_at IS NULL
  AND (threads.expires_at IS NULL
    OR threads.expires_at > $14::TIMESTAMP WITH TIME ZONE)
  RETURNING threads.next_seq, threads.version, threads.epoch, threads.previous_id,
    threads.last_ordinal),
put AS (INSERT INTO deltas (log_id, tenant, kind, depth, stored_at, entry_key, codec, checksum,
      search_text, occurred_at, payload, signature, seq)
  SELECT $1::UUID AS log_id, $2::VARCHAR AS tenant, 'entry' AS kind, 0 AS depth,
    $3::TIMESTAMP WITH TIME ZONE AS stored_at, e_rows.entry_key AS entry_key, e_rows.codec AS codec,
    e_rows.checksum AS checksum, e_rows.search_text AS search_text,
    e_rows.occurred_at AS occurred_at, e_rows.payload AS payload, e_rows.signature AS signature,
    head.next_seq - e_rows.back AS seq
  FROM e_rows
  JOIN head ON true)
SELECT head.next_seq, head.version, head.epoch, head.previous_id, head.last_ordinal
FROM head

-- log.one_statement.insert_entries()
WITH e_rows AS (
  SELECT e_given.entry_key AS entry_key, e_given.codec AS codec, e_given.checksum AS checksum,
    e_given.search_text AS search_text, e_given.occurred_at AS occurred_at,
    e_given.payload AS payload, e_given.seq AS seq, e_given.signature AS signature
  FROM unnest($4::TEXT[], $5::TEXT[], $6::BIGINT[], $7::TEXT[], $8::TIMESTAMP WITH TIME ZONE[],
      $9::BYTEA[], $10::BIGINT[], $11::BYTEA[]) AS e_given(entry_key, codec, checksum, search_text,
      occurred_at, payload, seq, signature))
INSERT INTO deltas (log_id, tenant, kind, depth, stored_at, entry_key, codec, checksum,
    search_text, occurred_at, payload, seq, signature)
SELECT $1::UUID AS log_id, $2::VARCHAR AS tenant, 'entry' AS kind, 0 AS depth,
  $3::TIMESTAMP WITH TIME ZONE AS stored_at, e_rows.entry_key AS entry_key, e_rows.codec AS codec,
  e_rows.checksum AS checksum, e_rows.search_text AS search_text,
  e_rows.occurred_at AS occurred_at, e_rows.payload AS payload, e_rows.seq AS seq,
  e_rows.signature AS signature
FROM e_rows

-- log.one_statement.save_checkpoint(mode=existing, condition=any, parent=True, retain=True)
WITH head AS (UPDATE threads
  SET next_seq=(threads.next_seq + $11::BIGINT), version=(threads.version + $11::BIGINT),
    last_ordinal=(threads.last_ordinal + CASE
    WHEN (EXISTS (
        SELECT 1
        FROM checkpoints AS known
        WHERE known.log_id = $1::UUID
        AND known.checkpoint_id = $12::VARCHAR)) THEN 0
    ELSE 1 END), head_id=$12::VARCHAR, previous_id=threads.head_id,
    updated_at=$13::TIMESTAMP WITH TIME ZONE, active_at=$14::TIMESTAMP WITH TIME ZONE,
    expires_at=$15::TIMESTAMP WITH TIME ZONE
  WHERE threads.log_id = $1::UUID
  AND threads.deleted_at IS NULL
  AND (threads.expires_at IS NULL
    OR threads.expires_at > $13::TIMESTAMP WITH TIME ZONE)
  AND (EXISTS (
      SELECT 1
      FROM checkpoints
      WHERE checkpoints.log_id = threads.log_id
      AND checkpoints.checkpoint_id = $16::VARCHAR))
  RETURNING threads.next_seq, threads.version, threads.epoch, threads.previous_id,
    threads.last_ordinal),
delta AS (INSERT INTO deltas (log_id, tenant, kind, base_seq, depth, radix, codec, checksum,
      search_text, payload, seq)
  SELECT $1::UUID AS log_id, $2::VARCHAR AS tenant, $3::VARCHAR AS kind, $4::BIGINT AS base_seq,
    $5::INTEGER AS depth, $6::SMALLINT AS radix, $7::VARCHAR AS codec, $8::BIGINT AS checksum,
    $9::VARCHAR AS search_text, $10::BYTEA AS payload, head.next_seq - 1 AS seq
  FROM head),
name AS (INSERT INTO checkpoints (log_id, tenant, checkpoint_id, rests_on, run_id, meta, raw_size,
      stored_size, occurred_at, created_at, parent_id, seq, ordinal)
  SELECT $1::UUID AS log_id, $2::VARCHAR AS tenant, $12::VARCHAR AS checkpoint_id,
    $17::VARCHAR AS rests_on, $18::VARCHAR AS run_id, $19::JSONB AS meta, $20::INTEGER AS raw_size,
    $21::INTEGER AS stored_size, $22::TIMESTAMP WITH TIME ZONE AS occurred_at,
    $23::TIMESTAMP WITH TIME ZONE AS created_at, nullif(coalesce($16::VARCHAR, head.previous_id),
      $12::VARCHAR) AS parent_id, head.next_seq - 1 AS seq, head.last_ordinal AS ordinal
  FROM head
  ON CONFLICT (log_id, checkpoint_id)
  DO UPDATE SET seq = excluded.seq, parent_id = nullif(coalesce($16::VARCHAR, checkpoints.parent_id),
      $12::VARCHAR), rests_on = excluded.rests_on, run_id = excluded.run_id, meta = excluded.meta,
    raw_size = excluded.raw_size, stored_size = excluded.stored_size,
    occurred_at = excluded.occurred_at, created_at = excluded.created_at),
retained AS (DELETE FROM checkpoints
  WHERE checkpoints.log_id = $1::UUID
  AND checkpoints.checkpoint_id != $12::VARCHAR
  AND checkpoints.seq <= (
    SELECT newest.seq
    FROM checkpoints AS newest
    WHERE newest.log_id = $1::UUID
    AND newest.checkpoint_id != $12::VARCHAR
    ORDER BY newest.seq DESC
    LIMIT $24::INTEGER
    OFFSET $25)
  AND checkpoints.ordinal % $26::BIGINT != 0
  AND checkpoints.occurred_at < $27::TIMESTAMP WITH TIME ZONE
  AND (checkpoints.checkpoint_id NOT IN (
      WITH RECURSIVE needed(log_id, checkpoint_id) AS (
        SELECT rested_on.log_id AS log_id, rested_on.checkpoint_id AS checkpoint_id
        FROM (
          SELECT kept.log_id AS log_id, kept.rests_on AS checkpoint_id
          FROM checkpoints AS kept
          WHERE kept.log_id = $1::UUID
          AND kept.rests_on IS NOT NULL
          AND NOT (kept.checkpoint_id != $12::VARCHAR
            AND kept.seq <= (
              SELECT newest.seq
              FROM checkpoints AS newest
              WHERE newest.log_id = $1::UUID
              AND newest.checkpoint_id != $12::VARCHAR
              ORDER BY newest.seq DESC
              LIMIT $28::INTEGER
              OFFSET $25)
            AND kept.ordinal % $26::BIGINT != 0
            AND kept.occurred_at < $27::TIMESTAMP WITH TIME ZONE)
          UNION ALL
          SELECT below.log_id AS log_id, below.checkpoint_id AS checkpoint_id
          FROM checkpoints AS below
          WHERE below.log_id = $1::UUID
          AND below.checkpoint_id = $17::VARCHAR) AS rested_on
        UNION
        SELECT checkpoints.log_id AS log_id, checkpoints.rests_on AS rests_on
        FROM needed
        JOIN checkpoints ON checkpoints.log_id = needed.log_id
        AND checkpoints.checkpoint_id = needed.checkpoint_id
        WHERE checkpoints.rests_on IS NOT NULL)
      SELECT needed.checkpoint_id
      FROM needed))
  AND (EXISTS (
      SELECT head.next_seq
      FROM head)))
SELECT head.next_seq, head.version, head.epoch, head.previous_id, head.last_ordinal
FROM head

-- log.one_statement.save_checkpoints(mode=unchanged)
WITH r_rows AS (
  SELECT r_given.log_id AS log_id, r_given.tenant AS tenant, r_given.checkpoint_id AS checkpoint_id,
    r_given.parent_id AS parent_id, r_given.back AS back, r_given.base_checksum AS base_checksum,
    r_given.kind AS kind, r_given.base_seq AS base_seq, r_given.depth AS depth,
    r_given.radix AS radix, r_given.codec AS codec, r_given.checksum AS checksum,
    r_given.search_text AS search_text, r_given.payload AS payload, r_given.rests_on AS rests_on,
    r_given.run_id AS run_id, CAST(r_given.meta AS JSONB) AS meta, r_given.raw_size AS raw_size,
    r_given.stored_size AS stored_size, r_given.occurred_at AS occurred_at,
    r_given.created_at AS created_at
  FROM unnest($1::UUID[], $2::TEXT[], $3::TEXT[], $4::TEXT[], $5::BIGINT[], $6::BIGINT[], $7::TEXT[],
      $8::BIGINT[], $9::INTEGER[], $10::SMALLINT[], $11::TEXT[], $12::BIGINT[], $13::TEXT[],
      $14::BYTEA[], $15::TEXT[], $16::TEXT[], $17::TEXT[], $18::INTEGER[], $19::INTEGER[],
      $20::TIMESTAMP WITH TIME ZONE[], $21::TIMESTAMP WITH TIME ZONE[]) AS r_given(log_id, tenant,
      checkpoint_id, parent_id, back, base_checksum, kind, base_seq, depth, radix, codec, checksum,
      search_text, payload, rests_on, run_id, meta, raw_size, stored_size, occurred_at, created_at)),
  "new" AS (
  SELECT r_rows.log_id AS log_id, r_rows.back AS back
  FROM r_rows
  WHERE NOT (EXISTS (
      SELECT checkpoints.seq
      FROM checkpoints
      WHERE checkpoints.log_id = r_rows.log_id
      AND checkpoints.checkpoint_id = r_rows.checkpoint_id))),
l_rows AS (
  SELECT l_given.log_id AS log_id, l_given.tenant AS tenant, l_given.thread_id AS thread_id,
    l_given.namespace AS namespace, l_given.epoch AS epoch, l_given.count AS count,
    l_given.checkpoint_id AS checkpoint_id, l_given.now AS now, l_given.active_at AS active_at,
    l_given.expires_at AS expires_at
  FROM unnest($22::UUID[], $23::TEXT[], $24::TEXT[], $25::TEXT[], $26::BIGINT[], $27::BIGINT[],
      $28::TEXT[], $29::TIMESTAMP WITH TIME ZONE[], $30::TIMESTAMP WITH TIME ZONE[],
      $31::TIMESTAMP WITH TIME ZONE[]) AS l_given(log_id, tenant, thread_id, namespace, epoch, count,
      checkpoint_id, now, active_at, expires_at)),
sound AS (
  SELECT r_rows.log_id AS log_id, count((
      SELECT deltas.seq
      FROM deltas
      WHERE deltas.log_id = r_rows.log_id
      AND deltas.seq = r_rows.base_seq
      AND deltas.checksum = r_rows.base_checksum)) AS based
  FROM r_rows
  GROUP BY r_rows.log_id),
head AS (UPDATE threads
  SET next_seq=(threads.next_seq + l_rows.count), version=(threads.version + l_rows.count),
    last_ordinal=(threads.last_ordinal + (
      SELECT count(*) AS count_1
      FROM "new"
      WHERE "new".log_id = l_rows.log_id)), head_id=l_rows.checkpoint_id, previous_id=threads.head_id,
    updated_at=l_rows.now, active_at=l_rows.active_at, expires_at=l_rows.expires_at
  FROM l_rows, sound
  WHERE threads.log_id = l_rows.log_id
  AND sound.log_id = l_rows.log_id
  AND sound.based = l_rows.count
  AND threads.deleted_at IS NULL
  AND (threads.expires_at IS NULL
    OR threads.expires_at > l_rows.now)
  AND threads.epoch = l_rows.epoch
  RETURNING threads.log_id, threads.next_seq, threads.version, threads.epoch, threads.previous_id,
    threads.last_ordinal),
delta AS (INSERT INTO deltas (log_id, tenant, kind, base_seq, depth, radix, codec, checksum,
      search_text, payload, seq)
  SELECT r_rows.log_id AS log_id, r_rows.tenant AS tenant, r_rows.kind AS kind,
    r_rows.base_seq AS base_seq, r_rows.depth AS depth, r_rows.radix AS radix, r_rows.codec AS codec,
    r_rows.checksum AS checksum, r_rows.search_text AS search_text, r_rows.payload AS payload,
    head.next_seq - r_rows.back AS seq
  FROM r_rows
  JOIN head ON head.log_id = r_rows.log_id),
name AS (INSERT INTO checkpoints (log_id, tenant, checkpoint_id, rests_on, run_id, meta, raw_size,
      stored_size, occurred_at, created_at, parent_id, seq, ordinal)
  SELECT r_rows.log_id AS log_id, r_rows.tenant AS tenant, r_rows.checkpoint_id AS checkpoint_id,
    r_rows.rests_on AS rests_on, r_rows.run_id AS run_id, r_rows.meta AS meta,
    r_rows.raw_size AS raw_size, r_rows.stored_size AS stored_size,
    r_rows.occurred_at AS occurred_at, r_rows.created_at AS created_at, coalesce(r_rows.parent_id,
      head.previous_id) AS parent_id, head.next_seq - r_rows.back AS seq, head.last_ordinal - (
    SELECT count(*) AS count_2
    FROM "new"
    WHERE "new".log_id = r_rows.log_id
    AND "new".back < r_rows.back) AS ordinal
  FROM r_rows
  JOIN head ON head.log_id = r_rows.log_id
  ON CONFLICT (log_id, checkpoint_id)
  DO UPDATE SET seq = excluded.seq, rests_on = excluded.rests_on, run_id = excluded.run_id,
    meta = excluded.meta, raw_size = excluded.raw_size, stored_size = excluded.stored_size,
    occurred_at = excluded.occurred_at, created_at = excluded.created_at)
SELECT head.log_id, head.next_seq, head.version, head.epoch, head.previous_id, head.last_ordinal
FROM head

-- log.one_statement.save_to_known_head(based=True)
WITH head AS (UPDATE threads
  SET next_seq=(threads.next_seq + $12::BIGINT), version=(threads.version + $12::BIGINT),
    last_ordinal=(threads.last_ordinal + 1), head_id=$13::VARCHAR, previous_id=threads.head_id,
    updated_at=$14::TIMESTAMP WITH TIME ZONE, active_at=$15::TIMESTAMP WITH TIME ZONE,
    expires_at=$16::TIMESTAMP WITH TIME ZONE, signature=$17::BYTEA
  WHERE threads.tenant = $18::VARCHAR
  AND threads.thread_id = $19::VARCHAR
  AND threads.namespace = $20::VARCHAR
  AND threads.next_seq = $21::BIGINT
  AND threads.version = $22::BIGINT
  AND threads.last_ordinal = $23::BIGINT
  AND threads.head_id IS NOT DISTINCT
  FROM $24::VARCHAR
  AND threads.previous_id IS NOT DISTINCT
  FROM $25::VARCHAR
  AND threads.created_at = $26::TIMESTAMP WITH TIME ZONE
  AND threads.updated_at = $27::TIMESTAMP WITH TIME ZONE
  AND threads.expires_at IS NOT DISTINCT
  FROM $28::TIMESTAMP WITH TIME ZONE
  AND threads.meta = $29::JSONB
  AND threads.signature IS NOT DISTINCT
  FROM $30::BYTEA
  AND threads.log_id = $1::UUID
  AND threads.deleted_at IS NULL
  AND (threads.expires_at IS NULL
    OR threads.expires_at > $14::TIMESTAMP WITH TIME ZONE)
  AND NOT (EXISTS (
      SELECT 1
      FROM checkpoints AS known
      WHERE known.log_id = $1::UUID
      AND known.checkpoint_id = $13::VARCHAR))
  AND threads.epoch = $31::BIGINT
  AND (EXISTS (
      SELECT 1
      FROM deltas
      WHERE deltas.log_id = threads.log_id
      AND deltas.seq = $4::BIGINT
      AND deltas.checksum = $32::BIGINT))
  RETURNING threads.next_seq, threads.version, threads.epoch, threads.previous_id,
    threads.last_ordinal),
delta AS (INSERT INTO deltas (log_id, tenant, kind, base_seq, depth, radix, codec, checksum,
      search_text, payload, seq, signature)
  SELECT $1::UUID AS log_id, $2::VARCHAR AS tenant, $3::VARCHAR AS kind, $4::BIGINT AS base_seq,
    $5::INTEGER AS depth, $6::SMALLINT AS radix, $7::VARCHAR AS codec, $8::BIGINT AS checksum,
    $9::VARCHAR AS search_text, $10::BYTEA AS payload, head.next_seq - 1 AS seq,
    $11::BYTEA AS signature
  FROM head),
name AS (INSERT INTO checkpoints (log_id, tenant, checkpoint_id, rests_on, run_id, meta, raw_size,
      stored_size, occurred_at, created_at, parent_id, seq, ordinal, signature)
  SELECT $1::UUID AS log_id, $2::VARCHAR AS tenant, $13::VARCHAR AS checkpoint_id,
    $33::VARCHAR AS rests_on, $34::VARCHAR AS run_id, $35::JSONB AS meta, $36::INTEGER AS raw_size,
    $37::INTEGER AS stored_size, $38::TIMESTAMP WITH TIME ZONE AS occurred_at,
    $39::TIMESTAMP WITH TIME ZONE AS created_at, nullif(coalesce($40::VARCHAR, head.previous_id),
      $13::VARCHAR) AS parent_id, head.next_seq - 1 AS seq, head.last_ordinal AS ordinal,
    $41::BYTEA AS signature
  FROM head
  ON CONFLICT (log_id, checkpoint_id)
  DO UPDATE SET seq = excluded.seq, parent_id = nullif(coalesce($40::VARCHAR, checkpoints.parent_id),
      $13::VARCHAR), rests_on = excluded.rests_on, run_id = excluded.run_id, meta = excluded.meta,
    raw_size = excluded.raw_size, stored_size = excluded.stored_size,
    occurred_at = excluded.occurred_at, created_at = excluded.created_at)
SELECT head.next_seq, head.version, head.epoch, head.previous_id, head.last_ordinal
FROM head

-- log.pending_writes.read_writes_of_checkpoints()
SELECT deltas.log_id, deltas.label, deltas.seq, deltas.overwrites, deltas.codec, deltas.checksum,
  deltas.payload, deltas.entry_key, deltas.stored_at, deltas.signature
FROM (
  SELECT CAST(each.value ->> 0 AS uuid) AS log_id, (each.value ->> 1) COLLATE "C" AS label,
    (each.value ->> 2) COLLATE "C" AS low, (each.value ->> 3) COLLATE "C" AS high
  FROM json_array_elements(CAST($1::VARCHAR AS json)) AS each(value)) AS listed
JOIN LATERAL (
  SELECT threads.log_id AS log_id, threads.tenant AS tenant, threads.thread_id AS thread_id,
    threads.namespace AS namespace, threads.next_seq AS next_seq, threads.version AS version,
    threads.last_ordinal AS last_ordinal, threads.epoch AS epoch, threads.head_id AS head_id,
    threads.previous_id AS previous_id, threads.meta AS meta, threads.forked_from AS forked_from,
    threads.forked_seq AS forked_seq, threads.created_at AS created_at,
    threads.updated_at AS updated_at, threads.active_at AS active_at,
    threads.expires_at AS expires_at, threads.deleted_at AS deleted_at, threads.signature AS signature
  FROM threads
  WHERE threads.log_id = listed.log_id
  AND threads.deleted_at IS NULL
  AND (threads.expires_at IS NULL
    OR threads.expires_at > $2::TIMESTAMP WITH TIME ZONE)
  LIMIT 1) AS threads_looked_up ON true
JOIN deltas ON deltas.log_id = listed.log_id
AND deltas.entry_key >= listed.low
AND deltas.entry_key < listed.high
AND deltas.label = listed.label
WHERE deltas.kind IN ('write')
ORDER BY deltas.seq

-- log.reencoding.move_epoch_of_reencoded()
UPDATE threads
SET epoch=(threads.epoch + 2147483648)
WHERE threads.log_id = $1::UUID

-- maintenance.anchor_reading.list_signed_heads(which=all, after=True)
SELECT threads.log_id, threads.tenant, threads.thread_id, threads.namespace, threads.next_seq,
  threads.version, threads.last_ordinal, threads.head_id, threads.previous_id, threads.created_at,
  threads.updated_at, threads.expires_at, threads.deleted_at, threads.meta, threads.signature
FROM threads
WHERE threads.tenant = $1::VARCHAR
AND (threads.thread_id, threads.namespace) > ($2::VARCHAR, $3::VARCHAR)
ORDER BY threads.thread_id, threads.namespace
LIMIT $4

-- maintenance.anchor_reading.list_sizes_of_items(changed=True, after=True)
SELECT store_items.namespace, store_items.updated_at, store_items.key,
  octet_length(store_items.value) AS stored
FROM store_items
WHERE store_items.tenant = $1::VARCHAR
AND store_items.namespace >= $2::VARCHAR
AND store_items.namespace < $3::VARCHAR
AND NOT (store_items.namespace >= $4::VARCHAR
  AND store_items.namespace < $5::VARCHAR)
AND store_items.updated_at >= $6::TIMESTAMP WITH TIME ZONE
AND (store_items.namespace, store_items.updated_at, store_items.key) > ($7::VARCHAR,
    $8::TIMESTAMP WITH TIME ZONE, $9::VARCHAR)
ORDER BY store_items.namespace, store_items.updated_at, store_items.key
LIMIT $10

-- maintenance.copying.database_copy.count_rows_to_copy(table=threads, scope=tenant)
SELECT count(*) AS count_1
FROM threads
WHERE threads.tenant = $1::VARCHAR

-- maintenance.copying.database_copy.list_heads_to_copy(scope=tenant, after=True)
SELECT threads.log_id, threads.tenant, threads.thread_id, threads.namespace, threads.next_seq,
  threads.version, threads.last_ordinal, threads.epoch, threads.head_id, threads.previous_id,
  threads.meta, threads.forked_from, threads.forked_seq, threads.created_at, threads.updated_at,
  threads.active_at, threads.expires_at, threads.deleted_at, threads.signature
FROM threads
WHERE threads.tenant = $1::VARCHAR
AND (threads.thread_id, threads.namespace, threads.log_id) > ($2::VARCHAR, $3::VARCHAR, $4::UUID)
ORDER BY threads.tenant, threads.thread_id, threads.namespace, threads.log_id
LIMIT $5

-- maintenance.copying.database_copy.list_items_to_copy(scope=tenant, after=True)
SELECT store_items.tenant, store_items.namespace, store_items.key, store_items.version,
  store_items.codec, store_items.checksum, store_items.created_at, store_items.updated_at,
  store_items.expires_at, store_items.lifetime, store_items.signature,
  octet_length(store_items.search_text) AS search_text_bytes,
  octet_length(store_items.field_terms) AS field_terms_bytes, substr(store_items.search_text, 1,
    1) AS search_text_begins
FROM store_items
WHERE store_items.tenant = $1::VARCHAR
AND store_items.namespace != '/~vectors/'
AND store_items.namespace != '/~keys/'
AND store_items.namespace != '/~signing/'
AND store_items.namespace != '/~signing/anchors/'
AND store_items.namespace != '/~signing/removals/'
AND (store_items.namespace, store_items.key) > ($2::VARCHAR, $3::VARCHAR)
ORDER BY store_items.tenant, store_items.namespace, store_items.key
LIMIT $4

-- maintenance.copying.grown_logs.count_names()
SELECT count(*) AS count_1
FROM checkpoints
WHERE checkpoints.log_id = $1::UUID
AND checkpoints.seq <= $2::BIGINT

-- maintenance.copying.grown_logs.find_names()
SELECT checkpoints.checkpoint_id
FROM checkpoints
WHERE checkpoints.log_id = $1::UUID
AND checkpoints.seq <= $2::BIGINT
AND checkpoints.checkpoint_id IN (
  SELECT listed.checkpoint_id
  FROM (
    SELECT (each.value ->> 0) COLLATE "C" AS checkpoint_id
    FROM json_array_elements(CAST($3::VARCHAR AS json)) AS each(value)) AS listed)

-- maintenance.copying.grown_logs.list_names()
SELECT checkpoints.seq, checkpoints.checkpoint_id
FROM checkpoints
WHERE checkpoints.log_id = $1::UUID
AND checkpoints.seq <= $2::BIGINT
AND checkpoints.seq > $3::BIGINT
ORDER BY checkpoints.seq
LIMIT $4

-- maintenance.copying.grown_logs.read_newest_row(table=checkpoints)
SELECT checkpoints.log_id, checkpoints.seq, checkpoints.tenant, checkpoints.checkpoint_id,
  checkpoints.parent_id, checkpoints.ordinal, checkpoints.rests_on, checkpoints.run_id,
  checkpoints.meta, checkpoints.raw_size, checkpoints.stored_size, checkpoints.occurred_at,
  checkpoints.created_at, checkpoints.signature
FROM checkpoints
WHERE checkpoints.log_id = $1::UUID
AND checkpoints.seq <= $2::BIGINT
ORDER BY checkpoints.seq DESC
LIMIT $3::INTEGER

-- maintenance.copying.items.insert_embedding(native=True)
INSERT INTO embeddings (tenant, namespace, key, field, model, part, dimensions, change, signature,
    vector)
VALUES ($1::VARCHAR, $2::VARCHAR, $3::VARCHAR, $4::VARCHAR, $5::VARCHAR, $6::INTEGER, $7::INTEGER,
    $8::BIGINT, $9::BYTEA, CAST($10::VARCHAR AS VECTOR))

-- maintenance.copying.items.list_names_of_vectors()
SELECT embeddings.tenant, embeddings.namespace, embeddings.key, embeddings.field, embeddings.model,
  embeddings.part, embeddings.dimensions, embeddings.signature
FROM embeddings
WHERE embeddings.tenant = $1::VARCHAR
AND (embeddings.namespace, embeddings.key) IN (
  SELECT listed.namespace, listed.key
  FROM (
    SELECT (each.value ->> 0) COLLATE "C" AS namespace, (each.value ->> 1) COLLATE "C" AS key
    FROM json_array_elements(CAST($2::VARCHAR AS json)) AS each(value)) AS listed)
ORDER BY embeddings.tenant, embeddings.namespace, embeddings.key, embeddings.field,
  embeddings.model, embeddings.part

-- maintenance.copying.items.read_embeddings(native=True)
SELECT embeddings.tenant, embeddings.namespace, embeddings.key, embeddings.field, embeddings.model,
  embeddings.part, embeddings.dimensions, embeddings.change, embeddings.signature,
  CAST(embeddings.vector AS TEXT) AS vector
FROM embeddings
WHERE embeddings.tenant = $1::VARCHAR
AND (embeddings.namespace, embeddings.key) IN (
  SELECT listed.namespace, listed.key
  FROM (
    SELECT (each.value ->> 0) COLLATE "C" AS namespace, (each.value ->> 1) COLLATE "C" AS key
    FROM json_array_elements(CAST($2::VARCHAR AS json)) AS each(value)) AS listed)
ORDER BY embeddings.tenant, embeddings.namespace, embeddings.key, embeddings.field,
  embeddings.model, embeddings.part

-- maintenance.copying.items.read_summaries()
SELECT store_items.tenant, store_items.namespace, store_items.key, store_items.version,
  store_items.codec, store_items.checksum, store_items.created_at, store_items.updated_at,
  store_items.expires_at, store_items.lifetime, store_items.signature,
  octet_length(store_items.search_text) AS search_text_bytes,
  octet_length(store_items.field_terms) AS field_terms_bytes, substr(store_items.search_text, 1,
    1) AS search_text_begins
FROM store_items
WHERE store_items.tenant = $1::VARCHAR
AND (store_items.namespace, store_items.key) IN (
  SELECT listed.namespace, listed.key
  FROM (
    SELECT (each.value ->> 0) COLLATE "C" AS namespace, (each.value ->> 1) COLLATE "C" AS key
    FROM json_array_elements(CAST($2::VARCHAR AS json)) AS each(value)) AS listed)

-- maintenance.copying.items.read_whole_item()
SELECT store_items.tenant, store_items.namespace, store_items.key, store_items.meta,
  store_items.version, store_items.codec, store_items.checksum, store_items.search_text,
  store_items.field_terms, store_items.created_at, store_items.updated_at, store_items.expires_at,
  store_items.lifetime, store_items.signature, store_items.value
FROM store_items
WHERE store_items.tenant = $1::VARCHAR
AND store_items.namespace = $2::VARCHAR
AND store_items.key = $3::VARCHAR

-- maintenance.copying.logs.read_heads_on_target()
SELECT threads.log_id, threads.tenant, threads.thread_id, threads.namespace, threads.next_seq,
  threads.version, threads.last_ordinal, threads.epoch, threads.head_id, threads.previous_id,
  threads.meta, threads.forked_from, threads.forked_seq, threads.created_at, threads.updated_at,
  threads.active_at, threads.expires_at, threads.deleted_at, threads.signature
FROM threads
WHERE threads.log_id IN (
  SELECT listed.log_id
  FROM (
    SELECT CAST(each.value ->> 0 AS uuid) AS log_id
    FROM json_array_elements(CAST($1::VARCHAR AS json)) AS each(value)) AS listed)

-- maintenance.copying.logs.read_rows_to_copy(table=checkpoints)
SELECT checkpoints.log_id, checkpoints.seq, checkpoints.tenant, checkpoints.checkpoint_id,
  checkpoints.parent_id, checkpoints.ordinal, checkpoints.rests_on, checkpoints.run_id,
  checkpoints.meta, checkpoints.raw_size, checkpoints.stored_size, checkpoints.occurred_at,
  checkpoints.created_at, checkpoints.signature
FROM checkpoints
WHERE checkpoints.log_id = $1::UUID
AND checkpoints.seq > $2::BIGINT
AND checkpoints.seq <= $3::BIGINT
ORDER BY checkpoints.seq

-- maintenance.copying.logs.read_whole_head()
SELECT threads.log_id, threads.tenant, threads.thread_id, threads.namespace, threads.next_seq,
  threads.version, threads.last_ordinal, threads.epoch, threads.head_id, threads.previous_id,
  threads.meta, threads.forked_from, threads.forked_seq, threads.created_at, threads.updated_at,
  threads.active_at, threads.expires_at, threads.deleted_at, threads.signature
FROM threads
WHERE threads.log_id = $1::UUID

-- maintenance.copying.logs.replace_copied_head()
UPDATE threads
SET tenant=$1::VARCHAR, thread_id=$2::VARCHAR, namespace=$3::VARCHAR, next_seq=$4::BIGINT,
  version=$5::BIGINT, last_ordinal=$6::BIGINT, epoch=$7::BIGINT, head_id=$8::VARCHAR,
  previous_id=$9::VARCHAR, meta=$10::JSONB, forked_from=$11::VARCHAR, forked_seq=$12::BIGINT,
  created_at=$13::TIMESTAMP WITH TIME ZONE, updated_at=$14::TIMESTAMP WITH TIME ZONE,
  active_at=$15::TIMESTAMP WITH TIME ZONE, expires_at=$16::TIMESTAMP WITH TIME ZONE,
  deleted_at=$17::TIMESTAMP WITH TIME ZONE, signature=$18::BYTEA
WHERE threads.log_id = $19::UUID

-- maintenance.copying.target.insert_copied_row(table=checkpoints)
INSERT INTO checkpoints (log_id, seq, tenant, checkpoint_id, parent_id, ordinal, rests_on, run_id,
    meta, raw_size, stored_size, occurred_at, created_at, signature)
VALUES ($1::UUID, $2::BIGINT, $3::VARCHAR, $4::VARCHAR, $5::VARCHAR, $6::BIGINT, $7::VARCHAR,
    $8::VARCHAR, $9::JSONB, $10::INTEGER, $11::INTEGER, $12::TIMESTAMP WITH TIME ZONE,
    $13::TIMESTAMP WITH TIME ZONE, $14::BYTEA)

-- maintenance.log_positions.list_positions(table=checkpoints)
SELECT checkpoints.seq, 0 AS stored
FROM checkpoints
WHERE checkpoints.log_id = $1::UUID
AND checkpoints.seq > $2::BIGINT
ORDER BY checkpoints.seq
LIMIT $3

-- maintenance.own_words.read_worded_row()
SELECT deltas.seq, deltas.kind, deltas.codec, deltas.checksum, deltas.search_text, deltas.payload,
  checkpoints.checkpoint_id, checkpoints.parent_id
FROM deltas LEFT OUTER
JOIN checkpoints ON checkpoints.log_id = deltas.log_id
AND checkpoints.seq = deltas.seq
WHERE deltas.log_id = $1::UUID
AND deltas.seq = $2::BIGINT

-- maintenance.person.list_keys_with_value(table=threads)
SELECT DISTINCT anon_1.key AS key
FROM threads
JOIN jsonb_each(CASE
  WHEN (jsonb_typeof(threads.meta) = 'object') THEN threads.meta
  ELSE '{}'::jsonb END) AS anon_1(key, value) ON true
WHERE jsonb_typeof(anon_1.value) IN ('string', 'number')
AND (anon_1.value #>> '{}') = CAST($1 AS TEXT)
AND threads.tenant = $2::VARCHAR

-- maintenance.person.list_namespaces_of_logs()
SELECT DISTINCT threads.namespace
FROM threads
WHERE threads.tenant = $1::VARCHAR
ORDER BY threads.namespace

-- maintenance.rotation.statements.count_all_vectors(scope=tenant)
SELECT count(*) AS count_1
FROM embeddings
WHERE embeddings.tenant = $1::VARCHAR

-- maintenance.rotation.statements.count_rows_by_encryption(table=deltas, scope=tenant)
SELECT stored.codec, stored.begins, stored.has_words, stored.has_fields, count(*) AS number
FROM (
  SELECT deltas.codec AS codec, CASE
  WHEN (deltas.codec LIKE '%+gcm2') THEN substr(deltas.payload, 1, 9) END AS begins, CASE
  WHEN (deltas.search_text IS NOT NULL) THEN 1
  ELSE 0 END AS has_words, 0 AS has_fields
  FROM deltas
  WHERE deltas.tenant = $1::VARCHAR) AS stored
GROUP BY stored.codec, stored.begins, stored.has_words, stored.has_fields

-- maintenance.rotation.statements.grow_size()
UPDATE checkpoints
SET stored_size=(checkpoints.stored_size + 45)
WHERE checkpoints.log_id = $1::UUID
AND checkpoints.seq = $2::BIGINT

-- maintenance.rotation.statements.list_items_with_vectors(scope=tenant)
SELECT DISTINCT embeddings.tenant, embeddings.namespace, embeddings.key
FROM embeddings
WHERE embeddings.tenant = $1::VARCHAR
ORDER BY embeddings.tenant, embeddings.namespace, embeddings.key
LIMIT $2

-- maintenance.rotation.statements.list_rows(table=deltas, scope=tenant, after=True)
SELECT deltas.log_id, deltas.seq, deltas.tenant, threads.thread_id, threads.namespace,
  deltas.codec AS codec, CASE
WHEN (deltas.codec LIKE '%+gcm2') THEN substr(deltas.payload, 1, 9) END AS begins, CASE
WHEN (deltas.search_text IS NOT NULL) THEN 1
ELSE 0 END AS has_words, 0 AS has_fields, octet_length(deltas.payload) AS stored
FROM deltas LEFT OUTER
JOIN threads ON threads.log_id = deltas.log_id
WHERE deltas.tenant = $1::VARCHAR
AND (deltas.log_id, deltas.seq) > ($2::UUID, $3::BIGINT)
ORDER BY deltas.log_id, deltas.seq
LIMIT $4

-- maintenance.rotation.statements.list_strays()
SELECT deltas.log_id, deltas.seq, threads.tenant, threads.thread_id, threads.namespace
FROM deltas
JOIN threads ON threads.log_id = deltas.log_id
WHERE threads.tenant = $1::VARCHAR
AND deltas.tenant != threads.tenant
ORDER BY deltas.log_id, deltas.seq
LIMIT 1000

-- maintenance.rotation.statements.read_payloads()
SELECT deltas.seq, deltas.kind, deltas.label, deltas.codec, deltas.checksum, deltas.payload
FROM deltas
WHERE deltas.log_id = $1::UUID
AND deltas.seq >= $2::BIGINT
AND deltas.seq <= $3::BIGINT
ORDER BY deltas.seq

-- maintenance.rotation.statements.read_values()
SELECT store_items.tenant, store_items.namespace, store_items.key, store_items.version,
  store_items.codec, store_items.checksum, store_items.value
FROM store_items
WHERE store_items.tenant = $1::VARCHAR
AND (store_items.namespace, store_items.key) IN (
  SELECT listed.namespace, listed.key
  FROM (
    SELECT (each.value ->> 0) COLLATE "C" AS namespace, (each.value ->> 1) COLLATE "C" AS key
    FROM json_array_elements(CAST($2::VARCHAR AS json)) AS each(value)) AS listed)

-- maintenance.rotation.statements.reseal_delta(words=kept)
UPDATE deltas
SET codec=$1::VARCHAR, checksum=$2::BIGINT, payload=$3::BYTEA
WHERE deltas.log_id = $4::UUID
AND deltas.seq = $5::BIGINT
AND deltas.codec = $6::VARCHAR
AND deltas.checksum = $7::BIGINT

-- maintenance.rotation.statements.reseal_item(words=kept, fields=kept)
UPDATE store_items
SET codec=$1::VARCHAR, checksum=$2::BIGINT, value=$3::BYTEA
WHERE store_items.tenant = $4::VARCHAR
AND store_items.namespace = $5::VARCHAR
AND store_items.key = $6::VARCHAR
AND store_items.version = $7::BIGINT
AND store_items.codec = $8::VARCHAR
AND store_items.checksum = $9::BIGINT

-- maintenance.sign.list_items_to_sign(after=True)
SELECT store_items.namespace, store_items.key
FROM store_items
WHERE store_items.tenant = $1::VARCHAR
AND store_items.namespace != '/~vectors/'
AND store_items.namespace != '/~keys/'
AND store_items.namespace != '/~signing/'
AND store_items.namespace != '/~signing/anchors/'
AND store_items.namespace != '/~signing/removals/'
AND (store_items.namespace, store_items.key) > ($2::VARCHAR, $3::VARCHAR)
ORDER BY store_items.namespace, store_items.key
LIMIT $4

-- maintenance.sign.list_log_keys(scope=tenant, after=True)
SELECT threads.log_id, threads.thread_id, threads.namespace
FROM threads
WHERE threads.tenant = $1::VARCHAR
AND (threads.thread_id, threads.namespace) > ($2::VARCHAR, $3::VARCHAR)
ORDER BY threads.thread_id, threads.namespace
LIMIT $4

-- maintenance.sign.read_items_to_sign()
SELECT store_items.namespace, store_items.key, store_items.version, store_items.meta,
  store_items.codec, store_items.value, store_items.created_at, store_items.updated_at,
  store_items.expires_at, store_items.lifetime, store_items.search_text, store_items.field_terms,
  store_items.signature
FROM store_items
WHERE store_items.tenant = $1::VARCHAR
AND (store_items.namespace, store_items.key) IN (
  SELECT listed.namespace, listed.key
  FROM (
    SELECT (each.value ->> 0) COLLATE "C" AS namespace, (each.value ->> 1) COLLATE "C" AS key
    FROM json_array_elements(CAST($2::VARCHAR AS json)) AS each(value)) AS listed)

-- maintenance.space.count_expired()
SELECT count(*) AS expired
FROM store_items
WHERE store_items.tenant = $1::VARCHAR
AND store_items.expires_at <= $2::TIMESTAMP WITH TIME ZONE

-- maintenance.space.count_live_threads()
SELECT count(DISTINCT threads.thread_id) AS count_1
FROM threads
WHERE threads.tenant = $1::VARCHAR
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > $2::TIMESTAMP WITH TIME ZONE)
AND (threads.head_id IS NOT NULL
  OR (EXISTS (
      SELECT 1
      FROM deltas
      WHERE deltas.log_id = threads.log_id
      AND deltas.kind IN ('entry'))))

-- maintenance.space.measure_checkpoints()
SELECT count(*) AS checkpoints, coalesce(sum(CASE
    WHEN (deltas.kind IN ('snapshot')) THEN $1::INTEGER
    ELSE $2::INTEGER END), $3::INTEGER) AS whole
FROM checkpoints
JOIN deltas ON checkpoints.log_id = deltas.log_id
AND checkpoints.seq = deltas.seq
JOIN threads ON threads.log_id = checkpoints.log_id
WHERE checkpoints.tenant = $4::VARCHAR
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > $5::TIMESTAMP WITH TIME ZONE)

-- maintenance.space.measure_growth()
SELECT coalesce(sum(CASE
    WHEN (coalesce(deltas.stored_at,
          checkpoints.created_at) >= $1::TIMESTAMP WITH TIME ZONE) THEN $2::INTEGER
    ELSE $3::INTEGER END), $4::INTEGER) AS rows_1, coalesce(sum(CASE
    WHEN (coalesce(deltas.stored_at,
          checkpoints.created_at) >= $1::TIMESTAMP WITH TIME ZONE) THEN octet_length(deltas.payload)
    ELSE $5::INTEGER END), $6::INTEGER) AS bytes_1, coalesce(sum(CASE
    WHEN (coalesce(deltas.stored_at,
          checkpoints.created_at) >= $7::TIMESTAMP WITH TIME ZONE) THEN $8::INTEGER
    ELSE $9::INTEGER END), $10::INTEGER) AS rows_7, coalesce(sum(CASE
    WHEN (coalesce(deltas.stored_at,
          checkpoints.created_at) >= $7::TIMESTAMP WITH TIME ZONE) THEN octet_length(deltas.payload)
    ELSE $11::INTEGER END), $12::INTEGER) AS bytes_7, coalesce(sum(CASE
    WHEN (coalesce(deltas.stored_at,
          checkpoints.created_at) >= $13::TIMESTAMP WITH TIME ZONE) THEN $14::INTEGER
    ELSE $15::INTEGER END), $16::INTEGER) AS rows_30, coalesce(sum(CASE
    WHEN (coalesce(deltas.stored_at,
          checkpoints.created_at) >= $13::TIMESTAMP WITH TIME ZONE) THEN octet_length(deltas.payload)
    ELSE $17::INTEGER END), $18::INTEGER) AS bytes_30
FROM deltas LEFT OUTER
JOIN checkpoints ON checkpoints.log_id = deltas.log_id
AND checkpoints.seq = deltas.seq
WHERE deltas.tenant = $19::VARCHAR

-- maintenance.space.measure_items()
SELECT count(*) AS entries, coalesce(sum(CASE
    WHEN (store_items.expires_at IS NULL
      OR store_items.expires_at > $1::TIMESTAMP WITH TIME ZONE) THEN $2::INTEGER
    ELSE $3::INTEGER END), $4::INTEGER) AS live, coalesce(sum(octet_length(store_items.value)),
    $5::INTEGER) AS value_bytes, coalesce(sum(CASE
    WHEN (store_items.search_text IS NOT NULL
      OR store_items.field_terms IS NOT NULL) THEN $6::INTEGER
    ELSE $7::INTEGER END), $8::INTEGER) AS texts, coalesce(sum(octet_length(store_items.search_text)),
    $9::INTEGER) + coalesce(sum(octet_length(store_items.field_terms)), $10::INTEGER) AS text_bytes
FROM store_items
WHERE store_items.tenant = $11::VARCHAR
AND NOT (store_items.namespace >= $12::VARCHAR
  AND store_items.namespace < $13::VARCHAR)

-- maintenance.space.measure_kinds()
SELECT deltas.kind, count(*) AS entries, sum(octet_length(deltas.payload)) AS payload_bytes,
  count(deltas.search_text) AS texts, coalesce(sum(octet_length(deltas.search_text)),
    $1::INTEGER) AS text_bytes
FROM deltas
WHERE deltas.tenant = $2::VARCHAR
GROUP BY deltas.kind
ORDER BY deltas.kind

-- maintenance.space.measure_largest_logs()
SELECT threads.thread_id, threads.namespace, held.entries, held.held, count(*) OVER () AS logs
FROM (
  SELECT deltas.log_id AS log_id, count(*) AS entries,
    sum(octet_length(deltas.payload)) + coalesce(sum(octet_length(deltas.search_text)),
      $1::INTEGER) AS held
  FROM deltas
  WHERE deltas.tenant = $2::VARCHAR
  GROUP BY deltas.log_id) AS held
JOIN threads ON threads.log_id = held.log_id
ORDER BY held.held DESC, threads.thread_id, threads.namespace
LIMIT $3

-- maintenance.space.measure_namespaces()
SELECT threads.namespace, count(DISTINCT threads.log_id) AS logs,
  count(checkpoints.seq) AS checkpoints, coalesce(sum(CASE
    WHEN (deltas.kind IN ('entry')) THEN $1::INTEGER
    ELSE $2::INTEGER END), $3::INTEGER) AS entries, coalesce(sum(coalesce(checkpoints.raw_size,
        octet_length(deltas.payload))), $4::INTEGER) AS raw_size,
  coalesce(sum(coalesce(checkpoints.stored_size, octet_length(deltas.payload))),
    $5::INTEGER) AS stored_size
FROM threads
JOIN deltas ON deltas.log_id = threads.log_id LEFT OUTER
JOIN checkpoints ON checkpoints.log_id = deltas.log_id
AND checkpoints.seq = deltas.seq
WHERE threads.tenant = $6::VARCHAR
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > $7::TIMESTAMP WITH TIME ZONE)
AND (threads.head_id IS NOT NULL
  OR (EXISTS (
      SELECT 1
      FROM deltas
      WHERE deltas.log_id = threads.log_id
      AND deltas.kind IN ('entry'))))
GROUP BY threads.namespace

-- maintenance.space.measure_vectors()
SELECT count(*) AS entries, coalesce(sum(embeddings.dimensions), $1::INTEGER) AS numbers
FROM embeddings
WHERE embeddings.tenant = $2::VARCHAR

-- maintenance.space.read_tables()
WITH made AS (
  SELECT pg_class.oid, pg_class.relname, pg_class.relowner
  FROM pg_class
  JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace
  WHERE pg_namespace.nspname = coalesce(CAST($1::VARCHAR AS text), current_schema())
  AND pg_class.relkind IN ('r', 'p')
  AND pg_class.relname IN ('threads', 'checkpoints', 'deltas', 'store_items', 'embeddings'))
SELECT made.relname AS name, coalesce(seen.n_live_tup, 0) AS live, coalesce(seen.n_dead_tup,
    0) AS dead, pg_total_relation_size(made.oid) AS bytes, CASE
WHEN pg_has_role(made.relowner, 'USAGE') THEN 1
ELSE 0 END AS owned
FROM made LEFT
JOIN pg_stat_all_tables AS seen ON seen.relid = made.oid

-- maintenance.space.sizes(exact=True)
WITH made AS (
  SELECT pg_class.oid, pg_class.relname, pg_class.relowner
  FROM pg_class
  JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace
  WHERE pg_namespace.nspname = coalesce(CAST($1::VARCHAR AS text), current_schema())
  AND pg_class.relkind IN ('r', 'p')
  AND pg_class.relname IN ('threads', 'checkpoints', 'deltas', 'store_items', 'embeddings'))
SELECT made.relname AS name, made.relname AS owner, 'table' AS kind,
  pg_table_size(made.oid) AS bytes
FROM made
UNION ALL
SELECT indexes.relname, made.relname, 'index', pg_relation_size(indexes.oid)
FROM made
JOIN pg_index ON pg_index.indrelid = made.oid
JOIN pg_class AS indexes ON indexes.oid = pg_index.indexrelid

-- maintenance.space.vacuum_table(table=threads, full=True)
VACUUM (FULL, ANALYZE) threads

-- maintenance.stored_tenants.next_tenant_of_items(after=True)
SELECT min(store_items.tenant) AS tenant
FROM store_items
WHERE store_items.tenant != '~'
AND store_items.tenant > $1::VARCHAR

-- maintenance.stored_tenants.next_tenant_of_logs(after=True)
SELECT min(threads.tenant) AS tenant
FROM threads
WHERE threads.tenant > $1::VARCHAR

-- maintenance.verify.database.count_positions(scope=tenant)
SELECT coalesce(sum(threads.next_seq - $1::BIGINT), $2::INTEGER) AS positions
FROM threads
WHERE threads.tenant = $3::VARCHAR

-- maintenance.verify.database.list_logs_to_verify(scope=tenant, after=True)
SELECT threads.thread_id, threads.namespace, threads.log_id, threads.next_seq
FROM threads
WHERE threads.tenant = $1::VARCHAR
AND (threads.thread_id, threads.namespace, threads.log_id) > ($2::VARCHAR, $3::VARCHAR, $4::UUID)
ORDER BY threads.thread_id, threads.namespace, threads.log_id
LIMIT $5

-- maintenance.verify.database.list_orphaned_rows(table=checkpoints)
SELECT checkpoints.log_id, count(*) AS orphans, count(threads.log_id) AS strays
FROM checkpoints LEFT OUTER
JOIN threads ON threads.log_id = checkpoints.log_id
WHERE checkpoints.tenant = $1::VARCHAR
AND (threads.log_id IS NULL
  OR threads.tenant != checkpoints.tenant)
GROUP BY checkpoints.log_id
ORDER BY checkpoints.log_id
LIMIT $2

-- maintenance.verify.items.count_stored_items()
SELECT count(*) AS items
FROM store_items
WHERE store_items.tenant = $1::VARCHAR
AND store_items.namespace >= $2::VARCHAR
AND store_items.namespace < $3::VARCHAR
AND NOT (store_items.namespace >= $4::VARCHAR
  AND store_items.namespace < $5::VARCHAR)

-- maintenance.verify.items.list_orphaned_vectors()
SELECT embeddings.namespace, embeddings.key, count(*) AS orphans
FROM embeddings
WHERE embeddings.tenant = $1::VARCHAR
AND NOT (EXISTS (
    SELECT 1
    FROM store_items
    WHERE store_items.tenant = embeddings.tenant
    AND store_items.namespace = embeddings.namespace
    AND store_items.key = embeddings.key))
GROUP BY embeddings.namespace, embeddings.key
ORDER BY embeddings.namespace, embeddings.key
LIMIT $2

-- maintenance.verify.items.list_stored_items(after=True)
SELECT store_items.namespace, store_items.key, octet_length(store_items.value) AS stored, (
  SELECT coalesce(sum(embeddings.dimensions), $1::INTEGER) AS coalesce_1
  FROM embeddings
  WHERE embeddings.tenant = store_items.tenant
  AND embeddings.namespace = store_items.namespace
  AND embeddings.key = store_items.key) AS numbers
FROM store_items
WHERE store_items.tenant = $2::VARCHAR
AND store_items.namespace >= $3::VARCHAR
AND store_items.namespace < $4::VARCHAR
AND NOT (store_items.namespace >= $5::VARCHAR
  AND store_items.namespace < $6::VARCHAR)
AND store_items.namespace >= $7::VARCHAR
AND (store_items.namespace > $7::VARCHAR
  OR store_items.namespace = $7::VARCHAR
  AND store_items.key > $8::VARCHAR)
ORDER BY store_items.namespace, store_items.key
LIMIT $9

-- maintenance.verify.items.read_stored_items()
SELECT store_items.namespace, store_items.key, store_items.version, store_items.codec,
  store_items.checksum, store_items.search_text, store_items.field_terms, store_items.signature,
  store_items.value, store_items.created_at, store_items.updated_at, store_items.expires_at,
  store_items.lifetime, CASE
WHEN (CASE
  WHEN (jsonb_typeof(store_items.meta) = 'object') THEN 1
  ELSE 0 END = 1) THEN store_items.meta END AS meta
FROM store_items
WHERE store_items.tenant = $1::VARCHAR
AND store_items.namespace = $2::VARCHAR
AND store_items.key >= $3::VARCHAR
AND store_items.key <= $4::VARCHAR
ORDER BY store_items.key

-- maintenance.verify.items.read_stored_vectors(native=True)
SELECT embeddings.key, embeddings.field, embeddings.model, embeddings.part, embeddings.dimensions,
  embeddings.namespace, embeddings.signature AS vector_signature, store_items.version,
  CAST(embeddings.vector AS TEXT) AS vector
FROM embeddings LEFT OUTER
JOIN store_items ON store_items.tenant = embeddings.tenant
AND store_items.namespace = embeddings.namespace
AND store_items.key = embeddings.key
WHERE embeddings.tenant = $1::VARCHAR
AND embeddings.namespace = $2::VARCHAR
AND embeddings.key >= $3::VARCHAR
AND embeddings.key <= $4::VARCHAR
ORDER BY embeddings.key, embeddings.field, embeddings.model, embeddings.part

-- maintenance.verify.items.read_vector_sets()
SELECT store_items.key, store_items.signature, embeddings.signature AS vector_signature
FROM store_items LEFT OUTER
JOIN embeddings ON store_items.tenant = embeddings.tenant
AND store_items.namespace = embeddings.namespace
AND store_items.key = embeddings.key
WHERE store_items.tenant = $1::VARCHAR
AND store_items.namespace = $2::VARCHAR
AND store_items.key >= $3::VARCHAR
AND store_items.key <= $4::VARCHAR
ORDER BY store_items.key

-- maintenance.verify.logs.list_names_without_state()
SELECT checkpoints.checkpoint_id, checkpoints.seq
FROM checkpoints
WHERE checkpoints.log_id = $1::UUID
AND checkpoints.seq >= $2::BIGINT
AND checkpoints.seq <= $3::BIGINT
AND NOT (EXISTS (
    SELECT 1
    FROM deltas
    WHERE deltas.log_id = checkpoints.log_id
    AND deltas.seq = checkpoints.seq
    AND deltas.kind IN ('snapshot', 'delta')))
ORDER BY checkpoints.seq
LIMIT $4

-- maintenance.verify.logs.read_head_and_last_rows()
SELECT threads.next_seq, threads.head_id, threads.deleted_at, threads.version, threads.epoch,
  threads.created_at, threads.updated_at, threads.active_at, threads.expires_at,
  threads.forked_from, threads.forked_seq, threads.tenant, threads.thread_id, threads.namespace,
  CASE
WHEN (jsonb_typeof(threads.meta) = 'object') THEN 1
ELSE 0 END AS meta_readable, (
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
    FROM checkpoints AS later
    WHERE later.log_id = checkpoints.log_id)) AS newest_id
FROM threads
WHERE threads.log_id = $1::UUID

-- maintenance.verify.logs.read_lineage()
SELECT checkpoints.seq, parent.seq AS parent_at
FROM checkpoints LEFT OUTER
JOIN checkpoints AS parent ON parent.log_id = checkpoints.log_id
AND parent.checkpoint_id = checkpoints.parent_id
WHERE checkpoints.log_id = $1::UUID
ORDER BY checkpoints.seq

-- maintenance.verify.logs.read_name()
SELECT checkpoints.checkpoint_id
FROM checkpoints
WHERE checkpoints.log_id = $1::UUID
AND checkpoints.seq = $2::BIGINT

-- maintenance.verify.logs.read_rows_of_state()
WITH RECURSIVE chain(seq, kind, base_seq, depth, codec, checksum, payload) AS (
  SELECT deltas.seq AS seq, deltas.kind AS kind, deltas.base_seq AS base_seq, deltas.depth AS depth,
    deltas.codec AS codec, deltas.checksum AS checksum, deltas.payload AS payload
  FROM deltas
  WHERE deltas.log_id = $1::UUID
  AND deltas.seq = $2::BIGINT
  UNION ALL
  SELECT base.seq AS seq, base.kind AS kind, base.base_seq AS base_seq, base.depth AS depth,
    base.codec AS codec, base.checksum AS checksum, base.payload AS payload
  FROM chain
  JOIN deltas AS base ON base.seq = chain.base_seq
  AND base.seq < chain.seq
  WHERE base.log_id = $1::UUID)
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
  checkpoints.created_at AS named_created_at, CASE
WHEN (jsonb_typeof(checkpoints.meta) = 'object') THEN 1
ELSE 0 END AS meta_readable, base.kind AS base_kind, base.depth AS base_depth,
  parent.seq AS parent_at, (
  SELECT max(child.seq) AS max_1
  FROM deltas AS child
  WHERE child.log_id = deltas.log_id
  AND child.base_seq = deltas.seq) AS last_use, deltas.payload
FROM deltas LEFT OUTER
JOIN checkpoints ON checkpoints.log_id = deltas.log_id
AND checkpoints.seq = deltas.seq LEFT OUTER
JOIN deltas AS base ON base.log_id = deltas.log_id
AND base.seq = deltas.base_seq LEFT OUTER
JOIN checkpoints AS parent ON parent.log_id = checkpoints.log_id
AND parent.checkpoint_id = checkpoints.parent_id LEFT OUTER
JOIN checkpoints AS under ON under.log_id = checkpoints.log_id
AND under.checkpoint_id = checkpoints.rests_on
WHERE deltas.log_id = $1::UUID
AND deltas.seq >= $2::BIGINT
AND deltas.seq <= $3::BIGINT
ORDER BY deltas.seq

-- maintenance.verify.text_indexes.find_missed(index=deltas_search)
SELECT row_here.seq
FROM deltas AS row_here
WHERE row_here.log_id = $1::UUID
AND row_here.seq BETWEEN $2::BIGINT
AND $3::BIGINT
AND row_here.search_text IS NOT NULL
AND (to_tsvector('simple', row_here.search_text) @@ plainto_tsquery('simple',
      SUBSTRING(row_here.search_text
      FROM '^(?:\S+ ){0,7}\S+')))
AND NOT (EXISTS (
    SELECT 1
    FROM deltas AS found
    WHERE found.search_text IS NOT NULL
    AND (to_tsvector('simple', found.search_text) @@ plainto_tsquery('simple',
          SUBSTRING(row_here.search_text
          FROM '^(?:\S+ ){0,7}\S+')))
    AND found.log_id IS NOT DISTINCT
    FROM row_here.log_id
    AND found.seq IS NOT DISTINCT
    FROM row_here.seq))
ORDER BY row_here.seq

-- maintenance.verify.text_indexes.read_index_state()
SELECT CASE
WHEN indisvalid
AND indisready
AND indislive THEN 1
ELSE 0 END AS in_use
FROM pg_index
WHERE indexrelid = to_regclass($1)

-- maintenance.verify.text_indexes.rebuild_index(index=deltas_search, step=0)
REINDEX INDEX CONCURRENTLY ix_deltas_search_text

-- maintenance.verify.text_indexes.use_text_indexes()
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_indexscan', 'off', true),
  set_config('enable_indexonlyscan', 'off', true), set_config('enable_hashjoin', 'off', true),
  set_config('enable_mergejoin', 'off', true), set_config('enable_material', 'off', true)

-- maintenance.words.statements.count_wordless(table=deltas, scope=tenant)
SELECT count(*) AS count_1
FROM deltas
JOIN threads ON threads.log_id = deltas.log_id
WHERE threads.tenant = $1::VARCHAR
AND (deltas.search_text IS NULL
  OR substr(deltas.search_text, 1, 1) != '#')
AND (deltas.kind NOT IN ('write'))

-- maintenance.words.statements.find_words(kind=logs)
SELECT threads.namespace
FROM deltas
JOIN threads ON threads.log_id = deltas.log_id
WHERE threads.tenant = $1::VARCHAR
AND deltas.search_text IS NOT NULL
LIMIT $2

-- maintenance.words.statements.give_delta_words()
UPDATE deltas
SET search_text=$1::VARCHAR
WHERE deltas.log_id = $2::UUID
AND deltas.seq = $3::BIGINT
AND (deltas.search_text IS NULL
  OR substr(deltas.search_text, 1, 1) != '#')
AND coalesce(length(deltas.search_text), 0) = $4::INTEGER
AND deltas.codec = $5::VARCHAR
AND deltas.checksum = $6::BIGINT

-- maintenance.words.statements.give_item_words()
UPDATE store_items
SET search_text=$1::VARCHAR, field_terms=$2::VARCHAR
WHERE store_items.tenant = $3::VARCHAR
AND store_items.namespace = $4::VARCHAR
AND store_items.key = $5::VARCHAR
AND store_items.version = $6::BIGINT
AND store_items.codec = $7::VARCHAR
AND store_items.checksum = $8::BIGINT

-- maintenance.words.statements.list_wordless(table=deltas, scope=tenant, after=True)
SELECT deltas.log_id, deltas.seq, deltas.kind, deltas.codec, deltas.checksum, threads.thread_id,
  threads.namespace, checkpoints.checkpoint_id, checkpoints.parent_id, deltas.search_text,
  octet_length(deltas.payload) AS stored
FROM deltas
JOIN threads ON threads.log_id = deltas.log_id LEFT OUTER
JOIN checkpoints ON checkpoints.log_id = deltas.log_id
AND checkpoints.seq = deltas.seq
WHERE threads.tenant = $1::VARCHAR
AND (deltas.search_text IS NULL
  OR substr(deltas.search_text, 1, 1) != '#')
AND (deltas.kind NOT IN ('write'))
AND (deltas.log_id, deltas.seq) > ($2::UUID, $3::BIGINT)
ORDER BY deltas.log_id, deltas.seq
LIMIT $4

-- maintenance.words.statements.read_entries_of_range()
SELECT deltas.seq, deltas.codec, deltas.checksum, deltas.payload
FROM deltas
WHERE deltas.log_id = $1::UUID
AND deltas.kind IN ('entry')
AND deltas.seq >= $2::BIGINT
AND deltas.seq <= $3::BIGINT
ORDER BY deltas.seq

-- maintenance.words.statements.read_wordless_items()
SELECT store_items.namespace, store_items.key, store_items.meta, store_items.version,
  store_items.codec, store_items.checksum, store_items.search_text, store_items.field_terms,
  store_items.value
FROM store_items
WHERE store_items.tenant = $1::VARCHAR
AND (store_items.namespace, store_items.key) IN (
  SELECT listed.namespace, listed.key
  FROM (
    SELECT (each.value ->> 0) COLLATE "C" AS namespace, (each.value ->> 1) COLLATE "C" AS key
    FROM json_array_elements(CAST($2::VARCHAR AS json)) AS each(value)) AS listed)

-- protection.key_registry.delete_key()
DELETE FROM store_items
WHERE store_items.tenant = $1::VARCHAR
AND store_items.namespace = $2::VARCHAR
AND store_items.key = $3::VARCHAR

-- protection.key_registry.find_encrypted(table=deltas)
SELECT substr("some".payload, 1, 9) AS begins
FROM (
  SELECT deltas.codec AS codec, deltas.payload AS payload
  FROM (
    SELECT threads.log_id AS log_id, threads.next_seq AS next_seq
    FROM threads
    WHERE threads.tenant = $1::VARCHAR
    ORDER BY threads.active_at DESC
    LIMIT $2) AS newest
  JOIN deltas ON deltas.log_id = newest.log_id
  AND deltas.seq >= newest.next_seq - 3) AS "some"
WHERE "some".codec LIKE '%+gcm2'
LIMIT 1

-- protection.key_registry.find_signed(table=threads)
SELECT "some".signature, "some".namespace, "some".name
FROM (
  SELECT threads.signature AS signature, threads.namespace AS namespace, threads.thread_id AS name
  FROM threads
  WHERE threads.tenant = $1::VARCHAR
  ORDER BY threads.active_at DESC
  LIMIT $2) AS "some"
WHERE "some".signature IS NOT NULL

-- protection.key_registry.insert_key()
INSERT INTO store_items (tenant, namespace, key, meta, version, codec, checksum, created_at,
    updated_at, value)
VALUES ($1::VARCHAR, $2::VARCHAR, $3::VARCHAR, $4::JSONB, $5::BIGINT, $6::VARCHAR, $7::BIGINT,
    $8::TIMESTAMP WITH TIME ZONE, $8::TIMESTAMP WITH TIME ZONE, $9::BYTEA)
ON CONFLICT (tenant, namespace, key)
DO UPDATE SET updated_at = $8::TIMESTAMP WITH TIME ZONE

-- protection.key_registry.read_registered_keys(scope=tenant)
SELECT store_items.tenant, store_items.namespace, store_items.key, store_items.value
FROM store_items
WHERE store_items.tenant = $1::VARCHAR
AND (store_items.namespace = $2::VARCHAR
  OR store_items.namespace = $3::VARCHAR)

-- protection.removals.delete_old_removals()
DELETE FROM store_items
WHERE store_items.tenant = $1::VARCHAR
AND store_items.namespace = '/~signing/removals/'
AND store_items.updated_at < $2::TIMESTAMP WITH TIME ZONE

-- protection.removals.delete_removals()
DELETE FROM store_items
WHERE store_items.tenant = $1::VARCHAR
AND store_items.namespace = '/~signing/removals/'
AND store_items.key IN (
  SELECT listed.key
  FROM (
    SELECT (each.value ->> 0) COLLATE "C" AS key
    FROM json_array_elements(CAST($2::VARCHAR AS json)) AS each(value)) AS listed)

-- protection.removals.find_anchoring()
SELECT store_items.value, store_items.updated_at
FROM store_items
WHERE store_items.tenant = $1::VARCHAR
AND store_items.namespace = '/~signing/anchors/'

-- protection.removals.find_removals()
SELECT store_items.key, store_items.created_at, store_items.version, store_items.updated_at,
  store_items.signature
FROM store_items
WHERE store_items.tenant = $1::VARCHAR
AND store_items.namespace = '/~signing/removals/'
AND store_items.key IN (
  SELECT listed.key
  FROM (
    SELECT (each.value ->> 0) COLLATE "C" AS key
    FROM json_array_elements(CAST($2::VARCHAR AS json)) AS each(value)) AS listed)

-- protection.removals.list_removals(after=True)
SELECT store_items.key, store_items.created_at, store_items.version, store_items.updated_at,
  store_items.signature
FROM store_items
WHERE store_items.tenant = $1::VARCHAR
AND store_items.namespace = '/~signing/removals/'
AND store_items.key > $2::VARCHAR
ORDER BY store_items.key
LIMIT $3

-- protection.removals.put_note()
INSERT INTO store_items (tenant, namespace, key, meta, version, codec, checksum, created_at,
    updated_at, signature, value)
VALUES ($1::VARCHAR, $2::VARCHAR, $3::VARCHAR, $4::JSONB, $5::BIGINT, $6::VARCHAR, $7::BIGINT,
    $8::TIMESTAMP WITH TIME ZONE, $9::TIMESTAMP WITH TIME ZONE, $10::BYTEA, $11::BYTEA)
ON CONFLICT (tenant, namespace, key)
DO UPDATE SET version = $5::BIGINT, created_at = $8::TIMESTAMP WITH TIME ZONE,
  updated_at = $9::TIMESTAMP WITH TIME ZONE, signature = $10::BYTEA, value = $11::BYTEA

-- protection.removals.read_lives()
SELECT store_items.tenant, store_items.namespace, store_items.key, store_items.version,
  store_items.meta, store_items.codec, store_items.value, store_items.created_at,
  store_items.updated_at, store_items.expires_at, store_items.lifetime, store_items.signature
FROM store_items
WHERE store_items.tenant = $1::VARCHAR
AND (store_items.namespace, store_items.key) IN (
  SELECT listed.namespace, listed.key
  FROM (
    SELECT (each.value ->> 0) COLLATE "C" AS namespace, (each.value ->> 1) COLLATE "C" AS key
    FROM json_array_elements(CAST($2::VARCHAR AS json)) AS each(value)) AS listed)

-- protection.signed_items.lock_signed_item()
SELECT store_items.tenant, store_items.namespace, store_items.key, store_items.version,
  store_items.meta, store_items.codec, store_items.value, store_items.created_at,
  store_items.updated_at, store_items.expires_at, store_items.lifetime, store_items.search_text,
  store_items.field_terms, store_items.signature
FROM store_items
WHERE store_items.tenant = $1::VARCHAR
AND store_items.namespace = $2::VARCHAR
AND store_items.key = $3::VARCHAR
FOR UPDATE OF store_items

-- protection.signed_items.read_signed_item()
SELECT store_items.tenant, store_items.namespace, store_items.key, store_items.version,
  store_items.meta, store_items.codec, store_items.value, store_items.created_at,
  store_items.updated_at, store_items.expires_at, store_items.lifetime, store_items.signature
FROM store_items
WHERE store_items.tenant = $1::VARCHAR
AND store_items.namespace = $2::VARCHAR
AND store_items.key = $3::VARCHAR

-- protection.signed_items.read_signed_items()
SELECT store_items.tenant, store_items.namespace, store_items.key, store_items.version,
  store_items.meta, store_items.codec, store_items.value, store_items.created_at,
  store_items.updated_at, store_items.expires_at, store_items.lifetime, store_items.signature
FROM store_items
WHERE store_items.tenant = $1::VARCHAR
AND (store_items.namespace, store_items.key) IN (
  SELECT listed.namespace, listed.key
  FROM (
    SELECT (each.value ->> 0) COLLATE "C" AS namespace, (each.value ->> 1) COLLATE "C" AS key
    FROM json_array_elements(CAST($2::VARCHAR AS json)) AS each(value)) AS listed)

-- protection.signed_items.read_signed_vectors()
SELECT embeddings.namespace, embeddings.key, embeddings.field, embeddings.model, embeddings.part,
  embeddings.dimensions, embeddings.signature, embeddings.vector AS vector
FROM embeddings
WHERE embeddings.tenant = $1::VARCHAR
AND (embeddings.namespace, embeddings.key) IN (
  SELECT listed.namespace, listed.key
  FROM (
    SELECT (each.value ->> 0) COLLATE "C" AS namespace, (each.value ->> 1) COLLATE "C" AS key
    FROM json_array_elements(CAST($2::VARCHAR AS json)) AS each(value)) AS listed)

-- protection.signed_items.read_signed_words()
SELECT store_items.namespace, store_items.key, store_items.version, store_items.search_text,
  store_items.field_terms, store_items.signature
FROM store_items
WHERE store_items.tenant = $1::VARCHAR
AND (store_items.namespace, store_items.key) IN (
  SELECT listed.namespace, listed.key
  FROM (
    SELECT (each.value ->> 0) COLLATE "C" AS namespace, (each.value ->> 1) COLLATE "C" AS key
    FROM json_array_elements(CAST($2::VARCHAR AS json)) AS each(value)) AS listed)

-- protection.signed_items.read_vector_signatures()
SELECT embeddings.namespace, embeddings.key, embeddings.signature
FROM embeddings
WHERE embeddings.tenant = $1::VARCHAR
AND (embeddings.namespace, embeddings.key) IN (
  SELECT listed.namespace, listed.key
  FROM (
    SELECT (each.value ->> 0) COLLATE "C" AS namespace, (each.value ->> 1) COLLATE "C" AS key
    FROM json_array_elements(CAST($2::VARCHAR AS json)) AS each(value)) AS listed)

-- protection.signed_items.sign_item()
UPDATE store_items
SET signature=$1::BYTEA
WHERE store_items.tenant = $2::VARCHAR
AND store_items.namespace = $3::VARCHAR
AND store_items.key = $4::VARCHAR

-- protection.signed_items.sign_vector()
UPDATE embeddings
SET signature=$1::BYTEA
WHERE embeddings.tenant = $2::VARCHAR
AND embeddings.namespace = $3::VARCHAR
AND embeddings.key = $4::VARCHAR
AND embeddings.field = $5::VARCHAR
AND embeddings.model = $6::VARCHAR
AND embeddings.part = $7::INTEGER

-- protection.signed_logs.list_signatures()
SELECT checkpoints.seq, checkpoints.signature, 0 AS kind
FROM checkpoints
WHERE checkpoints.log_id = $1::UUID
UNION ALL
SELECT deltas.seq, deltas.signature, 1 AS kind
FROM deltas
WHERE deltas.log_id = $1::UUID
AND deltas.kind = 'entry'
UNION ALL
SELECT deltas.seq, deltas.signature, 2 AS kind
FROM deltas
WHERE deltas.log_id = $1::UUID
AND deltas.kind = 'write'

-- protection.signed_logs.list_signatures_of_logs()
SELECT checkpoints.log_id, checkpoints.seq, checkpoints.signature, 0 AS kind
FROM checkpoints
WHERE checkpoints.log_id IN (
  SELECT listed.log_id
  FROM (
    SELECT CAST(each.value ->> 0 AS uuid) AS log_id
    FROM json_array_elements(CAST($1::VARCHAR AS json)) AS each(value)) AS listed)
UNION ALL
SELECT deltas.log_id, deltas.seq, deltas.signature, 1 AS kind
FROM deltas
WHERE deltas.log_id IN (
  SELECT listed.log_id
  FROM (
    SELECT CAST(each.value ->> 0 AS uuid) AS log_id
    FROM json_array_elements(CAST($1::VARCHAR AS json)) AS each(value)) AS listed)
AND deltas.kind = 'entry'
UNION ALL
SELECT deltas.log_id, deltas.seq, deltas.signature, 2 AS kind
FROM deltas
WHERE deltas.log_id IN (
  SELECT listed.log_id
  FROM (
    SELECT CAST(each.value ->> 0 AS uuid) AS log_id
    FROM json_array_elements(CAST($1::VARCHAR AS json)) AS each(value)) AS listed)
AND deltas.kind = 'write'

-- protection.signed_logs.read_signed_checkpoint()
SELECT checkpoints.log_id, checkpoints.seq, checkpoints.tenant, checkpoints.checkpoint_id,
  checkpoints.parent_id, checkpoints.ordinal, checkpoints.rests_on, checkpoints.run_id,
  checkpoints.meta, checkpoints.occurred_at, checkpoints.created_at, checkpoints.signature
FROM checkpoints
WHERE checkpoints.log_id = $1::UUID
AND checkpoints.checkpoint_id = $2::VARCHAR

-- protection.signed_logs.read_signed_head(locks=True)
SELECT threads.log_id, threads.tenant, threads.thread_id, threads.namespace, threads.next_seq,
  threads.version, threads.last_ordinal, threads.head_id, threads.previous_id, threads.created_at,
  threads.updated_at, threads.expires_at, threads.deleted_at, threads.meta, threads.signature
FROM threads
WHERE threads.log_id = $1::UUID
FOR UPDATE OF threads

-- protection.signed_logs.read_signed_heads()
SELECT threads.log_id, threads.tenant, threads.thread_id, threads.namespace, threads.next_seq,
  threads.version, threads.last_ordinal, threads.head_id, threads.previous_id, threads.created_at,
  threads.updated_at, threads.expires_at, threads.deleted_at, threads.meta, threads.signature
FROM threads
WHERE threads.log_id IN (
  SELECT listed.log_id
  FROM (
    SELECT CAST(each.value ->> 0 AS uuid) AS log_id
    FROM json_array_elements(CAST($1::VARCHAR AS json)) AS each(value)) AS listed)

-- protection.signed_logs.read_signed_row(table=checkpoints)
SELECT checkpoints.log_id, checkpoints.seq, checkpoints.tenant, checkpoints.checkpoint_id,
  checkpoints.parent_id, checkpoints.ordinal, checkpoints.rests_on, checkpoints.run_id,
  checkpoints.meta, checkpoints.occurred_at, checkpoints.created_at, checkpoints.signature
FROM checkpoints
WHERE checkpoints.log_id = $1::UUID
AND checkpoints.seq = $2::BIGINT

-- protection.signed_logs.read_signed_rows(table=checkpoints)
SELECT checkpoints.log_id, checkpoints.seq, checkpoints.tenant, checkpoints.checkpoint_id,
  checkpoints.parent_id, checkpoints.ordinal, checkpoints.rests_on, checkpoints.run_id,
  checkpoints.meta, checkpoints.occurred_at, checkpoints.created_at, checkpoints.signature
FROM checkpoints
WHERE checkpoints.log_id = $1::UUID
AND checkpoints.seq > $2::BIGINT
ORDER BY checkpoints.seq
LIMIT $3

-- protection.signed_logs.sign_head()
UPDATE threads
SET signature=$1::BYTEA
WHERE threads.log_id = $2::UUID

-- protection.signed_logs.sign_row(table=checkpoints)
UPDATE checkpoints
SET signature=$1::BYTEA
WHERE checkpoints.log_id = $2::UUID
AND checkpoints.seq = $3::BIGINT

-- search._vector_statements.count_vectors(below=False)
SELECT count(*) AS count_1
FROM (
  SELECT 1 AS one
  FROM embeddings
  WHERE embeddings.tenant = $1::VARCHAR
  AND embeddings.namespace = $2::VARCHAR
  AND embeddings.model = $3::VARCHAR
  AND embeddings.dimensions = $4::INTEGER
  LIMIT $5::INTEGER) AS some_vectors

-- search._vector_statements.current_vector_settings()
SELECT current_setting('hnsw.iterative_scan', true) AS p_scan, current_setting('hnsw.ef_search',
    true) AS p_width, current_setting('enable_sort', true) AS p_sort,
  current_setting('enable_seqscan', true) AS p_sequential, current_setting('enable_bitmapscan',
    true) AS p_bitmap

-- search._vector_statements.live_items()
SELECT store_items.namespace, store_items.key, store_items.meta, store_items.version,
  store_items.codec, store_items.checksum, store_items.created_at, store_items.updated_at,
  store_items.expires_at, store_items.lifetime, store_items.signature, CASE
WHEN (octet_length(store_items.value) <= $1::INTEGER) THEN store_items.value END AS value
FROM store_items
WHERE store_items.tenant = $2::VARCHAR
AND (store_items.namespace, store_items.key) IN (
  SELECT listed.namespace, listed.key
  FROM (
    SELECT (each.value ->> 0) COLLATE "C" AS namespace, (each.value ->> 1) COLLATE "C" AS key
    FROM json_array_elements(CAST($3::VARCHAR AS json)) AS each(value)) AS listed)
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > $4::TIMESTAMP WITH TIME ZONE)

-- search._vector_statements.live_parts()
SELECT store_items.namespace, store_items.key, store_items.meta, store_items.version,
  store_items.codec, store_items.checksum, store_items.created_at, store_items.updated_at,
  store_items.expires_at, store_items.lifetime, store_items.signature, CASE
WHEN (octet_length(store_items.value) <= $1::INTEGER) THEN store_items.value END AS value,
  embeddings.field, embeddings.part, embeddings.model, embeddings.dimensions,
  embeddings.vector AS vector, embeddings.signature AS vector_signature
FROM embeddings
JOIN store_items ON store_items.tenant = embeddings.tenant
AND store_items.namespace = embeddings.namespace
AND store_items.key = embeddings.key
WHERE embeddings.tenant = $2::VARCHAR
AND (embeddings.namespace, embeddings.key, embeddings.field, embeddings.part) IN (
  SELECT listed.namespace, listed.key, listed.field, CAST(listed.part AS INTEGER) AS part
  FROM (
    SELECT (each.value ->> 0) COLLATE "C" AS namespace, (each.value ->> 1) COLLATE "C" AS key,
      (each.value ->> 2) COLLATE "C" AS field, (each.value ->> 3) COLLATE "C" AS part
    FROM json_array_elements(CAST($3::VARCHAR AS json)) AS each(value)) AS listed)
AND embeddings.model = $4::VARCHAR
AND embeddings.dimensions = $5::INTEGER
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > $6::TIMESTAMP WITH TIME ZONE)

-- search._vector_statements.only_by_vector_index()
SELECT set_config('hnsw.iterative_scan', $1::VARCHAR, true), set_config('hnsw.ef_search',
    $2::VARCHAR, true), set_config('enable_sort', $3::VARCHAR, true), set_config('enable_seqscan',
    $4::VARCHAR, true), set_config('enable_bitmapscan', $5::VARCHAR, true)

-- search._vector_statements.rank_all(metric=cosine, below=False, among=False, signed=False)
WITH near AS MATERIALIZED (
  SELECT embeddings.namespace AS namespace, embeddings.key AS key, embeddings.field AS field,
    embeddings.part AS part, embeddings.vector <=> (
    SELECT CAST($3::VARCHAR AS VECTOR) AS anon_1) AS distance
  FROM embeddings
  WHERE embeddings.tenant = $4::VARCHAR
  AND embeddings.namespace = $5::VARCHAR
  AND embeddings.model = $6::VARCHAR
  AND embeddings.dimensions = $7::INTEGER
  ORDER BY distance, embeddings.namespace, embeddings.key, embeddings.field, embeddings.part
  LIMIT $8::INTEGER)
SELECT near.namespace, near.key, near.field, near.part, near.distance, CASE
WHEN (store_items_looked_up.expires_at IS NULL
  OR store_items_looked_up.expires_at > $1::TIMESTAMP WITH TIME ZONE) THEN 1
ELSE 0 END AS alive, store_items_looked_up.meta, store_items_looked_up.version,
  store_items_looked_up.codec, store_items_looked_up.checksum, store_items_looked_up.created_at,
  store_items_looked_up.updated_at, store_items_looked_up.expires_at,
  store_items_looked_up.lifetime, store_items_looked_up.signature, CASE
WHEN (octet_length(store_items_looked_up.value) <= $2::INTEGER) THEN store_items_looked_up.value END AS value
FROM near
JOIN LATERAL (
  SELECT store_items.tenant AS tenant, store_items.namespace AS namespace, store_items.key AS key,
    store_items.meta AS meta, store_items.version AS version, store_items.codec AS codec,
    store_items.checksum AS checksum, store_items.search_text AS search_text,
    store_items.field_terms AS field_terms, store_items.created_at AS created_at,
    store_items.updated_at AS updated_at, store_items.expires_at AS expires_at,
    store_items.lifetime AS lifetime, store_items.signature AS signature, store_items.value AS value
  FROM store_items
  WHERE store_items.tenant = $4::VARCHAR
  AND store_items.namespace = near.namespace
  AND store_items.key = near.key
  LIMIT 1) AS store_items_looked_up ON true

-- search._vector_statements.rank_by_index(metric=cosine, below=False, dimensions=384, signed=False)
WITH near AS MATERIALIZED (
  SELECT embeddings.namespace AS namespace, embeddings.key AS key, embeddings.field AS field,
    embeddings.part AS part, embeddings.vector <=> (
    SELECT CAST($3::VARCHAR AS VECTOR) AS anon_1) AS distance,
    CAST(embeddings.vector AS HALFVEC(384)) <=> (
    SELECT CAST(CAST($3::VARCHAR AS VECTOR) AS HALFVEC(384)) AS anon_2) AS rough,
    row_number() OVER () AS place
  FROM embeddings
  WHERE embeddings.tenant = $4::VARCHAR
  AND embeddings.namespace = $5::VARCHAR
  AND embeddings.model = $6::VARCHAR
  AND embeddings.dimensions = 384
  ORDER BY rough
  LIMIT $7::INTEGER)
SELECT near.namespace, near.key, near.field, near.part, near.distance, near.place, CASE
WHEN (store_items_looked_up.expires_at IS NULL
  OR store_items_looked_up.expires_at > $1::TIMESTAMP WITH TIME ZONE) THEN 1
ELSE 0 END AS alive, store_items_looked_up.meta, store_items_looked_up.version,
  store_items_looked_up.codec, store_items_looked_up.checksum, store_items_looked_up.created_at,
  store_items_looked_up.updated_at, store_items_looked_up.expires_at,
  store_items_looked_up.lifetime, store_items_looked_up.signature, CASE
WHEN (octet_length(store_items_looked_up.value) <= $2::INTEGER) THEN store_items_looked_up.value END AS value
FROM near
JOIN LATERAL (
  SELECT store_items.tenant AS tenant, store_items.namespace AS namespace, store_items.key AS key,
    store_items.meta AS meta, store_items.version AS version, store_items.codec AS codec,
    store_items.checksum AS checksum, store_items.search_text AS search_text,
    store_items.field_terms AS field_terms, store_items.created_at AS created_at,
    store_items.updated_at AS updated_at, store_items.expires_at AS expires_at,
    store_items.lifetime AS lifetime, store_items.signature AS signature, store_items.value AS value
  FROM store_items
  WHERE store_items.tenant = $4::VARCHAR
  AND store_items.namespace = near.namespace
  AND store_items.key = near.key
  LIMIT 1) AS store_items_looked_up ON true

-- search._vector_statements.rank_few(metric=cosine, below=False, signed=False)
WITH near AS MATERIALIZED (
  SELECT embeddings.namespace AS namespace, embeddings.key AS key, embeddings.field AS field,
    embeddings.part AS part, embeddings.vector <=> (
    SELECT CAST($3::VARCHAR AS VECTOR) AS anon_1) AS distance
  FROM embeddings
  WHERE embeddings.tenant = (
    SELECT $4::VARCHAR AS anon_2)
  AND embeddings.namespace >= (
    SELECT $5::VARCHAR AS anon_3)
  AND embeddings.namespace <= (
    SELECT $5::VARCHAR AS anon_4)
  AND embeddings.model >= (
    SELECT $6::VARCHAR AS anon_5)
  AND embeddings.model <= (
    SELECT $6::VARCHAR AS anon_6)
  AND embeddings.dimensions = (
    SELECT $7::INTEGER AS anon_7)
  ORDER BY distance, embeddings.namespace, embeddings.key, embeddings.field, embeddings.part
  LIMIT (
    SELECT $8::INTEGER AS anon_8))
SELECT near.namespace, near.key, near.field, near.part, near.distance, CASE
WHEN (store_items_looked_up.expires_at IS NULL
  OR store_items_looked_up.expires_at > $1::TIMESTAMP WITH TIME ZONE) THEN 1
ELSE 0 END AS alive, store_items_looked_up.meta, store_items_looked_up.version,
  store_items_looked_up.codec, store_items_looked_up.checksum, store_items_looked_up.created_at,
  store_items_looked_up.updated_at, store_items_looked_up.expires_at,
  store_items_looked_up.lifetime, store_items_looked_up.signature, CASE
WHEN (octet_length(store_items_looked_up.value) <= $2::INTEGER) THEN store_items_looked_up.value END AS value
FROM near
JOIN LATERAL (
  SELECT store_items.tenant AS tenant, store_items.namespace AS namespace, store_items.key AS key,
    store_items.meta AS meta, store_items.version AS version, store_items.codec AS codec,
    store_items.checksum AS checksum, store_items.search_text AS search_text,
    store_items.field_terms AS field_terms, store_items.created_at AS created_at,
    store_items.updated_at AS updated_at, store_items.expires_at AS expires_at,
    store_items.lifetime AS lifetime, store_items.signature AS signature, store_items.value AS value
  FROM store_items
  WHERE store_items.tenant = $4::VARCHAR
  AND store_items.namespace = near.namespace
  AND store_items.key = near.key
  LIMIT 1) AS store_items_looked_up ON true

-- search._vector_statements.rank_listed(metric=cosine, below=False, signed=False)
WITH near AS MATERIALIZED (
  SELECT embeddings.namespace AS namespace, embeddings.key AS key, embeddings.field AS field,
    embeddings.part AS part, embeddings.vector <=> (
    SELECT CAST($3::VARCHAR AS VECTOR) AS anon_1) AS distance
  FROM embeddings
  WHERE embeddings.tenant = $4::VARCHAR
  AND embeddings.namespace = $5::VARCHAR
  AND embeddings.model = $6::VARCHAR
  AND embeddings.dimensions = $7::INTEGER
  AND ((embeddings.namespace, embeddings.key) IN (
      SELECT listed.namespace, listed.key
      FROM (
        SELECT (each.value ->> 0) COLLATE "C" AS namespace, (each.value ->> 1) COLLATE "C" AS key
        FROM json_array_elements(CAST($8::VARCHAR AS json)) AS each(value)) AS listed)) IS true
  ORDER BY distance, embeddings.namespace, embeddings.key, embeddings.field, embeddings.part
  LIMIT $9::INTEGER)
SELECT near.namespace, near.key, near.field, near.part, near.distance, CASE
WHEN (store_items_looked_up.expires_at IS NULL
  OR store_items_looked_up.expires_at > $1::TIMESTAMP WITH TIME ZONE) THEN 1
ELSE 0 END AS alive, store_items_looked_up.meta, store_items_looked_up.version,
  store_items_looked_up.codec, store_items_looked_up.checksum, store_items_looked_up.created_at,
  store_items_looked_up.updated_at, store_items_looked_up.expires_at,
  store_items_looked_up.lifetime, store_items_looked_up.signature, CASE
WHEN (octet_length(store_items_looked_up.value) <= $2::INTEGER) THEN store_items_looked_up.value END AS value
FROM near
JOIN LATERAL (
  SELECT store_items.tenant AS tenant, store_items.namespace AS namespace, store_items.key AS key,
    store_items.meta AS meta, store_items.version AS version, store_items.codec AS codec,
    store_items.checksum AS checksum, store_items.search_text AS search_text,
    store_items.field_terms AS field_terms, store_items.created_at AS created_at,
    store_items.updated_at AS updated_at, store_items.expires_at AS expires_at,
    store_items.lifetime AS lifetime, store_items.signature AS signature, store_items.value AS value
  FROM store_items
  WHERE store_items.tenant = $4::VARCHAR
  AND store_items.namespace = near.namespace
  AND store_items.key = near.key
  LIMIT 1) AS store_items_looked_up ON true

-- search._vector_statements.read_vectors(below=False)
SELECT embeddings.namespace AS namespace, embeddings.key AS key, embeddings.field AS field,
  embeddings.part AS part, embeddings.vector AS vector
FROM embeddings
WHERE embeddings.tenant = $1::VARCHAR
AND embeddings.namespace = $2::VARCHAR
AND embeddings.model = $3::VARCHAR
AND embeddings.dimensions = $4::INTEGER
AND (embeddings.key, embeddings.field, embeddings.part) > ($5::VARCHAR, $6::VARCHAR, $7::INTEGER)
ORDER BY embeddings.key, embeddings.field, embeddings.part
LIMIT $8::INTEGER

-- search._vector_statements.vector_indexes()
WITH made AS (
  SELECT pg_class.oid, pg_class.relname, pg_class.relowner
  FROM pg_class
  JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace
  WHERE pg_namespace.nspname = coalesce(CAST($1::VARCHAR AS text), current_schema())
  AND pg_class.relkind IN ('r', 'p')
  AND pg_class.relname IN ('threads', 'checkpoints', 'deltas', 'store_items', 'embeddings'))
SELECT indexes.relname AS name, CASE
WHEN pg_index.indisvalid
AND pg_index.indisready
AND pg_index.indislive THEN 1
ELSE 0 END AS valid, CASE
WHEN EXISTS (
  SELECT 1
  FROM pg_stat_progress_create_index AS running
  WHERE running.index_relid = indexes.oid) THEN 1
ELSE 0 END AS building, pg_relation_size(indexes.oid) AS bytes
FROM made
JOIN pg_index ON pg_index.indrelid = made.oid
JOIN pg_class AS indexes ON indexes.oid = pg_index.indexrelid
JOIN pg_am ON pg_am.oid = indexes.relam
WHERE made.relname = 'embeddings'
AND pg_am.amname = 'hnsw'
ORDER BY indexes.relname

-- search._vector_statements.vector_storage()
SELECT data_type
FROM information_schema.columns
WHERE table_name = 'embeddings'
AND column_name = 'vector'
AND table_schema = coalesce($1::VARCHAR, current_schema())

-- search._vector_statements.vectors_of_items(as_stored=False, alive=False, signed=False)
SELECT embeddings.namespace, embeddings.key, embeddings.field, embeddings.model, embeddings.part,
  embeddings.vector
FROM embeddings
WHERE embeddings.tenant = $1::VARCHAR
AND (embeddings.namespace, embeddings.key) IN (
  SELECT listed.namespace, listed.key
  FROM (
    SELECT (each.value ->> 0) COLLATE "C" AS namespace, (each.value ->> 1) COLLATE "C" AS key
    FROM json_array_elements(CAST($2::VARCHAR AS json)) AS each(value)) AS listed)

-- search.indexes.build_vector_index(metric=cosine, dimensions=384)
CREATE INDEX CONCURRENTLY ix_embeddings_hnsw_384_cosine ON embeddings USING hnsw ((vector::halfvec(384)) halfvec_cosine_ops) WITH (ef_construction = 128)
WHERE dimensions = 384

-- search.indexes.drop_vector_index(metric=cosine, dimensions=384)
DROP INDEX CONCURRENTLY ix_embeddings_hnsw_384_cosine

-- search.indexes.vector_index_progress()
WITH made AS (
  SELECT pg_class.oid, pg_class.relname, pg_class.relowner
  FROM pg_class
  JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace
  WHERE pg_namespace.nspname = coalesce(CAST($1::VARCHAR AS text), current_schema())
  AND pg_class.relkind IN ('r', 'p')
  AND pg_class.relname IN ('threads', 'checkpoints', 'deltas', 'store_items', 'embeddings'))
SELECT running.blocks_done AS done, running.blocks_total AS total
FROM made
JOIN pg_stat_progress_create_index AS running ON running.relid = made.oid
WHERE made.relname = 'embeddings'

-- search.kept_http_answers.delete_kept_answers()
DELETE FROM store_items
WHERE store_items.tenant = $1::VARCHAR
AND store_items.namespace = $2::VARCHAR

-- search.missing_items.read_any_item()
SELECT store_items.namespace, store_items.key, store_items.meta, store_items.version,
  store_items.codec, store_items.checksum, store_items.created_at, store_items.updated_at,
  store_items.expires_at, store_items.lifetime, store_items.signature, store_items.value
FROM store_items
WHERE store_items.tenant = $1::VARCHAR
AND store_items.namespace = $2::VARCHAR
AND store_items.key = $3::VARCHAR

-- search.text.count_item_terms(below=False)
WITH hits AS (
  SELECT asked.term AS term, store_items.key AS key
  FROM (
    SELECT anon_1.term AS term, CAST($1::VARCHAR AS TSQUERY) && to_tsquery('simple',
        anon_1.term) AS query
    FROM unnest((
        SELECT CAST($2::TEXT[] AS TEXT[]) AS anon_2)) AS anon_1(term)
    LIMIT ALL
    OFFSET 0) AS asked
  JOIN store_items ON ((to_tsvector('simple', CASE
        WHEN (store_items.search_text IS NULL) THEN ''
        ELSE store_items.search_text END) || to_tsvector('simple', CASE
        WHEN (store_items.field_terms IS NULL) THEN ''
        ELSE store_items.field_terms END)) || array_to_tsvector(ARRAY[((chr(31) || store_items.tenant) || chr(31)) || store_items.namespace])) @@ asked.query
  WHERE length(asked.term) BETWEEN $3::INTEGER
  AND $4::INTEGER)
SELECT hits.term, count(*) AS occurrences
FROM hits
GROUP BY hits.term

-- search.text.count_log_terms(below=False)
WITH hits AS (
  SELECT found.term AS term, found.log_id AS log_id, found.seq AS seq
  FROM (
    SELECT asked.term AS term, deltas.log_id AS log_id, deltas.seq AS seq
    FROM (
      SELECT anon_1.term AS term, to_tsquery('simple', anon_1.term) AS query
      FROM unnest(CAST($1::TEXT[] AS TEXT[])) AS anon_1(term)
      LIMIT ALL
      OFFSET 0) AS asked
    JOIN deltas ON to_tsvector('simple', deltas.search_text) @@ asked.query
    WHERE deltas.search_text IS NOT NULL
    AND deltas.tenant = $2::VARCHAR) AS found
  JOIN threads ON threads.log_id = found.log_id
  WHERE threads.tenant = $2::VARCHAR
  AND threads.namespace = $3::VARCHAR)
SELECT hits.term, count(*) AS occurrences
FROM hits
GROUP BY hits.term

-- search.text.narrowed_items(below=False)
WITH within AS MATERIALIZED (
  SELECT store_items.namespace AS namespace, store_items.key AS key,
    store_items.updated_at AS updated_at
  FROM store_items
  WHERE ((to_tsvector('simple', CASE
        WHEN (store_items.search_text IS NULL) THEN ''
        ELSE store_items.search_text END) || to_tsvector('simple', CASE
        WHEN (store_items.field_terms IS NULL) THEN ''
        ELSE store_items.field_terms END)) || array_to_tsvector(ARRAY[((chr(31) || store_items.tenant) || chr(31)) || store_items.namespace])) @@ CAST($1::VARCHAR AS TSQUERY))
SELECT within.namespace, within.key, within.updated_at
FROM within
LIMIT $2

-- search.text.newest_narrowed(below=False, words=False)
WITH found AS MATERIALIZED (
  WITH within AS MATERIALIZED (
    SELECT store_items.namespace AS namespace, store_items.key AS key,
      store_items.updated_at AS updated_at
    FROM store_items
    WHERE ((to_tsvector('simple', CASE
          WHEN (store_items.search_text IS NULL) THEN ''
          ELSE store_items.search_text END) || to_tsvector('simple', CASE
          WHEN (store_items.field_terms IS NULL) THEN ''
          ELSE store_items.field_terms END)) || array_to_tsvector(ARRAY[((chr(31) || store_items.tenant) || chr(31)) || store_items.namespace])) @@ CAST($1::VARCHAR AS TSQUERY))
  SELECT within.updated_at AS updated_at, within.namespace AS namespace, within.key AS key
  FROM within
  LIMIT $2::INTEGER), few AS MATERIALIZED (
  SELECT count(*) AS number
  FROM found),
page AS (
  SELECT found.updated_at AS updated_at, found.namespace AS namespace, found.key AS key
  FROM found
  ORDER BY found.updated_at DESC, found.namespace DESC, found.key DESC
  LIMIT $3::INTEGER)
SELECT few.number, store_items.namespace, store_items.key, store_items.meta, store_items.version,
  store_items.codec, store_items.checksum, store_items.created_at, store_items.updated_at,
  store_items.expires_at, store_items.lifetime, store_items.signature, store_items.value
FROM few LEFT OUTER
JOIN page ON few.number <= $4::INTEGER LEFT OUTER
JOIN store_items ON store_items.tenant = $5::VARCHAR
AND store_items.namespace = page.namespace
AND store_items.key = page.key
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > $6::TIMESTAMP WITH TIME ZONE)
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
  SELECT listed.log_id, CAST(listed.seq AS BIGINT) AS seq
  FROM (
    SELECT CAST(each.value ->> 0 AS uuid) AS log_id, (each.value ->> 1) COLLATE "C" AS seq
    FROM json_array_elements(CAST($1::VARCHAR AS json)) AS each(value)) AS listed)

-- search.text.read_found_entries()
SELECT deltas.log_id, deltas.seq, deltas.entry_key, deltas.occurred_at, deltas.stored_at,
  deltas.codec, deltas.checksum, deltas.search_text, deltas.payload, deltas.signature,
  threads.thread_id, threads.namespace
FROM deltas
JOIN threads ON threads.log_id = deltas.log_id
WHERE (deltas.log_id, deltas.seq) IN (
  SELECT listed.log_id, CAST(listed.seq AS BIGINT) AS seq
  FROM (
    SELECT CAST(each.value ->> 0 AS uuid) AS log_id, (each.value ->> 1) COLLATE "C" AS seq
    FROM json_array_elements(CAST($1::VARCHAR AS json)) AS each(value)) AS listed)
AND deltas.kind IN ('entry')

-- search.text.search_checkpoints(scope=namespace, weighed=False, one=False, rare=False, last_stored=False)
WITH hits AS (
  SELECT found.term AS term, found.log_id AS log_id, found.seq AS seq
  FROM (
    SELECT asked.term AS term, deltas.log_id AS log_id, deltas.seq AS seq
    FROM (
      SELECT anon_1.term AS term, to_tsquery('simple', anon_1.term) AS query
      FROM unnest(CAST($2::TEXT[] AS TEXT[])) AS anon_1(term)
      LIMIT ALL
      OFFSET 0) AS asked
    JOIN deltas ON to_tsvector('simple', deltas.search_text) @@ asked.query
    WHERE deltas.search_text IS NOT NULL
    AND deltas.tenant = $3::VARCHAR) AS found
  JOIN threads ON threads.log_id = found.log_id
  WHERE threads.tenant = $3::VARCHAR
  AND threads.namespace = $4::VARCHAR),
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
    ((scale.most - common.bits) + 1) * ((scale.most - common.bits) + 1) * $1::INTEGER + ((scale.most - scale.least) + 1) * ((scale.most - scale.least) + 1) AS weight, (scale.most + 2) * (scale.most + 2) * $1::INTEGER + ((scale.most - scale.least) + 1) * ((scale.most - scale.least) + 1) AS missing
  FROM common
  JOIN scale ON scale.most > -1),
ranked AS (
  SELECT hits.log_id AS log_id, hits.seq AS seq, sum(worth.weight) AS weight
  FROM hits
  JOIN worth ON worth.term = hits.term
  GROUP BY hits.log_id, hits.seq HAVING count(*) >= $5::INTEGER), best AS MATERIALIZED (
  SELECT checkpoints.log_id AS log_id, checkpoints.seq AS seq, checkpoints.created_at AS created_at,
    threads.thread_id AS thread_id, threads.namespace AS namespace, ranked.weight AS weight
  FROM ranked
  JOIN checkpoints ON checkpoints.log_id = ranked.log_id
  AND checkpoints.seq = ranked.seq
  JOIN threads ON threads.log_id = ranked.log_id
  WHERE threads.deleted_at IS NULL
  AND (threads.expires_at IS NULL
    OR threads.expires_at > $6::TIMESTAMP WITH TIME ZONE)
  ORDER BY ranked.weight DESC, checkpoints.created_at DESC, threads.thread_id DESC,
    threads.namespace DESC, checkpoints.seq DESC
  LIMIT $7
  OFFSET $8::INTEGER)
SELECT best.log_id, best.seq, CAST(best.weight AS FLOAT) / CAST(CAST((
      SELECT coalesce(sum(worth.weight) + max(worth.missing) * ($1::INTEGER - count(*)), 1) AS coalesce_1
      FROM worth) AS FLOAT) AS FLOAT) AS score
FROM best
ORDER BY best.weight DESC, best.created_at DESC, best.thread_id DESC, best.namespace DESC,
  best.seq DESC

-- search.text.search_entries(scope=namespace, weighed=False, one=False, rare=False)
WITH hits AS (
  SELECT found.term AS term, found.log_id AS log_id, found.seq AS seq
  FROM (
    SELECT asked.term AS term, deltas.log_id AS log_id, deltas.seq AS seq
    FROM (
      SELECT anon_1.term AS term, to_tsquery('simple', anon_1.term) AS query
      FROM unnest(CAST($2::TEXT[] AS TEXT[])) AS anon_1(term)
      LIMIT ALL
      OFFSET 0) AS asked
    JOIN deltas ON to_tsvector('simple', deltas.search_text) @@ asked.query
    WHERE deltas.search_text IS NOT NULL
    AND deltas.tenant = $3::VARCHAR) AS found
  JOIN threads ON threads.log_id = found.log_id
  WHERE threads.tenant = $3::VARCHAR
  AND threads.namespace = $4::VARCHAR),
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
    ((scale.most - common.bits) + 1) * ((scale.most - common.bits) + 1) * $1::INTEGER + ((scale.most - scale.least) + 1) * ((scale.most - scale.least) + 1) AS weight, (scale.most + 2) * (scale.most + 2) * $1::INTEGER + ((scale.most - scale.least) + 1) * ((scale.most - scale.least) + 1) AS missing
  FROM common
  JOIN scale ON scale.most > -1),
ranked AS (
  SELECT hits.log_id AS log_id, hits.seq AS seq, sum(worth.weight) AS weight
  FROM hits
  JOIN worth ON worth.term = hits.term
  GROUP BY hits.log_id, hits.seq HAVING count(*) >= $5::INTEGER), best AS MATERIALIZED (
  SELECT deltas.log_id AS log_id, deltas.seq AS seq, deltas.stored_at AS stored_at,
    threads.thread_id AS thread_id, threads.namespace AS namespace, ranked.weight AS weight
  FROM ranked
  JOIN deltas ON deltas.log_id = ranked.log_id
  AND deltas.seq = ranked.seq
  JOIN threads ON threads.log_id = ranked.log_id
  WHERE threads.deleted_at IS NULL
  AND (threads.expires_at IS NULL
    OR threads.expires_at > $6::TIMESTAMP WITH TIME ZONE)
  AND deltas.kind IN ('entry')
  ORDER BY ranked.weight DESC, deltas.stored_at DESC, deltas.seq DESC, threads.thread_id DESC
  LIMIT $7
  OFFSET $8::INTEGER)
SELECT best.log_id, best.seq, best.thread_id, best.namespace,
  CAST(best.weight AS FLOAT) / CAST(CAST((
      SELECT coalesce(sum(worth.weight) + max(worth.missing) * ($1::INTEGER - count(*)), 1) AS coalesce_1
      FROM worth) AS FLOAT) AS FLOAT) AS score
FROM best
ORDER BY best.weight DESC, best.stored_at DESC, best.seq DESC, best.thread_id DESC

-- search.text.search_items(below=False, weighed=False, one=False, rare=False, words=False)
WITH hits AS (
  SELECT asked.term AS term, store_items.namespace AS namespace, store_items.key AS key,
    store_items.updated_at AS updated_at, store_items.expires_at AS expires_at,
    octet_length(store_items.search_text) AS text_size
  FROM (
    SELECT anon_1.term AS term, CAST($2::VARCHAR AS TSQUERY) && to_tsquery('simple',
        anon_1.term) AS query
    FROM unnest((
        SELECT CAST($3::TEXT[] AS TEXT[]) AS anon_2)) AS anon_1(term)
    LIMIT ALL
    OFFSET 0) AS asked
  JOIN store_items ON ((to_tsvector('simple', CASE
        WHEN (store_items.search_text IS NULL) THEN ''
        ELSE store_items.search_text END) || to_tsvector('simple', CASE
        WHEN (store_items.field_terms IS NULL) THEN ''
        ELSE store_items.field_terms END)) || array_to_tsvector(ARRAY[((chr(31) || store_items.tenant) || chr(31)) || store_items.namespace])) @@ asked.query
  WHERE length(asked.term) BETWEEN $4::INTEGER
  AND $5::INTEGER),
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
    ((scale.most - common.bits) + 1) * ((scale.most - common.bits) + 1) * $1::INTEGER + ((scale.most - scale.least) + 1) * ((scale.most - scale.least) + 1) AS weight, (scale.most + 2) * (scale.most + 2) * $1::INTEGER + ((scale.most - scale.least) + 1) * ((scale.most - scale.least) + 1) AS missing
  FROM common
  JOIN scale ON scale.most > -1),
ranked AS (
  SELECT hits.namespace AS namespace, hits.key AS key, hits.updated_at AS updated_at,
    hits.expires_at AS expires_at, hits.text_size AS text_size, sum(worth.weight) AS weight
  FROM hits
  JOIN worth ON worth.term = hits.term
  GROUP BY hits.namespace, hits.key, hits.updated_at, hits.expires_at,
    hits.text_size HAVING count(*) >= $6::INTEGER), best AS MATERIALIZED (
  SELECT ranked.namespace AS namespace, ranked.key AS key, ranked.updated_at AS updated_at,
    ranked.expires_at AS expires_at, ranked.text_size AS text_size, ranked.weight AS weight
  FROM ranked
  WHERE ranked.expires_at IS NULL
  OR ranked.expires_at > $7::TIMESTAMP WITH TIME ZONE
  ORDER BY ranked.weight DESC, ranked.text_size / 8, ranked.updated_at DESC, ranked.namespace,
    ranked.key
  LIMIT (
    SELECT $8::INTEGER AS anon_3)
  OFFSET (
    SELECT $9::INTEGER AS anon_4))
SELECT best.namespace, best.key, CAST(best.weight AS FLOAT) / CAST(CAST((
      SELECT coalesce(sum(worth.weight) + max(worth.missing) * ($1::INTEGER - count(*)), 1) AS coalesce_1
      FROM worth) AS FLOAT) AS FLOAT) AS score
FROM best
ORDER BY best.weight DESC, best.text_size / 8, best.updated_at DESC, best.namespace, best.key

-- store.one_statement.put_item_without_vectors(expected=any)
WITH item AS (INSERT INTO store_items (tenant, namespace, key, meta, version, codec, checksum,
      search_text, field_terms, created_at, updated_at, expires_at, lifetime, signature, value)
  VALUES ($1::VARCHAR, $2::VARCHAR, $3::VARCHAR, $4::JSONB, 1, $5::VARCHAR, $6::BIGINT, $7::VARCHAR,
      $8::VARCHAR, $9::TIMESTAMP WITH TIME ZONE, $9::TIMESTAMP WITH TIME ZONE,
      $10::TIMESTAMP WITH TIME ZONE, $11::BIGINT, $12::BYTEA, $13::BYTEA)
  ON CONFLICT (tenant, namespace, key)
  DO UPDATE SET meta = excluded.meta, version = CASE
  WHEN (store_items.expires_at IS NULL
    OR store_items.expires_at > $14::TIMESTAMP WITH TIME ZONE) THEN store_items.version + $15::BIGINT
  ELSE 1 END, codec = excluded.codec, checksum = excluded.checksum,
    search_text = excluded.search_text, field_terms = excluded.field_terms, created_at = CASE
  WHEN (store_items.expires_at IS NULL
    OR store_items.expires_at > $14::TIMESTAMP WITH TIME ZONE) THEN store_items.created_at
  ELSE excluded.updated_at END, updated_at = excluded.updated_at, expires_at = excluded.expires_at,
    lifetime = excluded.lifetime, signature = excluded.signature, value = excluded.value
  WHERE store_items.ctid = (
    SELECT ctid
    FROM store_items
    WHERE store_items.tenant = $1::VARCHAR
    AND store_items.namespace = $2::VARCHAR
    AND store_items.key = $3::VARCHAR)
  RETURNING store_items.version),
gone AS (DELETE FROM embeddings
  WHERE embeddings.tenant = $1::VARCHAR
  AND embeddings.namespace = $2::VARCHAR
  AND embeddings.key = $3::VARCHAR
  AND (EXISTS (
      SELECT item.version
      FROM item)))
SELECT item.version
FROM item

-- store.read.count_items(below=False)
SELECT count(*) AS count_1
FROM store_items
WHERE store_items.tenant = $1::VARCHAR
AND store_items.namespace = $2::VARCHAR
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > $3::TIMESTAMP WITH TIME ZONE)

-- store.read.delete_expired()
DELETE FROM store_items
WHERE store_items.tenant = $1::VARCHAR
AND store_items.expires_at <= $2::TIMESTAMP WITH TIME ZONE
AND (store_items.namespace, store_items.key) IN (
  SELECT listed.namespace, listed.key
  FROM (
    SELECT (each.value ->> 0) COLLATE "C" AS namespace, (each.value ->> 1) COLLATE "C" AS key
    FROM json_array_elements(CAST($3::VARCHAR AS json)) AS each(value)) AS listed)

-- store.read.find_dimensions(below=False, given=False)
SELECT embeddings.dimensions
FROM embeddings
WHERE embeddings.tenant = $1::VARCHAR
AND embeddings.namespace = $2::VARCHAR
AND embeddings.model = $3::VARCHAR
ORDER BY embeddings.dimensions
LIMIT $4::INTEGER

-- store.read.has_item()
SELECT store_items.version
FROM store_items
WHERE store_items.tenant = $1::VARCHAR
AND store_items.namespace = $2::VARCHAR
AND store_items.key = $3::VARCHAR
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > $4::TIMESTAMP WITH TIME ZONE)

-- store.read.list_expired(after=True)
SELECT store_items.expires_at, store_items.namespace, store_items.key
FROM store_items
WHERE store_items.tenant = $1::VARCHAR
AND store_items.expires_at <= $2::TIMESTAMP WITH TIME ZONE
AND (store_items.expires_at, store_items.namespace,
    store_items.key) > ($3::TIMESTAMP WITH TIME ZONE, $4::VARCHAR, $5::VARCHAR)
ORDER BY store_items.expires_at, store_items.namespace, store_items.key
LIMIT $6

-- store.read.list_items(order=newest, below=False, after=False)
SELECT store_items.namespace, store_items.key, store_items.meta, store_items.version,
  store_items.codec, store_items.checksum, store_items.created_at, store_items.updated_at,
  store_items.expires_at, store_items.lifetime, store_items.signature, store_items.value
FROM store_items
WHERE store_items.tenant = $1::VARCHAR
AND store_items.namespace = $2::VARCHAR
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > $3::TIMESTAMP WITH TIME ZONE)
ORDER BY store_items.updated_at DESC, store_items.namespace DESC, store_items.key DESC
LIMIT $4

-- store.read.list_keys(after=False)
SELECT store_items.key
FROM store_items
WHERE store_items.tenant = $1::VARCHAR
AND store_items.namespace = $2::VARCHAR
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > $3::TIMESTAMP WITH TIME ZONE)
ORDER BY store_items.key
LIMIT $4

-- store.read.list_lifetimes()
SELECT store_items.namespace, store_items.key, store_items.version, store_items.lifetime
FROM store_items
WHERE store_items.tenant = $1::VARCHAR
AND (store_items.namespace, store_items.key) IN (
  SELECT listed.namespace, listed.key
  FROM (
    SELECT (each.value ->> 0) COLLATE "C" AS namespace, (each.value ->> 1) COLLATE "C" AS key
    FROM json_array_elements(CAST($2::VARCHAR AS json)) AS each(value)) AS listed)
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > $3::TIMESTAMP WITH TIME ZONE)
AND store_items.lifetime IS NOT NULL

-- store.read.list_paths()
WITH RECURSIVE paths(place) AS (
  SELECT (
    SELECT min(later.namespace) AS min_1
    FROM store_items AS later
    WHERE later.tenant = $1::VARCHAR
    AND later.namespace >= $2::VARCHAR
    AND later.namespace < $3::VARCHAR
    AND NOT (later.namespace >= $4::VARCHAR
      AND later.namespace < $5::VARCHAR)
    AND (later.expires_at IS NULL
      OR later.expires_at > $6::TIMESTAMP WITH TIME ZONE)) AS place
  UNION ALL
  SELECT (
    SELECT min(later.namespace) AS min_2
    FROM store_items AS later
    WHERE later.tenant = $1::VARCHAR
    AND later.namespace > paths.place
    AND later.namespace < $3::VARCHAR
    AND NOT (later.namespace >= $4::VARCHAR
      AND later.namespace < $5::VARCHAR)
    AND (later.expires_at IS NULL
      OR later.expires_at > $6::TIMESTAMP WITH TIME ZONE)) AS anon_1
  FROM paths
  WHERE paths.place IS NOT NULL)
SELECT paths.place
FROM paths
WHERE paths.place IS NOT NULL
LIMIT $7

-- store.read.read_item()
SELECT store_items.namespace, store_items.key, store_items.meta, store_items.version,
  store_items.codec, store_items.checksum, store_items.created_at, store_items.updated_at,
  store_items.expires_at, store_items.lifetime, store_items.signature, store_items.value
FROM store_items
WHERE store_items.tenant = $1::VARCHAR
AND store_items.namespace = $2::VARCHAR
AND store_items.key = $3::VARCHAR
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > $4::TIMESTAMP WITH TIME ZONE)

-- store.read.read_items(words=False)
SELECT store_items.namespace, store_items.key, store_items.meta, store_items.version,
  store_items.codec, store_items.checksum, store_items.created_at, store_items.updated_at,
  store_items.expires_at, store_items.lifetime, store_items.signature, store_items.value
FROM store_items
WHERE store_items.tenant = $1::VARCHAR
AND (store_items.namespace, store_items.key) IN (
  SELECT listed.namespace, listed.key
  FROM (
    SELECT (each.value ->> 0) COLLATE "C" AS namespace, (each.value ->> 1) COLLATE "C" AS key
    FROM json_array_elements(CAST($2::VARCHAR AS json)) AS each(value)) AS listed)
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > $3::TIMESTAMP WITH TIME ZONE)

-- store.read.read_vector()
SELECT embeddings.namespace, embeddings.key, embeddings.field, embeddings.model, embeddings.part,
  embeddings.dimensions, embeddings.vector, embeddings.signature AS vector_signature,
  store_items.version
FROM embeddings
JOIN store_items ON store_items.tenant = embeddings.tenant
AND store_items.namespace = embeddings.namespace
AND store_items.key = embeddings.key
WHERE embeddings.tenant = $1::VARCHAR
AND embeddings.namespace = $2::VARCHAR
AND embeddings.key = $3::VARCHAR
AND embeddings.field = $4::VARCHAR
AND embeddings.model = $5::VARCHAR
AND embeddings.part = $6::INTEGER
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > $7::TIMESTAMP WITH TIME ZONE)

-- store.reembedding.count_items_without_vectors(below=False)
SELECT count(*) AS count_1
FROM (
  SELECT store_items.namespace AS namespace, store_items.key AS key
  FROM store_items
  WHERE store_items.tenant = $1::VARCHAR
  AND store_items.namespace = $2::VARCHAR
  AND (store_items.expires_at IS NULL
    OR store_items.expires_at > $3::TIMESTAMP WITH TIME ZONE) EXCEPT
  SELECT embeddings.namespace AS namespace, embeddings.key AS key
  FROM embeddings
  WHERE embeddings.tenant = $1::VARCHAR
  AND embeddings.namespace = $2::VARCHAR
  AND embeddings.model = $4::VARCHAR
  AND embeddings.dimensions = $5::INTEGER) AS lacking

-- store.reembedding.list_places(below=False, after=False)
SELECT store_items.namespace, store_items.key, octet_length(store_items.value) AS stored
FROM store_items
WHERE store_items.tenant = $1::VARCHAR
AND store_items.namespace = $2::VARCHAR
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > $3::TIMESTAMP WITH TIME ZONE)
ORDER BY store_items.namespace, store_items.key
LIMIT $4

-- store.reembedding.read_items_to_embed()
SELECT store_items.namespace, store_items.key, store_items.meta, store_items.version,
  store_items.codec, store_items.checksum, store_items.created_at, store_items.updated_at,
  store_items.expires_at, store_items.lifetime, store_items.signature, store_items.value
FROM store_items
WHERE store_items.tenant = $1::VARCHAR
AND (store_items.namespace, store_items.key) IN (
  SELECT listed.namespace, listed.key
  FROM (
    SELECT (each.value ->> 0) COLLATE "C" AS namespace, (each.value ->> 1) COLLATE "C" AS key
    FROM json_array_elements(CAST($2::VARCHAR AS json)) AS each(value)) AS listed)
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > $3::TIMESTAMP WITH TIME ZONE)

-- store.write.clear_items(below=False)
DELETE FROM store_items
WHERE store_items.tenant = $1::VARCHAR
AND store_items.namespace = $2::VARCHAR

-- store.write.delete_item(expected=any)
DELETE FROM store_items
WHERE store_items.tenant = $1::VARCHAR
AND store_items.namespace = $2::VARCHAR
AND store_items.key = $3::VARCHAR
RETURNING store_items.expires_at

-- store.write.delete_items()
DELETE FROM store_items
WHERE store_items.tenant = $1::VARCHAR
AND (store_items.namespace, store_items.key) IN (
  SELECT listed.namespace, listed.key
  FROM (
    SELECT (each.value ->> 0) COLLATE "C" AS namespace, (each.value ->> 1) COLLATE "C" AS key
    FROM json_array_elements(CAST($2::VARCHAR AS json)) AS each(value)) AS listed)
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > $3::TIMESTAMP WITH TIME ZONE)

-- store.write.delete_other_vectors()
DELETE FROM embeddings
WHERE embeddings.tenant = $1::VARCHAR
AND embeddings.namespace = $2::VARCHAR
AND embeddings.key = $3::VARCHAR
AND NOT (EXISTS (
    SELECT 1
    FROM (
      SELECT (each.value ->> 0) COLLATE "C" AS field, (each.value ->> 1) COLLATE "C" AS model,
        (each.value ->> 2) COLLATE "C" AS part
      FROM json_array_elements(CAST($4::VARCHAR AS json)) AS each(value)) AS listed
    WHERE embeddings.field = listed.field
    AND embeddings.model = listed.model
    AND CAST(embeddings.part AS TEXT) = listed.part))

-- store.write.delete_vectors()
DELETE FROM embeddings
WHERE embeddings.tenant = $1::VARCHAR
AND embeddings.namespace = $2::VARCHAR
AND embeddings.key = $3::VARCHAR

-- store.write.delete_vectors_of_items()
DELETE FROM embeddings
WHERE embeddings.tenant = $1::VARCHAR
AND (embeddings.namespace, embeddings.key) IN (
  SELECT listed.namespace, listed.key
  FROM (
    SELECT (each.value ->> 0) COLLATE "C" AS namespace, (each.value ->> 1) COLLATE "C" AS key
    FROM json_array_elements(CAST($2::VARCHAR AS json)) AS each(value)) AS listed)

-- store.write.delete_vectors_of_model(of_field=False)
DELETE FROM embeddings
WHERE embeddings.tenant = $1::VARCHAR
AND embeddings.namespace = $2::VARCHAR
AND embeddings.key = $3::VARCHAR
AND embeddings.model = $4::VARCHAR

-- store.write.extend_lifetime()
UPDATE store_items
SET expires_at=$1::TIMESTAMP WITH TIME ZONE
WHERE store_items.tenant = $2::VARCHAR
AND store_items.namespace = $3::VARCHAR
AND store_items.key = $4::VARCHAR
AND store_items.version = $5::BIGINT
AND store_items.lifetime = $6::BIGINT
AND store_items.expires_at < $1::TIMESTAMP WITH TIME ZONE
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > $7::TIMESTAMP WITH TIME ZONE)

-- store.write.list_vector_names()
SELECT embeddings.namespace, embeddings.key, embeddings.field, embeddings.model, embeddings.part,
  embeddings.dimensions
FROM embeddings
WHERE embeddings.tenant = $1::VARCHAR
AND (embeddings.namespace, embeddings.key) IN (
  SELECT listed.namespace, listed.key
  FROM (
    SELECT (each.value ->> 0) COLLATE "C" AS namespace, (each.value ->> 1) COLLATE "C" AS key
    FROM json_array_elements(CAST($2::VARCHAR AS json)) AS each(value)) AS listed)

-- store.write.lock_item()
UPDATE store_items
SET version=store_items.version
WHERE store_items.tenant = $1::VARCHAR
AND store_items.namespace = $2::VARCHAR
AND store_items.key = $3::VARCHAR
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > $4::TIMESTAMP WITH TIME ZONE)
RETURNING store_items.version, store_items.created_at

-- store.write.lock_items()
SELECT store_items.namespace, store_items.key, store_items.version, store_items.created_at
FROM store_items
WHERE store_items.tenant = $1::VARCHAR
AND (store_items.namespace, store_items.key) IN (
  SELECT listed.namespace, listed.key
  FROM (
    SELECT (each.value ->> 0) COLLATE "C" AS namespace, (each.value ->> 1) COLLATE "C" AS key
    FROM json_array_elements(CAST($2::VARCHAR AS json)) AS each(value)) AS listed)
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > $3::TIMESTAMP WITH TIME ZONE)
ORDER BY store_items.namespace, store_items.key
FOR UPDATE OF store_items

-- store.write.put_item(expected=any)
INSERT INTO store_items (tenant, namespace, key, meta, version, codec, checksum, search_text,
    field_terms, created_at, updated_at, expires_at, lifetime, signature, value)
VALUES ($1::VARCHAR, $2::VARCHAR, $3::VARCHAR, $4::JSONB, 1, $5::VARCHAR, $6::BIGINT, $7::VARCHAR,
    $8::VARCHAR, $9::TIMESTAMP WITH TIME ZONE, $9::TIMESTAMP WITH TIME ZONE,
    $10::TIMESTAMP WITH TIME ZONE, $11::BIGINT, $12::BYTEA, $13::BYTEA)
ON CONFLICT (tenant, namespace, key)
DO UPDATE SET meta = excluded.meta, version = CASE
WHEN (store_items.expires_at IS NULL
  OR store_items.expires_at > $14::TIMESTAMP WITH TIME ZONE) THEN store_items.version + $15::BIGINT
ELSE 1 END, codec = excluded.codec, checksum = excluded.checksum,
  search_text = excluded.search_text, field_terms = excluded.field_terms, created_at = CASE
WHEN (store_items.expires_at IS NULL
  OR store_items.expires_at > $14::TIMESTAMP WITH TIME ZONE) THEN store_items.created_at
ELSE excluded.updated_at END, updated_at = excluded.updated_at, expires_at = excluded.expires_at,
  lifetime = excluded.lifetime, signature = excluded.signature, value = excluded.value
RETURNING store_items.version

-- store.write.put_items(expected=any)
WITH i_rows AS (
  SELECT i_given.namespace AS namespace, i_given.key AS key, CAST(i_given.meta AS JSONB) AS meta,
    i_given.checksum AS checksum, i_given.search_text AS search_text,
    i_given.field_terms AS field_terms, i_given.expires_at AS expires_at,
    i_given.lifetime AS lifetime, i_given.value AS value, i_given.signature AS signature
  FROM unnest($4::TEXT[], $5::TEXT[], $6::TEXT[], $7::BIGINT[], $8::TEXT[], $9::TEXT[],
      $10::TIMESTAMP WITH TIME ZONE[], $11::BIGINT[], $12::BYTEA[], $13::BYTEA[]) AS i_given(namespace,
      key, meta, checksum, search_text, field_terms, expires_at, lifetime, value, signature))
INSERT INTO store_items (tenant, namespace, key, meta, codec, checksum, search_text, field_terms,
    updated_at, expires_at, lifetime, value, signature, version, created_at)
SELECT $1::VARCHAR AS tenant, i_rows.namespace AS namespace, i_rows.key AS key,
  i_rows.meta AS meta, $2::VARCHAR AS codec, i_rows.checksum AS checksum,
  i_rows.search_text AS search_text, i_rows.field_terms AS field_terms,
  $3::TIMESTAMP WITH TIME ZONE AS updated_at, i_rows.expires_at AS expires_at,
  i_rows.lifetime AS lifetime, i_rows.value AS value, i_rows.signature AS signature, 1 AS version,
  $3::TIMESTAMP WITH TIME ZONE AS created_at
FROM i_rows
ON CONFLICT (tenant, namespace, key)
DO UPDATE SET meta = excluded.meta, version = CASE
WHEN (store_items.expires_at IS NULL
  OR store_items.expires_at > $14::TIMESTAMP WITH TIME ZONE) THEN store_items.version + $15::BIGINT
ELSE 1 END, codec = excluded.codec, checksum = excluded.checksum,
  search_text = excluded.search_text, field_terms = excluded.field_terms, created_at = CASE
WHEN (store_items.expires_at IS NULL
  OR store_items.expires_at > $14::TIMESTAMP WITH TIME ZONE) THEN store_items.created_at
ELSE excluded.updated_at END, updated_at = excluded.updated_at, expires_at = excluded.expires_at,
  lifetime = excluded.lifetime, signature = excluded.signature, value = excluded.value
RETURNING store_items.namespace, store_items.key, store_items.version

-- store.write.put_vector(native=True)
INSERT INTO embeddings (tenant, namespace, key, field, model, part, dimensions, change, signature,
    vector)
VALUES ($1::VARCHAR, $2::VARCHAR, $3::VARCHAR, $4::VARCHAR, $5::VARCHAR, $6::INTEGER, $7::INTEGER,
    $8::BIGINT, $9::BYTEA, CAST($10::VARCHAR AS VECTOR))
ON CONFLICT (tenant, namespace, key, field, model, part)
DO UPDATE SET dimensions = excluded.dimensions, change = excluded.change,
  signature = excluded.signature, vector = excluded.vector

-- store.write.set_item_times()
UPDATE store_items
SET created_at=coalesce($1::TIMESTAMP WITH TIME ZONE, store_items.created_at),
  updated_at=coalesce($2::TIMESTAMP WITH TIME ZONE, store_items.updated_at),
  expires_at=coalesce($3::TIMESTAMP WITH TIME ZONE, store_items.expires_at)
WHERE store_items.tenant = $4::VARCHAR
AND store_items.namespace = $5::VARCHAR
AND store_items.key = $6::VARCHAR
AND store_items.updated_at = $7::TIMESTAMP WITH TIME ZONE

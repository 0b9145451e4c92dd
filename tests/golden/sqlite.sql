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
WHERE threads.tenant = ?
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > ?)
AND (threads.head_id IS NOT NULL
  OR (EXISTS (
      SELECT 1
      FROM deltas
      WHERE deltas.log_id = threads.log_id
      AND deltas.kind IN ('entry'))))
ORDER BY threads.active_at DESC, threads.updated_at DESC, threads.thread_id, threads.namespace
LIMIT ?
OFFSET ?

-- checkpoints.forget.clear_fork_origin()
UPDATE threads
SET forked_from=NULL, forked_seq=NULL
WHERE threads.tenant = ?
AND threads.forked_from = ?

-- checkpoints.forget.delete_internal_items()
DELETE FROM store_items
WHERE store_items.tenant = ?
AND store_items.namespace >= ?
AND store_items.namespace < ?

-- checkpoints.forget.delete_rows_of_tenant(table=embeddings)
DELETE FROM embeddings
WHERE embeddings.tenant = ?

-- checkpoints.forget.forget_item(why=rows)
DELETE FROM store_items
WHERE store_items.tenant = ?
AND store_items.namespace = ?
AND store_items."key" = ?
AND store_items.version = ?

-- checkpoints.forget.list_all_logs_below()
SELECT threads.thread_id, threads.namespace
FROM threads
WHERE threads.tenant = ?
AND threads.namespace >= ?
AND threads.namespace < ?
ORDER BY threads.thread_id, threads.namespace

-- checkpoints.forget.list_items_with_metadata(narrowed=False, after=False)
SELECT store_items.namespace, store_items."key", store_items.version, store_items.meta
FROM store_items
WHERE store_items.tenant = ?
AND store_items.namespace >= ?
AND store_items.namespace < ?
AND NOT (store_items.namespace >= ?
  AND store_items.namespace < ?)
ORDER BY store_items.namespace, store_items."key"
LIMIT ?
OFFSET ?

-- checkpoints.listing.list_by_id(scope=log, until=True, after=True)
SELECT threads.thread_id, threads.namespace, checkpoints.checkpoint_id, checkpoints.parent_id,
  checkpoints.seq, checkpoints.meta, checkpoints.created_at, checkpoints.raw_size,
  checkpoints.stored_size, checkpoints.occurred_at, checkpoints.ordinal, checkpoints.rests_on,
  checkpoints.run_id, checkpoints.signature
FROM checkpoints
JOIN threads ON threads.log_id = checkpoints.log_id
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > ?)
WHERE checkpoints.log_id = ?
AND checkpoints.checkpoint_id < ?
AND (checkpoints.checkpoint_id < ?
  OR checkpoints.checkpoint_id = ?
  AND (threads.thread_id, threads.namespace) > (?, ?))
ORDER BY checkpoints.checkpoint_id DESC, threads.thread_id, threads.namespace
LIMIT ?
OFFSET ?

-- checkpoints.listing.list_by_metadata(kind=text, exact=True)
WITH newest AS MATERIALIZED (
  SELECT checkpoints.log_id AS log_id, checkpoints.seq AS seq
  FROM checkpoints
  WHERE checkpoints.tenant = ?
  AND checkpoints.rowid IN (
    SELECT checkpoints_meta.rowid
    FROM checkpoints_meta
    WHERE checkpoints_meta MATCH (('"' || lower(hex((? || char(?)) || ('t' || substr(?, ?,
                  ?))))) || '"'))
  AND (EXISTS (
      SELECT 1
      FROM json_each(checkpoints.meta) AS "each"
      WHERE "each"."key" = ?
      AND "each".type = 'text'
      AND "each".atom = ?))
  AND (EXISTS (
      SELECT 1
      FROM threads
      WHERE threads.log_id = checkpoints.log_id
      AND threads.tenant = ?
      AND threads.namespace = ?
      AND threads.deleted_at IS NULL
      AND (threads.expires_at IS NULL
        OR threads.expires_at > ?)))
  ORDER BY checkpoints.created_at DESC, checkpoints.seq DESC, checkpoints.log_id
  LIMIT ?
  OFFSET ?)
SELECT threads.thread_id, threads.namespace, checkpoints.checkpoint_id, checkpoints.parent_id,
  checkpoints.seq, checkpoints.meta, checkpoints.created_at, checkpoints.raw_size,
  checkpoints.stored_size, checkpoints.occurred_at, checkpoints.ordinal, checkpoints.rests_on,
  checkpoints.run_id, checkpoints.signature, CASE
WHEN (EXISTS (
    SELECT 1
    FROM json_each(checkpoints.meta) AS "each"
    WHERE "each"."key" = ?
    AND "each".type = 'text'
    AND "each".atom = ?)) THEN 1
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
  OR threads.expires_at > ?)
WHERE checkpoints.log_id = ?
AND checkpoints.seq < ?
ORDER BY checkpoints.seq DESC
LIMIT ?
OFFSET ?

-- checkpoints.listing.list_checkpoints_of_runs()
WITH made AS MATERIALIZED (
  SELECT checkpoints.log_id AS log_id, checkpoints.seq AS seq,
    checkpoints.checkpoint_id AS checkpoint_id
  FROM checkpoints
  WHERE checkpoints.tenant = ?
  AND checkpoints.run_id IN (
    WITH listed AS MATERIALIZED (
      SELECT each_listed.run_id AS run_id
      FROM (
        SELECT json_extract(each.value, '$[0]') AS run_id
        FROM json_each(?) AS each) AS each_listed)
    SELECT listed.run_id
    FROM listed))
SELECT threads.thread_id, threads.namespace, made.seq, made.checkpoint_id
FROM made
JOIN threads ON threads.log_id = made.log_id
WHERE threads.tenant = ?
AND threads.namespace >= ?
AND threads.namespace < ?
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > ?)
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
  WHERE threads.tenant = ?
  AND threads.namespace = ?
  AND threads.deleted_at IS NULL
  AND (threads.expires_at IS NULL
    OR threads.expires_at > ?)
  ORDER BY newest.created_at DESC, newest.seq DESC, newest.log_id
  LIMIT ?
  OFFSET ?) AS heads ON checkpoints.log_id = heads.log_id
ORDER BY checkpoints.created_at DESC, checkpoints.seq DESC, checkpoints.log_id
LIMIT ?
OFFSET ?

-- checkpoints.listing.list_of_logs()
WITH listed AS MATERIALIZED (
  SELECT each_listed.log_id AS log_id
  FROM (
    SELECT substr(?, 16 * each.key + 1, 16) AS log_id
    FROM json_each(?) AS each) AS each_listed)
SELECT threads.thread_id, threads.namespace, checkpoints.checkpoint_id, checkpoints.parent_id,
  checkpoints.seq, checkpoints.meta, checkpoints.created_at, checkpoints.raw_size,
  checkpoints.stored_size, checkpoints.occurred_at, checkpoints.ordinal, checkpoints.rests_on,
  checkpoints.run_id, checkpoints.signature
FROM listed
JOIN threads ON threads.log_id = listed.log_id
JOIN checkpoints ON checkpoints.log_id = threads.log_id
WHERE threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > ?)
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
  OR threads.expires_at > ?)
WHERE checkpoints.log_id = ?
AND checkpoints.seq > ?
ORDER BY checkpoints.seq
LIMIT ?
OFFSET ?

-- checkpoints.listing.list_threads_by_metadata(kind=text)
SELECT threads.thread_id
FROM checkpoints
JOIN threads ON threads.log_id = checkpoints.log_id
WHERE checkpoints.tenant = ?
AND checkpoints.rowid IN (
  SELECT checkpoints_meta.rowid
  FROM checkpoints_meta
  WHERE checkpoints_meta MATCH (('"' || lower(hex((? || char(?)) || ('t' || substr(?, ?,
                ?))))) || '"'))
AND (EXISTS (
    SELECT 1
    FROM json_each(checkpoints.meta) AS "each"
    WHERE "each"."key" = ?
    AND "each".type = 'text'
    AND "each".atom = ?))
UNION
SELECT threads.thread_id
FROM threads
WHERE threads.tenant = ?
AND CASE
WHEN (CASE
  WHEN (json_valid(threads.meta) = 0) THEN 0
  WHEN (json_type(threads.meta) = 'object') THEN 1
  ELSE 0 END = 1) THEN CASE
WHEN (EXISTS (
    SELECT 1
    FROM json_each(threads.meta) AS "each"
    WHERE "each"."key" = ?
    AND "each".type = 'text'
    AND "each".atom = ?)) THEN 1
ELSE 0 END
ELSE 0 END = 1

-- checkpoints.listing.list_threads_without_metadata()
SELECT threads.thread_id, threads.namespace
FROM threads
WHERE threads.tenant = ?
AND CASE
WHEN (json_valid(threads.meta) = 0) THEN 0
WHEN (json_type(threads.meta) = 'object') THEN 1
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
  OR threads.expires_at > ?)
WHERE checkpoints.log_id = ?
AND checkpoints.occurred_at <= ?
ORDER BY checkpoints.occurred_at DESC, checkpoints.seq DESC
LIMIT ?
OFFSET ?

-- checkpoints.listing.measure_log()
SELECT count(*) AS count_1, coalesce(sum(checkpoints.raw_size), ?) AS coalesce_1,
  coalesce(sum(checkpoints.stored_size), ?) AS coalesce_3, CASE
WHEN (count(*) = 0) THEN 0
WHEN (count(*) = (
    SELECT threads.next_seq
    FROM threads
    WHERE threads.log_id = ?) - 1) THEN count(*) - (
  SELECT count(*) AS count_2
  FROM deltas
  WHERE deltas.log_id = ?
  AND deltas.base_seq IS NOT NULL)
WHEN (count(*) = (
    SELECT count(*) AS count_3
    FROM deltas
    WHERE deltas.log_id = ?) - (
    SELECT count(*) AS count_4
    FROM deltas
    WHERE deltas.log_id = ?
    AND deltas.entry_key IS NOT NULL)) THEN count(*) - (
  SELECT count(*) AS count_2
  FROM deltas
  WHERE deltas.log_id = ?
  AND deltas.base_seq IS NOT NULL)
ELSE (
  SELECT count(*) AS count_5
  FROM deltas
  JOIN checkpoints ON deltas.log_id = checkpoints.log_id
  AND deltas.seq = checkpoints.seq
  WHERE deltas.log_id = ?
  AND deltas.kind IN ('snapshot')) END AS anon_1
FROM checkpoints
WHERE checkpoints.log_id = ?
AND (EXISTS (
    SELECT 1
    FROM threads
    WHERE threads.log_id = ?
    AND threads.deleted_at IS NULL
    AND (threads.expires_at IS NULL
      OR threads.expires_at > ?)))

-- checkpoints.listing.read_checkpoint()
SELECT threads.thread_id, threads.namespace, checkpoints.checkpoint_id, checkpoints.parent_id,
  checkpoints.seq, checkpoints.meta, checkpoints.created_at, checkpoints.raw_size,
  checkpoints.stored_size, checkpoints.occurred_at, checkpoints.ordinal, checkpoints.rests_on,
  checkpoints.run_id, checkpoints.signature
FROM checkpoints
JOIN threads ON threads.log_id = checkpoints.log_id
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > ?)
WHERE checkpoints.log_id = ?
AND checkpoints.checkpoint_id = ?

-- checkpoints.load.read_chain(which=newest, signed=False)
WITH RECURSIVE chain(checkpoint_id, raw_size, epoch, seq, base_seq, depth, codec, checksum,
    payload) AS (
  SELECT checkpoints.checkpoint_id AS checkpoint_id, checkpoints.raw_size AS raw_size,
    threads.epoch AS epoch, deltas.seq AS seq, deltas.base_seq AS base_seq, deltas.depth AS depth,
    deltas.codec AS codec, deltas.checksum AS checksum, CASE
  WHEN (checkpoints.checkpoint_id = ?
    AND threads.epoch = ?
    AND deltas.seq = ?
    AND deltas.checksum = ?) THEN NULL
  ELSE deltas.payload END AS payload
  FROM threads
  JOIN deltas ON deltas.log_id = threads.log_id
  JOIN checkpoints ON checkpoints.log_id = deltas.log_id
  AND checkpoints.seq = deltas.seq
  WHERE checkpoints.log_id = ?
  AND checkpoints.seq = (
    SELECT max(wanted.seq) AS max_1
    FROM checkpoints AS wanted
    WHERE wanted.log_id = ?)
  AND threads.deleted_at IS NULL
  AND (threads.expires_at IS NULL
    OR threads.expires_at > ?)
  UNION ALL
  SELECT chain.checkpoint_id AS checkpoint_id, chain.raw_size AS raw_size, chain.epoch AS epoch,
    base.seq AS seq, base.base_seq AS base_seq, base.depth AS depth, base.codec AS codec,
    base.checksum AS checksum, base.payload AS payload
  FROM chain
  JOIN deltas AS base ON base.seq = chain.base_seq
  AND base.seq < chain.seq
  WHERE base.log_id = ?
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
  WHEN (checkpoints.checkpoint_id = ?
    AND threads.epoch = ?
    AND deltas.seq = ?
    AND deltas.checksum = ?) THEN NULL
  ELSE deltas.payload END AS payload
  FROM threads
  JOIN deltas ON deltas.log_id = threads.log_id
  JOIN checkpoints ON checkpoints.log_id = deltas.log_id
  AND checkpoints.seq = deltas.seq
  WHERE checkpoints.log_id = ?
  AND checkpoints.seq = (
    SELECT max(wanted.seq) AS max_1
    FROM checkpoints AS wanted
    WHERE wanted.log_id = ?)
  AND threads.deleted_at IS NULL
  AND (threads.expires_at IS NULL
    OR threads.expires_at > ?)
  UNION ALL
  SELECT chain.parent_id AS parent_id, chain.checkpoint_id AS checkpoint_id,
    chain.raw_size AS raw_size, chain.epoch AS epoch, base.seq AS seq, base.base_seq AS base_seq,
    base.depth AS depth, base.codec AS codec, base.checksum AS checksum, base.payload AS payload
  FROM chain
  JOIN deltas AS base ON base.seq = chain.base_seq
  AND base.seq < chain.seq
  WHERE base.log_id = ?
  AND chain.payload IS NOT NULL)
SELECT chain.parent_id, chain.checkpoint_id, chain.raw_size, chain.epoch, chain.seq,
  chain.base_seq, chain.depth, chain.codec, chain.checksum, chain.payload, 2 AS overwrites
FROM chain
UNION ALL
SELECT deltas.label AS parent_id, deltas.label AS checkpoint_id, deltas.seq AS raw_size,
  deltas.seq AS epoch, deltas.seq, deltas.base_seq, deltas.depth, deltas.codec, deltas.checksum,
  deltas.payload, deltas.overwrites
FROM deltas
WHERE deltas.log_id = ?
AND deltas.kind IN ('write')
AND deltas.entry_key >= ('w/' || (
    SELECT name.checkpoint_id
    FROM checkpoints AS name
    WHERE name.log_id = ?
    AND name.seq = (
      SELECT max(wanted.seq) AS max_2
      FROM checkpoints AS wanted
      WHERE wanted.log_id = ?)) || '/')
AND deltas.entry_key < ('w/' || (
    SELECT name.checkpoint_id
    FROM checkpoints AS name
    WHERE name.log_id = ?
    AND name.seq = (
      SELECT max(wanted.seq) AS max_2
      FROM checkpoints AS wanted
      WHERE wanted.log_id = ?)) || '0')
AND deltas.label = (
  SELECT name.checkpoint_id
  FROM checkpoints AS name
  WHERE name.log_id = ?
  AND name.seq = (
    SELECT max(wanted.seq) AS max_2
    FROM checkpoints AS wanted
    WHERE wanted.log_id = ?))

-- checkpoints.rewrite.list_in_order()
SELECT checkpoints.checkpoint_id, checkpoints.seq
FROM checkpoints
WHERE checkpoints.log_id = ?
ORDER BY checkpoints.seq

-- checkpoints.rewrite.rewrite_delta()
UPDATE deltas
SET kind=?, base_seq=?, depth=?, radix=?, codec=?, checksum=?, payload=?
WHERE deltas.log_id = ?
AND deltas.seq = ?

-- checkpoints.rewrite.rewrite_size()
UPDATE checkpoints
SET stored_size=?
WHERE checkpoints.log_id = ?
AND checkpoints.seq = ?

-- checkpoints.roads.read_state_row()
SELECT deltas.seq, deltas.checksum
FROM checkpoints
JOIN deltas ON deltas.log_id = checkpoints.log_id
AND deltas.seq = checkpoints.seq
WHERE checkpoints.log_id = ?
AND checkpoints.checkpoint_id = ?

-- checkpoints.save.find_saved()
SELECT checkpoints.seq, threads.version, threads.epoch, threads.previous_id, deltas.checksum
FROM checkpoints
JOIN threads ON threads.log_id = checkpoints.log_id
JOIN deltas ON deltas.log_id = checkpoints.log_id
AND deltas.seq = checkpoints.seq
WHERE checkpoints.log_id = ?
AND checkpoints.checkpoint_id = ?
AND checkpoints.created_at = ?

-- checkpoints.snapshots.read_states(alive=True, signed=False)
WITH RECURSIVE needed(log_id, seq, base_seq) AS (
  WITH listed AS MATERIALIZED (
    SELECT each_listed.log_id AS log_id, each_listed.checkpoint_id AS checkpoint_id
    FROM (
      SELECT substr(?, 16 * each.key + 1, 16) AS log_id, json_extract(each.value, '$[1]') AS checkpoint_id
      FROM json_each(?) AS each) AS each_listed)
  SELECT deltas.log_id AS log_id, deltas.seq AS seq, deltas.base_seq AS base_seq
  FROM listed
  JOIN threads ON threads.log_id = listed.log_id
  AND threads.deleted_at IS NULL
  AND (threads.expires_at IS NULL
    OR threads.expires_at > ?)
  JOIN checkpoints ON checkpoints.log_id = listed.log_id
  AND checkpoints.checkpoint_id = listed.checkpoint_id
  JOIN deltas ON deltas.log_id = checkpoints.log_id
  AND deltas.seq = checkpoints.seq
  UNION ALL
  SELECT base.log_id AS log_id, base.seq AS seq, base.base_seq AS base_seq
  FROM needed
  JOIN deltas AS base ON base.log_id = needed.log_id
  AND base.seq = needed.base_seq
  AND base.seq < needed.seq)
SELECT deltas.log_id, name.checkpoint_id, parent.checkpoint_id AS parent_id, deltas.seq,
  deltas.base_seq, deltas.depth, deltas.codec, deltas.checksum, deltas.payload
FROM (
  SELECT DISTINCT needed.log_id AS log_id, needed.seq AS seq
  FROM needed) AS places
JOIN deltas ON deltas.log_id = places.log_id
AND deltas.seq = places.seq LEFT OUTER
JOIN checkpoints AS name ON name.log_id = deltas.log_id
AND name.seq = deltas.seq LEFT OUTER
JOIN checkpoints AS parent ON parent.log_id = name.log_id
AND parent.checkpoint_id = name.parent_id
WHERE deltas.kind IN ('snapshot', 'delta')
ORDER BY deltas.seq

-- database.sqlite.shrink.file_pages()
SELECT p.page_count, f.freelist_count, s.page_size, a.auto_vacuum
FROM pragma_page_count AS p, pragma_freelist_count AS f, pragma_page_size AS s,
  pragma_auto_vacuum AS a

-- database.sqlite.shrink.file_step(what=incremental)
PRAGMA auto_vacuum = INCREMENTAL

-- inspection._statements.changed_items(below=False, internal=8)
SELECT store_items.namespace, store_items."key", store_items.updated_at
FROM store_items
WHERE store_items.updated_at >= ?
AND store_items.tenant = ?
AND store_items.namespace = ?
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > ?)
AND store_items.namespace NOT LIKE ? ESCAPE '\'
AND store_items.namespace NOT LIKE ? ESCAPE '\'
AND store_items.namespace NOT LIKE ? ESCAPE '\'
AND store_items.namespace NOT LIKE ? ESCAPE '\'
AND store_items.namespace NOT LIKE ? ESCAPE '\'
AND store_items.namespace NOT LIKE ? ESCAPE '\'
AND store_items.namespace NOT LIKE ? ESCAPE '\'
AND store_items.namespace NOT LIKE ? ESCAPE '\'
ORDER BY store_items.updated_at DESC
LIMIT ?
OFFSET ?

-- inspection._statements.changed_logs()
SELECT threads.log_id, threads.thread_id, threads.namespace, threads.updated_at, threads.version,
  threads.next_seq
FROM threads
WHERE threads.tenant = ?
AND threads.active_at >= ?
ORDER BY threads.active_at DESC
LIMIT ?
OFFSET ?

-- inspection._statements.count_logs_of_namespaces(scope=below, exact=False)
SELECT count(*) AS logs
FROM (
  SELECT 1 AS one
  FROM threads
  WHERE threads.tenant = ?
  AND threads.namespace >= ?
  AND threads.namespace < ?
  LIMIT ?
  OFFSET ?) AS some_logs

-- inspection._statements.count_some_items(below=False, internal=8)
SELECT count(*) AS items
FROM (
  SELECT 1 AS one
  FROM store_items
  WHERE store_items.tenant = ?
  AND store_items.namespace = ?
  AND (store_items.expires_at IS NULL
    OR store_items.expires_at > ?)
  AND store_items.namespace NOT LIKE ? ESCAPE '\'
  AND store_items.namespace NOT LIKE ? ESCAPE '\'
  AND store_items.namespace NOT LIKE ? ESCAPE '\'
  AND store_items.namespace NOT LIKE ? ESCAPE '\'
  AND store_items.namespace NOT LIKE ? ESCAPE '\'
  AND store_items.namespace NOT LIKE ? ESCAPE '\'
  AND store_items.namespace NOT LIKE ? ESCAPE '\'
  AND store_items.namespace NOT LIKE ? ESCAPE '\'
  LIMIT ?
  OFFSET ?) AS some_items

-- inspection._statements.find_listed_checkpoints()
SELECT checkpoints.checkpoint_id, checkpoints.seq
FROM checkpoints
WHERE checkpoints.log_id = ?
AND checkpoints.checkpoint_id IN (
  WITH listed AS MATERIALIZED (
    SELECT each_listed.checkpoint_id AS checkpoint_id
    FROM (
      SELECT json_extract(each.value, '$[0]') AS checkpoint_id
      FROM json_each(?) AS each) AS each_listed)
  SELECT listed.checkpoint_id
  FROM listed)

-- inspection._statements.list_item_rows(order=newest, below=False, after=False, internal=8)
SELECT store_items.namespace, store_items."key", store_items.meta, store_items.version,
  store_items.codec, store_items.checksum, store_items.created_at, store_items.updated_at,
  store_items.expires_at, store_items.lifetime, store_items.signature,
  length(store_items.value) AS bytes, CASE
WHEN (length(store_items.value) <= ?) THEN store_items.value END AS value, (
  SELECT count(*) AS count_1
  FROM embeddings
  WHERE embeddings.tenant = store_items.tenant
  AND embeddings.namespace = store_items.namespace
  AND embeddings."key" = store_items."key") AS vectors
FROM store_items
WHERE store_items.tenant = ?
AND store_items.namespace = ?
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > ?)
AND store_items.namespace NOT LIKE ? ESCAPE '\'
AND store_items.namespace NOT LIKE ? ESCAPE '\'
AND store_items.namespace NOT LIKE ? ESCAPE '\'
AND store_items.namespace NOT LIKE ? ESCAPE '\'
AND store_items.namespace NOT LIKE ? ESCAPE '\'
AND store_items.namespace NOT LIKE ? ESCAPE '\'
AND store_items.namespace NOT LIKE ? ESCAPE '\'
AND store_items.namespace NOT LIKE ? ESCAPE '\'
ORDER BY store_items.updated_at DESC, store_items.namespace DESC, store_items."key" DESC
LIMIT ?
OFFSET ?

-- inspection._statements.list_recent(scope=tenant, like=False, after=False)
SELECT threads.log_id, threads.thread_id, threads.namespace, threads.head_id, threads.created_at,
  threads.updated_at, threads.forked_from, threads.meta
FROM threads
WHERE threads.tenant = ?
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > ?)
AND (threads.head_id IS NOT NULL
  OR (EXISTS (
      SELECT 1
      FROM deltas
      WHERE deltas.log_id = threads.log_id
      AND deltas.kind IN ('entry'))))
ORDER BY threads.active_at DESC, threads.updated_at DESC, threads.thread_id, threads.namespace
LIMIT ?
OFFSET ?

-- inspection._statements.list_vectors()
SELECT embeddings.field, embeddings.model, embeddings.part, embeddings.dimensions
FROM embeddings
WHERE embeddings.tenant = ?
AND embeddings.namespace = ?
AND embeddings."key" = ?
ORDER BY embeddings.field, embeddings.model, embeddings.part
LIMIT ?
OFFSET ?

-- inspection._statements.match_ids(scope=tenant)
SELECT threads.thread_id, threads.namespace
FROM threads
WHERE threads.tenant = ?
AND lower(threads.thread_id) LIKE ? ESCAPE '\'
AND threads.thread_id >= ?
AND threads.thread_id < ?
ORDER BY threads.thread_id
LIMIT ?
OFFSET ?

-- inspection._statements.match_ids_of_few(scope=below)
SELECT threads.thread_id, threads.namespace
FROM threads
WHERE threads.tenant = ?
AND threads.namespace >= ?
AND threads.namespace < ?
AND lower(threads.thread_id) LIKE ? ESCAPE '\'
LIMIT ?
OFFSET ?

-- inspection._statements.measure_item()
SELECT length(store_items.value) AS bytes
FROM store_items
WHERE store_items.tenant = ?
AND store_items.namespace = ?
AND store_items."key" = ?
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > ?)

-- inspection._statements.next_namespace()
SELECT min(threads.namespace) AS place
FROM threads
WHERE threads.tenant = ?
AND threads.namespace >= ?

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
WHERE deltas.log_id = ?
AND deltas.seq > ?
AND (deltas.kind IN ('entry', 'write')
  OR checkpoints.checkpoint_id IS NOT NULL)
ORDER BY deltas.seq
LIMIT ?
OFFSET ?

-- inspection._statements.read_heads()
WITH listed AS MATERIALIZED (
  SELECT each_listed.log_id AS log_id
  FROM (
    SELECT substr(?, 16 * each.key + 1, 16) AS log_id
    FROM json_each(?) AS each) AS each_listed)
SELECT threads.log_id, threads.thread_id, threads.namespace, threads.head_id, threads.created_at,
  threads.updated_at, threads.forked_from, threads.meta
FROM threads
JOIN listed ON threads.log_id = listed.log_id
WHERE threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > ?)
AND (threads.head_id IS NOT NULL
  OR (EXISTS (
      SELECT 1
      FROM deltas
      WHERE deltas.log_id = threads.log_id
      AND deltas.kind IN ('entry'))))

-- inspection._statements.read_last_entry_times()
WITH listed AS MATERIALIZED (
  SELECT each_listed.log_id AS log_id
  FROM (
    SELECT substr(?, 16 * each.key + 1, 16) AS log_id
    FROM json_each(?) AS each) AS each_listed)
SELECT listed.log_id, (
  SELECT deltas.occurred_at
  FROM deltas
  WHERE deltas.log_id = listed.log_id
  AND deltas.kind IN ('entry')
  ORDER BY deltas.seq DESC
  LIMIT ?
  OFFSET ?) AS occurred_at
FROM listed

-- inspection._statements.read_newest_checkpoints()
WITH listed AS MATERIALIZED (
  SELECT each_listed.log_id AS log_id
  FROM (
    SELECT substr(?, 16 * each.key + 1, 16) AS log_id
    FROM json_each(?) AS each) AS each_listed)
SELECT threads.thread_id, threads.namespace, checkpoints.checkpoint_id, checkpoints.parent_id,
  checkpoints.seq, checkpoints.meta, checkpoints.created_at, checkpoints.raw_size,
  checkpoints.stored_size, checkpoints.occurred_at, checkpoints.ordinal, checkpoints.rests_on,
  checkpoints.run_id, checkpoints.signature
FROM listed
JOIN threads ON threads.log_id = listed.log_id
JOIN checkpoints ON checkpoints.log_id = threads.log_id
AND checkpoints.checkpoint_id = threads.head_id

-- inspection._statements.read_next_positions(one=False)
SELECT threads.namespace, threads.next_seq, threads.created_at, threads.updated_at
FROM threads
WHERE threads.tenant = ?
AND threads.thread_id = ?
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > ?)
ORDER BY threads.updated_at DESC, threads.namespace
LIMIT ?
OFFSET ?

-- inspection._statements.read_small_writes()
WITH listed AS MATERIALIZED (
  SELECT each_listed.label AS label, each_listed.low AS low, each_listed.high AS high
  FROM (
    SELECT json_extract(each.value, '$[0]') AS label, json_extract(each.value, '$[1]') AS low,
      json_extract(each.value, '$[2]') AS high
    FROM json_each(?) AS each) AS each_listed)
SELECT deltas.label, deltas.seq, deltas.overwrites, deltas.codec, deltas.checksum,
  deltas.entry_key, deltas.stored_at, deltas.signature, CASE
WHEN (length(deltas.payload) <= ?) THEN deltas.payload END AS payload
FROM deltas
JOIN listed ON deltas.entry_key >= listed.low
AND deltas.entry_key < listed.high
AND deltas.label = listed.label
WHERE deltas.log_id = ?
AND deltas.kind IN ('write')
ORDER BY deltas.seq

-- inspection._statements.skip_ids()
SELECT threads.thread_id
FROM threads
WHERE threads.tenant = ?
AND threads.thread_id >= ?
ORDER BY threads.thread_id
LIMIT ?
OFFSET ?

-- inspection._statements.sum_sampled_logs()
WITH first AS MATERIALIZED (
  SELECT threads.log_id AS log_id, threads.tenant AS tenant, threads.namespace AS namespace,
    threads.deleted_at AS deleted_at, threads.expires_at AS expires_at
  FROM threads
  ORDER BY threads.log_id
  LIMIT ?
  OFFSET ?)
SELECT first.namespace, count(DISTINCT first.log_id) AS logs,
  count(checkpoints.seq) AS checkpoints, coalesce(sum(CASE
    WHEN (deltas.kind IN ('entry')) THEN ?
    ELSE ? END), ?) AS entries, coalesce(sum(coalesce(checkpoints.raw_size, length(deltas.payload))),
    ?) AS raw_size, coalesce(sum(coalesce(checkpoints.stored_size, length(deltas.payload))),
    ?) AS stored_size
FROM first
JOIN deltas ON deltas.log_id = first.log_id LEFT OUTER
JOIN checkpoints ON checkpoints.log_id = deltas.log_id
AND checkpoints.seq = deltas.seq
WHERE first.tenant = ?
AND first.deleted_at IS NULL
AND (first.expires_at IS NULL
  OR first.expires_at > ?)
GROUP BY first.namespace

-- log.append.delete_beyond_retention()
DELETE FROM checkpoints
WHERE checkpoints.log_id = ?
AND checkpoints.checkpoint_id != ?
AND checkpoints.seq <= (
  SELECT newest.seq
  FROM checkpoints AS newest
  WHERE newest.log_id = ?
  AND newest.checkpoint_id != ?
  ORDER BY newest.seq DESC
  LIMIT ?
  OFFSET ?)
AND checkpoints.ordinal % ? != 0
AND checkpoints.occurred_at < ?
AND (checkpoints.checkpoint_id NOT IN (
    WITH RECURSIVE needed(log_id, checkpoint_id) AS (
      SELECT rested_on.log_id AS log_id, rested_on.checkpoint_id AS checkpoint_id
      FROM (
        SELECT kept.log_id AS log_id, kept.rests_on AS checkpoint_id
        FROM checkpoints AS kept
        WHERE kept.log_id = ?
        AND kept.rests_on IS NOT NULL
        AND NOT (kept.checkpoint_id != ?
          AND kept.seq <= (
            SELECT newest.seq
            FROM checkpoints AS newest
            WHERE newest.log_id = ?
            AND newest.checkpoint_id != ?
            ORDER BY newest.seq DESC
            LIMIT ?
            OFFSET ?)
          AND kept.ordinal % ? != 0
          AND kept.occurred_at < ?)
        UNION ALL
        SELECT below.log_id AS log_id, below.checkpoint_id AS checkpoint_id
        FROM checkpoints AS below
        WHERE below.log_id = ?
        AND below.checkpoint_id = ?) AS rested_on
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
WHERE deltas.log_id = ?
AND deltas.entry_key IN (
  WITH listed AS MATERIALIZED (
    SELECT each_listed.entry_key AS entry_key
    FROM (
      SELECT json_extract(each.value, '$[0]') AS entry_key
      FROM json_each(?) AS each) AS each_listed)
  SELECT listed.entry_key
  FROM listed)

-- log.append.insert_row(of=state)
INSERT INTO deltas (log_id, seq, tenant, kind, base_seq, depth, radix, codec, checksum,
    search_text, signature, payload)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- log.append.upsert_checkpoint()
INSERT INTO checkpoints (log_id, seq, tenant, checkpoint_id, parent_id, ordinal, rests_on, run_id,
    meta, raw_size, stored_size, occurred_at, created_at, signature)
VALUES (?, ?, ?, ?, nullif(coalesce(?, ?), ?), ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (log_id, checkpoint_id)
DO UPDATE SET seq = excluded.seq, parent_id = nullif(coalesce(?, checkpoints.parent_id), ?),
  rests_on = excluded.rests_on, run_id = excluded.run_id, meta = excluded.meta,
  raw_size = excluded.raw_size, stored_size = excluded.stored_size,
  occurred_at = excluded.occurred_at, created_at = excluded.created_at,
  signature = excluded.signature

-- log.bulk_delete.count_logs_to_delete(which=live, scope=namespace)
SELECT count(*) AS count_1
FROM threads
WHERE threads.tenant = ?
AND threads.namespace = ?
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > ?)

-- log.bulk_delete.delete_pruned_checkpoints(named=True)
DELETE FROM checkpoints
WHERE (checkpoints.log_id, checkpoints.seq) IN (
  WITH RECURSIVE kept AS MATERIALIZED (
    WITH listed AS MATERIALIZED (
      SELECT each_listed.log_id AS log_id
      FROM (
        SELECT substr(?, 16 * each.key + 1, 16) AS log_id
        FROM json_each(?) AS each) AS each_listed)
    SELECT listed.log_id AS log_id, (
      SELECT newest.seq
      FROM checkpoints AS newest
      WHERE newest.log_id = listed.log_id
      ORDER BY newest.seq DESC
      LIMIT ?
      OFFSET ?) AS first_kept
    FROM listed), ranked AS MATERIALIZED (
    SELECT checkpoints.log_id AS log_id, checkpoints.seq AS seq,
      checkpoints.checkpoint_id AS checkpoint_id, checkpoints.rests_on AS rests_on, CASE
    WHEN (checkpoints.seq < kept.first_kept
      AND checkpoints.ordinal % ? != 0
      AND checkpoints.occurred_at < ?) THEN 1
    ELSE 0 END AS goes
    FROM checkpoints
    JOIN kept ON checkpoints.log_id = kept.log_id
    WHERE checkpoints.seq >= ?
    AND checkpoints.seq < ?),
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
      WHERE NOT (resting.seq >= ?
        AND resting.seq < ?)) AS rested_on
    UNION
    SELECT checkpoints.log_id AS log_id, checkpoints.rests_on AS rests_on
    FROM needed
    JOIN checkpoints ON checkpoints.log_id = needed.log_id
    AND checkpoints.checkpoint_id = needed.checkpoint_id
    WHERE checkpoints.rests_on IS NOT NULL
    AND checkpoints.seq >= ?
    AND checkpoints.seq < ?), found AS MATERIALIZED (
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
RETURNING log_id, checkpoint_id

-- log.bulk_delete.delete_pruned_writes()
DELETE FROM deltas
WHERE (deltas.log_id, deltas.seq) IN (
  WITH found AS MATERIALIZED (
    WITH listed AS MATERIALIZED (
      SELECT each_listed.log_id AS log_id, each_listed.label AS label, each_listed.low AS low,
        each_listed.high AS high
      FROM (
        SELECT substr(?, 16 * each.key + 1, 16) AS log_id, json_extract(each.value, '$[1]') AS label,
          json_extract(each.value, '$[2]') AS low, json_extract(each.value, '$[3]') AS high
        FROM json_each(?) AS each) AS each_listed)
    SELECT deltas.log_id AS log_id, deltas.seq AS seq
    FROM deltas
    JOIN listed ON deltas.log_id = listed.log_id
    AND deltas.entry_key >= listed.low
    AND deltas.entry_key < listed.high
    AND deltas.label = listed.label
    WHERE deltas.kind IN ('write'))
  SELECT found.log_id, found.seq
  FROM found)

-- log.bulk_delete.delete_unneeded_states()
DELETE FROM deltas
WHERE deltas.log_id IN (
  WITH listed AS MATERIALIZED (
    SELECT each_listed.log_id AS log_id
    FROM (
      SELECT substr(?, 16 * each.key + 1, 16) AS log_id
      FROM json_each(?) AS each) AS each_listed)
  SELECT listed.log_id
  FROM listed)
AND deltas.kind IN ('snapshot', 'delta')
AND deltas.seq >= ?
AND deltas.seq < ?
AND CASE
WHEN ((deltas.log_id, deltas.seq) IN (
    WITH RECURSIVE needed(log_id, seq) AS (
      SELECT roots.log_id AS log_id, roots.seq AS seq
      FROM (
        WITH listed AS MATERIALIZED (
          SELECT each_listed.log_id AS log_id
          FROM (
            SELECT substr(?, 16 * each.key + 1, 16) AS log_id
            FROM json_each(?) AS each) AS each_listed)
        SELECT checkpoints.log_id AS log_id, checkpoints.seq AS seq
        FROM checkpoints
        JOIN listed ON checkpoints.log_id = listed.log_id
        WHERE checkpoints.seq >= ?
        AND checkpoints.seq < ?
        UNION ALL
        SELECT deltas.log_id AS log_id, deltas.base_seq AS seq
        FROM deltas
        JOIN listed ON deltas.log_id = listed.log_id
        WHERE deltas.seq >= ?
        AND deltas.base_seq >= ?
        AND deltas.base_seq < ?) AS roots
      UNION
      SELECT deltas.log_id AS log_id, deltas.base_seq AS base_seq
      FROM needed
      JOIN deltas ON deltas.log_id = needed.log_id
      AND deltas.seq = needed.seq
      WHERE deltas.base_seq >= ?)
    SELECT needed.log_id, needed.seq
    FROM needed)) THEN 0
ELSE 1 END != 0

-- log.bulk_delete.find_inverted()
SELECT checkpoints.seq
FROM checkpoints
JOIN checkpoints AS below ON below.log_id = checkpoints.log_id
AND below.checkpoint_id = checkpoints.rests_on
WHERE checkpoints.log_id = ?
AND checkpoints.rests_on IS NOT NULL
AND checkpoints.seq < below.seq
LIMIT ?
OFFSET ?

-- log.bulk_delete.find_window()
SELECT deltas.seq
FROM deltas
WHERE deltas.log_id = ?
AND deltas.seq < ?
ORDER BY deltas.seq DESC
LIMIT ?
OFFSET ?

-- log.bulk_delete.find_write()
WITH listed AS MATERIALIZED (
  SELECT each_listed.log_id AS log_id
  FROM (
    SELECT substr(?, 16 * each.key + 1, 16) AS log_id
    FROM json_each(?) AS each) AS each_listed)
SELECT deltas.seq
FROM deltas
JOIN listed ON deltas.log_id = listed.log_id
WHERE deltas.entry_key >= ?
AND deltas.entry_key < ?
LIMIT ?
OFFSET ?

-- log.bulk_delete.list_prunable(scope=namespace, after=True)
WITH RECURSIVE page AS (
  SELECT threads.log_id AS log_id, threads.thread_id AS thread_id, threads.namespace AS namespace
  FROM threads
  WHERE threads.tenant = ?
  AND threads.namespace = ?
  AND threads.thread_id >= ?
  AND (threads.thread_id > ?
    OR threads.namespace > ?)
  AND threads.deleted_at IS NULL
  AND (threads.expires_at IS NULL
    OR threads.expires_at > ?)
  AND threads.head_id IS NOT NULL
  ORDER BY threads.thread_id, threads.namespace
  LIMIT ?
  OFFSET ?), kept AS MATERIALIZED (
  SELECT page.log_id AS log_id, (
    SELECT newest.seq
    FROM checkpoints AS newest
    WHERE newest.log_id = page.log_id
    ORDER BY newest.seq DESC
    LIMIT ?
    OFFSET ?) AS first_kept
  FROM page), ranked AS MATERIALIZED (
  SELECT checkpoints.log_id AS log_id, checkpoints.seq AS seq,
    checkpoints.checkpoint_id AS checkpoint_id, checkpoints.rests_on AS rests_on, CASE
  WHEN (checkpoints.seq < kept.first_kept
    AND checkpoints.ordinal % ? != 0
    AND checkpoints.occurred_at < ?) THEN 1
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
  WITH listed AS MATERIALIZED (
    SELECT each_listed.log_id AS log_id
    FROM (
      SELECT substr(?, 16 * each.key + 1, 16) AS log_id
      FROM json_each(?) AS each) AS each_listed)
  SELECT listed.log_id AS log_id, (
    SELECT newest.seq
    FROM checkpoints AS newest
    WHERE newest.log_id = listed.log_id
    ORDER BY newest.seq DESC
    LIMIT ?
    OFFSET ?) AS first_kept
  FROM listed), ranked AS MATERIALIZED (
  SELECT checkpoints.log_id AS log_id, checkpoints.seq AS seq,
    checkpoints.checkpoint_id AS checkpoint_id, checkpoints.rests_on AS rests_on, CASE
  WHEN (checkpoints.seq < kept.first_kept
    AND checkpoints.ordinal % ? != 0
    AND checkpoints.occurred_at < ?) THEN 1
  ELSE 0 END AS goes
  FROM checkpoints
  JOIN kept ON checkpoints.log_id = kept.log_id
  WHERE checkpoints.seq >= ?
  AND checkpoints.seq < ?),
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
    WHERE NOT (resting.seq >= ?
      AND resting.seq < ?)) AS rested_on
  UNION
  SELECT checkpoints.log_id AS log_id, checkpoints.rests_on AS rests_on
  FROM needed
  JOIN checkpoints ON checkpoints.log_id = needed.log_id
  AND checkpoints.checkpoint_id = needed.checkpoint_id
  WHERE checkpoints.rests_on IS NOT NULL
  AND checkpoints.seq >= ?
  AND checkpoints.seq < ?)
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
WHERE threads.tenant = ?
AND threads.namespace = ?
AND threads.thread_id >= ?
AND (threads.thread_id > ?
  OR threads.namespace > ?)
AND (threads.deleted_at IS NULL
  AND threads.updated_at < ?
  AND NOT (EXISTS (
      SELECT 1
      FROM threads AS above
      WHERE above.tenant = threads.tenant
      AND above.thread_id = threads.thread_id
      AND above.namespace != threads.namespace
      AND above.namespace != '/'
      AND above.namespace = substr(threads.namespace, ?, length(above.namespace))
      AND above.deleted_at IS NULL
      AND above.updated_at >= ?))
  OR threads.expires_at <= ?
  OR threads.deleted_at < ?)
ORDER BY threads.thread_id, threads.namespace
LIMIT ?
OFFSET ?

-- log.bulk_delete.lock_batch(wait=True)
UPDATE threads
SET version=threads.version
WHERE threads.log_id IN (
  WITH listed AS MATERIALIZED (
    SELECT each_listed.log_id AS log_id
    FROM (
      SELECT substr(?, 16 * each.key + 1, 16) AS log_id
      FROM json_each(?) AS each) AS each_listed)
  SELECT listed.log_id
  FROM listed)
RETURNING log_id, tenant, thread_id, namespace, updated_at, expires_at, deleted_at

-- log.bulk_delete.move_epochs()
UPDATE threads
SET version=(threads.version + ?), epoch=(threads.epoch + ?)
WHERE threads.log_id IN (
  WITH listed AS MATERIALIZED (
    SELECT each_listed.log_id AS log_id
    FROM (
      SELECT substr(?, 16 * each.key + 1, 16) AS log_id
      FROM json_each(?) AS each) AS each_listed)
  SELECT listed.log_id
  FROM listed)

-- log.bulk_delete.read_batch()
SELECT threads.thread_id, threads.namespace, threads.updated_at, threads.expires_at,
  threads.deleted_at
FROM threads
WHERE threads.log_id IN (
  WITH listed AS MATERIALIZED (
    SELECT each_listed.log_id AS log_id
    FROM (
      SELECT substr(?, 16 * each.key + 1, 16) AS log_id
      FROM json_each(?) AS each) AS each_listed)
  SELECT listed.log_id
  FROM listed)

-- log.copy.copy_head()
INSERT INTO threads (log_id, tenant, thread_id, namespace, next_seq, version, last_ordinal, epoch,
    head_id, previous_id, meta, forked_from, forked_seq, created_at, updated_at, active_at,
    expires_at, deleted_at, signature)
SELECT ? AS log_id, threads.tenant AS tenant, ? AS thread_id, ? AS namespace, ? AS next_seq,
  ? AS version, (
  SELECT coalesce(max(checkpoints.ordinal), 0) AS coalesce_1
  FROM checkpoints
  WHERE checkpoints.log_id = ?
  AND checkpoints.seq <= ?) AS last_ordinal, ? AS epoch, ? AS head_id, NULL AS previous_id,
  threads.meta AS meta, threads.thread_id AS forked_from, ? AS forked_seq, ? AS created_at,
  ? AS updated_at, ? AS active_at, threads.expires_at AS expires_at, NULL AS deleted_at,
  NULL AS signature
FROM threads
WHERE threads.log_id = ?

-- log.copy.copy_rows(table=checkpoints)
INSERT INTO checkpoints (log_id, seq, tenant, checkpoint_id, parent_id, ordinal, rests_on, run_id,
    meta, raw_size, stored_size, occurred_at, created_at, signature)
SELECT ? AS log_id, checkpoints.seq AS seq, checkpoints.tenant AS tenant,
  checkpoints.checkpoint_id AS checkpoint_id, checkpoints.parent_id AS parent_id,
  checkpoints.ordinal AS ordinal, checkpoints.rests_on AS rests_on, checkpoints.run_id AS run_id,
  checkpoints.meta AS meta, checkpoints.raw_size AS raw_size,
  checkpoints.stored_size AS stored_size, checkpoints.occurred_at AS occurred_at,
  checkpoints.created_at AS created_at, checkpoints.signature AS signature
FROM checkpoints
WHERE checkpoints.log_id = ?
AND checkpoints.seq <= ?

-- log.copy.find_content()
SELECT deltas.seq
FROM deltas
WHERE deltas.log_id = ?
AND ((deltas.kind NOT IN ('snapshot', 'delta'))
  OR (EXISTS (
      SELECT checkpoints.seq
      FROM checkpoints
      WHERE checkpoints.log_id = ?
      AND checkpoints.seq = deltas.seq)))
LIMIT ?
OFFSET ?

-- log.copy.find_last_write()
SELECT max(deltas.seq) AS seq
FROM deltas
WHERE deltas.log_id = ?
AND deltas.kind IN ('write')
AND deltas.label IN (
  SELECT checkpoints.checkpoint_id
  FROM checkpoints
  WHERE checkpoints.log_id = ?
  AND checkpoints.seq <= ?)

-- log.copy.find_newest_until()
SELECT checkpoints.checkpoint_id
FROM checkpoints
WHERE checkpoints.log_id = ?
AND checkpoints.seq <= ?
ORDER BY checkpoints.seq DESC
LIMIT ?
OFFSET ?

-- log.copy.has_entry()
SELECT deltas.seq
FROM deltas
WHERE deltas.log_id = ?
AND deltas.seq = ?
AND deltas.kind IN ('entry')

-- log.copy.read_position()
SELECT checkpoints.seq
FROM checkpoints
WHERE checkpoints.log_id = ?
AND checkpoints.checkpoint_id = ?

-- log.copy.read_sealed()
SELECT deltas.seq, deltas.kind, deltas.label, deltas.codec, deltas.checksum, deltas.payload
FROM deltas
WHERE deltas.log_id = ?
AND deltas.seq > ?
ORDER BY deltas.seq
LIMIT ?
OFFSET ?

-- log.copy.replace_payload()
UPDATE deltas
SET codec=?, checksum=?, payload=?
WHERE deltas.log_id = ?
AND deltas.seq = ?

-- log.delete.delete_checkpoint_row()
DELETE FROM checkpoints
WHERE checkpoints.log_id = ?
AND checkpoints.checkpoint_id = ?
AND NOT (EXISTS (
    SELECT resting.seq
    FROM checkpoints AS resting
    WHERE resting.log_id = checkpoints.log_id
    AND resting.rests_on = checkpoints.checkpoint_id))
RETURNING seq

-- log.delete.delete_checkpoint_rows()
DELETE FROM checkpoints
WHERE checkpoints.log_id = ?
AND checkpoints.checkpoint_id IN (
  WITH listed AS MATERIALIZED (
    SELECT each_listed.checkpoint_id AS checkpoint_id
    FROM (
      SELECT json_extract(each.value, '$[0]') AS checkpoint_id
      FROM json_each(?) AS each) AS each_listed)
  SELECT listed.checkpoint_id
  FROM listed)

-- log.delete.delete_rows(table=checkpoints, why=order)
DELETE FROM checkpoints
WHERE checkpoints.log_id IN (
  WITH listed AS MATERIALIZED (
    SELECT each_listed.log_id AS log_id
    FROM (
      SELECT substr(?, 16 * each.key + 1, 16) AS log_id
      FROM json_each(?) AS each) AS each_listed)
  SELECT listed.log_id
  FROM listed)

-- log.delete.delete_unneeded_state()
DELETE FROM deltas
WHERE deltas.log_id = ?
AND deltas.seq = ?
AND deltas.kind IN ('snapshot', 'delta')
AND NOT (EXISTS (
    SELECT checkpoints.seq
    FROM checkpoints
    WHERE checkpoints.log_id = ?
    AND checkpoints.seq = ?))
AND NOT (EXISTS (
    SELECT child.seq
    FROM deltas AS child
    WHERE child.log_id = ?
    AND child.base_seq = ?))
RETURNING base_seq

-- log.delete.delete_writes()
DELETE FROM deltas
WHERE deltas.log_id = ?
AND deltas.kind IN ('write')
AND deltas.entry_key >= ?
AND deltas.entry_key < ?
AND deltas.label = ?

-- log.delete.delete_writes_of_checkpoints()
DELETE FROM deltas
WHERE deltas.log_id = ?
AND deltas.kind IN ('write')
AND deltas.label IN (
  WITH listed AS MATERIALIZED (
    SELECT each_listed.label AS label
    FROM (
      SELECT json_extract(each.value, '$[0]') AS label
      FROM json_each(?) AS each) AS each_listed)
  SELECT listed.label
  FROM listed)

-- log.delete.leave_tombstones()
UPDATE threads
SET version=(threads.version + ?), last_ordinal=0, epoch=(threads.epoch + ?), head_id=NULL,
  previous_id=NULL, meta=?, forked_from=NULL, forked_seq=NULL, expires_at=NULL, deleted_at=?
WHERE threads.log_id IN (
  WITH listed AS MATERIALIZED (
    SELECT each_listed.log_id AS log_id
    FROM (
      SELECT substr(?, 16 * each.key + 1, 16) AS log_id
      FROM json_each(?) AS each) AS each_listed)
  SELECT listed.log_id
  FROM listed)
AND threads.deleted_at IS NULL

-- log.delete.move_epoch()
UPDATE threads
SET version=(threads.version + ?), epoch=(threads.epoch + ?), head_id=(
  SELECT checkpoints.checkpoint_id
  FROM checkpoints
  WHERE checkpoints.log_id = ?
  ORDER BY checkpoints.seq DESC
  LIMIT ?
  OFFSET ?)
WHERE threads.log_id = ?

-- log.delete.read_search_text()
SELECT deltas.seq, deltas.search_text
FROM deltas
WHERE deltas.log_id = ?
AND (deltas.seq = ?
  OR deltas.seq = (
    SELECT min(checkpoints.seq) AS min_1
    FROM checkpoints
    WHERE checkpoints.log_id = ?
    AND checkpoints.seq > ?))
ORDER BY deltas.seq

-- log.delete.read_search_texts()
SELECT deltas.seq, deltas.search_text
FROM deltas
WHERE deltas.log_id = ?
AND deltas.seq IN (
  WITH listed AS MATERIALIZED (
    SELECT each_listed.seq AS seq
    FROM (
      SELECT json_extract(each.value, '$[0]') AS seq
      FROM json_each(?) AS each) AS each_listed)
  SELECT CAST(listed.seq AS BIGINT) AS seq
  FROM listed)
ORDER BY deltas.seq DESC

-- log.delete.replace_search_text()
UPDATE deltas
SET search_text=?
WHERE deltas.log_id = ?
AND deltas.seq = ?

-- log.delete.sweep_states()
DELETE FROM deltas
WHERE deltas.log_id = ?
AND deltas.kind IN ('snapshot', 'delta')
AND (deltas.seq NOT IN (
    WITH RECURSIVE alive(seq, base_seq) AS (
      SELECT deltas.seq AS seq, deltas.base_seq AS base_seq
      FROM deltas
      JOIN checkpoints ON deltas.log_id = checkpoints.log_id
      AND deltas.seq = checkpoints.seq
      WHERE checkpoints.log_id = ?
      UNION ALL
      SELECT base.seq AS seq, base.base_seq AS base_seq
      FROM deltas AS base
      JOIN alive ON base.seq = alive.base_seq
      WHERE base.log_id = ?)
    SELECT alive.seq
    FROM alive))

-- log.delete.sweep_writes()
DELETE FROM deltas
WHERE deltas.log_id = ?
AND deltas.kind IN ('write')
AND deltas.stored_at < ?
AND (deltas.label NOT IN (
    SELECT checkpoints.checkpoint_id
    FROM checkpoints
    WHERE checkpoints.log_id = ?))

-- log.dependencies.find_dependent()
SELECT checkpoints.checkpoint_id
FROM checkpoints
WHERE checkpoints.log_id = ?
AND checkpoints.rests_on = ?
ORDER BY checkpoints.seq DESC
LIMIT ?
OFFSET ?

-- log.dependencies.list_dependencies()
SELECT checkpoints.checkpoint_id, checkpoints.rests_on
FROM checkpoints
WHERE checkpoints.log_id = ?
AND checkpoints.rests_on IS NOT NULL

-- log.entries.count_entries()
SELECT count(*) AS count_1
FROM deltas
WHERE deltas.log_id = ?
AND deltas.kind IN ('entry')
AND (EXISTS (
    SELECT 1
    FROM threads
    WHERE threads.log_id = deltas.log_id
    AND threads.deleted_at IS NULL
    AND (threads.expires_at IS NULL
      OR threads.expires_at > ?)))

-- log.entries.delete_entries(which=all)
DELETE FROM deltas
WHERE deltas.log_id = ?
AND deltas.kind IN ('entry')

-- log.entries.find_entries_of_key(scope=log)
SELECT threads.thread_id, deltas.seq, deltas.codec, deltas.checksum, deltas.payload,
  deltas.entry_key, deltas.occurred_at, deltas.stored_at, deltas.signature
FROM threads
JOIN deltas ON deltas.log_id = threads.log_id
WHERE deltas.log_id = ?
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > ?)
AND deltas.kind IN ('entry')
AND deltas.entry_key = ?
ORDER BY threads.thread_id

-- log.entries.mark_entries_changed()
UPDATE threads
SET version=(threads.version + ?), epoch=(threads.epoch + ?), updated_at=?, active_at=?
WHERE threads.log_id = ?

-- log.entries.read_changes(whole=True)
SELECT threads.version, threads.epoch, deltas.seq, deltas.codec, deltas.checksum, deltas.payload,
  deltas.entry_key, deltas.occurred_at, deltas.stored_at, deltas.signature
FROM threads LEFT OUTER
JOIN deltas ON deltas.log_id = threads.log_id
AND deltas.kind IN ('entry')
AND deltas.seq >= CASE
WHEN (threads.epoch = ?) THEN ?
ELSE -1 END
WHERE threads.log_id = ?
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > ?)
ORDER BY deltas.seq

-- log.entries.read_entries(end=first, timed=True)
SELECT deltas.seq, deltas.codec, deltas.checksum, deltas.payload, deltas.entry_key,
  deltas.occurred_at, deltas.stored_at, deltas.signature
FROM deltas
WHERE deltas.log_id = ?
AND deltas.kind IN ('entry')
AND deltas.seq > ?
AND deltas.seq < ?
AND (EXISTS (
    SELECT 1
    FROM threads
    WHERE threads.log_id = deltas.log_id
    AND threads.deleted_at IS NULL
    AND (threads.expires_at IS NULL
      OR threads.expires_at > ?)))
AND deltas.occurred_at >= ?
AND deltas.occurred_at < ?
ORDER BY deltas.seq
LIMIT ?
OFFSET ?

-- log.entries.read_entries_of_logs()
WITH listed AS MATERIALIZED (
  SELECT each_listed.log_id AS log_id
  FROM (
    SELECT substr(?, 16 * each.key + 1, 16) AS log_id
    FROM json_each(?) AS each) AS each_listed)
SELECT threads.thread_id, threads.namespace, deltas.seq, deltas.codec, deltas.checksum,
  deltas.payload, deltas.entry_key, deltas.occurred_at, deltas.stored_at, deltas.signature
FROM listed
JOIN threads ON threads.log_id = listed.log_id
JOIN deltas ON deltas.log_id = threads.log_id
AND deltas.kind IN ('entry')
WHERE threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > ?)
ORDER BY threads.thread_id, threads.namespace, deltas.seq

-- log.entries.read_entries_of_threads(newest=False)
SELECT threads.thread_id, deltas.seq, deltas.codec, deltas.checksum, deltas.payload,
  deltas.entry_key, deltas.occurred_at, deltas.stored_at, deltas.signature
FROM threads
JOIN deltas ON deltas.log_id = threads.log_id
AND deltas.kind IN ('entry')
WHERE threads.tenant = ?
AND threads.namespace = ?
AND threads.thread_id IN (
  WITH listed AS MATERIALIZED (
    SELECT each_listed.thread_id AS thread_id
    FROM (
      SELECT json_extract(each.value, '$[0]') AS thread_id
      FROM json_each(?) AS each) AS each_listed)
  SELECT listed.thread_id
  FROM listed)
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > ?)
ORDER BY threads.thread_id, deltas.seq

-- log.entries.read_version()
SELECT threads.version
FROM threads
WHERE threads.log_id = ?
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > ?)

-- log.entries.update_entry()
UPDATE deltas
SET codec=?, checksum=?, search_text=?, payload=?
WHERE deltas.log_id = ?
AND deltas.kind IN ('entry')
AND deltas.seq = ?

-- log.heads.allot(purpose=checkpoint, condition=any, based=True, parent=True)
UPDATE threads
SET next_seq=(threads.next_seq + ?), version=(threads.version + ?),
  last_ordinal=(threads.last_ordinal + CASE
  WHEN (EXISTS (
      SELECT 1
      FROM checkpoints AS known
      WHERE known.log_id = ?
      AND known.checkpoint_id = ?)) THEN 0
  ELSE 1 END), head_id=?, previous_id=threads.head_id, updated_at=?, active_at=?, expires_at=?
WHERE threads.log_id = ?
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > ?)
AND threads.epoch = ?
AND (EXISTS (
    SELECT 1
    FROM deltas
    WHERE deltas.log_id = threads.log_id
    AND deltas.seq = ?
    AND deltas.checksum = ?))
AND (EXISTS (
    SELECT 1
    FROM checkpoints
    WHERE checkpoints.log_id = threads.log_id
    AND checkpoints.checkpoint_id = ?))
RETURNING next_seq, version, epoch, previous_id, last_ordinal

-- log.heads.allot_in_known_head(purpose=checkpoint, based=True)
UPDATE threads
SET next_seq=(threads.next_seq + ?), version=(threads.version + ?),
  last_ordinal=(threads.last_ordinal + 1), head_id=?, previous_id=threads.head_id, updated_at=?,
  active_at=?, expires_at=?, signature=?
WHERE threads.tenant = ?
AND threads.thread_id = ?
AND threads.namespace = ?
AND threads.next_seq = ?
AND threads.version = ?
AND threads.last_ordinal = ?
AND threads.head_id IS ?
AND threads.previous_id IS ?
AND threads.created_at = ?
AND threads.updated_at = ?
AND threads.expires_at IS ?
AND threads.meta = ?
AND threads.signature IS ?
AND threads.log_id = ?
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > ?)
AND NOT (EXISTS (
    SELECT 1
    FROM checkpoints AS known
    WHERE known.log_id = ?
    AND known.checkpoint_id = ?))
AND threads.epoch = ?
AND (EXISTS (
    SELECT 1
    FROM deltas
    WHERE deltas.log_id = threads.log_id
    AND deltas.seq = ?
    AND deltas.checksum = ?))
RETURNING next_seq, version, epoch, previous_id, last_ordinal

-- log.heads.allot_locked()
UPDATE threads
SET next_seq=(threads.next_seq + ?), version=(threads.version + ?), epoch=(threads.epoch + ?),
  updated_at=?, active_at=?, expires_at=?
WHERE threads.log_id = ?
RETURNING next_seq, version, epoch, previous_id, last_ordinal

-- log.heads.allot_or_create(purpose=checkpoint, condition=any)
INSERT INTO threads (log_id, tenant, thread_id, namespace, next_seq, version, last_ordinal, epoch,
    head_id, meta, created_at, updated_at, active_at, expires_at)
VALUES (?, ?, ?, ?, (? + 1), ?, CASE
  WHEN (EXISTS (
      SELECT 1
      FROM checkpoints AS known
      WHERE known.log_id = ?
      AND known.checkpoint_id = ?)) THEN 0
  ELSE 1 END, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (log_id)
DO UPDATE SET next_seq = (threads.next_seq + ?), version = (threads.version + ?),
  last_ordinal = (threads.last_ordinal + excluded.last_ordinal), epoch = CASE
WHEN (threads.deleted_at IS NOT NULL) THEN threads.epoch + ?
ELSE threads.epoch END, head_id = ?, previous_id = threads.head_id, created_at = CASE
WHEN (threads.deleted_at IS NOT NULL) THEN ?
ELSE threads.created_at END, updated_at = ?, active_at = ?, expires_at = ?, deleted_at = NULL
WHERE (threads.expires_at IS NULL
  OR threads.expires_at > ?)
AND threads.tenant = excluded.tenant
AND threads.thread_id = excluded.thread_id
AND threads.namespace = excluded.namespace
RETURNING next_seq, version, epoch, previous_id, last_ordinal

-- log.heads.lock_log()
UPDATE threads
SET version=threads.version
WHERE threads.log_id = ?
RETURNING namespace, next_seq, epoch, head_id, expires_at, deleted_at, version, tenant, thread_id

-- log.heads.lock_thread()
UPDATE threads
SET version=threads.version
WHERE threads.tenant = ?
AND threads.thread_id = ?
RETURNING namespace, next_seq, epoch, head_id, expires_at, deleted_at, version, tenant, thread_id

-- log.heads.read_head()
SELECT threads.namespace, threads.next_seq, threads.epoch, threads.head_id, threads.expires_at,
  threads.deleted_at, threads.version, threads.tenant, threads.thread_id
FROM threads
WHERE threads.log_id = ?

-- log.heads.set_metadata()
UPDATE threads
SET meta=?
WHERE threads.log_id = ?
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > ?)

-- log.heads.set_times()
UPDATE threads
SET created_at=CASE
WHEN (threads.created_at > ?) THEN ?
ELSE threads.created_at END, updated_at=?, active_at=?
WHERE threads.log_id = ?
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > ?)

-- log.listing.list_all_threads()
SELECT DISTINCT threads.thread_id
FROM threads
WHERE threads.tenant = ?
ORDER BY threads.thread_id

-- log.listing.list_entry_logs(scope=tenant)
SELECT threads.thread_id, threads.namespace, threads.created_at, threads.updated_at, (
  SELECT count(*) AS count_1
  FROM deltas
  WHERE deltas.log_id = threads.log_id
  AND deltas.kind IN ('entry')) AS entries
FROM threads
WHERE threads.tenant = ?
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > ?)
AND (EXISTS (
    SELECT 1
    FROM deltas
    WHERE deltas.log_id = threads.log_id
    AND deltas.kind IN ('entry')))
ORDER BY threads.active_at DESC, threads.updated_at DESC, threads.thread_id, threads.namespace
LIMIT ?
OFFSET ?

-- log.listing.list_heads(of=checkpoints, after=True, prefix=True)
SELECT threads.thread_id, threads.updated_at, threads.head_id
FROM threads
WHERE threads.tenant = ?
AND threads.namespace = ?
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > ?)
AND threads.head_id IS NOT NULL
AND threads.thread_id >= ?
AND threads.thread_id < ?
AND threads.active_at <= ?
AND (threads.updated_at < ?
  OR threads.updated_at = ?
  AND (threads.thread_id) > (?))
ORDER BY threads.active_at DESC, threads.updated_at DESC, threads.thread_id
LIMIT ?
OFFSET ?

-- log.listing.list_ids_in_range()
SELECT DISTINCT threads.thread_id
FROM threads
WHERE threads.tenant = ?
AND threads.thread_id >= ?
AND threads.thread_id < ?
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > ?)
AND (threads.head_id IS NOT NULL
  OR (EXISTS (
      SELECT 1
      FROM deltas
      WHERE deltas.log_id = threads.log_id
      AND deltas.kind IN ('entry'))))
ORDER BY threads.thread_id
LIMIT ?
OFFSET ?

-- log.listing.list_last_writes()
SELECT threads.thread_id, threads.updated_at
FROM threads
WHERE threads.tenant = ?
AND threads.namespace = ?
AND threads.thread_id IN (
  WITH listed AS MATERIALIZED (
    SELECT each_listed.thread_id AS thread_id
    FROM (
      SELECT json_extract(each.value, '$[0]') AS thread_id
      FROM json_each(?) AS each) AS each_listed)
  SELECT listed.thread_id
  FROM listed)
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > ?)
AND (EXISTS (
    SELECT 1
    FROM deltas
    WHERE deltas.log_id = threads.log_id
    AND deltas.kind IN ('entry')))

-- log.listing.list_logs(which=all, scope=namespace, after=False)
SELECT threads.log_id, threads.thread_id, threads.namespace, threads.head_id, threads.created_at,
  threads.updated_at, threads.forked_from, threads.meta
FROM threads
WHERE threads.tenant = ?
AND threads.namespace = ?
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > ?)
AND (threads.head_id IS NOT NULL
  OR (EXISTS (
      SELECT 1
      FROM deltas
      WHERE deltas.log_id = threads.log_id
      AND deltas.kind IN ('entry'))))
ORDER BY threads.active_at DESC, threads.updated_at DESC, threads.thread_id, threads.namespace
LIMIT ?
OFFSET ?

-- log.listing.list_logs_below()
SELECT threads.namespace, threads.head_id, threads.deleted_at
FROM threads
WHERE threads.tenant = ?
AND threads.namespace >= ?
AND threads.namespace < ?
AND threads.thread_id = ?
ORDER BY threads.namespace

-- log.listing.list_logs_of_thread()
SELECT threads.namespace, threads.deleted_at
FROM threads
WHERE threads.tenant = ?
AND threads.thread_id = ?
ORDER BY threads.namespace

-- log.listing.list_logs_of_threads()
SELECT threads.thread_id, threads.namespace
FROM threads
WHERE threads.tenant = ?
AND threads.thread_id IN (
  WITH listed AS MATERIALIZED (
    SELECT each_listed.thread_id AS thread_id
    FROM (
      SELECT json_extract(each.value, '$[0]') AS thread_id
      FROM json_each(?) AS each) AS each_listed)
  SELECT listed.thread_id
  FROM listed)
ORDER BY threads.thread_id, threads.namespace

-- log.listing.list_namespaces(of=checkpoints)
SELECT DISTINCT threads.namespace
FROM threads
WHERE threads.tenant = ?
AND threads.thread_id = ?
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > ?)
AND threads.head_id IS NOT NULL
ORDER BY threads.namespace

-- log.listing.list_namespaces_of_thread(after=False)
SELECT threads.namespace
FROM threads
WHERE threads.tenant = ?
AND threads.namespace >= ?
AND threads.namespace < ?
AND threads.thread_id = ?
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > ?)
AND threads.head_id IS NOT NULL
ORDER BY threads.namespace
LIMIT ?
OFFSET ?

-- log.listing.list_threads_older(after=True)
SELECT threads.thread_id
FROM threads
WHERE threads.tenant = ?
AND threads.namespace = ?
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > ?)
AND (EXISTS (
    SELECT 1
    FROM deltas
    WHERE deltas.log_id = threads.log_id
    AND deltas.kind IN ('entry')
    AND deltas.occurred_at < ?))
AND threads.thread_id > ?
ORDER BY threads.thread_id
LIMIT ?
OFFSET ?

-- log.listing.measure_logs()
WITH listed AS MATERIALIZED (
  SELECT each_listed.log_id AS log_id
  FROM (
    SELECT substr(?, 16 * each.key + 1, 16) AS log_id
    FROM json_each(?) AS each) AS each_listed)
SELECT listed.log_id, (
  SELECT count(*) AS count_1
  FROM checkpoints
  WHERE checkpoints.log_id = listed.log_id) AS checkpoints, (
  SELECT coalesce(sum(checkpoints.raw_size), ?) AS coalesce_1
  FROM checkpoints
  WHERE checkpoints.log_id = listed.log_id) AS raw_size, (
  SELECT coalesce(sum(checkpoints.stored_size), ?) AS coalesce_3
  FROM checkpoints
  WHERE checkpoints.log_id = listed.log_id) AS stored_size, (
  SELECT coalesce(sum(length(deltas.payload)), ?) AS coalesce_5
  FROM deltas
  WHERE deltas.log_id = listed.log_id
  AND deltas.kind IN ('entry', 'write')) AS other_size, (
  SELECT count(*) AS count_2
  FROM deltas
  WHERE deltas.log_id = listed.log_id
  AND deltas.kind IN ('entry')) AS entries
FROM listed

-- log.listing.read_lengths()
WITH listed AS MATERIALIZED (
  SELECT each_listed.log_id AS log_id
  FROM (
    SELECT substr(?, 16 * each.key + 1, 16) AS log_id
    FROM json_each(?) AS each) AS each_listed)
SELECT threads.log_id, threads.next_seq
FROM listed
JOIN threads ON threads.log_id = listed.log_id

-- log.pending_writes.read_writes_of_checkpoints()
WITH listed AS MATERIALIZED (
  SELECT each_listed.log_id AS log_id, each_listed.label AS label, each_listed.low AS low,
    each_listed.high AS high
  FROM (
    SELECT substr(?, 16 * each.key + 1, 16) AS log_id, json_extract(each.value, '$[1]') AS label,
      json_extract(each.value, '$[2]') AS low, json_extract(each.value, '$[3]') AS high
    FROM json_each(?) AS each) AS each_listed)
SELECT deltas.log_id, deltas.label, deltas.seq, deltas.overwrites, deltas.codec, deltas.checksum,
  deltas.payload, deltas.entry_key, deltas.stored_at, deltas.signature
FROM listed
JOIN threads ON threads.log_id = listed.log_id
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > ?)
JOIN deltas ON deltas.log_id = listed.log_id
AND deltas.entry_key >= listed.low
AND deltas.entry_key < listed.high
AND deltas.label = listed.label
WHERE deltas.kind IN ('write')
ORDER BY deltas.seq

-- log.reencoding.move_epoch_of_reencoded()
UPDATE threads
SET epoch=(threads.epoch + 2147483648)
WHERE threads.log_id = ?

-- log.text_index_sweep.index_is_aside(index=deltas_search)
SELECT 1 AS is_aside
WHERE NOT EXISTS (
  SELECT 1
  FROM sqlite_schema
  WHERE name = 'deltas_search')

-- log.text_index_sweep.sweep_index(index=deltas_search)
INSERT INTO deltas_search(deltas_search)
VALUES ('optimize')

-- maintenance.anchor_reading.list_signed_heads(which=all, after=True)
SELECT threads.log_id, threads.tenant, threads.thread_id, threads.namespace, threads.next_seq,
  threads.version, threads.last_ordinal, threads.head_id, threads.previous_id, threads.created_at,
  threads.updated_at, threads.expires_at, threads.deleted_at, threads.meta, threads.signature
FROM threads
WHERE threads.tenant = ?
AND (threads.thread_id, threads.namespace) > (?, ?)
ORDER BY threads.thread_id, threads.namespace
LIMIT ?
OFFSET ?

-- maintenance.anchor_reading.list_sizes_of_items(changed=True, after=True)
SELECT store_items.namespace, store_items.updated_at, store_items."key",
  length(store_items.value) AS stored
FROM store_items
WHERE store_items.tenant = ?
AND store_items.namespace >= ?
AND store_items.namespace < ?
AND NOT (store_items.namespace >= ?
  AND store_items.namespace < ?)
AND store_items.updated_at >= ?
AND (store_items.namespace, store_items.updated_at, store_items."key") > (?, ?, ?)
ORDER BY store_items.namespace, store_items.updated_at, store_items."key"
LIMIT ?
OFFSET ?

-- maintenance.copying.database_copy.count_rows_to_copy(table=threads, scope=tenant)
SELECT count(*) AS count_1
FROM threads
WHERE threads.tenant = ?

-- maintenance.copying.database_copy.list_heads_to_copy(scope=tenant, after=True)
SELECT threads.log_id, threads.tenant, threads.thread_id, threads.namespace, threads.next_seq,
  threads.version, threads.last_ordinal, threads.epoch, threads.head_id, threads.previous_id,
  threads.meta, threads.forked_from, threads.forked_seq, threads.created_at, threads.updated_at,
  threads.active_at, threads.expires_at, threads.deleted_at, threads.signature
FROM threads
WHERE threads.tenant = ?
AND (threads.thread_id, threads.namespace, threads.log_id) > (?, ?, ?)
ORDER BY threads.tenant, threads.thread_id, threads.namespace, threads.log_id
LIMIT ?
OFFSET ?

-- maintenance.copying.database_copy.list_items_to_copy(scope=tenant, after=True)
SELECT store_items.tenant, store_items.namespace, store_items."key", store_items.version,
  store_items.codec, store_items.checksum, store_items.created_at, store_items.updated_at,
  store_items.expires_at, store_items.lifetime, store_items.signature,
  length(CAST(store_items.search_text AS BLOB)) AS search_text_bytes,
  length(CAST(store_items.field_terms AS BLOB)) AS field_terms_bytes,
  substr(store_items.search_text, 1, 1) AS search_text_begins
FROM store_items
WHERE store_items.tenant = ?
AND store_items.namespace != '/~vectors/'
AND store_items.namespace != '/~keys/'
AND store_items.namespace != '/~signing/'
AND store_items.namespace != '/~signing/anchors/'
AND store_items.namespace != '/~signing/removals/'
AND (store_items.namespace, store_items."key") > (?, ?)
ORDER BY store_items.tenant, store_items.namespace, store_items."key"
LIMIT ?
OFFSET ?

-- maintenance.copying.grown_logs.count_names()
SELECT count(*) AS count_1
FROM checkpoints
WHERE checkpoints.log_id = ?
AND checkpoints.seq <= ?

-- maintenance.copying.grown_logs.find_names()
SELECT checkpoints.checkpoint_id
FROM checkpoints
WHERE checkpoints.log_id = ?
AND checkpoints.seq <= ?
AND checkpoints.checkpoint_id IN (
  WITH listed AS MATERIALIZED (
    SELECT each_listed.checkpoint_id AS checkpoint_id
    FROM (
      SELECT json_extract(each.value, '$[0]') AS checkpoint_id
      FROM json_each(?) AS each) AS each_listed)
  SELECT listed.checkpoint_id
  FROM listed)

-- maintenance.copying.grown_logs.list_names()
SELECT checkpoints.seq, checkpoints.checkpoint_id
FROM checkpoints
WHERE checkpoints.log_id = ?
AND checkpoints.seq <= ?
AND checkpoints.seq > ?
ORDER BY checkpoints.seq
LIMIT ?
OFFSET ?

-- maintenance.copying.grown_logs.read_newest_row(table=checkpoints)
SELECT checkpoints.log_id, checkpoints.seq, checkpoints.tenant, checkpoints.checkpoint_id,
  checkpoints.parent_id, checkpoints.ordinal, checkpoints.rests_on, checkpoints.run_id,
  checkpoints.meta, checkpoints.raw_size, checkpoints.stored_size, checkpoints.occurred_at,
  checkpoints.created_at, checkpoints.signature
FROM checkpoints
WHERE checkpoints.log_id = ?
AND checkpoints.seq <= ?
ORDER BY checkpoints.seq DESC
LIMIT ?
OFFSET ?

-- maintenance.copying.items.insert_embedding(native=True)
INSERT INTO embeddings (tenant, namespace, "key", field, model, part, dimensions, change,
    signature, vector)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- maintenance.copying.items.list_names_of_vectors()
SELECT embeddings.tenant, embeddings.namespace, embeddings."key", embeddings.field,
  embeddings.model, embeddings.part, embeddings.dimensions, embeddings.signature
FROM embeddings
WHERE embeddings.tenant = ?
AND (embeddings.namespace, embeddings."key") IN (
  WITH listed AS MATERIALIZED (
    SELECT each_listed.namespace AS namespace, each_listed."key" AS "key"
    FROM (
      SELECT json_extract(each.value, '$[0]') AS namespace, json_extract(each.value, '$[1]') AS key
      FROM json_each(?) AS each) AS each_listed)
  SELECT listed.namespace, listed."key"
  FROM listed)
ORDER BY embeddings.tenant, embeddings.namespace, embeddings."key", embeddings.field,
  embeddings.model, embeddings.part

-- maintenance.copying.items.read_embeddings(native=True)
SELECT embeddings.tenant, embeddings.namespace, embeddings."key", embeddings.field,
  embeddings.model, embeddings.part, embeddings.dimensions, embeddings.change,
  embeddings.signature, embeddings.vector AS vector
FROM embeddings
WHERE embeddings.tenant = ?
AND (embeddings.namespace, embeddings."key") IN (
  WITH listed AS MATERIALIZED (
    SELECT each_listed.namespace AS namespace, each_listed."key" AS "key"
    FROM (
      SELECT json_extract(each.value, '$[0]') AS namespace, json_extract(each.value, '$[1]') AS key
      FROM json_each(?) AS each) AS each_listed)
  SELECT listed.namespace, listed."key"
  FROM listed)
ORDER BY embeddings.tenant, embeddings.namespace, embeddings."key", embeddings.field,
  embeddings.model, embeddings.part

-- maintenance.copying.items.read_summaries()
SELECT store_items.tenant, store_items.namespace, store_items."key", store_items.version,
  store_items.codec, store_items.checksum, store_items.created_at, store_items.updated_at,
  store_items.expires_at, store_items.lifetime, store_items.signature,
  length(CAST(store_items.search_text AS BLOB)) AS search_text_bytes,
  length(CAST(store_items.field_terms AS BLOB)) AS field_terms_bytes,
  substr(store_items.search_text, 1, 1) AS search_text_begins
FROM store_items
WHERE store_items.tenant = ?
AND (store_items.namespace, store_items."key") IN (
  WITH listed AS MATERIALIZED (
    SELECT each_listed.namespace AS namespace, each_listed."key" AS "key"
    FROM (
      SELECT json_extract(each.value, '$[0]') AS namespace, json_extract(each.value, '$[1]') AS key
      FROM json_each(?) AS each) AS each_listed)
  SELECT listed.namespace, listed."key"
  FROM listed)

-- maintenance.copying.items.read_whole_item()
SELECT store_items.tenant, store_items.namespace, store_items."key", store_items.meta,
  store_items.version, store_items.codec, store_items.checksum, store_items.search_text,
  store_items.field_terms, store_items.created_at, store_items.updated_at, store_items.expires_at,
  store_items.lifetime, store_items.signature, store_items.value
FROM store_items
WHERE store_items.tenant = ?
AND store_items.namespace = ?
AND store_items."key" = ?

-- maintenance.copying.logs.read_heads_on_target()
SELECT threads.log_id, threads.tenant, threads.thread_id, threads.namespace, threads.next_seq,
  threads.version, threads.last_ordinal, threads.epoch, threads.head_id, threads.previous_id,
  threads.meta, threads.forked_from, threads.forked_seq, threads.created_at, threads.updated_at,
  threads.active_at, threads.expires_at, threads.deleted_at, threads.signature
FROM threads
WHERE threads.log_id IN (
  WITH listed AS MATERIALIZED (
    SELECT each_listed.log_id AS log_id
    FROM (
      SELECT substr(?, 16 * each.key + 1, 16) AS log_id
      FROM json_each(?) AS each) AS each_listed)
  SELECT listed.log_id
  FROM listed)

-- maintenance.copying.logs.read_rows_to_copy(table=checkpoints)
SELECT checkpoints.log_id, checkpoints.seq, checkpoints.tenant, checkpoints.checkpoint_id,
  checkpoints.parent_id, checkpoints.ordinal, checkpoints.rests_on, checkpoints.run_id,
  checkpoints.meta, checkpoints.raw_size, checkpoints.stored_size, checkpoints.occurred_at,
  checkpoints.created_at, checkpoints.signature
FROM checkpoints
WHERE checkpoints.log_id = ?
AND checkpoints.seq > ?
AND checkpoints.seq <= ?
ORDER BY checkpoints.seq

-- maintenance.copying.logs.read_whole_head()
SELECT threads.log_id, threads.tenant, threads.thread_id, threads.namespace, threads.next_seq,
  threads.version, threads.last_ordinal, threads.epoch, threads.head_id, threads.previous_id,
  threads.meta, threads.forked_from, threads.forked_seq, threads.created_at, threads.updated_at,
  threads.active_at, threads.expires_at, threads.deleted_at, threads.signature
FROM threads
WHERE threads.log_id = ?

-- maintenance.copying.logs.replace_copied_head()
UPDATE threads
SET tenant=?, thread_id=?, namespace=?, next_seq=?, version=?, last_ordinal=?, epoch=?, head_id=?,
  previous_id=?, meta=?, forked_from=?, forked_seq=?, created_at=?, updated_at=?, active_at=?,
  expires_at=?, deleted_at=?, signature=?
WHERE threads.log_id = ?

-- maintenance.copying.target.insert_copied_row(table=checkpoints)
INSERT INTO checkpoints (log_id, seq, tenant, checkpoint_id, parent_id, ordinal, rests_on, run_id,
    meta, raw_size, stored_size, occurred_at, created_at, signature)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- maintenance.log_positions.list_positions(table=checkpoints)
SELECT checkpoints.seq, 0 AS stored
FROM checkpoints
WHERE checkpoints.log_id = ?
AND checkpoints.seq > ?
ORDER BY checkpoints.seq
LIMIT ?
OFFSET ?

-- maintenance.own_words.read_worded_row()
SELECT deltas.seq, deltas.kind, deltas.codec, deltas.checksum, deltas.search_text, deltas.payload,
  checkpoints.checkpoint_id, checkpoints.parent_id
FROM deltas LEFT OUTER
JOIN checkpoints ON checkpoints.log_id = deltas.log_id
AND checkpoints.seq = deltas.seq
WHERE deltas.log_id = ?
AND deltas.seq = ?

-- maintenance.person.list_keys_with_value(table=threads)
SELECT DISTINCT "each"."key" AS "key"
FROM threads
JOIN json_each(CASE
  WHEN (json_valid(threads.meta) = 1) THEN threads.meta
  ELSE '{}' END) AS "each" ON 1
WHERE "each".type IN ('text', 'integer', 'real')
AND CAST("each".atom AS TEXT) = ?
AND threads.tenant = ?

-- maintenance.person.list_namespaces_of_logs()
SELECT DISTINCT threads.namespace
FROM threads
WHERE threads.tenant = ?
ORDER BY threads.namespace

-- maintenance.rotation.statements.count_all_vectors(scope=tenant)
SELECT count(*) AS count_1
FROM embeddings
WHERE embeddings.tenant = ?

-- maintenance.rotation.statements.count_rows_by_encryption(table=deltas, scope=tenant)
SELECT stored.codec, stored.begins, stored.has_words, stored.has_fields, count(*) AS number
FROM (
  SELECT deltas.codec AS codec, CASE
  WHEN (deltas.codec LIKE '%+gcm2') THEN substr(deltas.payload, 1, 9) END AS begins, CASE
  WHEN (deltas.search_text IS NOT NULL) THEN 1
  ELSE 0 END AS has_words, 0 AS has_fields
  FROM deltas
  WHERE deltas.tenant = ?) AS stored
GROUP BY stored.codec, stored.begins, stored.has_words, stored.has_fields

-- maintenance.rotation.statements.grow_size()
UPDATE checkpoints
SET stored_size=(checkpoints.stored_size + 45)
WHERE checkpoints.log_id = ?
AND checkpoints.seq = ?

-- maintenance.rotation.statements.list_items_with_vectors(scope=tenant)
SELECT DISTINCT embeddings.tenant, embeddings.namespace, embeddings."key"
FROM embeddings
WHERE embeddings.tenant = ?
ORDER BY embeddings.tenant, embeddings.namespace, embeddings."key"
LIMIT ?
OFFSET ?

-- maintenance.rotation.statements.list_rows(table=deltas, scope=tenant, after=True)
SELECT deltas.log_id, deltas.seq, deltas.tenant, threads.thread_id, threads.namespace,
  deltas.codec AS codec, CASE
WHEN (deltas.codec LIKE '%+gcm2') THEN substr(deltas.payload, 1, 9) END AS begins, CASE
WHEN (deltas.search_text IS NOT NULL) THEN 1
ELSE 0 END AS has_words, 0 AS has_fields, length(deltas.payload) AS stored
FROM deltas LEFT OUTER
JOIN threads ON threads.log_id = deltas.log_id
WHERE deltas.tenant = ?
AND (deltas.log_id, deltas.seq) > (?, ?)
ORDER BY deltas.log_id, deltas.seq
LIMIT ?
OFFSET ?

-- maintenance.rotation.statements.list_strays()
SELECT deltas.log_id, deltas.seq, threads.tenant, threads.thread_id, threads.namespace
FROM deltas
JOIN threads ON threads.log_id = deltas.log_id
WHERE threads.tenant = ?
AND deltas.tenant != threads.tenant
ORDER BY deltas.log_id, deltas.seq
LIMIT 1000
OFFSET ?

-- maintenance.rotation.statements.read_payloads()
SELECT deltas.seq, deltas.kind, deltas.label, deltas.codec, deltas.checksum, deltas.payload
FROM deltas
WHERE deltas.log_id = ?
AND deltas.seq >= ?
AND deltas.seq <= ?
ORDER BY deltas.seq

-- maintenance.rotation.statements.read_values()
SELECT store_items.tenant, store_items.namespace, store_items."key", store_items.version,
  store_items.codec, store_items.checksum, store_items.value
FROM store_items
WHERE store_items.tenant = ?
AND (store_items.namespace, store_items."key") IN (
  WITH listed AS MATERIALIZED (
    SELECT each_listed.namespace AS namespace, each_listed."key" AS "key"
    FROM (
      SELECT json_extract(each.value, '$[0]') AS namespace, json_extract(each.value, '$[1]') AS key
      FROM json_each(?) AS each) AS each_listed)
  SELECT listed.namespace, listed."key"
  FROM listed)

-- maintenance.rotation.statements.reseal_delta(words=kept)
UPDATE deltas
SET codec=?, checksum=?, payload=?
WHERE deltas.log_id = ?
AND deltas.seq = ?
AND deltas.codec = ?
AND deltas.checksum = ?

-- maintenance.rotation.statements.reseal_item(words=kept, fields=kept)
UPDATE store_items
SET codec=?, checksum=?, value=?
WHERE store_items.tenant = ?
AND store_items.namespace = ?
AND store_items."key" = ?
AND store_items.version = ?
AND store_items.codec = ?
AND store_items.checksum = ?

-- maintenance.sign.list_items_to_sign(after=True)
SELECT store_items.namespace, store_items."key"
FROM store_items
WHERE store_items.tenant = ?
AND store_items.namespace != '/~vectors/'
AND store_items.namespace != '/~keys/'
AND store_items.namespace != '/~signing/'
AND store_items.namespace != '/~signing/anchors/'
AND store_items.namespace != '/~signing/removals/'
AND (store_items.namespace, store_items."key") > (?, ?)
ORDER BY store_items.namespace, store_items."key"
LIMIT ?
OFFSET ?

-- maintenance.sign.list_log_keys(scope=tenant, after=True)
SELECT threads.log_id, threads.thread_id, threads.namespace
FROM threads
WHERE threads.tenant = ?
AND (threads.thread_id, threads.namespace) > (?, ?)
ORDER BY threads.thread_id, threads.namespace
LIMIT ?
OFFSET ?

-- maintenance.sign.read_items_to_sign()
SELECT store_items.namespace, store_items."key", store_items.version, store_items.meta,
  store_items.codec, store_items.value, store_items.created_at, store_items.updated_at,
  store_items.expires_at, store_items.lifetime, store_items.search_text, store_items.field_terms,
  store_items.signature
FROM store_items
WHERE store_items.tenant = ?
AND (store_items.namespace, store_items."key") IN (
  WITH listed AS MATERIALIZED (
    SELECT each_listed.namespace AS namespace, each_listed."key" AS "key"
    FROM (
      SELECT json_extract(each.value, '$[0]') AS namespace, json_extract(each.value, '$[1]') AS key
      FROM json_each(?) AS each) AS each_listed)
  SELECT listed.namespace, listed."key"
  FROM listed)

-- maintenance.space.count_expired()
SELECT count(*) AS expired
FROM store_items
WHERE store_items.tenant = ?
AND store_items.expires_at <= ?

-- maintenance.space.count_live_threads()
SELECT count(DISTINCT threads.thread_id) AS count_1
FROM threads
WHERE threads.tenant = ?
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > ?)
AND (threads.head_id IS NOT NULL
  OR (EXISTS (
      SELECT 1
      FROM deltas
      WHERE deltas.log_id = threads.log_id
      AND deltas.kind IN ('entry'))))

-- maintenance.space.counts_pages()
SELECT count(*)
FROM pragma_module_list
WHERE name = 'dbstat'

-- maintenance.space.measure_checkpoints()
SELECT count(*) AS checkpoints, coalesce(sum(CASE
    WHEN (deltas.kind IN ('snapshot')) THEN ?
    ELSE ? END), ?) AS whole
FROM checkpoints
JOIN deltas ON checkpoints.log_id = deltas.log_id
AND checkpoints.seq = deltas.seq
JOIN threads ON threads.log_id = checkpoints.log_id
WHERE checkpoints.tenant = ?
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > ?)

-- maintenance.space.measure_growth()
SELECT coalesce(sum(CASE
    WHEN (coalesce(deltas.stored_at, checkpoints.created_at) >= ?) THEN ?
    ELSE ? END), ?) AS rows_1, coalesce(sum(CASE
    WHEN (coalesce(deltas.stored_at, checkpoints.created_at) >= ?) THEN length(deltas.payload)
    ELSE ? END), ?) AS bytes_1, coalesce(sum(CASE
    WHEN (coalesce(deltas.stored_at, checkpoints.created_at) >= ?) THEN ?
    ELSE ? END), ?) AS rows_7, coalesce(sum(CASE
    WHEN (coalesce(deltas.stored_at, checkpoints.created_at) >= ?) THEN length(deltas.payload)
    ELSE ? END), ?) AS bytes_7, coalesce(sum(CASE
    WHEN (coalesce(deltas.stored_at, checkpoints.created_at) >= ?) THEN ?
    ELSE ? END), ?) AS rows_30, coalesce(sum(CASE
    WHEN (coalesce(deltas.stored_at, checkpoints.created_at) >= ?) THEN length(deltas.payload)
    ELSE ? END), ?) AS bytes_30
FROM deltas LEFT OUTER
JOIN checkpoints ON checkpoints.log_id = deltas.log_id
AND checkpoints.seq = deltas.seq
WHERE deltas.tenant = ?

-- maintenance.space.measure_items()
SELECT count(*) AS entries, coalesce(sum(CASE
    WHEN (store_items.expires_at IS NULL
      OR store_items.expires_at > ?) THEN ?
    ELSE ? END), ?) AS live, coalesce(sum(length(store_items.value)), ?) AS value_bytes,
  coalesce(sum(CASE
    WHEN (store_items.search_text IS NOT NULL
      OR store_items.field_terms IS NOT NULL) THEN ?
    ELSE ? END), ?) AS texts, coalesce(sum(length(CAST(store_items.search_text AS BLOB))),
    ?) + coalesce(sum(length(CAST(store_items.field_terms AS BLOB))), ?) AS text_bytes
FROM store_items
WHERE store_items.tenant = ?
AND NOT (store_items.namespace >= ?
  AND store_items.namespace < ?)

-- maintenance.space.measure_kinds()
SELECT deltas.kind, count(*) AS entries, sum(length(deltas.payload)) AS payload_bytes,
  count(deltas.search_text) AS texts, coalesce(sum(length(CAST(deltas.search_text AS BLOB))),
    ?) AS text_bytes
FROM deltas
WHERE deltas.tenant = ?
GROUP BY deltas.kind
ORDER BY deltas.kind

-- maintenance.space.measure_largest_logs()
SELECT threads.thread_id, threads.namespace, held.entries, held.held, count(*) OVER () AS logs
FROM (
  SELECT deltas.log_id AS log_id, count(*) AS entries,
    sum(length(deltas.payload)) + coalesce(sum(length(CAST(deltas.search_text AS BLOB))), ?) AS held
  FROM deltas
  WHERE deltas.tenant = ?
  GROUP BY deltas.log_id) AS held
JOIN threads ON threads.log_id = held.log_id
ORDER BY held.held DESC, threads.thread_id, threads.namespace
LIMIT ?
OFFSET ?

-- maintenance.space.measure_namespaces()
SELECT threads.namespace, count(DISTINCT threads.log_id) AS logs,
  count(checkpoints.seq) AS checkpoints, coalesce(sum(CASE
    WHEN (deltas.kind IN ('entry')) THEN ?
    ELSE ? END), ?) AS entries, coalesce(sum(coalesce(checkpoints.raw_size, length(deltas.payload))),
    ?) AS raw_size, coalesce(sum(coalesce(checkpoints.stored_size, length(deltas.payload))),
    ?) AS stored_size
FROM threads
JOIN deltas ON deltas.log_id = threads.log_id LEFT OUTER
JOIN checkpoints ON checkpoints.log_id = deltas.log_id
AND checkpoints.seq = deltas.seq
WHERE threads.tenant = ?
AND threads.deleted_at IS NULL
AND (threads.expires_at IS NULL
  OR threads.expires_at > ?)
AND (threads.head_id IS NOT NULL
  OR (EXISTS (
      SELECT 1
      FROM deltas
      WHERE deltas.log_id = threads.log_id
      AND deltas.kind IN ('entry'))))
GROUP BY threads.namespace

-- maintenance.space.measure_vectors()
SELECT count(*) AS entries, coalesce(sum(embeddings.dimensions), ?) AS numbers
FROM embeddings
WHERE embeddings.tenant = ?

-- maintenance.space.merge_step(what=changes)
SELECT total_changes() AS changes

-- maintenance.space.sizes(exact=True)
SELECT pages.name AS name, coalesce(made.tbl_name, pages.name) AS owner, coalesce(made.type,
    'table') AS kind, pages.bytes AS bytes
FROM (
  SELECT name, sum(pgsize) AS bytes
  FROM dbstat
  GROUP BY name) AS pages LEFT
JOIN sqlite_schema AS made ON made.name = pages.name

-- maintenance.stored_tenants.next_tenant_of_items(after=True)
SELECT min(store_items.tenant) AS tenant
FROM store_items
WHERE store_items.tenant != '~'
AND store_items.tenant > ?

-- maintenance.stored_tenants.next_tenant_of_logs(after=True)
SELECT min(threads.tenant) AS tenant
FROM threads
WHERE threads.tenant > ?

-- maintenance.verify.database.count_positions(scope=tenant)
SELECT coalesce(sum(threads.next_seq - ?), ?) AS positions
FROM threads
WHERE threads.tenant = ?

-- maintenance.verify.database.find_storage_faults(which=pages)
SELECT integrity_check AS fault
FROM pragma_integrity_check(100)
WHERE integrity_check <> 'ok'

-- maintenance.verify.database.list_logs_to_verify(scope=tenant, after=True)
SELECT threads.thread_id, threads.namespace, threads.log_id, threads.next_seq
FROM threads
WHERE threads.tenant = ?
AND (threads.thread_id, threads.namespace, threads.log_id) > (?, ?, ?)
ORDER BY threads.thread_id, threads.namespace, threads.log_id
LIMIT ?
OFFSET ?

-- maintenance.verify.database.list_orphaned_rows(table=checkpoints)
SELECT checkpoints.log_id, count(*) AS orphans, count(threads.log_id) AS strays
FROM checkpoints LEFT OUTER
JOIN threads ON threads.log_id = checkpoints.log_id
WHERE checkpoints.tenant = ?
AND (threads.log_id IS NULL
  OR threads.tenant != checkpoints.tenant)
GROUP BY checkpoints.log_id
ORDER BY checkpoints.log_id
LIMIT ?
OFFSET ?

-- maintenance.verify.items.count_stored_items()
SELECT count(*) AS items
FROM store_items
WHERE store_items.tenant = ?
AND store_items.namespace >= ?
AND store_items.namespace < ?
AND NOT (store_items.namespace >= ?
  AND store_items.namespace < ?)

-- maintenance.verify.items.list_last_changes()
SELECT embeddings.namespace, max(embeddings.change) AS last_change
FROM embeddings
WHERE embeddings.tenant = ?
AND embeddings.namespace > ?
GROUP BY embeddings.namespace
ORDER BY embeddings.namespace
LIMIT ?
OFFSET ?

-- maintenance.verify.items.list_orphaned_vectors()
SELECT embeddings.namespace, embeddings."key", count(*) AS orphans
FROM embeddings
WHERE embeddings.tenant = ?
AND NOT (EXISTS (
    SELECT 1
    FROM store_items
    WHERE store_items.tenant = embeddings.tenant
    AND store_items.namespace = embeddings.namespace
    AND store_items."key" = embeddings."key"))
GROUP BY embeddings.namespace, embeddings."key"
ORDER BY embeddings.namespace, embeddings."key"
LIMIT ?
OFFSET ?

-- maintenance.verify.items.list_stored_items(after=True)
SELECT store_items.namespace, store_items."key", length(store_items.value) AS stored, (
  SELECT coalesce(sum(embeddings.dimensions), ?) AS coalesce_1
  FROM embeddings
  WHERE embeddings.tenant = store_items.tenant
  AND embeddings.namespace = store_items.namespace
  AND embeddings."key" = store_items."key") AS numbers
FROM store_items
WHERE store_items.tenant = ?
AND store_items.namespace >= ?
AND store_items.namespace < ?
AND NOT (store_items.namespace >= ?
  AND store_items.namespace < ?)
AND store_items.namespace >= ?
AND (store_items.namespace > ?
  OR store_items.namespace = ?
  AND store_items."key" > ?)
ORDER BY store_items.namespace, store_items."key"
LIMIT ?
OFFSET ?

-- maintenance.verify.items.read_stored_items()
SELECT store_items.namespace, store_items."key", store_items.version, store_items.codec,
  store_items.checksum, store_items.search_text, store_items.field_terms, store_items.signature,
  store_items.value, store_items.created_at, store_items.updated_at, store_items.expires_at,
  store_items.lifetime, CASE
WHEN (CASE
  WHEN (json_valid(store_items.meta) = 0) THEN 0
  WHEN (json_type(store_items.meta) = 'object') THEN 1
  ELSE 0 END = 1) THEN store_items.meta END AS meta
FROM store_items
WHERE store_items.tenant = ?
AND store_items.namespace = ?
AND store_items."key" >= ?
AND store_items."key" <= ?
ORDER BY store_items."key"

-- maintenance.verify.items.read_stored_vectors(native=True)
SELECT embeddings."key", embeddings.field, embeddings.model, embeddings.part,
  embeddings.dimensions, embeddings.namespace, embeddings.signature AS vector_signature,
  store_items.version, embeddings.vector AS vector
FROM embeddings LEFT OUTER
JOIN store_items ON store_items.tenant = embeddings.tenant
AND store_items.namespace = embeddings.namespace
AND store_items."key" = embeddings."key"
WHERE embeddings.tenant = ?
AND embeddings.namespace = ?
AND embeddings."key" >= ?
AND embeddings."key" <= ?
ORDER BY embeddings."key", embeddings.field, embeddings.model, embeddings.part

-- maintenance.verify.items.read_vector_sets()
SELECT store_items."key", store_items.signature, embeddings.signature AS vector_signature
FROM store_items LEFT OUTER
JOIN embeddings ON store_items.tenant = embeddings.tenant
AND store_items.namespace = embeddings.namespace
AND store_items."key" = embeddings."key"
WHERE store_items.tenant = ?
AND store_items.namespace = ?
AND store_items."key" >= ?
AND store_items."key" <= ?
ORDER BY store_items."key"

-- maintenance.verify.logs.list_names_without_state()
SELECT checkpoints.checkpoint_id, checkpoints.seq
FROM checkpoints
WHERE checkpoints.log_id = ?
AND checkpoints.seq >= ?
AND checkpoints.seq <= ?
AND NOT (EXISTS (
    SELECT 1
    FROM deltas
    WHERE deltas.log_id = checkpoints.log_id
    AND deltas.seq = checkpoints.seq
    AND deltas.kind IN ('snapshot', 'delta')))
ORDER BY checkpoints.seq
LIMIT ?
OFFSET ?

-- maintenance.verify.logs.read_head_and_last_rows()
SELECT threads.next_seq, threads.head_id, threads.deleted_at, threads.version, threads.epoch,
  threads.created_at, threads.updated_at, threads.active_at, threads.expires_at,
  threads.forked_from, threads.forked_seq, threads.tenant, threads.thread_id, threads.namespace,
  CASE
WHEN (json_valid(threads.meta) = 0) THEN 0
WHEN (json_type(threads.meta) = 'object') THEN 1
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
WHERE threads.log_id = ?

-- maintenance.verify.logs.read_lineage()
SELECT checkpoints.seq, parent.seq AS parent_at
FROM checkpoints LEFT OUTER
JOIN checkpoints AS parent ON parent.log_id = checkpoints.log_id
AND parent.checkpoint_id = checkpoints.parent_id
WHERE checkpoints.log_id = ?
ORDER BY checkpoints.seq

-- maintenance.verify.logs.read_name()
SELECT checkpoints.checkpoint_id
FROM checkpoints
WHERE checkpoints.log_id = ?
AND checkpoints.seq = ?

-- maintenance.verify.logs.read_rows_of_state()
WITH RECURSIVE chain(seq, kind, base_seq, depth, codec, checksum, payload) AS (
  SELECT deltas.seq AS seq, deltas.kind AS kind, deltas.base_seq AS base_seq, deltas.depth AS depth,
    deltas.codec AS codec, deltas.checksum AS checksum, deltas.payload AS payload
  FROM deltas
  WHERE deltas.log_id = ?
  AND deltas.seq = ?
  UNION ALL
  SELECT base.seq AS seq, base.kind AS kind, base.base_seq AS base_seq, base.depth AS depth,
    base.codec AS codec, base.checksum AS checksum, base.payload AS payload
  FROM chain
  JOIN deltas AS base ON base.seq = chain.base_seq
  AND base.seq < chain.seq
  WHERE base.log_id = ?)
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
WHEN (json_valid(checkpoints.meta) = 0) THEN 0
WHEN (json_type(checkpoints.meta) = 'object') THEN 1
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
WHERE deltas.log_id = ?
AND deltas.seq >= ?
AND deltas.seq <= ?
ORDER BY deltas.seq

-- maintenance.verify.text_indexes.compare_with_rows(index=deltas_search, step=0)
INSERT INTO deltas_search(deltas_search, rank)
VALUES ('integrity-check', 1)

-- maintenance.verify.text_indexes.find_missed(index=deltas_search)
SELECT deltas.seq AS seq
FROM deltas
WHERE log_id = ?
AND seq BETWEEN ?
AND ?
AND search_text IS NOT NULL
AND NOT EXISTS (
  SELECT 1
  FROM deltas_search
  WHERE deltas_search.rowid = deltas.rowid
  AND deltas_search MATCH 'scope : "' || 'x' || lower(hex(deltas.tenant)) || '" AND search_text : ' || '("' || replace(CASE
    WHEN length(trim(replace(replace(substr(deltas.search_text, 1, 400), '#', ''), ' ',
            ' '))) <= 200 THEN trim(replace(replace(substr(deltas.search_text, 1, 400), '#', ''), ' ', ' '))
    ELSE rtrim(rtrim(substr(trim(replace(replace(substr(deltas.search_text, 1, 400), '#', ''), ' ',
                ' ')), 1, 200), replace(substr(trim(replace(replace(substr(deltas.search_text, 1, 400), '#', ''),
                  ' ', ' ')), 1, 200), ' ', ''))) END, ' ', '" AND "') || '")')
ORDER BY seq

-- maintenance.verify.text_indexes.read_index_state()
SELECT (
  SELECT count(*)
  FROM sqlite_schema
  WHERE type = 'trigger'
  AND name IN (? || '_insert', ? || '_delete', ? || '_update')) = 3 AS in_use
FROM sqlite_schema
WHERE type = 'table'
AND name = ?

-- maintenance.verify.text_indexes.rebuild_index(index=deltas_search, step=0)
DROP TRIGGER IF EXISTS deltas_search_insert

-- maintenance.words.statements.count_wordless(table=deltas, scope=tenant)
SELECT count(*) AS count_1
FROM deltas
JOIN threads ON threads.log_id = deltas.log_id
WHERE threads.tenant = ?
AND (deltas.search_text IS NULL
  OR substr(deltas.search_text, 1, 1) != '#')
AND (deltas.kind NOT IN ('write'))

-- maintenance.words.statements.find_words(kind=logs)
SELECT threads.namespace
FROM deltas
JOIN threads ON threads.log_id = deltas.log_id
WHERE threads.tenant = ?
AND deltas.search_text IS NOT NULL
LIMIT ?
OFFSET ?

-- maintenance.words.statements.give_delta_words()
UPDATE deltas
SET search_text=?
WHERE deltas.log_id = ?
AND deltas.seq = ?
AND (deltas.search_text IS NULL
  OR substr(deltas.search_text, 1, 1) != '#')
AND coalesce(length(deltas.search_text), 0) = ?
AND deltas.codec = ?
AND deltas.checksum = ?

-- maintenance.words.statements.give_item_words()
UPDATE store_items
SET search_text=?, field_terms=?
WHERE store_items.tenant = ?
AND store_items.namespace = ?
AND store_items."key" = ?
AND store_items.version = ?
AND store_items.codec = ?
AND store_items.checksum = ?

-- maintenance.words.statements.list_wordless(table=deltas, scope=tenant, after=True)
SELECT deltas.log_id, deltas.seq, deltas.kind, deltas.codec, deltas.checksum, threads.thread_id,
  threads.namespace, checkpoints.checkpoint_id, checkpoints.parent_id, deltas.search_text,
  length(deltas.payload) AS stored
FROM deltas
JOIN threads ON threads.log_id = deltas.log_id LEFT OUTER
JOIN checkpoints ON checkpoints.log_id = deltas.log_id
AND checkpoints.seq = deltas.seq
WHERE threads.tenant = ?
AND (deltas.search_text IS NULL
  OR substr(deltas.search_text, 1, 1) != '#')
AND (deltas.kind NOT IN ('write'))
AND (deltas.log_id, deltas.seq) > (?, ?)
ORDER BY deltas.log_id, deltas.seq
LIMIT ?
OFFSET ?

-- maintenance.words.statements.read_entries_of_range()
SELECT deltas.seq, deltas.codec, deltas.checksum, deltas.payload
FROM deltas
WHERE deltas.log_id = ?
AND deltas.kind IN ('entry')
AND deltas.seq >= ?
AND deltas.seq <= ?
ORDER BY deltas.seq

-- maintenance.words.statements.read_wordless_items()
SELECT store_items.namespace, store_items."key", store_items.meta, store_items.version,
  store_items.codec, store_items.checksum, store_items.search_text, store_items.field_terms,
  store_items.value
FROM store_items
WHERE store_items.tenant = ?
AND (store_items.namespace, store_items."key") IN (
  WITH listed AS MATERIALIZED (
    SELECT each_listed.namespace AS namespace, each_listed."key" AS "key"
    FROM (
      SELECT json_extract(each.value, '$[0]') AS namespace, json_extract(each.value, '$[1]') AS key
      FROM json_each(?) AS each) AS each_listed)
  SELECT listed.namespace, listed."key"
  FROM listed)

-- protection.key_registry.delete_key()
DELETE FROM store_items
WHERE store_items.tenant = ?
AND store_items.namespace = ?
AND store_items."key" = ?

-- protection.key_registry.find_encrypted(table=deltas)
SELECT substr(some.payload, 1, 9) AS begins
FROM (
  SELECT deltas.codec AS codec, deltas.payload AS payload
  FROM (
    SELECT threads.log_id AS log_id, threads.next_seq AS next_seq
    FROM threads
    WHERE threads.tenant = ?
    ORDER BY threads.active_at DESC
    LIMIT ?
    OFFSET ?) AS newest
  JOIN deltas ON deltas.log_id = newest.log_id
  AND deltas.seq >= newest.next_seq - 3) AS some
WHERE some.codec LIKE '%+gcm2'
LIMIT 1
OFFSET ?

-- protection.key_registry.find_signed(table=threads)
SELECT some.signature, some.namespace, some.name
FROM (
  SELECT threads.signature AS signature, threads.namespace AS namespace, threads.thread_id AS name
  FROM threads
  WHERE threads.tenant = ?
  ORDER BY threads.active_at DESC
  LIMIT ?
  OFFSET ?) AS some
WHERE some.signature IS NOT NULL

-- protection.key_registry.insert_key()
INSERT INTO store_items (tenant, namespace, "key", meta, version, codec, checksum, created_at,
    updated_at, value)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant, namespace, "key")
DO UPDATE SET updated_at = ?

-- protection.key_registry.read_registered_keys(scope=tenant)
SELECT store_items.tenant, store_items.namespace, store_items."key", store_items.value
FROM store_items
WHERE store_items.tenant = ?
AND (store_items.namespace = ?
  OR store_items.namespace = ?)

-- protection.removals.delete_old_removals()
DELETE FROM store_items
WHERE store_items.tenant = ?
AND store_items.namespace = '/~signing/removals/'
AND store_items.updated_at < ?

-- protection.removals.delete_removals()
DELETE FROM store_items
WHERE store_items.tenant = ?
AND store_items.namespace = '/~signing/removals/'
AND store_items."key" IN (
  WITH listed AS MATERIALIZED (
    SELECT each_listed."key" AS "key"
    FROM (
      SELECT json_extract(each.value, '$[0]') AS key
      FROM json_each(?) AS each) AS each_listed)
  SELECT listed."key"
  FROM listed)

-- protection.removals.find_anchoring()
SELECT store_items.value, store_items.updated_at
FROM store_items
WHERE store_items.tenant = ?
AND store_items.namespace = '/~signing/anchors/'

-- protection.removals.find_removals()
SELECT store_items."key", store_items.created_at, store_items.version, store_items.updated_at,
  store_items.signature
FROM store_items
WHERE store_items.tenant = ?
AND store_items.namespace = '/~signing/removals/'
AND store_items."key" IN (
  WITH listed AS MATERIALIZED (
    SELECT each_listed."key" AS "key"
    FROM (
      SELECT json_extract(each.value, '$[0]') AS key
      FROM json_each(?) AS each) AS each_listed)
  SELECT listed."key"
  FROM listed)

-- protection.removals.list_removals(after=True)
SELECT store_items."key", store_items.created_at, store_items.version, store_items.updated_at,
  store_items.signature
FROM store_items
WHERE store_items.tenant = ?
AND store_items.namespace = '/~signing/removals/'
AND store_items."key" > ?
ORDER BY store_items."key"
LIMIT ?
OFFSET ?

-- protection.removals.put_note()
INSERT INTO store_items (tenant, namespace, "key", meta, version, codec, checksum, created_at,
    updated_at, signature, value)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant, namespace, "key")
DO UPDATE SET version = ?, created_at = ?, updated_at = ?, signature = ?, value = ?

-- protection.removals.read_lives()
SELECT store_items.tenant, store_items.namespace, store_items."key", store_items.version,
  store_items.meta, store_items.codec, store_items.value, store_items.created_at,
  store_items.updated_at, store_items.expires_at, store_items.lifetime, store_items.signature
FROM store_items
WHERE store_items.tenant = ?
AND (store_items.namespace, store_items."key") IN (
  WITH listed AS MATERIALIZED (
    SELECT each_listed.namespace AS namespace, each_listed."key" AS "key"
    FROM (
      SELECT json_extract(each.value, '$[0]') AS namespace, json_extract(each.value, '$[1]') AS key
      FROM json_each(?) AS each) AS each_listed)
  SELECT listed.namespace, listed."key"
  FROM listed)

-- protection.signed_items.lock_signed_item()
UPDATE store_items
SET version=store_items.version
WHERE store_items.tenant = ?
AND store_items.namespace = ?
AND store_items."key" = ?
RETURNING tenant, namespace, "key", version, meta, codec, value, created_at, updated_at,
  expires_at, lifetime, search_text, field_terms, signature

-- protection.signed_items.read_signed_item()
SELECT store_items.tenant, store_items.namespace, store_items."key", store_items.version,
  store_items.meta, store_items.codec, store_items.value, store_items.created_at,
  store_items.updated_at, store_items.expires_at, store_items.lifetime, store_items.signature
FROM store_items
WHERE store_items.tenant = ?
AND store_items.namespace = ?
AND store_items."key" = ?

-- protection.signed_items.read_signed_items()
SELECT store_items.tenant, store_items.namespace, store_items."key", store_items.version,
  store_items.meta, store_items.codec, store_items.value, store_items.created_at,
  store_items.updated_at, store_items.expires_at, store_items.lifetime, store_items.signature
FROM store_items
WHERE store_items.tenant = ?
AND (store_items.namespace, store_items."key") IN (
  WITH listed AS MATERIALIZED (
    SELECT each_listed.namespace AS namespace, each_listed."key" AS "key"
    FROM (
      SELECT json_extract(each.value, '$[0]') AS namespace, json_extract(each.value, '$[1]') AS key
      FROM json_each(?) AS each) AS each_listed)
  SELECT listed.namespace, listed."key"
  FROM listed)

-- protection.signed_items.read_signed_vectors()
SELECT embeddings.namespace, embeddings."key", embeddings.field, embeddings.model, embeddings.part,
  embeddings.dimensions, embeddings.signature, embeddings.vector AS vector
FROM embeddings
WHERE embeddings.tenant = ?
AND (embeddings.namespace, embeddings."key") IN (
  WITH listed AS MATERIALIZED (
    SELECT each_listed.namespace AS namespace, each_listed."key" AS "key"
    FROM (
      SELECT json_extract(each.value, '$[0]') AS namespace, json_extract(each.value, '$[1]') AS key
      FROM json_each(?) AS each) AS each_listed)
  SELECT listed.namespace, listed."key"
  FROM listed)

-- protection.signed_items.read_signed_words()
SELECT store_items.namespace, store_items."key", store_items.version, store_items.search_text,
  store_items.field_terms, store_items.signature
FROM store_items
WHERE store_items.tenant = ?
AND (store_items.namespace, store_items."key") IN (
  WITH listed AS MATERIALIZED (
    SELECT each_listed.namespace AS namespace, each_listed."key" AS "key"
    FROM (
      SELECT json_extract(each.value, '$[0]') AS namespace, json_extract(each.value, '$[1]') AS key
      FROM json_each(?) AS each) AS each_listed)
  SELECT listed.namespace, listed."key"
  FROM listed)

-- protection.signed_items.read_vector_signatures()
SELECT embeddings.namespace, embeddings."key", embeddings.signature
FROM embeddings
WHERE embeddings.tenant = ?
AND (embeddings.namespace, embeddings."key") IN (
  WITH listed AS MATERIALIZED (
    SELECT each_listed.namespace AS namespace, each_listed."key" AS "key"
    FROM (
      SELECT json_extract(each.value, '$[0]') AS namespace, json_extract(each.value, '$[1]') AS key
      FROM json_each(?) AS each) AS each_listed)
  SELECT listed.namespace, listed."key"
  FROM listed)

-- protection.signed_items.sign_item()
UPDATE store_items
SET signature=?
WHERE store_items.tenant = ?
AND store_items.namespace = ?
AND store_items."key" = ?

-- protection.signed_items.sign_vector()
UPDATE embeddings
SET signature=?
WHERE embeddings.tenant = ?
AND embeddings.namespace = ?
AND embeddings."key" = ?
AND embeddings.field = ?
AND embeddings.model = ?
AND embeddings.part = ?

-- protection.signed_logs.list_signatures()
SELECT checkpoints.seq, checkpoints.signature, 0 AS kind
FROM checkpoints
WHERE checkpoints.log_id = ?
UNION ALL
SELECT deltas.seq, deltas.signature, 1 AS kind
FROM deltas
WHERE deltas.log_id = ?
AND deltas.kind = 'entry'
UNION ALL
SELECT deltas.seq, deltas.signature, 2 AS kind
FROM deltas
WHERE deltas.log_id = ?
AND deltas.kind = 'write'

-- protection.signed_logs.list_signatures_of_logs()
SELECT checkpoints.log_id, checkpoints.seq, checkpoints.signature, 0 AS kind
FROM checkpoints
WHERE checkpoints.log_id IN (
  WITH listed AS MATERIALIZED (
    SELECT each_listed.log_id AS log_id
    FROM (
      SELECT substr(?, 16 * each.key + 1, 16) AS log_id
      FROM json_each(?) AS each) AS each_listed)
  SELECT listed.log_id
  FROM listed)
UNION ALL
SELECT deltas.log_id, deltas.seq, deltas.signature, 1 AS kind
FROM deltas
WHERE deltas.log_id IN (
  WITH listed AS MATERIALIZED (
    SELECT each_listed.log_id AS log_id
    FROM (
      SELECT substr(?, 16 * each.key + 1, 16) AS log_id
      FROM json_each(?) AS each) AS each_listed)
  SELECT listed.log_id
  FROM listed)
AND deltas.kind = 'entry'
UNION ALL
SELECT deltas.log_id, deltas.seq, deltas.signature, 2 AS kind
FROM deltas
WHERE deltas.log_id IN (
  WITH listed AS MATERIALIZED (
    SELECT each_listed.log_id AS log_id
    FROM (
      SELECT substr(?, 16 * each.key + 1, 16) AS log_id
      FROM json_each(?) AS each) AS each_listed)
  SELECT listed.log_id
  FROM listed)
AND deltas.kind = 'write'

-- protection.signed_logs.read_signed_checkpoint()
SELECT checkpoints.log_id, checkpoints.seq, checkpoints.tenant, checkpoints.checkpoint_id,
  checkpoints.parent_id, checkpoints.ordinal, checkpoints.rests_on, checkpoints.run_id,
  checkpoints.meta, checkpoints.occurred_at, checkpoints.created_at, checkpoints.signature
FROM checkpoints
WHERE checkpoints.log_id = ?
AND checkpoints.checkpoint_id = ?

-- protection.signed_logs.read_signed_head(locks=True)
UPDATE threads
SET version=threads.version
WHERE threads.log_id = ?
RETURNING log_id, tenant, thread_id, namespace, next_seq, version, last_ordinal, head_id,
  previous_id, created_at, updated_at, expires_at, deleted_at, meta, signature

-- protection.signed_logs.read_signed_heads()
SELECT threads.log_id, threads.tenant, threads.thread_id, threads.namespace, threads.next_seq,
  threads.version, threads.last_ordinal, threads.head_id, threads.previous_id, threads.created_at,
  threads.updated_at, threads.expires_at, threads.deleted_at, threads.meta, threads.signature
FROM threads
WHERE threads.log_id IN (
  WITH listed AS MATERIALIZED (
    SELECT each_listed.log_id AS log_id
    FROM (
      SELECT substr(?, 16 * each.key + 1, 16) AS log_id
      FROM json_each(?) AS each) AS each_listed)
  SELECT listed.log_id
  FROM listed)

-- protection.signed_logs.read_signed_row(table=checkpoints)
SELECT checkpoints.log_id, checkpoints.seq, checkpoints.tenant, checkpoints.checkpoint_id,
  checkpoints.parent_id, checkpoints.ordinal, checkpoints.rests_on, checkpoints.run_id,
  checkpoints.meta, checkpoints.occurred_at, checkpoints.created_at, checkpoints.signature
FROM checkpoints
WHERE checkpoints.log_id = ?
AND checkpoints.seq = ?

-- protection.signed_logs.read_signed_rows(table=checkpoints)
SELECT checkpoints.log_id, checkpoints.seq, checkpoints.tenant, checkpoints.checkpoint_id,
  checkpoints.parent_id, checkpoints.ordinal, checkpoints.rests_on, checkpoints.run_id,
  checkpoints.meta, checkpoints.occurred_at, checkpoints.created_at, checkpoints.signature
FROM checkpoints
WHERE checkpoints.log_id = ?
AND checkpoints.seq > ?
ORDER BY checkpoints.seq
LIMIT ?
OFFSET ?

-- protection.signed_logs.sign_head()
UPDATE threads
SET signature=?
WHERE threads.log_id = ?

-- protection.signed_logs.sign_row(table=checkpoints)
UPDATE checkpoints
SET signature=?
WHERE checkpoints.log_id = ?
AND checkpoints.seq = ?

-- search._vector_statements.count_vectors(below=False)
SELECT count(*) AS count_1
FROM (
  SELECT 1 AS one
  FROM embeddings
  WHERE embeddings.tenant = ?
  AND embeddings.namespace = ?
  AND embeddings.model = ?
  AND embeddings.dimensions = ?
  LIMIT ?
  OFFSET ?) AS some_vectors

-- search._vector_statements.live_items()
SELECT store_items.namespace, store_items."key", store_items.meta, store_items.version,
  store_items.codec, store_items.checksum, store_items.created_at, store_items.updated_at,
  store_items.expires_at, store_items.lifetime, store_items.signature, CASE
WHEN (length(store_items.value) <= ?) THEN store_items.value END AS value
FROM store_items
WHERE store_items.tenant = ?
AND (store_items.namespace, store_items."key") IN (
  WITH listed AS MATERIALIZED (
    SELECT each_listed.namespace AS namespace, each_listed."key" AS "key"
    FROM (
      SELECT json_extract(each.value, '$[0]') AS namespace, json_extract(each.value, '$[1]') AS key
      FROM json_each(?) AS each) AS each_listed)
  SELECT listed.namespace, listed."key"
  FROM listed)
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > ?)

-- search._vector_statements.live_parts()
SELECT store_items.namespace, store_items."key", store_items.meta, store_items.version,
  store_items.codec, store_items.checksum, store_items.created_at, store_items.updated_at,
  store_items.expires_at, store_items.lifetime, store_items.signature, CASE
WHEN (length(store_items.value) <= ?) THEN store_items.value END AS value, embeddings.field,
  embeddings.part, embeddings.model, embeddings.dimensions, embeddings.vector AS vector,
  embeddings.signature AS vector_signature
FROM embeddings
JOIN store_items ON store_items.tenant = embeddings.tenant
AND store_items.namespace = embeddings.namespace
AND store_items."key" = embeddings."key"
WHERE embeddings.tenant = ?
AND (embeddings.namespace, embeddings."key", embeddings.field, embeddings.part) IN (
  WITH listed AS MATERIALIZED (
    SELECT each_listed.namespace AS namespace, each_listed."key" AS "key", each_listed.field AS field,
      each_listed.part AS part
    FROM (
      SELECT json_extract(each.value, '$[0]') AS namespace, json_extract(each.value, '$[1]') AS key,
        json_extract(each.value, '$[2]') AS field, json_extract(each.value, '$[3]') AS part
      FROM json_each(?) AS each) AS each_listed)
  SELECT listed.namespace, listed."key", listed.field, CAST(listed.part AS INTEGER) AS part
  FROM listed)
AND embeddings.model = ?
AND embeddings.dimensions = ?
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > ?)

-- search._vector_statements.read_changed_vectors()
SELECT embeddings.namespace AS namespace, embeddings."key" AS "key", embeddings.field AS field,
  embeddings.part AS part, embeddings.vector AS vector, embeddings.rowid AS row_at,
  embeddings.change
FROM embeddings
WHERE embeddings.tenant = ?
AND embeddings.namespace = ?
AND (embeddings.change, embeddings.rowid) > (?, ?)
AND embeddings.change >= ?
AND (embeddings.model || '') = ?
AND embeddings.dimensions + 0 = ?
ORDER BY embeddings.change, embeddings.rowid
LIMIT ?
OFFSET ?

-- search._vector_statements.read_positions(which=number)
SELECT count(*) AS number
FROM embeddings
WHERE embeddings.tenant = ?
AND embeddings.namespace = ?
AND embeddings.model = ?
AND embeddings.dimensions = ?
AND embeddings.rowid >= ?
AND embeddings.rowid <= ?

-- search._vector_statements.read_vectors(below=False)
SELECT embeddings.namespace AS namespace, embeddings."key" AS "key", embeddings.field AS field,
  embeddings.part AS part, embeddings.vector AS vector, embeddings.rowid AS row_at
FROM embeddings
WHERE embeddings.tenant = ?
AND embeddings.namespace = ?
AND embeddings.model = ?
AND embeddings.dimensions = ?
AND embeddings.rowid > ?
ORDER BY embeddings.rowid
LIMIT ?
OFFSET ?

-- search._vector_statements.vectors_of_items(as_stored=False, alive=False, signed=False)
SELECT embeddings.namespace, embeddings."key", embeddings.field, embeddings.model, embeddings.part,
  embeddings.vector
FROM embeddings
WHERE embeddings.tenant = ?
AND (embeddings.namespace, embeddings."key") IN (
  WITH listed AS MATERIALIZED (
    SELECT each_listed.namespace AS namespace, each_listed."key" AS "key"
    FROM (
      SELECT json_extract(each.value, '$[0]') AS namespace, json_extract(each.value, '$[1]') AS key
      FROM json_each(?) AS each) AS each_listed)
  SELECT listed.namespace, listed."key"
  FROM listed)

-- search.cache_versions.begin_counting()
INSERT INTO store_items (tenant, namespace, "key", meta, version, codec, checksum, created_at,
    updated_at, value)
VALUES (?, ?, ?, json_object(?, ?, ?, ?), ?, ?, ?, ?, ?, ?)

-- search.cache_versions.bump_vectors(removes=False)
UPDATE store_items
SET meta=json_set(store_items.meta, ?, ?), version=(store_items.version + ?), updated_at=?
WHERE store_items.tenant = ?
AND store_items.namespace = ?
AND store_items."key" = ?
RETURNING version

-- search.cache_versions.delete_counters()
DELETE FROM store_items
WHERE store_items.tenant = ?
AND store_items.namespace = ?
AND store_items.value >= ?
AND store_items.value < ?

-- search.cache_versions.read_counter()
SELECT store_items.value AS path, store_items.version, json_extract(store_items.meta, ?) AS nonce,
  store_items.created_at AS born, json_extract(store_items.meta, ?) AS removed
FROM store_items
WHERE store_items.tenant = ?
AND store_items.namespace = ?
AND store_items."key" = ?

-- search.cache_versions.read_counters()
SELECT store_items.value AS path, store_items.version, json_extract(store_items.meta, ?) AS nonce,
  store_items.created_at AS born, json_extract(store_items.meta, ?) AS removed
FROM store_items
WHERE store_items.tenant = ?
AND store_items.namespace = ?
AND (store_items."key" >= ?
  AND store_items."key" < ?
  OR store_items."key" >= ?
  AND store_items."key" < ?)

-- search.kept_http_answers.delete_kept_answers()
DELETE FROM store_items
WHERE store_items.tenant = ?
AND store_items.namespace = ?

-- search.missing_items.read_any_item()
SELECT store_items.namespace, store_items."key", store_items.meta, store_items.version,
  store_items.codec, store_items.checksum, store_items.created_at, store_items.updated_at,
  store_items.expires_at, store_items.lifetime, store_items.signature, store_items.value
FROM store_items
WHERE store_items.tenant = ?
AND store_items.namespace = ?
AND store_items."key" = ?

-- search.text.count_item_terms(below=False)
WITH hits AS (
  WITH given AS MATERIALIZED (
    SELECT value AS query, (
      SELECT count(*)
      FROM (
        SELECT 1
        FROM store_items_search
        WHERE store_items_search MATCH 'search_text : ' || value
        LIMIT 200 )) < 200 AS few
    FROM json_each(?)), asked AS MATERIALIZED (
    SELECT query, few, CASE
    WHEN few THEN ?
    ELSE ? || ' AND ' END || 'search_text : ' || query AS wanted
    FROM given)
  SELECT asked.query AS term, store_items_search.rowid AS row_at
  FROM asked
  CROSS
  JOIN store_items_search ON store_items_search MATCH asked.wanted
  WHERE NOT asked.few
  OR EXISTS (
    SELECT 1
    FROM store_items
    WHERE store_items.rowid = store_items_search.rowid
    AND store_items.tenant = ?
    AND store_items.namespace = ?))
SELECT hits.term, count(*) AS occurrences
FROM hits
GROUP BY hits.term

-- search.text.count_log_terms(below=False)
WITH hits AS (
  WITH given AS MATERIALIZED (
    SELECT value AS query, (
      SELECT count(*)
      FROM (
        SELECT 1
        FROM deltas_search
        WHERE deltas_search MATCH 'search_text : ' || value
        LIMIT 200 )) < 200 AS few
    FROM json_each(?)), asked AS MATERIALIZED (
    SELECT query, few, CASE
    WHEN few THEN ''
    ELSE ? || ' AND ' END || 'search_text : ' || query AS wanted
    FROM given)
  SELECT asked.query AS term, deltas.log_id AS log_id, deltas.seq AS seq
  FROM asked
  CROSS
  JOIN deltas_search ON deltas_search MATCH asked.wanted
  CROSS
  JOIN deltas ON deltas.rowid = deltas_search.rowid
  CROSS
  JOIN threads ON threads.log_id = deltas.log_id
  WHERE threads.tenant = ?
  AND threads.namespace = ?)
SELECT hits.term, count(*) AS occurrences
FROM hits
GROUP BY hits.term

-- search.text.narrowed_items(below=False)
WITH within AS (
  SELECT store_items.namespace AS namespace, store_items.key AS key,
    store_items.updated_at AS updated_at
  FROM store_items_search
  CROSS
  JOIN store_items ON store_items.rowid = store_items_search.rowid
  WHERE store_items_search MATCH ?)
SELECT within.namespace, within."key", within.updated_at
FROM within
LIMIT ?
OFFSET ?

-- search.text.newest_narrowed(below=False, words=False)
WITH within AS (
  SELECT store_items.namespace AS namespace, store_items.key AS key,
    store_items.updated_at AS updated_at
  FROM store_items_search
  CROSS
  JOIN store_items ON store_items.rowid = store_items_search.rowid
  WHERE store_items_search MATCH ?), found AS MATERIALIZED (
  SELECT within.updated_at AS updated_at, within.namespace AS namespace, within."key" AS "key"
  FROM within
  LIMIT ?
  OFFSET ?), few AS MATERIALIZED (
  SELECT count(*) AS number
  FROM found),
page AS (
  SELECT found.updated_at AS updated_at, found.namespace AS namespace, found."key" AS "key"
  FROM found
  ORDER BY found.updated_at DESC, found.namespace DESC, found."key" DESC
  LIMIT ?
  OFFSET ?)
SELECT few.number, store_items.namespace, store_items."key", store_items.meta, store_items.version,
  store_items.codec, store_items.checksum, store_items.created_at, store_items.updated_at,
  store_items.expires_at, store_items.lifetime, store_items.signature, store_items.value
FROM few LEFT OUTER
JOIN page ON few.number <= ? LEFT OUTER
JOIN store_items ON store_items.tenant = ?
AND store_items.namespace = page.namespace
AND store_items."key" = page."key"
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > ?)
ORDER BY page.updated_at DESC, page.namespace DESC, page."key" DESC

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
  WITH listed AS MATERIALIZED (
    SELECT each_listed.log_id AS log_id, each_listed.seq AS seq
    FROM (
      SELECT substr(?, 16 * each.key + 1, 16) AS log_id, json_extract(each.value, '$[1]') AS seq
      FROM json_each(?) AS each) AS each_listed)
  SELECT listed.log_id, CAST(listed.seq AS BIGINT) AS seq
  FROM listed)

-- search.text.read_found_entries()
SELECT deltas.log_id, deltas.seq, deltas.entry_key, deltas.occurred_at, deltas.stored_at,
  deltas.codec, deltas.checksum, deltas.search_text, deltas.payload, deltas.signature,
  threads.thread_id, threads.namespace
FROM deltas
JOIN threads ON threads.log_id = deltas.log_id
WHERE (deltas.log_id, deltas.seq) IN (
  WITH listed AS MATERIALIZED (
    SELECT each_listed.log_id AS log_id, each_listed.seq AS seq
    FROM (
      SELECT substr(?, 16 * each.key + 1, 16) AS log_id, json_extract(each.value, '$[1]') AS seq
      FROM json_each(?) AS each) AS each_listed)
  SELECT listed.log_id, CAST(listed.seq AS BIGINT) AS seq
  FROM listed)
AND deltas.kind IN ('entry')

-- search.text.search_checkpoints(scope=namespace, weighed=False, one=False, rare=False, last_stored=False)
WITH hits AS (
  WITH given AS MATERIALIZED (
    SELECT value AS query, (
      SELECT count(*)
      FROM (
        SELECT 1
        FROM deltas_search
        WHERE deltas_search MATCH 'search_text : ' || value
        LIMIT 200 )) < 200 AS few
    FROM json_each(?)), asked AS MATERIALIZED (
    SELECT query, few, CASE
    WHEN few THEN ''
    ELSE ? || ' AND ' END || 'search_text : ' || query AS wanted
    FROM given)
  SELECT asked.query AS term, deltas.log_id AS log_id, deltas.seq AS seq
  FROM asked
  CROSS
  JOIN deltas_search ON deltas_search MATCH asked.wanted
  CROSS
  JOIN deltas ON deltas.rowid = deltas_search.rowid
  CROSS
  JOIN threads ON threads.log_id = deltas.log_id
  WHERE threads.tenant = ?
  AND threads.namespace = ?),
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
    ((scale.most - common.bits) + 1) * ((scale.most - common.bits) + 1) * ? + ((scale.most - scale.least) + 1) * ((scale.most - scale.least) + 1) AS weight, (scale.most + 2) * (scale.most + 2) * ? + ((scale.most - scale.least) + 1) * ((scale.most - scale.least) + 1) AS missing
  FROM common
  JOIN scale ON scale.most > -1),
ranked AS (
  SELECT hits.log_id AS log_id, hits.seq AS seq, sum(worth.weight) AS weight
  FROM hits
  JOIN worth ON worth.term = hits.term
  GROUP BY hits.log_id, hits.seq HAVING count(*) >= ?), best AS MATERIALIZED (
  SELECT checkpoints.log_id AS log_id, checkpoints.seq AS seq, checkpoints.created_at AS created_at,
    threads.thread_id AS thread_id, threads.namespace AS namespace, ranked.weight AS weight
  FROM ranked
  JOIN checkpoints ON checkpoints.log_id = ranked.log_id
  AND checkpoints.seq = ranked.seq
  JOIN threads ON threads.log_id = ranked.log_id
  WHERE threads.deleted_at IS NULL
  AND (threads.expires_at IS NULL
    OR threads.expires_at > ?)
  ORDER BY ranked.weight DESC, checkpoints.created_at DESC, threads.thread_id DESC,
    threads.namespace DESC, checkpoints.seq DESC
  LIMIT ?
  OFFSET ?)
SELECT best.log_id, best.seq, CAST(best.weight AS FLOAT) / (CAST((
      SELECT coalesce(sum(worth.weight) + max(worth.missing) * (? - count(*)), 1) AS coalesce_1
      FROM worth) AS FLOAT) + 0.0) AS score
FROM best
ORDER BY best.weight DESC, best.created_at DESC, best.thread_id DESC, best.namespace DESC,
  best.seq DESC

-- search.text.search_entries(scope=namespace, weighed=False, one=False, rare=False)
WITH hits AS (
  WITH given AS MATERIALIZED (
    SELECT value AS query, (
      SELECT count(*)
      FROM (
        SELECT 1
        FROM deltas_search
        WHERE deltas_search MATCH 'search_text : ' || value
        LIMIT 200 )) < 200 AS few
    FROM json_each(?)), asked AS MATERIALIZED (
    SELECT query, few, CASE
    WHEN few THEN ''
    ELSE ? || ' AND ' END || 'search_text : ' || query AS wanted
    FROM given)
  SELECT asked.query AS term, deltas.log_id AS log_id, deltas.seq AS seq
  FROM asked
  CROSS
  JOIN deltas_search ON deltas_search MATCH asked.wanted
  CROSS
  JOIN deltas ON deltas.rowid = deltas_search.rowid
  CROSS
  JOIN threads ON threads.log_id = deltas.log_id
  WHERE threads.tenant = ?
  AND threads.namespace = ?),
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
    ((scale.most - common.bits) + 1) * ((scale.most - common.bits) + 1) * ? + ((scale.most - scale.least) + 1) * ((scale.most - scale.least) + 1) AS weight, (scale.most + 2) * (scale.most + 2) * ? + ((scale.most - scale.least) + 1) * ((scale.most - scale.least) + 1) AS missing
  FROM common
  JOIN scale ON scale.most > -1),
ranked AS (
  SELECT hits.log_id AS log_id, hits.seq AS seq, sum(worth.weight) AS weight
  FROM hits
  JOIN worth ON worth.term = hits.term
  GROUP BY hits.log_id, hits.seq HAVING count(*) >= ?), best AS MATERIALIZED (
  SELECT deltas.log_id AS log_id, deltas.seq AS seq, deltas.stored_at AS stored_at,
    threads.thread_id AS thread_id, threads.namespace AS namespace, ranked.weight AS weight
  FROM ranked
  JOIN deltas ON deltas.log_id = ranked.log_id
  AND deltas.seq = ranked.seq
  JOIN threads ON threads.log_id = ranked.log_id
  WHERE threads.deleted_at IS NULL
  AND (threads.expires_at IS NULL
    OR threads.expires_at > ?)
  AND deltas.kind IN ('entry')
  ORDER BY ranked.weight DESC, deltas.stored_at DESC, deltas.seq DESC, threads.thread_id DESC
  LIMIT ?
  OFFSET ?)
SELECT best.log_id, best.seq, best.thread_id, best.namespace, CAST(best.weight AS FLOAT) / (CAST((
      SELECT coalesce(sum(worth.weight) + max(worth.missing) * (? - count(*)), 1) AS coalesce_1
      FROM worth) AS FLOAT) + 0.0) AS score
FROM best
ORDER BY best.weight DESC, best.stored_at DESC, best.seq DESC, best.thread_id DESC

-- search.text.search_items(below=False, weighed=False, one=False, rare=False, words=False)
WITH hits AS (
  WITH given AS MATERIALIZED (
    SELECT value AS query, (
      SELECT count(*)
      FROM (
        SELECT 1
        FROM store_items_search
        WHERE store_items_search MATCH 'search_text : ' || value
        LIMIT 200 )) < 200 AS few
    FROM json_each(?)), asked AS MATERIALIZED (
    SELECT query, few, CASE
    WHEN few THEN ?
    ELSE ? || ' AND ' END || 'search_text : ' || query AS wanted
    FROM given)
  SELECT asked.query AS term, store_items_search.rowid AS row_at
  FROM asked
  CROSS
  JOIN store_items_search ON store_items_search MATCH asked.wanted
  WHERE NOT asked.few
  OR EXISTS (
    SELECT 1
    FROM store_items
    WHERE store_items.rowid = store_items_search.rowid
    AND store_items.tenant = ?
    AND store_items.namespace = ?)),
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
    ((scale.most - common.bits) + 1) * ((scale.most - common.bits) + 1) * ? + ((scale.most - scale.least) + 1) * ((scale.most - scale.least) + 1) AS weight, (scale.most + 2) * (scale.most + 2) * ? + ((scale.most - scale.least) + 1) * ((scale.most - scale.least) + 1) AS missing
  FROM common
  JOIN scale ON scale.most > -1),
ranked AS (
  SELECT hits.row_at AS row_at, sum(worth.weight) AS weight
  FROM hits
  JOIN worth ON worth.term = hits.term
  GROUP BY hits.row_at HAVING count(*) >= ?), best AS MATERIALIZED (
  SELECT store_items.namespace AS namespace, store_items."key" AS "key",
    store_items.updated_at AS updated_at, length(CAST(store_items.search_text AS BLOB)) AS text_size,
    ranked.weight AS weight, ranked.row_at AS row_at
  FROM ranked
  JOIN store_items ON store_items.rowid = ranked.row_at
  WHERE store_items.expires_at IS NULL
  OR store_items.expires_at > ?
  ORDER BY ranked.weight DESC, length(CAST(store_items.search_text AS BLOB)) / 8,
    store_items.updated_at DESC, store_items.namespace, store_items."key"
  LIMIT ?
  OFFSET ?)
SELECT best.namespace, best."key", CAST(best.weight AS FLOAT) / (CAST((
      SELECT coalesce(sum(worth.weight) + max(worth.missing) * (? - count(*)), 1) AS coalesce_1
      FROM worth) AS FLOAT) + 0.0) AS score
FROM best
ORDER BY best.weight DESC, best.text_size / 8, best.updated_at DESC, best.namespace, best."key"

-- store.read.count_items(below=False)
SELECT count(*) AS count_1
FROM store_items
WHERE store_items.tenant = ?
AND store_items.namespace = ?
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > ?)

-- store.read.delete_expired()
DELETE FROM store_items
WHERE store_items.tenant = ?
AND store_items.expires_at <= ?
AND (store_items.namespace, store_items."key") IN (
  WITH listed AS MATERIALIZED (
    SELECT each_listed.namespace AS namespace, each_listed."key" AS "key"
    FROM (
      SELECT json_extract(each.value, '$[0]') AS namespace, json_extract(each.value, '$[1]') AS key
      FROM json_each(?) AS each) AS each_listed)
  SELECT listed.namespace, listed."key"
  FROM listed)

-- store.read.find_dimensions(below=False, given=False)
SELECT embeddings.dimensions
FROM embeddings
WHERE embeddings.tenant = ?
AND embeddings.namespace = ?
AND embeddings.model = ?
ORDER BY embeddings.dimensions
LIMIT ?
OFFSET ?

-- store.read.has_item()
SELECT store_items.version
FROM store_items
WHERE store_items.tenant = ?
AND store_items.namespace = ?
AND store_items."key" = ?
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > ?)

-- store.read.list_expired(after=True)
SELECT store_items.expires_at, store_items.namespace, store_items."key"
FROM store_items
WHERE store_items.tenant = ?
AND store_items.expires_at <= ?
AND (store_items.expires_at, store_items.namespace, store_items."key") > (?, ?, ?)
ORDER BY store_items.expires_at, store_items.namespace, store_items."key"
LIMIT ?
OFFSET ?

-- store.read.list_items(order=newest, below=False, after=False)
SELECT store_items.namespace, store_items."key", store_items.meta, store_items.version,
  store_items.codec, store_items.checksum, store_items.created_at, store_items.updated_at,
  store_items.expires_at, store_items.lifetime, store_items.signature, store_items.value
FROM store_items
WHERE store_items.tenant = ?
AND store_items.namespace = ?
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > ?)
ORDER BY store_items.updated_at DESC, store_items.namespace DESC, store_items."key" DESC
LIMIT ?
OFFSET ?

-- store.read.list_keys(after=False)
SELECT store_items."key"
FROM store_items
WHERE store_items.tenant = ?
AND store_items.namespace = ?
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > ?)
ORDER BY store_items."key"
LIMIT ?
OFFSET ?

-- store.read.list_lifetimes()
SELECT store_items.namespace, store_items."key", store_items.version, store_items.lifetime
FROM store_items
WHERE store_items.tenant = ?
AND (store_items.namespace, store_items."key") IN (
  WITH listed AS MATERIALIZED (
    SELECT each_listed.namespace AS namespace, each_listed."key" AS "key"
    FROM (
      SELECT json_extract(each.value, '$[0]') AS namespace, json_extract(each.value, '$[1]') AS key
      FROM json_each(?) AS each) AS each_listed)
  SELECT listed.namespace, listed."key"
  FROM listed)
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > ?)
AND store_items.lifetime IS NOT NULL

-- store.read.list_paths()
WITH RECURSIVE paths(place) AS (
  SELECT (
    SELECT min(later.namespace) AS min_1
    FROM store_items AS later
    WHERE later.tenant = ?
    AND later.namespace >= ?
    AND later.namespace < ?
    AND NOT (later.namespace >= ?
      AND later.namespace < ?)
    AND (later.expires_at IS NULL
      OR later.expires_at > ?)) AS place
  UNION ALL
  SELECT (
    SELECT min(later.namespace) AS min_2
    FROM store_items AS later
    WHERE later.tenant = ?
    AND later.namespace > paths.place
    AND later.namespace < ?
    AND NOT (later.namespace >= ?
      AND later.namespace < ?)
    AND (later.expires_at IS NULL
      OR later.expires_at > ?)) AS anon_1
  FROM paths
  WHERE paths.place IS NOT NULL)
SELECT paths.place
FROM paths
WHERE paths.place IS NOT NULL
LIMIT ?
OFFSET ?

-- store.read.read_item()
SELECT store_items.namespace, store_items."key", store_items.meta, store_items.version,
  store_items.codec, store_items.checksum, store_items.created_at, store_items.updated_at,
  store_items.expires_at, store_items.lifetime, store_items.signature, store_items.value
FROM store_items
WHERE store_items.tenant = ?
AND store_items.namespace = ?
AND store_items."key" = ?
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > ?)

-- store.read.read_items(words=False)
SELECT store_items.namespace, store_items."key", store_items.meta, store_items.version,
  store_items.codec, store_items.checksum, store_items.created_at, store_items.updated_at,
  store_items.expires_at, store_items.lifetime, store_items.signature, store_items.value
FROM store_items
WHERE store_items.tenant = ?
AND (store_items.namespace, store_items."key") IN (
  WITH listed AS MATERIALIZED (
    SELECT each_listed.namespace AS namespace, each_listed."key" AS "key"
    FROM (
      SELECT json_extract(each.value, '$[0]') AS namespace, json_extract(each.value, '$[1]') AS key
      FROM json_each(?) AS each) AS each_listed)
  SELECT listed.namespace, listed."key"
  FROM listed)
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > ?)

-- store.read.read_vector()
SELECT embeddings.namespace, embeddings."key", embeddings.field, embeddings.model, embeddings.part,
  embeddings.dimensions, embeddings.vector, embeddings.signature AS vector_signature,
  store_items.version
FROM embeddings
JOIN store_items ON store_items.tenant = embeddings.tenant
AND store_items.namespace = embeddings.namespace
AND store_items."key" = embeddings."key"
WHERE embeddings.tenant = ?
AND embeddings.namespace = ?
AND embeddings."key" = ?
AND embeddings.field = ?
AND embeddings.model = ?
AND embeddings.part = ?
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > ?)

-- store.reembedding.count_items_without_vectors(below=False)
SELECT count(*) AS count_1
FROM (
  SELECT store_items.namespace AS namespace, store_items."key" AS "key"
  FROM store_items
  WHERE store_items.tenant = ?
  AND store_items.namespace = ?
  AND (store_items.expires_at IS NULL
    OR store_items.expires_at > ?) EXCEPT
  SELECT embeddings.namespace AS namespace, embeddings."key" AS "key"
  FROM embeddings
  WHERE embeddings.tenant = ?
  AND embeddings.namespace = ?
  AND embeddings.model = ?
  AND embeddings.dimensions = ?) AS lacking

-- store.reembedding.list_places(below=False, after=False)
SELECT store_items.namespace, store_items."key", length(store_items.value) AS stored
FROM store_items
WHERE store_items.tenant = ?
AND store_items.namespace = ?
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > ?)
ORDER BY store_items.namespace, store_items."key"
LIMIT ?
OFFSET ?

-- store.reembedding.read_items_to_embed()
SELECT store_items.namespace, store_items."key", store_items.meta, store_items.version,
  store_items.codec, store_items.checksum, store_items.created_at, store_items.updated_at,
  store_items.expires_at, store_items.lifetime, store_items.signature, store_items.value
FROM store_items
WHERE store_items.tenant = ?
AND (store_items.namespace, store_items."key") IN (
  WITH listed AS MATERIALIZED (
    SELECT each_listed.namespace AS namespace, each_listed."key" AS "key"
    FROM (
      SELECT json_extract(each.value, '$[0]') AS namespace, json_extract(each.value, '$[1]') AS key
      FROM json_each(?) AS each) AS each_listed)
  SELECT listed.namespace, listed."key"
  FROM listed)
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > ?)

-- store.write.clear_items(below=False)
DELETE FROM store_items
WHERE store_items.tenant = ?
AND store_items.namespace = ?

-- store.write.delete_item(expected=any)
DELETE FROM store_items
WHERE store_items.tenant = ?
AND store_items.namespace = ?
AND store_items."key" = ?
RETURNING expires_at

-- store.write.delete_items()
DELETE FROM store_items
WHERE store_items.tenant = ?
AND (store_items.namespace, store_items."key") IN (
  WITH listed AS MATERIALIZED (
    SELECT each_listed.namespace AS namespace, each_listed."key" AS "key"
    FROM (
      SELECT json_extract(each.value, '$[0]') AS namespace, json_extract(each.value, '$[1]') AS key
      FROM json_each(?) AS each) AS each_listed)
  SELECT listed.namespace, listed."key"
  FROM listed)
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > ?)

-- store.write.delete_other_vectors()
DELETE FROM embeddings
WHERE embeddings.tenant = ?
AND embeddings.namespace = ?
AND embeddings."key" = ?
AND NOT (EXISTS (
    WITH listed AS MATERIALIZED (
      SELECT each_listed.field AS field, each_listed.model AS model, each_listed.part AS part
      FROM (
        SELECT json_extract(each.value, '$[0]') AS field, json_extract(each.value, '$[1]') AS model,
          json_extract(each.value, '$[2]') AS part
        FROM json_each(?) AS each) AS each_listed)
    SELECT 1
    FROM listed
    WHERE embeddings.field = listed.field
    AND embeddings.model = listed.model
    AND CAST(embeddings.part AS TEXT) = listed.part))

-- store.write.delete_vectors()
DELETE FROM embeddings
WHERE embeddings.tenant = ?
AND embeddings.namespace = ?
AND embeddings."key" = ?

-- store.write.delete_vectors_of_items()
DELETE FROM embeddings
WHERE embeddings.tenant = ?
AND (embeddings.namespace, embeddings."key") IN (
  WITH listed AS MATERIALIZED (
    SELECT each_listed.namespace AS namespace, each_listed."key" AS "key"
    FROM (
      SELECT json_extract(each.value, '$[0]') AS namespace, json_extract(each.value, '$[1]') AS key
      FROM json_each(?) AS each) AS each_listed)
  SELECT listed.namespace, listed."key"
  FROM listed)

-- store.write.delete_vectors_of_model(of_field=False)
DELETE FROM embeddings
WHERE embeddings.tenant = ?
AND embeddings.namespace = ?
AND embeddings."key" = ?
AND embeddings.model = ?

-- store.write.extend_lifetime()
UPDATE store_items
SET expires_at=?
WHERE store_items.tenant = ?
AND store_items.namespace = ?
AND store_items."key" = ?
AND store_items.version = ?
AND store_items.lifetime = ?
AND store_items.expires_at < ?
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > ?)

-- store.write.list_vector_names()
SELECT embeddings.namespace, embeddings."key", embeddings.field, embeddings.model, embeddings.part,
  embeddings.dimensions
FROM embeddings
WHERE embeddings.tenant = ?
AND (embeddings.namespace, embeddings."key") IN (
  WITH listed AS MATERIALIZED (
    SELECT each_listed.namespace AS namespace, each_listed."key" AS "key"
    FROM (
      SELECT json_extract(each.value, '$[0]') AS namespace, json_extract(each.value, '$[1]') AS key
      FROM json_each(?) AS each) AS each_listed)
  SELECT listed.namespace, listed."key"
  FROM listed)

-- store.write.lock_item()
UPDATE store_items
SET version=store_items.version
WHERE store_items.tenant = ?
AND store_items.namespace = ?
AND store_items."key" = ?
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > ?)
RETURNING version, created_at

-- store.write.lock_items()
UPDATE store_items
SET version=store_items.version
WHERE store_items.tenant = ?
AND (store_items.namespace, store_items."key") IN (
  WITH listed AS MATERIALIZED (
    SELECT each_listed.namespace AS namespace, each_listed."key" AS "key"
    FROM (
      SELECT json_extract(each.value, '$[0]') AS namespace, json_extract(each.value, '$[1]') AS key
      FROM json_each(?) AS each) AS each_listed)
  SELECT listed.namespace, listed."key"
  FROM listed)
AND (store_items.expires_at IS NULL
  OR store_items.expires_at > ?)
RETURNING namespace, "key", version, created_at

-- store.write.put_item(expected=any)
INSERT INTO store_items (tenant, namespace, "key", meta, version, codec, checksum, search_text,
    field_terms, created_at, updated_at, expires_at, lifetime, signature, value)
VALUES (?, ?, ?, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant, namespace, "key")
DO UPDATE SET meta = excluded.meta, version = CASE
WHEN (store_items.expires_at IS NULL
  OR store_items.expires_at > ?) THEN store_items.version + ?
ELSE 1 END, codec = excluded.codec, checksum = excluded.checksum,
  search_text = excluded.search_text, field_terms = excluded.field_terms, created_at = CASE
WHEN (store_items.expires_at IS NULL
  OR store_items.expires_at > ?) THEN store_items.created_at
ELSE excluded.updated_at END, updated_at = excluded.updated_at, expires_at = excluded.expires_at,
  lifetime = excluded.lifetime, signature = excluded.signature, value = excluded.value
RETURNING version

-- store.write.put_items(expected=any)
INSERT INTO store_items (tenant, namespace, "key", meta, codec, checksum, search_text, field_terms,
    updated_at, expires_at, lifetime, value, signature, version, created_at)
SELECT ? AS tenant, i_given.namespace AS namespace, i_given."key" AS "key", i_given.meta AS meta,
  ? AS codec, i_given.checksum AS checksum, i_given.search_text AS search_text,
  i_given.field_terms AS field_terms, ? AS updated_at, i_given.expires_at AS expires_at,
  i_given.lifetime AS lifetime, i_given.value AS value, NULL AS signature, 1 AS version,
  ? AS created_at
FROM (
  SELECT json_extract(each.value, '$[0]') AS namespace, json_extract(each.value, '$[1]') AS key,
    json_extract(each.value, '$[2]') AS meta, json_extract(each.value, '$[3]') AS checksum,
    json_extract(each.value, '$[4]') AS search_text, json_extract(each.value, '$[5]') AS field_terms,
    json_extract(each.value, '$[6]') AS expires_at, json_extract(each.value, '$[7]') AS lifetime,
    substr(?, json_extract(each.value, '$[8][0]'), json_extract(each.value, '$[8][1]')) AS value
  FROM json_each(?) AS each) AS i_given
WHERE 1
ON CONFLICT (tenant, namespace, "key")
DO UPDATE SET meta = excluded.meta, version = CASE
WHEN (store_items.expires_at IS NULL
  OR store_items.expires_at > ?) THEN store_items.version + ?
ELSE 1 END, codec = excluded.codec, checksum = excluded.checksum,
  search_text = excluded.search_text, field_terms = excluded.field_terms, created_at = CASE
WHEN (store_items.expires_at IS NULL
  OR store_items.expires_at > ?) THEN store_items.created_at
ELSE excluded.updated_at END, updated_at = excluded.updated_at, expires_at = excluded.expires_at,
  lifetime = excluded.lifetime, signature = excluded.signature, value = excluded.value
RETURNING namespace, "key", version

-- store.write.put_vector(native=True)
INSERT INTO embeddings (tenant, namespace, "key", field, model, part, dimensions, change,
    signature, vector)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant, namespace, "key", field, model, part)
DO UPDATE SET dimensions = excluded.dimensions, change = excluded.change,
  signature = excluded.signature, vector = excluded.vector

-- store.write.set_item_times()
UPDATE store_items
SET created_at=coalesce(?, store_items.created_at), updated_at=coalesce(?, store_items.updated_at),
  expires_at=coalesce(?, store_items.expires_at)
WHERE store_items.tenant = ?
AND store_items.namespace = ?
AND store_items."key" = ?
AND store_items.updated_at = ?

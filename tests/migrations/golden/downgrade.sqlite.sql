BEGIN;

-- Running downgrade 0001 -> 

DROP TABLE deltas_search;

DROP TABLE checkpoints_meta;

DROP TABLE store_items_search;

DROP TABLE embeddings;

DROP TABLE store_items;

DROP TABLE deltas;

DROP TABLE checkpoints;

DROP TABLE threads;

DELETE FROM memalchemy_version WHERE memalchemy_version.version_num = '0001';

COMMIT;


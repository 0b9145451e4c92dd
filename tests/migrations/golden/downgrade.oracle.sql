-- Running downgrade 0004 -> 0003

DROP INDEX ix_checkpoints_rests_on

/

ALTER TABLE checkpoints DROP COLUMN rests_on

/

ALTER TABLE checkpoints DROP COLUMN ordinal

/

ALTER TABLE threads DROP COLUMN last_ordinal

/

UPDATE memalchemy_version SET version_num='0003' WHERE memalchemy_version.version_num = '0004'

/

-- Running downgrade 0003 -> 0002

DROP INDEX ix_store_items_search

/

ALTER TABLE store_items DROP COLUMN field_terms

/

ALTER TABLE store_items DROP COLUMN lifetime

/

UPDATE memalchemy_version SET version_num='0002' WHERE memalchemy_version.version_num = '0003'

/

-- Running downgrade 0002 -> 0001

UPDATE memalchemy_version SET version_num='0001' WHERE memalchemy_version.version_num = '0002'

/

-- Running downgrade 0001 -> 

DROP TABLE embeddings

/

DROP TABLE store_items

/

DROP TABLE deltas

/

DROP TABLE checkpoints

/

DROP TABLE threads

/

DELETE FROM memalchemy_version WHERE memalchemy_version.version_num = '0001'

/

COMMIT

/


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


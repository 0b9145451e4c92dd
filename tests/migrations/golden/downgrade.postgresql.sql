BEGIN;

DO '
DECLARE
  usual text := current_setting(''lock_timeout'');
  patience text := (
    SELECT greatest(setting::int / 2, 1) || ''ms'' FROM pg_settings WHERE name = ''deadlock_timeout'');
BEGIN
  FOR number IN 1..30 LOOP
    BEGIN
      PERFORM set_config(''lock_timeout'', patience, true);
      LOCK TABLE store_items, threads, checkpoints, deltas, embeddings IN ACCESS EXCLUSIVE MODE;
      PERFORM set_config(''lock_timeout'', usual, true);
      RETURN;
    EXCEPTION WHEN lock_not_available THEN
      IF number = 30 THEN RAISE; END IF;
    END;
    PERFORM pg_sleep(0.5);
  END LOOP;
END';

-- Running downgrade 0001 -> 

DROP TABLE embeddings;

DROP TABLE store_items;

DROP TABLE deltas;

DROP TABLE checkpoints;

DROP TABLE threads;

DELETE FROM memalchemy_version WHERE memalchemy_version.version_num = '0001';

COMMIT;


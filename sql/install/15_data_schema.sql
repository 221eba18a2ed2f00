-- Hidden relations: rows of INSERT-able streams, the state's log and table
-- store. Made by C code as the extension's owner and members of the extension,
-- so that pg_dump leaves them out and pg_upgrade keeps them; nobody has rights here.
CREATE SCHEMA streamx_data;
REVOKE ALL ON SCHEMA streamx_data FROM PUBLIC;
COMMENT ON SCHEMA streamx_data IS 'Hidden storage of streams and of query state; nothing in it is for users.';

-- The log of a query's state is kept in a ring of hidden tables,
-- streamx_data.state_log_<query>_<slot>. A row here says what a table in use holds.
CREATE TABLE streamx.state_generation (
	query bigint NOT NULL,
	part int NOT NULL,				-- of the key groups: group / 32
	generation bigint NOT NULL,
	slot int NOT NULL,
	first_batch bigint NOT NULL,	-- changes from this batch on
	complete_batch bigint			-- every group of the part has a snapshot in it, the newest of this batch
);
CREATE UNIQUE INDEX state_generation_query_part ON streamx.state_generation (query, part, generation);
REVOKE ALL ON streamx.state_generation FROM PUBLIC;
COMMENT ON TABLE streamx.state_generation IS 'Which hidden tables hold the changelog and snapshots of a query''s state.';

\echo Use "CREATE EXTENSION streamx_state_test" to load this file. \quit

-- A random walk through every operation, against a simple model; raises an error
-- with its seed at the first difference.
CREATE PROCEDURE state_property_test(seed bigint, batches int, store text, memory_kb int, changelog boolean DEFAULT true)
LANGUAGE C AS 'MODULE_PATHNAME';

-- A state whose log can be damaged from SQL before it is opened again.
CREATE PROCEDURE state_fill(query bigint, store text, memory_kb int, batches int, keys int)
LANGUAGE C AS 'MODULE_PATHNAME';
CREATE FUNCTION state_rows(query bigint, store text, memory_kb int, batch bigint) RETURNS bigint
LANGUAGE C AS 'MODULE_PATHNAME';
CREATE FUNCTION state_drop(query bigint) RETURNS void
LANGUAGE C AS 'MODULE_PATHNAME';

-- New keys in batches, then hits, misses, updates, and a recovery; prints figures as notices.
CREATE PROCEDURE state_bench(store text, memory_kb int, keys int, batch_keys int)
LANGUAGE C AS 'MODULE_PATHNAME';

-- Keys of which some change in each batch: bytes of the changelog, of WAL and on disk.
CREATE PROCEDURE state_cost(store text, memory_kb int, keys int, changed int, batches int)
LANGUAGE C AS 'MODULE_PATHNAME';

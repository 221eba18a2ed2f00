# streamx: a PGXS build.  On a bare machine start with `make demo` or `make check`:
# they install what they need, and everything else here is run by them too.
#
#	make, make install		with PG_CONFIG=... for a certain server
#	make demo				a running query to look at; KAFKA=1: from a topic of a private broker
#	make check				every test; SUITES="regress kafka" for some of them
#	make oracle				the recorded Spark cases; CASES=folder for others, LONG=1 in every form
#	make crash				the long form of the crash matrix
#	make property			random queries and trouble; RUNS=2000, SEED=, ONLY=number of a run
#	make check16, check17, check18	builds for another PostgreSQL, runs most tests, upgrades to it
#	make valgrind			a representative part under valgrind
#	make asan				most tests under the address sanitizer, half an hour; SUITES="tap" TESTS="segments"
#	make bench			figures beside hand-made SQL and Spark; ONLY=sql, kafka or a part (test/bench/README.md)
#	make lint, make indent
#	make installcheck		the regression suite on the running server of PGHOST, PGPORT
all:

# The goals that set up the machine themselves must work without pg_config, so they
# stand apart from PGXS (which has a "check" of its own).
SCRIPTED = demo check oracle crash property check16 check17 check18 valgrind asan lint indent bench

ifneq ($(filter-out $(SCRIPTED),$(or $(MAKECMDGOALS),all)),)

EXTENSION    = streamx
EXTVERSION  := $(shell sed -n "s/^default_version *= *'\(.*\)'/\1/p" streamx.control)
MODULE_big   = streamx
ROOMS        = base row time registry monitor format kafka state checkpoint source sink plan exec engine worker api
OBJS         = $(patsubst %.c,%.o,$(sort $(wildcard src/*.c $(ROOMS:%=src/%/*.c)))) \
	$(patsubst %.cc,%.o,$(sort $(wildcard $(ROOMS:%=src/%/*.cc)))) \
	$(SYNTAX_SHARED)
# The grammar of CREATE STREAM: in streamx_syntax, and in create_stream().
SYNTAX_SHARED = $(addprefix src/syntax/,statement_scan.o rewrite.o stream_ddl.o table_like.o)
DATA         = $(wildcard sql/streamx--*--*.sql)
DATA_built   = sql/streamx--$(EXTVERSION).sql
EXTRA_CLEAN  = results regression.diffs regression.out output_iso tmp_check tmp_check_iso test/harness/kafkatool
PG_CPPFLAGS  = -I$(CURDIR)/src $(SX_CPPFLAGS)
PG_CXXFLAGS  = -std=c++17 -fPIC
SHLIB_LINK   = -Wl,--version-script=$(CURDIR)/src/streamx.exports -lrocksdb -lzstd -lrdkafka -lcurl -lpthread -lstdc++

REGRESS        = $(sort $(notdir $(basename $(wildcard test/sql/*.sql))))
REGRESS_OPTS   = --inputdir=test --load-extension=pgtap --load-extension=streamx
ISOLATION      = $(sort $(notdir $(basename $(wildcard test/specs/*.spec))))
ISOLATION_OPTS = --inputdir=test --outputdir=. --load-extension=streamx

override with_llvm := no
PG_CONFIG   ?= pg_config
PGXS        := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

# The folder itself, so that a file taken away counts too.
sql/streamx--$(EXTVERSION).sql: $(sort $(wildcard sql/install/*.sql)) sql/install
	cat $(filter %.sql,$^) > $@

# Every object depends on every header: the whole tree compiles in a minute,
# and a stale object would be worse.
$(OBJS): $(wildcard src/*/*.h) src/streamx.exports

# Topics and records for tests, demo and bench.
test/harness/kafkatool: test/harness/kafkatool.c
	$(CC) -O2 -Wall -o $@.new $< -lrdkafka && mv $@.new $@

# Extensions that only tests load.
.PHONY: test-modules
test-modules: test/harness/kafkatool
	for module in streamx_state_test streamx_memory_test streamx_kafka_test streamx_format_test streamx_handler_test; do \
		$(MAKE) -C test/modules/$$module install \
			PG_CONFIG='$(PG_CONFIG)' PG_CFLAGS='$(PG_CFLAGS)' SX_CPPFLAGS='$(SX_CPPFLAGS)' || exit 1; \
	done
installcheck: test-modules

# CREATE STREAM is a library of its own; nothing else depends on it.
ifneq ($(wildcard src/syntax/Makefile),)
SYNTAX = $(MAKE) -C src/syntax PG_CONFIG='$(PG_CONFIG)' PG_CFLAGS='$(PG_CFLAGS)' SX_CPPFLAGS='$(SX_CPPFLAGS)'

all: syntax-all
install: syntax-install
uninstall: syntax-uninstall
clean: syntax-clean

.PHONY: syntax-all syntax-install syntax-uninstall syntax-clean
syntax-all syntax-install: $(SYNTAX_SHARED)
syntax-all syntax-install syntax-uninstall syntax-clean:
	$(SYNTAX) $(@:syntax-%=%)
endif

else

.PHONY: $(SCRIPTED)
demo:
	@KAFKA='$(KAFKA)' test/harness/demo.sh
check:
	@test/harness/check.sh $(SUITES)
oracle:
	@CASES='$(CASES)' SX_ORACLE_LONG='$(LONG)' test/harness/check.sh --verbose oracle
crash:
	@SX_CRASH_LONG=1 test/harness/check.sh --verbose crash
property:
	@SX_PROPERTY="--runs $(or $(RUNS),2000) $(if $(SEED),--seed '$(SEED)') $(if $(ONLY),--only $(ONLY))" test/harness/check.sh --verbose property
valgrind:
	@test/harness/check.sh --verbose valgrind
asan:
	@SX_ASAN=1 test/harness/check_version.sh 15
check16 check17 check18:
	@test/harness/check_version.sh $(@:check%=%)
lint:
	@test/lint/run
indent:
	@test/harness/indent.sh
bench:
	@ONLY='$(ONLY)' RUNS='$(RUNS)' LONG='$(LONG)' ROWS='$(ROWS)' SYSTEMS='$(SYSTEMS)' test/bench/run.sh

endif

# streamx: a PGXS build.  `make demo` and `make check` set up everything they need.
EXTENSION    = streamx
EXTVERSION  := $(shell sed -n "s/^default_version *= *'\(.*\)'/\1/p" streamx.control)
MODULE_big   = streamx
OBJS         = $(patsubst %.c,%.o,$(sort $(wildcard src/*.c src/base/*.c src/row/*.c src/time/*.c \
	src/registry/*.c src/monitor/*.c src/state/*.c src/checkpoint/*.c src/source/*.c src/sink/*.c \
	src/plan/*.c src/exec/*.c src/engine/*.c src/worker/*.c src/api/*.c))) \
	$(patsubst %.cc,%.o,$(sort $(wildcard src/*/*.cc)))
DATA         = $(wildcard sql/streamx--*--*.sql)
DATA_built   = sql/streamx--$(EXTVERSION).sql
PG_CPPFLAGS  = -I$(CURDIR)/src $(SX_CPPFLAGS)
PG_CXXFLAGS  = -std=c++17 -fPIC
SHLIB_LINK   = -Wl,--version-script=$(CURDIR)/src/streamx.exports -lrocksdb -lzstd -lstdc++
override with_llvm := no
PG_CONFIG   ?= pg_config
PGXS        := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

sql/streamx--$(EXTVERSION).sql: $(sort $(wildcard sql/install/*.sql))
	cat $^ > $@

# Every object depends on every header: the whole tree compiles in a minute,
# and a stale object would be worse.
$(OBJS): $(wildcard src/*/*.h)

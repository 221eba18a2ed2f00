#!/usr/bin/env bash
# indent.sh [--check] [file...]: the C sources as pgindent would write them.
# Typedefs are collected by ctags from the server's, the libraries' and our headers.
set -u
. "$(dirname "$0")/lib.sh"

check=
[ "${1:-}" = --check ] && { check=1; shift; }
need_packages $BUILD_PACKAGES pg-bsd-indent universal-ctags >&2
find_pg_config
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$top" || exit 1

ctags -R --languages=C,C++ --langmap=C:.c.h --c-kinds=t --c++-kinds=tsc -x --_xformat=%N \
	"$("$PG_CONFIG" --includedir-server)" /usr/include/rocksdb src 2>/dev/null |
	grep -E '^[A-Za-z_][A-Za-z0-9_]*$' | sort -u >"$work/typedefs"
printf '%s\n' size_t ssize_t pid_t time_t uint8_t uint32_t uint64_t int64_t >>"$work/typedefs"

rc=0
for file in ${*:-$(git ls-files 'src/*.c' 'src/*.h')}; do
	cp "$file" "$work/file.c"
	if ! pg_bsd_indent -bad -bap -bbb -bc -bl -cli1 -cp33 -cdb -nce -d0 -di12 -nfc1 -i4 -l79 -lp -lpl -nip -npro -sac \
		-tpg -ts4 -U"$work/typedefs" "$work/file.c" "$work/out.c" >"$work/err" 2>&1; then
		say "$file: $(head -3 "$work/err")"
		rc=1
		continue
	fi
	# what pgindent mends afterwards: the star of a return type on a line of its own
	sed -i -E 's/^([A-Za-z_][A-Za-z_0-9 ]*[A-Za-z_0-9])[ \t]+\*$/\1 */' "$work/out.c"
	if ! cmp -s "$file" "$work/out.c"; then
		if [ -n "$check" ]; then
			diff -u --label "$file" --label "$file (indented)" "$file" "$work/out.c"
			rc=1
		else
			cat "$work/out.c" >"$file"
			say "indented $file"
		fi
	fi
done
exit $rc

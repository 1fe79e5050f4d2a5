#!/bin/sh
# Writes the tables of docs/reliability.md anew from what tests said, which make
# reliability runs: scripts/reliability.sh LOG...
set -eu
cd "$(dirname "$0")/.."
page=docs/reliability.md
said=$(mktemp)
trap 'rm -f "$said" "$said".* "$page.new"' EXIT
go=${GO:-go}
for log; do
	# A log that a full disk cut off has less than what ran.
	[ "$(tail -n 1 "$log")" = "the log is whole" ] || { echo "$log was cut off: run make reliability again; $page stays as it is" >&2; exit 1; }
done
cat "$@" >"$said"

# tables prints the sums of the lines, in the order of their first ones.
tables() {
	echo "Made by \`make reliability\` on $(date -u +%F), $(uname -sr), $("$go" env GOOS)/$("$go" env GOARCH), $("$go" env GOVERSION)."
	grep -ao 'reliability: .*' "$said" | awk -F' *[|] *' '
		NF != 5 || $3 !~ /^runs [0-9]+$/ || $4 !~ /^lost [0-9]+$/ || $5 !~ /^twice [0-9]+[ \r]*$/ { print "not a line of the table: " $0 >"/dev/stderr"; bad = 1; exit 1 }
		{ sub(/^reliability: /, "", $1); sub(/^[a-z]+ answers (EIO|ENOSPC)$/, "a system call answers EIO or ENOSPC", $1)
		  sub(/^all fails with [A-Z]+, from each call on$/, "all calls fail, from each on (EIO, ENOSPC, EROFS)", $1); key = $1 " | " $2
		  if (!(key in runs)) order[++n] = key
		  split($3, a, " "); split($4, b, " "); split($5, c, " ")
		  runs[key] += a[2]; all += a[2]; l += b[2]; t += c[2] }
		END { if (bad || n == 0) exit 1
		  print "\nLost: " l + 0 ". Twice: " t + 0 ".\n\n| fault | operation | runs |\n|---|---|---:|"
		  for (i = 1; i <= n; i++) { split(order[i], f, / [|] /) # a fault that goes on has an empty cell
		    print "| " (f[1] == last ? "" : f[1]) " | " f[2] " | " runs[order[i]] " |"
		    last = f[1] }
		  print "| **all** | | **" all "** |" }'
	echo
	echo 'How often an operation was cut off at each crash point:'
	grep -ao 'crash point: .*' "$said" | awk -F' *[|] *' '
		{ sub(/^crash point: /, "", $1); item = "`" $1 "` " $4
		  if (NR == 1) { printf "\n%s", item; n = length(item); next }
		  if (n + length(item) > 117) { printf ",\n%s", item; n = length(item) }
		  else { printf ", %s", item; n += length(item) + 2 } }
		END { print "." }'
}

tables >"$said.tables"
awk -v tables="$said.tables" '
	/^<!-- reliability: table -->$/ { print; print ""; while ((getline line < tables) > 0) print line; print ""; skip = 1; found++ }
	/^<!-- reliability: end -->$/ { skip = 0; found++ }
	!skip { print }
	END { exit found != 2 }' "$page" >"$said.page"
# awk has printed the marker itself. The mode of the page stays, and so does the page if the disk is full.
cp -p "$page" "$page.new"
cat "$said.page" >"$page.new"
mv "$page.new" "$page"
grep -a '^| \*\*all' "$page"

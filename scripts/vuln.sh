#!/usr/bin/env bash
# Says which known vulnerabilities the programs can reach: scripts/vuln.sh [VERSION]
#
# govulncheck looks at what is called, in the modules and in Go's standard library. Both it and its database come
# from the module proxy, so that a machine with no other way out can look too. VERSION is that of the module
# golang.org/x/vulndb; without it the newest is asked for, and the one below where the proxy names none.
#
# Exit codes: 0 nothing is reached, 3 something is, 4 the database could not be had, another the scan failed.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C GOFLAGS=
known=v0.0.0-20261105234957-e22db6528018 # 2026-11-05
scanner=golang.org/x/vuln/cmd/govulncheck@v1.9.0
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# What a release is built with. Without it, this machine's Go is looked at.
toolchain=$(go mod edit -json | sed -n 's/^\t"Toolchain": "\(.*\)",*$/\1/p')
if GOTOOLCHAIN=$toolchain go version >"$tmp/go" 2>&1; then
	export GOTOOLCHAIN=$toolchain
else
	echo "vuln: $toolchain, which go.mod names, could not be had; this looks at $(go env GOVERSION)"
	tail -n 1 "$tmp/go"
fi

version=${1:-$(go list -m -f '{{.Version}}' golang.org/x/vulndb@latest 2>/dev/null)} || version=
if ! go mod download -json "golang.org/x/vulndb@${version:=$known}" >"$tmp/module" 2>"$tmp/why"; then
	cat "$tmp/why" "$tmp/module" >&2
	echo "vuln: not run: the database could not be had" >&2
	exit 4
fi
dir=$(sed -n 's/^\t"Dir": "\(.*\)",*$/\1/p' "$tmp/module")
(cd "$tmp" && go run "golang.org/x/vulndb/cmd/indexdb@$version" -vulns "$dir/data/osv" -out "$tmp/db")
GOBIN=$tmp go install "$scanner" # go run would hide its exit code
echo "vuln: $(find "$dir/data/osv" -name 'GO-*.json' | wc -l) entries of $version, $(go env GOVERSION)"

status=0
"$tmp/govulncheck" -db "file://$tmp/db" ./cmd/... || status=$?
case $status in
0) ;;
3) echo "vuln: raise what stands under \"Fixed in\": a module in go.mod, or the toolchain in go.mod and tools/go.mod" >&2 ;;
*) echo "vuln: the scan failed" >&2 ;;
esac
exit "$status"

#!/usr/bin/env bash
# What has to hold of the packages that build.sh made (make packages packages-check):
#
#   - a second build, in a directory of another name, gives the same bytes
#   - lintian finds nothing but what lintian-overrides gives a reason for; shellcheck finds nothing
#   - links between the documents in the package lead to files in it
#   - .deb and .rpm have the same files, but for those that each needs
#   - SHA256SUMS and its signature hold, and refuse a changed byte
#   - bash, zsh and fish take the completions, and man the pages
#   - install, upgrade, a refused downgrade, remove and purge do to a gate what they promise; rpm's too, as far as
#     Debian's rpm shows it
set -euo pipefail
cd "$(dirname "$0")/../.."
export LC_ALL=C TZ=UTC
out=dist/packages
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

fail() {
	echo "packages: $*" >&2
	exit 1
}

debs=("$out"/*.deb) rpms=("$out"/*.rpm)
if [ ! -e "${debs[0]}" ] || [ ! -e "${rpms[0]}" ]; then fail "there are none in $out: make packages"; fi

same_twice() {
	local epoch
	epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
	mkdir "$tmp/elsewhere"
	git ls-files -z --cached --others --exclude-standard | tar -c --null --files-from - | tar -x -C "$tmp/elsewhere"
	(cd "$tmp/elsewhere" && umask 027 && SOURCE_DATE_EPOCH=$epoch RELEASE_KEY='' PROGRAMCACHE=$tmp/cache ./contrib/packaging/build.sh) >"$tmp/build" 2>&1 ||
		{ cat "$tmp/build"; fail "the second build failed"; }
	diff -r -x SHA256SUMS.sig "$out" "$tmp/elsewhere/$out" || fail "two builds differ"
	echo "the same bytes twice"
}

lint() {
	shellcheck dist/stage/scripts/* contrib/packaging/*.sh
	lintian --allow-root --fail-on error,warning "${debs[@]}"
	grep -vE '^(#|$)' contrib/packaging/lintian-overrides | grep -q . || fail "no override is read"
	echo "lintian and shellcheck find nothing"
}

# links: each relative link of a document in the package, without what is behind #.
links() {
	local root=$tmp/files/usr/share/doc/gated file link checked=0
	while IFS=: read -r file link; do
		if [ ! -e "$(dirname "$file")/$link" ] && [ ! -L "$(dirname "$file")/$link" ]; then fail "$file has a link to $link, which is not in the package"; fi
		checked=$((checked + 1))
	done < <(grep -rohHE '\]\([^) ]+\)' --include=*.md "$root" | sed -E 's/\]\(([^)#]*)(#[^)]*)?\)$/\1/' | grep -vE ':(https?|mailto):|:$')
	[ "$checked" -gt 300 ] || fail "only $checked links were found"
	[ -z "$(find "$root" -name '*.go')" ] || fail "the package has files of Go, so a checkout with it has a package more"
	echo "$checked links lead to files of the package"
}

same_files() {
	dpkg-deb -c "$1" | awk '{print $6}' | sed 's,^\.,,; /\/$/d' | grep -vE '/zsh/|/lintian/' | sort >"$tmp/deb"
	rpm -qlp "$2" | grep -vE '/zsh/' | sort >"$tmp/rpm"
	# rpm has directories too if they are the package's own.
	comm -13 "$tmp/deb" "$tmp/rpm" | while read -r path; do [ -d "$tmp/files$path" ] || echo "$path"; done >"$tmp/more"
	[ ! -s "$tmp/more" ] || fail "only in $2: $(cat "$tmp/more")"
	comm -23 "$tmp/deb" "$tmp/rpm" >"$tmp/more"
	[ ! -s "$tmp/more" ] || fail "only in $1: $(cat "$tmp/more")"
	rpm -K --nosignature "$2" >/dev/null || fail "$2 is damaged"
}

# signature: as docs/guides/release.md has it, with a key of this run.
signature() {
	cp -r "$out" "$tmp/signed"
	ssh-keygen -q -t ed25519 -N '' -f "$tmp/key"
	ssh-keygen -q -Y sign -n release@gated -f "$tmp/key" "$tmp/signed/SHA256SUMS"
	echo "release@gated namespaces=\"release@gated\" $(cut -d' ' -f1,2 "$tmp/key.pub")" >"$tmp/allowed_signers"
	local verify=(ssh-keygen -Y verify -f "$tmp/allowed_signers" -I release@gated -n release@gated -s "$tmp/signed/SHA256SUMS.sig")
	"${verify[@]}" <"$tmp/signed/SHA256SUMS" >/dev/null || fail "a good signature is refused"
	(cd "$tmp/signed" && sha256sum --quiet --strict -c SHA256SUMS) || fail "SHA256SUMS is wrong"
	sed '1s/^./x/' "$tmp/signed/SHA256SUMS" >"$tmp/changed"
	! "${verify[@]}" <"$tmp/changed" >/dev/null 2>&1 || fail "SHA256SUMS with a changed byte passes"
	local verify_other=("${verify[@]/release@gated/operational@gated}")
	! "${verify_other[@]}" <"$tmp/signed/SHA256SUMS" >/dev/null 2>&1 || fail "a signature of another namespace passes"
	printf x | dd of="$tmp/signed/${debs[0]##*/}" bs=1 seek=1000 conv=notrunc status=none
	! (cd "$tmp/signed" && sha256sum --status -c SHA256SUMS) || fail "a package with a changed byte passes"
	[ "$(wc -l <"$tmp/signed/SHA256SUMS")" = "$(($(find "$out" -type f | wc -l) - $(find "$out" -name 'SHA256SUMS*' | wc -l)))" ] ||
		fail "SHA256SUMS does not name every file"
	echo "sums and signature hold, and refuse a changed byte"
}

# by_rpm: an older package beside this one, and what rpm does with both.
by_rpm() {
	(cd "$tmp/elsewhere" && TAG='' RELEASE_KEY='' SOURCE_DATE_EPOCH=$(($(git -C "$OLDPWD" log -1 --format=%ct) - 86400)) \
		./contrib/packaging/build.sh -formats rpm -archs "$(dpkg --print-architecture)") >"$tmp/build" 2>&1 ||
		{ cat "$tmp/build"; fail "an older package was not built"; }
	./contrib/packaging/lifecycle-rpm.sh "$tmp/elsewhere/$out"/*.rpm "$out"/*".$(uname -m).rpm"
}

lint
dpkg-deb -x "$out"/*_amd64.deb "$tmp/files"
links
same_files "$out"/*_amd64.deb "$out"/*.x86_64.rpm
signature
same_twice
./contrib/packaging/lifecycle.sh
by_rpm

#!/usr/bin/env bash
# Builds the packages into dist/: contrib/packaging/build.sh [-formats "deb rpm"] [-archs "amd64 arm64"]
#
# make packages calls it with the tag and the commit. The same commit makes the same bytes: times
# are the commit's, owners are root, and no file is made from anything but the checkout.
set -euo pipefail
cd "$(dirname "$0")/../.."
export LC_ALL=C TZ=UTC
umask 022

formats="deb rpm" archs="amd64 arm64"
while [ $# -gt 0 ]; do
	case $1 in
	-formats) formats=$2 ;;
	-archs) archs=$2 ;;
	*)
		echo "usage: contrib/packaging/build.sh [-formats \"deb rpm\"] [-archs \"amd64 arm64\"]" >&2
		exit 2
		;;
	esac
	shift 2
done

GO=${GO:-go}
number=$(cat internal/base/version/NUMBER)
tag=${TAG-} commit=${COMMIT-}
if [ -z "${SOURCE_DATE_EPOCH-}" ]; then
	SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) || {
		echo "this is no checkout: say SOURCE_DATE_EPOCH" >&2
		exit 1
	}
fi
export SOURCE_DATE_EPOCH
if [ -n "$tag" ]; then
	VERSION=${tag#v}
	if [ "${VERSION%%-*}" != "$number" ]; then
		echo "the tag $tag is not of $number, which internal/base/version/NUMBER says" >&2
		exit 1
	fi
else
	# Later commits sort after earlier ones, and all of them before the release.
	VERSION=$number-dev.$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d%H%M%S)${commit:++$commit}
fi
deb_version=${VERSION/-/\~}
export VERSION
STAGE=dist/stage # as nfpm.yaml has it
stamp="-s -w -X gated/internal/base/version.tag=$tag -X gated/internal/base/version.commit=$commit"

# programs: for each architecture, and for this machine, whose gated writes the completions.
host=$("$GO" env GOHOSTARCH)
# compile ARCH PACKAGE...: into dist/bin/ARCH, or where INTO says.
compile() {
	local arch=$1
	shift
	CGO_ENABLED=0 GOOS=linux GOARCH=$arch "$GO" build -trimpath -buildvcs=false -ldflags "$stamp" -o "${INTO:-dist/bin/$arch/}" "$@"
}
for arch in $host $archs; do
	compile "$arch" ./cmd/gated ./cmd/opsign
done
# PROGRAMCACHE is an empty cache, with which the programs ANEW of this machine are compiled once more, for packages-check to
# compare. A program that is in its place already would not be built.
if [ -n "${PROGRAMCACHE-}" ]; then
	# shellcheck disable=SC2086 # one or more programs
	GOCACHE=$PROGRAMCACHE INTO=dist/anew/ compile "$host" ${ANEW:-./cmd/opsign}
	mv dist/anew/* "dist/bin/$host/"
fi
tools=$PWD/dist/tools
(cd tools && CGO_ENABLED=0 "$GO" build -trimpath -o "$tools/" github.com/goreleaser/nfpm/v2/cmd/nfpm ./sbom)

rm -rf "$STAGE"
all=$STAGE/all
put() { install -D -m 0644 "$1" "$all$2"; }
zipped() { gzip -9n <"$1" | install -D -m 0644 /dev/stdin "$all$2"; }

# Manual pages and completions, from the commands.
mkdir -p "$STAGE/man"
"$GO" test -count=1 -ldflags "$stamp" ./cmd/gated ./cmd/opsign -run '^TestManPages$' -man "$PWD/$STAGE/man" >/dev/null
for page in "$STAGE"/man/*.1; do
	zipped "$page" "/usr/share/man/man1/${page##*/}.gz"
done
for program in gated opsign; do
	"dist/bin/$host/$program" completion bash | install -D -m 0644 /dev/stdin "$all/usr/share/bash-completion/completions/$program"
	"dist/bin/$host/$program" completion fish | install -D -m 0644 /dev/stdin "$all/usr/share/fish/vendor_completions.d/$program.fish"
	"dist/bin/$host/$program" completion zsh >"$STAGE/zsh"
	install -D -m 0644 "$STAGE/zsh" "$STAGE/deb/usr/share/zsh/vendor-completions/_$program"
	install -D -m 0644 "$STAGE/zsh" "$STAGE/rpm/usr/share/zsh/site-functions/_$program"
done

# What contrib/systemd has, by the kind of its file.
names() { # names PATTERN: the files of contrib/systemd, without their directory
	find contrib/systemd -maxdepth 1 -name "$1" -printf '%f\n' | sort | tr '\n' ' '
}
services="$(names '*.timer')$(names '*.service')" # a timer that runs would start its service again
sockets=$(names '*.socket')
for unit in $services $sockets; do
	sed 's,/usr/local/bin/,/usr/bin/,g' "contrib/systemd/$unit" | install -D -m 0644 /dev/stdin "$all/usr/lib/systemd/system/$unit"
done
sysusers='' tmpfiles=''
for file in $(names '*.sysusers'); do
	put "contrib/systemd/$file" "/usr/lib/sysusers.d/${file%.sysusers}.conf"
	sysusers="$sysusers ${file%.sysusers}.conf"
done
for file in $(names '*.tmpfiles'); do
	put "contrib/systemd/$file" "/usr/lib/tmpfiles.d/${file%.tmpfiles}.conf"
	tmpfiles="$tmpfiles ${file%.tmpfiles}.conf"
done
# The socket starts the service; without one the service is started itself.
enable=gated.service
if [ -n "$sockets" ]; then
	enable=$sockets
fi

# Documents as they are, so that links between them lead where they led.
doc=/usr/share/doc/gated
for file in README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md; do
	put "$file" "$doc/$file"
done
# The script of the benchmarks is linked by their page. Go would compile a copy of its files here as a part of the module.
find docs contrib examples internal/test/bench/testdata/script.sh -path contrib/packaging -prune -o -type f ! -name '*.go' -print | sort | while read -r file; do
	install -D -m "$(if [ -x "$file" ]; then echo 0755; else echo 0644; fi)" "$file" "$all$doc/$file"
done
put contrib/packaging/copyright "$doc/copyright"
# The licence is not there twice; the README's link leads to the text.
install -d "$STAGE/deb$doc" "$STAGE/rpm$doc"
ln -s ../../common-licenses/Apache-2.0 "$STAGE/deb$doc/LICENSE"
install -m 0644 LICENSE "$STAGE/rpm$doc/LICENSE"
{
	printf 'gated (%s) unstable; urgency=medium\n\n  * /usr/share/doc/gated/CHANGELOG.md has the changes.\n\n' "$deb_version"
	printf ' -- The gated project <release@gated.invalid>  %s\n' "$(date -u -R -d "@$SOURCE_DATE_EPOCH")"
} >"$STAGE/changelog"
zipped "$STAGE/changelog" "$doc/changelog.gz"
install -D -m 0644 contrib/packaging/lintian-overrides "$STAGE/deb/usr/share/lintian/overrides/gated"

mkdir -p "$STAGE/scripts"
for script in preinst postinst prerm postrm; do
	cat contrib/packaging/scripts/common.sh "contrib/packaging/scripts/$script.sh" |
		sed -e "s,@VERSION@,$deb_version,g" -e "s,@ENABLE@,${enable% },g" -e "s,@SERVICES@,${services% },g" \
			-e "s,@SYSUSERS@,${sysusers# },g" -e "s,@TMPFILES@,${tmpfiles# },g" >"$STAGE/scripts/$script"
	chmod 0755 "$STAGE/scripts/$script"
done
find "$STAGE" -depth -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
find dist/bin -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +

out=dist/packages
rm -rf "$out"
mkdir -p "$out"
for arch in $archs; do
	for format in $formats; do
		GOARCH=$arch "$tools/nfpm" package -f contrib/packaging/nfpm.yaml -p "$format" -t "$out/"
	done
	for program in gated opsign; do
		"$tools/sbom" -version "$VERSION" -epoch "$SOURCE_DATE_EPOCH" "dist/bin/$arch/$program" >"$out/${program}_${VERSION}_$arch.cdx.json"
	done
done
(cd "$out" && sha256sum -- * >../SHA256SUMS && mv ../SHA256SUMS .)
if [ -n "${RELEASE_KEY-}" ]; then
	ssh-keygen -q -Y sign -n release@gated -f "$RELEASE_KEY" "$out/SHA256SUMS"
fi
(cd "$out" && cat SHA256SUMS)

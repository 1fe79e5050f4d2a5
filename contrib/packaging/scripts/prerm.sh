# Before the files go. An upgrade changes nothing here: the daemon runs until the new files are
# there, because the new version first takes a backup.

case ${1-} in
remove | 0) ;;
*) exit 0 ;;
esac
if handmade; then
	exit 0
fi
# shellcheck disable=SC2086 # lists of units
invoke stop $units $services
if [ -f "$state/gated.db" ]; then
	say "stopped; the gate stays in $state, and guests go on as they are"
fi

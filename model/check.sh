#!/usr/bin/env bash
# The model of the gate, searched to its end: model/check.sh [NAME...]
#
# Each configuration is searched for the safety properties, all in one search, and for each liveness property, with every state kept (no
# hashing) and weak fairness for liveness. Then each planted fault is searched for in the configuration that its row names, and
# the property of its row alone has to find it. A move of a step that no configuration makes is an error, too. With names it
# runs only these configurations or faults.
#
# Every search has its own bound on memory and depth. To reach one is an error.
#
# shellcheck disable=SC2317 # the list of searches calls sound and found
set -euo pipefail
cd "$(dirname "$0")"

jobs=${JOBS:-2}
memory=1900 # MiB of one search; two run at once
depth=100000
only=("$@")

# name, what is searched for, and bounds. docs/design/model.md says what each leaves out.
configurations=(
	"people   all    -DNEED=2 -DROTATIONS=1 -DSECOND=1 -DPAYLOADS=5"
	"rotation all    -DROTATIONS=1 -DCOOL=1 -DPAYLOADS=5 -DFAILS=1 -DCRASHES=2"
	"replay   all    -DSECOND=1 -DCOOL=1 -DPAYLOADS=6 -DFAILS=1 -DCRASHES=2 -DBACKUPS=2 -DRESTORES=2"
	"own      all    -DSECOND=1 -DOWNS=1 -DCOOL=1 -DPAYLOADS=6 -DEXPIRIES=0 -DCHANGES=1"
	"prune    safety -DSECOND=1 -DPRUNE=1 -DOWNS=1 -DPAYLOADS=6 -DFAILS=1"
	"steps    all    -DSTEPS=2 -DCOMP=1 -DCOOL=1 -DPAYLOADS=9 -DFAILS=1 -DEXPIRIES=0"
	"late     safety -DSTEPS=2 -DCOMP=1 -DCOOL=1 -DPAYLOADS=9 -DFAILS=1"
	"benign   all    -DSTEPS=2 -DCOMP=1 -DBENIGN=1 -DSPOILS=1 -DPAYLOADS=9 -DFAILS=1 -DEXPIRIES=0"
	"desired  all    -DDESIRED=1 -DSECOND=1 -DPAYLOADS=6 -DSUBMITS=2 -DWISHES=3 -DEXPIRIES=0"
	"workers  all    -DRUNNERS=2 -DSECOND=1 -DOWNS=1 -DPAYLOADS=6 -DFAILS=1 -DEXPIRIES=0 -DCHANGES=0"
)
liveness="approved_runs answerable"

# What is planted, where it is searched for, and which property has to find it.
faults=(
	"threshold_by_signature people never_unsigned"
	"reissue_keeps_signatures people never_unsigned"
	"benign_not_classified_again benign never_unsigned"
	"restore_keeps_the_gate_id replay once"
	"offline_nonce_not_kept own once"
	"nonce_forgotten_before_its_payload_expired prune once"
	"dispatch_without_compare_and_set workers once"
	"cut_off_step_runs_again replay once"
	"signed_step_is_tried_again replay once"
	"nonce_not_spent_with_the_decision people spent"
	"look_before_the_permit_alone replay looked_after"
	"rejection_after_approval_ignored rotation rejection_holds"
	"rejected_wish_asked_again desired rejection_holds"
	"rotation_not_asked_at_dispatch rotation rotation_holds"
	"uncount_forgotten people rotation_holds"
	"rules_moved_unseen rotation rotation_holds"
	"restore_takes_the_signers_of_the_backup rotation rotation_holds"
	"verify_any_gate replay other_gate"
	"binding_without_gate replay other_gate"
	"cool_off_skipped rotation cool_off"
	"expiry_not_asked_at_dispatch rotation in_time"
	"busy_target_ignored workers alone"
	"order_ignored steps in_order"
	"withdrawn_approval_stays desired wish_holds"
	"rest_goes_on steps approved_runs"
	"tried_again_after_the_job_ended benign approved_runs"
	"cut_off_step_is_forgotten replay approved_runs"
	"cool_off_never_ends rotation approved_runs"
	"foreign_payload_stays replay answerable"
)

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

flags_of() {
	local row
	for row in "${configurations[@]}"; do
		if [ "${row%% *}" = "$1" ]; then
			printf '%s\n' "-D${row#*-D}"
			return
		fi
	done
	echo "model: there is no configuration $1" >&2
	return 1
}

wanted() {
	local name
	[ "${#only[@]}" -eq 0 ] && return
	for name in "${only[@]}"; do
		[ "$name" = "$1" ] && return
	done
	return 1
}

# search DIR PROPERTY FLAGS: writes what pan said to DIR/pan.out. PROPERTY is safety or the name of a liveness property.
search() {
	local dir=$1 property=$2 flags=$3 fast=-O2
	[[ $flags != *FAULT_* ]] || fast=-O0 # a fault is found soon, and the compiler is what takes long
	mkdir -p "$dir"
	# shellcheck disable=SC2086
	(
		cd "$dir"
		[ "$property" != safety ] || flags="$flags -DTALLY"
		spin $flags -a "$OLDPWD/gated.pml" >spin.out 2>&1 || { cat spin.out >&2; exit 1; }
		if [ "$property" = safety ]; then
			gcc -w $fast -DNOCLAIM -DSAFETY -DCOLLAPSE -DMEMLIM=$memory -o pan pan.c
			./pan -m$depth >pan.out 2>&1
		else
			gcc -w $fast -DNFAIR=5 -DCOLLAPSE -DMEMLIM=$memory -o pan pan.c
			./pan -a -f -N "$property" -m$depth >pan.out 2>&1
		fi
		rm -f pan pan.[chtbmp]
	)
}

# figures DIR: states, depth, MiB and seconds of a search.
figures() {
	awk '
		/states, stored/ { states = $1 }
		/depth reached/ { for (i = 1; i < NF; i++) if ($i == "reached") { depth = $(i + 1); sub(",", "", depth) } }
		/total actual memory usage/ { memory = $1 }
		/pan: elapsed time/ { seconds = $4 }
		END { printf "%10d states  depth %4d  %7.1f MiB  %6.1f s", states, depth, memory, seconds }
	' "$1/pan.out"
}

# whole DIR: the search went to its end, and found nothing. Else it says why not.
whole() {
	if grep -aqE 'max search depth too small|MEMLIM bound|out of memory|aborted|hash conflicts table full|error: ' "$1/pan.out"; then
		grep -aE 'too small|MEMLIM|memory|aborted|error: ' "$1/pan.out" | head -n 3
		return 1
	fi
	grep -aqE 'errors: 0$' "$1/pan.out" || { grep -aE '^pan:1: ' "$1/pan.out" || tail -n 3 "$1/pan.out"; return 1; }
	grep -aqE 'Warning: Search not completed' "$1/pan.out" && { echo "the search was not completed"; return 1; }
	return 0
}

# sound NAME PROPERTY
sound() {
	local dir=$out/$1.$2 why
	if ! search "$dir" "$2" "$(flags_of "$1")"; then
		echo "FAILED $1 $2: it cannot be searched"
	elif why=$(whole "$dir"); then
		printf 'ok     %-10s %-16s %s\n' "$1" "$2" "$(figures "$dir")"
	else
		echo "FAILED $1 $2: $why"
	fi
}

# found FAULT CONFIGURATION PROPERTY
found() {
	local dir=$out/$1 kind=safety says="assertion violated .*\b$3\b" flags
	if [[ " $liveness " == *" $3 "* ]]; then
		kind=$3 says="acceptance cycle"
	fi
	flags="$(flags_of "$2") -DFAULT_$1"
	[ "$kind" != safety ] || flags="$flags -DONLY=$3"
	if search "$dir" "$kind" "$flags" && grep -aqE "^pan:1: $says" "$dir/pan.out"; then
		printf 'found  %-46s %-10s %-16s %s\n' "$1" "$2" "$3" "$(figures "$dir")"
	else
		echo "FAILED $1: $3 does not find it in $2"
	fi
}

# unmade: the moves of a step that no configuration makes, by the tally that each search for safety ends with.
unmade() {
	sed -nE 's/^moves: (\w+) ([0-9]+)$/\1 \2/p' "$out"/*.safety/pan.out |
		awk '{ made[$1] += $2 } END { n = 0; for (kind in made) { n++; if (!made[kind]) print kind } if (n != 16) print n " kinds, not 16" }'
}

begun=$SECONDS
{
	for row in "${configurations[@]}"; do
		if wanted "${row%% *}"; then
			printf 'sound %s safety\n' "${row%% *}"
			[[ $row == *" safety "* ]] || for property in $liveness; do
				printf 'sound %s %s\n' "${row%% *}" "$property"
			done
		fi
	done
	for row in "${faults[@]}"; do
		! wanted "${row%% *}" || printf 'found %s\n' "$row"
	done
} >"$out/list"

while read -r line; do
	while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do
		wait -n
	done
	# shellcheck disable=SC2086
	$line | tee -a "$out/said" &
done <"$out/list"
wait

status=0
if grep -q '^FAILED' "$out/said" || [ "$(wc -l <"$out/said")" -ne "$(wc -l <"$out/list")" ]; then
	status=1
fi
if [ "${#only[@]}" -eq 0 ]; then
	unmade >"$out/unmade"
	if [ -s "$out/unmade" ]; then
		echo "no configuration makes these moves:"
		cat "$out/unmade"
		status=1
	fi
fi
printf 'model: %d searches of %d in %d s, %d faults planted\n' "$(wc -l <"$out/said")" "$(wc -l <"$out/list")" $((SECONDS - begun)) "${#faults[@]}"
exit $status

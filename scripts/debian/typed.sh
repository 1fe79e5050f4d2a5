# What a person types in the booted Debian: the stories beside this file source it, as root there. The story sets name and
# dir before, and pages: where the documents are.
. /src/scripts/tell.sh
set -E
trap 'echo "$name: line $LINENO of ${0##*/}: $BASH_COMMAND" >&2' ERR

# block PAGE HEADING N prints the Nth block of commands below a heading of a page, without the page's indentation.
block() {
	awk -v heading="$2" -v want="$3" '
		/^#+ / { if (on) exit; on = (substr($0, index($0, " ") + 1) == heading); next }
		!on { next }
		/^    / { if (!inside) n++; inside = 1; if (n == want) { print substr($0, 5); found = 1 }; next }
		{ inside = 0 }
		END { if (!found) exit 1 }
	' "$pages/$1" >"$dir/block" || fail "$1 has no block $3 below \"$2\""
	cat "$dir/block"
}

# blocks PAGE writes each block of commands of a page into a file of its own, in order. A block that shows what a command
# prints is none.
blocks() {
	rm -rf "$dir/blocks" && mkdir "$dir/blocks"
	awk -v to="$dir/blocks" '
		/^    / { if (!inside) { n++; inside = 1 } print substr($0, 5) > sprintf("%s/%03d", to, n); next }
		{ inside = 0 }
	' "$pages/$1"
	grep -LE -m 1 '^(gated|opsign|ssh-keygen|ssh-add|eval|mkdir|umask|export|for|cat|kill|cd|git|rm|mv|echo|\{|[A-Z]+=)( |\$|$)' \
		"$dir"/blocks/* | xargs -r rm
}

# script PAGE NAME prints the block of a page that begins with the comment "# NAME".
script() {
	awk -v name="    # $2" '$0 == name { on = 1; next } on && !/^    / { exit } on { print substr($0, 5); found = 1 }
		END { if (!found) exit 1 }' "$pages/$1" >"$dir/block" || fail "$1 has no block $2"
	cat "$dir/block"
}

# login USER CODE TEXT types lines into a new login of a user, as su makes one, and checks the exit code of the last line
# or of the first that failed. told shows them with what they printed.
login() {
	silent "$2" su - "$1" -c "set -e; $3"
}

told() {
	printf '%s\n' "$3" | sed "s/^/  $1\$ /; s/^  root\\$/  root#/"
	login "$@"
	# Of apt, what the package says; and no more than a screen.
	{ grep -avE '^$|^WARNING: apt|^(Reading|Building|Need to get|After this|Get:|debconf:|Selecting|\(Reading|The following|Use .apt)|^[0-9]+ upgraded' \
		"$dir/out" || true; } | cut -c 1-160 | tail -n 24 | sed 's/^/    /'
}

# A terminal is one of tmux. Its prompt has the exit code and the number of the next command, so that a line that ended
# is told from one that still runs.
terminal() { # terminal NAME USER
	tmux -f /dev/null new-session -d -s "$1" -x 200 -y 50 "exec su - $2"
	tmux send-keys -t "$1" "PS1='[\$?:\\#]\$ ' PS2='more> '" Enter
	settled "$1" '^\[[0-9]+:[0-9]+\]\$$'
}

screen() { tmux capture-pane -p -J -S - -t "$1" | sed -e 's/ *$//' | grep -v '^$' || true; }

# settled waits until the last line of a terminal is as wanted, shows until any line is.
settled() { awaited "$1" 1 "$2"; }
shows() { awaited "$1" +1 "$2"; }

awaited() { # awaited TERMINAL LINES REGEX, LINES as tail -n takes them
	for _ in $(seq 600); do
		screen "$1" | tail -n "$2" | grep -E -- "$3" >/dev/null && return
		sleep 0.05
	done
	screen "$1" | tail -n 30 >&2
	fail "the terminal $1 does not show $3"
}

# type TERMINAL LINE types a line and waits until it ended, or asks for more; left says how the last command ended.
type() {
	local before last
	last=$(screen "$1" | tail -n 1)
	before=$(screen "$1" | grep -cE '^(\[[0-9]+:[0-9]+\]\$|more>)')
	tmux send-keys -t "$1" -l -- "$2"
	tmux send-keys -t "$1" Enter
	for _ in $(seq 600); do
		if [ "$(screen "$1" | grep -cE '^(\[[0-9]+:[0-9]+\]\$|more>)')" -gt "$before" ] ||
			{ [ "$(screen "$1" | tail -n 1)" != "$last" ] && asked "$1" >/dev/null; }; then
			return
		fi
		sleep 0.05
	done
	screen "$1" | tail -n 30 >&2
	fail "'$2' did not end"
}

# asked prints what a person who agrees types, if the terminal asks.
asked() {
	case $(screen "$1" | tail -n 1) in
	*'Type yes:' | *'(yes)') echo yes ;;
	*'[y/N]') echo y ;;
	*) return 1 ;;
	esac
}

left() { screen "$1" | tail -n 1 | sed -n 's/^\[\([0-9]*\):.*/\1/p'; }

# follow TERMINAL types each line of the block, and each has to end with exit code 0, but for what the line's own text
# says: a request that waits exits 3. follow TERMINAL REGEX takes other codes.
follow() {
	local line code want answer
	while IFS= read -r line <&3; do
		printf '  $ %s\n' "$line"
		type "$1" "$line"
		while answer=$(asked "$1"); do type "$1" "$answer"; done
		code=$(left "$1")
		want=${2:-0}
		[[ $line != *guest.destroy* || $line != *submit* ]] || want=3
		[ -z "$code" ] || [[ $code =~ ^($want)$ ]] || {
			screen "$1" | tail -n 30 >&2
			fail "'$line' exited $code, not $want"
		}
	done 3<"$dir/block"
}

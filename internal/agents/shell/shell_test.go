package shell

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"gated/internal/agents/steer"
)

// shown returns the programs of a text, with ? for what is not known.
func shown(text string) []string {
	var out []string
	for _, c := range Commands(text, Place{Dir: "/w", Home: "/home/a"}) {
		var words []string
		for _, w := range c.Words {
			words = append(words, strings.NewReplacer(steer.Any, "?", steer.Glob, "#").Replace(string(w)))
		}
		out = append(out, strings.Join(words, "|"))
	}
	return out
}

// TestProgramsOfAText: each text with the last program that it runs.
func TestProgramsOfAText(t *testing.T) {
	const want = "v|undefine|web1"
	for _, text := range []string{
		`v undefine web1`, `v undefine web1 >/dev/null 2>&1 &`, `v 'undefine' "web1"`, `\v un"def"ine we\b1`, "v \\\n undefine web1",
		`true && v undefine web1`, `false || v undefine web1`, `true; v undefine web1`, "true\nv undefine web1", `! v undefine web1`,
		`echo | v undefine web1`, `(cd /x; v undefine web1)`, `{ v undefine web1; }`, `echo $(v undefine web1) | grep x >/dev/null; v undefine web1`,
		"x=`v undefine web1`", `x=$(v undefine web1)`, `cat <(v undefine web1) </dev/null; v undefine web1`, `[[ -n $(v undefine web1) ]]`, `(( $(v undefine web1) ))`,
		`f() { v undefine web1; }`, `function f { v undefine web1; }`, `if true; then v undefine web1; fi`, `if v undefine web1; then :; fi; v undefine web1`,
		`if false; then :; elif false; then :; else v undefine web1; fi`, `while :; do v undefine web1; done`, `until v undefine web1; do v undefine web1; done`,
		`for x in web1; do v undefine $x; done`, `for x in a web1; do v undefine "$x"; done`, `for ((;;)); do v undefine web1; done`,
		`case a in a) v undefine web1;; esac`, `for x in a web1; do v {undefine,$x}; done`, `select x in web1; do v undefine $x; done`, `time v undefine web1`, `time -p v undefine web1`,
		`coproc v undefine web1`, `x=web1; v undefine $x`, `x=web1 y=undefine; v $y ${x}`, `export x=web1; v undefine $x`, `local x=web1; v undefine $x`,
		`c="v undefine web1"; $c`, `c='undefine web1'; v $c`, `c=v; $c undefine web1`, `eval v undefine web1`, `eval "v undefine web1"`, `x='v undefine web1'; eval "$x"`,
		`sudo v undefine web1`, `sudo -u root -- v undefine web1`, `sudo -nEu root v undefine web1`, `sudo A=b v undefine web1`, `sudo --user=root v undefine web1`,
		`sudo --user root -H v undefine web1`, `doas -u root v undefine web1`, `pkexec --user root v undefine web1`, `env v undefine web1`,
		`env -i A=b C=d v undefine web1`, `env -u A - v undefine web1`, `env -S 'v undefine web1'`, `env -S"v undefine" web1`, `env --split-string='v undefine web1'`,
		`/usr/bin/env -uA v undefine web1`, `nohup v undefine web1 &`, `nice -n 5 v undefine web1`, `nice -5 v undefine web1`, `ionice -c2 -n 7 v undefine web1`,
		`timeout 5 v undefine web1`, `timeout -k 5 --signal KILL 10s v undefine web1`, `exec v undefine web1`, `exec -a x v undefine web1`, `command v undefine web1`,
		`command -p v undefine web1`, `builtin v undefine web1`, `setsid -w v undefine web1`, `stdbuf -oL v undefine web1`, `stdbuf -o L v undefine web1`,
		`/usr/bin/time -f %e v undefine web1`, `flock /tmp/l v undefine web1`, `flock /tmp/l -c 'v undefine web1'`, `chroot /x v undefine web1`, `busybox v undefine web1`,
		`taskset 1 v undefine web1`, `taskset -c 0,2 v undefine web1`, `setpriv --reuid 1000 --clear-groups v undefine web1`, `unshare -rm -w /x v undefine web1`,
		`nsenter -t 1 -m -u v undefine web1`, `systemd-run --wait -p A=b --uid=root v undefine web1`, `systemd-run -qu x -- v undefine web1`, `prlimit --nofile=9 v undefine web1`,
		`strace -f -e trace=file -o x v undefine web1`, `script -qec 'v undefine web1' /dev/null`, `script x --command='v undefine web1'`, `unbuffer v undefine web1`,
		`noglob v undefine web1`, `gosu root v undefine web1`, `systemd-inhibit --why x v undefine web1`, `watch -n 5 v undefine web1`, `watch 'true; v undefine web1'`,
		`sh -c 'v undefine web1'`, `/bin/bash -lc "v undefine web1"`, `bash -o pipefail -ec 'v undefine web1'`, `bash --norc --rcfile x -c 'v undefine web1'`,
		`bash -norc -c 'v undefine web1'`, `bash -n -i -c 'v undefine web1'`, `bash -n +n -c 'v undefine web1'`, `sudo -k v undefine web1`, `sudo -nE v undefine web1`,
		`dash -c "sh -c 'v undefine web1'"`, `sudo env A=b nice sh -c 'exec v undefine web1'`, `su -c 'v undefine web1'`, `su - root --command='v undefine web1'`,
		`runuser -u root -- v undefine web1`, "bash <<EOF\nv undefine web1\nEOF", "sudo bash -s <<'EOF'\nv undefine web1\nEOF", "cat <<-EOF | sh -\n\tv undefine web1\n\tEOF",
		"x=web1\nsh <<EOF\nv undefine $x\nEOF", `bash <<<'v undefine web1'`, `echo v undefine web1 | sh`, `echo -e "true\nv undefine web1" | sudo sh`,
		`printf '%s\n' 'v undefine web1' | bash`, `printf 'v undefine web1\n' | bash`, `find . -name x -exec v undefine web1 \;`, `find . -execdir sh -c 'v undefine web1' +`,
		`trap 'v undefine web1' EXIT`, `{v,undefine,web1}`, `v undefine web{1..3}; v undefine web1`, `v undefine {web0,web1}; v undefine web1`, `$(which v) undefine web1`,
		`npx v undefine web1`, `npx --yes -p x@2 -- v undefine web1`, `npx -p x -c 'v undefine web1'`, `npx --call='v undefine web1'`, `pnpm exec v undefine web1`,
		`pnpm --filter x -C y dlx v undefine web1`, `pnpm exec -c 'v undefine web1'`, `npm exec -- v undefine web1`, `npm x --package x -- v undefine web1`, `yarn --cwd x run v undefine web1`,
		`bunx --bun v undefine web1`, `bun x v undefine web1`, `uv run --with x -p 3.12 v undefine web1`, `uv --directory x run -- v undefine web1`, `uvx --from x v undefine web1`,
		`dotenv -- v undefine web1`, `dotenv -e .env -- v undefine web1`, `dotenv -f .env run v undefine web1`, `dotenv -e .env -- pnpm exec v undefine web1`, `poetry run v undefine web1`,
		`pipenv run v undefine web1`, `bundle exec v undefine web1`, `direnv exec . v undefine web1`, `mise exec -C x -- v undefine web1`,
		`$(echo v) undefine web1`, `v undefine web1 # gone`, "v undefine web1\nif", "v undefine web1\n)",
	} {
		got := shown(text)
		require.NotEmpty(t, got, text)
		require.Equal(t, want, got[len(got)-1], "%s: %q", text, got)
	}
}

// TestWordsThatAreNotKnown: ? is any text, and # any text without a slash.
func TestWordsThatAreNotKnown(t *testing.T) {
	for text, want := range map[string]string{
		`v $1`: "v|?", `v "$@"`: "v|?", `v web-$i`: "v|web-?", `v $(date)`: "v|?", `v ${x:-a}`: "v|?", `v ${#x}`: "v|?", `x=a; x=$(date); v $x`: "v|?",
		`x=a; read x; v $x`: "v|?", `x=(a b); v "${x[@]}"`: "v|?", `x=a; x+=b; v $x`: "v|?", `v *`: "v|#", `v a?b[c]`: "v|a#b#", `v "*"`: "v|*", `v \*`: "v|*",
		`v ~/x`: "v|/home/a/x", `v ~root/x`: "v|?/x", `v "~"`: "v|~", `v $HOME/x`: "v|/home/a/x", `v $PWD`: "v|/w", `cd sub; v $PWD`: "v|/w/sub",
		`v $'a\x62'`: "v|a?", `v $((1+1))`: "v|?", `v {a,b}c`: "v|ac|bc", `v {1..3}`: "v|?", `v a$X/b`: "v|a?/b", `v ""`: "v|", `echo web1 | xargs v undefine`: "v|undefine|?",
		`xargs -I% v % x`: "v|?|x", `xargs -i v {}`: "v|?", `xargs -n 1 v -f`: "v|-f|?", `find /d /e -exec v {} +`: "v|/d", `x=1 v $x`: "v|?", `for x; do v $x; done`: "v|?",
		`for x in $(date); do v $x; done`: "v|?", `bash -c "v '$x' a"`: "v|?|a", `(x=a); v $x`: "v|?", `x=a | true; v $x`: "v|?", `v "a b"`: "v|a b", `x=" a  b "; v c$x'd'`: "v|c|a|b|d",
		`if a; then x=b; else x=c; fi; v $x`: "v|?", `x=a; if b; then x=a; fi; v $x`: "v|a", `x=a; case $y in b) x=c;; esac; v $x`: "v|?", `x=a; false || x=b; v $x`: "v|?",
		`v "${HOME:?}/x"`: "v|/home/a/x", `v ${HOME?no}`: "v|/home/a", `v "${HOME:-/tmp}"`: "v|/home/a", `x=b; v ${x:=a}`: "v|b", `x=; v ${x:-a}`: "v|?", `v ${x:?}`: "v|?", `v ${HOME:+a}`: "v|?",
		`x=b; v ${x%b}`: "v|?", `x=a; x=b & v $x`: "v|a", `x=a; f() { x=b; }; v $x`: "v|?", `x=a; printf -v x b; v $x`: "v|?", `x=a; . ./env; v $x`: "v|?", `x=a; mapfile x; v $x`: "v|?", `x=a; ((x=5)); v $x`: "v|?",
		`x=a; let x=5; v $x`: "v|?", `x=a; while b; do x=c; done; v $x`: "v|?", `su -lc 'v a'`: "v|a", `su '-cv a'`: "v|a", `su --session-command='v a'`: "v|a",
		`runuser -u b -- v x -c 'rm y'`: "v|x|-c|rm y", `runuser -u root -- v -c u`: "v|-c|u", `case x in $(v a)) ;; esac`: "v|a", `runuser b -c 'v a'`: "v|a",
		`v @(a|b)`: "v|#", `v [ a`: "v|[|a", "v $'plain'": "v|plain", `$x undefine web1`: "?|undefine|web1",
	} {
		got := shown(text)
		require.NotEmpty(t, got, text)
		require.Equal(t, want, got[len(got)-1], "%s: %q", text, got)
	}
}

// TestTextsThatRunNothing of what they name.
func TestTextsThatRunNothing(t *testing.T) {
	for _, text := range []string{
		`echo v undefine web1`, `git commit -m "v undefine web1"`, `# v undefine web1`, `grep 'v undefine' x`, `cat <<EOF > x` + "\nv undefine web1\nEOF",
		`pnpm v undefine web1`, `pnpm rm v`, `npm run v`, `uv pip v`, `poetry v`, `dotenv -e v`, `npx`, `npx -c`, `bun v`, `command -v v undefine`, `taskset -p v`, `script v`, `watch echo v`, `prlimit -p v`, `bash script v undefine web1`, `x="v undefine web1"`, `printf 'v undefine web1' > x`, `ls v undefine web1`, `bash <<EOF` + "\necho v undefine web1\nEOF",
		`bash -n -c 'v undefine web1'`, `sh -nc 'v undefine web1'`, `bash -n <<< 'v undefine web1'`, `echo v undefine web1 | sh -n`, `sudo -l v undefine web1`, `sudo -nl v`, `sudo -e v`,
		`echo v undefine web1 | grep v`, `: ; cat x | sh`, `if`, `"`, ``, strings.Repeat("#", maxText+1) + "\nv undefine web1",
	} {
		for _, c := range Commands(text, Place{}) {
			require.NotEqual(t, steer.Word("v"), c.Words[0], text)
		}
	}
}

func TestDirectories(t *testing.T) {
	for text, want := range map[string]string{
		`v`: "/w", `cd /x && v`: "/x", `cd /x/y/.. && v`: "/x", `cd sub; v`: "/w/sub", `cd; v`: "/home/a", `cd -; v`: "", `cd $x; v`: "", `(cd /x); v`: "/w", `cd $x; cd a; v`: "",
		`cd -P -- /x; v`: "/x", `sudo -D /x v`: "/x", `pnpm -C sub exec v`: "/w/sub", `uv run --directory=/x v`: "/x", `env -C /x v`: "/x", `env --chdir=/x v`: "/x", `sh -c 'cd /x; v'`: "/x", `sh -c 'cd /x'; v`: "/w", `pushd /x; v`: "/x", `popd; v`: "",
		`f() { cd /x; }; v`: "", `cd /x || cd /y; v`: "/x", `if a; then cd /x; fi; v`: "", `cd /x & v`: "/w",
	} {
		got := Commands(text, Place{Dir: "/w", Home: "/home/a"})
		require.Equal(t, want, got[len(got)-1].Dir, text)
	}
}

// TestDirectoriesOfAPatch: each in which the shell may be, the likely one at the end.
func TestDirectoriesOfAPatch(t *testing.T) {
	for text, want := range map[string]string{
		`true`: "/w", `cd /x`: "/w /x", `[ -d q ] || cd /x`: "/x /w", `cd q || cd x`: "/w /w/x /w/q/x /w/q", `cd /x || exit 1`: "/w /x", `false || (cd /x)`: "/w",
		`false || cd $y`: "", `false || cd /x || cd /y`: "/x /y /w", `cd $y || cd /x`: "", `false || { cd /x; cd /y; }`: "/x /y /w",
	} {
		got, whole := Patches(text+"; apply_patch y", Place{Dir: "/w"})
		require.True(t, whole, text)
		require.Len(t, got, 1, text)
		require.Equal(t, want, strings.Join(got[0].Dirs, " "), text)
	}
}

// TestBounds: a text costs no more than its bounds, whatever is in it.
func TestBounds(t *testing.T) {
	nested := "v"
	for range maxDepth + 1 {
		nested = "eval " + steerQuote(nested)
	}
	require.Len(t, Commands(nested, Place{}), maxDepth, "a text inside more texts is not read")
	for _, text := range []string{
		strings.Repeat("v;", maxText/2), strings.Repeat("for x in 1 2 3 4 5 6 7 8; do ", 30) + "v" + strings.Repeat("; done", 30),
		strings.Repeat("for x in 1 2 3 4 5 6 7 8; do ", 10) + "y=1" + strings.Repeat("; done", 10),
		"x=aaaaaaaa;" + strings.Repeat("x=$x$x;", 5000) + "v $x", "x=\"" + strings.Repeat("a ", 9000) + "\";" + strings.Repeat("v $x$x $x$x;", 3000),
		strings.Repeat("$(echo ", 4000) + "v" + strings.Repeat(")", 4000), "x='" + strings.Repeat("v;", 9000) + "';" + strings.Repeat("eval $x;", 4000),
		"v " + strings.Repeat("{a,b}", 40), "v " + strings.Repeat("{", 30000) + "a,b" + strings.Repeat("}", 30000), strings.Repeat("$(", maxText/2), strings.Repeat("(", 5000),
	} {
		require.LessOrEqual(t, len(Commands(text, Place{})), maxCommands)
	}
}

func steerQuote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// FuzzCommands: what is found is within its bounds, and a word in quotes stays what it is.
func FuzzCommands(f *testing.F) {
	for _, seed := range []string{`sudo -u a env -S 'v x' b`, "bash <<E\nv $x\nE", `x={a,b}; for y in $x ~ *; do eval "v $y"; done`, `find / -exec sh -c 'v {}' \;`, "a\x01b \x02", `a[$((`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, c := range Commands(text, Place{Dir: "/w"}) {
			require.NotEmpty(t, c.Words)
			require.True(t, c.Dir == "" || c.Dir[0] == '/')
		}
		if strings.ContainsAny(text, "\x00\r\x01\x02") || !utf8.ValidString(text) || len(text) > maxText/8 {
			return
		}
		got := Commands("v "+steerQuote(text), Place{})
		require.Len(t, got, 1)
		require.Equal(t, steer.Word(text), got[0].Words[1])
	})
}

package hook

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWhichScriptsNameAHook: what is said to run gated's hook is not said to leave it out, so only what names that hook's command or
// file counts.
func TestWhichScriptsNameAHook(t *testing.T) {
	for script, want := range map[string]bool{
		"exec gated hook pre-commit":                                                 true,
		"exec /usr/bin/gated hook pre-commit --on-failure block":                     true,
		"\"$GATED\" hook pre-commit \"$@\"":                                          true,
		"true && gated hook pre-commit; false":                                       true,
		"exec \"$(git rev-parse --git-common-dir)/hooks/$(basename \"$0\")\" \"$@\"": true,
		"exec .git/hooks/pre-commit \"$@\"":                                          true,
		"hooks/pre-commit":                                                           true,
		"\"$GIT_DIR\"/hooks/\"$name\" # as git does":                                 true,
		"old=\"$dir/hooks/${0##*/}\"":                                                true,
		"x\n\tsh '.git/hooks/pre-commit'\n":                                          true,

		"":                                  false,
		"exec gated hook pre-push":          false,
		"exec gated hook pre-commits":       false,
		"exec gated hook pre-commit.old":    false,
		"exec mygated webhook pre-commit":   false,
		"# exec gated hook pre-commit":      false,
		"true # see .git/hooks/pre-commit":  false,
		"  # runs hooks/$name":              false,
		". .git/hooks/lib.sh":               false,
		"exec .git/hooks/pre-push":          false,
		"run-parts .git/hooks/pre-commit.d": false,
		"git config core.hooksPath hooks/":  false,
		"curl https://example.com/hooks/":   false,
		"exec .githooks/pre-commit":         false,
		"exec my-hooks/$name":               false,
		"ls .git/hooks/":                    false,
	} {
		require.Equal(t, want, names([]byte(script), "pre-commit"), script)
	}
}

package clitest

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// man is the directory that gets the pages, for contrib/packaging/build.sh.
var man = flag.String("man", "", "write the manual pages into this `DIRECTORY`")

// ManPages makes the manual pages of section 1, one for each command that help shows,
// into the directory of -man or one of the test's own. It fails the test unless each
// page names its command, describes it and has the date, which is the same at every
// time.
func ManPages(t *testing.T, root *cobra.Command, date time.Time, version string) {
	t.Helper()
	dir := *man
	if dir == "" {
		dir = t.TempDir()
	}
	root.DisableAutoGenTag = true
	eachCommand(root, func(c *cobra.Command) {
		c.Long, c.Example = plain(c.Long), plain(c.Example)
	})
	header := doc.GenManHeader{Section: "1", Date: &date, Source: root.Name() + " " + version, Manual: "gated"}
	require.NoError(t, doc.GenManTree(root, &header, dir))
	eachCommand(root, func(c *cobra.Command) {
		name := strings.ReplaceAll(c.CommandPath(), " ", "-")
		file := filepath.Join(dir, name+".1")
		if c != root && !c.IsAvailableCommand() {
			require.NoFileExists(t, file, "help does not show this command")
			return
		}
		page := string(must.Get(os.ReadFile(file))(t))
		require.Contains(t, page, `"`+strings.ToUpper(name)+`" "1" "`+date.Format("Jan 2006")+`"`)
		require.Contains(t, page, "\n.SH NAME\n"+name+" - "+c.Short+"\n")
		require.NotContains(t, page, "\n.SH HISTORY", "that is the date of the run")
	})
}

// plain escapes the marks of Markdown, which our words do not use: cobra gives them
// to a converter that reads Markdown. What is indented stays as it is.
func plain(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if !strings.HasPrefix(line, "  ") {
			lines[i] = marks.Replace(line)
		}
	}
	return strings.Join(lines, "\n")
}

var marks = strings.NewReplacer(`*`, `\*`, `_`, `\_`, "`", "\\`", `<`, `\<`, `>`, `\>`, `[`, `\[`, `]`, `\]`)

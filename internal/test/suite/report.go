package main

import (
	"fmt"
	"io"
	"regexp"
	"strings"
)

// What failed has at most so many lines: for the first failures so many each, and then the names of others.
const (
	mostLines = 100
	mostTexts = 8
)

// report is what the run says last.
type report struct {
	*reader
	strict bool   // a skipped test is a failure
	other  string // what failed and is no test
}

// print writes the counts and what failed, and says whether the run passed.
func (r report) print(out io.Writer) bool {
	failed, unsteady := r.verdicts()
	for _, f := range unsteady {
		fmt.Fprintf(out, "UNSTEADY %s failed, and then passed %d times alone and once with its package:\n%s", f.name(), looks, shorten(f.said, mostLines/mostLooks))
	}
	fmt.Fprintf(out, "%d passed, %d failed, %d unsteady, %d skipped, %d do not apply\n",
		r.passed, len(failed), len(unsteady), len(r.skipped), r.inapplicable)
	texts := min(len(failed), mostTexts)
	names := min(len(failed)-texts, mostLines/4)
	for i, f := range failed {
		switch {
		case i < texts:
			fmt.Fprintf(out, "FAILED %s\n%s", f.name(), shorten(f.said, (mostLines-names-1)/texts-1))
		case i < texts+names:
			fmt.Fprintf(out, "FAILED %s\n", f.name())
		default:
			fmt.Fprintf(out, "and %d more\n", len(failed)-i)
			return false
		}
	}
	return len(failed) == 0
}

// verdicts are what fails the run, and what was unsteady.
func (r report) verdicts() (failed, unsteady []failure) {
	for _, f := range r.failures {
		if f.unsteady {
			unsteady = append(unsteady, f)
		} else {
			failed = append(failed, f)
		}
	}
	if r.strict {
		for _, f := range r.skipped {
			f.said = "it was skipped, and none may be:\n" + f.said
			failed = append(failed, f)
		}
	}
	if r.other != "" {
		failed = append(failed, failure{pkg: "go test", said: r.other})
	}
	if r.passed == 0 && len(failed) == 0 {
		failed = append(failed, failure{pkg: "go test", said: "no test ran"})
	}
	return failed, unsteady
}

// marks are lines of go test that say nothing here.
var marks = regexp.MustCompile(`(?m)^ *(=== (RUN|PAUSE|CONT|NAME) .*|--- FAIL: .*|FAIL)\n`)

// shorten indents a text, and keeps so many lines of it: more of its begin than of its end.
func shorten(text string, most int) string {
	lines := strings.Split(strings.Trim(marks.ReplaceAllString(text+"\n", ""), "\n"), "\n")
	if len(lines) > most {
		end := most / 3
		lines = append(append(lines[:most-1-end:most-1-end], "[…]"), lines[len(lines)-end:]...)
	}
	return "    " + strings.Join(lines, "\n    ") + "\n"
}

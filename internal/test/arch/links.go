package arch

import (
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"strings"
	"unicode"
)

var (
	mdLink    = regexp.MustCompile(`\]\(<?([^)<>\s]+)>?(?:\s+"[^"]*")?\)`)
	mdHeading = regexp.MustCompile(`^#{1,6} +(.*?)\s*#*$`)
	mdCode    = regexp.MustCompile("`[^`]*`")
)

// CheckLinks looks at every Markdown file of the tree and reports relative
// links to files or headings that are not there. It fails where there is no
// Markdown file at all.
func CheckLinks(tree fs.FS) ([]Problem, error) {
	var problems []Problem
	seen := 0
	err := walk(tree, ".md", func(name string) error {
		seen++
		content, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		problems = append(problems, brokenLinks(tree, name, content)...)
		return nil
	})
	if err == nil && seen == 0 {
		err = fs.ErrNotExist
	}
	sortByPlace(problems)
	return problems, err
}

func brokenLinks(tree fs.FS, name string, content []byte) []Problem {
	var out []Problem
	eachTextLine(content, func(n int, line string) {
		if strings.HasPrefix(line, "<<<<<<< ") || strings.HasPrefix(line, ">>>>>>> ") {
			out = append(out, Problem{Path: name, Line: n, What: "a merge left its marker"})
		}
		for _, m := range mdLink.FindAllStringSubmatch(mdCode.ReplaceAllString(line, ""), -1) {
			u, err := url.Parse(m[1])
			if err != nil {
				out = append(out, Problem{Path: name, Line: n, What: "the link " + m[1] + " does not parse"})
				continue
			}
			if u.Scheme != "" || u.Host != "" {
				continue
			}
			if why := broken(tree, name, u); why != "" {
				out = append(out, Problem{Path: name, Line: n, What: "the link " + m[1] + " leads to " + why})
			}
		}
	})
	return out
}

// broken says what a relative link leads to that is not there, or "".
func broken(tree fs.FS, from string, u *url.URL) string {
	to := from
	if path.IsAbs(u.Path) {
		return "the root of a machine, which is not there for every reader"
	}
	if u.Path != "" {
		to = path.Join(path.Dir(from), u.Path)
		if _, err := fs.Stat(tree, to); err != nil {
			return to + ", which is not there"
		}
	}
	if u.Fragment == "" || !strings.HasSuffix(to, ".md") {
		return ""
	}
	content, err := fs.ReadFile(tree, to)
	if err != nil {
		return to + ", which cannot be read"
	}
	found := false
	eachTextLine(content, func(_ int, line string) {
		if m := mdHeading.FindStringSubmatch(line); m != nil && anchor(m[1]) == u.Fragment {
			found = true
		}
	})
	if !found {
		return "a heading of " + to + " that is not there"
	}
	return ""
}

// eachTextLine calls fn for every line outside code fences and indented code.
func eachTextLine(content []byte, fn func(n int, line string)) {
	fence := ""
	for i, line := range strings.Split(string(content), "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case fence != "":
			if strings.HasPrefix(trimmed, fence) {
				fence = ""
			}
		case strings.HasPrefix(trimmed, "```"), strings.HasPrefix(trimmed, "~~~"):
			fence = trimmed[:3]
		case !strings.HasPrefix(line, "    "):
			fn(i+1, line)
		}
	}
}

// anchor is the id that a rendered heading gets.
func anchor(heading string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(heading) {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r):
			b.WriteRune(r)
		}
	}
	return b.String()
}

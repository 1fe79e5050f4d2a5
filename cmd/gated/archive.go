package main

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/host/life"
	"gated/internal/wire/cli"
)

func (t *tool) archiveCommand() *cobra.Command {
	return t.Group(cli.Words{
		Use:     "archive",
		Short:   "Records that ended and are in segment files",
		Example: "  gated archive status",
	}, "say status, verify or show", t.archiveStatusCommand(), t.archiveVerifyCommand(), t.archiveShowCommand())
}

func (t *tool) archiveStatusCommand() *cobra.Command {
	return t.archiveList(cli.Words{
		Use:   "status",
		Short: "List the segment files, and say which are not there",
		Long: `Reads the state directory, beside a running daemon or without one. Of each file it looks whether it is there with
its length. Exits 1 if one is not. gated status says whether archiving goes on.`,
		Example: "  gated archive status --state /var/lib/gated",
	}, false)
}

func (t *tool) archiveVerifyCommand() *cobra.Command {
	return t.archiveList(cli.Words{
		Use:   "verify",
		Short: "Read each segment file and check all of it",
		Long: `Reads the state directory, beside a running daemon or without one. Each file must be the one that the gate wrote,
and its entries, tiles, rows and root must fit. Exits 1 if one is missing or damaged. gated audit verify also walks
all of them as one log with the database.`,
		Example: "  gated archive verify\n" +
			"  gated archive verify --archive /mnt/copy/archive",
	}, true)
}

// archiveList is a command that looks at each segment.
func (t *tool) archiveList(w cli.Words, whole bool) *cobra.Command {
	var dir, files string
	c := t.Command(w, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		r, err := life.Archive(c.Context(), stateDir(dir), files, whole)
		if err != nil {
			return err
		}
		if t.JSON {
			err = t.Emit(r)
		} else {
			err = t.showArchive(r)
		}
		if err == nil && !r.Sound {
			err = cli.Ended(api.ExitRefused)
		}
		return err
	})
	t.stateOf(c, &dir)
	t.archiveIn(c, &files)
	return c
}

// archiveIn adds the flag for a copy of the archive.
func (t *tool) archiveIn(c *cobra.Command, files *string) {
	t.archiveFlag(c, files, "the `DIR` with segment files, such as a copy (default: the gate's own)")
}

// archiveCopy adds it for the segment files that a backup needs. A backup has no directory of its own.
func (t *tool) archiveCopy(c *cobra.Command, files *string) {
	t.archiveFlag(c, files, "check with the segment files in `DIR`, such as a copy of the archive")
}

func (t *tool) archiveFlag(c *cobra.Command, files *string, usage string) {
	c.Flags().StringVar(files, "archive", "", usage)
	_ = c.MarkFlagDirname("archive") // the flag was just added
}

func (t *tool) showArchive(r life.ArchiveReport) error {
	var rows []string
	for _, s := range r.Segments {
		problem := s.Problem
		if problem == "" {
			problem = "ok"
		}
		rows = append(rows, cli.Row(s.File, fmt.Sprintf("entries %d to %d", s.First, s.Last), cli.Count(s.Jobs, "job"),
			fmt.Sprintf("%d bytes", s.Bytes), s.At.Format(time.RFC3339), problem))
	}
	if err := t.Table(rows...); err != nil {
		return err
	}
	t.Print("%s in %s; entries up to %d are in these files alone\n", cli.Count(len(r.Segments), "segment"), op.Shown(r.Dir), r.Bound)
	return nil
}

func (t *tool) archiveShowCommand() *cobra.Command {
	var dir, files string
	c := t.Command(cli.Words{
		Use:   "show JOB|N",
		Short: "Print an archived job with all its rows, or an archived entry of the audit log",
		Long: `Reads the segment file that has it, and checks all of the file before. An entry is printed as its hash covers it.
Needs no daemon.`,
		Example: "  gated archive show j12\n" +
			"  gated archive show 300 --archive /mnt/copy/archive",
	}, cobra.ExactArgs(1), func(c *cobra.Command, args []string) error {
		if seq, err := strconv.ParseInt(args[0], 10, 64); err == nil {
			text, err := life.ShowEntry(c.Context(), stateDir(dir), files, seq)
			if err == nil {
				t.Print("%s\n", text)
			}
			return err
		}
		id, err := op.ParseJobID(args[0])
		if err != nil {
			return cli.Usage("say a job, such as j12, or the number of an entry")
		}
		job, err := life.ShowJob(c.Context(), stateDir(dir), files, id)
		switch {
		case err != nil:
			return err
		case t.JSON:
			return t.Emit(job)
		}
		return t.showArchivedJob(job)
	})
	t.stateOf(c, &dir)
	t.archiveIn(c, &files)
	return c
}

// showArchivedJob prints the columns of each row that have something.
func (t *tool) showArchivedJob(j life.ArchivedJob) error {
	t.Print("%s, in %s\n", j.Job, j.File)
	var rows []string
	for _, table := range slices.Sorted(maps.Keys(j.Rows)) {
		for i, row := range j.Rows[table] {
			for _, column := range slices.Sorted(maps.Keys(row)) {
				if text := columnText(column, row[column]); text != "" {
					rows = append(rows, cli.Row(fmt.Sprintf("%s %d", table, i+1), column, text))
				}
			}
		}
	}
	return t.Table(rows...)
}

// columnText is a value for people: times as such, bytes in base64.
func columnText(column string, v any) string {
	switch v := v.(type) {
	case string:
		return strings.TrimSpace(op.Shown(v))
	case []byte:
		return base64.StdEncoding.EncodeToString(v)
	case int64:
		if v != 0 && (column == "at" || strings.HasSuffix(column, "_at")) {
			return time.Unix(0, v).UTC().Format(time.RFC3339)
		}
		return strconv.FormatInt(v, 10)
	}
	return ""
}

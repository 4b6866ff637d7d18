package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"gpipebench/gpipe/snapshot"
	"gpipebench/internal/printable"
	"gpipebench/internal/units"
)

// listed is a snapshot as the command lists it.
type listed struct {
	Name     string            `json:"name"`
	Step     int               `json:"step"`
	Whole    bool              `json:"whole"`
	Damage   string            `json:"damage,omitempty"` // what is wrong with it
	Time     string            `json:"time,omitempty"`
	Bytes    int64             `json:"bytes,omitempty"`
	Settings map[string]string `json:"settings,omitempty"`
	Files    []snapshot.File   `json:"files,omitempty"`
}

// newSnapshot returns the command that lists and checks snapshots.
func newSnapshot() *cobra.Command {
	format := ""
	cmd := &cobra.Command{
		Use:   "snapshot DIR",
		Short: "List the snapshots of a training, and check every file of them",
		Long: `Snapshot lists the snapshots that train --snapshot-dir has written to a directory,
the oldest first, and compares every file with the SHA-256 in its manifest. It fails
if one is damaged or of another version, or if there are none. As JSON there are also
the settings that a training must have to go on from a snapshot.`,
		Example: `  gpipebench snapshot snapshots
  gpipebench snapshot snapshots --json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("snapshot: %d arguments: want one, a directory of snapshots (see gpipebench snapshot --help)", len(args))
			}
			return nil
		},
		ValidArgsFunction: cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs),
	}
	cmd.RunE = func(c *cobra.Command, args []string) error {
		return does(func(ctx context.Context, o *output) error { return listSnapshots(ctx, o, args[0], format) })(c, args)
	}
	outcomeFlags(cmd.Flags(), &format, "text", "json")
	return cmd
}

func listSnapshots(ctx context.Context, o *output, dir, format string) error {
	steps, err := snapshot.Steps(dir)
	if err != nil {
		return err
	}
	if len(steps) == 0 {
		return fmt.Errorf("%s has no snapshots: want a directory of train --snapshot-dir", printable.Quoted(dir))
	}
	var all []listed
	var first error
	damaged := 0
	for _, step := range steps {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		l := listed{Name: snapshot.Name(dir, step), Step: step}
		if s, err := snapshot.Open(l.Name); err != nil {
			if damaged++; first == nil {
				first = err
			}
			l.Damage = err.Error()
		} else {
			l.Whole, l.Time, l.Bytes, l.Settings, l.Files = true, s.Time, s.Bytes(), s.Settings, s.Files
		}
		all = append(all, l)
	}
	if format == "json" {
		err = o.json(all)
	} else {
		err = o.printf("%s", inLines(all))
	}
	if err == nil && damaged > 0 {
		err = fmt.Errorf("%d of %d snapshots cannot be gone on from: %w", damaged, len(all), first)
	}
	return err
}

func inLines(all []listed) string {
	var b strings.Builder
	for _, l := range all {
		if !l.Whole {
			fmt.Fprintf(&b, "step %d: %s\n", l.Step, printable.Line(l.Damage))
			continue
		}
		fmt.Fprintf(&b, "step %d: whole, %s, %s, %s\n", l.Step, l.Time, units.FormatBytes(l.Bytes), l.Name)
	}
	return b.String()
}

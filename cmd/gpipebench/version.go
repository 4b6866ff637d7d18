package main

import (
	"context"
	"runtime/debug"

	"github.com/spf13/cobra"

	"gpipebench/internal/machine"
	"gpipebench/lab/records"
)

func newVersion() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show what this program was built from and which kernels it uses here",
		Long: `Show what this program was built from and which kernels it uses here. The licences
of what is in it: gpipebench licences`,
		RunE: does(func(_ context.Context, o *output) error {
			v := struct {
				Version string          `json:"version"`
				Commit  string          `json:"commit"`
				Dirty   bool            `json:"dirty"`
				Machine machine.Machine `json:"machine"`
			}{Version: "(devel)", Machine: machine.This()}
			if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
				v.Version = info.Main.Version
			}
			v.Commit, v.Dirty = records.Commit()
			if format == "json" {
				return o.json(v)
			}
			commit := v.Commit
			if commit == "" {
				commit = "unknown"
			}
			if v.Dirty {
				commit += " with changes"
			}
			return o.printf("gpipebench %s\ncommit %s\n%s\n", v.Version, commit, v.Machine)
		}),
	}
	outcomeFlags(cmd.Flags(), &format, "text", "json")
	return cmd
}

package main

import (
	"context"
	_ "embed"

	"github.com/spf13/cobra"
)

// licences are the licences of the modules and of Go's library that are in this program, on any
// system: TestLicences -update writes the file.
//
//go:embed licences.txt
var licences string

func newLicences() *cobra.Command {
	return &cobra.Command{
		Use:    "licences",
		Short:  "Show the licences of what is in this program, with their authors",
		Hidden: true, // version names it: the list of commands fits a screen
		RunE:   does(func(_ context.Context, o *output) error { return o.printf("%s", licences) }),
	}
}

package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gpipebench/datasets"
	"gpipebench/datasets/gettext"
	"gpipebench/internal/failure"
	"gpipebench/lab"
)

func newData() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "data gettext:DIR[,LANG...]",
		Short: "Count the sentences that catalogs of programs have in each language",
		Long: `Data reads the gettext catalogs below DIR (` + datasets.SystemCatalogs + ` if it is empty)
as train --data does, and prints for each language how many sentences there are, how
many each rule of cleaning leaves out, and how the rest is split.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("data: %d arguments: want one, gettext:DIR[,LANG...] (see %s --help)", len(args), cmd.CommandPath())
			}
			return nil
		},
		ValidArgsFunction: cobra.FixedCompletions([]string{"gettext:"}, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return does(func(_ context.Context, o *output) error {
			dir, languages, err := datasets.CatalogsOf(args[0])
			if err != nil {
				return failure.Usage(err)
			}
			read, err := gettext.Read(dir, languages)
			if err != nil {
				return err
			}
			return catalogTable(dir, read).Write(o.out, format)
		})(cmd, nil)
	}
	outcomeFlags(cmd.Flags(), &format, lab.Formats...)
	return cmd
}

// catalogTable lists the languages of a corpus.
func catalogTable(dir string, c *gettext.Corpus) *lab.Table {
	t := &lab.Table{
		ID: "data", Title: "Sentences of gettext catalogs below " + dir,
		Caption: []string{
			fmt.Sprintf("Sentences are translated messages of %d English words or more. Left out, by the first rule that applies, are those", gettext.MinWords),
			fmt.Sprintf("without a letter or with bytes that are not text, of more than %d bytes, with a placeholder, of fewer words with a", gettext.MaxText),
			"letter without markup, not translated, or with an English sentence that is there already up to case and punctuation. The rest are pairs:",
			fmt.Sprintf("a tenth of all English sentences is held out, of each language at most %d; the others of that tenth are spare.", datasets.GettextHeldOut),
		},
	}
	t.Texts("language")
	t.Numbers("catalogs", "messages", "sentences")
	for r := range gettext.Rules {
		t.Numbers(gettext.Rule(r).String())
	}
	t.Numbers("pairs", "to train on", "held out", "spare")
	var all gettext.Language
	var pairs, trained, out, spared int
	var few []string
	for i := range c.Languages {
		l := &c.Languages[i]
		train, heldOut, spare := c.Split(l, datasets.GettextHeldOut)
		t.Add(catalogRow(l, len(l.Pairs), len(train), len(heldOut), spare)...)
		if len(train) == 0 || len(heldOut) == 0 {
			few = append(few, l.Name)
		}
		all.Catalogs, all.Messages, all.Sentences = all.Catalogs+l.Catalogs, all.Messages+l.Messages, all.Sentences+l.Sentences
		for r, n := range l.LeftOut {
			all.LeftOut[r] += n
		}
		pairs, trained, out, spared = pairs+len(l.Pairs), trained+len(train), out+len(heldOut), spared+spare
	}
	all.Name = "all"
	t.Add(catalogRow(&all, pairs, trained, out, spared)...)
	t.Notes = append(t.Notes, fmt.Sprintf("%d languages with %d different English sentences.", len(c.Languages), len(c.English)))
	if len(few) > 0 {
		t.Notes = append(t.Notes, "Too few to train on, as there is nothing on one side of the split: "+strings.Join(few, ", ")+".")
	}
	if len(c.Left) > 0 {
		t.Notes = append(t.Notes, "Left out, as they are English: "+strings.Join(c.Left, ", ")+".")
	}
	for _, charset := range slices.Sorted(maps.Keys(c.Charsets)) {
		t.Notes = append(t.Notes, fmt.Sprintf("Left out, as the charset %s is not known: %d catalogs.", charset, c.Charsets[charset]))
	}
	return t
}

// catalogRow returns the cells of a language.
func catalogRow(l *gettext.Language, pairs, train, heldOut, spare int) []any {
	cells := []any{l.Name, l.Catalogs, l.Messages, l.Sentences}
	for _, n := range l.LeftOut {
		cells = append(cells, n)
	}
	return append(cells, pairs, train, heldOut, spare)
}

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gpipebench/internal/printable"
	"gpipebench/internal/progress"
)

// --help has a command's first paragraph and a line or two for each common flag, --help-all has
// everything. manyFlags is how many flags a command has at most whose help lists all of them in one
// group.
const manyFlags = 24

// flagGroup are flags on one matter.
type flagGroup struct{ title, common, rare string }

// flagGroups are the flags of commands that have many.
var flagGroups = []flagGroup{
	{"Network", "model layers dim ff heads seq filters",
		"width vocab kv-heads head-dim rope-theta classes image tied aux official delayed split final-norm gelu clip-logits scaled-init zero-init " +
			"drop-path drop-path-rise bn-momentum keep-scores"},
	{"Data", "data batch",
		"max-batch languages pairs temperature bucket-window input-hosts target-noise " +
			"flip crop cutout train-images held-out fresh noise"},
	{"Training", "steps seed optimizer lr dropout eval-every tokens",
		"epochs load recipe warmup lr-schedule clip-norm label-smoothing l2 ema recompute-statistics keep dry load-part"},
	{"Pipeline", "partitions micro-batches schedule checkpoint replicas",
		"window zero groups blocks chunks late-recompute partitioner cost balance bn-scope spatial tied-gradients " +
			"all-reduce topology"},
	{"Devices", "device devices threads dtype memory-cap accounting",
		"link-bandwidth link-latency fused tiled peak spread transport"},
	{"Cluster", "search tensor recompute",
		"precision sequence-parallel attention gradients-apart drop-scores scatter await-transfers overlap order node-devices near-bandwidth far-bandwidth tensor-over-nodes"},
	{"Output", "generate save snapshot-dir resume log curve timeline memory by-op top csv name out json",
		"trace translations save-ema snapshot-every snapshot-keep format help help-all"},
}

// addHelp makes every command without subcommands print its help in this form.
func addHelp(root *cobra.Command) {
	for _, c := range root.Commands() {
		if c.HasSubCommands() || c.Name() == "help" {
			continue
		}
		full := false
		c.Flags().BoolFunc("help-all", "help for "+c.Name()+" with every flag in full", func(text string) error {
			on, err := strconv.ParseBool(text)
			if err == nil && on {
				full, err = true, c.Flags().Set("help", "true")
			}
			return err
		})
		c.SetHelpFunc(func(c *cobra.Command, _ []string) {
			c.InitDefaultHelpFlag()
			out := c.OutOrStdout()
			fmt.Fprint(out, helpOf(c, columns(out), full)) // its error is kept by results
		})
	}
}

// columns is the width of the terminal that a command prints to; 100 if it is none.
func columns(out io.Writer) int {
	if r, ok := out.(*results); ok {
		out = r.to
	}
	if f, ok := out.(*os.File); ok {
		return min(max(progress.Columns(f), 40), 200)
	}
	return 100
}

// helpOf is a command's help, in full or with a line for each common flag.
func helpOf(c *cobra.Command, width int, full bool) string {
	about, examples := c.Long, c.Example
	if about == "" {
		about = c.Short
	}
	all, own := 0, flagGroup{title: "Flags"}
	c.Flags().VisitAll(func(f *pflag.Flag) { all, own.common = all+1, own.common+" "+f.Name })
	groups := flagGroups
	if all <= manyFlags {
		groups = []flagGroup{own}
	}
	cut := false
	if !full {
		about, _, cut = strings.Cut(about, "\n\n")
		if lines := strings.SplitAfter(examples, "\n"); len(lines) > 3 {
			examples, cut = strings.Join(lines[:3], ""), true
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nUsage:\n  %s\n", wrapped(about, width), c.UseLine())
	if examples != "" {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", strings.TrimSuffix(examples, "\n"))
	}
	b.WriteString("\n")
	shown := 0
	for _, g := range groups {
		names := strings.Fields(g.common)
		if full {
			names = append(names, strings.Fields(g.rare)...)
		}
		lines, n := usages(c.Flags(), names, width, full)
		if shown += n; n > 0 {
			fmt.Fprintf(&b, "%s:\n%s", g.title, lines)
		}
	}
	switch {
	case shown < all:
		fmt.Fprintf(&b, "%d more flags, and more about these: %s --help-all\n", all-shown, c.CommandPath())
	case cut:
		fmt.Fprintf(&b, "More: %s --help-all\n", c.CommandPath())
	}
	return b.String()
}

// worded is a flag's value whose words stand in its usage.
type worded struct{ pflag.Value }

func (worded) Type() string { return "name" }

// usages lists the named flags that a command has, in full or with the first clause of their usage,
// and counts them.
func usages(all *pflag.FlagSet, names []string, width int, full bool) (lines string, n int) {
	shown := pflag.NewFlagSet("", pflag.ContinueOnError)
	shown.SortFlags = false
	for _, name := range names {
		f := all.Lookup(name)
		if f == nil {
			continue
		}
		n++
		own := *f
		first, rest, more := strings.Cut(own.Usage, "; ")
		if kind := f.Value.Type(); len(kind) > 20 && strings.Contains(kind, "|") && !strings.Contains(kind, "..") {
			own.Value = worded{f.Value}
			first += ": " + strings.ReplaceAll(kind, "|", ", ")
		}
		if own.Usage = first; full && more {
			own.Usage += "; " + rest
		}
		shown.AddFlag(&own)
	}
	return shown.FlagUsagesWrapped(width), n
}

// wrapped breaks paragraphs into lines of a width; a paragraph with an indented line stays as it is.
func wrapped(text string, width int) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		if strings.Contains("\n"+p, "\n ") {
			continue
		}
		lines := printable.Fold(p, func(line string) bool { return len(line) <= width })
		paragraphs[i] = strings.Join(lines, "\n")
	}
	return strings.Join(paragraphs, "\n\n")
}

// meant returns the name that a misspelt one is nearest to, "" if none is near: it begins with
// what was given, or at most two changes, of a quarter of the letters, make it.
func meant(given string, names []string) string {
	best, least := "", min(3, len(given)/4+1)
	if len(given) > 40 {
		return ""
	}
	letters := func(name string) string { return strings.ToLower(strings.ReplaceAll(name, "-", "")) }
	for _, name := range names {
		d := changes(letters(given), letters(name))
		if len(given) > 3 && strings.HasPrefix(letters(name), letters(given)) {
			d = min(d, 1)
		}
		if d < least {
			best, least = name, d
		}
	}
	return best
}

// changes counts the letters to insert, remove, replace or swap with the next that make one text
// of another.
func changes(a, b string) int {
	rows := make([][]int, len(a)+1) // of the changes from a[:i] to b[:j]
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		for j := range rows[i] {
			switch {
			case i == 0 || j == 0:
				rows[i][j] = i + j
			case a[i-1] == b[j-1]:
				rows[i][j] = rows[i-1][j-1]
			default:
				rows[i][j] = 1 + min(rows[i-1][j-1], rows[i-1][j], rows[i][j-1])
				if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
					rows[i][j] = min(rows[i][j], 1+rows[i-2][j-2])
				}
			}
		}
	}
	return rows[len(a)][len(b)]
}

// knownFlag adds to an error about an unknown flag which one is meant.
func knownFlag(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	slices.Sort(names)
	if name := meant(unknown.GetSpecifiedName(), names); name != "" {
		return fmt.Errorf("%w: did you mean --%s?", err, name)
	}
	return err
}

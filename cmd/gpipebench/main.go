// Command gpipebench regenerates the GPipe paper's tables on an ordinary
// machine, and trains, times, describes and simulates networks cut into
// pipelines.
//
// It parses, calls package experiments and prints. Results go to standard output,
// progress and errors to standard error. Exit status: 0 done, 1 failed, 2 usage. An
// error is one line; if it is a defect of this program, the line says so and where,
// and names the file with the trace.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gpipebench/experiments"
	"gpipebench/gpipe"
	"gpipebench/gpipe/cluster"
	"gpipebench/internal/failure"
	"gpipebench/internal/files"
	"gpipebench/internal/printable"
	"gpipebench/internal/progress"
	"gpipebench/internal/shutdown"
	"gpipebench/lab/records"
	"gpipebench/train"
)

func main() {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, func() { time.Sleep(once); stop() }) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// once is for how long what follows a signal is the same one: timeout sends it to a process and to
// its group, which is twice.
var once = 200 * time.Millisecond

// grace is how long a command may take to stop once it is interrupted and nothing holds it
// any more, as a training does that writes a snapshot. Computing notices an interrupt
// between two tasks; planning and allocating do not.
const grace = 5 * time.Second

// run executes a command line and returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	ctx, holds := shutdown.With(ctx)
	out := &results{to: stdout}
	root := newRoot(out, stderr)
	root.SetArgs(joinTied(args))
	done := make(chan error, 1)
	go func() { done <- caught(ctx, root) }()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		free := make(chan struct{})
		go func() { holds.Wait(); time.Sleep(grace); close(free) }()
		select {
		case err = <-done:
		case <-free:
			err = ctx.Err()
		}
	}
	if out.err != nil && (err == nil || errors.Is(err, out.err)) { // help, for one, ignores it
		err = &runError{out.err}
	}
	if err == nil {
		return 0
	}
	var launched *cluster.Failed
	if errors.As(err, &launched) { // whose rank 0 has said why
		return launched.Status
	}
	var known *train.ElsewhereError
	if errors.As(err, &known) {
		return 1
	}
	var kept *train.Interrupted
	if errors.As(err, &kept) || ctx.Err() != nil || errors.Is(err, context.Canceled) { // also if only another process was
		if follows() {
			return 1
		}
		how := "interrupted"
		switch {
		case kept != nil:
			how = kept.Error()
		case ctx.Err() == nil:
			how += ": " + err.Error() // by which rank
		}
		fmt.Fprintln(stderr, printable.Short(printable.Line("gpipebench: "+how+"; no file is left half-written"), longest))
		return 1
	}
	text, status := complaint(err)
	if status == 1 || !follows() { // a wrong usage is every rank's
		fmt.Fprintln(stderr, text)
	}
	return status
}

// caught runs a command and returns a panic as an error.
func caught(ctx context.Context, root *cobra.Command) (err error) {
	defer failure.Catch(&err)
	return root.ExecuteContext(ctx)
}

// complaint returns an error in a line, and its exit status. The line of a defect names
// the file with the trace.
func complaint(err error) (text string, status int) {
	if line, trace, ok := failure.Report(err); ok {
		line = printable.Line("gpipebench: " + line)
		name, err := writeTrace(line, trace)
		if err != nil {
			return printable.Short(line, longest) + "; its trace cannot be written: " + err.Error(), 1
		}
		return printable.Short(line, longest) + "; its trace is in " + name, 1
	}
	var misfit *gpipe.MisfitError
	if errors.As(err, &misfit) {
		err = fmt.Errorf("%w (it depends on --batch, -m and sizes such as --image or --seq)", err)
	}
	var failed *runError
	var misuse *failure.UsageError
	status = 2
	if errors.As(err, &failed) && !errors.As(err, &misuse) && misfit == nil {
		status = 1
	}
	return printable.Short(printable.Line("gpipebench: "+err.Error()), longest), status
}

// writeTrace writes a defect's trace to a file of its own.
func writeTrace(line string, trace []byte) (name string, err error) {
	dir, err := os.MkdirTemp("", "gpipebench-defect-*")
	if err != nil {
		return "", err
	}
	name = filepath.Join(dir, "trace.txt")
	return name, files.Write(name, func(w io.Writer) error {
		commit, changed := records.Commit()
		_, err := fmt.Fprintf(w, "%s\n\ncommit %s, with changes: %v; %s, %s/%s\n%q\n\n%s", line, commit, changed, runtime.Version(), runtime.GOOS, runtime.GOARCH, os.Args, trace)
		return err
	})
}

// longest is how many characters of an error are printed, as an input may be of any
// length.
const longest = 1000

// results is where a command's results go. It keeps the first error, since not every
// writer checks it.
type results struct {
	to  io.Writer
	err error
}

func (r *results) Write(p []byte) (int, error) {
	n, err := r.to.Write(p)
	if err != nil {
		var of *os.PathError
		if errors.As(err, &of) {
			err = of.Err
		}
		err = fmt.Errorf("standard output: %w", err)
		if r.err == nil {
			r.err = err
		}
	}
	return n, err
}

// runError is an error of a command that runs. Other errors are cobra's, about flags and
// arguments.
type runError struct{ error }

func (f *runError) Unwrap() error { return f.error }

// does returns the function of a command that takes no arguments.
func does(f func(ctx context.Context, out *output) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		o, said := &output{out: cmd.OutOrStdout(), follows: follows()}, cmd.ErrOrStderr()
		if o.follows {
			o.out, said = io.Discard, io.Discard
		}
		o.progress, o.width = progress.New(said), columns(o.out)
		return ran(f(cmd.Context(), o))
	}
}

// ran is the error of a command that ran, nil if it has none.
func ran(err error) error {
	if err != nil {
		return &runError{err}
	}
	return nil
}

func newRoot(stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:   "gpipebench",
		Short: "Reproduce the GPipe paper's tables on an ordinary machine",
		Long: `gpipebench reproduces the experiments of "GPipe: Efficient Training of Giant Neural
Networks using Pipeline Parallelism" (Huang et al., arXiv 1811.06965) on an
ordinary machine, and runs its parts by themselves.

Begin with: gpipebench reproduce`,
		Args:          knownCommand,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },

		PersistentPreRunE: onlyAlone,
	}
	root.AddCommand(
		newReproduce(), newReport(), newPlayground(), newTrain(), newBench(), newDescribe(), newSchedule(), newCut(), newSimulate(), newPlan(), newScoreboard(), newCalibrate(), newVerify(), newRecords(), newRound(), newLaunch(), newRank(), newExchange(), newLicences(), newVersion(),
	)
	addPapers(root)
	for _, c := range root.Commands() {
		if c.Args == nil {
			c.Args = noArguments
		}
	}
	root.SetOut(stdout) // before there is a completion command, which asks once
	root.SetErr(stderr)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Args = func(help *cobra.Command, args []string) error { return knownCommand(root, args) }
		case "completion":
			c.Args = knownCommand
			c.RunE = func(completion *cobra.Command, _ []string) error { return completion.Help() }
		}
	}
	addExamples(root)
	addHelp(root)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		var invalid *pflag.InvalidValueError
		if errors.As(err, &invalid) {
			err = badValue(invalid)
		}
		err = knownFlag(cmd, err)
		return fmt.Errorf("%w (see %s --help)", err, cmd.CommandPath())
	})
	return root
}

// addPapers adds a command for each experiment, and one for each paper but the first, which
// is reproduce's. The list of commands has the first paper's experiments; another paper's
// are in the help of its command.
func addPapers(root *cobra.Command) {
	root.AddGroup(
		&cobra.Group{ID: "work", Title: "Commands:"},
		&cobra.Group{ID: "first", Title: "Experiments of " + experiments.Papers[0].Title + ":"},
		&cobra.Group{ID: "others", Title: "Other papers (each command's help lists its experiments):"},
	)
	root.SetHelpCommandGroupID("work")
	root.SetCompletionCommandGroupID("work")
	for _, c := range root.Commands() {
		c.GroupID = "work"
	}
	for i, p := range experiments.Papers {
		var list strings.Builder
		for _, parts := range experiments.Commands(p.Experiments) {
			c := newTables(parts[0].ID, parts[0].Title(), parts, nil)
			c.GroupID, c.Hidden = "first", i > 0
			var titles []string
			for _, d := range parts {
				titles = append(titles, d.Title())
			}
			c.Long = strings.Join(titles, ".\n\n")
			fmt.Fprintf(&list, "\n  %-21s %s", c.Name(), c.Short)
			root.AddCommand(c)
		}
		if i > 0 {
			c := newTables(p.Name, p.Title, p.Experiments, &p)
			c.GroupID, c.Long = "others", p.Title+"\n\nIts experiments, which are also commands:"+list.String()
			root.AddCommand(c)
		}
	}
}

// badValue returns an error with what a flag takes, and as much of its value as can be
// read.
func badValue(invalid *pflag.InvalidValueError) error {
	value, text := invalid.GetValue(), invalid.Error()
	var number *strconv.NumError
	if errors.As(invalid, &number) { // of a switch, in strconv's words
		text = fmt.Sprintf("invalid argument %q for %q flag: want true or false", value, "--"+invalid.GetFlag().Name)
	}
	if short := printable.Short(value, 100); short != value { // which may be there more than once
		quoted := func(s string) string { return strings.Trim(strconv.Quote(s), `"`) }
		text = strings.ReplaceAll(strings.ReplaceAll(text, value, short), quoted(value), quoted(short))
	}
	return errors.New(text)
}

// knownCommand refuses what is not the name of a subcommand.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.Name() == args[0] { // help of it is wanted
			return nil
		}
		if !c.Hidden {
			names = append(names, c.Name())
		}
	}
	if name := meant(args[0], names); name != "" {
		return fmt.Errorf("unknown command %q: did you mean %s? (see %s --help)", args[0], name, cmd.Root().Name())
	}
	return fmt.Errorf("unknown command %q: want %s", args[0], strings.Join(names, ", "))
}

// noArguments refuses arguments, since most commands have flags only.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("%s: unexpected argument %q: want flags only (see %s --help)", cmd.Name(), args[0], cmd.CommandPath())
}

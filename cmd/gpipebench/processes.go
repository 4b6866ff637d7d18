package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gpipebench"
	"gpipebench/gpipe/cluster"
	"gpipebench/gpipe/transport/mpi"
	"gpipebench/gpipe/transport/sockets"
	"gpipebench/internal/failure"
	"gpipebench/internal/units"
	"gpipebench/lab/exchange"
	"gpipebench/lab/records"
	"gpipebench/lab/timed"
	"gpipebench/train"
)

// Commands that several processes run together, if an engine has started them: all of
// them compute, and rank 0 prints and writes.

// togetherCommands are those commands.
var togetherCommands = []string{"train", "bench"}

// eachCommands are those that any process may run by itself.
var eachCommands = []string{cluster.RankCommand, timed.RoundCommand, exchange.Command, "version", "help", "completion", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}

// onlyAlone refuses to run other commands once in every process of an engine.
func onlyAlone(cmd *cobra.Command, _ []string) error {
	w, _ := cluster.Ranks() // its error is for the commands that need the rest
	if w.Alone() || slices.Contains(togetherCommands, cmd.Name()) || slices.Contains(eachCommands, cmd.Name()) || cmd.HasParent() && slices.Contains(eachCommands, cmd.Parent().Name()) {
		return nil
	}
	return failure.Usagef("%s runs in one process, and %s has started %d: want %s there", cmd.Name(), w.Launcher, w.Size, strings.Join(togetherCommands, " or "))
}

// follows reports whether another process prints.
func follows() bool {
	w, _ := cluster.Ranks() // its error is for those who need the rest
	return w.Rank > 0
}

// together returns the processes that an engine has started for a command, and all of its flags
// must be alike in them; nil if this one is alone.
func together(cmd *cobra.Command, in train.Processes, s *train.Setup) (*train.Processes, error) {
	p, err := in.Find(s)
	if p != nil {
		p.Facts = facts(cmd)
	}
	return p, err
}

// processFlags adds the flags of several processes.
func processFlags(fs *pflag.FlagSet, p *train.Processes) {
	value(fs, &p.ByStage, "spread", "replica", "replica|stage", "order in which several processes share places; by replica, then stage, or by stage, then replica", func(s string) (bool, error) {
		word, err := oneOf("replica", "stage")(s)
		return word == "stage", err
	})
	value(fs, &p.MPI, "transport", "sockets", "sockets|mpi", "what connects several processes; sockets: TCP or Unix sockets. mpi: a program that is built with it (docs/cluster.md) and started by its mpirun", func(s string) (bool, error) {
		word, err := oneOf("sockets", "mpi")(s)
		if err == nil && word == "mpi" {
			err = mpi.Built()
		}
		return word == "mpi", err
	})
}

// facts are what must be the same in all processes of a command.
func facts(cmd *cobra.Command) []sockets.Fact {
	commit, dirty := records.Commit()
	all := []sockets.Fact{
		{Name: "program", Value: fmt.Sprintf("engine %s, commit %s, changes %v, %s %s/%s", gpipebench.Engine(), commit, dirty, runtime.Version(), runtime.GOOS, runtime.GOARCH)},
		{Name: "command", Value: cmd.Name()},
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		all = append(all, sockets.Fact{Name: "--" + f.Name, Value: f.Value.String()})
	})
	return all
}

// printProcesses lists the processes that ran something together, and what they sent
// each other in a step.
func printProcesses(b *strings.Builder, all []train.Process, traffic []train.Travelled) {
	for _, p := range all {
		fmt.Fprintf(b, "  rank %d on %s: %s, resident memory at most %s", p.Rank, p.Host, p.Places, units.FormatBytes(p.MaxRSSBytes))
		if p.Rank > 0 {
			fmt.Fprintf(b, ", clock known within %s", units.FormatSeconds(p.ClockWithin))
		}
		b.WriteString("\n")
	}
	for _, t := range traffic {
		fmt.Fprintf(b, "  a step sends from process to process: %s, %s in %d messages, received in %s\n", t.What, units.FormatBytes(t.Bytes), t.Messages, units.FormatSeconds(t.Seconds))
	}
}

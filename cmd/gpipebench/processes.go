package main

import (
	"fmt"
	"os"
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
	return failure.Usagef("%s runs in one process, but %s has started %d: want %s there", cmd.Name(), w.Launcher, w.Size, strings.Join(togetherCommands, " or "))
}

// follows reports whether another process prints.
func follows() bool {
	w, _ := cluster.Ranks() // its error is for those who need the rest
	return w.Rank > 0
}

// newLaunch returns the command that starts the processes. The thread goes on in each of them: it is this
// program again, with the command of [newRank], which reads its order and runs the command after --, as
// if it had been started with that.
func newLaunch() *cobra.Command {
	l := cluster.Launching{}
	var hosts string
	cmd := &cobra.Command{
		Use:   "launch -n P [flags] -- train|bench [flags]",
		Short: "Run train or bench in several processes",
		Long: `Launch starts processes that run one training or benchmark together, on this machine
or, with --hosts, on other hosts over ssh. Each process gets a consecutive range of the
R x K devices. The result has the same bits as in one process. Rank 0 prints and writes
files. If a process dies, or is silent for longer than --timeout, the run ends with a
one-line error, and no process is left.

mpirun, srun, torchrun and Kubernetes can start the processes instead of this command;
see docs/cluster.md.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if len(args) == 0 || !slices.Contains(togetherCommands, args[0]) {
				return fmt.Errorf("launch: want a command after --: %s, with its flags (see gpipebench launch --help)", strings.Join(togetherCommands, " or "))
			}
			l.Args = args
			if l.Executable, err = os.Executable(); err == nil && hosts != "" {
				l.Hosts, err = cluster.ReadHosts(hosts)
			}
			if err != nil {
				return ran(err)
			}
			l.Stdout, l.Stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
			if r, ok := l.Stdout.(*results); ok {
				l.Stdout = r.to
			}
			return ran(l.Run(cmd.Context()))
		},
	}
	fs := cmd.Flags()
	count(fs, &l.Processes, "n|processes", 2, 1, sockets.MaxSize, "processes, at most one for each device")
	value(fs, &l.TCP, "network", "unix", "unix|tcp", "how processes on one machine connect: Unix sockets, or TCP over loopback; several hosts use TCP", second("unix", "tcp"))
	fs.StringVar(&hosts, "hosts", "", "file of hosts for ssh, one per line: a name that ssh knows, and optionally slots=N for at most N processes (default: this machine)")
	value(fs, &l.Limit, "timeout", sockets.DefaultLimit.String(), "duration", "time after which a silent process counts as dead, and for all processes to connect, from 1s to 24h", cluster.ParseLimit)
	fs.StringVar(&l.SSH, "ssh", "ssh", "ssh program to use")
	return cmd
}

// newRank returns the command that launch starts.
func newRank() *cobra.Command {
	return &cobra.Command{
		Use:    cluster.RankCommand,
		Short:  "Be one of the processes that launch starts",
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			args, ctx, err := cluster.Obey(cmd.Context(), cmd.InOrStdin())
			if err != nil {
				return ran(err)
			}
			inner := newRoot(cmd.OutOrStdout(), cmd.ErrOrStderr())
			inner.SetArgs(joinTied(args))
			return inner.ExecuteContext(ctx)
		},
	}
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
	value(fs, &p.ByStage, "spread", "replica", "replica|stage", "order in which several processes share places; by replica, then stage, or by stage, then replica", second("replica", "stage"))
	value(fs, &p.MPI, "transport", "sockets", "sockets|mpi", "what connects several processes; sockets: TCP or Unix sockets. mpi: a program that is built with it (docs/cluster.md) and started by its mpirun", func(s string) (bool, error) {
		over, err := second("sockets", "mpi")(s)
		if over {
			err = mpi.Built()
		}
		return over, err
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

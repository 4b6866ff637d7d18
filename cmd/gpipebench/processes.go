package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gpipebench"
	"gpipebench/gpipe/cluster"
	"gpipebench/gpipe/transport"
	"gpipebench/gpipe/transport/mpi"
	"gpipebench/gpipe/transport/sockets"
	"gpipebench/internal/failure"
	"gpipebench/internal/units"
	"gpipebench/lab/exchange"
	"gpipebench/lab/records"
	"gpipebench/lab/timed"
	"gpipebench/nn"
	"gpipebench/train"
)

// Commands that several processes run together, if an engine has started them: all of
// them compute, and that of rank 0 prints and writes.

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

// heard is where a process prints: nowhere, unless its rank is 0.
func heard(w io.Writer) io.Writer {
	if follows() {
		return io.Discard
	}
	return w
}

// follows reports whether another process prints.
func follows() bool {
	w, _ := cluster.Ranks() // its error is for those who need the rest
	return w.Rank > 0
}

// elsewhere is an error that rank 0 prints.
type elsewhere struct{ error }

func (e *elsewhere) Unwrap() error { return e.error }

// processes is how a command runs in several processes.
type processes struct {
	byStage bool // the order of places
	mpi     bool // messages of MPI in place of sockets
}

// processFlags adds the flags of several processes.
func processFlags(fs *pflag.FlagSet, p *processes) {
	value(fs, &p.byStage, "spread", "replica", "replica|stage", "how places are divided among processes, if there are several: consecutive places by replica, then stage, or by stage, then replica", func(s string) (bool, error) {
		word, err := oneOf("replica", "stage")(s)
		return word == "stage", err
	})
	value(fs, &p.mpi, "transport", "sockets", "sockets|mpi", "what connects processes, if there are several: TCP or Unix sockets; or MPI, in a program that is built with it (docs/cluster.md) and started by its mpirun", func(s string) (bool, error) {
		word, err := oneOf("sockets", "mpi")(s)
		if err == nil && word == "mpi" {
			err = mpi.Built()
		}
		return word == "mpi", err
	})
}

// world is what the environment says of the processes.
func (p processes) world() (cluster.World, error) {
	if !p.mpi {
		return cluster.FromEnvironment()
	}
	w, err := cluster.Ranks()
	if err == nil && w.Launcher == "" {
		err = errors.New("--transport mpi: no engine has started this process: want mpirun -n P gpipebench, with the mpirun of " + mpi.Implementation)
	}
	return w, err
}

// together runs f in this process and, if an engine has started several, in all of them,
// each with some of the places. Its processes are nil if there is one.
func (p processes) together(ctx context.Context, cmd *cobra.Command, s *train.Setup, f func(*train.Processes) error) error {
	world, err := p.world()
	if err != nil {
		return failure.Usage(err)
	}
	if world.Alone() {
		return f(nil)
	}
	spread := cluster.Spread{Replicas: max(s.Replicas, 1), Stages: s.Partitions, Processes: world.Size, ByStage: p.byStage}
	if err := spread.Validate(); err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	m := meeting{world: world}
	err = f(&train.Processes{
		Own: train.Process{Rank: world.Rank, Host: host, Places: spread.Of(world.Rank)},
		Connect: func(ctx context.Context, data string) (transport.Transport, error) {
			tasks, err := s.ScheduleDigest()
			if err != nil {
				return nil, err
			}
			c := sockets.Config{
				Rank: world.Rank, Size: world.Size, Address: world.Address, Secret: world.Secret, Limit: world.Limit,
				Owner: spread.Owner, Where: spread.Of, Facts: facts(cmd, data, tasks),
			}
			if p.mpi {
				if err := m.join(ctx); err != nil {
					return nil, err
				}
				c.Network, c.Address = m.mpi, mpi.Address
			}
			e, err := sockets.Connect(ctx, c)
			if err != nil {
				return nil, err
			}
			m.end = e
			return e, nil
		},
	})
	return m.leave(ctx, err)
}

// meeting is this process's part in a run of several.
type meeting struct {
	world cluster.World
	end   *sockets.End // nil: it did not come to that
	mpi   *mpi.World   // nil: sockets connect the processes, or it did not come to that
}

// join takes part in MPI, which must know the same processes as the environment.
func (m *meeting) join(ctx context.Context) (err error) {
	if m.mpi, err = mpi.Join(ctx, m.world.Limit); err != nil {
		return err
	}
	if rank, size := m.mpi.Rank(), m.mpi.Size(); rank != m.world.Rank || size != m.world.Size {
		return failure.Usagef("%s has started rank %d of %d, and for %s it is rank %d of %d: want the mpirun of the MPI that this program was built with", m.world.Launcher, m.world.Rank, m.world.Size, mpi.Implementation, rank, size)
	}
	return nil
}

// leave ends this process's part, with an error or nil.
func (m *meeting) leave(ctx context.Context, err error) error {
	switch {
	case err == nil && m.end != nil:
		err = m.end.Close()
		if m.mpi != nil {
			err = cmp.Or(err, m.mpi.Close())
		}
		return err
	case err == nil:
		return nil
	case m.end != nil:
		m.end.Fail(err)
	}
	if m.mpi != nil {
		m.mpi.Leave()
	}
	says := m.says(err)
	if m.world.EndsAll && m.world.Rank > 0 && (m.end == nil || !says) { // who says why ends first, or would be ended before
		time.Sleep(2 * time.Second) // also if this process itself was told to end
	}
	if !says {
		return &elsewhere{err}
	}
	return err
}

// says reports whether this process prints an error: rank 0, or the lowest that is left.
func (m *meeting) says(err error) bool {
	if m.end == nil {
		var refused *sockets.Refusal
		return !errors.As(err, &refused)
	}
	var gone *transport.PeerError
	return m.world.Rank == 0 || errors.As(err, &gone) && gone.Rank == 0 && m.world.Rank == 1
}

// facts are what must be the same in all processes of a command: besides flags, what the
// files that these name have in them.
func facts(cmd *cobra.Command, data, tasks string) []sockets.Fact {
	commit, dirty := records.Commit()
	all := []sockets.Fact{
		{Name: "program", Value: fmt.Sprintf("engine %s, commit %s, changes %v, %s %s/%s", gpipebench.Engine(), commit, dirty, runtime.Version(), runtime.GOOS, runtime.GOARCH)},
		{Name: "kernel profile", Value: nn.KernelProfile()},
		{Name: "command", Value: cmd.Name()},
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		all = append(all, sockets.Fact{Name: "--" + f.Name, Value: f.Value.String()})
	})
	return append(all, sockets.Fact{Name: "content of data or weights", Value: data}, sockets.Fact{Name: "content of the schedule's file", Value: tasks})
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

func newLaunch() *cobra.Command {
	l := cluster.Launching{}
	var hosts string
	cmd := &cobra.Command{
		Use:   "launch -n P [flags] -- train|bench [flags]",
		Short: "Run train or bench in several processes",
		Long: `Launch starts processes that run one training or benchmark together, on this
machine or, with --hosts, on others over ssh: each has some of the K devices of the R
replicas, consecutive ones. The outcome has the same bits as in one process. Rank 0
prints and writes files. When a process dies, or is silent for longer than --timeout,
the run ends with one line, and no process is left.

mpirun, srun, torchrun and Kubernetes start such processes without this command; see
docs/cluster.md.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if len(args) == 0 || !slices.Contains(togetherCommands, args[0]) {
				return fmt.Errorf("launch: want a command after --: %s, with its flags (see gpipebench launch --help)", strings.Join(togetherCommands, " or "))
			}
			l.Args = args
			if l.Executable, err = os.Executable(); err != nil {
				return &runError{err}
			}
			if hosts != "" {
				if l.Hosts, err = cluster.ReadHosts(hosts); err != nil {
					return &runError{err}
				}
			}
			l.Stdout, l.Stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
			if r, ok := l.Stdout.(*results); ok {
				l.Stdout = r.to
			}
			if err := l.Run(cmd.Context()); err != nil {
				return &runError{err}
			}
			return nil
		},
	}
	fs := cmd.Flags()
	count(fs, &l.Processes, "n|processes", 2, 1, sockets.MaxSize, "processes, at most one for each device")
	value(fs, &l.TCP, "network", "unix", "unix|tcp", "what connects the processes of one machine: Unix sockets, or TCP over its loopback; those of several hosts have TCP", func(s string) (bool, error) {
		word, err := oneOf("unix", "tcp")(s)
		return word == "tcp", err
	})
	fs.StringVar(&hosts, "hosts", "", "file of hosts to start them on with ssh, a line each: a name that ssh knows, and slots=N for at most N processes (default: this machine)")
	value(fs, &l.Limit, "timeout", sockets.DefaultLimit.String(), "duration", "longest silence of a process that lives, and longest time for all to come together, from 1s to 24h", cluster.ParseLimit)
	fs.StringVar(&l.SSH, "ssh", "ssh", "program that starts a command on a host")
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
				return &runError{err}
			}
			inner := newRoot(cmd.OutOrStdout(), cmd.ErrOrStderr())
			inner.SetArgs(joinTied(args))
			return inner.ExecuteContext(ctx)
		},
	}
}

// launched is the status of a run of which rank 0 has printed the error.
func launched(err error) (status int, ok bool) {
	var failed *cluster.Failed
	if !errors.As(err, &failed) {
		return 0, false
	}
	return failed.Status, true
}

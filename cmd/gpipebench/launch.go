package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gpipebench/gpipe/cluster"
	"gpipebench/gpipe/transport/sockets"
)

// newLaunch returns the command that starts the processes. The thread goes on in each of them: it is this
// program again, with the command of [newRank], which reads its order and runs the command after --, as
// if it had been started with that.
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
	value(fs, &l.TCP, "network", "unix", "unix|tcp", "what connects the processes of one machine: Unix sockets, or TCP over its loopback; several hosts use TCP", func(s string) (bool, error) {
		word, err := oneOf("unix", "tcp")(s)
		return word == "tcp", err
	})
	fs.StringVar(&hosts, "hosts", "", "file of hosts for ssh, one on each line: a name that ssh knows, and slots=N for at most N processes (default: this machine)")
	value(fs, &l.Limit, "timeout", sockets.DefaultLimit.String(), "duration", "longest silence of a live process, and longest time until all have connected, from 1s to 24h", cluster.ParseLimit)
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
				return ran(err)
			}
			inner := newRoot(cmd.OutOrStdout(), cmd.ErrOrStderr())
			inner.SetArgs(joinTied(args))
			return inner.ExecuteContext(ctx)
		},
	}
}

// launched is the exit status of a run whose error rank 0 has printed.
func launched(err error) (status int, ok bool) {
	var failed *cluster.Failed
	if !errors.As(err, &failed) {
		return 0, false
	}
	return failed.Status, true
}

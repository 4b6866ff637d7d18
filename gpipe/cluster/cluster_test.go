package cluster

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/transport/sockets"
	"gpipebench/internal/testkit"
)

const long = "0123456789abcdef"

// What each engine tells its processes is understood.
func TestFromEnvironment(t *testing.T) {
	type env map[string]string
	ompi := env{"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "OMPI_MCA_orte_hnp_uri": "3815178240.0;tcp://10.1.2.3,192.168.0.1:41234"}
	slurm := env{"SLURM_JOB_ID": "77", "SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "node[003-007,9],other", "SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "8", "SLURM_STEP_NUM_NODES": "4"}
	torch := env{"RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "10.0.0.7", "MASTER_PORT": "29500"}
	kubernetes := env{"JOB_COMPLETION_INDEX": "1", SizeVariable: "3", AddressVariable: "job-0.job:7000"}
	with := func(e env, pairs ...string) env {
		e = maps.Clone(e)
		for i := 0; i < len(pairs); i += 2 {
			e[pairs[i]] = pairs[i+1]
		}
		return e
	}
	for name, c := range map[string]struct {
		env  env
		want World
	}{
		"alone":            {env{}, World{Size: 1}},
		"mpirun -n 1":      {env{"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"}, World{Launcher: "Open MPI", EndsAll: true, Size: 1}},
		"a batch script":   {env{"SLURM_JOB_ID": "77", "SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, World{Size: 1}},
		"a pod by itself":  {env{"JOB_COMPLETION_INDEX": "1"}, World{Size: 1}},
		"names alone":      {env{"RANK": "1", "WORLD_SIZE": "4"}, World{Size: 1}},
		"own":              {env{RankVariable: "1", SizeVariable: "2", AddressVariable: "unix:/tmp/x", TimeoutVariable: "5s"}, World{Launcher: "gpipebench", Rank: 1, Size: 2, Address: "unix:/tmp/x", Limit: 5 * time.Second}},
		"own before":       {with(ompi, RankVariable, "0", SizeVariable, "2", AddressVariable, "unix:/tmp/x"), World{Launcher: "gpipebench", Size: 2, Address: "unix:/tmp/x"}},
		"Open MPI":         {with(ompi, SecretVariable, long), World{Launcher: "Open MPI", EndsAll: true, Rank: 2, Size: 4, Address: "10.1.2.3:" + portOf("3815178240.0"), Secret: []byte(long)}},
		"Open MPI, here":   {with(ompi, "OMPI_COMM_WORLD_LOCAL_SIZE", "4"), World{Launcher: "Open MPI", EndsAll: true, Rank: 2, Size: 4, Address: "unix:/t/gpipebench-7-JOB"}},
		"Open MPI, IPv6":   {with(ompi, SecretVariable, long, "OMPI_MCA_orte_hnp_uri", "77.0;tcp6://[2001:db8::1,fe80::2]:41234"), World{Launcher: "Open MPI", EndsAll: true, Rank: 2, Size: 4, Address: "[2001:db8::1]:" + portOf("77.0"), Secret: []byte(long)}},
		"Open MPI, given":  {with(ompi, SecretVariable, long, AddressVariable, "head:1"), World{Launcher: "Open MPI", EndsAll: true, Rank: 2, Size: 4, Address: "head:1", Secret: []byte(long)}},
		"MPICH, here":      {env{"PMI_RANK": "0", "PMI_SIZE": "2", "MPI_LOCALNRANKS": "2"}, World{Launcher: "MPICH", EndsAll: true, Size: 2, Address: "unix:/t/gpipebench-7-JOB"}},
		"Slurm":            {with(slurm, SecretVariable, long), World{Launcher: "Slurm", EndsAll: true, Rank: 3, Size: 8, Address: "node003:" + portOf("77.0"), Secret: []byte(long)}},
		"Slurm, one node":  {with(slurm, "SLURM_STEP_NUM_NODES", "1"), World{Launcher: "Slurm", EndsAll: true, Rank: 3, Size: 8, Address: "unix:/t/gpipebench-7-JOB"}},
		"torchrun":         {with(torch, SecretVariable, long), World{Launcher: "torchrun", Rank: 1, Size: 4, Address: "10.0.0.7:29500", Secret: []byte(long)}},
		"torchrun's store": {with(torch, SecretVariable, long, "TORCHELASTIC_USE_AGENT_STORE", "True"), World{Launcher: "torchrun", Rank: 1, Size: 4, Address: "10.0.0.7:29501", Secret: []byte(long)}},
		"Kubernetes":       {with(kubernetes, SecretVariable, long), World{Launcher: "Kubernetes", Rank: 1, Size: 3, Address: "job-0.job:7000", Secret: []byte(long)}},
	} {
		got, err := from(func(name string) string { return c.env[name] }, 1234, "/t", 7)
		if strings.HasPrefix(got.Address, "unix:/t/gpipebench-7-") && len(got.Address) == len("unix:/t/gpipebench-7-")+12 {
			got.Address = "unix:/t/gpipebench-7-JOB"
		}
		if err != nil || fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, c.want)
		}
	}
	for says, e := range map[string]env{
		`OMPI_COMM_WORLD_RANK="4" in the environment: want a whole number from 0 to 3`: with(ompi, "OMPI_COMM_WORLD_RANK", "4"),
		`OMPI_COMM_WORLD_SIZE="x"`:                                   with(ompi, "OMPI_COMM_WORLD_SIZE", "x"),
		"GPIPEBENCH_SECRET has 0 bytes: want at least 16":            ompi,
		"GPIPEBENCH_SECRET has 5 bytes":                              with(ompi, "OMPI_COMM_WORLD_LOCAL_SIZE", "4", SecretVariable, "short"),
		"has no address of mpirun; or set GPIPEBENCH_ADDRESS=":       with(ompi, "OMPI_MCA_orte_hnp_uri", "none"),
		"MPICH does not tell its processes where rank 0 is":          {"PMI_RANK": "0", "PMI_SIZE": "2", "MPI_LOCALNRANKS": "1"},
		"want hosts such as node[1-4]":                               with(slurm, "SLURM_STEP_NODELIST", "node["),
		`MASTER_PORT="99999"`:                                        with(torch, "MASTER_PORT", "99999"),
		`GPIPEBENCH_TIMEOUT: "0.5s": want a duration from 1s to 24h`: with(kubernetes, TimeoutVariable, "0.5s"),
		"Kubernetes does not tell":                                   with(kubernetes, AddressVariable, ""),
	} {
		got, err := from(func(name string) string { return e[name] }, 1234, "/t", 7)
		if strings.Contains(says, "SECRET") && got.Rank != 2 {
			t.Errorf("%s: rank %d, which others say this for", says, got.Rank)
		}
		testkit.Fails(t, err, says)
	}
}

// Two jobs on a machine have two directories, the processes of one the same.
func TestJobNames(t *testing.T) {
	address := func(parent int, env map[string]string) string {
		w := testkit.Must(from(func(name string) string { return env[name] }, parent, "/t", 7))(t)
		return w.Address
	}
	pmi := map[string]string{"PMI_RANK": "0", "PMI_SIZE": "2", "MPI_LOCALNRANKS": "2"}
	other := maps.Clone(pmi)
	other["PMI_RANK"] = "1"
	if address(5, pmi) != address(5, other) || address(5, pmi) == address(6, pmi) {
		t.Error("the parent does not name the job")
	}
	a, b := maps.Clone(pmi), maps.Clone(pmi)
	a["PMI_PORT"], b["PMI_PORT"] = "h:1", "h:2"
	if address(5, a) != address(6, a) || address(5, a) == address(5, b) {
		t.Error("PMI_PORT does not name the job")
	}
}

func TestFirstHost(t *testing.T) {
	for list, want := range map[string]string{
		"a": "a", "a,b": "a", "node[1-4]": "node1", "node[003-007,9]-ib,x": "node003-ib", "n[7]": "n7", "r[1-2]n[05-06]": "r1n05", "10.0.0.1,10.0.0.2": "10.0.0.1",
	} {
		testkit.Equal(t, testkit.Must(firstHost(list))(t), want, "%s", list)
	}
	for _, list := range []string{"", ",a", "n[", "n[]", "n[1", "n[,2]"} {
		if got, err := firstHost(list); err == nil {
			t.Errorf("%q: %q", list, got)
		}
	}
}

// Processes get consecutive places, as many each as possible, and none is without.
func TestSpread(t *testing.T) {
	for _, c := range []struct {
		s    Spread
		want []string
	}{
		{Spread{Replicas: 1, Stages: 1, Processes: 1}, []string{"stage 0"}},
		{Spread{Replicas: 1, Stages: 4, Processes: 2}, []string{"stages 0 to 1", "stages 2 to 3"}},
		{Spread{Replicas: 2, Stages: 2, Processes: 2}, []string{"replica 0", "replica 1"}},
		{Spread{Replicas: 2, Stages: 2, Processes: 2, ByStage: true}, []string{"replicas 0 to 1, stage 0", "replicas 0 to 1, stage 1"}},
		{Spread{Replicas: 4, Stages: 1, Processes: 2}, []string{"replicas 0 to 1", "replicas 2 to 3"}},
		{Spread{Replicas: 2, Stages: 3, Processes: 4}, []string{"replica 0, stages 0 to 1", "replica 0, stage 2", "replica 1, stages 0 to 1", "replica 1, stage 2"}},
		{Spread{Replicas: 2, Stages: 3, Processes: 3}, []string{"replica 0, stages 0 to 1", "replica 0, stage 2; replica 1, stage 0", "replica 1, stages 1 to 2"}},
	} {
		testkit.Equal(t, c.s.Validate(), nil, "%+v", c.s)
		for rank, want := range c.want {
			testkit.Equal(t, c.s.Of(rank), want, "%+v: rank %d", c.s, rank)
		}
	}
	for processes := 1; processes <= 12; processes++ {
		for _, by := range []bool{false, true} {
			s := Spread{Replicas: 4, Stages: 3, Processes: processes, ByStage: by}
			had := make([]int, processes)
			for _, p := range place.Of(4, 3) {
				had[s.Owner(p)]++
			}
			for rank, n := range had {
				if n < 12/processes || n > (11+processes)/processes {
					t.Errorf("%+v: rank %d has %d places", s, rank, n)
				}
			}
		}
	}
	testkit.Fails(t, (Spread{Replicas: 2, Stages: 2, Processes: 5}).Validate(), "5 processes for a pipeline of 2 replicas x 2 partitions")
	testkit.Equal(t, sockets.MinSecret, len(long), "the secret of these tests is not the shortest")
}

// Over TCP on one machine somebody listens before a process has started, and rank 0 takes on
// what has come.
func TestListensFirst(t *testing.T) {
	l := Launching{TCP: true}
	address, _, err := l.address(nil)
	testkit.NoError(t, err)
	early := testkit.Must(net.Dial("tcp", address))(t)
	defer early.Close()
	t.Setenv(ListenerVariable, fmt.Sprint(l.listens.Fd()))
	t.Setenv(RankVariable, "0")
	t.Setenv(SizeVariable, "2")
	t.Setenv(AddressVariable, address)
	t.Setenv(SecretVariable, long)
	w := testkit.Must(FromEnvironment())(t)
	defer w.Listener.Close()
	late, err := w.Listener.Accept()
	if err != nil || late.RemoteAddr().String() != early.LocalAddr().String() {
		t.Errorf("%v, %v", late, err)
	}
	for _, number := range []string{"x", "-1", "9999", fmt.Sprint(os.Stdin.Fd())} {
		testkit.Refused(inherited(number))(t, "want the number of a socket")
	}
}

// Hosts with slots are filled and others share the rest, in whatever order they are.
func TestPlaces(t *testing.T) {
	open, two := Host{Name: "a"}, Host{"b", 2}
	for _, c := range []struct {
		hosts []Host
		want  string
	}{
		{[]Host{open, two}, "aaabb"}, {[]Host{open, {"b", 1}}, "aaaab"}, {[]Host{{"b", 1}, open}, "baaaa"}, {[]Host{open, two, {Name: "c"}}, "aabbc"},
		{[]Host{open, {"b", 9}}, "bbbbb"}, {[]Host{{"b", 3}, {"c", 3}}, "bbbcc"}, {[]Host{open, {Name: "c"}}, "aaacc"},
	} {
		places := testkit.Must(Launching{Processes: 5, Hosts: c.hosts}.place())(t)
		testkit.Equal(t, strings.Join(places, ""), c.want, "%v", c.hosts)
	}
	testkit.Refused(Launching{Processes: 5, Hosts: []Host{two, two}}.place())(t, "5 processes on hosts with 4 slots")
}

// Over ssh a status that is not rank 0's own is an error with its reason.
func TestStatusOfSSH(t *testing.T) {
	ssh := filepath.Join(t.TempDir(), "ssh")
	said := testkit.Must(os.Create(ssh + ".said"))(t)
	defer said.Close()
	ends := func(ctx context.Context, text, want string) {
		testkit.NoError(t, os.WriteFile(ssh, []byte("#!/bin/sh\n"+text+"\n"), 0o700))
		err := Launching{Processes: 1, Hosts: []Host{{Name: "a"}}, SSH: ssh, Stdout: said, Stderr: said}.Run(ctx)
		testkit.Equal(t, fmt.Sprint(err), want, "%s", text)
	}
	over, end := context.WithCancel(t.Context())
	end()
	for _, ctx := range []context.Context{t.Context(), over} {
		ends(ctx, "exit 127", "rank 0 on a ended early (exit status 127): it said nothing")
		ends(ctx, "echo no connection >&2; exit 255", "rank 0 on a ended early (exit status 255): no connection")
		ends(ctx, "exit 2", "rank 0 has ended with status 2")
	}
	ends(t.Context(), "sleep 3 & exit 0", "<nil>") // a connection that stays open
}

// Rank 0 listens at its host, whoever ssh logs in as.
func TestUserOfAHost(t *testing.T) {
	l := Launching{Hosts: []Host{{Name: "me@node1"}}}
	for place, want := range map[string]string{"me@node1": "node1:", "node2": "node2:", "me@fe80::1": "[fe80::1]:"} {
		if got, _, err := l.address([]string{place}); err != nil || !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, %v", place, got, err)
		}
	}
}

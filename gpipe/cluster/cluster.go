// Package cluster finds and starts the processes that run a pipeline together. An engine
// starts them, which tells each process its number by the environment: Open MPI, MPICH and
// its relatives, Slurm, torchrun, Kubernetes, or gpipebench launch. A process without such
// an environment is alone.
//
// The package reads the environment and divides places among processes. Package
// sockets connects the processes.
//
// [Launching] is gpipebench's own engine: it starts the processes on this machine, or on
// others over ssh. Each is this program with the command RankCommand. Its standard input
// has one line, an Order, with what would be in its environment and on its command line; so
// the run's secret is on no command line, here or there, and nothing has to be quoted. The
// input then stays open. Another line is an interrupt, as by a signal, which ssh would not
// hand on; when the input ends, so does the process, even if the launcher was killed.
package cluster

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/transport/sockets"
	"gpipebench/internal/failure"
	"gpipebench/internal/units"
)

// World is what a process knows about those that it is one of.
type World struct {
	Launcher string // that has started them; "": none has
	EndsAll  bool   // it ends all processes when one has ended with an error
	Rank     int
	Size     int
	// Address is where rank 0 listens, as in sockets.Config, and Listener what it does so with;
	// nil: it makes one.
	Address  string
	Listener net.Listener
	Secret   []byte        // of all processes
	Limit    time.Duration // of silence; 0: the default
}

// Alone reports whether there are no other processes.
func (w World) Alone() bool { return w.Size <= 1 }

// Variables of this program's own, which count more than an engine's.
const (
	RankVariable    = "GPIPEBENCH_RANK"
	SizeVariable    = "GPIPEBENCH_SIZE"
	AddressVariable = "GPIPEBENCH_ADDRESS"
	SecretVariable  = "GPIPEBENCH_SECRET"
	TimeoutVariable = "GPIPEBENCH_TIMEOUT"
	// ListenerVariable is the number of a file that rank 0 has inherited from the launcher: a
	// socket that listens at the address.
	ListenerVariable = "GPIPEBENCH_LISTENER"
)

// engine is one that starts processes, and the names of what it tells them.
type engine struct {
	name       string
	needs      []string // variables without which it is another engine
	rank, size string
	endsAll    bool // all processes, when one has ended with an error
	// oneMachine are two variables that have the same value if all processes run on one
	// machine; if the second is a number, that is the value.
	oneMachine [2]string
	// job are variables that together have another value in every job, and the same in
	// all its processes on a machine.
	job []string
	// address returns rank 0's address in a job on several machines; "": it must be given.
	address func(get func(string) string) (string, error)
}

var engines = []engine{
	{name: "gpipebench", needs: []string{RankVariable, SizeVariable}, rank: RankVariable, size: SizeVariable},
	{
		name: "Open MPI", needs: []string{"OMPI_COMM_WORLD_RANK"}, rank: "OMPI_COMM_WORLD_RANK", size: "OMPI_COMM_WORLD_SIZE", endsAll: true,
		oneMachine: [2]string{"OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_SIZE"},
		job:        []string{"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_hnp_uri"}, address: ofOpenMPI,
	},
	{
		name: "MPICH", needs: []string{"PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"}, rank: "PMI_RANK", size: "PMI_SIZE", endsAll: true,
		oneMachine: [2]string{"MPI_LOCALNRANKS", "PMI_SIZE"}, job: []string{"PMI_PORT", "PMI_JOBID"},
	},
	{
		name: "Slurm", needs: []string{"SLURM_STEP_NODELIST", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}, rank: "SLURM_PROCID", size: "SLURM_STEP_NUM_TASKS", endsAll: true, // srun --kill-on-bad-exit
		oneMachine: [2]string{"SLURM_STEP_NUM_NODES", "1"}, job: []string{"SLURM_JOB_ID", "SLURM_STEP_ID"}, address: ofSlurm,
	},
	{
		name: "torchrun", needs: []string{"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}, rank: "RANK", size: "WORLD_SIZE",
		oneMachine: [2]string{"LOCAL_WORLD_SIZE", "WORLD_SIZE"}, job: []string{"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID"}, address: ofTorchrun,
	},
	{name: "Kubernetes", needs: []string{"JOB_COMPLETION_INDEX", SizeVariable}, rank: "JOB_COMPLETION_INDEX", size: SizeVariable},
}

// Ranks is the world that this process's environment describes, without how its
// processes find each other. An error is about a variable; the world then has what was
// read before it.
func Ranks() (World, error) {
	w, _, err := ranks(os.Getenv)
	return w, err
}

// FromEnvironment is the same with how they find each other over sockets.
func FromEnvironment() (World, error) {
	w, err := from(os.Getenv, os.Getppid(), os.TempDir(), os.Getuid())
	if number := os.Getenv(ListenerVariable); err == nil && number != "" {
		w.Listener, err = inherited(number)
	}
	return w, err
}

// inherited is a socket that this process has inherited, once.
func inherited(number string) (net.Listener, error) {
	os.Unsetenv(ListenerVariable)
	if n, err := strconv.Atoi(number); err == nil {
		if f := os.NewFile(uintptr(n), number); f != nil {
			defer f.Close()
			if l, err := net.FileListener(f); err == nil {
				return l, nil
			}
		}
	}
	return nil, fmt.Errorf("%s=%q in the environment: want the number of a socket that listens, as launch sets it", ListenerVariable, number)
}

func ranks(get func(string) string) (w World, e *engine, err error) {
	for i := range engines {
		if e == nil && set(get, engines[i].needs...) {
			e = &engines[i]
		}
	}
	if e == nil {
		return World{Size: 1}, nil, nil
	}
	w = World{Launcher: e.name, EndsAll: e.endsAll}
	if w.Size, err = number(get, e.size, 1, sockets.MaxSize); err != nil {
		return World{}, nil, err
	}
	if w.Rank, err = number(get, e.rank, 0, w.Size-1); err != nil || w.Size == 1 {
		return w, e, err
	}
	if limit := get(TimeoutVariable); limit != "" {
		if w.Limit, err = ParseLimit(limit); err != nil {
			return w, e, fmt.Errorf("%s: %q: %w", TimeoutVariable, limit, err)
		}
	}
	return w, e, nil
}

func from(get func(string) string, parent int, temporary string, user int) (World, error) {
	w, e, err := ranks(get)
	if err != nil || w.Alone() {
		return w, err
	}
	w.Secret = []byte(get(SecretVariable))
	switch w.Address = get(AddressVariable); {
	case w.Address != "":
	case e.onOneMachine(get):
		w.Address = "unix:" + filepath.Join(temporary, fmt.Sprintf("gpipebench-%d-%s", user, e.jobName(get, parent)))
	case e.address == nil:
		return w, fmt.Errorf("%s does not tell its processes where rank 0 is: want %s=HOST:PORT in the environment of all, with rank 0's host", e.name, AddressVariable)
	default:
		if w.Address, err = e.address(get); err != nil {
			return w, fmt.Errorf("%s: %w; or set %s=HOST:PORT in the environment of all ranks, with rank 0's host", e.name, err, AddressVariable)
		}
	}
	unix := strings.HasPrefix(w.Address, "unix:")
	if n := len(w.Secret); n < sockets.MinSecret && (n > 0 || !unix) {
		return w, fmt.Errorf("%s has %d bytes: want at least %d in the environment of all ranks, such as %s=$(openssl rand -hex 32), so that nobody else can connect to them", SecretVariable, n, sockets.MinSecret, SecretVariable)
	}
	return w, nil
}

// ParseLimit reads the longest silence of a process.
func ParseLimit(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Second || d > 24*time.Hour {
		return 0, errors.New("want a duration from 1s to 24h, such as 30s")
	}
	return d, nil
}

func set(get func(string) string, names ...string) bool {
	for _, name := range names {
		if get(name) == "" {
			return false
		}
	}
	return true
}

func number(get func(string) string, name string, least, most int) (int, error) {
	text := get(name)
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%s=%q in the environment: want a whole number from %d to %d", name, text, least, most)
	}
	return n, nil
}

func (e *engine) onOneMachine(get func(string) string) bool {
	a, b := get(e.oneMachine[0]), e.oneMachine[1]
	if _, err := strconv.Atoi(b); err != nil && b != "" {
		b = get(b)
	}
	return a != "" && a == b
}

// jobName is short and the same in all processes of the job on a machine. If the engine
// does not name the job, its process that has started this one does.
func (e *engine) jobName(get func(string) string, parent int) string {
	h := sha256.New()
	named := false
	for _, name := range e.job {
		fmt.Fprintf(h, "%s=%s\n", name, get(name))
		named = named || get(name) != ""
	}
	if !named {
		fmt.Fprint(h, parent)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:6])
}

// Spread divides the places of R replicas of K stages among processes: each gets
// consecutive places, as evenly as possible.
type Spread struct {
	Replicas, Stages, Processes int
	// ByStage orders places by stage first: processes get the same stages of several
	// replicas rather than several stages of one, as long as there are enough. The sums
	// over replicas then stay within processes, and boundary tensors cross.
	ByStage bool
}

// Validate is an error if a process would have no place.
func (s Spread) Validate() error {
	if s.Processes > s.Replicas*s.Stages {
		return failure.Usagef("%d processes for a pipeline of %s x %s: want at most one process for each partition of each replica", s.Processes, units.Counted(s.Replicas, "replica"), units.Counted(s.Stages, "partition"))
	}
	return nil
}

// Owner is the process of a place.
func (s Spread) Owner(p place.Place) int {
	i := p.Replica*s.Stages + p.Stage
	if s.ByStage {
		i = p.Stage*s.Replicas + p.Replica
	}
	return i * s.Processes / (s.Replicas * s.Stages)
}

// Of describes the places of a process: replica 1, stages 2 to 3; replicas 0 to 1.
func (s Spread) Of(rank int) string {
	stages := map[int][]int{} // of each replica
	var replicas []int
	for _, p := range place.Of(s.Replicas, s.Stages) {
		if s.Owner(p) != rank {
			continue
		}
		if stages[p.Replica] == nil {
			replicas = append(replicas, p.Replica)
		}
		stages[p.Replica] = append(stages[p.Replica], p.Stage)
	}
	span := func(name string, ns []int) string {
		first, last := ns[0], ns[len(ns)-1]
		if first == last {
			return fmt.Sprintf("%s %d", name, first)
		}
		return fmt.Sprintf("%ss %d to %d", name, first, last)
	}
	var parts []string
	for i := 0; i < len(replicas); { // those with the same stages together
		j := i + 1
		for j < len(replicas) && fmt.Sprint(stages[replicas[j]]) == fmt.Sprint(stages[replicas[i]]) {
			j++
		}
		var part []string
		if s.Replicas > 1 {
			part = append(part, span("replica", replicas[i:j]))
		}
		if of := stages[replicas[i]]; len(of) < s.Stages || s.Replicas == 1 {
			part = append(part, span("stage", of))
		}
		parts = append(parts, strings.Join(part, ", "))
		i = j
	}
	return strings.Join(parts, "; ")
}

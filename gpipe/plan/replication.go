package plan

import (
	"fmt"
	"strconv"

	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/internal/named"
	"gpipebench/gpipe/reduction"
)

// A mini-batch is cut into G consecutive groups of examples, and replica r of R takes
// the groups from r G/R on. What is added up over examples (gradients, losses,
// statistics) is one chain within a group, and groups are combined in a fixed way, so
// the bits depend on G and not on R. A replica runs its groups one after another in
// the same fill and drain.

// Replication is how many copies of the pipeline there are, and what they do together. The
// zero value is one.
type Replication struct {
	// Replicas is R, the number of copies of the pipeline, each with its own part of
	// every mini-batch and its own K devices; 0 means 1. Groups is G: a mini-batch is cut
	// into that many consecutive groups of examples, whose gradients are added up by a
	// fixed tree (package reduction), so the bits depend on G and not on R; 0 means R.
	// R divides G, and G/R is a power of two; or R is 1.
	Replicas, Groups int
	// ShardUpdate divides the optimiser's state and the update over replicas: each updates
	// the weights whose sums it owns and hands them to the others. The bits stay.
	ShardUpdate bool
	// TiedGradients is how the gradients of tables that embeddings share with other layers
	// are added up. The bits do not depend on it.
	TiedGradients TableGradients
	// Spatial is S, the number of parts over which each stage divides images by their rows
	// (Kumar et al., arXiv 1909.09756, section 2): each has threads of its own and memory of its
	// own, in which are its rows, and all weights; the first has also everything else that the
	// stage has, and runs alone what cannot be divided. The bits do not depend on it. 0 means 1.
	Spatial int
	// Tensor is T, the number of parts that divide the operations of each stage (see
	// program.Stage.Split): each has threads and memory of its own, with its slices of the parameters
	// that can be divided, their gradients and their optimiser state, and a copy of the others, which the
	// first part updates. Blocks is B, in how many blocks the units of each divided axis are (heads,
	// columns, a vocabulary, channels); sums over the axis are made of a sum for each, so the bits depend on B and
	// not on T. T divides B, and B/T is a power of two; or B is 1, with the bits of one device. 0
	// means 1.
	Tensor, Blocks int
	// BatchNormScope is whose examples batch norm takes its statistics from.
	BatchNormScope Scope
	// AllReduce is how replicas' links are modelled, on emulated and modelled devices.
	AllReduce AllReduce
}

// MaxReplicas is the most replicas that a pipeline may have.
const MaxReplicas = 1 << 16

// MaxParts is the most parts over which a stage may divide images or operations, and MaxBlocks the most
// blocks of these.
const (
	MaxParts  = 64
	MaxBlocks = 4096
)

// AllReduce describes how the gradients of replicas are added up, for its time alone:
// real ones are added up as package reduction says. The zero value takes no time for
// links.
type AllReduce struct {
	Kind reduction.Kind
	// Torus is the shape of the replicas' links, X x Y = R, for reduction.Torus.
	Torus [2]int
	Link  clock.Link // between replicas
}

// Seconds is the time that links take to add up gradients of a size in bytes: to give each
// replica its part of the sums, and to hand these to all.
func (a AllReduce) Seconds(replicas int, bytes float64) (reduce, gather float64) {
	if replicas < 2 {
		return 0, 0
	}
	x, y := replicas, 1
	if a.Kind == reduction.Torus {
		x, y = a.Torus[0], a.Torus[1]
	}
	return reduction.Cost(a.Kind, x, y, bytes, a.Link)
}

// Among is the all-reduce over n consecutive ones of the replicas: of a torus, whole rows
// of it, or else a line.
func (a AllReduce) Among(n int) AllReduce {
	if x := a.Torus[0]; a.Kind == reduction.Torus {
		a.Torus = [2]int{n, 1}
		if x > 0 && n%x == 0 { // one replica needs no torus
			a.Torus = [2]int{x, n / x}
		}
	}
	return a
}

// TableGradients is a way to add up the gradients of tables that embeddings share with
// layers whose gradients are dense.
type TableGradients uint8

const (
	// ReduceTied adds them up as any other gradient: the paper's Algorithm 2.
	ReduceTied TableGradients = iota
	// GatherTied gathers rows of all replicas, with the indices of the rows, and adds them
	// up on each: Algorithm 1, with Horovod's two all-gathers.
	GatherTied
)

var tiedGradients = [...]string{"reduce", "gather"}

func (g TableGradients) String() string {
	return named.String(g, tiedGradients[:], "TableGradients")
}

// ParseTableGradients reads what String writes.
func ParseTableGradients(s string) (TableGradients, error) {
	return named.Parse[TableGradients](s, tiedGradients[:], "way of tied gradients")
}

// Scope is whose examples batch norm takes its statistics from in training: "computed
// over each micro-batch and over replicas if necessary" (Huang et al. 2019, section 2.2).
// Above 1 it is the number of consecutive replicas which take the statistics of their
// micro-batches with the same number together (Ying et al., arXiv 1811.06992);
// it divides that of all replicas. Statistics of several replicas want one group on each.
type Scope int

const (
	// ReplicaScope: the replica's own micro-batch.
	ReplicaScope Scope = 0
	// AllScope: the micro-batches with the same number of all replicas together.
	AllScope Scope = -1
)

func (s Scope) String() string {
	switch s {
	case ReplicaScope:
		return "replica"
	case AllScope:
		return "all"
	}
	return strconv.Itoa(int(s))
}

// ParseScope reads what String writes.
func ParseScope(s string) (Scope, error) {
	for _, scope := range []Scope{ReplicaScope, AllScope} {
		if s == scope.String() {
			return scope, nil
		}
	}
	if n, err := strconv.Atoi(s); err == nil && n >= 2 && n <= MaxReplicas {
		return Scope(n), nil
	}
	return 0, fmt.Errorf("unknown scope %q: want replica, all or a number of replicas from 2 to %d", s, MaxReplicas)
}

// Together is the number of consecutive replicas that take their statistics together.
func (p Config) Together() int {
	switch p.BatchNormScope {
	case ReplicaScope:
		return 1
	case AllScope:
		return p.Replicas
	}
	return int(p.BatchNormScope)
}

// ScopeOf are the replicas, from from to to-1, that take their statistics together with a
// replica.
func (p Config) ScopeOf(replica int) (from, to int) {
	n := p.Together()
	return replica / n * n, replica/n*n + n
}

// wide reports whether statistics cover several replicas.
func (p Config) wide() bool { return p.Together() > 1 }

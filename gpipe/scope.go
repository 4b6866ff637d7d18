package gpipe

import (
	"fmt"
	"slices"
	"strconv"

	"gpipebench/nn/program"
)

// Scope is whose examples batch norm takes its statistics from in training: "computed
// over each micro-batch and over replicas if necessary" (Huang et al. 2019, section 2.2).
// A number above 1 is that of consecutive replicas, which take the statistics of their
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

// together is the number of consecutive replicas that take their statistics together.
func (p Pipeline) together() int {
	switch p.BatchNormScope {
	case ReplicaScope:
		return 1
	case AllScope:
		return p.Replicas
	}
	return int(p.BatchNormScope)
}

// scopeOf are the replicas, from from to to-1, that take their statistics together with a
// replica.
func (p Pipeline) scopeOf(replica int) (from, to int) {
	n := p.together()
	return replica / n * n, replica/n*n + n
}

// togetherOf is how many of the replicas meet that stand for all that are alike: all of
// them if replicas that are not alike meet, since those wait longest, else each by itself.
func (n *network) togetherOf(alike []replicas) int {
	for _, of := range alike {
		if of.to%n.together() != 0 {
			return len(alike)
		}
	}
	return 1
}

// wide reports whether statistics are those of several replicas.
func (p Pipeline) wide() bool { return p.together() > 1 }

// validateScope checks the scope of a pipeline that has its defaults.
func (p Pipeline) validateScope() error {
	n := p.together()
	switch over := p.BatchNormScope; {
	case over < AllScope:
		return fmt.Errorf("unknown scope %d of batch norm: want replica, all or a number of replicas", int(over))
	case over == ReplicaScope:
	case p.Replicas%n != 0:
		return fmt.Errorf("batch norm over %d replicas of %d: want a number that divides them, or the scope replica", n, p.Replicas)
	case p.Groups != p.Replicas:
		return fmt.Errorf("batch norm over %s replicas with %d groups on %d replicas: want one group on each, that is %d groups or %d replicas, or the scope replica",
			over, p.Groups, p.Replicas, p.Replicas, p.Groups)
	}
	return nil
}

// validateMeetings checks that replicas that meet have as many micro-batches of a
// mini-batch.
func (n *network) validateMeetings(examples int, all []portion) error {
	for r := range all {
		from, _ := n.scopeOf(r)
		if a, b := len(all[from].sizes), len(all[r].sizes); a != b && all[from].meets() {
			return fmt.Errorf("a mini-batch of %d examples gives replicas %d and %d micro-batches, and batch norm over replicas wants as many on each: want %d examples or more, a multiple of %d, or the scope replica",
				examples, a, b, n.Replicas*n.MicroBatches, n.Replicas)
		}
	}
	return nil
}

// meets reports whether the portion's programs keep statistics over replicas.
func (s *portion) meets() bool {
	return len(s.programs) > 0 && slices.ContainsFunc(s.programs[0], func(st *program.Stage) bool { return st.Span[program.Statistics] > 0 })
}

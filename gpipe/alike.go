package gpipe

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"gpipebench/gpipe/internal/crc32c"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/plan"
)

// What replicas must have alike is compared: the seed, the number of steps, the weights
// and the moving averages. It happens before the first use of weights that were set
// (Open, Load, Restore), and before an evaluation, a prediction, a State or a Save after
// steps: what these give depends on one replica's weights. Steps between them compare nothing.
//
// Each device reads its weights once, for a CRC-32C of each tensor: about as long as
// copying them. A difference within 32 consecutive bits, such as one value's, is always
// found; any other one is missed once in 2^32.

// ReplicaError says that a replica differs from the first one.
type ReplicaError struct {
	At   place.Place
	What string // seed, number of steps, or the path of a tensor
}

func (e *ReplicaError) Error() string {
	return fmt.Sprintf("%v: its %s is not that of replica 0: want the same in all replicas", e.At, e.What)
}

// digest is what a stage must have alike in all replicas.
type digest struct {
	At   place.Place
	Seed uint64
	Step int
	Sums []uint32 // of its weights, then of its moving averages
}

// compareReplicas is an error if replicas differ. All processes call it at the same point.
func (t *Trainer) compareReplicas() error {
	if t.net.Replicas == 1 || t.compared == t.steps {
		return nil
	}
	own := make([]digest, len(t.devices))
	var all sync.WaitGroup
	for i, d := range t.devices {
		all.Go(func() { own[i] = digest{At: d.at, Seed: t.net.Seed, Step: t.steps, Sums: d.sums()} })
	}
	all.Wait()
	reports, err := exchange(context.Background(), t, own)
	if err != nil {
		return fmt.Errorf("comparing replicas: %w", err)
	}
	digests := slices.Concat(reports...)
	slices.SortFunc(digests, func(a, b digest) int { return a.At.Compare(b.At) })
	for _, got := range digests {
		if what := difference(t.net, got, digests[got.At.Stage]); what != "" {
			return &ReplicaError{got.At, what}
		}
	}
	t.compared = t.steps
	return nil
}

// difference names the first thing in which two digests of a stage differ; "": none.
func difference(n *plan.Network, got, want digest) string {
	switch {
	case got.Seed != want.Seed:
		return "seed"
	case got.Step != want.Step:
		return "number of steps"
	}
	var trained, moving []string
	for _, s := range n.Slices(got.At.Stage) {
		trained = append(trained, n.Paths[s.Param])
	}
	for _, p := range n.DeviceParams(got.At.Stage) {
		if p.State {
			moving = append(moving, n.Paths[p])
		}
	}
	for i, path := range slices.Concat(trained, moving) {
		if got.Sums[i] != want.Sums[i] {
			return path
		}
	}
	return ""
}

// sums are the CRC-32C of a device's weights, then of its moving averages, as they lie in
// memory.
func (d *device) sums() (all []uint32) {
	add := func(values []float32) {
		bytes := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), plan.FloatBytes*len(values))
		all = append(all, crc32c.Checksum(bytes))
	}
	for _, w := range d.weights {
		add(w.w)
	}
	for _, state := range d.states {
		add(state)
	}
	return all
}

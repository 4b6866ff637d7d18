package gpipe

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/plan"
	"gpipebench/nn/safetensors"
)

// NamedWeights is one parameter's path, shape and values, or its gradient.
type NamedWeights struct {
	Path  string
	Shape []int
	Data  []float32
}

// Weights returns the parameters in layer order, each tied one once, then batch
// norm's moving averages. The slices are the memory of this process's devices, valid
// between steps until Close, or copies of what other processes have. If several
// processes run the pipeline, all must call it, as with Step; if one cannot be
// reached it is nil, and later steps return the reason.
func (t *Trainer) Weights() []NamedWeights {
	all, err := t.weights()
	if err != nil {
		t.broken = err
		return nil
	}
	return all
}

// Gradients returns the gradients of the last [Trainer.Step] or [Trainer.Differentiate],
// in layer order, each tied parameter's once with all its uses added up. They are
// gradients of the loss, a mean over the mini-batch's count: as before the update, which does not
// change them, without L2 and without clipping (by Result.Clipping). The slices are the
// memory of this process's devices, valid until the next of these calls, Load or Close; if
// several processes run the pipeline, it is as with [Trainer.Weights]. Before the first
// step and after one that failed, there are none.
func (t *Trainer) Gradients() []NamedWeights {
	if t.broken != nil || !t.differentiated {
		return nil
	}
	if t.net.ShardUpdate {
		if err := gatherParts(t, gradientsOf); err != nil {
			t.broken = err
			return nil
		}
	}
	all, err := joined(t, t.ownParams(gradientsOf))
	if err != nil {
		t.broken = err
		return nil
	}
	return all
}

func (t *Trainer) weights() ([]NamedWeights, error) {
	if t.devices == nil {
		return nil, t.broken // which says that the trainer is closed
	}
	return joined(t, t.ownWeights())
}

// joined fills in the data that other processes have.
func joined(t *Trainer, all []NamedWeights) ([]NamedWeights, error) {
	if stagesEverywhere(t) {
		return all, nil
	}
	own := map[int][]byte{} // by index, little-endian
	for i, w := range all {
		if w.Data != nil && t.devices[0].at.Replica == 0 { // other replicas have the same
			own[i] = safetensors.Append(nil, w.Data)
		}
	}
	messages, err := exchange(context.Background(), t, own)
	if err != nil {
		return nil, fmt.Errorf("weights of other processes: %w", err)
	}
	for _, theirs := range messages {
		for i, data := range theirs {
			if w := &all[i]; w.Data == nil {
				w.Data = make([]float32, len(data)/plan.FloatBytes)
				decode(w.Data, data)
			}
		}
	}
	return all, nil
}

// decode sets the first elements of dst to numbers as safetensors.Append writes them.
func decode(dst []float32, data []byte) {
	for i := range len(data) / plan.FloatBytes {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[i*plan.FloatBytes:]))
	}
}

// stagesEverywhere reports whether every process runs all stages, of some replica.
func stagesEverywhere(t *Trainer) bool {
	n := t.net
	type part struct{ rank, stage int }
	parts := map[part]bool{}
	for _, p := range place.Of(n.Replicas, n.Partitions) {
		parts[part{t.transport.Owner(p), p.Stage}] = true
	}
	return len(parts) == len(t.peers)*n.Partitions
}

// ownParams are tensors of the trained parameters, without the data of those that other processes hold.
func (t *Trainer) ownParams(of func(*weight) []float32) (all []NamedWeights) {
	for i := range t.net.Params {
		p := &t.net.Params[i]
		w := NamedWeights{Path: p.Path, Shape: p.Shape}
		if d := t.device(t.net.Device(p.Home())); d != nil {
			w.Data = d.whole(i, of)
		}
		all = append(all, w)
	}
	return all
}

// ownWeights are Weights without the data of those that other processes hold.
func (t *Trainer) ownWeights() []NamedWeights {
	n, all := t.net, t.ownParams(weightsOf)
	states := make([]int, n.Partitions) // of each device, those that are listed
	for k := range n.Pieces.Len() {
		on := n.Device(k)
		d := t.device(on)
		for _, p := range n.StageParams(k) {
			if !p.State {
				continue
			}
			w := NamedWeights{Path: n.Paths[p], Shape: p.Shape}
			if d != nil {
				w.Data = d.states[states[on]]
			}
			all = append(all, w)
			states[on]++
		}
	}
	return all
}

// Hash is the SHA-256 of [Trainer.Weights], as little-endian float32, every NaN
// as 0x7fc00000; empty if other processes cannot be reached, and after Close. It is the same for
// every way to run a network and every processor, unless
// [Description.OutsideContract] names an operation, or statistics across examples
// make it a function of M.
func (t *Trainer) Hash() string {
	all, err := t.weights()
	if err != nil {
		t.broken = err
		return ""
	}
	return hashOf(all)
}

func hashOf(weights []NamedWeights) string {
	h := sha256.New()
	var buf []byte
	for _, w := range weights {
		for part := range slices.Chunk(w.Data, 1<<14) { // which stays in the cache
			buf = safetensors.Append(buf[:0], part)
			h.Write(buf)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

package gpipe

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
)

// NamedWeights is one parameter's path, shape and values.
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

func (t *Trainer) weights() ([]NamedWeights, error) {
	all := t.ownWeights()
	if len(t.peers) == 1 {
		return all, nil
	}
	own := map[int][]byte{} // by index, little-endian
	for i, w := range all {
		if w.Data != nil {
			own[i] = appendFloats(nil, w.Data)
		}
	}
	messages, err := exchange(context.Background(), t, own)
	if err != nil {
		return nil, fmt.Errorf("weights of other processes: %w", err)
	}
	for _, theirs := range messages {
		for i, data := range theirs {
			w := &all[i]
			if w.Data != nil {
				continue
			}
			for ; len(data) > 0; data = data[floatBytes:] {
				w.Data = append(w.Data, math.Float32frombits(binary.LittleEndian.Uint32(data)))
			}
		}
	}
	return all, nil
}

// ownWeights are Weights without the data of those that other processes hold.
func (t *Trainer) ownWeights() (all []NamedWeights) {
	n := t.net
	for i := range n.params {
		p := &n.params[i]
		w := NamedWeights{Path: p.path, Shape: p.Shape}
		if d := t.device(p.home()); d != nil {
			w.Data = d.weights[d.index[i]].w
		}
		all = append(all, w)
	}
	for k := range n.Partitions {
		d, states := t.device(k), 0
		for _, p := range n.stageParams(k) {
			if !p.State {
				continue
			}
			w := NamedWeights{Path: n.paths[p], Shape: p.Shape}
			if d != nil {
				w.Data = d.states[states]
			}
			all = append(all, w)
			states++
		}
	}
	return all
}

func appendFloats(to []byte, values []float32) []byte {
	for _, v := range values {
		to = binary.LittleEndian.AppendUint32(to, math.Float32bits(v))
	}
	return to
}

// Hash is the SHA-256 of [Trainer.Weights], as little-endian float32; empty if
// other processes cannot be reached.
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
		buf = appendFloats(buf[:0], w.Data)
		h.Write(buf)
	}
	return hex.EncodeToString(h.Sum(nil))
}

package gpipe

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"

	"gpipebench/nn/safetensors"
)

// hashKey is the key of the weights' [Trainer.Hash] in the metadata of a file, which is the
// SHA-256 of its data.
const hashKey = "weights_sha256"

// FunctionKey is the key of the [Pipeline.Fingerprint] in the metadata of a file that
// [Trainer.Save] writes: exported for programs that compare it before they open a
// pipeline, to say more about a difference than [Trainer.Load] does.
const FunctionKey = "function_sha256"

// Save writes the weights to a file in the safetensors format: every parameter
// by its path, or by its name in published files (nn.Param), in layer order, tied ones once, then
// batch norm's moving averages.
// metadata may be nil; it goes into the file with weights_sha256 and [FunctionKey], which
// it must not have. The same weights and metadata make the same bytes, however the
// network is cut. Constant tables and the optimiser's state are not saved.
//
// The file takes its name only when it is complete. After an error, an older file of
// this name is unchanged, and no other file is left. If several processes run the
// pipeline, all must call it, as with [Trainer.Step]; with an empty path a process writes
// no file.
func (t *Trainer) Save(path string, metadata map[string]string) error {
	if t.broken != nil {
		return fmt.Errorf("%s: not saved: %w", path, t.broken)
	}
	function, err := t.fingerprint()
	if err != nil {
		return fmt.Errorf("%s: not saved: %w", path, err)
	}
	if t.broken = t.compareReplicas(); t.broken != nil {
		return fmt.Errorf("%s: not saved: %w", path, t.broken)
	}
	weights, err := t.weights()
	if err != nil {
		t.broken = err
		return fmt.Errorf("%s: not saved: %w", path, err)
	}
	if path == "" {
		return nil
	}
	if metadata, err = withOwn(metadata, weights, function); err != nil {
		return fmt.Errorf("%s: not saved: %w", path, err)
	}
	tensors := tensorsOf(weights)
	for i := range t.net.Params {
		tensors[i].Name = cmp.Or(t.net.Params[i].Published, tensors[i].Name)
	}
	return safetensors.WriteFile(path, tensors, metadata)
}

// withOwn returns metadata with those that every file of weights has.
func withOwn(metadata map[string]string, weights []NamedWeights, function string) (map[string]string, error) {
	all := map[string]string{hashKey: hashOf(weights), FunctionKey: function}
	for key := range all {
		if _, ok := metadata[key]; ok {
			return nil, fmt.Errorf("metadata %q is Save's own", key)
		}
	}
	maps.Copy(all, metadata)
	return all, nil
}

func tensorsOf(values []NamedWeights) (all []safetensors.Tensor) {
	for _, v := range values {
		all = append(all, safetensors.Tensor{Name: v.Path, Shape: v.Shape, Data: v.Data})
	}
	return all
}

// fingerprint is the network's [Pipeline.Fingerprint], computed once.
func (t *Trainer) fingerprint() (function string, err error) {
	if t.function == "" {
		t.function, err = t.net.Fingerprint(t.net.OpensFor(t.net.Input))
	}
	return t.function, err
}

// Load replaces the weights by those of a file, on every stage that uses them.
// The file's tensors must be those that Save writes, by path (or published name) and shape, all
// and no others, in any order, of float32 or bfloat16. If it has weights_sha256, its values must have that hash;
// if it has [FunctionKey], this network must have that fingerprint. All of this is
// checked, and the whole file read once, before any weight is changed, so a file that
// is refused changes nothing.
//
// The optimiser's state and the number of steps stay as they are: after Load, a
// new trainer trains on with fresh moments and the learning rate of step 1. An
// average of the weights starts again from those of the file.
func (t *Trainer) Load(path string) error {
	f, err := t.openWeights(path)
	if err != nil {
		return err
	}
	defer f.Close()
	index, err := matchNamed("tensor", shapesOf(t.ownWeights()), shapesIn(f))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if want, ok := f.Metadata[FunctionKey]; ok {
		got, err := t.fingerprint()
		if err == nil && got != want {
			err = fmt.Errorf("its weights are of a network that computes another function with them: the SHA-256 of its function is %.64q, want this network's, %q", want, got)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	if err := verify(f, index, t.net.AllowNonFinite); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return replace(t, f, index)
}

// openWeights opens a file to be loaded.
func (t *Trainer) openWeights(path string) (*safetensors.File, error) {
	err := t.broken
	if err == nil {
		err = t.trainable()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: not loaded: %w", path, err)
	}
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, err
	}
	paths := map[string]string{} // by published name
	for i := range t.net.Params {
		paths[t.net.Params[i].Published] = t.net.Params[i].Path
	}
	for i := range f.Tensors {
		if name := &f.Tensors[i].Name; *name != "" {
			*name = cmp.Or(paths[*name], *name)
		}
	}
	return f, nil
}

// replace replaces the weights by tensors of a file that has been verified: index has the
// one for each of [Trainer.Weights], or -1 for none.
func replace(t *Trainer, f *safetensors.File, index []int) error {
	t.compared = -1
	for i, at := range index {
		copies := copies(t, i)
		if at < 0 || len(copies) == 0 { // left out, or another process's
			continue
		}
		values := copies[0].values
		if copies[0].runs != nil {
			values = make([]float32, t.net.Params[i].Shape.Elems())
		}
		if err := f.Floats(at, values); err != nil {
			// It has just been read without an error.
			t.broken = fmt.Errorf("weights half replaced: %w", err)
			return t.broken
		}
		for _, c := range copies {
			c.set(values)
		}
	}
	restartAverages(t)
	return nil
}

// copies are all places where this process's devices have a tensor of [Trainer.Weights]:
// one in each replica, and of a tied parameter one in each piece that uses it; or the slices of it.
func copies(t *Trainer, i int) (all []slice) {
	n := t.net
	for _, d := range t.devices {
		for _, j := range d.index[i] {
			all = append(all, slice{d.weights[j].w, d.weights[j].runs})
		}
	}
	i -= len(n.Params)
	before := make([]int, n.Partitions)             // the states of a device's pieces before
	for k := 0; i >= 0 && k < n.Pieces.Len(); k++ { // a moving average
		on, states := n.Device(k), 0
		for _, p := range n.StageParams(k) {
			if p.State {
				states++
			}
		}
		for _, d := range t.devices {
			if d.k == on && i < states {
				all = append(all, slice{values: d.states[before[on]+i]})
			}
		}
		before[on] += states
		i -= states
	}
	return all
}

// verify reads all tensors in layer order and compares their hash with the
// file's metadata, if that has one.
func verify(f *safetensors.File, index []int, nonFinite bool) error {
	h := sha256.New()
	var buf []byte
	for _, at := range index {
		if err := f.Values(at, func(values []float32) error {
			for _, v := range values {
				if v-v != 0 && !nonFinite {
					return fmt.Errorf("tensor %q has a value that is %v: want finite weights", f.Tensors[at].Name, v)
				}
			}
			buf = safetensors.Append(buf[:0], values)
			h.Write(buf)
			return nil
		}); err != nil {
			return err
		}
	}
	want, ok := f.Metadata[hashKey]
	if got := hex.EncodeToString(h.Sum(nil)); ok && got != want {
		return errors.New("the values are not those that were saved: SHA-256 " + got + ", the file says " + want)
	}
	return nil
}

// LeftOut is what [Trainer.LoadPart] has not loaded.
type LeftOut struct {
	Network []NamedShape // weights that keep their values, in layer order
	File    []NamedShape // tensors of the file that are not used, in its order
}

// NamedShape is a tensor's path and shape.
type NamedShape struct {
	Path  string
	Shape []int
}

// shapesIn are the tensors of a file.
func shapesIn(f *safetensors.File) (all []NamedShape) {
	for _, e := range f.Tensors {
		all = append(all, NamedShape{e.Name, e.Shape})
	}
	return all
}

func (s NamedShape) String() string { return fmt.Sprintf("%s %v", s.Path, s.Shape) }

// LoadPart replaces those weights that a file has by path and shape, for fine-tuning: of
// another number of classes, say, or of a network with further layers. Weights whose paths
// are in keep, as in [Rate], keep their values even so. It returns what was left out on both
// sides; a tensor of a weight's path and another shape is on both. If nothing is loaded, that
// is an error.
//
// Another function computed with the weights is not an error, and the meaning of classes,
// words and pixels is the caller's to compare. Else it is as with [Trainer.Load]: the whole
// file is read and its hash compared before any weight is changed.
func (t *Trainer) LoadPart(path string, keep ...string) (*LeftOut, error) {
	f, err := t.openWeights(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all := make([]int, len(f.Tensors)) // as Save writes them, in the order of the hash
	byName := map[string]int{}
	for at, e := range f.Tensors {
		all[at], byName[e.Name] = at, at
	}
	out := &LeftOut{}
	var index []int
	used := make([]bool, len(f.Tensors))
	for _, w := range t.ownWeights() {
		at, ok := byName[w.Path]
		kept := slices.ContainsFunc(keep, func(k string) bool { return Rate{Path: k}.Matches(w.Path) })
		if kept || !ok || !slices.Equal(f.Tensors[at].Shape, w.Shape) {
			out.Network = append(out.Network, NamedShape{w.Path, w.Shape})
			at = -1
		} else {
			used[at] = true
		}
		index = append(index, at)
	}
	for at, shape := range shapesIn(f) {
		if !used[at] {
			out.File = append(out.File, shape)
		}
	}
	if !slices.Contains(used, true) {
		return nil, fmt.Errorf("%s: none of its %d tensors has the path and shape of a weight: want one such as %v", path, len(used), out.Network[0])
	}
	if err := verify(f, all, t.net.AllowNonFinite); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return out, replace(t, f, index)
}

package gpipe

import (
	"fmt"
	"slices"

	"gpipebench/nn/safetensors"
)

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

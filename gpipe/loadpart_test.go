package gpipe

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn/safetensors"
)

// What fits is loaded, on every stage that has it, and what does not is left out on both
// sides: of a network with other classes and one layer more.
func TestLoadPart(t *testing.T) {
	untied := small
	untied.model.Tied = false
	source := openSmall(t, untied.pipeline(t))
	stepSmall(t, source, 0)
	file := filepath.Join(t.TempDir(), "w.safetensors")
	noError(t, source.Save(file, nil))
	kept := openSmall(t, untied.pipeline(t))
	if out, err := kept.LoadPart(file, "softmax", "layer*/attention"); err != nil || len(out.File) == 0 || len(out.File) != len(out.Network) {
		t.Errorf("%v, %+v", err, out)
	} else {
		for _, s := range out.File {
			if !strings.HasPrefix(s.Path, "softmax/") && !strings.Contains(s.Path, "/attention/") {
				t.Errorf("%v fits and is not to be kept, and is not loaded", s)
			}
		}
	}
	from := byPath(source.Weights())
	larger := untied
	larger.model.Layers, larger.model.Vocab = 7, 23
	for _, k := range []int{1, 3} {
		p := larger.pipeline(t)
		p.Partitions, p.EMA.Decay = k, 0.9
		tr := opened(t, p, InputOf(larger.data(0)))
		before := byPath(tr.Weights())
		out := must(tr.LoadPart(file))(t)
		testkit.Equal(t, fmt.Sprint(out.File), "[embedding/table [19 16] softmax/weight [19 16] softmax/bias [19]]", "left out of the file")
		left := map[string]bool{}
		for _, s := range out.Network {
			left[s.Path] = true
			if !strings.HasPrefix(s.Path, "layer7/") && !strings.HasPrefix(s.Path, "embedding/") && !strings.HasPrefix(s.Path, "softmax/") {
				t.Errorf("left out of the network: %v", s)
			}
		}
		check := func() error {
			for _, w := range tr.Weights() {
				want := from[w.Path]
				if left[w.Path] {
					want = before[w.Path]
				}
				testkit.EqualAll(t, w.Data, want, "K=%d: %s has neither its own values nor the file's", k, w.Path)
			}
			return nil
		}
		check()
		noError(t, tr.Averaged(check))
		stepped(t, tr, larger.data(0))
	}
	// Of the same network it is Load.
	tr := openSmall(t, untied.pipeline(t))
	if out, err := tr.LoadPart(file); err != nil || len(out.File)+len(out.Network) != 0 || tr.Hash() != source.Hash() {
		t.Errorf("%v, %v, hash %s, want %s", out, err, tr.Hash(), source.Hash())
	}
}

// A file that is refused changes nothing.
func TestLoadPartRefuses(t *testing.T) {
	tr := openSmall(t, small.pipeline(t))
	before := tr.Hash()
	file := filepath.Join(t.TempDir(), "w.safetensors")
	refuses := func(metadata map[string]string, want string, tensors ...safetensors.Tensor) {
		t.Helper()
		noError(t, safetensors.WriteFile(file, tensors, metadata))
		if _, err := tr.LoadPart(file); err == nil || !strings.HasPrefix(err.Error(), file+": "+want) {
			t.Errorf("%v, want %s", err, want)
		}
		testkit.Equal(t, tr.Hash(), before, "the weights were changed")
	}
	bias := safetensors.Tensor{Name: "softmax/bias", Shape: []int{19}, Data: slices.Repeat([]float32{1}, 19)}
	other := safetensors.Tensor{Name: "other", Shape: []int{1}, Data: []float32{float32(math.NaN())}}
	refuses(nil, "none of its 1 tensors has the path and shape of a weight: want one such as embedding/table [19 16]", other)
	refuses(map[string]string{hashKey: strings.Repeat("0", 64)}, "the values are not those that were saved", bias)
	refuses(nil, `tensor "other" has a value that is NaN`, bias, other)
	noError(t, safetensors.WriteFile(file, []safetensors.Tensor{bias}, nil))
	if out, err := tr.LoadPart(file); err != nil || len(out.File) != 0 || len(out.Network) != len(tr.Weights())-1 || tr.Hash() == before {
		t.Errorf("%v, %v", out, err)
	}
	tr.Close()
	testkit.Refused(tr.LoadPart(file))(t, "not loaded: the trainer is closed")
}

package gpipe

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn"
	"gpipebench/nn/safetensors"
)

// saving is a network to save, and its mini-batches.
type saving struct {
	name     string
	pipeline func(t testing.TB, fine bool) Pipeline
	data     func(i int) nn.Batch
}

// savings are networks whose vocabulary tables are used on several stages.
var savings = []saving{
	{"transformer-lm", small.cut, small.data},
	{"transformer", smallTranslation.cut, smallTranslation.data},
	{"llama", smallLlama.cut, smallLlama.data},
}

func (s saving) open(t *testing.T, k, m int, fine bool) *Trainer {
	t.Helper()
	p := s.pipeline(t, fine)
	p.Partitions, p.MicroBatches, p.Groups, p.Replicas = k, m, 2, min(k, 2)
	return openedForAll(t, p, InputOf(s.data(0)))
}

// TestPublishedWeights: a file as others publish it, with bfloat16 values under published names, is
// loaded by a llama that is cut and by a part of it, and saved again under these names.
func TestPublishedWeights(t *testing.T) {
	l := smallLlama
	p := l.pipeline(t)
	p.Partitions = 3
	tr := opened(t, p, InputOf(l.data(0)))
	dir := t.TempDir()
	own, published := filepath.Join(dir, "own"), filepath.Join(dir, "published")
	noError(t, tr.Save(own, nil))
	f := must(safetensors.Open(own))(t)
	defer f.Close()

	// The same names and shapes with other values, in another order.
	var header, data []byte
	want := map[string][]float32{}
	for i, e := range slices.Backward(f.Tensors) {
		from := len(data)
		for j := range int(e.Elems()) {
			v := math.Float32frombits(math.Float32bits(float32(i)+float32(j)/7) &^ 0xffff)
			want[e.Name] = append(want[e.Name], v)
			data = binary.LittleEndian.AppendUint16(data, uint16(math.Float32bits(v)>>16))
		}
		header = fmt.Appendf(header, `,%q:{"dtype":"BF16","shape":%s,"data_offsets":[%d,%d]}`, e.Name, must(json.Marshal(e.Shape))(t), from, len(data))
	}
	if want["model.embed_tokens.weight"] == nil || want["model.layers.5.self_attn.k_proj.weight"] == nil || len(want) != 2+9*6 {
		t.Fatalf("the tensors of a saved file: %q", slices.Collect(maps.Keys(want)))
	}
	header = append(append([]byte("{"), header[1:]...), '}')
	file := slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header, data)
	noError(t, os.WriteFile(published, file, 0o666))

	noError(t, tr.Load(published))
	again := filepath.Join(dir, "again")
	noError(t, tr.Save(again, nil))
	saved := must(safetensors.Open(again))(t)
	defer saved.Close()
	for i, e := range saved.Tensors {
		got := make([]float32, e.Elems())
		noError(t, saved.Floats(i, got))
		testkit.EqualAll(t, got, want[e.Name], "%s", e.Name)
	}
	if w := tr.Weights()[0]; w.Path != "embedding/table" || w.Data[1] != want["model.embed_tokens.weight"][1] {
		t.Errorf("%s begins with %v", w.Path, w.Data[:3])
	}

	shorter := l
	c := *l.llama
	c.Layers--
	shorter.llama = &c
	part := opened(t, shorter.pipeline(t), InputOf(l.data(0)))
	left := must(part.LoadPart(published))(t)
	if len(left.Network) > 0 || len(left.File) != 9 {
		t.Errorf("of a file with a layer more: %+v", left)
	}
	testkit.Fails(t, part.Load(published), `"model.layers.5.`)
}

// trained takes a few steps.
func trained(t *testing.T, tr *Trainer, data func(i int) nn.Batch) *Trainer {
	t.Helper()
	before := tr.Hash()
	for i := range 2 {
		stepped(t, tr, data(i))
	}
	if tr.Hash() == before {
		t.Fatal("training changes nothing")
	}
	return tr
}

func evaluated(t testing.TB, tr *Trainer, b nn.Batch) string {
	t.Helper()
	return fmt.Sprintf("%.17g", must(tr.Evaluate(t.Context(), b))(t).Loss)
}

// TestSaveAndLoad: what one cut saves, another loads, on all replicas: the same hash,
// evaluation and next step to the bit, and the same file when saved again.
func TestSaveAndLoad(t *testing.T) {
	for _, s := range savings {
		t.Run(s.name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "weights.safetensors")
			metadata := map[string]string{"model": s.name}
			one := trained(t, s.open(t, 1, 1, false), s.data)
			noError(t, one.Save(file, metadata))
			if !maps.Equal(metadata, map[string]string{"model": s.name}) {
				t.Error("Save changed its argument:", metadata)
			}
			var after []string // the hash after one step from the loaded weights
			for _, c := range []struct {
				k, m int
				fine bool
			}{{1, 1, false}, {3, 4, false}, {8, 2, true}} {
				other := s.open(t, c.k, c.m, c.fine)
				if other.Hash() == one.Hash() {
					t.Fatal("the weights are the same before they are loaded")
				}
				noError(t, other.Load(file))
				testkit.Equal(t, other.Hash(), one.Hash(), "K=%d: hash", c.k)
				testkit.Equal(t, evaluated(t, other, s.data(9)), evaluated(t, one, s.data(9)), "K=%d: evaluation loss", c.k)
				sameCopies(t, other, c.k > 1)

				again := filepath.Join(dir, fmt.Sprint("again", c.k))
				noError(t, other.Save(again, metadata))
				if !bytes.Equal(read(t, again), read(t, file)) {
					t.Errorf("K=%d: saved again, the file has other bytes", c.k)
				}
				stepped(t, other, s.data(5))
				after = append(after, other.Hash())
			}
			if after[0] != after[1] || after[0] != after[2] || after[0] == one.Hash() {
				t.Errorf("after one more step: %v", after)
			}
		})
	}
}

// sameCopies checks every stage's own copy of every weight.
func sameCopies(t *testing.T, tr *Trainer, shared bool) {
	t.Helper()
	found := false
	for i, w := range tr.Weights() {
		n := 0
		for k, d := range tr.devices {
			for _, j := range d.index[i] {
				n++
				testkit.EqualAll(t, d.weights[j].w, w.Data, "stage %d has other values of %s", k, w.Path)
			}
		}
		found = found || n > 1
	}
	testkit.Equal(t, found, shared, "some weight is on several stages")
}

// TestSavedFile: names are the layers' paths in layer order, tied tables come
// once, and the hash in the metadata is the data's.
func TestSavedFile(t *testing.T) {
	s := savings[1]
	tr := trained(t, s.open(t, 3, 2, false), s.data)
	file := filepath.Join(t.TempDir(), "w")
	noError(t, tr.Save(file, map[string]string{"heads": "3"}))
	f := must(safetensors.Open(file))(t)
	defer f.Close()
	var names, want []string
	for _, e := range f.Tensors {
		names = append(names, e.Name)
	}
	for _, w := range tr.Weights() {
		want = append(want, w.Path)
	}
	if !slices.Equal(names, want) || names[0] != "embedding/source/table" || slices.Contains(names, "softmax/weight") {
		t.Errorf("tensors %v, want %v", names, want)
	}
	if len(f.Metadata[FunctionKey]) != 64 || !maps.Equal(f.Metadata, map[string]string{"heads": "3", hashKey: tr.Hash(), FunctionKey: f.Metadata[FunctionKey]}) {
		t.Errorf("metadata %v", f.Metadata)
	}
	all := read(t, file)
	data := all[8+binary.LittleEndian.Uint64(all):]
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != tr.Hash() {
		t.Errorf("the data's SHA-256 is %x, the hash %s", sum, tr.Hash())
	}
}

// TestLoadOfAnotherFunction: the weights of a network with the same tensors and
// another function are refused, those of one that only trains differently are not.
func TestLoadOfAnotherFunction(t *testing.T) {
	file := filepath.Join(t.TempDir(), "weights.safetensors")
	open := func(change func(*lm)) *Trainer {
		l := small
		change(&l)
		return openSmall(t, l.pipeline(t))
	}
	noError(t, open(func(*lm) {}).Save(file, nil))
	for name, change := range map[string]func(*lm){
		"heads":       func(l *lm) { l.model.Heads = 4 },
		"clip-logits": func(l *lm) { l.model.ClipLogits = 5 },
	} {
		other := open(change)
		before := other.Hash()
		if err := other.Load(file); err == nil || !strings.HasPrefix(err.Error(), file+": its weights are of a network that computes another function") || other.Hash() != before {
			t.Errorf("%s: %v: want it refused, and nothing changed", name, err)
		}
	}
	testkit.Equal(t, open(func(l *lm) { l.model.Dropout, l.model.ScaledInit, l.smooth = 0, true, 0 }).Load(file), nil)
}

// TestLoadRefuses: a file that is not this network's is refused with a reason in one
// line, and changes nothing.
func TestLoadRefuses(t *testing.T) {
	s := savings[0]
	dir := t.TempDir()
	file := filepath.Join(dir, "weights.safetensors")
	source := trained(t, s.open(t, 1, 1, false), s.data)
	noError(t, source.Save(file, nil))
	good := read(t, file)
	n := 8 + int(binary.LittleEndian.Uint64(good))

	tr := trained(t, s.open(t, 3, 2, false), func(i int) nn.Batch { return s.data(i + 3) })
	before, loss := tr.Hash(), evaluated(t, tr, s.data(9))
	if before == source.Hash() {
		t.Fatal("the two networks have the same weights")
	}
	refused := func(path, want string) {
		t.Helper()
		err := tr.Load(path)
		if err == nil || !strings.HasPrefix(err.Error(), path) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("got the error %v\nwant the file's name and %s", err, want)
		}
		testkit.Equal(t, tr.Hash(), before, "%s: the weights have changed", want)
		sameCopies(t, tr, true)
	}
	written := func(data []byte, want string) {
		t.Helper()
		path := filepath.Join(dir, "bad")
		noError(t, os.WriteFile(path, data, 0o666))
		refused(path, want)
	}
	tensors := func() (all []safetensors.Tensor) {
		for _, w := range source.Weights() {
			all = append(all, safetensors.Tensor{Name: w.Path, Shape: slices.Clone(w.Shape), Data: slices.Clone(w.Data)})
		}
		return all
	}
	weights := func(all []safetensors.Tensor, metadata map[string]string, want string) {
		t.Helper()
		path := filepath.Join(dir, "other")
		noError(t, safetensors.WriteFile(path, all, metadata))
		refused(path, want)
	}

	refused(filepath.Join(dir, "none"), "no such file or directory")
	refused(dir, "is a directory, want weights")
	written(nil, "not safetensors: the file has 0 bytes")
	written([]byte("these are no weights, but a text"), "not safetensors")
	for _, cut := range []int{7, 8, 100, n - 1} {
		written(good[:cut], "not safetensors")
	}
	for _, cut := range []int{n, n + 1, (n + len(good)) / 2, len(good) - 4, len(good) - 1} {
		written(good[:cut], "truncated")
	}
	written(append(slices.Clone(good), 0), `1 bytes after the last tensor, "softmax/bias"`)
	flipped := slices.Clone(good)
	flipped[(n+len(good))/2] ^= 1
	written(flipped, "the values are not those that were saved: SHA-256 ")

	last := len(source.Weights()) - 1
	all := tensors()
	all[last].Shape, all[last].Data = []int{18}, all[last].Data[:18]
	weights(all, nil, `tensor "softmax/bias" has shape [18]: the network wants [19]`)
	all = tensors()
	all[0].Shape = []int{16, 19}
	weights(all, nil, `tensor "embedding/table" has shape [16 19]: the network wants [19 16]`)
	weights(tensors()[:last], nil, `no tensor "softmax/bias", which the network has`)
	all = append(tensors(), safetensors.Tensor{Name: "softmax/weight", Shape: []int{19, 16}, Data: tensors()[0].Data})
	weights(all, nil, `tensor "softmax/weight", which the network does not have`)
	all = tensors()
	all[3].Name = "layer1/attention/QKV/weight"
	weights(all, nil, `no tensor "layer1/attention/qkv/weight", which the network has`)
	weights(tensors(), map[string]string{hashKey: before}, "the file says "+before)
	all = tensors()
	all[1].Data[0] = float32(math.Inf(1))
	weights(all, nil, fmt.Sprintf("tensor %q has a value that is +Inf: want finite weights", all[1].Name))

	testkit.Equal(t, evaluated(t, tr, s.data(9)), loss, "evaluation loss")
	// Another order, and no hash: the same weights.
	all = tensors()
	slices.Reverse(all)
	noError(t, safetensors.WriteFile(file, all, nil))
	if err := tr.Load(file); err != nil || tr.Hash() != source.Hash() {
		t.Errorf("in another order: hash %s, %v, want %s", tr.Hash(), err, source.Hash())
	}
}

// TestSaveFails: a save that fails leaves no file but the one that was there before.
func TestSaveFails(t *testing.T) {
	s := savings[0]
	tr := s.open(t, 3, 2, false)
	dir := t.TempDir()
	file := filepath.Join(dir, "weights")
	noError(t, tr.Save(file, nil))
	good := read(t, file)
	trained(t, tr, s.data)

	fails := func(path string, metadata map[string]string, want string) {
		t.Helper()
		if err := tr.Save(path, metadata); err == nil || !strings.HasPrefix(err.Error(), path) || !strings.Contains(err.Error(), want) {
			t.Errorf("got the error %v\nwant the file's name and %s", err, want)
		}
	}
	fails(filepath.Join(dir, "none", "weights"), nil, "no such file or directory")
	fails(filepath.Join(file, "weights"), nil, "not a directory")
	fails(dir, nil, "is a directory")
	fails(file, map[string]string{"name": "\xff"}, "is not UTF-8")
	fails(file, map[string]string{hashKey: tr.Hash()}, "Save's own")
	fails(file, map[string]string{FunctionKey: "f"}, "Save's own")
	if os.Geteuid() > 0 { // root may write anywhere
		noError(t, os.Chmod(dir, 0o555))
		fails(file, nil, "permission denied")
		noError(t, os.Chmod(dir, 0o755))
	}
	testkit.Equal(t, len(must(os.ReadDir(dir))(t)), 1, "left behind")
	if !bytes.Equal(read(t, file), good) {
		t.Error("a failure changed the file")
	}

	tr.Close()
	fails(file, nil, "not saved: the trainer is closed")
	testkit.Fails(t, tr.Load(file), "not loaded: the trainer is closed")
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	return must(os.ReadFile(file))(t)
}

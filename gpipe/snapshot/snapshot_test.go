package snapshot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpipebench/datasets"
	"gpipebench/gpipe"
	"gpipebench/internal/testkit"
	"gpipebench/models/transformer"
	"gpipebench/nn"
)

// training is a small language model with Adam and an average of the weights, and its
// mini-batches.
func training(t testing.TB, change func(*gpipe.Pipeline)) (*gpipe.Trainer, func(i int) nn.Batch) {
	t.Helper()
	layers := testkit.Must(transformer.LM(transformer.Config{Layers: 2, Dim: 16, FeedForward: 24, Heads: 2, Vocab: 64, SeqLen: 8, Dropout: 0.1, Tied: true}))(t)
	source := testkit.Must(datasets.NewSynthetic(datasets.Config{SeqLen: 8, Seed: 3}))(t)
	data := func(i int) nn.Batch {
		return testkit.Must(source.Batch(datasets.Train, i, 6))(t)
	}
	p := gpipe.Pipeline{
		Layers: layers, Loss: nn.CrossEntropy{}, Numerics: gpipe.Numerics{Seed: 42, Optimizer: nn.Adam{}, LR: nn.ConstantLR(0.01), ClipNorm: 0.5, EMA: nn.EMA{Decay: 0.9}},
		Replication: gpipe.Replication{Groups: 2},
	}
	change(&p)
	tr := testkit.Must(p.Open(gpipe.InputOf(data(0))))(t)
	t.Cleanup(func() { tr.Close() })
	return tr, data
}

func plainly(*gpipe.Pipeline) {}

func step(t testing.TB, tr *gpipe.Trainer, data func(int) nn.Batch) {
	t.Helper()
	testkit.Must(tr.Step(t.Context(), data(tr.Steps())))(t)
}

func contents(t testing.TB, tr *gpipe.Trainer) Contents {
	t.Helper()
	s := testkit.Must(tr.State(nil))(t)
	return Contents{
		State: s, Metadata: map[string]string{"model": "small"}, Settings: map[string]string{"seed": "42", "lr": "0.01"},
		About: map[string]string{"engine": "any"}, Progress: []byte(`{"losses":[1,2]}`),
	}
}

// kept writes the snapshots of a training after each of some steps, and returns the
// training's end.
func kept(t testing.TB, dir string, steps int) (hash string) {
	t.Helper()
	tr, data := training(t, plainly)
	for range steps {
		step(t, tr, data)
		testkit.NoError(t, Write(dir, contents(t, tr)))
	}
	return tr.Hash()
}

// A training goes on from the disk, run in another way, with the same bits.
func TestRoundTrip(t *testing.T) {
	dir := t.TempDir()
	want := kept(t, dir, 4)
	for from := 1; from <= 4; from++ {
		s := testkit.Must(Open(Name(dir, from)))(t)
		state := testkit.Must(s.State())(t)
		tr, data := training(t, func(p *gpipe.Pipeline) { p.Partitions, p.Replicas, p.ShardUpdate = 3, 2, true })
		testkit.NoError(t, tr.Restore(state))
		for tr.Steps() < 4 {
			step(t, tr, data)
		}
		testkit.Equal(t, tr.Hash(), want, "from step %d", from)
		again := testkit.Must(tr.State(nil))(t)
		last := testkit.Must(Open(Name(dir, 4)))(t)
		state = testkit.Must(last.State())(t)
		for i, v := range state.Average {
			testkit.EqualAll(t, v.Data, again.Average[i].Data, "from step %d: another average of %s", from, v.Path)
		}
		progress, err := s.Progress()
		if err != nil || string(progress) != `{"losses":[1,2]}` {
			t.Errorf("progress %s, %v", progress, err)
		}
		metadata, err := s.Metadata()
		if err != nil || metadata["model"] != "small" || s.Settings["lr"] != "0.01" || s.About["engine"] != "any" {
			t.Errorf("metadata %v, settings %v, about %v, %v", metadata, s.Settings, s.About, err)
		}
	}
	steps, err := Steps(dir)
	if err != nil || !slices.Equal(steps, []int{1, 2, 3, 4}) {
		t.Errorf("steps %v, %v", steps, err)
	}
}

// The file of weights has the bytes of one that is saved.
func TestWeightsAreAsSaved(t *testing.T) {
	dir := t.TempDir()
	tr, data := training(t, plainly)
	step(t, tr, data)
	testkit.NoError(t, Write(dir, contents(t, tr)))
	saved := filepath.Join(dir, "saved")
	testkit.NoError(t, tr.Save(saved, map[string]string{"model": "small"}))
	if !bytes.Equal(read(t, saved), read(t, filepath.Join(Name(dir, 1), weightsFile))) {
		t.Error("another file than Save writes")
	}
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	return testkit.Must(os.ReadFile(name))(t)
}

// A snapshot that is a link to a folder elsewhere is one, until that is gone; to remove it
// removes the link.
func TestLinkedSnapshot(t *testing.T) {
	dir, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "moved")
	kept(t, dir, 2)
	testkit.NoError(t, os.Rename(Name(dir, 2), elsewhere))
	if err := os.Symlink(elsewhere, Name(dir, 2)); err != nil {
		t.Skip(err)
	}
	if s, damaged, err := Newest(dir); err != nil || s == nil || s.Step != 2 || len(damaged) > 0 {
		t.Errorf("%v, %v, %v", s, damaged, err)
	}
	testkit.Equal(t, Prune(dir, 9, 0), nil)
	if left, err := os.ReadDir(elsewhere); err != nil || len(left) == 0 {
		t.Errorf("%v, %v", left, err)
	}
	testkit.NoError(t, os.Symlink(dir+"/nothing", Name(dir, 3)))
	if steps, err := Steps(dir); err != nil || len(steps) > 0 {
		t.Errorf("%v, %v", steps, err)
	}
}

// Any damage to any file is found, and named; the snapshot before it is taken.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	kept(t, dir, 2)
	entries, err := os.ReadDir(Name(dir, 2))
	if err != nil || len(entries) != 6 {
		t.Fatalf("%v, %v", entries, err)
	}
	for _, e := range entries {
		name := filepath.Join(Name(dir, 2), e.Name())
		whole := read(t, name)
		for how, damaged := range damages(whole) {
			testkit.NoError(t, os.WriteFile(name, damaged, 0o600))
			checkDamaged(t, dir, e.Name(), how)
		}
		testkit.NoError(t, os.Remove(name))
		checkDamaged(t, dir, e.Name(), "removed")
		testkit.NoError(t, os.Mkdir(name, 0o700))
		checkDamaged(t, dir, e.Name(), "a directory")
		testkit.NoError(t, os.Remove(name))
		testkit.NoError(t, os.WriteFile(name, whole, 0o600))
	}
	if s, damaged, err := Newest(dir); err != nil || s.Step != 2 || len(damaged) > 0 {
		t.Errorf("whole again: %v, %v, %v", s, damaged, err)
	}
}

// damages are changed contents of a file: a flipped bit at every place of a small one and
// at some of a large one (with -short of any), a cut, an addition, nothing.
func damages(whole []byte) func(func(string, []byte) bool) {
	return func(yield func(string, []byte) bool) {
		flips := 200
		if testing.Short() {
			flips = 10
		}
		stride := max(1, len(whole)/flips)
		for at := 0; at < len(whole); at += stride {
			flipped := slices.Clone(whole)
			flipped[at] ^= 1 << (at % 8)
			if !yield(fmt.Sprintf("bit %d of byte %d flipped", at%8, at), flipped) {
				return
			}
		}
		_ = yield("cut", whole[:len(whole)-1]) && yield("half", whole[:len(whole)/2]) && yield("longer", append(slices.Clone(whole), ' ')) && yield("empty", nil)
	}
}

func checkDamaged(t *testing.T, dir, file, how string) {
	t.Helper()
	s, damaged, err := Newest(dir)
	if err != nil || s.Step != 1 || len(damaged) != 1 {
		t.Errorf("%s, %s: took %v, %v, %v", file, how, s, damaged, err)
		return
	}
	if says := damaged[0].Error(); !strings.HasPrefix(says, Name(dir, 2)+": "+file+": ") || strings.Contains(says, "\n") {
		t.Errorf("%s, %s: %q, want the snapshot and the file", file, how, says)
	}
}

// rewrite changes a snapshot's manifest and its sum.
func rewrite(t *testing.T, name string, change func(*Manifest)) {
	t.Helper()
	file := filepath.Join(name, manifestFile)
	m := &Manifest{}
	testkit.NoError(t, json.Unmarshal(read(t, file), m))
	change(m)
	text := testkit.Must(m.sign())(t)
	testkit.NoError(t, os.WriteFile(file, text, 0o600))
}

// Another version is refused by its number: it is no damage, and none before it is taken.
func TestVersions(t *testing.T) {
	dir := t.TempDir()
	kept(t, dir, 2)
	for _, version := range []int{0, 2, -1, 1 << 40} {
		rewrite(t, Name(dir, 2), func(m *Manifest) { m.Version = version })
		var other *VersionError
		s, _, err := Newest(dir)
		if !errors.As(err, &other) || other.Version != version || s != nil || !strings.Contains(err.Error(), fmt.Sprintf("version %d: want version 1", version)) {
			t.Errorf("%v, %v", s, err)
		}
	}
}

// A manifest whose sum is right and that is nonsense is refused with a reason.
func TestStrangeManifests(t *testing.T) {
	dir := t.TempDir()
	kept(t, dir, 1)
	whole := read(t, filepath.Join(Name(dir, 1), manifestFile))
	for says, change := range map[string]func(*Manifest){
		`its format is "zip"`:                    func(m *Manifest) { m.Format = "zip" },
		"step -1: want 0":                        func(m *Manifest) { m.Step = -1 },
		"says that this is step 7":               func(m *Manifest) { m.Step = 7 },
		`a file "../../etc/passwd"`:              func(m *Manifest) { m.Files[0].Name = "../../etc/passwd" },
		`a file "manifest.json"`:                 func(m *Manifest) { m.Files[0].Name = manifestFile },
		"listed twice":                           func(m *Manifest) { m.Files = append(m.Files, m.Files[0]) },
		"weights.safetensors is not listed":      func(m *Manifest) { m.Files = m.Files[1:] },
		"its file \"optimizer-x.safetensors\"":   func(m *Manifest) { m.Slots[0].File = "optimizer-x.safetensors" },
		"two slots":                              func(m *Manifest) { m.Slots[1].Slot = m.Slots[0].Slot },
		"the average's file \"a.safetensors\"":   func(m *Manifest) { m.Average = "a.safetensors" },
		"want its size and sum":                  func(m *Manifest) { m.Files[0].SHA256 = "0" },
		"weights.safetensors: damaged: its SHA-": func(m *Manifest) { m.Files[0].SHA256 = strings.Repeat("0", 64) },
	} {
		testkit.NoError(t, os.WriteFile(filepath.Join(Name(dir, 1), manifestFile), whole, 0o600))
		rewrite(t, Name(dir, 1), change)
		_, _, err := Newest(dir)
		testkit.Fails(t, err, says)
	}
}

// Only the newest up to a step stay, however many there are, and all later ones.
func TestPrune(t *testing.T) {
	dir := t.TempDir()
	kept(t, dir, 4)
	for _, foreign := range []string{"step-1", "step-00000000001", "notes"} {
		testkit.NoError(t, os.Mkdir(filepath.Join(dir, foreign), 0o700))
	}
	for _, c := range []struct {
		upTo, keep int
		want       []int
	}{{4, 5, []int{1, 2, 3, 4}}, {2, 1, []int{2, 3, 4}}, {9, 2, []int{3, 4}}, {3, 1, []int{3, 4}}, {4, 1, []int{4}}} {
		testkit.NoError(t, Prune(dir, c.upTo, c.keep))
		testkit.EqualAll(t, testkit.Must(Steps(dir))(t), c.want, "up to %d, of %d", c.upTo, c.keep)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 4 {
		t.Errorf("%v", entries)
	}
}

// A snapshot of the same step is replaced, whole.
func TestReplaced(t *testing.T) {
	dir := t.TempDir()
	kept(t, dir, 1)
	testkit.NoError(t, os.WriteFile(filepath.Join(Name(dir, 1), weightsFile), nil, 0o600))
	tr, data := training(t, plainly)
	step(t, tr, data)
	testkit.NoError(t, Write(dir, contents(t, tr)))
	if s, damaged, err := Newest(dir); err != nil || s.Step != 1 || len(damaged) > 0 {
		t.Errorf("%v, %v, %v", s, damaged, err)
	}
}

// A writer keeps others out, writes beside the training, and reports what goes wrong,
// while snapshots that are there stay.
func TestWriter(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "for", "it")
	var failed []error
	var written []int
	ended := func(step int, err error) {
		if err != nil {
			failed = append(failed, err)
		} else {
			written = append(written, step)
		}
	}
	w := testkit.Must(NewWriter(dir, 2, ended))(t)
	testkit.Refused(NewWriter(dir, 2, ended))(t, "another process adds to it: wait for it")
	tr, data := training(t, plainly)
	var hashes []string
	for range 4 {
		step(t, tr, data)
		c := contents(t, tr)
		c.State = nil
		testkit.NoError(t, w.Save(tr, c))
		hashes = append(hashes, tr.Hash())
		step(t, tr, data) // while it is written
	}
	w.Wait()
	if !w.Idle() || len(failed) > 0 || !slices.Equal(written, []int{1, 3, 5, 7}) {
		t.Errorf("idle %v, %v, %v", w.Idle(), failed, written)
	}
	testkit.EqualAll(t, testkit.Must(Steps(dir))(t), []int{5, 7})
	s, damaged, err := Newest(dir)
	if err != nil || len(damaged) > 0 {
		t.Fatal(damaged, err)
	}
	metadata, err := s.Metadata()
	if err != nil || metadata["weights_sha256"] != hashes[3] {
		t.Errorf("%v, %v, want the weights after step 7, %s", metadata, err, hashes[3])
	}

	// The directory vanishes under it.
	testkit.NoError(t, os.Rename(dir, dir+"-moved"))
	testkit.NoError(t, w.Save(tr, Contents{}))
	w.Close()
	if len(failed) != 1 || !errors.Is(failed[0], fs.ErrNotExist) || !strings.HasPrefix(failed[0].Error(), dir) || strings.Contains(failed[0].Error(), "unfinished") {
		t.Errorf("%v, want one that names %s", failed, dir)
	}
	testkit.NoError(t, os.Rename(dir+"-moved", dir))
	if again, err := NewWriter(dir, 2, ended); err != nil {
		t.Error("after Close:", err)
	} else {
		again.Close()
	}
}

// Names of slots that are no names of files have numbers in their places.
func TestSlotFiles(t *testing.T) {
	names := map[string]bool{}
	for i, slot := range []string{"mean", "mean_square", "", "../x", "Mean", "a/b", "1"} {
		name := slotFile(i, slot)
		if !plainFile.MatchString(name) || names[name] {
			t.Errorf("%q has the file %q", slot, name)
		}
		names[name] = true
	}
}

// FuzzManifest reads texts as manifests, also with a sum that fits: none is accepted that
// does not say the same when it is written again.
func FuzzManifest(f *testing.F) {
	m := &Manifest{
		Step: 5, Settings: map[string]string{"lr": "0.1"}, Slots: []SlotFile{{"mean", "optimizer-mean.safetensors"}},
		Files: []File{{weightsFile, 10, strings.Repeat("a", 64)}, {"optimizer-mean.safetensors", 10, strings.Repeat("b", 64)}},
	}
	text := testkit.Must(m.encode())(f)
	f.Add(text)
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"format":"gpipebench snapshot","version":1,"step":1,"files":null,"sha256":""}`))
	f.Add(bytes.Replace(text, []byte(`"step": 5`), []byte(`"step": 5, "step": 6`), 1))
	f.Fuzz(func(t *testing.T, text []byte) {
		texts := [][]byte{text}
		signed := &Manifest{}
		if json.Unmarshal(text, signed) == nil {
			again := testkit.Must(signed.sign())(t)
			texts = append(texts, again)
		}
		for _, text := range texts {
			m, err := parseManifest(text)
			if err != nil {
				if strings.Contains(err.Error(), "\n") {
					t.Errorf("%q", err)
				}
				continue
			}
			if m.Step < 0 || m.Step > math.MaxInt32 || !m.has(weightsFile) {
				t.Errorf("accepted: %+v", m)
			}
			for _, file := range m.Files {
				if filepath.Base(file.Name) != file.Name || strings.HasPrefix(file.Name, ".") {
					t.Errorf("accepted a file %q", file.Name)
				}
			}
			written := testkit.Must(m.encode())(t)
			again, err := parseManifest(written)
			if err != nil || again.Step != m.Step || !maps.Equal(again.Settings, m.Settings) || !slices.Equal(again.Files, m.Files) {
				t.Errorf("%+v became %+v, %v", m, again, err)
			}
		}
	})
}

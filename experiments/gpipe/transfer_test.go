package gpipe

import (
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/lab/trained"
	"gpipebench/nn/safetensors"
	"gpipebench/train"
)

// The smallest profile is measured. Fine-tuning begins with the pretrained weights and a new
// last layer; where these are lost, they are made again, with the same bits.
func TestTransferMeasures(t *testing.T) {
	x := labtest.Loaded[*transfer](t, Paper.Experiment("transfer").Load)
	p := x.Spec.Profiles["smoke"]
	dir := t.TempDir()
	open := func(dir string) *records.Log {
		log, err := records.Open(records.File(dir, x.ID()), x.Key("smoke"), false)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { log.Close() })
		return log
	}
	log := open(dir)
	if err := x.Measure(t.Context(), log, progress.Silent{}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "snapshots")); !os.IsNotExist(err) {
		t.Errorf("weights or snapshots are left: %v", err)
	}
	n := len(log.Names)
	if err := x.Measure(t.Context(), log, progress.Silent{}); err != nil || len(log.Names) != n || n != 2+2*4 {
		t.Errorf("measured again: %v, %d samples, had %d", err, len(log.Names), n)
	}
	if _, err := x.Report(log, nil); err != nil {
		t.Error(err)
	}

	// All but the fine-tuned ones are there, and no weights.
	tuned := x.arms(p, "").tuned[0]
	some := func(change func(name string, data []byte) []byte) *records.Log {
		other := open(t.TempDir())
		for name, data := range log.Snapshot() {
			if !strings.HasPrefix(name, tuned.Name) {
				other.Put(&records.Record{Sample: name, Data: change(name, data)})
			}
		}
		return other
	}
	again := some(func(_ string, data []byte) []byte { return data })
	if err := x.Measure(t.Context(), again, progress.Silent{}); err != nil {
		t.Fatal(err)
	}
	for _, seed := range p.Seeds {
		var first, second trained.Trial
		if err := log.Get(tuned.Sample(seed), &first); err != nil {
			t.Fatal(err)
		}
		if err := again.Get(tuned.Sample(seed), &second); err != nil || second.SHA256 != first.SHA256 {
			t.Errorf("seed %d: %v, %s, want %s", seed, err, second.SHA256, first.SHA256)
		}
	}
	pretraining := x.arms(p, "").pretraining.Name
	changed := some(func(name string, data []byte) []byte {
		if strings.HasPrefix(name, pretraining) {
			at := strings.Index(string(data), `"weights_sha256":"`) + len(`"weights_sha256":"`)
			data = []byte(string(data[:at]) + strings.Repeat("0", 8) + string(data[at+8:]))
		}
		return data
	})
	if err := x.Measure(t.Context(), changed, progress.Silent{}); err == nil || !strings.Contains(err.Error(), "other weights than its record's: want --fresh") {
		t.Errorf("%v", err)
	}

	// What the first step begins with.
	weights := t.TempDir()
	a := x.arms(p, weights)
	if _, err := trained.Train(t.Context(), a.pretraining.Training(1)); err != nil {
		t.Fatal(err)
	}
	from := transferValues(t, a.pretraining.Training(1).Save)
	begin, scratch := a.tuned[0].Training(1), a.scratch[0].Training(1)
	begin.Steps, begin.Save = 0, filepath.Join(weights, "tuned")
	scratch.Steps, scratch.Save = 0, filepath.Join(weights, "scratch")
	for _, training := range []train.Training{begin, scratch} {
		if _, err := training.Run(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	random := transferValues(t, scratch.Save)
	for path, got := range transferValues(t, begin.Save) {
		want := from[path]
		if strings.HasPrefix(path, "classifier/") {
			want = random[path]
		}
		if got != want {
			t.Errorf("%s begins with other values", path)
		}
	}
}

// transferValues returns the tensors of a file, by path, as text.
func transferValues(t *testing.T, file string) map[string]string {
	t.Helper()
	f, err := safetensors.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := map[string]string{}
	for i, e := range f.Tensors {
		data := make([]float32, e.Elems())
		if err := f.Floats(i, data); err != nil {
			t.Fatal(err)
		}
		all[e.Name] = fmt.Sprint(data)
	}
	return all
}

// transferDrawn writes images of two classes into a folder.
func transferDrawn(t *testing.T, dir string, shade uint8) {
	t.Helper()
	for class, red := range map[string]uint8{"a": 0, "b": 200} {
		if err := os.MkdirAll(filepath.Join(dir, class), 0o700); err != nil {
			t.Fatal(err)
		}
		for i := range 40 {
			f, err := os.Create(filepath.Join(dir, class, fmt.Sprint(i, ".png")))
			if err != nil {
				t.Fatal(err)
			}
			m := image.NewRGBA(image.Rect(0, 0, 20, 20))
			for at := range 400 {
				m.Set(at%20, at/20, color.RGBA{red, uint8(i + at), shade, 255})
			}
			if err := png.Encode(f, m); err != nil {
				t.Fatal(err)
			}
			f.Close()
		}
	}
}

// Data that are not there, or that have changed since their record, are said in one line
// before anything is trained.
func TestTransferFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "images")
	text := labtest.Edited(t, Paper.Experiment("transfer"), `data: synthetic, classes: 10, figures: {first: 10, train: 80, held_out: 40}`, `data: "images:`+filepath.ToSlash(dir)+`", held_out_of: 2`)
	text = []byte(strings.Replace(string(text), "    expected: 5s\n", "    expected: 5s\n    make: icons\n", 1))
	loaded, err := Paper.Experiment("transfer").Load(lab.SpecFile{Name: "x.yaml", Experiment: "transfer", Text: text})
	if err != nil {
		t.Fatal(err)
	}
	x := loaded.(*transfer)
	refused := func(log *records.Log, want string) {
		t.Helper()
		had := len(log.Names)
		err := x.Measure(t.Context(), log, progress.Silent{})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") || len(log.Names) > had+1 {
			t.Errorf("%v, %d samples more, want %s", err, len(log.Names)-had, want)
		}
	}
	log := records.New(x.Key("smoke"))
	refused(log, "want `make icons` first")
	transferDrawn(t, dir, 0)
	if err := x.Measure(t.Context(), log, progress.Silent{}); err != nil {
		t.Fatal(err)
	}
	var c transferContents
	if err := log.Get(x.Spec.Profiles["smoke"].To[0].sample(), &c); err != nil || c.Train != 40 || c.HeldOut != 40 || c.Classes != 2 || len(c.SHA256) != 64 {
		t.Errorf("%v, %+v", err, c)
	}
	lost := records.New(log.Key)
	for name, data := range log.Snapshot() {
		if !strings.HasSuffix(name, "/seed2") {
			lost.Put(&records.Record{Sample: name, Data: data})
		}
	}
	transferDrawn(t, dir, 1)
	refused(lost, "want the same images, or --fresh")
}

// What cannot be compared is refused when the spec is loaded.
func TestTransferSpecErrors(t *testing.T) {
	labtest.CheckRefused(t, Paper.Experiment("transfer"), [][3]string{
		{"scratch: {steps: 2", "scratch: {steps: 3", "want 2, as many as of fine_tuning"},
		{"longer: {steps: 6", "longer: {steps: 5", "want 6, as many as of pretraining and fine_tuning together"},
		{"data: synthetic, classes: 10, figures: {first", "data: synthetic, figures: {first", "want a number of classes of synthetic"},
		{"data: synthetic, classes: 10, figures: {first", `data: "images:x", figures: {first`, "want classes and figures of synthetic only"},
		{"data: synthetic, classes: 10, figures: {first", `data: "text:x", figures: {first`, "want synthetic, images:DIR"},
		{`name: "figures 11-20"`, `name: "figures 1-10"`, "want another name"},
		{"setup: {k: 1, m: 1, checkpoint: never, threads: 1}", "setup: {k: 1, m: 1, checkpoint: never, threads: 1, device: emulated}", "want host devices"},
		{"paper: 84.4", "paper: -84.4", "want a number above 0"},
	})
}

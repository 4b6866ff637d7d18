package trained

import (
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpipebench/internal/progress"
	"gpipebench/internal/testkit"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/nn/safetensors"
)

// begun has a network that another begins with, on another set.
const begun = `
experiment: begun
kind: trained
title: "Begun with others' weights"
source: none
discard: nothing
seed: 1
setup: {checkpoint: never, threads: 1}
arms:
  - {name: before, set: one, training: {model: {filters: 16}, steps: 3}}
  - {name: after, set: other, from: before}
  - {name: scratch, set: other, training: {model: {filters: 16}}}
pairs: [{of: after, to: scratch, label: gain}]
tables:
  - caption: ["{{.seeds}} seeds"]
    columns:
      - {head: training, is: label}
      - {head: images, is: set}
      - {head: accuracy, is: mean(accuracy), as: "%.2f%"}
      - {head: most frequent class, is: majority, as: "%.2f%%"}
      - {head: better than that, is: beats_majority}
      - {head: training images, is: set_train}
      - {head: test images, is: set_held_out}
      - {head: classes, is: set_classes}
      - {head: difference in its pair, is: paired}
panels: [{draw: transferred, title: before and after, y: "%"}]
profiles:
  smoke: &smoke
    expected: 5s
    seeds: [1, 2]
    sets:
      one: {data: synthetic, classes: 4, figures: {train: 32, held_out: 8}}
      other: {data: synthetic, classes: 3, figures: {first: 10, train: 32, held_out: 12}}
    training:
      model: {name: amoebanetb, layers: 3, image: 20}
      batch: 8
      steps: 2
      optimizer: momentum
      lr: 0.03
  quick: *smoke
  full: *smoke
`

// The smallest profile is measured. Fine-tuning begins with the other's weights and a new last
// layer; where these are lost, they are made again, with the same bits.
func TestBegunWithOthersWeights(t *testing.T) {
	x := mustRead(t, begun)
	size := x.Spec.Profiles["smoke"]
	dir := t.TempDir()
	open := func(dir string) *records.Log {
		log := testkit.Must(records.Open(records.File(dir, x.ID()), x.Key("smoke"), false))(t)
		t.Cleanup(func() { log.Close() })
		return log
	}
	log := open(dir)
	testkit.NoError(t, x.Measure(t.Context(), log, progress.Silent{}))
	if _, err := os.Stat(filepath.Join(dir, "snapshots")); !os.IsNotExist(err) {
		t.Errorf("weights or snapshots are left: %v", err)
	}
	n := len(log.Names)
	if err := x.Measure(t.Context(), log, progress.Silent{}); err != nil || len(log.Names) != n || n != 2+2*3 {
		t.Errorf("measured again: %v, %d samples, had %d", err, len(log.Names), n)
	}
	r := testkit.Must(x.Report(log, log))(t)
	labtest.CheckPlots(t, r)
	if got := r.Tables[0].Printed(); !slices.Equal(got[0][5:8], []string{"32", "8", "4"}) || !slices.Equal(got[1][5:8], []string{"32", "12", "3"}) || got[0][8] != "" || got[1][8] == "" {
		t.Errorf("sets %q", got)
	}

	// All but the fine-tuned ones are there, and no weights.
	after := Arm{Name: "after"}
	some := func(change func(name string, data []byte) []byte) *records.Log {
		other := open(t.TempDir())
		for name, data := range log.Snapshot() {
			if !strings.HasPrefix(name, after.Name) {
				other.Put(&records.Record{Sample: name, Data: change(name, data)})
			}
		}
		return other
	}
	again := some(func(_ string, data []byte) []byte { return data })
	testkit.NoError(t, x.Measure(t.Context(), again, progress.Silent{}))
	for _, seed := range size.Seeds {
		var first, second Trial
		testkit.NoError(t, log.Get(after.Sample(seed), &first))
		if err := again.Get(after.Sample(seed), &second); err != nil || second.SHA256 != first.SHA256 {
			t.Errorf("seed %d: %v, %s, want %s", seed, err, second.SHA256, first.SHA256)
		}
	}
	changed := some(func(name string, data []byte) []byte {
		if strings.HasPrefix(name, "before") {
			at := strings.Index(string(data), `"weights_sha256":"`) + len(`"weights_sha256":"`)
			data = []byte(string(data[:at]) + strings.Repeat("0", 8) + string(data[at+8:]))
		}
		return data
	})
	testkit.Fails(t, x.Measure(t.Context(), changed, progress.Silent{}), "other weights than its record's: want --fresh")

	// What the first step begins with.
	weights := t.TempDir()
	of := func(arm, save, load string) map[string]string {
		tr := x.Spec.Training(size, x.Spec.Arms[x.Spec.Named(arm)], 1)
		tr.Save, tr.LoadPart = filepath.Join(weights, save), load
		if arm != "before" {
			tr.Steps = 0
		}
		testkit.Must(tr.Run(t.Context(), nil))(t)
		return valuesOf(t, tr.Save)
	}
	from := of("before", "before", "")
	random := of("scratch", "scratch", "")
	for path, got := range of("after", "after", filepath.Join(weights, "before")) {
		want := from[path]
		if strings.HasPrefix(path, "classifier/") {
			want = random[path]
		}
		testkit.Equal(t, got, want, "%s begins with other values", path)
	}
	// And what is measured began with these.
	tuned := x.Spec.Training(size, x.Spec.Arms[1], 1)
	tuned.LoadPart = filepath.Join(weights, "before")
	run, err := tuned.Run(t.Context(), nil)
	var was Trial
	if e := log.Get(after.Sample(1), &was); err != nil || e != nil || run.WeightsSHA256 != was.SHA256 {
		t.Errorf("%v, %v, %s, want %s", err, e, was.SHA256, run.WeightsSHA256)
	}
}

// valuesOf returns the tensors of a file, by path, as text.
func valuesOf(t *testing.T, file string) map[string]string {
	t.Helper()
	f := testkit.Must(safetensors.Open(file))(t)
	defer f.Close()
	all := map[string]string{}
	for i, e := range f.Tensors {
		data := make([]float32, e.Elems())
		testkit.NoError(t, f.Floats(i, data))
		all[e.Name] = fmt.Sprint(data)
	}
	return all
}

// draw writes images of two classes into a folder, three times as many of one as of the other.
func draw(t *testing.T, dir string, shade uint8) {
	t.Helper()
	for class, images := range map[string]int{"a": 20, "b": 60} {
		testkit.NoError(t, os.MkdirAll(filepath.Join(dir, class), 0o700))
		for i := range images {
			f := testkit.Must(os.Create(filepath.Join(dir, class, fmt.Sprint(i, ".png"))))(t)
			m := image.NewRGBA(image.Rect(0, 0, 20, 20))
			for at := range 400 {
				m.Set(at%20, at/20, color.RGBA{uint8(images), uint8(i + at), shade, 255})
			}
			testkit.NoError(t, png.Encode(f, m))
			f.Close()
		}
	}
}

// Images that are not there, or that have changed since their record, are said in one line
// before anything is trained.
func TestSetsOfFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "images")
	x := mustRead(t, begun, "{data: synthetic, classes: 3, figures: {first: 10, train: 32, held_out: 12}}", `{data: "images:`+filepath.ToSlash(dir)+`", make: icons, held_out_of: 2}`)
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
	draw(t, dir, 0)
	testkit.NoError(t, x.Measure(t.Context(), log, progress.Silent{}))
	var c setContents
	if err := log.Get(setSample("other"), &c); err != nil || c.Train != 40 || c.HeldOut != 40 || c.Classes != 2 || c.Majority != 0.75 || len(c.SHA256) != 64 {
		t.Errorf("%v, %+v", err, c)
	}
	r := testkit.Must(x.Report(log, nil))(t)
	if got := r.Tables[0].Printed()[1]; got[1] != "other" || got[3] != "75.00%" {
		t.Errorf("%q", got)
	}
	lost := records.New(log.Key)
	for name, data := range log.Snapshot() {
		if !strings.HasSuffix(name, "/seed2") {
			lost.Put(&records.Record{Sample: name, Data: data})
		}
	}
	draw(t, dir, 1)
	refused(lost, "want the same images, or --fresh")
}

// What cannot be is refused when the spec is read.
func TestBegunErrors(t *testing.T) {
	for _, c := range [][3]string{
		{"from: before", "from: later", "want an arm that begins with none's weights"},
		{"from: before", "from: after", "want an arm that begins with none's weights"},
		{"set: one", "set: two", `no set "two", which arm before has`},
		{"data: synthetic, classes: 3,", "data: synthetic,", "want a number of classes of synthetic"},
		{"data: synthetic, classes: 3,", `data: "images:x",`, "want classes and figures of synthetic only"},
		{"data: synthetic, classes: 3,", `data: "text:x",`, "want synthetic, images:DIR"},
		{"seeds: [1, 2]", "pilots: {seeds: [9], rates: [0.1]}\n    seeds: [1, 2]", "which have no weights to begin with"},
		{"seeds: [1, 2]", "until: 50\n    seeds: [1, 2]", "which have no weights to begin with"},
	} {
		testkit.Refused(read(t, begun, c[0], c[1]))(t, c[2])
	}
}

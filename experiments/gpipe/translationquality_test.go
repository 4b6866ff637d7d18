package gpipe

import (
	"context"
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gpipebench/datasets"
	"gpipebench/datasets/gettext/gettexttest"
	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/lab/trained"
	"gpipebench/nn"
	"gpipebench/train"
)

// qualityMadeUp is a log of made-up scores: of(arm, seed) are BLEU and nats of the first
// language, or of the only one; those of the next have 1 less and 0.1 more, and so on, and
// half as many pairs; a network of one language has 33 pairs of it.
func qualityMadeUp(t *testing.T, q *quality, profile string, of func(arm string, seed int) (bleu, nats float64)) *records.Log {
	t.Helper()
	log := records.New(q.Key(profile))
	p := q.Spec.Profiles[profile]
	names := p.Data.Names()
	without := qualityBaselines{Copy: make([]float64, len(names)), Dictionary: make([]float64, len(names))}
	if err := log.Add(qualityWithoutNetwork, 1, without); err != nil {
		t.Fatal(err)
	}
	for _, a := range q.arms(p) {
		for j, seed := range p.Seeds {
			bleu, nats := of(a.Name, j)
			r := qualityTrial{Trial: trained.Trial{SHA256: strings.Repeat("ab", 32), Params: 7, Partition: []int{2, 2}}, Steps: 10, Tokens: 900, Curve: []float64{3, 2}}
			for l, name := range names {
				pairs := 1000 >> l
				if a.of != "" {
					pairs = 33
				}
				if a.of == "" || a.of == name {
					r.Languages = append(r.Languages, train.LanguageScore{Name: name, Train: pairs, BLEU: bleu - float64(l), Loss: nats + float64(l)/10, HeldOut: 10})
				}
			}
			if err := log.Add(a.Sample(seed), seed, r); err != nil {
				t.Fatal(err)
			}
		}
	}
	return log
}

// Samples of other languages, or of other data than others, are refused.
func TestQualityStrangeSamples(t *testing.T) {
	q := labtest.Loaded[*quality](t, Paper.Experiment("translation-quality").Load)
	p := q.Spec.Profiles["quick"]
	for what, change := range map[string]func(*qualityTrial){
		"3 languages: want 4":      func(r *qualityTrial) { r.Languages = r.Languages[:3] },
		"other files of data than": func(r *qualityTrial) { r.Data = "another" },
		"no scores":                func(r *qualityTrial) { r.Curve = nil },
	} {
		log := qualityMadeUp(t, q, "quick", func(string, int) (float64, float64) { return 1, 1 })
		sample := q.arms(p)[2].Sample(2)
		var r qualityTrial
		if err := log.Get(sample, &r); err != nil {
			t.Fatal(err)
		}
		change(&r)
		if err := log.Add(sample, 2, r); err != nil {
			t.Fatal(err)
		}
		if _, err := q.Report(log, nil); err == nil || !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), sample) {
			t.Errorf("%v, want %s: %s", err, sample, what)
		}
	}
}

// The smallest profile is measured, goes on where it was, and its trainings are what train
// does.
func TestQualityMeasures(t *testing.T) {
	q := labtest.Loaded[*quality](t, Paper.Experiment("translation-quality").Load)
	p := q.Spec.Profiles["smoke"]
	arms := q.arms(p)
	log := records.New(q.Key("smoke"))
	if err := q.Measure(context.Background(), log, progress.Silent{}); err != nil {
		t.Fatal(err)
	}
	if n := len(arms)*len(p.Seeds) + 1; len(log.Names) != n {
		t.Errorf("%d samples, want %d", len(log.Names), n)
	}
	if r, err := q.Report(log, log); err != nil || r.Verdict != nil {
		t.Fatal(err, r.Verdict)
	}
	hashes := map[string]bool{}
	for _, a := range arms {
		for _, seed := range p.Seeds {
			var made qualityTrial
			if err := log.Get(a.Sample(seed), &made); err != nil {
				t.Fatal(err)
			}
			hashes[made.SHA256] = true
		}
	}
	if n := len(arms) * len(p.Seeds); len(hashes) != n {
		t.Errorf("%d hashes of %d trainings", len(hashes), n)
	}
	var wide qualityTrial
	if err := log.Get(arms[2].Sample(2), &wide); err != nil {
		t.Fatal(err)
	}
	training := arms[2].Training(2)
	if _, err := arms[2].within(&training); err != nil {
		t.Fatal(err)
	}
	training.Setup.Partitions, training.Setup.MicroBatches = 2, 4
	run, err := training.Run(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if run.WeightsSHA256 != wide.SHA256 || !reflect.DeepEqual(run.Eval.Languages, wide.Languages) {
		t.Errorf("train at K = 2: %s %v, the trial %s %v", run.WeightsSHA256, run.Eval.Languages, wide.SHA256, wide.Languages)
	}
	// A run that was interrupted measures what is missing, and only that.
	part := records.New(q.Key("smoke"))
	kept := wide
	kept.SHA256 = strings.Repeat("cd", 32)
	if err := part.Add(arms[2].Sample(2), 2, kept); err != nil {
		t.Fatal(err)
	}
	if err := q.Measure(context.Background(), part, progress.Silent{}); err != nil || len(part.Names) != len(log.Names) {
		t.Errorf("%d samples, want %d: %v", len(part.Names), len(log.Names), err)
	}
	for _, a := range arms {
		for _, seed := range p.Seeds {
			var was, is qualityTrial
			if err := errors.Join(log.Get(a.Sample(seed), &was), part.Get(a.Sample(seed), &is)); err != nil {
				t.Fatal(err)
			}
			want := was.SHA256
			if a.Sample(seed) == arms[2].Sample(2) {
				want = kept.SHA256
			}
			if is.SHA256 != want {
				t.Errorf("%s: %s, want %s", a.Sample(seed), is.SHA256, want)
			}
		}
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if err := q.Measure(cancelled, records.New(q.Key("smoke")), progress.Silent{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// A training ends with the mini-batch in which it has had the target tokens of the budget,
// or has passed over its pairs as often as it may.
func TestQualityBudget(t *testing.T) {
	q := labtest.Loaded[*quality](t, Paper.Experiment("translation-quality").Load)
	p := q.Spec.Profiles["smoke"]
	tokens := func(tr train.Training, steps int) (n int) {
		s, err := tr.Source()
		if err != nil {
			t.Fatal(err)
		}
		for i := range steps {
			b, err := s.Batch(datasets.Train, i, tr.Batch)
			if err != nil {
				t.Fatal(err)
			}
			n += b.Count
		}
		return n
	}
	for _, a := range q.arms(p) {
		a.tokens *= 10
		tr := a.Training(3)
		flops, err := a.within(&tr)
		if err != nil || flops <= 0 {
			t.Fatal(flops, err)
		}
		if with, without := tokens(tr, tr.Steps), tokens(tr, tr.Steps-1); with < a.tokens || without >= a.tokens {
			t.Errorf("%s: %d steps have %d tokens, one less %d: want %d", a.Name, tr.Steps, with, without, a.tokens)
		}
	}
	few := q.bilingualArms(p)[1] // 50 pairs
	few.tokens, few.passes = 1e6, 3
	tr := few.Training(1)
	if _, err := few.within(&tr); err != nil || tr.Steps != 3*7 {
		t.Errorf("%d steps, want 3 passes of 7: %v", tr.Steps, err)
	}
	if tr.LRSchedule != "warmup:2,cosine:19" {
		t.Error(tr.LRSchedule)
	}
}

// With as many tokens all mini-batches see the same number; with as many steps they make
// the same number. The profile's own is the bilingual arm.
func TestQualityBatches(t *testing.T) {
	q := labtest.Loaded[*quality](t, Paper.Experiment("translation-quality").Load)
	p := q.Spec.Profiles["quick"]
	var names []string
	steps := map[int]bool{}
	for _, sameSteps := range []bool{false, true} {
		for _, b := range q.Spec.Batches {
			a := q.batchArm(p, b, sameSteps)
			names = append(names, a.Name)
			if sameSteps {
				steps[a.tokens/a.Training(1).Batch] = true
			} else if a.tokens != p.Tokens {
				t.Errorf("%s: %d tokens", a.Name, a.tokens)
			}
		}
	}
	want := []string{"invented 1, mini-batches of 8", "bilingual invented 1", "invented 1, mini-batches of 128",
		"invented 1, mini-batches of 8, fewer tokens", "invented 1, mini-batches of 32, fewer tokens", "invented 1, mini-batches of 128"}
	if !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
	if len(steps) > 2 { // but for rounding
		t.Errorf("tokens for each pair of a mini-batch: %v", steps)
	}
	if n := len(q.batchArms(p)); n != 4 {
		t.Errorf("%d arms besides the bilingual ones, want 4", n)
	}
}

// From catalogs: the records have the digest of the pairs, and other catalogs are refused
// for what is missing. Without catalogs there is one clear line.
func TestQualityCatalogs(t *testing.T) {
	dir := gettexttest.Folder(t, map[string]int{"fr": 300, "pt_BR": 120})
	spec := strings.NewReplacer(
		"invented: {languages: 2, pairs: 200, nouns: 4}", "catalogs: "+dir+"\n      languages: [pt_BR, fr]",
		"languages: [invented 1, invented 2], table5: invented 1", "languages: [fr, pt_BR], table5: fr, source_vocab: 40",
		"seq: 48, scaled_init", "seq: 48, vocab: 60, source_vocab: 80, tied: softmax, scaled_init",
		"seeds: [1, 2]", "seeds: [1]",
	).Replace(Paper.Experiment("translation-quality").Spec()[:strings.Index(Paper.Experiment("translation-quality").Spec(), "  quick:")]) + Paper.Experiment("translation-quality").Spec()[strings.Index(Paper.Experiment("translation-quality").Spec(), "  quick:"):]
	e, err := Paper.Experiment("translation-quality").Load(lab.SpecFile{Name: "x.yaml", Experiment: Paper.Experiment("translation-quality").ID, Text: []byte(spec)})
	if err != nil {
		t.Fatal(err)
	}
	q := e.(*quality)
	log := records.New(q.Key("smoke"))
	if err := q.Measure(t.Context(), log, progress.Silent{}); err != nil {
		t.Fatal(err)
	}
	r, err := q.Report(log, nil)
	if err != nil {
		t.Fatal(err)
	}
	if rows := r.Tables[0].Printed(); rows[0][0] != "fr" || rows[1][0] != "pt_BR" {
		t.Errorf("languages %v, want the largest first", rows)
	}
	var all, alone qualityTrial
	if err := errors.Join(log.Get("small/seed1", &all), log.Get("bilingual fr/seed1", &alone)); err != nil {
		t.Fatal(err)
	}
	if len(all.Data) != 64 || len(alone.Data) != 64 || all.Data == alone.Data || all.Params <= alone.Params {
		t.Errorf("digests %s, %s; %d and %d parameters", all.Data, alone.Data, all.Params, alone.Params)
	}
	part := records.New(q.Key("smoke"))
	if err := part.Add("bilingual fr/seed1", 1, alone); err != nil {
		t.Fatal(err)
	}
	gettexttest.Write(t, dir, "fr", "program.mo", nil)
	if err := os.RemoveAll(dir + "/fr"); err != nil {
		t.Fatal(err)
	}
	other := gettexttest.Folder(t, map[string]int{"fr": 200})
	if err := os.Rename(other+"/fr", dir+"/fr"); err != nil {
		t.Fatal(err)
	}
	if err := q.Measure(t.Context(), part, progress.Silent{}); err == nil || !strings.Contains(err.Error(), "other sentences") {
		t.Errorf("other catalogs: %v", err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	err = q.Measure(t.Context(), records.New(q.Key("smoke")), progress.Silent{})
	if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "make corpus") || !strings.Contains(err.Error(), dir) {
		t.Errorf("no catalogs: %v", err)
	}
	if _, err := q.Report(log, nil); err != nil {
		t.Errorf("no catalogs, but records: %v", err)
	}
}

// Deep and wide networks are of one size, as the paper's, and the others grow as its
// networks do.
func TestQualityProportions(t *testing.T) {
	q := labtest.Loaded[*quality](t, Paper.Experiment("translation-quality").Load)
	params := func(m train.Model, vocab, sourceVocab int) float64 {
		m.Vocab, m.SourceVocab = vocab, sourceVocab
		layers, err := m.Build()
		if err != nil {
			t.Fatal(err)
		}
		return float64(nn.CountParams(layers))
	}
	for _, name := range lab.Profiles {
		p := q.Spec.Profiles[name]
		m := p.Training.Model
		of := map[string]float64{}
		for _, n := range q.Spec.Networks {
			of[n.Name] = params(q.scaled(n, m), 100, 100)
		}
		if ratio := of["deep"] / of["wide"]; ratio < 0.98 || ratio > 1.02 {
			t.Errorf("%s: deep has %.3f times the parameters of wide", name, ratio)
		}
		if !(of["small"] < of["wide"] && of["wide"] < of["larger"] && of["larger"] < of["largest"]) {
			t.Errorf("%s: %v", name, of)
		}
		if m.Heads*m.HeadDim != m.Dim {
			t.Errorf("%s: heads of %d in all, want the model's %d, as in the paper", name, m.Heads*m.HeadDim, m.Dim)
		}
		if name == "full" {
			if n := params(q.scaled(q.last(), m), m.Vocab, m.SourceVocab); n < 5e6 {
				t.Errorf("the largest network has %.0f parameters, want 5 million", n)
			}
			if len(p.Data.Languages) < 60 || len(p.Bilingual.Languages) < 12 || len(p.Seeds) < 3 || p.Tokens > 7e6 {
				t.Errorf("%d languages, %d bilingual, %d seeds, %d tokens", len(p.Data.Languages), len(p.Bilingual.Languages), len(p.Seeds), p.Tokens)
			}
		}
	}
}

// What the spec must not be.
func TestQualitySpec(t *testing.T) {
	for _, c := range []struct{ old, replacement, want string }{
		{"setup: {k: 1, m: 1,", "setup: {k: 1, m: 1, devise: 1,", "unknown field devise"},
		{"device: host", "device: emulated", "1: setup: trainings run beside"},
		{"nll: 2.58, times: 1}", "nll: 2.58, times: 2}", "batches.0.times: want 1 at first"},
		{"nll: 2.46, times: 16}", "nll: 2.46, times: 4}", "batches.2.times: want 1 at first"},
		{"1.3B, layers: 24", "1.3B, layers: 0", "networks.1.layers: \"0\": want a whole number"},
		{"name: wide, parameters", "name: deep, parameters", "networks.2: an entry of this name is there already, as entry 1"},
		{"{of: deep, to: wide}", "{of: deep, to: broad}", "differences.2.to: no network \"broad\""},
		{"{of: largest, to: larger}", "{of: greatest, to: larger}", "differences.4.of: no network \"greatest\""},
		{"seeds: [1, 2]\n", "seeds: [1, 0]\n", "profiles.smoke.seeds.1: \"0\": want a whole number of 1 or more"},
		{"seeds: [1, 2]\n", "seeds: [1, 2, 1]\n", "profiles.smoke.seeds.2: this entry is there already"},
		{"      ends: 1\n", "      ends: 2\n", "profiles.smoke.data.ends: 2 at either end of 2 languages"},
		{"      invented: {languages: 2, pairs: 200, nouns: 4}\n", "", "profiles.smoke.data: want either invented"},
		{"{languages: 4,", "{languages: 9,", "profiles.quick.data: synthetic-translation: 9 languages, want 1 to 8"},
		{"catalogs: corpus/usr/share/locale\n", "invented: {languages: 2, pairs: 200, nouns: 4}\n", "profiles.full.data: want either invented"},
		{"      catalogs: corpus/usr/share/locale\n", "", "profiles.full.data.catalogs: want a directory, and languages"},
		{"held_out: 4\n", "held_out: 0\n", "profiles.smoke.data.held_out: \"0\": want a whole number"},
		{"temperature: 5\n", "temperature: 0.5\n", "profiles.smoke.data.temperature: \"0.5\": want a number from 1"},
		{"languages: [invented 1, invented 2],", "languages: [invented 3],", "profiles.smoke.bilingual.languages.0: \"invented 3\": want some of the languages: invented 1, invented 2"},
		{"table5: invented 1,", "table5: fr,", "profiles.smoke.bilingual.table5: want one of the bilingual languages"},
		{"smallest_batch: 2", "smallest_batch: 0", "profiles.smoke.smallest_batch: \"0\": want"},
		{"      batch: 8\n", "      batch: 8\n      steps: 3\n", "profiles.smoke.training.steps: want none"},
		{"      batch: 8\n", "      batch: 8\n      lr_schedule: constant\n", "profiles.smoke.training.lr_schedule: want none"},
		{"ff: 32, heads: 2, head_dim: 8,", "ff: 32, heads: 2,", "profiles.smoke.training.model.head_dim: want 1 or more"},
		{"{name: transformer,", "{name: transformer-lm,", "profiles.smoke.training.model.name: want transformer"},
		{"layers: 24, ff: 8192,", "layers: 24, ff: 8200,", "profiles.smoke.training.model.ff: 32, with 2 heads: want sizes that grow by whole numbers to"},
	} {
		err := labtest.Refused(t, Paper.Experiment("translation-quality"), c.old, c.replacement)
		if err == nil || !strings.HasPrefix(err.Error(), "x.yaml:") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.replacement, err, c.want)
		}
	}
}

package trained

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"gpipebench/internal/progress"
	"gpipebench/internal/testkit"
	"gpipebench/lab"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/train"
)

// images compares networks with batch norm at three numbers of micro-batches, in pairs as well.
const images = `
experiment: images
kind: trained
title: "Images"
source: none
discard: nothing
seed: 1
margin: 3
level: 0.05
setup: {r: 2, checkpoint: never, threads: 1}
arms:
  - {name: M=1, label: whole, setup: {m: 1, bn_scope: all}}
  - {name: M=2 all, setup: {k: 2, m: 2, bn_scope: all}}
  - {name: M=2 replica, axis: [M=2, replica], setup: {m: 2, bn_scope: replica}, training: {lr: 0.03}}
pairs: [{of: M=2 all, to: M=2 replica, label: all - replica}]
tables:
  - caption: ["{{.steps}} steps of {{.batch}} images, R = {{.R}}; {{.seeds}} seeds, {{.held_out}} held out, margin {{.margin}}, level {{.level}}."]
    columns:
      - {head: training, is: label}
      - {head: M, is: M}
      - {head: scope, is: bn_scope}
      - {head: micro-batch, is: micro_batch}
      - {head: statistics of, is: statistics}
      - {head: rate, is: rate, as: "%g"}
      - {head: accuracy, is: mean(accuracy), as: "%.2f%"}
      - {head: sd, is: sd(metric), as: "%.2f"}
      - {head: held-out loss, is: mean(held_out), as: "%.4f"}
      - {head: "runs within [V1]", is: within}
      - {head: mean within, is: mean_within}
      - {head: difference (points), is: difference, when: compared, else: baseline}
      - {head: p of equivalence, is: p}
      - {head: smallest margin to hold, is: smallest_margin}
      - {head: outcome, is: outcome}
      - {head: difference of loss (nats), is: difference_held_out}
      - {head: difference in its pair, is: paired}
      - {head: "{reference} accuracy", is: mean(before_accuracy), reference: true, as: "%.2f%"}
    notes: [{text: "{{.few_seeds}}"}, {text: "{{.reference}}"}]
  - id: pairs
    title: "In pairs"
    caption: ["With the same micro-batches."]
    rows: pairs
    columns:
      - {head: M, is: M}
      - {head: difference (points), is: difference}
      - {head: outcome, is: outcome}
panels:
  - {draw: each, title: accuracy, y: "%", deviations: two deviations}
  - {draw: differences, rows: pairs, title: differences, y: points, margin: true, zero: true}
profiles:
  smoke: &smoke
    expected: 5s
    seeds: [1, 2]
    training:
      model: {name: amoebanetd, layers: 3, filters: 8, image: 17, classes: 5}
      images: {train: 96, held_out: 32, noise: 0.03}
      batch: 32
      steps: 3
      optimizer: rmsprop
      lr: 0.02
  quick: *smoke
  full: *smoke
`

// read makes an experiment by a spec, in which words are replaced in pairs.
func read(t *testing.T, spec string, replaced ...string) (*Experiment[struct{}], error) {
	t.Helper()
	text := strings.NewReplacer(replaced...).Replace(spec)
	if text == spec && len(replaced) > 0 {
		t.Fatalf("the spec has none of %q", replaced)
	}
	x := &Experiment[struct{}]{}
	root, err := x.Read(lab.SpecFile{Name: "x.yaml", Text: []byte(text)})
	if err == nil {
		err = x.Resolve().Located("x.yaml", root)
	}
	return x, err
}

func mustRead(t *testing.T, spec string, replaced ...string) *Experiment[struct{}] {
	t.Helper()
	x := testkit.Must(read(t, spec, replaced...))(t)
	return x
}

// trial is a made-up one.
func trial(percent, loss, bleu float64) *Trial {
	return &Trial{Accuracy: percent / 100, HeldOut: loss, Targets: 1000, Languages: []train.LanguageScore{{BLEU: bleu, ChrF: new(bleu / 2), Smoothed: new(bleu + 1)}}, SHA256: strings.Repeat("ab", 32), Params: 7, Partition: []int{4}}
}

func add(t *testing.T, log *records.Log, name string, seed uint64, sample any) {
	t.Helper()
	testkit.NoError(t, log.Add(name, seed, sample))
}

// The outcome of differences whose interval can be had by hand: with five seeds that alternate by d
// around a mean the deviation of the differences is about d, the 95% interval about 1.2 d to either
// side, the 90% one 0.95 d.
func TestOutcomes(t *testing.T) {
	x := mustRead(t, images, "seeds: [1, 2]", "seeds: [1, 2, 3, 4, 5]")
	base := []float64{60, 62, 64, 66, 68} // mean 64, deviation 3.16
	swing := []float64{1, -1, 0, 1, -1}   // deviation 1
	for _, c := range []struct {
		shift, swing          float64
		outcome, within, mean string
	}{
		{0.5, 1, "equivalent", "5 of 5", "yes"},
		{-1.9, 1, "equivalent, though not equal", "5 of 5", "yes"},
		{-8, 1, "different", "2 of 5", "no"},
		{2, 4, "inconclusive", "4 of 5", "yes"},
	} {
		log := records.New(x.Key("quick"))
		for i, a := range x.Spec.Arms {
			for j, own := range base {
				if i == 1 {
					own += c.shift + c.swing*swing[j]
				}
				seed := uint64(j + 1)
				add(t, log, Arm{Name: a.Name}.Sample(seed), seed, trial(own, 1+float64(i)/8, 0))
			}
		}
		r := testkit.Must(x.Report(log, log))(t)
		labtest.CheckPlots(t, r)
		table := r.Tables[0]
		of := func(row int, column string) string { return table.Rows[row][table.Column(column)].Text }
		if of(1, "outcome") != c.outcome || of(1, "runs within [V1]") != c.within || of(1, "mean within") != c.mean {
			t.Errorf("%+v: row %q", c, table.Printed()[1])
		}
		if of(0, "accuracy") != "64.00%" || of(0, "reference accuracy") != "64.00%" || of(0, "difference (points)") != "baseline" || of(0, "outcome") != "" {
			t.Errorf("baseline %q", table.Printed()[0])
		}
		if got := of(2, "difference of loss (nats)"); !strings.HasPrefix(got, "+0.2500 [") {
			t.Errorf("difference of loss %s", got)
		}
		for row, want := range [][]string{{"whole", "1", "all", "16", "32", "0.02"}, {"M=2 all", "2", "all", "8", "16", "0.02"}, {"M=2 replica", "2", "replica", "8", "8", "0.03"}} {
			testkit.EqualAll(t, table.Printed()[row][:6], want, "row %d", row)
		}
		pair := r.Tables[1].Printed()
		if shift, _, _ := strings.Cut(pair[0][1], " "); len(pair) != 1 || pair[0][0] != "2" || shift != lab.Difference(c.shift, 2).Text {
			t.Errorf("pairs %q, want all less replica, %v", pair, c.shift)
		}
		if got := of(1, "difference in its pair"); got != pair[0][1] || of(2, "difference in its pair") != "" {
			t.Errorf("its pair's difference %q, want %q", got, pair[0][1])
		}
		testkit.Equal(t, table.Caption[0], "3 steps of 32 images, R = 2; 5 seeds, 1000 held out, margin 3, level 5%.", "caption")
	}
}

// The smallest profile is measured, twice the same: each arm has bits of its own, which do not depend
// on the number of partitions, and a trial is what train does.
func TestMeasures(t *testing.T) {
	x := mustRead(t, images)
	log := records.New(x.Key("smoke"))
	labtest.MeasureTwice(t, x, log)
	r := testkit.Must(x.Report(log, nil))(t)
	testkit.Has(t, strings.Join(r.Tables[0].Notes, "\n"), "Warning: n = 2 seeds")
	hashes := map[string]bool{}
	for _, a := range x.Spec.Arms {
		arm := x.Spec.arm(x.Spec.Profiles["smoke"], a, 0)
		var was Trial
		testkit.NoError(t, log.Get(arm.Sample(1), &was))
		hashes[was.SHA256] = true
		training := arm.Training(1)
		training.Setup.Partitions = 3
		if run, err := training.Run(t.Context(), nil); err != nil || run.WeightsSHA256 != was.SHA256 {
			t.Errorf("%s: with K = 3 train ends with other weights: %v", a.Name, err)
		}
	}
	testkit.Equal(t, len(hashes), len(x.Spec.Arms), "hashes")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	testkit.Is(t, x.Measure(cancelled, records.New(x.Key("smoke")), progress.Silent{}), context.Canceled)
}

// translators are two networks, whose rates pilots choose.
const translators = `
experiment: translators
kind: trained
title: "Translators"
source: none
discard: nothing
seed: 1
margin: 3
level: 0.05
metric: BLEU
setup: {threads: 1}
arms: [{name: one}, {name: other}]
tables:
  - caption: ["{{.data}}"]
    columns:
      - {head: training, is: label}
      - {head: rate, is: rate, as: "%g"}
      - {head: parameters / first, is: parameters / base_parameters, as: "%.3f"}
      - {head: BLEU, is: mean(BLEU), as: "%.2f"}
      - {head: chrF, is: mean(chrF), as: "%.2f"}
      - {head: smoothed BLEU, is: mean(smoothed_BLEU), as: "%.2f"}
      - {head: difference (points), is: difference, when: compared}
      - {head: "pilots: loss by rate", is: pilots}
    notes: [{text: "{{.few_seeds}}"}]
panels: [{draw: each, y: BLEU}]
profiles:
  smoke: &smoke
    expected: 5s
    pilots: {seeds: [101], rates: [0.01, 0.02, 0.04]}
    seeds: [1, 2, 3]
    data: {invented: {languages: 1, pairs: 200, nouns: 4}, held_out: 8}
    training: {batch: 8, steps: 4, optimizer: adam}
    arms:
      one: {model: {name: transformer, layers: 1, dim: 16, ff: 32, heads: 2, seq: 48}}
      other: {model: {name: gnmt, layers: 2, dim: 16, seq: 48}}
  quick: *smoke
  full: *smoke
`

// The rate with the least loss is chosen, also beside one that is not finite; differences of
// -1, -2 and -3 BLEU have a mean of -2 and an interval of 4.3027/sqrt(3) to either side.
func TestPilots(t *testing.T) {
	x := mustRead(t, translators)
	size := x.Spec.Profiles["smoke"]
	log := records.New(x.Key("smoke"))
	labtest.CheckLacking(t, x, log)
	for i, a := range x.Spec.Arms {
		for j, of := range x.Spec.grid(size, a, size.Pilots.Rates) {
			q := pilot{Trial: trial(1, 2+math.Abs(float64(j)-1), 1)}
			if j == 2 {
				q = pilot{NonFinite: "NaN"}
			}
			add(t, log, of.Sample(101), 101, q)
		}
		for k, seed := range size.Seeds {
			add(t, log, x.Spec.arm(size, a, 0.02).Sample(seed), seed, trial(1, 1, 90-float64(i*(k+1))))
		}
	}
	r := testkit.Must(x.Report(log, nil))(t)
	table := r.Tables[0]
	of := func(row int, column string) lab.Value { return table.Rows[row][table.Column(column)] }
	d, half := of(1, "difference (points)"), 4.302653/math.Sqrt(3)
	if math.Abs(d.Numbers[0]+2) > 1e-9 || math.Abs(d.Interval[0]+2+half) > 1e-5 || math.Abs(d.Interval[1]+2-half) > 1e-5 || of(0, "difference (points)").Text != "-" {
		t.Errorf("differences %v", table.Printed())
	}
	if of(0, "BLEU").Numbers[0] != 90 || of(1, "BLEU").Numbers[0] != 88 || of(1, "rate").Numbers[0] != 0.02 || table.Caption[0] != "200 pairs of the invented language" {
		t.Errorf("rows %v", table.Rows)
	}
	if of(1, "chrF").Numbers[0] != 44 || of(1, "smoothed BLEU").Numbers[0] != 89 {
		t.Errorf("rows %v", table.Rows)
	}
	scores, err := x.Scores(log)
	if err != nil || !slices.Equal(scores["other"]["chrF"], []float64{44.5, 44, 43.5}) || !slices.Equal(scores["other"]["smoothed BLEU"], []float64{90, 89, 88}) {
		t.Errorf("%v: scores %v", err, scores)
	}
	for row := range 2 {
		testkit.Equal(t, of(row, "pilots: loss by rate").Text, "0.01: 3.0000, 0.02: 2.0000, 0.04: -", "pilots")
	}
	testkit.Equal(t, fmt.Sprint((&pilot{}).Check()), "no trial")
	for i := range 3 {
		of := x.Spec.grid(size, x.Spec.Arms[0], size.Pilots.Rates)[i]
		add(t, log, of.Sample(101), 101, pilot{NonFinite: "NaN"})
	}
	testkit.Refused(x.Report(log, nil))(t, "no pilot of one ends with a finite loss")
}

// Records from before there was a chrF have none in tables and scores, and cannot be compared by it.
func TestWithoutChrF(t *testing.T) {
	for metric, wants := range map[string]string{"BLEU": "", "chrF": "no chrF, which these records are from before"} {
		x := mustRead(t, strings.Replace(translators, "metric: BLEU", "metric: "+metric, 1))
		size := x.Spec.Profiles["smoke"]
		log := records.New(x.Key("smoke"))
		for _, a := range x.Spec.Arms {
			for _, of := range x.Spec.grid(size, a, size.Pilots.Rates) {
				add(t, log, of.Sample(101), 101, pilot{Trial: trial(1, 2, 1)})
			}
			for _, seed := range size.Seeds {
				old := trial(1, 1, 90)
				old.Languages[0].ChrF, old.Languages[0].Smoothed = nil, nil
				add(t, log, x.Spec.arm(size, a, 0.01).Sample(seed), seed, old)
			}
		}
		r, err := x.Report(log, nil)
		if wants != "" {
			testkit.Fails(t, err, wants)
			continue
		}
		testkit.NoError(t, err)
		table := r.Tables[0]
		if cell := table.Rows[0][table.Column("chrF")]; cell.Text != "-" {
			t.Errorf("chrF %v, want none", cell)
		}
		scores, err := x.Scores(log)
		if _, has := scores["one"]["chrF"]; err != nil || has || len(scores["one"]["BLEU"]) != 3 {
			t.Errorf("%v: scores %v", err, scores)
		}
	}
}

// Pilots are measured before what they choose, once.
func TestPilotsAreMeasured(t *testing.T) {
	if testing.Short() {
		t.Skip("trains")
	}
	x := mustRead(t, translators)
	log := records.New(x.Key("smoke"))
	labtest.MeasureTwice(t, x, log)
	testkit.Equal(t, len(log.Names), 2*3+2*3, "samples")
	if _, err := x.Report(log, nil); err != nil {
		t.Error(err)
	}
}

// whole is a translator, the same one without sources, and its first steps in two partitions.
const whole = `
experiment: whole
kind: trained
title: "Whole"
source: none
discard: nothing
seed: 1
whole: true
setup: {threads: 1}
arms:
  - {name: network, label: Transformer}
  - {name: blind, no_source: true, training: {steps: 4}}
  - {name: alone, repeats: network, setup: {k: 2, m: 2}, training: {steps: 3}}
tables:
  - caption: ["{{.steps}} and {{.steps_of_blind}} steps, {{.held_out_pairs}} pairs."]
    rows: languages
    columns:
      - {head: language, is: language}
      - {head: "BLEU: copy", is: copy, as: "%.2f"}
      - {head: dictionary, is: dictionary, as: "%.2f"}
      - {head: nats per token, is: nats, as: "%.4f"}
      - {head: blind, is: nats_blind, as: "%.4f"}
  - id: yardsticks
    caption: ["."]
    rows: yardsticks
    columns:
      - {head: task, is: task}
      - {head: steps, is: steps}
      - {head: held against, is: yardstick}
      - {head: loss/that, is: over_yardstick, as: "%.3f"}
panels: [{draw: losses}]
profiles:
  smoke: &smoke
    expected: 5s
    data: {invented: {languages: 2, pairs: 200}, held_out: 8}
    training:
      model: {name: transformer, layers: 1, dim: 16, ff: 32, heads: 2, seq: 64}
      batch: 16
      steps: 6
      optimizer: adam
      lr: 0.005
  quick: *smoke
  full: *smoke
`

// Whole trainings have scores by language and what their record has of losses; an arm that repeats
// another's first steps ends with its weights, and a report says if it does not.
func TestWhole(t *testing.T) {
	x := mustRead(t, whole)
	log := records.New(x.Key("smoke"))
	labtest.MeasureTwice(t, x, log)
	r, err := x.Report(log, log)
	if err != nil || r.Verdict != nil {
		t.Fatal(err, r)
	}
	rows := r.Tables[0].Printed()
	if len(rows) != 3 || rows[2][0] != "all" || r.Tables[0].Caption[0] != "6 and 4 steps, 8 pairs." || !strings.Contains(r.Tables[0].Notes[0], "After 3 steps the weights' SHA-256 is the same at K = 1") {
		t.Errorf("rows %v, %q, %q", rows, r.Tables[0].Caption, r.Tables[0].Notes)
	}
	var blind, alone wholeSample
	for name, into := range map[string]*wholeSample{"blind": &blind, "alone": &alone} {
		testkit.NoError(t, log.Get(name, into))
	}
	if own, of := rows[2][3], lab.Fixed(blind.Eval.Loss, 4).Text; own == of || rows[2][4] != of {
		t.Errorf("nats of all: %s, without sources %s, want those of the record, %s", own, rows[2][4], of)
	}
	if blind, network := x.Spec.Training(x.Spec.Profiles["smoke"], x.Spec.Arms[1], 1), x.Spec.Training(x.Spec.Profiles["smoke"], x.Spec.Arms[0], 1); !blind.EmptySource || network.EmptySource || network.HashAfter != 3 || blind.Steps != 4 {
		t.Errorf("%+v and %+v", network, blind)
	}
	alone.WeightsSHA256 = strings.Repeat("0", 64)
	add(t, log, "alone", 1, &alone)
	if r, err = x.Report(log, nil); err != nil || r.Verdict == nil || !strings.Contains(r.Tables[0].Notes[0], "differs") {
		t.Errorf("other weights alone: %v, %v", r, err)
	}
	blind.Eval.Languages = blind.Eval.Languages[:1]
	add(t, log, "blind", 1, &blind)
	if _, err = x.Report(log, nil); err == nil || !strings.Contains(err.Error(), "scores of 1 languages, want 2") {
		t.Errorf("a language less: %v", err)
	}
}

// What a spec of this kind must not be.
func TestRefused(t *testing.T) {
	for _, c := range []struct{ spec, old, replacement, want string }{
		{images, "margin: 3", "margin: 0", `margin: "0": want a number above 0`},
		{images, "level: 0.05", "level: 0.5", "want a number above 0 to 0.499"},
		{images, "{m: 1, ", "{m: 1, device: emulated, ", "arms.0: trainings run beside"},
		{images, "seeds: [1, 2]\n", "seeds: []\n", "no seeds: want at least one"},
		{images, "name: M=2 replica, ", "name: M=2 all, ", "an entry of this name is there already"},
		{images, "bn_scope: replica}, training: {lr: 0.03}}", "k: 2, bn_scope: all}}", "is the same training as another one"},
		{images, "to: M=2 replica", "to: M=3 replica", "no arm"},
		{images, "is: statistics}", "is: statistic}", "tables.0.columns.4.is: statistic: unknown name statistic: want K, M, "},
		{images, "rows: pairs\n", "rows: couples\n", `tables.1.rows: no rows "couples": want one of ["" "pairs"]`},
		{images, "is: statistics}", "is: bits}", "unknown name bits"},
		{images, "is: statistics}", "is: yardstick}", "unknown name yardstick"},
		{images, "is: statistics}", "is: mean(BLEU)}", "unknown name BLEU"},
		{images, "is: mean(before_accuracy)", "is: mean(before_BLEU)", "unknown name before_BLEU"},
		{images, "is: statistics}", "is: mean(K)}", "want a figure of each round or seed"},
		{images, "draw: each", "draw: losses", "these records have none"},
		{images, "differences, rows: pairs", "differences, rows: pilots", "want arms or pairs"},
		{images, "draw: each", "draw: each, arms: [M=3]", "want names of arms"},
		{images, "discard: nothing", "discard: nothing\nmetric: BLEU", "want data of translators"},
		{whole, "is: yardstick}", "is: language}", "unknown name language"},
		{whole, "is: nats_blind", "is: nats_alone", "unknown name nats_alone"}, // which repeats another's steps
		{whole, "    data: {invented: {languages: 2, pairs: 200}, held_out: 8}\n", "", `no rows "languages"`},
		{images, "rows: pairs\n", "rows: yardsticks\n", `no rows "yardsticks"`},
		{images, "{{.margin}}, level", "{{.edge}}, level", `no entry for key "edge"`},
		{images, "{{.few_seeds}}", "{{.judgement}}", `no entry for key "judgement"`},
		{images, "draw: each", "draw: some", `unknown "some"`},
		{images, "is: difference, ", "is: difference, heads: x, ", "heads"},
		{images, "optimizer: rmsprop", "l2: 0", "no optimizer"},
		{images, "batch: 32", "l2: 0", "no batch"},
		{images, "batch: 32", "batch: 31", "training.batch: want a multiple of "},
		{images, "name: amoebanetd, ", "", "no model"},
		{images, "steps: 3", "l2: 0", "no steps"},
		{images, "discard: nothing", "discard: nothing\nmetric: beauty", `unknown "beauty"`},
		{images, "discard: nothing", "discard: nothing\nwhole: true", "seeds: want none"},
		{translators, "seeds: [1, 2, 3]", "seeds: [1, 101, 3]", "other seeds than the pilots'"},
		{translators, "{seeds: [101], rates: [0.01, 0.02, 0.04]}", "{seeds: [101]}", "want seeds and rates, or neither"},
		{translators, "      other: ", "      others: ", "no such arm"},
		{translators, "pairs: 200", "pairs: 0", "pairs"},
		{whole, "repeats: network", "repeats: alone", "want an arm that repeats none"},
		{whole, "training: {steps: 3}", "training: {steps: 7}", "more steps than network"},
	} {
		testkit.Has(t, c.spec, c.old)
		_, err := read(t, strings.Replace(c.spec, c.old, c.replacement, 1))
		if err == nil || !strings.HasPrefix(err.Error(), "x.yaml:") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %s", c.replacement, err, c.want)
		}
	}
}

// With seeds of a look and not of the next one, those of the look are read; with fewer there is nothing to
// read.
func TestReadsTheLastCompleteLook(t *testing.T) {
	design := "design:\n  registered: 2026-12-01\n  looks: {quick: [2, 4]}\n  level: 0.05\n  margin: {size: 3, unit: points, because: x}\n" +
		"  primaries: [{name: two, of: 'score(\"M=2 all\", \"accuracy\") - score(\"M=1\", \"accuracy\")', claims: same}]\n"
	x := mustRead(t, images, "seeds: [1, 2]", "seeds: [1, 2, 3, 4]", "margin: 3\n", design+"margin: 3\n")
	for complete, want := range map[int]int{1: 0, 2: 2, 3: 2, 4: 4} {
		log := records.New(x.Key("quick"))
		for i, a := range x.Spec.Arms {
			for seed := range uint64(complete) {
				add(t, log, Arm{Name: a.Name}.Sample(seed+1), seed+1, trial(60+float64(i)+float64(seed)/2, 1, 0))
			}
		}
		r, err := lab.Reported(x, log, nil)
		if want == 0 {
			if err == nil {
				t.Errorf("%d seeds: a report", complete)
			}
			continue
		}
		testkit.NoError(t, err)
		if caption := r.Tables[0].Caption; !strings.Contains(caption[0], fmt.Sprintf("n = %d seeds", want)) || !strings.Contains(caption[1], fmt.Sprintf("; %d seeds", want)) {
			t.Errorf("%d seeds: %q", complete, caption)
		}
		testkit.Equal(t, len(r.Family.Comparisons[0].Differences[0]), want, "differences of %d seeds", complete)
	}
}

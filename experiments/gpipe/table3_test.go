package gpipe

import (
	"math"
	"testing"

	"gpipebench/gpipe"
	"gpipebench/gpipe/clock"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/cells/cellstest"
	"gpipebench/lab/labtest"
	"gpipebench/lab/records"
	"gpipebench/lab/timed"
	"gpipebench/lab/timed/timedtest"
	"gpipebench/train"
)

// A step over a link is the same whether the link is there while it is timed or
// in the replay alone.
func TestTable3Crossing(t *testing.T) {
	link := clock.Link{Bandwidth: 1e6, ThroughHost: true}
	for _, model := range []train.Model{cellstest.SmallLM, {Name: "amoebanetd", Layers: 3, Filters: 8, Image: 32, Classes: 3}} {
		training := train.Training{
			Model: model, Batch: 4, Optimizer: "momentum", LR: 0.001, LRSchedule: "constant",
			Setup: train.Setup{Partitions: 3, MicroBatches: 2, Device: gpipe.Emulated, Threads: 1, Link: link},
		}
		l, err := new(train.Timing).Open(t.Context(), training)
		if err != nil {
			t.Fatal(err)
		}
		res, err := l.Step(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		sizes, _ := l.Trainer.Sizes()
		l.Close()
		out, _, err := timed.HandedOn(model)
		if err != nil {
			t.Fatal(err)
		}
		run := timed.Run{Training: training, Over: &timed.Crossing{Link: link, Out: out}}
		free := *res.Times
		free.Link, free.Boundary = clock.Link{}, nil
		tl, err := run.Crossed(&free, sizes).Replay()
		if err != nil {
			t.Fatal(err)
		}
		if tl.Span() != res.Seconds {
			t.Errorf("%s: %v s, with the link in place %v", model.Name, tl.Span(), res.Seconds)
		}
	}
}

// loadedTable3 is Table 3 and records of even stages in its smoke profile.
func loadedTable3(t *testing.T) (*table3, *records.Log) {
	t.Helper()
	t3 := labtest.Loaded[*table3](t, Paper.Experiment("table3").Load)
	log := records.New(t3.Key("smoke"))
	r, p, err := t3.Rounds("smoke")
	if err != nil {
		t.Fatal(err)
	}
	timedtest.FillRounds(t, log, r, 0, timedtest.Even)
	cellstest.FillScale(t, log, &t3.Spec.Scale, func(lab.Cell, cells.CutSpec, string, string) float64 { return 1 })
	for round := range p.Rounds {
		if err := log.Add(timed.CoreRate(round), 0, 9.3e8); err != nil { // a ten-thousandth of the P100's peak
			t.Fatal(err)
		}
	}
	return t3, log
}

// On even stages a fast link leaves theory, PCI-E costs something, and more if
// the smaller network's traffic is not allowed for.
func TestTable3Report(t *testing.T) {
	e, log := loadedTable3(t)
	r, err := e.Report(log, log)
	if err != nil {
		t.Fatal(err)
	}
	table := r.Tables[0]
	column := map[string]int{}
	for i, c := range table.Columns {
		column[c.Name] = i
	}
	for i, row := range table.Printed() {
		of := func(name string) float64 { return table.Rows[i][column[name]].Numbers[0] }
		if got, want := of("PCI-E / fast link"), of("measured, PCI-E, to scale")/of("measured, fast link"); math.Abs(got/want-1) > 1e-9 || !(got <= 1) {
			t.Errorf("%q: PCI-E / fast link %v, want %v", row, got, want)
		}
		if row[column["measured, fast link"]] != row[column["theory, even"]] {
			t.Errorf("%q: not theory's", row)
		}
		if row[column["reference, to scale"]] != row[column["measured, PCI-E, to scale"]] {
			t.Errorf("%q: not its own reference", row)
		}
	}
	rounds, profile, err := e.Rounds("smoke")
	if err != nil {
		t.Fatal(err)
	}
	networks, ratiosOf, err := e.networks(rounds, log)
	if err != nil {
		t.Fatal(err)
	}
	by, err := e.reduce(rounds, log, profile)
	if err != nil {
		t.Fatal(err)
	}
	for i, of := range networks {
		for _, run := range of {
			m, steps := by[run.Name], map[string]float64{}
			for _, l := range links {
				over, err := m.Over(l.of(ratiosOf[i]))
				if err != nil {
					t.Fatal(err)
				}
				steps[l.name] = over.Rounds[0]
			}
			if fast, scaled, flop := steps[fastLink], steps[toScale], steps["PCI-E, bytes per FLOP"]; !(fast < scaled && scaled < flop) || scaled != m.Rounds[0] || !(m.Parts.Communication > 0) {
				t.Errorf("%s: %v s over a fast link, %v to scale, reduced as %v, %v by the FLOP", run.Name, fast, scaled, m.Rounds[0], flop)
			}
		}
	}
	ratios, err := linksOf(9.3e8, e.Spec.Networks[1], e.Spec.Profiles["smoke"].Models[1])
	if err != nil {
		t.Fatal(err)
	}
	// The width is 1/128, and so is what a layer computes with each float that
	// it hands on, but for attention's products over the sequence: 1024/8 times.
	if l := ratios.strict(); l.Bandwidth != 16e9/1e4 || !l.ThroughHost || l.Latency != 0 || math.Abs(ratios.traffic/128-1) > 0.05 {
		t.Errorf("link %+v, %v times the traffic; want 1.6 MB/s, 128", l, ratios.traffic)
	}
	short := records.New(log.Key)
	labtest.CheckLacking(t, e, short)
}

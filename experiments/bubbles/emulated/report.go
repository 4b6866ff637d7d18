package emulated

import (
	"fmt"
	"math"
	"slices"

	"gpipebench/internal/machine"
	"gpipebench/internal/stats"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/lab/timed"
)

// measured are a way's rounds.
type measured struct {
	way
	seconds, rates, own []float64
	peak                int64 // of the fullest device
}

func (e *emulated) Report(log, _ *records.Log) (*lab.Report, error) {
	p, err := lab.ProfileOf(e.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	m := &measurement{&e.Spec, p}
	within := fmt.Sprintf("within %v%%", e.Spec.Within)
	t := &lab.Table{
		ID: e.ID(), Title: e.Title(),
		Caption: []string{
			fmt.Sprintf("%v in mini-batches of %d, K = %d, M = %d, %s, one thread a device, links free. Emulated: real arithmetic, each task timed alone, the schedule replayed with the medians. Modelled: the same programs with the same pieces on a device calibrated in the same round. Medians of %d rounds, ratios within a round; in brackets the 95%% interval of order statistics.", p.Model, p.Batch, e.Spec.K, p.M, e.Spec.Optimizer, p.Rounds),
			"By rates: each kind of operation by rates and an overhead that were fitted to other, smaller networks. By own operations: each operation by its time in the same network on one device, with B whole and in two, so the remaining error is that of the pipeline's model alone.",
			fmt.Sprintf("Fullest device: parameters, gradients, optimiser state and activations; memory is that of all devices as modelled, as planned and as reached. A ratio that is more than %v%% off is called noisy if its interval reaches within %[1]v%% and the emulated step's own interval is as far off its median.", e.Spec.Within),
		},
	}
	t.Texts("schedule", "checkpoint")
	t.Numbers("emulated", "95% of emulated", "by rates", "by own operations", "rates/emulated", "95% of rates")
	t.Texts("rates " + within)
	t.Numbers("own/emulated", "95% of own")
	t.Texts("own " + within)
	t.Numbers("fullest device")
	t.Texts("memory")
	report := &lab.Report{}
	var rates, own timed.Reach
	disturbed := map[int]bool{}
	var steps []timed.StepTime
	var all []measured
	for _, w := range m.ways() {
		of, memory := measured{way: w}, "equal"
		for round := range p.Rounds {
			var s Sample
			if err := log.Get(sampleName(w, round), &s); err != nil {
				return nil, err
			}
			of.seconds, of.rates, of.own = append(of.seconds, s.Seconds), append(of.rates, s.Rates), append(of.own, s.Own)
			of.peak = slices.Max(s.Peak)
			steps = append(steps, timed.StepTime{Name: w.String(), Seconds: s.Seconds})
			if machine.Crowded(s.Others, 1, log.Session.Machine.Cores) {
				disturbed[round] = true
			}
			if !s.SameMemory() {
				memory = fmt.Sprintf("modelled %v, planned %v, reached %v", s.ModelledPeak, s.Peak, s.HighWater)
				report.Verdict = fmt.Errorf("%s, %v: memory %s: want the same bytes", e.ID(), w, memory)
			}
		}
		ratesRatio, ownRatio, repeat := stats.RatioOf(of.rates, of.seconds), stats.RatioOf(of.own, of.seconds), timed.Repetition(of.seconds)
		rates.Add(ratesRatio, e.Spec.Within)
		own.Add(ownRatio, e.Spec.Within)
		t.Add(w.schedule, w.checkpoint, lab.Seconds(stats.Median(of.seconds)), lab.Ratio(repeat, false)[1], lab.Seconds(stats.Median(of.rates)), lab.Seconds(stats.Median(of.own)),
			lab.Ratio(ratesRatio, false), timed.NearOne(ratesRatio, repeat, e.Spec.Within), lab.Ratio(ownRatio, false), timed.NearOne(ownRatio, repeat, e.Spec.Within), lab.Bytes(of.peak), memory)
		all = append(all, of)
	}
	t.Notes = append([]string{
		fmt.Sprintf("Within %v%%: by rates %v; by own operations %v.", e.Spec.Within, rates, own),
		timed.ProcessNote(m, log),
	}, lab.FewRoundsNote(p.Rounds)...)
	if len(disturbed) > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("In %d of %d rounds other processes took cores that were needed.", len(disturbed), p.Rounds))
	}
	equal := e.equalMemory(m, all)
	report.Tables = []*lab.Table{t, equal}
	near := e.Spec.Within / 100
	panels := plot.TableBars{
		Panel: "checkpoint", Group: "schedule", Y: "step, modelled over emulated",
		Bars: []string{"rates/emulated", "own/emulated"}, Marks: true,
		Levels: []plot.Level{{Y: 1}}, Band: &plot.Band{Name: fmt.Sprintf("%.2g to %.2g", 1-near, 1+near), Lo: 1 - near, Hi: 1 + near},
	}.Panels(t)
	if report.Files, err = plot.Files(e.ID(), e.Title(), panels); err != nil {
		return nil, err
	}
	report.Files = append(report.Files, lab.File{Name: e.ID() + ".bench.txt", Text: timed.BenchFormat(log, steps)})
	return report, nil
}

// equalMemory has, for the memory that GPipe's schedule needs in each checkpoint mode, the
// fastest way of each schedule within it.
func (e *emulated) equalMemory(m *measurement, all []measured) *lab.Table {
	t := &lab.Table{ID: e.ID() + "-memory", Title: "Throughput of schedules within GPipe's memory, emulated", Caption: []string{
		"Relative to GPipe's schedule in the same memory: the fastest checkpoint mode of each schedule whose fullest device needs no more than GPipe's. Modelled: the same, by the network's own operations. Absent: it needs more.",
	}}
	t.Texts("memory")
	t.Numbers("limit")
	t.Texts("schedule", "checkpoint")
	t.Numbers("fullest device", "throughput", "95%", "modelled")
	for _, limit := range all {
		if limit.schedule != e.Spec.Schedules[0] {
			continue
		}
		// fastest is a schedule's way within the limit.
		fastest := func(name string) *measured {
			var best *measured
			for i, w := range all {
				if w.schedule == name && w.peak <= limit.peak && (best == nil || stats.Median(w.seconds) < stats.Median(best.seconds)) {
					best = &all[i]
				}
			}
			return best
		}
		memory := "GPipe, everything re-materialised"
		if limit.checkpoint == "never" {
			memory = "GPipe, everything kept"
		} else if limit.checkpoint != "always" {
			memory = "GPipe, " + limit.checkpoint
		}
		base := fastest(limit.schedule)
		for _, name := range e.Spec.Schedules {
			w := fastest(name)
			if w == nil {
				t.Add(memory, lab.Bytes(limit.peak), name, lab.Absent, lab.Bytes(e.least(all, name)), lab.Absent, lab.Absent, lab.Absent)
				continue
			}
			t.Add(memory, lab.Bytes(limit.peak), name, w.checkpoint, lab.Bytes(w.peak), lab.Ratio(stats.RatioOf(base.seconds, w.seconds), name == limit.schedule), lab.Fixed(stats.Median(base.own)/stats.Median(w.own), 3))
		}
	}
	return t
}

// least is the memory of a schedule's way that needs least.
func (e *emulated) least(all []measured, name string) int64 {
	least := int64(math.MaxInt64)
	for _, w := range all {
		if w.schedule == name {
			least = min(least, w.peak)
		}
	}
	return least
}

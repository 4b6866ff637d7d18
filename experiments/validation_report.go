package experiments

import (
	"fmt"
	"math"
	"slices"
)

func (v *validation) Report(log, _ *Log) (*Report, error) {
	profile, err := profileOf(v.spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	within := fmt.Sprintf("within %v%%", v.spec.Within)
	table := &Table{
		ID: "validation", Title: v.spec.Title,
		Caption: []string{
			fmt.Sprintf("Emulated: real arithmetic, each task timed alone, the schedule replayed with the medians, %s. Modelled: the same programs with the same partition on a device calibrated in the same round; links free, one thread a device. Medians of %d rounds, ratios within a round; in brackets the 95%% interval of order statistics.", v.spec.Optimizer, profile.Rounds),
			"By rates: each kind of operation by rates and an overhead that were fitted to other, smaller networks. By own operations: each operation by its time in the same network on one device, so what is left is the error of the pipeline's model alone.",
			fmt.Sprintf("How well the machine repeats itself: the 95%% interval of the emulated step, over its median. A ratio that is further than %v%% off is noisy, and decides nothing, if its interval reaches within %[1]v%% and the emulated step, which no model has a part in, is off its own median by as much.", v.spec.Within),
			"Memory: the peaks of all devices as modelled, as planned and as reached.",
		},
		Columns: []Column{
			{"network", true}, {"K", false}, {"M", false}, {"emulated", false}, {"95% of emulated", false}, {"by rates", false}, {"by own operations", false},
			{"rates/emulated", false}, {"95% of rates", false}, {"rates " + within, true}, {"own/emulated", false}, {"95% of own", false}, {"own " + within, true}, {"memory", true},
		},
	}
	report := &Report{Tables: []*Table{table}}
	var rates, own reach
	disturbed := map[int]bool{} // rounds
	var steps []stepTime
	for _, n := range profile.Networks {
		table.Caption = append(table.Caption, fmt.Sprintf("%s is %v, in mini-batches of %d.", n.Model.Name, n.Model, n.Batch))
		for _, k := range v.spec.K {
			var emulated, byRates, byOwn []float64
			memory := "equal"
			for round := range profile.Rounds {
				var s validationSample
				if err := log.Get(n.sample(k, round), &s); err != nil {
					return nil, err
				}
				emulated, byRates, byOwn = append(emulated, s.Seconds), append(byRates, s.Rates), append(byOwn, s.Own)
				steps = append(steps, stepTime{fmt.Sprintf("%s/K=%d", n.Model.Name, k), s.Seconds})
				if crowded(s.Others, 1, log.Session.Machine.Cores) {
					disturbed[round] = true
				}
				if !s.sameMemory() {
					memory = fmt.Sprintf("modelled %v, planned %v, reached %v", s.ModelledPeak, s.Peak, s.HighWater)
					report.Verdict = fmt.Errorf("validation, %s, K=%d: memory %s: want the same bytes", n.Model.Name, k, memory)
				}
			}
			ratesRatio, ownRatio, repeat := ratioOf(byRates, emulated), ratioOf(byOwn, emulated), repetition(emulated)
			rates.add(ratesRatio, v.spec.Within)
			own.add(ownRatio, v.spec.Within)
			table.Add(n.Model.Name, fmt.Sprint(k), fmt.Sprint(n.M), FormatSeconds(median(emulated)), repeat.interval(), FormatSeconds(median(byRates)), FormatSeconds(median(byOwn)),
				ratesRatio.value(), ratesRatio.interval(), nearOne(ratesRatio, repeat, v.spec.Within), ownRatio.value(), ownRatio.interval(), nearOne(ownRatio, repeat, v.spec.Within), memory)
		}
	}
	table.Notes = append(table.Notes, fmt.Sprintf("Within %v%%: by rates %v; by own operations %v.", v.spec.Within, rates, own))
	table.Notes = append(table.Notes, processNote(&validationRounds{&v.spec, profile}, log))
	table.Notes = append(table.Notes, fewRoundsNote(profile.Rounds)...)
	if len(disturbed) > 0 {
		table.Notes = append(table.Notes, fmt.Sprintf("In %d of %d rounds other processes took cores that were needed.", len(disturbed), profile.Rounds))
	}
	bars := tableBars{
		panel: "network", group: "K", y: "step, modelled over emulated", near: 1,
		bars: []columnBars{{"rates/emulated", "95% of rates"}, {"own/emulated", "95% of own"}},
	}
	if report.Files, err = plotFiles("validation", v.spec.Title, bars.panels(table)); err != nil {
		return nil, err
	}
	report.Files = append(report.Files, File{"validation.bench.txt", benchFormat(log, steps)})
	return report, nil
}

// repetition is how well a machine repeats a measurement: times over their median.
func repetition(times []float64) ratio {
	return ratioOf(times, slices.Repeat([]float64{median(times)}, len(times)))
}

// nearOne tells whether a ratio to what was emulated is near 1: yes, no, or noisy
// where the rounds cannot tell. That takes two things, so that a model that is
// wrong fails on a machine that is noisy, and on one that is not a model that is
// only just wrong: the ratio's interval reaches within the percentage, and so far
// from its median reaches that of the emulated step itself.
func nearOne(x, emulated ratio, percent float64) string {
	near := percent / 100
	switch {
	case math.Abs(x.median-1) <= near:
		return "yes"
	case x.known && x.lo <= 1+near && x.hi >= 1-near && max(emulated.hi-1, 1-emulated.lo) > near:
		return "noisy"
	}
	return "no"
}

// reach is how many ratios are near 1, and how far off the worst is.
type reach struct {
	of, within int
	worst      float64
}

func (r *reach) add(x ratio, percent float64) {
	off := math.Abs(x.median - 1)
	r.of++
	if off <= percent/100 {
		r.within++
	}
	r.worst = max(r.worst, off)
}

func (r reach) String() string {
	return fmt.Sprintf("%d of %d, the worst off by %.1f%%", r.within, r.of, 100*r.worst)
}

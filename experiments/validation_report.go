package experiments

import (
	"fmt"
	"math"
)

func (v *validation) Report(log, _ *Log) (*Report, error) {
	profile, err := profileOf(v.spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	table := &Table{
		ID: "validation", Title: v.spec.Title,
		Caption: []string{
			fmt.Sprintf("Emulated: real arithmetic, each task timed alone, the schedule replayed with the medians, %s. Modelled: the same programs with the same partition on a device calibrated in the same round; links free, one thread a device. Medians of %d rounds, ratios within a round; in brackets the 95%% interval of order statistics.", v.spec.Optimizer, profile.Rounds),
			"By rates: each kind of operation by rates and an overhead that were fitted to other, smaller networks. By own operations: each operation by its time in the same network on one device, so what is left is the error of the pipeline's model alone.",
			"Memory: the peaks of all devices as modelled, as planned and as reached.",
		},
		Columns: []Column{
			{"network", true}, {"K", false}, {"M", false}, {"emulated", false}, {"by rates", false}, {"by own operations", false},
			{"rates/emulated", false}, {"95% of rates", false}, {"own/emulated", false}, {"95% of own", false}, {"memory", true},
		},
	}
	report := &Report{Tables: []*Table{table}}
	rows, worstRates, worstOwn, withinRates, withinOwn := 0, 0.0, 0.0, 0, 0
	disturbed := map[int]bool{} // rounds
	within := func(r ratio, count *int, worst *float64) {
		off := math.Abs(r.median - 1)
		*worst = max(*worst, off)
		if off <= v.spec.Within/100 {
			*count++
		}
	}
	for _, n := range profile.Networks {
		table.Caption = append(table.Caption, fmt.Sprintf("%s is %v, in mini-batches of %d.", n.Model.Name, n.Model, n.Batch))
		for _, k := range v.spec.K {
			var emulated, rates, own []float64
			memory := "equal"
			for round := range profile.Rounds {
				var s validationSample
				if err := log.Get(n.sample(k, round), &s); err != nil {
					return nil, err
				}
				emulated, rates, own = append(emulated, s.Seconds), append(rates, s.Rates), append(own, s.Own)
				if crowded(s.Others, 1, log.Session.Machine.Cores) {
					disturbed[round] = true
				}
				if !s.sameMemory() {
					memory = fmt.Sprintf("modelled %v, planned %v, reached %v", s.ModelledPeak, s.Peak, s.HighWater)
					report.Verdict = fmt.Errorf("validation, %s, K=%d: memory %s: want the same bytes", n.Model.Name, k, memory)
				}
			}
			byRates, byOwn := ratioOf(rates, emulated), ratioOf(own, emulated)
			within(byRates, &withinRates, &worstRates)
			within(byOwn, &withinOwn, &worstOwn)
			rows++
			table.Add(n.Model.Name, fmt.Sprint(k), fmt.Sprint(n.M), FormatSeconds(median(emulated)), FormatSeconds(median(rates)), FormatSeconds(median(own)),
				byRates.value(), byRates.interval(), byOwn.value(), byOwn.interval(), memory)
		}
	}
	table.Notes = append(table.Notes,
		fmt.Sprintf("Within %v%%: %d of %d by rates, the worst off by %.1f%%; %d of %d by own operations, the worst off by %.1f%%.",
			v.spec.Within, withinRates, rows, 100*worstRates, withinOwn, rows, 100*worstOwn))
	table.Notes = append(table.Notes, fewRoundsNote(profile.Rounds)...)
	if len(disturbed) > 0 {
		table.Notes = append(table.Notes, fmt.Sprintf("In %d of %d rounds other processes took cores that were needed.", len(disturbed), profile.Rounds))
	}
	bars := tableBars{
		panel: "network", group: "K", y: "step, modelled over emulated", near: 1,
		bars: []columnBars{{"rates/emulated", "95% of rates"}, {"own/emulated", "95% of own"}},
	}
	report.Files, err = plotFiles("validation", v.spec.Title, bars.panels(table))
	return report, err
}

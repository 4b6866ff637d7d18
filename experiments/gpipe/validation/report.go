package validation

import (
	"fmt"

	"gpipebench/internal/machine"
	"gpipebench/internal/stats"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/lab/timed"
)

func (v *validation) Report(log, _ *records.Log) (*lab.Report, error) {
	profile, err := lab.ProfileOf(v.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	within := fmt.Sprintf("within %v%%", v.Spec.Within)
	table := &lab.Table{
		ID: "validation", Title: v.Spec.Title,
		Caption: []string{
			fmt.Sprintf("Emulated: real arithmetic, each task timed alone, the schedule replayed with the medians, %s. Modelled: the same programs with the same partition on a device calibrated in the same round; links free, one thread a device. Medians of %d rounds, ratios within a round; in brackets the 95%% interval of order statistics.", v.Spec.Optimizer, profile.Rounds),
			"By rates: each kind of operation by rates and an overhead that were fitted to other, smaller networks. By own operations: each operation by its time in the same network on one device, so the remaining error is that of the pipeline's model alone.",
			fmt.Sprintf("How repeatable the machine is: the 95%% interval of the emulated step, over its median. A ratio that is more than %v%% off is called noisy, and decides nothing, if two things hold: its interval reaches within %[1]v%%, and the interval of the emulated step, which involves no model, is as far off its own median.", v.Spec.Within),
			"Memory: the peaks of all devices as modelled, as planned and as reached.",
		},
	}
	table.Texts("network")
	table.Numbers("K", "M", "emulated", "95% of emulated", "by rates", "by own operations", "rates/emulated", "95% of rates")
	table.Texts("rates " + within)
	table.Numbers("own/emulated", "95% of own")
	table.Texts("own "+within, "memory")
	report := &lab.Report{Tables: []*lab.Table{table}}
	var rates, own timed.Reach
	disturbed := map[int]bool{} // rounds
	var steps []timed.StepTime
	for _, n := range profile.Networks {
		table.Caption = append(table.Caption, fmt.Sprintf("%s is %v, in mini-batches of %d.", n.Model.Name, n.Model, n.Batch))
		for _, k := range v.Spec.K {
			var emulated, byRates, byOwn []float64
			memory := "equal"
			for round := range profile.Rounds {
				var s Sample
				if err := log.Get(sampleName(n.on(k), round), &s); err != nil {
					return nil, err
				}
				emulated, byRates, byOwn = append(emulated, s.Seconds), append(byRates, s.Rates), append(byOwn, s.Own)
				steps = append(steps, timed.StepTime{Name: fmt.Sprintf("%s/K=%d", n.Model.Name, k), Seconds: s.Seconds})
				if machine.Crowded(s.Others, 1, log.Session.Machine.Cores) {
					disturbed[round] = true
				}
				if !s.SameMemory() {
					memory = fmt.Sprintf("modelled %v, planned %v, reached %v", s.ModelledPeak, s.Peak, s.HighWater)
					report.Verdict = fmt.Errorf("validation, %s, K=%d: memory %s: want the same bytes", n.Model.Name, k, memory)
				}
			}
			ratesRatio, ownRatio, repeat := stats.RatioOf(byRates, emulated), stats.RatioOf(byOwn, emulated), timed.Repetition(emulated)
			rates.Add(ratesRatio, v.Spec.Within)
			own.Add(ownRatio, v.Spec.Within)
			table.Add(n.Model.Name, k, n.M, lab.Seconds(stats.Median(emulated)), lab.Ratio(repeat, false)[1], lab.Seconds(stats.Median(byRates)), lab.Seconds(stats.Median(byOwn)),
				lab.Ratio(ratesRatio, false), timed.NearOne(ratesRatio, repeat, v.Spec.Within), lab.Ratio(ownRatio, false), timed.NearOne(ownRatio, repeat, v.Spec.Within), memory)
		}
	}
	table.Notes = append([]string{
		fmt.Sprintf("Within %v%%: by rates %v; by own operations %v.", v.Spec.Within, rates, own),
		timed.ProcessNote(&measurement{&v.Spec, profile}, log),
	}, lab.FewRoundsNote(profile.Rounds)...)
	if len(disturbed) > 0 {
		table.Notes = append(table.Notes, fmt.Sprintf("In %d of %d rounds other processes took cores that were needed.", len(disturbed), profile.Rounds))
	}
	near := v.Spec.Within / 100
	bars := plot.TableBars{
		Panel: "network", Group: "K", Y: "step, modelled over emulated",
		Bars: []string{"rates/emulated", "own/emulated"}, Marks: true,
		Levels: []plot.Level{{Y: 1}}, Band: &plot.Band{Name: fmt.Sprintf("%.2g to %.2g", 1-near, 1+near), Lo: 1 - near, Hi: 1 + near},
	}
	if report.Files, err = plot.Files("validation", v.Spec.Title, bars.Panels(table)); err != nil {
		return nil, err
	}
	report.Files = append(report.Files, lab.File{Name: "validation.bench.txt", Text: timed.BenchFormat(log, steps)})
	return report, nil
}

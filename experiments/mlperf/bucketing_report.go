package mlperf

import (
	"fmt"
	"math"

	"gpipebench/internal/stats"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/lab/trained"
)

func (b *bucketing) Report(log, _ *records.Log) (*lab.Report, error) {
	p, err := lab.ProfileOf(b.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	epoch, slowdown, err := b.epochTable(log, p)
	if err != nil {
		return nil, err
	}
	trained, panel, err := b.trainedTable(log, p)
	if err != nil {
		return nil, err
	}
	r := &lab.Report{Tables: []*lab.Table{epoch, trained}}
	r.Files, err = plot.Files(b.ID(), b.Title(), []plot.Axes{slowdown, panel})
	return r, err
}

// bucketingPart is a share that is not in a whole.
func bucketingPart(of, whole int64) float64 { return 1 - float64(of)/float64(whole) }

func (b *bucketing) epochTable(log *records.Log, p bucketingProfile) (*lab.Table, plot.Axes, error) {
	t := &lab.Table{ID: b.ID(), Title: b.Title(), Caption: []string{
		fmt.Sprintf("An epoch of %d pairs of the invented language in mini-batches of %d. Positions are places for tokens, of both sides; a replica's part of a mini-batch is padded to its own longest sentences, and a step takes as long as the part with the most positions.", p.Counted.Pairs, p.Counted.Batch),
		"Padding: of all positions of the parts. Imbalance: positions of the largest part over those of the mean part. Padding and waiting: what no token is computed in, of a step's time on all replicas. Steps: their time over that of the first row's with as many replicas. Against one host: the same over that of the row with one host and the same window. Shape: padding in the shapes of compiled programs.",
	}}
	t.Texts("way")
	t.Numbers("window", "hosts", "replicas", "padding", "imbalance", "padding and waiting", "steps", "against one host", "paper, up to", "padding, shape")
	bars := &plot.BarPanel{Title: "padding and waiting", Y: "% of positions"}
	var series []plot.BarSeries
	for _, r := range b.Spec.Replicas {
		series = append(series, plot.BarSeries{Name: fmt.Sprintf("R = %d", r)})
	}
	read := func(w bucketingWay) (f bucketingFigures, err error) { return f, log.Get(bucketingEpochOf(w), &f) }
	first, err := read(b.Spec.Ways[0])
	if err != nil {
		return nil, nil, err
	}
	one, err := read(*b.way(b.Spec.OneHost))
	if err != nil {
		return nil, nil, err
	}
	for _, w := range b.Spec.Ways {
		f, err := read(w)
		if err != nil {
			return nil, nil, err
		}
		bars.Names = append(bars.Names, w.Name)
		var window any = lab.Absent
		if w.Window > 0 {
			window = w.Window
		}
		for i, r := range b.Spec.Replicas {
			over := func(base bucketingFigures) lab.Value {
				return lab.Fixed(float64(f.Slowest[r])/float64(f.Tokens)*float64(base.Tokens)/float64(base.Slowest[r]), 3)
			}
			against, paper := lab.Absent, lab.Absent
			if w.Hosts > 1 {
				against = over(one)
			}
			if w.Apart {
				paper = lab.Value{Text: "+" + b.Spec.Paper.Text + "%", Numbers: []float64{1 + b.Spec.Paper.Value/100}}
			}
			waste := bucketingPart(f.Tokens, f.Slowest[r])
			t.Add(w.Name, window, max(w.Hosts, 1), r, lab.Percent(bucketingPart(f.Tokens, f.Parts[r]), 1), lab.Fixed(float64(f.Slowest[r])/float64(f.Parts[r]), 3),
				lab.Percent(waste, 1), over(first), against, paper, lab.Percent(bucketingPart(f.Tokens, f.Shaped), 1))
			series[i].Add(100 * waste)
		}
	}
	bars.Series = series
	return t, bars, nil
}

// bucketingMade are a way's trainings.
type bucketingMade struct {
	bucketingFigures
	epochs    []float64 // of each seed; what is not reached counts as all epochs
	positions []float64 // that these have
	reached   int
	params    int64
}

func (b *bucketing) read(log *records.Log, p bucketingProfile, a trained.Arm) (*bucketingMade, error) {
	m := &bucketingMade{}
	if err := log.Get(bucketingTrainedOn(*b.way(a.Name)), &m.bucketingFigures); err != nil {
		return nil, err
	}
	for _, seed := range p.Seeds {
		var r trained.Reached
		if err := log.Get(a.Sample(seed), &r); err != nil {
			return nil, err
		}
		epochs := p.Epochs
		if r.Epochs > 0 {
			epochs = r.Epochs
			m.reached++
		}
		m.params = r.Params
		m.epochs = append(m.epochs, float64(epochs))
		m.positions = append(m.positions, float64(epochs)*float64(m.Longest))
	}
	return m, nil
}

func (b *bucketing) trainedTable(log *records.Log, p bucketingProfile) (*lab.Table, plot.Axes, error) {
	dots := &plot.DotPanel{Title: "epochs to the accuracy", Y: "epochs", Zero: true}
	var all []*bucketingMade
	for _, a := range b.arms(p) {
		m, err := b.read(log, p, a)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, m)
		dots.Add(a.Name, m.epochs)
	}
	t := &lab.Table{ID: b.ID() + "-epochs", Title: "Bucketing: epochs to an accuracy against padding", Caption: []string{
		fmt.Sprintf("%v, %d parameters, trained in mini-batches of %d of %d pairs until %g%% of the held-out targets are ranked first, looked for after every epoch, at most %d. Means over %d seeds; an epoch has the same pairs in every row.",
			p.Training.Model, all[0].params, p.Training.Batch, p.Data.Pairs, p.Accuracy, p.Epochs, len(p.Seeds)),
		"Padding: of the positions of mini-batches padded to their longest sentences. Positions: of all epochs up to the accuracy, in millions; ratios to the first row are paired by seed, geometric means with their 95% interval.",
	}}
	t.Texts("way")
	t.Numbers("reached", "padding", "epochs", "deviation", "epochs / first", "positions, millions", "positions / first")
	for i, m := range all {
		against := func(own, base []float64) lab.Value {
			if i == 0 {
				return lab.Absent
			}
			return bucketingGeometric(own, base)
		}
		t.Add(b.Spec.Trained[i], lab.Joined("%v of %v", m.reached, len(p.Seeds)), lab.Percent(bucketingPart(m.Tokens, m.Longest), 1),
			lab.Mean(m.epochs, 1), lab.SD(m.epochs, 1), against(m.epochs, all[0].epochs), lab.Fixed(stats.Sampled(m.positions).Mean/1e6, 2), against(m.positions, all[0].positions))
		if m.reached < len(p.Seeds) {
			t.Notes = []string{"A training that has not reached the accuracy counts as one with all epochs, which is too few."}
		}
	}
	return t, dots, nil
}

// bucketingGeometric is the geometric mean of ratios, with its 95% interval if there is one.
func bucketingGeometric(own, base []float64) lab.Value {
	logs := make([]float64, len(own))
	for i := range own {
		logs[i] = math.Log(own[i] / base[i])
	}
	s := stats.Sampled(logs)
	mean := lab.Fixed(math.Exp(s.Mean), 3)
	lo, hi, ok := s.Interval(0.95)
	if !ok {
		return mean
	}
	return lab.Joined("%v %v", mean, lab.Interval(lab.Fixed(math.Exp(lo), 3), lab.Fixed(math.Exp(hi), 3)))
}

package scale

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gpipebench/experiments/plot"
	"gpipebench/experiments/records"
	"gpipebench/experiments/suite"
	"gpipebench/experiments/trials"
	"gpipebench/experiments/workload"
	"gpipebench/internal/stats"
)

// resource is a group of languages, from the largest one on.
type resource struct {
	name     string
	from, to int // languages
}

// Of a profile's languages: the largest, which stands for the paper's German in
// Table 5, and those of Figure 3.
func (p profile) largest() resource { return resource{"largest language", 0, 1} }

func (p profile) resources() []resource {
	n, high := p.Data.Languages, p.Data.Languages-p.Data.Low
	return []resource{{"high-resource", 0, high}, {"low-resource", high, n}, {"all", 0, n}}
}

// scores are an arm's, by seed.
type scores struct{ bleu, nats []float64 }

// of takes the means over a group's languages.
func (r resource) of(t trials.Trials) scores {
	var s scores
	for _, run := range t.Runs {
		var bleu, nats float64
		for _, l := range run.Languages[r.from:r.to] {
			bleu += l.BLEU
			nats += l.Loss
		}
		n := float64(r.to - r.from)
		s.bleu, s.nats = append(s.bleu, bleu/n), append(s.nats, nats/n)
	}
	return s
}

// read reads the trials of all arms, which must be of the profile's languages.
func (s *scale) read(log *records.Log) (p profile, batches, networks []trials.Trials, err error) {
	if p, err = suite.ProfileOf(s.Spec.Profiles, log.Key.Profile); err != nil {
		return p, nil, nil, err
	}
	all, err := trials.Read(log, s.arms(p), p.Seeds)
	if err != nil {
		return p, nil, nil, err
	}
	for _, t := range all {
		for i, r := range t.Runs {
			if len(r.Languages) != p.Data.Languages {
				return p, nil, nil, fmt.Errorf("%s, %s: %d languages: want %d", s.ID(), t.Sample(p.Seeds[i]), len(r.Languages), p.Data.Languages)
			}
		}
	}
	n := len(s.Spec.Batches)
	return p, all[:n], all[n:], nil
}

func (s *scale) Report(log, reference *records.Log) (*suite.Report, error) {
	profile, batches, networks, err := s.read(log)
	if err != nil {
		return nil, err
	}
	r := &suite.Report{Tables: []*suite.Table{
		s.batchTable(profile, batches),
		s.networkTable(profile, networks),
		s.differenceTable(profile, networks),
		trials.EachTable(s.ID()+"-runs", "Larger mini-batches and larger networks for translation: each training", slices.Concat(batches, networks), profile.Seeds),
	}}
	if reference != nil {
		_, refBatches, refNetworks, _ := s.read(reference) // none of another spec
		addReference(r.Tables[0], refBatches, profile.largest())
		addReference(r.Tables[1], refNetworks, profile.resources()[2])
	}
	r.Files, err = plot.Files(s.ID(), s.Spec.Title, s.panels(profile, batches, networks))
	return r, err
}

// addReference adds a reference's mean BLEU to each row, where there are as many.
func addReference(t *suite.Table, refs []trials.Trials, of resource) {
	t.Numbers("reference BLEU")
	for i := range t.Rows {
		var cell suite.Value
		if len(refs) == len(t.Rows) {
			of.to = min(of.to, len(refs[i].Runs[0].Languages))
			cell = suite.Mean(of.of(refs[i]).bleu, 2)
		}
		t.Rows[i] = append(t.Rows[i], cell)
	}
}

// recipe says how all networks are trained.
func (s *scale) recipe(p profile) string {
	t := p.Training
	return fmt.Sprintf("%d steps, %s at %g (%s), the same in every training; K = %d, M = %d. %d seeds; %d invented languages, the largest with %d pairs; held out: %d pairs of each language, the same sentences in all of them.",
		t.Steps, t.Optimizer, t.LR, t.Training("", s.setup, 0).LRSchedule, s.setup.Partitions, s.setup.MicroBatches, len(p.Seeds), p.Data.Languages, p.Data.Pairs, p.Data.HeldOut)
}

func shapeText(m workload.Model) string { return fmt.Sprintf("T(%d, %d, %d)", m.Layers, m.FF, m.Heads) }

func (s *scale) batchTable(p profile, all []trials.Trials) *suite.Table {
	model := p.Training.Model
	table := &suite.Table{
		ID: s.ID() + "-batches", Title: "Larger mini-batches for translation, in small",
		Caption: []string{
			fmt.Sprintf("%s of width %d, %d parameters. %s", shapeText(model), model.Dim, all[0].Runs[0].Params, s.recipe(p)),
			"The paper's Table 5 translates German to English, with the same optimisation parameters for all batches; here the largest language stands for German. Tokens: about the number of target tokens in a mini-batch, estimated from the length of held-out sentences. Differences are means over pairs of trainings with the same seed, with their 95% intervals (Student's t).",
		},
	}
	table.Numbers("paper: batch in tokens", "paper: BLEU", "paper: NLL", "mini-batch in pairs", "tokens", "BLEU", "sd of BLEU", "nats per token", "sd of nats",
		"BLEU, difference to the smallest", "nats, difference to the smallest", "BLEU, difference to the one before", "nats, difference to the one before")
	base := p.largest().of(all[0])
	for i, b := range s.Spec.Batches {
		own, pairsOf := p.largest().of(all[i]), b.Times*p.SmallestBatch
		gains := []any{"baseline", "baseline", suite.Absent, suite.Absent}
		if i > 0 {
			before := p.largest().of(all[i-1])
			gains = []any{suite.Paired(stats.Pairs(own.bleu, base.bleu), 2), suite.Paired(stats.Pairs(own.nats, base.nats), 4),
				suite.Paired(stats.Pairs(own.bleu, before.bleu), 2), suite.Paired(stats.Pairs(own.nats, before.nats), 4)}
		}
		l := all[i].Runs[0].Languages[0]
		tokens := int(math.Round(float64(pairsOf*l.Targets) / float64(l.HeldOut)))
		table.Add(suite.Figure(b.Paper), b.BLEU, b.NLL, pairsOf, tokens, suite.Mean(own.bleu, 2), suite.SD(own.bleu, 2), suite.Mean(own.nats, 4), suite.SD(own.nats, 4), gains)
	}
	table.Notes = append([]string{s.batchVerdict(p, all)}, suite.FewSeedsNote(len(p.Seeds))...)
	return table
}

// batchVerdict says whether each batch is better than the one before it, by both
// scores, as in the paper.
func (s *scale) batchVerdict(p profile, all []trials.Trials) string {
	var f found
	for i := 1; i < len(all); i++ {
		own, before := p.largest().of(all[i]), p.largest().of(all[i-1])
		bleu, loss := stats.Pairs(own.bleu, before.bleu).Sign(), stats.Pairs(before.nats, own.nats).Sign()
		f.add(min(bleu, loss), fmt.Sprintf("%d against %d", s.Spec.Batches[i].Times*p.SmallestBatch, s.Spec.Batches[i-1].Times*p.SmallestBatch))
	}
	return "Verdict: the larger mini-batch is " + f.says("better by BLEU and by loss, as in the paper", "worse by BLEU or by loss, unlike in the paper", "not shown to be better by both") + "."
}

// found are names by what was found of them: better, worse, neither shown.
type found [3][]string

// add adds a name; sign is that of a difference, 0 if none was shown.
func (f *found) add(sign int, name string) {
	i := map[int]int{1: 0, -1: 1, 0: 2}[sign]
	f[i] = append(f[i], name)
}

// says lists the outcomes that there are, each with its names.
func (f found) says(better, worse, neither string) string {
	var parts []string
	for i, says := range []string{better, worse, neither} {
		if len(f[i]) > 0 {
			parts = append(parts, says+" ("+strings.Join(f[i], ", ")+")")
		}
	}
	return strings.Join(parts, ", ")
}

func (s *scale) networkTable(p profile, all []trials.Trials) *suite.Table {
	table := &suite.Table{
		ID: s.ID() + "-networks", Title: "Larger networks for translation, in small: depth and width",
		Caption: []string{
			fmt.Sprintf("Networks T(L, H, A) of width %d with heads of %d, mini-batches of %d pairs. %s", p.Training.Model.Dim, p.Training.Model.HeadDim, p.Training.Batch, s.recipe(p)),
			fmt.Sprintf("All networks have the same setting of the paper's two cures for deep networks. Initial values of feed-forward layers divided by the number of layers: %s. Magnitude at which logits are clipped (0: not clipped): %g. Scores are means over languages and seeds; the %d languages with the fewest pairs are low-resource.",
				suite.YesOrNo(p.Training.Model.ScaledInit), p.Training.Model.ClipLogits, p.Data.Low),
		},
	}
	table.Texts("network", "shape", "paper")
	table.Numbers("paper: parameters", "parameters")
	p.addScores(table)
	for i, n := range s.Spec.Networks {
		row := []any{n.Name, shapeText(n.scaled(p.Training.Model)), n.Paper, suite.Figure(n.Parameters), all[i].Runs[0].Params}
		var nats []any
		for _, r := range p.resources() {
			own := r.of(all[i])
			row, nats = append(row, suite.Mean(own.bleu, 2)), append(nats, suite.Mean(own.nats, 4))
		}
		table.Add(row, nats)
	}
	return table
}

// addScores adds columns of both scores for each group of languages.
func (p profile) addScores(t *suite.Table) {
	for _, score := range []string{"BLEU, ", "nats, "} {
		for _, r := range p.resources() {
			t.Numbers(score + r.name)
		}
	}
}

func (s *scale) differenceTable(p profile, all []trials.Trials) *suite.Table {
	table := &suite.Table{
		ID: s.ID() + "-differences", Title: "Larger networks for translation, in small: differences",
		Caption: []string{fmt.Sprintf("Means over pairs of trainings with the same seed, with their 95%% intervals (Student's t), after %d steps; so few steps may show what is learned first, not what can be learned. More BLEU and fewer nats per token are better.", p.Training.Steps),
			"The paper: 1.3B is better than 400M in all languages, and 3B and 6B add less to 1.3B; deep and wide are alike on high-resource languages, and deep is much better on low-resource ones.",
		},
	}
	table.Texts("difference")
	p.addScores(table)
	var says []string
	for _, d := range s.Spec.Differences {
		of, to := all[s.network(d.Of)], all[s.network(d.To)]
		row, nats := []any{d}, []any{}
		var f found
		for _, r := range p.resources() {
			a, b := r.of(of), r.of(to)
			bleu, loss := stats.Pairs(a.bleu, b.bleu), stats.Pairs(a.nats, b.nats)
			row, nats = append(row, suite.Paired(bleu, 2)), append(nats, suite.Paired(loss, 4))
			f.add(bleu.Sign(), r.name)
		}
		says = append(says, d.Of+" against "+d.To+": "+f.says("better", "worse", "neither shown"))
		table.Add(row, nats)
	}
	table.Notes = append([]string{"Verdict by BLEU: " + strings.Join(says, "; ") + "."}, suite.FewSeedsNote(len(p.Seeds))...)
	return table
}

// panels are both scores of the largest language by mini-batch beside the paper's, BLEU by network
// and resource, and the difference of each pair of networks.
func (s *scale) panels(p profile, batches, networks []trials.Trials) []plot.Axes {
	bleu := &plot.DotPanel{Title: "mini-batches: translations, largest language", Y: "BLEU"}
	nats := &plot.DotPanel{Title: "mini-batches: held-out loss, largest language", Y: "nats per token", Logarithmic: true}
	for i, b := range s.Spec.Batches {
		own := p.largest().of(batches[i])
		name := fmt.Sprintf("%d pairs\n(%s)", b.Times*p.SmallestBatch, b.Paper)
		bleu.Add(name, own.bleu)
		nats.Add(name, own.nats)
		bleu.Across, nats.Across = append(bleu.Across, b.BLEU.Value), append(nats.Across, b.NLL.Value)
	}
	all := []plot.Axes{bleu, nats}
	bars := &plot.BarPanel{Title: "networks: translations", Y: "BLEU", Whiskers: plot.MeanSpan}
	for _, net := range networks {
		bars.Names = append(bars.Names, net.Name)
	}
	for _, r := range p.resources()[:2] {
		of := plot.BarSeries{Name: r.name + " languages"}
		for _, net := range networks {
			of.AddMean(r.of(net).bleu)
		}
		bars.Series = append(bars.Series, of)
	}
	all = append(all, bars)
	low := p.resources()[1]
	gains := &plot.DotPanel{Title: "networks: differences, low-resource languages", Y: "BLEU", Zero: true}
	for _, d := range s.Spec.Differences {
		of, to := low.of(networks[s.network(d.Of)]), low.of(networks[s.network(d.To)])
		gains.Add(d.String(), stats.Differences(of.bleu, to.bleu))
	}
	return append(all, gains)
}

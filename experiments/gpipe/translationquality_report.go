package gpipe

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gpipebench/internal/stats"
	"gpipebench/internal/units"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/train"
)

func (q *quality) Report(log, reference *records.Log) (*lab.Report, error) {
	r, err := q.read(log)
	if err != nil {
		return nil, err
	}
	report := &lab.Report{Tables: []*lab.Table{
		q.languageTable(r), q.bilingualTable(r), q.networkTable(r), q.differenceTable(r), q.batchTable(r),
	}}
	if reference != nil {
		beside, _ := q.read(reference) // nil if it is of another spec
		qualityAddReference(report.Tables[2], lab.ReferenceName(log, reference)+" BLEU", beside)
	}
	report.Files, err = plot.Figure(q, lab.N(len(r.Seeds), "seed"), report.Tables, q.panels(r))
	return report, err
}

// qualityAddReference adds a column with the mean BLEU of a reference's networks, if they are as many.
func qualityAddReference(t *lab.Table, column string, beside *qualityResults) {
	t.Numbers(column)
	for i := range t.Rows {
		var cell lab.Value
		if beside != nil && len(beside.networks) == len(t.Rows) {
			cell = lab.Mean(beside.groups()[2].of(beside.networks[i]).bleu, 2)
		}
		t.Rows[i] = append(t.Rows[i], cell)
	}
}

// recipe says how all networks are trained.
func (q *quality) recipe(r *qualityResults) string {
	t := r.Training
	return fmt.Sprintf("At most %s target tokens in a training, to the mini-batch; %s, its rate rising to %g over the first %s of the steps and then falling as a cosine, the same in every training; K = %d, M = %d. %d seeds.",
		units.FormatCommas(int64(r.Tokens)), t.Optimizer, t.LR, units.FormatShare(r.WarmUp, 1), q.setup.Partitions, q.setup.MicroBatches, len(r.Seeds))
}

// corpus says what is translated.
func (r *qualityResults) corpus() string {
	from := "invented languages"
	if r.Data.Invented == nil {
		from = "languages into English, sentences of programs (gettext catalogs)"
	}
	return fmt.Sprintf("%d %s, which share a training's examples by a temperature of %g; held out: at most %d pairs of each.", len(r.languages), from, r.Data.Temperature, r.Data.HeldOut)
}

// qualityShape writes a network as the paper does.
func qualityShape(layers, ff, heads int) string {
	return fmt.Sprintf("T(%d, %d, %d)", layers, ff, heads)
}

func qualityShapeOf(m train.Model) string { return qualityShape(m.Layers, m.FF, m.Heads) }

// last is the largest network.
func (q *quality) last() qualityNetwork { return q.Spec.Networks[len(q.Spec.Networks)-1] }

func (q *quality) languageTable(r *qualityResults) *lab.Table {
	table := &lab.Table{
		ID: q.ID(), Title: "Translation quality by language, from the most pairs to the fewest",
		Caption: []string{
			fmt.Sprintf("BLEU of greedy translations of what is held out, means over seeds. %s %s", r.corpus(), q.recipe(r)),
			"Bilingual: a network of the first one's shape that learns this language alone. Copy: the source itself. Dictionary: a word-by-word dictionary learned from the same pairs. Share: of the examples of a network for all languages.",
		},
	}
	table.Texts("language")
	table.Numbers("training pairs", "share", "held out", "BLEU: copy", "dictionary", "bilingual")
	for _, n := range q.Spec.Networks {
		table.Numbers(n.Name)
	}
	for _, l := range r.languages {
		own := lab.Absent
		if l.bilingual != nil {
			own = lab.Mean(l.own().bleu, 2)
		}
		row := []any{l.name, l.Train, lab.Share(l.Share, 1), l.HeldOut, lab.Fixed(l.copied, 2), lab.Fixed(l.looked, 2), own}
		for _, runs := range r.networks {
			row = append(row, lab.Mean(l.bleu(runs), 2))
		}
		table.Add(row...)
	}
	for _, g := range r.groups() {
		var copied []float64
		pairs, share, held := 0, 0.0, 0
		for _, l := range g.languages {
			copied = append(copied, l.copied)
			pairs, share, held = pairs+l.Train, share+l.Share, held+l.HeldOut
		}
		row := []any{g.name, pairs, lab.Share(share, 1), held, lab.Mean(copied, 2), lab.Fixed(g.dictionary(), 2), lab.Absent}
		for _, runs := range r.networks {
			row = append(row, lab.Mean(g.of(runs).bleu, 2))
		}
		table.Add(row...)
	}
	table.Notes = append(table.Notes, fmt.Sprintf("The last rows are means over the %d languages with the most pairs (high-resource), the %d with the fewest (low-resource), and all.", r.Data.Ends, r.Data.Ends))
	return table
}

func (q *quality) bilingualTable(r *qualityResults) *lab.Table {
	table := &lab.Table{
		ID: q.ID() + "-bilingual", Title: "Figure 3: one network for all languages against one for each",
		Caption: []string{
			fmt.Sprintf("BLEU of networks of the first one's shape that learn one language each (dropout %g; at most %d passes over its pairs, so that those of few pairs are trained on fewer tokens), and by how much the BLEU of a network for all languages is above it: means over pairs of trainings with the same seed, with their 95%% intervals (Student's t), which cover other seeds and not other sentences. Such a network has tables of words of its own, by which other pairs are short enough.", r.Bilingual.Dropout, r.Bilingual.Passes),
			fmt.Sprintf("The last column says whether %s is better: noisy if the interval contains 0. %s %s", q.last().Name, r.corpus(), q.recipe(r)),
		},
	}
	table.Texts("language")
	table.Numbers("training pairs", "bilingual training pairs", "held out", "passes", "target tokens", "parameters", "bilingual BLEU", "sd")
	for _, n := range q.Spec.Networks {
		table.Numbers(n.Name + " - bilingual")
	}
	table.Texts("largest is better")
	for _, l := range r.groups()[2].compared() {
		own, bleu := l.bilingual[0], l.own().bleu
		pairs, batch := own.Languages[0].Train, r.Training.Batch
		passes := float64(own.Steps) / float64((pairs+batch-1)/batch) // the last mini-batch of a pass is smaller
		row := []any{l.name, l.Train, pairs, l.HeldOut, lab.Fixed(passes, 1), own.Tokens, own.Params, lab.Mean(bleu, 2), lab.SD(bleu, 2)}
		var sign int
		for _, runs := range r.networks {
			gain := stats.Pairs(l.bleu(runs), bleu)
			row, sign = append(row, lab.Paired(gain, 2)), gain.Sign()
		}
		table.Add(append(row, map[int]string{1: "yes", -1: "no", 0: "noisy"}[sign])...)
	}
	table.Notes = lab.FewSeedsNote(len(r.Seeds))
	return table
}

func (q *quality) networkTable(r *qualityResults) *lab.Table {
	m := r.Training.Model
	table := &lab.Table{
		ID: q.ID() + "-networks", Title: "Larger networks for translation: depth and width",
		Caption: []string{
			fmt.Sprintf("Networks T(L, H, A) for all languages, of width %d with heads of %d, mini-batches of %d pairs. %s %s", m.Dim, m.HeadDim, r.Training.Batch, r.corpus(), q.recipe(r)),
			fmt.Sprintf("All have the same setting of the paper's two cures for deep networks. Initial values of feed-forward layers divided by the number of layers: %s. Magnitude at which logits are clipped (0: not clipped): %g. Scores are means over languages and seeds; the %d languages with the most pairs are high-resource, the %d with the fewest low-resource. Operations and time are of one training; time is without those of trainings beside it, of which there are as many as cores.",
				lab.YesOrNo(m.ScaledInit), m.ClipLogits, r.Data.Ends, r.Data.Ends),
		},
	}
	table.Texts("network", "shape", "paper")
	table.Numbers("paper: parameters", "parameters", "target tokens", "operations", "time")
	r.addScores(table)
	for i, n := range q.Spec.Networks {
		first := r.networks[i][0]
		row := []any{n.Name, qualityShapeOf(q.scaled(n, m)), qualityShape(n.Layers, n.FF, n.Heads), lab.Figure(n.Parameters), first.Params, first.Tokens,
			qualityOperations(first.FLOPs), qualityTook(r.networks[i])}
		var nats []any
		for _, g := range r.groups() {
			own := g.of(r.networks[i])
			row, nats = append(row, lab.Mean(own.bleu, 2)), append(nats, lab.Mean(own.nats, 4))
		}
		table.Add(row, nats, lab.Mean(qualityTrained(r.networks[i]), 4))
	}
	return table
}

func qualityOperations(n float64) lab.Value {
	return lab.Value{Text: units.FormatFLOPs(n), Numbers: []float64{n}}
}

// qualityTook is how long trainings took, in the mean.
func qualityTook(runs []*qualityTrial) lab.Value {
	var seconds []float64
	for _, run := range runs {
		seconds = append(seconds, run.Seconds)
	}
	mean := stats.Mean(seconds)
	return lab.Value{Text: units.FormatWait(time.Duration(mean * float64(time.Second))), Numbers: []float64{mean}}
}

// addScores adds columns of both scores for each group of languages.
func (r *qualityResults) addScores(t *lab.Table) {
	for _, score := range []string{"BLEU, ", "nats, "} {
		for _, g := range r.groups() {
			t.Numbers(score + g.name)
		}
	}
	t.Numbers("nats, training")
}

func (q *quality) differenceTable(r *qualityResults) *lab.Table {
	table := &lab.Table{
		ID: q.ID() + "-differences", Title: "Larger networks for translation: differences",
		Caption: []string{
			fmt.Sprintf("Means over pairs of trainings with the same seed, with their 95%% intervals (Student's t), which cover other seeds and not other sentences. Each network for all languages had %s target tokens. More BLEU and fewer nats per token are better. Against bilingual: over the languages of each group that have a translator of their own. Against the dictionary of translation-quality: over all of a group. Training: the loss on what is learnt, over the last twentieth of the steps.", units.FormatCommas(int64(r.Tokens))),
			"The paper: 1.3B is better than 400M in all languages, and 3B and 6B add less to 1.3B; deep and wide are alike on high-resource languages, and deep is much better on low-resource ones; 6B is better than all bilingual models.",
		},
	}
	table.Texts("difference")
	r.addScores(table)
	var says []string
	for _, d := range q.Spec.Differences {
		of, to := r.networks[q.network(d.Of)], r.networks[q.network(d.To)]
		row, nats := []any{d}, []any{}
		var f qualityFound
		for _, g := range r.groups() {
			a, b := g.of(of), g.of(to)
			bleu := stats.Pairs(a.bleu, b.bleu)
			row, nats = append(row, lab.Paired(bleu, 2)), append(nats, lab.Paired(stats.Pairs(a.nats, b.nats), 4))
			f.add(bleu.Sign(), g.name)
		}
		says = append(says, d.Of+" against "+d.To+": "+f.says("better", "worse", "neither shown"))
		table.Add(row, nats, lab.Paired(stats.Pairs(qualityTrained(of), qualityTrained(to)), 4))
	}
	without := slices.Repeat([]any{lab.Absent}, len(r.groups())+1) // nats, which other vocabularies count otherwise
	for i, n := range q.Spec.Networks {
		row := []any{n.Name + " - bilingual"}
		var f qualityFound
		for _, g := range r.groups() {
			compared := g.compared()
			if len(compared) == 0 {
				row = append(row, lab.Absent)
				continue
			}
			gain := stats.Sampled(qualityGains(r.networks[i], compared))
			row = append(row, lab.Paired(gain, 2))
			f.add(gain.Sign(), g.name)
		}
		says = append(says, n.Name+" against bilingual: "+f.says("better", "worse", "neither shown"))
		table.Add(row, without)
	}
	for i, n := range q.Spec.Networks {
		row := []any{n.Name + " - dictionary"}
		for _, g := range r.groups() {
			looked := slices.Repeat([]float64{g.dictionary()}, len(r.Seeds))
			row = append(row, lab.Paired(stats.Pairs(g.of(r.networks[i]).bleu, looked), 2))
		}
		table.Add(row, without)
	}
	table.Notes = append([]string{"Verdict by BLEU: " + strings.Join(says, "; ") + "."}, lab.FewSeedsNote(len(r.Seeds))...)
	return table
}

// qualityFound are names by what was found of them: better, worse, neither shown.
type qualityFound [3][]string

// add adds a name; sign is a difference's sign, 0 if none was shown.
func (f *qualityFound) add(sign int, name string) {
	i := map[int]int{1: 0, -1: 1, 0: 2}[sign]
	f[i] = append(f[i], name)
}

// says lists the outcomes that there are, each with its names.
func (f qualityFound) says(better, worse, neither string) string {
	var parts []string
	for i, says := range []string{better, worse, neither} {
		if len(f[i]) > 0 {
			parts = append(parts, says+" ("+strings.Join(f[i], ", ")+")")
		}
	}
	return strings.Join(parts, ", ")
}

// The two ways to read Table 5, which does not say how long each mini-batch was trained.
const (
	qualitySameTokens = "as many tokens"
	qualityAsLong     = "as many steps"
)

func (q *quality) batchTable(r *qualityResults) *lab.Table {
	m := r.Training.Model
	m.Dropout = r.Bilingual.Dropout
	language := r.Bilingual.Table5
	table := &lab.Table{
		ID: q.ID() + "-batches", Title: "Table 5: larger mini-batches for translation",
		Caption: []string{
			fmt.Sprintf("%s of width %d, dropout %g, %s alone. %s", qualityShapeOf(m), m.Dim, m.Dropout, language, q.recipe(r)),
			"The paper's Table 5 translates German to English, with the same optimisation parameters for all batches, and does not say for how long. With as many tokens, a smaller mini-batch makes more steps; with as many steps, it sees fewer pairs. Differences are means over pairs of trainings with the same seed, with their 95% intervals (Student's t), which cover other seeds and not other sentences.",
		},
	}
	table.Texts("trained for")
	table.Numbers("paper: batch in tokens", "paper: BLEU", "paper: NLL", "mini-batch in pairs", "tokens", "steps", "target tokens", "BLEU", "sd of BLEU", "nats per token", "sd of nats",
		"BLEU, difference to the one before", "nats, difference to the one before")
	for _, by := range []string{qualitySameTokens, qualityAsLong} {
		var f qualityFound
		for i, b := range q.Spec.Batches {
			runs := r.all[q.batchArm(r.qualityProfile, b, by == qualityAsLong).Name]
			own, first, pairs := qualityScoresOf(runs), runs[0], b.Times*r.SmallestBatch
			gain := []any{lab.Absent, lab.Absent}
			if i > 0 {
				before := qualityScoresOf(r.all[q.batchArm(r.qualityProfile, q.Spec.Batches[i-1], by == qualityAsLong).Name])
				bleu, nats := stats.Pairs(own.bleu, before.bleu), stats.Pairs(own.nats, before.nats)
				gain = []any{lab.Paired(bleu, 2), lab.Paired(nats, 4)}
				f.add(min(bleu.Sign(), -nats.Sign()), fmt.Sprintf("%d against %d", pairs, q.Spec.Batches[i-1].Times*r.SmallestBatch))
			}
			table.Add(by, lab.Figure(b.Paper), b.BLEU, b.NLL, pairs, first.Tokens/first.Steps, first.Steps, first.Tokens,
				lab.Mean(own.bleu, 2), lab.SD(own.bleu, 2), lab.Mean(own.nats, 4), lab.SD(own.nats, 4), gain)
		}
		table.Notes = append(table.Notes, fmt.Sprintf("Verdict, %s: the larger mini-batch is %s.", by,
			f.says("better by BLEU and by loss", "worse by BLEU or by loss", "not shown to be better by both")))
	}
	table.Notes = append(table.Notes, lab.FewSeedsNote(len(r.Seeds))...)
	return table
}

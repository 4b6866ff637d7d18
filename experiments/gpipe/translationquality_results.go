package gpipe

import (
	"cmp"
	"fmt"
	"slices"

	"gpipebench/internal/stats"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
	"gpipebench/lab/trained"
	"gpipebench/train"
)

// qualityResults are a profile's samples.
type qualityResults struct {
	qualityProfile
	languages []qualityLanguage          // the one with the most pairs first
	networks  [][]*qualityTrial          // by network and seed
	all       map[string][]*qualityTrial // by arm and seed
}

// qualityLanguage is one that the networks translate.
type qualityLanguage struct {
	train.LanguageScore                 // of the first network and seed
	name                string          // in the spec
	place               int             // in a network's scores
	bilingual           []*qualityTrial // by seed; nil: there is none
	copied, looked      float64         // BLEU of the source itself, and of a dictionary
}

func (q *quality) read(log *records.Log) (*qualityResults, error) {
	p, err := lab.ProfileOf(q.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	r := &qualityResults{qualityProfile: p, all: map[string][]*qualityTrial{}}
	known := map[string]string{} // digests of data
	for _, a := range q.arms(p) {
		want := len(p.Data.Names())
		if a.of != "" {
			want = 1
		}
		for _, seed := range p.Seeds {
			t := &qualityTrial{}
			if err := log.Get(a.Sample(seed), t); err != nil {
				return nil, err
			}
			if len(t.Languages) != want {
				return nil, log.Strange(a.Sample(seed), fmt.Errorf("%d languages: want %d", len(t.Languages), want))
			}
			if digest, is := known[a.of]; is && digest != t.Data {
				return nil, log.Strange(a.Sample(seed), trained.ErrOtherData)
			}
			known[a.of] = t.Data
			r.all[a.Name] = append(r.all[a.Name], t)
		}
	}
	for _, a := range q.networkArms(p) {
		r.networks = append(r.networks, r.all[a.Name])
	}
	var without qualityBaselines
	if err := log.Get(qualityWithoutNetwork, &without); err != nil {
		return nil, err
	}
	if without.Data != "" && without.Data != known[""] {
		return nil, log.Strange(qualityWithoutNetwork, trained.ErrOtherData)
	}
	names := p.Data.Names()
	if len(without.Copy) != len(names) || len(without.Dictionary) != len(names) {
		return nil, log.Strange(qualityWithoutNetwork, fmt.Errorf("%d and %d languages: want %d", len(without.Copy), len(without.Dictionary), len(names)))
	}
	for i, score := range r.networks[0][0].Languages {
		if p.Data.Invented == nil && score.Name != names[i] {
			return nil, log.Strange(q.networkArms(p)[0].Sample(p.Seeds[0]), fmt.Errorf("language %.40q: want %s", score.Name, names[i]))
		}
		r.languages = append(r.languages, qualityLanguage{
			LanguageScore: score, name: names[i], place: i, copied: without.Copy[i], looked: without.Dictionary[i],
		})
	}
	for _, a := range q.bilingualArms(p) {
		r.languages[p.Data.place(a.of)].bilingual = r.all[a.Name]
	}
	slices.SortStableFunc(r.languages, func(a, b qualityLanguage) int { return cmp.Compare(b.Train, a.Train) })
	return r, nil
}

// qualityGroup is some of the languages.
type qualityGroup struct {
	name      string
	languages []qualityLanguage
}

// groups returns the groups of Figure 3: its left end, its right end, and all of it.
func (r *qualityResults) groups() []qualityGroup {
	n := len(r.languages)
	return []qualityGroup{{"high-resource", r.languages[:r.Data.Ends]}, {"low-resource", r.languages[n-r.Data.Ends:]}, {"all", r.languages}}
}

// compared are the languages of a group that have a translator of their own.
func (g qualityGroup) compared() []qualityLanguage {
	return slices.DeleteFunc(slices.Clone(g.languages), func(l qualityLanguage) bool { return l.bilingual == nil })
}

// dictionary is the mean BLEU of the languages' dictionaries.
func (g qualityGroup) dictionary() float64 {
	var bleu []float64
	for _, l := range g.languages {
		bleu = append(bleu, l.looked)
	}
	return stats.Mean(bleu)
}

// qualityScores are a network's, by seed: means over languages.
type qualityScores struct{ bleu, nats []float64 }

func (g qualityGroup) of(runs []*qualityTrial) (s qualityScores) {
	for _, run := range runs {
		var bleu, nats []float64
		for _, l := range g.languages {
			bleu, nats = append(bleu, run.Languages[l.place].BLEU), append(nats, run.Languages[l.place].Loss)
		}
		s.bleu, s.nats = append(s.bleu, stats.Mean(bleu)), append(s.nats, stats.Mean(nats))
	}
	return s
}

// bleu are a network's for a language, by seed.
func (l qualityLanguage) bleu(runs []*qualityTrial) (all []float64) {
	for _, run := range runs {
		all = append(all, run.Languages[l.place].BLEU)
	}
	return all
}

// own returns the scores of the language's own translator.
func (l qualityLanguage) own() qualityScores { return qualityScoresOf(l.bilingual) }

// qualityGains are by how much a network's BLEU is above those of languages' own translators, by
// seed: means over languages.
func qualityGains(runs []*qualityTrial, languages []qualityLanguage) []float64 {
	sums := make([]float64, len(runs))
	for _, l := range languages {
		for seed, gain := range stats.Differences(l.bleu(runs), l.own().bleu) {
			sums[seed] += gain / float64(len(languages))
		}
	}
	return sums
}

// qualityScoresOf returns the scores of translators of one language.
func qualityScoresOf(runs []*qualityTrial) (s qualityScores) {
	for _, run := range runs {
		s.bleu, s.nats = append(s.bleu, run.Languages[0].BLEU), append(s.nats, run.Languages[0].Loss)
	}
	return s
}

// qualityEnd is the part of a training's curve that counts as its end.
const qualityEnd = 20

// qualityTrained are the mean losses of networks at the end of their trainings, by seed: of the last
// twentieth of the steps.
func qualityTrained(runs []*qualityTrial) (all []float64) {
	for _, run := range runs {
		n := len(run.Curve)
		all = append(all, stats.Mean(run.Curve[n-max(1, n/qualityEnd):]))
	}
	return all
}

// Scores are BLEU and nats per token: of each network in the groups of languages and in each
// language, and its gain over their own translators; of each of these; of a dictionary, which is the
// same for all seeds; and of Table 5's mini-batches.
func (q *quality) Scores(log *records.Log) (lab.Scores, error) {
	r, err := q.read(log)
	if err != nil {
		return nil, err
	}
	scores := lab.Scores{}
	for i, n := range q.Spec.Networks {
		runs := r.networks[i]
		for _, g := range r.groups() {
			own := g.of(runs)
			scores.Put(n.Name, "BLEU, "+g.name, own.bleu)
			scores.Put(n.Name, "nats, "+g.name, own.nats)
			scores.Put(n.Name, "gain over bilingual, "+g.name, qualityGains(runs, g.compared()))
			scores.Put("dictionary", "BLEU, "+g.name, slices.Repeat([]float64{g.dictionary()}, len(r.Seeds)))
		}
		for _, l := range r.groups()[2].compared() {
			scores.Put(n.Name, "BLEU, "+l.name, l.bleu(runs))
			scores.Put("bilingual", "BLEU, "+l.name, l.own().bleu)
		}
	}
	for _, by := range []string{qualitySameTokens, qualityAsLong} {
		for _, b := range q.Spec.Batches {
			own := qualityScoresOf(r.all[q.batchArm(r.qualityProfile, b, by == qualityAsLong).Name])
			scores.Put(b.Paper+", "+by, "BLEU", own.bleu)
			scores.Put(b.Paper+", "+by, "nats", own.nats)
		}
	}
	return scores, nil
}

// panels are Figure 3, with the languages that have a translator of their own; all
// languages; Table 5; and how the networks learned.
func (q *quality) panels(r *qualityResults) []plot.Axes {
	figure := plot.LinePanel{Title: "one network for all languages\nagainst one for each", Y: "BLEU, difference to bilingual"}
	everyone := plot.LinePanel{Title: "BLEU of every language", X: "languages by training pairs, the most first", Y: "BLEU", FromZero: true}
	losses := plot.LinePanel{Title: "training loss", X: "millions of target tokens", Y: "nats per token", FromZero: true}
	compared := r.groups()[2].compared()
	for _, l := range compared {
		figure.Names = append(figure.Names, l.name)
	}
	for i, n := range q.Spec.Networks {
		runs := r.networks[i]
		var gain, bleu, loss []plot.Point
		for x, l := range compared {
			gain = append(gain, plot.Point{X: float64(x), Y: stats.Pairs(l.bleu(runs), l.own().bleu).Mean})
		}
		for x, l := range r.languages {
			bleu = append(bleu, plot.Point{X: float64(x + 1), Y: stats.Mean(l.bleu(runs))})
		}
		first := runs[0]
		for x, y := range first.Curve {
			loss = append(loss, plot.Point{X: float64(first.Tokens) / 1e6 * float64(x+1) / float64(len(first.Curve)), Y: y})
		}
		figure.Series = append(figure.Series, plot.Series{Name: n.Name, Lines: [][]plot.Point{gain}, Dots: true})
		everyone.Series = append(everyone.Series, plot.Series{Name: n.Name, Lines: [][]plot.Point{bleu}, Dots: true})
		losses.Series = append(losses.Series, plot.Series{Name: n.Name, Lines: [][]plot.Point{loss}})
	}
	var zero []plot.Point
	for x := range compared {
		zero = append(zero, plot.Point{X: float64(x)})
	}
	figure.Series = append(figure.Series, plot.Series{Name: "bilingual", Lines: [][]plot.Point{zero}, Dashed: true})
	batches := &plot.DotPanel{Title: fmt.Sprintf("mini-batches of %s by pairs,\nwith as many tokens or as many steps", r.Bilingual.Table5), Y: "BLEU"}
	for _, by := range []string{qualitySameTokens, qualityAsLong} {
		for _, b := range q.Spec.Batches {
			name := fmt.Sprintf("%d pairs\n%s", b.Times*r.SmallestBatch, by[len("as many "):])
			batches.Add(name, qualityScoresOf(r.all[q.batchArm(r.qualityProfile, b, by == qualityAsLong).Name]).bleu)
		}
	}
	return []plot.Axes{figure, everyone, batches, losses}
}

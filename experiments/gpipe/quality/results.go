package quality

import (
	"cmp"
	"fmt"
	"slices"

	"gpipebench/internal/stats"
	"gpipebench/lab"
	"gpipebench/lab/records"
	"gpipebench/lab/trained"
	"gpipebench/train"
)

// results are a profile's samples.
type results struct {
	profile
	languages []language          // the one with the most pairs first
	networks  [][]*trial          // by network and seed
	all       map[string][]*trial // by arm and seed
}

// language is one that the networks translate.
type language struct {
	train.LanguageScore          // of the first network and seed
	name                string   // in the spec
	place               int      // in a network's scores
	bilingual           []*trial // by seed; nil: there is none
	copied, looked      float64  // BLEU of the source itself, and of a dictionary
}

func (q *quality) read(log *records.Log) (*results, error) {
	p, err := lab.ProfileOf(q.Spec.Profiles, log.Key.Profile)
	if err != nil {
		return nil, err
	}
	r := &results{profile: p, all: map[string][]*trial{}}
	known := map[string]string{} // digests of data
	for _, a := range q.arms(p) {
		want := len(p.Data.Names())
		if a.of != "" {
			want = 1
		}
		for _, seed := range p.AllSeeds() {
			t := &trial{}
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
	var without baselines
	if err := log.Get(withoutNetwork, &without); err != nil {
		return nil, err
	}
	if without.Data != "" && without.Data != known[""] {
		return nil, log.Strange(withoutNetwork, trained.ErrOtherData)
	}
	names := p.Data.Names()
	if len(without.Copy) != len(names) || len(without.Dictionary) != len(names) {
		return nil, log.Strange(withoutNetwork, fmt.Errorf("%d and %d languages: want %d", len(without.Copy), len(without.Dictionary), len(names)))
	}
	for i, score := range r.networks[0][0].Languages {
		if p.Data.Invented == nil && score.Name != names[i] {
			return nil, log.Strange(q.networkArms(p)[0].Sample(p.Seeds[0]), fmt.Errorf("language %.40q: want %s", score.Name, names[i]))
		}
		r.languages = append(r.languages, language{
			LanguageScore: score, name: names[i], place: i, copied: without.Copy[i], looked: without.Dictionary[i],
		})
	}
	for _, a := range q.bilingualArms(p) {
		r.languages[p.Data.place(a.of)].bilingual = r.all[a.Name]
	}
	slices.SortStableFunc(r.languages, func(a, b language) int { return cmp.Compare(b.Train, a.Train) })
	return r, nil
}

// group is some of the languages.
type group struct {
	name      string
	languages []language
}

// groups are those of Figure 3: its left end, its right end, and all of it.
func (r *results) groups() []group {
	n := len(r.languages)
	return []group{{"high-resource", r.languages[:r.Data.Ends]}, {"low-resource", r.languages[n-r.Data.Ends:]}, {"all", r.languages}}
}

// compared are the languages of a group that have a translator of their own.
func (g group) compared() []language {
	return slices.DeleteFunc(slices.Clone(g.languages), func(l language) bool { return l.bilingual == nil })
}

// dictionary is the mean BLEU of the languages' dictionaries.
func (g group) dictionary() float64 {
	var bleu []float64
	for _, l := range g.languages {
		bleu = append(bleu, l.looked)
	}
	return stats.Mean(bleu)
}

// scores are a network's, by seed: means over languages.
type scores struct{ bleu, nats []float64 }

func (g group) of(runs []*trial) (s scores) {
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
func (l language) bleu(runs []*trial) (all []float64) {
	for _, run := range runs {
		all = append(all, run.Languages[l.place].BLEU)
	}
	return all
}

// own are those of the language's own translator.
func (l language) own() scores { return scoresOf(l.bilingual) }

// gains are by how much a network's BLEU is above those of languages' own translators, by
// seed: means over languages.
func gains(runs []*trial, languages []language) []float64 {
	sums := make([]float64, len(runs))
	for _, l := range languages {
		for seed, gain := range stats.Differences(l.bleu(runs), l.own().bleu) {
			sums[seed] += gain / float64(len(languages))
		}
	}
	return sums
}

// scoresOf are those of translators of one language.
func scoresOf(runs []*trial) (s scores) {
	for _, run := range runs {
		s.bleu, s.nats = append(s.bleu, run.Languages[0].BLEU), append(s.nats, run.Languages[0].Loss)
	}
	return s
}

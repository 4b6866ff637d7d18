package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"gpipebench/internal/expr"
	"gpipebench/internal/machine"
	"gpipebench/internal/stats"
	"gpipebench/internal/yamldoc"
	"gpipebench/lab/records"
	"gpipebench/lab/verdict"
)

// Design says how the trainings of an experiment are judged, and is fixed before the first of them.
// It decides nothing of a sample, so that it is in no key; each record has its digest instead.
type Design struct {
	// Registered is the day on which it was committed, such as 2026-12-01, or none; then Exploratory
	// says why.
	Registered  string `yaml:"registered" json:"registered"`
	Exploratory string `yaml:"exploratory" want:"optional" json:"-"`
	// Looks are, by profile, the numbers of its seeds at which verdicts may be read. Other profiles
	// are not judged.
	Looks map[string][]int `yaml:"looks" want:"2..1000000,ascending" json:"-"`
	// Level is the probability of a false verdict among all primaries, which are one family.
	Level     float64   `yaml:"level" want:">0..0.499" json:"level"`
	Margin    Margin    `yaml:"margin" json:"margin"` // of the primaries that have none of their own
	Primaries []Primary `yaml:"primaries" json:"primaries"`
	Gates     []Gate    `yaml:"gates" want:"optional" json:"gates,omitzero"`
}

// Margin is the difference that does not matter, or less.
type Margin struct {
	Size    float64 `yaml:"size" want:"0.." json:"size"` // 0: any difference matters
	Unit    string  `yaml:"unit" json:"unit"`
	Because string  `yaml:"because" json:"-"`
}

// Primary is a comparison that claims name.
type Primary struct {
	Name string `yaml:"name" want:"name,key" json:"name"`
	// Of are the differences of each seed: an expression with score(arm, statistic) and the like (see
	// functions), positive where the claim says so. Of several the claim says that each is.
	Of     several         `yaml:"of" json:"of"`
	Claims verdict.Claimed `yaml:"claims" want:"claimed,optional" json:"claims,omitempty"` // more
	Test   verdict.Test    `yaml:"test" want:"test,optional" json:"test,omitempty"`        // Student's t
	Margin *Margin         `yaml:"margin" json:"margin,omitempty"`
}

// Gate is a condition of competence, without which comparisons show nothing.
type Gate struct {
	That  string   `yaml:"that" want:"key" json:"that"`                  // in words
	Holds string   `yaml:"holds" json:"holds"`                           // an expression over the experiment's tables, as a claim's check is
	For   []string `yaml:"for" want:"name,optional" json:"for,omitzero"` // primaries; none: all
}

// Concerns reports whether a gate is one of a primary's.
func (g Gate) Concerns(primary string) bool {
	return len(g.For) == 0 || slices.Contains(g.For, primary)
}

// several is one text, or a list.
type several []string

func (s *several) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode && n.Value != "" {
		*s = several{n.Value}
		return nil
	}
	if n.Kind != yaml.SequenceNode || n.Decode((*[]string)(s)) != nil || len(*s) == 0 {
		return yamldoc.WantError("an expression with score(arm, statistic), or a list of some")
	}
	return nil
}

// Scored is an experiment whose trainings a design compares.
type Scored interface {
	// Scores returns what the trainings of a complete log came to.
	Scores(log *records.Log) (Scores, error)
}

// Scores are by arm and statistic, a value for each seed of the profile, in its order.
type Scores map[string]map[string][]float64

// seeds is how many all statistics have a value of, at most those of the design.
func (s Scores) seeds(most int) int {
	for _, arm := range s {
		for _, values := range arm {
			most = min(most, len(values))
		}
	}
	return most
}

// Put sets a statistic of an arm.
func (s Scores) Put(arm, statistic string, values []float64) {
	if s[arm] == nil {
		s[arm] = map[string][]float64{}
	}
	s[arm][statistic] = values
}

// margin returns a primary's margin.
func (d *Design) margin(p Primary) Margin {
	if p.Margin != nil {
		return *p.Margin
	}
	return d.Margin
}

// Primary returns the primary of a name.
func (d *Design) Primary(name string) (Primary, error) {
	var names []string
	for _, p := range d.Primaries {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Primary{}, fmt.Errorf("no primary %q: want one of %s", name, strings.Join(names, ", "))
}

// check refuses a design that cannot judge profiles with some seeds.
func (d *Design) check(seeds func(profile string) []uint64) *Problem {
	if _, err := time.Parse(time.DateOnly, d.Registered); err != nil && d.Registered != "none" {
		return At(fmt.Errorf("%q: want a day, such as 2026-12-01, or none", d.Registered), "registered")
	}
	if (d.Registered == "none") != (d.Exploratory != "") {
		return At(errors.New("want the reason where no day is registered, and nothing otherwise"), "exploratory")
	}
	for _, profile := range slices.Sorted(maps.Keys(d.Looks)) {
		if err := CheckProfile(profile); err != nil {
			return At(err, "looks", profile)
		}
		last, all := slices.Max(d.Looks[profile]), len(seeds(profile))
		if last != all {
			return At(fmt.Errorf("%d seeds at the last look: want %d, those of the profile", last, all), "looks", profile)
		}
	}
	for i, p := range d.Primaries {
		at := []string{"primaries", fmt.Sprint(i)}
		if p.Claims != verdict.More && d.margin(p).Size == 0 {
			return At(fmt.Errorf("%s: want a margin above 0", p.Claims), append(at, "claims")...)
		}
		if p.Test == verdict.Sign && (p.Claims != verdict.More || d.margin(p).Size > 0) {
			return At(errors.New("signs are counted without a margin: want no more claimed"), append(at, "test")...)
		}
		for _, profile := range slices.Sorted(maps.Keys(d.Looks)) {
			if p.Test != verdict.SignFlip {
				break // levels of looks take long
			}
			of := verdict.Design{Level: d.Level, Looks: d.Looks[profile]}
			if err := of.CheckFlips(len(d.Primaries)); err != nil {
				return At(fmt.Errorf("%s: %w", profile, err), append(at, "test")...)
			}
		}
		for _, of := range p.Of {
			if err := (Scores{}).functions(0).Check(of); err != nil {
				return At(err, append(at, "of")...)
			}
		}
	}
	for i, g := range d.Gates {
		if err := (Reader{}).Functions().Check(g.Holds); err != nil {
			return At(err, "gates", fmt.Sprint(i), "holds")
		}
		for _, name := range g.For {
			if _, err := d.Primary(name); err != nil {
				return At(err, "gates", fmt.Sprint(i), "for")
			}
		}
	}
	return nil
}

// functions are what a difference may call, of one seed:
//
//	score(arm, statistic)
//	ranks(statistic, arm, ..., arm)   Spearman's correlation between a half of the arms and the other half,
//	                                  as many, in their order; 0 if all of one half have the same score
func (s Scores) functions(seed int) expr.Functions {
	return expr.Functions{
		"score": func(args []any) (any, error) {
			of, err := expr.Texts(args, 2)
			if err != nil {
				return nil, err
			}
			x, err := s.score(of[0], of[1], seed)
			return expr.Exact(x), err
		},
		"ranks": func(args []any) (any, error) {
			of, err := expr.Texts(args, len(args))
			if err != nil {
				return nil, err
			}
			if len(of) < 5 || len(of)%2 == 0 {
				return nil, fmt.Errorf("ranks of %d: want a statistic and an even number of arms, 4 or more", len(of))
			}
			var scores []float64
			for _, arm := range of[1:] {
				x, err := s.score(arm, of[0], seed)
				if err != nil {
					return nil, err
				}
				scores = append(scores, x)
			}
			half := len(scores) / 2
			return expr.Exact(stats.RankCorrelation(scores[:half], scores[half:])), nil
		},
	}
}

// score is a statistic of an arm with one of the seeds.
func (s Scores) score(of, statistic string, seed int) (float64, error) {
	arm, ok := s[of]
	if !ok {
		return 0, fmt.Errorf("no arm %q: want one of %s", of, strings.Join(slices.Sorted(maps.Keys(s)), " | "))
	}
	values, ok := arm[statistic]
	if !ok || seed >= len(values) {
		return 0, fmt.Errorf("%s has no %q: want one of %s", of, statistic, strings.Join(slices.Sorted(maps.Keys(arm)), " | "))
	}
	return values[seed], nil
}

// differences are a primary's, part by part and seed by seed.
func (p Primary) differences(s Scores, seeds int) (all [][]float64, err error) {
	for _, of := range p.Of {
		var part []float64
		for seed := range seeds {
			n, err := s.functions(seed).Number(of)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.Name, err)
			}
			part = append(part, n.X)
		}
		all = append(all, part)
	}
	return all, nil
}

// Registration is a design as it is for one profile.
type Registration struct {
	*Design
	Profile string
	Seeds   []uint64 // all that verdicts will ever rest on
	Others  []uint64 // of pilots, and of what has the spec's own seed
}

// Digest is the first 16 digits of the SHA-256 of what a design says for its profile, its seeds
// included. Reasons are not in it.
func (r *Registration) Digest() string {
	text, err := json.Marshal(struct {
		*Design
		Looks []int
		Seeds []uint64
	}{r.Design, r.Looks[r.Profile], r.Seeds})
	if err != nil {
		panic(err) // it is numbers and texts
	}
	return machine.Digest(string(text))
}

// Admits refuses a sample of a seed that the design does not name. Samples without random numbers
// have 0.
func (r *Registration) Admits(seed uint64) error {
	if seed == 0 || slices.Contains(r.Seeds, seed) || slices.Contains(r.Others, seed) {
		return nil
	}
	return fmt.Errorf("seed %d is not of the design: want one of %s", seed, JoinWith(r.Seeds, ", "))
}

// Holds reports samples of a log that the design does not cover: of another seed, of another
// design, such as one whose margin was another, or made before it was registered.
func (r *Registration) Holds(log *records.Log) error {
	digest := r.Digest()
	for _, name := range log.Names {
		is := log.Samples[name]
		err := r.Admits(is.Seed)
		switch {
		case err != nil:
		case is.Design != digest && (is.Design != "" || r.Registered != "none"):
			err = fmt.Errorf("it was made under design %q, which is now %s: a design does not change after its first record", is.Design, digest)
		case r.Registered != "none" && is.Time < r.Registered:
			err = fmt.Errorf("it was made at %s, before the design was registered on %s", is.Time, r.Registered)
		}
		if err != nil {
			return fmt.Errorf("sample %s: %w", name, err)
		}
	}
	return nil
}

// Family are the comparisons of a design over the seeds of a profile.
type Family struct {
	*Registration
	Comparisons []verdict.Comparison // without gates, all of as many seeds
}

// family compares what trainings came to. A profile that is not judged may lack some.
func (r *Registration) family(s Scores) (*Family, error) {
	f, seeds := &Family{Registration: r}, s.seeds(len(r.Seeds))
	for _, p := range r.Primaries {
		differences, err := p.differences(s, seeds)
		if err != nil && r.Looks[r.Profile] == nil {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("design: %w", err)
		}
		for i := range differences {
			if p.Test == verdict.Sign {
				differences[i] = verdict.Signs(differences[i])
			}
		}
		f.Comparisons = append(f.Comparisons, verdict.Comparison{
			Name: p.Name, Claimed: p.Claims, Margin: r.margin(p).Size, Test: p.Test, Differences: differences,
		})
	}
	return f, nil
}

// Judge gives the comparisons their verdicts. Passed reports whether a gate is met.
func (f *Family) Judge(passed func(Gate) verdict.Passed) []verdict.Result {
	family := slices.Clone(f.Comparisons)
	for i := range family {
		for _, g := range f.Gates {
			if g.Concerns(family[i].Name) {
				family[i].Gates = append(family[i].Gates, verdict.Gate{Condition: g.That, Passed: passed(g)})
			}
		}
	}
	return f.rule().Judge(family)
}

func (f *Family) rule() verdict.Design {
	return verdict.Design{Level: f.Level, Looks: f.Looks[f.Profile]}
}

// Unit is the unit of a primary's differences.
func (f *Family) Unit(primary string) string {
	p, _ := f.Primary(primary)
	if p.Test == verdict.Sign {
		return "in the share of differing seeds, one way minus the other"
	}
	return f.margin(p).Unit
}

// JudgedAt names the profiles that are judged.
func (d *Design) JudgedAt() string {
	judged := slices.DeleteFunc(slices.Clone(Profiles), func(p string) bool { return d.Looks[p] == nil })
	return strings.Join(judged, " and ")
}

// Sees says what comparisons of as many seeds can show at all, unit by unit, whatever came out.
func (f *Family) Sees() string {
	if f.Looks[f.Profile] == nil {
		return fmt.Sprintf("This profile only shows how the experiment works; claims are judged at profile %s.", f.JudgedAt())
	}
	read := f.lastLook()
	if read == 0 {
		return fmt.Sprintf("No look of the design is complete yet; the first is at %d seeds.", f.Looks[f.Profile][0])
	}
	type ends struct{ least, most float64 }
	var units []string
	sds, effects := map[string]ends{}, map[string]ends{}
	for i, s := range f.rule().Sights(f.Comparisons, read) {
		c := f.Comparisons[i]
		u := f.Unit(c.Name)
		if c.Claimed == verdict.NotLess {
			u += " for non-inferiority"
		}
		if !slices.Contains(units, u) {
			units = append(units, u)
			sds[u], effects[u] = ends{math.Inf(1), math.Inf(-1)}, ends{math.Inf(1), math.Inf(-1)}
		}
		sds[u] = ends{min(sds[u].least, s.SD), max(sds[u].most, s.SD)}
		effects[u] = ends{min(effects[u].least, s.Detectable), max(effects[u].most, s.Detectable)}
	}
	print := func(e ends) string {
		least, most := fmt.Sprintf("%.2g", e.least), fmt.Sprintf("%.2g", e.most)
		if least == most {
			return least
		}
		return least + " to " + most
	}
	var parts []string
	for _, u := range units {
		parts = append(parts, fmt.Sprintf("%s %s (standard deviation of the differences: %s)", print(effects[u]), u, print(sds[u])))
	}
	corrected := ""
	if n := len(f.Comparisons); n > 1 {
		corrected = fmt.Sprintf(", corrected for %d comparisons", n)
	}
	return fmt.Sprintf("Effects detectable with 80%% power with n = %d seeds%s: at least %s.", read, corrected, strings.Join(parts, ", "))
}

// lastLook is the number of seeds of the last look that is complete; 0: none is.
func (f *Family) lastLook() (seeds int) {
	for _, n := range f.Looks[f.Profile] {
		if n <= len(f.Comparisons[0].Differences[0]) {
			seeds = n
		}
	}
	return seeds
}

// Unfinished says how far trainings are where a look is left; "": none is.
func (f *Family) Unfinished() string {
	if n, all := f.lastLook(), len(f.Seeds); n < all {
		return fmt.Sprintf("%d of %d seeds have run", n, all)
	}
	return ""
}

// status says whether the design was registered.
func (f *Family) status() string {
	if f.Registered == "none" {
		return "Exploratory: " + f.Exploratory + "."
	}
	return fmt.Sprintf("Design %s, registered on %s.", f.Digest(), f.Registered)
}

// Figure is a primary's mean difference without a verdict, with its 95% interval; "": it is not
// there.
func (f *Family) Figure(primary string) string {
	i := slices.IndexFunc(f.Comparisons, func(c verdict.Comparison) bool { return c.Name == primary })
	if i < 0 {
		return ""
	}
	c := f.Comparisons[i]
	seeds := len(c.Differences[0])
	if c.Test == verdict.Sign {
		return Signs(c, seeds)
	}
	var parts []string
	for _, part := range c.Differences {
		parts = append(parts, Paired(stats.Sampled(part), 2).Text)
	}
	return fmt.Sprintf("%s %s (%d seeds)", strings.Join(parts, ", "), f.Unit(primary), seeds)
}

// Signs says in how many of the first seeds the difference has the claimed sign, and in how many the opposite sign.
func Signs(c verdict.Comparison, seeds int) string {
	above, below := c.Tally(seeds)
	return fmt.Sprintf("%d of %d seeds as claimed, %d the other way", above, seeds, below)
}

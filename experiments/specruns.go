package experiments

import (
	"fmt"
	"slices"

	"gpipebench/datasets"
	"gpipebench/internal/yamldoc"
)

// planner is an experiment that tells what it will run, so that what cannot run
// is refused when its spec is loaded and not behind the first measurement.
type planner interface {
	// planned lists what a profile runs, with the place in the spec that it is from.
	planned(profile string) []plannedRun
}

// plannedRun is something that an experiment runs.
type plannedRun struct {
	path []string // in the spec
	run  checked
}

// checked is what can be held to be possible without being run. Known are the
// numbers of layers of models that were found to be possible.
type checked interface {
	check(known map[Model]int) error
}

// checkRuns refuses a spec of somebody's own by which something cannot run. The
// program's own specs are held to the same by a test: it takes some time.
func checkRuns(e Experiment, from SpecFile) error {
	p, ok := e.(planner)
	if !ok {
		return nil
	}
	known := map[Model]int{}
	for _, profile := range Profiles {
		for _, r := range p.planned(profile) {
			err := r.run.check(known)
			if err == nil {
				continue
			}
			root, e := yamldoc.Parse(from.Name, from.text)
			if e != nil {
				return e
			}
			return at(err, r.path...).error(from.Name, root)
		}
	}
	return nil
}

// check reports why a training cannot begin, as far as shapes and settings tell:
// not whether there is the memory for it.
func (t Training) check(known map[Model]int) error {
	switch {
	case t.Data != "":
		if t.Model.Name == translator {
			if err := (datasets.Config{SeqLen: t.Model.Seq, Multilingual: t.Multilingual, Translation: t.Translation}).Validate(); err != nil {
				return err
			}
			t.Multilingual.Pairs = min(t.Multilingual.Pairs, 1000) // which are made at once
		}
		s, err := t.source()
		if err != nil {
			return err
		}
		if _, err := t.steps(s); err != nil {
			return err
		}
	case !t.Model.images():
		if err := timingConfig(t.Model, t.Seed).Validate(); err != nil {
			return err
		}
	}
	p, in, err := t.pipeline()
	if err != nil {
		return err
	}
	if _, ok := known[t.Model]; !ok {
		if _, err = p.Describe(in); err == nil {
			known[t.Model] = len(p.Layers)
		}
	}
	return err
}

// modelledRun is a network in so many partitions, or less, on modelled devices.
type modelledRun struct {
	model Model
	most  int // partitions
}

func (m modelledRun) check(known map[Model]int) error {
	if _, ok := known[m.model]; !ok {
		costs, err := flopsOf(m.model)
		if err != nil {
			return err
		}
		known[m.model] = len(costs)
	}
	if n := known[m.model]; m.most > n {
		return fmt.Errorf("%d partitions of %d layers: want at most one partition a layer", m.most, n)
	}
	return nil
}

// planned are the trainings of timed runs, whose models are a profile's.
func (r *rounds) planned(profile string) (list []plannedRun) {
	for _, run := range r.runs {
		t := run.training
		t.Seed = r.seed
		list = append(list, plannedRun{[]string{"profiles", profile}, t})
	}
	return list
}

// plannedArms are the trainings of trials, with their first seed.
func plannedArms(profile string, arms []arm, seeds []uint64) (list []plannedRun) {
	for _, a := range arms {
		list = append(list, plannedRun{[]string{"profiles", profile, "training"}, a.training(seeds[0])})
	}
	return list
}

func (t *table2) planned(profile string) []plannedRun {
	return append(t.rounds(t.spec.Profiles[profile], 2).planned(profile),
		plannedRun{[]string{"paper_model"}, modelledRun{t.spec.PaperModel, slices.Max(t.spec.K)}})
}

func (a *amoeba) planned(profile string) []plannedRun {
	return append(a.rounds(a.spec.Profiles[profile]).planned(profile),
		plannedRun{[]string{"paper_model"}, modelledRun{a.spec.PaperModel, slices.Max(a.spec.K)}})
}

func (s *paperScale) planned() (list []plannedRun) {
	for i, n := range s.Networks {
		for _, split := range n.Splits {
			m := n.Model
			m.Fine = split == "fine"
			list = append(list, plannedRun{[]string{"networks", fmt.Sprint(i), "model"}, modelledRun{m, slices.Max(s.K)}})
		}
	}
	return list
}

func (t *table2Modelled) planned(string) []plannedRun { return t.spec.paperScale.planned() }

func (t *table3) planned(profile string) []plannedRun {
	return append(t.rounds(t.spec.Profiles[profile]).planned(profile), t.spec.paperScale.planned()...)
}

func (a *ablation) planned(string) (list []plannedRun) {
	for i, n := range a.spec.Networks {
		list = append(list, plannedRun{[]string{"networks", fmt.Sprint(i), "model"}, modelledRun{n.Model, slices.Max(a.spec.K)}})
	}
	return list
}

func (f *figure3) planned(profile string) []plannedRun {
	list := f.rounds(f.spec.Profiles[profile]).planned(profile)
	for i, n := range f.spec.Networks {
		for j, s := range n.Scenarios {
			list = append(list, plannedRun{[]string{"networks", fmt.Sprint(i), "scenarios", fmt.Sprint(j)}, modelledRun{n.Model, s.setup.Partitions}})
		}
	}
	return list
}

func (b *breakdown) planned(profile string) []plannedRun {
	return b.rounds(b.spec.Profiles[profile]).planned(profile)
}

func (v *validation) planned(profile string) (list []plannedRun) {
	for i, n := range v.spec.Profiles[profile].Networks {
		for _, k := range v.spec.K {
			t := Calibrating{Threads: 1, Optimizer: v.spec.Optimizer}.training(calibrationProbe{n.Model, n.Batch, n.M, k})
			list = append(list, plannedRun{[]string{"profiles", profile, "networks", fmt.Sprint(i)}, t})
		}
	}
	return list
}

func (c *consistency) planned(profile string) (list []plannedRun) {
	for i := range c.spec.Groups {
		g := &c.spec.Groups[i]
		for j, r := range g.runs() {
			path := []string{"groups", fmt.Sprint(i), "runs", fmt.Sprint(j)}
			if g.Cover != nil {
				path = []string{"groups", fmt.Sprint(i), "cover"}
			}
			t, err := g.training(r, c.spec.Profiles[profile].Steps[g.Name], c.spec.Seed)
			if err != nil {
				continue // which check has refused
			}
			list = append(list, plannedRun{path, t})
		}
	}
	return list
}

func (a *accuracy) planned(profile string) []plannedRun {
	p := a.spec.Profiles[profile]
	return plannedArms(profile, a.arms(p), p.Seeds)
}

func (d *delayed) planned(profile string) []plannedRun {
	p := d.spec.Profiles[profile]
	list := plannedArms(profile, d.arms(p), p.Seeds)
	for _, a := range d.arms(p) {
		m := d.spec.PaperModel
		m.Delayed = a.name == late
		list = append(list, plannedRun{[]string{"paper_model"}, modelledRun{m, 1}},
			plannedRun{[]string{"profiles", profile, "training", "model"}, modelledRun{a.training(1).Model, 1}}) // planned without its images
	}
	return list
}

func (s *scale) planned(profile string) []plannedRun {
	p := s.spec.Profiles[profile]
	return plannedArms(profile, append(s.batches(p), s.networks(p)...), p.Seeds)
}

func (s *stability) planned(profile string) (list []plannedRun) {
	p := s.spec.Profiles[profile]
	for _, v := range s.spec.Variants {
		list = append(list, plannedRun{[]string{"profiles", profile, "training"}, s.training(p, v, p.Seeds[0])})
	}
	return list
}

func (t *translation) planned(profile string) (list []plannedRun) {
	for _, sample := range []string{alone, seeing, blind} {
		list = append(list, plannedRun{[]string{"profiles", profile, "training"}, t.training(t.spec.Profiles[profile], sample)})
	}
	return list
}

func (l *learning) planned(profile string) (list []plannedRun) {
	for _, task := range l.spec.Tasks {
		t := l.spec.Profiles[profile].Tasks[task.Name].training(task.Data, l.setup, l.spec.Seed)
		if task.Data == goDocumentation { // whose tokens are bytes
			t.Data = ""
			if t.Model.Vocab == 0 {
				t.Model.Vocab = 256
			}
		}
		list = append(list, plannedRun{[]string{"profiles", profile, "tasks", task.Name}, t})
	}
	return list
}

// planned are the paper's own networks in each column's way, and the smallest
// ones that are searched here.
func (t *table1) planned(profile string) (list []plannedRun) {
	for i := range t.spec.Networks {
		n := &t.spec.Networks[i]
		for j, c := range n.Columns {
			list = append(list, plannedRun{[]string{"networks", fmt.Sprint(i), "columns", fmt.Sprint(j)},
				modelledRun{c.candidate.of(n.Model), c.K}},
				plannedRun{[]string{"networks", fmt.Sprint(i), "grid"}, searchedRun{modelledRun{n.Model, c.K}, c.way, n.Grid}})
		}
		m := t.spec.Profiles[profile].Networks[i]
		for _, w := range t.spec.Measured {
			list = append(list, plannedRun{[]string{"profiles", profile, "networks", fmt.Sprint(i)}, searchedRun{modelledRun{m.Model, w.K}, w, m.Grid}})
		}
	}
	return list
}

// searchedRun is the search in a grid: every row has to have a network that can
// be cut so, and the smallest has to be one.
type searchedRun struct {
	modelledRun
	way  way
	grid grid
}

func (s searchedRun) check(known map[Model]int) error {
	for _, row := range s.way.rows(s.grid, s.model) {
		if len(row) == 0 {
			return fmt.Errorf("no network of the grid has layers for %d partitions: want larger ones", s.way.K)
		}
		s.model = row[0].of(s.model)
		if err := s.modelledRun.check(known); err != nil {
			return fmt.Errorf("%v: %w", row[0], err)
		}
	}
	return nil
}

package cells

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"gpipebench/internal/failure"
	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/records"
	"gpipebench/lab/shown"
	"gpipebench/simulate"
	"gpipebench/train"
)

// Kind is the kind of experiments in which nothing is timed: each row of a table is modelled,
// counted or computed. An experiment's code has the axes of its spec S, and makes the samples
// V; what its tables and plots show of them is words of the spec, which embeds shown.Spec.
type Kind[S, V any] struct {
	// Check refuses values that do not go together; nil: tags say all.
	Check func(*S) *lab.Problem
	// Rows returns a profile's rows.
	Rows func(s *S, profile string) ([]Row[V], error)
	// Planned lists what is modelled; nil: each model of the spec, in one partition.
	Planned func(*S) []lab.PlannedRun
	// Seeded says that the spec's seed decides samples.
	Seeded bool
	// Others is what else decides them, such as another experiment's spec; nil: nothing.
	Others func(profile string) string
}

// Row is a row of the tables of its name.
type Row[V any] struct {
	Of    string
	Has   shown.Values
	Reads []Cell[V]
	Also  func(shown.Values) // adds what follows from several samples; nil: nothing
}

// Cell is a sample that a row reads. Nothing in it depends on the machine.
type Cell[V any] struct {
	As     string // what the names of its values begin with, and a _; "": nothing
	Sample string
	Make   func(context.Context) (V, error)
	Values func(V) shown.Values // nil: the sample's fields in JSON
	Check  func(V) error        // of a recorded sample; nil: any is taken
}

// Simulated is a cell of a simulated step, of which of takes what the sample has. Its name says
// which efficiencies the accelerator has, but for steps at its peak.
func Simulated[V any](as, sample string, sim simulate.Simulating, of func(*simulate.Simulation) V) Cell[V] {
	if !sim.Peak {
		sample = lab.AtRates(sample, sim.Accelerator, sim.Change)
	}
	return Cell[V]{As: as, Sample: sample, Make: func(ctx context.Context) (made V, err error) {
		r, err := sim.Run(ctx)
		if err == nil {
			made = of(r)
		}
		return made, err
	}}
}

// New makes the experiment of an entry in a paper's list.
func (k Kind[S, V]) New() (lab.Experiment, error) {
	return &Experiment[S, V]{Base: lab.Base[S]{Others: k.Others}, kind: k}, nil
}

// Experiment is one of a kind, with its spec.
type Experiment[S, V any] struct {
	lab.Base[S]
	kind Kind[S, V]
}

func (e *Experiment[S, V]) shown() *shown.Spec {
	return any(&e.Spec).(interface{ ShownBy() *shown.Spec }).ShownBy()
}

func (e *Experiment[S, V]) Resolve() *lab.Problem {
	if e.kind.Check != nil {
		if p := e.kind.Check(&e.Spec); p != nil {
			return p
		}
	}
	rows, err := e.kind.Rows(&e.Spec, lab.Profiles[len(lab.Profiles)-1])
	if err != nil {
		return lab.At(err, "profiles")
	}
	known := shown.Rows{}
	for _, r := range rows {
		if known[r.Of] == nil {
			known[r.Of] = []shown.Values{e.values(r, make([]V, len(r.Reads)))}
		}
	}
	return e.shown().Check(shown.Showing{Data: &e.Spec, Rows: known})
}

// values are a row's, with those of its samples.
func (e *Experiment[S, V]) values(r Row[V], samples []V) shown.Values {
	all := maps.Clone(r.Has)
	if all == nil {
		all = shown.Values{}
	}
	for i, c := range r.Reads {
		for name, v := range c.values(samples[i]) {
			if c.As != "" {
				name = c.As + "_" + name
			}
			all[name] = v
		}
	}
	if r.Also != nil {
		r.Also(all)
	}
	return all
}

func (c Cell[V]) values(sample V) shown.Values {
	if c.Values != nil {
		return c.Values(sample)
	}
	text, err := json.Marshal(sample)
	var fields map[string]any
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err != nil {
		panic(fmt.Sprintf("cells: %T: %v", sample, err))
	}
	all := shown.Values{}
	flatten(all, "", fields)
	return all
}

func flatten(into shown.Values, prefix string, fields map[string]any) {
	for name, v := range fields {
		if of, ok := v.(map[string]any); ok {
			flatten(into, prefix+name+"_", of)
		} else {
			into[prefix+name] = v
		}
	}
}

func (e *Experiment[S, V]) Planned(string) (list []lab.PlannedRun) {
	if e.kind.Planned != nil {
		return e.kind.Planned(&e.Spec)
	}
	models(reflect.ValueOf(&e.Spec).Elem(), nil, func(m train.Model, path []string) {
		list = append(list, lab.PlannedRun{Path: path, Run: lab.ModelledRun{Model: m, Most: 1}})
	})
	return list
}

// models calls f for each model in a part of a spec, with the path to it.
func models(v reflect.Value, path []string, f func(train.Model, []string)) {
	switch v.Kind() {
	case reflect.Slice:
		for i := range v.Len() {
			models(v.Index(i), append(slices.Clone(path), strconv.Itoa(i)), f)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[train.Model]() {
			f(v.Interface().(train.Model), path)
			return
		}
		for i := range v.NumField() {
			name, options, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
			if at := path; name != "" || options == "inline" {
				if name != "" {
					at = append(slices.Clone(path), name)
				}
				models(v.Field(i), at, f)
			}
		}
	}
}

func (e *Experiment[S, V]) Measure(ctx context.Context, log *records.Log, p progress.Progress) error {
	rows, err := e.Rows(log.Key.Profile)
	if err != nil {
		return err
	}
	var seed uint64
	if e.kind.Seeded {
		seed = e.Seed()
	}
	var jobs []lab.Job
	for _, r := range rows {
		for _, c := range r.Reads {
			jobs = append(jobs, lab.Making(c.Sample, seed, c.Make))
		}
	}
	return lab.MakeMissing(ctx, e.ID(), log, p, jobs)
}

// Rows returns a profile's rows.
func (e *Experiment[S, V]) Rows(profile string) ([]Row[V], error) {
	if err := lab.CheckProfile(profile); err != nil {
		return nil, failure.Usage(err)
	}
	return e.kind.Rows(&e.Spec, profile)
}

func (e *Experiment[S, V]) Report(log, _ *records.Log) (*lab.Report, error) {
	rows, err := e.Rows(log.Key.Profile)
	if err != nil {
		return nil, err
	}
	all := shown.Rows{}
	for _, r := range rows {
		samples := make([]V, len(r.Reads))
		for i, c := range r.Reads {
			if err := log.Get(c.Sample, &samples[i]); err != nil {
				return nil, err
			}
			if c.Check == nil {
				continue
			}
			if err := c.Check(samples[i]); err != nil {
				return nil, log.Strange(c.Sample, err)
			}
		}
		all[r.Of] = append(all[r.Of], e.values(r, samples))
	}
	return e.shown().Report(e, "", shown.Showing{ID: e.ID(), Title: e.Title(), Data: &e.Spec, Rows: all})
}

package workload

import (
	"gpipebench/datasets"
)

// Check reports why a training cannot begin, as far as shapes and settings tell:
// not whether there is the memory for it.
func (t Training) Check(known map[Model]int) error {
	switch {
	case t.Data != "":
		if t.Model.Name == Translator {
			if err := (datasets.Config{SeqLen: t.Model.Seq, Multilingual: t.Multilingual, Translation: t.Translation}).Validate(); err != nil {
				return err
			}
			t.Multilingual.Pairs = min(t.Multilingual.Pairs, 1000) // which are made at once
		}
		s, err := t.Source()
		if err != nil {
			return err
		}
		if _, err := t.steps(s); err != nil {
			return err
		}
	case !t.Model.Images():
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

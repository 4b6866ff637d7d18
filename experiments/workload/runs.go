package workload

import (
	"gpipebench/datasets"
)

// Check reports why a training cannot begin, as far as shapes and settings tell:
// not whether there is the memory for it.
func (t Training) Check(known map[Model]int) error {
	switch {
	case t.Data != "":
		if pairs := &t.Config.Multilingual.Pairs; *pairs > 1000 { // which are made at once
			if err := (datasets.Config{Multilingual: t.Config.Multilingual}).Validate(); err != nil {
				return err
			}
			*pairs = 1000
		}
		s, err := t.Source()
		if err != nil {
			return err
		}
		if _, err := t.steps(s); err != nil {
			return err
		}
	default:
		if _, err := t.Model.Random(t.Batch, t.Seed); err != nil {
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

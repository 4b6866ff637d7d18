package gpipe

import (
	"context"
	"fmt"

	"gpipebench/lab"
	"gpipebench/lab/shown"
	"gpipebench/lab/timed"
	"gpipebench/simulate"
	"gpipebench/train"
)

// validationSpec is the spec of validation.
type validationSpec struct {
	timed.Profiled[validationProfile] `yaml:",inline"`
	K                                 []int   `yaml:"k" want:"2..1024"`
	Optimizer                         string  `yaml:"optimizer" want:"optimizer"`
	Within                            float64 `yaml:"within" want:">0..1000"` // of the emulated step, in percent
}

type validationProfile struct {
	timed.Size `yaml:",inline"`
	Networks   []struct {
		Model train.Model `yaml:"model"`
		Batch int         `yaml:"batch"`
		M     int         `yaml:"m"`
	} `yaml:"networks"`
	Turns int `yaml:"turns" want:"1..1000"` // of every pipeline, in a round
}

// validation compares modelled devices of this machine's kind with emulated runs of the same
// networks.
type validation = timed.Compared[validationSpec, validationProfile, simulate.ProbeShape, timed.ModelledStep]

func newValidation() (lab.Experiment, error) {
	v := &validation{}
	s := &v.Spec
	v.Check, v.Show = s.check, s.show
	v.Runs = s.shapes
	v.Training = func(_ validationProfile, shape simulate.ProbeShape) train.Training { return s.way().Training(shape) }
	v.Name = func(p simulate.ProbeShape) string { return fmt.Sprintf("%s/K=%d", p.Model.Name, p.K) }
	v.Together = func(ctx context.Context, p validationProfile, round int) ([]*timed.ModelledStep, error) {
		way := s.way()
		var networks []timed.Network
		for i, shape := range s.shapes(p) {
			if i%len(s.K) == 0 {
				one := shape
				one.K = 1
				networks = append(networks, timed.Network{Alone: []timed.Pipeline{{Calibrating: way, ProbeShape: one}}})
			}
			n := &networks[len(networks)-1]
			n.Pipelines = append(n.Pipelines, timed.Pipeline{Calibrating: way, ProbeShape: shape})
		}
		return timed.BesideModel(ctx, networks, round, p.Turns)
	}
	return v, nil
}

func (v *validationSpec) way() simulate.Calibrating {
	return simulate.Calibrating{Name: "host", Optimizer: v.Optimizer, Threads: 1, Seed: v.Seed}
}

func (v *validationSpec) check() *lab.Problem {
	for _, name := range lab.Profiles {
		models := map[string]bool{}
		for i, n := range v.Profiles[name].Networks {
			if models[n.Model.Name] { // samples have its name
				return lab.At(fmt.Errorf("a second %s: want each model once", n.Model.Name), "profiles", name, "networks", fmt.Sprint(i), "model")
			}
			models[n.Model.Name] = true
		}
	}
	return nil
}

// shapes are each network on each K.
func (v *validationSpec) shapes(p validationProfile) (all []simulate.ProbeShape) {
	for _, n := range p.Networks {
		for _, k := range v.K {
			all = append(all, simulate.ProbeShape{Model: n.Model, Batch: n.Batch, M: n.M, K: k})
		}
	}
	return all
}

func (v *validationSpec) show(c *timed.Comparison[validationProfile, simulate.ProbeShape, timed.ModelledStep]) (shown.Rows, error) {
	return timed.ModelledRows(c, v.shapes(c.Profile), v.Within, func(p simulate.ProbeShape) shown.Values {
		return shown.Values{"network": p.Model.Name, "K": p.K, "M": p.M}
	}), nil
}

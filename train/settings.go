package train

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"gpipebench/datasets"
	"gpipebench/gpipe"
	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/schedule"
	"gpipebench/nn"
)

// settings returns everything that decides the bits of a training's steps, by name; what
// is zero has no entry, so that a setting of a later version is as if it had been there. How
// the network is cut, scheduled and run is left out, but not the number of micro-batches if
// it has batch norm.
func (t *Training) settings(s datasets.Source) (map[string]string, error) {
	model := t.model()
	layers, err := model.Build()
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	model.Name, model.Fine = "", false
	put(all, "", reflect.ValueOf(model))
	put(all, "data.", reflect.ValueOf(t.Config))
	put(all, "", reflect.ValueOf(t.Setup.deciding(slices.ContainsFunc(layers, hasMovingAverages))))
	kind, _, _ := strings.Cut(t.Data, ":")
	put(all, "", reflect.ValueOf(struct {
		Model, Data, DataSHA256               string
		Batch                                 int
		Seed                                  uint64
		Optimizer, LRSchedule                 string
		LR, ClipNorm, L2, LabelSmoothing, EMA float64
		EmptySource                           bool
		Keep                                  Keep
	}{
		t.Model.Name, kind, t.DataDigest(s), t.Batch, t.Seed, t.Optimizer, t.LRSchedule,
		t.LR, t.ClipNorm, t.L2, t.LabelSmoothing, t.EMA, t.EmptySource, t.Keep,
	}))
	if t.Keep == KeepBest {
		all["eval-every"] = fmt.Sprint(t.EvalEvery)
		if t.RecomputeStatistics > 0 {
			all["recompute-statistics"] = fmt.Sprint(t.RecomputeStatistics)
		}
	}
	return all, nil
}

// DataDigest is the digest of the files that the training's examples, of a source, are from; "": there are
// no files.
func (t *Training) DataDigest(s datasets.Source) string {
	if !datasets.NamesFiles(t.Data) {
		return ""
	}
	return datasets.Digest(s)
}

// deciding returns the setup without what decides no bits, of a network with or without
// batch norm. A new field decides until it is named here. Of asynchronous schedules, the schedule
// and the window decide; K as well, but with pipedream-2bw; and the cut, if stages read versions
// of their own.
func (s Setup) deciding(batchNorm bool) Setup {
	s.Groups = max(s.Groups, s.Replicas, 1)
	if !batchNorm {
		s.MicroBatches = 0
	}
	if !s.cutDecides() {
		s.Balance, s.Partitioner, s.Cost = nil, 0, 0
		if s.Schedule != schedule.PipeDreamVertical {
			s.Partitions = 0
		}
	}
	if !s.Schedule.Asynchronous() {
		s.Schedule = 0
	}
	if s.Blocks == 1 {
		s.Blocks = 0
	}
	s.Replicas, s.Spatial, s.Tensor, s.ShardUpdate, s.TiedGradients = 0, 0, 0, false, gpipe.ReduceTied
	s.Chunks, s.ScheduleFile, s.Checkpoint, s.LateRecompute = 0, "", 0, false
	s.Device, s.Threads, s.MemoryCap, s.Link = 0, 0, 0, clock.Link{}
	return s
}

// hasMovingAverages reports whether a layer has batch norm.
func hasMovingAverages(l nn.Layer) bool {
	return slices.ContainsFunc(l.Params(), func(p *nn.Param) bool { return p.State })
}

// put adds the fields of a struct that are not zero, under the names that they have in JSON,
// or else their own, as flags write them.
func put(all map[string]string, prefix string, v reflect.Value) {
	for i := range v.NumField() {
		field, value := v.Type().Field(i), v.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" {
			name = flagName(field.Name)
		}
		name = prefix + strings.ReplaceAll(name, "_", "-")
		switch {
		case value.Kind() == reflect.Struct:
			put(all, name+".", value)
		case !value.IsZero():
			all[name] = fmt.Sprint(value.Interface())
		}
	}
}

// flagName writes a field's name as a flag: held-out for HeldOut, data-sha256 for
// DataSHA256.
func flagName(field string) string {
	var name strings.Builder
	runes := []rune(field)
	for i, r := range runes {
		upper := func(j int) bool { return j < len(runes) && unicode.IsUpper(runes[j]) }
		if i > 0 && upper(i) && (!upper(i-1) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			name.WriteByte('-')
		}
		name.WriteRune(unicode.ToLower(r))
	}
	return name.String()
}

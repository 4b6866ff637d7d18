package gpipe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"gpipebench/gpipe"
	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/partition"
	"gpipebench/gpipe/reduction"
	"gpipebench/gpipe/schedule"
	"gpipebench/lab"
	"gpipebench/lab/cells"
	"gpipebench/lab/shown"
	"gpipebench/nn/graph/op"
	"gpipebench/simulate"
	"gpipebench/train"
)

// section6Spec is the spec of experiments that hold ways to use several devices against each other.
type section6Spec struct {
	shown.Profiled[section6Profile] `yaml:",inline"`
	Networks                        []heldNetwork `yaml:"networks"`
	Ways                            []way6        `yaml:"ways"`
}

type section6Profile struct {
	Expected lab.Span `yaml:"expected" want:"shown"`
	Networks int      `yaml:"networks" want:"1..64"` // how many of them
}

// heldNetwork is a network, and the devices on which it is modelled.
type heldNetwork struct {
	Name     string `yaml:"name" want:"name,key"`
	Of       string `yaml:"of" want:"name,optional"` // what several rows are of; none: its name
	cells.On `yaml:",inline"`
	Batch    int      `yaml:"batch"`
	UpTo     int      `yaml:"up_to" want:"0..10000"` // layers, of a network that grows
	Ways     []string `yaml:"ways" want:"name"`
}

// way6 is one of them: GPipe's K stages, T devices for each operation, S for each image, or PipeDream.
type way6 struct {
	Name        string   `yaml:"name" want:"name,key"`
	K           int      `yaml:"k" want:"0..1024"` // 1
	T           int      `yaml:"t" want:"0..64"`   // 1
	S           int      `yaml:"s" want:"0..64"`   // 1
	Schedule    string   `yaml:"schedule" want:"schedule,optional"`
	Window      int      `yaml:"window" want:"0..4096"`                      // of an asynchronous schedule
	M           []int    `yaml:"m" want:"1..65536,optional"`                 // that are tried; of memory the last
	Checkpoints []string `yaml:"checkpoints" want:"checkpoint,key,optional"` // that are tried
	Batch       int      `yaml:"batch" want:"0..65536"`                      // examples of an update; 0: the network's
	Base        string   `yaml:"base" want:"name,optional"`                  // another way, beside whose sample it stands; none: itself
}

func (w way6) devices() int { return max(w.K, 1) * max(w.T, 1) * max(w.S, 1) }

// step is a step of a network; of T devices sequence says whether they divide the tokens between
// operations as well.
func (w way6) step(n heldNetwork, m int, checkpoint string, sequence bool) simulate.Simulating {
	s := n.Simulating(n.batch(w), train.Setup{
		Partitions: max(w.K, 1), MicroBatches: m, Spatial: w.S, Schedule: lab.Named(schedule.Parse, w.Schedule), Window: w.Window,
		Checkpoint: lab.Named(schedule.ParseCheckpoint, checkpoint), Partitioner: partition.MinMax, Cost: train.Time,
	})
	if w.T > 1 {
		s.Parallel = gpipe.Parallel{Tensor: w.T, SequenceParallel: sequence, NodeDevices: w.devices(), Recompute: gpipe.RecomputeNone}
		if s.Setup.Checkpoint == schedule.Always {
			s.Parallel.Recompute = gpipe.RecomputeFull
		}
	}
	return s
}

func (n heldNetwork) batch(w way6) int {
	if w.Batch > 0 {
		return w.Batch
	}
	return n.Batch
}

// tried are the steps of a way's search.
func (w way6) tried(n heldNetwork) (all []simulate.Simulating) {
	for _, m := range w.M {
		for _, checkpoint := range w.Checkpoints {
			all = append(all, w.step(n, m, checkpoint, false))
			if w.T > 1 && n.Model.Seq%w.T == 0 {
				all = append(all, w.step(n, m, checkpoint, true))
			}
		}
	}
	return all
}

// heldStep is the fastest step of a way that fits; if none does, the one of least memory.
type heldStep struct {
	Fits       bool    `json:"fits"`
	M          int     `json:"m"`
	Checkpoint string  `json:"checkpoint"`
	Sequence   bool    `json:"sequence"`
	Peak       int64   `json:"peak_bytes"` // of the fullest device
	Seconds    float64 `json:"seconds"`    // of an update
	Rate       float64 `json:"examples_per_second"`
	// Shares of the step: transfers and sums that are not hidden, and waiting for other stages.
	Sent   float64 `json:"sent"`
	Bubble float64 `json:"bubble"`
	// Versions of the weights, on the device that has most; 1 if updates are synchronous.
	Versions int `json:"versions"`
}

// better reports whether a step is to be taken in place of another, which may be none yet.
func (s heldStep) better(other heldStep) bool {
	switch {
	case other.M == 0 || s.Fits != other.Fits:
		return other.M == 0 || s.Fits
	case s.Fits:
		return s.Rate > other.Rate
	}
	return s.Peak < other.Peak
}

func (n heldNetwork) fastest(ctx context.Context, w way6) (best heldStep, err error) {
	if w.T > 1 && n.Model.Images() {
		return n.byChannels(ctx, w)
	}
	for _, s := range w.tried(n) {
		r, err := s.Run(ctx)
		if err != nil {
			return best, err
		}
		of := heldStep{
			Fits: r.Fits, M: s.Setup.MicroBatches, Checkpoint: s.Setup.Checkpoint.String(), Sequence: s.SequenceParallel, Peak: r.Fullest(),
			Versions: versions(r), Seconds: r.StepSeconds, Rate: r.ExamplesPerSecond, Sent: r.Breakdown.Communication / r.StepSeconds, Bubble: (r.Breakdown.Bubble + r.Breakdown.Imbalance) / r.StepSeconds,
		}
		if w.T > 1 {
			of.Sent, of.Bubble = (r.Parts.Tensor+r.Parts.Pipeline)/r.StepSeconds, r.Parts.Bubble/r.StepSeconds
		}
		if of.better(best) {
			best = of
		}
	}
	return best, nil
}

// byChannels is the least that a step takes whose convolutions T devices divide by channels: a device's own step,
// which need not fit it, divided by T, and the gathers of the convolutions' inputs, and the sums of
// their gradients, by a ring. No training has such a step here.
func (n heldNetwork) byChannels(ctx context.Context, w way6) (of heldStep, err error) {
	one := w
	one.T = 1
	r, err := one.step(n, 1, schedule.Never.String(), false).Run(ctx)
	if err != nil {
		return of, err
	}
	calls, err := traced(n.Model, n.Model.Input(n.batch(w)))
	if err != nil {
		return of, err
	}
	a, err := accelerator.Named(n.Accelerator)
	if err != nil {
		return of, err
	}
	sent := 0.0
	for _, c := range calls {
		if _, is := c.Op.(op.Conv2D); is {
			bytes := float64(int64(c.In[0].Elems()) * lab.Named(train.ParseDType, n.DType).Bytes())
			reduce, gather := reduction.Cost(reduction.Ring, w.T, 1, bytes, a.Hop())
			sent += reduce + gather
		}
	}
	seconds := r.StepSeconds/float64(w.T) + sent
	return heldStep{
		Fits: true, M: 1, Checkpoint: schedule.Never.String(), Peak: r.Fullest() / int64(w.T),
		Seconds: seconds, Rate: float64(n.batch(w)) / seconds, Sent: sent / seconds, Versions: 1,
	}, nil
}

func versions(r *simulate.Simulation) int {
	most := 1
	for _, d := range r.Devices {
		most = max(most, d.Versions)
	}
	return most
}

// section6Kind has a row for each network and way, whose sample make makes, and one for each network
// (networks), of its first way.
func section6Kind[V any](make func(heldNetwork, context.Context, way6) (V, error), searched bool) cells.Kind[section6Spec, V] {
	return cells.Kind[section6Spec, V]{
		Check: func(s *section6Spec) *lab.Problem { return s.check(searched) },
		Rows: func(s *section6Spec, profile string) (rows []cells.Row[V], err error) {
			for _, n := range s.Networks[:s.Profiles[profile].Networks] {
				cell := func(as string, w way6) cells.Cell[V] {
					return cells.Cell[V]{
						As: as, Sample: lab.AtRates(n.Name+"/"+w.Name, n.Accelerator, nil),
						Make: func(ctx context.Context) (V, error) { return make(n, ctx, w) },
					}
				}
				for i, name := range n.Ways {
					w := s.Ways[s.way(name)]
					r := cells.Row[V]{
						Has: shown.Values{
							"network": n.Name, "of": cmp.Or(n.Of, n.Name), "way": w.Name, "accelerator": n.Accelerator, "devices": w.devices(), "batch": n.batch(w),
							"K": max(w.K, 1), "T": max(w.T, 1), "S": max(w.S, 1), "layers": n.Model.Layers,
						},
						Reads: []cells.Cell[V]{cell("", w), cell("base", s.Ways[s.way(cmp.Or(w.Base, name))])},
					}
					rows = append(rows, r)
					if r.Of = "networks"; i == 0 {
						rows = append(rows, r)
					}
				}
			}
			return rows, nil
		},
	}
}

func (s *section6Spec) way(name string) int {
	return slices.IndexFunc(s.Ways, func(w way6) bool { return w.Name == name })
}

func (s *section6Spec) check(searched bool) *lab.Problem {
	for i, n := range s.Networks {
		at := []string{"networks", strconv.Itoa(i), "ways"}
		for _, name := range n.Ways {
			if s.way(name) < 0 {
				return lab.At(fmt.Errorf("no way %q", name), at...)
			}
			w := s.Ways[s.way(name)]
			if w.Base != "" && !slices.Contains(n.Ways, w.Base) {
				return lab.At(fmt.Errorf("%s: want %s, its base, as well", name, w.Base), at...)
			}
			if searched && (len(w.M) == 0 || len(w.Checkpoints) == 0) {
				return lab.At(fmt.Errorf("%s: want m and checkpoints, which are searched", name), at...)
			}
			if w.K > 1 && len(w.M) == 0 {
				return lab.At(fmt.Errorf("%s: want m, the micro-batches of its stages", name), at...)
			}
			for _, m := range w.M {
				if n.batch(w)%m != 0 {
					return lab.At(fmt.Errorf("%s: %d examples in %d micro-batches: want a multiple", name, n.batch(w), m), at...)
				}
			}
			if w.T > 1 && (w.S > 1 || slices.Contains(w.Checkpoints, schedule.ExceptLast.String())) {
				return lab.At(errors.New(name+": want no parts of images with t, and always or never"), at...)
			}
		}
	}
	return lab.CheckMost(s.Profiles, "networks", func(p section6Profile) int { return p.Networks }, len(s.Networks), "networks")
}

// largestNetwork is the deepest network that a way's devices hold.
type largestNetwork struct {
	Layers int   `json:"layers"` // 0: not even one
	Params int64 `json:"params"`
	Peak   int64 `json:"peak_bytes"` // of the fullest device
}

// largest searches it among networks of up to UpTo layers, with the way's last M and first checkpoint.
func (n heldNetwork) largest(ctx context.Context, w way6) (found largestNetwork, err error) {
	row := make([]int, n.UpTo)
	for i := range row {
		row[i] = i + 1
	}
	_, err = cells.FindBorder(row, -1, func(layers int) (bool, error) {
		grown := n
		if grown.Model.Layers = layers; layers+2 < w.K { // with what is before and after them
			return true, nil
		}
		r, err := grown.held(ctx, w)
		if err == nil && r.Fits {
			found = largestNetwork{layers, r.Params, r.Fullest()}
		}
		return err == nil && r.Fits, err
	})
	return found, err
}

// held is a step whose layers are cut so that all devices have room: by memory at first, and then one after
// another goes from the fullest device to the emptiest, while that is of use.
func (n heldNetwork) held(ctx context.Context, w way6) (best *simulate.Simulation, err error) {
	s := w.step(n, w.M[len(w.M)-1], w.Checkpoints[0], true)
	s.Setup.Cost = train.Memory
	for {
		r, err := s.Run(ctx)
		if err != nil || r.Fits || best != nil && r.Fullest() >= best.Fullest() {
			if err == nil && (best == nil || r.Fits) {
				best = r
			}
			return best, err
		}
		best = r
		most, least := 0, 0
		for i, d := range r.Devices {
			if d.PeakBytes > r.Devices[most].PeakBytes {
				most = i
			}
			if d.PeakBytes < r.Devices[least].PeakBytes {
				least = i
			}
		}
		if w.K < 2 || r.Partition[most] == 1 {
			return best, nil
		}
		s.Setup.Balance = slices.Clone(r.Partition)
		s.Setup.Balance[most]--
		s.Setup.Balance[least]++
	}
}

// The experiments of section 6 that search: the fastest step of each way, by its M and recomputation, and the
// largest network.
var (
	section6Fastest = section6Kind(heldNetwork.fastest, true)
	section6Memory  = section6Kind(heldNetwork.largest, true)
)

package cells

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"gpipebench/gpipe"
	"gpipebench/gpipe/clock"
	"gpipebench/gpipe/partition"
	"gpipebench/gpipe/schedule"
	"gpipebench/lab"
	"gpipebench/simulate"
	"gpipebench/train"
)

// Modeller simulates one network on its accelerators. It remembers what it has
// simulated, since different cuts often come to the same stages, and shares with the Modellers of other
// variations what does not depend on them. Any number of goroutines may ask it at once.
type Modeller struct {
	*modelled
	variation int // of the shared ones
}

// modelled is a network that is simulated on variations of its accelerator, on all of them when one is asked for:
// compiling it takes longer.
type modelled struct {
	Flops []float64

	order   *train.Setup
	sim     simulate.Simulating
	devices []gpipe.Device                     // by variation
	times   once[int, [][]gpipe.LayerEstimate] // of the layers by variation, by size of micro-batch
	steps   once[string, []guessed]            // by variation
}

// guessed is a step, and how large a micro-batch should fill memory.
type guessed struct {
	*Step
	fill float64
}

// ModellersOf makes Modellers of a network and of its variations when they are first asked for. Order has the schedule,
// the chunks of each device and the checkpoint mode of steps, which are early ones only and have no breakdown. Nil:
// GPipe's, everything re-materialised.
func ModellersOf(fine bool, order *train.Setup, varied ...*Network) func() ([]*Modeller, error) {
	return sync.OnceValues(func() ([]*Modeller, error) {
		n := varied[0]
		m := &modelled{order: order, sim: n.Simulating(0, train.Setup{})}
		m.sim.Model.Fine = fine
		var all []*Modeller
		for i, v := range varied {
			own := m.sim
			own.Change = v.Change
			device, err := own.Device()
			if err != nil {
				return nil, err
			}
			m.devices, all = append(m.devices, device), append(all, &Modeller{m, i})
		}
		var err error
		m.Flops, err = train.FlopsOf(m.sim.Model)
		return all, err
	})
}

// NewModeller makes the Modeller of a network.
func NewModeller(n *Network, fine bool, order *train.Setup) (*Modeller, error) {
	all, err := ModellersOf(fine, order, n)()
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// pipeline is stages as given, in an order, or the whole on one device, on count micro-batches.
func (m *modelled) pipeline(ctx context.Context, order train.Setup, sizes []int, micro, count int) (gpipe.Pipeline, gpipe.Input, error) {
	in := m.sim.Model.Input(micro * count)
	sim := m.sim
	sim.Setup = order
	sim.Setup.Partitions, sim.Setup.MicroBatches, sim.Setup.Balance = len(sizes)/max(order.Chunks, 1), count, sizes
	p, err := sim.Pipeline(ctx, in)
	return p, in, err
}

// Costs are what a cut balances.
func (m *Modeller) Costs(ctx context.Context, cost train.Cost, micro int) ([]float64, error) {
	switch cost {
	case train.FLOPs:
		return m.Flops, nil
	case train.Memory:
		p, _, err := m.pipeline(ctx, train.Setup{}, []int{len(m.Flops)}, 1, 1)
		if err != nil {
			return nil, err
		}
		d, err := p.Describe(m.sim.Model.Input(1))
		if err != nil {
			return nil, err
		}
		return d.Memory(), nil
	}
	layers, err := m.Layers(ctx, micro)
	return gpipe.LayerSeconds(layers, schedule.Always), err
}

// Layers times the layers, each by itself.
func (m *Modeller) Layers(ctx context.Context, micro int) ([]gpipe.LayerEstimate, error) {
	all, err := m.times.of(micro, func() (all [][]gpipe.LayerEstimate, err error) {
		p, in, err := m.pipeline(ctx, train.Setup{}, []int{len(m.Flops)}, micro, 1)
		if err != nil {
			return nil, err
		}
		compiled, err := p.Compiled(in, m.sim.Modelling())
		if err != nil {
			return nil, err
		}
		for _, d := range m.devices {
			all = append(all, compiled.Layers(d.Accelerator))
		}
		return all, nil
	})
	if err != nil {
		return nil, err
	}
	return all[m.variation], nil
}

// Cut returns the sizes of the stages of the network, cut by the rule of a setup.
func (m *Modeller) Cut(ctx context.Context, s train.Setup, stages, micro int) ([]int, error) {
	costs, err := m.Costs(ctx, s.Cost, micro)
	if err != nil {
		return nil, err
	}
	r, err := partition.Split(s.Partitioner, costs, stages)
	return r.Sizes, err
}

// cell simulates a cell with the fixed mini-batch, with that made smaller where
// it does not fit, and with one that fills memory. All are cut alike, by what layers
// cost at the fixed mini-batch.
func (m *Modeller) cell(ctx context.Context, how CutSpec, c lab.Cell, batch, most int) (*Sample, error) {
	sizes, err := m.Cut(ctx, how.Setup(train.Setup{}), c.K, batch/c.M)
	if err != nil {
		return nil, err
	}
	fixed, err := m.Step(ctx, sizes, batch/c.M, c.M)
	if err != nil {
		return nil, err
	}
	filled, err := m.Filled(ctx, sizes, c.M, batch/c.M, most/c.M)
	if err != nil {
		return nil, err
	}
	shrunk := fixed
	if !fixed.Fits {
		shrunk = filled
	}
	return &Sample{*filled, *shrunk, *fixed}, nil
}

// RoundSizes are 1, 2, 3, 4, 6, 8, 12, ..., up to most: powers of two, and the
// numbers half-way between them.
func RoundSizes(most int) (sizes []int) {
	for n := 1; n <= most; n *= 2 {
		sizes = append(sizes, n)
		if n > 1 && n+n/2 <= most {
			sizes = append(sizes, n+n/2)
		}
	}
	return sizes
}

// Filled is the step with the largest of the round sizes of micro-batch that
// fits; the smallest if none does. Memory grows with the micro-batch nearly in
// proportion, so the size is guessed from one that is known and then checked.
func (m *Modeller) Filled(ctx context.Context, sizes []int, count, known, most int) (*Step, error) {
	_, fill, err := m.Guess(ctx, sizes, known, count)
	if err != nil {
		return nil, err
	}
	return m.filledFrom(ctx, sizes, count, fill, most)
}

// filledFrom is Filled with a guess.
func (m *Modeller) filledFrom(ctx context.Context, sizes []int, count int, guess float64, most int) (*Step, error) {
	round := RoundSizes(most)
	near := len(slices.DeleteFunc(slices.Clone(round), func(n int) bool { return float64(n) > guess })) - 1
	b, err := FindBorder(round, max(0, near), func(micro int) (bool, error) {
		s, err := m.Step(ctx, sizes, micro, count)
		return err == nil && s.Fits, err
	})
	if err != nil {
		return nil, err
	}
	return m.Step(ctx, sizes, max(b.Fits, round[0]), count)
}

// Step simulates a step of count micro-batches.
func (m *Modeller) Step(ctx context.Context, sizes []int, micro, count int) (*Step, error) {
	s, _, err := m.Guess(ctx, sizes, micro, count)
	return s, err
}

// Guess is Step, and how large a micro-batch should fill memory: nearly what does.
func (m *Modeller) Guess(ctx context.Context, sizes []int, micro, count int) (*Step, float64, error) {
	all, err := m.steps.of(fmt.Sprint(sizes, micro, count), func() ([]guessed, error) { return m.simulate(ctx, sizes, micro, count) })
	if err != nil {
		return nil, 0, err
	}
	return all[m.variation].Step, all[m.variation].fill, nil
}

// simulate makes the step of every variation.
func (m *modelled) simulate(ctx context.Context, sizes []int, micro, count int) (all []guessed, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	order, early := train.Setup{}, m.order != nil
	if early {
		order = *m.order
	}
	p, in, err := m.pipeline(ctx, order, sizes, micro, count)
	if err != nil {
		return nil, err
	}
	compiled, err := p.Compiled(in, m.sim.Modelling())
	if err != nil {
		return nil, err
	}
	for _, device := range m.devices {
		of := p.Variant()
		of.Device = device
		sim, err := compiled.Simulate(of, early)
		if err != nil {
			return nil, err
		}
		s := &Step{Partition: sim.Sizes, Micro: micro, Fits: true, Early: sim.Seconds, Breakdown: sim.Parts}
		for _, idle := range sim.Timeline.Causes() {
			s.Idle.Add(idle, 1/float64(sim.Timeline.Devices))
		}
		fill := float64(1 << 30)
		for _, d := range sim.Devices {
			s.Peak = max(s.Peak, d.PeakBytes)
			s.Fits = s.Fits && d.Fits()
			fill = min(fill, float64(micro)*float64(d.Capacity-(d.PeakBytes-d.ActivationBytes))/float64(d.ActivationBytes))
		}
		if !early {
			of.LateRecompute = true
			if sim, err = compiled.Simulate(of, true); err != nil {
				return nil, err
			}
			s.Late = sim.Seconds
			of.LateRecompute, of.Device.Link = false, clock.Link{}
			if sim, err = compiled.Simulate(of, true); err != nil {
				return nil, err
			}
			s.Free = sim.Seconds
		}
		all = append(all, guessed{s, fill})
	}
	return all, nil
}

package gpipe

import (
	"context"
	"fmt"

	"gpipebench/gpipe"
	"gpipebench/gpipe/accelerator"
	"gpipebench/gpipe/partition"
	"gpipebench/lab/cells"
	"gpipebench/nn"
	"gpipebench/nn/graph/op"
	"gpipebench/train"
)

// modelledColumn is what comes out for a column of the table. Nothing in it
// depends on the machine.
type modelledColumn struct {
	Params   int64 `json:"params"`   // of the paper's network
	Capacity int64 `json:"capacity"` // of an accelerator
	// Convolved is what its convolutions make of one example, in elements.
	Convolved int64 `json:"convolved,omitempty"`
	// Memory of the paper's network, by storage and micro-batch: see memoryName.
	Memory map[string]memory `json:"memory"`
	// Largest is what fits, by convention, with micro-batches as small as they
	// need be; Held with those of the network's held size.
	Largest map[string]largest `json:"largest"`
	Held    map[string]largest `json:"held"`
}

// memory is what all devices of a pipeline hold, in bytes.
type memory struct {
	M         int   `json:"m"`
	Params    int64 `json:"params"` // and the optimiser's state
	Gradients int64 `json:"gradients"`
	Boundary  int64 `json:"boundary"`
	Residuals int64 `json:"residuals"`
	Workspace int64 `json:"workspace"`
	// Peak is the peak of the device that holds most, by accounting.
	Peak map[string]int64 `json:"peak"`
}

func (m memory) activations() int64 { return m.Boundary + m.Residuals + m.Workspace }

func memoryName(how gpipe.Modelling, micro int) string {
	return fmt.Sprintf("%s, micro-batch %d", storageName(how), micro)
}

// largest is the largest network that fits under a convention.
type largest struct {
	Candidate candidate                 `json:"candidate"`
	Params    int64                     `json:"params"`
	Memory    memory                    `json:"memory"`
	Micro     int                       `json:"micro"` // the largest micro-batch with which it fits
	Borders   []cells.Border[candidate] `json:"borders"`
	// PrintedMicro is the largest micro-batch with which the paper's network
	// fits, 0 if none does; of naive training, the largest mini-batch.
	PrintedMicro  int    `json:"printed_micro"`
	PrintedMemory memory `json:"printed_memory"` // with that, or with the smallest
}

// model makes a column's sample.
func (t *table1) model(e *estimator, n *table1Network, c *table1Column, conventions []counting) (*modelledColumn, error) {
	out := &modelledColumn{Capacity: e.accelerator.Memory, Memory: map[string]memory{}, Largest: map[string]largest{}, Held: map[string]largest{}}
	var err error
	if out.Params, err = params(c.candidate.of(n.Model)); err != nil {
		return nil, err
	}
	if out.Convolved, err = convolved(c.candidate.of(n.Model)); err != nil {
		return nil, err
	}
	for _, how := range t.storages() {
		for _, micro := range n.MicroBatches {
			if out.Memory[memoryName(how, micro)], err = e.memory(c.way, c.candidate.of(n.Model), n.Batch, micro, how); err != nil {
				return nil, err
			}
		}
	}
	for _, conv := range conventions {
		if n.Model.Images() && !conv.Scores {
			continue // the same as with
		}
		if out.Largest[conv.String()], err = e.largest(n, c, conv, 1); err != nil {
			return nil, fmt.Errorf("%v: %w", conv, err)
		}
		if out.Held[conv.String()], err = e.largest(n, c, conv, n.Held); err != nil {
			return nil, fmt.Errorf("%v: %w", conv, err)
		}
	}
	return out, nil
}

// convolved counts the elements of all convolutions' outputs, for one example.
func convolved(m train.Model) (elems int64, err error) {
	if !m.Images() {
		return 0, nil
	}
	calls, err := traced(m, m.Input(1))
	for _, c := range calls {
		if _, is := c.Op.(op.Conv2D); is {
			elems += int64(c.Out[0].Elems())
		}
	}
	return elems, err
}

// estimator plans networks on modelled accelerators, each once.
type estimator struct {
	ctx         context.Context
	optimizer   nn.Optimizer
	accelerator *accelerator.Accelerator
	cuts        *cuts
	seen        map[estimated]memory
	whole       int // the last of miniBatch's
}

func newEstimator(ctx context.Context, by partition.Partitioner, optimizer nn.Optimizer, a *accelerator.Accelerator) *estimator {
	return &estimator{ctx: ctx, optimizer: optimizer, accelerator: a, cuts: newCuts(by), seen: map[estimated]memory{}}
}

// estimated is what a plan depends on.
type estimated struct {
	k            int
	naive        bool
	model        train.Model
	batch, micro int
	how          gpipe.Modelling
}

// memory is what a network takes, with all its devices.
func (e *estimator) memory(w way, m train.Model, batch, micro int, how gpipe.Modelling) (memory, error) {
	if m.Images() {
		how.KeepScores = false // there are none
	}
	key := estimated{w.K, w.Naive, m, batch, micro, how}
	if w.Naive {
		key.micro = batch
	}
	if got, ok := e.seen[key]; ok {
		return got, nil
	}
	balance, err := e.cuts.balance(m, w.K)
	if err != nil {
		return memory{}, err
	}
	var sum memory
	if alike(m) && w.K > 3 {
		sum, err = e.likeStages(w, m, balance, batch, micro, how)
	} else {
		sum, err = e.allStages(w, m, balance, batch, micro, how)
	}
	if err != nil {
		return memory{}, err
	}
	if sum.M = batch / micro; w.Naive {
		sum.M = 1
	}
	e.seen[key] = sum
	return sum, nil
}

// allStages plans every stage.
func (e *estimator) allStages(w way, m train.Model, balance []int, batch, micro int, how gpipe.Modelling) (memory, error) {
	devices, err := e.devices(w, m, balance, batch, micro, how)
	if err != nil {
		return memory{}, err
	}
	sum := memory{Peak: map[string]int64{}}
	for _, d := range devices {
		sum.add(d, 1)
	}
	return sum, nil
}

// likeStages plans one of the middle stages of each size, between the first and
// the last: in fill-drain every stage holds as many micro-batches, so that what a
// stage takes depends on its own layers.
func (e *estimator) likeStages(w way, m train.Model, balance []int, batch, micro int, how gpipe.Modelling) (memory, error) {
	first, last := balance[0], balance[len(balance)-1]
	count := map[int]int{}
	var order []int
	for _, size := range balance[1 : len(balance)-1] {
		if count[size]++; count[size] == 1 {
			order = append(order, size)
		}
	}
	sum := memory{Peak: map[string]int64{}}
	for i, size := range order {
		small := m
		small.Layers = first + size + last - 2
		three := w
		three.K = 3
		devices, err := e.devices(three, small, []int{first, size, last}, batch, micro, how)
		if err != nil {
			return memory{}, err
		}
		if i == 0 {
			sum.add(devices[0], 1)
			sum.add(devices[2], 1)
		}
		sum.add(devices[1], int64(count[size]))
	}
	return sum, nil
}

func (e *estimator) devices(w way, m train.Model, balance []int, batch, micro int, how gpipe.Modelling) ([]gpipe.DeviceEstimate, error) {
	if err := e.ctx.Err(); err != nil {
		return nil, err
	}
	p, err := w.pipeline(m, balance, batch, micro, e.optimizer)
	if err != nil {
		return nil, err
	}
	p.Devices = []gpipe.Device{gpipe.DeviceOf(e.accelerator)}
	return p.Estimate(m.Input(batch), how)
}

// add counts a device several times.
func (m *memory) add(d gpipe.DeviceEstimate, times int64) {
	m.Params += times * d.ParamBytes
	m.Gradients += times * d.GradientBytes
	m.Boundary += times * d.BoundaryBytes
	m.Residuals += times * d.ResidualBytes
	m.Workspace += times * d.WorkspaceBytes
	paper := d.ParamBytes + d.ActivationBytes
	for accounting, bytes := range map[gpipe.Accounting]int64{gpipe.PaperAccounting: paper, gpipe.FullAccounting: paper + d.GradientBytes} {
		m.Peak[accounting.String()] = max(m.Peak[accounting.String()], bytes)
	}
}

// fits reports whether every device holds its part.
func (e *estimator) fits(w way, m train.Model, batch, micro int, c counting) (bool, error) {
	got, err := e.memory(w, m, batch, micro, c.storage())
	return err == nil && got.Peak[c.Accounting] <= e.accelerator.Memory, err
}

// largest searches the grid under a convention, with micro-batches of at least
// least examples. A network fits if it does with the smallest, with which it
// takes least.
func (e *estimator) largest(n *table1Network, c *table1Column, conv counting, least int) (out largest, err error) {
	guess := func(row []candidate) int {
		switch {
		case alike(n.Model):
			return min(12*c.K, len(row)-1) // a dozen layers to a device
		case c.Naive:
			return 0
		}
		return len(row) / 3
	}
	out.Borders, out.Candidate, out.Params, err = e.cuts.borders(n.Model, c.rows(n.Grid, n.Model), guess, func(x candidate) (bool, error) {
		return e.fits(c.way, x.of(n.Model), n.Batch, least, conv)
	})
	if err != nil {
		return out, err
	}
	if !out.Candidate.none() {
		if out.Micro, out.Memory, err = e.micro(c.way, out.Candidate.of(n.Model), n.Batch, least, conv); err != nil {
			return out, err
		}
	}
	fit := e.micro
	if c.Naive {
		fit = e.miniBatch
	}
	out.PrintedMicro, out.PrintedMemory, err = fit(c.way, c.candidate.of(n.Model), n.Batch, least, conv)
	return out, err
}

// micro is the largest micro-batch with which a network fits, and what it then
// takes; 0 and what it takes with the smallest, if it does not fit at all.
func (e *estimator) micro(w way, m train.Model, batch, least int, c counting) (size int, got memory, err error) {
	if w.Naive {
		least = batch
	}
	size, err = largestMicro(batch, least, func(size int) (bool, error) { return e.fits(w, m, batch, size, c) })
	if err == nil {
		got, err = e.memory(w, m, batch, max(size, least), c.storage())
	}
	return size, got, err
}

// miniBatch is the largest mini-batch up to a limit with which a network fits if
// it is trained naively, and what it takes with the limit.
func (e *estimator) miniBatch(w way, m train.Model, most, _ int, c counting) (int, memory, error) {
	whole, err := e.memory(w, m, most, most, c.storage())
	if err != nil {
		return 0, memory{}, err
	}
	row := make([]int, most)
	for i := range row {
		row[i] = i + 1
	}
	b, err := cells.FindBorder(row, e.whole, func(batch int) (bool, error) { return e.fits(w, m, batch, batch, c) })
	e.whole = max(0, b.Fits-1)
	return b.Fits, whole, err
}

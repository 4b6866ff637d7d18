package gpipe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"gpipebench/nn/graph"
	"gpipebench/nn/safetensors"
)

// State is all that a training's next steps depend on, besides its pipeline and its
// mini-batches: a pipeline that is cut, scheduled or divided over replicas in another way
// goes on from it with the same bits. The slices are its own.
type State struct {
	Steps    int            // updates so far
	Function string         // the network's fingerprint, see FunctionKey
	Weights  []NamedWeights // as Trainer.Weights returns them
	Slots    []Slot         // the optimiser's, in the order of nn.Optimizer.Slots
	Average  []NamedWeights // of the trained parameters, in layer order; nil: none is kept
}

// Slot is a part of an optimiser's state.
type Slot struct {
	Name   string         // as nn.Optimizer.Slots names it
	Values []NamedWeights // of the trained parameters, in layer order, each tied one once
}

// State returns a copy of the training's state between two steps. reuse may be nil, or a
// state that this trainer has returned and that is not needed any more, whose memory is
// then used again. If several processes run the pipeline, all must call it, as with
// [Trainer.Step], and all get the whole state.
func (t *Trainer) State(reuse *State) (*State, error) {
	if t.broken != nil {
		return nil, t.broken
	}
	if err := t.trainable(); err != nil {
		return nil, err
	}
	if t.broken = t.compareReplicas(); t.broken != nil {
		return nil, t.broken
	}
	function, err := t.fingerprint()
	if err != nil {
		return nil, err
	}
	weights, err := t.weights()
	if err != nil {
		t.broken = err
		return nil, err
	}
	s := reuse
	if s == nil {
		s = newState(t)
	}
	s.Steps, s.Function = t.steps, function
	for i, w := range weights {
		copy(s.Weights[i].Data, w.Data)
	}
	if err := copySlots(t, s); err != nil {
		t.broken = err
		return nil, err
	}
	return s, nil
}

// newState is a state of the right names and shapes, all zeros.
func newState(t *Trainer) *State {
	s := &State{}
	zeros := func(like []NamedWeights) (all []NamedWeights) {
		for _, w := range like {
			all = append(all, NamedWeights{w.Path, w.Shape, make([]float32, graph.Shape(w.Shape).Elems())})
		}
		return all
	}
	own := t.ownWeights()
	s.Weights = zeros(own)
	trained := own[:len(t.net.Params)]
	for _, name := range t.net.Optimizer.Slots() {
		s.Slots = append(s.Slots, Slot{name, zeros(trained)})
	}
	if t.net.EMA.Kept() {
		s.Average = zeros(trained)
	}
	return s
}

// tensors are the state's slots and the average, in the order of weight.state.
func (s *State) tensors() (all [][]NamedWeights) {
	for _, slot := range s.Slots {
		all = append(all, slot.Values)
	}
	if s.Average != nil {
		all = append(all, s.Average)
	}
	return all
}

// statePart is what one replica has of the state of a parameter.
type statePart struct {
	Slot, Param, From int
	Data              []byte // little-endian
}

// copySlots copies the optimiser's slots and the average. Each replica has a part of them
// if updates are divided; otherwise the first one's are taken.
func copySlots(t *Trainer, s *State) error {
	var own []statePart // for other processes
	all := s.tensors()
	for _, d := range t.devices {
		if d.at.Replica > 0 && !t.net.ShardUpdate {
			continue
		}
		for i := range d.weights {
			w := &d.weights[i]
			if t.net.Device(t.net.Params[w.param].Home()) != d.k || w.twin {
				continue
			}
			for slot, values := range w.state {
				whole := all[slot][w.param].Data
				if w.runs != nil {
					slice{values, w.runs}.gather(whole)
					if w.part < t.net.Tensor-1 {
						continue
					}
					values = whole
				} else {
					copy(whole[w.own.From:w.own.To], values)
				}
				if len(t.peers) > 1 {
					own = append(own, statePart{slot, w.param, w.own.From, safetensors.Append(nil, values)})
				}
			}
		}
	}
	messages, err := exchange(context.Background(), t, own)
	if err != nil {
		return fmt.Errorf("optimiser state of other processes: %w", err)
	}
	for from, theirs := range messages {
		if from == t.self {
			continue
		}
		for _, p := range theirs {
			decode(all[p.Slot][p.Param].Data[p.From:], p.Data)
		}
	}
	return nil
}

// Restore sets the training's state to one that [Trainer.State] has returned, of this
// pipeline or of one that differs in how it is run. Names and shapes of all tensors must
// be those of this pipeline; a state that is refused changes nothing. Values are not
// looked at.
func (t *Trainer) Restore(s *State) error {
	if t.broken != nil {
		return t.broken
	}
	if err := t.trainable(); err != nil {
		return err
	}
	order, err := matchState(t, s)
	if err != nil {
		return err
	}
	for i, at := range order.weights {
		for _, c := range copies(t, i) {
			c.set(s.Weights[at].Data)
		}
	}
	for _, d := range t.devices {
		for i := range d.weights {
			w := &d.weights[i]
			for slot, values := range s.tensors() {
				slice{w.state[slot], w.runs}.set(values[order.slots[slot][w.param]].Data[w.own.From:])
			}
		}
	}
	t.steps, t.differentiated, t.compared = s.Steps, false, -1
	return nil
}

// stateOrder says where a state has the tensors of this pipeline.
type stateOrder struct {
	weights []int   // of Trainer.Weights
	slots   [][]int // of each tensor of state, by parameter
}

// matchState compares a state's names and shapes with the pipeline's.
func matchState(t *Trainer, s *State) (order stateOrder, err error) {
	function, err := t.fingerprint()
	if err != nil {
		return order, err
	}
	if s.Function != "" && s.Function != function {
		return order, fmt.Errorf("the state is of a network that computes another function: its SHA-256 is %.64q, want this network's, %q", s.Function, function)
	}
	if s.Steps < 0 {
		return order, fmt.Errorf("a state after %d steps: want 0 or more", s.Steps)
	}
	var names []string
	for _, slot := range s.Slots {
		names = append(names, slot.Name)
	}
	if want := t.net.Optimizer.Slots(); !slices.Equal(names, want) {
		return order, fmt.Errorf("the state has the optimiser's slots %q: want %q, those of %s", names, want, t.net.Optimizer.Name())
	}
	if (s.Average != nil) != t.net.EMA.Kept() {
		if s.Average == nil {
			return order, errors.New("the state has no average of the weights, which this training keeps")
		}
		return order, errors.New("the state has an average of the weights, which this training does not keep")
	}
	own := shapesOf(t.ownWeights())
	if order.weights, err = matchValues("weight", own, s.Weights); err != nil {
		return order, err
	}
	for slot, values := range s.tensors() {
		what := "average"
		if slot < len(s.Slots) {
			what = s.Slots[slot].Name
		}
		places, err := matchValues(what, own[:len(t.net.Params)], values)
		if err != nil {
			return order, err
		}
		order.slots = append(order.slots, places)
	}
	return order, nil
}

// matchNamed returns the index, in got, of every tensor of want; got must have all of
// them and no others.
func matchNamed(what string, want, got []NamedShape) (order []int, err error) {
	byPath := map[string]int{}
	for i, g := range got {
		if _, twice := byPath[g.Path]; twice {
			return nil, fmt.Errorf("%s %q is there twice", what, g.Path)
		}
		byPath[g.Path] = i
	}
	for _, w := range want {
		i, ok := byPath[w.Path]
		switch {
		case !ok:
			return nil, fmt.Errorf("no %s %q, which the network has", what, w.Path)
		case !slices.Equal(got[i].Shape, w.Shape):
			return nil, fmt.Errorf("%s %q has shape %v: the network wants %v", what, w.Path, got[i].Shape, w.Shape)
		}
		delete(byPath, w.Path)
		order = append(order, i)
	}
	for _, g := range got {
		if _, left := byPath[g.Path]; left {
			return nil, fmt.Errorf("%s %q, which the network does not have", what, g.Path)
		}
	}
	return order, nil
}

// matchValues is matchNamed for tensors that must have all their values.
func matchValues(what string, want []NamedShape, got []NamedWeights) ([]int, error) {
	order, err := matchNamed(what, want, shapesOf(got))
	for i, at := range order {
		if has, elems := len(got[at].Data), graph.Shape(want[i].Shape).Elems(); has != elems {
			return nil, fmt.Errorf("%s %q has %d values: the network wants %d", what, want[i].Path, has, elems)
		}
	}
	return order, err
}

func shapesOf(values []NamedWeights) (all []NamedShape) {
	for _, v := range values {
		all = append(all, NamedShape{v.Path, v.Shape})
	}
	return all
}

// WriteWeights writes the weights and metadata, which may be nil, as [Trainer.Save] does.
func (s *State) WriteWeights(to io.Writer, metadata map[string]string) error {
	metadata, err := withOwn(metadata, s.Weights, s.Function)
	if err != nil {
		return err
	}
	return WriteNamed(to, s.Weights, metadata)
}

// WriteNamed writes tensors by their paths, and metadata, in the safetensors format.
func WriteNamed(to io.Writer, values []NamedWeights, metadata map[string]string) error {
	return safetensors.Write(to, tensorsOf(values), metadata)
}

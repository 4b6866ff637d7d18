package nn_test

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"testing"

	"gpipebench/internal/testkit"
	"gpipebench/nn"
)

// optimizerSuite is the properties on which a pipeline's update relies, for every optimiser. An update is
// element-wise, given the norms of the whole tensor if the optimiser is layer-wise, and keeps nothing but
// its state. So a tensor may be cut into pieces, for threads or for replicas, and tensors may come in any
// order: the bits stay the same.
type optimizerSuite struct {
	Optimizer nn.Optimizer
	Start     map[string]float32 // initial values of slots, by name; of all others 0
	Decays    bool               // weights shrink without a gradient, unless NoDecay
	Refused   []nn.Optimizer     // settings that Validate reports
}

func (s optimizerSuite) run(t *testing.T) {
	t.Run(fmt.Sprintf("%+v", s.Optimizer), func(t *testing.T) {
		for name, test := range map[string]func(*testing.T){
			"settings": s.settings, "slots": s.slots, "in pieces": s.inPieces, "order of tensors": s.orderOfTensors,
			"zero gradient": s.zeroGradient, "scale": s.scaled, "L2": s.l2,
		} {
			t.Run(name, test)
		}
	})
}

// trained is a parameter in training. Its size is not a multiple of a vector's.
type trained struct {
	w, g  []float32
	state [][]float32
}

const trainedSize, updates = 53, 4

// start returns the seed-th parameter before the first update.
func (s optimizerSuite) start(seed int) *trained {
	x := &trained{w: make([]float32, trainedSize), g: make([]float32, trainedSize), state: stateOf(s.Optimizer, trainedSize)}
	for i := range x.w {
		x.w[i] = float32(math.Sin(float64(i + 100*seed)))
	}
	return x
}

// stateOf returns an optimiser's state for a parameter of n elements before the
// first update.
func stateOf(o nn.Optimizer, n int) [][]float32 {
	state := make([][]float32, len(o.Slots()))
	for slot := range state {
		state[slot] = make([]float32, n)
		if init, ok := o.(nn.StateInitializer); ok {
			for i := range state[slot] {
				state[slot][i] = init.InitState(slot)
			}
		}
	}
	return state
}

// update applies a step to the elements [from, to) with the settings in u. The
// gradient differs from step to step; norms of the values are arbitrary.
func (s optimizerSuite) update(x *trained, step, from, to int, u nn.Update) {
	for i := from; i < to; i++ {
		x.g[i] = float32(math.Cos(float64(i*step))) * 0.25 / u.Scale
	}
	if _, ok := s.Optimizer.(nn.LayerWise); ok {
		u.Norms = nn.Norms{W: 4 + float64(step), G: 2 / float64(u.Scale)}
	}
	u.W, u.G, u.Step = x.w[from:to], x.g[from:to], step
	for _, slot := range x.state {
		u.State = append(u.State, slot[from:to])
	}
	s.Optimizer.Update(u)
}

var usualUpdate = nn.Update{LR: 0.125, Scale: 1, L2: 0.01}

// whole returns a parameter after all steps, each applied to the whole tensor.
func (s optimizerSuite) whole(seed int, u nn.Update) *trained {
	x := s.start(seed)
	for step := 1; step <= updates; step++ {
		s.update(x, step, 0, trainedSize, u)
	}
	return x
}

// same fails unless two parameters and their state have the same bits.
func (s optimizerSuite) same(t *testing.T, got, want *trained) {
	t.Helper()
	equal := func(a, b []float32) bool {
		return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
	}
	if !equal(got.w, want.w) {
		t.Errorf("the weights are\n%v, want\n%v", got.w, want.w)
	}
	for i, name := range s.Optimizer.Slots() {
		if !equal(got.state[i], want.state[i]) {
			t.Errorf("slot %s is\n%v, want\n%v", name, got.state[i], want.state[i])
		}
	}
}

func (s optimizerSuite) settings(t *testing.T) {
	testkit.Equal(t, s.Optimizer.Validate(), nil, "refused")
	for _, o := range s.Refused {
		if o.Validate() == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
	if len(s.Refused) == 0 {
		t.Error("no settings to be refused are known")
	}
	testkit.Equal(t, reflect.TypeOf(s.Optimizer).Kind(), reflect.Struct, "hyper-parameters, since all state is in the device's memory, are")
}

// Slots have distinct names that are fit for a file, and the initial values of
// Start.
func (s optimizerSuite) slots(t *testing.T) {
	names := s.Optimizer.Slots()
	for i, name := range names {
		if !regexp.MustCompile(`^[a-z][a-z_]*$`).MatchString(name) || slices.Contains(names[:i], name) {
			t.Errorf("slots %q: want distinct names in lower case", names)
		}
	}
	for name := range s.Start {
		if !slices.Contains(names, name) {
			t.Errorf("no slot %q among %q", name, names)
		}
	}
	x := s.start(0)
	for i, name := range names {
		for _, v := range x.state[i] {
			testkit.Equal(t, v, s.Start[name], "slot %s starts from", name)
		}
	}
	x = s.whole(0, usualUpdate)
	for i, name := range names {
		if !slices.ContainsFunc(x.state[i], func(v float32) bool { return v != s.Start[name] }) {
			t.Errorf("slot %s is never written", name)
		}
	}
}

func (s optimizerSuite) inPieces(t *testing.T) {
	want := s.whole(0, usualUpdate)
	for _, cuts := range [][]int{{7, 16, 40, trainedSize}, {0, 1, 2, trainedSize}, {52, trainedSize}} {
		x := s.start(0)
		for step := 1; step <= updates; step++ {
			from := 0
			for _, to := range cuts {
				s.update(x, step, from, to, usualUpdate)
				from = to
			}
		}
		s.same(t, x, want)
	}
	// Also from the last piece to the first.
	x := s.start(0)
	for step := 1; step <= updates; step++ {
		s.update(x, step, 20, trainedSize, usualUpdate)
		s.update(x, step, 0, 20, usualUpdate)
	}
	s.same(t, x, want)
}

// The updates of two tensors that alternate are independent.
func (s optimizerSuite) orderOfTensors(t *testing.T) {
	a, b := s.start(1), s.start(2)
	for step := 1; step <= updates; step++ {
		turns := []*trained{a, b}
		if step%2 == 0 {
			slices.Reverse(turns)
		}
		for _, x := range turns {
			s.update(x, step, 0, trainedSize, usualUpdate)
		}
	}
	s.same(t, a, s.whole(1, usualUpdate))
	s.same(t, b, s.whole(2, usualUpdate))
}

// Without a gradient a new parameter keeps its value, or shrinks by the
// optimiser's weight decay; one with NoDecay keeps its value.
func (s optimizerSuite) zeroGradient(t *testing.T) {
	for _, noDecay := range []bool{false, true} {
		x, before := s.start(0), s.start(0).w
		for step := 1; step <= updates; step++ {
			s.Optimizer.Update(nn.Update{W: x.w, G: make([]float32, trainedSize), State: x.state, Step: step, LR: 0.125, Scale: 1, NoDecay: noDecay})
		}
		for i, w := range x.w {
			switch was := before[i]; {
			case s.Decays && !noDecay && was != 0:
				if !(math.Abs(float64(w)) < math.Abs(float64(was))) || math.Signbit(float64(w)) != math.Signbit(float64(was)) {
					t.Fatalf("weight %d decays from %v to %v", i, was, w)
				}
			case w != was:
				t.Fatalf("weight %d moves from %v to %v without a gradient (NoDecay: %v)", i, was, w, noDecay)
			}
		}
	}
}

// Scale multiplies the gradient, as clipping its norm does: a gradient twice as
// large with half the Scale gives the same.
func (s optimizerSuite) scaled(t *testing.T) {
	half := usualUpdate
	half.Scale = 0.5
	got, want := s.whole(0, half), s.whole(0, usualUpdate)
	s.same(t, got, want)
}

// L2 is part of the gradient: a scaled gradient g and a weight w move the
// weight as g + L2*w without L2 does.
func (s optimizerSuite) l2(t *testing.T) {
	const share = 0.25 // exact, as are its products with numbers of few bits
	g, w := []float32{0.5, -0.25, 1}, []float32{1, 0.5, -2}
	moved := func(g []float32, l2 float32) []float32 {
		x := slices.Clone(w)
		s.Optimizer.Update(nn.Update{W: x, G: g, State: stateOf(s.Optimizer, len(w)), Step: 1, LR: 0.125, Scale: 1, L2: l2})
		return x
	}
	sum := slices.Clone(g)
	for i := range sum {
		sum[i] += share * w[i]
	}
	testkit.EqualAll(t, moved(g, share), moved(sum, 0), "with L2 the weights move to")
}

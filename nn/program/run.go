package program

import (
	"fmt"
	"math"

	"gpipebench/internal/kernel"
)

// Program is an ordered list of kernel calls with fixed operands. It holds no
// data and may be run on any memory, by one goroutine at a time.
type Program struct {
	Name   string
	Instrs []Instr
	Span   int // floats of workspace, including the scratch of all threads

	threads int
	scratch int       // floats per thread, at the start of the workspace
	again   *Program  // see Again; nil: the program itself
	lock    *lockstep // of the first of several parts of a stage; else nil
}

// The programs' names.
const (
	forward, keep, evaluate                  = "forward", "forward-keep", "evaluate"
	backward, backwardInput, backwardWeights = "backward", "backward-input", "backward-weights"
)

// Instr is one kernel call.
type Instr struct {
	Op    string
	Layer int   // of the network
	FLOPs int64 // 2 x multiply-adds of matrix products
	// Division is what the parts of a divided stage do at it; Alone if there are none.
	Division Division

	in, out []Operand
	frees   []Operand // workspace that is dead after the instruction
	kernel  kernelFunc
	add     func(sum, summand []float32) // adds up the result over replicas; nil: it does not
	starts  bool                         // its accumulator need not be cleared: see Env.Fresh

	step   *step // from which it was made, for its costs
	traits *traits
	store  *storage

	// Of the first part of a divided stage: what the other parts do beside it, and the bytes
	// that are copied at an Exchange.
	beside []*Instr
	copied int64
}

// FLOPs is the sum over all instructions.
func (p *Program) FLOPs() (sum int64) {
	for i := range p.Instrs {
		sum += p.Instrs[i].FLOPs
	}
	return sum
}

// Binding gives each space its memory for one run.
type Binding [Spaces][]float32

// Env has the inputs of a run that are not tensors.
type Env struct {
	Seed      uint64
	Step      uint64
	Example   uint64  // index within the mini-batch of the micro-batch's first example
	LossScale float32 // one over the mini-batch's count: the gradient of each row's loss
	// Fresh says that nothing has been added to the accumulators since what Stage.Clear lists was
	// cleared: whatever is in the others is overwritten. Not of a divided stage.
	Fresh bool
	// Again says that the forward function of this micro-batch has run before
	// in this step: its statistics are not counted twice.
	Again bool
}

// Options of a run. The zero value only runs.
type Options struct {
	// High, if not nil, is raised to how far the operands that are used reach into each space, in floats.
	High *[Spaces]int
	// Poison fills the workspace with NaN before the run, and every buffer
	// again when it dies, so that reads of unwritten memory show.
	Poison bool
	// Trap stops after the first instruction with an output that is not finite,
	// with a *NonFiniteError.
	Trap bool
	// Meet adds up a value over the replicas, which all call it for the same instruction;
	// nil: there is one replica.
	Meet func(m Meeting) error
	// Rows, if not nil, is called with the gradient of a table of embeddings; if it returns
	// true, it has copied the rows, and they are not added to their accumulator.
	Rows func(g RowGradient) bool
	// Ran, if not nil, is called after every instruction.
	Ran func(in *Instr)
	// Parts has the options of a divided stage (see Stage.Divide).
	Parts PartOptions
}

// NonFiniteError says where a NaN or an infinity first occurred.
type NonFiniteError struct {
	Program string
	Op      string
	Layer   int
	Value   float32
}

func (e *NonFiniteError) Error() string {
	return fmt.Sprintf("%v out of %s in %s of layer %d", e.Value, e.Op, e.Program, e.Layer)
}

// Run executes the program on the memory of b with the threads of pool. There
// must be as many as it was compiled for: the size of a kernel's parts depends
// on them. A program of several parts takes as many threads for each of them.
func (p *Program) Run(pool *Pool, b *Binding, env *Env, o Options) error {
	if p.lock != nil {
		return p.lock.run(pool, b, env, o)
	}
	if pool.Threads() != p.threads {
		return fmt.Errorf("program: %s was compiled for %d threads, not %d", p.Name, p.threads, pool.Threads())
	}
	if o.Poison {
		fillNaN(b[Workspace][:p.Span])
	}
	r := &pool.run
	r.begin(p, b, env)
	o.touch(0, Workspace, p.scratch*p.threads)
	for i := range p.Instrs {
		in := &p.Instrs[i]
		r.instr = in
		in.bind(b, &r.in, &r.out)
		if !o.offered(in, r.in[:len(in.in)]) {
			pool.Do(r.part)
		}
		if in.add != nil && o.Meet != nil {
			if err := o.Meet(Meeting{r.out[0], r.out[1], in.add}); err != nil {
				return err
			}
		}
		if o.Ran != nil {
			o.Ran(in)
		}
		if err := p.ran(in, b, &o, 0); err != nil {
			return err
		}
	}
	r.instr = nil
	return nil
}

// bind finds an instruction's operands.
func (in *Instr) bind(b *Binding, operands, results *[maxOperands][]float32) {
	for j, op := range in.in {
		operands[j] = b[op.Space][op.Off:op.End():op.End()]
	}
	for j, op := range in.out {
		results[j] = b[op.Space][op.Off:op.End():op.End()]
	}
}

// touch notes the use of a part's memory.
func (o *Options) touch(part int, s Space, end int) {
	var high *[Spaces]int
	switch {
	case part == 0:
		high = o.High
	case o.Parts.High != nil:
		high = o.Parts.High[part-1]
	}
	if high != nil {
		high[s] = max(high[s], end)
	}
}

// ran does what the options say about a part's memory when an instruction has run.
func (p *Program) ran(in *Instr, b *Binding, o *Options, part int) error {
	for _, ops := range [][]Operand{in.in, in.out} {
		for _, op := range ops {
			o.touch(part, op.Space, op.End())
		}
	}
	if o.Poison {
		for _, op := range in.frees {
			fillNaN(b[Workspace][op.Off:op.End()])
		}
	}
	if o.Trap && in.Division != Exchange {
		for i, op := range in.out {
			if v, ok := in.nonFinite(i, b[op.Space][op.Off:op.End()]); ok && in.Op != "copy" {
				return &NonFiniteError{p.Name, in.Op, in.Layer, v}
			}
		}
	}
	return nil
}

// nonFinite returns the first NaN or infinity of output i, which is x.
func (in *Instr) nonFinite(i int, x []float32) (float32, bool) {
	if n := in.step.out[i]; in.out[i].Space != Grads && in.store.narrow(n) {
		values := halves(x)[:n.Elems()]
		at := kernel.FirstNonFiniteBF16(values)
		if at < 0 {
			return 0, false
		}
		return math.Float32frombits(uint32(values[at]) << 16), true
	}
	at := kernel.FirstNonFinite(x)
	if at < 0 {
		return 0, false
	}
	return x[at], true
}

// fillNaN fills x with values that are NaNs as float32 and as two bfloat16.
func fillNaN(x []float32) {
	nan := math.Float32frombits(0x7fc07fc0)
	for i := range x {
		x[i] = nan
	}
}

// Widest returns the layer whose instruction reaches furthest into the
// workspace.
func (p *Program) Widest() (layer int) {
	most := -1
	for i := range p.Instrs {
		in := &p.Instrs[i]
		for _, op := range append(in.in[:len(in.in):len(in.in)], in.out...) {
			if op.Space == Workspace && op.End() > most {
				most, layer = op.End(), in.Layer
			}
		}
	}
	return layer
}

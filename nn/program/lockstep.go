package program

import (
	"fmt"
	"time"
)

// PartOptions are those of a run of a divided stage.
type PartOptions struct {
	// Memory has the parts after the first: Params, Residual and Workspace of each.
	Memory []*Binding
	// Touch, if not nil, is Options.Touch for these, the first of which is part 1.
	Touch func(part int, s Space, end int)
	// Sent, if not nil, is called with the bytes that went from one part to another.
	Sent func(to, from int, bytes int64)
	// Alone, if not nil, makes the parts work one after another, so that each is timed
	// alone, and is called with the time that this took longer than the slowest part of
	// each instruction.
	Alone func(longer time.Duration)
}

// lockstep is the programs of a stage's parts, whose instructions they run together.
type lockstep struct {
	programs []*Program
	ticks    []tick
}

// lockstepRun is a run of them. The threads of the pool are divided evenly over the parts.
type lockstepRun struct {
	*lockstep
	pool    *Pool
	threads int // of each part
	binds   []*Binding
	envs    []Env
	o       Options
	at      int           // the tick
	longer  time.Duration // see PartOptions.Alone

	instr   []*Instr
	in, out [][maxOperands][]float32
}

// Exchanged returns how often a run of the program makes parts of a divided stage copy from
// each other, and how many bytes: of a stage that is not divided, none.
func (p *Program) Exchanged() (copies int, bytes int64) {
	if p.lock == nil {
		return 0, 0
	}
	for at, t := range p.lock.ticks {
		for i := range t.copies {
			if c := &t.copies[i]; c.to != c.from {
				copies, bytes = copies+1, bytes+c.bytes()
			}
		}
		if t.examples > 0 { // an accumulator goes around once an example
			hands := t.examples * len(p.lock.programs)
			for _, o := range p.Instrs[at].out {
				copies, bytes = copies+hands, bytes+4*int64(hands)*int64(o.Len)
			}
		}
	}
	return copies, bytes
}

func (l *lockstep) run(pool *Pool, b *Binding, env *Env, o Options) error {
	parts := len(l.programs)
	first := l.programs[0]
	if want := parts * first.threads; pool.Threads() != want {
		return fmt.Errorf("program: %s was compiled for %d parts of %d threads, not %d threads", first.Name, parts, first.threads, pool.Threads())
	}
	if len(o.Parts.Memory) != parts-1 {
		return fmt.Errorf("program: memory of %d parts beside the first: want %d", len(o.Parts.Memory), parts-1)
	}
	r := &lockstepRun{
		lockstep: l, pool: pool, threads: first.threads, binds: append([]*Binding{b}, o.Parts.Memory...), envs: make([]Env, parts), o: o,
		instr: make([]*Instr, parts), in: make([][maxOperands][]float32, parts), out: make([][maxOperands][]float32, parts),
	}
	for part, p := range l.programs {
		if r.envs[part] = *env; part > 0 {
			r.envs[part].Again = true // the first part counts statistics
		}
		ws := r.binds[part][Workspace]
		if o.Poison {
			fillNaN(ws[:p.Span])
		}
		r.touch(part, Workspace, p.scratch*p.threads)
		for i := range r.threads {
			w := &pool.run.workers[part*r.threads+i]
			w.env, w.scratch = &r.envs[part], ws[i*p.scratch:(i+1)*p.scratch:(i+1)*p.scratch]
		}
	}
	defer func() {
		if o.Parts.Alone != nil {
			o.Parts.Alone(r.longer)
		}
	}()
	for r.at = range l.ticks {
		if err := r.tick(&l.ticks[r.at]); err != nil {
			return err
		}
	}
	pool.run.instr = nil
	return nil
}

// touch records the use of a part's memory.
func (r *lockstepRun) touch(part int, s Space, end int) {
	switch {
	case part == 0 && r.o.Touch != nil:
		r.o.Touch(s, end)
	case part > 0 && r.o.Parts.Touch != nil:
		r.o.Parts.Touch(part, s, end)
	}
}

func (r *lockstepRun) tick(t *tick) error {
	for part, p := range r.programs {
		r.instr[part] = &p.Instrs[r.at]
	}
	r.pool.run.instr = r.instr[0]
	switch {
	case t.copies != nil:
		r.all(func(part, thread int) {
			for i := range t.copies {
				if c := &t.copies[i]; c.to == part && thread == 0 {
					r.copy(c)
				}
			}
		})
		if r.o.Parts.Sent != nil {
			for i := range t.copies {
				if c := &t.copies[i]; c.to != c.from {
					r.o.Parts.Sent(c.to, c.from, c.bytes())
				}
			}
		}
	default:
		for part, in := range r.instr {
			r.bind(part, in)
		}
		if t.examples > 0 {
			r.turns(t.examples)
		} else if taken := r.o.offered(r.instr[0], r.in[0][:len(r.instr[0].in)]); !taken {
			r.all(r.kernel)
		}
	}
	if r.o.Ran != nil {
		r.o.Ran(r.instr[0])
	}
	for part, in := range r.instr {
		for _, ops := range [][]Operand{in.in, in.out} {
			for _, op := range ops {
				r.touch(part, op.Space, op.End())
			}
		}
		if r.o.Poison {
			for _, op := range in.frees {
				fillNaN(r.binds[part][Workspace][op.Off:op.End()])
			}
		}
		if r.o.Trap && t.copies == nil {
			if err := r.programs[part].trap(in, r.binds[part]); err != nil {
				return err
			}
		}
	}
	return nil
}

// bind finds a part's operands.
func (r *lockstepRun) bind(part int, in *Instr) {
	b := r.binds[part]
	for j, op := range in.in {
		r.in[part][j] = b[op.Space][op.Off:op.End():op.End()]
	}
	for j, op := range in.out {
		r.out[part][j] = b[op.Space][op.Off:op.End():op.End()]
	}
}

// all calls job for every thread of every part, and returns when all are done.
func (r *lockstepRun) all(job func(part, thread int)) {
	if r.o.Parts.Alone == nil {
		r.pool.Do(func(i int) { job(i/r.threads, i%r.threads) })
		return
	}
	var sum, most time.Duration
	for part := range r.programs {
		start := time.Now()
		r.one(part, func(thread int) { job(part, thread) })
		took := time.Since(start)
		sum, most = sum+took, max(most, took)
	}
	r.longer += sum - most
}

// one calls job for every thread of one part.
func (r *lockstepRun) one(part int, job func(thread int)) {
	if r.threads == 1 {
		job(0)
		return
	}
	r.pool.Do(func(i int) {
		if i/r.threads == part {
			job(i % r.threads)
		}
	})
}

func (r *lockstepRun) kernel(part, thread int) {
	in := r.instr[part]
	in.kernel(&r.pool.run.workers[part*r.threads+thread], r.in[part][:len(in.in)], r.out[part][:len(in.out)], thread, r.threads)
}

// turns lets the parts add to accumulators one after another, example by example: the order
// of the undivided stage. Whoever is next gets the accumulators from the one before it, and
// in the end the first part has them again.
func (r *lockstepRun) turns(examples int) {
	holder := 0
	take := func(part int) {
		if part == holder {
			return
		}
		for j, op := range r.instr[part].out {
			copy(r.out[part][j], r.out[holder][j])
			if r.o.Parts.Sent != nil {
				r.o.Parts.Sent(part, holder, 4*int64(op.Len))
			}
		}
		holder = part
	}
	whole := make([][maxOperands][]float32, len(r.in))
	copy(whole, r.in)
	for e := range examples {
		for part, in := range r.instr {
			take(part)
			for j, n := range in.step.in {
				if images(n) {
					each := in.in[j].Len / examples
					r.in[part][j] = whole[part][j][e*each : (e+1)*each : (e+1)*each]
				}
			}
			r.one(part, func(thread int) { r.kernel(part, thread) })
		}
	}
	take(0)
}

// copy makes a transfer.
func (r *lockstepRun) copy(t *transfer) {
	into, of := r.binds[t.to][t.into.Space][t.into.Off:t.into.End()], r.binds[t.from][t.of.Space][t.of.Off:t.of.End()]
	for i := range t.times {
		copy(into[t.first+i*t.stride:][:t.floats], of[t.start+i*t.distance:])
	}
}

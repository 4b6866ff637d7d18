package program

import (
	"fmt"
	"slices"
	"time"
)

// PartOptions are the options for running a divided stage.
type PartOptions struct {
	// Memory has the parts after the first: Params, Residual and Workspace of each.
	Memory []*Binding
	// High, if not nil, has Options.High of each of these.
	High []*[Spaces]int
	// Sent, if not nil, is called with the bytes that went from one part to another.
	Sent func(what Kind, to, from int, bytes int64)
	// Hop, if not nil, is called whenever parts have sent each other something at once, with the most
	// bytes that one of them has sent or got.
	Hop func(most int64)
	// Alone, if not nil, makes the parts work one after another, so that each is timed
	// alone, and is called after every instruction, before Options.Ran, with the time of each
	// part, in a slice that is used again, and by how much longer this took than beside each
	// other.
	Alone func(in *Instr, each []time.Duration, longer time.Duration)
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
	at      int             // the tick
	each    []time.Duration // see PartOptions.Alone, of the tick
	longer  time.Duration

	into, outOf []int64 // bytes that each part has got and sent since the last hop

	instr   []*Instr
	in, out [][maxOperands][]float32
}

// Exchanged returns how often a run of the program makes parts of a divided stage copy from
// each other, and how many bytes: of a stage that is not divided, none.
func (p *Program) Exchanged(what Kind) (copies int, bytes int64) {
	if p.lock == nil {
		return 0, 0
	}
	for at, t := range p.lock.ticks {
		if t.kind != what {
			continue
		}
		for i := range t.copies {
			if c := &t.copies[i]; c.to != c.from {
				copies, bytes = copies+c.runs, bytes+c.bytes()
			}
		}
		if t.goesAround() { // an accumulator goes around once an example, in blocks
			parts, in := len(p.lock.programs), &p.Instrs[at]
			for block := range parts {
				if in.block(block, parts, p.threads) > 0 {
					copies += t.examples*parts - 1
				}
			}
			copies, bytes = copies+1, bytes+4*int64(t.examples*parts)*int64(in.out[0].Len)
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
		each: make([]time.Duration, parts), into: make([]int64, parts), outOf: make([]int64, parts), instr: make([]*Instr, parts), in: make([][maxOperands][]float32, parts), out: make([][maxOperands][]float32, parts),
	}
	for part, p := range l.programs {
		if r.envs[part] = *env; part > 0 {
			r.envs[part].Again = true // the first part counts statistics
		}
		ws := r.binds[part][Workspace]
		if o.Poison {
			fillNaN(ws[:p.Span])
		}
		o.touch(part, Workspace, p.scratch*p.threads)
		for i := range r.threads {
			w := &pool.run.workers[part*r.threads+i]
			w.env, w.scratch = &r.envs[part], ws[i*p.scratch:(i+1)*p.scratch:(i+1)*p.scratch]
		}
	}
	for r.at = range l.ticks {
		if err := r.tick(&l.ticks[r.at]); err != nil {
			return err
		}
	}
	pool.run.instr = nil
	return nil
}

// sent notes what goes from one part to another, and hop that all that goes at once has.
func (r *lockstepRun) sent(what Kind, to, from int, bytes int64) {
	if r.o.Parts.Sent != nil {
		r.o.Parts.Sent(what, to, from, bytes)
	}
	r.into[to], r.outOf[from] = r.into[to]+bytes, r.outOf[from]+bytes
}

func (r *lockstepRun) hop() {
	if most := max(slices.Max(r.into), slices.Max(r.outOf)); most > 0 && r.o.Parts.Hop != nil {
		r.o.Parts.Hop(most)
	}
	clear(r.into)
	clear(r.outOf)
}

func (r *lockstepRun) tick(t *tick) error {
	for part, p := range r.programs {
		r.instr[part] = &p.Instrs[r.at]
	}
	r.pool.run.instr = r.instr[0]
	clear(r.each)
	r.longer = 0
	switch {
	case t.Division == Exchange:
		r.all(func(part, thread int) {
			for i := range t.copies {
				if c := &t.copies[i]; c.to == part && thread == 0 {
					r.copy(c)
				}
			}
		})
		for i := range t.copies {
			if c := &t.copies[i]; c.to != c.from {
				for range c.runs {
					r.sent(t.kind, c.to, c.from, c.bytes()/int64(c.runs))
				}
			}
		}
		r.hop()
	default:
		for part, in := range r.instr {
			in.bind(r.binds[part], &r.in[part], &r.out[part])
		}
		if t.goesAround() {
			r.turns(t)
		} else if taken := r.o.offered(r.instr[0], r.in[0][:len(r.instr[0].in)]); !taken {
			r.all(func(part, thread int) { r.kernel(part, thread, thread, r.threads) })
		}
	}
	if r.o.Parts.Alone != nil {
		r.o.Parts.Alone(r.instr[0], r.each, r.longer)
	}
	if r.o.Ran != nil {
		r.o.Ran(r.instr[0])
	}
	for part, in := range r.instr {
		if err := r.programs[part].ran(in, r.binds[part], &r.o, part); err != nil {
			return err
		}
	}
	return nil
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
		r.each[part] += took
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

// kernel runs a share of a part's instruction on one of its threads.
func (r *lockstepRun) kernel(part, thread, share, shares int) {
	in := r.instr[part]
	in.kernel(&r.pool.run.workers[part*r.threads+thread], r.in[part][:len(in.in)], r.out[part][:len(in.out)], share, shares)
}

// copy makes a transfer.
func (r *lockstepRun) copy(t *transfer) {
	dst, src := r.instr[t.to].operandOf(t.dst), r.instr[t.from].operandOf(t.src)
	into, of := r.binds[t.to][dst.Space][dst.Off:dst.End()], r.binds[t.from][src.Space][src.Off:src.End()]
	if t.narrow {
		copyRuns(t, halves(into), halves(of))
	} else {
		copyRuns(t, into, of)
	}
}

func copyRuns[T float32 | uint16](t *transfer, into, of []T) {
	for i := range t.times {
		copy(into[t.first+i*t.stride:][:t.floats], of[t.start+i*t.distance:])
	}
}

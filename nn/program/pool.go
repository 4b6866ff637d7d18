package program

import (
	"runtime"
	"sync"
	"sync/atomic"

	"gpipebench/internal/failure"
)

// Pool is the worker budget of a device: the goroutine that calls [Pool.Do] and
// threads-1 workers. Kernels are cut by outputs into as many parts as there are
// threads; the bits do not depend on which thread does which part.
//
// Workers spin briefly for the next kernel before they sleep, since the gaps
// inside a program are far shorter than a wake-up.
type Pool struct {
	threads int
	run     execution

	job     func(part int)
	epoch   atomic.Uint64
	pending atomic.Int32
	asleep  atomic.Int32
	closed  atomic.Bool
	mu      sync.Mutex
	wake    sync.Cond
	exited  sync.WaitGroup

	failure atomic.Pointer[failure.Defect]
}

// NewPool starts the workers; Close ends them. Fewer than 1 thread counts as 1.
func NewPool(threads int) *Pool {
	p := &Pool{threads: max(threads, 1)}
	p.wake.L = &p.mu
	p.run.parts = p.threads
	p.run.workers = make([]worker, p.threads)
	for i := range p.run.workers {
		w := &p.run.workers[i]
		w.block = w.epi.block
	}
	p.run.part = p.run.runPart
	for i := 1; i < p.threads; i++ {
		p.exited.Go(func() { p.work(i) })
	}
	return p
}

// Threads returns the number of parts into which work is cut.
func (p *Pool) Threads() int { return p.threads }

// Running returns the layer of the instruction that a program is executing, or
// was executing when it panicked.
func (p *Pool) Running() (layer int, ok bool) {
	if p.run.instr == nil {
		return 0, false
	}
	return p.run.instr.Layer, true
}

// Close ends the workers and waits for them. The pool must be idle.
func (p *Pool) Close() {
	p.closed.Store(true)
	p.publish()
	p.exited.Wait()
}

// Do calls job(part) for every part, one per thread, and returns when all are
// done. If any of them panics, Do panics with a *failure.Defect.
func (p *Pool) Do(job func(part int)) {
	if p.threads == 1 {
		job(0)
		return
	}
	p.job = job
	p.pending.Store(int32(p.threads - 1))
	p.publish()
	p.attempt(0)
	for spins := 1; p.pending.Load() != 0; spins++ {
		if spins%spinsPerYield == 0 {
			runtime.Gosched()
		}
	}
	if f := p.failure.Swap(nil); f != nil {
		panic(f)
	}
}

func (p *Pool) publish() {
	p.epoch.Add(1)
	if p.asleep.Load() > 0 {
		p.mu.Lock()
		p.wake.Broadcast()
		p.mu.Unlock()
	}
}

const (
	spinsPerYield = 1 << 7
	spinsToSleep  = 1 << 13 // tens of microseconds
)

func (p *Pool) work(part int) {
	seen := uint64(0)
	for {
		p.await(seen)
		if p.closed.Load() {
			return
		}
		seen++
		p.attempt(part)
		p.pending.Add(-1)
	}
}

// await returns when the epoch differs from seen.
func (p *Pool) await(seen uint64) {
	for spins := 1; spins < spinsToSleep; spins++ {
		if p.epoch.Load() != seen {
			return
		}
		if spins%spinsPerYield == 0 {
			runtime.Gosched()
		}
	}
	p.mu.Lock()
	p.asleep.Add(1)
	for p.epoch.Load() == seen {
		p.wake.Wait()
	}
	p.asleep.Add(-1)
	p.mu.Unlock()
}

func (p *Pool) attempt(part int) {
	defer func() {
		if v := recover(); v != nil {
			p.failure.CompareAndSwap(nil, failure.Recovered(v))
		}
	}()
	p.job(part)
}

// share returns the part-th of parts pieces of [0, n), cut at multiples of
// unit.
func share(n, part, parts, unit int) (from, to int) {
	units := (n + unit - 1) / unit
	from = units * part / parts * unit
	to = min(units*(part+1)/parts*unit, n)
	return min(from, n), to
}

// worker is the state of one thread of a run.
type worker struct {
	env     *Env
	scratch []float32
	epi     epilogue
	block   func(i0, i1, j0, j1 int) // epi.block, bound once
	in, out [maxOperands][]float32   // converted operands
}

const maxOperands = 8

// execution is the state of a run that all threads share.
type execution struct {
	instr   *Instr
	in, out [maxOperands][]float32
	workers []worker
	parts   int
	part    func(int) // runPart, bound once
}

func (r *execution) begin(p *Program, b *Binding, env *Env) {
	for i := range r.workers {
		w := &r.workers[i]
		w.env = env
		w.scratch = b[Workspace][i*p.scratch : (i+1)*p.scratch : (i+1)*p.scratch]
	}
}

func (r *execution) runPart(part int) {
	in := r.instr
	in.kernel(&r.workers[part], r.in[:len(in.in)], r.out[:len(in.out)], part, r.parts)
}
